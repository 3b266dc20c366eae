"""Ticks that wait: kept on disk while the user is in the middle of something, landed with the next tick, or set aside."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.store import files
from harness.store.tick import Tick, decode, encode


@dataclass(frozen=True)
class Kept:
    """A tick on disk, why it waits (or was refused) and since when (ISO time)."""

    tick: Tick
    why: str
    since: str


def keep(runtime: Path, tick: Tick, why: str) -> None:
    """Keep ``tick`` until it can land; on return it survives a power cut."""
    _write(runtime / "deferred" / f"{tick.id}.json", tick, why)


def refuse(runtime: Path, kept: Kept, why: str) -> None:
    """Set a tick aside that no longer passes, where `harness status` shows it; nothing of it is lost."""
    _write(runtime / "refused" / f"{kept.tick.id}.json", kept.tick, why)
    drop(runtime, kept.tick.id)


def drop(runtime: Path, tick: str) -> None:
    """Forget the deferred tick with this id, if there is one: it has landed."""
    (runtime / "deferred" / f"{tick}.json").unlink(missing_ok=True)


def waiting(runtime: Path, folder: str = "deferred") -> Iterator[Kept]:
    """The ticks that wait (``folder="refused"``: that were set aside), oldest first. Raises OSError when one can't be read
    now: it must not be taken for a spoiled one, which is renamed and kept beside the others."""
    place = runtime / folder
    for path in sorted(place.glob("*.json")) if place.is_dir() else ():
        data = files.read(path)
        if data is None:
            continue  # it has landed meanwhile
        try:
            value = json.loads(data)
            kept = Kept(decode(value["tick"]), value["why"], value["since"])
        except (ValueError, KeyError, TypeError):
            path.rename(path.with_suffix(".unreadable"))
        else:
            yield kept


def _write(path: Path, tick: Tick, why: str) -> None:
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    files.replace(path, json.dumps({"tick": encode(tick), "why": why, "since": since}).encode())
