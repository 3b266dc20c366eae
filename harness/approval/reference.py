"""The functions of the published SQLite reference, over a ledger of ours: same names, same arguments, one error class.

``reference_views.sql`` gives its tables, in their column order, as views. Where ours is stricter it stays so; the list is in
docs/approvals.md. New programs use ``harness.approval.claim``.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from harness.approval import claim as claims
from harness.approval.backend import Row, Value
from harness.approval.errors import ApprovalError
from harness.approval.ledger import Ledger
from harness.approval.sqlite import SCHEMA, SQLite

VIEWS: Final = Path(__file__).parent / "sql" / "reference_views.sql"
_TABLES: Final = re.compile(
    r"(?<![\w.])(obligations|obligation_drafts|obligation_decisions|obligation_approval_snapshots|obligation_delivery_claims|"
    r"obligation_deliveries|draft_bodies|outbox|freezes|meta|approval_current_drafts|approval_bound_drafts)(?![\w.])"
)


class ClaimError(Exception):
    """No permission was granted and no state changed. ``code`` is the stable code of the error behind it."""

    code = "failed"


def connect(path: str | Path) -> sqlite3.Connection:
    """A connection to an existing database, with the guards on; the file's name is taken literally. A ledger of ours gets
    the reference's tables as views. Raises sqlite3.OperationalError when there is no such file."""
    db = sqlite3.connect(Path(path).resolve().as_uri() + "?mode=rw", uri=True, isolation_level=None, timeout=5)
    db.row_factory = sqlite3.Row
    for pragma in ("foreign_keys = ON", "recursive_triggers = ON", "synchronous = FULL"):
        db.execute(f"PRAGMA {pragma}")
    if db.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'obligation_approval_snapshots'").fetchone():
        add_views(db)
    return db


def schema() -> str:
    """The whole schema as one script: our tables, then the reference's as views."""
    return SCHEMA.read_text("utf-8") + VIEWS.read_text("utf-8")


def add_views(db: sqlite3.Connection) -> None:
    """Give a connection the reference's tables as views, when the database is one of our ledgers."""
    if db.execute(
        "SELECT 1 FROM main.sqlite_master WHERE name = 'approval_bound_drafts' AND sql LIKE '%s.digest%'"
    ).fetchone():
        db.executescript(VIEWS.read_text("utf-8"))


class _Main(SQLite):
    """A backend that speaks of our own tables on a connection where the reference's names lie over them."""

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        return super().rows(_in_main(sql), values)

    def change(self, sql: str, values: Sequence[Value] = ()) -> int:
        return super().change(_in_main(sql), values)

    def insert(self, sql: str, values: Sequence[Value] = ()) -> int:
        return super().insert(_in_main(sql), values)


@functools.cache
def _in_main(sql: str) -> str:
    return sql if sql.startswith("PRAGMA") else _TABLES.sub(r"main.\1", sql)


@contextlib.contextmanager
def _ledger(db: sqlite3.Connection, now: object) -> Iterator[Ledger]:
    if type(now) is not int or now < 0:
        raise ClaimError("now must be a nonnegative integer")
    try:
        yield Ledger(_Main(db, "", None), clock=lambda: int(now))
    except ApprovalError as error:
        raised = ClaimError(str(error))
        raised.code = error.code
        raise raised from error


def claim(db: sqlite3.Connection, obligation_id: int, decision_id: int, *, now: int) -> str:
    """Reserve one approved decision; a random token."""
    with _ledger(db, now) as ledger:
        return claims.claim(ledger, obligation_id, decision_id)


def begin_dispatch(db: sqlite3.Connection, token: str, *, now: int) -> dict[str, Any]:
    """The bound payload, once, after its state is committed."""
    with _ledger(db, now) as ledger:
        got = claims.begin_dispatch(ledger, token)
    return {
        "decision_id": got["decision_id"], "obligation_id": got["obligation_id"], "draft_epoch": got["epoch"],
        "draft_text": got["text"], "draft_sha256": got["draft_sha256"], "origin_platform": got["platform"],
        "origin_channel": got["channel"], "origin_thread": got["thread"] or None, "kind": got["kind"],
    }  # fmt: skip


def cancel(db: sqlite3.Connection, token: str, *, now: int) -> None:
    """Give back a claim that hasn't begun. As in the reference, the obligation stays approved, by a decision that is used up."""
    with _ledger(db, now) as ledger:
        claims.cancel(ledger, token, reopen=False)


def mark_unknown(db: sqlite3.Connection, token: str, *, now: int) -> None:
    """Record that the outcome isn't known; again is no error."""
    with _ledger(db, now) as ledger:
        claims.mark_unknown(ledger, token)


def complete(db: sqlite3.Connection, token: str, coordinate: str, *, now: int) -> bool:
    """Record a confirmed result; False when the same was recorded before."""
    with _ledger(db, now) as ledger:
        return claims.complete(ledger, token, coordinate)


def reconcile(db: sqlite3.Connection, token: str, coordinate: str, evidence: str, *, now: int) -> bool:
    """Turn an unknown outcome into a delivered one, on evidence."""
    with _ledger(db, now) as ledger:
        return claims.reconcile(ledger, token, coordinate, evidence)
