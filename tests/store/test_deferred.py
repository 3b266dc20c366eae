"""Ticks that wait for a person to finish: kept, in order, landed once, and none overtakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.workspaces import QUARANTINE, Place, row, row_tick

from harness.store import deferred
from harness.store.errors import Deferred, GateRefused
from harness.store.files import NotWritable
from harness.store.tick import ABSENT, Append, Replace, Tick

OVERLAY = "skills/a/overlay.md"


def lock(place: Place) -> Path:
    """Somebody else's index.lock."""
    path = place.workspace.git_dir / "index.lock"
    path.touch()
    return path


def waiting(place: Place, folder: str = "deferred") -> list[str]:
    return [kept.tick.summary for kept in deferred.waiting(place.runtime, folder)]


def test_a_tick_waits_for_somebodys_lock_and_lands_with_the_next(place: Place) -> None:
    held = lock(place)
    before = place.head
    with pytest.raises(Deferred) as caught:
        place.tick(text="a")
    assert caught.value.exit_code == 5
    assert held.exists()
    assert place.head == before
    assert place.porcelain() == []
    assert waiting(place) == ["row a"]
    held.unlink()
    place.tick(text="b")
    assert place.texts() == ["a", "b"]
    assert waiting(place) == []
    place.healthy()


def test_ticks_land_in_the_order_in_which_they_came(place: Place) -> None:
    held = lock(place)
    for n in range(5):
        with pytest.raises(Deferred):
            place.tick(text=str(n))
    held.unlink()
    place.store.catch_up()
    assert place.texts() == list("01234")
    assert place.count() == 6


def test_a_new_tick_never_overtakes_one_that_waits(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    held = lock(place)
    with pytest.raises(Deferred):
        place.tick(text="first")
    # The lock goes just after the waiting tick was tried and before the new one is.
    from harness.store.commit import Store

    real: Callable[[Store], object] = Store._catch_up

    def then_free(store: Store) -> object:
        found = real(store)
        held.unlink(missing_ok=True)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Store, "_catch_up", then_free)
        with pytest.raises(Deferred):
            place.tick(text="second")
    assert place.texts() == []
    place.tick(text="third")
    assert place.texts() == ["first", "second", "third"]


def test_what_the_gate_refuses_is_refused_at_once_also_while_ticks_wait(place: Place) -> None:
    lock(place)
    for _ in range(2):
        with pytest.raises(GateRefused):
            place.store.commit(row_tick(text=5))
        with pytest.raises(Deferred):
            place.tick(text="a")
    assert waiting(place) == ["row a", "row a"]


def test_a_tick_that_no_longer_passes_is_set_aside_and_nothing_of_it_is_lost(place: Place) -> None:
    held = lock(place)
    tick = Tick("human", "mine", [Replace(OVERLAY, "mine\n", ABSENT)])
    with pytest.raises(Deferred):
        place.store.commit(tick)
    held.unlink()
    place.write(OVERLAY, "by hand\n")
    place.git("add", OVERLAY)
    place.git("-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "by hand")
    place.tick(text="a")
    assert place.texts() == ["a"]
    assert waiting(place) == []
    (kept,) = deferred.waiting(place.runtime, "refused")
    assert kept.tick == tick
    assert "changed meanwhile" in kept.why
    assert place.store.tree.read(OVERLAY) == b"by hand\n"


def test_the_same_tick_tried_again_lands_once(place: Place) -> None:
    held = lock(place)
    tick = row_tick(text="a")
    for _ in range(3):
        with pytest.raises(Deferred):
            place.store.commit(tick)
    held.unlink()
    landed = place.store.commit(tick)
    assert landed.commit == place.head
    assert place.texts() == ["a"]


def test_without_keep_the_caller_has_the_tick(place: Place) -> None:
    held = lock(place)
    with pytest.raises(Deferred):
        place.store.commit_all([row_tick(text="a")], keep=False)
    assert waiting(place) == []
    held.unlink()
    place.store.catch_up()
    assert place.texts() == []


def test_several_ticks_are_deferred_together(place: Place) -> None:
    held = lock(place)
    with pytest.raises(Deferred):
        place.store.commit_all([row_tick(text="a"), row_tick(text="b")])
    held.unlink()
    place.store.catch_up()
    assert place.texts() == ["a", "b"]


def test_a_row_of_a_waiting_tick_cannot_land_twice(place: Place) -> None:
    held = lock(place)
    same = row(text="a")
    for _ in range(2):
        with pytest.raises(Deferred):
            place.store.commit(Tick("feedback", "s", [Append(QUARANTINE, same)]))
    held.unlink()
    place.store.catch_up()
    assert place.texts() == ["a"]
    assert len(waiting(place, "refused")) == 1


def test_a_kept_file_that_cannot_be_read_stops_nothing(place: Place) -> None:
    folder = place.runtime / "deferred"
    folder.mkdir()
    (folder / "01A.json").write_bytes(b"\xff{")
    (folder / "01B.json").write_text(json.dumps({"tick": {}}))
    place.tick(text="a")
    assert place.texts() == ["a"]
    assert sorted(p.name for p in folder.iterdir()) == ["01A.unreadable", "01B.unreadable"]


def test_status_says_what_waits_and_why(place: Place) -> None:
    lock(place)
    with pytest.raises(Deferred):
        place.tick(text="a")
    state = place.status(ok=(3,))
    assert [one["summary"] for one in state["deferred"]] == ["row a"]
    assert "index.lock" in state["deferred"][0]["why"]
    assert any("index.lock" in problem["why"] for problem in state["problems"])


def test_a_kept_file_that_cannot_be_read_this_moment_keeps_its_name(place: Place) -> None:
    """A passing error of the disk, here a link that leads to itself, must not be taken for a spoiled file."""
    held = lock(place)
    with pytest.raises(Deferred):
        place.tick(text="a")
    held.unlink()
    [kept] = (place.runtime / "deferred").iterdir()
    aside = kept.with_name("aside")
    kept.rename(aside)
    kept.symlink_to(kept.name)
    with pytest.raises(NotWritable, match="symbolic links"):
        place.tick(text="b")
    kept.unlink()
    aside.rename(kept)
    place.tick(text="b")
    assert [r["text"] for r in place.store.rows(QUARANTINE) if isinstance(r, dict)] == ["a", "b"]
