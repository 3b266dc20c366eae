"""What surrounds a proposal: the user's own words as the hook kept them, and whether its text comes from a tool."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from harness.clients.runtime import file_name, session_folder
from harness.errors import NEEDS_PERSON, HarnessError
from harness.flows import notices
from harness.flows.tune import Request
from harness.flows.why import transcript_of
from harness.store.commit import Store

WINDOW: Final = 6
"""Words in a row that a tool's text and an edit have in common when the one was copied from the other."""

_WORD: Final = re.compile(r"\w+")
_ASKS: Final = re.compile(
    r"\b(tune|overlay|lesson|learn|remember|always|never|from now on|next time|in future)\b", re.I
)


class NotAsked(HarnessError):
    """The user said nothing that an edit could answer."""

    exit_code = NEEDS_PERSON


def with_evidence(store: Store, request: Request, env: Mapping[str, str]) -> Request:
    """``request`` with what is known of its session: the user's words as the hook read them go before what the agent says
    they were, and text that was copied from a tool's output has its origin there. Raises NotAsked after a neutral word."""
    session = env.get("CLAUDE_CODE_SESSION_ID")
    if not session:
        return request
    request = replace(request, session=session)
    kept = _reaction(store, session)
    if kept and kept.get("skill") == request.name:
        request = replace(
            request,
            reward=float(kept["reward"]),
            signal=str(kept["signal"]),
            reaction=str(kept["said"]),
            turn=kept.get("turn"),
        )
    elif env.get("CLAUDECODE") and not request.member:
        last = _last_prompt(session, env)
        if last is not None:
            turn, said = last
            if _was_neutral(store, session, turn) and not _ASKS.search(said):
                raise NotAsked(
                    "the user's words are neutral",
                    "an edit answers a reaction, or a wish that the user has said",
                    "ask the user what should be different, and propose it after the answer",
                )
            request = replace(request, reaction=said or request.reaction, turn=turn)
    if request.origin == "user" and (where := copied_from(session, "\n".join(request.edit.lines), env)):
        request = replace(request, origin="tool", found_in=where)
    return request


def announce(store: Store) -> None:
    """Let the hooks know of the new proposal."""
    notices.announce(store)


def _reaction(store: Store, session: str) -> dict[str, Any] | None:
    """The newest reaction of a session that nothing came of yet."""
    folder = Path(session_folder(str(store.runtime), session))
    found = sorted(folder.glob("reaction.*"), key=lambda p: p.stat().st_mtime)
    for path in reversed(found):
        try:
            value = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(value, dict):
            return value
    return None


def _was_neutral(store: Store, session: str, turn: str | None) -> bool:
    return Path(session_folder(str(store.runtime), session), f"neutral.{file_name(str(turn))}").exists()


def _last_prompt(session: str, env: Mapping[str, str]) -> tuple[str | None, str] | None:
    path = transcript_of(session, env)
    found: tuple[str | None, str] | None = None
    for row in _rows(path) if path else ():
        content = row.get("message", {}).get("content") if isinstance(row.get("message"), dict) else None
        if (
            row.get("type") == "user"
            and isinstance(content, str)
            and not row.get("isMeta")
            and not content.startswith("<")
        ):
            found = (row.get("promptId"), content)
    return found


def copied_from(session: str, text: str, env: Mapping[str, str]) -> str:
    """Which tool's output of this session holds WINDOW words in a row of ``text`` that the user never said; empty: none."""
    wanted = _windows(text)
    path = transcript_of(session, env)
    if not wanted or path is None:
        return ""
    named: dict[str, str] = {}
    found = ""
    for row in _rows(path):
        content = row.get("message", {}).get("content") if isinstance(row.get("message"), dict) else None
        if row.get("type") == "user" and isinstance(content, str) and not row.get("isMeta"):
            wanted -= _windows(content)
        for block in content if isinstance(content, list) else []:
            if not isinstance(block, dict):
                continue
            if block.get("type") == "tool_use":
                named[str(block.get("id"))] = str(block.get("name"))
            elif block.get("type") == "tool_result" and not found and wanted & _windows(_flat(block.get("content"))):
                found = named.get(str(block.get("tool_use_id")), "a tool") + "'s output"
    return found if wanted else ""


def _windows(text: str) -> set[tuple[str, ...]]:
    words = [w.casefold() for w in _WORD.findall(text)]
    return {tuple(words[n : n + WINDOW]) for n in range(len(words) - WINDOW + 1)}


def _flat(content: Any) -> str:
    if isinstance(content, str):
        return content
    return (
        "\n".join(str(b.get("text", "")) for b in content if isinstance(b, dict)) if isinstance(content, list) else ""
    )


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict):
                    yield row
    except OSError as error:
        if not os.path.exists(path):
            return
        raise HarnessError(f"{path} can't be read", str(error)) from error
