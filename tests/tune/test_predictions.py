"""A lesson's promise is held against later outputs, and what doesn't hold is said."""

from __future__ import annotations

import sys

import pytest

from harness.flows.predictions import lessons
from harness.tune import prediction
from harness.tune.proposal import Expected
from tests.tune.conftest import Session


def apply(session: Session, **fields: object) -> None:
    session.says("draft the page")
    session.proposes(**fields)  # type: ignore[arg-type]
    session.stops("Apply it?")
    assert "applied" in session.says("yes")
    session.stops("Applied.")


def draft(session: Session, message: str, **fields: object) -> None:
    session.says("draft another")
    session.uses()
    session.stops(message, **fields)
    session.bench.observe()


def test_drafts_that_break_the_promise_mark_the_lesson(session: Session) -> None:
    """S-23."""
    apply(session)
    assert [one.state for one in lessons(session.bench.store)] == ["not tried yet"]
    draft(session, "It might work. Mighty fine.")
    draft(session, "It may.")
    [lesson] = lessons(session.bench.store)
    assert (lesson.checked, lesson.held, lesson.state) == (2, 0, "made it worse")
    rows = session.bench.rows("state/log/predictions.ndjson")
    assert [r["check"] for r in rows] == ["absent: may, might"] * 2
    assert session.bench.read("skills/aeo/overlay.md"), "an approved edit is never undone without a person"


def test_drafts_that_keep_it_hold(session: Session) -> None:
    apply(session)
    draft(session, "It works.")
    draft(session, "It works, mightily.")
    [lesson] = lessons(session.bench.store)
    assert (lesson.checked, lesson.held, lesson.state) == (2, 2, "held")


def test_what_a_turn_wrote_into_files_is_part_of_its_output(session: Session) -> None:
    apply(session)
    session.says("draft another")
    session.uses()
    call = {"type": "tool_use", "id": "t1", "name": "Write", "input": {"file_path": "a.md", "content": "It may rain."}}
    session.write(type="assistant", message={"role": "assistant", "content": [call]})
    session.stops("Written to a.md.")
    session.bench.observe()
    [lesson] = lessons(session.bench.store)
    assert (lesson.checked, lesson.held) == (1, 0)


def test_a_turn_without_the_skill_is_no_output_of_it(session: Session) -> None:
    apply(session)
    session.says("what time is it")
    session.stops("It may be noon.")
    session.bench.observe()
    assert [one.checked for one in lessons(session.bench.store)] == [0]


def test_one_output_is_checked_once(session: Session) -> None:
    apply(session)
    draft(session, "It works.")
    payload = {"harness_note": "output", "ts": "2026-11-30T21:48:00Z", "skill": "aeo", "name": "again", "text": "It may.",
               "session": session.id, "turn": f"p{session.turn}", "transcript": ""}  # fmt: skip
    session.bench.spool(payload, "n-01JE9Z0K3Q5W8T4X7R2M6N1P0A.json")
    session.bench.observe()
    assert [one.checked for one in lessons(session.bench.store)] == [1]


def test_a_command_can_check_it(session: Session) -> None:
    script = "import sys; sys.exit(len(sys.stdin.read().split()) > 5)"
    apply(session, expected=Expected("short drafts", command=(sys.executable, "-c", script)))
    draft(session, "It works.")
    draft(session, "It works and it works and it works.")
    assert [(r["held"]) for r in session.bench.rows("state/log/predictions.ndjson")] == [True, False]


@pytest.mark.parametrize(
    ("held", "runs", "state"),
    [
        ([], 0, "not tried yet"),
        ([], 19, "not tried yet"),
        ([], 20, "unproven"),
        ([False], 3, "not tried yet"),
        ([False], 20, "unproven"),
        ([True], 1, "held"),
        ([True, False], 2, "held"),
        ([True, False, False], 3, "made it worse"),
        ([False, True, True], 3, "held"),
        ([False, False, True], 3, "made it worse"),
    ],
)
def test_the_standing_of_a_lesson(held: list[bool], runs: int, state: str) -> None:
    assert prediction.state(held, runs) == state


@pytest.mark.parametrize(
    ("text", "word", "there"),
    [("It may.", "may", True), ("May I?", "may", True), ("maybe", "may", False), ("dismay", "may", False), ("a-b", "a-b", True),
     ("C++ code", "C++", True), ("naïve", "naïve", True), ("may_be", "may", False)],
)  # fmt: skip
def test_words_are_whole_words(text: str, word: str, there: bool) -> None:
    assert prediction.holds(text, word) is there
