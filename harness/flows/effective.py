"""The effective skill: base + overlay, the overlay's lines with where each comes from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.errors import USAGE, HarnessError
from harness.flows.origin import base_of, source_of
from harness.skills import find
from harness.store import history
from harness.store.commit import Store


class NoBase(HarnessError):
    """The skill's base can't be read."""

    exit_code = USAGE


@dataclass(frozen=True)
class Line:
    """A line of an overlay: ``origin`` is user, tool, or hand (a person's own commit); ``commit`` brought it."""

    text: str
    origin: str
    commit: str


@dataclass(frozen=True)
class Effective:
    """A skill as an agent gets it. ``text`` is the base, then the overlay; the file of the base is ``base_path``."""

    name: str
    base_path: str | None
    text: str
    lines: list[Line]

    def as_dict(self) -> dict[str, Any]:
        """The JSON object of ``--json``."""
        return asdict(self)


def effective(store: Store, name: str, env: Mapping[str, str]) -> Effective:
    """Read the committed overlay of the skill called ``name`` with its base. Raises UnknownSkill."""
    home = Path(env.get("HOME") or "/")
    skills = find.find_all(store.workspace.root, store.workspace.project, home, env)
    folder = find.resolve(name, skills, store.tree.folders("skills"))
    base = base_of(store, folder, env)
    source = source_of(store, folder, env)
    overlay = (store.tree.read(f"skills/{folder}/overlay.md") or b"").decode("utf-8", "replace")
    text = (base or b"").decode("utf-8", "replace")
    if overlay.strip():
        text = f"{text.rstrip()}\n\n{overlay}" if text.strip() else overlay
    path = os.fspath(source.path / "SKILL.md") if source else None
    return Effective(folder, path, text if text.endswith("\n") or not text else text + "\n", _lines(store, folder))


def _lines(store: Store, folder: str) -> list[Line]:
    path = f"skills/{folder}/overlay.md"
    if not store.tree.blob_id(path):
        return []
    out, at = [], ""
    origins: dict[str, tuple[str, str]] = {}
    for line in store.git.text("blame", "--porcelain", "HEAD", "--", path).split("\n"):
        head = re.fullmatch(r"([0-9a-f]{40}|[0-9a-f]{64}) \d+ \d+(?: \d+)?", line)
        if head:
            at = head[1]
        elif line.startswith("\t"):
            if at not in origins:
                entry = history.find(store.git, at)
                origins[at] = (
                    entry.trailers.get("Origin", "hand" if entry.kind in (None, "human") else "user"),
                    entry.short,
                )
            out.append(Line(line[1:].rstrip("\r"), *origins[at]))
    return out
