"""A proposal: one edit of an overlay as it is shown to a person, bound by hashes to what it was made from.

    propose -> shown -> approved | rejected | lapsed | stale -> one row of the scorecards

The document is written once. What became of it is the scorecard's row that names it; without one it is open.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.errors import NEEDS_PERSON, USAGE, HarnessError
from harness.tune.overlay import Edit, applied, diff, tokens

FOLDER: Final = "state/proposals"
OPEN_DAYS: Final = 30
PROMPTS: Final = 3
"""Prompts of other things after which a proposal that was shown lapses."""
MAX_REACTION: Final = 120
_SHORT: Final = 4


class NoProposal(HarnessError):
    """No open proposal answers to this id, or more than one does."""

    exit_code = USAGE


class StaleProposal(HarnessError):
    """The overlay has changed since the diff was made; what was approved is not what would be written."""

    exit_code = NEEDS_PERSON


@dataclass(frozen=True)
class Expected:
    """What an edit promises: a sentence, and where it can be checked, words that later outputs hold or don't, or a command
    that gets an output on its standard input and exits 0 when the promise was kept."""

    text: str
    absent: Sequence[str] = ()
    present: Sequence[str] = ()
    command: Sequence[str] = ()

    @property
    def checkable(self) -> bool:
        """Whether later outputs can be held against it."""
        return bool(self.absent or self.present or self.command)


@dataclass(frozen=True)
class Proposal:
    """See the schema `proposals`. ``target`` is the overlay's path; ``skill`` the skill's folder or the member's name."""

    id: str
    ts: str
    kind: str
    target: str
    skill: str
    session: str | None
    turn: str | None
    reward: float
    signal: str
    reaction: str
    diagnosis: str
    expected: Expected
    origin: str
    edit: Edit
    before: str | None
    after: str
    base_sha256: str | None
    evidence: Sequence[str] = field(default_factory=tuple)
    found_in: str = ""
    replaces: str | None = None

    @property
    def path(self) -> str:
        """Where the proposal itself lies."""
        return f"{FOLDER}/{self.id}.json"

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        return diff(self.target, self.before or "", self.after)

    @property
    def diff_sha256(self) -> str:
        """What an approval binds to."""
        return digest(self.diff)

    @property
    def before_sha256(self) -> str:
        """The overlay that the diff was made from: its SHA-256, or "absent"."""
        return "absent" if self.before is None else digest(self.before)

    def document(self) -> dict[str, Any]:
        """The JSON document that is committed and shown."""
        expected = {"text": self.expected.text} | {
            name: list(value) for name in ("absent", "present", "command") if (value := getattr(self.expected, name))
        }
        return {
            "id": self.id, "ts": self.ts, "kind": self.kind, "target": self.target, "skill": self.skill,
            "session": self.session, "turn": self.turn, "reward": self.reward, "signal": self.signal,
            "reaction": self.reaction, "diagnosis": self.diagnosis, "expected": expected, "origin": self.origin,
            "found_in": self.found_in, "evidence": list(self.evidence),
            "edit": {"lines": list(self.edit.lines), "first": self.edit.first, "last": self.edit.last},
            "diff": self.diff, "diff_sha256": self.diff_sha256, "before_sha256": self.before_sha256,
            "after_sha256": digest(self.after), "after": self.after, "base_sha256": self.base_sha256,
            "replaces": self.replaces,
        }  # fmt: skip


def digest(text: str) -> str:
    """The SHA-256 of a text's UTF-8 bytes, in hex."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def on_top_of(document: Mapping[str, Any], before: str | None) -> str:
    """The overlay that a proposal's edit makes of ``before``, another state than it was made from. Raises BadEdit."""
    edit = document["edit"]
    return applied(before or "", Edit(edit["lines"], edit["first"], edit["last"]))


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """The short form of each id: its last characters in small letters, as many as tell it from the others, four at least."""
    whole = [one.lower() for one in ids]
    length = _SHORT
    while len({one[-length:] for one in whole}) < len(set(whole)):
        length += 1
    return {one.upper(): one[-length:] for one in whole}


def find(documents: Iterable[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """The open proposal that ``name`` stands for: its id, or the beginning or end of it. Raises NoProposal."""
    wanted = name.strip().lstrip("#").upper()
    listed = list(documents)
    found = [one for one in listed if wanted and (one["id"].endswith(wanted) or one["id"].startswith(wanted))]
    if len(found) == 1:
        return found[0]
    ids = short_ids(one["id"] for one in listed)
    if found:
        raise NoProposal(
            f"{name!r} stands for {len(found)} proposals", ", ".join(ids[o["id"]] for o in found), "name one whole id"
        )
    known = f"open are {', '.join(ids.values())}" if ids else "none is open"
    raise NoProposal(f"no open proposal {name!r}", known, "see `harness tune list`")


def shown(document: Mapping[str, Any], short: str, *, typed: bool, asked: bool = True) -> str:
    """A proposal as a person sees it: whose words, what is wrong, the exact diff, what it promises, how to answer.

    ``typed`` says that the id must be typed (a bare yes is not enough); ``asked`` that the next prompt answers it.
    """
    who = "the member" if document["kind"] == "member" else "the skill"
    lines = [f"Proposal {short}: one edit of what is learned for {who} {document['skill']}", ""]
    if document["reaction"]:
        lines.append(f'you said     "{one_line(document["reaction"])}" ({document["reward"]:+g})')
    lines.append(f"diagnosis    {one_line(document['diagnosis'])}")
    expected = document["expected"]
    checks = [f"no {', '.join(expected['absent'])}"] if expected.get("absent") else []
    checks += [f"with {', '.join(expected['present'])}"] if expected.get("present") else []
    checks += [f"checked by: {' '.join(expected['command'])}"] if expected.get("command") else []
    lines.append(f"expected     {one_line(expected['text'])}" + (f" ({'; '.join(checks)})" if checks else ""))
    if document.get("evidence"):
        lines.append(f"evidence     {', '.join(document['evidence'])}")
    if document["origin"] == "tool":
        where = f" ({one_line(document['found_in'])})" if document.get("found_in") else ""
        lines.append(f"origin       text from a tool{where}, not your words: type the id to approve it")
    cost = tokens(document["after"])
    lines += ["", visible(document["diff"]).rstrip(), "", f"about {cost} tokens with each use of it"]
    if not asked:
        return "\n".join(lines)
    ways = f"apply {short}" if typed else f"apply {short} (or just: yes)"
    lines.append(f"Nothing is written before you say so. Answer: {ways}, or: reject {short}")
    return "\n".join(lines)


def one_line(text: str) -> str:
    """``text`` on one line, with what is not to be seen made visible."""
    return visible(" ".join(str(text).split()))


def visible(text: str) -> str:
    """``text`` with control, bidirectional and zero-width characters written as escapes: what is shown is what is there."""
    return re.sub(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00a0\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]",
        lambda m: f"\\u{ord(m[0]):04x}",
        text,
    )


def clip(text: str, most: int = 72) -> str:
    """``text`` on one line of at most ``most`` characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
