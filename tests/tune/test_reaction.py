"""Reactions: a table of prompts labelled by hand, two held-out sets, and prompts of any kind."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.tune.lexicon import PHRASES, REWARDS, Signal
from harness.tune.reaction import NEUTRAL, classify
from tests.tune.tables import rows

SIGNALS: dict[str, Signal] = {
    "++": "explicit_positive", "+": "implicit_positive", "0": "neutral", "-": "implicit_negative", "--": "explicit_negative",
}  # fmt: skip
TABLE = rows("reactions.tsv")


@pytest.mark.parametrize(("label", "prompt"), TABLE, ids=[f"{n}" for n in range(len(TABLE))])
def test_each_prompt_of_the_table_has_its_class(label: str, prompt: str) -> None:
    reaction = classify(prompt)
    assert reaction.signal == SIGNALS[label], prompt
    assert reaction.reward == REWARDS[reaction.signal]
    assert bool(reaction.words) == (label != "0")


def test_the_table_is_wide() -> None:
    assert len(TABLE) >= 400
    assert {label for label, _ in TABLE} == set(SIGNALS)


@pytest.mark.parametrize(("name", "found"), [("reactions-heldout.tsv", 42), ("reactions-heldout-2.tsv", 41)])
def test_held_out_prompts_are_never_given_a_wrong_class(name: str, found: int) -> None:
    """Sets that were labelled when the lexicon stood; what it learned from them since is in the counts."""
    right = 0
    for label, prompt in rows(name):
        signal = classify(prompt).signal
        assert signal in ("neutral", SIGNALS[label]), prompt
        right += signal != "neutral"
    assert right == found


def test_the_words_that_decided_are_kept_short() -> None:
    assert classify("this is too hedgy, it uses 'may' twice").words == "this is too hedgy"
    assert classify("damn that cold email hook is sharp, keep doing that").words == (
        "damn that cold email hook is sharp; keep doing that"
    )
    assert len(classify("you forgot " + "x" * 500).words) == 120


def test_prompts_that_the_client_sends_itself_are_neutral() -> None:
    payloads = Path(__file__).parents[1] / "fixtures/payloads"
    sent = json.loads((payloads / "UserPromptSubmit-task-notification.json").read_text("utf-8"))["prompt"]
    assert classify(sent) == NEUTRAL
    assert classify(sent.replace("Sub finished.", "this is perfect")) == NEUTRAL


@given(st.text(max_size=300) | st.lists(st.sampled_from([p for _, p in TABLE]), max_size=4).map(" ".join))
def test_any_prompt_has_a_class(prompt: str) -> None:
    reaction = classify(prompt)
    assert reaction.reward == REWARDS[reaction.signal]
    assert len(reaction.words) <= 120


@given(st.sampled_from([p for _, p in TABLE if p and "\n" not in p]))
def test_quoting_a_prompt_makes_it_neutral(prompt: str) -> None:
    for quoted in (f"> {prompt}", f"```\n{prompt}\n```", f"[Pasted text #1] {prompt}", f"/tune {prompt}", f"!{prompt}"):
        assert classify(quoted) == NEUTRAL


# "nope" alone rejects; after other words it answers something else.
GOOD, BAD = ([p for label, p in TABLE if label == wanted and p != "nope"] for wanted in ("++", "--"))


@given(st.sampled_from(GOOD), st.sampled_from(BAD))
def test_praise_and_complaint_together_are_never_praise(good: str, bad: str) -> None:
    assert classify(f"{good}\n{bad}").reward <= 0


def test_a_paste_of_megabytes_is_neutral() -> None:
    assert classify("this is bad " * 400_000) == NEUTRAL


def test_each_phrase_is_reached_by_a_row() -> None:
    """A phrase without a row has not been looked at."""
    from harness.tune import reaction

    seen = set()
    for name in ("reactions.tsv", "reactions-heldout.tsv", "reactions-heldout-2.tsv"):
        for _, prompt in rows(name):
            if reaction.typed(prompt):
                seen.update(phrase for phrase, _ in reaction._evidence(reaction._plain(prompt))[0])
    assert [p.pattern for p in PHRASES if p not in seen] == []


def test_the_documentation_of_python_is_neutral() -> None:
    """Thousands of sentences that speak of other things: a lexicon that sees praise or blame in them sees it everywhere."""
    import pydoc_data.topics

    text = "\n".join(pydoc_data.topics.topics.values())
    sentences = {" ".join(s.split()) for s in re.split(r"(?<=[.!?])\s+|\n\n", text)}
    assert len(sentences) > 2_000
    assert {s for s in sentences if classify(s) != NEUTRAL} == set()
