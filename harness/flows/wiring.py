"""Wiring a client to a workspace and taking the wires out: its settings file, and what we noted of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from harness.clients import settings
from harness.flows import excludes, projection
from harness.store import files
from harness.workspace import Workspace, interpreter

Say = Callable[[str], None]
LOCAL: Final = "/.claude/settings.local.json"


def target(workspace: Workspace, *, user: bool, shared: bool) -> Path:
    """The settings file to wire: the user's own, the project's shared one, or the project's local one."""
    if user:
        return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "settings.json"
    return workspace.project / ".claude" / ("settings.json" if shared else "settings.local.json")


def wire(workspace: Workspace, path: Path, *, shared: bool, permissions: bool, say: Say) -> None:
    """Merge our hooks into the settings file ``path``; every other byte of it stays."""
    entries = settings.entries(workspace.root, workspace.runtime, interpreter(), workspace.project, shared=shared)
    if settings.install(path, entries):
        say(f"wired Claude Code: {len(entries)} events in {path}")
    if path.parent.parent == workspace.project:
        if not shared:  # it names this machine's paths
            excludes.add(workspace.project, [LOCAL])
        projection.project(workspace, say)
    if permissions and settings.allow_rule(path):
        say("agents may run `harness feedback …` without a question (left out with --no-permissions)")
    note = workspace.runtime / "wired.json"
    known = wired(workspace)
    if str(path) not in known:
        files.replace(note, json.dumps([*known, str(path)]).encode(), sync=False)


def wired(workspace: Workspace) -> list[str]:
    """The settings files that were wired to this workspace."""
    try:
        value: Any = json.loads((workspace.runtime / "wired.json").read_bytes())
    except (OSError, ValueError):
        return []
    return [str(item) for item in value] if isinstance(value, list) else []


def unwire_project(start: Path, say: Say) -> bool:
    """Take our hooks and commands out of the project that ``start`` lies in, when its workspace is gone; True if there were."""
    took = False
    for folder in (start, *start.parents):
        for name in ("settings.local.json", "settings.json"):
            path = folder / ".claude" / name
            if path.is_file() and settings.remove(path):
                say(f"took our hooks out of {path}")
                took = True
        if took:
            excludes.take(folder, [LOCAL, "/.harness/"])
            projection.withdraw_from(folder, say)
            return True
    return False


def unwire(workspace: Workspace, say: Say) -> None:
    """Take our hooks and our permission rule out of every settings file that was wired to this workspace."""
    for name in wired(workspace):
        if settings.remove(Path(name)):
            say(f"took our hooks out of {name}")
    excludes.take(workspace.project, [LOCAL])
    projection.withdraw(workspace, say)
    (workspace.runtime / "wired.json").unlink(missing_ok=True)
