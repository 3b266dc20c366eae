"""The tables of labelled prompts in tests/fixtures/tune."""

from __future__ import annotations

import re
from pathlib import Path

TABLES = Path(__file__).parents[1] / "fixtures/tune"
_ESCAPE = re.compile(r"\\(n|u[0-9a-f]{4}|U[0-9a-f]{8})")


def rows(name: str) -> list[tuple[str, str]]:
    """(label, prompt) of each line that is no comment."""
    out = []
    for line in (TABLES / name).read_text("utf-8").split("\n"):
        if line and not line.startswith("#"):
            label, prompt, *_ = line.split("\t")
            out.append((label, _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else chr(int(m[1][1:], 16)), prompt)))
    return out
