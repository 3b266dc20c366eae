"""`init`, `uninstall`, `where`, `settings`, `completion`: setting a workspace up and taking it out again."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import click

from harness.cli.common import json_option, print_json, quiet_option, workspace
from harness.errors import NEEDS_PERSON, HarnessError


@click.command("init")
@click.argument("directory", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--user", is_flag=True, help="Your own workspace, for all your projects.")
@click.option("--here", is_flag=True, help="Make DIRECTORY itself the workspace.")
@click.option("--shared", is_flag=True, help="Put the hooks into settings.json, to be committed with the project.")
@click.option("--no-hooks", is_flag=True, help="Only the workspace; no client is wired to it.")
@click.option(
    "--no-permissions", is_flag=True, help="Don't add the rule that lets agents run `harness feedback` unasked."
)
@json_option
@quiet_option
@click.pass_context
def init_command(
    ctx: click.Context, directory: Path | None, user: bool, here: bool, shared: bool, no_hooks: bool,
    no_permissions: bool, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Set up a workspace and wire Claude Code to it. Running it again changes nothing that is in place.

    \b
    In a code repository   .harness/, a repository of its own, ignored by the code's
    In an empty folder     that folder
    With --user            a folder of yours, used wherever there is no nearer one

    \b
    Examples:
      harness init
      harness init --no-hooks ~/lessons
    """
    from harness.flows import install, wiring

    steps: list[str] = []
    silent = quiet or as_json

    def tell(line: str) -> None:
        if not silent:
            click.echo(line)

    def note(line: str) -> None:
        steps.append(line)
        tell(f"  {line}")

    root, nested_in = install.place(directory or Path.cwd(), os.environ, user=user, here=here)
    tell(f"workspace {root}")
    found = install.lay_out(root, nested_in, note)
    if not no_hooks:
        wiring.wire(
            found,
            wiring.target(found, user=user, shared=shared),
            shared=shared,
            permissions=not no_permissions,
            say=note,
        )
    if as_json:
        print_json({"workspace": str(root), "code": str(nested_in) if nested_in else None, "steps": steps})
    elif not quiet:
        tell(
            "  everything was in place"
            if not steps
            else "done. Work as usual; `harness status` and `harness log` tell what was learned."
        )
        if not no_hooks and steps:
            tell(
                "Loaders are folded without a model. To have one rewrite them: harness settings dispatch.preset claude"
            )


@click.command("uninstall")
@click.option("--purge", is_flag=True, help="Also delete the workspace and everything it has learned.")
@click.option("--yes", is_flag=True, help="Don't ask before --purge.")
@json_option
@click.pass_context
def uninstall_command(ctx: click.Context, purge: bool, yes: bool, as_json: bool) -> None:
    """Take our hooks, our permission rule and our git hooks out again. What was learned stays, unless --purge.

    \b
    Examples:
      harness uninstall
      harness uninstall --purge
    """
    from harness.flows import install, wiring
    from harness.workspace import NESTED, NotAWorkspace, user_root

    person("taking harness out is a person's")
    steps: list[str] = []

    def note(line: str) -> None:
        steps.append(line)
        if not as_json:
            click.echo(f"  {line}", err=True)

    try:
        found = workspace(ctx)
    except NotAWorkspace:
        # The folder is gone, and its hooks would go on: they are found by what they are.
        if not wiring.unwire_project(Path.cwd(), note):
            raise
        if as_json:
            print_json({"workspace": None, "purged": False, "steps": steps})
        return

    owned = found.root.name == NESTED or found.root == user_root(os.environ)
    if purge and not owned:
        raise HarnessError(
            f"{found.root} is a folder of yours",
            "--purge deletes only folders that init made",
            f"delete it yourself: rm -r {found.root}",
        )
    if purge and not yes and not _sure(f"Delete {found.root} and all that was learned there?"):
        raise click.Abort
    wiring.unwire(found, note)
    install.remove_git_hooks(found, note)
    if found.root.name == NESTED and purge:
        install.unexclude(found.project, note)
    if purge:
        shutil.rmtree(found.root)
        note(f"deleted {found.root}")
    if as_json:
        print_json({"workspace": str(found.root), "purged": purge, "steps": steps})
    elif not purge:
        click.echo(f"What was learned is still in {found.root}; `harness init` wires it again.", err=True)


def _sure(question: str) -> bool:
    if not sys.stdin.isatty():
        error = HarnessError("--purge needs a person", "there is no terminal to ask on", "add --yes if you mean it")
        error.exit_code = NEEDS_PERSON
        raise error
    return click.confirm(question, err=True)


@click.command("where")
@click.argument("skill", required=False)
@json_option
@click.pass_context
def where_command(ctx: click.Context, skill: str | None, as_json: bool) -> None:
    """Which workspace is used here, and why; with SKILL, where that skill's base and lessons lie.

    \b
    Examples:
      harness where
      harness where aeo --json
    """
    found = workspace(ctx)
    facts: dict[str, object] = {"workspace": str(found.root), "why": found.how, "git_dir": str(found.git_dir)}
    if skill:
        from harness.skills import find

        skills = find.find_all(found.root, found.project, Path.home(), os.environ)
        folder = find.resolve(skill, skills, _learned(found.root))
        bases = [s for s in skills if s.folder == folder]
        learned = found.root / "skills" / folder
        facts |= {
            "skill": folder,
            "bases": [{"source": s.source, "path": str(s.path)} for s in bases],
            "learned": str(learned) if learned.is_dir() else None,
        }
    if as_json:
        print_json(facts)
        return
    click.echo(f"{found.root}\n  because {found.how}")
    if skill:
        for base in bases:
            click.echo(f"  base     {base.source}: {base.path}")
        click.echo(f"  learned  {facts['learned'] or 'nothing yet'}")


def _learned(root: Path) -> set[str]:
    place = root / "skills"
    return {p.name for p in place.iterdir() if p.is_dir()} if place.is_dir() else set()


@click.command("settings", context_settings={"ignore_unknown_options": True})
@click.argument("name", required=False)
@click.argument("value", required=False)
@json_option
@click.pass_context
def settings_command(ctx: click.Context, name: str | None, value: str | None, as_json: bool) -> None:
    """List the settings in force, show one, or change one (a person's commit; comments in the file are kept).

    \b
    Examples:
      harness settings
      harness settings loader.duty ask
      harness settings dispatch.command '["my-model", "--json"]'
    """
    from harness import settings
    from harness.store.commit import Store
    from harness.store.snapshot import SETTINGS
    from harness.store.tick import ABSENT, Replace, Tick, sha256

    with Store(workspace(ctx)) as store:
        if value is None:
            store.catch_up()
            shown = settings.get(store.settings, name) if name else store.settings
            if as_json or not isinstance(shown, dict):
                print_json(shown)
            else:
                for line in _flat("", shown):
                    click.echo(line)
            return
        person("settings are a person's to change")
        assert name is not None
        old = store.tree.read(SETTINGS)
        parsed = _parsed(value)
        text = settings.with_value((old or b"version: 1\n").decode("utf-8"), name, parsed)
        store.commit(
            Tick(
                "settings",
                f"{name} is {value}"[:150],
                [Replace(SETTINGS, text, sha256(old) if old is not None else ABSENT)],
            )
        )
        if as_json:
            print_json({name: parsed})
        else:
            click.echo(f"{name} is {_plain(parsed)} from now on", err=True)


def person(why: str) -> None:
    """Refuse inside a client's process tree: what an agent runs is not a person's decision."""
    if os.environ.get("CLAUDECODE") or os.environ.get("HARNESS_LINEAGE"):
        error = HarnessError(why, "this command runs under an agent", "run it in a terminal of your own")
        error.exit_code = NEEDS_PERSON
        raise error


def _parsed(value: str) -> object:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(value)
    except YAMLError:
        return value


def _flat(prefix: str, value: dict[str, object]) -> list[str]:
    out = []
    for key, item in value.items():
        out += _flat(f"{prefix}{key}.", item) if isinstance(item, dict) else [f"{prefix}{key} = {_plain(item)}"]
    return out


def _plain(value: object) -> str:
    """A value as it may be given to `harness settings` again: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Examples:
      eval "$(harness completion bash)"
      harness completion fish > ~/.config/fish/completions/harness.fish
    """
    from click.shell_completion import get_completion_class

    from harness.cli import cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "harness", "_HARNESS_COMPLETE").source())
