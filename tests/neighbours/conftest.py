"""Fixtures of the neighbours' tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures import workspaces
from fixtures.workspaces import Code


@pytest.fixture
def code(tmp_path: Path, own_home: Path) -> Iterator[Code]:
    """A code repository with a nested workspace in it."""
    with workspaces.make_code(tmp_path / "code") as made:
        yield made
