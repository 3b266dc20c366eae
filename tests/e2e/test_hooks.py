"""Each hook in the real client: what reaches the model, the fork and git, and what starts no process at all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from .projects import TOP, Project, bash, claude_bin, use, write

GAP = "selector for the date field was missing"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    if claude_bin() is None:
        pytest.skip("Claude Code is not installed (set CLAUDE_BIN)")
    made = Project(tmp_path)
    made.harness("init")
    return made


def learned(project: Project, skill: str = "demo") -> None:
    """Let a person commit a loader by hand, which takes effect once the gate has passed it."""
    loader = project.root / "skills" / skill / "AGENTS.md"
    loader.parent.mkdir(parents=True)
    footer = (project.root / "state" / "regen" / "footer.md").read_text()
    sections = "\n\n".join(f"## {name}" for name in ("Critical Rules", "Commands", "Self-Test", "Known gaps"))
    loader.write_text(f"# {skill}\n\nSee SKILL.md.\n\n{sections}\n\n- 2026-11-30 {GAP}\n\n{footer}")
    project.git("add", "skills")
    project.git("commit", "-qm", "a loader")
    snapshot = project.runtime / "snapshot" / "skills" / f"{skill}.json"
    project.eventually(lambda: snapshot.exists() and GAP in snapshot.read_text())


def test_a_line_at_the_end_of_the_last_message_needs_no_tool(project: Project) -> None:
    project.claude([[use("demo")], [f"Done.\n\nharness-feedback: demo: {GAP} [LOGGED]"]])
    project.eventually(lambda: project.rows("feedback"))
    (feedback,) = project.rows("feedback")
    assert feedback["text"] == GAP


def test_the_command_asks_for_no_permission(project: Project) -> None:
    run = project.claude([[bash(f"harness feedback demo '{GAP}'")], ["ok"]], "do it", "--allowedTools", "Read")
    assert run.saw("requires approval") == []
    project.eventually(lambda: project.rows("feedback"))


def test_a_skill_named_in_the_prompt(project: Project) -> None:
    learned(project)
    assert project.claude([["ok"]], "please use demo for this").saw(GAP) == [0]


@pytest.mark.parametrize("typed", [False, True])
def test_a_fork_gets_what_was_learned_itself(project: Project, typed: bool) -> None:
    learned(project, "forked")
    lanes = [{"name": "fork", "match": "BODY-OF-forked", "turns": [["fork result"]]}]
    turns = [["done"]] if typed else [[use("forked")], ["done"]]
    run = project.claude(turns, "/forked now" if typed else "do it", lanes=lanes)
    assert run.saw(GAP, "fork") == [0]
    if not typed:
        assert run.saw(GAP) == []
    body = next(request["body"] for request in run.requests if request["lane"] == "fork")
    assert json.dumps(body).count("notes written by agents") == 1
    via = "typed" if typed else "forked"
    project.eventually(lambda: [row["via"] for row in project.rows("runs")] == [via])


def test_another_subagent_gets_nothing(project: Project) -> None:
    learned(project)
    agent = {"description": "c", "prompt": "COUNT-THEM", "subagent_type": "general-purpose", "run_in_background": False}
    lanes = [{"name": "sub", "match": "COUNT-THEM", "turns": [["three"]]}]
    run = project.claude([[use("demo")], [{"tool": "Agent", "input": agent}], ["ok"]], lanes=lanes)
    assert run.saw("COUNT-THEM", "sub") == [0]
    assert run.saw(GAP, "sub") == []


def test_an_agent_is_told_why_it_may_not_write(project: Project) -> None:
    path = project.root / "state" / "harness.yaml"
    before = path.read_bytes()
    run = project.claude([[write(path)], [write(project.folder / "a.txt")], ["ok"]])
    assert run.saw("PreToolUse:Write hook error") == [1, 2]
    assert path.read_bytes() == before
    assert (project.folder / "a.txt").read_text() == "x"
    times = (project.runtime / "hook-times.log").read_text()
    assert times.count("PreToolUse") == 1  # the client's own filter: a file elsewhere starts nothing


def test_twenty_calls_at_once_lose_nothing(project: Project) -> None:
    calls = [bash(f"echo 'demo: gap number {number:02} [LOGGED]' >> '{project.log}'") for number in range(20)]
    project.claude([calls, ["ok"]])
    texts = [f"gap number {number:02}" for number in range(20)]
    project.eventually(lambda: sorted(row["text"] for row in project.rows("feedback")) == texts)


def test_a_client_that_the_harness_started_leaves_nothing(project: Project) -> None:
    line = f"harness-feedback: demo: {GAP} [LOGGED]"
    before = project.git("rev-parse", "HEAD")
    project.claude([[use("demo")], [line]], HARNESS_LINEAGE="01J")
    assert sorted(path.name for path in (project.runtime / "spool").iterdir()) == []
    assert not (project.runtime / "hook-times.log").exists()
    assert project.git("rev-parse", "HEAD") == before


def test_the_plugin_does_the_same_without_settings(project: Project) -> None:
    learned(project)
    (project.folder / ".claude" / "settings.local.json").unlink()
    plugin = project.base / "plugin"
    plugin.mkdir()
    for part in (".claude-plugin", "hooks"):
        shutil.copytree(TOP / part, plugin / part)
    line = f"demo: {GAP}, seen by the plugin [LOGGED]"
    turns = [[use("demo")], [bash(f"echo '{line}' >> '{project.log}'")], [write(project.root / "x.md")], ["ok"]]
    run = project.claude(turns, "do it", "--plugin-dir", str(plugin))
    assert run.saw(GAP)[0] == 1
    assert run.saw("PreToolUse:Write hook error")
    project.eventually(lambda: [row["text"] for row in project.rows("feedback")] == [f"{GAP}, seen by the plugin"])


def test_registered_twice_counts_once(project: Project) -> None:
    plugin = project.base / "plugin"
    plugin.mkdir()
    for part in (".claude-plugin", "hooks"):
        shutil.copytree(TOP / part, plugin / part)
    project.claude([[use("demo")], ["harness-feedback: demo: x [LOGGED]"]], "do it", "--plugin-dir", str(plugin))
    project.eventually(lambda: project.rows("feedback") and project.rows("runs"))
    project.harness("drain", "--quiet")
    assert len(project.rows("feedback")) == 1
    assert len(project.rows("runs")) == 1


def test_shared_settings_do_their_work_through_the_launcher(project: Project) -> None:
    learned(project)
    project.harness("uninstall")
    project.harness("init", "--shared")
    text = (project.folder / ".claude" / "settings.json").read_text()
    assert str(project.base) not in text
    run = project.claude([[use("demo")], [write(project.root / "x.md")], ["ok"]])
    assert run.saw(GAP)[0] == 1
    assert run.saw("PreToolUse:Write hook error")
