"""Undo: a new tick that takes back what an old one did. Text three-way, rows by a row that says they no longer count."""

from __future__ import annotations

import difflib
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from harness.errors import NEEDS_PERSON, HarnessError
from harness.flows.ledgers import UNDONE, undone
from harness.ids import ulid
from harness.loader import document
from harness.store import history
from harness.store.commit import Landed, Store
from harness.store.tick import ABSENT, Append, Delete, Replace, Tick, Write, sha256
from harness.store.tree import Tree

FEEDBACK: Final = "state/log/feedback.ndjson"
QUEUE: Final = "state/regen/queue.ndjson"


class CannotUndo(HarnessError):
    """The change can't be taken back by itself; what stands in the way is named."""

    exit_code = NEEDS_PERSON


@dataclass(frozen=True)
class Undone:
    """What an undo did: the entry that was taken back, the tick that did it, and the paths whose copy on disk was left."""

    entry: history.Entry
    landed: Landed
    text: list[str]
    rows: int


def undo(store: Store, name: str, reason: str = "", *, reopen: bool = False) -> Undone:
    """Take back the tick that ``name`` stands for. Raises CannotUndo with the lines in conflict, NoSuchTick, GateRefused.

    The gaps that a loader's regeneration had closed are withdrawn with it: what was taken back must not come again with the
    next drain. With ``reopen`` they are open again instead.
    """
    entry = history.find(store.git, name)
    if entry.kind is None:
        raise CannotUndo(
            f"{entry.short} was made by hand",
            "only ticks can be undone",
            f"revert it by hand: git revert {entry.short}",
        )
    if entry.kind == "install":
        raise CannotUndo(f"{entry.short} set up the workspace", "that is no lesson", "`harness uninstall` takes it out")
    if entry.kind in ("tune", "member", "consolidate") and not entry.is_lesson:
        todo = "an open proposal is settled with `harness tune reject ID`"
        raise CannotUndo(
            f"{entry.short} changed nothing that is in force", "it is a proposal, or a row of the scorecards", todo
        )
    now = store.tree
    before, after = Tree(store.git, entry.parents[0] if entry.parents else None), Tree(store.git, entry.commit)
    text: list[Write] = []
    conflicts: list[str] = []
    for path in _changed(store, entry):
        if path.endswith((".ndjson", ".jsonl", ".log")) or "/loader-feedback.log.d/" in path:
            continue
        try:
            alone = now.read(path) in (after.read(path), before.read(path))  # nothing came after it, or it is undone
            was = before.read(path) if alone else _before(path, before, after)
            write = _take_back(store, path, was, after.read(path), now.read(path))
        except _Conflict as error:
            conflicts.append(f"{path} line {', '.join(map(str, error.lines))}")
            continue
        text += [write] if write else []
    if conflicts:
        paths = sorted({one.partition(" line ")[0] for one in conflicts})
        later = store.git.text("log", "--abbrev=4", "--format=%h", f"{entry.commit}..HEAD", "--", *paths).split()
        raise CannotUndo(
            f"{entry.short} can't be taken back by itself",
            f"later changes ({', '.join(later[:5])}) touch the same lines: " + "; ".join(conflicts),
            "undo those first, or edit the file and commit it",
        )
    gone = undone(store)
    rows = [row for row in _rows(after, before, _changed(store, entry)) if row[1] not in gone]
    if not reopen:
        rows = [row for row in rows if row[0] != QUEUE]
        closed = entry.trailers.get("Closes", "").split()
        had = {str(r["id"]) for r in store.rows(FEEDBACK) if isinstance(r, dict)} if closed else set()
        rows += [(FEEDBACK, one) for one in closed if one in had and one not in gone]
    again = list(_taken_back(after, before))
    tick_id = ulid()
    writes: list[Write] = list(text)
    target = entry.trailers["Tick"]
    writes += [_undone_row(ledger, row, False, tick_id, reason) for ledger, row in rows if ledger != UNDONE]
    writes += [_undone_row(ledger, row, counts, tick_id, reason) for ledger, row, counts in again]
    if not writes:
        raise CannotUndo(
            f"{entry.short} is undone already", "nothing of it is left in force", f"see `harness show {entry.short}`"
        )
    trailers = {"Undoes": target, "Undoes-Commit": entry.commit}
    if skill := entry.trailers.get("Skill"):
        trailers = {"Skill": skill, **trailers}
    summary = _summary(store, entry)
    landed = store.commit(Tick("undo", summary, writes, trailers, reason, tick_id))
    return Undone(entry, landed, [w.path for w in text], len(rows) + len(again))


def _summary(store: Store, entry: history.Entry) -> str:
    """What the undo says in its first line. Undoing an undo names the lesson itself, however often it went to and fro."""
    verb, seen = "take back", entry
    while seen.kind == "undo" and (earlier := seen.trailers.get("Undoes-Commit")):
        try:
            seen = history.find(store.git, earlier)
        except history.NoSuchTick:
            break
        verb = "bring back" if verb == "take back" else "take back"
    return f"{verb} {seen.short}, {seen.subject}"


def _undone_row(ledger: str, row: str, again: bool, tick: str, reason: str) -> Append:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    value = {
        "id": ulid(),
        "ts": now,
        "ledger": ledger,
        "row": row,
        "again": again,
        "tick": tick,
        "reason": reason[:500],
    }
    return Append(UNDONE, value)


def _changed(store: Store, entry: history.Entry) -> list[str]:
    args = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-commit-id", "--root", entry.commit)
    return [p for p in store.git.run(*args).decode("utf-8", "surrogateescape").split("\0") if p]


class _Conflict(Exception):
    def __init__(self, lines: list[int]) -> None:
        self.lines = lines


def _take_back(store: Store, path: str, before: bytes | None, after: bytes | None, now: bytes | None) -> Write | None:
    """The write that turns ``now`` into ``now`` without the change from ``before`` to ``after``; None when that is no change."""
    if now == before or before == after:
        return None
    if now == after:
        if before is None:
            return Delete(path, sha256(now or b""))
        return Replace(path, before.decode("utf-8", "replace"), sha256(now) if now is not None else ABSENT)
    if now is None:
        raise _Conflict([1])
    try:
        merged = _merge(store, now, after or b"", before or b"")
    except _Conflict:
        less = _without(before or b"", after or b"", now)
        if less is None:
            raise
        merged = less
    return None if merged == now else Replace(path, merged.decode("utf-8", "replace"), sha256(now))


def _before(path: str, before: Tree, after: Tree) -> bytes | None:
    """What a file was before a tick. A loader that the tick made counts as one without lessons: others may stand in it now."""
    data = before.read(path)
    found = re.fullmatch(r"skills/([^/]+)/AGENTS\.md", path)
    if data is not None or found is None:
        return data
    footer = document.footer_of((after.read(path) or b"").decode("utf-8", "replace"))
    return document.new_loader(found[1], footer or "").encode()


def _without(before: bytes, after: bytes, now: bytes) -> bytes | None:
    """``now`` without the lines that a purely additive change brought, where each stands in it exactly once; else None."""
    old, new, lines = before.splitlines(True), after.splitlines(True), now.splitlines(True)
    gone: list[bytes] = []
    for tag, _, _, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "insert":
            gone += [line for line in new[j1:j2] if line.strip()]
        elif tag != "equal":
            return None
    if not gone or any(lines.count(line) != 1 for line in gone):
        return None
    return b"".join(line for line in lines if line not in gone)


def _merge(store: Store, ours: bytes, base: bytes, theirs: bytes) -> bytes:
    """Git's three-way merge of three texts; raises _Conflict with the lines of ``ours`` that are in the way."""
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for name, data in (("ours", ours), ("base", base), ("theirs", theirs)):
            place = Path(folder, name)
            place.write_bytes(data)
            names.append(str(place))
        out = store.git.run("merge-file", "-p", "-q", "--diff3", *names, ok=range(128))
    lines = list(_conflict_lines(out))
    if lines:
        raise _Conflict(lines)
    return out


def _conflict_lines(merged: bytes) -> Iterator[int]:
    number, side = 0, ""
    for line in merged.split(b"\n"):
        if line.startswith(b"<<<<<<< "):
            side = "ours"
            yield number + 1
        elif side and line.startswith(b"||||||| "):
            side = "base"
        elif side and line.startswith(b">>>>>>> "):
            side = ""
        elif side not in ("base", "theirs"):
            number += 1
        if side == "base" and line == b"=======":
            side = "theirs"


def _rows(after: Tree, before: Tree, changed: list[str]) -> Iterator[tuple[str, str]]:
    """(ledger, row id) of the rows that a commit added, wherever a roll has put them."""
    parts = sorted(p for p in changed if p.endswith((".ndjson", ".jsonl")))
    old = {line for part in parts for line in (before.read(part) or b"").split(b"\n")}
    for part in parts:
        ledger = part.partition(".ndjson.d/")[0] + ".ndjson" if ".ndjson.d/" in part else part
        for line in (after.read(part) or b"").split(b"\n"):
            if line and line not in old:
                yield ledger, str(json.loads(line)["id"])


def _taken_back(after: Tree, before: Tree) -> Iterator[tuple[str, str, bool]]:
    """(ledger, row id, whether it counts again) for the rows that an undo tick had taken back, or had made count again:
    undoing it turns each of them round."""
    new = {row_id for _, row_id in _rows(after, before, [UNDONE])}
    for row in after.rows(UNDONE):
        if isinstance(row, dict) and row["id"] in new:
            yield row["ledger"], row["row"], not row["again"]
