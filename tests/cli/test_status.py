"""`status`: what stands in the way is named, with the next step; and looking changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Project


def problems(project: Project) -> list[dict[str, str]]:
    found: list[dict[str, str]] = project.harness("status", "--json").json["problems"]
    return found


def test_a_quiet_workspace_has_nothing_to_say(shop: Project) -> None:
    done = shop.ok("status")
    assert "waits      nothing" in done.out
    assert problems(shop) == []


def test_a_stale_index_lock_is_named_with_age_holder_and_command_and_left_alone(shop: Project) -> None:
    """G-02."""
    lock = shop.workspace / ".git/index.lock"
    lock.touch()
    old = time.time() - 8 * 86_400
    os.utime(lock, (old, old))
    for n in range(5):
        assert shop.harness("feedback", "aeo", f"gap {n}").code == 5
    [problem] = [p for p in problems(shop) if "index.lock" in p["why"]]
    assert "8 days old" in problem["why"]
    assert "no process holds it" in problem["why"]
    assert f"rm {lock}" in problem["next"]
    assert lock.exists()
    assert shop.harness("status").code == 3
    lock.unlink()
    shop.ok("observe")
    assert [r["text"] for r in shop.rows("state/log/feedback.ndjson")] == [f"gap {n}" for n in range(5)]


def test_a_lock_that_is_held_says_by_whom(shop: Project) -> None:
    lock = shop.workspace / ".git/index.lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", f"f=open({str(lock)!r},'w'); print(1, flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout
    holder.stdout.readline()
    try:
        assert any(f"process {holder.pid} holds it" in p["why"] for p in problems(shop))
    finally:
        holder.communicate(b"\n")


def test_a_refusal_that_nobody_saw_is_still_shown(shop: Project) -> None:
    """G-03: the hook's own output is thrown away by the caller."""
    lock = shop.workspace / ".git/index.lock"
    lock.touch()
    settings = json.loads((shop.root / ".claude/settings.local.json").read_text())
    hook = settings["hooks"]["Stop"][0]["hooks"][0]
    payload = {"hook_event_name": "Stop", "session_id": "s", "prompt_id": "p", "cwd": str(shop.root),
               "stop_hook_active": False, "last_assistant_message": "harness-feedback: aeo: x was missing [LOGGED]"}  # fmt: skip
    done = subprocess.run(
        [hook["command"], *hook["args"]], input=json.dumps(payload).encode(), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env={**shop.env, "CLAUDE_CODE_SESSION_ATTENDED": "1"}, cwd=shop.root, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    state = shop.harness("status", "--json")
    assert state.code == 3
    assert any("index.lock" in p["why"] for p in state.json["problems"])
    lock.unlink()
    until = time.monotonic() + 20
    while not shop.rows("state/log/feedback.ndjson") and time.monotonic() < until:
        shop.harness("observe")
        time.sleep(0.1)
    assert [r["text"] for r in shop.rows("state/log/feedback.ndjson")] == ["x was missing"]


def test_leftovers_of_killed_housekeeping_are_counted_and_do_not_stop_ticks(shop: Project) -> None:
    """G-04."""
    git = shop.workspace / ".git"
    (git / "gc.pid").write_text("999999 otherhost\n")
    (git / "packed-refs.lock").touch()
    pack = git / "objects/pack"
    pack.mkdir(exist_ok=True)
    for name in ("tmp_pack_AbCdEf", "tmp_pack_GhIjKl"):
        (pack / name).write_bytes(bytes(4096))
    shop.ok("feedback", "aeo", "a gap")
    assert len(shop.rows("state/log/feedback.ndjson")) == 1
    assert "2 leftovers" in shop.harness("status", "-v").out


def test_status_takes_no_lock_and_writes_nothing(shop: Project) -> None:
    """G-01."""
    (shop.workspace / "README.md").touch()
    index = shop.workspace / ".git/index"
    before = index.stat().st_mtime_ns, index.read_bytes()
    trace = shop.home / "trace"
    command = [
        "strace",
        "-f",
        "-e",
        "trace=openat,creat,link,rename",
        "-o",
        str(trace),
        sys.executable,
        "-P",
        "-m",
        "harness",
        "status",
    ]
    try:
        subprocess.run(command, cwd=shop.root, env=shop.env, check=True, capture_output=True)
        assert "index.lock" not in trace.read_text(errors="replace")
    except FileNotFoundError:  # no strace on this machine: the bytes still tell
        shop.ok("status")
    assert (index.stat().st_mtime_ns, index.read_bytes()) == before


def test_signing_that_is_wanted_but_off_is_said(shop: Project) -> None:
    """G-21."""
    shop.git("config", "commit.gpgsign", "true")
    assert "although commit.gpgsign is on" in shop.ok("status").out


def test_pending_changes_come_with_both_commands(shop: Project) -> None:
    path = shop.workspace / "skills/aeo/SKILL.md"
    before = path.read_bytes()
    path.write_text("changed\n")
    [one] = shop.ok("status", "--json").json["pending"]
    accept, back = one["next"].split("; ")
    assert "commit -- skills/aeo/SKILL.md" in accept
    subprocess.run(["/bin/sh", "-c", back.removeprefix("to put it back: ")], check=True, env=shop.env)
    assert path.read_bytes() == before


def test_hook_times_are_shown_per_event(shop: Project) -> None:
    """H-34."""
    (shop.runtime / "hook-times.log").write_text("".join(f"Stop {n}.0\n" for n in range(1, 101)) + "torn lin")
    state = shop.ok("status", "--json").json
    assert state["hook_times"]["Stop"] == {"n": 100, "p50": 51.0, "p99": 100.0}
    assert "Stop" in shop.ok("status", "-v").out


def test_a_damaged_snapshot_is_reported_and_made_again_from_git(shop: Project) -> None:
    """H-36, H-41."""
    shop.ok("feedback", "aeo", "a gap")
    shop.ok("drain")
    good = shop.ok("show", "aeo", "--json").json
    for path in (shop.runtime / "snapshot").rglob("*.json"):
        path.write_bytes(os.urandom(4096))
    state = shop.harness("status", "--json")
    assert state.code == 3
    assert any("nothing is in force" in p["what"] for p in state.json["problems"])
    shop.ok("observe")
    assert problems(shop) == []
    assert shop.ok("show", "aeo", "--json").json == good


def test_a_read_only_workspace_is_a_clear_error_and_loses_nothing(shop: Project) -> None:
    """H-39; as root the mode bits don't bind, so the runtime folder is put out of reach instead."""
    runtime = shop.runtime
    if os.geteuid() == 0:
        away = runtime.with_name("harness-away")
        runtime.rename(away)
        runtime.write_text("a file in its place\n")
        done = shop.harness("observe")
        runtime.unlink()
        away.rename(runtime)
    else:  # pragma: no cover - CI runs as root
        runtime.chmod(0o500)
        done = shop.harness("observe")
        runtime.chmod(0o700)
    assert done.code == 1
    assert done.err.startswith("harness: cannot write")
    assert "Traceback" not in done.err


@pytest.mark.parametrize("name", ["a b'c", "my proj (v2)", "prøjekt é"])
def test_odd_folder_names_work_end_to_end(tmp_path: Path, name: str) -> None:
    """H-01, H-02."""
    from tests.cli.conftest import make_project

    project = make_project(tmp_path / name)
    project.ok("init")
    project.skill("aeo")
    settings = json.loads((project.root / ".claude/settings.local.json").read_text())
    hook = next(h for g in settings["hooks"]["PostToolUse"] if g["matcher"] == "Skill" for h in g["hooks"])
    payload = {"hook_event_name": "PostToolUse", "tool_name": "Skill", "session_id": "s", "prompt_id": "p", "tool_use_id": "t",
               "cwd": str(project.root), "tool_input": {"skill": "aeo"}, "tool_response": {"success": True}}  # fmt: skip
    done = subprocess.run(
        [hook["command"], *hook["args"]],
        input=json.dumps(payload),
        text=True,
        capture_output=True,
        env=project.env,
        cwd=project.root,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    project.ok("observe")
    assert [r["skill"] for r in project.rows("state/log/runs.ndjson")] == ["aeo"]


def test_an_event_that_is_ignored_is_no_problem(shop: Project) -> None:
    settings = json.loads((shop.root / ".claude/settings.local.json").read_text())
    hook = settings["hooks"]["Stop"][0]["hooks"][0]
    subprocess.run([hook["command"], *hook["args"]], input=b'{"hook_event_name": "Teatime"}', env=shop.env, check=True)
    state = shop.ok("status", "--json").json
    assert "Ignored" in state["hook_errors"][-1]
    assert state["problems"] == []


def test_many_unreadable_lines_are_three_and_a_count(shop: Project) -> None:
    with open(shop.workspace / "state/log/loader-feedback.log", "a") as file:
        file.writelines(f"nonsense {n}\n" for n in range(12))
    shop.ok("observe")
    out = shop.ok("status").out
    assert "12  lines of the last day that nobody could read" in out
    assert out.count("nonsense") == 3
    assert "and 9 more: state/log/quarantine.ndjson" in out


def test_settings_are_shown_as_they_are_given(shop: Project) -> None:
    out = shop.ok("settings").out
    assert "loader.review = false" in out
    assert "loader.duty = remind" in out
