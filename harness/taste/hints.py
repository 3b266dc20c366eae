"""Buckets as people and agents read them: the day's rollup, and one sentence a bucket made of its counts alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from harness.taste.shape import VERSION
from harness.taste.tally import Bucket, Tally, confidence, percentile, wilson

LEAST: Final = 2
"""Decisions from which on a bucket says something."""


def rollup(counted: Tally, computed_at: str) -> dict[str, Any]:
    """The whole table of a pass, as `state/log/distill-approvals/<day>.json` holds it."""
    buckets = {f"{skill}|{shape}": _entry(bucket) for (skill, shape), bucket in sorted(counted.buckets.items())}
    skipped = {"malformed": 0, "missing_draft": 0, **counted.skipped}
    return {
        "computed_at": computed_at,
        "shape_rules": VERSION,
        "rows_scanned": counted.scanned,
        "rows_skipped": skipped,
        "repeated_decisions": counted.repeats,
        "by_bucket": buckets,
    }


def _entry(bucket: Bucket) -> dict[str, Any]:
    found = wilson(bucket.accepts, bucket.n)
    entry: dict[str, Any] = {
        "accepts": bucket.accepts, "rejects": bucket.rejects, "edits": bucket.edits, "accept_rate": rounded(bucket.rate), "n": bucket.n,
        "confidence": confidence(bucket.n), "interval": list(found) if found else None,
        "sample_accepted_titles": _titles(bucket.accepted), "sample_rejected_titles": _titles(bucket.rejected),
        "dismissal_reasons": list(bucket.reasons), "accept_latencies_ms": _latencies(bucket.accept_ms),
        "reject_latencies_ms": _latencies(bucket.reject_ms), "latencies_left_out": bucket.odd_latencies,
    }  # fmt: skip
    weight = sum(bucket.weights)
    return entry | ({"decayed_rate": rounded(bucket.weights[0] / weight)} if weight else {})


def _titles(values: Iterable[Any]) -> list[str]:
    return [str(title or "") for title in values]


def _latencies(values: Any) -> dict[str, int | None]:
    return {"p50": percentile(values, 0.5), "p90": percentile(values, 0.9), "n": len(values)}


def rounded(share: float | None) -> float | None:
    """A share with four digits, so that equal counts give equal rows."""
    return None if share is None else round(share, 4)


def sentence(buckets: Mapping[tuple[str, str], Bucket], skill: str, shape: str) -> str:
    """The hint of one bucket, from counts alone: no word of a draft gets into it."""
    one = buckets[skill, shape]
    text = f"{one.accepts} of {one.n} {shape} drafts kept"
    if (middle := percentile(one.accept_ms, 0.5)) is not None:
        text += f", median {_seconds(middle)} to keep one"
    if one.edits:
        text += f", {one.edits} edited"
    others = {s: b for (k, s), b in buckets.items() if k == skill and s != shape and b.n >= LEAST}
    best = max(others, key=lambda s: ((others[s].rate or 0), others[s].n), default=None)
    if best is not None:
        other = others[best]
        mine, theirs = one.rate or 0.0, other.rate or 0.0
        text += f"; {best} {other.accepts} of {other.n}"
        if theirs > mine:
            text += f": prefer {best} unless the item asks for {'an' if shape[0] in 'aeo' else 'a'} {shape}"
        elif mine > theirs:
            text += f": prefer {shape} unless the item asks for {'an' if best[0] in 'aeo' else 'a'} {best}"
    elif one.rate is not None and one.rate < 0.5:
        text += ": look at what was dismissed before writing another"
    return text


def _seconds(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def worth_a_hint(bucket: Bucket) -> bool:
    """Whether a bucket has decisions enough for a sentence."""
    return bucket.n >= LEAST


def same(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether a bucket's latest row says what a new one would: then nothing is written."""
    return all(old.get(key) == new.get(key) for key in ("accept_rate", "n", "confidence", "hint"))
