"""The shape of a draft: a table of texts with their class, each rule by its own example, and the edges of what is looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.taste import shape

FIXTURES = Path(__file__).parents[1] / "fixtures"
TABLE = [line.split("\t", 1) for line in (FIXTURES / "taste-shapes.tsv").read_text("utf-8").splitlines()]


def text_of(written: str) -> str:
    return written.replace("\\r", "\r").replace("\\n", "\n").replace("\\ufeff", "\ufeff")


@pytest.mark.parametrize(("wanted", "written"), TABLE)
def test_a_draft_gets_its_shape(wanted: str, written: str) -> None:
    assert shape.shape_of(text_of(written)) == wanted


def test_the_table_has_at_least_eighty_drafts_of_all_shapes() -> None:
    assert len(TABLE) >= 80
    assert {wanted for wanted, _ in TABLE} == set(shape.SHAPES)


@pytest.mark.parametrize("rule", shape.RULES, ids=lambda rule: rule.says)
def test_each_rule_has_an_example_that_it_decides(rule: shape.Rule) -> None:
    assert shape.shape_of(rule.example) == rule.shape
    body = shape.body_of(rule.example)
    assert rule.holds(body[: shape.LOOK], body)
    earlier = shape.RULES[: shape.RULES.index(rule)]
    assert not any(r.holds(body[: shape.LOOK], body) for r in earlier)


@pytest.mark.parametrize(("wanted", "written"), TABLE)
def test_line_ends_and_a_byte_order_mark_change_nothing(wanted: str, written: str) -> None:
    text = text_of(written).removeprefix("\ufeff").replace("\r\n", "\n")
    for variant in (text, text.replace("\n", "\r\n"), "\ufeff" + text, text + "\n"):
        assert shape.shape_of(variant) == wanted


def test_only_the_first_four_hundred_characters_count() -> None:
    assert shape.shape_of("x" * 401 + "\nSubject: too late") == "other"
    assert shape.shape_of("x" * 390 + "\nSubject: ") == "email"
    front = "---\ntitle: " + "y" * 500 + "\n---\n"
    assert shape.shape_of(front + "Subject: the frontmatter does not count") == "email"


@pytest.mark.parametrize("line", (FIXTURES / "cases/S-33.jsonl").read_text("utf-8").splitlines())
def test_s33_markers_are_whole_words_at_the_beginning(line: str) -> None:
    case = json.loads(line)
    found = shape.shape_of(case["text"])
    wanted = case["shape"]
    if wanted.startswith("not "):
        assert found != wanted.removeprefix("not ")
    else:
        assert found in wanted
