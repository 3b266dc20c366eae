"""`ledger init … sweep`: filing, what waits, what is under way, sending, the stop button."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from harness.cli.common import json_option, print_json, shown, table, workspace
from harness.cli.ledger_group import done, ledger_command
from harness.cli.operator import operator_options, refuse_clients, who
from harness.errors import BUSY, NEEDS_PERSON, HarnessError
from harness.store.commit import Store


@ledger_command.command("init")
@json_option
@click.pass_context
def init_command(ctx: click.Context, as_json: bool) -> None:
    """Make this workspace's ledger: a SQLite file, or the database that ledger.url names.

    \b
    Example:
      harness ledger init
    """
    from harness.flows import desk

    with Store(workspace(ctx)) as store:
        store.catch_up()
        place = desk.init(store)
    print_json({"place": place}) if as_json else click.echo(f"the ledger is {place}", err=True)


@ledger_command.command("file")
@click.option("--to", "counterparty", required=True, help="The counterparty.")
@click.option("--platform", required=True, help="slack, email, …")
@click.option("--channel", required=True)
@click.option("--in-workspace", default=None, help="The platform's own workspace or account.")
@click.option("--thread", default=None)
@click.option("--user", default=None, help="Who wrote what this answers.")
@click.option("--subject", default=None)
@click.option("--context", default="", help="What a person needs to know to decide; it isn't sent.")
@click.option(
    "--file", "path", type=click.File("r", encoding="utf-8"), default="-", help="The text; standard input without it."
)
@click.option(
    "--html", type=click.File("r", encoding="utf-8"), default=None, help="The same as HTML, approved and sent with it."
)
@click.option(
    "--attach",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file whose hash is approved with the text.",
)
@click.option("--priority", type=click.Choice(["P0", "P1", "P2", "P3"]), default="P2")
@click.option("--answers", type=int, default=None, help="The inbound obligation that this answers.")
@click.option(
    "--auto-send-after", type=int, default=None, help="Seconds since 1970; only where the channel's policy allows it."
)
@click.option("--expires-after", type=int, default=None, help="Seconds since 1970; undecided by then, it expires.")
@click.option("--key", default=None, help="Names this request: the same key again changes nothing.")
@click.option("--skill", default=None, help="The skill that wrote the draft.")
@click.option("--force", is_flag=True, help="Overrule the baseline gate; for an operator.")
@operator_options
@json_option
@click.pass_context
def file_command(
    ctx: click.Context, counterparty: str, platform: str, channel: str, in_workspace: str | None, thread: str | None, user: str | None,
    subject: str | None, context: str, path: Any, html: Any, attach: tuple[Path, ...], priority: str, answers: int | None,
    auto_send_after: int | None, expires_after: int | None, key: str | None, skill: str | None, force: bool,
    token_file: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """File a draft for a person's decision. Nothing is sent by that, and nobody outside is told.

    \b
    Example:
      echo "We can hold the slot until Friday." |
        harness ledger file --to acme-supplier --platform slack --channel "#acme-shared"
    """
    import hashlib

    from harness.approval.file import DEFAULT_SKILL
    from harness.flows.desk import open_desk

    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        if force:
            who("overruling the baseline gate", token_file, desk.operators)
        filed = desk.file(
            draft=path.read(), counterparty=counterparty, context=context, origin_platform=platform, origin_channel=channel,
            origin_workspace=in_workspace, origin_thread=thread, origin_user=user, subject=subject,
            bodies={"text/html": html.read()} if html else None,
            attachments=[{"name": one.name, "sha256": hashlib.sha256(one.read_bytes()).hexdigest()} for one in attach],
            priority=priority, signal_obligation_id=answers, auto_send_after=auto_send_after, expires_after=expires_after,
            request_key=key, source_skill=skill or DEFAULT_SKILL, force_despite_signed_contract=force,
        )  # fmt: skip
        desk.export()
    if as_json:
        print_json(filed)
        return
    again = " again" if filed["refiled"] else ""
    click.echo(
        f"filed{again} as obligation {filed['obligation_id']}, epoch {filed['epoch']}, sha {filed['draft_sha256'][:8]}"
    )
    for note in filed["notes"]:
        click.echo(f"  {shown(note)}", err=True)


@ledger_command.command("inbound")
@click.argument("summary")
@click.option("--from", "counterparty", required=True)
@click.option("--platform", required=True)
@click.option("--channel", required=True)
@click.option("--in-workspace", default=None)
@click.option("--thread", default=None)
@json_option
@click.pass_context
def inbound_command(
    ctx: click.Context, summary: str, counterparty: str, platform: str, channel: str, in_workspace: str | None,
    thread: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Record something that came in and waits for an answer; drafts name it with --answers.

    \b
    Example:
      harness ledger inbound "asks for the delivery window" --from acme-supplier --platform slack --channel "#acme-shared"
    """
    from harness.flows.desk import open_desk, record_inbound

    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        number = record_inbound(desk.ledger, summary, counterparty, platform, channel, in_workspace, thread)
        desk.export()
    print_json({"obligation_id": number}) if as_json else click.echo(f"recorded as obligation {number}")


@ledger_command.command("list")
@json_option
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """The drafts that wait for a person, the most urgent first.

    \b
    Example:
      harness ledger list
    """
    from harness.approval import status
    from harness.approval.ledger import stamp
    from harness.cli.common import ago
    from harness.flows.desk import open_desk

    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        rows = status.queue(desk.ledger)
    if as_json:
        print_json(rows)
        return
    table(
        [(str(r["obligation_id"]), r["priority"], ago(stamp(int(r["created_ts"]))), shown(r["summary"])) for r in rows]
    )
    if not rows:
        click.echo("nothing waits", err=True)


@ledger_command.command("status")
@click.argument("number", metavar="[ID]", type=int, required=False)
@click.option("--outside", is_flag=True, help="Others can see this result: no hash, no state.")
@json_option
@click.pass_context
def status_command(ctx: click.Context, number: int | None, outside: bool, as_json: bool) -> int:
    """The whole ledger, or one obligation. Exit code 3 when something needs a person.

    \b
    Examples:
      harness ledger status
      harness ledger status 431 --json
    """
    from harness.approval import status
    from harness.flows.desk import obligation_status, open_desk

    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        if number is not None:
            found = obligation_status(desk, number, outside=outside)
            print_json(found) if as_json else _facts(found)
            return 0
        state = status.overview(desk.ledger)
    stuck = bool(state["held"]["unknown"] or state["stale"] or (state["ready"] and not state["worker"]))
    if as_json:
        print_json(state)
        return NEEDS_PERSON if stuck else 0
    _screen(state)
    return NEEDS_PERSON if stuck else 0


def _facts(found: dict[str, Any]) -> None:
    table(
        [
            (name, shown(json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)))
            for name, value in found.items()
            if value not in (None, "")
        ]
    )


def _screen(state: dict[str, Any]) -> None:
    click.echo(f"{click.style('ledger', bold=True)}  {state['place']}")
    table([(str(count), name) for name, count in state["counts"].items()])
    if state["ready"]:
        worker = (
            f"being sent by {state['worker']}"
            if state["worker"]
            else click.style("and nothing is sending: harness ledger deliver", fg="red")
        )
        click.echo(f"approved  {state['ready']}, {worker}")
    held = {name: count for name, count in state["held"].items() if count}
    if held:
        click.echo(f"held      {', '.join(f'{count} {name}' for name, count in held.items())}: harness ledger held")
    if state["frozen"]:
        click.echo(
            f"frozen    by {shown(state['frozen']['by'])} since {state['frozen']['since']}: {shown(state['frozen']['reason'])}"
        )
    if state["unexported"]:
        click.echo(f"export    {state['unexported']} rows wait: harness ledger export")


@ledger_command.command("held")
@json_option
@click.pass_context
def held_command(ctx: click.Context, as_json: bool) -> int:
    """Claims that are under way or unknown, the oldest first. Exit code 3 when there is one that needs a person.

    \b
    Example:
      harness ledger held
    """
    from harness.approval import claim
    from harness.flows.desk import open_desk

    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        rows = claim.held(desk.ledger)
    if as_json:
        print_json(rows)
    else:
        for r in rows:
            todo = "harness ledger cancel" if r["state"] == "claimed" else "harness ledger reconcile"
            table(
                [
                    (
                        str(r["obligation_id"]),
                        r["state"],
                        f"{r['age']} s",
                        f"{r['worker_host']}:{r['worker_pid']}",
                        r["draft_sha256"][:8],
                        f"{todo} {r['obligation_id']}",
                    )
                ]
            )
    return NEEDS_PERSON if any(r["stale"] or r["state"] == "unknown" for r in rows) else 0


@ledger_command.command("wait")
@click.argument("number", metavar="ID", type=int)
@click.option("--epoch", type=int, required=True, help="The epoch that filing gave.")
@click.option("--seconds", type=click.FloatRange(0, 86_400), default=60.0, help="How long to wait (default: 60).")
@json_option
@click.pass_context
def wait_command(ctx: click.Context, number: int, epoch: int, seconds: float, as_json: bool) -> int:
    """Wait for a decision on this epoch: approved, denied, stale, expired, closed, sent, or pending when time is up (exit 5).

    \b
    Example:
      harness ledger wait 431 --epoch 1790000000 --seconds 300
    """
    from harness.approval import decide
    from harness.flows.desk import open_desk

    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        found = decide.wait(desk.ledger, number, epoch, seconds)
    print_json({"outcome": found}) if as_json else click.echo(found)
    return BUSY if found == "pending" else 0


@ledger_command.command("cancel")
@click.argument("number", metavar="ID", type=int)
@operator_options
@json_option
@click.pass_context
def cancel_command(ctx: click.Context, number: int, token_file: Path | None, as_json: bool) -> int:
    """Free a claim that hasn't begun, when its worker is gone. The draft then waits for a new decision.

    \b
    Example:
      harness ledger cancel 431
    """
    from harness.approval import claim
    from harness.flows.desk import open_desk

    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        claim.cancel_claimed(desk.ledger, number, who("cancelling a claim", token_file, desk.operators).name)
        return done(desk, {"obligation_id": number}, f"obligation {number} waits for a decision again", as_json)


@ledger_command.command("reconcile")
@click.argument("number", metavar="ID", type=int)
@click.option("--coordinate", required=True, help="Where it arrived: the provider's message id.")
@click.option("--evidence", required=True, help="How you know that it arrived.")
@operator_options
@json_option
@click.pass_context
def reconcile_command(
    ctx: click.Context, number: int, coordinate: str, evidence: str, token_file: Path | None, as_json: bool
) -> int:
    """Say that an attempt whose outcome is unknown did arrive. There is no command to try it again.

    \b
    Example:
      harness ledger reconcile 431 --coordinate 1712.5 --evidence "seen in the channel"
    """
    from harness.approval import claim
    from harness.flows.desk import open_desk

    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        name = who("reconciling an unknown outcome", token_file, desk.operators).name
        claim.reconcile_held(desk.ledger, number, coordinate, evidence, name)
        return done(desk, {"obligation_id": number}, f"obligation {number} is sent", as_json)


@ledger_command.command("close")
@click.argument("number", metavar="ID", type=int)
@click.option("--reason", default=None)
@operator_options
@json_option
@click.pass_context
def close_command(ctx: click.Context, number: int, reason: str | None, token_file: Path | None, as_json: bool) -> int:
    """Close an inbound that needs no answer, or a draft that nobody should decide on.

    \b
    Example:
      harness ledger close 412 --reason "settled by phone"
    """
    from harness.approval.inbound import close
    from harness.flows.desk import open_desk

    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        close(desk.ledger, number, who("closing an obligation", token_file, desk.operators).name, reason)
        return done(desk, {"obligation_id": number}, f"obligation {number} is closed", as_json)


@ledger_command.command("freeze")
@click.option("--reason", required=True)
@operator_options
@json_option
@click.pass_context
def freeze_command(ctx: click.Context, reason: str, token_file: Path | None, as_json: bool) -> int:
    """The stop button: nothing is claimed and nothing begins until `unfreeze`. What began before may still arrive.

    \b
    Example:
      harness ledger freeze --reason "wrong price list"
    """
    from harness.approval import freeze
    from harness.flows.desk import open_desk

    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        new = freeze.freeze(desk.ledger, who("stopping all sending", token_file, desk.operators).name, reason)
        return done(
            desk,
            {"frozen": True, "changed": new},
            "sending is frozen" if new else "sending was frozen already",
            as_json,
        )


@ledger_command.command("unfreeze")
@click.option("--reason", default=None)
@operator_options
@json_option
@click.pass_context
def unfreeze_command(ctx: click.Context, reason: str | None, token_file: Path | None, as_json: bool) -> int:
    """Let sending go on.

    \b
    Example:
      harness ledger unfreeze
    """
    from harness.approval import freeze
    from harness.flows.desk import open_desk

    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        new = freeze.unfreeze(desk.ledger, who("letting sending go on", token_file, desk.operators).name, reason)
        return done(
            desk, {"frozen": False, "changed": new}, "sending goes on" if new else "nothing was frozen", as_json
        )


@ledger_command.command("deliver")
@click.option("--once", is_flag=True, help="Send what is approved now, then end.")
@json_option
@click.pass_context
def deliver_command(ctx: click.Context, once: bool, as_json: bool) -> int:
    """Send what was approved, by deliver.command or deliver.webhook. Several workers may run at a time.

    Exit code 3 when an outcome is unknown: it is held, and a person reconciles it.

    \b
    Examples:
      harness ledger deliver --once
      harness ledger deliver
    """
    import signal

    from harness.approval import deliver
    from harness.flows.desk import open_desk

    refuse_clients("sending")
    stopped: list[int] = []
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda number, frame: stopped.append(number))
    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        store.catch_up()

        def bring_out() -> None:
            try:
                desk.export()
            except HarnessError as error:  # what was sent is recorded; git is told later
                click.echo(f"harness: the export waits: {error}", err=True)

        done = deliver.deliver(
            desk.ledger, desk.transport(), desk.channels, once=once, stop=lambda: bool(stopped), after_round=bring_out
        )
        bring_out()
    if as_json:
        print_json({"sent": done.sent, "unknown": done.unknown, "skipped": done.skipped})
    else:
        for number, where in done.sent.items():
            click.echo(f"sent {number}: {shown(where)}")
        for number, why in done.unknown.items():
            click.echo(f"unknown {number}: {shown(why)}; see `harness ledger held`", err=True)
        for number, why in done.skipped.items():
            click.echo(f"not sent {number}: {shown(why)}", err=True)
    return NEEDS_PERSON if done.unknown else 0


@ledger_command.command("sweep")
@json_option
@click.pass_context
def sweep_command(ctx: click.Context, as_json: bool) -> None:
    """Look at deadlines now: expire what nobody decided on in time, approve by deadline where the channel's policy says so.

    \b
    Example:
      harness ledger sweep
    """
    from harness.approval.sweep import sweep
    from harness.flows.desk import open_desk

    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        done = sweep(desk.ledger, desk.channels)
        desk.export()
    if as_json:
        print_json(vars(done))
        return
    click.echo(
        f"approved {len(done.approved)}, expired {len(done.expired)}, left to a person {len(done.kept)}", err=True
    )
