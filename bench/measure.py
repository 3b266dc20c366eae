"""Measuring: every contestant takes its turn in each round, so that a slow second hits all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Work = Callable[[], object]


@dataclass(frozen=True)
class Result:
    """One line of the table. ``value`` is a ratio, or a rate a second where ``unit`` says so; ``bound`` is what it should be
    at most (at least, for a rate)."""

    name: str
    value: float
    bound: float | None
    unit: str = "x"
    detail: str = ""

    @property
    def verdict(self) -> str:
        """``ok``, ``over`` or nothing when there is no bound."""
        if self.bound is None:
            return ""
        good = self.value >= self.bound if self.unit.endswith("/s") else self.value <= self.bound
        return "ok" if good else "over"


def medians(contestants: Mapping[str, Work], *, rounds: int, warm: int = 2) -> dict[str, float]:
    """The median time of each contestant in seconds, over interleaved rounds after ``warm`` that don't count."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(warm + rounds):
        for name, work in contestants.items():
            start = time.perf_counter()
            work()
            if turn >= warm:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def once(work: Work) -> float:
    """The time of one call in seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ms(seconds: float) -> str:
    """A time for the column of details."""
    return f"{seconds * 1000:.1f} ms"
