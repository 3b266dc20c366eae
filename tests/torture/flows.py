"""Observe, rotation, drain and undo: how they are prepared, made, and judged."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness import workspace
from harness.ids import ulid
from harness.store.commit import Store

from .common import LINES, SESSION, append, command, once, tick
from .place import FEEDBACK, LOADER, LOG, QUARANTINE, QUEUE, RUNS, UNDONE, Seen, git

FIX: Final = "# aeo\n\n## Rules\n\n- always name the field\n"


def observe_prepare(root: Path) -> None:
    append(root, *(f"aeo: {text} [LOGGED]" for text in LINES["aeo"]), "aeo: always name the field [FIXED]", "garbage")
    spool = root / ".git/harness/spool"
    note = {"harness_note": "skill", "ts": "2026-11-30T21:48:00.000Z", "skill": "aeo", "name": "aeo", "via": "model",
            "session": SESSION, "turn": "p1", "agent_id": None, "tool_use_id": "t1", "base_sha256": None,
            "overlay_sha256": None, "loader_sha256": None}  # fmt: skip
    (spool / f"n-{ulid()}.json").write_text(json.dumps(note))
    stop = {"harness_note": "stop", "ts": "2026-11-30T21:50:00.000Z", "session": SESSION, "turn": "p1",
            "lines": ["harness-feedback: aeo: said in a message [LOGGED]"]}  # fmt: skip
    (spool / f"n-{ulid()}.json").write_text(json.dumps(stop))
    edit = {"hook_event_name": "PostToolUse", "tool_name": "Write", "session_id": SESSION, "prompt_id": "p1",
            "tool_use_id": "t2", "tool_input": {"file_path": LOADER, "content": FIX}}  # fmt: skip
    (spool / "1.4194305").write_text(json.dumps(edit))
    (root / LOADER).write_text(FIX)


def observe_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from once(seen, FEEDBACK, [*LINES["aeo"], "always name the field", "said in a message"])
    yield from once(seen, QUARANTINE, ["garbage"])
    if len(seen.rows(RUNS)) != 1:
        yield f"{'doubled' if seen.rows(RUNS) else 'lost'}: the run is there {len(seen.rows(RUNS))} times"
    if seen.text(LOADER) != FIX or seen.kinds("fix") != 1:
        yield f"{'half' if seen.kinds('fix') else 'lost'}: the inline fix has {seen.kinds('fix')} ticks"
    yield from queued(seen)


def queued(seen: Seen) -> Iterator[str]:
    """Each logged gap has been put into the queue once."""
    wanted = {r["id"] for r in seen.rows(FEEDBACK) if r["tag"] == "LOGGED"}
    queued = Counter(i for r in seen.rows(QUEUE) if r["op"] == "enqueue" for i in r["feedback"])
    if lost := wanted - set(queued):
        yield f"lost: {len(lost)} gaps are in no queue"
    # A FIXED line whose edit could not be read in time counts as a gap.
    claimed = {r["id"] for r in seen.rows(FEEDBACK) if r.get("claimed_fixed")}
    if set(queued) - wanted - claimed or any(n > 1 for n in queued.values()):
        yield "doubled: gaps in the queue"


def more_feedback(root: Path) -> int:
    append(root, "geo: one more [LOGGED]")
    return command(root, "observe")


def one_more(seen: Seen) -> Iterator[str]:
    yield from once(seen, FEEDBACK, ["one more"])
    yield from queued(seen)


ROTATED: Final = [f"line {n} {'x' * 400}" for n in range(170)]


def rotate_prepare(root: Path) -> None:
    (root / LOG).write_text("".join(f"aeo: {text} [LOGGED]\n" for text in ROTATED))
    assert command(root, "observe", "--quiet") == 0
    os.utime(root / LOG, (1_700_000_000, 1_700_000_000))


def rotate_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from once(seen, FEEDBACK, ROTATED)
    wanted = Counter(f"aeo: {text} [LOGGED]" for text in ROTATED)
    parts = [*(seen.root / f"{LOG}.d").glob("*.log"), seen.root / LOG]
    disk = Counter(
        line for part in parts if part.exists() for line in part.read_text().splitlines() if line[:3] == "aeo"
    )
    if disk != wanted:
        yield f"{'lost' if wanted - disk else 'doubled'}: lines of the log on disk"
    kept = {line for p, data in seen.files.items() if p.startswith(LOG) for line in data.decode().splitlines()}
    if wanted.keys() - kept:
        yield "lost: lines of the committed log"


def rotate_complete(seen: Seen) -> Iterator[str]:
    yield from rotate_holds(seen, True)
    yield from one_more(seen)


def drain_prepare(root: Path) -> None:
    for name, texts in LINES.items():
        append(root, *(f"[2026-07-01T10:00:00Z] {name}: {text} [LOGGED]" for text in texts))


def drain_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from once(seen, FEEDBACK, [text for texts in LINES.values() for text in texts])
    yield from queued(seen)
    closed = Counter(i for r in seen.rows(QUEUE) if r["op"] == "done" for i in r["feedback"])
    if any(n > 1 for n in closed.values()):
        yield "doubled: gaps were closed twice"
    ids = {r["id"]: r for r in seen.rows(FEEDBACK)}
    for name, texts in LINES.items():
        loader = seen.text(f"skills/{name}/AGENTS.md") or ""
        done = {ids[i]["text"] for i in closed if ids[i]["skill"] == name}
        for text in texts:
            if loader.count(text) != (text in done):
                yield f"half: {text!r} is closed {text in done} and stands {loader.count(text)} times in the loader"
        if acked and done != set(texts):
            yield f"lost: a drain that was done closed {sorted(done)} of {name}"


def undo_prepare(root: Path) -> None:
    drain_prepare(root)
    assert command(root, "drain", "--quiet") == 0
    with Store(workspace.find(root, {}, root)) as store:
        store.commit(tick("later"))
    commit = git(root, "log", "-1", "--format=%H", "--grep=^regen(aeo)")
    (root / ".git/to-undo").write_text(commit.strip())


def undo_work(root: Path) -> int:
    return command(root, "undo", (root / ".git/to-undo").read_text())


def undo_holds(seen: Seen, acked: bool) -> Iterator[str]:
    there = seen.kinds("undo")
    rows = [r["row"] for r in seen.rows(UNDONE)]
    if there > 1 or len(rows) != len(set(rows)):
        yield f"doubled: {there} undo ticks, {len(rows)} rows"
    if acked and not there:
        yield "lost: the undo"
    gone = LOADER not in seen.files
    if {gone, bool(rows)} != {bool(there)}:
        yield f"half: undo ticks {there}, loader gone {gone}, rows {len(rows)}"
    yield from once(seen, QUARANTINE, ["later"])


def undo_again(root: Path) -> int:
    if git(root, "log", "--format=%H", "--grep=^undo(aeo)").strip():
        return 0
    return undo_work(root)


def undo_complete(seen: Seen) -> Iterator[str]:
    yield from undo_holds(seen, True)
