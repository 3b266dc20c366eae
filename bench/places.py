"""Workspaces to measure in: with many tracked files, or with a long history. On a file system in memory where there is one."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.flows import install
from harness.ids import ulid
from harness.store.commit import Store
from harness.store.tick import Append, Tick
from harness.workspace import Workspace

LEDGER = "state/log/quarantine.ndjson"
_count = itertools.count()
IDENTITY = (
    "-c",
    "user.name=B",
    "-c",
    "user.email=b@example.invalid",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "gc.auto=0",
)


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for one benchmark, removed afterwards."""
    memory = Path("/dev/shm")  # noqa: S108
    place = Path(tempfile.mkdtemp(prefix="harness-bench-", dir=memory if memory.is_dir() else None))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def git(root: Path, *args: str, data: bytes | None = None) -> bytes:
    """``git ARGS`` in ``root``."""
    command = ["git", *IDENTITY, *args]
    return subprocess.run(command, cwd=root, input=data, capture_output=True, check=True).stdout


def workspace(root: Path, *, files: int = 0, commits: int = 0) -> Workspace:
    """A workspace at ``root`` with so many more tracked files and so many commits before the first measured one."""
    made = install.lay_out(root, None, lambda line: None)
    for n in range(files):
        path = root / "tracked" / f"{n // 100:03}" / f"{n:05}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{n}\n")
    if files:
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "files")
    if commits:
        stream = [b"feature done\n"]
        for n in range(commits):
            start = b"from refs/heads/main^0\n" if n == 0 else b""
            stream.append(
                b"commit refs/heads/main\ncommitter B <b@example.invalid> %d +0000\ndata 2\nc\n%s"
                b"M 644 inline history/%d.txt\ndata 8\n%07d\n\n" % (1_600_000_000 + n, start, n % 50, n)
            )
        git(root, "fast-import", "--quiet", data=b"".join([*stream, b"done\n"]))
        git(root, "reset", "-q", "--hard")
    with Store(made) as store:
        store.catch_up()
    return made


def row(text: str = "") -> dict[str, Any]:
    """A row of about 300 bytes."""
    return {
        "id": ulid(), "ts": "2026-07-01T10:00:00Z", "source": "state/log/loader-feedback.log", "position": "line 12",
        "text": text or "the selector of the date field was missing, so the form could not be filled in without a guess " * 2,
        "reason": "no tag at the end of the line", "session": None,
    }  # fmt: skip


def row_tick() -> Tick:
    """A tick that adds one row."""
    return Tick("feedback", f"row {next(_count)}", [Append(LEDGER, row())])


def add_and_commit(root: Path) -> None:
    """What a person would do for the same row: append it, `git add`, `git commit`."""
    path = root / "by-hand.ndjson"
    with open(path, "ab") as file:
        file.write(b'{"id":"%s","text":"%s"}\n' % (ulid().encode(), b"x" * 250))
    git(root, "add", path.name)
    git(root, "commit", "-q", "-m", f"row {next(_count)}")
    if path.stat().st_size > 65_536:
        path.write_bytes(b"")
