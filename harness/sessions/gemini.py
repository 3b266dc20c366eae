"""Gemini CLI's sessions: ``tmp/*/chats/*``, JSON lines whose messages are written again once more is known of them, or one
JSON document with a list of messages (older versions)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from harness.sessions.account import Account
from harness.sessions.build import Builder, media, numbers, when
from harness.sessions.graph import KEEP, Node, Session
from harness.sessions.lines import NotATranscript, Record, records

CLIENT: Final = "gemini"
_HOOK = re.compile(r"<hook_context>([\s\S]*?)</hook_context>\s*")
_EXIT = re.compile(r"^(?:Exit Code|exit code): (-?\d+)", re.M)
_TYPES: Final = frozenset({"user", "gemini", "info", "error", "warning"})


def roots(env: Mapping[str, str]) -> list[Path]:
    """``~/.gemini/tmp``."""
    return [Path(env.get("HOME") or Path.home()) / ".gemini/tmp"]


def sessions(root: Path) -> Iterator[Path]:
    """The chats below ``root``."""
    return iter(sorted(p for p in root.glob("*/chats/*") if p.suffix in (".json", ".jsonl")))


def fits(data: Mapping[str, Any]) -> bool:
    """Whether ``data`` is a line of a chat, or a whole one."""
    head = "sessionId" in data and "projectHash" in data
    return (
        head
        or (isinstance(data.get("$set"), dict))
        or (data.get("type") in _TYPES and "id" in data and "content" in data)
    )


def is_record(data: dict[str, Any]) -> bool:
    """Whether an object inside a broken line is a line of its own."""
    return fits(data)


def read(path: Path, keep: int = KEEP) -> Session:
    """The session in ``path``. Raises NotATranscript and OSError."""
    session = Session(id=path.stem, client=CLIENT, path=str(path))
    account = session.accounts[path.name] = Account()
    state = _State(session, Builder(session, keep), account)
    document = _document(path)
    if document is not None:
        account.lines = account.records = 1
        state.take(Record(1, document))
    else:
        for record in records(path, is_record, account):
            state.take(record)
    return session


def _document(path: Path) -> dict[str, Any] | None:
    """The file as one JSON document that runs over several lines, or None."""
    with open(path, "rb") as file:
        first = file.readline().strip()
        second = file.readline().strip()
    try:
        json.loads(first)
    except ValueError:
        if first[:1] in (b"{", b"[") and second:
            try:
                value = json.loads(path.read_bytes())
            except (ValueError, RecursionError):
                return None
            if isinstance(value, dict):
                return value
            raise NotATranscript(f"{path} can't be read as a session", "it is one JSON list", "") from None
    except RecursionError:
        return None
    return None


class _State:
    def __init__(self, session: Session, builder: Builder, account: Account) -> None:
        self.session, self.builder, self.account = session, builder, account
        self.turns: dict[str, Node] = {}
        self.calls: set[str] = set()

    def take(self, record: Record) -> None:
        data = record.data
        if isinstance(data.get("$set"), dict):
            data = data["$set"]
        if isinstance(data.get("sessionId"), str):
            self.session.id = data["sessionId"]
        messages = data.get("messages")
        for message in messages if isinstance(messages, list) else [data] if "type" in data else []:
            if isinstance(message, dict):
                self._message(message, record)
            else:
                self.account.odd["message is no object"] += 1

    def _message(self, data: dict[str, Any], record: Record) -> None:
        kind = data.get("type")
        name = data["id"] if isinstance(data.get("id"), str) else ""
        text, hooks = self._text(data.get("content"))
        turn = self.turns.get(name) if name else None
        if kind == "user":
            if turn is not None or _answers_only(data.get("content")):
                return  # written again, or the results of calls, which stand with the calls
            note = text.lstrip().startswith("<session_context>")
            if text.strip() and not note:
                turn = self._turn("user", record, name, data)
                self.builder.more(turn, text.strip())
                self.session.title = self.session.title or " ".join(text[:400].split())[:80]
            elif note:
                self._note("client's note", text, record.line)
        elif kind == "gemini":
            if turn is None:
                turn = self._turn("assistant", record, name, data)
                for thought in _list(data.get("thoughts")):
                    if isinstance(thought, dict):
                        self.builder.more(
                            turn,
                            f"(thinking) {thought.get('subject') or ''} {thought.get('description') or ''}".rstrip(),
                        )
                self.builder.more(turn, text)
            elif text and not turn.output:
                self.builder.more(turn, text)
            turn.usage = numbers(data.get("tokens")) or turn.usage
            for call in _list(data.get("toolCalls")):
                if isinstance(call, dict):
                    self._call(call, turn, record.line)
        else:
            self._note(f"client, {str(kind)[:40]}", text, record.line)
        for hook in hooks:
            self._note("hook text", hook, record.line)

    def _turn(self, role: Any, record: Record, name: str, data: dict[str, Any]) -> Node:
        last = self.builder.last_turn()
        turn = self.builder.add(
            role,
            "turn",
            record.line,
            name,
            predecessor=last.id if last else None,
            ts=when(data.get("timestamp")),
            mended=record.mended,
        )
        if name:
            self.turns[name] = turn
        return turn

    def _note(self, label: str, text: str, line: int) -> None:
        last = self.builder.last_turn()
        self.builder.add(
            "tool", "meta", line, caller=last.id if last else None, label=label, output=self.builder.text(text)
        )

    def _call(self, call: dict[str, Any], turn: Node, line: int) -> None:
        name = str(call.get("id") or f"{turn.id}-{len(self.calls)}")
        output, hooks = self._text(call.get("result"))
        if name not in self.calls:
            self.calls.add(name)
            self.builder.call(turn, line, name, str(call.get("name") or "tool"), call.get("args"))
        code = _EXIT.search(output)
        failed = call.get("status") in ("error", "cancelled") or (code is not None and code[1] != "0")
        if call.get("result") is not None or call.get("status") in ("success", "error", "cancelled"):
            self.builder.result(name, line, output.strip(), not failed, turn)
        for hook in hooks:
            self._note("hook text", hook, line)

    def _text(self, content: Any) -> tuple[str, list[str]]:
        """What parts of a message say, and what hooks put into them. Results of calls stand with the calls."""
        hooks: list[str] = []
        out = []
        for part in content if isinstance(content, list) else [content]:
            text = ""
            if isinstance(part, str):
                text = part
            elif isinstance(part, dict):
                if isinstance(part.get("text"), str):
                    text = part["text"]
                elif isinstance(part.get("functionResponse"), dict) and content is not None:
                    response = part["functionResponse"].get("response")
                    text = (
                        str(response.get("output") or response.get("error") or "") if isinstance(response, dict) else ""
                    )
                elif isinstance(part.get("inlineData"), dict):
                    text = media("image", part["inlineData"].get("mimeType"), part["inlineData"].get("data"))
            hooks += [m[1] for m in _HOOK.finditer(text)]
            out.append(_HOOK.sub("", text).replace("<untrusted_context>\n", "").replace("\n</untrusted_context>", ""))
        return "\n".join(t for t in out if t.strip()), hooks


def _answers_only(content: Any) -> bool:
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(p, dict) and "functionResponse" in p for p in content)
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
