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
    texts, inside = [], False
    for row in _tail(transcript):
        content = row.get("message", {}).get("content") if isinstance(row.get("message"), dict) else None
        if row.get("type") == "user" and row.get("promptId") and isinstance(content, str):
            inside = row["promptId"] == turn
        if not inside or not isinstance(content, list):
            continue
        for block in content:
            given = block.get("input") if isinstance(block, dict) and block.get("type") == "tool_use" else None
            if isinstance(given, dict) and block.get("name") in ("Write", "Edit", "MultiEdit"):
                texts += [str(given[key]) for key in ("content", "new_string") if isinstance(given.get(key), str)]
    return texts


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
