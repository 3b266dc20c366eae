"""The contract of a commit, clause by clause."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
from fixtures.workspaces import LOG, QUARANTINE, Place, fingerprint, row, row_tick
from hypothesis import given
from hypothesis import strategies as st

from harness.store.commit import FALLBACK_WHO, Store
from harness.store.errors import Busy, Deferred, GateRefused, Stale, Unfinished
from harness.store.files import NotWritable
from harness.store.tick import ABSENT, Append, Delete, Replace, Take, Tick, decode, encode, sha256


def test_a_tick_is_one_commit_of_exactly_its_paths(place: Place) -> None:
    before = place.count()
    landed = place.tick(text="a")
    assert place.count() == before + 1
    assert landed.commit == place.head
    assert place.changed() == [QUARANTINE]
    assert place.porcelain() == []
    place.healthy()


def test_staged_and_dirty_files_stay_byte_for_byte(place: Place) -> None:
    place.git("commit", "-q", "--allow-empty", "-m", "a person was here")
    place.write("notes.txt", "one\n")
    place.git("add", "notes.txt")
    place.write("notes.txt", "one\ntwo, not staged\n")
    place.write("state/harness.yaml", (place.root / "state/harness.yaml").read_text() + "# mine\n")
    place.write("draft.txt", "untracked\n")
    before, index, disk = place.porcelain(), place.git("ls-files", "-s"), fingerprint(place.root, ".git")
    place.tick(text="a")
    after = fingerprint(place.root, ".git", QUARANTINE)
    assert after == disk
    assert place.porcelain() == before
    rest = [line for line in place.git("ls-files", "-s").split("\n") if not line.endswith(QUARANTINE)]
    assert "\n".join(rest) == index
    assert place.changed() == [QUARANTINE]


def test_the_next_commit_of_a_person_keeps_the_tick(place: Place) -> None:
    place.write("notes.txt", "one\n")
    place.git("add", "notes.txt")
    place.tick(text="a")
    place.git("commit", "-q", "--no-verify", "-m", "mine")
    assert place.changed() == ["notes.txt"]
    assert place.texts() == ["a"]


def test_a_tick_that_changes_nothing_makes_no_commit(place: Place) -> None:
    text = (place.root / "state/regen/footer.md").read_text()
    before = place.count()
    assert place.put("state/regen/footer.md", text).commit is None
    assert place.store.commit(Tick("human", "nothing", [])).commit is None
    assert place.count() == before


def test_one_empty_tick_among_others_makes_no_commit(place: Place) -> None:
    before = place.count()
    landed = place.store.commit_all([row_tick(text="a"), Tick("human", "nothing", []), row_tick(text="b")])
    assert place.count() == before + 2
    assert [one.commit is None for one in landed] == [False, True, False]
    assert place.texts() == ["a", "b"]


def test_several_ticks_land_together_or_not_at_all(place: Place) -> None:
    before = place.head
    with pytest.raises(GateRefused):
        place.store.commit_all(
            [row_tick(text="a"), Tick("human", "no such file", [Replace("elsewhere.txt", "x", ABSENT)])]
        )
    assert place.head == before
    assert place.porcelain() == []
    # and a later one is made from what the earlier ones make
    text = "# rules\n"
    ticks = [
        Tick("regen", "one", [Replace("skills/a/overlay.md", text, ABSENT)]),
        Tick("human", "two", [Replace("skills/a/overlay.md", text + "more\n", sha256(text.encode()))]),
    ]
    with pytest.raises(GateRefused):
        place.store.commit_all(ticks)
    place.store.commit_all([Tick("human", t.summary, t.writes) for t in ticks])
    assert (place.root / "skills/a/overlay.md").read_text() == text + "more\n"


def test_hooks_never_run(place: Place) -> None:
    folder = Path(place.git("rev-parse", "--path-format=absolute", "--git-path", "hooks"))
    for name in (
        "pre-commit",
        "commit-msg",
        "post-commit",
        "reference-transaction",
        "prepare-commit-msg",
        "post-index-change",
    ):
        hook = folder / name
        hook.write_text(f"#!/bin/sh\necho {name} >> '{place.root}/../ran'\nexit 1\n")
        hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    place.tick(text="a")
    place.put("skills/a/overlay.md", "x\n")
    assert not (place.root.parent / "ran").exists()
    assert place.texts() == ["a"]


def test_no_branch_is_switched_and_only_the_current_one_moves(place: Place) -> None:
    place.git("branch", "other")
    place.git("switch", "-q", "-c", "mine")
    other = place.git("rev-parse", "other", "main")
    place.tick(text="a")
    assert place.git("symbolic-ref", "HEAD") == "refs/heads/mine"
    assert place.git("rev-parse", "other", "main") == other


def test_the_message_has_subject_body_and_trailers(place: Place) -> None:
    tick = Tick(
        "human", "stricter no-hedging", [Append(QUARANTINE, row())],
        {"Skill": "aeo", "Session": "5975f164", "Evidence": "skills/aeo/scorecards.jsonl 01JE"}, "It hedged twice.\n\nExpected: no may.",
    )  # fmt: skip
    place.store.commit(Tick("feedback", tick.summary, tick.writes, tick.trailers, tick.body, tick.id))
    subject, *rest = place.message().split("\n")
    assert subject == "feedback(aeo): stricter no-hedging"
    assert "It hedged twice." in rest
    assert place.trailer("Tick") == [tick.id]
    assert place.trailer("Kind") == ["feedback"]
    assert place.trailer("Skill") == ["aeo"]
    assert place.trailer("Session") == ["5975f164"]


FORGERIES = [
    "Skill: another",
    "harmless\n\nSkill: another\nTick: 01AAAAAAAAAAAAAAAAAAAAAAAA",
    "text\n---\nSkill: another",
    "text\r\n\r\nSkill: another",
    "a\u2028\u2028Skill: another",
    "a\n\nSkill:another",
    "a\n\nskill : another",
    "a\n\nSigned-off-by: x <x@y>\nSkill: another",
    "a\n\n(cherry picked from commit abc)\nSkill: another",
    "\x0bSkill: another",
    "a\n\nSkill\u00a0: another\nSkill: another",
    "a\n\nKind: tune\n continued",
]


@pytest.mark.parametrize("text", FORGERIES)
@pytest.mark.parametrize("place_of_it", ["summary", "body", "trailer"])
def test_text_from_outside_cannot_forge_a_trailer(place: Place, text: str, place_of_it: str) -> None:
    summary = text if place_of_it == "summary" else "s"
    body = text if place_of_it == "body" else ""
    trailers = {"Skill": "aeo", "Session": text if place_of_it == "trailer" else "s1"}
    tick = Tick("feedback", summary, [Append(QUARANTINE, row())], trailers, body)
    place.store.commit(tick)
    assert place.trailer("Tick") == [tick.id]
    assert place.trailer("Kind") == ["feedback"]
    assert place.trailer("Skill") == ["aeo"]
    assert len(place.trailer("Session")) == 1
    assert place.git("log", "-1", "--format=%(trailers:only,unfold)").rstrip("\n").count("\n") == 3


@given(st.text(), st.text())
def test_any_text_makes_a_message_of_one_subject_and_known_trailers(summary: str, body: str) -> None:
    message = Tick("tune", summary, [], {"Skill": "aeo"}, body, "T").message()
    assert message.endswith("\n\nTick: T\nKind: tune\nSkill: aeo\n")
    assert message.startswith("tune(aeo):")
    assert not re.search(r"^Skill: (?!aeo$)", message.removesuffix("Tick: T\nKind: tune\nSkill: aeo\n"), re.M)
    assert "\0" not in message


def test_a_replace_made_from_an_older_text_is_stale(place: Place) -> None:
    place.put("skills/a/overlay.md", "one\n")
    before = place.head
    for expect in (ABSENT, sha256(b"zero\n")):
        with pytest.raises(Stale) as caught:
            place.store.commit(Tick("human", "late", [Replace("skills/a/overlay.md", "two\n", expect)]))
        assert "skills/a/overlay.md" in str(caught.value)
        assert caught.value.exit_code == 4
    with pytest.raises(Stale):
        place.store.commit(Tick("human", "late", [Delete("skills/a/overlay.md", sha256(b"zero\n"))]))
    assert place.head == before


def test_a_deleted_file_goes_from_history_and_disk(place: Place) -> None:
    place.put("skills/a/overlay.md", "one\n")
    place.store.commit(Tick("undo", "gone", [Delete("skills/a/overlay.md", sha256(b"one\n"))]))
    assert not (place.root / "skills/a").exists()
    assert place.store.tree.read("skills/a/overlay.md") is None
    assert place.porcelain() == []


def test_a_file_that_a_person_changed_is_left_and_named(place: Place) -> None:
    place.put("skills/a/overlay.md", "one\n")
    place.write("skills/a/overlay.md", "one\nmine\n")
    landed = place.put("skills/a/overlay.md", "two\n")
    assert landed.left == ["skills/a/overlay.md"]
    assert (place.root / "skills/a/overlay.md").read_text() == "one\nmine\n"
    assert place.porcelain() == [" M skills/a/overlay.md"]


def test_a_file_that_a_person_deleted_stays_deleted(place: Place) -> None:
    place.put("skills/a/overlay.md", "one\n")
    (place.root / "skills/a/overlay.md").unlink()
    assert place.put("skills/a/overlay.md", "two\n").left == ["skills/a/overlay.md"]
    assert place.porcelain() == [" D skills/a/overlay.md"]


def test_an_agents_log_is_taken_as_it_stands_and_never_written(place: Place) -> None:
    disk = place.write(LOG, "one\ntwo\nhalf a li")
    inode = disk.stat().st_ino
    place.store.commit(Tick("feedback", "take", [Take(LOG, b"one\ntwo\n", sha256(b""))]))
    assert disk.read_text() == "one\ntwo\nhalf a li"
    assert disk.stat().st_ino == inode
    assert place.store.tree.read(LOG) == b"one\ntwo\n"


def test_the_author_is_the_workspaces_person_or_harness(place: Place) -> None:
    place.tick(text="a")
    assert place.git("log", "-1", "--format=%an <%ae>|%cn <%ce>") == f"{FALLBACK_WHO}|{FALLBACK_WHO}"
    place.person()
    place.close()
    config = (place.workspace.git_dir / "config").read_bytes()
    place.tick(text="b")
    assert (
        place.git("log", "-1", "--format=%an <%ae>|%cn <%ce>")
        == "Ada Byron <ada@example.invalid>|Ada Byron <ada@example.invalid>"
    )
    assert (place.workspace.git_dir / "config").read_bytes() == config


@pytest.mark.parametrize("name", ["A <b>\nc", "", "  "])
def test_a_name_that_git_could_not_read_back_is_not_used(place: Place, name: str) -> None:
    place.git("config", "user.name", name)
    place.git("config", "user.email", "x y@z")
    place.tick(text="a")
    assert place.git("log", "-1", "--format=%an <%ae>") == FALLBACK_WHO
    place.healthy()


def test_both_engines_make_the_same_commits(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.store import engine

    start = place.head
    commits = [
        engine.Commit({"a.txt": b"1\n", "b/c/d.sh": b"#!/bin/sh\n", "b-c": b"", "b.c/é ü": b"x" * 70_000}, "one\n", "A B <a@b>", 1_700_000_000),
        engine.Commit({"b/c/d.sh": None, "b": b"now a file\n", "a.txt": b"\0\xff"}, "two\n\nbody\n", "A B <a@b>", 1_700_000_001),
        engine.Commit({"b.c/é ü": None, "b": None, "b/x": b"a folder again"}, "three\n", "é <e@b>", 1_700_000_002),
        engine.Commit(dict.fromkeys(place.git("ls-files").split("\n")) | {"a.txt": None, "b/x": None, "b-c": None}, "empty\n", "A <a@b>", 1),
    ]  # fmt: skip
    loose = engine.build(place.store.git, start, commits)
    monkeypatch.setattr(engine, "FEW", 0)
    assert engine.build(place.store.git, start, commits) == loose
    assert place.git("rev-parse", f"{loose[-1].id}^{{tree}}") == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    root = engine.build(place.store.git, None, commits[:1])
    monkeypatch.setattr(engine, "FEW", 20)
    assert engine.build(place.store.git, None, commits[:1]) == root
    place.git("fsck", "--strict")


def test_many_ticks_at_once_are_as_many_commits(place: Place) -> None:
    before = place.count()
    place.store.commit_all([row_tick(text=str(n)) for n in range(300)])
    assert place.count() == before + 300
    assert place.texts() == [str(n) for n in range(300)]
    assert place.porcelain() == []
    place.healthy()


def test_a_busy_workspace_is_waited_for_and_then_reported(place: Place) -> None:
    first, other = place.open(), place.open()
    other.settings["lock_wait"] = 0.05
    with first.locked(), pytest.raises(Busy) as caught:
        other.commit(row_tick(text="a"))
    assert caught.value.exit_code == 5
    assert "process" in str(caught.value)
    other.commit(row_tick(text="b"))
    assert place.texts() == ["b"]


def test_the_lock_is_reentrant(place: Place) -> None:
    with place.store.locked(), place.store.locked():
        place.tick(text="a")
    assert place.texts() == ["a"]


def test_opening_and_reading_writes_nothing(place: Place) -> None:
    place.tick(text="a")
    place.close()
    before = {p: p.stat().st_mtime_ns for p in place.root.rglob("*")}
    with Store(place.workspace) as store:
        assert [r["text"] for r in store.rows(QUARANTINE) if isinstance(r, dict)] == ["a"]
        assert store.head
    assert {p: p.stat().st_mtime_ns for p in place.root.rglob("*")} == before


def test_a_symbolic_link_out_of_the_workspace_is_refused(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (place.root / "skills").mkdir()
    (place.root / "skills/evil").symlink_to(outside)
    before = place.head
    with pytest.raises(GateRefused, match="symlink"):
        place.put("skills/evil/overlay.md", "x\n")
    place.write("skills/b/x", "")
    (place.root / "skills/b/overlay.md").symlink_to(outside / "target")
    with pytest.raises(GateRefused, match="symlink"):
        place.put("skills/b/overlay.md", "x\n")
    assert place.head == before
    assert list(outside.iterdir()) == []


def test_a_full_disk_before_the_commit_changes_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    place.tick(text="a")
    before, journal = place.head, (place.runtime / "journal").read_bytes()
    real = os.write

    def full(handle: int, data: bytes) -> int:
        if b'"begin"' in bytes(data):
            real(handle, bytes(data)[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(NotWritable, match="No space left") as caught:
            place.tick(text="b")
    assert caught.value.next
    assert place.head == before
    assert (place.runtime / "journal").read_bytes() == journal
    place.tick(text="c")
    assert place.texts() == ["a", "c"]
    place.healthy()


@pytest.mark.parametrize("error", ["ENOSPC", "EROFS", "EACCES", "EIO"])
def test_an_object_that_cannot_be_written_changes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    import errno
    import os

    from harness.store.loose import Loose

    def refuse(self: Loose, kind: str, data: bytes) -> str:
        raise OSError(getattr(errno, error), os.strerror(getattr(errno, error)), str(self.objects))

    before = place.head
    with monkeypatch.context() as patch:
        patch.setattr(Loose, "put", refuse)
        with pytest.raises(NotWritable, match="objects"):
            place.tick(text="a")
    assert place.head == before
    place.tick(text="b")
    assert place.texts() == ["b"]
    place.healthy()


def test_after_the_commit_a_full_disk_is_reported_and_made_good_by_the_next_command(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno
    import os

    from harness.store import worktree

    def full(*args: object, **kwargs: object) -> list[str]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x")

    tick = row_tick(text="a")
    with monkeypatch.context() as patch:
        patch.setattr(worktree, "write", full)
        with pytest.raises(Unfinished, match="in history"):
            place.store.commit(tick)
    assert place.texts() == ["a"]
    # The caller may try the same tick again: it is there once.
    assert place.store.commit(tick).commit == place.head
    assert place.texts() == ["a"]
    assert place.porcelain() == []
    place.healthy()


def test_a_tick_survives_a_round_trip_through_json() -> None:
    import json

    tick = Tick(
        "feedback", "s", [Append("a", {"x": "é"}), Replace("b", "t\ud800", "e"), Delete("c", "e"), Take("d", b"\xff\0\n", ABSENT)],
        {"K": "v"}, "b", "ID",
    )  # fmt: skip
    assert decode(json.loads(json.dumps(encode(tick)))) == tick


def test_a_deferred_tick_says_what_to_do(place: Place) -> None:
    (place.workspace.git_dir / "index.lock").touch()
    with pytest.raises(Deferred) as caught:
        place.tick(text="a")
    assert "index.lock" in str(caught.value)
    assert "harness status" in str(caught.value)
    assert caught.value.exit_code == 5
