"""`verify`: the net under the gate. It judges what is in history, however it came there."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import click

from harness.cli.common import json_option, print_json, shown, workspace
from harness.errors import REFUSED


@click.command("verify")
@click.option("--full", is_flag=True, help="Judge all of history again, whatever was verified before.")
@json_option
@click.pass_context
def verify_command(ctx: click.Context, full: bool, as_json: bool) -> int:
    """Prove that every write in history passed the gate of its day. Exit code 4 when one didn't.

    Each commit is judged by the policy and the schemas of its parent (an install tick by those it brings), commits made by
    hand by the rules for people. Ledgers must only have grown, ids be unique, and what a row or trailer names be there.
    It goes on from the last verified commit; when that is no longer in history, it says so and judges everything.
    What it found once it tells each time; that history was rewritten, until you have run it with --full.

    \b
    With --json, one object:
      clean         true when nothing was found
      head, since   the commits that this run came to, and went on from (null: from the first)
      judged        commits judged by this run; all other fields are of the whole history
      commits       commits in history, `before` of them older than the workspace and not judged
      kinds         how many of each kind of tick, and "by hand"
      by_hand       commits that no tick made: {commit, ts, author, summary}
      gate_changes  commits that changed the policy or a schema: the same and {kind}
      violations    {commit, path, rule, found, pointer}
      audits        tables of decisions that are not what the ledger says, counted again

    \b
    Examples:
      harness verify
      harness verify --full --json
    """
    from harness.flows import taste
    from harness.store.commit import Store
    from harness.store.verify import verify

    with Store(workspace(ctx)) as store:
        report = verify(store, full=full, progress=_progress(quiet=as_json))
        audits = taste.audit_all(store) if report.head else []
    if as_json:
        print_json(report.as_dict() | {"audits": audits, "clean": report.as_dict()["clean"] and not audits})
    else:
        _tell(report)
        for one in audits:
            click.echo(f"the audit of a rollup fails: {shown(one)}")
    return REFUSED if report.violations or audits else 0


def _progress(*, quiet: bool) -> Callable[[int], None]:
    """A counter on the terminal for work that takes longer than a second."""
    if quiet or not sys.stderr.isatty():
        return lambda count: None
    last = time.monotonic() + 0.75

    def tell(count: int) -> None:
        nonlocal last
        if (now := time.monotonic()) - last > 0.25:
            last = now
            click.echo(f"\r{count:,} commits judged\x1b[K\r", err=True, nl=False)

    return tell


def _tell(report: Any) -> None:
    if not report.head:
        click.echo("there is no commit yet")
        return
    went_on = f", {report.judged:,} of them now (since {report.since[:10]})" if report.since else ""
    click.echo(f"{report.commits:,} commits up to {report.head[:10]}{went_on}")
    for kind, count in sorted(report.kinds.items()):
        click.echo(f"  {count:>8,}  {kind}")
    if report.before:
        click.echo(f"  {report.before:>8,}  before there was a workspace (not judged)")
    for title, entries in (("made by hand", report.by_hand), ("changed the gate", report.gate_changes)):
        if entries:
            click.echo(f"{title}:")
        for one in entries:
            kind = f"[{one['kind']}] " if "kind" in one else ""
            who = shown(one["author"].partition(" <")[0])
            click.echo(f"  {one['commit'][:10]}  {one['ts'][:10]}  {kind}{shown(one['summary'])}  ({who})")
    if not report.violations:
        click.echo("no violations")
        return
    click.echo(f"{len(report.violations):,} violation{'' if len(report.violations) == 1 else 's'}:")
    for one in report.violations:
        where = f"{one.path}{one.pointer and ' at ' + one.pointer}  " if one.path else ""
        click.echo(f"  {one.commit[:10]}  {shown(where)}{one.rule}: {shown(one.found)}")
