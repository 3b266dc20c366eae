"""What became of a skill's output: committed as it was written, or edited heavily first. Evidence from git alone.

run -> files that its turn wrote (transcript) -> what the project's git has of them since -> a reaction nobody had to say
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from harness.flows import reactions
from harness.flows.ledgers import rows
from harness.flows.turns import later_writes, written_files
from harness.flows.why import transcript_of
from harness.store.commit import Store
from harness.store.git import quick

DAYS: Final = 7
EDITED: Final = 0.30
"""The share of lines changed by the user from which on an output was edited heavily."""
_RUNS: Final = "state/log/runs.ndjson"


def settle(store: Store, env: Mapping[str, str]) -> int:
    """Look at the runs of the last days once more, and log what is known now: +0.5 for an output that was committed without
    change, -0.5 for one that the user edited heavily before. Returns how many rows that made."""
    since = f"{datetime.now(UTC) - timedelta(days=DAYS):%Y-%m-%dT%H:%M:%S}"
    judged: dict[str, set[str]] = {}
    count = 0
    for run in rows(store, _RUNS):
        skill, session, turn = str(run["skill"]), run.get("session"), run.get("turn")
        if str(run["ts"]) < since or not session or not turn:
            continue
        if skill not in judged:
            cards = [r for r in reactions.lessons_of(store, skill) if str(r.get("signal", "")).startswith("implicit")]
            judged[skill] = {f"{r.get('session')} {r.get('turn')}" for r in cards}
        if f"{session} {turn}" in judged[skill]:
            continue
        found = outcome(str(session), str(turn), str(run["ts"]), env)
        if found is not None:
            signal, reward, words = found
            row = reactions.reaction_row(skill, signal, reward, words, "lapsed", str(session), str(turn))
            count += reactions.log_reaction(store, row) is not None
            judged[skill].add(f"{session} {turn}")
    return count


def outcome(session: str, turn: str, ts: str, env: Mapping[str, str]) -> tuple[str, float, str] | None:
    """(signal, reward, evidence in words) of one turn's output, or None while nothing is known."""
    transcript = transcript_of(session, env)
    if transcript is None:
        return None
    touched = later_writes(str(transcript), turn)
    kept, edited = [], []
    for path, text in written_files(str(transcript), turn).items():
        if path in touched:
            continue  # the agent itself wrote it again: whose change it is can't be told
        now = _committed(path, ts)
        if now is None:
            continue
        share = changed(text, now)
        if share == 0:
            kept.append(os.path.basename(path))
        elif share > EDITED:
            edited.append(f"{os.path.basename(path)} ({share:.0%} of its lines)")
    if edited:
        return "implicit_negative", -0.5, f"edited before it was committed: {', '.join(edited[:3])}"
    if kept:
        return "implicit_positive", 0.5, f"committed without change: {', '.join(kept[:3])}"
    return None


def changed(before: str, after: str) -> float:
    """The share of the lines of ``before`` that are not in ``after`` as they were, 0 to 1; line ends don't count."""
    old, new = before.splitlines(), after.splitlines()
    if old == new:
        return 0.0
    same = sum(block.size for block in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks())
    return max(1 - same / len(old), 1e-9) if old else 1.0


def _committed(path: str, ts: str) -> str | None:
    """What the newest commit has of the file, if that commit is younger than ``ts`` and touched it; None otherwise."""
    place = Path(path)
    if not place.is_absolute() or not place.parent.is_dir():
        return None
    folder = place.parent
    code, when = quick(folder, "log", "-1", "--format=%cI", "--", place.name, above=True)
    if code != 0 or not when.strip() or datetime.fromisoformat(when.strip()) < _moment(ts):
        return None
    code, text = quick(folder, "show", f"HEAD:./{place.name}", above=True)
    return text if code == 0 else None


def _moment(ts: str) -> datetime:
    found = datetime.fromisoformat(ts)
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return found.replace(microsecond=0)  # git keeps whole seconds
