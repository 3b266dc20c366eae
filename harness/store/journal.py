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
from collections.abc import Iterator, Mapping
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

            done = subprocess.run(["/usr/sbin/sysctl", "-n", "kern.boottime"], capture_output=True, text=True, check=False)
            return done.stdout.strip()
        return ""


class Journal:
    """The journal file of one workspace. Every call needs the workspace's lock."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        self.path, self.durable = path, durable

    def begin(self, record: Mapping[str, Any]) -> None:
        """Write the record of a transaction that starts now; on return it survives a power cut."""
        if not self.path.exists() or self.path.stat().st_size == 0:
            files.append(self.path, _line({"boot": boot_id()}))
        files.append(self.path, _line({"begin": record}), sync=self.durable)

    def end(self) -> None:
        """Say that the last transaction is finished; from time to time, empty the journal."""
        files.append(self.path, b'{"end":1}\n')
        if self.path.stat().st_size > CHECKPOINT_BYTES:
            self.checkpoint()

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
                if b"\n" in tail and tail.rstrip(b"\n").rpartition(b"\n")[1] == b"" and size > _TAIL:
                    file.seek(0)
                    tail = file.read()
        except FileNotFoundError:
            return None
        whole, _, torn = tail.rpartition(b"\n")
        if torn:
            # What a killed writer left of a line: without it the next line would be glued to it and unreadable.
            os.truncate(self.path, size - len(torn))
        last = whole.rpartition(b"\n")[2]
        return _parse(last).get("begin") if last else None

    def before_power_cut(self) -> list[dict[str, Any]]:
        """All records written in an earlier boot of the machine, oldest first; empty when this boot wrote them."""
        lines = list(self._lines())
        if not lines or not self.durable or lines[0].get("boot", "") == boot_id():
            return []
        return [line["begin"] for line in lines if "begin" in line]

    def _lines(self) -> Iterator[dict[str, Any]]:
        try:
            with open(self.path, "rb") as file:
                first = file.readline()
                head = _parse(first)
                yield head
                if head.get("boot", "") != boot_id():  # the usual case reads one line
                    yield from map(_parse, file)
        except FileNotFoundError:
            return


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def _parse(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


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
