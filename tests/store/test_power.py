"""A power cut: git syncs next to nothing, the journal has each tick before it begins, and the next boot makes them again."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.workspaces import LOADER, QUARANTINE, Place, fingerprint, row, row_tick, run

from harness.errors import HarnessError
from harness.store import deferred, journal, snapshot
from harness.store.commit import Store
from harness.store.errors import Deferred
from harness.store.tick import Append, Delete, Tick, sha256

OVERLAY = "skills/aeo/overlay.md"
Damage = Callable[[Path], None]


def empty(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"")


def zeros(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"\0" * path.stat().st_size)


def half(path: Path) -> None:
    """The first half of the file, as when only its first blocks were written."""
    path.chmod(0o644)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


DAMAGES: dict[str, Damage] = {"gone": Path.unlink, "empty": empty, "zeros": zeros, "half": half}


@pytest.fixture
def place_synced(place: Place) -> Place:
    """A workspace with some history that is on the disk: the journal starts anew."""
    place.put(OVERLAY, "old\n")
    place.tick(text="old")
    place.store.journal.checkpoint()
    return place


def on_disk(place: Place) -> dict[str, str]:
    """What has reached the disk by now."""
    return fingerprint(place.root)


def newer(place: Place, before: dict[str, str]) -> list[Path]:
    """Every file of git and of the work tree that was made or changed since ``before``; the journal is synced, so not it."""
    now = fingerprint(place.root, ".git/harness/journal")
    return [place.root / name for name, digest in now.items() if before.get(name) != digest]


def boot(place: Place, monkeypatch: pytest.MonkeyPatch, name: str = "another boot") -> None:
    """Start the machine again."""
    place.close()
    monkeypatch.setattr(journal, "boot_id", lambda: name)


def some_ticks(place: Place) -> list[str]:
    """Rows, a roll, a replaced, a new and a deleted file, several ticks at once. Returns the texts of the rows."""
    texts = ["old", "a"]
    place.tick(text="a")
    place.put(OVERLAY, "new\n")
    place.put(LOADER, "# Rules\n")
    many = [f"{n} ".ljust(3900, "x") for n in range(20)]
    place.store.commit(Tick("import", "many", [Append(QUARANTINE, row(text=text)) for text in many]))
    place.put("skills/b/overlay.md", "short life\n")
    place.store.commit(Tick("human", "gone", [Delete("skills/b/overlay.md", sha256(b"short life\n"))]))
    place.store.commit_all([row_tick(text=f"together {n}") for n in range(3)])
    return [*texts, *many, *(f"together {n}" for n in range(3))]


def all_back(place: Place, texts: list[str]) -> None:
    place.store.catch_up()
    assert place.texts() == texts
    assert place.porcelain() == []
    assert (place.root / OVERLAY).read_text() == "new\n"
    assert snapshot.skill(place.workspace, "aeo")["overlay"] == "new\n"
    assert snapshot.now(place.workspace)["commit"] == place.head
    assert list(deferred.waiting(place.runtime, "refused")) == []
    place.healthy()
    place.tick(text="and on")
    assert place.texts() == [*texts, "and on"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_everything_since_the_journal_began_is_lost_and_comes_back(
    place_synced: Place, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_synced
    since = on_disk(place)
    texts = some_ticks(place)
    head = place.head
    boot(place, monkeypatch)
    lost = newer(place, since)
    assert len(lost) > 20
    for path in lost:
        DAMAGES[damage](path)
    place.store.catch_up()
    assert place.head == head, "the same parents, bytes, names and times are the same commits"
    all_back(place, texts)


@pytest.mark.parametrize("seed", range(12))
def test_any_part_of_it_is_lost_and_comes_back(place_synced: Place, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    place, chance = place_synced, random.Random(seed)
    since = on_disk(place)
    texts = some_ticks(place)
    head = place.head
    boot(place, monkeypatch)
    share = chance.choice((0.05, 0.3, 0.7))
    for path in newer(place, since):
        if chance.random() < share:
            chance.choice(list(DAMAGES.values()))(path)
    place.store.catch_up()
    assert place.head == head
    all_back(place, texts)


@pytest.mark.parametrize("person", [False, True])
@pytest.mark.parametrize("after", range(4))
def test_the_disk_falls_back_to_an_older_state_as_a_whole(
    place_synced: Place, after: int, person: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place, older = place_synced, tmp_path / "older"
    for n in range(4):
        if n == after:
            if person:
                place.git("commit", "-q", "--no-verify", "--allow-empty", "-m", "mine")
            shutil.copytree(place.root, older, symlinks=True)
        place.put(OVERLAY, "new\n" if n == 3 else f"{n}\n")
        place.tick(text=str(n))
    head = place.head
    boot(place, monkeypatch)
    shutil.copy2(place.runtime / "journal", older / ".git/harness/journal")
    shutil.rmtree(place.root)
    older.rename(place.root)
    place.store.catch_up()
    assert place.head == head
    all_back(place, ["old", *"0123"])


def test_an_unfinished_tick_comes_back_too(place_synced: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from .test_concurrency import writer

    place = place_synced
    since = on_disk(place)
    place.tick(text="a")
    place.put(OVERLAY, "new\n")
    place.close()
    writer(place, "k", 1, HARNESS_FAULT="swapped").communicate()
    boot(place, monkeypatch)
    for path in newer(place, since):
        if path.name != "index.lock":
            path.unlink()
    all_back(place, ["old", "a", "k-0"])


def test_a_deferred_tick_is_not_made_twice(place_synced: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_synced
    since = on_disk(place)
    place.put(OVERLAY, "new\n")
    lock = place.workspace.git_dir / "refs/heads/main.lock"
    lock.touch()
    with pytest.raises(Deferred):
        place.tick(text="waits")
    lock.unlink()
    boot(place, monkeypatch)
    for path in newer(place, since):
        if "deferred" not in path.parts:
            path.unlink()
    all_back(place, ["old", "waits"])


def test_a_restart_in_good_order_changes_nothing(place_synced: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_synced
    texts = some_ticks(place)
    place.write(OVERLAY, "pending edit\n")
    place.write("notes.txt", "staged\n")
    place.git("add", "notes.txt")
    (place.root / LOADER).unlink()
    head, before = place.head, place.porcelain()
    boot(place, monkeypatch)
    place.store.catch_up()
    assert place.head == head
    assert place.porcelain() == before
    assert sorted(before) == [f" D {LOADER}", f" M {OVERLAY}", "A  notes.txt"]
    assert place.texts() == texts
    assert (place.runtime / "journal").stat().st_size == 0


def test_a_restart_in_good_order_leaves_what_a_person_reset(
    place_synced: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_synced
    some_ticks(place)
    place.git("reset", "-q", "--hard", "HEAD~4")
    head = place.head
    boot(place, monkeypatch)
    place.store.catch_up()
    assert place.head == head
    assert place.porcelain() == []


def test_a_restart_in_good_order_after_commits_by_hand(place_synced: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_synced
    texts = some_ticks(place)
    place.write("notes.txt", "mine\n")
    place.git("add", "notes.txt")
    place.git("commit", "-q", "--no-verify", "-m", "mine")
    place.tick(text="after")
    head = place.head
    boot(place, monkeypatch)
    place.store.catch_up()
    assert place.head == head
    assert place.texts() == [*texts, "after"]


def test_a_persons_commit_that_is_lost_takes_no_row_with_it(
    place_synced: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_synced
    since = on_disk(place)
    place.tick(text="a")
    place.write("notes.txt", "mine\n")
    place.git("add", "notes.txt")
    place.git("commit", "-q", "--no-verify", "-m", "mine")
    place.tick(text="b")
    place.put(OVERLAY, "new\n")
    boot(place, monkeypatch)
    for path in newer(place, since):
        if path.name != "notes.txt":
            path.unlink()
    place.store.catch_up()
    assert place.texts() == ["old", "a", "b"]
    assert place.porcelain() == ["?? notes.txt"]
    place.healthy()


def test_signed_ticks_come_back_signed(place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from .signing import working_signer

    working_signer(place, tmp_path)
    place.put("state/harness.yaml", "version: 1\nsign: true\n")
    place.tick(text="old")
    place.store.journal.checkpoint()
    since = on_disk(place)
    place.tick(text="a")
    place.tick(text="b")
    boot(place, monkeypatch)
    for path in newer(place, since):
        path.unlink()
    place.store.catch_up()
    assert place.texts() == ["old", "a", "b"]
    assert "gpgsig" in place.git("cat-file", "commit", "HEAD")
    assert "gpgsig" in place.git("cat-file", "commit", "HEAD~1")
    assert place.porcelain() == []


def test_history_that_is_gone_altogether_is_not_begun_anew(
    place_synced: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_synced
    place.tick(text="a")
    boot(place, monkeypatch)
    shutil.rmtree(place.workspace.git_dir / "objects")
    (place.workspace.git_dir / "objects").mkdir()
    head = (place.workspace.git_dir / "refs/heads/main").read_text()
    with pytest.raises(HarnessError) as caught:
        place.store.catch_up()
    assert "clone or a backup" in str(caught.value)
    assert (place.workspace.git_dir / "refs/heads/main").read_text() == head
    assert b'"a"' in (place.runtime / "journal").read_bytes()


def test_history_that_somebody_rewrote_is_left_alone(place_synced: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_synced
    place.tick(text="a")
    tree = place.git("rev-parse", "HEAD^{tree}")
    place.git("reset", "-q", "--soft", place.git("commit-tree", tree, "-m", "squashed"))
    place.git("reflog", "expire", "--expire=now", "--all")
    place.git("gc", "-q", "--prune=now")
    head = place.head
    boot(place, monkeypatch)
    place.store.catch_up()
    assert place.head == head
    assert place.texts() == ["old", "a"]
    assert list(deferred.waiting(place.runtime, "refused")) == []


def test_fast_leaves_it_to_the_system_and_says_nothing_of_an_old_boot(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put("state/harness.yaml", "version: 1\ndurability: fast\n")
    place.tick(text="a")
    place.tick(text="b")
    boot(place, monkeypatch)
    place.tick(text="c")
    assert place.texts() == ["a", "b", "c"]
    # Back to safe: what was written without syncs is no record to go by.
    place.put("state/harness.yaml", "version: 1\ndurability: safe\n")
    place.close()
    place.tick(text="d")
    boot(place, monkeypatch, "a third boot")
    place.tick(text="e")
    assert place.texts() == ["a", "b", "c", "d", "e"]


# --- counted, not timed --------------------------------------------------------------------------------------------


def syncs(place: Place, code: str) -> list[str]:
    """The sync calls of a process that runs ``code`` with an open ``store``, between two marks."""
    out = place.root.parent / "strace"
    whole = (
        "import os, sys; from pathlib import Path\n"
        "from fixtures.workspaces import *; from harness import workspace; from harness.store.commit import Store\n"
        f"store = Store(workspace.find(Path({str(place.root)!r}), {{}}, {str(place.root)!r}))\n"
        "store.commit(row_tick(text='warm'))\nos.access('/mark', 0)\n"
        + code
        + "\nos.access('/mark', 0)\nstore.close()\n"
    )
    path = os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])
    wanted = "trace=fsync,fdatasync,sync,syncfs,sync_file_range,access"
    done = run(
        ["strace", "-f", "-y", "-o", str(out), "-e", wanted, sys.executable, "-c", whole],
        place.root,
        env={"PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    between = out.read_text().split('access("/mark"')[1]
    return [line for line in between.splitlines() if "sync" in line]


needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace counts the calls, and this machine has none"
)


@needs_strace
def test_a_tick_of_rows_costs_one_sync(place: Place) -> None:
    (one,) = syncs(place, "store.commit(row_tick(text='a'))")
    assert "fdatasync" in one
    assert "harness/journal" in one
    ten = syncs(place, "for n in range(10): store.commit(row_tick(text=str(n)))")
    assert len(ten) == 10
    (together,) = syncs(place, "store.commit_all([row_tick(text=str(n)) for n in range(10)])")
    assert "harness/journal" in together


@needs_strace
def test_a_tick_in_fast_costs_none(place: Place) -> None:
    place.put("state/harness.yaml", "version: 1\ndurability: fast\n")
    assert syncs(place, "store.commit(row_tick(text='a'))") == []
    assert syncs(place, f"store.commit(Tick('human', 's', [Replace({OVERLAY!r}, 'x', ABSENT)]))") == []


@needs_strace
def test_a_replaced_file_costs_one_more(place: Place) -> None:
    found = syncs(place, f"store.commit(Tick('human', 's', [Replace({OVERLAY!r}, 'x', ABSENT)]))")
    assert len(found) == 2


def test_the_boot_id_is_the_machines() -> None:
    assert journal.boot_id() == journal.boot_id()
    if sys.platform == "linux":
        assert (
            journal.boot_id() == subprocess.check_output(["cat", "/proc/sys/kernel/random/boot_id"], text=True).strip()
        )


def test_two_stores_share_one_journal(place: Place) -> None:
    with Store(place.workspace) as other:
        for n in range(4):
            (place.store if n % 2 else other).commit(row_tick(text=str(n)))
    assert place.texts() == list("0123")
