"""A workspace in a scratch project, driven in this process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.flows import install
from harness.flows.drain import Drained, drain
from harness.flows.observe import LOG, Observed, observe
from harness.store.commit import Store
from harness.store.tick import Replace, Tick, sha256
from harness.workspace import Workspace
from tests.cli.conftest import Project, make_project


class Bench:
    """A workspace with the skill aeo, its store, and what agents and hooks do to it."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.workspace: Workspace = install.lay_out(project.workspace, project.root, lambda line: None)
        project.skill("aeo")
        self.store = Store(self.workspace)
        self.env = project.env
        self.log = self.workspace.root / LOG
        self.said: list[str] = []

    def append(self, *lines: str) -> None:
        """What an agent's echo does."""
        for line in lines:
            subprocess.run(["/bin/sh", "-c", 'echo "$1" >> "$2"', "sh", line, str(self.log)], check=True)

    def spool(self, payload: dict[str, Any], name: str) -> None:
        """What the hook of a finished process left."""
        (self.workspace.spool / name).write_text(json.dumps(payload), "utf-8")

    def observe(self) -> Observed:
        return observe(self.store, self.env)

    def drain(self, **kwargs: Any) -> Drained:
        return drain(self.store, self.env, self.said.append, **kwargs)

    def set(self, **settings: Any) -> None:
        """Settings, committed as a person does."""
        from harness.settings import with_value

        path = "state/harness.yaml"
        old = self.store.tree.read(path) or b""
        text = old.decode()
        for name, value in settings.items():
            text = with_value(text, name.replace("__", "."), value)
        self.store.commit(Tick("settings", "test", [Replace(path, text, sha256(old))]))

    def rows(self, path: str) -> list[dict[str, Any]]:
        return [row for row in self.store.rows(path) if isinstance(row, dict)]

    def feedback(self) -> list[dict[str, Any]]:
        return self.rows("state/log/feedback.ndjson")

    def queue(self) -> list[str]:
        return [row["op"] for row in self.rows("state/regen/queue.ndjson")]

    def read(self, path: str) -> str:
        return (self.store.tree.read(path) or b"").decode()

    def command(self, script: str) -> list[str]:
        """A dispatch command: a shell script that gets the prompt on its standard input."""
        path = self.project.home / f"model-{len(list(self.project.home.iterdir()))}.sh"
        path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        path.chmod(0o755)
        return [str(path)]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    project = make_project(tmp_path)
    monkeypatch.setenv("HOME", str(project.home))
    for name in ("CLAUDECODE", "CLAUDE_CONFIG_DIR", "HARNESS_WORKSPACE", "HARNESS_LINEAGE", "CLAUDE_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    one = Bench(project)
    yield one
    one.store.close()


Make = Callable[..., dict[str, Any]]
