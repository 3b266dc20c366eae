"""A writer process for the tests: makes row ticks, and says on standard output which of them the store has acknowledged.

Arguments: the workspace, a name, how many ticks, what each is (see ``tick``). One line ``NAME-N`` for each that landed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fixtures.workspaces import QUARANTINE, row

from harness import workspace
from harness.store.commit import Store
from harness.store.errors import Busy
from harness.store.tick import ABSENT, Append, Delete, Replace, Tick, Write, sha256

OVERLAY = "skills/kill/overlay.md"


def tick(store: Store, what: str, name: str) -> Tick:
    """``append`` one row; ``roll`` rows that fill a ledger's file; ``replace`` or ``delete`` a file beside a row."""
    size = 40_000 if what == "roll" else 10
    writes: list[Write] = [
        Append(QUARANTINE, row(text=name, reason="r" * 500 if what == "roll" else "r")) for _ in range(1)
    ]
    if what == "roll":
        writes += [
            Append(QUARANTINE, row(text=f"{name} filler {n}", source="s" * 500, reason="r" * 500))
            for n in range(size // 1200)
        ]
    old = store.tree.read(OVERLAY)
    expect = ABSENT if old is None else sha256(old)
    if what == "replace":
        return Tick("undo", name, [*writes, Replace(OVERLAY, f"{name}\n", expect)])
    if what == "delete":
        last = Delete(OVERLAY, expect) if old is not None else Replace(OVERLAY, f"{name}\n", ABSENT)
        return Tick("undo", name, [*writes, last])
    return Tick("feedback", name, writes)


def bulk(name: str) -> list[Tick]:
    """Enough ticks for the other engine, with enough in them to make the journal start anew."""
    filler = [
        Tick("feedback", "filler", [Append(QUARANTINE, row(text=f"{name} filler {n}".ljust(3999))) for n in range(3)])
        for _ in range(60)
    ]
    return [Tick("feedback", name, [Append(QUARANTINE, row(text=name))]), *filler]


def main(root: str, name: str, count: str, what: str) -> None:
    with Store(workspace.find(Path(root), {}, root)) as store:
        for n in range(int(count)):
            while True:
                try:
                    if what == "bulk":
                        store.commit_all(bulk(f"{name}-{n}"))
                    else:
                        store.commit(tick(store, what, f"{name}-{n}"))
                    break
                except (
                    Busy
                ):  # never happens without a heap of writers; the caller counts rows, so it must not be skipped
                    continue
            print(f"{name}-{n}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
