"""What hooks noted of reactions and proposals becomes rows and edits; an approval that nobody typed is taken back.

note in the spool -> decide -> outcome for the hook that waits -> (drain) found in the transcript, or undone
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from harness.clients.runtime import file_name
from harness.clients.spool import Event
from harness.errors import HarnessError
from harness.flows import reactions, tune
from harness.flows.undo import undo
from harness.store import files
from harness.store.commit import Store
from harness.store.errors import Deferred
from harness.tune.proposal import NoProposal

QUIET_HOURS: Final = 12
"""A reaction of which nothing came is settled when its session has ended, or after so many hours."""

UNSEEN_MINUTES: Final = 10
"""How long an approval's session may have no transcript at all."""

_ACTS: Final[dict[str, tune.Decision]] = {"approve": "approve", "reject": "reject", "lapse": "lapse"}


def take(store: Store, events: Iterable[Event], env: Mapping[str, str]) -> list[str]:
    """Settle what the hooks noted, each on its own; returns a sentence for each. Raises Deferred, and then nothing is lost:
    the notes stay in the spool, and a proposal that was decided already is not decided again."""
    out = []
    for event in events:
        note = event.payload
        act = str(note.get("act"))
        try:
            if act == "neutral":
                row = _reaction(note, "neutral")
                out += [f"neutral reaction after {row['skill']}"] if reactions.log_reaction(store, row) else []
            elif act in _ACTS:
                out.append(_decided(store, note, act, env))
        except Deferred:
            raise
        except HarnessError as error:
            # Told to whoever waits; the proposal is as open as it was.
            _tell(store, note, f"{error}")
            _marker(store, note, "done").unlink(missing_ok=True)
            out.append(str(error))
    return out


def _decided(store: Store, note: Mapping[str, Any], act: str, env: Mapping[str, str]) -> str:
    approval = tune.Approval(tune.by_prompt(note.get("turn"), str(note.get("words") or "")), note.get("diff_sha256"))
    try:
        done = tune.decide(store, str(note.get("proposal")), _ACTS[act], approval, env)
    except NoProposal:
        return f"proposal {str(note.get('proposal'))[-4:].lower()} was decided before"  # a note that is taken twice
    if done.status == "applied":
        kept = {key: note.get(key) for key in ("session", "turn", "prompt_sha256", "transcript", "proposal", "ts")}
        place = store.runtime / "unproved" / f"{file_name(str(note.get('proposal')))}.json"
        place.parent.mkdir(exist_ok=True)
        files.replace(place, json.dumps({**kept, "commit": done.landed.commit}).encode())
    _tell(store, note, done.sentence)
    return done.sentence


def _marker(store: Store, note: Mapping[str, Any], name: str) -> Path:
    folder = store.runtime / "sessions" / file_name(str(note.get("session") or "unknown"))
    return folder / file_name(f"{name}.{note.get('proposal')}")


def _tell(store: Store, note: Mapping[str, Any], sentence: str) -> None:
    place = _marker(store, note, "outcome")
    place.parent.mkdir(parents=True, exist_ok=True)
    files.replace(place, sentence.encode(), sync=False)


def _reaction(note: Mapping[str, Any], status: str) -> dict[str, Any]:
    return reactions.reaction_row(
        str(note["skill"]), str(note["signal"]), float(note["reward"]), str(note.get("said") or ""), status,
        note.get("session"), note.get("turn"),
    )  # fmt: skip


# --- what nothing came of -------------------------------------------------------------------------------------------


def settle_reactions(store: Store) -> int:
    """Log the reactions of which nothing came, once their session has ended: the user had moved on. Returns how many."""
    count = 0
    now = time.time()
    for path in sorted((store.runtime / "sessions").glob("*/reaction.*")):
        try:
            note = json.loads(path.read_bytes())
            old = now - path.stat().st_mtime > QUIET_HOURS * 3600
        except (OSError, ValueError):
            continue
        if not old and not (path.parent / "ended").exists():
            continue
        session = path.parent.name
        if not _was_proposed(store, session, note.get("turn")):
            count += reactions.log_reaction(store, _reaction({**note, "session": session}, "lapsed")) is not None
        path.unlink(missing_ok=True)
    return count


def _was_proposed(store: Store, session: str, turn: str | None) -> bool:
    tree = store.tree
    for name in reversed(sorted(tree.names("state/proposals"))[-200:]):
        document = json.loads(tree.read(f"state/proposals/{name}") or b"{}")
        if document.get("session") == session and document.get("turn") == turn:
            return True
    return False


# --- was it typed? --------------------------------------------------------------------------------------------------


def prove(store: Store) -> list[str]:
    """Look for each approval by a prompt in its session's transcript. One that nobody typed there is undone and flagged;
    returns a sentence for each of those."""
    flagged = []
    for path in sorted((store.runtime / "unproved").glob("*.json")):
        try:
            kept = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        verdict = typed(kept)
        if verdict is None:
            continue
        if verdict is False:
            reason = f"the approval of proposal {kept.get('proposal')} is not in the transcript as something typed"
            try:
                undo(store, str(kept["commit"]), reason)
            except Deferred:
                continue
            except HarnessError as error:
                reason += f", and could not be undone by itself: {error}"
            flagged.append(reason)
            place = store.runtime / "forged" / path.name
            place.parent.mkdir(exist_ok=True)
            files.replace(place, json.dumps({**kept, "why": reason}).encode())
        path.unlink(missing_ok=True)
    return flagged


def typed(kept: Mapping[str, Any]) -> bool | None:
    """Whether the prompt of an approval stands in its transcript as typed by a person; None when it is too early to say."""
    import hashlib

    since = _moment(kept.get("ts"))
    path = Path(str(kept.get("transcript") or ""))
    later = False
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if not isinstance(row, dict):
                    continue
                moment = _moment(row.get("timestamp"))
                later = later or (moment is not None and since is not None and moment > since)
                if row.get("type") != "user" or row.get("promptId") != kept.get("turn") or row.get("isMeta"):
                    continue
                content = row.get("message", {}).get("content") if isinstance(row.get("message"), dict) else None
                if (
                    isinstance(content, str)
                    and row.get("promptSource", "typed") == "typed"
                    and row.get("turnOrigin", "human") == "human"
                    and hashlib.sha256(content.encode("utf-8", "replace")).hexdigest() == kept.get("prompt_sha256")
                ):
                    return True
    except OSError:
        return None if since is None or time.time() - since < UNSEEN_MINUTES * 60 else False
    return False if later else None


def _moment(text: Any) -> float | None:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
