"""What a file would hold after a client's Write, Edit, MultiEdit or NotebookEdit."""

from __future__ import annotations

import json

TYPE_CHECKING = False  # importing typing would cost each hook half the start of a bare interpreter
if TYPE_CHECKING:
    from typing import Any

TOOLS = ("Write", "Edit", "MultiEdit", "NotebookEdit")
_CURLY = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}


def target(tool_input: dict[str, Any]) -> str:
    """The path a tool call names; empty when it names none."""
    path = tool_input.get("file_path") or tool_input.get("notebook_path")
    return path if isinstance(path, str) else ""


def _straight(text: str) -> str:
    return "".join(_CURLY.get(char, char) for char in text)


def replaced(before: str, edit: dict[str, Any]) -> str | None:
    """``before`` after one edit, or None when the client refuses it (no such text, or more than one place)."""
    old, new = str(edit.get("old_string", "")), str(edit.get("new_string", ""))
    if not old:
        return new if not before else None
    if old not in before:
        # The client looks for line feeds also in a CRLF file, and takes a straight quote for a curly one.
        if "\r\n" in before and old in before.replace("\r\n", "\n"):
            after = replaced(before.replace("\r\n", "\n"), edit)
            return None if after is None else after.replace("\n", "\r\n")
        at = _straight(before).find(_straight(old))
        if at < 0:
            return None
        old = before[at : at + len(old)]
    if edit.get("replace_all"):
        return before.replace(old, new)
    return before.replace(old, new) if before.count(old) == 1 else None


def _notebook(before: str, tool_input: dict[str, Any]) -> str:
    source = str(tool_input.get("new_source", ""))
    try:
        book = json.loads(before)
        cells = book["cells"]
        wanted = tool_input.get("cell_id")
        at = next((i for i, cell in enumerate(cells) if wanted is not None and cell.get("id") == wanted), None)
        mode = tool_input.get("edit_mode") or "replace"
        if mode == "insert":
            kind = tool_input.get("cell_type") or "code"
            cells.insert(0 if at is None else at + 1, {"cell_type": kind, "metadata": {}, "source": source})
        elif mode == "delete":
            del cells[at or 0]
        else:
            cells[at or 0]["source"] = source
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return source
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def result(tool: str, tool_input: dict[str, Any], before: str | None) -> str | None:
    """The text of the file after the call, or None when the call itself must fail and changes nothing.

    ``before`` is the file as it is, None when there is none.
    """
    if tool == "Write":
        return str(tool_input.get("content", ""))
    if tool == "NotebookEdit":
        return _notebook(before or "", tool_input)
    edits = tool_input.get("edits") if tool == "MultiEdit" else [tool_input]
    text: str | None = before or ""
    for edit in edits if isinstance(edits, list) else []:
        if text is None or not isinstance(edit, dict):
            return None
        text = replaced(text, edit)
    return text
