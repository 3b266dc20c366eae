"""What readers share: putting nodes into a session, tying results to calls, and naming what does not fit."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any, Final

from harness.sessions.account import Account
from harness.sessions.graph import KEEP, Kind, Node, Role, Session, Text

_QUOTED: Final = json.encoder.encode_basestring
_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class Builder:
    """Nodes of one session in the order in which they come."""

    def __init__(self, session: Session, keep: int = KEEP) -> None:
        self.session, self.keep = session, keep
        self._ids: set[str] = set()
        self._open: dict[str, list[Node]] = {}
        self._last_turn: dict[str, Node] = {}

    def add(self, role: Role, kind: Kind, line: int, node_id: str = "", **more: Any) -> Node:
        """A new node at the end; an id that is taken or empty gets one of its own."""
        seq = len(self.session.nodes) + 1
        name = node_id or f"n{seq}"
        if name in self._ids:
            name = f"{name}.{seq}"
        self._ids.add(name)
        node = Node(id=name, seq=seq, role=role, kind=kind, line=line, **more)
        self.session.nodes.append(node)
        if kind in ("turn", "summary"):
            self._last_turn[node.thread] = node
        return node

    def last_turn(self, thread: str = "") -> Node | None:
        """The turn of ``thread`` that came last."""
        return self._last_turn.get(thread)

    def call(self, turn: Node | None, line: int, tool_id: str, name: str, arguments: Any, **more: Any) -> Node:
        """A call that ``turn`` made; a result with ``tool_id`` is its answer."""
        node = self.add(
            "tool",
            "call",
            line,
            tool_id,
            caller=turn.id if turn else None,
            name=name,
            input=self.text(dumped(arguments)),
            **more,
        )
        self._open.setdefault(tool_id, []).append(node)
        return node

    def result(self, tool_id: str, line: int, output: str, ok: bool, turn: Node | None, **more: Any) -> Node:
        """The answer to the last call with ``tool_id`` before it; a second answer is kept beside the first, and one without a
        call is a node of its own."""
        calls = self._open.get(tool_id)
        if not calls:
            thread = more.get("thread", "")
            orphan = self.add(
                "tool", "call", line, caller=turn.id if turn else None, name="result without a call", output=self.text(output), ok=ok,
                label="orphan", thread=thread,
            )  # fmt: skip
            return orphan
        call = calls[-1]
        if call.ok is None:
            call.ok, call.output = ok, self.text(output)
        elif output not in (call.output.head, *(t.head for t in call.extra)):
            call.extra = (*call.extra, self.text(output))
            call.ok = call.ok and ok
        return call

    def text(self, text: str) -> Text:
        """``text`` clipped to what is kept."""
        size = len(text)
        return Text(text, "", size) if size <= self.keep else Text.of(text, self.keep)

    def more(self, node: Node, text: str) -> None:
        """Add a paragraph to what a turn says."""
        if not text:
            return
        if not node.output:
            node.output = self.text(text)
        elif node.output.left_out:
            node.output = Text(
                node.output.head,
                Text.of(node.output.tail + "\n" + text).tail or text[-self.keep // 3 :],
                node.output.size + len(text) + 1,
            )
        else:
            node.output = self.text(node.output.head + "\n" + text)


def dumped(value: Any) -> str:
    """Arguments as one line of strict JSON; text stays text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, dict) and all(type(v) is str for v in value.values()):
        # By far the most arguments are a few strings; an encoder that is made for each call takes five times as long.
        return "{" + ", ".join([f"{_QUOTED(k)}: {_QUOTED(v)}" for k, v in value.items()]) + "}"
    try:
        return _ENCODE(value)
    except RecursionError:
        return "[nested too deep to show]"
    except ValueError:
        return _ENCODE(strict(value))


def strict(value: Any) -> Any:
    """``value`` without numbers that JSON doesn't have: NaN and the infinities become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(k): strict(v) for k, v in value.items()}
    if isinstance(value, list):
        return [strict(v) for v in value]
    return value


def media(kind: str, media_type: Any, data: Any) -> str:
    """One short line for an image or a document."""
    size = f", {len(data) * 3 // 4:,} bytes" if isinstance(data, str) else ""
    return f"[{kind}: {media_type if isinstance(media_type, str) else 'of unknown type'}{size}]"


def when(value: Any) -> str | None:
    """A time stamp as it stands when it is one: ISO 8601, or a number of milliseconds."""
    try:
        if isinstance(value, str):
            datetime.fromisoformat(value)
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None
    return None


def numbers(usage: Any) -> dict[str, int] | None:
    """The counts of tokens in a client's record of usage."""
    if not isinstance(usage, dict):
        return None
    return {k: v for k, v in usage.items() if isinstance(v, int) and not isinstance(v, bool)} or None


def duplicate(account: Account, line: int) -> None:
    """Count a record that stood in the session already."""
    account.duplicates.append(line)
