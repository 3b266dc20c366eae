"""Excerpts of sessions: committed without secrets and people, found by `why` when the session is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fixtures.workspaces import FEEDBACK, Place

from harness.errors import HarnessError
from harness.flows.keep import keep
from harness.ids import ulid
from harness.store.tick import Append, Tick
from tests.sessions.places import SAMPLES


def test_an_excerpt_is_committed_once_and_holds_no_person(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "c0bc70e2-9e04.jsonl"
    token = "ghp_" + "a1B2" * 9
    text = (
        (SAMPLES / "main.jsonl")
        .read_text("utf-8")
        .replace("do it", f"mail ada@byron.dev the {token}")
        .replace("/home/dev", "/home/ada")
    )
    path.write_text(text, "utf-8")
    done = keep(place.store, path)
    assert done.path == "state/log/sessions/c0bc70e2-9e04.md"
    assert done.removed["mail"] >= 1
    kept = (place.root / done.path).read_text("utf-8")
    assert kept.startswith("# turns 1-8 of 8 · session c0bc70e2-9e04")
    for private in ("ada@byron.dev", "/home/ada", token[:12]):
        assert private not in kept
    assert place.trailer("Session") == ["c0bc70e2-9e04"]
    assert keep(place.store, path).commit is None
    assert keep(place.store, path, 1, 2).commit
    assert place.porcelain() == []


def test_a_file_without_a_turn_or_with_an_odd_name_is_refused(place: Place, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b"")
    with pytest.raises(HarnessError, match="no turn"):
        keep(place.store, empty)
    odd = tmp_path / "-odd name.jsonl"
    shutil.copy(SAMPLES / "main.jsonl", odd)
    with pytest.raises(HarnessError, match="no file name"):
        keep(place.store, odd)


def test_why_leads_to_the_excerpt_when_the_session_is_gone(place: Place, tmp_path: Path) -> None:
    session = tmp_path / "36fa279d-fa14.jsonl"
    shutil.copy(SAMPLES / "main.jsonl", session)
    text = "the date field takes ISO dates only"
    row = {
        "id": ulid(),
        "ts": "2026-11-30T22:20:00Z",
        "skill": "aeo",
        "text": text,
        "tag": "LOGGED",
        "session": "36fa279d-fa14",
        "line": "x",
    }
    place.store.commit(
        Tick("feedback", "a gap of aeo", [Append(FEEDBACK, row)], {"Skill": "aeo", "Session": "36fa279d-fa14"})
    )
    place.harness("sessions", "keep", str(session))
    session.unlink()
    assert "an excerpt is kept in state/log/sessions/36fa279d-fa14.md" in place.harness("why", str(row["id"]))
