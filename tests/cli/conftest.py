"""The real command, in a process of its own, in a scratch project with a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Ran:
    """One finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Project:
    """A scratch project; ``home`` is its user's home, ``env`` what every command gets."""

    root: Path
    home: Path
    env: dict[str, str]

    @property
    def workspace(self) -> Path:
        return self.root / ".harness"

    @property
    def runtime(self) -> Path:
        return self.workspace / ".git/harness"

    def harness(self, *args: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> Ran:
        command = [sys.executable, "-P", "-m", "harness", *args]
        done = subprocess.run(
            command, cwd=cwd or self.root, env={**self.env, **(env or {})}, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, timeout=120,
        )  # fmt: skip
        return Ran(done.returncode, done.stdout, done.stderr)

    def ok(self, *args: str, **kwargs: Any) -> Ran:
        done = self.harness(*args, **kwargs)
        assert done.code == 0, done
        return done

    def git(self, *args: str, cwd: Path | None = None, check: bool = True) -> str:
        done = subprocess.run(
            ["git", *args], cwd=cwd or self.workspace, env=self.env, capture_output=True, text=True, check=False
        )
        assert not check or done.returncode == 0, done
        return done.stdout + ("" if check else done.stderr)

    def skill(self, name: str, body: str = "# base\n", *, commit: bool = True) -> Path:
        """A skill of the workspace, committed by a person."""
        path = self.workspace / "skills" / name / "SKILL.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"---\nname: {name}\ndescription: The skill {name}.\n---\n{body}", "utf-8")
        if commit:
            self.git("add", "skills")
            self.git("commit", "-qm", f"skills: {name}")
        return path

    def rows(self, path: str) -> list[dict[str, Any]]:
        """The committed rows of a ledger, read with git alone."""
        text = self.git("show", f"HEAD:{path}", check=False)
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def make_project(folder: Path) -> Project:
    home, root = folder / "home", folder / "shop"
    home.mkdir(parents=True)
    root.mkdir()
    env = {
        "PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LANG": "C.UTF-8",
        "GIT_AUTHOR_NAME": "Dev", "GIT_AUTHOR_EMAIL": "dev@example.invalid",
        "GIT_COMMITTER_NAME": "Dev", "GIT_COMMITTER_EMAIL": "dev@example.invalid",
    }  # fmt: skip
    project = Project(root, home, env)
    project.git("init", "-q", "-b", "main", cwd=root)
    return project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A code repository, nothing of ours in it."""
    return make_project(tmp_path)


@pytest.fixture
def shop(project: Project) -> Project:
    """The same after `harness init`, with the skill aeo."""
    project.ok("init")
    project.skill("aeo")
    return project
