"""Feedback lines: what is read, what is refused and how the refusal helps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.loader import feedback
from harness.loader.feedback import BadFeedback, Line, from_message, parse_line

DAY = "2026-03-02T09:00:00Z"


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (f"[{DAY}] aeo: the date field was missing [LOGGED]", Line(DAY, "aeo", "the date field was missing", "LOGGED")),
        (f"[{DAY}] aeo: flag --out is positional [FIXED]\n", Line(DAY, "aeo", "flag --out is positional", "FIXED")),
        (f"[{DAY}] aeo: no rule for empty ranges", Line(DAY, "aeo", "no rule for empty ranges", "LOGGED")),
        (f"[{DAY}] acme:greet: offline? [LOGGED]", Line(DAY, "acme:greet", "offline?", "LOGGED")),
        (
            f"[{DAY}] aeo: [see docs] lacks [v2] here [LOGGED]\r\n",
            Line(DAY, "aeo", "[see docs] lacks [v2] here", "LOGGED"),
        ),
        (f"[{DAY}] aeo: lacks the row [v2]", Line(DAY, "aeo", "lacks the row [v2]", "LOGGED")),
        ("aeo: time missing [LOGGED]", Line(None, "aeo", "time missing", "LOGGED")),
        ("aeo:no space [logged].", Line(None, "aeo", "no space", "LOGGED")),
        ("aeo: twice [FIXED] [FIXED]", Line(None, "aeo", "twice", "FIXED")),
        ("[$(date -u +%FT%TZ)] aeo: nothing filled in [LOGGED]", Line(None, "aeo", "nothing filled in", "LOGGED")),
        ("[2026-03-02 11:00:00.123+02:00] aeo: a local time", Line(DAY, "aeo", "a local time", "LOGGED")),
        ("\ufeffaeo: a byte order mark [LOGGED]", Line(None, "aeo", "a byte order mark", "LOGGED")),
        ("aeo: colons: here, too [LOGGED]", Line(None, "aeo", "colons: here, too", "LOGGED")),
    ],
)
def test_forms_that_are_read(raw: str, line: Line) -> None:
    assert parse_line(raw.encode()) == line


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"aeo the form is odd", "no `SKILL:`"),
        (b"aeo: selector wrong [DONE]", "[DONE] is no tag"),
        (b"aeo: copied [FIXED or LOGGED]", "[FIXED or LOGGED] is no tag"),
        (b"aeo: both [FIXED] [LOGGED]", "both FIXED and LOGGED"),
        (b"[2026-03-02T09:07:00Z] aeo:  [LOGGED]", "nothing is said"),
        (b"aeo:", "nothing is said"),
        (b"[yesterday] aeo: x", "[yesterday] is no time"),
        (b"[2026-02-30T09:00:00Z] aeo: x", "is no time"),
        (b"[0001-01-01T00:00:00+14:00] aeo: x", "is no time"),
        (b"[2026-03-02T09:00:00Z aeo: x", "not closed"),
        (b"   \r\n", "empty"),
        (b"x" * 201 + b": y", "201 characters"),
    ],
)
def test_forms_that_are_refused_say_the_right_one(raw: bytes, why: str) -> None:
    with pytest.raises(BadFeedback) as caught:
        parse_line(raw)
    message = str(caught.value)
    assert why in message
    assert feedback.FORM in message
    assert "\n" not in message


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert parse_line(b"aeo: caf\xe9 closed [LOGGED]").text == "caf\ufffd closed"


def test_characters_that_hide_are_shown() -> None:
    line = parse_line("aeo: a\x1b[31mred\x00 \u202eback\ttab \u200cok [LOGGED]".encode())
    assert line.text == "a\\x1b[31mred\\x00 \\u202eback tab \u200cok"


def test_a_long_text_is_clipped_and_says_so() -> None:
    line = parse_line(b"aeo: " + b"word " * 5000 + b"[FIXED]")
    assert len(line.text) <= feedback.MAX_TEXT
    assert line.text.startswith("word word")
    assert line.text.endswith(feedback.CLIPPED)
    assert line.tag == "FIXED"


def test_a_text_of_just_the_limit_is_whole() -> None:
    assert parse_line(b"aeo: " + b"x" * feedback.MAX_TEXT).text == "x" * feedback.MAX_TEXT


def test_a_message_is_read_outside_of_code_and_quotations() -> None:
    message = """Done.

harness-feedback: aeo: the date selector was missing [LOGGED]
- `harness-feedback: acme:greet: says nothing of offline [FIXED]`
> harness-feedback: quoted: not mine [LOGGED]
```
harness-feedback: code: an example [LOGGED]
```
~~~text
``` is no end of this block
harness-feedback: code: another [LOGGED]
~~~
The line harness-feedback: prose: is in the middle.
**harness-feedback:** aeo: bold
"""
    assert from_message(message) == [
        Line(None, "aeo", "the date selector was missing", "LOGGED"),
        Line(None, "acme:greet", "says nothing of offline", "FIXED"),
        Line(None, "aeo", "bold", "LOGGED"),
    ]


def test_a_bad_line_of_a_message_is_handed_on_and_hides_no_other() -> None:
    unread: list[tuple[str, str]] = []
    message = "harness-feedback: no skill here\nharness-feedback: aeo: good"
    found = from_message(message, lambda line, why: unread.append((line, str(why))))
    assert [line.text for line in found] == ["good"]
    assert [line for line, _ in unread] == ["harness-feedback: no skill here"]
    assert "no `SKILL:`" in unread[0][1]


def test_a_row_takes_what_the_caller_has_settled() -> None:
    line = parse_line(b"acme:aeo: x [FIXED]")
    row = feedback.row(
        line, id="01JE9Z0K3Q5W8T4X7R2M6N1P0A", ts="2026-11-30T21:48:00Z", skill="aeo", session=None, position="line 3"
    )
    assert row == {
        "id": "01JE9Z0K3Q5W8T4X7R2M6N1P0A", "ts": "2026-11-30T21:48:00Z", "skill": "aeo", "text": "x", "tag": "FIXED",
        "session": None, "line": "line 3",
    }  # fmt: skip


def _sound(line: Line) -> None:
    assert line.skill
    assert line.text
    assert len(line.text) <= feedback.MAX_TEXT
    assert line.tag in ("FIXED", "LOGGED")
    assert all(c.isprintable() or c in "\u200c\u200d" for c in line.skill + line.text)
    (line.skill + line.text).encode("utf-8")


_PIECES = st.sampled_from(
    [
        "[", "]", "[LOGGED]", "[FIXED]", "[DONE]", "aeo:", "acme:aeo:", ":", " ", "\t", "[2026-11-30T21:48:00Z]",
        "[9999-12-31T23:59:59-14:00]", "`", "```", "~~~", ">", "-", "**", "harness-feedback:", "HARNESS-FEEDBACK: ",
        "\n", "\r", "\x00", "\ud800", "\u2028", "\u202e", "x",
    ]
)  # fmt: skip


@given(
    st.one_of(
        st.binary(max_size=300),
        st.lists(_PIECES, max_size=12).map(lambda p: "".join(p).encode("utf-8", "surrogatepass")),
    )
)
@settings(max_examples=400, deadline=None)
def test_any_bytes_are_a_line_or_bad_feedback(raw: bytes) -> None:
    try:
        line = parse_line(raw)
    except BadFeedback as bad:
        reason = str(bad)
    else:
        _sound(line)
        return
    assert "\n" not in reason


@given(st.one_of(st.text(max_size=300), st.lists(st.one_of(_PIECES, st.text(max_size=5)), max_size=30).map("".join)))
@settings(max_examples=400, deadline=None)
def test_any_message_is_read_without_a_crash(text: str) -> None:
    for line in from_message(text):
        _sound(line)


@given(
    st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=60),
    st.sampled_from(["FIXED", "LOGGED"]),
)
@settings(deadline=None)
def test_what_the_tool_writes_is_read_back(word: str, tag: str) -> None:
    text = f"a {word} b"
    line = parse_line(f"[2026-11-30T21:48:00Z] aeo: {text} [{tag}]".encode())
    assert line == Line("2026-11-30T21:48:00Z", "aeo", feedback.shown(text), tag)
