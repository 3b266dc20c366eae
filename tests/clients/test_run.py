"""hooks/run: the plugin and shared settings find workspace and program by themselves, and run no stranger's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import harness

from .places import HOOK, HOOKS, Answer, Place

TOP = HOOKS.parent


class Plugin:
    """A plugin folder, a PATH of its own, and the data folder that the client gives it."""

    def __init__(self, place: Place, base: Path) -> None:
        self.place = place
        self.folder = base / "plug in"
        self.data = base / "plugin data"
        self.bin = base / "bin"
        for folder in (self.folder, self.data, self.bin):
            folder.mkdir(parents=True)
        shutil.copytree(HOOKS, self.folder / "hooks")
        for tool in ("sh", "cat", "timeout", "date", "mkdir"):
            (self.bin / tool).symlink_to(str(shutil.which(tool)))

    def program(self, name: str, answer: str, folder: Path | None = None) -> Path:
        """Put a program on PATH (or into ``folder``) that answers the handshake, and counts how often it is run."""
        path = (folder or self.bin) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        count, other = f"echo x >>'{path}.runs'", '[ "$1" = --handshake ] || echo STRANGER'
        path.write_text(f"#!/bin/sh\n{count}\n{other}\ncat <<'E'\n{answer}\nE\n")
        path.chmod(0o755)
        return path

    def install(self, name: str = "git-harness", python: str = sys.executable, hook: Path = HOOK) -> Path:
        return self.program(name, f"git-harness 1 {python} {hook}")

    def env(self, **extra: str) -> dict[str, str]:
        env = self.place.env(CLAUDE_PLUGIN_ROOT=str(self.folder), CLAUDE_PLUGIN_DATA=str(self.data), PATH=str(self.bin))
        return env | extra

    def run(self, *args: str, data: bytes | dict[str, Any] = b"{}", **extra: str) -> Answer:
        sent = data if isinstance(data, bytes) else json.dumps(data).encode()
        command = ["/bin/sh", str(self.folder / "hooks" / "run"), *args]
        done = subprocess.run(command, input=sent, capture_output=True, env=self.env(**extra), cwd=self.place.base)
        return Answer(done.returncode, done.stdout, done.stderr)

    def runs(self, name: str) -> int:
        counted = Path(f"{self.bin / name}.runs")
        return len(counted.read_text().splitlines()) if counted.exists() else 0


@pytest.fixture
def plugin(place: Place, tmp_path: Path) -> Plugin:
    place.learn("demo", loader="# demo\n- a rule\n")
    return Plugin(place, tmp_path / "p")


def skill(plugin: Plugin, **extra: str) -> Answer:
    return plugin.run("PostToolUse", data=plugin.place.payload("PostToolUse-Skill.json"), **extra)


def test_an_event_reaches_the_program(plugin: Plugin) -> None:
    plugin.install()
    assert "a rule" in skill(plugin).context
    assert "a rule" in skill(plugin).context
    assert plugin.runs("git-harness") == 1  # the handshake is kept


def test_blanks_in_both_paths(plugin: Plugin, tmp_path: Path) -> None:
    odd = tmp_path / "a b" / "c d"
    odd.mkdir(parents=True)
    (odd / "my python").symlink_to(sys.executable)
    package = odd / "site x" / "harness"
    shutil.copytree(HOOK.parent.parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    plugin.install(python=str(odd / "my python"), hook=package / "clients" / "hook.py")
    assert "a rule" in skill(plugin).context


def test_the_plugins_own_environment_comes_first(plugin: Plugin) -> None:
    plugin.program("git-harness", f"git-harness 1 {sys.executable} {HOOK}", plugin.folder / ".venv" / "bin")
    plugin.program("harness", "STRANGER")
    assert "a rule" in skill(plugin).context
    assert plugin.runs("harness") == 0


@pytest.mark.parametrize(
    "answer",
    [
        "harness 3.2.1",
        "git-harness 2 /bin/sh /x/harness/clients/hook.py",
        "git-harness 1 /does/not/exist /x/harness/clients/hook.py",
        "git-harness 1 python harness/clients/hook.py",
        f"git-harness 1 {sys.executable} {HOOK}\nand more",
        f"welcome\ngit-harness 1 {sys.executable} {HOOK}",
        "",
    ],
)
def test_a_stranger_of_that_name_is_asked_once_and_never_run(plugin: Plugin, answer: str) -> None:
    plugin.program("harness", answer)
    for _ in range(3):
        assert skill(plugin).silent
    assert plugin.runs("harness") == 1
    assert plugin.place.notes == []


def test_a_program_that_comes_later_is_found(plugin: Plugin) -> None:
    assert skill(plugin).silent
    plugin.install("harness")
    assert "a rule" in skill(plugin).context


def test_a_program_that_is_gone_is_looked_for_again(plugin: Plugin, tmp_path: Path) -> None:
    (tmp_path / "old").symlink_to(sys.executable)
    plugin.install(python=str(tmp_path / "old"))
    assert skill(plugin).out
    (tmp_path / "old").unlink()
    plugin.install()
    assert skill(plugin).out
    assert plugin.runs("git-harness") == 2


def test_without_a_program_it_is_said_at_the_start_and_nowhere_else(plugin: Plugin) -> None:
    """H-03: never silence for good, never noise."""
    answer = plugin.run("SessionStart", "say")
    assert answer.json["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert "pip install git-harness" in answer.context
    assert "NoProgram" in plugin.place.errors[0]
    assert plugin.run("SessionStart").silent
    assert plugin.run("Stop").silent
    shutil.rmtree(plugin.place.root)
    assert "pip install git-harness" in plugin.run("SessionStart", "say").context


def test_spooling_needs_no_program(plugin: Plugin) -> None:
    assert plugin.run("spool", data=b'{"x": 1}').silent
    (file,) = [path for path in plugin.place.spool.iterdir() if path.is_file()]
    assert file.read_bytes() == b'{"x": 1}'


def test_the_gate(plugin: Plugin) -> None:
    plugin.install()
    payload = plugin.place.payload("PreToolUse-Write.json", cwd=str(plugin.place.project))
    assert plugin.run("gate", data=payload).silent
    payload["tool_input"] = {"file_path": ".harness/.git/config", "content": "x"}
    assert plugin.run("gate", data=payload).json["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_the_workspace_is_found_from_below_and_from_a_linked_work_tree(plugin: Plugin, tmp_path: Path) -> None:
    plugin.install()
    below = plugin.place.project / "packages" / "api"
    below.mkdir(parents=True)
    assert skill(plugin, CLAUDE_PROJECT_DIR=str(below)).out
    assert skill(plugin, CLAUDE_PROJECT_DIR=str(plugin.place.root)).out
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
    linked = ["worktree", "add", "-q", "--detach", str(tmp_path / "w t")]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], linked):
        subprocess.run([*git, *command], cwd=plugin.place.project, check=True)
    assert skill(plugin, CLAUDE_PROJECT_DIR=str(tmp_path / "w t")).out


def test_the_users_own_workspace_and_a_named_one(plugin: Plugin, tmp_path: Path) -> None:
    plugin.install()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    nowhere = {"CLAUDE_PROJECT_DIR": str(elsewhere)}
    assert skill(plugin, **nowhere).silent
    assert skill(plugin, **nowhere, HARNESS_WORKSPACE=str(plugin.place.root)).out
    assert skill(plugin, **nowhere, HARNESS_USER_DIR=str(plugin.place.root)).out
    user = plugin.place.home / ".local" / "share" / "git-harness"
    user.mkdir(parents=True)
    (user / "workspace").symlink_to(plugin.place.root)
    assert skill(plugin, **nowhere).out
    assert skill(plugin, HARNESS_WORKSPACE=str(elsewhere)).silent  # a named one is never replaced by another


def test_a_git_file_instead_of_a_folder(plugin: Plugin, tmp_path: Path) -> None:
    plugin.install()
    for target, named in ((tmp_path / "real git", str(tmp_path / "real git")), (plugin.place.project / "g", "../g")):
        (plugin.place.root / ".git").rename(target)
        (plugin.place.root / ".git").write_text(f"gitdir: {named}\n")
        assert skill(plugin).out
        (plugin.place.root / ".git").unlink()
        target.rename(plugin.place.root / ".git")


def test_runs_of_our_own_are_silent(plugin: Plugin) -> None:
    """H-42, H-43."""
    plugin.install()
    for args in (("PostToolUse",), ("spool",), ("SessionStart", "say"), ("gate",)):
        assert plugin.run(*args, HARNESS_LINEAGE="01J").silent
    assert plugin.runs("git-harness") == 0
    assert list(plugin.place.spool.iterdir()) == []


def test_no_workspace_costs_no_program(plugin: Plugin) -> None:
    plugin.install()
    shutil.rmtree(plugin.place.root)
    assert skill(plugin).silent
    assert plugin.runs("git-harness") == 0


def test_a_launcher_stands_alone(plugin: Plugin) -> None:
    """The same file, copied beside a project's settings: scripts and program are the installed ones."""
    plugin.install()
    launcher = plugin.place.project / ".claude" / "harness-hook"
    launcher.parent.mkdir()
    shutil.copy(HOOKS / "run", launcher)
    env = plugin.env()
    del env["CLAUDE_PLUGIN_ROOT"], env["CLAUDE_PLUGIN_DATA"]
    for args, data in ((["spool"], b'{"x": 1}'), (["PostToolUse"], plugin.place.bytes_of("PostToolUse-Skill.json"))):
        done = subprocess.run(["/bin/sh", str(launcher), *args], input=data, capture_output=True, env=env, check=True)
        assert (done.stderr, bool(done.stdout)) == (b"", args == ["PostToolUse"])
    assert len([path for path in plugin.place.spool.iterdir() if path.name[0].isdigit()]) == 1
    assert plugin.runs("git-harness") == 1
    assert (plugin.place.runtime / "program").exists()


def test_every_hook_of_the_plugin_goes_through_run() -> None:
    hooks = json.loads((HOOKS / "hooks.json").read_text())["hooks"]
    entries = [hook for groups in hooks.values() for group in groups for hook in group["hooks"]]
    assert {hook["command"] for hook in entries} == {"/bin/sh"}
    assert {hook["args"][0] for hook in entries} == {"${CLAUDE_PLUGIN_ROOT}/hooks/run"}
    assert max(hook["timeout"] for hook in entries) <= 60
    for event, groups in hooks.items():
        assert {hook["args"][1] for group in groups for hook in group["hooks"]} <= {event, "spool", "gate"}


def test_the_plugin_has_the_programs_version() -> None:
    assert json.loads((TOP / ".claude-plugin" / "plugin.json").read_text())["version"] == harness.__version__


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
@pytest.mark.parametrize("script", ["spool.sh", "gate.sh", "run"])
def test_scripts_are_plain_sh(shell: str, script: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    command = [shell, "sh"] if shell == "busybox" else [shell]
    subprocess.run([*command, "-n", str(HOOKS / script)], check=True)
    assert os.access(HOOKS / script, os.X_OK)
