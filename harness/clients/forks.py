"""Which skill a starting subagent is the fork of, as far as a hook can know it.

SubagentStart names no skill. A fork of the model's call shows as an open Skill call at the end of the transcript; a
fork of a typed skill starts before the model has said a word. In every other case the answer is: not sure, so none.
"""

from __future__ import annotations

import json
import os

from harness.clients.runtime import Runtime

TYPE_CHECKING = False  # importing typing would cost each hook half the start of a bare interpreter
if TYPE_CHECKING:
    from typing import Any

TAIL_BYTES = 64 * 1024
_AGENTS = frozenset({"Agent", "Task"})


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


def open_calls(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tool calls among ``entries`` that have no result yet, in order."""
    done = {block.get("tool_use_id") for entry in entries for block in _blocks(entry, "tool_result")}
    return [b for entry in entries for b in _blocks(entry, "tool_use") if b.get("id") not in done]


def forked_skill(payload: dict[str, Any], place: Runtime) -> str | None:
    """The folder of the skill whose fork starts with this SubagentStart, or None when that isn't sure."""
    session = str(payload.get("session_id") or "")
    path = payload.get("transcript_path")
    entries = tail(path) if isinstance(path, str) else []
    calls = open_calls(entries)
    if any(call.get("name") in _AGENTS for call in calls):
        return None
    for call in calls:
        given = call.get("input")
        name = given.get("skill") if isinstance(given, dict) else None
        # A call whose fork has started, or whose hook has run, is only open because the transcript lags behind.
        if call.get("name") != "Skill" or not isinstance(name, str):
            continue
        if place.mark(session, f"fork.{call.get('id')}"):
            return place.folder_of(name)
    return _typed(payload, place, session, entries)


def _typed(payload: dict[str, Any], place: Runtime, session: str, entries: list[dict[str, Any]]) -> str | None:
    text = place.marked(session, "typed")
    if not text:
        return None
    turn, since, folder = text.split("\n")
    if turn != payload.get("prompt_id"):
        return None
    os.unlink(place.marker(session, "typed"))
    spoken = any(e.get("type") == "assistant" and str(e.get("timestamp") or "") >= since for e in entries)
    return None if spoken else folder
