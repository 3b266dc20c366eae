"""The operations that are stopped: what they start from, what they do, and what must be so afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.store import maintenance

from . import flows, ticks
from .common import by_store, command, life_goes_on, nothing, one_row
from .place import PORCELAIN, Seen, git


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


_simple = {"work": one_row, "holds": ticks.row_holds, "after": life_goes_on, "complete": ticks.after}
_recovery = {
    "work": lambda root: command(root, "observe"),
    "holds": ticks.half_done_holds,
    "after": life_goes_on,
    "complete": ticks.after,
}

OPERATIONS: Final = {
    operation.name: operation
    for operation in (
        Operation("tick", nothing, **_simple),
        Operation("text", nothing, **(_simple | {"work": ticks.text_work, "holds": ticks.text_holds})),
        Operation("roll", ticks.roll_prepare, **(_simple | {"work": ticks.roll_work, "holds": ticks.roll_holds})),
        Operation("bulk", nothing, **(_simple | {"work": ticks.bulk_work, "holds": ticks.bulk_holds})),
        Operation(
            "detached", lambda root: git(root, "checkout", "-q", "--detach") and None, **(_simple | {"holds": ticks.detached_holds})
        ),
        Operation(
            "observe", flows.observe_prepare, lambda root: command(root, "observe"), flows.observe_holds, flows.more_feedback, flows.one_more
        ),
        Operation(
            "rotate", flows.rotate_prepare, lambda root: command(root, "observe"), flows.rotate_holds, flows.more_feedback, flows.rotate_complete
        ),
        Operation(
            "drain", flows.drain_prepare, lambda root: command(root, "drain"), flows.drain_holds,
            lambda root: command(root, "drain"), lambda seen: flows.drain_holds(seen, True),
        ),
        Operation("undo", flows.undo_prepare, flows.undo_work, flows.undo_holds, flows.undo_again, flows.undo_complete),
        Operation(
            "land", ticks.land_prepare, **(_simple | {"work": lambda root: command(root, "observe"), "holds": ticks.row_promised})
        ),
        Operation("recover-intent", ticks.half_done("intent-written"), **_recovery),
        Operation("recover-swapped", ticks.half_done("swapped"), **_recovery),
        Operation(
            "adopt", ticks.adopt_prepare, **(_simple | {"work": lambda root: command(root, "observe"), "holds": ticks.adopt_holds})
        ),
        Operation("pack", ticks.pack_prepare, **(_simple | {"work": lambda root: by_store(root, maintenance.run), "holds": ticks.pack_holds})),
    )
}  # fmt: skip
