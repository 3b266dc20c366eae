"""Locks that others hold or left behind, and looking that takes none."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from fixtures.workspaces import FEEDBACK, LOG, QUARANTINE, Code, Place, run

import harness
from harness.store.errors import Deferred

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace logs the files, and this machine has none"
)
HOOK = Path(harness.__file__).parent / "clients" / "hook.py"
PAYLOADS = Path(__file__).parent.parent / "fixtures" / "payloads"


@needs_strace
@pytest.mark.parametrize(
    "command", [["status"], ["status", "--json"], ["log", "--all"], ["where"], ["settings"], ["regen", "status"]]
)
def test_G_01_looking_takes_no_lock(code: Code, command: list[str], tmp_path: Path) -> None:
    place = code.place
    place.put("skills/aeo/AGENTS.md", "# Rules\n")
    _watch(code, tmp_path, [sys.executable, "-P", "-m", "harness", "--workspace", str(place.root), *command])


@needs_strace
@pytest.mark.parametrize(
    "event",
    ["SessionStart-startup", "UserPromptSubmit", "PreToolUse-Write", "PostToolUse-Skill", "Stop", "SubagentStart"],
)
def test_G_01_the_read_side_of_a_hook_takes_no_lock(code: Code, event: str, tmp_path: Path) -> None:
    place = code.place
    place.put("skills/aeo/AGENTS.md", "# Rules\n")
    payload = (
        (PAYLOADS / f"{event}.json")
        .read_text()
        .replace("@PROJ@", str(code.root))
        .replace("/home/dev/project", str(code.root))
    )
    _watch(code, tmp_path, [sys.executable, "-I", "-S", str(HOOK), str(place.root), str(place.runtime)], payload)


def _watch(code: Code, tmp_path: Path, command: list[str], data: str = "") -> None:
    """Run ``command`` under strace and check that no index was locked, touched or rewritten."""
    indexes = [code.root / ".git/index", code.place.workspace.git_dir / "index"]
    for root in (code.root / "a.txt", code.place.root / "state/harness.yaml"):
        later = time.time() + 5
        os.utime(root, (later, later))  # a plain `git status` would now refresh the index
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in indexes]
    log = tmp_path / "strace"
    done = run(
        [
            "strace",
            "-f",
            "-o",
            str(log),
            "-e",
            "trace=open,openat,creat,link,linkat,rename,renameat,renameat2",
            *command,
        ],
        code.root,
        data=data,
    )
    assert done.returncode in (0, 3), done.stderr
    assert not [line for line in log.read_text().splitlines() if "index.lock" in line and "O_RDONLY" not in line]
    assert log.read_text().count("openat") > 5
    assert [(path.read_bytes(), path.stat().st_mtime_ns) for path in indexes] == before


def test_G_02_a_stale_lock_keeps_the_rows_and_is_named(place: Place) -> None:
    place.script("G-02")
    lock = place.workspace.git_dir / "index.lock"
    for n in range(5):
        place.feedback(f"row {n}", ok=(5,))
    state = place.status(ok=(3,))
    (problem,) = [one for one in state["problems"] if "index.lock" in one["why"]]
    assert str(lock) in problem["why"]
    assert "8 days" in problem["why"]
    assert "no process holds it" in problem["why"]
    assert f"rm {lock}" in problem["next"]
    assert lock.exists()
    assert place.texts(FEEDBACK) == []
    lock.unlink()
    place.harness("observe")
    assert place.texts(FEEDBACK) == [f"row {n}" for n in range(5)]
    assert place.status()["problems"] == []


def test_G_02_ticks_of_the_store_wait_the_same(place: Place) -> None:
    place.script("G-02")
    for n in range(5):
        with pytest.raises(Deferred, match=r"index\.lock"):
            place.tick(text=str(n))
    assert len(place.status(ok=(3,))["deferred"]) == 5
    (place.workspace.git_dir / "index.lock").unlink()
    place.store.catch_up()
    assert place.texts() == list("01234")


def test_G_03_a_refusal_that_nobody_read_is_still_shown(place: Place) -> None:
    place.script("G-02")
    with open(place.root / LOG, "a") as file:
        file.write("[2026-07-01T10:00:00Z] aeo: a gap [LOGGED]\n")
    # What a hook starts: its streams are thrown away.
    run(
        [
            "sh",
            "-c",
            f'"{sys.executable}" -P -m harness --workspace "{place.root}" observe --quiet >/dev/null 2>/dev/null',
        ],
        place.root,
    )
    state = place.status(ok=(3,))
    assert state["log_lines"] == 1
    assert any("index.lock" in one["why"] and "days" in one["why"] for one in state["problems"])


def test_G_04_leftovers_of_killed_housekeeping_stop_nothing(place: Place) -> None:
    place.script("G-04")
    leftovers = sorted(p.name for p in (place.workspace.git_dir / "objects/pack").glob("tmp_*"))
    for n in range(100):
        place.tick(text=str(n))
    assert place.texts() == [str(n) for n in range(100)]
    assert sorted(p.name for p in (place.workspace.git_dir / "objects/pack").glob("tmp_*")) == leftovers
    assert (place.workspace.git_dir / "gc.pid").exists()
    assert "2 leftovers of killed git commands" in place.harness("status", "--verbose", ok=(0, 3))


def test_G_04_a_tick_starts_no_housekeeping(place: Place) -> None:
    place.git("config", "gc.auto", "1")
    place.git("config", "maintenance.auto", "true")
    place.git("config", "fetch.unpackLimit", "1")
    for n in range(10):
        place.tick(text=str(n))
    assert not list((place.workspace.git_dir / "objects/pack").iterdir())
    assert not (place.workspace.git_dir / "gc.log").exists()


@pytest.mark.parametrize("name", ["refs/heads/main.lock", "HEAD.lock"])
def test_G_05_a_lock_on_the_branch_defers_the_tick(place: Place, name: str) -> None:
    lock = place.workspace.git_dir / name
    lock.touch()
    before = place.head
    with pytest.raises(Deferred, match="lock"):
        place.tick(text="a")
    assert lock.exists()
    assert place.head == before
    assert place.porcelain() == []
    assert len(place.status(ok=(3,))["deferred"]) == 1
    lock.unlink()
    place.tick(text="b")
    assert place.texts() == ["a", "b"]
    assert place.count() <= 3
    place.healthy()


def test_a_person_holding_the_index_open_gets_it_back_untouched(place: Place) -> None:
    """A `git commit` with its editor open, or an `add -p`, holds index.lock for minutes."""
    held = place.workspace.git_dir / "index.lock"
    shutil.copy2(place.workspace.git_dir / "index", held)
    data = held.read_bytes()
    with pytest.raises(Deferred):
        place.tick(text="a")
    assert held.read_bytes() == data
    os.replace(held, place.workspace.git_dir / "index")
    place.tick(text="b")
    assert place.texts(QUARANTINE) == ["a", "b"]
    assert json.loads((place.workspace.snapshot / "now.json").read_bytes())["commit"] == place.head
