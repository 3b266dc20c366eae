"""A real ledger for a test, on either backend, with a clock that the test moves and the short moves of a story."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.approval import claim as claims
from harness.approval.decide import decide
from harness.approval.file import file_request
from harness.approval.ledger import Ledger, create_ledger, open_ledger

START = 1_700_000_000
TEXT = "Thanks, we can hold the slot until Friday. Which start date works?"


@dataclass
class Clock:
    """The time, which goes where the test puts it."""

    now: int = START

    def __call__(self) -> int:
        return self.now


@dataclass
class Book:
    """A ledger at ``place`` and its connections."""

    backend: str
    place: str
    clock: Clock = field(default_factory=Clock)
    opened: list[Ledger] = field(default_factory=list)

    def open(self) -> Ledger:
        """One more connection, as another process would have it."""
        made = open_ledger(self.place)
        made.clock = self.clock
        self.opened.append(made)
        return made

    @property
    def ledger(self) -> Ledger:
        return self.opened[0] if self.opened else self.open()

    def close(self) -> None:
        for one in self.opened:
            one.close()
        self.opened.clear()

    # --- acting ------------------------------------------------------------------------------------------------

    def file(self, text: str = TEXT, **more: Any) -> dict[str, Any]:
        values: dict[str, Any] = {
            "counterparty": "acme-supplier", "context": "reply to delivery window question", "origin_platform": "slack",
            "origin_channel": "#acme-shared", "origin_workspace": "T1", "origin_thread": "1712345678.000100",
        }  # fmt: skip
        return file_request(self.ledger, draft=text, **(values | more))

    def decide(self, filed: dict[str, Any], decision: str = "approve", **more: Any) -> dict[str, Any]:
        values: dict[str, Any] = {"epoch": filed["epoch"], "sha256": filed["draft_sha256"], "operator": "ada"}
        return decide(self.ledger, filed["obligation_id"], decision, **(values | more))

    def approved(self, text: str = TEXT, **more: Any) -> tuple[int, int]:
        """File and approve; (obligation, decision)."""
        filed = self.file(text, **more)
        return filed["obligation_id"], self.decide(filed)["id"]

    def claimed(self, text: str = TEXT, **more: Any) -> tuple[int, int, str]:
        """File, approve and claim; (obligation, decision, token)."""
        pair = self.approved(text, **more)
        return (*pair, claims.claim(self.ledger, *pair))

    def dispatching(self, text: str = TEXT, **more: Any) -> tuple[int, int, str]:
        """File, approve, claim and begin."""
        made = self.claimed(text, **more)
        claims.begin_dispatch(self.ledger, made[2])
        return made

    # --- behind the program's back -------------------------------------------------------------------------------

    def plain(self, *statements: str, values: tuple[Any, ...] = ()) -> None:
        """Run statements as any other program would: one connection without our settings, each committed by itself.
        Raises what the driver raises."""
        if self.backend == "sqlite":
            with sqlite3.connect(self.place, isolation_level=None) as db:
                for one in statements:
                    db.execute(one, values)
            db.close()
            return
        import psycopg

        with psycopg.connect(self.place, autocommit=True) as connection:
            for one in statements:
                connection.execute(one.replace("?", "%s"), values or None)

    def refused(self, statement: str, values: tuple[Any, ...] = ()) -> str:
        """The words with which the database itself refuses ``statement`` on a plain connection."""
        import psycopg

        try:
            self.plain(statement, values=values)
        except (sqlite3.IntegrityError, psycopg.IntegrityError) as error:
            return str(error)
        raise AssertionError(f"not refused: {statement}")

    def tamper(self, *statements: str, values: tuple[Any, ...] = ()) -> None:
        """Change rows as one who owns the database can: with every guard out of the way."""
        if self.backend == "sqlite":
            db = sqlite3.connect(self.place, isolation_level=None)
            kept = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for name, _ in kept:
                db.execute(f"DROP TRIGGER {name}")
            for one in statements:
                db.execute(one, values)
            for _, sql in kept:
                db.execute(sql)
            db.close()
            return
        import psycopg

        with psycopg.connect(self.place, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            for one in statements:
                connection.execute(one.replace("?", "%s"), values or None)

    # --- looking -----------------------------------------------------------------------------------------------

    def value(self, sql: str, *values: Any) -> Any:
        row = self.ledger.one(sql, *values)
        return None if row is None else next(iter(row.values()))

    def count(self, table: str, where: str = "1 = 1") -> int:
        return int(self.value(f"SELECT count(*) AS n FROM {table} WHERE {where}"))

    def status(self, obligation: int) -> str:
        return str(self.value("SELECT status FROM obligations WHERE id = ?", obligation))

    def state(self, token: str) -> str:
        return str(self.value("SELECT state FROM obligation_delivery_claims WHERE token = ?", token))

    def events(self) -> list[str]:
        import json

        rows = self.ledger.backend.rows("SELECT row FROM outbox ORDER BY seq")
        return [json.loads(one["row"]).get("event", "approval") for one in rows]

    def idle(self) -> bool:
        """No transaction was left open."""
        connection = self.ledger.backend.connection  # type: ignore[attr-defined]
        return not connection.in_transaction if self.backend == "sqlite" else connection.info.transaction_status == 0


def make_sqlite(folder: Path) -> Book:
    place = folder / "ledger.db"
    create_ledger(place)
    return Book("sqlite", str(place))


def make_postgres(new_database: Callable[[], str]) -> Book:
    place = new_database()
    create_ledger(place)
    return Book("postgres", place)
