"""What every test stands on: a home of its own, no git variables from outside, and a workspace to work in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures import workspaces
from fixtures.workspaces import Place


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh home without any configuration, so that nothing of the person who runs the tests leaks in or out."""
    home = tmp_path / "home"
    home.mkdir()
    for name in list(os.environ):
        if name.startswith(("GIT_", "HARNESS_", "XDG_", "CLAUDE_PROJECT")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


@pytest.fixture
def place(tmp_path: Path, own_home: Path) -> Iterator[Place]:
    """A real workspace with a person's repository life around it: nothing staged, nothing dirty."""
    with workspaces.make(tmp_path / "workspace") as made:
        yield made
