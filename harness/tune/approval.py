"""Whether a prompt approves or rejects a proposal: only a prompt that is nothing but an approval is one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Approve:
    """A yes; ``id`` is the proposal that was named, in lower case, or None for a bare yes."""

    id: str | None = None


@dataclass(frozen=True)
class Reject:
    """A no; ``id`` as for an approval."""

    id: str | None = None


@dataclass(frozen=True)
class Other:
    """Neither: the user talks of something else, is not sure, or it was not typed."""


Answer = Approve | Reject | Other

# Ids are 4 to 26 characters of Crockford's base 32, which holds the hex digits. Many words are spelt in it ("apply that").
_ID = r"#?(?P<id>[0-9a-hjkmnp-tv-z]{4,26})"
_NO_IDS: Final = frozenset(
    {
        "that",
        "them",
        "these",
        "here",
        "next",
        "rest",
        "same",
        "there",
        "both",
        "changes",
        "change",
        "patches",
        "any",
        "many",
        "every",
        "ten",
        "seven",
        "three",
        "eggs",
        "stage",
        "staged",
    }
)
_YES = r"(?:yes|yep|yup|yeah)"
_OK = r"(?:(?:ok|okay),? )?"
_VERB = r"(?:apply|approve|accept)"
_THIS = r"(?:it|that|this|the (?:edit|change|diff|proposal|lesson))"
_BARE_YES = re.compile(
    rf"{_OK}(?:{_YES}(?:,? please)?"
    rf"|(?:{_YES},? )?(?:please )?(?:{_VERB}(?: {_THIS})?(?: now)?|go(?: ahead| for it)?|do it)(?:,? please)?"
    rf"|please do|approved)[.!]?"
)
_NAMED_YES = re.compile(rf"{_OK}(?:{_YES},? )?(?:please )?(?P<verb>{_VERB}|go|{_YES}) {_ID}(?:,? please)?[.!]?")
_NO = r"(?:no|nope|nah)"
_REFUSE = r"(?:reject|discard|decline|drop)"
_NOT = r"(?:do not|don't|dont)"
_BARE_NO = re.compile(
    rf"(?:{_NO}(?:,? (?:thanks|thank you))?|(?:{_NO},? )?(?:{_NOT}(?: (?:apply|accept|approve)(?: {_THIS})?)?|not (?:that|this)(?: one)?"
    rf"|leave it|{_REFUSE}(?: {_THIS})?|rejected)(?:,? please)?)[.!]?"
)
_NAMED_NO = re.compile(
    rf"(?:{_NO},? )?(?P<verb>{_REFUSE}|{_NOT} (?:apply|accept|approve)|{_NO}) {_ID}(?:,? please)?[.!]?"
)
# "no, that's the wrong section": a no with its reason. One with a yes or a condition in it is no clear no.
_NO_BECAUSE = re.compile(rf"{_NO}(?:[,.!;]+ +|[,.!;]*\n+)(?P<rest>\S[\s\S]*)")
_UNCLEAR = re.compile(
    r"\b(?:yes|yep|yup|yeah|apply|approve|accept|go|keep|wait|yet|but|do it|later|first|unless|if|both|and)\b|\?"
)
_FROM_CLIENT = re.compile(r"\s*[</!#>\[`]")


def read(prompt: str) -> Answer:
    """What ``prompt`` answers to an open proposal.

    Letters are plain ASCII, whatever looks like them is not; case, one final ``.`` or ``!`` and the set phrases of the tables
    are all the freedom there is. Other languages, emoji and anything quoted, pasted or made by the client are ``Other``.
    """
    if _FROM_CLIENT.match(prompt):
        return Other()
    text = re.sub(r"[ \t]+", " ", prompt.strip(" \t\r\n").replace("’", "'")).lower()
    if text.isascii() and prompt.replace("’", "'").isascii():
        if _BARE_YES.fullmatch(text):
            return Approve()
        if _BARE_NO.fullmatch(text):
            return Reject()
        if (match := _NAMED_YES.fullmatch(text)) and _names(match):
            return Approve(match["id"])
        if (match := _NAMED_NO.fullmatch(text)) and _names(match):
            return Reject(match["id"])
    if (match := _NO_BECAUSE.fullmatch(text)) and not _UNCLEAR.search(match["rest"]):
        return Reject()
    return Other()


def _names(match: re.Match[str]) -> bool:
    """Whether the word in the place of an id is one. Without a digit only a verb that asks for an id makes it so."""
    word = match["id"]
    if any(c.isdigit() for c in word):
        return True
    return word not in _NO_IDS and re.fullmatch(rf"{_VERB}|{_REFUSE}|{_NOT} \w+", match["verb"]) is not None
