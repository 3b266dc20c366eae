"""Ticks of each sort, ticks that wait or are half done: how they are prepared, made, and judged."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from harness import workspace
from harness.store import faults
from harness.store.commit import Store
from harness.store.errors import Deferred
from harness.store.tick import ABSENT, Delete, Replace, Tick, sha256

from .common import by_store, once, row, tick
from .place import LOADER, OVERLAY, QUARANTINE, REFERENCE, Seen, git

BULK: Final = 24

# --- ticks -----------------------------------------------------------------------------------------------------------


def row_holds(seen: Seen, acked: bool) -> Iterator[str]:
    count = seen.count(QUARANTINE, "the row")
    if count > 1 or (acked and count < 1):
        yield f"{'doubled' if count else 'lost'}: the row is there {count} times"
    yield from once(seen, QUARANTINE, ["before 0", "before 1", "before 2"])


def row_promised(seen: Seen, acked: bool) -> Iterator[str]:
    yield from row_holds(seen, True)


def after(seen: Seen) -> Iterator[str]:
    yield from row_holds(seen, False)
    yield from once(seen, QUARANTINE, ["after"])


def text_work(root: Path) -> int:
    def work(store: Store) -> None:
        old, reference = store.tree.read(OVERLAY), store.tree.read(REFERENCE)
        assert old is not None
        assert reference is not None
        writes = [Replace(OVERLAY, "the new overlay\n", sha256(old)), Delete(REFERENCE, sha256(reference))]
        store.commit(tick("the row", *writes, Replace("skills/aeo/scripts/new.sh", "#!/bin/sh\n", ABSENT), kind="undo"))

    return by_store(root, work)


def text_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from row_holds(seen, acked)
    there = bool(seen.count(QUARANTINE, "the row"))
    parts = [
        seen.text(OVERLAY) == "the new overlay\n", REFERENCE not in seen.files, "skills/aeo/scripts/new.sh" in seen.files,
    ]  # fmt: skip
    if set(parts) != {there}:
        yield f"half: the row {there}, overlay, deleted and new file {parts}"
    if there and not os.access(seen.root / "skills/aeo/scripts/new.sh", os.X_OK):
        yield "half: the script can't be run"


def roll_prepare(root: Path) -> None:
    with Store(workspace.find(root, {}, root)) as store:
        store.commit(Tick("import", "filler", [row(f"filler {n}".ljust(3900), "r" * 90) for n in range(15)]))


def roll_work(root: Path) -> int:
    return by_store(
        root, lambda store: store.commit(tick("the row", row("second ".ljust(3900)), row("third ".ljust(3900))))
    )


def roll_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from row_holds(seen, acked)
    texts = [str(r["text"]).split()[0:2] for r in seen.rows(QUARANTINE)]
    fillers = [t[1] for t in texts if t[0] == "filler"]
    if fillers != [str(n) for n in range(15)]:
        yield f"lost: the rows before are {fillers}"
    there = seen.count(QUARANTINE, "the row")
    if [len([t for t in texts if t[0] == name]) for name in ("second", "third")] != [there, there]:
        yield "half: not all rows of the tick"
    if there != len([p for p in seen.files if p.startswith(f"{QUARANTINE}.d/")]):
        yield "half: rows and sealed segments differ"


def bulk_work(root: Path) -> int:
    ticks = [tick("the row"), *(tick(f"bulk {n}") for n in range(BULK))]
    return by_store(root, lambda store: store.commit_all(ticks))


def bulk_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from row_holds(seen, acked)
    there = seen.count(QUARANTINE, "the row")
    found = [seen.count(QUARANTINE, f"bulk {n}") for n in range(BULK)]
    if found != [there] * BULK:
        yield f"half: of the transaction {sum(found)} rows are there"


def detached_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from row_holds(seen, acked)
    kept = git(seen.root, "for-each-ref", "--contains", "HEAD", "refs/harness/keep")
    if seen.count(QUARANTINE, "the row") and not kept:
        yield "lost: no ref keeps the tick of a detached HEAD"


# --- what waits, what is half done ------------------------------------------------------------------------------------


def land_prepare(root: Path) -> None:
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


def half_done(point: str) -> Callable[[Path], None]:
    def prepare(root: Path) -> None:
        child = os.fork()
        if child == 0:
            faults._WANTED = point
            os._exit(text_work(root) or 71)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL

    return prepare


def half_done_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from text_holds(seen, True)


def adopt_prepare(root: Path) -> None:
    for path in (OVERLAY, "skills/geo/overlay.md", LOADER):
        (root / path).write_text("a person's text\n")
        git(root, "add", path)
    git(root, "commit", "-qm", "mine", "--", OVERLAY, "skills/geo/overlay.md", LOADER)


def adopt_holds(seen: Seen, acked: bool) -> Iterator[str]:
    if seen.text("skills/geo/overlay.md") != "a person's text\n":
        yield "lost: the person's commit"


def pack_prepare(root: Path) -> None:
    with Store(workspace.find(root, {}, root)) as store:
        for n in range(6):
            store.commit(tick(f"packed {n}"))


def pack_holds(seen: Seen, acked: bool) -> Iterator[str]:
    yield from once(seen, QUARANTINE, [f"packed {n}" for n in range(6)])
