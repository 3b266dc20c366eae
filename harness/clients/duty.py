"""Feedback at the end of a turn: the lines of the agent's last message, and the question for one that is missing."""

from __future__ import annotations

import os
import re

from harness.clients.runtime import Runtime

TYPE_CHECKING = False  # importing typing would cost each hook half the start of a bare interpreter
if TYPE_CHECKING:
    from typing import Any

LOG = os.path.join("state", "log", "loader-feedback.log")
FEEDBACK = "harness-feedback:"
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")


def log_path(place: Runtime) -> str:
    """The log that agents append to, in the work tree."""
    return os.path.join(place.root, LOG)


def feedback_lines(message: str) -> list[str]:
    """The feedback lines of an agent's message, each ready to be parsed; quotations and code blocks are left out."""
    if FEEDBACK not in message.casefold():
        return []
    lines, fence = [], ""
    for line in message.splitlines():
        mark = _FENCE.match(line)
        if mark and not fence and "`" not in line[mark.end() :]:
            fence = mark[1]
        elif mark and fence and mark[1].startswith(fence):
            fence = ""
        elif not fence:
            bare = line.strip().strip("`*").lstrip("-+ ").strip("`*").strip()
            if bare.casefold().startswith(FEEDBACK):
                lines.append(FEEDBACK + bare[len(FEEDBACK) :])
    return lines


def note_message(payload: dict[str, Any], place: Runtime) -> None:
    """Note the feedback lines of ``last_assistant_message`` in the spool, and for which skills there were any."""
    lines = feedback_lines(str(payload.get("last_assistant_message") or ""))
    if not lines:
        return
    session, turn, agent = str(payload.get("session_id") or ""), payload.get("prompt_id"), payload.get("agent_id")
    place.note("stop", session=session, turn=turn, agent_id=agent, lines=lines)
    for folder in place.skills:
        if _speaks_of(folder, [line[len(FEEDBACK) :].strip() for line in lines], place):
            place.mark(session, "said." + folder)


def _speaks_of(folder: str, lines: list[str], place: Runtime) -> bool:
    names = (folder, *(place.skills[folder].get("names") or ()))
    return any(line.startswith(f"{name}:") for line in lines for name in names)


def ask(payload: dict[str, Any], place: Runtime) -> dict[str, Any] | None:
    """With ``loader.duty: ask``: block once a skill and session when a skill with a loader got no feedback line."""
    if payload.get("stop_hook_active") or place.setting("loader", "duty") != "ask":
        return None
    session, missing = str(payload.get("session_id") or ""), []
    for folder in place.markers(session, "skill."):
        if not place.skills.get(folder, {}).get("loader") or place.marked(session, "said." + folder) is not None:
            continue
        logged = _logged_since(place, place.marked(session, "skill." + folder) or "0")
        if not _speaks_of(folder, logged, place) and place.mark(session, "asked." + folder):
            missing.append(folder)
    if not missing:
        return None
    lines = "\n".join(f"{FEEDBACK} {folder}: what was missing [LOGGED]" for folder in missing)
    return {
        "decision": "block",
        "reason": "You used skills whose notes may have fallen short. For each that did, end your message with its"
        f" line; if none did, say so in a word and stop.\n{lines}",
    }


def _logged_since(place: Runtime, mark: str) -> list[str]:
    """The lines of the feedback log from the byte ``mark`` on, without their time."""
    try:
        with open(log_path(place), "rb") as file:
            start = int(mark)
            # A log that is shorter than it was has been rotated away since: the new one is read from its start.
            file.seek(start if start <= file.seek(0, os.SEEK_END) else 0)
            text = file.read().decode("utf-8", "replace")
    except (OSError, ValueError):
        return []
    lines = [line.strip() for line in text.splitlines()]
    return [line.partition("]")[2].strip() if line.startswith("[") else line for line in lines]
