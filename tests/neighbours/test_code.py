"""A code repository around the workspace: no tick touches its history, its index, its hooks or its files, whatever state it is in."""

from __future__ import annotations

import sys

import pytest
from fixtures.workspaces import FEEDBACK, PERSON, Code, fingerprint, run, script

STATES = ["G-02", "G-04", "G-10", "G-13", "G-16", "G-17", "G-18", "G-22", "G-25"]


@pytest.mark.parametrize("name", STATES)
def test_the_code_stays_byte_for_byte_as_it_was_in_the_state_of(name: str, code: Code) -> None:
    script(name, code.root)
    before = fingerprint(code.root, ".harness")
    porcelain = code.git("--no-optional-locks", "status", "--porcelain")
    code.place.tick(text="a")
    code.place.feedback("b")
    code.place.harness("status", ok=(0, 3))
    code.place.harness("log", "--all")
    assert fingerprint(code.root, ".harness") == before
    assert code.git("--no-optional-locks", "status", "--porcelain") == porcelain
    assert ".harness" not in porcelain
    assert code.place.texts() == ["a"]
    assert code.place.texts(FEEDBACK) == ["b"]


def test_G_07_a_hook_of_the_code_that_ticks_takes_nothing_into_the_codes_commit(code: Code) -> None:
    script("G-07", code.root)
    command = f'"{sys.executable}" -P -m harness --workspace "{code.place.root}" feedback feedback "from the hook"'
    done = run(["git", "commit", "-q", "-m", "user"], code.root, env={**PERSON, "TICK_CMD": command})
    assert done.returncode == 0, done.stderr
    assert code.git("show", "--format=", "--name-only", "HEAD") == "a.txt"
    assert code.place.texts(FEEDBACK) == ["from the hook"]
    assert code.place.porcelain() == []


def test_switching_branches_in_the_code_leaves_what_was_learned(code: Code) -> None:
    code.place.put("skills/aeo/overlay.md", "learned\n")
    code.git("switch", "-q", "-c", "other", "HEAD~1")
    code.git("clean", "-fdq")
    assert (code.place.root / "skills/aeo/overlay.md").read_text() == "learned\n"
    code.git("switch", "-q", "main")
    code.git("stash", "-q", "-u", ok=(0, 1))
    assert code.place.store.tree.read("skills/aeo/overlay.md") == b"learned\n"


def test_the_code_does_not_see_the_workspace(code: Code) -> None:
    assert code.git("status", "--porcelain") == ""
    assert code.git("check-ignore", ".harness/state") == ".harness/state"
    assert code.git("ls-files") == "a.txt"
