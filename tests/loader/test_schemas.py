"""The rows of the loop against their schemas: valid examples pass, and each wrong one is caught."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from harness.loader import feedback
from harness.workspace import resources

ID = "01JE9Z0K3Q5W8T4X7R2M6N1P0A"
TS = "2026-11-30T21:48:00Z"
FEEDBACK = feedback.row(feedback.parse_line(b"aeo: x"), id=ID, ts=TS, skill="aeo", session=None, position="line 1")
QUEUE = {
    "id": ID,
    "ts": TS,
    "skill": "aeo",
    "op": "enqueue",
    "feedback": [ID],
    "reason": "logged gap",
    "attempt": 0,
    "error": None,
    "tick": None,
}
REPLY = {"loader": "x", "coverage": [{"gap": ID, "quote": "q"}], "dropped": [{"quote": "q", "reason": "r"}]}
META = {
    "name": "aeo",
    "description": "Drafts a page.",
    "license": "MIT",
    "globs": ["*.md"],
    "metadata": {"team": "docs"},
}


def valid(name: str, value: Any) -> bool:
    schema = json.loads((resources() / f"schemas/{name}.schema.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, format_checker=FormatChecker()).is_valid(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("feedback", FEEDBACK),
        ("feedback", {**FEEDBACK, "claimed_fixed": True, "session": "s"}),
        ("queue", QUEUE),
        ("queue", {**QUEUE, "op": "done", "areas": ["#date"]}),
        ("queue", {**QUEUE, "op": "failed", "attempt": 1, "error": "no answer", "reason": "given up"}),
        ("regen-reply", REPLY),
        ("skill-frontmatter", META),
    ],
)
def test_valid(name: str, value: Any) -> None:
    assert valid(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("feedback", {**FEEDBACK, "tag": "DONE"}),
        ("feedback", {**FEEDBACK, "text": ""}),
        ("feedback", {**FEEDBACK, "ts": "yesterday"}),
        ("feedback", {**FEEDBACK, "skill": "../x"}),
        ("feedback", {**FEEDBACK, "note": 1}),
        ("feedback", {k: v for k, v in FEEDBACK.items() if k != "line"}),
        ("queue", {**QUEUE, "op": "pause"}),
        ("queue", {**QUEUE, "feedback": [ID, ID]}),
        ("queue", {**QUEUE, "op": "failed", "attempt": 0, "error": "x"}),
        ("queue", {**QUEUE, "op": "failed", "attempt": 1, "error": None}),
        ("regen-reply", {**REPLY, "loader": " "}),
        ("regen-reply", {**REPLY, "dropped": [{"quote": "q"}]}),
        ("regen-reply", {**REPLY, "more": 1}),
        ("skill-frontmatter", {"name": "aeo"}),
        ("skill-frontmatter", {**META, "description": " "}),
        ("skill-frontmatter", {**META, "name": 3}),
    ],
)
def test_invalid(name: str, value: Any) -> None:
    assert not valid(name, value)


def test_the_longest_line_makes_a_valid_row() -> None:
    line = feedback.parse_line(b"s" * 200 + b": " + b"\x00" * 9000)
    row = feedback.row(line, id=ID, ts=TS, skill=line.skill, session="s" * 200, position="line 1")
    assert valid("feedback", row)
