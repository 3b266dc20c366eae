"""Later outputs of a skill are held against what its lessons promised; what doesn't hold is offered for removal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from harness.clients.spool import Event
from harness.flows.ledgers import rows, undone
from harness.flows.turns import written_in
from harness.ids import stable_ulid
from harness.store import history
from harness.store.commit import Store
from harness.store.tick import Append, Tick
from harness.tune import prediction

PREDICTIONS: Final = "state/log/predictions.ndjson"
RUNS: Final = "state/log/runs.ndjson"
MOST_CHECKS: Final = 40
"""Checks of one lesson after which no more are made: by then it is known what it does."""


@dataclass(frozen=True)
class Lesson:
    """An applied edit and what is known of it. ``held`` of ``checked`` later outputs kept its promise; ``runs`` counts the
    uses of the skill since."""

    commit: str
    short: str
    skill: str
    proposal: str
    ts: str
    diagnosis: str
    expected: Mapping[str, Any]
    reward: float
    runs: int
    checked: int
    held: int
    state: prediction.State

    def as_dict(self) -> dict[str, Any]:
        """The JSON object of ``--json``."""
        return asdict(self)


def applied(store: Store) -> list[dict[str, Any]]:
    """The scorecard rows of edits that are in force, of all skills and members, oldest first."""
    tree, found = store.tree, []
    for root in ("skills", "team"):
        for folder in tree.folders(root):
            path = f"{root}/{folder}/scorecards.jsonl"
            if tree.blob_id(path):
                found += [r for r in rows(store, path) if r.get("status") == "applied"]
    return sorted(found, key=lambda r: str(r["ts"]))


def lessons(store: Store) -> list[Lesson]:
    """Every applied edit with its standing, oldest first."""
    checks: dict[str, list[bool]] = {}
    for row in rows(store, PREDICTIONS):
        checks.setdefault(str(row["proposal"]), []).append(bool(row["held"]))
    used = [(str(r["skill"]), str(r["ts"])) for r in rows(store, RUNS)]
    ticks = {
        e.trailers.get("Proposal"): e
        for e in history.entries(store.git, paths=["skills", "team"])
        if "Approved-By" in e.trailers
    }
    out = []
    for row in applied(store):
        entry = ticks.get(row["proposal"])
        if entry is None:
            continue
        runs = sum(skill == row["skill"] and ts > row["ts"] for skill, ts in used)
        held = checks.get(row["proposal"], [])
        expected = row.get("expected") or {}
        out.append(
            Lesson(
                entry.commit, entry.short, row["skill"], row["proposal"], row["ts"], row["diagnosis"], expected,
                row["reward"], runs, len(held), sum(held), prediction.state(held, runs),
            )
        )  # fmt: skip
    return out


def to_check(store: Store) -> dict[str, list[dict[str, Any]]]:
    """For the hooks: which skills have lessons whose promise can be checked, by skill."""
    counts: dict[str, int] = {}
    for row in rows(store, PREDICTIONS):
        counts[str(row["proposal"])] = counts.get(str(row["proposal"]), 0) + 1
    found: dict[str, list[dict[str, Any]]] = {}
    for row in applied(store):
        expected = row.get("expected") or {}
        if (
            any(expected.get(k) for k in ("absent", "present", "command"))
            and counts.get(row["proposal"], 0) < MOST_CHECKS
        ):
            found.setdefault(str(row["skill"]), []).append({"proposal": row["proposal"], "expected": expected})
    return found


def take(store: Store, events: Iterable[Event]) -> int:
    """Check the outputs that the Stop hook noted, and commit a row for each check. Returns how many."""
    new: list[Append] = []
    known = {str(row["id"]) for row in rows(store, PREDICTIONS)} | undone(store)
    lessons_by_skill = to_check(store)
    for event in events:
        note = event.payload
        skill, session, turn = str(note.get("skill")), note.get("session"), note.get("turn")
        output = "\n".join([str(note.get("text") or ""), *written_in(str(note.get("transcript") or ""), turn)])
        for lesson in lessons_by_skill.get(skill, ()):
            for number, one in enumerate(prediction.check(lesson["expected"], output, str(store.workspace.root))):
                row_id = stable_ulid(0, f"{lesson['proposal']} {session} {turn} {number}")
                if row_id not in known:
                    known.add(row_id)
                    new.append(Append(PREDICTIONS, _row(row_id, lesson["proposal"], skill, session, turn, one)))
    if new:
        kept = sum(bool(a.row["held"]) for a in new)
        store.commit_all([Tick("verdict", f"{kept} of {len(new)} predictions held", new)], keep=False)
    return len(new)


def _row(row_id: str, proposal: str, skill: str, session: Any, turn: Any, one: prediction.Checked) -> dict[str, Any]:
    return {
        "id": row_id, "ts": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "proposal": proposal, "skill": skill,
        "session": session, "turn": turn, "check": one.check, "held": one.held,
    }  # fmt: skip


def document_of(store: Store, proposal: str) -> dict[str, Any]:
    """The proposal's document; empty when there is none."""
    value = json.loads(store.tree.read(f"state/proposals/{proposal}.json") or b"{}")
    return value if isinstance(value, dict) else {}
