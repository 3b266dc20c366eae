"""The ledger in PostgreSQL, for several machines. Needs psycopg 3 (the extra ``postgres``)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.approval.backend import Row, Value
from harness.approval.errors import ApprovalError, Failed, Locked, NestedTransaction, NoLedger, from_database
from harness.approval.limits import LIMITS

if TYPE_CHECKING:
    import psycopg

SQL: Final = Path(__file__).parent / "sql"
VERSION: Final = "1"
CHANNEL: Final = "harness_ledger"
_MIGRATION_LOCK: Final = "harness ledger migration"


class PostgreSQL:
    """One connection to a ledger's database."""

    name = "postgres"

    def __init__(self, connection: psycopg.Connection[Any], place: str) -> None:
        self.connection, self.place = connection, place
        self._listening = False

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        with translated():
            cursor = self.connection.execute(_placed(sql), values)
            names = [one.name for one in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def change(self, sql: str, values: Sequence[Value] = ()) -> int:
        with translated():
            return self.connection.execute(_placed(sql), values).rowcount

    def insert(self, sql: str, values: Sequence[Value] = ()) -> int:
        return int(self.rows(f"{sql} RETURNING id", values)[0]["id"])

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        from psycopg.pq import TransactionStatus

        if self.connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            raise NestedTransaction(
                "a transaction is open already",
                "permission may not hang on a later commit",
                "commit or roll back first",
            )
        with translated(), self.connection.transaction():
            yield

    def hold(self, obligation_id: int) -> None:
        self.rows("SELECT id FROM obligations WHERE id = ? FOR UPDATE", (obligation_id,))

    def announce(self) -> None:
        # Only where somebody may be waiting for it: commits that notify are made one after the other by the whole server.
        self.rows("SELECT pg_notify(?, '')", (CHANNEL,))

    def wait(self, seconds: float) -> None:
        with translated():
            if not self._listening:
                self.connection.execute(f"LISTEN {CHANNEL}")
                self._listening = True
            for _ in self.connection.notifies(timeout=seconds, stop_after=1):
                pass

    def close(self) -> None:
        self.connection.close()


def _placed(sql: str) -> Any:
    return sql.replace("%", "%%").replace("?", "%s")


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Inside, an error of psycopg becomes one of ours."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise _as_ours(error) from error
    except UnicodeError as error:
        raise Failed("the database can't take this value", str(error)) from error


def _as_ours(error: psycopg.Error) -> ApprovalError:
    from psycopg import errors

    if guard := from_database(str(error)):
        return guard
    busy = (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure, errors.QueryCanceled)
    if isinstance(error, busy):
        return Locked("the ledger is busy", f"another writer held it for {LIMITS.lock_seconds:g} s", "try again")
    return Failed("the ledger can't be used", without_password(str(error)))


def without_password(text: str) -> str:
    """``text`` with the password of every connection string in it masked."""
    return re.sub(r"(?<=://)([^\s:@/]*):[^\s@]*@", r"\1:***@", re.sub(r"password\s*=\s*\S+", "password=***", text))


def connect(url: str) -> psycopg.Connection[Any]:
    """A connection in autocommit mode; transactions are opened by name."""
    try:
        import psycopg
    except ImportError:
        raise NoLedger("a PostgreSQL ledger needs psycopg 3", "", "run `pip install 'git-harness[postgres]'`") from None
    try:
        connection = psycopg.connect(url, autocommit=True, connect_timeout=10)
    except psycopg.Error as error:
        raise NoLedger(
            "the ledger's server can't be reached", without_password(str(error)), "look at ledger.url"
        ) from error
    with translated():
        connection.execute(f"SET lock_timeout = '{int(LIMITS.lock_seconds * 1000)}ms'")
    return connection


def open_url(url: str) -> PostgreSQL:
    """Open the ledger at ``url``; its tables must be there."""
    backend = PostgreSQL(connect(url), without_password(url))
    try:
        found = backend.rows("SELECT to_regclass('meta') AS meta")[0]["meta"]
        version = backend.rows("SELECT value FROM meta WHERE key = 'version'") if found else []
        if not version:
            raise NoLedger("that database holds no ledger", backend.place, "make one with `harness ledger init`")
        if version[0]["value"] != VERSION:
            raise NoLedger(
                f"the ledger has version {version[0]['value']}",
                f"this program knows version {VERSION}",
                "update git-harness",
            )
    except BaseException:
        backend.close()
        raise
    return backend


def create(url: str) -> None:
    """Bring the database at ``url`` to this version: each numbered file of ``sql/`` that it doesn't have yet, in one
    transaction. A ledger that is there stays as it is."""
    with contextlib.closing(connect(url)) as connection, translated(), connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (_MIGRATION_LOCK,))
        row = connection.execute("SELECT to_regclass('meta')").fetchone()
        have = "0"
        if row and row[0]:
            found = connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
            have = found[0] if found else "0"
        for path in sorted(SQL.glob("postgres.*.sql")):
            if int(path.name.split(".")[1]) > int(have):
                connection.execute(path.read_bytes())
