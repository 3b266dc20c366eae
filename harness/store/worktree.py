"""Writing the work tree after the commit point: only what nobody has changed, so that no one's bytes are ever lost."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from harness.store import files
from harness.store.engine import mode_of
from harness.store.errors import GateRefused, Refusal
from harness.store.planner import ListNames, Plan, Read
from harness.store.tick import Take, Tick


def refuse_escapes(root: Path, tick: Tick) -> None:
    """Raise GateRefused when a path of ``tick`` leads through a symbolic link out of the workspace."""
    real_root = os.path.realpath(root)
    for write in {write.path: write for write in tick.writes}.values():
        target = os.path.realpath(root / write.path)
        if target != real_root and not target.startswith(real_root + os.sep):
            raise GateRefused(
                [Refusal(write.path, "symlink", "leads out of the workspace", "remove the symbolic link")]
            )
        if not isinstance(write, Take) and (root / write.path).is_symlink():
            raise GateRefused([Refusal(write.path, "symlink", "is a symbolic link", "put a plain file there")])


def refuse_twins(tick: Tick, read: Read, names: ListNames) -> None:
    """Raise GateRefused when a new path differs from a committed one by case alone: where the file system doesn't tell them
    apart (macOS, Windows), a checkout would hold one of the two and show the other as changed."""
    for path in {write.path for write in tick.writes}:
        if read(path) is not None:
            continue
        folder = ""
        for part in path.split("/"):
            twin = next((n for n in names(folder) if n != part and n.casefold() == part.casefold()), None)
            if twin is not None:
                found = f"{part!r} differs from {twin!r} by case alone"
                raise GateRefused([Refusal(path, "case", found, "use the name that is there, or another one")])
            folder = f"{folder}/{part}" if folder else part


def write(root: Path, plan: Plan, *, sync: bool) -> list[str]:
    """Bring the work tree to what ``plan`` committed and return the paths that were left alone.

    A file is written when it holds what was committed before (or a beginning of the new text that a killed process left).
    Anything else is somebody's change: it stays, and shows as a pending change. May be called again: it is idempotent.
    """
    left = []
    for active, segment in plan.moves.items():
        # Rename first: the sealed bytes are on disk once, and a reader of the active file never sees them vanish.
        old = plan.old.get(active)
        if old is not None and files.read(root / active) == old and not (root / segment).exists():
            (root / segment).parent.mkdir(parents=True, exist_ok=True)
            os.replace(root / active, root / segment)
    for path, new in plan.changes.items():
        if path in plan.taken:
            continue
        place, old = root / path, plan.old.get(path)
        moved = path in plan.moves
        now = files.read(place)
        if now == new:
            continue
        untouched = now == old or (moved and now is None)
        if not untouched and now is not None and new is not None and len(now) < len(new) and new.startswith(now):
            untouched = old is None or moved or now.startswith(old)
        if not untouched:
            left.append(path)
        elif new is None:
            with contextlib.suppress(FileNotFoundError):
                place.unlink()
            with contextlib.suppress(OSError):
                place.parent.rmdir()
        elif now is not None and new.startswith(now):
            files.append(place, new[len(now) :])
        else:
            files.replace(place, new, sync=sync, mode=0o755 if mode_of(path) == "100755" else 0o644)
    return left
