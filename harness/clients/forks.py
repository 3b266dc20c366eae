"""Which skill a starting subagent is the fork of, as far as a hook can know it.

SubagentStart names no skill, and the transcript lags behind (the call that forks is often not in it yet). So PreToolUse
of Skill leaves a marker: the subagent that starts while that call is open is its fork. When anything speaks against it,
the answer is none. A fork of a skill that the user typed needs nothing here: the context of UserPromptExpansion is part
of the fork's own first request.
"""

from __future__ import annotations

import json
import os

from harness.clients.runtime import Runtime

TYPE_CHECKING = False  # importing typing would cost each hook half the start of a bare interpreter
if TYPE_CHECKING:
    from typing import Any

TAIL_BYTES = 64 * 1024
_MARKER = "calling"
_AGENTS = frozenset({"Agent", "Task"})


def calls(payload: dict[str, Any], place: Runtime) -> None:
    """The model is about to use a skill: remember the call while it is open, if anything is known about the skill."""
    tool_input = payload.get("tool_input")
    name = tool_input.get("skill") if isinstance(tool_input, dict) else None
    folder = place.folder_of(name) if isinstance(name, str) else None
    if folder:
        text = json.dumps([payload.get("tool_use_id"), payload.get("prompt_id"), folder])
        place.mark(str(payload.get("session_id") or ""), _MARKER, text, again=True)


def called(payload: dict[str, Any], place: Runtime) -> None:
    """The call has ended: a subagent that starts from now on is no fork of it."""
    _take(payload, place)


def forked_skill(payload: dict[str, Any], place: Runtime) -> str | None:
    """The folder of the skill whose fork starts with this SubagentStart, or None when that isn't sure."""
    found = _take(payload, place)
    if found is None:
        return None
    call, turn, folder = found
    path = payload.get("transcript_path")
    entries = tail(path) if isinstance(path, str) else []
    ended = {block.get("tool_use_id") for entry in entries for block in _blocks(entry, "tool_result")}
    open_calls = [b for entry in entries for b in _blocks(entry, "tool_use") if b.get("id") not in ended]
    # A call that another hook denied ends without PostToolUse; the transcript shows its result.
    stale = turn != payload.get("prompt_id") or call in ended
    return None if stale or any(b.get("name") in _AGENTS for b in open_calls) else str(folder)


def _take(payload: dict[str, Any], place: Runtime) -> list[Any] | None:
    session = str(payload.get("session_id") or "")
    text = place.marked(session, _MARKER)
    if text is None:
        return None
    os.unlink(place.marker(session, _MARKER))
    found = json.loads(text)
    return found if isinstance(found, list) and len(found) == 3 else None


def tail(path: str) -> list[dict[str, Any]]:
    """The last entries of a transcript that can be read, oldest first; empty when there is no file yet."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return []
    entries = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the first line is cut by the seek, the last one may still be on its way
        if isinstance(entry, dict):
            entries.append(entry)
    return entries


def _blocks(entry: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [b for b in content if isinstance(b, dict) and b.get("type") == kind] if isinstance(content, list) else []
