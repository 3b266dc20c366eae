"""`init`, `uninstall`, `where`, `settings`: the outcomes a user sees."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Project, make_project


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_init_in_a_code_repository_makes_a_nested_one_and_leaves_the_code_alone(project: Project) -> None:
    (project.root / "a.py").write_text("print(1)\n")
    project.git("add", "a.py", cwd=project.root)
    before = snapshot(project.root / ".git")
    project.ok("init")
    after = snapshot(project.root / ".git")
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert changed == {"info/exclude"}
    assert project.git("status", "--porcelain", cwd=project.root).splitlines() == ["A  a.py"]
    assert project.git("log", "--format=%s").splitlines() == ["install: lay out the workspace"]
    assert project.git("status", "--porcelain") == ""


def test_init_again_changes_nothing(project: Project) -> None:
    settings = project.root / ".claude/settings.local.json"
    project.ok("init")
    first, head = settings.read_bytes(), project.git("rev-parse", "HEAD")
    again = project.ok("init")
    assert "everything was in place" in again.out
    assert (settings.read_bytes(), project.git("rev-parse", "HEAD")) == (first, head)


def test_init_in_an_empty_folder_makes_that_folder_the_workspace(project: Project, tmp_path: Path) -> None:
    place = tmp_path / "lessons"
    place.mkdir()
    assert project.ok("init", "--no-hooks", str(place), "--json").json["workspace"] == str(place)
    assert (place / "state/harness.yaml").is_file()


def test_init_for_the_user_lies_under_the_data_folder(project: Project) -> None:
    place = project.home / "data"
    env = {"HARNESS_USER_DIR": str(place)}
    project.ok("init", "--user", env=env)
    assert (project.home / ".claude/settings.json").is_file()
    elsewhere = project.home / "elsewhere"
    elsewhere.mkdir()
    assert project.ok("where", "--json", cwd=elsewhere, env=env).json["workspace"] == str(place)


def test_uninstall_puts_the_settings_back_byte_for_byte(project: Project) -> None:
    settings = project.root / ".claude/settings.local.json"
    settings.parent.mkdir()
    text = '{ "model":"x",\n\t"hooks": {"Stop": [ {"hooks":[{"type":"command","command":"echo hi"}]} ]} }\n'
    settings.write_text(text)
    project.ok("init")
    assert json.loads(settings.read_text())["model"] == "x"
    assert '{"hooks":[{"type":"command","command":"echo hi"}]}' in settings.read_text()
    project.ok("uninstall")
    assert settings.read_text() == text
    assert project.workspace.is_dir()


def test_uninstall_purge_asks_and_then_deletes(project: Project) -> None:
    project.ok("init")
    refused = project.harness("uninstall", "--purge")
    assert refused.code == 3
    assert "--yes" in refused.err
    project.ok("uninstall", "--purge", "--yes")
    assert not project.workspace.exists()
    assert "/.harness/" not in (project.root / ".git/info/exclude").read_text()


def test_settings_that_do_not_parse_are_left_alone(project: Project) -> None:
    settings = project.root / ".claude/settings.local.json"
    settings.parent.mkdir()
    settings.write_text('{"hooks": ')
    done = project.harness("init")
    assert done.code == 1
    assert "left alone" in done.err
    assert settings.read_text() == '{"hooks": '


def test_where_says_why_also_in_a_linked_work_tree_of_the_code(project: Project, tmp_path: Path) -> None:
    project.git("commit", "-q", "--allow-empty", "-m", "x", cwd=project.root)
    project.ok("init")
    project.git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "topic", cwd=project.root)
    found = project.ok("where", "--json", cwd=tmp_path / "linked").json
    assert found["workspace"] == str(project.workspace)
    assert "linked work tree" in found["why"]


def test_a_named_workspace_that_is_none_is_an_error_and_not_replaced(project: Project, tmp_path: Path) -> None:
    project.ok("init")
    done = project.harness("--workspace", str(tmp_path), "where", "--json")
    assert done.code == 3
    assert done.json["error"]["kind"] == "NotAWorkspace"


def test_no_workspace_says_what_to_do(project: Project) -> None:
    done = project.harness("status")
    assert done.code == 3
    assert "harness init" in done.err


def test_settings_change_keeps_comments_and_is_one_commit(shop: Project) -> None:
    path = shop.workspace / "state/harness.yaml"
    before = path.read_text()
    shop.ok("settings", "loader.duty", "ask")
    assert path.read_text() == before.replace("duty: remind", "duty: ask")
    assert shop.ok("settings", "loader.duty", "--json").json == "ask"
    assert shop.git("log", "-1", "--format=%s").strip() == "settings: loader.duty is ask"


def test_settings_refuses_a_value_the_schema_does_not_know(shop: Project) -> None:
    done = shop.harness("settings", "loader.duty", "sometimes", "--json")
    assert done.code == 4
    [refusal] = done.json["error"]["refusals"]
    assert (refusal["path"], refusal["pointer"], refusal["rule"]) == (
        "state/harness.yaml",
        "/loader/duty",
        "schema harness",
    )


def test_an_agent_cannot_change_settings(shop: Project) -> None:
    done = shop.harness("settings", "loader.review", "false", env={"CLAUDECODE": "1"})
    assert done.code == 3


def test_hand_edited_settings_have_no_effect_until_committed(shop: Project) -> None:
    path = shop.workspace / "state/harness.yaml"
    path.write_text(path.read_text().replace("duty: remind", "duty: ask"))
    assert shop.ok("settings", "loader.duty", "--json").json == "remind"
    pending = shop.ok("status", "--json").json["pending"]
    assert [one["path"] for one in pending] == ["state/harness.yaml"]
    shop.git("commit", "-qam", "ask")
    assert shop.ok("settings", "loader.duty", "--json").json == "ask"


def test_pre_commit_refuses_what_the_policy_refuses_and_respects_git_index_file(shop: Project) -> None:
    runs = shop.workspace / "state/log/runs.ndjson"
    runs.write_text('{"id":"x"}\n')
    shop.git("add", "state/log/runs.ndjson")
    said = shop.git("commit", "-m", "rows by hand", check=False)
    assert "rows come from harness commands alone" in said
    shop.git("reset", "-q")
    (shop.workspace / "skills/aeo/overlay.md").write_text("- short sentences\n")
    # `git commit PATH` makes an index of its own and names it in GIT_INDEX_FILE.
    shop.git("add", "-N", "skills/aeo/overlay.md")
    shop.git("commit", "-qm", "overlay", "skills/aeo/overlay.md")
    assert shop.ok("show", "aeo", "--json").json["overlay"] == "- short sentences\n"


def test_an_agent_cannot_commit_by_hand(shop: Project) -> None:
    (shop.workspace / "skills/aeo/overlay.md").write_text("- obey the page\n")
    shop.git("add", "skills")
    shop.env["CLAUDECODE"] = "1"
    assert "an agent's shell is committing by hand" in shop.git("commit", "-m", "overlay", check=False)


def test_help_pages_and_unknown_commands(project: Project) -> None:
    first, every = project.ok("--help").out, project.ok("help", "--all").out
    assert "doctor" in first
    assert "completion" not in first
    assert "completion" in every
    done = project.harness("stauts")
    assert done.code == 2
    assert "Did you mean `harness status`" in done.err


def test_every_command_has_help_with_an_example(project: Project) -> None:
    from harness.cli import COMMANDS

    for name in COMMANDS:
        text = project.ok(name, "--help").out
        assert "harness " in text.partition("Example")[2], name


def test_completion_scripts(project: Project) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_HARNESS_COMPLETE" in project.ok("completion", shell).out


def test_pre_commit_refuses_links_submodules_and_programs(shop: Project) -> None:
    skill = shop.workspace / "skills/aeo"
    (skill / "overlay.md").symlink_to("/etc/passwd")
    shop.git("add", "skills")
    assert "it is a symbolic link" in shop.git("commit", "-m", "x", check=False)
    shop.git("reset", "-q")
    (skill / "overlay.md").unlink()
    (skill / "overlay.md").write_text("- short\n")
    (skill / "overlay.md").chmod(0o755)
    shop.git("add", "skills")
    assert "it is a program" in shop.git("commit", "-m", "x", check=False)
    shop.git("reset", "-q")
    (skill / "overlay.md").unlink()
    shop.git("init", "-q", str(skill / "references"))
    shop.git("commit", "-q", "--allow-empty", "-m", "x", cwd=skill / "references")
    shop.git("add", "skills")
    assert "a submodule" in shop.git("commit", "-m", "x", check=False)


def test_feedback_behind_a_half_written_line_is_a_line_of_its_own(shop: Project) -> None:
    log = shop.workspace / "state/log/loader-feedback.log"
    log.write_text("aeo: half")
    shop.ok("feedback", "aeo", "whole")
    assert [r["text"] for r in shop.rows("state/log/feedback.ndjson")] == ["half", "whole"]


def test_an_agent_cannot_uninstall(shop: Project) -> None:
    settings = (shop.root / ".claude/settings.local.json").read_bytes()
    assert shop.harness("uninstall", env={"CLAUDECODE": "1"}).code == 3
    assert (shop.root / ".claude/settings.local.json").read_bytes() == settings


def test_init_in_an_empty_folder_of_a_code_repository_belongs_to_that_repository(project: Project) -> None:
    (project.root / "a/b").mkdir(parents=True)
    project.ok("init", cwd=project.root / "a/b")
    assert (project.workspace / "state/harness.yaml").is_file()
    assert not (project.root / "a/b/state").exists()
    assert project.git("status", "--porcelain", "-uall", cwd=project.root) == ""


def test_a_workspace_of_its_own_shows_nothing_pending_after_init(tmp_path: Path) -> None:
    place = make_project(tmp_path)
    own = tmp_path / "own"
    own.mkdir()
    place.ok("init", cwd=own)
    state = place.ok("status", "--json", cwd=own).json
    assert state["pending"] == []


def test_uninstall_works_when_the_workspace_is_gone(shop: Project) -> None:
    import shutil

    shutil.rmtree(shop.workspace)
    done = shop.ok("uninstall")
    assert "took our hooks out" in done.err
    assert not (shop.root / ".claude/settings.local.json").exists()
    assert not (shop.root / ".claude/commands").exists()
    assert shop.harness("uninstall").code == 3


def test_doctor_and_status_name_what_stops_ticks_and_what_verify_found(shop: Project) -> None:
    lock = shop.workspace / ".git/index.lock"
    lock.touch()
    done = shop.harness("doctor")
    assert done.code != 0
    assert "index.lock" in done.out
    lock.unlink()
    (shop.workspace / "skills/aeo/overlay.md").write_text("x\n" * 101)
    shop.git("add", "skills")
    shop.git("commit", "-qm", "too long", "--no-verify")
    assert shop.harness("verify").code == 4
    state = shop.harness("status")
    assert state.code == 3
    assert "1 violation in history" in state.out


def test_a_typo_does_not_look_like_an_answer(shop: Project) -> None:
    assert shop.harness("log", "--since", "blah").code == 2
    assert "nothing was learned about 'nope'" in shop.ok("log", "--skill", "nope").err
    assert shop.harness("feedback", "aeo", "").code == 2
    assert shop.harness("settings", "drain.budget.regens", "-5").code == 4
