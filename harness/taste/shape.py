"""The shape of a draft, by rules alone: the same for whoever writes it and whoever counts it.

The rules are data, in order; the first that holds decides. They look at the first LOOK characters of the body, the
frontmatter apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

Shape = Literal["linkedin-post", "email", "message", "other"]
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)

VERSION: Final = 1
"""Counts up with every change of a rule: cached shapes of an older version are made anew."""

LOOK: Final = 400
PARAGRAPH: Final = 280

_FRONT: Final = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)(?:\r?\n)?---[ \t]*(?:\r?\n|\Z)", re.S)
_NAMED: Final = re.compile(r"^shape:[ \t]*(['\"]?)([a-z-]+)\1[ \t]*(?:#.*)?$", re.M)
_FIELD: Final = re.compile(r"^(?:subject|to)[ \t]*:", re.I | re.M)
_DEAR: Final = re.compile(r"^(?:dear\b.*|hello\b[^\n]*,[ \t]*)$", re.I)
_CLOSING: Final = re.compile(
    r"^(?:(?:best|kind|warm)(?: wishes| regards)?|(?:many )?thanks|thank you|cheers|sincerely|yours(?: \w+)?|regards)"
    r"\b[^\n]{0,40}$",
    re.I | re.M,
)
_POST_WORD: Final = re.compile(r"(?<![\w-])(?:post|tweet|linkedin|thread)(?![\w-])", re.I)
_HASHTAG: Final = re.compile(r"(?<![\w&/#])#[^\W\d_]\w*")
_GREETING: Final = re.compile(
    r"(?:hi|hey|hello|good (?:morning|afternoon|evening)|hallo|bonjour|hola|moin)\b|@[\w.-]+", re.I
)
_SECOND_PERSON: Final = re.compile(r"(?<!\w)(?:you|your|yours|you're|you'll|you've|u)(?!\w)", re.I)


@dataclass(frozen=True)
class Rule:
    """One rule: the shape that it gives, when it holds (of the body's beginning and the whole body), and an example."""

    shape: Shape
    says: str
    holds: Callable[[str, str], bool]
    example: str


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _letter(head: str, body: str) -> bool:
    return bool(_DEAR.match(_first_line(head))) and bool(_CLOSING.search(body))


def _titled_post(head: str, _: str) -> bool:
    headings = [line for line in head.splitlines() if re.match(r"\s{0,3}#{1,6}\s", line)]
    return any(_POST_WORD.search(line) for line in (*headings, _first_line(head)))


def _greeted(head: str, _: str) -> bool:
    return bool(_GREETING.match(head.lstrip()))


def _short_and_to_you(head: str, body: str) -> bool:
    text = body.strip()
    one = bool(text) and not re.search(r"\n[ \t]*\n", text)
    return one and len(text) <= PARAGRAPH and bool(_SECOND_PERSON.search(text))


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "email",
        "a line `Subject:` or `To:`",
        lambda head, _: bool(_FIELD.search(head)),
        "Subject: Offer\n\nThe price is 12.",
    ),
    Rule(
        "email",
        "`Dear …` or `Hello …,` first, and a closing line",
        _letter,
        "Dear Ms Lee,\n\nthe price is 12.\n\nKind regards\nAda",
    ),
    Rule(
        "linkedin-post",
        "post, tweet, LinkedIn or thread in a heading or the first line",
        _titled_post,
        "# LinkedIn post\n\nWe shipped.",
    ),
    Rule(
        "linkedin-post",
        "two hashtags or more",
        lambda head, _: len(_HASHTAG.findall(head)) >= 2,
        "We shipped. #git #tools",
    ),
    Rule("message", "begins with a greeting or an @name", _greeted, "Hi Kim, the build is green."),
    Rule(
        "message",
        f"one paragraph of at most {PARAGRAPH} characters that speaks to you",
        _short_and_to_you,
        "Can you look at the build?",
    ),
)


def body_of(text: str) -> str:
    """The draft without its frontmatter, line ends as line feeds."""
    found = _FRONT.match(text)
    body = text[found.end() :] if found else text
    return body.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def shape_of(text: str) -> Shape:
    """The shape of a draft: what its frontmatter says when that is a known shape, else by RULES, else other."""
    front = _FRONT.match(text)
    if front and (named := _NAMED.search(front[1].replace("\r\n", "\n"))) and named[2] in SHAPES:
        return cast(Shape, named[2])
    body = body_of(text).lstrip("\n")
    head = body[:LOOK]
    return next((rule.shape for rule in RULES if rule.holds(head, body)), "other")
