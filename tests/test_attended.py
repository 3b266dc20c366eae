"""Who counts as a person: real terminals, real process trees, and a process cut off from whoever runs the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.persons import detached

from harness import attended

ASK = (
    "from harness import attended\n"
    "try:\n attended.require_person('deciding'); print('PERSON')\n"
    "except attended.NeedsPerson as e: print('NO', e.exit_code, e)\n"
)


def client(tmp_path: Path, name: str) -> Path:
    """A program of that name that runs its arguments and waits for them, as a client runs a tool."""
    path = tmp_path / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('#!/bin/sh\n"$@"\nexit $?\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def ask(tmp_path: Path) -> list[str]:
    return [sys.executable, "-P", "-c", ASK]


def test_a_terminal_of_ones_own_is_a_person(tmp_path: Path, ask: list[str]) -> None:
    assert detached(ask, tmp_path, terminal=True) == "PERSON\n"


def test_without_a_terminal_nobody_is_there(tmp_path: Path, ask: list[str]) -> None:
    said = detached(ask, tmp_path, terminal=False)
    assert said.startswith("NO 3 deciding is for a person")
    assert "no terminal" in said


@pytest.mark.parametrize(("mark", "name"), sorted(attended.MARKS.items()))
def test_a_clients_variable_says_agent(tmp_path: Path, ask: list[str], mark: str, name: str) -> None:
    said = detached(ask, tmp_path, terminal=True, env={mark: "1"})
    assert said.startswith("NO 3")
    assert name in said


def test_taking_the_variable_away_leaves_it_in_the_shell_above(tmp_path: Path, ask: list[str]) -> None:
    shell = ["/bin/sh", "-c", 'env -u CLAUDECODE "$@"; exit $?', "sh", *ask]
    assert "Claude Code" in detached(shell, tmp_path, terminal=True, env={"CLAUDECODE": "1"})


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "claude.exe"])
def test_a_client_above_with_no_variable_at_all_is_seen(tmp_path: Path, ask: list[str], name: str) -> None:
    tree = [str(client(tmp_path, name)), "/bin/sh", "-c", '"$@"; exit $?', "sh", *ask]
    assert detached(tree, tmp_path, terminal=True).startswith("NO 3")


def test_a_clients_package_that_an_interpreter_runs_is_seen(tmp_path: Path, ask: list[str]) -> None:
    script = client(tmp_path, "node_modules/@openai/codex/bin/run")
    assert "Codex" in detached(["/bin/bash", str(script), *ask], tmp_path, terminal=True)


def test_a_script_that_only_speaks_of_a_client_is_none(tmp_path: Path, ask: list[str]) -> None:
    tool = client(tmp_path, "tool")
    tree = ["/bin/sh", "-c", 'shift; "$@"; exit $?', "claude-notes", "claude", str(tool), *ask]
    assert detached(tree, tmp_path, terminal=True) == "PERSON\n"


def test_a_terminal_under_a_client_is_the_clients(tmp_path: Path, ask: list[str]) -> None:
    """A pseudo-terminal is quickly made: `script` gives one to whatever it runs."""
    if shutil.which("script") is None:
        inner = [sys.executable, "-P", "-c", "import pty,sys; pty.spawn(sys.argv[1:])", *ask]
    else:
        inner = ["script", "-qec", f'{sys.executable} -P -c "{ASK}"', "/dev/null"]
    tree = [str(client(tmp_path, "claude")), *inner]
    said = detached(tree, tmp_path, terminal=True)
    assert "NO 3" in said
    assert "Claude Code" in said


def test_ps_tells_the_same_tree_where_there_is_no_proc() -> None:
    here, other = attended._from_proc(os.getpid()), attended._from_ps(os.getpid())
    assert here is not None
    assert other is not None
    assert here.parent == other.parent == os.getppid()
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert attended._from_ps(gone.pid) is None
