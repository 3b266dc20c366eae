"""`sessions` as a person uses it: in a home with sessions of three clients, without any workspace."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tests.cli.conftest import Project
from tests.sessions.places import SAMPLES, case, markers


@pytest.fixture
def home(project: Project) -> Path:
    """Sessions where the clients keep them."""
    claude = project.home / ".claude/projects/-home-dev-project"
    codex = project.home / ".codex/sessions/2026/11/30"
    gemini = project.home / ".gemini/tmp/project/chats"
    for folder in (claude, codex, gemini):
        folder.mkdir(parents=True)
    shutil.copy(SAMPLES / "main.jsonl", claude / "c0bc70e2-9e04.jsonl")
    shutil.copy(case("T-27"), claude / "9a1d91f4-9332.jsonl")
    shutil.copy(SAMPLES / "codex-rollout.jsonl", codex / "rollout-2026-11-30T22-10-05-01a22e82.jsonl")
    shutil.copy(SAMPLES / "gemini-chat.jsonl", gemini / "session-2026-11-30T22-11-28b184dc.jsonl")
    return project.home


def test_list_names_the_sessions_of_every_client_and_their_branches(project: Project, home: Path) -> None:
    answer = project.ok("sessions", "list", "--json").json
    by_id = {one["id"]: one for one in answer["sessions"]}
    assert {one["client"] for one in by_id.values()} == {"claude-code", "codex", "gemini"}
    main = by_id["c0bc70e2-9e04"]
    assert (main["turns"], main["title"], main["cwd"], main["state"]) == (8, "do it", "/home/dev/project", "busy")
    assert len(by_id["9a1d91f4-9332"]["branches"]) == 2
    assert answer["of"] == 4
    text = project.ok("sessions", "list").out
    assert "8 turns" in text
    assert "  9a1d91f4-9332:" in text


def test_list_says_where_it_looked_when_there_is_nothing(project: Project) -> None:
    done = project.ok("sessions", "list")
    assert f"looked in {project.home}/.claude/projects: no such folder" in done.err


def test_read_gives_pages_and_the_command_that_goes_on(project: Project, home: Path) -> None:
    page = project.ok("sessions", "read", "c0bc", "--max-chars", "1000").out
    assert len(page) <= 1_000
    assert page.startswith("turns 1-")
    command = page.strip().split("\n")[-1].partition(": harness ")[2].split()
    following = project.ok(*command).out
    assert following.startswith("turns ")
    assert not following.startswith("turns 1-")
    assert project.ok("sessions", "read", "c0bc", "--turns", "-1:").out.startswith("turns 8-8 of 8 ")
    assert project.ok("sessions", "read", "c0bc", "--turns", "2").out.startswith("turns 2-2 of 8 ")
    assert project.harness("sessions", "read", "c0bc", "--turns", "a:b").code == 2
    assert project.harness("sessions", "read", "nothing").code == 1
    assert json.loads(project.ok("sessions", "read", "c0bc", "--format", "json").out)["of"] == 8


def test_check_prints_the_account_and_fails_when_something_was_dropped(project: Project, home: Path) -> None:
    whole = project.ok("sessions", "check", str(case("T-01")))
    assert "3 lines, 4 records, 2 recovered, 0 repeats, 0 dropped" in whole.out
    broken = project.harness("sessions", "check", str(case("T-02")), str(case("T-01")))
    assert broken.code == 1
    assert "line 2: dropped 150 bytes, cut off before its end" in broken.out
    answer = project.harness("sessions", "check", str(case("T-02")), str(case("T-10.gz")), "--json").json
    assert answer[0]["accounts"]["T-02.jsonl"]["dropped"] == [
        {"line": 2, "bytes": 150, "reason": "cut off before its end"}
    ]
    assert "gzip" in answer[1]["error"]


def test_dump_shows_every_node_with_its_edges(project: Project, home: Path) -> None:
    nodes = [json.loads(line) for line in project.ok("sessions", "dump", "c0bc", "--json").out.splitlines()]
    ids = {node["id"] for node in nodes}
    assert {node["kind"] for node in nodes} == {"turn", "call", "meta"}
    assert all(node["predecessor"] in ids for node in nodes if node["predecessor"])
    assert all(node["caller"] in ids for node in nodes if node["caller"])
    assert [node["seq"] for node in nodes] == sorted(node["seq"] for node in nodes)


def test_tail_begins_with_the_last_turns(project: Project, home: Path) -> None:
    assert project.ok("sessions", "tail", "c0bc", "--turns", "2", "--no-follow").out.startswith("turns 7-8 of 8 ")


def test_read_without_a_name_reads_the_current_session(project: Project, home: Path) -> None:
    done = project.ok("sessions", "read", env={"CLAUDE_CODE_SESSION_ID": "c0bc70e2-9e04"})
    assert "session c0bc70e2-9e04" in done.out
    assert project.harness("sessions", "read").code == 1


def test_tail_follows_what_is_written(project: Project, home: Path, tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"
    whole = case("T-39").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:3]))
    command = [sys.executable, "-P", "-u", "-m", "harness", "sessions", "tail", str(path)]
    with subprocess.Popen(command, cwd=project.root, env=project.env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            seen = _until(process.stdout, "[2] assistant")
            with open(path, "ab") as file:
                file.write(b"".join(whole[3:]))
            seen += _until(process.stdout, "t39-m06")
        finally:
            process.kill()
    assert markers(seen) == [f"t39-m{n:02d}" for n in range(1, 7)]


def _until(stream: IO[str], text: str) -> str:
    """What ``stream`` gives up to the line after the one with ``text``."""
    out = ""
    for line in stream:
        out += line
        if text in out:
            return out
    raise AssertionError(out)
