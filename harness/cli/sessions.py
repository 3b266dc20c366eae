"""`sessions`: list, read, check, dump and follow what agents' clients wrote."""

from __future__ import annotations

import json
import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from harness.cli.common import ago, json_option, print_json, shown, table, workspace
from harness.errors import FAILED, HarnessError
from harness.sessions import reader
from harness.sessions.graph import Node, Session
from harness.sessions.pieces import Caps
from harness.sessions.render import DEFAULT, render_session

_SHOWN = 20
_PAUSE = 0.5  # seconds between two looks at a file that is followed


@click.group("sessions")
def sessions_command() -> None:
    """Sessions of Claude Code, Codex and Gemini CLI on this machine: what was said, called and answered.

    \b
    Examples:
      harness sessions list
      harness sessions read 6f0d2c3e --turns -4:
      harness sessions check transcript.jsonl
    """


@sessions_command.command("list")
@click.option(
    "--all", "everything", is_flag=True, help=f"All of them, not the newest {_SHOWN}; with the folders looked at."
)
@click.option("--here", is_flag=True, help="Only sessions that ran in this folder or below it.")
@json_option
def list_command(everything: bool, here: bool, as_json: bool) -> None:
    """Sessions, newest first: id, client, turns, characters, busy or idle, first prompt; and each other branch as SID:HEAD.

    \b
    Examples:
      harness sessions list
      harness sessions list --all --json
    """
    found, places = reader.find_all(os.environ)
    gone = reader.gone(os.environ)
    out: list[dict[str, Any]] = []
    for one in found:
        if len(out) >= _SHOWN and not everything:
            break
        facts = _facts(one)
        if here and not (facts["cwd"] and Path.cwd() in (Path(facts["cwd"]), *Path(facts["cwd"]).parents)):
            continue
        out.append(facts)
    if as_json:
        folders = [{"folder": str(root), "found": what} for root, what in places]
        print_json({"sessions": out, "of": len(found), "places": folders, "gone": gone})
        return
    rows = []
    for facts in out:
        size = "unreadable" if facts["error"] else f"{facts['turns']} turns, {facts['characters']:,} characters"
        rows.append(
            [
                facts["id"],
                facts["client"],
                f"{ago(facts['written'])} ago",
                facts["state"],
                size,
                shown(facts["error"] or facts["title"]),
            ]
        )
        rows += [[f"  {tip}", "", "", "", "", "branch"] for tip in facts["branches"][:-1]]
    table(rows, indent="")
    if len(out) < len(found) and not here:
        click.echo(f"{len(found) - len(out)} older sessions: --all", err=True)
    if everything or not out:
        for root, what in places:
            click.echo(f"looked in {root}: {what}", err=True)
    if gone:
        click.echo(f"{len(gone)} sessions that the client's index names are gone: {', '.join(gone[:5])}", err=True)


def _facts(one: reader.Found) -> dict[str, Any]:
    written = datetime.fromtimestamp(one.mtime, UTC).isoformat(timespec="seconds")
    facts: dict[str, Any] = {
        "id": one.id,
        "client": reader.reader(one.client).CLIENT,
        "path": str(one.path),
        "bytes": one.size,
        "written": written,
        "error": None,
    }
    try:
        session = reader.reader(one.client).read(one.path, 2_000)
    except (HarnessError, OSError) as error:
        return facts | {
            "error": str(error),
            "cwd": "",
            "title": "",
            "turns": 0,
            "characters": 0,
            "state": "",
            "branches": [],
        }
    turns = [n for n in session.nodes if n.kind == "turn" and not n.thread]
    characters = sum(n.input.size + n.output.size for n in session.nodes)
    return facts | {
        "cwd": session.cwd, "title": session.title, "turns": len(turns), "characters": characters, "state": _state(session, one.mtime),
        "branches": [f"{one.id}:{tip.id}" for tip in session.tips()], "usage": dict(session.usage()),
    }  # fmt: skip


def _state(session: Session, mtime: float) -> str:
    """Busy: written a moment ago, or a short while ago with a call that has no answer yet."""
    age = time.time() - mtime
    calls = [n for n in session.nodes if n.kind == "call"]
    waits = bool(calls) and calls[-1].ok is None
    return "busy" if age < 60 or (waits and age < 900) else "idle"


@sessions_command.command("read")
@click.argument("session", metavar="[SID[:HEAD]|FILE]", default="")
@click.option(
    "--turns",
    "turns",
    metavar="A:B",
    default="",
    help="From turn A to turn B, both included; negatives count from the end.",
)
@click.option("--item", type=click.IntRange(0), default=0, help="Begin with this item of the first turn.")
@click.option("--no-calls", is_flag=True, help="Only what was said.")
@click.option(
    "--max-chars",
    type=click.IntRange(0),
    default=DEFAULT,
    show_default=True,
    help="Never more (at least 1,000; 0: no limit).",
)
@click.option("--format", "form", type=click.Choice(["text", "md", "html", "json"]), default="text", show_default=True)
@click.option(
    "--turn-chars", type=click.IntRange(0), default=Caps.turn, show_default=True, help="Characters of one turn."
)
@click.option(
    "--args-chars",
    type=click.IntRange(0),
    default=Caps.arguments,
    show_default=True,
    help="Characters of a call's arguments.",
)
@click.option(
    "--result-chars", type=click.IntRange(0), default=Caps.result, show_default=True, help="Characters of a result."
)
def read_command(
    session: str,
    turns: str,
    item: int,
    no_calls: bool,
    max_chars: int,
    form: str,
    turn_chars: int,
    args_chars: int,
    result_chars: int,
) -> int:
    """A page of a session (inside a client: of this one, unless you name another). It ends with the command that reads on.

    \b
    Examples:
      harness sessions read 6f0d2c3e
      harness sessions read 6f0d2c3e --turns 12:20 --max-chars 20000
      harness sessions read transcript.jsonl --format html > session.html
    """
    start, end = _range(turns)
    text = render_session(
        session, start_turn=start, end_turn=end, include_function_calls=not no_calls, max_chars=max_chars, start_item=item, format=form,
        caps=Caps(turn_chars, args_chars, result_chars),
    )  # fmt: skip
    click.echo(text, nl=False)
    return FAILED if re.match(r'(?:<p>|\{"notice": ")?no (?:such session|session is named)', text) else 0


def _range(turns: str) -> tuple[int, int]:
    try:
        first, colon, last = turns.partition(":")
        start = int(first) if first else 0
        return (start, int(last) if last else 0) if colon else (start, start)
    except ValueError:
        raise click.UsageError(f"--turns {turns!r} is no range; write 3:7, 3:, :7, -4: or 5") from None


@sessions_command.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE|SID...")
@json_option
def check_command(files: tuple[str, ...], as_json: bool) -> int:
    """The loss account of each file: lines, records, what was recovered, repeated or dropped. Exit code 1 when anything was dropped.

    \b
    Example:
      harness sessions check ~/.claude/projects/-home-dev-shop/*.jsonl
    """
    out: list[dict[str, Any]] = []
    lost = False
    for name in files:
        try:
            session = reader.read(reader.locate(name, os.environ))
        except (HarnessError, OSError) as error:
            lost = True
            out.append({"file": name, "error": str(error)})
            if not as_json:
                click.echo(f"{name}: {shown(str(error))}", err=True)
            continue
        lost = lost or any(account.dropped for account in session.accounts.values())
        accounts = {file: account.as_dict() for file, account in session.accounts.items()}
        out.append({"file": name, "client": session.client, "accounts": accounts, "missing": session.missing})
        if not as_json:
            _print_account(name, session)
    if as_json:
        print_json(out)
    return FAILED if lost else 0


def _print_account(name: str, session: Session) -> None:
    for file, account in session.accounts.items():
        click.echo(
            f"{name if len(session.accounts) == 1 else f'{name} ({file})'}: {account.lines} lines, {account.records} records, "
            f"{len(account.recovered)} recovered, {len(account.duplicates)} repeats, {len(account.dropped)} dropped"
        )
        for line, how in account.recovered[:20]:
            click.echo(f"  line {line}: recovered, {how}")
        for one in account.dropped[:20]:
            click.echo(f"  line {one.line}: dropped {one.bytes} bytes, {one.reason}")
        if account.incomplete:
            click.echo(
                f"  line {account.incomplete.line}: last line incomplete, {account.incomplete.bytes} bytes; it may still be written"
            )
        for kind, count in sorted(account.odd.items()):
            click.echo(f"  odd: {count} {shown(kind)}")
        for note in account.notes[:20]:
            click.echo(f"  {shown(note)}")
    for agent in session.missing:
        click.echo(f"  the file of subagent {shown(agent)} is missing")


@sessions_command.command("dump")
@click.argument("session", metavar="SID|FILE")
@json_option
def dump_command(session: str, as_json: bool) -> None:
    """The graph, for debugging: each node with its edges, its thread and its line. Texts are not shown.

    \b
    Example:
      harness sessions dump transcript.jsonl
    """
    found = reader.read(reader.locate(session, os.environ))
    for node in found.nodes:
        facts = _node(node)
        if as_json:
            click.echo(json.dumps(facts, ensure_ascii=True))
            continue
        edges = " ".join(f"{k}={facts[k]}" for k in ("predecessor", "caller", "child", "thread") if facts[k])
        click.echo(
            shown(
                f"{node.seq:>6} line {node.line:<6} {node.role:<9} {node.kind:<8} {node.id}  {node.name or node.label}  {edges}"
            )
        )


def _node(node: Node) -> dict[str, Any]:
    plain = (
        "id",
        "seq",
        "line",
        "role",
        "kind",
        "name",
        "label",
        "predecessor",
        "caller",
        "child",
        "thread",
        "ok",
        "ts",
        "usage",
        "mended",
    )
    return {name: getattr(node, name) for name in plain} | {"input": node.input.size, "output": node.output.size}


@sessions_command.command("keep")
@click.argument("session", metavar="SID|FILE")
@click.option("--turns", "turns", metavar="A:B", default="", help="Only these turns.")
@json_option
@click.pass_context
def keep_command(ctx: click.Context, session: str, turns: str, as_json: bool) -> None:
    """Keep an excerpt in the workspace, without secrets and personal data: clients delete their sessions after a while.

    \b
    Example:
      harness sessions keep 6f0d2c3e --turns 12:20
    """
    from harness.flows.keep import keep
    from harness.store.commit import Store

    start, end = _range(turns)
    with Store(workspace(ctx)) as store:
        done = keep(store, reader.locate(session, os.environ), start, end)
    if as_json:
        print_json(vars(done))
        return
    taken = ", ".join(f"{n} {name}" for name, n in done.removed.items())
    click.echo(
        f"kept in {done.path}" + (f"; taken out: {taken}" if taken else "")
        if done.commit
        else f"{done.path} is kept already"
    )


@sessions_command.command("tail")
@click.argument("session", metavar="SID|FILE")
@click.option("--turns", "count", type=click.IntRange(1), default=4, show_default=True, help="Turns to begin with.")
@click.option("--no-follow", is_flag=True, help="Stop after them.")
def tail_command(session: str, count: int, no_follow: bool) -> None:
    """The last turns of a session, and each new one when it is complete, until you stop it.

    \b
    Example:
      harness sessions tail 6f0d2c3e
    """
    path = reader.locate(session, os.environ)
    done, size = _complete(reader.read(path), resting=no_follow), path.stat().st_size
    if done:
        click.echo(render_session(str(path), start_turn=max(1, done - count + 1), end_turn=done, max_chars=0), nl=False)
    while not no_follow:
        time.sleep(_PAUSE)
        now = path.stat().st_size
        # A turn whose calls may still come is shown once the file has rested.
        whole = _complete(reader.read(path), resting=now == size)
        size = now
        if whole > done:
            click.echo(render_session(str(path), start_turn=done + 1, end_turn=whole, max_chars=0), nl=False)
            done = whole


def _complete(session: Session, *, resting: bool) -> int:
    """How many turns of the active branch are whole: the last one counts when nothing is being written and no call waits."""
    turns = [n for n in session.branch() if n.kind == "turn"]
    waits = bool(turns) and any(n.kind == "call" and n.ok is None for n in session.called_by(turns[-1].id))
    return len(turns) - (bool(turns) and (waits or not resting))
