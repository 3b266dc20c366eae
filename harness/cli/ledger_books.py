"""`ledger export … operator`: git's copy, proving, building and moving a ledger, who decides by token."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from harness.cli.common import json_option, print_json, shown, table, workspace
from harness.cli.ledger_group import ledger_command
from harness.cli.operator import operator_options, refuse_clients, who
from harness.errors import BUSY, FAILED, NEEDS_PERSON
from harness.store.commit import Store


@ledger_command.command("export")
@json_option
@click.pass_context
def export_command(ctx: click.Context, as_json: bool) -> int:
    """Bring what happened into git now. Every command that changes something does it by itself.

    \b
    Example:
      harness ledger export
    """
    from harness.flows.desk import open_desk

    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        done = desk.export()
    if as_json:
        print_json(vars(done))
    else:
        click.echo(f"exported {done.rows} rows" + (f"; the rest waits: {done.waits}" if done.waits else ""), err=True)
    return BUSY if done.waits else 0


@ledger_command.command("verify")
@json_option
@click.pass_context
def verify_command(ctx: click.Context, as_json: bool) -> int:
    """Hold the database against its own hashes, its outbox and the export in git. Exit code 1 when something differs.

    \b
    Example:
      harness ledger verify
    """
    from harness.flows.approvals import verify
    from harness.flows.desk import open_desk

    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        found = verify(store, desk.ledger)
    if as_json:
        print_json({"findings": [vars(one) for one in found]})
    else:
        for one in found:
            click.echo(f"{shown(one.where)}: {shown(one.what)}")
        click.echo(f"{len(found)} findings" if found else "the ledger, its hashes and its export agree", err=True)
    return FAILED if found else 0


@ledger_command.command("proof")
@click.argument("number", metavar="ID", type=int)
@click.option(
    "--out", type=click.Path(path_type=Path), default=None, help="Write it there instead of to standard output."
)
@click.pass_context
def proof_command(ctx: click.Context, number: int, out: Path | None) -> None:
    """One file that proves who approved which bytes when, and where they arrived; git and sha256sum check it.

    \b
    Example:
      harness ledger proof 431 --out 431.proof
    """
    from harness.flows.approvals import prove
    from harness.flows.desk import open_desk

    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        made = prove(store, desk.ledger, number)
    if out is None:
        sys.stdout.buffer.write(made)
    else:
        out.write_bytes(made)
        click.echo(f"{out}: {len(made):,} bytes", err=True)


@ledger_command.command("rebuild")
@operator_options
@json_option
@click.pass_context
def rebuild_command(ctx: click.Context, token_file: Path | None, as_json: bool) -> int:
    """Make the ledger anew from its export in git. An old file is moved aside. It can't send anything: what was approved
    and not delivered is held as unknown, and what waits for a decision is marked.

    \b
    Example:
      harness ledger rebuild
    """
    from harness.approval.ledger import open_ledger
    from harness.flows.approvals import export, rebuild
    from harness.flows.desk import ledger_place, operators

    with Store(workspace(ctx)) as store:
        store.catch_up()
        who("rebuilding the ledger", token_file, operators(store))
        place = ledger_place(store.workspace, store.settings, os.environ)
        done, held = rebuild(store, place)
        with open_ledger(place) as ledger:
            export(store, ledger)
    return _came_over(done.obligations, done.problems, held, as_json)


@ledger_command.command("migrate")
@click.option(
    "--from", "source", required=True, metavar="PLACE", help="A ledger's file or address; a reference ledger's file."
)
@click.option("--to", "target", required=True, metavar="PLACE", help="A new file, or the address of an empty database.")
@json_option
@click.pass_context
def migrate_command(ctx: click.Context, source: str, target: str, as_json: bool) -> int:
    """Take a ledger over into a new one, and verify it. The old one is frozen: nothing is sent from two.

    Exit code 3 when a person must look at something: a decision without a snapshot grants nothing, and permission is never
    made from a draft that may have changed.

    \b
    Example:
      harness ledger migrate --from .harness/.git/harness/ledger.db --to postgresql://localhost/ledger
    """
    from harness.approval import verify
    from harness.approval.ledger import open_ledger
    from harness.approval.migrate import migrate

    refuse_clients("moving a ledger")
    done = migrate(source, target)
    with open_ledger(target) as made:
        found = [*verify.hashes(made), *verify.outbox(made)]
    return _came_over(done.obligations, [*done.problems, *((one.where, one.what) for one in found)], [], as_json)


def _came_over(count: int, problems: list[tuple[str, str]], held: list[int], as_json: bool) -> int:
    if as_json:
        print_json({"obligations": count, "problems": [{"where": a, "what": b} for a, b in problems], "held": held})
    else:
        click.echo(
            f"{count} obligations came over" + (f"; held as unknown: {', '.join(map(str, held))}" if held else ""),
            err=True,
        )
        for where, what in problems:
            click.echo(f"  {shown(where)}: {shown(what)}", err=True)
    return NEEDS_PERSON if problems or held else 0


@ledger_command.command("limits")
@json_option
def limits_command(as_json: bool) -> None:
    """Every limit of the ledger.

    \b
    Example:
      harness ledger limits
    """
    from harness.approval.limits import as_dict

    limits = as_dict()
    print_json(limits) if as_json else table([(name, f"{value:,}") for name, value in limits.items()], indent="")


@ledger_command.command("sla")
@click.option(
    "--late", type=click.IntRange(0), default=None, metavar="SECONDS", help="Only what waits longer than this."
)
@json_option
@click.pass_context
def sla_command(ctx: click.Context, late: int | None, as_json: bool) -> None:
    """How long answers took: inbound to draft, to decision, to delivery, in seconds.

    \b
    Examples:
      harness ledger sla
      harness ledger sla --late 86400
    """
    from harness.approval import status
    from harness.flows.desk import open_desk

    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        rows = status.latencies(desk.ledger) if late is None else status.answered_late(desk.ledger, late)
    if as_json:
        print_json(rows)
        return
    names = ("inbound_id", "answer_id", "to_draft", "to_decision", "to_delivery", "to_answer", "counterparty")
    table([names, *(tuple("" if r[name] is None else shown(str(r[name])) for name in names) for r in rows)])


@ledger_command.command("operator")
@click.argument("name")
@click.option(
    "--token-out", type=click.Path(path_type=Path), help="Where the token goes (default: ~/.config/harness/NAME.token)."
)
@click.option("--revoke", is_flag=True, help="This operator's token counts no more.")
@json_option
@click.pass_context
def operator_command(ctx: click.Context, name: str, token_out: Path | None, revoke: bool, as_json: bool) -> None:
    """Give the operator NAME a token, or take it away. Only its hash is kept in the workspace.

    \b
    Examples:
      harness ledger operator ada
      harness ledger operator ada --revoke
    """
    from harness.flows.approvals import set_operator

    operator = who("naming operators", None, ())
    target = token_out or Path(os.path.expanduser("~/.config/harness")) / f"{name}.token"
    with Store(workspace(ctx)) as store:
        store.catch_up()
        set_operator(store, name, None if revoke else target, operator.name)
    if as_json:
        print_json({"operator": name, "revoked": revoke, "token_file": None if revoke else str(target)})
    else:
        click.echo(f"{name}'s token counts no more" if revoke else f"{name}'s token is in {target}", err=True)
