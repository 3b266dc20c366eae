"""A ledger: a backend, a clock, and the outbox that every change of state goes through."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from harness.approval import sqlite
from harness.approval.backend import Backend, Row
from harness.approval.errors import Failed, NotFound
from harness.ids import ulid

ACTIVE: Final = ("claimed", "dispatching", "unknown")
FOLDER: Final = "state/log/ledger"
APPROVALS: Final = "state/log/approvals.ndjson"


def clock() -> int:
    """The time in whole seconds since 1970."""
    return int(time.time())


@dataclass
class Ledger:
    """An open ledger. It belongs to one thread; close it, or use it as a context manager."""

    backend: Backend
    clock: Callable[[], int] = clock
    worker: tuple[str, int] = field(default_factory=lambda: (socket.gethostname(), os.getpid()))

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self.backend.close()

    def now(self) -> int:
        """The time, in whole seconds."""
        return int(self.clock())

    def transaction(self) -> AbstractContextManager[None]:
        """All or nothing; alone where two writers could get in each other's way."""
        return self.backend.transaction()

    @contextlib.contextmanager
    def on(self, obligation_id: int) -> Iterator[Row]:
        """A transaction that holds one obligation; its row. Raises NotFound."""
        with self.transaction():
            self.backend.hold(obligation_id)
            yield self.obligation(obligation_id)

    def obligation(self, obligation_id: int) -> Row:
        """The row of an obligation. Raises NotFound."""
        if isinstance(obligation_id, bool) or not isinstance(obligation_id, int) or not 0 < obligation_id < 2**63:
            raise NotFound(f"no obligation {str(obligation_id)[:40]!r}", "its number is a positive integer")
        found = self.one("SELECT * FROM obligations WHERE id = ?", obligation_id)
        if found is None:
            raise NotFound(f"no obligation {obligation_id}", "", "see `harness ledger list`")
        return found

    def draft(self, obligation_id: int, epoch: int) -> Row | None:
        """The draft of one epoch, with its bodies as ``bodies`` in a snapshot's form, or None."""
        found = self.one("SELECT * FROM obligation_drafts WHERE obligation_id = ? AND epoch = ?", obligation_id, epoch)
        if found is None:
            return None
        rows = self.backend.rows(
            "SELECT media_type, sha256, body FROM draft_bodies WHERE obligation_id = ? AND epoch = ? ORDER BY media_type",
            (obligation_id, epoch),
        )
        return found | {"bodies": json.dumps([[one["media_type"], one["sha256"], one["body"]] for one in rows])}

    def one(self, sql: str, *values: str | int | None) -> Row | None:
        """The first row of a query, or None."""
        rows = self.backend.rows(sql, values)
        return rows[0] if rows else None

    def active_claim(self, obligation_id: int) -> Row | None:
        """The claim that is under way or unknown, or None."""
        return self.one(
            "SELECT * FROM obligation_delivery_claims WHERE obligation_id = ? "
            "AND state IN ('claimed', 'dispatching', 'unknown')",
            obligation_id,
        )

    def frozen(self) -> Row | None:
        """The freeze in force, or None."""
        return self.one("SELECT * FROM freezes WHERE lifted_ts IS NULL")

    def meta(self, key: str) -> str | None:
        """One fact about the ledger itself."""
        found = self.one("SELECT value FROM meta WHERE key = ?", key)
        return None if found is None else str(found["value"])

    def set_meta(self, key: str, value: str) -> None:
        """Put one fact about the ledger itself; inside a transaction."""
        self.backend.change(
            "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, value),
        )

    def record(self, event: str, obligation_id: int | None, ts: int, /, **fields: Any) -> None:
        """Put an event into the outbox, in the transaction that makes it true."""
        kind = event.partition(".")[0]
        row: dict[str, Any] = {"id": ulid(), "ts": stamp(ts), "event": event}
        row |= {"obligation_id": obligation_id} if obligation_id is not None else {}
        self.post(f"{FOLDER}/{kind}.ndjson", obligation_id, row | {k: v for k, v in fields.items() if v is not None})
        if kind not in ("claims", "deliveries"):  # people and workers wait for drafts and decisions
            self.backend.announce()

    def post(self, path: str, obligation_id: int | None, row: Mapping[str, Any]) -> None:
        """Put a row for the ledger file ``path`` of the workspace into the outbox."""
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
        if not self.backend.change(
            "INSERT INTO outbox (id, path, obligation_id, row) VALUES (?, ?, ?, ?)",
            (row["id"], path, obligation_id, text),
        ):
            raise Failed("the ledger can't be written", "the outbox took no row")


def stamp(ts: int) -> str:
    """Seconds since 1970 as the rows of a workspace write them: UTC, to the second."""
    return datetime.fromtimestamp(max(0, min(ts, 253_402_300_799)), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_url(place: str) -> bool:
    """Whether ``place`` names a PostgreSQL database rather than a file."""
    return place.startswith(("postgresql://", "postgres://"))


def open_ledger(place: str | Path) -> Ledger:
    """Open the ledger at a path or a ``postgresql://`` address. Never makes one: raises NoLedger when there is none."""
    if isinstance(place, str) and is_url(place):
        from harness.approval import postgres

        return Ledger(postgres.open_url(place))
    return Ledger(sqlite.open_file(Path(place)))


def create_ledger(place: str | Path) -> None:
    """Make a ledger at a path or a ``postgresql://`` address."""
    if isinstance(place, str) and is_url(place):
        from harness.approval import postgres

        postgres.create(place)
    else:
        sqlite.create(Path(place))
