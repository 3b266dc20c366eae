"""The queue as the fold of its rows, retries, evals, areas and escalation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.loader import queue
from harness.loader.queue import area, escalation, eval_reason, fold, retry

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


def at(minutes: float = 0) -> str:
    return (NOW + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def row(op: str, *gaps: str, skill: str = "aeo", minutes: float = 0, **more: Any) -> dict[str, Any]:
    return {
        "id": "x", "ts": at(minutes), "skill": skill, "op": op, "feedback": list(gaps), "reason": "", "attempt": 0,
        "error": None, "tick": None, **more,
    }  # fmt: skip


def test_gaps_of_a_skill_join_one_entry() -> None:
    entries = fold(
        [row("enqueue", "a", minutes=-9), row("enqueue", "b"), row("enqueue", "c", skill="other"), row("enqueue", "a")]
    )
    assert list(entries) == ["aeo", "other"]
    assert entries["aeo"].feedback == ["a", "b"]
    assert entries["aeo"].opened == at(-9)
    assert entries["aeo"].state == "open"


def test_done_closes_what_it_lists_and_leaves_what_came_meanwhile() -> None:
    rows = [
        row("enqueue", "a", minutes=-9),
        row("start", "a", attempt=1),
        row("enqueue", "b", minutes=-5),
        row("done", "a"),
    ]
    entry = fold(rows)["aeo"]
    assert (entry.feedback, entry.opened, entry.state, entry.attempt) == (["b"], at(-5), "open", 0)
    assert fold([*rows, row("done", "b")]) == {}


def test_a_drain_that_died_leaves_an_entry_that_is_due_again_and_counts_as_an_attempt() -> None:
    entry = fold([row("enqueue", "a"), row("start", "a", attempt=1)])["aeo"]
    assert (entry.state, entry.attempt) == ("running", 1)
    assert entry.due(NOW)


def test_drains_that_die_every_time_come_to_an_end() -> None:
    rows = [row("enqueue", "a")]
    while (entry := fold(rows)["aeo"]).due(NOW):
        rows.append(row("start", "a", attempt=entry.attempt + 1))
    assert len(rows) == 1 + queue.MAX_ATTEMPTS + 1
    assert entry.state == "failed"
    assert "did not end" in str(entry.error)


def test_three_attempts_with_longer_waits_then_failed_and_visible() -> None:
    rows, waits = [row("enqueue", "a")], []
    for attempt in (1, 2, 3):
        rows.append(row("start", "a", attempt=attempt))
        rows.append(row("failed", "a", attempt=attempt, error=f"no answer {attempt}", reason=retry(attempt, NOW)))
        entry = fold(rows)["aeo"]
        if entry.not_before:
            waits.append((datetime.fromisoformat(entry.not_before) - NOW).total_seconds() / 60)
            assert not entry.due(NOW + timedelta(minutes=waits[-1] - 1))
            assert entry.due(NOW + timedelta(minutes=waits[-1]))
    assert waits == [10, 20]
    assert (entry.state, entry.attempt, entry.error, entry.feedback) == ("failed", 3, "no answer 3", ["a"])
    assert not entry.due(NOW + timedelta(days=365))


def test_a_gap_that_joins_keeps_the_wait_and_the_count() -> None:
    entry = fold(
        [row("enqueue", "a"), row("failed", "a", attempt=1, error="x", reason=retry(1, NOW)), row("enqueue", "b")]
    )["aeo"]
    assert (entry.feedback, entry.attempt, entry.not_before) == (["a", "b"], 1, at(10))


def test_a_new_gap_opens_what_was_given_up_or_escalated() -> None:
    for end in (
        row("failed", "a", attempt=3, error="x", reason=queue.GIVEN_UP),
        row("escalate", "a", reason="`x` keeps missing"),
    ):
        rows = [row("enqueue", "a"), end]
        assert fold(rows)["aeo"].state in ("failed", "escalated")
        assert fold([*rows, row("enqueue", "a")])["aeo"].state in ("failed", "escalated")
        entry = fold([*rows, row("enqueue", "b")])["aeo"]
        assert (entry.state, entry.attempt, entry.error, entry.feedback) == ("open", 0, None, ["a", "b"])


def test_an_escalated_entry_says_why_and_is_not_due() -> None:
    entry = fold([row("enqueue", "a"), row("escalate", "a", reason="`#date` was regenerated 3 times")])["aeo"]
    assert (entry.state, entry.error) == ("escalated", "`#date` was regenerated 3 times")
    assert not entry.due(NOW)


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "skill": st.sampled_from(["a", "b", None, 3]),
                "op": st.sampled_from(["enqueue", "start", "done", "failed", "escalate", "other", None, []]),
                "feedback": st.one_of(st.lists(st.sampled_from(["1", "2", "3", 4, None]), max_size=4), st.none()),
                "ts": st.sampled_from([at(), "soon", None]),
                "attempt": st.one_of(st.integers(-2, 9), st.booleans(), st.none(), st.text(max_size=2)),
                "reason": st.sampled_from(
                    [None, "again after soon", "again after 2026-12-01T00:00:00Z", "given up", ""]
                ),
                "error": st.one_of(st.none(), st.text(max_size=5)),
            },
        ),
        max_size=15,
    )
)
@settings(max_examples=300, deadline=None)
def test_any_rows_fold_to_sound_entries(rows: list[dict[str, Any]]) -> None:
    for skill, entry in fold(rows).items():
        assert entry.skill == skill
        assert len(set(entry.feedback)) == len(entry.feedback)
        assert set(entry.feedback) == set(entry.since)
        assert entry.state in ("open", "running", "failed", "escalated")
        assert entry.due(NOW) in (True, False)


def evals(*scores: float, every: timedelta = timedelta(hours=1)) -> list[dict[str, Any]]:
    start = NOW - every * len(scores)
    return [{"ts": (start + every * n).isoformat(), "score": score} for n, score in enumerate(scores)]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (evals(0.5, 0.5, 1, 0.5), "3 runs scored 0.5 or less in 7 days"),
        (evals(0.5, 0.5, 0.5, every=timedelta(days=4)), None),
        (evals(0.5, 0.5), None),
        (evals(0.75, 0.75, 0.75, 0.75, 0.75), "the last 5 runs scored 0.75 in the mean"),
        (evals(0.75, 0.75, 0.75, 0.75), None),
        (evals(0.75, 0.75, 0.75, 0.75, 1), None),
        (evals(0.5, 1, 1, 1, 1, 1), None),
        (evals(0, 1, 1, 1, 1, 0), "2 runs scored 0"),
        (evals(0), None),
        ([], None),
    ],
)
def test_evals_ask_for_a_regeneration(rows: list[dict[str, Any]], why: str | None) -> None:
    assert eval_reason(rows, NOW) == why


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("selector for the date field was missing", "field selector"),
        ("The date field's selector is still missing!", "field selector"),
        ("the `#publish` button moved", "#publish"),
        ("button #publish is gone", "#publish"),
        ("flag --out is positional", "--out"),
        ("--out again", "--out"),
        ("reads state/log/x.ndjson, not log/", "state/log/x.ndjson"),
        ("README.md says nothing of it", "readme.md"),
        ("it was missing", "general"),
        ("", "general"),
        ("日付の欄", "日付の欄"),
    ],
)
def test_the_area_of_a_gap(text: str, key: str) -> None:
    assert area(text) == key


@given(st.text(max_size=300))
@settings(deadline=None)
def test_every_text_has_a_short_area_that_never_changes(text: str) -> None:
    key = area(text)
    assert 0 < len(key) <= queue.AREA_LENGTH
    assert key == key.strip() == area(text)


def done(days: float, *areas: str, **more: Any) -> dict[str, Any]:
    return row("done", "g", minutes=-days * 1440, areas=list(areas), **more)


def test_an_area_regenerated_three_times_in_seven_days_is_escalated() -> None:
    rows = [done(6.9, "#date"), done(3, "#date", "--out"), done(0.1, "#date")]
    assert escalation(rows, "aeo", "#date", NOW)
    assert not escalation(rows, "aeo", "--out", NOW)
    assert not escalation(rows, "other", "#date", NOW)
    assert not escalation(rows, "aeo", "#date", NOW + timedelta(days=1))
    assert not escalation(rows, "aeo", "#date", NOW, limit=4)


def test_rows_without_areas_are_judged_by_the_text_of_their_gaps() -> None:
    rows = [row("done", gap, minutes=-60) for gap in ("1", "2", "3")]
    texts = {"1": "`#date` missing", "2": "the `#date` field", "3": "`#Date` again"}
    assert escalation(rows, "aeo", "#date", NOW, texts=texts)
    assert not escalation(rows, "aeo", "#date", NOW, texts={**texts, "3": "`#name`"})
    assert not escalation(rows, "aeo", "#date", NOW)
