"""kill -9 anywhere in a tick: the next command sees all of it or nothing, and no row is lost or doubled.

The oracle is outside: a writer process says which ticks were acknowledged. One of those is there exactly once; another at
most once. The repair is nobody's business: the next command does it by itself.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter

import pytest
from fixtures.workspaces import QUARANTINE, Place

from harness.store import deferred

from .test_concurrency import writer
from .writer import OVERLAY

WHAT = ("append", "roll", "replace", "delete", "detached", "bulk")
POINTS = (
    "locked",
    "index-locked",
    "intent-written",
    "built",
    "swapped",
    "files-written",
    "index-written",
    "exported",
    "ended",
)


def prepared(place: Place, what: str) -> str:
    """Bring the workspace into the state that ``what`` needs, and return what the writer is to do."""
    place.tick(text="before")
    place.put(OVERLAY, "before\n")
    place.write("staged.txt", "a person's\n")
    place.git("add", "staged.txt")
    if what == "detached":
        place.git("switch", "-q", "--detach")
        return "append"
    return what


def acknowledged(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate()
    assert process.returncode in (-signal.SIGKILL, 0), err[-2000:]
    return out.split()


def whole_or_nothing(place: Place, landed: list[str], tried: str) -> None:
    """Check everything that must hold after the next command."""
    place.close()
    place.store.catch_up()
    texts = [str(text).strip() for text in place.texts()]
    rows = Counter(text for text in texts if " filler " not in text)
    assert max(rows.values()) == 1, "a row is there twice"
    missing = [name for name in landed if rows[name] != 1]
    assert not missing, "an acknowledged row is gone"
    assert set(rows) <= {*landed, "before", *(f"{tried}-{n}" for n in range(1000)), f"{tried}-warm"}
    fillers = Counter(text.split(" ")[0] for text in texts if " filler " in text)
    assert set(fillers) <= set(rows)
    assert len(set(fillers.values())) <= 1, "half a tick"
    assert place.porcelain() == ["A  staged.txt"], "the files, the index and HEAD do not agree"
    assert list(deferred.waiting(place.runtime)) == []
    assert list(deferred.waiting(place.runtime, "refused")) == []
    assert (place.runtime / "journal").read_bytes().endswith(b'{"end":1}\n') or (
        place.runtime / "journal"
    ).stat().st_size == 0
    place.healthy()


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("what", WHAT)
def test_killed_at_a_named_point(place: Place, what: str, point: str) -> None:
    doing = prepared(place, what)
    before = place.count()
    process = writer(place, "k", 1, doing, HARNESS_FAULT=point)
    assert acknowledged(process) == []
    assert process.returncode == -signal.SIGKILL
    whole_or_nothing(place, [], "k")
    there = "k-0" in [str(text).strip() for text in place.texts()]
    assert there is (point not in ("locked", "index-locked")), "what is in the journal must land, what is not can't"
    assert place.count() == before + (61 if doing == "bulk" and there else there)
    if what == "replace" and there:
        assert (place.root / OVERLAY).read_text() == "k-0\n"
    if what == "delete" and there:
        assert not (place.root / OVERLAY).exists()
    if what == "detached" and there:
        assert place.git("for-each-ref", "--contains", "HEAD", "refs/harness/keep")
    # and life goes on
    assert acknowledged(writer(place, "n", 2, doing)) == ["n-0", "n-1"]
    place.git("rm", "-q", "--cached", "staged.txt")
    assert place.porcelain() == ["?? staged.txt"]


@pytest.mark.parametrize("point", ["checkpointed"])
def test_killed_while_the_journal_starts_anew(place: Place, point: str) -> None:
    prepared(place, "bulk")
    assert acknowledged(writer(place, "k", 1, "bulk", HARNESS_FAULT=point)) == []
    whole_or_nothing(place, [], "k")
    assert place.texts()[1] == "k-0"


def test_killed_again_while_the_next_command_repairs(place: Place) -> None:
    prepared(place, "roll")
    assert acknowledged(writer(place, "k", 1, "roll", HARNESS_FAULT="swapped")) == []
    for point in ("files-written", "index-written", "exported"):
        assert acknowledged(writer(place, "again", 1, "append", HARNESS_FAULT=point)) == []
    whole_or_nothing(place, [], "k")
    assert place.count() == 4


def test_a_tick_that_never_landed_is_repaired_again_and_again(place: Place) -> None:
    prepared(place, "append")
    assert acknowledged(writer(place, "k", 1, "append", HARNESS_FAULT="intent-written")) == []
    for point in ("intent-written", "built", "swapped"):
        assert acknowledged(writer(place, "again", 1, "append", HARNESS_FAULT=point)) == []
    whole_or_nothing(place, [], "k")
    assert place.texts() == ["before", "k-0"]


@pytest.mark.parametrize("what", WHAT)
def test_killed_at_random_moments(place: Place, what: str) -> None:
    doing = prepared(place, what)
    chance, landed = random.Random(what), list[str]()
    for turn in range(10):
        process = writer(place, f"t{turn}", 1000, doing)
        assert process.stdout
        first = process.stdout.readline().strip()
        time.sleep(chance.uniform(0, 0.03 if doing != "bulk" else 0.3))
        os.kill(process.pid, signal.SIGKILL)
        landed += [first, *acknowledged(process)]
        names = set(landed)
        place.close()
        place.store.catch_up()
        rows = Counter(str(text).strip() for text in place.texts() if " filler " not in str(text))
        assert max(rows.values()) == 1
        assert names <= set(rows)
        extra = {name for name in rows if name not in names and name != "before"}
        assert len(extra) <= turn + 1, "more than the one tick that was under way"
        landed += sorted(extra)
        assert place.porcelain() == ["A  staged.txt"]
    place.healthy()


def test_a_torn_journal_is_read_up_to_the_tear(place: Place) -> None:
    place.tick(text="a")
    journal = place.runtime / "journal"
    for torn in (b'{"begin": {"ticks": [{"id": "01', b"\0" * 100, b'{"e', b"\xff"):
        with open(journal, "ab") as file:
            file.write(torn)
        place.tick(text=torn.hex())
    assert place.texts() == [
        "a",
        *(t.hex() for t in (b'{"begin": {"ticks": [{"id": "01', b"\0" * 100, b'{"e', b"\xff")),
    ]
    with open(journal, "ab") as file:
        file.write(b'{"end":1}\n\0\0\0\n')
    place.tick(text="z")
    assert place.texts()[-1] == "z"


def test_a_long_record_is_found_again(place: Place) -> None:
    prepared(place, "bulk")
    assert acknowledged(writer(place, "k", 1, "bulk", HARNESS_FAULT="intent-written")) == []
    size = (place.runtime / "journal").stat().st_size
    assert size > 500_000
    with open(place.runtime / "journal", "ab") as file:
        file.write(b'{"en')
    whole_or_nothing(place, [], "k")
    assert place.texts()[1] == "k-0"


def test_the_user_cannot_commit_over_a_half_done_tick(place: Place) -> None:
    from fixtures.workspaces import run

    prepared(place, "append")
    assert acknowledged(writer(place, "k", 1, "append", HARNESS_FAULT="swapped")) == []
    # The index knows nothing of the tick yet: a commit now would take its row out of HEAD again. Git refuses it.
    done = run(["git", "commit", "-q", "--no-verify", "-m", "mine"], place.root)
    assert done.returncode != 0
    assert "index.lock" in done.stderr
    whole_or_nothing(place, ["k-0"], "k")
    assert QUARANTINE in place.changed()


def killed(place: Place, point: str, what: str = "append") -> None:
    """A writer dies at ``point`` of its tick k-0."""
    assert acknowledged(writer(place, "k", 1, what, HARNESS_FAULT=point)) == []
    place.close()


def test_what_cannot_land_any_more_is_set_aside(place: Place) -> None:
    prepared(place, "replace")
    killed(place, "intent-written", "replace")
    (place.workspace.git_dir / "index.lock").unlink()
    place.write(OVERLAY, "a person's\n")
    place.git("-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "by hand", "--", OVERLAY)
    place.store.catch_up()
    (kept,) = deferred.waiting(place.runtime, "refused")
    assert kept.tick.summary == "k-0"
    assert "changed meanwhile" in kept.why
    assert place.texts() == ["before"]
    place.tick(text="on")
    assert place.texts() == ["before", "on"]
    place.healthy()


def test_what_meets_somebodys_lock_at_its_repair_is_deferred(place: Place) -> None:
    prepared(place, "append")
    killed(place, "intent-written")
    lock = place.workspace.git_dir / "index.lock"
    lock.unlink()
    lock.write_bytes(b"DIRC somebody's")
    place.store.catch_up()
    assert [kept.tick.summary for kept in deferred.waiting(place.runtime)] == ["k-0"]
    assert lock.read_bytes() == b"DIRC somebody's"
    lock.unlink()
    place.tick(text="on")
    assert place.texts() == ["before", "k-0", "on"]
    place.healthy()


def test_a_tick_on_a_branch_that_was_left_is_not_made_again_on_the_next(place: Place) -> None:
    prepared(place, "append")
    killed(place, "swapped")
    (place.workspace.git_dir / "index.lock").unlink()
    place.git("switch", "-q", "-f", "-c", "other", "HEAD~1")
    place.store.catch_up()
    assert place.texts() == ["before"]
    place.git("switch", "-q", "main")
    assert place.texts() == ["before", "k-0"]
    place.tick(text="on")
    assert place.texts() == ["before", "k-0", "on"]
    place.healthy()


@pytest.mark.parametrize("point", ["built", "swapped"])
@pytest.mark.parametrize("name", ["HEAD.lock", "refs/heads/main.lock"])
def test_locks_of_our_own_dead_git_are_taken_away(place: Place, name: str, point: str) -> None:
    """`update-ref` may die with us: it leaves its locks, empty or with our commit in them."""
    prepared(place, "append")
    killed(place, point)
    newest = max(
        (p for p in (place.workspace.git_dir / "objects").glob("??/*") if p.is_file()),
        key=lambda p: p.stat().st_mtime_ns,
    )
    for text in ("", f"{newest.parent.name}{newest.name}\n"):
        (place.workspace.git_dir / name).write_text(text)
    whole_or_nothing(place, [], "k")
    assert place.texts() == ["before", "k-0"]


def test_a_lock_of_somebody_else_is_not_taken_away(place: Place) -> None:
    prepared(place, "append")
    killed(place, "built")
    lock = place.workspace.git_dir / "refs/heads/main.lock"
    lock.write_text(place.head + "\n")
    place.store.catch_up()
    assert lock.exists()
    assert [kept.tick.summary for kept in deferred.waiting(place.runtime)] == ["k-0"]
    lock.unlink()
    place.store.catch_up()
    assert place.texts() == ["before", "k-0"]


def test_a_git_that_outlives_its_master_lands_the_tick_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed alone, we leave an `update-ref` that moves HEAD a moment later, in the middle of the repair."""
    from harness.store import engine
    from harness.store.git import Git

    prepared(place, "append")
    killed(place, "built")
    (made,) = [
        line.split()[2] for line in place.git("fsck", "--unreachable", "--no-reflogs").split("\n") if " commit " in line
    ]
    real = engine.swap

    def beaten(git: Git, *args: object, **kwargs: object) -> None:
        place.git("update-ref", "HEAD", made)
        real(git, *args, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(engine, "swap", beaten)
        place.store.catch_up()
    whole_or_nothing(place, ["k-0"], "k")
    assert place.texts() == ["before", "k-0"]
