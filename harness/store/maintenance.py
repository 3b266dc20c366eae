"""Packing: one `git repack -d` for about every 1,000 ticks. It keeps the repository near the size of its rows, its own
cost is flat, and a killed one leaves nothing that matters. Objects are never pruned at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.store import files

if TYPE_CHECKING:
    from harness.store.commit import Store

LOOSE_OBJECTS: Final = 6_000
PACKS: Final = 60


def count(store: Store) -> dict[str, int]:
    """How many loose objects, packs and leftovers of killed housekeeping the repository has, by one look at its folders."""
    objects = Path(store.git.text("rev-parse", "--path-format=absolute", "--git-path", "objects"))
    pack = objects / "pack"
    names = [p.name for p in pack.iterdir()] if pack.is_dir() else []
    # Ids are spread evenly: one folder of 256 tells the whole.
    sample = objects / "17"
    loose = 256 * sum(1 for _ in sample.iterdir()) if sample.is_dir() else 0
    return {
        "loose": loose,
        "packs": sum(n.endswith(".pack") for n in names),
        "leftovers": sum(n.startswith("tmp_") for n in names),
    }


def due(store: Store) -> bool:
    """Whether it is time to pack."""
    found = count(store)
    return found["loose"] >= LOOSE_OBJECTS or found["packs"] >= PACKS


def run(store: Store) -> None:
    """Pack loose objects into one more pack, or, when packs have become many, all of them into one."""
    found = count(store)
    # Versions of one ledger from several seals lie side by side in git's order, so its window of 10 misses the version
    # that a blob came from: 1,400 ticks of one row packed to 14 times their rows with 10, to 2.8 times with 50.
    args = ["repack", "-d", "-q", "--window=50"]
    if found["packs"] >= PACKS:
        args += ["-a", "--keep-unreachable"]
    store.git.run(*args)
    store.git.run("prune-packed", "-q")
    note: dict[str, Any] = {"before": found, "after": count(store)}
    files.replace(store.runtime / "maintenance.json", json.dumps(note).encode(), sync=False)
