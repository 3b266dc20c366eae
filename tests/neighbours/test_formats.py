"""Forms a repository can have: shallow and partial clones, reftable, per-work-tree configuration, symbolic links, case."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from fixtures.workspaces import LOADER, Place, row_tick

from harness.flows import install
from harness.store.commit import Store
from harness.store.errors import GateRefused
from harness.store.tick import ABSENT, Replace, Tick
from harness.workspace import at, find


def git(*args: str, cwd: Path) -> str:
    return subprocess.run(["git", *args], cwd=cwd, capture_output=True, text=True, check=True).stdout


def ticks_land(root: Path) -> None:
    """Two ticks in the clone at ``root``: there, readable, and nothing left behind."""
    workspace = install.lay_out(root, None, lambda line: None)
    with Store(workspace) as store:
        before = sum(1 for _ in store.rows("state/log/quarantine.ndjson"))
        store.commit(row_tick(text="one"))
        store.commit(row_tick(text="two"))
        texts = [r["text"] for r in store.rows("state/log/quarantine.ndjson") if isinstance(r, dict)]
    assert len(texts) == before + 2
    assert texts[-2:] == ["one", "two"]
    assert git("status", "--porcelain", cwd=root) == ""
    assert git("fsck", "--no-dangling", "--connectivity-only", cwd=root) == ""


def test_a_shallow_clone(place: Place, tmp_path: Path) -> None:
    for n in range(5):
        place.store.commit(row_tick(text=str(n)))
    clone = tmp_path / "shallow"
    git("clone", "-q", "--depth=1", f"file://{place.root}", str(clone), cwd=tmp_path)
    assert git("rev-list", "--count", "HEAD", cwd=clone).strip() == "1"
    ticks_land(clone)


def test_a_partial_clone_fetches_nothing_for_a_tick(place: Place, tmp_path: Path) -> None:
    for n in range(5):
        place.store.commit(row_tick(text=str(n)))
    git("config", "uploadpack.allowFilter", "true", cwd=place.root)
    clone = tmp_path / "partial"
    git("clone", "-q", "--filter=blob:none", f"file://{place.root}", str(clone), cwd=tmp_path)
    git("remote", "set-url", "origin", "file:///nowhere", cwd=clone)
    ticks_land(clone)


def test_reftable(tmp_path: Path, own_home: Path) -> None:
    version = tuple(map(int, re.findall(r"\d+", git("version", cwd=tmp_path))[:2]))
    if version < (2, 45):
        pytest.skip(f"git {'.'.join(map(str, version))} has no reftable; 2.45 and newer do")
    root = tmp_path / "reftable"
    git("init", "-q", "--ref-format=reftable", "-b", "main", str(root), cwd=tmp_path)
    ticks_land(root)


def test_configuration_of_its_own_for_each_work_tree(place: Place, tmp_path: Path) -> None:
    git("config", "extensions.worktreeConfig", "true", cwd=place.root)
    linked = tmp_path / "linked"
    git("worktree", "add", "-q", "-b", "topic", str(linked), cwd=place.root)
    git("config", "--worktree", "user.name", "Linked", cwd=linked)
    git("config", "--worktree", "user.email", "linked@example.invalid", cwd=linked)
    ticks_land(linked)
    assert git("log", "-1", "--format=%an", cwd=linked).strip() == "Linked"
    head = git("rev-parse", "main", cwd=place.root)
    place.store.commit(row_tick(text="here"))
    assert git("log", "-1", "--format=%an", cwd=place.root).strip() != "Linked"
    assert git("rev-parse", "main^", cwd=place.root) == head


def test_a_workspace_behind_a_symbolic_link(place: Place, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(place.root)
    found = find(link, {"HOME": str(tmp_path)})
    assert found.root == link
    with Store(found) as store:
        store.commit(row_tick(text="through the link"))
    texts = [r["text"] for r in place.store.rows("state/log/quarantine.ndjson") if isinstance(r, dict)]
    assert texts[-1] == "through the link"
    assert git("status", "--porcelain", cwd=place.root) == ""


def test_a_ledger_folder_that_leads_out_is_refused(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (place.root / "skills").mkdir(exist_ok=True)
    (place.root / "skills/evil").symlink_to(outside)
    with pytest.raises(GateRefused) as caught:
        place.store.commit(Tick("fix", "x", [Replace("skills/evil/AGENTS.md", "# x\n", ABSENT)]))
    assert [r.rule for r in caught.value.refusals] == ["symlink"]
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("path", ["skills/AEO/AGENTS.md", "skills/aeo/overlay.md"])
def test_names_that_differ_by_case_alone_are_refused(place: Place, path: str) -> None:
    place.store.commit(Tick("human", "loader", [Replace(LOADER, "# aeo\n", ABSENT)]))
    tick = Tick("human", "twin", [Replace(path, "# x\n", ABSENT)])
    if path.startswith("skills/aeo/"):
        assert place.store.commit(tick).commit, "another name in the same folder is no twin"
        return
    with pytest.raises(GateRefused) as caught:
        place.store.commit(tick)
    assert [r.rule for r in caught.value.refusals] == ["case"]
    assert "'AEO' differs from 'aeo' by case alone" in caught.value.refusals[0].found


def test_no_workspace_is_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/harness.yaml").touch()
    assert at(tmp_path, "") is None, "without a repository it is a folder"
