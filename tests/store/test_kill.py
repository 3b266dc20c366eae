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
