"""What each hook event of Claude Code does: one function an event, ``(payload, place) -> answer or None``.

What is put before the model comes from the snapshot of the last gated commit, never from the work tree. A hook notes
and answers; the rows are made by the drain.
"""

from __future__ import annotations

import json
import os
import re
import sys

from harness.clients import context, duty, forks, proposals
from harness.clients.runtime import Runtime, digest, now_text

TYPE_CHECKING = False  # importing typing would cost each hook half the start of a bare interpreter
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Payload = dict[str, Any]
    Answer = dict[str, Any] | None
    Event = Callable[[Payload, Runtime], Answer]

NOTIFICATION = "<task-notification>"
_WORD = re.compile(r"[\w~-]+(?:[:.][\w~-]+)*")


def _text(payload: Payload, key: str) -> str:
    value = payload.get(key)
    return value if isinstance(value, str) else ""


def _context(event: str, parts: list[str]) -> Answer:
    text = "\n\n".join(part for part in parts if part)
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}} if text else None


def _untold(payload: Payload, place: Runtime) -> str:
    """Feedback lines that were not understood, told to the agent once: to the session that wrote them, if known."""
    notices = place.now.get("quarantine")
    lines: list[str] = []
    for notice in notices if isinstance(notices, list) else []:
        mine = isinstance(notice, dict) and notice.get("session") in (None, "", payload.get("session_id"))
        if mine and len(lines) < 4 and place.tell_once(str(notice.get("id"))):
            lines.append(context.notice_text({"text": notice.get("text")}))
    told = "harness could not read these feedback lines:\n" + "\n".join(lines) if lines else ""
    behind = place.now.get("behind")
    news = [context.notice_text({"text": one.get("text")}) for one in (behind if isinstance(behind, list) else [])
            if isinstance(one, dict) and place.tell_once(str(one.get("id")))]  # fmt: skip
    return "\n".join(filter(None, [told, "\n".join(["harness notices:", *news]) if news else ""]))


def _hints(place: Runtime, skill: str) -> str:
    """The taste hints of a skill."""
    found = place.now.get("hints")
    sentences = found.get(skill) if isinstance(found, dict) else None
    return context.hint_text(skill, [str(one) for one in sentences]) if isinstance(sentences, list) else ""


# -- a skill is used ---------------------------------------------------------------------------------------------------


def _skill_used(payload: Payload, place: Runtime, name: str, via: str, *, agent: str | None, give: bool) -> Answer:
    session, event = _text(payload, "session_id"), _text(payload, "hook_event_name")
    folder = place.folder_of(name)
    skill = (place.skill(folder) if folder else None) or {}
    place.note(
        "skill",
        skill=folder or name.rpartition(":")[2],
        name=name,
        via=via,
        session=session,
        turn=payload.get("prompt_id"),
        agent_id=agent,
        tool_use_id=payload.get("tool_use_id"),
        **{key: skill.get(key) for key in ("base_sha256", "overlay_sha256", "loader_sha256")},
    )
    if agent is None:
        used = folder or name.rpartition(":")[2]
        proposals.used(place, session, used, payload.get("prompt_id"), _text(payload, "command_args"))
    hints = _hints(place, folder or name.rpartition(":")[2]) if give else ""
    if folder is None:
        return _context(event, [hints, _untold(payload, place)])
    path = duty.log_path(place)
    size = os.path.getsize(path) if os.path.isfile(path) else 0
    if not place.mark(session, f"skill.{folder}", str(size)):
        os.utime(place.marker(session, f"skill.{folder}"))
    untold = "\n\n".join(filter(None, [hints, _untold(payload, place)]))
    if not give:
        return _context(event, [untold])
    if agent is None:
        place.mark(session, f"given.{folder}")
    remind = place.setting("loader", "duty") != "off"
    text = context.skill_text(folder, skill, log=path, remind=remind, room=context.LIMIT - context.width(untold) - 2)
    return _context(event, [text, untold])


def post_tool_use(payload: Payload, place: Runtime) -> Answer:
    """The model used a skill: note it, and give what was learned about it. Other tools concern nothing of ours."""
    tool_input, response = payload.get("tool_input"), payload.get("tool_response")
    name = tool_input.get("skill") if isinstance(tool_input, dict) else None
    if payload.get("tool_name") != "Skill" or not isinstance(name, str) or not name:
        return None
    outcome = response if isinstance(response, dict) else {}
    if outcome.get("success") is False:
        return None
    forked = outcome.get("status") == "forked"
    agent = payload.get("agent_id") or (outcome.get("agentId") if forked else None)
    forks.called(payload, place)
    # A fork has had its context at SubagentStart; the parent only gets the fork's result and needs none.
    return _skill_used(payload, place, name, "forked" if forked else "model", agent=agent, give=not forked)


def user_prompt_expansion(payload: Payload, place: Runtime) -> Answer:
    """The user typed a skill: no tool call follows, so this is where it is noted and gets what was learned."""
    name = _text(payload, "command_name").lstrip("/")
    return _skill_used(payload, place, name, "typed", agent=None, give=True) if name else None


def subagent_start(payload: Payload, place: Runtime) -> Answer:
    """A forked skill starts: what was learned must reach the fork itself, its parent sees only the result."""
    folder = forks.forked_skill(payload, place)
    skill = place.skill(folder) if folder else None
    if folder is None or skill is None:
        return None
    remind = place.setting("loader", "duty") != "off"
    return _context("SubagentStart", [context.skill_text(folder, skill, log=duty.log_path(place), remind=remind)])


# -- the user speaks ---------------------------------------------------------------------------------------------------


def user_prompt_submit(payload: Payload, place: Runtime) -> Answer:
    """Keep the prompt's id and hash as evidence; a skill the user names as a word gets its loader, once a session."""
    prompt, session = _text(payload, "prompt"), _text(payload, "session_id")
    if not prompt or prompt.lstrip().startswith(NOTIFICATION):
        return None  # a background task reports; these are not the user's words
    row = json.dumps({"id": payload.get("prompt_id"), "sha256": digest(prompt), "ts": now_text()})
    place.append(place.marker(session, "prompts"), row)
    told, message = proposals.answer(payload, place, prompt)
    first = "\n\n".join(filter(None, [told, proposals.reaction(payload, place, prompt), _untold(payload, place)]))
    parts, left_out, room = [first], [], context.LIMIT - context.width(first) - 400
    for folder in _named(prompt, place):
        skill = place.skill(folder)
        if skill is None or place.marked(session, f"given.{folder}") is not None:
            continue
        if room < 1_000:
            left_out.append(f"harness show {folder}")
            continue
        remind = place.setting("loader", "duty") != "off"
        text = context.skill_text(folder, skill, log=duty.log_path(place), remind=remind, overlay=False, room=room)
        if text and place.mark(session, f"given.{folder}"):
            parts.append(text)
            room -= context.width(text) + 2
    if left_out:
        parts.append(f"Notes left out for length: {', '.join(left_out)}"[:390])
    answer = _context("UserPromptSubmit", parts)
    return {**(answer or {}), "systemMessage": message} if message else answer


def _named(prompt: str, place: Runtime) -> list[str]:
    """The skills with a loader that the prompt names as a whole word; a typed command (``/aeo``) is no such word."""
    with_loader = [folder for folder, skill in place.skills.items() if skill.get("loader")]
    if not with_loader:
        return []
    start = len(prompt.split(None, 1)[0]) if prompt.startswith("/") else 0
    words = {word.casefold() for word in _WORD.findall(prompt[start : start + 100_000])}
    return [
        folder
        for folder in with_loader
        if any(str(name).casefold() in words for name in (folder, *(place.skills[folder].get("names") or ())))
    ]


# -- a session starts, stops, ends -------------------------------------------------------------------------------------


def session_start(payload: Payload, place: Runtime) -> Answer:
    """Say what is in force, once: again only when the model has lost it (clear, compact) or it has changed."""
    session, source = _text(payload, "session_id"), _text(payload, "source")
    if _leftovers(place):
        place.spawn("drain")
    if source == "compact":
        for name in place.markers(session, "given."):
            os.unlink(place.marker(session, "given." + name))
    if source == "resume" and place.marked(session, "ended") is not None:
        os.unlink(place.marker(session, "ended"))
    notices = place.now.get("notices")
    shown = [notice for notice in notices if isinstance(notice, dict)] if isinstance(notices, list) else []
    learned = sorted(folder for folder, skill in place.skills.items() if skill.get("loader") or skill.get("overlay"))
    found = place.now.get("hints")
    tasted = [f"{skill}: {told[0]}" for skill, told in (found.items() if isinstance(found, dict) else ()) if told]
    text = context.start_text(learned, shown, tasted)
    known = place.marked(session, "start")
    if text and text != known:
        place.mark(session, "start", text, again=True)
    elif source == "resume":
        text = ""
    return _context("SessionStart", [text, _untold(payload, place)])


def _leftovers(place: Runtime) -> bool:
    """Whether an earlier session left work: events in the spool, open entries, deferred ticks, a spoiled snapshot."""
    if place.now.get("open") or place.damaged:  # reading ``now`` is what finds the damage
        return True
    for folder in ("spool", os.path.join("spool", "taken"), "deferred"):
        try:
            with os.scandir(os.path.join(place.runtime, folder)) as entries:
                if any(entry.is_file(follow_symlinks=False) for entry in entries):
                    return True
        except OSError:
            continue
    return False


def _spawn_after_turn(place: Runtime) -> None:
    unattended = place.env.get("CLAUDE_CODE_SESSION_ATTENDED") == "0"
    place.spawn("drain" if unattended or place.setting("drain", "on") == "stop" else "observe")


def stop(payload: Payload, place: Runtime) -> Answer:
    """A turn has ended: note the feedback in the last message, start the work behind it, and return."""
    duty.note_message(payload, place)
    asked = duty.ask(payload, place)
    if asked is not None:
        return asked
    proposals.output(payload, place)
    _spawn_after_turn(place)
    shown = proposals.show(payload, place)
    return {"systemMessage": shown} if shown else None


def subagent_stop(payload: Payload, place: Runtime) -> Answer:
    """As Stop, without the duty. An empty agent type is the client's own compaction and no agent of anyone."""
    if _text(payload, "agent_type"):
        duty.note_message(payload, place)
        _spawn_after_turn(place)
    return None


def session_end(payload: Payload, place: Runtime) -> Answer:
    """The session is over: start the drain, in case Stop never came. The client allows 1.5 s here."""
    place.mark(_text(payload, "session_id"), "ended")
    place.spawn("drain")
    return None


# -- a tool is about to run --------------------------------------------------------------------------------------------


def pre_tool_use(payload: Payload, place: Runtime) -> Answer:
    """The gate on what a file of the workspace would hold; files elsewhere are nobody's business here.

    A skill about to be used is remembered until it has been, so that its fork can be told from other subagents.
    """
    from harness.clients import edits

    tool, tool_input = _text(payload, "tool_name"), payload.get("tool_input")
    if tool == "Skill":
        forks.calls(payload, place)
    named = edits.target(tool_input) if isinstance(tool_input, dict) else ""
    if tool not in edits.TOOLS or not isinstance(tool_input, dict) or not named:
        return None
    path = os.path.realpath(os.path.join(_text(payload, "cwd") or place.root, os.path.expanduser(named)))
    root, git_dir = os.path.realpath(place.root), os.path.realpath(os.path.dirname(place.runtime))
    if _inside(path, git_dir) or _inside(path, os.path.join(root, ".git")):
        return _deny(f"{named} belongs to git's own folder of the workspace. Agents write none of its files")
    if not _inside(path, root):
        return None
    policy = place.snapshot("policy.json")
    if policy is None:
        place.log("NoPolicy", "snapshot/policy.json is missing, so nothing was checked; run `harness doctor`")
        return None
    before = None
    if os.path.isfile(path):
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            before = file.read()
    after = edits.result(tool, tool_input, before)
    if after is None:
        return None
    from harness.store.gate import judge_agent_write

    relative = os.path.relpath(path, root).replace(os.sep, "/")
    refusals = judge_agent_write(relative, before, after, policy)
    return _deny("\n".join(refusal.line() for refusal in refusals)) if refusals else None


def _inside(path: str, folder: str) -> bool:
    if sys.platform in ("darwin", "win32"):  # their file systems take any case of a name
        path, folder = path.casefold(), folder.casefold()
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _deny(reason: str) -> Answer:
    decision = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}


# -- which function ----------------------------------------------------------------------------------------------------

EVENTS: dict[str, Event] = {
    "PostToolUse": post_tool_use,
    "UserPromptExpansion": user_prompt_expansion,
    "PreToolUse": pre_tool_use,
    "UserPromptSubmit": user_prompt_submit,
    "SessionStart": session_start,
    "Stop": stop,
    "SubagentStart": subagent_start,
    "SubagentStop": subagent_stop,
    "SessionEnd": session_end,
}


def function_for(payload: Payload, env: Mapping[str, str]) -> tuple[Event | None, str]:
    """The function for an event, or None and the reason why the event is ignored.

    Gemini CLI sets CLAUDE_PROJECT_DIR too, and Codex uses the same event names with a ``turn_id``: their events are
    told apart here, so that none is taken for one of Claude Code with half of its fields.
    """
    if env.get("GEMINI_SESSION_ID") and not env.get("CLAUDECODE"):
        return None, "an event of Gemini CLI"
    if "turn_id" in payload and "prompt_id" not in payload:
        return None, "an event of Codex"
    function = EVENTS.get(str(payload.get("hook_event_name")))
    return function, "" if function else "an event this version does not know"
