"""A code repository with skills and a workspace, and the real client to work in it: nothing leaves this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fixtures.fake_model import FakeModel

TOP = Path(__file__).resolve().parent.parent.parent
CACHE = Path.home() / ".cache" / "e2e-clients" / "claude" / "node_modules" / ".bin" / "claude"
QUIET = {
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "ANTHROPIC_API_KEY": "dummy",
}


def claude_bin() -> str | None:
    """The client to test with: $CLAUDE_BIN, the pinned one of the cache, or the one on PATH."""
    named = os.environ.get("CLAUDE_BIN")
    return named or (str(CACHE) if CACHE.exists() else shutil.which("claude"))


def bash(command: str) -> dict[str, Any]:
    """The model's call of a command."""
    return {"tool": "Bash", "input": {"command": command, "description": "x"}}


def write(path: Path, content: str = "x") -> dict[str, Any]:
    """The model's call to write a file."""
    return {"tool": "Write", "input": {"file_path": str(path), "content": content}}


def use(skill: str) -> dict[str, Any]:
    """The model's use of a skill."""
    return {"tool": "Skill", "input": {"skill": skill, "args": "now"}}


class Run:
    """One finished run of the client: its output and what it sent to the model, by lane."""

    def __init__(self, done: subprocess.CompletedProcess[str], record: Path) -> None:
        self.done = done
        lines = record.read_text().splitlines() if record.exists() else []
        self.requests = [json.loads(line) for line in lines]

    def bodies(self, lane: str = "main") -> list[str]:
        """What was sent in this lane, one text a request."""
        sent = [request["body"] for request in self.requests if request["lane"] == lane]
        return [json.dumps(body, ensure_ascii=False) for body in sent]

    def saw(self, text: str, lane: str = "main") -> list[int]:
        """The numbers (from 0) of this lane's requests that hold ``text``."""
        return [number for number, body in enumerate(self.bodies(lane)) if text in body]


class Project:
    """The repository, its workspace as `harness init` makes it, and the environment of both programs."""

    def __init__(self, base: Path) -> None:
        self.base, self.home, self.folder = base, base / "home", base / "my project"
        self.home.mkdir()
        for name, front in (("demo", ""), ("forked", "context: fork\n")):
            skill = self.folder / ".claude" / "skills" / name
            skill.mkdir(parents=True)
            (skill / "SKILL.md").write_text(f"---\nname: {name}\ndescription: A {name}.\n{front}---\nBODY-OF-{name}\n")
        self.root = self.folder / ".harness"
        self.runtime = self.root / ".git" / "harness"
        self.log = self.root / "state" / "log" / "loader-feedback.log"
        (base / "bin").mkdir()
        program = base / "bin" / "harness"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m harness "$@"\n')
        program.chmod(0o755)
        who = {f"GIT_{role}_{part}": "dev" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
        self.env = who | {
            "PATH": f"{base / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "PYTHONPATH": str(TOP),
        }
        subprocess.run(["git", "init", "-q", str(self.folder)], check=True, env=self.env)

    def harness(self, *args: str) -> str:
        """Run our own command line in the project and return what it prints."""
        command = [sys.executable, "-P", "-m", "harness", *args]
        done = subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, done
        return done.stdout

    def git(self, *args: str) -> str:
        """Run git in the workspace, as a person would, and return what it prints."""
        done = subprocess.run(["git", "-C", str(self.root), *args], capture_output=True, text=True, env=self.env)
        assert done.returncode == 0, done
        return done.stdout

    def claude(
        self, turns: list[Any], prompt: str = "do it", *args: str, lanes: list[dict[str, Any]] | None = None, **env: str
    ) -> Run:
        """Run the client on ``prompt`` against the scripted ``turns`` until it ends."""
        record = self.base / f"requests-{time.monotonic_ns()}.jsonl"
        with FakeModel({"turns": turns, "lanes": lanes or []}, str(record)) as model:
            full = self.env | QUIET | {"ANTHROPIC_BASE_URL": model.url} | env
            command = [str(claude_bin()), "-p", prompt, *args]
            if "--allowedTools" not in args:
                command += ["--allowedTools", "Bash Write Edit Skill Agent"]
            pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
            done = subprocess.run(command, cwd=self.folder, env=full, timeout=120, **pipes)
        return Run(done, record)

    def eventually(self, check: Callable[[], Any]) -> None:
        """Return as soon as ``check`` is true; the background work behind a hook may take its time."""
        until = time.monotonic() + 60
        while not check():
            assert time.monotonic() < until, (self.hook_errors, self.git("log", "--format=%s"))
            time.sleep(0.05)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The committed rows of a ledger; none when there is no such file yet."""
        command = ["git", "-C", str(self.root), "show", f"HEAD:state/log/{name}.ndjson"]
        shown = subprocess.run(command, capture_output=True, text=True)
        return [json.loads(line) for line in shown.stdout.splitlines()]

    @property
    def hook_errors(self) -> str:
        """What our hooks had to complain of."""
        path = self.runtime / "hook-errors.log"
        return path.read_text() if path.exists() else ""
