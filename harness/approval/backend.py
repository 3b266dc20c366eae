"""What a ledger needs of a database. Two backends speak it; everything above them is the same code and the same SQL."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Row = dict[str, Any]
Value = str | int | None


class Backend(Protocol):
    """One connection of one thread. SQL has ``?`` for values; every error that leaves here is an ApprovalError."""

    name: str
    place: str
    """Where the ledger is, for people; never with a password."""

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """The rows of a query, as dictionaries."""

    def change(self, sql: str, values: Sequence[Value] = ()) -> int:
        """Write, inside a transaction; the number of rows that changed."""

    def insert(self, sql: str, values: Sequence[Value] = ()) -> int:
        """Insert one row, inside a transaction; its ``id``."""

    def transaction(self) -> AbstractContextManager[None]:
        """Inside, writes are one unit, alone where they must be. Raises NestedTransaction, UnsafeConnection, Locked."""

    def hold(self, obligation_id: int) -> None:
        """Until the transaction ends, nobody else writes this obligation or what belongs to it."""

    def announce(self) -> None:
        """Wake who waits, when the transaction is committed."""

    def wait(self, seconds: float) -> None:
        """Return when somebody may have changed the ledger, at the latest after ``seconds``."""

    def close(self) -> None:
        """End the connection."""
