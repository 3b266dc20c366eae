"""`review`: a person's inbox, one thing at a time; and `lessons`, `improve`: what lessons did, and tidying them."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.common import json_option, print_json, say, shown, table, workspace
from harness.errors import NEEDS_PERSON, HarnessError
from harness.store.commit import Store

if TYPE_CHECKING:
    from harness.flows.inbox import Item

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@click.command("review")
@click.option("--list", "only_list", is_flag=True, help="Only list what waits; decide nothing.")
@json_option
@click.pass_context
def review_command(ctx: click.Context, only_list: bool, as_json: bool) -> int:
    """What waits for a person, one at a time: proposed edits, doubtful lessons, lines that a new base overtakes.

    \b
    Keys: a accept, r reject (for a lesson: a removes it), e edit, s skip, q quit.
    Examples:
      harness review
      harness review --list
    """
    from harness.attended import require_person
    from harness.flows import inbox
    from harness.flows.notices import announce

    found = workspace(ctx)
    with Store(found) as store:
        waiting = inbox.items(store, os.environ)
        if as_json:
            print_json([{"kind": i.kind, "name": i.name, **i.about} for i in waiting])
            return 0
        if not waiting:
            click.echo("Nothing waits.", err=True)
            return 0
        if only_list:
            table([(i.kind, i.name, shown(i.text.split("\n", 1)[0])) for i in waiting])
            return 0
        require_person("deciding on a proposal")
        for number, item in enumerate(waiting, 1):
            click.echo(f"\n{click.style(f'[{number} of {len(waiting)}]', dim=True)} {_coloured(item.text)}")
            if not _decide(store, item):
                break
        announce(store)
    return 0


def _coloured(text: str) -> str:
    lines = []
    for line in text.splitlines():
        colour = "green" if line.startswith("+") else "red" if line.startswith("-") else None
        lines.append(click.style(line, fg=colour) if colour else line)
    return "\n".join(lines)


def _decide(store: Store, item: Item) -> bool:
    """Ask about one item and do what is said; False ends the review."""
    from harness.flows import inbox
    from harness.flows.undo import undo

    keys = {"proposal": "areqs", "lesson": "asq", "base": "asq", "pending": "sq"}[item.kind]
    meaning = {"a": "accept" if item.kind == "proposal" else "remove it" if item.kind == "lesson" else "keep as it is", "r": "reject",
               "e": "edit", "s": "skip", "q": "quit"}  # fmt: skip
    click.echo("  ".join(f"[{k}] {meaning[k]}" for k in keys) + "  ", nl=False)
    key = ""
    while key not in keys or not key:
        key = click.getchar().lower()
        if key in ("\x03", "\x04", "\x1b"):
            key = "q"
    click.echo(meaning[key])
    if key == "q":
        return False
    try:
        if item.kind == "proposal" and key in "ar":
            _answer(store, item, "approve" if key == "a" else "reject")
        elif item.kind == "proposal" and key == "e":
            _edit(store, item)
        elif item.kind == "lesson" and key == "a":
            done = undo(store, item.name, f"removed in review: {item.about['state']}")
            click.echo(f"taken back as {(done.landed.commit or '')[:7]}")
        elif item.kind == "base" and key == "a":
            inbox.keep_base(store, item.name, str(item.about["base_sha256"]))
    except HarnessError as error:
        click.echo(f"harness: {error}", err=True)
    return True


def _answer(store: Store, item: Item, decision: Any) -> None:
    from harness.flows import tune

    if decision == "approve" and item.about["origin"] == "tool":
        typed = click.prompt(
            f"This edit comes from a tool's text. Type {item.name} to accept it", default="", show_default=False
        )
        if typed.strip().lower() != item.name:
            click.echo("left open")
            return
    approval = tune.Approval(tune.operator(), item.about["diff_sha256"])
    click.echo(tune.decide(store, item.about["id"], decision, approval, os.environ).sentence)


def _edit(store: Store, item: Item) -> None:
    """The lines in the person's editor; the old proposal is rejected, the new one shown and asked for."""
    from harness.flows import inbox, tune
    from harness.tune.overlay import Edit

    document = item.about
    text = "\n".join(document["edit"]["lines"]) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "overlay-lines.md")
        place.write_text(text, "utf-8")
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        if subprocess.run([*shlex.split(editor), str(place)], check=False).returncode != 0:
            click.echo("the editor ended with an error; left as it was")
            return
        new = place.read_text("utf-8")
    if new == text:
        click.echo("unchanged; left open")
        return
    request = tune.request_of(document)
    edit = Edit(tuple(new.splitlines()), document["edit"]["first"], document["edit"]["last"])
    made, short = tune.propose(store, replace(request, edit=edit, origin="user", found_in=""), os.environ)
    tune.decide(
        store, document["id"], "reject", tune.Approval(tune.operator()), os.environ, reason=f"edited into {short}"
    )
    again = next(i for i in inbox.items(store, os.environ) if i.about.get("id") == made["id"])
    click.echo(_coloured(again.text))
    _decide(store, again)


@click.command("lessons")
@click.option("--skill", help="Only this skill.")
@click.option("--write-evidence", is_flag=True, help="Commit wiki/causal.json and wiki/patterns.json from the ledgers.")
@json_option
@click.pass_context
def lessons_command(ctx: click.Context, skill: str | None, write_evidence: bool, as_json: bool) -> None:
    """Approved edits and what became of their predictions: not tried yet, held, made it worse, unproven.

    \b
    Examples:
      harness lessons
      harness lessons --write-evidence
    """
    from harness.flows import evidence, predictions

    with Store(workspace(ctx)) as store:
        store.catch_up()
        found = [one for one in predictions.lessons(store) if skill in (None, one.skill)]
        landed = evidence.write(store) if write_evidence else None
    if as_json:
        print_json([one.as_dict() for one in found])
        return
    if not found:
        click.echo("No edit has been approved yet.", err=True)
    head = ("id", "skill", "standing", "kept", "uses", "")
    rows = [(o.short, o.skill, o.state, f"{o.held} of {o.checked}", str(o.runs), shown(o.diagnosis)) for o in found]
    table([head, *rows] if rows else [])
    if write_evidence:
        click.echo(
            f"evidence committed as {(landed.commit or '')[:7]}" if landed else "the evidence files are up to date",
            err=True,
        )


@click.command("improve")
@click.argument("skill", required=False)
@click.option("--since", default="7d", show_default=True, help="How far back the scorecards are read: 12h, 7d, 4w.")
@click.option(
    "--measure",
    metavar="CMD",
    help='A command; its last line is JSON with a number, {"score": 0.7}; higher is better.',
)
@click.option(
    "--margin",
    type=click.FloatRange(0, min_open=True),
    default=0.02,
    show_default=True,
    help="How much better it must be.",
)
@click.option(
    "--repeat", type=click.IntRange(1, 100), default=5, show_default=True, help="Measurements before and after."
)
@click.option(
    "--seconds", type=click.FloatRange(1), default=3600, show_default=True, help="Time for all measuring of a skill."
)
@click.option("--review", is_flag=True, help="Leave the yes to a person in any case: harness review.")
@click.option("--dry-run", is_flag=True, help="Only show the variant.")
@json_option
@click.pass_context
def improve_command(
    ctx: click.Context, /, skill: str | None, since: str, measure: str | None, as_json: bool, **options: Any
) -> int:
    """Tidy or improve overlays: at most one variant of each skill, kept only when a measure says it is clearly better.

    The command gets HARNESS_SKILL, HARNESS_EFFECTIVE (a file: base and overlay) and HARNESS_OVERLAY. Without --measure the
    variant waits in `harness review`. For cron: 0 6 * * 1 cd PROJECT && harness improve --measure CMD

    \b
    Examples:
      harness improve aeo --dry-run
      harness improve --measure "python score.py" --margin 0.05
    """
    from harness import attended
    from harness.flows import improve as flow

    if measure and not (options["dry_run"] or options["review"]) and (client := attended.client_ancestor()):
        error = HarnessError(
            "an agent's own measure keeps no variant", f"this runs under {client}", "add --review, or run it yourself"
        )
        error.exit_code = NEEDS_PERSON
        raise error
    terms = flow.Terms(measure=tuple(shlex.split(measure or "")), **options)
    with Store(workspace(ctx)) as store:
        store.catch_up()
        known = store.tree.folders("skills")
        if skill and skill not in known:
            raise click.UsageError(f"nothing was learned about {skill!r}; known: {', '.join(known[:8]) or 'none'}")
        done = flow.improve(store, [skill] if skill else known, _span(since), terms, os.environ, say(as_json))
        from harness.flows.notices import announce

        announce(store)
    if as_json:
        print_json([one.as_dict() for one in done])
    else:
        for one in done:
            click.echo(f"{click.style(one.skill, bold=True)}: {one.status}: {shown(one.sentence)}")
            for line in one.done:
                click.echo(f"  {shown(line)}")
            if one.diff:
                click.echo(_coloured(shown(one.diff)))
    return 0


def _span(text: str) -> timedelta:
    try:
        return timedelta(**{_UNITS[text[-1]]: float(text[:-1])})
    except (KeyError, ValueError, IndexError, OverflowError):
        raise click.UsageError(f"--since: {text!r} is no span of time; write 12h, 7d or 4w") from None
