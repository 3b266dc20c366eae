"""A rebase that is given up, or a reset to HEAD, that had begun before a tick landed: git puts the branch back behind it."""

from __future__ import annotations

import pytest
from fixtures.workspaces import Place

from harness.store import deferred

UNWISHED = ("rebase (abort): returning to refs/heads/main", "reset: moving to HEAD")


def put_back(place: Place, message: str, to: str = "HEAD~1") -> None:
    """What git does at the end of it: the branch and the files are as they were when it began."""
    place.git("update-ref", "-m", message, "refs/heads/main", place.git("rev-parse", to))
    place.git("read-tree", "-u", "--reset", "HEAD")


@pytest.mark.parametrize("message", UNWISHED)
def test_the_tick_lands_again_once(place: Place, message: str) -> None:
    for text in ("before", "a", "b"):
        place.tick(text=text)
    put_back(place, message, "HEAD~2")
    assert place.texts() == ["before"]
    place.store.catch_up()
    assert place.texts() == ["before", "a", "b"]
    place.tick(text="after")
    place.store.catch_up()
    assert place.texts() == ["before", "a", "b", "after"]
    assert place.porcelain() == []
    assert list(deferred.waiting(place.runtime)) == []
    place.healthy()


def test_also_when_the_person_has_gone_on_before_the_next_command(place: Place) -> None:
    for text in ("before", "a"):
        place.tick(text=text)
    put_back(place, UNWISHED[0])
    place.write("state/memory/mine.md", "mine\n")
    place.git("add", "state/memory/mine.md")
    place.git("-c", "core.hooksPath=/dev/null", "commit", "-qm", "mine")
    place.tick(text="after")
    assert place.texts() == ["before", "a", "after"]


@pytest.mark.parametrize("message", ["reset: moving to HEAD~1", "rebase (finish): refs/heads/main onto main"])
def test_what_a_person_takes_away_stays_away(place: Place, message: str) -> None:
    for text in ("before", "a"):
        place.tick(text=text)
    put_back(place, message)
    place.tick(text="after")
    assert place.texts() == ["before", "after"]


def test_a_tick_that_another_branch_has_is_not_made_twice(place: Place) -> None:
    for text in ("before", "a"):
        place.tick(text=text)
    place.git("branch", "topic")
    put_back(place, UNWISHED[0])
    place.tick(text="after")
    assert place.texts() == ["before", "after"]


def test_without_its_record_a_ref_keeps_it(place: Place) -> None:
    for text in ("before", "a"):
        place.tick(text=text)
    dropped = place.head
    place.store.journal.checkpoint()
    put_back(place, UNWISHED[0])
    place.tick(text="after")
    assert place.git("for-each-ref", "--contains", dropped, "refs/harness/keep")
