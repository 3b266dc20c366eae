"""Histories that meet, clones that convert line ends, ledgers that grow for years."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from fixtures.workspaces import FEEDBACK, QUARANTINE, Place, row, row_tick, run

from harness.flows import install
from harness.store import snapshot
from harness.store.tick import Append, Tick
from harness.store.tree import BadLine


def clone(place: Place, name: str, *options: str) -> Place:
    """A clone of the workspace, made a workspace by `init`."""
    root = place.root.with_name(name)
    done = run(["git", "clone", "-q", *options, str(place.root), str(root)], place.root.parent)
    assert done.returncode == 0, done.stderr
    return Place(install.lay_out(root, None, lambda line: None))


def test_G_27_markers_of_a_merge_are_no_rows(place: Place) -> None:
    place.script("G-27", FILE=QUARANTINE)
    place.git("merge", "-q", "--no-verify", "l")
    done = place.git("-c", "core.hooksPath=/dev/null", "-c", "merge.conflictStyle=merge", "merge", "r", ok=(0, 1))
    assert "CONFLICT" in done
    # The attributes of the workspace keep git from writing markers into a ledger; whoever does it all the same makes no rows.
    text = (place.root / QUARANTINE).read_text()
    assert "<<<<<<<" not in text
    assert text.splitlines()[-2:] == ['{"row":"l1"}', '{"row":"l2"}']
    marked = (
        text.replace('{"row":"l1"}', '<<<<<<< HEAD\n{"row":"l1"}')
        + "=======\n"
        + '{"row":"r1"}\n{"row":"r2"}\n>>>>>>> r\n'
    )
    (place.root / QUARANTINE).write_text(marked)
    place.git("add", QUARANTINE)
    place.git("-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "merged by hand")
    found = list(place.store.rows(QUARANTINE))
    assert [one["row"] for one in found if isinstance(one, dict)] == ["base", "l1", "l2", "r1", "r2"]
    assert [one.data[:7] for one in found if isinstance(one, BadLine)] == [b"<<<<<<<", b"=======", b">>>>>>>"]
    place.tick(text="after")
    assert [one.get("text") for one in place.store.rows(QUARANTINE) if isinstance(one, dict)][-1] == "after"


def test_G_27_a_merge_that_keeps_one_side_can_be_made_whole_by_hand(place: Place) -> None:
    place.tick(text="base")
    place.git("switch", "-q", "-c", "l")
    place.tick(text="l1")
    place.git("switch", "-q", "main")
    place.git("switch", "-q", "-c", "r")
    place.tick(text="r1")
    place.git("merge", "-q", "--no-verify", "l", ok=(1,))
    rows = [*place.git("show", f"HEAD:{QUARANTINE}").split("\n"), place.git("show", f"l:{QUARANTINE}").split("\n")[-1]]
    (place.root / QUARANTINE).write_text("\n".join(rows) + "\n")
    place.git("add", QUARANTINE)
    place.git("-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "both sides")
    assert place.texts() == ["base", "r1", "l1"]
    place.tick(text="on")
    assert place.texts() == ["base", "r1", "l1", "on"]


def test_G_28_a_replaced_remote_history_takes_nothing_local(place: Place) -> None:
    for n in range(5):
        place.put(f"skills/s{n}/overlay.md", "learned\n")
    head = place.head
    remote = place.root.with_name("remote.git")
    assert run(["git", "init", "-q", "--bare", "-b", "main", str(remote)], place.root.parent).returncode == 0
    place.git("remote", "add", "origin", str(remote))
    tree = place.git("mktree", data="")
    root = place.git("commit-tree", tree, "-m", "unrelated")
    place.git("push", "-q", "--force", "origin", f"{root}:refs/heads/main")
    # What people and tools do by habit; git refuses it, and the next command of ours changes nothing about that.
    place.git("pull", "-q", "--no-rebase", "origin", "main", ok=(1, 128))
    place.git("pull", "-q", "--ff-only", "origin", "main", ok=(1, 128))
    place.tick(text="a")
    assert place.git("rev-parse", "HEAD~1") == head
    assert snapshot.skill(place.workspace, "s4")["overlay"] == "learned\n"


def test_G_29_every_tick_of_a_turn_is_linked_to_its_session(place: Place) -> None:
    trailers = {"Session": "s1", "Turn": "t1"}
    for n in range(3):
        place.store.commit(Tick("feedback", f"tick {n}", [Append(QUARANTINE, row(text=str(n)))], trailers))
        if n < 2:
            place.write("mine.txt", f"{n}\n")
            place.git("add", "mine.txt")
            place.git("commit", "-q", "--no-verify", "-m", f"user {n}")
    linked = place.git(
        "log",
        "--reverse",
        "--format=%s|%(trailers:key=Session,valueonly,separator=%x2C)|%(trailers:key=Turn,valueonly,separator=%x2C)",
    )
    assert linked.split("\n")[1:] == [
        "feedback: tick 0|s1|t1", "user 0||", "feedback: tick 1|s1|t1", "user 1||", "feedback: tick 2|s1|t1",
    ]  # fmt: skip


def test_G_30_a_clone_that_converts_line_ends(place: Place) -> None:
    place.put("skills/aeo/overlay.md", "one\ntwo\n")
    place.put("skills/aeo/AGENTS.md", "# Rules\r\nmixed on purpose\n")
    place.tick(text="a")
    there = clone(place, "p2", "-c", "core.autocrlf=true", "-c", "core.eol=crlf")
    try:
        for path in place.git("ls-files").split("\n"):
            assert (there.root / path).read_bytes() == (place.root / path).read_bytes(), path
        skill = snapshot.skill(there.workspace, "aeo")
        assert (
            skill["overlay_sha256"] == hashlib.sha256((there.root / "skills/aeo/overlay.md").read_bytes()).hexdigest()
        )
        assert {k: v for k, v in skill.items() if k != "commit"} == {
            k: v for k, v in snapshot.skill(place.workspace, "aeo").items() if k != "commit"
        }
        there.tick(text="b")
        there.put("skills/aeo/overlay.md", "one\ntwo\nthree\n")
        assert there.texts() == ["a", "b"]
        assert there.porcelain() == []
        assert b"\r" not in (there.root / QUARANTINE).read_bytes()
        assert (there.root / "skills/aeo/overlay.md").read_bytes() == b"one\ntwo\nthree\n"
    finally:
        there.close()


@pytest.mark.parametrize(
    "path",
    [
        "state/log/quarantine.ndjson.d/01A.ndjson",
        "state/log/some skill/2026-x-draft.md",
        "skills/na me/overlay.md",
        "state/log/a/b/c d.ndjson",
        "README.md",
    ],
)
def test_G_31_the_attributes_hold_at_every_depth(place: Place, path: str) -> None:
    found = dict(line.rsplit(": ", 2)[1:] for line in place.git("check-attr", "-a", "--", path).split("\n"))
    assert found["text"] == "unset"
    assert found["eol"] == "unset"
    assert found["filter"] == "unset"
    if path.endswith(".ndjson"):
        assert found["merge"] == "binary"


def test_G_32_ten_thousand_ticks_cost_what_they_did_at_first(place: Place) -> None:
    """Counted, not timed: what a late tick writes and starts is what an early one did."""
    early = _cost(place, "early")
    for start in range(0, 10_000, 1_000):
        place.store.commit_all([row_tick(text=f"{start + n}".ljust(200, "x")) for n in range(1_000)])
    late = _cost(place, "late")
    assert place.count() == 10_005
    assert late["processes"] == early["processes"]
    assert late["largest"] <= 66_000
    assert late["files"] == early["files"]
    segments = list((place.root / (QUARANTINE + ".d")).iterdir())
    assert len(segments) > 40
    assert max(p.stat().st_size for p in segments) <= 65_536
    place.git("gc", "-q")
    objects = sum(p.stat().st_size for p in (place.workspace.git_dir / "objects").rglob("*") if p.is_file())
    raw = sum(p.stat().st_size for p in segments)
    assert objects < 3 * raw
    assert len(place.texts()) == 10_004
    place.healthy()


def _cost(place: Place, text: str) -> dict[str, int]:
    """What one tick starts and writes: processes, files in the object folder, and the largest file it touches (bytes)."""
    from harness.store.git import Git

    place.tick(text="warm")
    started, objects = [0], set((place.workspace.git_dir / "objects").rglob("*"))
    real = Git.start

    def counted(self: Git, *args: str, **kwargs: object) -> object:
        started[0] += 1
        return real(self, *args, **kwargs)  # type: ignore[arg-type]

    Git.start = counted  # type: ignore[method-assign, assignment]
    try:
        place.tick(text=text)
    finally:
        Git.start = real  # type: ignore[method-assign]
    new = [p for p in set((place.workspace.git_dir / "objects").rglob("*")) - objects if p.is_file()]
    sizes = [len(place.store.git.object(p.parent.name + p.name)[2]) for p in new]  # type: ignore[index]
    return {"processes": started[0], "files": len(new), "largest": max(sizes)}


def test_rows_of_two_clones_have_ids_of_their_own(place: Place) -> None:
    place.tick(text="a")
    there = clone(place, "p3")
    there.tick(text="there")
    place.tick(text="here")
    ids = [
        json.loads(line)["id"]
        for root in (place.root, there.root)
        for line in (root / QUARANTINE).read_text().splitlines()
    ]
    assert len(set(ids)) == 3
    assert there.texts(FEEDBACK) == []
    there.close()
    assert Path(there.root).exists()
