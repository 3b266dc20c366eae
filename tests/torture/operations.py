"""The operations that are stopped: what they start from, what they do, and what must be so afterwards."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness import cli, workspace
from harness.errors import HarnessError
from harness.flows import install
from harness.ids import ulid
from harness.store import faults, files, maintenance
from harness.store.commit import Store
from harness.store.errors import Deferred
from harness.store.tick import ABSENT, Append, Delete, Replace, Tick, Write, sha256

from .place import (
    FEEDBACK,
    LOADER,
    LOG,
    OVERLAY,
    PORCELAIN,
    QUARANTINE,
    QUEUE,
    REFERENCE,
    RUNS,
    UNDONE,
    Seen,
    git,
    person_at_work,
)  # fmt: skip

SESSION: Final = "5b0c7c1e-2f64-4a0b-9d1e-7d7a3c1f9a10"
BULK: Final = 24
LINES: Final = {
    "aeo": ["the date field moved", "prices have a currency now", "the button is below the form"],
    "geo": ["maps need a zoom", "the legend is missing"],
}


@dataclass(frozen=True)
class Operation:
    """``work`` runs in a process of its own and returns its exit code. ``holds`` says what is wrong after the next command,
    given whether the operation was acknowledged (exit code 0). ``after`` is what a person does then, and ``complete`` says
    what is wrong at the end."""

    name: str
    prepare: Callable[[Path], None]
    work: Callable[[Path], int]
    holds: Callable[[Seen, bool], Iterator[str]]
    after: Callable[[Path], int]
    complete: Callable[[Seen], Iterator[str]]
    porcelain: list[str] = field(default_factory=lambda: list(PORCELAIN))
    next: Callable[[Path], int] = lambda root: command(root, "observe")


def command(root: Path, *args: str) -> int:
    """One call of the command line in this process."""
    return cli.run(["--workspace", str(root), *args])


def by_store(root: Path, work: Callable[[Store], object]) -> int:
    """``work`` with the workspace's store, with errors told and coded as the command line does."""
    try:
        with Store(workspace.find(root, {}, root)) as store:
            work(store)
    except (HarnessError, OSError) as error:
        told = files.explain(error) if isinstance(error, OSError) else error
        print(f"harness: {told}", file=sys.stderr)
        return told.exit_code
    return 0


def row(text: str, reason: str = "test") -> Append:
    """A row that says ``text``."""
    fields = {
        "id": ulid(),
        "ts": "2026-07-01T10:00:00Z",
        "source": "test",
        "position": "line 1",
        "text": text,
        "reason": reason,
    }
    return Append(QUARANTINE, fields)


def tick(text: str, *writes: Write, kind: str = "feedback") -> Tick:
    """A tick with a row that says ``text``, and more."""
    return Tick(kind, text, [row(text), *writes], {"Session": SESSION})


def one_row(root: Path) -> int:
    """One row, one tick."""
    return by_store(root, lambda store: store.commit(tick("the row")))


def life_goes_on(root: Path) -> int:
    """One more tick."""
    return by_store(root, lambda store: store.commit(tick("after")))


def base(root: Path) -> None:
    """The start of all: a workspace with two skills, some rows, a loader, and a person at work."""
    install.lay_out(root, None, lambda line: None)
    for name in LINES:
        place = root / f"skills/{name}/SKILL.md"
        place.parent.mkdir(parents=True)
        place.write_text(f"---\nname: {name}\ndescription: The skill {name}.\n---\n# base\n")
    (root / OVERLAY).write_text("the old overlay\n")
    (root / REFERENCE).parent.mkdir()
    (root / REFERENCE).write_text("old\n")
    git(root, "add", "skills")
    git(root, "commit", "-qm", "skills")
    with Store(workspace.find(root, {}, root)) as store:
        for n in range(3):
            store.commit(tick(f"before {n}"))
    person_at_work(root)
    assert command(root, "observe", "--quiet") == 0


def append(root: Path, *lines: str) -> None:
    """What an agent's echo does."""
    for line in lines:
        script = f"echo {shlex.quote(line)} >> {shlex.quote(str(root / LOG))}"
        subprocess.run(["/bin/sh", "-c", script], check=True)


def _once(seen: Seen, path: str, texts: list[str]) -> Iterator[str]:
    found = Counter(str(r.get("text")) for r in seen.rows(path))
    for text in texts:
        if found[text] != 1:
            yield f"{'lost' if not found[text] else 'doubled'}: {path} has {text!r} {found[text]} times"


def _nothing(root: Path) -> None:
    pass


# --- ticks -----------------------------------------------------------------------------------------------------------


def _row_holds(seen: Seen, acked: bool) -> Iterator[str]:
    count = seen.count(QUARANTINE, "the row")
    if count > 1 or (acked and count < 1):
        yield f"{'doubled' if count else 'lost'}: the row is there {count} times"
    yield from _once(seen, QUARANTINE, ["before 0", "before 1", "before 2"])


def _row_promised(seen: Seen, acked: bool) -> Iterator[str]:
    yield from _row_holds(seen, True)


def _after(seen: Seen) -> Iterator[str]:
    yield from _row_holds(seen, False)
    yield from _once(seen, QUARANTINE, ["after"])


def _text_work(root: Path) -> int:
    def work(store: Store) -> None:
        old, reference = store.tree.read(OVERLAY), store.tree.read(REFERENCE)
        assert old is not None
        assert reference is not None
        writes = [Replace(OVERLAY, "the new overlay\n", sha256(old)), Delete(REFERENCE, sha256(reference))]
        store.commit(tick("the row", *writes, Replace("skills/aeo/scripts/new.sh", "#!/bin/sh\n", ABSENT), kind="undo"))

    return by_store(root, work)


def _text_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from _row_holds(seen, acked)
    there = bool(seen.count(QUARANTINE, "the row"))
    parts = [
        seen.text(OVERLAY) == "the new overlay\n", REFERENCE not in seen.files, "skills/aeo/scripts/new.sh" in seen.files,
    ]  # fmt: skip
    if set(parts) != {there}:
        yield f"half: the row {there}, overlay, deleted and new file {parts}"
    if there and not os.access(seen.root / "skills/aeo/scripts/new.sh", os.X_OK):
        yield "half: the script can't be run"


def _roll_prepare(root: Path) -> None:
    with Store(workspace.find(root, {}, root)) as store:
        store.commit(Tick("import", "filler", [row(f"filler {n}".ljust(3900), "r" * 90) for n in range(15)]))


def _roll_work(root: Path) -> int:
    return by_store(
        root, lambda store: store.commit(tick("the row", row("second ".ljust(3900)), row("third ".ljust(3900))))
    )


def _roll_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from _row_holds(seen, acked)
    texts = [str(r["text"]).split()[0:2] for r in seen.rows(QUARANTINE)]
    fillers = [t[1] for t in texts if t[0] == "filler"]
    if fillers != [str(n) for n in range(15)]:
        yield f"lost: the rows before are {fillers}"
    there = seen.count(QUARANTINE, "the row")
    if [len([t for t in texts if t[0] == name]) for name in ("second", "third")] != [there, there]:
        yield "half: not all rows of the tick"
    if there != len([p for p in seen.files if p.startswith(f"{QUARANTINE}.d/")]):
        yield "half: rows and sealed segments differ"


def _bulk_work(root: Path) -> int:
    ticks = [tick("the row"), *(tick(f"bulk {n}") for n in range(BULK))]
    return by_store(root, lambda store: store.commit_all(ticks))


def _bulk_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from _row_holds(seen, acked)
    there = seen.count(QUARANTINE, "the row")
    found = [seen.count(QUARANTINE, f"bulk {n}") for n in range(BULK)]
    if found != [there] * BULK:
        yield f"half: of the transaction {sum(found)} rows are there"


def _detached_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from _row_holds(seen, acked)
    kept = git(seen.root, "for-each-ref", "--contains", "HEAD", "refs/harness/keep")
    if seen.count(QUARANTINE, "the row") and not kept:
        yield "lost: no ref keeps the tick of a detached HEAD"


# --- what waits, what is half done ------------------------------------------------------------------------------------


def _land_prepare(root: Path) -> None:
    blocker = root / ".git/BISECT_LOG"
    blocker.touch()
    with Store(workspace.find(root, {}, root)) as store:
        try:
            store.commit(tick("the row"))
        except Deferred:
            pass
        else:
            raise AssertionError("it was not deferred")
    blocker.unlink()


def _half_done(point: str) -> Callable[[Path], None]:
    def prepare(root: Path) -> None:
        child = os.fork()
        if child == 0:
            faults._WANTED = point
            os._exit(_text_work(root) or 71)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL

    return prepare


def _half_done_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from _text_holds(seen, True)


def _adopt_prepare(root: Path) -> None:
    for path in (OVERLAY, "skills/geo/overlay.md", LOADER):
        (root / path).write_text("a person's text\n")
        git(root, "add", path)
    git(root, "commit", "-qm", "mine", "--", OVERLAY, "skills/geo/overlay.md", LOADER)


def _adopt_holds(seen: Seen, acked: bool) -> Iterator[str]:
    if seen.text("skills/geo/overlay.md") != "a person's text\n":
        yield "lost: the person's commit"


def _pack_prepare(root: Path) -> None:
    with Store(workspace.find(root, {}, root)) as store:
        for n in range(6):
            store.commit(tick(f"packed {n}"))


def _pack_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from _once(seen, QUARANTINE, [f"packed {n}" for n in range(6)])


# --- flows -----------------------------------------------------------------------------------------------------------

FIX: Final = "# aeo\n\n## Rules\n\n- always name the field\n"


def _observe_prepare(root: Path) -> None:
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


def _observe_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from _once(seen, FEEDBACK, [*LINES["aeo"], "always name the field", "said in a message"])
    yield from _once(seen, QUARANTINE, ["garbage"])
    if len(seen.rows(RUNS)) != 1:
        yield f"{'doubled' if seen.rows(RUNS) else 'lost'}: the run is there {len(seen.rows(RUNS))} times"
    if seen.text(LOADER) != FIX or seen.kinds("fix") != 1:
        yield f"{'half' if seen.kinds('fix') else 'lost'}: the inline fix has {seen.kinds('fix')} ticks"
    yield from _queued(seen)


def _queued(seen: Seen) -> Iterator[str]:
    """Each logged gap has been put into the queue once."""
    wanted = {r["id"] for r in seen.rows(FEEDBACK) if r["tag"] == "LOGGED"}
    queued = Counter(i for r in seen.rows(QUEUE) if r["op"] == "enqueue" for i in r["feedback"])
    if lost := wanted - set(queued):
        yield f"lost: {len(lost)} gaps are in no queue"
    if set(queued) - wanted or any(n > 1 for n in queued.values()):
        yield "doubled: gaps in the queue"


def _more_feedback(root: Path) -> int:
    append(root, "geo: one more [LOGGED]")
    return command(root, "observe")


def _one_more(seen: Seen) -> Iterator[str]:
    yield from _once(seen, FEEDBACK, ["one more"])
    yield from _queued(seen)


ROTATED: Final = [f"line {n} {'x' * 400}" for n in range(170)]


def _rotate_prepare(root: Path) -> None:
    (root / LOG).write_text("".join(f"aeo: {text} [LOGGED]\n" for text in ROTATED))
    assert command(root, "observe", "--quiet") == 0
    os.utime(root / LOG, (1_700_000_000, 1_700_000_000))


def _rotate_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from _once(seen, FEEDBACK, ROTATED)
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


def _rotate_complete(seen: Seen) -> Iterator[str]:
    yield from _rotate_holds(seen, True)
    yield from _one_more(seen)


def _drain_prepare(root: Path) -> None:
    for name, texts in LINES.items():
        append(root, *(f"[2026-07-01T10:00:00Z] {name}: {text} [LOGGED]" for text in texts))


def _drain_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from _once(seen, FEEDBACK, [text for texts in LINES.values() for text in texts])
    yield from _queued(seen)
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


def _undo_prepare(root: Path) -> None:
    _drain_prepare(root)
    assert command(root, "drain", "--quiet") == 0
    with Store(workspace.find(root, {}, root)) as store:
        store.commit(tick("later"))


def _undo_work(root: Path) -> int:
    commit = git(root, "log", "-1", "--format=%H", "--grep=^regen(aeo)").strip()
    return command(root, "undo", commit)


def _undo_holds(seen: Seen, acked: bool) -> Iterator[str]:
    there = seen.kinds("undo")
    rows = [r["row"] for r in seen.rows(UNDONE)]
    if there > 1 or len(rows) != len(set(rows)):
        yield f"doubled: {there} undo ticks, {len(rows)} rows"
    if acked and not there:
        yield "lost: the undo"
    gone = LOADER not in seen.files
    if {gone, bool(rows)} != {bool(there)}:
        yield f"half: undo ticks {there}, loader gone {gone}, rows {len(rows)}"
    yield from _once(seen, QUARANTINE, ["later"])


def _undo_again(root: Path) -> int:
    if git(root, "log", "--format=%H", "--grep=^undo(aeo)").strip():
        return 0
    return _undo_work(root)


def _undo_complete(seen: Seen) -> Iterator[str]:
    yield from _undo_holds(seen, True)


_simple = {"work": one_row, "holds": _row_holds, "after": life_goes_on, "complete": _after}
_recovery = {
    "work": lambda root: command(root, "observe"),
    "holds": _half_done_holds,
    "after": life_goes_on,
    "complete": _after,
}

OPERATIONS: Final = {
    operation.name: operation
    for operation in (
        Operation("tick", _nothing, **_simple),
        Operation("text", _nothing, **(_simple | {"work": _text_work, "holds": _text_holds})),
        Operation("roll", _roll_prepare, **(_simple | {"work": _roll_work, "holds": _roll_holds})),
        Operation("bulk", _nothing, **(_simple | {"work": _bulk_work, "holds": _bulk_holds})),
        Operation(
            "detached", lambda root: git(root, "checkout", "-q", "--detach") and None, **(_simple | {"holds": _detached_holds})
        ),
        Operation(
            "observe", _observe_prepare, lambda root: command(root, "observe"), _observe_holds, _more_feedback, _one_more
        ),
        Operation(
            "rotate", _rotate_prepare, lambda root: command(root, "observe"), _rotate_holds, _more_feedback, _rotate_complete
        ),
        Operation(
            "drain", _drain_prepare, lambda root: command(root, "drain"), _drain_holds,
            lambda root: command(root, "drain"), lambda seen: _drain_holds(seen, True),
        ),
        Operation("undo", _undo_prepare, _undo_work, _undo_holds, _undo_again, _undo_complete),
        Operation(
            "land", _land_prepare, **(_simple | {"work": lambda root: command(root, "observe"), "holds": _row_promised})
        ),
        Operation("recover-intent", _half_done("intent-written"), **_recovery),
        Operation("recover-swapped", _half_done("swapped"), **_recovery),
        Operation(
            "adopt", _adopt_prepare, **(_simple | {"work": lambda root: command(root, "observe"), "holds": _adopt_holds})
        ),
        Operation("pack", _pack_prepare, **(_simple | {"work": lambda root: by_store(root, maintenance.run), "holds": _pack_holds})),
    )
}  # fmt: skip
