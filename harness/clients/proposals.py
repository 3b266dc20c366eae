"""A proposed edit and the person: shown by our Stop hook, answered by the user's own next prompt, and by nothing else.

    Stop -> systemMessage with the exact diff -> the user's prompt -> a note in the spool -> observe applies it

A forged answer is made evident: what an agent starts is not the client, and what nobody typed is not in the transcript.
"""

from __future__ import annotations

import json
import os
import re

from harness.clients.runtime import Runtime, digest, file_name

TYPE_CHECKING = False  # importing typing would cost each hook half the start of a bare interpreter
if TYPE_CHECKING:
    from typing import Any

    Payload = dict[str, Any]

PROMPTS = 3
APPLY_SECONDS = 8.0
TAIL_BYTES = 256 * 1024
MAX_OUTPUT = 200_000
OWN = frozenset(("tune", "feedback", "distill"))
"""Skills that serve harness itself: what is said after them is no reaction to an output."""
_OWN_QUESTION = re.compile(r"\b(apply|approve|accept|proposal|edit|overlay)\b", re.I)


def _loads(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _open(place: Runtime, session: str) -> list[dict[str, Any]]:
    """The proposals of this session that nobody has decided, as the snapshot has them."""
    listed = place.now.get("proposals")
    return [
        one
        for one in (listed if isinstance(listed, list) else [])
        if isinstance(one, dict)
        and one.get("session") == session
        and place.marked(session, f"done.{one.get('id')}") is None
    ]


# -- showing -----------------------------------------------------------------------------------------------------------


def attended(place: Runtime) -> bool:
    """Whether a person sits before this session: an unattended one shows nothing, so nothing can be approved in it."""
    return place.env.get("CLAUDE_CODE_SESSION_ATTENDED") == "1" and bool(place.env.get("CLAUDE_PID"))


def show(payload: Payload, place: Runtime) -> str:
    """The text to show the user at this Stop: each proposal of the session that was not shown yet, with its exact diff."""
    session, turn = str(payload.get("session_id") or ""), payload.get("prompt_id")
    if not attended(place):
        return ""
    texts, ids = [], []
    for one in _open(place, session):
        identity = str(one.get("id"))
        mark = {"pid": place.env.get("CLAUDE_PID"), "diff": one.get("diff_sha256"), "turn": turn}
        mark["transcript"] = payload.get("transcript_path")
        if place.mark(session, f"shown.{identity}", json.dumps(mark)):
            texts.append(str(one.get("text")))
            ids.append(identity)
    asks = _asks_else(
        str(payload.get("last_assistant_message") or ""), [str(o.get("short")) for o in _open(place, session)]
    )
    if ids or place.marked(session, "stop") is not None:
        place.mark(session, "stop", json.dumps({"turn": turn, "shown": ids, "asks": asks}), again=True)
    return "\n\n".join(texts)


def _asks_else(message: str, shorts: list[str]) -> bool:
    """Whether the agent's last message asks something that a bare yes could answer, other than to apply the edit."""
    message = re.sub(r"```.*?```|`[^`\n]*`", " ", message, flags=re.S)
    for question in re.findall(r"[^.!?\n]*\?", message):
        if not _OWN_QUESTION.search(question) and not any(short and short in question for short in shorts):
            return True
    return False


# -- answering ---------------------------------------------------------------------------------------------------------


def answer(payload: Payload, place: Runtime, prompt: str) -> tuple[str, str]:
    """What a prompt means for the proposals that were shown: (context for the model, message for the user), often empty."""
    session = str(payload.get("session_id") or "")
    if not place.markers(session, "shown."):
        return "", ""
    waiting = [one for one in _open(place, session) if place.marked(session, f"shown.{one.get('id')}") is not None]
    if not waiting:
        return "", ""
    from harness.tune.approval import Approve, Reject, read

    said = read(prompt)
    if not isinstance(said, Approve | Reject):
        return _passed_by(payload, place, waiting, prompt)
    verb = "approve" if isinstance(said, Approve) else "reject"
    chosen, why = _chosen(place, session, waiting, said.id, verb)
    if chosen is None:
        return f"harness: nothing was {'applied' if verb == 'approve' else 'rejected'}: {why}", f"harness: {why}"
    if why := forged(payload, place, chosen):
        place.log("Forged", why)
        return f"harness: nothing was applied, this is not taken for the user's own answer: {why}", ""
    _note(place, payload, verb, chosen, prompt)
    outcome = _observe(place, session, str(chosen["id"]))
    return f"harness: {outcome}", f"harness: {outcome}"


def _chosen(
    place: Runtime, session: str, waiting: list[dict[str, Any]], named: str | None, verb: str
) -> tuple[dict[str, Any] | None, str]:
    ids = " or ".join(f"{'apply' if verb == 'approve' else 'reject'} {one.get('short')}" for one in waiting)
    if named:
        found = [one for one in waiting if str(one.get("id")).lower().endswith(named) or str(one.get("short")) == named]
        return (found[0], "") if len(found) == 1 else (None, f"no open proposal {named}; answer: {ids}")
    stop = _loads(place.marked(session, "stop"))
    if len(waiting) > 1:
        return None, f"{len(waiting)} proposals are open; say which one: {ids}"
    if verb == "approve" and waiting[0].get("origin") == "tool":
        return None, f"this edit comes from a tool's text, so its id must be typed: {ids}"
    if stop.get("shown") != [waiting[0].get("id")]:
        return None, f"it was not shown just now; answer: {ids}"
    if verb == "approve" and stop.get("asks"):
        return None, f"the agent asked something else too; answer: {ids}"
    return waiting[0], ""


def _passed_by(payload: Payload, place: Runtime, waiting: list[dict[str, Any]], prompt: str) -> tuple[str, str]:
    """The user talks of something else: the proposals stay open for a while, then they lapse."""
    session = str(payload.get("session_id") or "")
    for one in waiting:
        name = f"passed.{one.get('id')}"
        count = int(_loads(place.marked(session, name)).get("n") or 0) + 1
        place.mark(session, name, json.dumps({"n": count}), again=True)
        if count >= PROMPTS:
            _note(place, payload, "lapse", one, prompt)
            place.spawn("observe")
    return "", ""


def _note(place: Runtime, payload: Payload, act: str, one: dict[str, Any], prompt: str) -> None:
    session, identity = str(payload.get("session_id") or ""), str(one.get("id"))
    mark = _loads(place.marked(session, f"shown.{identity}"))
    place.note(
        "tune",
        act=act,
        name=f"{act} {identity}",
        proposal=identity,
        diff_sha256=mark.get("diff"),
        session=session,
        turn=payload.get("prompt_id"),
        words=prompt.strip()[:200],
        prompt_sha256=digest(prompt),
        transcript=mark.get("transcript"),
    )
    place.mark(session, f"done.{identity}", act)


def _observe(place: Runtime, session: str, identity: str) -> str:
    """Let observe apply what was noted, wait for it, and return what came of it in one line."""
    import subprocess
    import sys

    command = [sys.executable, "-P", "-m", "harness", "--workspace", place.root, "observe", "--quiet"]
    null = subprocess.DEVNULL
    try:
        subprocess.run(
            command, cwd=place.root, stdin=null, stdout=null, stderr=null, timeout=APPLY_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        place.failed(error)
    return (
        place.marked(session, f"outcome.{identity}")
        or "noted; it is applied with the next step of harness (see harness status)"
    )


# -- whose answer ------------------------------------------------------------------------------------------------------


def forged(payload: Payload, place: Runtime, one: dict[str, Any]) -> str:
    """Why this prompt can't be the user's own, or nothing. Evident, not proof: the drain looks for it in the transcript."""
    session = str(payload.get("session_id") or "")
    mark, pid = _loads(place.marked(session, f"shown.{one.get('id')}")), place.env.get("CLAUDE_PID")
    if not attended(place):
        return "nobody sits before this session"
    if not pid or mark.get("pid") != pid:
        return "another client than this one has shown the diff"
    if str(os.getppid()) != pid:
        return "the hook was not started by the client"
    if mark.get("diff") != one.get("diff_sha256"):
        return "another diff was shown"
    # The path that was noted when the diff was shown: what a forger's own payload names proves nothing.
    if _tool_at_work(str(mark.get("transcript") or "")):
        return "a tool call of the agent is at work"
    return ""


def _tool_at_work(transcript: str) -> bool:
    """Whether the end of a transcript has a tool call without its result: then it is the agent's turn, not the user's.
    A transcript that can't be read counts as one."""
    try:
        with open(transcript, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            tail = file.read()
    except OSError:
        return True
    calls: dict[str, bool] = {}
    for line in tail.split(b"\n"):
        if b'"tool_use' not in line and b'"tool_result"' not in line:
            continue
        try:
            content = json.loads(line)["message"]["content"]
        except (ValueError, KeyError, TypeError):
            continue
        for block in content if isinstance(content, list) else []:
            if isinstance(block, dict) and block.get("type") == "tool_use":
                calls.setdefault(str(block.get("id")), True)
            elif isinstance(block, dict) and block.get("type") == "tool_result":
                calls[str(block.get("tool_use_id"))] = False
    return bool(calls) and list(calls.values())[-1]


# -- outputs -----------------------------------------------------------------------------------------------------------


def output(payload: Payload, place: Runtime) -> None:
    """Note the output of a skill that was used in this turn, when lessons have promised something of it."""
    session, turn = str(payload.get("session_id") or ""), payload.get("prompt_id")
    checks = place.now.get("checks")
    if not isinstance(checks, dict) or not checks:
        return
    last = _loads(place.marked(session, "last"))
    if last.get("turn") != turn or last.get("skill") not in checks:
        return
    text = str(payload.get("last_assistant_message") or "")[:MAX_OUTPUT]
    transcript = payload.get("transcript_path")
    place.note(
        "output", name=last["skill"], skill=last["skill"], session=session, turn=turn, text=text, transcript=transcript
    )


# -- reactions ---------------------------------------------------------------------------------------------------------


def used(place: Runtime, session: str, folder: str, turn: Any, args: str) -> None:
    """Remember the skill that was used last, for the one prompt after it."""
    if folder in OWN:
        return
    place.mark(session, "last", json.dumps({"skill": folder, "turn": turn, "args": args}), again=True)


def reaction(payload: Payload, place: Runtime, prompt: str) -> str:
    """Classify a prompt that follows the use of a skill, note it, and offer it to tune when it says something."""
    session, turn = str(payload.get("session_id") or ""), payload.get("prompt_id")
    last = _loads(place.marked(session, "last"))
    if not last or last.get("turn") == turn:
        return ""
    os.unlink(place.marker(session, "last"))
    skill = str(last.get("skill"))
    if prompt.startswith("/"):
        name, _, args = prompt[1:].partition(" ")
        if skill not in (place.folder_of(name), name.rpartition(":")[2]):
            return ""
        same = args.strip() == str(last.get("args") or "").strip()
        signal, reward, words = (
            "implicit_negative",
            -0.5,
            "ran it again" if same else "ran it again with other parameters",
        )
    else:
        from harness.tune.reaction import classify

        found = classify(prompt)
        signal, reward, words = found.signal, found.reward, found.words
    fields = {
        "skill": skill,
        "signal": signal,
        "reward": reward,
        "words": words,
        "said": prompt.strip()[:600],
        "turn": turn,
    }
    if not reward:
        place.mark(session, f"neutral.{file_name(str(turn))}", skill)
        place.note("tune", act="neutral", name=f"neutral {skill}", session=session, **fields)
        return ""
    place.mark(session, f"reaction.{file_name(str(turn))}", json.dumps(fields), again=True)
    if not attended(place):
        return ""
    return (
        f"harness: the user's words are a reaction to the skill {skill} ({signal.replace('_', ' ')}, {reward:+g}"
        f"{f', by: {words}' if words else ''}). If they say what should be different (or be kept), use the skill tune:"
        f" propose one edit of at most 5 lines with `harness tune propose {skill}`. Nothing is applied before the user approves."
    )
