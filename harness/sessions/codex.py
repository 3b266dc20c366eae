"""Codex's sessions: ``sessions/**/rollout-*.jsonl``, lines of {timestamp, type, payload}.

Turns and calls are the ``response_item`` lines; an ``event_msg`` that tells the same again adds nothing but the exit code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from harness.sessions.account import Account
from harness.sessions.build import Builder, media, numbers, when
from harness.sessions.graph import KEEP, Node, Session
from harness.sessions.lines import Record, records

CLIENT: Final = "codex"
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)", re.M)
_HOOK = re.compile(r"\s*<hook_prompt\b[^>]*>([\s\S]*?)</hook_prompt>")
_CONTEXT = re.compile(
    r"\s*<(?:environment_context|user_instructions|permissions instructions|skills_instructions|turn_aborted)\b"
)


def roots(env: Mapping[str, str]) -> list[Path]:
    """``$CODEX_HOME/sessions`` or ``~/.codex/sessions``."""
    return [Path(env.get("CODEX_HOME") or Path(env.get("HOME") or Path.home()) / ".codex") / "sessions"]


def sessions(root: Path) -> Iterator[Path]:
    """The rollout files below ``root``."""
    return iter(sorted(root.rglob("rollout-*.jsonl")))


def fits(data: Mapping[str, Any]) -> bool:
    """Whether ``data`` is a line of a rollout."""
    return isinstance(data.get("type"), str) and isinstance(data.get("payload"), dict)


def is_record(data: dict[str, Any]) -> bool:
    """Whether an object inside a broken line is a line of its own."""
    return fits(data)


def read(path: Path, keep: int = KEEP) -> Session:
    """The session in ``path``. Raises NotATranscript and OSError."""
    session = Session(id=path.stem, client=CLIENT, path=str(path))
    builder, account = Builder(session, keep), Account()
    session.accounts[path.name] = account
    asked: Node | None = None  # the turn whose model call is under way
    for record in records(path, is_record, account):
        if not fits(record.data):
            account.odd["no payload"] += 1
            continue
        asked = _take(record, builder, session, account, asked)
    return session


def _take(record: Record, builder: Builder, session: Session, account: Account, asked: Node | None) -> Node | None:
    kind, payload, line = record.data["type"], record.data["payload"], record.line
    ts = when(record.data.get("timestamp"))
    if kind == "session_meta":
        session.cwd = payload["cwd"] if isinstance(payload.get("cwd"), str) else session.cwd
        session.id = payload["id"] if isinstance(payload.get("id"), str) else session.id
        return asked
    if kind == "token_usage_record":
        if asked is not None and asked.usage is None:
            asked.usage = numbers(payload.get("usage"))
        return asked
    if kind == "compacted":
        builder.add(
            "user",
            "summary",
            line,
            predecessor=_last(builder),
            label="summary of earlier turns",
            output=builder.text(str(payload.get("message") or "")),
            ts=ts,
        )
        return None
    if kind != "response_item":
        if kind not in ("event_msg", "turn_context", "world_state"):
            account.odd[f"type {kind[:40]}"] += 1
        return asked
    what = payload.get("type")
    if what == "message":
        return _message(payload, record, builder, session, account, ts, asked)
    if what in ("function_call", "custom_tool_call", "local_shell_call"):
        turn = asked or builder.add("assistant", "turn", line, predecessor=_last(builder), ts=ts)
        arguments = payload.get("arguments", payload.get("input", payload.get("action")))
        builder.call(turn, line, str(payload.get("call_id") or ""), str(payload.get("name") or what), arguments)
        return turn
    if what in ("function_call_output", "custom_tool_call_output"):
        output = _output(payload.get("output"))
        code = _EXIT.search(output[:400])
        builder.result(str(payload.get("call_id") or ""), line, output, not code or code[1] == "0", builder.last_turn())
        return None
    if what == "reasoning":
        text = _texts(payload.get("summary"), account)
        if text:
            turn = asked or builder.add("assistant", "turn", line, predecessor=_last(builder), ts=ts)
            builder.more(turn, f"(thinking) {text}")
            return turn
        return asked
    account.odd[f"item {str(what)[:40]}"] += 1
    return asked


def _message(
    payload: dict[str, Any],
    record: Record,
    builder: Builder,
    session: Session,
    account: Account,
    ts: str | None,
    asked: Node | None,
) -> Node | None:
    role, text = payload.get("role"), _texts(payload.get("content"), account)
    if role == "assistant":
        turn = asked or builder.add(
            "assistant", "turn", record.line, predecessor=_last(builder), ts=ts, mended=record.mended
        )
        builder.more(turn, text)
        return turn
    label = ""
    if role != "user":
        label = "client's instructions" if _CONTEXT.match(text) else "hook text or instructions"
    elif match := _HOOK.match(text):
        label, text = "hook text", match[1]
    elif _CONTEXT.match(text):
        label = "client's note"
    if label:
        last = builder.last_turn()
        builder.add(
            "tool", "meta", record.line, caller=last.id if last else None, label=label, output=builder.text(text)
        )
        return asked if role != "user" else None
    builder.add(
        "user", "turn", record.line, predecessor=_last(builder), output=builder.text(text), ts=ts, mended=record.mended
    )
    session.title = session.title or " ".join(text[:400].split())[:80]
    return None


def _last(builder: Builder) -> str | None:
    last = builder.last_turn()
    return last.id if last else None


def _texts(content: Any, account: Account) -> str:
    if isinstance(content, str):
        return content
    out = []
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            out.append(block["text"])
        elif isinstance(block, dict) and block.get("type") == "input_image":
            out.append(media("image", None, block.get("image_url")))
        elif isinstance(block, str):
            out.append(block)
        else:
            account.odd["block without text"] += 1
    return "\n".join(out)


def _output(output: Any) -> str:
    if isinstance(output, dict):
        output = output.get("content", output.get("output", ""))
    return output if isinstance(output, str) else _texts(output, Account())
