"""What a turn of a session put into files, read from the client's transcript: a tail that may be stale, so the message
itself always comes from the hook's payload."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

MOST_BYTES: Final = 4_000_000


def written_in(transcript: str, turn: Any) -> list[str]:
    """The texts that the agent wrote or edited into files in the turn with the prompt id ``turn``."""
    return [text for _, _, text in _calls(transcript, turn)]


def written_files(transcript: str, turn: Any) -> dict[str, str]:
    """The whole files that the agent wrote in that turn: path -> text. One that it only edited is not known whole."""
    found: dict[str, str] = {}
    for name, path, text in _calls(transcript, turn):
        if name == "Write":
            found[path] = text
        else:
            found.pop(path, None)
    return found


def later_writes(transcript: str, turn: Any) -> set[str]:
    """The files that the agent wrote or edited in any other turn after that one."""
    return {path for _, path, _ in _calls(transcript, turn, after=True)}


def _calls(transcript: str, turn: Any, *, after: bool = False) -> Iterator[tuple[str, str, str]]:
    """(tool, path, text) of each Write and Edit of a turn, or of all turns after it."""
    seen = inside = False
    for row in _tail(transcript):
        content = row.get("message", {}).get("content") if isinstance(row.get("message"), dict) else None
        if row.get("type") == "user" and row.get("promptId") and isinstance(content, str):
            inside = row["promptId"] == turn
            seen = seen or inside
        if not seen or inside == after or not isinstance(content, list):
            continue
        for block in content:
            given = block.get("input") if isinstance(block, dict) and block.get("type") == "tool_use" else None
            if isinstance(given, dict) and block.get("name") in ("Write", "Edit", "MultiEdit"):
                for key in ("content", "new_string"):
                    if isinstance(given.get(key), str):
                        yield str(block["name"]), str(given.get("file_path")), str(given[key])


def _tail(transcript: str) -> Iterator[dict[str, Any]]:
    path = Path(transcript)
    try:
        with open(path, "rb") as file:
            start = max(0, path.stat().st_size - MOST_BYTES)
            file.seek(start)
            data = file.read()
    except OSError:
        return
    lines = data.split(b"\n")
    for line in lines[1:] if start else lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row
