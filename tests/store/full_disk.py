"""The child of test_full_disk: works in a small file system of its own, and says what it saw as one JSON value.

Arguments: the mount point, and what runs out (`bytes`, `inodes` or `readonly`).
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fixtures.workspaces import QUARANTINE, Place, row, row_tick

from harness.errors import HarnessError
from harness.flows import install
from harness.store.tick import ABSENT, Append, Replace, Tick

PAGE = 4096


def fill(place: Path, what: str, left: int) -> None:
    """Use up the file system but for ``left`` pages or files."""
    filler = place / "filler"
    filler.mkdir()
    with contextlib.suppress(OSError):
        if what == "inodes":
            while os.statvfs(place).f_ffree > left:
                (filler / str(os.statvfs(place).f_ffree)).touch()
        else:
            free = os.statvfs(place).f_bavail - left
            (filler / "x").write_bytes(b"x" * (max(free, 0) * PAGE))


def empty(place: Path) -> None:
    """Give it all back."""
    for path in (place / "filler").iterdir():
        path.unlink()
    (place / "filler").rmdir()


def tick(name: str, number: int) -> Tick:
    """A tick of each sort in turn: a row, a row that rolls its ledger, a new file beside a row."""
    if number % 3 == 0:
        return row_tick(text=name)
    if number % 3 == 1:
        rows = [Append(QUARANTINE, row(text=f"{name} filler {n}".ljust(3999))) for n in range(17)]
        return Tick("import", name, [Append(QUARANTINE, row(text=name)), *rows])
    return Tick(
        "undo", name, [Append(QUARANTINE, row(text=name)), Replace(f"skills/s{number}/overlay.md", "x" * 9000, ABSENT)]
    )


def main(mount: str, what: str) -> dict[str, Any]:
    root = Path(mount)
    place = Place(install.lay_out(root / "w", None, lambda line: None))
    place.tick(text="before")
    acknowledged, errors, half = ["before"], [], []
    for number in range(48 if what != "readonly" else 3):
        name = f"t{number}"
        if what == "readonly":
            subprocess.run(["mount", "-o", "remount,ro", mount], check=True)
        else:
            fill(root, what, number)
        try:
            place.store.commit(tick(name, number))
            acknowledged.append(name)
        except HarnessError as error:
            errors.append([type(error).__name__, str(error)])
            half.append(name)
        reads = len(place.texts())
        if what == "readonly":
            subprocess.run(["mount", "-o", "remount,rw", mount], check=True)
        else:
            empty(root)
        place.close()
        place.store.catch_up()
        place.healthy()
        assert reads >= 1
        assert place.porcelain() == [], (number, place.porcelain())
    place.close()
    texts = [str(text).strip() for text in place.texts()]
    return {"acknowledged": acknowledged, "failed": half, "errors": errors, "texts": texts}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
