"""`feedback`, `observe`, `drain`, `regen`: the loop in which loaders correct themselves."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.common import json_option, print_json, quiet_option, say, shown, table, workspace
from harness.errors import BUSY, NEEDS_PERSON, HarnessError
from harness.store.commit import Store

if TYPE_CHECKING:
    from harness.loader.queue import Entry


@click.command("feedback")
@click.argument("skill")
@click.argument("text")
@click.option("--fixed", is_flag=True, help="You have fixed the loader yourself (FIXED); without it the gap is LOGGED.")
@json_option
@click.pass_context
def feedback_command(ctx: click.Context, skill: str, text: str, fixed: bool, as_json: bool) -> int:
    """Log what the loader of SKILL was missing: one line at the end of the workspace's log.

    \b
    Examples:
      harness feedback aeo "the selector of the date field was missing"
      harness feedback aeo "added the selector" --fixed
    """
    from harness.flows.observe import LOG, observe
    from harness.loader import feedback
    from harness.skills import find
    from harness.store import files

    found = workspace(ctx)
    skills = find.find_all(found.root, found.project, Path.home(), os.environ)
    learned = (
        {p.name for p in (found.root / "skills").iterdir() if p.is_dir()} if (found.root / "skills").is_dir() else set()
    )
    folder = find.resolve(skill, skills, learned)
    tag = "FIXED" if fixed else "LOGGED"
    line = f"[{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}] {folder}: {' '.join(text.split())} [{tag}]"
    feedback.parse_line(line.encode())
    try:
        # Behind a line that somebody has not finished, ours begins a line of its own: it must not be glued to it.
        before = files.read(found.root / LOG) or b""
        gap = b"" if not before or before.endswith(b"\n") else b"\n"
        files.append(found.root / LOG, gap + line.encode() + b"\n")
    except OSError as error:
        raise files.explain(error) from error
    why = ""
    try:
        with Store(found) as store:
            why = observe(store, os.environ).deferred
    except HarnessError as error:
        why = str(error)  # the line is on disk and the next observe takes it in
    if as_json:
        print_json({"skill": folder, "tag": tag, "line": line, "deferred": why or None})
    else:
        click.echo(f"logged for {folder} [{tag}]" + (f"; it waits: {why}" if why else ""), err=bool(why))
    return BUSY if why else 0


@click.command("observe")
@quiet_option
@json_option
@click.pass_context
def observe_command(ctx: click.Context, quiet: bool, as_json: bool) -> int:
    """Take in what hooks spooled and agents appended. No model is asked.

    \b
    Example:
      harness observe
    """
    from harness.flows.observe import observe

    with Store(workspace(ctx)) as store:
        seen = observe(store, os.environ)
    if as_json:
        print_json(
            {
                "runs": seen.runs,
                "feedback": seen.feedback,
                "fixes": seen.fixes,
                "quarantined": seen.quarantined,
                "deferred": seen.deferred or None,
            }
        )
    elif not quiet:
        click.echo(shown(seen.line()) or "nothing new")
        for line in seen.quarantined:
            click.echo(f"  unreadable: {shown(line)}", err=True)
    return BUSY if seen.deferred else 0


@click.command("drain")
@click.option("--dry-run", is_flag=True, help="Print the briefs of what would be regenerated; change nothing.")
@click.option("--review", is_flag=True, help="Show each new loader and ask (needed with loader.review: true).")
@quiet_option
@json_option
@click.pass_context
def drain_command(ctx: click.Context, dry_run: bool, review: bool, quiet: bool, as_json: bool) -> int:
    """Work in the logged gaps now: observe, then regenerate the loaders that are due.

    Hooks start it when a session ends; cron and people may, too (state/regen/drain.sh does the same).

    \b
    Examples:
      harness drain
      harness drain --dry-run
    """
    from harness.flows import drain as flow

    found = workspace(ctx)
    tell = say(quiet or as_json)
    with Store(found) as store, flow.quiet_priority():
        if dry_run:
            return _dry_run(store, as_json)
        done = flow.drain(store, os.environ, tell, approve=_asking(review))
    if as_json:
        print_json(vars(done))
    elif not quiet:
        if done.elsewhere:
            click.echo("another drain is at work; it goes round once more", err=True)
        for skill, why in done.waiting.items():
            click.echo(f"{skill}: {shown(why)}", err=True)
        if not (done.regenerated or done.failed or done.escalated or done.waiting or done.elsewhere or done.deferred):
            click.echo("nothing is due", err=True)
            with Store(found) as store:
                for line in _not_due(store):
                    click.echo(f"  {shown(line)}", err=True)
    if done.deferred:
        if not quiet and not as_json:
            click.echo(f"deferred: {done.deferred}; see `harness status`", err=True)
        return BUSY
    return 1 if done.failed else 0


def _asking(review: bool) -> Callable[[str, str, str], bool] | None:
    if not review:
        return None
    if not sys.stdin.isatty() or os.environ.get("CLAUDECODE") or os.environ.get("HARNESS_LINEAGE"):
        error = HarnessError("--review needs a person", "this is no terminal of your own", "run it in one")
        error.exit_code = NEEDS_PERSON
        raise error

    def ask(skill: str, old: str, new: str) -> bool:
        import difflib

        diff = difflib.unified_diff(
            old.splitlines(), new.splitlines(), f"{skill}/AGENTS.md now", f"{skill}/AGENTS.md new", lineterm=""
        )
        click.echo(shown("\n".join(diff)))
        return click.confirm(f"Put this loader of {skill} in force?", default=False)

    return ask


def _not_due(store: Store) -> list[str]:
    """Why each open entry of the queue is not worked on now, and until when."""
    from harness.flows import backlog

    threshold = store.settings["regen"]["threshold"]
    lines = []
    for entry, found in backlog.terms(store):
        gaps = f"{entry.skill}: {len(entry.feedback)} gap{'' if len(entry.feedback) == 1 else 's'}"
        if found.u < threshold:
            lines.append(f"{gaps}, under the threshold ({found.u:.2f} of {threshold:g})")
        elif entry.not_before:
            lines.append(f"{gaps}, tried {entry.attempt} times; again after {entry.not_before} ({entry.error})")
    return lines


def _dry_run(store: Store, as_json: bool) -> int:
    from harness.flows import backlog, regenerate
    from harness.loader import brief, document, reply

    out = []
    for entry in backlog.due(store):
        footer = regenerate.footer_of(store, entry.skill)
        base, loader, overlay = (
            (store.tree.read(f"skills/{entry.skill}/{name}.md") or b"").decode("utf-8", "replace")
            for name in ("SKILL", "AGENTS", "overlay")
        )
        text = brief.brief(
            entry.skill,
            base,
            loader or document.new_loader(entry.skill, footer),
            backlog.gaps_of(store, entry),
            overlay,
            footer,
            reply.LIMITS,
        )
        if (
            store.settings["dispatch"]["preset"] == "fold"
        ):  # no model is asked: what would be added is all there is to show
            listed = "".join(f"- {gap['text']}\n" for gap in backlog.gaps_of(store, entry))
            text = f"{entry.skill}: would be folded in, without a model:\n{listed}"
        out.append({"skill": entry.skill, "brief": text})
    if as_json:
        print_json(out)
    else:
        for one in out:
            click.echo(shown(one["brief"]))
        if not out:
            click.echo("nothing is due", err=True)
    return 0


@click.command("regen")
@click.argument("what", type=click.Choice(["status"]), default="status")
@json_option
@click.pass_context
def regen_command(ctx: click.Context, what: str, as_json: bool) -> None:
    """The regeneration queue: each skill with its open gaps and the controller's terms (u = P + I + D).

    \b
    Examples:
      harness regen status
      harness regen status --json
    """
    from harness.flows import backlog

    with Store(workspace(ctx)) as store:
        store.catch_up()
        ranked = backlog.terms(store)
        other = [e for e in backlog.fold(store).values() if e.state in ("failed", "escalated")]
        threshold = store.settings["regen"]["threshold"]
    listed = [
        {
            **_entry(e),
            **{k: round(getattr(t, k), 3) for k in "pidu"},
            "due": t.u >= threshold,
            "not_before": e.not_before,
        }
        for e, t in ranked
    ] + [_entry(e) for e in other]
    if as_json:
        print_json({"threshold": threshold, "queue": listed})
        return
    if not listed:
        click.echo("The queue is empty.")
        return
    head = ("skill", "state", "gaps", "P", "I", "D", "u", "")
    table([head, *(_cells(row, threshold) for row in listed)])


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "skill": entry.skill,
        "state": entry.state,
        "gaps": len(entry.feedback),
        "attempt": entry.attempt,
        "error": entry.error,
    }


def _cells(row: dict[str, Any], threshold: float) -> tuple[str, ...]:
    terms = [f"{row[k]:.2f}" if k in row else "" for k in "pidu"]
    rank = "due" if row.get("due") else f"under the threshold {threshold:g}" if "u" in row else ""
    return (row["skill"], row["state"], str(row["gaps"]), *terms, shown(row["error"] or rank))
