"""Files on disk: locks with a bounded wait, replacement that is whole or nothing, appends that say when they were short."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import random
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from harness.errors import HarnessError
from harness.store.errors import Busy


class NotWritable(HarnessError):
    """The disk refuses the write; nothing was lost, and the same command works once there is room or permission."""


def explain(error: OSError) -> NotWritable:
    """``error`` of the operating system as ours, with the file's name and the next step."""
    todo = {
        errno.ENOSPC: "free some space and run the command again",
        errno.EDQUOT: "free some space and run the command again",
        errno.EROFS: "mount the file system writable and run the command again",
        errno.EACCES: "give yourself write permission and run the command again",
        errno.EPERM: "give yourself write permission and run the command again",
    }.get(error.errno or 0, "run `harness doctor`")
    return NotWritable(f"cannot write {error.filename or 'the workspace'}", error.strerror or str(error), todo)


@contextlib.contextmanager
def lock(path: Path, wait: float) -> Iterator[None]:
    """Inside, this process alone holds the lock file ``path``; Busy after ``wait`` seconds.

    The lock is the kernel's (flock), so it goes when its holder dies; the text in the file only tells who it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    who = os.pread(handle, 200, 0).decode("utf-8", "replace").strip() or "another process"
                    raise Busy(
                        "the workspace is busy", f"{who} held its lock for {wait:g} s", "try again in a moment"
                    ) from None
                # Short and uneven waits: long ones starve, even ones march in step.
                time.sleep(random.uniform(0.0005, 0.004))  # noqa: S311
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".ljust(80).encode() + b"\n", 0)
        yield
    finally:
        os.close(handle)


def replace(path: Path, data: bytes, *, mode: int = 0o644, sync: bool = True) -> None:
    """Make ``path`` hold ``data``: a temporary file beside it, synced, renamed over it. Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.harness-new")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        try:
            write_all(handle, data)
            if sync:
                os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise


def sweep(folder: Path, name: str | None = None) -> None:
    """Remove the temporary files that a killed ``replace`` left in ``folder``: those of the file ``name``, or all."""
    for left in folder.glob(f".{'*' if name is None else glob.escape(name)}.*.harness-new") if folder.is_dir() else ():
        left.unlink(missing_ok=True)


def append(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Add ``data`` at the end of ``path``. When only part of it fits on the disk, that part is taken off again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise NotWritable(f"cannot write {path}", "it is no regular file", "put a plain file in its place")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        size = os.fstat(handle).st_size
        try:
            write_all(handle, data)
            if sync:
                os.fdatasync(handle) if hasattr(os, "fdatasync") else os.fsync(handle)
        except OSError as error:
            error.filename = str(path)
            os.ftruncate(handle, size)
            raise
    finally:
        os.close(handle)


def write_all(handle: int, data: bytes) -> None:
    """Write all of ``data``; a short write (a disk that fills up) is tried again and then raises its own error."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def read(path: Path) -> bytes | None:
    """The bytes of a regular file, or None when there is none: a pipe would keep us waiting, a device never ends."""
    try:
        return path.read_bytes() if stat.S_ISREG(path.stat().st_mode) else None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def tail(path: Path, size: int) -> bytes:
    """The last ``size`` bytes of a file, or what there is of it."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read()
    except FileNotFoundError:
        return b""
