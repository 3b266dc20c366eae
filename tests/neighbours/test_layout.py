"""Repositories of every shape, environments of every kind: the tick lands in the workspace and nowhere else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fixtures.workspaces import FEEDBACK, QUARANTINE, Code, Place, fingerprint, row_tick, run

from harness.errors import HarnessError
from harness.flows import install
from harness.store.commit import FALLBACK_WHO, Store
from harness.workspace import find


def quiet(line: str) -> None:
    """Say nothing."""


@contextmanager
def laid_out(root: Path) -> Iterator[Place]:
    """A workspace in the repository that is there."""
    made = Place(install.lay_out(root, None, quiet))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def other(tmp_path: Path, own_home: Path) -> Path:
    """Somebody else's repository."""
    root = tmp_path / "other"
    assert run(["git", "init", "-q", "-b", "main", str(root)], tmp_path).returncode == 0
    (root / "x").write_text("x\n")
    assert run(["git", "add", "x"], root).returncode == 0
    return root


def inherited(other: Path) -> dict[str, str]:
    git = other / ".git"
    return {
        "GIT_DIR": str(git), "GIT_INDEX_FILE": str(git / "index"), "GIT_WORK_TREE": str(other),
        "GIT_OBJECT_DIRECTORY": str(git / "objects"), "GIT_COMMON_DIR": str(git), "GIT_PREFIX": "sub/",
        "GIT_NAMESPACE": "elsewhere", "GIT_QUARANTINE_PATH": str(git / "objects/incoming"), "GIT_CEILING_DIRECTORIES": "/",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(git / "objects"), "GIT_CONFIG_PARAMETERS": "'core.bare'='true'",
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.bare", "GIT_CONFIG_VALUE_0": "true",
        "GIT_LITERAL_PATHSPECS": "1", "GIT_SHALLOW_FILE": "/dev/null", "GIT_REFLOG_ACTION": "theirs", "GIT_DEFAULT_HASH": "sha256",
        "GIT_AUTHOR_NAME": "Somebody", "GIT_AUTHOR_EMAIL": "else@x", "GIT_AUTHOR_DATE": "1 +0000", "GIT_COMMITTER_DATE": "1 +0000",
    }  # fmt: skip


def test_G_06_inherited_git_variables_lead_nowhere(place: Place, other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(other)
    env = inherited(other)
    place.feedback("from a process", env=env)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    place.tick(text="from inside")
    place.store.commit_all([row_tick(text=str(n)) for n in range(30)])
    for name in env:
        assert os.environ[name] == env[name], "the caller's environment is the caller's"
        monkeypatch.delenv(name)
    assert place.texts(FEEDBACK) == ["from a process"]
    assert place.texts() == ["from inside", *map(str, range(30))]
    assert place.git("log", "-1", "--format=%an <%ae>") == FALLBACK_WHO
    assert fingerprint(other) == before
    place.healthy()


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE"])
def test_G_06_each_of_them_alone(place: Place, other: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(other)
    with monkeypatch.context() as patch:
        patch.setenv(name, inherited(other)[name])
        place.tick(text="a")
    assert place.texts() == ["a"]
    assert fingerprint(other) == before
    assert place.porcelain() == []


def test_G_08_init_writes_into_nobody_elses_config(tmp_path: Path, other: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    before = fingerprint(other)
    done = run(
        [sys.executable, "-P", "-m", "harness", "init", "--no-hooks", str(project)], tmp_path, env=inherited(other)
    )
    assert done.returncode == 0, done.stderr
    assert fingerprint(other) == before
    found = find(project, {}, project)
    config = run(["git", "config", "-l"], found.root).stdout
    assert "core.worktree" not in config
    with Store(found) as store:
        assert store.head


def test_G_09_a_work_tree_of_a_bare_repository(place: Place) -> None:
    place.script("G-09")
    bare, linked = place.root.with_name("workspace-bare"), place.root.with_name("workspace-bw")
    hooks_off = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": "/dev/null"}
    before = set(fingerprint(bare, "objects", "refs", "worktrees", "logs", "hooks"))
    with laid_out(linked) as there:
        assert there.workspace.git_dir.parent.parent == bare
        there.tick(text="a")
        there.feedback("b", env=hooks_off)
        assert there.texts() == ["a"]
        assert there.texts(FEEDBACK) == ["b"]
        assert there.porcelain() == []
        there.healthy()
    assert set(fingerprint(bare, "objects", "refs", "worktrees", "logs", "hooks")) == before


def test_G_10_a_submodule(place: Place) -> None:
    place.script("G-10")
    outer, lib = place.root.with_name("workspace-super"), place.root.with_name("workspace-super") / "lib"
    assert (lib / ".git").is_file()
    with laid_out(lib) as there:
        there.tick(text="a")
        there.feedback("b")
        assert there.texts() == ["a"]
        assert there.texts(FEEDBACK) == ["b"]
        assert there.porcelain() == []
        there.healthy()
    assert run(["git", "status", "--porcelain"], outer).stdout.splitlines() == [" M lib"]


def test_G_11_a_repository_without_commits(tmp_path: Path, own_home: Path) -> None:
    root = tmp_path / "p"
    assert run(["git", "init", "-q", "-b", "main", str(root)], tmp_path).returncode == 0
    (root / "a.txt").write_text("a\n")
    assert run(["git", "add", "a.txt"], root).returncode == 0
    with laid_out(root) as place:
        place.tick(text="a")
        assert place.porcelain() == ["A  a.txt"]
        place.git("commit", "-q", "--no-verify", "-m", "mine")
        assert place.changed() == ["a.txt"]
        assert place.texts() == ["a"]
        assert place.count() == 3
        place.healthy()


def test_G_11_a_branch_without_commits_in_a_workspace(place: Place) -> None:
    place.git("switch", "-q", "--orphan", "empty")
    with pytest.raises(HarnessError, match="harness init"):
        place.tick(text="a")
    assert place.git("rev-parse", "--verify", "-q", "HEAD", ok=(1,)) == ""
    place.git("switch", "-q", "main")
    place.tick(text="b")
    assert place.texts() == ["b"]


def test_G_12_a_folder_that_is_no_repository_any_more(place: Place) -> None:
    place.tick(text="a")
    place.close()
    shutil.rmtree(place.workspace.git_dir)
    done = run([sys.executable, "-P", "-m", "harness", "--workspace", str(place.root), "status"], place.root)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert "fatal" not in done.stderr
    assert "harness init" in done.stderr


def test_G_13_a_sparse_checkout_keeps_its_shape(place: Place) -> None:
    place.tick(text="a")
    place.put("skills/aeo/overlay.md", "one\n")
    place.script("G-13")
    assert not (place.root / QUARANTINE).exists()
    patterns = place.git("sparse-checkout", "list")
    disk = fingerprint(place.root, ".git")
    place.close()
    place.tick(text="b")
    place.put("skills/aeo/overlay.md", "two\n")
    place.put("skills/new/overlay.md", "new\n")
    assert place.texts() == ["a", "b"]
    assert place.git("sparse-checkout", "list") == patterns == "src"
    assert set(fingerprint(place.root, ".git")) - set(disk) == {"skills/new/overlay.md"}
    assert place.porcelain() == []
    place.git("sparse-checkout", "disable")
    assert (place.root / "skills/aeo/overlay.md").read_text() == "two\n"
    assert place.porcelain() == []


@pytest.mark.parametrize("only", ["false", "true"])
def test_G_14_nobody_has_told_git_who_they_are(place: Place, only: str, tmp_path: Path) -> None:
    place.git("config", "user.useConfigOnly", only)
    config = (place.workspace.git_dir / "config").read_bytes()
    home = tmp_path / "fresh"
    home.mkdir()
    bare = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "harness", "--workspace", str(place.root), "feedback", "feedback", "a"],
        env=bare, cwd=place.root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert place.git("log", "-1", "--format=%an <%ae>, %cn <%ce>") == f"{FALLBACK_WHO}, {FALLBACK_WHO}"
    assert (place.workspace.git_dir / "config").read_bytes() == config
    assert list(home.iterdir()) == []


def test_G_15_a_workspace_of_another_user(place: Place, own_home: Path) -> None:
    env = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    done = run([sys.executable, "-P", "-m", "harness", "--workspace", str(place.root), "drain"], place.root, env=env)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert "safe.directory" in done.stderr
    state = place.harness("status", "--json", env=env, ok=(3,))
    assert f"git config --global --add safe.directory {place.root}" in state
    assert not (own_home / ".gitconfig").exists()
    assert place.count() == 1


@pytest.mark.parametrize(
    "name", ["with space", "ünï-côdé 日本", "quote'and\"double", "-dash", "semi;colon $HOME `x`", "new\nline"]
)
def test_any_name_of_a_folder(name: str, tmp_path: Path, own_home: Path) -> None:
    root = tmp_path / name / name
    with laid_out(root) as place:
        place.tick(text="a")
        place.put("skills/mit leer é/overlay.md", "x\n")
        place.store.commit_all([row_tick(text=str(n)) for n in range(25)])
        assert place.texts() == ["a", *map(str, range(25))]
        assert (root / "skills/mit leer é/overlay.md").read_text() == "x\n"
        assert place.porcelain() == []
        place.healthy()
        if "\n" in name:
            return
        # The workspace's own hooks find their way, too.
        place.write("skills/mit leer é/overlay.md", "y\n")
        place.git("commit", "-q", "-am", "by hand")
        place.write("skills/mit leer é/overlay.md", "y\n" * 101)
        place.git("commit", "-q", "-am", "too long", ok=(4, 1))
        assert place.git("log", "-1", "--format=%s") == "by hand"


def test_a_linked_work_tree_of_the_code_leads_to_the_codes_workspace(code: Code, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    code.git("worktree", "add", "-q", str(linked), "-b", "topic")
    before = fingerprint(code.root, ".harness")
    done = run([sys.executable, "-P", "-m", "harness", "feedback", "feedback", "from the linked one"], linked)
    assert done.returncode == 0, done.stderr
    assert code.place.texts(FEEDBACK) == ["from the linked one"]
    assert fingerprint(code.root, ".harness") == before
    assert run(["git", "status", "--porcelain"], linked).stdout == ""


def test_a_linked_work_tree_of_the_workspace_has_ticks_of_its_own(place: Place, tmp_path: Path) -> None:
    place.tick(text="shared")
    linked = tmp_path / "linked"
    place.git("worktree", "add", "-q", str(linked), "-b", "side")
    with laid_out(linked) as there:
        there.tick(text="there")
        place.tick(text="here")
        assert there.texts() == ["shared", "there"]
        assert place.texts() == ["shared", "here"]
        assert there.porcelain() == place.porcelain() == []
        assert there.runtime != place.runtime
        there.healthy()
    place.healthy()


@pytest.mark.parametrize("objects", ["sha1", "sha256"])
def test_both_hashes(objects: str, tmp_path: Path, own_home: Path) -> None:
    root = tmp_path / "p"
    assert run(["git", "init", "-q", "-b", "main", f"--object-format={objects}", str(root)], tmp_path).returncode == 0
    with laid_out(root) as place:
        place.tick(text="a")
        place.put("skills/a/overlay.md", "x\n")
        place.store.commit_all([row_tick(text=str(n)) for n in range(25)])
        place.git("gc", "-q")
        place.tick(text="after packing")
        assert len(place.head) == (64 if objects == "sha256" else 40)
        assert place.texts() == ["a", *map(str, range(25)), "after packing"]
        assert place.porcelain() == []
        place.healthy()


def test_packed_refs_and_packed_objects(place: Place) -> None:
    place.tick(text="a")
    place.git("pack-refs", "--all", "--prune")
    place.git("repack", "-a", "-d", "-q")
    place.tick(text="b")
    place.git("gc", "-q", "--aggressive")
    place.tick(text="c")
    assert place.texts() == ["a", "b", "c"]
    place.healthy()


@pytest.mark.parametrize("shared", ["group", "0640", "umask"])
def test_a_shared_repository_keeps_its_permissions(place: Place, shared: str) -> None:
    place.git("config", "core.sharedRepository", shared)
    place.tick(text="a")
    place.store.commit_all([row_tick(text="b"), row_tick(text="c")])
    assert place.texts() == ["a", "b", "c"]
    name = place.head
    loose = place.workspace.git_dir / "objects" / name[:2] / name[2:]
    wanted = {"group": 0o440, "0640": 0o440, "umask": 0o440}[shared]
    assert loose.stat().st_mode & wanted == wanted
    place.healthy()


@pytest.mark.parametrize(
    "setting",
    ["core.autocrlf=true", "core.eol=crlf", "core.splitIndex=true", "core.untrackedCache=true", "core.fsmonitor=/bin/false", "index.version=4",
     "core.quotePath=true", "core.preloadIndex=false", "core.ignoreCase=true", "core.precomposeUnicode=true", "core.compression=0",
     "core.logAllRefUpdates=false", "feature.manyFiles=true", "commit.cleanup=scissors", "i18n.commitEncoding=latin1", "core.abbrev=4",
     "gc.auto=1", "log.showSignature=true", "color.ui=always", "core.pager=false", "core.attributesFile=/nonexistent", "core.fileMode=false",
     "transfer.fsckObjects=true", "fastimport.unpackLimit=1", "log.date=raw", "alias.update-ref=!false",
     "core.sparseCheckout=true", "user.email=a@b", "core.warnAmbiguousRefs=true", "init.defaultBranch=trunk"],
)  # fmt: skip
def test_a_persons_configuration_of_git(place: Place, setting: str) -> None:
    name, _, value = setting.partition("=")
    place.git("config", name, value)
    place.close()
    place.tick(text="é")
    place.put("skills/aeo/overlay.md", "one\ntwo\n")
    place.store.commit_all([row_tick(text=str(n)) for n in range(25)])
    assert place.texts() == ["é", *map(str, range(25))]
    assert (place.root / "skills/aeo/overlay.md").read_bytes() == b"one\ntwo\n"
    assert place.store.tree.read("skills/aeo/overlay.md") == b"one\ntwo\n"
    assert place.porcelain() == []
    place.write("mine.txt", "x\n")
    place.git("add", "mine.txt")
    place.git("commit", "-q", "--no-verify", "-m", "mine")
    assert place.changed() == ["mine.txt"]
    place.healthy()


def test_filters_and_attributes_do_not_change_what_is_stored(place: Place) -> None:
    place.git("config", "filter.shout.clean", "tr a-z A-Z")
    place.git("config", "filter.shout.smudge", "tr A-Z a-z")
    (place.workspace.git_dir / "info").mkdir(exist_ok=True)
    (place.workspace.git_dir / "info/attributes").write_text("*.md filter=shout\n*.ndjson filter=shout eol=crlf\n")
    place.put("skills/aeo/overlay.md", "one\n")
    place.tick(text="quiet")
    assert place.store.tree.read("skills/aeo/overlay.md") == b"one\n"
    assert place.texts() == ["quiet"]


def test_a_replaced_object_is_not_followed(place: Place) -> None:
    place.tick(text="a")
    place.git("replace", "HEAD", "HEAD~1")
    place.tick(text="b")
    assert place.texts() == ["a", "b"]


def test_the_scripts_of_the_cases_are_all_used() -> None:
    folder = Path(__file__).parent
    tests = "".join(path.read_text() for path in folder.glob("test_*.py"))
    for path in (folder.parent / "fixtures" / "git").glob("*.sh"):
        assert f'"{path.stem}"' in tests, path.stem
