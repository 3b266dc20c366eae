"""One line of feedback: `[2026-11-30T21:48:00Z] aeo: the selector of the date field was missing [LOGGED]`.

The time may be missing, no tag counts as LOGGED, and the skill may carry its plugin (`acme:aeo`). Agents write these
lines with whatever shell they have: bytes that are no text, control characters and any length are taken as they come.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast

from harness.errors import USAGE, HarnessError
from harness.ids import stable_ulid

Tag = Literal["FIXED", "LOGGED"]

MAX_TEXT: Final = 2000
"""Characters of a line's text that are kept; a longer one ends in ``CLIPPED``."""
CLIPPED: Final = " … [clipped]"
MAX_SKILL: Final = 200
FORM: Final = "[2026-11-30T21:48:00Z] SKILL: what was missing [LOGGED]"
MESSAGE_MARK: Final = "harness-feedback:"

_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:[.,]\d+)?(Z|[+-]\d\d:?\d\d)?", re.I)
# A name, or two with the plugin first. The colon that ends it has a space behind it: `acme:aeo: text`.
_SKILL: Final = re.compile(r"([^\s:\[\]]+(?::[^\s:\[\]]+)?):(?=\s|$)|([^\s:\[\]]+):")
_LAST_BRACKET: Final = re.compile(r"\[([^\[\]]{0,40})\][.!`*]*$")
_TAG_LIKE: Final = re.compile(r"[A-Z]{3,12}|.*\b(?:FIXED|LOGGED)\b.*", re.S)
_FENCE: Final = re.compile(r"\s*(`{3,}|~{3,})")
_SPACE: Final = frozenset(" \u200c\u200d")  # the joiners shape letters and emoji; they hide nothing


@dataclass(frozen=True)
class Line:
    """A line that was understood. ``ts`` is UTC, ISO 8601 with Z, or None; ``skill`` is as it was written."""

    ts: str | None
    skill: str
    text: str
    tag: Tag


class BadFeedback(HarnessError):
    """A feedback line that can't be read; the form is `[2026-11-30T21:48:00Z] SKILL: what was missing [LOGGED]`."""

    exit_code = USAGE

    def __init__(self, why: str) -> None:
        super().__init__("not a feedback line", why, f"write: {FORM} (or [FIXED]; the time may be left out)")


def parse_line(raw: bytes) -> Line:
    """Read one line of the log, with or without its line end. Raises BadFeedback."""
    return _parse(raw.decode("utf-8", "replace"))


def from_message(text: str, unread: Callable[[str, BadFeedback], None] | None = None) -> list[Line]:
    """The feedback in an agent's message: lines `harness-feedback: SKILL: what was missing [LOGGED]`.

    Lines in fenced code blocks and quoted ones (`>`) are someone else's words or an example, and are left out; list
    marks, backticks and asterisks around a line are forgiven. ``unread`` is called with each line that has the mark but
    can't be read, and why.
    """
    found, fence = [], ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark and not fence and "`" not in line[mark.end() :]:
            fence = mark[1]
        elif mark and fence and mark[1].startswith(fence):
            fence = ""
        elif not fence:
            bare = line.strip().strip("`*").lstrip("-+ ").strip("`*").strip()
            if bare.casefold().startswith(MESSAGE_MARK):
                try:
                    found.append(_parse(bare[len(MESSAGE_MARK) :].lstrip("* ")))
                except BadFeedback as why:
                    if unread is not None:
                        unread(bare, why)
    return found


def quarantined(text: str) -> Line:
    """Read a line again that was put aside since its skill was not known, wherever it had come from. Raises BadFeedback."""
    if MESSAGE_MARK in text.casefold() and (lines := from_message(text)):
        return lines[0]
    return _parse(text)


def taken_up_id(quarantined_id: str) -> str:
    """The id of the feedback row that such a line becomes once its skill is known: the same at each try."""
    return stable_ulid(0, f"taken up {quarantined_id}")


def row(line: Line, *, id: str, ts: str, skill: str, session: str | None, position: str) -> dict[str, Any]:
    """The row of ``feedback.ndjson`` that ``line`` becomes. ``skill`` is the resolved folder, ``ts`` the time to keep
    (the line's own, or when it was taken in), ``position`` where it was found."""
    return {
        "id": id,
        "ts": ts,
        "skill": skill,
        "text": line.text,
        "tag": line.tag,
        "session": session,
        "line": position,
    }


def shown(text: str) -> str:
    """``text`` on one line, with every character that is not to be seen written as an escape."""
    return "".join(c if c in _SPACE or c.isprintable() else _escape(c) for c in text)


def clip(text: str, limit: int = MAX_TEXT) -> str:
    """``text`` with at most ``limit`` characters; what is cut off is said at its end."""
    return text if len(text) <= limit else text[: limit - len(CLIPPED)].rstrip() + CLIPPED


def _parse(line: str) -> Line:
    rest = line.lstrip("\ufeff").strip()
    if not rest:
        raise BadFeedback("it is empty")
    ts, rest = _time(rest)
    match = _SKILL.match(rest)
    if match is None:
        raise BadFeedback("there is no `SKILL:` before the text")
    skill = match[1] or match[2]
    if len(skill) > MAX_SKILL:
        raise BadFeedback(f"the skill's name has {len(skill)} characters, at most {MAX_SKILL}")
    text, tag = _tag(rest[match.end() :].strip())
    if not text:
        raise BadFeedback(f"nothing is said after `{shown(skill)}:`")
    return Line(ts, shown(skill), clip(shown(text)), tag)


def _time(rest: str) -> tuple[str | None, str]:
    if not rest.startswith("["):
        return None, rest
    stamp, closed, after = rest[1:].partition("]")
    after = after.lstrip()
    if not closed:
        raise BadFeedback("the bracket of the time is not closed")
    if stamp.startswith(("$(", "`")):  # quotes kept the shell from filling in the time
        return None, after
    match = _TIME.fullmatch(stamp.strip())
    if match is None:
        raise BadFeedback(f"[{shown(stamp[:40])}] is no time")
    day, clock, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{(zone or 'Z').upper()}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadFeedback(f"[{shown(stamp[:40])}] is no time") from None
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z"), after


def _tag(text: str) -> tuple[str, Tag]:
    found: set[str] = set()
    while match := _LAST_BRACKET.search(text[-60:]):
        word = match[1].strip().upper()
        if word in ("FIXED", "LOGGED"):
            found.add(word)
            text = text[: len(text) - (len(match.string) - match.start())].rstrip()
        elif _TAG_LIKE.fullmatch(match[1]):
            raise BadFeedback(f"[{shown(match[1])}] is no tag; it is [FIXED] or [LOGGED]")
        else:
            break
    if len(found) > 1:
        raise BadFeedback("it is tagged both FIXED and LOGGED")
    return text, cast(Tag, found.pop()) if found else "LOGGED"


def _escape(char: str) -> str:
    if char == "\t":
        return " "
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
