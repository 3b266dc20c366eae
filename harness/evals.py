"""One row of `evals.ndjson`: the score of a run, by its criteria, with two ids: who did it, and who checked it."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from harness.ids import ulid

EVALS: Final = "state/log/evals.ndjson"
RECOVERABLE: Final = frozenset({"no-approvals-yet", "insufficient-signal"})
"""Issues that time cures: no reason to regenerate a loader."""


@dataclass(frozen=True)
class Criterion:
    """One criterion: 0, 0.5 or 1, how it was found, and why."""

    score: float
    rationale: str
    kind: Literal["deterministic", "judge"] = "deterministic"

    def as_dict(self) -> dict[str, Any]:
        """The JSON object of the row."""
        return {"score": self.score, "kind": self.kind, "rationale": self.rationale[:2000]}


def actor_id(skill: str) -> str:
    """The id of a run: of the process that does the work."""
    return f"{skill}-run-{int(time.time())}-{os.urandom(4).hex()}"


def auditor_id(skill: str) -> str:
    """The id of an audit; to be minted by the process that audits, which is never the one that did the work."""
    return f"{skill}-aud-{int(time.time())}-{os.urandom(4).hex()}"


def row(
    skill: str,
    actor: str,
    auditor: str,
    *,
    criteria: Mapping[str, Criterion] | None = None,
    score: float | None = None,
    issue: str | None = None,
    artifact: str | None = None,
    run: str | None = None,
) -> dict[str, Any]:
    """A new row. The score is the criteria's mean where there are criteria."""  # fmt: skip
    if criteria:
        score = statistics.fmean(c.score for c in criteria.values())
        issue = issue or next((name for name, c in criteria.items() if c.score < 1), None)
    return {
        "id": ulid(), "ts": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "skill": skill, "score": round(score or 0.0, 4),
        "primary_issue": issue, "criteria": {name: c.as_dict() for name, c in (criteria or {}).items()},
        "actor_session_id": actor, "auditor_session_id": auditor, "artifact_path": artifact, "run_id": run,
    }  # fmt: skip
