"""Answers to a proposal: a table of prompts, and that nothing around a yes leaves it a yes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.tune.approval import Approve, Other, Reject, read
from tests.tune.tables import rows

TABLE = rows("approvals.tsv")


def wanted(label: str) -> Approve | Reject | Other:
    word, _, name = label.partition(":")
    return {"yes": Approve(name or None), "no": Reject(name or None), "other": Other()}[word]


@pytest.mark.parametrize(("label", "prompt"), TABLE, ids=[f"{n}" for n in range(len(TABLE))])
def test_each_prompt_of_the_table_has_its_answer(label: str, prompt: str) -> None:
    assert read(prompt) == wanted(label), prompt


def test_the_table_is_wide() -> None:
    assert len(TABLE) >= 200


YES = st.sampled_from([p for label, p in TABLE if label.startswith("yes")])
# Words that no set phrase begins or ends with.
WORDS = st.text("bcfhklmqrvwxz", min_size=2, max_size=8)


@given(YES, WORDS)
def test_a_yes_with_a_word_more_is_none(prompt: str, word: str) -> None:
    for text in (
        f"{word} {prompt}",
        f"{prompt.strip()} {word} {word}",
        f"{prompt}\n{word}",
        f"{prompt.strip()}, {word}",
    ):
        assert not isinstance(read(text), Approve), text


@given(YES, st.characters(min_codepoint=0x80), st.integers(0, 40))
def test_a_yes_with_a_character_from_elsewhere_is_none(prompt: str, char: str, at: int) -> None:
    at = min(at, len(prompt))
    assert not isinstance(read(prompt[:at] + char + prompt[at:]), Approve)


@given(YES)
def test_a_yes_in_another_one_s_words_is_none(prompt: str) -> None:
    tagged = f"<task-notification>\n<result>{prompt}</result>\n</task-notification>"
    for text in (
        f"> {prompt}",
        f'"{prompt}"',
        f"`{prompt}`",
        f"```\n{prompt}\n```",
        f"[Pasted text #1] {prompt}",
        tagged,
    ):
        assert read(text) == Other()


@given(st.text(max_size=60))
def test_any_prompt_has_an_answer(prompt: str) -> None:
    assert isinstance(read(prompt), Approve | Reject | Other)
