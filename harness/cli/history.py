"""`log`, `show`, `why` and `undo`: what was learned, how one lesson came to be, and taking it back."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import click

from harness.cli.common import ago, json_option, print_json, shown, table, workspace
from harness.store import history
from harness.store.commit import Store
from harness.store.tick import KINDS

if TYPE_CHECKING:
    from harness.flows.why import Cause


@click.command("log")
@click.option("--all", "everything", is_flag=True, help="Every tick, and commits made by hand.")
@click.option("--skill", help="Only this skill.")
@click.option("--kind", type=click.Choice(KINDS), help="Only this kind of tick.")
@click.option("--since", metavar="TIME", help="Only what is newer: '2 days ago', 2026-11-30, …")
@click.option("-n", "limit", type=click.IntRange(1), default=None, help="At most so many.")
@click.option("--graph", is_flag=True, help="Every commit of every branch, with the lines between them.")
@json_option
@click.pass_context
def log_command(
    ctx: click.Context,
    everything: bool,
    skill: str | None,
    kind: str | None,
    since: str | None,
    limit: int | None,
    graph: bool,
    as_json: bool,
) -> None:
    """Lessons, newest first, one line each. With --json one object a line.

    \b
    Examples:
      harness log
      harness log --skill aeo --since '1 week ago'
      harness log --all -n 20 --json
    """
    if since and not re.search(
        r"\d|yesterday|today|now|noon|midnight|last|ago|never|one|two|week|month|year", since, re.I
    ):
        raise click.UsageError(f"--since: {since!r} is no time; write '2 days ago' or 2026-11-30")
    if graph:
        if as_json or kind:
            raise click.UsageError("--graph draws every commit; --json and --kind don't go with it.")
        with Store(workspace(ctx)) as store:
            for line in history.graph(store.git, since=since, skill=skill, limit=limit):
                click.echo(shown(line))
        return
    count = 0
    with Store(workspace(ctx)) as store:
        held = _held(store)
        for entry in history.entries(store.git, since=since):
            wanted = entry.kind == kind if kind else everything or entry.is_lesson
            if not wanted or (skill and entry.trailers.get("Skill") != skill):
                continue
            count += 1
            if as_json:
                kept = held.get(entry.trailers.get("Proposal", ""))
                print_json(
                    entry.as_dict() | ({"predictions": kept} if kept and "Approved-By" in entry.trailers else {})
                )
            else:
                click.echo(_line(entry, held))
            if limit and count >= limit:
                return
    if not count and not as_json:
        click.echo(_nothing(ctx, everything, kind, skill, since), err=True)


def _nothing(ctx: click.Context, everything: bool, kind: str | None, skill: str | None, since: str | None) -> str:
    """What to say when no lesson is there: a name that nothing is known of must not look like an answer."""
    if not (everything or kind or skill or since):
        return "No lessons yet."
    with Store(workspace(ctx)) as store:
        known = store.tree.folders("skills")
    if skill and skill not in known:
        return f"Nothing matches: nothing was learned about {skill!r}; known: {', '.join(known[:8]) or 'no skill yet'}"
    return "Nothing matches."


def _held(store: Store) -> dict[str, list[bool]]:
    """The checks of each proposal's prediction, in order."""
    found: dict[str, list[bool]] = {}
    for row in store.rows("state/log/predictions.ndjson"):
        if isinstance(row, dict):
            found.setdefault(str(row["proposal"]), []).append(bool(row["held"]))
    return found


def _line(entry: history.Entry, held: dict[str, list[bool]]) -> str:
    checks = held.get(entry.trailers.get("Proposal", ""), []) if "Approved-By" in entry.trailers else []
    standing = f"  [held {sum(checks)} of {len(checks)}]" if checks else ""
    by = "" if entry.kind else f"  (by hand: {entry.author})"
    return f"{click.style(entry.short, fg='yellow')}  {ago(entry.ts):>6}  {shown(entry.subject)}{standing}{by}"


@click.command("show")
@click.argument("name", metavar="ID|SKILL")
@json_option
@click.pass_context
def show_command(ctx: click.Context, name: str, as_json: bool) -> None:
    """One lesson: its message, who and what stands behind it, and its diff. With the name of a skill: what is in force for it.

    \b
    Examples:
      harness show a7f3
      harness show aeo
    """
    from harness.store import snapshot

    found = workspace(ctx)
    if name in snapshot.now(found).get("skills", {}):
        one = snapshot.skill(found, name)
        if as_json:
            print_json(one)
        elif not (one.get("overlay") or one.get("loader")):
            click.echo(f"Nothing was learned about {name} yet. Its base: harness where {name}", err=True)
        else:
            for part in ("overlay", "loader"):
                if one.get(part):
                    click.echo(f"--- {part} in force ---\n{shown(one[part])}")
        return
    from harness.flows.why import behind

    with Store(found) as store:
        entry = history.find(store.git, name)
        colour = sys.stdout.isatty() and not as_json
        diff = history.diff(store.git, entry.commit, colour=colour)
        cause = behind(store, entry, os.environ)
        standing = None
        if "Approved-By" in entry.trailers:
            from harness.flows.predictions import lessons

            standing = next((one for one in lessons(store) if one.commit == entry.commit), None)
    if as_json:
        evidence: dict[str, object] = {"evidence": cause.rows, "prompts": cause.prompts, "undone_by": cause.undone_by}
        evidence |= {"prediction": standing.as_dict()} if standing else {}
        print_json({**entry.as_dict(), **evidence, "rows": _rows(diff), "diff": diff})
        return
    click.echo(click.style(entry.subject, bold=True))
    click.echo(f"{entry.commit}  {entry.ts}  {shown(entry.author)}")
    if entry.body:
        click.echo(f"\n{shown(entry.body)}")
    click.echo()
    table([(key, shown(value)) for key, value in entry.trailers.items()])
    if cause.undone_by:
        click.echo(f"  undone by {cause.undone_by}")
    if standing:
        click.echo(
            f"  its prediction: {standing.state}; {standing.held} of {standing.checked} outputs kept it, {standing.runs} uses since"
        )
    if cause.rows:
        click.echo(f"\n{click.style('behind it', bold=True)}")
        _evidence(cause)
    click.echo()
    click.echo(diff if colour else shown(diff))


def _evidence(cause: Cause) -> None:
    """Print the rows behind a tick, their words, and what the user had said."""
    for row in cause.rows:
        words = row.get("text") or row.get("reaction") or row.get("reason") or ""
        claimed = ", claimed" if row.get("claimed_fixed") else ""
        ledger, tag = row["ledger"].rpartition("/")[2].partition(".")[0], row.get("tag", row.get("op", ""))
        if "status" in row:
            tag = f"{row['status']}, reward {row['reward']:+g}"
        click.echo(f"    {ledger} {row['id']}  {row['ts']}  [{tag}{claimed}]")
        click.echo(f"      “{shown(str(words))}”" + (f"  ({row['line']})" if row.get("line") else ""))
    for one in cause.prompts:
        said = (
            f"the user had said: “{shown(one['prompt'])}”"
            if one["prompt"]
            else f"an excerpt is kept in {one['kept']}"
            if one["kept"]
            else "its transcript is not on this machine"
        )
        click.echo(f"    session {shown(one['session'])}: {said}")


@click.command("why")
@click.argument("target", metavar="FILE[:LINE]|SKILL[:LINE]|ROW|ID")
@json_option
@click.pass_context
def why_command(ctx: click.Context, target: str, as_json: bool) -> None:
    """From a learned line back to its cause: the commit, the feedback behind it, the session, the user's words.

    \b
    Examples:
      harness why aeo:14
      harness why skills/aeo/AGENTS.md:14
      harness why a7f3
    """
    from harness.flows.why import why

    with Store(workspace(ctx)) as store:
        causes = why(store, target, os.environ)
    if as_json:
        print_json([cause.as_dict() for cause in causes])
        return
    for cause in causes:
        if cause.path:
            click.echo(f"{click.style(f'{cause.path}:{cause.number}', bold=True)}  {shown(cause.line.strip())}")
        entry = cause.entry
        by = shown(entry.author) if not entry.kind else entry.kind
        undone = f"  (undone by {cause.undone_by})" if cause.undone_by else ""
        click.echo(
            f"  {click.style(entry.short, fg='yellow')}  {shown(entry.subject)}  [{by}, {ago(entry.ts)} ago]{undone}"
        )
        _evidence(cause)


@click.command("undo")
@click.argument("name", metavar="ID")
@click.option("--reason", default="", help="Why; it goes into the commit.")
@click.option(
    "--reopen", is_flag=True, help="Open the gaps again that the lesson had closed, for another regeneration."
)
@json_option
@click.pass_context
def undo_command(ctx: click.Context, name: str, reason: str, reopen: bool, as_json: bool) -> None:
    """Take a lesson back: a new tick with the text put back three-way, and a row for each row that no longer counts.

    Later changes stay; where they touch the same lines nothing is done and the lines are named. The gaps that it had closed are
    withdrawn too, or come back with --reopen. An undo can be undone.

    \b
    Examples:
      harness undo a7f3
      harness undo a7f3 --reason "the form has changed"
    """
    from harness.cli.setup import person
    from harness.flows.notices import announce
    from harness.flows.undo import undo

    person("undoing is a person's")
    with Store(workspace(ctx)) as store:
        done = undo(store, name, reason, reopen=reopen)
        announce(store)
    if as_json:
        print_json(
            {
                "undone": done.entry.as_dict(),
                "commit": done.landed.commit,
                "tick": done.landed.tick,
                "text": done.text,
                "rows": done.rows,
                "left": list(done.landed.left),
            }
        )
        return
    click.echo(f"took back {done.entry.short} {shown(done.entry.subject)}")
    for path in done.text:
        click.echo(
            f"  {path}" + ("  (your own change of it on disk is still there)" if path in done.landed.left else "")
        )
    if done.rows:
        click.echo(f"  {done.rows} row{'' if done.rows == 1 else 's'} no longer count{'s' if done.rows == 1 else ''}")


def _rows(diff: str) -> list[object]:
    import json

    rows = []
    for line in diff.splitlines():
        if line.startswith("+{"):
            try:
                rows.append(json.loads(line[1:]))
            except ValueError:
                continue
    return rows
