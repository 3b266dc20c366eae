"""Where a workspace is found, and why that one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from fixtures.workspaces import Place, run

from harness import workspace
from harness.workspace import NESTED, NotAWorkspace, Workspace, find


@pytest.fixture
def code(tmp_path: Path, own_home: Path) -> Path:
    """A code repository with one commit and a nested workspace."""
    from harness.flows import install

    root = tmp_path / "my code é"
    run(["git", "init", "-q", "-b", "main", str(root)], tmp_path)
    (root / "a.txt").write_text("a\n")
    for args in (["add", "a.txt"], ["-c", "user.name=P", "-c", "user.email=p@x", "commit", "-q", "-m", "a"]):
        assert run(["git", *args], root).returncode == 0
    install.lay_out(root / NESTED, root, lambda line: None)
    (root / "src" / "deep").mkdir(parents=True)
    return root


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HARNESS_USER_DIR": str(tmp_path / "nobody's")}


def test_a_nested_workspace_is_found_from_anywhere_in_the_code(code: Path, env: dict[str, str]) -> None:
    for start in (code, code / "src", code / "src" / "deep", code / NESTED, code / NESTED / "state"):
        found = find(start, env)
        assert found.root == code / NESTED
        assert found.project == code
        assert found.runtime == code / NESTED / ".git" / "harness"


def test_a_workspace_that_is_the_folder_itself(place: Place, env: dict[str, str]) -> None:
    found = find(place.root / "state", env)
    assert found.root == found.project == place.root


def test_the_nearest_one_wins(code: Path, env: dict[str, str], place: Place) -> None:
    inner = code / "src" / "inner"
    place.root.rename(inner)
    assert find(inner / "state", env).root == inner
    assert find(code / "src", env).root == code / NESTED


def test_a_named_workspace_goes_first_and_is_never_replaced(code: Path, env: dict[str, str], place: Place) -> None:
    assert find(code, env, place.root).root == place.root
    assert find(code, env | {"HARNESS_WORKSPACE": str(place.root)}).root == place.root
    assert find(place.root, env, code).root == code / NESTED
    for call in (
        lambda: find(code, env, code / "src"),
        lambda: find(code, env | {"HARNESS_WORKSPACE": str(code / "src")}),
    ):
        with pytest.raises(NotAWorkspace, match="harness init") as caught:
            call()
        assert caught.value.exit_code == 3


def test_the_clients_project_is_looked_at_after_the_current_folder(
    code: Path, env: dict[str, str], place: Place, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert find(elsewhere, env | {"CLAUDE_PROJECT_DIR": str(code / "src")}).root == code / NESTED
    assert find(place.root, env | {"CLAUDE_PROJECT_DIR": str(code)}).root == place.root


def test_a_linked_work_tree_elsewhere_leads_to_the_main_one(code: Path, env: dict[str, str], tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    assert run(["git", "worktree", "add", "-q", str(linked), "-b", "topic"], code).returncode == 0
    (linked / "sub").mkdir()
    found = find(linked / "sub", env)
    assert found.root == code / NESTED
    assert "linked work tree" in found.how


def test_the_users_own_comes_last(own_home: Path, tmp_path: Path, place: Place) -> None:
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    found = find(nowhere, {"HARNESS_USER_DIR": str(place.root)})
    assert found.root == place.root
    assert "user" in found.how


def test_no_workspace_says_what_to_do(tmp_path: Path, env: dict[str, str]) -> None:
    with pytest.raises(NotAWorkspace, match="harness init"):
        find(tmp_path, env)


def test_a_folder_with_the_mark_but_no_repository_is_none(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/harness.yaml").write_text("version: 1\n")
    with pytest.raises(NotAWorkspace):
        find(tmp_path, env)
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all\n")
    with pytest.raises(NotAWorkspace):
        find(tmp_path, env)
    (tmp_path / ".git").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NotAWorkspace):
        find(tmp_path, env)


def test_a_git_file_is_followed(place: Place, env: dict[str, str], tmp_path: Path) -> None:
    (place.root / ".git").rename(tmp_path / "elsewhere.git")
    (place.root / ".git").write_text("gitdir: ../elsewhere.git\n")
    assert find(place.root, env).git_dir == tmp_path / "elsewhere.git"


def test_finding_starts_no_process_and_imports_nothing_foreign(place: Place) -> None:
    code = (
        "import sys, os, pathlib\n"
        "from harness import workspace\n"
        "sys.addaudithook(lambda event, args: event in ('subprocess.Popen', 'os.posix_spawn', 'os.exec') and os._exit(9))\n"
        "workspace.find(pathlib.Path.cwd(), {})\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('git', 'jsonschema', 'ruamel', 'click', 'platformdirs', 'subprocess')))\n"
    )
    done = run([workspace.interpreter(), "-c", code], place.root)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_the_packages_resources_are_all_there() -> None:
    for name in ("schemas/policy.yaml", "state/harness.yaml", "hooks/spool.sh"):
        assert (workspace.resources() / name).is_file()


def test_the_interpreter_is_an_absolute_path_that_runs() -> None:
    path = workspace.interpreter()
    assert os.path.isabs(path)
    assert subprocess.run([path, "-c", "print(1)"], capture_output=True, text=True, check=True).stdout == "1\n"


def test_a_workspace_knows_its_places(tmp_path: Path) -> None:
    one = Workspace(tmp_path, tmp_path / ".git", "test")
    assert one.spool == tmp_path / ".git/harness/spool"
    assert one.snapshot == tmp_path / ".git/harness/snapshot"
