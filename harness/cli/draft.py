"""`draft`: texts that wait for a decision, and the decision."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from harness.cli.common import ago, json_option, print_json, shown, table, workspace
from harness.errors import NEEDS_PERSON
from harness.store.commit import Store

if TYPE_CHECKING:
    from harness.taste.drafts import Draft

MAX_DRAFT = 262_144


@click.group("draft")
def draft_command() -> None:
    """Drafts that skills write and people decide on.

    \b
    Examples:
      harness draft new action-item-draft --file mail.md --field action_item_id=7 --field meeting_id=3
      harness draft list
      harness draft decide 7k3f approve
    """


@draft_command.command("new")
@click.argument("skill")
@click.option(
    "--file", "name", required=True, metavar="FILE", help="The text, with or without frontmatter; - reads stdin."
)
@click.option("--field", "fields", multiple=True, metavar="NAME=VALUE", help="A field of the frontmatter.")
@json_option
@click.pass_context
def new_command(ctx: click.Context, skill: str, name: str, fields: tuple[str, ...], as_json: bool) -> None:
    """Keep a draft of SKILL. `path` in the JSON is what decisions name, `draft_path` the file in the workspace.

    \b
    Example:
      echo "Hi Kim, the build is green." | harness draft new status-mail --file - --json
    """
    from harness.flows import drafting
    from harness.taste.shape import shape_of

    try:
        data = sys.stdin.buffer.read(MAX_DRAFT + 1) if name == "-" else Path(name).read_bytes()
        text = data.decode("utf-8")
    except OSError as error:
        raise click.UsageError(f"--file: {name} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"--file: {name} is no UTF-8 text") from None
    if not text.strip():
        raise click.UsageError("--file: the draft is empty")
    if len(data) > MAX_DRAFT:
        raise click.UsageError(f"--file: {len(data)} bytes, at most {MAX_DRAFT}")
    with Store(workspace(ctx)) as store:
        draft, landed = drafting.new(store, skill, text, dict(drafting.field_of(f) for f in fields))
    out = {
        "path": draft.path,
        "draft_path": draft.file,
        "sha256": draft.sha256,
        "shape": shape_of(draft.text),
        "commit": landed.commit,
    }
    if as_json:
        print_json(out)
    else:
        click.echo(f"{draft.path}  ({out['shape']})")


@draft_command.command("list")
@click.option("--all", "everything", is_flag=True, help="Decided ones too.")
@json_option
@click.pass_context
def list_command(ctx: click.Context, everything: bool, as_json: bool) -> None:
    """The drafts that wait for a decision, oldest first.

    \b
    Example:
      harness draft list
    """
    from harness.flows import drafting
    from harness.taste.shape import shape_of

    with Store(workspace(ctx)) as store:
        found = list(drafting.drafts(store)) if everything else drafting.undecided(store)
    listed = [
        {
            "path": d.path,
            "source_skill": d.source_skill,
            "title": d.title,
            "shape": shape_of(d.text),
            "sha256": d.sha256,
        }
        for d in found
    ]
    if as_json:
        print_json(listed)
    elif not listed:
        click.echo("No draft waits.", err=True)
    else:
        table(
            [
                (_short(one["path"]), ago(_made(one["path"])), one["source_skill"], one["shape"], shown(one["title"]))
                for one in listed
            ]
        )


def _short(path: str) -> str:
    return path.rpartition("/")[2].split("-")[1]


def _made(path: str) -> str:
    stamp = path.rpartition("/")[2].split("-")[0]
    return f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}T{stamp[9:11]}:{stamp[11:13]}:{stamp[13:15]}Z"


@draft_command.command("show")
@click.argument("draft")
@json_option
@click.pass_context
def show_command(ctx: click.Context, draft: str, as_json: bool) -> None:
    """One draft: the exact text, its shape and hash.

    \b
    Example:
      harness draft show 7k3f
    """
    from harness.flows import drafting
    from harness.taste.shape import shape_of

    with Store(workspace(ctx)) as store:
        one = drafting.find(store, draft)
    if as_json:
        print_json(
            {"path": one.path, "text": one.text, "sha256": one.sha256, "shape": shape_of(one.text), "title": one.title}
        )
    else:
        click.echo(f"{one.path}  {shape_of(one.text)}  sha256 {one.sha256}\n")
        click.echo(shown(one.text))


@draft_command.command("decide")
@click.argument("draft")
@click.argument("verdict", required=False, type=click.Choice(["approve", "dismiss", "edit"]))
@click.option("--reason", help="Why; it is counted among the reasons.")
@json_option
@click.pass_context
def decide_command(ctx: click.Context, draft: str, verdict: str | None, reason: str | None, as_json: bool) -> int:
    """Decide on one draft at a terminal: it is shown first, and what is decided is the text that was shown.

    `edit` opens your editor; what you save is a new draft.

    \b
    Examples:
      harness draft decide 7k3f
      harness draft decide 7k3f dismiss --reason "too long"
    """
    from harness import attended
    from harness.flows import drafting, tune

    attended.require_person("deciding on a draft")
    with Store(workspace(ctx)) as store:
        return decide_one(store, drafting.find(store, draft), verdict, reason, tune.operator(), as_json)


def decide_one(
    store: Store,
    one: Draft,
    verdict: str | None,
    reason: str | None,
    operator: str,
    as_json: bool,
    *,
    sure: bool = False,
) -> int:
    """Show a draft, ask (unless ``sure``), and commit the decision on exactly that text; what it says is learned behind it."""
    from harness.flows import drafting, taste

    click.echo(f"{one.path}\n\n{shown(one.text)}", err=True)
    shown_ts, started = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", time.monotonic()
    if verdict is None:
        verdict = click.prompt("decision", type=click.Choice(["approve", "dismiss", "edit"]), err=True)
    elif not sure and not click.confirm(f"{verdict.capitalize()} it?", err=True):
        click.echo("left undecided", err=True)
        return NEEDS_PERSON
    latency = None if sure else int((time.monotonic() - started) * 1000)
    edited = _edited(one) if verdict == "edit" else None
    decision = drafting.Decision(cast(Any, verdict), operator, one.sha256, reason, shown_ts, latency)
    row, landed = drafting.decide(store, one.path, decision, edited)
    taste.fire(store)
    if as_json:
        print_json({**row, "commit": landed.commit})
    else:
        click.echo(f"{row['decision']}: {shown(row['title'])}")
    return 0


def _edited(draft: Draft) -> str:
    import shlex

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "draft.md")
        place.write_text(draft.text, "utf-8", newline="")
        if subprocess.run([*shlex.split(editor), str(place)], check=False).returncode != 0:
            raise click.UsageError("the editor ended with an error; nothing was decided")
        text = place.read_text("utf-8")
    if text == draft.text:
        raise click.UsageError("nothing was changed; approve it, or dismiss it")
    return text
