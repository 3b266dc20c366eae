"""Where the base of a skill lies when it is not in the workspace: noted with the first lesson about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from harness.skills import find
from harness.store import files
from harness.store.commit import Store
from harness.store.tick import ABSENT, Replace, Write, sha256


def base_of(store: Store, skill: str, env: Mapping[str, str]) -> bytes | None:
    """The bytes of a skill's SKILL.md: the workspace's committed one, else the file of the source that wins."""
    data = store.tree.read(f"skills/{skill}/SKILL.md")
    if data is not None:
        return data
    found = source_of(store, skill, env)
    return files.read(found.path / "SKILL.md") if found else None


def source_of(store: Store, skill: str, env: Mapping[str, str]) -> find.Skill | None:
    """The base whose lessons lie in the workspace's folder ``skill``."""
    home = Path(env.get("HOME") or "/")
    skills = find.find_all(store.workspace.root, store.workspace.project, home, env)
    return next((s for s in reversed(skills) if s.folder == skill), None)


def origin(store: Store, skill: str, env: Mapping[str, str]) -> list[Write]:
    """The write that notes where the base of ``skill`` lies; none when it is noted, or lies in the workspace itself."""
    place = f"skills/{skill}/origin.json"
    if store.tree.read(place) is not None or store.tree.read(f"skills/{skill}/SKILL.md") is not None:
        return []
    found = source_of(store, skill, env)
    if found is None:
        return []
    base = files.read(found.path / "SKILL.md")
    value = {"source": found.source, "path": str(found.path), "base_sha256": sha256(base) if base is not None else None}
    return [Replace(place, json.dumps(value, indent=1) + "\n", ABSENT)]
