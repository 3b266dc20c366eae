"""Pages of a session: a closed range of turns in a hard number of characters, and where to go on."""

from __future__ import annotations

import html
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from harness.errors import USAGE, HarnessError
from harness.sessions import reader
from harness.sessions.formats import FORMATS, Format, Frame
from harness.sessions.graph import KEEP, Node, Session
from harness.sessions.pieces import Caps, Piece, pieces, turns
from harness.sessions.shown import clip, safe

FLOOR: Final = 1_000
DEFAULT: Final = 60_000
_LEAST: Final = 250  # characters that the pieces of a page get, whatever frames them
Locator = Callable[[str], Path]


class BadRange(HarnessError):
    """A request that names two different heads, or a format that doesn't exist."""

    exit_code = USAGE


@dataclass(frozen=True)
class Request:
    """Which turns of which branch, how, and in how many characters (0: as many as it takes).

    ``start`` and ``end`` count from 1, negatives from the end, 0 stands for the first and the last; ``item`` is the piece of
    the first turn to begin with.
    """

    head: str | None = None
    start: int = 0
    end: int = 0
    item: int = 0
    calls: bool = True
    max_chars: int = DEFAULT
    format: str = "text"
    caps: Caps = field(default_factory=Caps)
    name: str = ""


def render_session(
    session_id: str = "",
    head_id: str | None = None,
    start_turn: int = 0,
    end_turn: int = 0,
    include_function_calls: bool = True,
    max_chars: int = DEFAULT,
    store: Locator | None = None,
    *,
    start_item: int = 0,
    format: str = "text",
    caps: Caps = Caps(),  # noqa: B008
    env: Mapping[str, str] | None = None,
) -> str:
    """A page of a session as text.

    ``session_id`` is an id, its beginning, a file, or one of these with ``:HEAD``; without it the client's current session.
    ``store`` finds the file of a name (default: in the clients' folders). Never longer than ``max_chars`` (at least 1,000;
    0: no limit): it ends after the last whole turn that fits and says which comes next; a first turn that alone is too long
    is cut inside. An unknown session, an unknown head and an empty session are one-line notices. Raises NotATranscript,
    BadRange.
    """
    env = os.environ if env is None else env
    session_id = session_id or env.get("CLAUDE_CODE_SESSION_ID", "")
    name, head = _split(session_id, head_id)
    request = Request(head, start_turn, end_turn, start_item, include_function_calls, max_chars, format, caps, name)
    if not session_id:
        return _notice("no session is named, and this is no client's process; see `harness sessions list`", request)
    try:
        path = store(name) if store else reader.locate(name, env)
        session = reader.read(path, max(KEEP, 2 * max(caps.turn, caps.arguments, caps.result)))
    except (reader.NoSession, FileNotFoundError) as error:
        return _notice(f"no such session: {error}", request)
    return page(session, request)


render_read_conversation = render_session


def _split(session_id: str, head_id: str | None) -> tuple[str, str | None]:
    name, colon, head = session_id.rpartition(":")
    if not colon or not head or "/" in head or reader.is_file(Path(session_id)):
        return session_id, head_id
    if head_id is not None and head_id != head:
        raise BadRange(f"two heads are named: {head} and {head_id}", "", "name one")
    return name, head


def page(session: Session, request: Request) -> str:
    """The page that ``request`` asks for; the same session and request give the same text."""
    if request.format not in FORMATS:
        raise BadRange(f"no format {request.format!r}", "", f"choose from {', '.join(FORMATS)}")
    try:
        branch = session.branch(request.head)
    except KeyError:
        return _notice(f"no such head in session {session.id}: {request.head}; see `harness sessions list`", request)
    numbered = turns(session, branch)
    if not numbered:
        return _notice(f"session {session.id} is empty: it has no turn", request)
    total = len(numbered)
    start = _from_end(request.start, total) or 1
    end = _from_end(request.end, total) or total
    start, end = max(1, start), min(end, total)
    if start > end:
        return _notice(
            f"no turns {request.start}:{request.end} in session {session.id}, which has {total} turns", request
        )
    return _Page(session, request, numbered, start, end).write()


def _from_end(number: int, total: int) -> int:
    """``number`` counted from the front; at least 1 when it is negative."""
    return max(1, total + 1 + number) if number < 0 else number


def _notice(text: str, request: Request) -> str:
    """One line, no longer than a page may be, as the format writes it."""
    line = " ".join(safe(text).split("\n"))
    limit = max(FLOOR, request.max_chars) - 100 if request.max_chars else len(line)
    while True:
        short = _short(line, max(1, limit))
        if request.format == "json":
            out = json.dumps({"notice": short, "pieces": [], "next": None}, ensure_ascii=False) + "\n"
        else:
            out = f"<p>{html.escape(short)}</p>\n" if request.format == "html" else short + "\n"
        if not request.max_chars or len(out) <= max(FLOOR, request.max_chars):
            return out
        limit = limit * 2 // 3


class _Page:
    def __init__(
        self, session: Session, request: Request, numbered: list[tuple[int, list[Node], Node]], start: int, end: int
    ) -> None:
        self.session, self.request, self.numbered = session, request, numbered
        self.start, self.end = start, end
        self.brief = False
        self.format: Format = FORMATS[request.format]
        self.limit = max(FLOOR, request.max_chars) if request.max_chars else 0
        notes = _notes(session, request) if start == 1 and request.item == 0 else ()
        self.frame = Frame(
            start,
            end,
            len(numbered),
            _short(session.id, 80),
            session.client,
            _short(session.cwd, 80),
            _fitting(notes, self.limit),
        )

    def write(self) -> str:
        taken: list[str] = []
        used, last, after = 0, self.start, None
        room = self._room()
        for number in range(self.start, self.end + 1):
            parts = self._parts(number)
            written = [self._written(part) for part in parts]
            size = sum(len(w) + len(self.format.between()) for w in written)
            if not room or used + size <= room:
                taken += written
                used += size
                last = number
                continue
            if taken:
                after = (number, 0)
                break
            last = number
            item = self._inside(parts, written, room, taken)
            offset = self.request.item if number == self.start else 0
            done = item >= len(parts)
            after = (
                (number, item + (offset - 1 if offset else 0))
                if not done
                else (number + 1, 0)
                if number < self.end
                else None
            )
            break
        frame = replace(self.frame, last=last)
        if after is not None:
            frame = replace(frame, next=self._next(*after), next_turn=after[0], next_item=after[1])
        return self.format.begin(frame) + self.format.between().join(taken) + self.format.end(frame)

    def _parts(self, number: int) -> list[Piece]:
        """The pieces of a turn; of the first one from the item on that was asked for, under a heading that says so."""
        place, before, turn = self.numbered[number - 1]
        parts = pieces(self.session, place, before, turn, self.request.caps, self.request.calls)
        item = self.request.item if number == self.start else 0
        if item <= 0:
            return parts
        heading = f"{parts[0].heading}, from item {item} of {len(parts) - 1}"
        return [replace(parts[0], heading=heading, texts=()), *parts[item:]]

    def _inside(self, parts: list[Piece], written: list[str], room: int, taken: list[str]) -> int:
        """Take of one turn what fits, at least one piece beyond its heading; the number of pieces taken."""
        used = 0
        continued = not parts[0].texts  # the heading alone is no progress
        for number, (part, text) in enumerate(zip(parts, written, strict=True)):
            size = len(text) + len(self.format.between())
            if used + size <= room:
                taken.append(text)
                used += size
                continue
            if number == 0 or (number == 1 and continued):
                taken.append(self._cut(part, room - used))
                return number + 1
            return number
        return len(parts)

    def _cut(self, part: Piece, room: int) -> str:
        """``part`` with its texts shortened until it fits."""
        budget = room
        while True:
            caps = [max(0, min(cap, budget // max(1, len(part.texts)))) for _, _, cap in part.texts]
            text = self._written(
                replace(part, texts=tuple((label, t, cap) for (label, t, _), cap in zip(part.texts, caps, strict=True)))
            )
            if len(text) + len(self.format.between()) <= room or budget <= 0:
                return text
            budget = budget * 2 // 3 if budget > 60 else 0

    def _written(self, part: Piece) -> str:
        heading = replace(part, heading=" ".join(safe(_short(part.heading, 300)).split("\n")))
        return self.format.piece(
            heading,
            [
                (label, clip(text, cap, printed=label not in ("", "in")))
                for label, text, cap in part.texts
                if cap > 0 and text
            ],
        )

    def _room(self) -> int:
        """Characters for the pieces; 0 without a limit. Where little is left, what frames them gets shorter, step by step."""
        if not self.limit:
            return 0
        frame = self.frame
        short = replace(frame, notes=(), cwd="")
        steps = (
            (frame, False),
            (replace(frame, notes=()), False),
            (short, True),
            (replace(short, session=_short(frame.session, 16)), True),
        )
        for self.frame, self.brief in steps:
            more = self._next(frame.total, 99_999)
            widest = replace(self.frame, last=frame.total, next=more, next_turn=frame.total, next_item=99_999)
            room = self.limit - len(self.format.begin(widest)) - len(self.format.end(widest)) - 8
            if room >= _LEAST:
                break
        return room

    def _next(self, number: int, item: int) -> str:
        """Which turn was left out first, and the command that goes on from there."""
        name = self.request.name or self.session.id
        if self.request.head and len(self.request.head) <= 60:
            name = f"{name}:{self.request.head}"
        # A name with control characters could not be typed.
        short = name if len(name) <= (40 if self.brief else 160) and name.isprintable() else "SESSION"
        where = f"turn {number} of {len(self.numbered)}" + (f", item {item}" if item else "")
        stop = "" if self.end == len(self.numbered) else str(self.end)
        command = f"harness sessions read {shlex.quote(short)} --turns {number}:{stop}" + (
            f" --item {item}" if item else ""
        )
        return f"cut here; next is {where}: {command}"


def _short(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"


def _fitting(notes: tuple[str, ...], limit: int) -> tuple[str, ...]:
    """As many notes as take no more than a quarter of the page."""
    if not limit:
        return notes
    out: list[str] = []
    room = limit // 4
    for note in notes:
        one = _short(note, 200)
        if sum(len(o) + 20 for o in out) + len(one) + 20 > room:
            break
        out.append(one)
    return tuple(out)


def _notes(session: Session, request: Request) -> tuple[str, ...]:
    """What a reader must know: other branches, lost lines, missing files."""
    out = []
    on_page = {n.id for n in session.branch(request.head)}
    others = [tip for tip in session.tips() if tip.id not in on_page]
    for tip in others[:3]:
        branch = session.branch(tip.id)
        apart = [n for n in branch if n.id not in on_page]
        out.append(f"another branch of {len(apart)} turn{'' if len(apart) == 1 else 's'} ends in {session.id}:{tip.id}")
    if len(others) > 3:
        out.append(f"{len(others) - 3} more branches; see `harness sessions list`")
    for name, account in session.accounts.items():
        if account.dropped:
            where = ", ".join(f"line {d.line} ({d.bytes} bytes, {d.reason})" for d in account.dropped[:3])
            out.append(f"{name}: {len(account.dropped)} dropped: {where}" + (" …" if len(account.dropped) > 3 else ""))
        if account.recovered:
            out.append(f"{name}: {len(account.recovered)} records recovered from broken lines")
        if account.duplicates:
            out.append(f"{name}: {len(account.duplicates)} repeats left out")
        if account.incomplete:
            out.append(
                f"{name}: last line incomplete (line {account.incomplete.line}, {account.incomplete.bytes} bytes): it may still be written"
            )
        if account.odd:
            out.append(f"{name}: odd records: " + ", ".join(f"{n} {kind}" for kind, n in sorted(account.odd.items())))
        out += [f"{name}: {note}" for note in account.notes[:2]]
    if session.missing:
        out.append("files of subagents that are missing: " + ", ".join(session.missing[:5]))
    return tuple(re.sub(r"\s+", " ", safe(note)) for note in out)
