"""`python -m tests.torture.disk`: the operations on a small file system of their own that is full, has no inodes left, or is
mounted read-only. Needs the right to mount (`unshare --map-root-user --mount` gives it to most users)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from . import ptrace
from .operations import OPERATIONS, Operation
from .place import own_environment, scratch
from .points import Bench, Result

PAGE: Final = 4096
LEFT: Final = (0, 1, 2, 4, 8, 16, 32)
UNSHARE: Final = ("unshare", "--map-root-user", "--mount")


def may_mount() -> bool:
    """Whether this user may mount a file system in a name space of its own."""
    if shutil.which("unshare") is None:
        return False
    script = "mount -t tmpfs tmpfs /mnt"
    return subprocess.run([*UNSHARE, "sh", "-c", script], capture_output=True, check=False).returncode == 0


def fill(mount: Path, kind: str, left: int) -> None:
    """Use up the file system but for so many pages or files."""
    filler = mount / "filler"
    filler.mkdir()
    with contextlib.suppress(OSError):
        if kind == "inodes":
            for number in range(os.statvfs(mount).f_ffree - left):
                (filler / str(number)).touch()
        else:
            (filler / "x").write_bytes(b"x" * (max(os.statvfs(mount).f_bavail - left, 0) * PAGE))


def starve(bench: Bench, operation: Operation, mount: Path, kind: str, left: int) -> Result:
    """The operation on a file system that takes nothing, or little; then there is room again, and it is judged."""
    bench.fresh(operation)
    if kind == "readonly":
        subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
    else:
        fill(mount, kind, left)
    run = ptrace.plain(lambda: operation.work(bench.root))
    if kind == "readonly":
        subprocess.run(["mount", "-o", "remount,rw", str(mount)], check=True)
    else:
        shutil.rmtree(mount / "filler")
    result = Result(operation.name, kind, left, "", run.code, run.output)
    return bench.judged(operation, result)


def main(mount: Path) -> int:
    """Every operation, starved in each way; 0 when nothing was wrong. ``mount`` is a small file system."""
    folder = scratch()
    own_environment(folder)
    bench = Bench(mount, folder / "templates")
    wrong, failed = [], 0
    for operation in OPERATIONS.values():
        bench.template(operation)
        for kind in ("readonly", "bytes", "inodes"):
            for left in LEFT if kind != "readonly" else (0,):
                result = starve(bench, operation, mount, kind, left)
                failed += result.code != 0
                if result.problems:
                    wrong.append(result)
                    print(json.dumps(asdict(result), indent=1))
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(OPERATIONS) * (2 * len(LEFT) + 1)} runs, {failed} could not do their work, {len(wrong)} wrong")
    return bool(wrong)


def in_a_small_file_system() -> int:
    """Mount one, in a name space of its own, and start ``main`` in it."""
    folder = scratch()
    script = 'mount -t tmpfs -o size=16m,nr_inodes=4000 tmpfs "$1" && exec "$2" -m tests.torture.disk "$1"'
    done = subprocess.run([*UNSHARE, "sh", "-c", script, "sh", str(folder), sys.executable], check=False)
    folder.rmdir()
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])) if len(sys.argv) > 1 else in_a_small_file_system())
