"""Reactions of which no proposal came: one row of the scorecards each, logged once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from harness import redact
from harness.flows.ledgers import rows
from harness.ids import stable_ulid, ulid
from harness.store.commit import Landed, Store
from harness.store.tick import Append, Tick
from harness.tune import proposal


def reaction_row(
    skill: str,
    signal: str,
    reward: float,
    said: str,
    status: str,
    session: str | None,
    turn: str | None,
    ts: str | None = None,
) -> dict[str, Any]:
    """The row of a reaction that no proposal came of: the same for the same turn, so that it is logged once."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return {
        "id": stable_ulid(0, f"reaction {session} {turn} {skill}") if turn else ulid(), "ts": ts or now, "skill": skill,
        "reward": reward, "signal": signal, "reaction": redact.scrub(" ".join(said.split()))[: proposal.MAX_REACTION], "diagnosis": "",
        "applied": False, "status": status, "path": "B-live", "turn": turn, "session": session, "proposal": None,
        "diff_sha256": None, "overlay_sha256": None,
    }  # fmt: skip


def log_reaction(store: Store, row: Mapping[str, Any]) -> Landed | None:
    """Commit the row of a reaction; None when it is there already."""
    cards = f"skills/{row['skill']}/scorecards.jsonl"
    if any(isinstance(r, dict) and r.get("id") == row["id"] for r in store.rows(cards)):
        return None
    trailers = {"Skill": str(row["skill"])} | ({"Session": str(row["session"])} if row["session"] else {})
    tick = Tick("tune", f"{row['status']}: {proposal.clip(str(row['reaction']))}", [Append(cards, row)], trailers)
    return store.commit_all([tick], keep=False)[0]  # now or not at all: the note that it comes from stays


def lessons_of(store: Store, skill: str) -> Iterator[dict[str, Any]]:
    """The scorecard rows of a skill that count, oldest first."""
    yield from rows(store, f"skills/{skill}/scorecards.jsonl")
