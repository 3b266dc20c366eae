"""`scan`: what your sessions say about your skills."""

from __future__ import annotations

import os
import sys

import click

from harness.cli.common import json_option, print_json, shown, table
from harness.flows.scan import Scan, scan

_TOP = 10


@click.command("scan")
@click.option(
    "--days",
    type=click.IntRange(1),
    default=30,
    show_default=True,
    help="Only sessions written in the last so many days.",
)
@click.option("--all", "everything", is_flag=True, help="Every skill and every correction.")
@json_option
def scan_command(days: int, everything: bool, as_json: bool) -> None:
    """What your sessions say about your skills: used how often, what you said right after, what you had to say twice.

    Works before anything is installed, offline, and changes nothing. It reads the sessions that Claude Code keeps on this machine.

    \b
    Examples:
      harness scan
      harness scan --days 7 --json
    """
    if sys.stderr.isatty() and not as_json:
        with click.progressbar(length=1000, label="reading sessions", file=sys.stderr) as bar:
            found = scan(os.environ, days, lambda done, of: bar.update(done * 1000 // of - bar.pos))
    else:
        found = scan(os.environ, days)
    if as_json:
        print_json(found.as_dict())
        return
    _print(found, None if everything else _TOP)


def _print(found: Scan, top: int | None) -> None:
    if not found.sessions:
        click.echo(f"no sessions in the last {found.days} days")
        for root, what in found.places:
            click.echo(f"  looked in {root}: {what}")
        return
    said = f"{found.corrections} correction{_s(found.corrections)} after a skill, {found.repeated} said twice or more"
    click.echo(
        f"{found.sessions} session{_s(found.sessions)} in {found.days} days, {found.with_skills} with a skill; {said}"
    )
    skills = found.ordered()
    if skills:
        click.echo()
        rows = [["skill", "used", "praised", "corrected", ""]]
        for name, one in skills[:top]:
            about = "; ".join(
                f"{topic} x{n}" if n > 1 else topic for topic, n in one.topics.most_common(3 if top else None)
            )
            rows.append([shown(name), str(one.uses), str(one.praised), str(one.corrected), shown(about)])
        table(rows)
        if top and len(skills) > top:
            click.echo(f"  … {len(skills) - top} more: --all")
    failures = [(name, call, n) for name, one in skills for call, n in one.failures.most_common() if n > 1]
    if failures:
        click.echo("\ncalls that failed again and again after a skill")
        table([[shown(name), f"x{n}", shown(call)] for name, call, n in sorted(failures, key=lambda f: -f[2])[:top]])
    if found.corrections:
        name, worst = skills[0]
        click.echo(
            f"\na lesson of one line costs about {found.lesson_tokens} tokens at each use "
            f"({shown(name)}: {found.lesson_tokens * worst.uses:,} in {found.days} days)"
        )
        click.echo("`harness init` in your project lets skills learn from what you say.")
    if found.unreadable or found.dropped:
        click.echo(
            f"not read: {len(found.unreadable)} files, {found.dropped} lines; see `harness sessions check`", err=True
        )


def _s(count: int) -> str:
    return "" if count == 1 else "s"
