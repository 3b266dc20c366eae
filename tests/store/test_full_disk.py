"""No room, no inodes, no permission to write: a clear error, nothing lost, and the same command works afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from fixtures.workspaces import run

UNSHARE = ["unshare", "--map-root-user", "--mount"]


def _may_mount() -> bool:
    return (
        shutil.which("unshare") is not None
        and subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not _may_mount(), reason="a small file system has to be mounted, and this user may not")
@pytest.mark.parametrize(
    ("what", "options", "words"),
    [
        ("bytes", "size=12m", "No space left"),
        ("inodes", "size=64m,nr_inodes=3000", "No space left"),
        ("readonly", "size=64m", "Read-only file system"),
    ],
)
def test_a_disk_that_takes_no_more(what: str, options: str, words: str, tmp_path: Path, own_home: Path) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    path = os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])
    script = 'mount -t tmpfs -o "$1" tmpfs "$2" && exec "$3" "$4" "$2" "$5"'
    child = Path(__file__).parent / "full_disk.py"
    done = run(
        [*UNSHARE, "sh", "-c", script, "sh", options, str(mount), sys.executable, str(child), what], tmp_path, env={"PYTHONPATH": path}
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    rows = Counter(text for text in seen["texts"] if " filler " not in text)
    assert max(rows.values()) == 1
    assert set(seen["acknowledged"]) <= set(rows)
    assert set(rows) <= {*seen["acknowledged"], *seen["failed"]}
    assert seen["errors"], "it never ran out"
    for kind, text in seen["errors"]:
        assert kind in ("NotWritable", "Unfinished"), text
        # Git doesn't always say why it could not write.
        assert words in text or (what == "bytes" and ("Out of diskspace" in text or "couldn't write" in text))
        assert "\n" not in text
    fillers = Counter(text.split(" ")[0] for text in seen["texts"] if " filler " in text)
    assert set(fillers.values()) <= {17}
    # What failed before the commit point is not there, what failed after it is.
    for name, (kind, _) in zip(seen["failed"], seen["errors"], strict=True):
        assert (name in rows) is (kind == "Unfinished")
