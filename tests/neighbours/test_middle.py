"""A person in the middle of something: ticks wait, say why, and land once it is done."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fixtures.workspaces import FEEDBACK, LOG, QUARANTINE, Place

from harness.store.errors import Deferred


def two_sides(place: Place) -> None:
    """Branches `main` and `topic` that conflict in r.txt."""
    place.write("r.txt", "base\n")
    place.git("add", "r.txt")
    place.git("commit", "-q", "--no-verify", "-m", "base")
    place.git("switch", "-q", "-c", "topic")
    for n in range(2):
        place.write("r.txt", f"topic {n}\n")
        place.git("commit", "-q", "--no-verify", "-am", f"topic {n}")
    place.git("switch", "-q", "main")
    place.write("r.txt", "main\n")
    place.git("commit", "-q", "--no-verify", "-am", "main")


def resolve(place: Place) -> None:
    place.write("r.txt", "resolved\n")
    place.git("add", "r.txt")


def go_on(place: Place, command: str) -> None:
    resolve(place)
    place.git("-c", "core.editor=true", "-c", "core.hooksPath=/dev/null", command, "--continue")


def end(place: Place, *args: str) -> None:
    place.git(*args)


def merge(place: Place) -> Callable[[], None]:
    place.git("merge", "topic", ok=(1,))
    return lambda: go_on(place, "merge")


def cherry_pick(place: Place) -> Callable[[], None]:
    place.git("cherry-pick", "topic", ok=(1,))
    return lambda: go_on(place, "cherry-pick")


def revert(place: Place) -> Callable[[], None]:
    place.git("revert", "--no-edit", "HEAD~1", ok=(1,))
    return lambda: end(place, "revert", "--abort")


def bisect(place: Place) -> Callable[[], None]:
    place.git("bisect", "start", "HEAD", "HEAD~2")
    return lambda: end(place, "bisect", "reset")


def rebase(place: Place) -> Callable[[], None]:
    place.git("switch", "-q", "topic")
    place.git("rebase", "-q", "main", ok=(1,))

    def finish() -> None:
        while (place.workspace.git_dir / "rebase-merge").exists():
            resolve(place)
            place.git("-c", "core.editor=true", "rebase", "--skip", ok=(0, 1))

    return finish


def mailbox(place: Place) -> Callable[[], None]:
    patch = place.git("format-patch", "-1", "topic", "--stdout")
    place.git("am", "-q", data=patch + "\n", ok=(128,))
    return lambda: end(place, "am", "--abort")


@pytest.mark.parametrize("start", [merge, cherry_pick, revert, bisect, rebase, mailbox])
def test_a_tick_waits_until_it_is_over(place: Place, start: Callable[[Place], Callable[[], None]]) -> None:
    two_sides(place)
    finish = start(place)
    before, porcelain = place.head, place.porcelain()
    for text in ("a", "b"):
        with pytest.raises(Deferred, match="under way"):
            place.tick(text=text)
    assert place.head == before
    assert place.porcelain() == porcelain
    state = place.status(ok=(3,))
    assert len(state["deferred"]) == 2
    assert any("middle of something" in problem["why"] for problem in state["problems"])
    finish()
    place.tick(text="c")
    assert place.texts() == ["a", "b", "c"]
    place.git("fsck", "--strict", "--no-dangling")


def test_G_25_a_rebase_that_stopped_at_a_conflict(place: Place) -> None:
    place.script("G-25")
    head = place.head
    with pytest.raises(Deferred, match="a rebase is under way"):
        place.tick(text="during")
    assert place.head == head
    state = place.status(ok=(3,))
    assert any("rebase-merge" in problem["why"] for problem in state["problems"])
    assert "r.txt" in place.git("status")
    place.write("r.txt", "resolved\n")
    place.git("add", "r.txt")
    place.git("-c", "core.editor=true", "-c", "core.hooksPath=/dev/null", "rebase", "--continue")
    place.feedback("after")
    assert place.texts() == ["during"]
    assert place.texts(FEEDBACK) == ["after"]
    for commit in place.git("log", "--format=%H", "--grep=^topic$", "--grep=^main$").split("\n"):
        assert not [path for path in place.changed(commit) if path.startswith("state/")]
    place.healthy()


def test_G_25_a_line_of_the_log_waits_through_a_rebase_and_is_a_change_that_git_asks_for(place: Place) -> None:
    place.script("G-25")
    place.feedback("during", ok=(5,))
    assert place.texts(FEEDBACK) == []
    # To git the line is a change that nobody staged; it stops there, as for any file, and loses nothing.
    place.write("r.txt", "resolved\n")
    place.git("add", "r.txt")
    place.git("-c", "core.editor=true", "rebase", "--continue", ok=(1,))
    assert "during" in (place.root / LOG).read_text()
    place.git("stash", "-q", "--keep-index", "--", LOG)
    place.git("-c", "core.editor=true", "-c", "core.hooksPath=/dev/null", "rebase", "--continue")
    place.git("stash", "pop", "-q")
    place.harness("observe")
    assert place.texts(FEEDBACK) == ["during"]


def test_G_26_ticks_on_a_detached_head_stay_reachable(place: Place) -> None:
    place.git("switch", "-q", "--detach", "HEAD")
    place.tick(text="a")
    place.tick(text="b")
    last = place.head
    place.git("switch", "-q", "main")
    place.git("reflog", "expire", "--expire=now", "--all")
    place.git("update-ref", "-d", "refs/worktree/harness-scratch", ok=(0, 1))
    place.git("gc", "-q", "--prune=now")
    (ref,) = place.git("for-each-ref", "--format=%(refname)", "refs/harness/keep").split("\n")
    assert place.git("rev-parse", ref) == last
    rows = place.git("cat-file", "blob", f"{ref}:{QUARANTINE}")
    assert rows.count("\n") == 1
    assert '"text":"a"' in rows
    assert '"text":"b"' in rows
    # main has its own line of ticks
    place.tick(text="c")
    assert place.texts() == ["c"]


def test_G_26_a_second_detached_head_gets_a_ref_of_its_own(place: Place) -> None:
    for text in "ab":
        place.git("switch", "-q", "--detach", "main")
        place.tick(text=text)
    assert len(place.git("for-each-ref", "--format=%(refname)", "refs/harness/keep").split("\n")) == 2


def test_a_person_who_moves_the_branch_back_gets_no_dropped_tick_again(place: Place) -> None:
    place.tick(text="a")
    place.tick(text="b")
    place.git("reset", "-q", "--hard", "HEAD~1")
    place.tick(text="c")
    assert place.texts() == ["a", "c"]
    place.healthy()
