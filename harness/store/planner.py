"""From a tick to the bytes of each file it changes: pure, given a way to read what is committed."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.store.errors import Stale
from harness.store.tick import ABSENT, Append, Delete, Replace, Take, Tick, sha256

SEGMENT_BYTES: Final = 64 * 1024

Read = Callable[[str], bytes | None]
ListNames = Callable[[str], Sequence[str]]


@dataclass
class Plan:
    """What a tick does to files.

    ``changes`` has the new bytes by path (None: deleted). ``old`` has the bytes before. ``moves`` says which active
    ledger was sealed as which segment, so that the work tree can rename instead of rewrite. ``taken`` are paths whose
    work-tree copy is never written.
    """

    changes: dict[str, bytes | None] = field(default_factory=dict)
    old: dict[str, bytes | None] = field(default_factory=dict)
    moves: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)


def plan(tick: Tick, read: Read, names: ListNames) -> Plan:
    """The plan of ``tick``; raises Stale when a replaced file isn't what the change was made from."""
    out, names = Plan(), functools.cache(names)
    growing: dict[str, bytearray] = {}

    def now(path: str) -> bytes | None:
        if path in growing:
            return bytes(growing[path])
        if path in out.changes:
            return out.changes[path]
        out.old.setdefault(path, read(path))
        return out.old[path]

    for write in tick.writes:
        match write:
            case Append(path):
                if path not in growing:
                    growing[path] = bytearray(now(path) or b"")
                body, line = growing[path], write.line
                if body and len(body) + len(line) > SEGMENT_BYTES:
                    segment = segment_name(path, bytes(body), names(path + ".d"), out)
                    out.old.setdefault(segment, None)
                    out.changes[segment] = bytes(body)
                    out.moves.setdefault(path, segment)
                    body.clear()
                if body and not body.endswith(b"\n"):
                    body += b"\n"
                body += line
            case Replace(path, text, expect):
                _expected(path, now(path), expect)
                out.changes[path] = text.encode("utf-8", "replace")
            case Delete(path, expect):
                _expected(path, now(path), expect)
                out.changes[path] = None
            case Take(path, data, expect):
                _expected(path, now(path), expect)
                out.changes[path] = data
                out.taken.add(path)
    out.changes |= {path: bytes(body) for path, body in growing.items()}
    for path in [p for p, data in out.changes.items() if data == out.old[p]]:
        del out.changes[path]  # an empty commit says nothing
    return out


def _expected(path: str, current: bytes | None, expect: str) -> None:
    found = ABSENT if current is None else sha256(current)
    if found != expect:
        raise Stale(
            f"{path} has changed meanwhile",
            f"expected {expect[:12]}, found {found[:12]}",
            "make the change again from the current text",
        )


def segment_name(path: str, body: bytes, existing: Sequence[str], planned: Plan) -> str:
    """Where the active ledger ``path`` with the bytes ``body`` is sealed: ``PATH.d/<id of its first row>.ndjson``.

    Segments are read in the order of their names. When the clock went back, the first id sorts before the last
    segment; the name is then that segment's with a number behind it, so that row order stays file order.
    """
    try:
        first = str(json.loads(body.partition(b"\n")[0])["id"])
    except (ValueError, KeyError, TypeError):
        first = ""
    if not re.fullmatch(r"[0-9A-Za-z._-]{1,100}", first):
        first = sha256(body)[:26].upper()
    taken = [*existing, *(p.rpartition("/")[2] for p in planned.changes if p.startswith(path + ".d/"))]
    last = max(taken, default="")
    name = f"{first}.ndjson"
    if name <= last:
        stem = last.removesuffix(".ndjson")
        base, _, number = stem.rpartition("~")
        # "~" sorts after "." and after everything that an id is made of.
        name = f"{base}~{int(number) + 1:06}.ndjson" if base and number.isdecimal() else f"{stem}~000001.ndjson"
    return f"{path}.d/{name}"
