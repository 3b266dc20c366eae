"""The model's answer to a brief: found in whatever stands around it, parsed, and checked before anything is written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.errors import HarnessError
from harness.loader import document
from harness.loader.document import LIMITS, SECTIONS, Limits
from harness.loader.feedback import shown

__all__ = ["LIMITS", "BadReply", "Cover", "Drop", "Reply", "check", "parse"]

MAX_REPLY: Final = 1_000_000
"""Characters of an answer that are looked at; a longer one is refused."""
MIN_QUOTE: Final = 10
_TRIES: Final = 200
_MARKS: Final = re.compile(r"^(?:[-*+>]|\d+[.)]|#{1,6}|\[[ xX]\])\s+")
_AWAY: Final = re.compile(r"\(\d+ older gaps? folded away\)")


class BadReply(HarnessError):
    """The answer holds no reply in the form of the schema `regen-reply`. It is sent back once with this message."""

    def __init__(self, why: str) -> None:
        super().__init__("the answer is no reply", why, "reply with one JSON object: loader, coverage, dropped")


@dataclass(frozen=True)
class Cover:
    """A quote of the new loader that closes the gap with this id."""

    gap: str
    quote: str


@dataclass(frozen=True)
class Drop:
    """A line of the old loader that the new one leaves out, and why."""

    quote: str
    reason: str


@dataclass(frozen=True)
class Reply:
    """The whole new loader, what covers each gap, and what was dropped."""

    loader: str
    coverage: tuple[Cover, ...]
    dropped: tuple[Drop, ...]


def parse(text: str) -> Reply:
    """The reply in ``text``: its first JSON object with a ``loader``, bare, in a code block or in prose.

    Raises BadReply.
    """
    if not text.strip():
        raise BadReply("it is empty")
    if len(text) > MAX_REPLY:
        raise BadReply(f"it has {len(text)} characters, at most {MAX_REPLY}")
    value = next(_objects(text), None)
    if value is None:
        raise BadReply("there is no JSON object with a `loader` in it")
    loader = _string(value, "loader", "the reply")
    coverage = tuple(
        Cover(_string(c, "gap", "coverage"), _string(c, "quote", "coverage")) for c in _list(value, "coverage")
    )
    dropped = tuple(
        Drop(_string(d, "quote", "dropped"), _string(d, "reason", "dropped")) for d in _list(value, "dropped")
    )
    if extra := sorted(set(value) - {"loader", "coverage", "dropped"}):
        raise BadReply(f"unknown field {shown(str(extra[0]))[:60]!r}")
    return Reply(loader, coverage, dropped)


def check(
    reply: Reply,
    old_loader: str,
    gaps: Iterable[Mapping[str, Any]],
    footer: str,
    limits: Limits,
    find_secrets: Callable[[str], list[str]],
) -> list[str]:
    """Why ``reply`` must not become the loader, one sentence each; empty when it may.

    ``gaps`` are the feedback rows it had to close; the footer must be the old loader's own, else ``footer``.
    ``find_secrets`` names the kinds of secrets in a text.
    """
    new = reply.loader
    found = [
        *_uncovered(reply, gaps),
        *_dropped(reply, old_loader),
        *_form(new, document.footer_of(old_loader) or document.marked(footer)),
    ]
    if why := limits.exceeded(new):
        found.append(f"the loader is too long: {why}")
    known = set(old_loader.splitlines())  # what stands there already is not this reply's doing
    if secrets := sorted(set(find_secrets("\n".join(line for line in new.splitlines() if line not in known)))):
        found.append(f"the loader holds what looks like a secret ({', '.join(secrets)}); name where it is kept instead")
    return found


def _uncovered(reply: Reply, gaps: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    body = reply.loader.replace(document.footer_of(reply.loader) or "\0", "")
    quotes: dict[str, list[str]] = {}
    for cover in reply.coverage:
        quotes.setdefault(cover.gap, []).append(cover.quote.strip())
    for gap in gaps:
        given = quotes.get(str(gap["id"]))
        if not given:
            yield f"gap {gap['id']} has no quote in coverage"
        for quote in given or ():
            if len(quote) < MIN_QUOTE:
                yield f"the quote for gap {gap['id']} is shorter than {MIN_QUOTE} characters: {_short(quote)}"
            elif quote not in body:
                yield f"the quote for gap {gap['id']} is not in the new loader: {_short(quote)}"


def _dropped(reply: Reply, old: str) -> Iterator[str]:
    new, before = _plain(reply.loader), _plain(old)
    listed = []
    for drop in reply.dropped:
        quote = _plain(drop.quote)
        if not quote or quote not in before:
            yield f"a dropped quote is not in the old loader: {_short(drop.quote)}"
        elif not drop.reason.strip():
            yield f"no reason is given for dropping: {_short(drop.quote)}"
        else:
            listed.append(quote)
    there = set(new.split("\n"))
    flat = new.replace("\n", " ")
    for line in before.split("\n"):
        # A short line must stand as a line of its own: as a part of some longer one its sense may be another.
        kept = line in there or (len(line) > 40 and line in flat)
        if not kept and not any(line in quote or (quote in line and 2 * len(quote) >= len(line)) for quote in listed):
            yield f"a line of the old loader is gone and not listed in dropped: {_short(line)}"


def _form(new: str, footer: str) -> Iterator[str]:
    heads = document.sections(new)
    titles = {section.title.casefold() for section in heads if section.level == 2}
    if not any(section.level == 1 and section.title for section in heads):
        yield "the title (`# …`) is missing"
    for title in SECTIONS:
        if title.casefold() not in titles:
            yield f"the section `## {title}` is missing"
    marks = (new.count(document.FOOTER_START), new.count(document.FOOTER_END))
    body, given, rest = new.partition(footer)
    if marks != (1, 1) or not given:
        yield "the footer is not there exactly once, exactly as given"
    elif rest.strip():
        yield "something stands behind the footer, which ends the loader"
    if "SKILL.md" not in body:
        yield "the pointer to SKILL.md is missing"
    if bad := sorted({c for c in new if not c.isprintable() and c not in "\n\r\t\u200c\u200d"}):
        yield f"the loader holds control characters: {shown(''.join(bad[:5]))}"


def _plain(text: str) -> str:
    """The lines that say something, footer and markers left out: list marks, numbers and spaces don't count."""
    body = text.replace(document.footer_of(text) or "\0", "")
    lines = []
    for line in body.splitlines():
        line = " ".join(line.split())
        while mark := _MARKS.match(line):
            line = line[mark.end() :]
        if re.search(r"\w", line) and not _AWAY.fullmatch(line):
            lines.append(line)
    return "\n".join(lines)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder, at = json.JSONDecoder(), -1
    for _ in range(_TRIES):
        at = text.find("{", at + 1)
        if at < 0:
            return
        try:
            value, _ = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and "loader" in value:
            yield value


def _string(value: Any, key: str, where: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, str) or not found.strip():
        raise BadReply(f"{key!r} of {where} is missing, or no text")
    try:
        found.encode("utf-8")
    except UnicodeEncodeError:
        raise BadReply(f"{key!r} of {where} holds half a character") from None
    return found


def _list(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    if not isinstance(found, list):
        raise BadReply(f"{key!r} is missing, or no list")
    return found


def _short(text: str) -> str:
    one = shown(" ".join(text.split()))
    return f"{one[:100]}…" if len(one) > 100 else one
