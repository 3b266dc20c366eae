"""What the ledgers show of lessons: the change in reward around each edit, and complaints that recur.

scorecards -> wiki/causal.json (edit -> change in reward, n, interval), wiki/patterns.json (a diagnosis and its rows)
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from harness.flows.ledgers import rows
from harness.store.commit import Landed, Store
from harness.store.tick import ABSENT, Replace, Tick, Write, sha256
from harness.tune import likeness

CAUSAL: Final = "wiki/causal.json"
PATTERNS: Final = "wiki/patterns.json"
WINDOW: Final = 20
"""Reactions looked at on each side of an edit."""


def causal(cards: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each applied edit of one skill: the mean reward of the WINDOW reactions before and after it (its own left out, the
    next edit ends the second), their difference and its 95 % interval. It is what happened around an edit, not a proof."""
    found = []
    edits = [n for n, r in enumerate(cards) if r.get("status") == "applied"]
    for at in edits:
        row = cards[at]
        end = next((n for n in edits if n > at), len(cards))
        start = max((n + 1 for n in edits if n < at), default=0)
        before, after = _live(cards[start:at])[-WINDOW:], _live(cards[at + 1 : end])[:WINDOW]
        one, two = ([float(r["reward"]) for r in side] for side in (before, after))
        mean_one, mean_two = (statistics.fmean(side) if side else None for side in (one, two))
        change = mean_two - mean_one if mean_one is not None and mean_two is not None else None
        found.append(
            {
                "id": row["id"], "skill": row["skill"], "proposal": row.get("proposal"), "diagnosis": row.get("diagnosis", ""),
                "n_before": len(one), "n_after": len(two), "before": mean_one, "after": mean_two, "change": change,
                "interval": _interval(one, two, change), "rows": [r["id"] for r in (*before, *after)],
            }
        )  # fmt: skip
    return found


def _live(cards: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [r for r in cards if r.get("path") == "B-live" and isinstance(r.get("reward"), int | float)]


def _interval(one: Sequence[float], two: Sequence[float], change: float | None) -> list[float] | None:
    if change is None or len(one) < 2 or len(two) < 2:
        return None
    half = 1.96 * math.sqrt(statistics.variance(one) / len(one) + statistics.variance(two) / len(two))
    return [round(change - half, 4), round(change + half, 4)]


def patterns(cards: Sequence[Mapping[str, Any]], skill: str) -> list[dict[str, Any]]:
    """The complaints about one skill that recur, each with its rows."""
    bad = [r for r in _live(cards) if r["reward"] < 0 and (r.get("diagnosis") or r.get("reaction"))]
    said = [str(r.get("diagnosis") or r.get("reaction")) for r in bad]
    found = []
    for group in likeness.clusters(said):
        shared = sorted(likeness.core(likeness.words(said[n]) for n in group))
        mean = statistics.fmean(float(bad[n]["reward"]) for n in group)
        found.append(
            {
                "id": f"P-{sha256(f'{skill} {shared}'.encode())[:8]}", "skill": skill, "words": shared,
                "diagnosis": said[group[-1]][:500], "n": len(group), "mean_reward": round(mean, 4),
                "rows": [bad[n]["id"] for n in group],
            }
        )  # fmt: skip
    return found


def gathered(store: Store) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(edits, patterns) of all skills."""
    edits: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for skill in store.tree.folders("skills"):
        cards = rows(store, f"skills/{skill}/scorecards.jsonl")
        edits += causal(cards)
        found += patterns(cards, skill)
    return edits, found


def write(store: Store) -> Landed | None:
    """Commit both files as the ledgers are now; None when they say the same as before."""
    store.catch_up()
    edits, found = gathered(store)
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    writes: list[Write] = []
    for path, key, value in ((CAUSAL, "edits", edits), (PATTERNS, "patterns", found)):
        old = store.tree.read(path)
        if old is not None and json.loads(old).get(key) == value:
            continue
        text = json.dumps({"computed_at": now, key: value}, ensure_ascii=False, indent=1) + "\n"
        writes.append(Replace(path, text, ABSENT if old is None else sha256(old)))
    if not writes:
        return None
    return store.commit(Tick("verdict", f"evidence: {len(edits)} edits, {len(found)} patterns", writes))
