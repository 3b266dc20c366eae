"""`log` and `show`: what was learned, and how one lesson came to be."""

from __future__ import annotations

import sys

import click

from harness.cli.common import ago, json_option, print_json, shown, table, workspace
from harness.store import history
from harness.store.commit import Store
from harness.store.tick import KINDS


@click.command("log")
@click.option("--all", "everything", is_flag=True, help="Every tick, and commits made by hand.")
@click.option("--skill", help="Only this skill.")
@click.option("--kind", type=click.Choice(KINDS), help="Only this kind of tick.")
@click.option("--since", metavar="TIME", help="Only what is newer: '2 days ago', 2026-11-30, …")
@click.option("-n", "limit", type=click.IntRange(1), default=None, help="At most so many.")
@json_option
@click.pass_context
def log_command(
    ctx: click.Context,
    everything: bool,
    skill: str | None,
    kind: str | None,
    since: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Lessons, newest first, one line each. With --json one object a line.

    \b
    Examples:
      harness log
      harness log --skill aeo --since '1 week ago'
      harness log --all -n 20 --json
    """
    count = 0
    with Store(workspace(ctx)) as store:
        for entry in history.entries(store.git, since=since):
            wanted = entry.kind == kind if kind else everything or entry.kind in history.LESSONS
            if not wanted or (skill and entry.trailers.get("Skill") != skill):
                continue
            count += 1
            if as_json:
                print_json(entry.as_dict())
            else:
                click.echo(_line(entry))
            if limit and count >= limit:
                return
    if not count and not as_json:
        click.echo("No lessons yet." if not (everything or kind or skill or since) else "Nothing matches.", err=True)


def _line(entry: history.Entry) -> str:
    by = "" if entry.kind else f"  (by hand: {entry.author})"
    return f"{click.style(entry.short, fg='yellow')}  {ago(entry.ts):>6}  {shown(entry.subject)}{by}"


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
        else:
            for part in ("overlay", "loader"):
                if one.get(part):
                    click.echo(f"--- {part} in force ---\n{shown(one[part])}")
        return
    with Store(found) as store:
        entry = history.find(store.git, name)
        colour = sys.stdout.isatty() and not as_json
        diff = history.diff(store.git, entry.commit, colour=colour)
        rows = _rows(diff) if as_json else []
    if as_json:
        print_json({**entry.as_dict(), "rows": rows, "diff": diff})
        return
    click.echo(click.style(entry.subject, bold=True))
    click.echo(f"{entry.commit}  {entry.ts}  {shown(entry.author)}")
    if entry.body:
        click.echo(f"\n{shown(entry.body)}")
    click.echo()
    table([(key, shown(value)) for key, value in entry.trailers.items()])
    click.echo()
    click.echo(diff if colour else shown(diff))


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
