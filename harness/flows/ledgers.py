"""Reading ledgers as they count: the committed rows that can be read, without those that were undone."""

from __future__ import annotations

from typing import Any, Final

from harness.store.commit import Store

EXCERPTS: Final = "state/log/sessions"
UNDONE: Final = "state/log/undone.ndjson"


def rows(store: Store, path: str) -> list[dict[str, Any]]:
    """The rows of a ledger that count, in order. A row is never removed: undoing one adds a row to UNDONE that names it."""
    gone = undone(store)
    return [row for row in store.rows(path) if isinstance(row, dict) and row.get("id") not in gone]


def undone(store: Store) -> set[str]:
    """The ids of rows that were undone; undoing that again makes them count again."""
    gone: set[str] = set()
    for row in store.rows(UNDONE):
        if isinstance(row, dict):
            gone = gone - {row["row"]} if row["again"] else gone | {row["row"]}
    return gone


def excerpt_of(session: str) -> str:
    """The file of the workspace that keeps an excerpt of a session, whether there is one or not."""
    return f"{EXCERPTS}/{session}.md"
