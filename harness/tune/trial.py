"""Is a variant better, by a measure that is noisy? Fixed before: the margin, the number of repeats, and the rule.

Kept only when every score after is above every score before, the means differ by the margin, and the difference is so many
times its own standard error that chance alone gives it once in 10,000 trials (Student's t for that many repeats).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MARGIN: Final = 0.02
REPEATS: Final = 5
LEAST: Final = 3
_T: Final = {3: 13.03, 4: 8.03, 5: 6.44, 6: 5.69, 7: 5.26, 8: 4.99, 9: 4.79, 10: 4.65}
"""Student's t at one in 10,000, one-sided, for two groups of so many each; more repeats than ten are held to that of ten."""


@dataclass(frozen=True)
class Verdict:
    """Whether the variant is kept, the means, and the reason in a sentence."""

    kept: bool
    before: float | None
    after: float | None
    reason: str


def judge(before: Sequence[float], after: Sequence[float], margin: float) -> Verdict:
    """The verdict on scores before and after; higher is better."""
    if len(before) < LEAST or len(after) < LEAST:
        mean_before, mean_after = (statistics.fmean(s) if s else None for s in (before, after))
        what = f"{len(before)} and {len(after)} measurements, at least {LEAST} each are needed"
        return Verdict(False, mean_before, mean_after, f"budget too small, nothing compared: {what}")
    one, two = statistics.fmean(before), statistics.fmean(after)
    gain = two - one
    error = math.sqrt(statistics.variance(before) / len(before) + statistics.variance(after) / len(after))
    if gain < margin:
        return Verdict(False, one, two, f"{gain:+.4f} is less than the margin of {margin:g}")
    if min(after) <= max(before):
        return Verdict(False, one, two, f"{gain:+.4f} in the mean, but the scores before and after overlap: noise")
    wanted = _T[min(len(before), len(after), max(_T))]
    if gain < wanted * error:
        return Verdict(False, one, two, f"{gain:+.4f} is less than {wanted:g} standard errors ({error:.4f}): noise")
    return Verdict(
        True, one, two, f"{gain:+.4f}, at least the margin of {margin:g}, and clear of the noise ({error:.4f})"
    )
