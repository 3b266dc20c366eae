"""The rig itself: it kills, fails and halves what it says and nothing else; then a sample of its points, and the crowd."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from . import ptrace
from .__main__ import arguments
from .disk import may_mount
from .operations import OPERATIONS
from .points import DEEDS, unclear
from .ptrace import GO, HALF, KILL, KILL_ALL, KILL_HOLD, Call

pytestmark = pytest.mark.skipif(bool(ptrace.why_not()), reason=ptrace.why_not())

# What the rig found, one by one; each is tried again.
ONCE_WRONG = (
    "undo:kill:write .git/logs/HEAD",
    "rotate:kill:git write pipe",
    "rotate:group:rename state/log/loader-feedback.log",
    "adopt:torn:snapshot",
    "bulk:group:.keep",
    "bulk:kill:harness-scratch.lock",
    "bulk:readonly:tmp_pack",
    "detached:group:rename .git/refs/harness/keep",
    "detached:EACCES:rename .git/refs/harness/keep",
    "recover-intent:kill:write .git/logs/refs/heads/main",
    "recover-intent:ENOSPC:rename .git/refs/heads/main.lock",
)


def at(name: str, process: int, answer: str | int) -> Callable[[Call], str | int]:
    """A decision: ``answer`` at the first call ``name`` of a process, which is made on a file or a pipe of the test."""
    done: list[Call] = []

    def decide(call: Call) -> str | int:
        if done or call.name != name or call.process != process:
            return GO
        done.append(call)
        return answer

    return decide


def family(folder: Path) -> Callable[[], int]:
    """A process that writes, starts another that writes, waits for that and writes again."""

    def work() -> int:
        (folder / "a").write_text("before\n")
        done = subprocess.run(["/bin/sh", "-c", f"echo child > {folder}/b; echo more > {folder}/d"], check=False)
        (folder / "c").write_text(f"child {done.returncode}\n")
        return 0

    return work


def left(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


EVERYTHING = {"a": "before\n", "b": "child\n", "c": "child 0\n", "d": "more\n"}


def test_an_undisturbed_run_is_the_same_each_time(tmp_path: Path) -> None:
    runs = [ptrace.run(family(tmp_path), tmp_path) for _ in range(2)]
    assert [run.code for run in runs] == [0, 0]
    assert left(tmp_path) == EVERYTHING
    one, two = (Counter(str(c) for c in run.calls if c.inside) for run in runs)
    assert one == two
    assert {c.process for c in runs[0].calls} == {0, 1}


def test_the_process_that_makes_the_call_dies_alone(tmp_path: Path) -> None:
    run = ptrace.run(family(tmp_path), tmp_path, at("write", 1, KILL))
    assert run.code == 0
    assert left(tmp_path) == {"a": "before\n", "b": "", "c": f"child -{int(signal.SIGKILL)}\n"}


def test_a_first_process_that_dies_leaves_its_child_at_work(tmp_path: Path) -> None:
    run = ptrace.run(family(tmp_path), tmp_path, at("vfork", 0, GO))
    start = next(c.number for c in run.calls if c.name in ("execve", "execveat"))
    for path in tmp_path.iterdir():
        path.unlink()

    def decide(call: Call) -> str:
        return KILL if call.process == 0 and call.number > start and not call.alone else GO

    run = ptrace.run(family(tmp_path), tmp_path, decide)
    assert run.code == -signal.SIGKILL
    assert left(tmp_path) == {"a": "before\n", "b": "child\n", "d": "more\n"}


def test_all_processes_die(tmp_path: Path) -> None:
    run = ptrace.run(family(tmp_path), tmp_path, at("write", 1, KILL_ALL))
    assert run.code == -signal.SIGKILL
    assert left(tmp_path) == {"a": "before\n", "b": ""}


def test_the_others_are_held_and_go_on_when_released(tmp_path: Path) -> None:
    def decide(call: Call) -> str:
        return KILL_HOLD if call.process == 0 and not call.alone and call.name == "close" else GO

    run = ptrace.run(family(tmp_path), tmp_path, decide)
    assert run.code == -signal.SIGKILL
    assert run.held
    assert "d" not in left(tmp_path)
    run.release()
    assert left(tmp_path) == {"a": "before\n", "b": "child\n", "d": "more\n"}


@pytest.mark.parametrize("name", ["ENOSPC", "EIO", "EACCES", "EROFS"])
def test_a_call_fails_with_the_error_that_is_asked_for(tmp_path: Path, name: str) -> None:
    def work() -> int:
        try:
            (tmp_path / "a").write_text("x")
        except OSError as error:
            return error.errno or 0
        return 99

    assert ptrace.run(work, tmp_path, at("openat", 0, getattr(errno, name))).code == getattr(errno, name)
    assert left(tmp_path) == {}


def test_half_of_a_write_is_done(tmp_path: Path) -> None:
    def work() -> int:
        handle = os.open(tmp_path / "a", os.O_WRONLY | os.O_CREAT)
        return os.write(handle, b"0123456789")

    assert ptrace.run(work, tmp_path, at("write", 0, HALF)).code == 5
    assert left(tmp_path) == {"a": "01234"}


def test_what_a_clear_end_is() -> None:
    assert not unclear(0, "1 run\n")
    assert not unclear(1, "harness: cannot write x: No space left on device. Free some space\n")
    assert not unclear(-9, "")
    assert unclear(1, "")
    assert unclear(70, "harness: x\n")
    assert unclear(1, "Traceback (most recent call last):\n")
    assert unclear(1, "harness: one\nharness: two\n")


def torture(tmp_path: Path, *args: str) -> list[dict[str, object]]:
    """Run the rig as `make torture` does; what came of each point."""
    out = tmp_path / "results.json"
    command = [sys.executable, "-m", "tests.torture", "--json", str(out), *args]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    value = json.loads(out.read_text())
    assert isinstance(value, list)
    return value


def test_what_the_page_shows_can_be_asked_for() -> None:
    page = (Path(__file__).parents[2] / "docs/torture.md").read_text("utf-8")
    shown = [shlex.split(words) for words in re.findall(r'^\$ make torture ARGS="(.*?)"', page, re.M)]
    assert len(shown) > 4
    for words in shown:
        asked = arguments(words)
        named = [asked.only, *asked.at]
        assert all(one.split(":")[0] in OPERATIONS and one.split(":")[1] in DEEDS for one in named if one)
    assert all(name in page for name in [*OPERATIONS, *DEEDS])


def test_a_sample_of_all_points(tmp_path: Path) -> None:
    results = torture(tmp_path, "--sample", "280", "--seed", "1")
    assert len(results) == 280
    assert {r["deed"] for r in results} == set(DEEDS)
    met = [r for r in results if r["call"]]
    assert len(met) > 250
    killed = [r for r in met if r["deed"] in ("group", "torn", "late")]
    assert all(r["code"] == -signal.SIGKILL for r in killed)


def test_points_that_were_wrong_once(tmp_path: Path) -> None:
    results = torture(tmp_path, *(word for one in ONCE_WRONG for word in ("--at", one)))
    assert {f"{r['operation']}:{r['deed']}" for r in results} == {one.rpartition(":")[0] for one in ONCE_WRONG}


def test_a_crowd_and_a_person_in_one_workspace() -> None:
    command = [sys.executable, "-m", "tests.torture.crowd", "--seconds", "30", "--seed", "1"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]


@pytest.mark.skipif(not may_mount(), reason="a small file system has to be mounted, and this user may not")
def test_every_operation_on_a_disk_that_takes_no_more() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.torture.disk"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
