"""`taste`, `hints`, `evals`: what was kept and dismissed, and what that says."""

from __future__ import annotations

import click

from harness.cli.common import ago, json_option, print_json, quiet_option, say, shown, table, workspace
from harness.store.commit import Store

BARS = "▁▂▃▄▅▆▇█"


@click.group("taste", invoke_without_command=True)
@json_option
@click.pass_context
def taste_command(ctx: click.Context, as_json: bool) -> None:
    """The table of decisions by skill and shape; it is made anew after each decision.

    \b
    Examples:
      harness taste
      harness taste refresh
    """
    if ctx.invoked_subcommand is not None:
        return
    from harness.flows import taste
    from harness.taste import hints

    with Store(workspace(ctx)) as store:
        found = taste.counted(store)
        days = _days(store)
    made = hints.rollup(found, "")
    made.pop("computed_at")
    if as_json:
        print_json({**made, "by_day": days})
        return
    if not found.buckets:
        click.echo("No decision yet: harness draft list", err=True)
        return
    head = ("skill", "shape", "kept", "", "confidence", "95 %", "edits", "median")
    rows = []
    for (skill, shape), bucket in sorted(found.buckets.items(), key=lambda item: -item[1].n):
        entry = made["by_bucket"][f"{skill}|{shape}"]
        interval = "" if entry["interval"] is None else f"{entry['interval'][0]:.0%} to {entry['interval'][1]:.0%}"
        rate = "" if bucket.rate is None else f"{bucket.rate:.0%}"
        middle = entry["accept_latencies_ms"]["p50"]
        median = "" if middle is None else f"{middle / 1000:.0f} s"
        rows.append(
            (
                skill,
                shape,
                f"{bucket.accepts} of {bucket.n}",
                rate,
                entry["confidence"],
                interval,
                str(bucket.edits or ""),
                median,
            )
        )
    table([head, *rows])
    if len(days) > 1:
        click.echo(f"\n  kept by day  {spark([d['rate'] for d in days])}  {days[0]['day']} to {days[-1]['day']}")
    skipped = {k: v for k, v in made["rows_skipped"].items() if v}
    if skipped:
        click.echo("  left out     " + ", ".join(f"{v} {k.replace('_', ' ')}" for k, v in skipped.items()))


def _days(store: Store) -> list[dict[str, object]]:
    """The share kept on each day with decisions, oldest first."""
    from harness.flows.drafting import APPROVALS

    counts: dict[str, list[int]] = {}
    for row in store.rows(APPROVALS):
        if isinstance(row, dict) and row.get("decision") in ("approve", "dismiss"):
            kept = counts.setdefault(str(row.get("ts"))[:10], [0, 0])
            kept[0] += row["decision"] == "approve"
            kept[1] += 1
    return [{"day": day, "kept": k, "n": n, "rate": round(k / n, 4)} for day, (k, n) in sorted(counts.items())]


def spark(shares: list[object]) -> str:
    """Shares from 0 to 1 as a line of bars."""
    return "".join(BARS[min(len(BARS) - 1, int(float(str(s)) * len(BARS)))] for s in shares[-60:])


@taste_command.command("refresh")
@quiet_option
@json_option
@click.pass_context
def refresh_command(ctx: click.Context, quiet: bool, as_json: bool) -> None:
    """Count the decisions and write hints and the day's table; another process then checks both.

    \b
    Example:
      harness taste refresh
    """
    from harness.flows import taste
    from harness.flows.notices import announce

    with Store(workspace(ctx)) as store:
        done = taste.refresh(store, say(quiet or as_json))
        announce(store)
    if as_json:
        print_json(vars(done))
    elif not quiet:
        issue = f" ({done.issue})" if done.issue else ""
        click.echo(
            "another pass is at work; it goes round once more" if done.elsewhere else f"score {done.score}{issue}"
        )


@taste_command.command("audit", hidden=True)
@click.option("--actor", required=True)
@click.option("--run", "run_id", default=None)
@click.option("--artifact", default=None)
@json_option
@click.pass_context
def audit_command(ctx: click.Context, actor: str, run_id: str | None, artifact: str | None, as_json: bool) -> None:
    """Check what a pass has written, in a process of its own, and commit the eval row.

    \b
    Example:
      harness taste audit --actor distill-approvals-run-1 --artifact state/log/distill-approvals/2026-12-01.json
    """
    from harness.flows import taste

    with Store(workspace(ctx)) as store:
        row = taste.audit(store, actor, run_id, artifact)
    if as_json:
        print_json(row)
    else:
        click.echo(f"{row['score']} {row['primary_issue'] or ''}".strip())


@click.command("hints")
@click.argument("skill", required=False)
@json_option
@click.pass_context
def hints_command(ctx: click.Context, skill: str | None, as_json: bool) -> None:
    """What the operator's decisions say about the next draft of SKILL.

    \b
    Examples:
      harness hints action-item-draft
      harness hints --json
    """
    from harness.flows import taste

    with Store(workspace(ctx)) as store:
        rows = [r for (name, _), r in sorted(taste.current_hints(store).items()) if skill in (None, name)]
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo("No hint yet: a skill and shape needs two decisions.", err=True)
    else:
        table([(r["source_skill"], f"n {r['n']}, {r['confidence']}", shown(r["hint"])) for r in rows])


@click.command("evals")
@click.argument("skill", required=False)
@click.option("-n", "limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many, the newest.")
@json_option
@click.pass_context
def evals_command(ctx: click.Context, skill: str | None, limit: int, as_json: bool) -> None:
    """Scores of runs over time, with what was wrong.

    \b
    Example:
      harness evals distill-approvals
    """
    from harness import evals
    from harness.flows.ledgers import rows

    with Store(workspace(ctx)) as store:
        found = [r for r in rows(store, evals.EVALS) if skill in (None, r["skill"])]
    if as_json:
        print_json(found[-limit:])
        return
    if not found:
        click.echo("No eval yet.", err=True)
        return
    by_skill: dict[str, list[object]] = {}
    for row in found:
        by_skill.setdefault(row["skill"], []).append(row["score"])
    for name, scores in sorted(by_skill.items()):
        click.echo(f"{click.style(name, bold=True)}  {spark(scores)}  {len(scores)} runs")
    table([(ago(r["ts"]), r["skill"], f"{r['score']:g}", shown(r.get("primary_issue") or "")) for r in found[-limit:]])
