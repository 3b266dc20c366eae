"""What the parts of Claude Code's lines say, as text: content blocks, prompts that the client wraps, hooks' words."""

from __future__ import annotations

import re
from typing import Any

from harness.sessions.account import Account
from harness.sessions.build import media

_TAG = re.compile(
    r"<(command-name|command-message|command-args|bash-input|bash-stdout|bash-stderr|local-command-\w+|task-notification)>"
)
_COMMAND = re.compile(r"<command-name>([^<]{0,200})</command-name>")
_ARGS = re.compile(r"<command-args>([\s\S]{0,4000}?)</command-args>")


def message(data: dict[str, Any], account: Account) -> dict[str, Any] | None:
    """The message of a line; text or a list in its place counts as odd and stands for the content. None: there is none."""
    message = data.get("message")
    if isinstance(message, dict):
        return message
    if isinstance(message, str | list):
        account.odd["message is text" if isinstance(message, str) else "message is a list"] += 1
        return {"content": message}
    account.odd["message is null" if "message" in data else "no message"] += 1
    return None


def content(message: dict[str, Any], account: Account) -> list[Any] | None:
    """The content blocks of a message; None, and counted, when there are none."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, list):
        return content
    account.odd["content is null" if content is None else "content is no list"] += 1
    return None


def said(block: Any, account: Account) -> str:
    """What a content block says, as text."""
    if isinstance(block, str):
        account.odd["block is text"] += 1
        return block
    if not isinstance(block, dict):
        account.odd["block is no object"] += 1
        return str(block) if isinstance(block, int | float) else ""
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return str(block["text"])
    if kind == "thinking":
        return f"(thinking) {block.get('thinking')}" if block.get("thinking") else "(thinking, not shown by the client)"
    if kind == "redacted_thinking":
        return "(thinking, withheld)"
    if kind in ("image", "document"):
        source = block.get("source")
        source = source if isinstance(source, dict) else {}
        return media(str(kind), source.get("media_type"), source.get("data"))
    if kind is None:
        account.odd["block without a type"] += 1
    elif kind != "text":
        account.odd[f"block {str(kind)[:40]}"] += 1
    for name in ("text", "content"):
        if isinstance(block.get(name), str):
            return str(block[name])
    return f"[{str(kind)[:40]}]" if kind not in (None, "text") else ""


def output(content: Any) -> str:
    """The text of a result."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(t for t in (said(block, Account()) for block in content) if t)


def typed(text: str) -> tuple[str, str]:
    """A prompt as it was typed, and a label when it is the client's own."""
    match = _TAG.match(text[:200].lstrip())
    if match is None:
        return (text, "interrupted") if text.startswith("[Request interrupted") else (text, "")
    tag = match[1]
    if tag.startswith("command-"):
        name, args = _COMMAND.search(text), _ARGS.search(text)
        typed = f"{name[1].strip() if name else ''} {args[1].strip() if args else ''}".strip()
        return (typed, "") if typed else (text, "command")
    if tag == "bash-input":
        return "! " + re.sub(r"</?bash-input>", "", text).strip(), ""
    return text, "task notification" if tag == "task-notification" else "command output"


def meta_label(data: dict[str, Any]) -> str:
    """What a line is that the client put in for the user."""
    if isinstance(data.get("sourceToolUseID"), str):
        return "skill text"
    return "hook text" if "hookText" in data else "client's note"


def hook_text(given: dict[str, Any]) -> str:
    """What a hook said."""
    for name in ("content", "blockingError", "systemMessage", "message", "stopReason", "stderr", "error"):
        if text := as_text(given.get(name)):
            return text
    return "it ran out of time" if given.get("timedOut") is True else ""


def as_text(value: Any) -> str:
    """The text in a value whose form differs from hook to hook."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(t for t in map(as_text, value) if t)
    if isinstance(value, dict):
        return next(
            (t for t in (as_text(value.get(k)) for k in ("blockingError", "error", "text", "content", "message")) if t),
            "",
        )
    return ""
