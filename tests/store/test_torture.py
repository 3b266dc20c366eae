"""kill -9 at the system calls of a tick, one by one. A sample here; all of them with HARNESS_TORTURE=all (`make torture`)."""

from __future__ import annotations

import os
import random
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest
from fixtures.workspaces import Place, run

from .test_kill import WHAT, prepared, whole_or_nothing

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace stops at a call, and this machine has none"
)

CALLS = "open,openat,write,pwrite64,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir,truncate,ftruncate,fsync,"
CALLS += "fdatasync,chmod,fchmod,fchmodat,utimensat,flock,close,vfork,fork,clone,wait4,waitid,pipe2,read,pread64,lseek,copy_file_range,sendfile"
SAMPLE = 12

CODE = """
import os, sys
from pathlib import Path
from fixtures.workspaces import *
from store.writer import bulk, tick
from harness import workspace
from harness.store.commit import Store
root, name, what = sys.argv[1:]
with Store(workspace.find(Path(root), {}, root)) as store:
    store.commit(row_tick(text=name + "-warm"))
    print(name + "-warm", flush=True)
    os.access("/mark", 0)
    made = bulk(name + "-0") if what == "bulk" else [tick(store, what, name + "-0")]
    store.commit_all(made)
    print(name + "-0", flush=True)
    os.access("/mark", 0)
"""


def strace(place: Place, name: str, what: str, *options: str) -> tuple[int, list[str]]:
    """Run one tick under strace: (exit code, what it acknowledged)."""
    path = os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])
    args = ["strace", *options, sys.executable, "-c", CODE, str(place.root), name, what]
    done = run(args, place.root, env={"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"})
    return done.returncode, done.stdout.split()


def calls(place: Place, what: str) -> list[tuple[str, int]]:
    """Each system call between the marks of a tick, as (name, how many of that name the process had made by then)."""
    log = place.root.parent / "strace"
    code, _ = strace(place, "count", what, "-o", str(log), "-e", f"trace=access,{CALLS}")
    assert code == 0
    seen, marks, out = Counter[str](), 0, []
    for line in log.read_text().splitlines():
        if match := re.match(r"(\w+)\(", line):
            seen[match[1]] += 1
            marks += 'access("/mark"' in line
            if marks == 1 and match[1] != "access":
                out.append((match[1], seen[match[1]]))
    return out


@pytest.mark.parametrize("what", WHAT)
def test_killed_at_a_system_call(place: Place, what: str) -> None:
    doing = prepared(place, what)
    found = calls(place, doing)
    assert len(found) > 50
    everything = os.environ.get("HARNESS_TORTURE") == "all"
    chosen = found if everything else random.Random(what).sample(found, SAMPLE)
    landed = ["count-warm", "count-0"]
    killed = 0
    for number, (call, nth) in enumerate(chosen):
        name = f"t{number}"
        code, acknowledged = strace(
            place, name, doing, "-o", "/dev/null", "-e", f"inject={call}:signal=SIGKILL:when={nth}"
        )
        killed += code == -9 or code == 137
        landed += acknowledged
        place.close()
        place.store.catch_up()
        texts = [str(text).strip() for text in place.texts()]
        rows = Counter(text for text in texts if " filler " not in text)
        assert max(rows.values()) == 1, (call, nth)
        assert set(landed) <= set(rows), (call, nth)
        extra = sorted(set(rows) - set(landed) - {"before"})
        assert set(extra) <= {f"{name}-0", f"{name}-warm"}, (call, nth)
        landed += extra
        assert place.porcelain() == ["A  staged.txt"], (call, nth)
    assert killed > len(chosen) * 0.8
    whole_or_nothing(place, landed, "t0")


def test_the_marks_are_around_the_tick(place: Place) -> None:
    prepared(place, "append")
    found = Counter(name for name, _ in calls(place, "append"))
    assert found["fdatasync"] == 1
    assert found["flock"] >= 1
    assert found["link"] + found["linkat"] == 1
