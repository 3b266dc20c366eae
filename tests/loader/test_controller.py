"""The controller's terms, and a simulation that shows why the defaults are what they are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from harness.loader.controller import Gains, Gap, Terms, choose, terms
from harness.settings import DEFAULTS

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


def gap(days: float) -> Gap:
    return Gap(f"g{days}", (NOW - timedelta(days=days)).isoformat())


def test_the_defaults_are_those_of_the_settings() -> None:
    given = DEFAULTS["regen"]
    assert Gains() == Gains(*(given[name] for name in ("kp", "ki", "kd", "integral_max", "threshold")))


def test_the_three_terms() -> None:
    found = terms([gap(0.5), gap(0.25), gap(1.5), gap(4)], NOW, Gains())
    assert found == Terms(p=4.0, i=0.25 * 6.25, d=0.5, u=4.0 + 0.25 * 6.25 + 0.5)
    assert terms([], NOW, Gains()) == Terms(0, 0, 0, 0)
    assert terms([gap(1000)], NOW, Gains()).i == 5.0


def test_a_gap_of_the_future_or_without_a_time_is_new() -> None:
    for odd in (gap(-3), Gap("x", "soon"), Gap("x", "2026-12-01T11:59:59")):
        assert terms([odd], NOW, Gains()).d == 0.5


def test_only_what_reaches_the_threshold_is_chosen_highest_first_within_the_budget() -> None:
    entries = [("b", [gap(0.5)]), ("a", [gap(0.5)]), ("burst", [gap(0.1), gap(0.2)]), ("none", [])]
    assert [skill for skill, _ in choose(entries, NOW, Gains(), 9)] == ["burst", "a", "b"]
    assert [skill for skill, _ in choose(entries, NOW, Gains(), 1)] == ["burst"]
    assert choose(entries, NOW, Gains(), 0) == []
    assert [skill for skill, _ in choose(entries, NOW, Gains(threshold=2.0), 9)] == ["burst"]


# --- the simulation: skills get gaps hour by hour, one drain a day closes all gaps of the skills it takes

Load = Mapping[str, Callable[[int], int]]  # skill -> gaps on a day


@dataclass
class Run:
    served: dict[str, list[int]] = field(default_factory=dict)  # skill -> the days on which it was regenerated
    longest: float = 0.0  # the longest that a gap was open, days

    def swing(self, skill: str) -> int:
        """How much the pace of a skill's regenerations varies, days, after the first five."""
        days = self.served[skill][5:]
        steps = [b - a for a, b in itertools.pairwise(days)]
        return max(steps) - min(steps)


def simulate(
    load: Load, gains: Gains, budget: int, days: int = 120, drains: Callable[[int], bool] = lambda _: True
) -> Run:
    run, waiting = Run({skill: [] for skill in load}), {skill: list[Gap]() for skill in load}
    for day in range(days):
        for skill, gaps in load.items():
            for n in range(gaps(day)):
                waiting[skill].append(Gap(f"{skill}-{day}-{n}", (START + timedelta(days=day, hours=1 + n)).isoformat()))
        now = START + timedelta(days=day, hours=20)
        for skill, _ in choose(waiting.items(), now, gains, budget) if drains(day) else ():
            run.served[skill].append(day)
            waiting[skill].clear()
        ages = [(now - datetime.fromisoformat(g.ts)).total_seconds() / 86400 for gaps in waiting.values() for g in gaps]
        run.longest = max(run.longest, *ages, 0.0)
    return run


# Three skills that fall short at different rates every day, one that does so once, and one regeneration a day.
STEADY: Load = {
    "daily3": lambda day: 3,
    "daily1": lambda day: 1,
    "third": lambda day: int(day % 3 == 0),
    "once": lambda day: int(day == 5),
}


def nobody_waits_for_ever(gains: Gains) -> bool:
    run = simulate(STEADY, gains, budget=1)
    return run.longest < 30 and all(run.served.values())


def test_no_skill_waits_for_ever_and_without_the_integral_one_does() -> None:
    assert nobody_waits_for_ever(Gains())
    assert not nobody_waits_for_ever(replace(Gains(), ki=0))


def a_burst_goes_first(gains: Gains) -> bool:
    """Three gaps on one day, against as many that dripped in before."""
    load: Load = {"drip": lambda day: int(day in (17, 18, 19)), "burst": lambda day: 3 * (day == 20)}
    return simulate(load, gains, budget=1, days=21, drains=lambda day: day == 20).served["burst"] == [20]


def test_a_burst_goes_first_and_without_the_derivative_it_does_not() -> None:
    assert a_burst_goes_first(Gains())
    assert not a_burst_goes_first(replace(Gains(), kd=0))


def the_pace_is_even(gains: Gains) -> bool:
    """A steady load is served at a steady pace: no skill is taken day after day and then left alone."""
    run = simulate(STEADY, gains, budget=1)
    return all(run.swing(skill) <= 1 for skill in ("daily3", "daily1", "third"))


def test_no_oscillation_and_without_the_proportional_term_or_with_a_hot_derivative_there_is() -> None:
    assert the_pace_is_even(Gains())
    assert not the_pace_is_even(replace(Gains(), kp=0))
    assert not the_pace_is_even(replace(Gains(), kd=3))


def the_past_does_not_wind_up(gains: Gains) -> bool:
    """No drain ran for sixty days; then a skill falls short badly. It does not wait behind the old single gaps."""
    load: Load = {
        "old1": lambda day: int(day == 1),
        "old2": lambda day: int(day == 2),
        "old3": lambda day: int(day == 3),
        "burst": lambda day: 5 * (day == 60),
    }
    return simulate(load, gains, budget=1, days=61, drains=lambda day: day >= 60).served["burst"] == [60]


def test_a_long_pause_does_not_wind_the_integral_up_and_without_the_clamp_it_does() -> None:
    assert the_past_does_not_wind_up(Gains())
    assert not the_past_does_not_wind_up(replace(Gains(), integral_max=math.inf))


@pytest.mark.parametrize("budget", [1, 2, 5])
def test_a_skill_with_one_gap_is_served_within_a_month_at_any_budget(budget: int) -> None:
    assert simulate(STEADY, Gains(), budget).served["once"][0] <= 5 + 30
