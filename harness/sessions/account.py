"""The loss account of a file: what its lines gave, and what they did not, line by line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Dropped:
    """Bytes that gave no record: where they stand, how many they are, and why."""

    line: int
    bytes: int
    reason: str


@dataclass
class Account:
    """``lines`` are pieces between line feeds that are not blank; ``records`` are the JSON objects got out of them;
    ``recovered`` names the line and the way of each record that came from a line that is not one whole object;
    ``duplicates`` are lines whose record stood in the session already; ``incomplete`` is a last line that is still being
    written; ``odd`` counts records of unusual form by kind; ``notes`` say how links that lead nowhere were mended.
    """

    lines: int = 0
    records: int = 0
    recovered: list[tuple[int, str]] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    duplicates: list[int] = field(default_factory=list)
    incomplete: Dropped | None = None
    odd: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The account as JSON takes it."""
        return {
            "lines": self.lines,
            "records": self.records,
            "recovered": [{"line": line, "how": how} for line, how in self.recovered],
            "dropped": [vars(one) for one in self.dropped],
            "duplicates": len(self.duplicates),
            "incomplete": vars(self.incomplete) if self.incomplete else None,
            "odd": dict(sorted(self.odd.items())),
            "notes": self.notes,
        }
