"""Fixtures of the client tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from .places import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workspace in a project, with an exported snapshot."""
    return Place(tmp_path)
