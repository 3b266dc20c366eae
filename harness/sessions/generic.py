"""A plain form for other agents, and for tests: a JSON line a node, ``{id, role, content, predecessor, caller, …}``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from harness.sessions.account import Account
from harness.sessions.build import Builder, dumped, duplicate, numbers, when
from harness.sessions.graph import KEEP, Node, Session
from harness.sessions.lines import records

CLIENT: Final = "generic"


def roots(env: Mapping[str, str]) -> list[Path]:
    """None: such files are named."""
    return []


def sessions(root: Path) -> Iterator[Path]:
    """The files in ``root``."""
    return iter(sorted(root.glob("*.jsonl")))


def fits(data: Mapping[str, Any]) -> bool:
    """Whether ``data`` is a node."""
    return data.get("role") in ("user", "assistant", "tool") and "content" in data


def is_record(data: dict[str, Any]) -> bool:
    """Whether an object inside a broken line is a line of its own."""
    return fits(data) and "id" in data


def read(path: Path, keep: int = KEEP) -> Session:
    """The session in ``path``. Raises NotATranscript and OSError."""
    session = Session(id=path.stem, client=CLIENT, path=str(path))
    builder, account = Builder(session, keep), Account()
    session.accounts[path.name] = account
    seen: dict[str, Node] = {}
    for record in records(path, is_record, account):
        data = record.data
        name = data.get("id") if isinstance(data.get("id"), str) else ""
        if name and name in seen:
            duplicate(account, record.line)
            continue
        if not fits(data):
            account.odd["no node"] += 1
            continue
        node = _node(data, record.line, builder, seen, account)
        node.mended = record.mended
        if name:
            seen[name] = node
    return session


def _node(data: dict[str, Any], line: int, builder: Builder, seen: dict[str, Node], account: Account) -> Node:
    name = data["id"] if isinstance(data.get("id"), str) else ""
    text = dumped(data.get("content"))
    before, caller = _link(data, "predecessor", line, seen, account), _link(data, "caller", line, seen, account)
    if data["role"] == "tool":
        turn = caller or builder.last_turn()
        node = builder.call(turn, line, name, str(data.get("name") or "tool"), data.get("input"))
        node.output, node.ok = builder.text(text), data.get("ok") is not False
        return node
    last = builder.last_turn()
    follows = before or (None if data.get("predecessor", "") is None and "predecessor" in data else last)
    node = builder.add(
        data["role"], "turn", line, name, predecessor=follows.id if follows else None, output=builder.text(text),
        ts=when(data.get("ts")), usage=numbers(data.get("usage")),
    )  # fmt: skip
    if not builder.session.title and data["role"] == "user":
        builder.session.title = " ".join(text[:400].split())[:80]
    return node


def _link(data: dict[str, Any], field: str, line: int, seen: dict[str, Node], account: Account) -> Node | None:
    target = data.get(field)
    if not isinstance(target, str) or not target:
        return None
    if target == data.get("id"):
        account.notes.append(f"line {line}: it is its own {field} (a circle); put in file order")
        return None
    if target not in seen:
        account.notes.append(f"line {line}: its {field} is not before it in the file; put in file order")
    return seen.get(target)
