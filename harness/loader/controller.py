"""The controller: when is a skill's loader regenerated, and which one first? Pure functions of the gaps and the clock.

For one skill, with e open gaps:

    P = kp * e                                                   many gaps are urgent
    I = ki * (sum of the open gaps' ages in days), clamped       an old gap can't starve
    D = kd * (gaps opened in the last day - the day before)      a burst goes first, a trend that fades waits
    u = P + I + D

A skill is due when u reaches the threshold; due ones are taken highest u first, within a budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Gains:
    """The gains of the three terms, the clamp of the integral (in the unit of u) and the least u that is due."""

    kp: float = 1.0
    ki: float = 0.25
    kd: float = 0.5
    integral_max: float = 5.0
    threshold: float = 0.75


@dataclass(frozen=True)
class Gap:
    """An open gap: its id, and when it was logged (ISO 8601)."""

    id: str
    ts: str


@dataclass(frozen=True)
class Terms:
    """The three terms and their sum."""

    p: float
    i: float
    d: float
    u: float


def terms(gaps: Iterable[Gap], now: datetime, gains: Gains) -> Terms:
    """The terms of one skill with these open gaps at ``now``. A gap of the future, or of no readable time, is new."""
    ages = [_age(gap.ts, now) for gap in gaps]
    p = gains.kp * len(ages)
    days = sum(age / _DAY for age in ages)
    i = max(0.0, min(gains.integral_max, gains.ki * days))
    last = sum(age < _DAY for age in ages)
    before = sum(_DAY <= age < 2 * _DAY for age in ages)
    d = gains.kd * (last - before)
    return Terms(p, i, d, p + i + d)


def choose(
    entries: Iterable[tuple[str, Iterable[Gap]]], now: datetime, gains: Gains, budget: int
) -> list[tuple[str, Terms]]:
    """The skills to regenerate now, highest u first, at most ``budget`` of them: each (skill, its open gaps) whose u
    reaches the threshold. Of two with one u, the one with the older gap goes first, then the alphabet decides."""
    ranked = []
    for skill, given in entries:
        gaps = list(given)
        found = terms(gaps, now, gains)
        if gaps and found.u >= gains.threshold:
            ranked.append((-found.u, -max(_age(g.ts, now) for g in gaps) / _DAY, skill, found))
    ranked.sort(key=lambda r: r[:3])
    return [(skill, found) for _, _, skill, found in ranked[: max(0, budget)]]


def _age(ts: str, now: datetime) -> timedelta:
    try:
        moment = datetime.fromisoformat(ts)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(timedelta(0), now - moment)
    except (ValueError, OverflowError, TypeError):
        return timedelta(0)
