"""The real Claude Code against a scripted model, offline: the pinned client is installed where tests run, never kept here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Project, make_project
from tests.fixtures.fake_model import FakeModel

_CACHED = Path.home() / ".cache/e2e-clients/claude/node_modules/.bin/claude"
CLAUDE = shutil.which(os.environ.get("CLAUDE_BIN") or "claude") or (str(_CACHED) if _CACHED.exists() else None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CLAUDE is None:
        skip = pytest.mark.skip(reason="Claude Code is not installed (set CLAUDE_BIN); CI installs it")
        for item in items:
            if "tests/e2e" in str(item.path):
                item.add_marker(skip)


@dataclass
class Session:
    """One finished run of the client: the process, and the requests of the main conversation."""

    code: int
    out: str
    err: str
    requests: list[dict[str, Any]]

    def saw(self, text: str) -> list[int]:
        """Numbers of the model requests (from 0) that hold ``text`` anywhere."""
        return [n for n, r in enumerate(self.requests) if text in json.dumps(r["body"], ensure_ascii=False)]


@dataclass
class Client:
    """A project that harness is set up in, and the client to work there."""

    project: Project
    folder: Path
    runs: int = 0

    def run(
        self, turns: Any, prompt: str = "do it", *args: str, allowed: str = "Bash Write Edit Read Skill", **env: str
    ) -> Session:
        self.runs += 1
        record = self.folder / f"requests{self.runs}.jsonl"
        with FakeModel(turns, str(record)) as model:
            clean = {
                "PATH": os.environ["PATH"], "HOME": str(self.project.home), "ANTHROPIC_BASE_URL": model.url,
                "ANTHROPIC_API_KEY": "dummy", "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1",
                "DISABLE_ERROR_REPORTING": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", **env,
            }  # fmt: skip
            command = [os.path.abspath(CLAUDE or ""), "-p", prompt, "--allowedTools", allowed, *args]
            done = subprocess.run(
                command, cwd=self.project.root, env=clean, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=90, check=False,
            )  # fmt: skip
            # The drain that Stop has started may still call the model; it ends by itself.
            self.settle()
        lines = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
        return Session(done.returncode, done.stdout, done.stderr, [r for r in lines if r["lane"] == "main"])

    def settle(self, seconds: float = 20.0) -> None:
        """Wait until no drain is at work and the spool is empty."""
        until = time.monotonic() + seconds
        quiet = 0
        while time.monotonic() < until and quiet < 4:
            state = self.project.harness("status", "--json").json
            quiet = quiet + 1 if not state["drain"] and not state["spool"] else 0
            time.sleep(0.15)

    def wait(self, ready: Callable[[], bool], seconds: float = 20.0) -> None:
        until = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < until, self.project.harness("status").out
            time.sleep(0.1)

    def subjects(self) -> list[str]:
        return self.project.git("log", "--format=%s").splitlines()


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """A project with `harness init` done and the skill aeo in the workspace."""
    project = make_project(tmp_path)
    project.ok("init")
    project.skill("aeo", "# aeo\n\nSKILL-BODY\n")
    return Client(project, tmp_path)


def bash(command: str) -> dict[str, Any]:
    """The model's Bash call."""
    return {"tool": "Bash", "input": {"command": command, "description": "x"}}


def tool(name: str, **given: Any) -> dict[str, Any]:
    """Any other tool call of the model."""
    return {"tool": name, "input": given}
