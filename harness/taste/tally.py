"""Counting decisions: rows of approvals in, buckets by (source skill, shape) out. Streaming; memory stays small.

A later decision on the same draft takes the place of an earlier one, as long as it comes within the last WINDOW drafts.
"""

from __future__ import annotations

import gc
import math
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

SAMPLES: Final = 5
WINDOW: Final = 20_000
"""Drafts that a generation holds: a decision is replaced by a later one at least so many drafts on, at most twice."""
MAX_LATENCY_MS: Final = 7 * 86_400_000
"""A latency beyond a week says nothing of taste; it is left out and counted, as negative ones are."""
_DECISIONS: Final = frozenset(("approve", "dismiss", "edit"))
Z: Final = 1.959964


@dataclass
class Bucket:
    """The counts of one (skill, shape). ``weights`` are the decayed counts, where decay is on."""

    accepts: int = 0
    rejects: int = 0
    edits: int = 0
    accepted: deque[Any] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    rejected: deque[Any] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    reasons: deque[str] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    accept_ms: array[int] = field(default_factory=lambda: array("I"))
    reject_ms: array[int] = field(default_factory=lambda: array("I"))
    odd_latencies: int = 0
    weights: list[float] = field(default_factory=lambda: [0.0, 0.0])

    @property
    def n(self) -> int:
        """Decisions that say keep or throw away; edits are counted beside them."""
        return self.accepts + self.rejects

    @property
    def rate(self) -> float | None:
        """The share that was kept; None for 0 of 0."""
        return self.accepts / self.n if self.n else None


@dataclass
class Tally:
    """All buckets of a pass, and what was skipped by reason."""

    buckets: dict[tuple[str, str], Bucket] = field(default_factory=dict)
    scanned: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    repeats: int = 0

    def skip(self, reason: str) -> None:
        """Count a row that can't be used."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


def tally(
    rows: Iterable[Any], shape: Callable[[Mapping[str, Any]], str | None], half_life_days: float | None = None
) -> Tally:
    """Count ``rows`` in their order. ``shape(row)`` gives the shape of a row's draft, or None when the draft is gone (it
    then counts as other, and as missing). Rows that are none are counted by reason and skipped."""
    paused = gc.isenabled()
    gc.disable()  # a pass makes a million rows and no cycle: looking for one costs a fifth of its time
    try:
        return _tally(rows, shape, half_life_days)
    finally:
        if paused:
            gc.enable()


def _tally(
    rows: Iterable[Any], shape: Callable[[Mapping[str, Any]], str | None], half_life_days: float | None
) -> Tally:
    out = Tally()
    table: dict[str, dict[str, Bucket]] = {}
    # Decisions of the last drafts, by path, in two generations: the older one is counted and dropped as a whole.
    young: dict[str, tuple[Bucket, dict[str, Any]]] = {}
    old: dict[str, tuple[Bucket, dict[str, Any]]] = {}
    newest, scanned = 0.0, 0
    for row in rows:
        scanned += 1
        try:
            decision, path, skill = row["decision"], row["path"], row["source_skill"]
            if decision not in _DECISIONS or type(path) is not str or type(skill) is not str:
                raise TypeError
        except (KeyError, TypeError, IndexError):  # an approval has these, as text
            out.skip(_reason(row))
            continue
        found = shape(row)
        if found is None:
            out.skip("missing_draft")
            found = "other"
        try:
            bucket = table[skill][found]
        except KeyError:
            bucket = out.buckets[skill, found] = table.setdefault(skill, {})[found] = Bucket()
        if path in young or path in old:
            out.repeats += 1
            young.pop(path, None)
            old.pop(path, None)
        young[path] = (bucket, row)
        if len(young) >= WINDOW:
            newest = max(newest, _count(old.values(), half_life_days))
            young, old = {}, young
    out.scanned = scanned
    newest = max(newest, _count(old.values(), half_life_days), _count(young.values(), half_life_days))
    # A decision that a later one took the place of may have been the only one of its bucket.
    out.buckets = {key: b for key, b in out.buckets.items() if b.n or b.edits}
    if half_life_days:
        for bucket in out.buckets.values():
            bucket.weights = [w * 2 ** (-newest / half_life_days) for w in bucket.weights]
    return out


def _reason(row: Any) -> str:
    if type(row) is not dict:
        return "malformed"
    decision = row.get("decision")
    if decision is None:
        return "no-decision"
    return "malformed" if type(decision) is not str or decision in _DECISIONS else "unknown-decision"


def _count(settled: Iterable[tuple[Bucket, Mapping[str, Any]]], half_life: float | None) -> float:
    """Put settled decisions into their buckets; returns the day of the newest, where decay is on."""
    newest = 0.0
    for bucket, row in settled:
        decision, latency = row["decision"], row.get("latency_ms")
        if decision == "approve":
            bucket.accepts += 1
            bucket.accepted.append(row.get("title"))
            times = bucket.accept_ms
        elif decision == "dismiss":
            bucket.rejects += 1
            bucket.rejected.append(row.get("title"))
            if reason := row.get("reason"):
                bucket.reasons.append(str(reason))
            times = bucket.reject_ms
        else:
            bucket.edits += 1
            continue
        if type(latency) is int:
            if 0 <= latency <= MAX_LATENCY_MS:
                times.append(latency)
            else:
                bucket.odd_latencies += 1
        if half_life:
            day = _days(row)
            newest = max(newest, day)
            bucket.weights[decision != "approve"] += 2 ** (day / half_life)
    return newest


def _days(row: Mapping[str, Any]) -> float:
    """Days since 2020: small enough that a power of two of it stays a number."""
    try:
        return datetime.fromisoformat(str(row.get("ts"))).timestamp() / 86_400 - 18_262
    except ValueError:
        return 0.0


def confidence(n: int) -> str:
    """low below 3 decisions, medium below 10, high from 10 on."""
    return "low" if n < 3 else "medium" if n < 10 else "high"


def wilson(accepts: int, n: int) -> tuple[float, float] | None:
    """Wilson's 95 % interval of a share; None for 0 of 0."""
    if not n:
        return None
    p = accepts / n
    middle, half = p + Z * Z / (2 * n), Z * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    bottom = 1 + Z * Z / n
    return round(max(0.0, (middle - half) / bottom), 4), round(min(1.0, (middle + half) / bottom), 4)


def percentile(values: array[int], share: float) -> int | None:
    """The nearest-rank percentile; None without values."""
    if not values:
        return None
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]
