"""A tick: one transaction as pure data. It becomes one commit or nothing."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.ids import ulid

KINDS: Final = (
    "install", "feedback", "fix", "regen", "tune", "improve", "consolidate", "member", "distill", "draft", "decide",
    "taste", "eval", "ledger", "queue", "verdict", "undo", "import", "sync", "settings", "human",
)  # fmt: skip

ABSENT: Final = "absent"
"""The ``expect`` of a file that must not exist yet."""


@dataclass(frozen=True)
class Append:
    """Add one row to a ledger."""

    path: str
    row: Mapping[str, Any]

    @functools.cached_property
    def line(self) -> bytes:
        """The row as its line, so that what is judged is what is written. Raises ValueError, TypeError or RecursionError
        when it is no JSON."""
        return row_line(self.row)


@dataclass(frozen=True)
class Replace:
    """Write a whole text file; ``expect`` is the SHA-256 of the committed bytes it was made from, or ABSENT."""

    path: str
    text: str
    expect: str


@dataclass(frozen=True)
class Delete:
    """Remove a file whose committed bytes have the SHA-256 ``expect``."""

    path: str
    expect: str


@dataclass(frozen=True)
class Take:
    """Commit bytes that others have already put on disk (an agent-appended log); the work tree is never written.

    ``data`` is the file's committed content from now on and must continue what is committed. Rewriting such a file on
    disk would lose lines that are appended meanwhile, so this is the only write that leaves the disk alone.
    """

    path: str
    data: bytes
    expect: str


Write = Append | Replace | Delete | Take


@dataclass(frozen=True)
class Tick:
    """A set of writes that pass the gate together and become one commit.

    ``kind`` is one of KINDS, ``summary`` the subject line without the kind, ``trailers`` git trailers (one line
    each), ``body`` the paragraph between. The caller mints ids, so that a trailer can name its row.
    """

    kind: str
    summary: str
    writes: Sequence[Write]
    trailers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    id: str = field(default_factory=ulid)

    def message(self) -> str:
        """The commit message. Text from outside can't forge a trailer: it is folded to one line or indented."""
        subject = one_line(self.summary)[:200]
        scope = self.trailers.get("Skill")
        head = f"{self.kind}({one_line(scope)}): {subject}" if scope else f"{self.kind}: {subject}"
        trailers = {"Tick": self.id, "Kind": self.kind, **self.trailers}
        lines = [f"{key}: {one_line(str(value))[:4000]}" for key, value in trailers.items()]
        body = _harmless(self.body)
        return "\n\n".join(part for part in (head, body, "\n".join(lines)) if part) + "\n"


def one_line(text: str) -> str:
    """``text`` with every run of white space and control characters folded to one space."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _harmless(body: str) -> str:
    """``body`` with each line that git could read as a trailer, or as a divider before one, set in by a space."""
    lines = []
    for raw in body.strip().splitlines():
        line = "".join(c if c.isprintable() or c == "\t" else " " for c in raw).rstrip()
        token = line.split(":", 1)[0]
        looks = ":" in line and token and all(c.isalnum() or c == "-" for c in token)
        lines.append(" " + line if looks or line.startswith(("---", "(cherry picked")) else line)
    return "\n".join(lines)


_compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def row_line(row: Mapping[str, Any]) -> bytes:
    """A row as its line: compact JSON, UTF-8, one trailing newline. Lone surrogates become U+FFFD."""
    text = _compact.encode(row)
    return (
        text.encode("utf-8", "replace" if text.isascii() else "surrogatepass").decode("utf-8", "replace").encode()
        + b"\n"
    )


def sha256(data: bytes) -> str:
    """The SHA-256 of ``data`` in hex: what ``expect`` compares."""
    return hashlib.sha256(data).hexdigest()


def encode(tick: Tick) -> dict[str, Any]:
    """``tick`` as a JSON value that ``decode`` turns back into an equal tick (for the journal and the deferred folder)."""
    writes: list[dict[str, Any]] = []
    for write in tick.writes:
        match write:
            case Append(path, row):
                writes.append({"append": path, "row": dict(row)})
            case Replace(path, text, expect):
                writes.append({"replace": path, "text": text, "expect": expect})
            case Delete(path, expect):
                writes.append({"delete": path, "expect": expect})
            case Take(path, data, expect):
                writes.append({"take": path, "data": data.decode("utf-8", "surrogateescape"), "expect": expect})
    return {
        "id": tick.id, "kind": tick.kind, "summary": tick.summary, "body": tick.body,
        "trailers": dict(tick.trailers), "writes": writes,
    }  # fmt: skip


def decode(value: Mapping[str, Any]) -> Tick:
    """The tick that ``encode`` turned into ``value``."""
    writes: list[Write] = []
    for w in value["writes"]:
        if "append" in w:
            writes.append(Append(w["append"], w["row"]))
        elif "replace" in w:
            writes.append(Replace(w["replace"], w["text"], w["expect"]))
        elif "delete" in w:
            writes.append(Delete(w["delete"], w["expect"]))
        else:
            writes.append(Take(w["take"], w["data"].encode("utf-8", "surrogateescape"), w["expect"]))
    return Tick(value["kind"], value["summary"], writes, value["trailers"], value["body"], value["id"])
