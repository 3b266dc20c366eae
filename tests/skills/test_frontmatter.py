"""Frontmatter as people and tools write it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.skills.frontmatter import MAX_BYTES, split


def test_fields_body_and_no_error() -> None:
    assert split("---\nname: aeo\ndescription: Drafts a page.\n---\n\n# aeo\n---\nrest\n") == (
        {"name": "aeo", "description": "Drafts a page."}, "\n# aeo\n---\nrest\n", [],
    )  # fmt: skip


def test_a_byte_order_mark_and_windows_line_ends() -> None:
    fields, body, errors = split("\ufeff---\r\nname: aeo\r\ndescription: Drafts a page.\r\n---\r\nbody\r\n")
    assert (fields, body, errors) == ({"name": "aeo", "description": "Drafts a page."}, "body\r\n", [])


def test_folded_and_kept_text() -> None:
    fields, _, _ = split("---\na: >-\n  Use when: the user\n  asks (# kept)\nb: |\n  one\n  two\n---\n")
    assert fields == {"a": "Use when: the user asks (# kept)", "b": "one\ntwo\n"}


def test_values_stay_as_they_are_written() -> None:
    fields, _, _ = split(
        "---\nversion: 1.10\nday: 2026-11-30\nflag: false\ncount: 3\nmetadata:\n  review:\n    every: 30d\n---\n"
    )
    assert fields == {
        "version": "1.10",
        "day": "2026-11-30",
        "flag": False,
        "count": 3,
        "metadata": {"review": {"every": "30d"}},
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("# aeo\n", "does not begin with `---`"),
        ("", "does not begin with `---`"),
        ("---\nname: aeo\n# body\n", "no end mark"),
        (
            "---\nname: aeo\ndescription: two things: writing\n---\n",
            "line 3, column 24: mapping values are not allowed here; put the value in quotes",
        ),
        ("---\nname: a\nname: b\n---\n", "line 3"),
        ("---\n- a\n- b\n---\n", "no mapping"),
        ("---\nx: !!python/object:os.system ls\n---\n", "could not determine a constructor"),
        ("---\na: &a [1]\nb: [" + "*a, " * 30 + "]\n---\n", "over 20 aliases"),
        ("---\na: " + "x" * MAX_BYTES + "\n---\n", f"over {MAX_BYTES} bytes"),
        ("---\na: " + "[" * 60_000 + "\n---\n", "nested over 30 deep"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, why: str) -> None:
    fields, _, errors = split(text)
    assert fields is None
    assert len(errors) == 1
    assert why in errors[0]


def test_an_empty_block_has_no_fields() -> None:
    assert split("---\n---\nbody") == ({}, "body", [])


_PIECES = st.sampled_from(
    [
        "---\n",
        "---",
        "\n",
        "a: ",
        "b",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "&x ",
        "*x",
        "!!int ",
        "? ",
        "| ",
        "> ",
        "'",
        '"',
        "\t",
        "#",
        "\x00",
        "%YAML 9.9",
        "0x",
        "1e9",
        "...",
    ]
)


@given(st.one_of(st.text(max_size=100), st.lists(_PIECES, max_size=25).map("".join)).map("---\n{}".format))
@settings(max_examples=400, deadline=None)
def test_any_text_gives_fields_or_an_error(text: str) -> None:
    fields, body, errors = split(text)
    assert (fields is None) == bool(errors)
    assert text.endswith(body)
