"""`tune`: a reaction becomes one small proposed edit; a person's yes applies it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.common import json_option, print_json, shown, table, workspace
from harness.errors import NEEDS_PERSON, HarnessError
from harness.store.commit import Store

if TYPE_CHECKING:
    from harness.flows.tune import Request

MAX_EDIT = 65_536


class _Tune(click.Group):
    """`harness tune SKILL --reaction …` is `harness tune react SKILL …`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            args = ["react", *args]
        return super().resolve_command(ctx, args)


@click.group(
    "tune",
    cls=_Tune,
    epilog="""\b
Examples:
  harness tune aeo --reaction "this is too hedgy"
  harness tune propose aeo --reward -1 --reaction "too hedgy" --diagnosis "it hedged twice" \\
      --expect "no hedging in the next draft" --expect-absent may --expect-absent might --edit edit.txt
  harness tune list
  harness review""",
)
def tune_command() -> None:
    """Turn a reaction to a skill's output into one small edit of its overlay, which a person approves.

    `harness tune SKILL --reaction "…"` logs what you say; `propose` makes the edit; `harness review` decides.
    """


@tune_command.command("react")
@click.argument("skill")
@click.option("--reaction", required=True, help="What you say about its output.")
@json_option
@click.pass_context
def react(ctx: click.Context, skill: str, reaction: str, as_json: bool) -> None:
    """Log a reaction to SKILL's output: it is classified, and that's all.

    \b
    Example:
      harness tune aeo --reaction "this is too hedgy"
    """
    from harness.flows import reactions
    from harness.skills import find
    from harness.tune.reaction import classify

    found = workspace(ctx)
    if not reaction.strip():
        raise click.UsageError("--reaction: it is empty")
    said = classify(reaction)
    with Store(found) as store:
        store.catch_up()
        folder = find.resolve(
            skill, find.find_all(found.root, found.project, Path.home(), os.environ), store.tree.folders("skills")
        )
        row = reactions.reaction_row(
            folder, said.signal, said.reward, reaction, "neutral" if not said.reward else "lapsed", None, None
        )
        reactions.log_reaction(store, row)
    if as_json:
        print_json(row)
        return
    because = f", by: {said.words}" if said.words else ""
    click.echo(f"{folder}: {said.signal.replace('_', ' ')} ({said.reward:+g}{because}); logged")
    if said.reward:
        click.echo(
            f"To change something: harness tune propose {folder} --reward {said.reward:g} --diagnosis … --expect … --edit FILE",
            err=True,
        )


@tune_command.command("propose")
@click.argument("name", metavar="SKILL")
@click.option(
    "--reward",
    type=click.Choice(["-1", "-0.5", "0", "0.5", "1"]),
    help="What the reaction is worth, unless a hook has read it.",
)
@click.option("--reaction", default="", help="The user's words.")
@click.option("--diagnosis", required=True, help="One sentence: what was rejected, or what worked.")
@click.option("--expect", required=True, help="One sentence: what the next output will be like.")
@click.option("--expect-absent", multiple=True, metavar="WORD", help="A word that later outputs won't hold.")
@click.option("--expect-present", multiple=True, metavar="WORD", help="A word that later outputs will hold.")
@click.option(
    "--expect-command",
    metavar="CMD",
    help="A command that gets an output on stdin and exits 0 if the promise was kept.",
)
@click.option("--edit", "edit_file", required=True, metavar="FILE", help="The lines to add; - reads them from stdin.")
@click.option(
    "--replace",
    "lines",
    metavar="A[:B]",
    help="Put them in the place of the overlay's lines A to B (an empty file deletes them).",
)
@click.option(
    "--origin",
    type=click.Choice(["user", "tool"]),
    default="user",
    help="Whose idea: the user's words, or a tool's text.",
)
@click.option("--member", is_flag=True, help="The edit is for team/SKILL/overlay.md and cites its evidence.")
@click.option("--evidence", multiple=True, metavar="ID", help="An id of wiki/causal.json or wiki/patterns.json.")
@json_option
@click.pass_context
def propose_command(
    ctx: click.Context, /, name: str, edit_file: str, lines: str | None, as_json: bool, **options: Any
) -> None:
    """Propose one edit of SKILL's overlay: at most 5 lines, in one place. Nothing is applied.

    The diff is shown to the user by the hook when the agent stops; the user's own words apply it. In a session that nobody
    attends, and everywhere else, it waits in `harness review`.

    \b
    Example:
      printf 'State facts; drop may, might and could.\\n' | harness tune propose aeo --reward -1 \\
          --reaction "too hedgy" --diagnosis "the draft hedged twice" \\
          --expect "the next draft has no hedging" --expect-absent may --edit -
    """
    from harness.flows import proposing, tune
    from harness.tune import proposal

    found = workspace(ctx)
    request = _request(name, edit_file, lines, options)
    with Store(found) as store:
        document, short = tune.propose(store, proposing.with_evidence(store, request, os.environ), os.environ)
        proposing.announce(store)
    if as_json:
        print_json({"short": short, **document})
        return
    inside = bool(os.environ.get("CLAUDECODE"))
    click.echo(proposal.shown(document, short, typed=document["origin"] == "tool", asked=inside))
    if not inside:
        click.echo("Nothing is written before a person says so: harness review", err=True)
    if inside:
        click.echo(
            "\nThe user is shown this when you stop. Say in a sentence what you propose and why, ask nothing else, and stop."
        )


def _request(name: str, edit_file: str, lines: str | None, options: dict[str, Any]) -> Request:
    import shlex

    from harness.flows.tune import Request
    from harness.tune.overlay import Edit
    from harness.tune.proposal import Expected

    first, last = _range(lines)
    command = tuple(shlex.split(options["expect_command"] or ""))
    return Request(
        name=name, reward=float(options["reward"] or 0), reaction=options["reaction"], diagnosis=options["diagnosis"],
        expected=Expected(options["expect"], options["expect_absent"], options["expect_present"], command),
        edit=Edit(tuple(_read(edit_file).splitlines()), first, last), origin=options["origin"], member=options["member"],
        evidence=options["evidence"],
    )  # fmt: skip


def _read(name: str) -> str:
    try:
        data = sys.stdin.buffer.read(MAX_EDIT + 1) if name == "-" else Path(name).read_bytes()[: MAX_EDIT + 1]
    except OSError as error:
        raise click.UsageError(f"--edit: {name} can't be read: {error.strerror}") from None
    if len(data) > MAX_EDIT:
        raise click.UsageError("--edit: more than 64 KiB; an edit is at most 5 lines")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError(f"--edit: {name} is no UTF-8 text") from None


def _range(text: str | None) -> tuple[int | None, int | None]:
    if not text:
        return None, None
    first, _, last = text.partition(":")
    try:
        return int(first), int(last or first)
    except ValueError:
        raise click.UsageError(f"--replace: {text!r} is no range of lines; give A or A:B") from None


@tune_command.command("list")
@json_option
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """The proposals that wait for a person.

    \b
    Example:
      harness tune list
    """
    from harness.flows import tune
    from harness.tune import proposal

    with Store(workspace(ctx)) as store:
        listed = tune.open_proposals(store)
    ids = proposal.short_ids(one["id"] for one in listed)
    if as_json:
        print_json([{"short": ids[one["id"]], **one} for one in listed])
    elif not listed:
        click.echo("No proposal is open.", err=True)
    else:
        table([(ids[o["id"]], o["skill"], f"{o['reward']:+g}", shown(o["diagnosis"])) for o in listed])
        click.echo("Decide them with: harness review", err=True)


@tune_command.command("apply")
@click.argument("proposal_id", metavar="ID")
@json_option
@click.pass_context
def apply_command(ctx: click.Context, proposal_id: str, as_json: bool) -> int:
    """Apply one proposal: shows its diff and asks. Only a person at a terminal can.

    \b
    Example:
      harness tune apply a7f3
    """
    return _ask_one(ctx, proposal_id, "apply", as_json)


@tune_command.command("reject")
@click.argument("proposal_id", metavar="ID")
@click.option("--reason", default="", help="Why; it goes into the scorecard.")
@json_option
@click.pass_context
def reject_command(ctx: click.Context, proposal_id: str, reason: str, as_json: bool) -> int:
    """Reject one proposal. Only a person at a terminal can.

    \b
    Example:
      harness tune reject a7f3 --reason "too narrow"
    """
    return _ask_one(ctx, proposal_id, "reject", as_json, reason)


def _ask_one(ctx: click.Context, proposal_id: str, verb: str, as_json: bool, reason: str = "") -> int:
    from harness.attended import require_person
    from harness.flows import proposing, tune
    from harness.tune import proposal

    with Store(workspace(ctx)) as store:
        store.catch_up()
        listed = tune.open_proposals(store)
        one = proposal.find(listed, proposal_id)
        require_person("deciding on a proposal")
        short = proposal.short_ids(o["id"] for o in listed)[one["id"]]
        click.echo(proposal.shown(one, short, typed=True, asked=False), err=True)
        if one["origin"] == "tool" and verb == "apply":
            sure = (
                click.prompt("Type the id to apply it", default="", show_default=False, err=True).strip().lower()
                == short
            )
        else:
            sure = click.confirm(f"{verb.capitalize()} it?", err=True)
        if not sure:
            click.echo("left open", err=True)
            return NEEDS_PERSON
        approval = tune.Approval(tune.operator(), one["diff_sha256"])
        done = tune.decide(
            store, one["id"], "approve" if verb == "apply" else "reject", approval, os.environ, reason=reason
        )
        proposing.announce(store)
    if as_json:
        print_json({"status": done.status, "commit": done.landed.commit, "sentence": done.sentence})
    else:
        click.echo(done.sentence)
    if done.status == "stale":
        error = HarnessError("the proposal was stale", done.sentence)
        error.exit_code = NEEDS_PERSON
        raise error
    return 0
