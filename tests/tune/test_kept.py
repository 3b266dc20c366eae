"""Signals that nobody had to say: an output that was committed as it was, or edited heavily before."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.flows.kept import changed
from tests.tune.conftest import Session, cards

DRAFT = "".join(f"line {n}\n" for n in range(20))


def draft(session: Session, text: str = DRAFT) -> Path:
    """The skill runs and its turn writes a file of the project."""
    session.says("draft the page")
    session.uses()
    place = session.bench.project.root / "page.md"
    place.write_text(text)
    call = {"type": "tool_use", "id": "w1", "name": "Write", "input": {"file_path": str(place), "content": text}}
    session.write(type="assistant", message={"role": "assistant", "content": [call]})
    session.stops()
    session.bench.observe()
    return place


def commit(session: Session) -> None:
    for args in (["add", "page.md"], ["commit", "-qm", "the page"]):
        subprocess.run(["git", *args], cwd=session.bench.project.root, env=session.bench.project.env, check=True)


def signals(session: Session) -> list[tuple[str, float]]:
    session.bench.drain()
    session.bench.drain()
    return [(r["signal"], r["reward"]) for r in cards(session.bench)]


def test_committed_as_it_was_is_kept(session: Session) -> None:
    draft(session)
    assert signals(session) == [], "nothing is known yet"
    commit(session)
    assert signals(session) == [("implicit_positive", 0.5)]
    assert cards(session.bench)[0]["reaction"] == "committed without change: page.md"


def test_edited_heavily_is_negative_and_a_little_is_nothing(session: Session) -> None:
    place = draft(session)
    place.write_text(DRAFT.replace("line 1", "other 1"))
    commit(session)
    assert signals(session) == [("implicit_negative", -0.5)]


def test_a_small_edit_says_nothing(session: Session) -> None:
    """S-22: without evidence it is neutral, and the same input gives the same value."""
    place = draft(session)
    place.write_text(DRAFT.replace("line 7\n", "other\n"))
    commit(session)
    assert signals(session) == []
    assert signals(session) == []


def test_what_the_agent_changed_later_is_not_the_users_edit(session: Session) -> None:
    place = draft(session)
    session.says("rewrite it")
    call = {
        "type": "tool_use",
        "id": "w2",
        "name": "Edit",
        "input": {"file_path": str(place), "old_string": "a", "new_string": "b"},
    }
    session.write(type="assistant", message={"role": "assistant", "content": [call]})
    place.write_text("all new\n" * 20)
    commit(session)
    assert [s for s in signals(session) if s[1]] == []


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        ("a\nb\n", "a\nb\n", 0),
        ("a\r\nb\r\n", "a\nb\n", 0),
        ("a\nb\nc\nd\n", "a\nb\nc\nX\n", 0.25),
        ("a\n", "", 1),
        ("", "x\n", 1),
    ],
)
def test_the_share_of_lines_changed(before: str, after: str, share: float) -> None:
    assert changed(before, after) == pytest.approx(share)
