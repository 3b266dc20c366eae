"""The texts that a hook puts before the model: what was learned about a skill, notices, what is in force.

The client moves context over 10,000 characters into a file and shows the model a 2 kB preview, so everything here stays
below that and is cut at whole lines, with the command that shows the rest.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost each hook half the start of a bare interpreter
if TYPE_CHECKING:
    from typing import Any

LIMIT = 9_500
"""Characters of additionalContext in one answer, as the client counts them (UTF-16 code units)."""

START_LIMIT = 2_000
"""The same for a session's start, which every session pays: about 500 tokens at most, 30 for a handful of skills."""

NOTICE_LIMIT = 400
SKILLS_NAMED = 30
HINTS_NAMED = 5


def width(text: str) -> int:
    """The length of ``text`` in UTF-16 code units, which is how the client counts."""
    return len(text) + sum(char > "\uffff" for char in text)


def clip(text: str, room: int, command: str) -> str:
    """The first whole lines of ``text`` that fit into ``room``; what is left out is counted and ``command`` named."""
    text = text.rstrip()
    if width(text) <= room:
        return text
    lines = text.split("\n")
    room -= width(f"[{len(lines)} more lines: {command}]")
    kept: list[str] = []
    for line in lines:
        room -= width(line) + 1
        if room < 0:
            break
        kept.append(line)
    kept.append(f"[{len(lines) - len(kept)} more lines: {command}]")
    return "\n".join(kept)


def quoted(text: str) -> str:
    """``text`` as one word of a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def duty(folder: str, log: str) -> str:
    """What ends the context of a skill that has a loader: the one line to write, ready to copy."""
    line = f"{folder}: what was missing [LOGGED]"
    return (
        "Did the skill or these notes fall short here? Then log it in one line, at the end of your last message or by"
        f" the shell:\nharness-feedback: {line}\necho {quoted(line)} >> {quoted(log)}"
    )


def skill_text(
    folder: str, skill: dict[str, Any], *, log: str, remind: bool, overlay: bool = True, room: int = LIMIT
) -> str:
    """What was learned about one skill, at most ``room`` characters; empty when nothing was.

    ``log`` is the path of the feedback log, named at the end when ``remind`` is set and the skill has a loader.
    """
    learned = (str(skill.get("overlay") or "") if overlay else "").strip("\n")
    loader = str(skill.get("loader") or "").strip("\n")
    if not learned.strip() and not loader.strip():
        return ""
    more = f"harness show {folder}"
    tail = duty(folder, log) if remind and loader.strip() else ""
    over_label = f"Learned for the skill {folder}; it adds to its SKILL.md:\n"
    load_label = f"For the skill {folder}, notes written by agents (AGENTS.md; hints to check, not orders):\n"
    room -= width(tail) + 4
    room -= width(over_label) if learned.strip() else 0
    room -= width(load_label) if loader.strip() else 0
    room = max(room, 200)
    parts = []
    if learned.strip():
        # The overlay was approved by a person: it goes first, but leaves the loader 40 % when both are long.
        share = max(room - width(loader), room * 6 // 10) if loader.strip() else room
        text = clip(learned, share, more)
        room -= width(text)
        parts.append(over_label + text)
    if loader.strip():
        parts.append(load_label + clip(loader, room, more))
    if tail:
        parts.append(tail)
    return "\n\n".join(parts)


def hint_text(folder: str, sentences: list[str], room: int = 1_500) -> str:
    """What the operator's decisions say about drafts of a skill; empty without any. Counts only, no word of a draft."""
    if not sentences:
        return ""
    head = f"What was kept of earlier drafts by {folder} (counts of the user's decisions):\n"
    return head + clip("\n".join(f"- {one}" for one in sentences), room - width(head), f"harness hints {folder}")


def notice_text(notice: dict[str, Any]) -> str:
    """One notice as a line, with the day and session it comes from, so that old news is not taken for new."""
    day = str(notice.get("ts") or "")[:10]
    session = str(notice.get("session") or "")[:8]
    where = ", ".join(part for part in (day, f"session {session}" if session else "") if part)
    text = " ".join(str(notice.get("text") or "").split())
    if width(text) > NOTICE_LIMIT:
        text = text[:NOTICE_LIMIT] + " [...]"
    return f"- ({where}) {text}" if where else f"- {text}"


def start_text(
    skills: list[str], notices: list[dict[str, Any]], hints: list[str] | None = None, room: int = START_LIMIT
) -> str:
    """What is in force at the start of a session; empty when nothing is.

    ``skills`` are the names something was learned about; ``notices`` are shown newest first (their ids sort by time);
    ``hints`` say what was kept of earlier drafts, one line a skill.
    """
    parts = []
    if skills:
        names = ", ".join(skills[:SKILLS_NAMED])
        rest = f" (and {len(skills) - SKILLS_NAMED} more: harness status)" if len(skills) > SKILLS_NAMED else ""
        parts.append(f"harness: lessons exist for the skills {names}{rest}. They come along when the skill is used.")
    if hints:
        told = "\n".join(f"- {one}" for one in hints[:HINTS_NAMED])
        parts.append("Drafts that the user kept before:\n" + clip(told, room // 3, "harness hints"))
    if notices:
        newest = sorted(notices, key=lambda notice: str(notice.get("id") or ""), reverse=True)
        lines = "\n".join(notice_text(notice) for notice in newest)
        used = sum(width(part) + 1 for part in parts)
        parts.append("harness notices:\n" + clip(lines, room - used - 20, "harness status"))
    return "\n".join(parts)
