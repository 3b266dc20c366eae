"""The journal: each tick is written here and synced before git sees it, and stays until its objects are on the disk.

Git syncs nothing by default. One sync a tick, of this file, is enough: commits are made of nothing but what a record
holds, so writing them again gives the same bytes and the same ids. A record without its end is a tick that a dead process
left; records of an earlier boot are ticks whose objects a power cut may have taken.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from harness.store import files
from harness.store.faults import point

CHECKPOINT_BYTES: Final = 512 * 1024
_TAIL: Final = 64 * 1024


def boot_id() -> str:
    """A text that changes with each start of the machine ("" where the system doesn't tell: then no power cut is seen)."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        if sys.platform == "darwin":  # pragma: no cover
            import subprocess

            done = subprocess.run(
                ["/usr/sbin/sysctl", "-n", "kern.boottime"], capture_output=True, text=True, check=False
            )
            return done.stdout.strip()
        return ""


class Journal:
    """The journal file of one workspace. Every call needs the workspace's lock.

    One line a record: ``{"boot", "safe"}`` first, then ``{"begin": …}`` and ``{"end": 1}`` for each transaction. A
    ``begin`` that another one follows was tried again.
    """

    def __init__(self, path: Path, *, durable: bool) -> None:
        self.path, self.durable = path, durable
        self._at = 0
        self._ready = False

    def begin(self, record: Mapping[str, Any]) -> None:
        """Write the record of a transaction that starts now; on return it survives a power cut. Raises OSError."""
        if not self._ready or self._size() == 0:
            self._head()
        self._at = self._size()
        files.append(self.path, _line({"begin": record}), sync=self.durable)

    def end(self) -> None:
        """Say that the last transaction is finished; from time to time, empty the journal."""
        files.append(self.path, b'{"end":1}\n')
        if self._size() > CHECKPOINT_BYTES:
            self.checkpoint()

    def undo(self) -> None:
        """Forget the last transaction, which did not come to be. Needs no room on the disk."""
        os.truncate(self.path, self._at)

    def checkpoint(self) -> None:
        """Have the system write everything to the disk, then start an empty journal."""
        if self.path.exists():
            if self.durable:
                sync_file_system(self.path)
            os.truncate(self.path, 0)
            point("checkpointed")

    def unfinished(self) -> dict[str, Any] | None:
        """The record of the transaction that a dead process left, or None. A torn last line never began."""
        try:
            with open(self.path, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _TAIL))
                tail = file.read()
                if size > _TAIL and tail.rstrip(b"\n").count(b"\n") < 2:  # a long record
                    file.seek(0)
                    tail = file.read()
        except FileNotFoundError:
            return None
        whole, _, torn = tail.rpartition(b"\n")
        if torn:
            # What a killed writer left of a line: without it the next line would be glued to it and unreadable.
            os.truncate(self.path, size - len(torn))
        last = whole.rpartition(b"\n")[2]
        self._at = size - len(torn) - len(last) - 1
        found = _parse(last).get("begin")
        return found if isinstance(found, dict) else None

    def before_power_cut(self) -> list[dict[str, Any]]:
        """The records of all transactions of an earlier boot of the machine, oldest first; empty when this boot wrote them."""
        try:
            with open(self.path, "rb") as file:
                head = _parse(file.readline())  # the usual case reads one line
        except FileNotFoundError:
            return []
        return [] if not head.get("safe") or head.get("boot", "") == boot_id() else self.records()

    def records(self) -> list[dict[str, Any]]:
        """The records of all transactions since the journal was emptied, oldest first."""
        out: list[dict[str, Any]] = []
        begun: dict[str, Any] | None = None
        try:
            with open(self.path, "rb") as file:
                for line in map(_parse, file):
                    if "end" in line and begun:
                        out.append(begun)
                        begun = None
                    begun = line.get("begin", begun)
        except FileNotFoundError:
            return []
        return [*out, begun] if begun else out

    def _head(self) -> None:
        """Start the journal, or start it anew when what is in it was written without syncs."""
        new = not self.path.exists()
        if not new and self._size():
            with open(self.path, "rb") as file:
                if not self.durable or _parse(file.readline()).get("safe"):
                    self._ready = True
                    return
            self.checkpoint()
        files.append(self.path, _line({"boot": boot_id(), "safe": self.durable}))
        if new and self.durable:
            sync_folder(self.path.parent)
        self._ready = True

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def _parse(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def sync_folder(path: Path) -> None:
    """Write the names in the folder ``path`` to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file_system(path: Path) -> None:
    """Write everything of the file system that holds ``path`` to the disk."""
    if sys.platform == "linux":
        handle = os.open(path, os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(handle) == 0:
                return
        finally:
            os.close(handle)
    os.sync()
