"""`status`: one screen of what waits, what is pending and what went wrong. It only looks."""

from __future__ import annotations

import click

from harness.cli.common import json_option, print_json, shown, table, workspace
from harness.errors import NEEDS_PERSON

MOST_UNREAD = 3


@click.command("status")
@json_option
@click.option("--verbose", "-v", is_flag=True, help="Also hook times and objects in the repository.")
@click.pass_context
def status_command(ctx: click.Context, as_json: bool, verbose: bool) -> int:
    """What waits, what is pending, what went wrong. Exit code 3 when there is a problem that a person has to settle.

    \b
    Examples:
      harness status
      harness status --json
    """
    from harness.flows import report

    found = workspace(ctx)
    state = report.status(found)
    code = NEEDS_PERSON if state["problems"] else 0
    if as_json:
        print_json(state)
        return code
    click.echo(f"{click.style('workspace', bold=True)}  {found.root}")
    waits = [
        (state["spool"], "event{s} of hooks to take in"),
        (state["log_lines"], "line{s} of the feedback log to take in"),
        (len(state["deferred"]), "deferred tick{s}"),
        (len(state["quarantine"]), "line{s} of the last day that nobody could read, newest first:"),
    ]
    lines = [text.format(s="" if n == 1 else "s") for n, text in waits if n]
    counts = [str(n) for n, _ in waits if n]
    if state["proposals"]:
        counts.append(str(len(state["proposals"])))
        lines.append(f"proposed edit{'' if len(state['proposals']) == 1 else 's'} for your yes: harness review")
    if state["open_queue"]:
        counts.append("")
        lines.append("the regeneration queue has work: harness regen status")
    click.echo(click.style("waits", bold=True) + ("      nothing" if not lines else ""))
    table(list(zip(counts, lines, strict=True)))
    if state["ledger"] and state["ledger"]["waiting"]:
        click.echo(f"  {state['ledger']['waiting']} drafts for others wait for a decision: harness ledger list")
    if state["drain"]:
        click.echo(f"  a drain is at work: {state['drain']}")
    unread = [shown(text) for text in reversed(state["quarantine"])]
    for text in unread[:MOST_UNREAD]:
        click.echo(f"    {text if len(text) <= 200 else text[:199] + '…'}")
    if len(unread) > MOST_UNREAD:
        click.echo(f"    and {len(unread) - MOST_UNREAD} more: state/log/quarantine.ndjson")
    for text in state["notices"]:
        click.echo(f"  {shown(text)}")
    if state["pending"]:
        click.echo(
            click.style("pending", bold=True)
            + "    changed behind the store's back; no effect until a person commits it"
        )
        for one in state["pending"]:
            click.echo(f"  {one['state']} {shown(one['path'])}\n       {shown(one['next'])}")
    for one in state["problems"]:
        click.echo(
            f"{click.style('problem', fg='red', bold=True)}    {shown(one['what'])}: {shown(one['why'])}\n           {shown(one['next'])}"
        )
    if verbose or state["signing"] != "ticks are not signed":
        click.echo(f"{click.style('signing', bold=True)}    {state['signing']}")
    if state["by_hand"]:
        click.echo(
            f"{click.style('by hand', bold=True)}    {state['by_hand']} of the last 200 commits were made by hand: harness log --all"
        )
    if verbose:
        _verbose(found, state)
    return code


def _verbose(found: object, state: dict[str, object]) -> None:
    from harness.flows import report
    from harness.store import maintenance
    from harness.store.commit import Store
    from harness.workspace import Workspace

    assert isinstance(found, Workspace)
    times = report.hook_times(found)
    if times:
        click.echo(click.style("hooks", bold=True) + "      time in ms, start of the interpreter not included")
        table(
            [
                ("event", "n", "p50", "p99"),
                *((event, str(t["n"]), f"{t['p50']:.1f}", f"{t['p99']:.1f}") for event, t in times.items()),
            ]
        )
    with Store(found) as store:
        held = maintenance.count(store)
    counts = f"about {held['loose']} loose, {held['packs']} packs, {held['leftovers']} leftovers of killed git commands"
    click.echo(f"{click.style('objects', bold=True)}    {counts}")
