"""The exact text: cleaning before it is filed, its hash, and the digest over everything that can be sent with it."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness import redact
from harness.approval.errors import Invalid, Tampered

_HEX: Final = re.compile(r"[0-9a-f]{64}")
# They reorder what a reader sees without changing what is sent, so an operator would approve another sentence.
_BIDI: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_BLANK_LETTERS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")


@dataclass(frozen=True)
class Cleaned:
    """A text as it is filed, and what was taken out of it, in words."""

    text: str
    notes: tuple[str, ...] = ()


def sha256(text: str) -> str:
    """The SHA-256 of the UTF-8 bytes of ``text``, in hex."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def block(name: str, value: object, most: int, *, empty: bool = False) -> Cleaned:
    """A text of several lines: line ends become ``\\n``, other control characters go, nothing else changes."""
    text = _text(name, value)
    ended = text.replace("\r\n", "\n").replace("\r", "\n")
    kept = "".join(c for c in ended if c in "\n\t" or unicodedata.category(c) != "Cc")
    notes = []
    if ended != text:
        notes.append(f"{name}: line ends made \\n")
    if gone := len(ended) - len(kept):
        notes.append(f"{name}: {gone} control character{'' if gone == 1 else 's'} taken out")
    _check(name, kept, most, empty=empty)
    return Cleaned(kept, tuple(notes))


def line(name: str, value: object, most: int, *, empty: bool = False) -> str:
    """A text of one line: every run of white space and control characters becomes one space."""
    text = _text(name, "" if value is None and empty else value)
    kept = " ".join("".join(" " if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in text).split())
    _check(name, kept, most, empty=empty)
    return kept


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise Invalid(f"{name} must be text", f"it is {type(value).__name__}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Invalid(
            f"{name} holds half a character",
            f"a lone surrogate at position {error.start}",
            "file the text with whole characters",
        ) from None
    return value


def _check(name: str, text: str, most: int, *, empty: bool) -> None:
    if blank(text) and not (empty and not text):
        raise Invalid(f"{name} is empty", "nothing in it can be seen", "give it a text")
    if len(text) > most:
        raise Invalid(
            f"{name} is too long", f"{len(text):,} characters, at most {most:,}", "make it shorter; nothing is cut"
        )
    if found := _BIDI.intersection(text):
        names = ", ".join(sorted(f"U+{ord(c):04X}" for c in found))
        raise Invalid(f"{name} reorders what its reader sees", f"it holds {names}", "take those characters out")


def blank(text: str) -> bool:
    """Whether there is nothing to see in ``text``: white space, zero-width and control characters only."""
    return all(unicodedata.category(c)[0] in "ZC" or c in _BLANK_LETTERS for c in text)


def refuse_secrets(name: str, text: str) -> None:
    """Raise Invalid when ``text`` holds a key, token or password: it would be sent out, and kept in git."""
    for kind, start, _ in redact.find(text):
        number = text.count("\n", 0, start) + 1
        raise Invalid(f"{name} holds what looks like a secret", f"line {number}: {kind}", "take it out")


@dataclass(frozen=True)
class Body:
    """One more form of the text that may be sent, such as HTML."""

    media_type: str
    body: str
    sha256: str


def digest(
    text: str,
    subject: str,
    bodies: Sequence[Body],
    attachments: Sequence[Mapping[str, str]],
    destination: Mapping[str, str],
) -> str:
    """The SHA-256 over everything that an approval covers: text, subject, each body, attachment hashes, destination."""
    covered = {
        "attachments": sorted([one["name"], one["sha256"]] for one in attachments),
        "bodies": sorted([one.media_type, sha256(one.body)] for one in bodies),
        "destination": [destination[name] for name in ("counterparty", "platform", "workspace", "channel", "thread")],
        "subject": subject,
        "text": sha256(text),
        "version": 1,
    }
    return sha256(json.dumps(covered, ensure_ascii=False, sort_keys=True, separators=(",", ":")))


def bodies_of(stored: str) -> list[Body]:
    """The bodies that a snapshot keeps as JSON: a list of [media type, hash, text]."""
    try:
        return [Body(media, body, known) for media, known, body in json.loads(stored)]
    except (ValueError, TypeError) as error:
        raise Tampered("the approved bodies can't be read", str(error)) from error


def verify(snapshot: Mapping[str, Any]) -> None:
    """Check a snapshot (or a current draft) against its own hashes, computed anew. Raises Tampered, and nothing else."""
    text, stored = snapshot["draft_text"], snapshot["draft_sha256"]
    if not isinstance(stored, str) or not _HEX.fullmatch(stored):
        raise Tampered("the approved hash is no hash", "it must be 64 lowercase hexadecimal digits")
    try:
        found = sha256(text)
    except (AttributeError, UnicodeError) as error:
        raise Tampered("the approved text is no text", str(error)) from error
    if not hmac.compare_digest(found, stored):
        raise Tampered("the approved text hash does not match", f"stored {stored[:16]}, computed {found[:16]}")
    bodies = bodies_of(snapshot["bodies"])
    try:
        attachments = json.loads(snapshot["attachments"])
        for one in bodies:
            if sha256(one.body) != one.sha256:
                raise Tampered(f"the hash of the {one.media_type} body does not match")
        covered = digest(text, snapshot["subject"], bodies, attachments, snapshot)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Tampered("what was approved can't be read", str(error)) from error
    # Rows that came from a reference ledger have no digest. They hold a text and nothing else that could be sent.
    bare = not snapshot["digest"] and not bodies and not attachments and not snapshot["subject"]
    if not bare and covered != snapshot["digest"]:
        raise Tampered(
            "the digest of what was approved does not match",
            f"stored {str(snapshot['digest'])[:16]}, computed {covered[:16]}",
        )


def is_hash(value: object) -> bool:
    """Whether ``value`` is a SHA-256 in the form we store: 64 lowercase hexadecimal digits."""
    return isinstance(value, str) and _HEX.fullmatch(value) is not None
