"""The regeneration queue: the fold of an append-only file of rows. At most one open entry a skill.

    enqueue   these gaps are open (they join the skill's entry)
    start     a model is being asked; without an end behind it, that drain died and the entry is taken up again
    done      these gaps are closed; gaps that came in meanwhile stay open
    failed    an attempt failed; `reason` says when the next one is due, or that it was given up
    escalate  a person has to look

An entry that was given up or escalated stays visible until its gaps are closed; a new gap opens it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

State = Literal["open", "running", "failed", "escalated"]
Row = Mapping[str, Any]

MAX_ATTEMPTS: Final = 3
BACKOFF_MINUTES: Final = 10
GIVEN_UP: Final = "given up"
AGAIN: Final = "again after "

EVAL_DAYS: Final = 7
AREA_WORDS: Final = 2
AREA_LENGTH: Final = 60
NO_AREA: Final = "general"


@dataclass
class Entry:
    """What is to be done for one skill: ``feedback`` are the ids of its open gaps, oldest first; ``opened`` is when the
    first of them came; ``attempt`` counts attempts so far; before ``not_before`` (ISO 8601, UTC) none is due."""

    skill: str
    feedback: list[str]
    opened: str
    attempt: int = 0
    state: State = "open"
    error: str | None = None
    not_before: str | None = None
    reason: str = ""
    since: dict[str, str] = field(default_factory=dict, repr=False)

    def due(self, now: datetime) -> bool:
        """Whether an attempt may be made now. A drain asks, and is alone: `running` then means that one died."""
        waits = _moment(self.not_before) if self.not_before else None
        return self.state in ("open", "running") and (waits is None or waits <= now)


def fold(rows: Iterable[Row], *, max_attempts: int = MAX_ATTEMPTS) -> dict[str, Entry]:
    """The queue's entries by skill, from its rows in file order. Rows that say nothing known are passed over."""
    entries: dict[str, Entry] = {}
    for row in rows:
        skill, act = row.get("skill"), _OPS.get(str(row.get("op")))
        if isinstance(skill, str) and act:
            act(entries, skill, row, max_attempts)
    return entries


def new_row(
    skill: str,
    op: str,
    feedback: Iterable[str],
    reason: str,
    attempt: int = 0,
    error: str | None = None,
    *,
    id: str,
    ts: str,
) -> dict[str, Any]:
    """A row of the queue's ledger."""
    return {"id": id, "ts": ts, "skill": skill, "op": op, "feedback": list(feedback), "reason": reason,
            "attempt": attempt, "error": error, "tick": None}  # fmt: skip


def retry(attempt: int, now: datetime, *, max_attempts: int = MAX_ATTEMPTS, minutes: float = BACKOFF_MINUTES) -> str:
    """The ``reason`` of the `failed` row of attempt number ``attempt`` (from 1): when the next one is due, each wait
    twice as long as the one before, or that this was the last."""
    if attempt >= max_attempts:
        return GIVEN_UP
    due = now.astimezone(UTC) + timedelta(minutes=minutes * 2 ** (attempt - 1))
    return f"{AGAIN}{due:%Y-%m-%dT%H:%M:%SZ}"


def eval_reason(evals: Iterable[Row], now: datetime) -> str | None:
    """Why a skill's evals ask for a regeneration, or None. ``evals`` are its rows since its last one, oldest first.

    Any one of: 3 scores of 0.5 or less in 7 days; the last 5 runs with a mean of 0.75 or less; 2 zeros.
    """
    scored = [(float(e["score"]), _moment(e.get("ts"))) for e in evals if _is_score(e.get("score"))]
    scores = [score for score, _ in scored]
    if scores.count(0.0) >= 2:
        return f"{scores.count(0.0)} runs scored 0"
    recent = [s for s, ts in scored if s <= 0.5 and ts is not None and timedelta(0) <= now - ts <= timedelta(EVAL_DAYS)]
    if len(recent) >= 3:
        return f"{len(recent)} runs scored 0.5 or less in {EVAL_DAYS} days"
    if len(scores) >= 5 and (mean := sum(scores[-5:]) / 5) <= 0.75:
        return f"the last 5 runs scored {mean:.2f} in the mean"
    return None


def area(text: str) -> str:
    """The area a gap is about: what keeps missing, as a short key that says the same for the same thing.

    The thing that the text names comes first: code in backticks, a flag, a selector, a path. Without one it is the two
    longest words that carry meaning, in alphabetical order, so that neither word order nor "still missing" matter.
    """
    if named := _NAMED.search(text):
        thing = next(part for part in named.groups() if part)
        return " ".join(thing.casefold().split())[:AREA_LENGTH].strip() or NO_AREA
    words = {_stem(w) for w in _WORD.findall(text.casefold()) if w not in _NOISE}
    chosen = sorted(words, key=lambda w: (-len(w), w))[:AREA_WORDS]
    return " ".join(sorted(chosen))[:AREA_LENGTH] or NO_AREA


def escalation(
    rows: Iterable[Row],
    skill: str,
    area_name: str,
    now: datetime,
    limit: int = 3,
    days: int = 7,
    texts: Mapping[str, str] | None = None,
) -> bool:
    """Whether ``area_name`` of ``skill`` was regenerated ``limit`` times in the last ``days`` days.

    A `done` row counts when its ``areas`` name it; without them, when the text of a gap that it closed is of this area
    (``texts``, by the gap's id).
    """
    since, count = now - timedelta(days), 0
    for row in rows:
        ts = _moment(row.get("ts"))
        if row.get("op") != "done" or row.get("skill") != skill or ts is None or not since <= ts <= now:
            continue
        areas = row.get("areas")
        if not isinstance(areas, list):
            areas = [area(texts[i]) for i in _ids(row) if texts and i in texts]
        count += area_name in areas
    return count >= limit


# --- the fold, one function an op -------------------------------------------------------------------------------


def _enqueue(entries: dict[str, Entry], skill: str, row: Row, _: int) -> None:
    ts, new = str(row.get("ts") or ""), _ids(row)
    entry = entries.get(skill)
    if entry is None:
        entry = entries[skill] = Entry(skill, [], ts, reason=str(row.get("reason") or ""))
    new = [i for i in new if i not in entry.since]
    if new and entry.state in ("failed", "escalated"):
        entry.state, entry.attempt, entry.error, entry.not_before = "open", 0, None, None
    entry.feedback += new
    entry.since.update(dict.fromkeys(new, ts))


def _start(entries: dict[str, Entry], skill: str, row: Row, max_attempts: int) -> None:
    if entry := entries.get(skill):
        entry.attempt = _attempt(row, entry.attempt + 1)
        entry.state, entry.not_before = "running", None
        # A drain that died is given one try more than a reply that was refused, and not one after another for ever.
        if entry.attempt > max_attempts:
            entry.state, entry.error = "failed", f"{entry.attempt} attempts began, and the last did not end"


def _failed(entries: dict[str, Entry], skill: str, row: Row, max_attempts: int) -> None:
    if entry := entries.get(skill):
        entry.attempt = _attempt(row, entry.attempt)
        entry.error = str(row.get("error") or "no reason given")
        reason = str(row.get("reason") or "")
        if reason.startswith(GIVEN_UP) or (entry.attempt >= max_attempts and not reason.startswith(AGAIN)):
            entry.state, entry.not_before = "failed", None
            return
        entry.state = "open"
        entry.not_before = reason.removeprefix(AGAIN).split(" ", 1)[0] if reason.startswith(AGAIN) else None


def _done(entries: dict[str, Entry], skill: str, row: Row, _: int) -> None:
    if entry := entries.get(skill):
        closed = set(_ids(row))
        left = [i for i in entry.feedback if i not in closed]
        del entries[skill]
        if left:
            since = {i: entry.since[i] for i in left}
            entries[skill] = Entry(skill, left, since[left[0]], reason=entry.reason, since=since)


def _escalate(entries: dict[str, Entry], skill: str, row: Row, _: int) -> None:
    if entry := entries.get(skill):
        entry.state, entry.not_before = "escalated", None
        entry.error = str(row.get("reason") or "escalated to a person")


_OPS: Final[dict[str, Callable[[dict[str, Entry], str, Row, int], None]]] = {
    "enqueue": _enqueue,
    "start": _start,
    "done": _done,
    "failed": _failed,
    "escalate": _escalate,
}


def _ids(row: Row) -> list[str]:
    ids = row.get("feedback")
    return list(dict.fromkeys(i for i in ids if isinstance(i, str))) if isinstance(ids, list) else []


def _attempt(row: Row, default: int) -> int:
    value = row.get("attempt")
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default


def _is_score(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _moment(ts: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(ts))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


# --- words that name an area ------------------------------------------------------------------------------------

_NAMED: Final = re.compile(
    r"`([^`\n]{1,200})`"  # code
    r"|(?<![\w-])(--?[a-z][\w-]+)"  # a flag
    r"|(?<![\w#.])([#.][a-z_][\w-]{2,})"  # a selector
    r"|(?<![\w/.])((?:~|\.{1,2})?/?(?:[\w.-]+/)+[\w.-]*\w)"  # a path
    r"|\b([\w-]+\.(?:py|sh|js|ts|md|json|ya?ml|toml|csv|html?|css|sql|txt))\b",  # a file
    re.I,
)
_WORD: Final = re.compile(r"[^\W\d_][\w-]{2,}")
_NOISE: Final = frozenset(  # what is said of any gap, in any area
    """
    the and for but not with without from into onto that this these those there here then than when where which while
    was were are has have had does did doesn don isn wasn can cannot could should would must may might will
    missing misses missed lacks lack lacking absent gone wrong incorrect broken breaks broke fails failed failing fail
    still again always never ever only also just even once more most some any all each every other another
    say says said tell tells told mention mentions mentioned document documents documented undocumented describe
    describes described explain explains cover covers covered needs need needed wants want found find see seen
    loader skill agents agent notes note section rule rules line lines what how why who its your you they them
    because since until before after about over under out off new old use used uses using work works worked
    """.split()  # noqa: SIM905
)


def _stem(word: str) -> str:
    for end, keep in (("ies", "y"), ("sses", "ss"), ("s", "")):
        if word.endswith(end) and not word.endswith(("ss", "us", "is")) and len(word) - len(end) >= 3:
            return word[: len(word) - len(end)] + keep
    return word
