"""What sessions say about skills, before anything is installed: used how often, corrected how often, for what. Reads alone."""

from __future__ import annotations

import contextlib
import mmap
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.errors import HarnessError
from harness.sessions import reader
from harness.sessions.graph import Node, Session
from harness.sessions.shown import safe
from harness.tune.reaction import classify

KEEP: Final = 2_000  # characters of a text that matter here
QUOTE: Final = 60
LESSON_CHARS: Final = 110  # a lesson of one line, as overlays have them
CHARS_A_TOKEN: Final = 4
_MARKS: Final = (b'"Skill"', b"Base directory for this skill:")
_SKILL_TEXT: Final = "Base directory for this skill:"
_SUBJECT: Final = re.compile(
    r"^(?:(?:oh|no|well|hmm|ok|sorry|still|and|but|this|that|it|the|your|one|draft|output|answer|summary|intro|tone|text|is|was|are|were|"
    r"sounds?|looks?|reads?|feels?|way|far|much|so|very|really|just|a bit|again|rather|quite|completely|totally)\b[ ,]*)+"
)


@dataclass
class Skill:
    """One skill: how often it was used, praised and corrected; the corrections by what they say, with where each was said."""

    uses: int = 0
    sessions: int = 0
    praised: int = 0
    corrected: int = 0
    topics: Counter[str] = field(default_factory=Counter)
    said: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def repeated(self) -> int:
        """How many corrections had been said before."""
        return sum(count for count in self.topics.values() if count > 1)


@dataclass
class Scan:
    """``sessions`` that were written in the last ``days``, those of them ``with_skills``, the ``skills``, files that could not be
    read, and the folders that were looked at."""

    days: int
    sessions: int = 0
    with_skills: int = 0
    bytes: int = 0
    skills: dict[str, Skill] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    dropped: int = 0
    places: list[tuple[Path, str]] = field(default_factory=list)

    @property
    def corrections(self) -> int:
        """Corrections after a skill, over all skills."""
        return sum(one.corrected for one in self.skills.values())

    @property
    def repeated(self) -> int:
        """Those among them that were said twice or more."""
        return sum(one.repeated for one in self.skills.values())

    @property
    def lesson_tokens(self) -> int:
        """About how many tokens a lesson of one line adds to each use of its skill."""
        return LESSON_CHARS // CHARS_A_TOKEN

    def as_dict(self) -> dict[str, Any]:
        """The scan as JSON takes it."""
        skills = {
            name: {
                "uses": one.uses, "sessions": one.sessions, "praised": one.praised, "corrected": one.corrected, "repeated": one.repeated,
                "corrections": [{"about": about, "times": n, "said": one.said[about]} for about, n in one.topics.most_common()],
                "failures": [{"call": call, "times": n} for call, n in one.failures.most_common() if n > 1],
                "tokens_of_a_lesson": self.lesson_tokens * one.uses,
            }
            for name, one in self.ordered()
        }  # fmt: skip
        return {
            "days": self.days, "sessions": self.sessions, "with_skills": self.with_skills, "bytes": self.bytes,
            "corrections": self.corrections, "repeated": self.repeated, "lesson_tokens": self.lesson_tokens, "skills": skills,
            "unreadable": self.unreadable, "dropped_lines": self.dropped,
            "places": [{"folder": str(root), "found": what} for root, what in self.places],
        }  # fmt: skip

    def ordered(self) -> list[tuple[str, Skill]]:
        """The skills, those corrected most first."""
        return sorted(self.skills.items(), key=lambda item: (-item[1].corrected, -item[1].uses, item[0]))


def scan(env: Mapping[str, str], days: int, progress: Callable[[int, int], None] | None = None) -> Scan:
    """Scan every session that was written in the last ``days``; ``progress`` is told how many of how many are done.

    Sessions in which no skill was used are counted, not parsed.
    """
    found, places = reader.find_all(env)
    since = time.time() - days * 86_400
    recent = [one for one in found if one.mtime >= since]
    out = Scan(days, sessions=len(recent), bytes=sum(one.size for one in recent), places=places)
    for number, one in enumerate(recent, 1):
        if one.client == "claude_code" and _may_hold_skills(one.path):
            try:
                with reader.no_collection():
                    session = reader.reader(one.client).read(one.path, KEEP)
            except (HarnessError, OSError) as error:
                out.unreadable[str(one.path)] = str(error)
            else:
                _session(session, out)
        if progress:
            progress(number, len(recent))
    return out


def _may_hold_skills(path: Path) -> bool:
    """Whether the file names a skill at all: a look at its bytes, much faster than reading its lines."""
    with (
        contextlib.suppress(OSError, ValueError),
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        return any(data.find(mark) >= 0 for mark in _MARKS)
    return False


def _session(session: Session, out: Scan) -> None:
    out.dropped += sum(len(account.dropped) for account in session.accounts.values())
    used: set[str] = set()
    last: str | None = None  # the skill that the next prompt may be about
    during: str | None = None  # the skill under which calls fail
    typed: Node | None = None
    for node in session.nodes:
        if node.thread or node.kind in ("summary", "spawn"):
            continue
        name = _skill(node, typed)
        if name:
            one = out.skills.setdefault(name, Skill())
            one.uses += 1
            used.add(name)
            last = during = name
        elif node.kind == "turn" and node.role == "user":
            if last is not None:
                _react(out.skills[last], node, session)
            last = during = None
            typed = node
        elif node.kind == "call" and node.ok is False and during is not None:
            out.skills[during].failures[_failure(node)] += 1
    for name in used:
        out.skills[name].sessions += 1
    out.with_skills += bool(used)


def _skill(node: Node, typed: Node | None) -> str | None:
    """The name of the skill whose use ``node`` is: a call of the tool Skill that went through, or the text of one that was typed."""
    if node.kind == "call" and node.name == "Skill":
        match = re.search(r'"(?:skill|command)": ?"([^"\\]{1,200})"', node.input.head)
        return match[1] if match and node.ok is not False else None
    if (
        node.kind == "meta"
        and node.label == "client's note"
        and node.output.head.startswith(_SKILL_TEXT)
        and typed is not None
    ):
        match = re.match(r"/([\w:.-]{1,200})", typed.output.head)
        return match[1] if match else None
    return None


def _react(one: Skill, prompt: Node, session: Session) -> None:
    if prompt.output.left_out:
        return
    reaction = classify(prompt.output.head)
    if reaction.reward > 0:
        one.praised += 1
    elif reaction.reward < 0:
        one.corrected += 1
        about = topic(reaction.words)
        one.topics[about] += 1
        quote = safe(" ".join(prompt.output.head.split()))
        short = quote if len(quote) <= QUOTE else quote[: QUOTE - 1] + "…"
        one.said.setdefault(about, []).append({"session": session.id, "ts": prompt.ts or "", "words": short})


def topic(words: str) -> str:
    """What a complaint is about, without who and how much: “this is way too hedgy” and “too hedgy” are one."""
    clause = safe(words.split("; ")[0].strip().lower())[:QUOTE]
    bare = _SUBJECT.sub("", clause).strip(" ,.!")
    return bare or clause


def _failure(call: Node) -> str:
    """A failed call without what differs each time: numbers, quotes, paths and hashes."""
    text = safe(call.output.head)
    lines = [
        line.strip()
        for line in text.split("\n")
        if line.strip() and not re.match(r"(?:Error: )?Exit code", line.strip())
    ]
    first = lines[0] if lines else "no output"
    first = re.sub(r"(?:/[\w.@-]+){2,}", "PATH", re.sub(r"\b[0-9a-f]{7,64}\b", "HASH", first))
    return f"{call.name}: {re.sub(r'[0-9]+', 'N', first)[:QUOTE]}"
