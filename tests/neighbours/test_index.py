"""A person's index and files beside the ticks: staged, half staged, renamed, dirty or hidden, they stay as they are."""

from __future__ import annotations

import threading
import time

from fixtures.workspaces import FEEDBACK, LOG, QUARANTINE, Place, fingerprint, run


def others(place: Place) -> list[str]:
    """The index with all that git keeps of an entry, the tick's own paths left out."""
    blocks, out = place.git("ls-files", "--stage", "--debug").split("\n"), []
    keep = True
    for line in blocks:
        if line[:1].isdigit():
            keep = "state/log/" not in line
        if keep:
            out.append(line)
    return out


def test_G_16_one_staged_fifty_dirty_ten_untracked(place: Place) -> None:
    place.script("G-16")
    porcelain, index, disk = place.porcelain(), others(place), fingerprint(place.root, ".git", "state/log")
    assert len(porcelain) == 60
    place.tick(text="a")
    assert place.porcelain() == porcelain
    assert others(place) == index
    assert fingerprint(place.root, ".git", "state/log") == disk
    assert place.changed() == [QUARANTINE]


def test_G_17_a_staged_rename_stays_one(place: Place) -> None:
    place.script("G-17")
    place.tick(text="a")
    assert place.changed() == [QUARANTINE]
    assert place.porcelain() == ["R  old.txt -> new.txt"]
    place.git("commit", "-q", "--no-verify", "-m", "mine")
    assert place.git("show", "--format=", "--name-status", "-M", "HEAD").split("\t") == ["R100", "old.txt", "new.txt"]


def test_G_18_a_partly_staged_file_stays_so(place: Place) -> None:
    place.script("G-18")
    before = place.git("diff", "--cached", "p.txt"), place.git("diff", "p.txt")
    assert all(before)
    place.tick(text="a")
    assert (place.git("diff", "--cached", "p.txt"), place.git("diff", "p.txt")) == before


def test_G_19_half_a_line_of_another_session_is_in_no_commit(place: Place) -> None:
    whole = "[2026-07-01T10:00:00Z] feedback: written in two steps [LOGGED]\n"
    half_written, go_on = threading.Event(), threading.Event()

    def session() -> None:
        with open(place.root / LOG, "a") as file:
            file.write(whole[:20])
            file.flush()
            half_written.set()
            go_on.wait(20)
            file.write(whole[20:])

    other = threading.Thread(target=session)
    other.start()
    half_written.wait(20)
    place.tick(text="a")
    place.harness("observe")
    assert b"written in two steps" not in (place.store.tree.read(LOG) or b"")
    for commit in place.git("rev-list", "HEAD").split("\n"):
        assert whole[:20] + "\n" not in place.git("show", commit)
    go_on.set()
    other.join()
    place.harness("observe")
    assert place.texts() == ["a"]
    assert place.texts(FEEDBACK) == ["written in two steps"]


def test_G_19_a_ledger_with_half_a_row_on_disk(place: Place) -> None:
    place.tick(text="a")
    line = b'{"text":"half of a row'
    with open(place.root / QUARANTINE, "ab") as file:
        file.write(line)
    place.tick(text="b")
    assert place.texts() == ["a", "b"]
    assert (place.store.tree.read(QUARANTINE) or b"").count(b"\n") == 2
    assert (place.root / QUARANTINE).read_bytes().endswith(line)


def test_G_20_no_hidden_flags_and_everything_works_on(place: Place) -> None:
    for n in range(3):
        place.tick(text=str(n))
    assert not [line for line in place.git("ls-files", "-v").split("\n") if line[:1] in ("h", "S", "s")]
    clone = place.root.with_name("clone")
    assert run(["git", "clone", "-q", str(place.root), str(clone)], place.root.parent).returncode == 0
    from harness.flows import install
    from harness.store.commit import Store

    other = Place(install.lay_out(clone, None, lambda line: None))
    other.put("skills/aeo/overlay.md", "from the clone\n")
    other.close()
    place.git("switch", "-q", "-c", "other")
    place.git("switch", "-q", "main")
    place.git("pull", "-q", "--ff-only", str(clone), "main")
    assert place.porcelain() == []
    with Store(place.workspace) as store:
        assert store.tree.read("skills/aeo/overlay.md") == b"from the clone\n"
    assert place.texts() == ["0", "1", "2"]


def test_flags_that_a_person_set_stay(place: Place) -> None:
    place.git("update-index", "--assume-unchanged", "README.md")
    place.git("update-index", "--skip-worktree", "state/harness.yaml")
    place.write("new.txt", "x\n")
    place.git("add", "-N", "new.txt")
    before = place.git("ls-files", "-v", "README.md", "state/harness.yaml", "new.txt")
    place.tick(text="a")
    assert place.git("ls-files", "-v", "README.md", "state/harness.yaml", "new.txt") == before
    assert place.porcelain() == [" A new.txt"]


def test_a_conflict_that_a_person_has_open_stays_open(place: Place) -> None:
    """`git stash pop` leaves unmerged entries without any file that says so; ticks go on beside them."""
    place.write("r.txt", "base\n")
    place.git("add", "r.txt")
    place.git("commit", "-q", "--no-verify", "-m", "base")
    place.write("r.txt", "stashed\n")
    place.git("stash", "-q")
    place.write("r.txt", "committed\n")
    place.git("commit", "-q", "--no-verify", "-am", "other")
    place.git("stash", "pop", "-q", ok=(1,))
    assert place.porcelain() == ["UU r.txt"]
    place.tick(text="a")
    assert place.porcelain() == ["UU r.txt"]
    assert place.texts() == ["a"]


def test_a_status_right_after_a_tick_rewrites_nothing_of_ours(place: Place) -> None:
    place.put("skills/aeo/overlay.md", "one\n")
    place.put("skills/aeo/overlay.md", "two\n")  # the same length, within the same tick of the clock
    assert place.git("diff", "--name-only") == ""
    time.sleep(0.01)
    place.git("status")
    assert place.git("diff-files", "--name-only") == ""
