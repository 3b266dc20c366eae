"""The scan: what people said right after a skill, counted as they said it, from the clients' own files."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from harness.flows.scan import scan, topic
from tests.cli.conftest import Project, make_project
from tests.sessions.places import SAMPLES, case


class Talk:
    """A session as Claude Code writes one, a line at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[dict[str, Any]] = []
        self.parent: str | None = None

    def line(self, kind: str, **fields: Any) -> Talk:
        uuid = f"{self.name}-{len(self.lines)}"
        common = {
            "parentUuid": self.parent,
            "isSidechain": False,
            "sessionId": self.name,
            "cwd": "/home/dev/shop",
            "timestamp": "2026-11-30T10:00:00.000Z",
        }
        self.lines.append({"type": kind, "uuid": uuid, **common, **fields})
        self.parent = uuid
        return self

    def says(self, text: str, **fields: Any) -> Talk:
        return self.line("user", message={"role": "user", "content": text}, **fields)

    def answers(self, text: str) -> Talk:
        return self.line(
            "assistant",
            message={
                "role": "assistant",
                "id": f"m{self.name}{len(self.lines)}",
                "content": [{"type": "text", "text": text}],
            },
        )

    def calls(self, tool: str, given: dict[str, str], result: str, *, ok: bool = True) -> Talk:
        number = f"toolu_{self.name}{len(self.lines)}"
        use = {"type": "tool_use", "id": number, "name": tool, "input": given}
        self.line("assistant", message={"role": "assistant", "id": f"m{number}", "content": [use]})
        answer = {"type": "tool_result", "tool_use_id": number, "content": result, "is_error": not ok}
        return self.line("user", message={"role": "user", "content": [answer]})

    def skill(self, name: str) -> Talk:
        return self.calls("Skill", {"skill": name, "args": ""}, f"Launching skill: {name}")

    def write(self, home: Path) -> Path:
        folder = home / ".claude/projects/-home-dev-shop"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines), "utf-8")
        return path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A code repository, nothing of ours in it."""
    return make_project(tmp_path / "scratch")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Five sessions: the skill aeo corrected four times, three of them for one reason; email praised; one without a skill."""
    folder = tmp_path / "home"
    (
        Talk("one").says("write it").skill("aeo").answers("A draft.").says("this is too hedgy, it uses 'may' twice").skill("aeo")
        .answers("Again.").says("better").write(folder)
    )  # fmt: skip
    Talk("two").says("write").skill("aeo").answers("Draft.").says("Way too hedgy!").answers("Sorry.").says(
        "this is terrible"
    ).write(folder)
    Talk("three").says("go").skill("aeo").answers("Draft.").says("too hedgy").says("perfect").write(folder)
    (
        Talk("four").says("x").skill("email").calls("Bash", {"command": "ls"}, "Exit code 2\nls: cannot access '/a/b/c': No such file", ok=False)
        .says("damn that cold email hook is sharp, keep doing that").skill("email")
        .calls("Bash", {"command": "ls"}, "Exit code 2\nls: cannot access '/x/y/z': No such file", ok=False)
        .says("thanks").skill("aeo").answers("Draft.").says("> too hedgy").write(folder)
    )  # fmt: skip
    Talk("five").says("bad").answers("No skill here.").says("this is bad").write(folder)
    return folder


def test_corrections_right_after_a_skill_are_counted_by_what_they_say(home: Path) -> None:
    found = scan({"HOME": str(home)}, 30)
    assert (found.sessions, found.with_skills, found.corrections, found.repeated) == (5, 4, 3, 3)
    aeo, email = found.skills["aeo"], found.skills["email"]
    assert (aeo.uses, aeo.sessions, aeo.praised, aeo.corrected) == (5, 4, 1, 3)
    assert aeo.topics == {"too hedgy": 3}
    assert (email.uses, email.praised, email.corrected) == (2, 1, 0)
    assert email.failures == {"Bash: ls: cannot access 'PATH': No such file": 2}
    assert found.ordered()[0][0] == "aeo"


def test_a_skill_that_was_typed_counts(tmp_path: Path) -> None:
    folder = tmp_path / ".claude/projects/p"
    folder.mkdir(parents=True)
    shutil.copy(SAMPLES / "skill-typed-by-user.jsonl", folder / "s.jsonl")
    shutil.copy(SAMPLES / "main.jsonl", folder / "m.jsonl")
    found = scan({"HOME": str(tmp_path)}, 30)
    assert found.skills["demo"].uses == 2
    assert found.skills["demo"].failures == {"Bash: ls: cannot access 'PATH': No such file or directory": 1}


def test_old_sessions_and_broken_files_are_left_out_and_said(home: Path) -> None:
    folder = home / ".claude/projects/-home-dev-shop"
    old = time.time() - 40 * 86_400
    os.utime(folder / "two.jsonl", (old, old))
    (folder / "bad.jsonl").write_bytes(b'\x1f\x8b"Skill"')
    shutil.copy(case("T-02"), folder / "torn.jsonl")
    with open(folder / "torn.jsonl", "a") as file:
        file.write(
            '{"type":"user","uuid":"z","sessionId":"s","message":{"role":"user","content":"the tool \\"Skill\\""}}\n'
        )
    found = scan({"HOME": str(home)}, 30)
    assert (found.sessions, found.corrections) == (6, 2)
    assert list(found.unreadable) == [str(folder / "bad.jsonl")]


def test_a_quote_is_short_and_holds_no_secret(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    Talk("s").says("x").skill("aeo").says(
        f"this is too long, and {token} is in it, and more and more and more words"
    ).write(tmp_path)
    (one,) = scan({"HOME": str(tmp_path)}, 30).skills["aeo"].said["too long"]
    assert len(one["words"]) <= 60
    assert token[:10] not in one["words"]


@pytest.mark.parametrize(
    ("words", "about"),
    [
        ("this is too hedgy", "too hedgy"), ("way too hedgy", "too hedgy"), ("Still too long", "too long"), ("it is wrong", "wrong"),
        ("the tone is off", "off"), ("worse than before", "worse than before"), ("it", "it"), ("you forgot the subject line", "you forgot the subject line"),
    ],
)  # fmt: skip
def test_who_and_how_much_is_no_part_of_what_a_complaint_is_about(words: str, about: str) -> None:
    assert topic(words) == about


def test_the_command_works_without_a_workspace_and_changes_nothing(project: Project, home: Path) -> None:
    before = sorted(p.name for p in project.root.iterdir())
    env = {"HOME": str(home)}
    done = project.ok("scan", env=env)
    assert done.out.startswith(
        "5 sessions in 30 days, 4 with a skill; 3 corrections after a skill, 3 said twice or more\n"
    )
    assert "too hedgy x3" in done.out
    assert "x2  Bash: ls: cannot access 'PATH': No such file" in done.out
    assert "a lesson of one line costs about 27 tokens at each use (aeo: 135 in 30 days)" in done.out
    answer = project.ok("scan", "--json", env=env).json
    assert answer["skills"]["aeo"]["corrections"][0]["times"] == 3
    assert sorted(p.name for p in project.root.iterdir()) == before
    nothing = project.ok("scan")
    assert "no sessions in the last 30 days" in nothing.out
    assert f"looked in {project.home}/.claude/projects: no such folder" in nothing.out
