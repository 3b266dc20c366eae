"""The backlog: which skills have open gaps, how urgent they are, and which are due. Reading, but for what evals put in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from harness.evals import EVALS, RECOVERABLE
from harness.flows.ledgers import rows
from harness.flows.observe import FEEDBACK, QUEUE
from harness.ids import ulid
from harness.loader import controller, queue
from harness.store.commit import Store
from harness.store.tick import Append, Tick

MOST_GAPS: Final = 60


def gaps_of(store: Store, entry: queue.Entry) -> list[dict[str, Any]]:
    """The feedback rows that an entry of the queue is about, the oldest MOST_GAPS of them: as many as one brief holds."""
    wanted = set(entry.feedback[:MOST_GAPS])
    return [row for row in all_gaps(store) if row["id"] in wanted]


def all_gaps(store: Store) -> list[dict[str, Any]]:
    """Everything that can be a gap: feedback rows, and evals, whose issue is then what was missing."""
    evals = [
        row | {"text": f"a run scored {row['score']:g}: {row.get('primary_issue') or 'no issue named'}"}
        for row in rows(store, EVALS)
    ]
    return [*rows(store, FEEDBACK), *evals]


def enqueue_from_evals(store: Store) -> None:
    """Put skills into the queue whose evals since their last regeneration ask for one."""
    queued = rows(store, QUEUE)
    taken = {i for row in queued for i in row["feedback"]}
    since = {row["skill"]: row["ts"] for row in queued if row["op"] == "done"}
    by_skill: dict[str, list[dict[str, Any]]] = {}
    for row in rows(store, EVALS):
        if row["ts"] > since.get(row["skill"], "") and row.get("primary_issue") not in RECOVERABLE:
            by_skill.setdefault(row["skill"], []).append(row)
    for skill, evals in sorted(by_skill.items()):
        poor = [row["id"] for row in evals if row["score"] <= 0.75 and row["id"] not in taken]
        if poor and (reason := queue.eval_reason(evals, datetime.now(UTC))):
            row = queue_row(skill, "enqueue", poor[-MOST_GAPS:], reason)
            store.commit(
                Tick("queue", f"evals ask for a regeneration: {reason}", [Append(QUEUE, row)], {"Skill": skill})
            )


def fold(store: Store) -> dict[str, queue.Entry]:
    """The queue as it stands, by skill."""
    return queue.fold(rows(store, QUEUE), max_attempts=store.settings["regen"]["max_attempts"])


def terms(store: Store) -> list[tuple[queue.Entry, controller.Terms]]:
    """Each open entry of the queue with its controller terms, highest u first."""
    entries = [e for e in fold(store).values() if e.state in ("open", "running")]
    feedback = all_gaps(store)
    now, gains = datetime.now(UTC), gains_of(store)
    found = []
    for entry in entries:
        wanted = set(entry.feedback)
        gaps = [controller.Gap(row["id"], row["ts"]) for row in feedback if row["id"] in wanted]
        found.append((entry, controller.terms(gaps, now, gains)))
    return sorted(found, key=lambda pair: (-pair[1].u, pair[0].skill))


def due(store: Store) -> list[queue.Entry]:
    """The entries to regenerate now: over the threshold, not waiting for a retry, highest u first."""
    now, threshold = datetime.now(UTC), store.settings["regen"]["threshold"]
    return [entry for entry, found in terms(store) if found.u >= threshold and entry.due(now)]


def gains_of(store: Store) -> controller.Gains:
    """The controller's gains, from the settings."""
    s = store.settings["regen"]
    return controller.Gains(kp=s["kp"], ki=s["ki"], kd=s["kd"], integral_max=s["integral_max"])


def queue_row(
    skill: str, op: str, feedback: Sequence[str], reason: str, attempt: int = 0, error: str | None = None
) -> dict[str, Any]:
    """A new row of the queue, as of now."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return queue.new_row(skill, op, feedback, reason, attempt, error, id=ulid(), ts=now)
