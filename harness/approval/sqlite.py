"""The ledger in a SQLite file: write-ahead log, every commit synced, writers in a queue."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from harness.approval.backend import Row, Value
from harness.approval.errors import (
    ApprovalError,
    Failed,
    Locked,
    NestedTransaction,
    NoLedger,
    UnsafeConnection,
    from_database,
)
from harness.approval.limits import LIMITS

SCHEMA: Final = Path(__file__).parent / "sql" / "sqlite.001.sql"
VERSION: Final = "1"
APPLICATION_ID: Final = 0x68_72_6C_67  # "hrlg": tells `file` and us what this is
_MAGIC: Final = b"SQLite format 3\0"
_POLL_SECONDS: Final = 0.05


class SQLite:
    """One connection to a ledger's file. ``queue`` is the path of the file whose lock writers take before BEGIN."""

    name = "sqlite"

    def __init__(self, connection: sqlite3.Connection, place: str, queue: Path | None) -> None:
        self.connection, self.place, self.queue = connection, place, queue
        self._seen: object = None

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        with translated():
            cursor = self.connection.execute(sql, values)
            names = [one[0] for one in cursor.description or ()]
            # A caller's connection may have any row factory; positions are what they all share.
            return [dict(zip(names, tuple(row), strict=True)) for row in cursor.fetchall()]

    def change(self, sql: str, values: Sequence[Value] = ()) -> int:
        with translated():
            return self.connection.execute(sql, values).rowcount

    def insert(self, sql: str, values: Sequence[Value] = ()) -> int:
        with translated():
            return self.connection.execute(sql, values).lastrowid or 0

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        if self.connection.in_transaction:
            raise NestedTransaction(
                "a transaction is open already",
                "permission may not hang on a later commit",
                "commit or roll back first",
            )
        for pragma in ("foreign_keys", "recursive_triggers"):
            if self.rows(f"PRAGMA {pragma}") != [{pragma: 1}]:
                raise UnsafeConnection("this connection has no guards", f"PRAGMA {pragma} is off", "turn it on")
        with turn(self.queue):
            with translated():
                self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                with translated():
                    self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def hold(self, obligation_id: int) -> None:
        """Nothing to do: BEGIN IMMEDIATE holds the whole file."""

    def announce(self) -> None:
        """Nothing to do: who waits looks at the file's own counter."""

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        if self._seen is None:
            self._seen = self._version()
        while time.monotonic() < until:
            if (now := self._version()) != self._seen:
                self._seen = now
                return
            time.sleep(min(_POLL_SECONDS, max(0.0, until - time.monotonic())))

    def _version(self) -> object:
        return self.rows("PRAGMA data_version")

    def close(self) -> None:
        self.connection.close()


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Inside, an error of SQLite becomes one of ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise _as_ours(error) from error
    except (UnicodeError, OverflowError) as error:
        raise Failed("the database can't take this value", str(error)) from error


def _as_ours(error: sqlite3.Error) -> ApprovalError:
    if guard := from_database(str(error)):
        return guard
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return _locked()
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return NoLedger(
            "that is no ledger", str(error), "give the path of a ledger, or restore it with `harness ledger rebuild`"
        )
    todo = {"SQLITE_FULL": "make room and try again", "SQLITE_READONLY": "give write permission and try again"}
    return Failed("the ledger can't be used", str(error), next((t for n, t in todo.items() if name.startswith(n)), ""))


def _locked() -> Locked:
    return Locked("the ledger is busy", f"another writer held it for {LIMITS.lock_seconds:g} s", "try again")


@contextlib.contextmanager
def turn(queue: Path | None) -> Iterator[None]:
    """Inside, it is this process's turn to write. Two locks make the queue fair: who waits for the second holds the first,
    so that a writer that has just finished comes behind it. SQLite's own busy handler let one process claim a single row
    while another claimed two thousand."""
    if queue is None:
        yield
        return
    deadline = time.monotonic() + LIMITS.lock_seconds
    with (
        _taken(queue.with_name(queue.name + ".door"), deadline) as door,
        _taken(queue.with_name(queue.name + ".lock"), deadline),
    ):
        fcntl.flock(door, fcntl.LOCK_UN)
        yield


@contextlib.contextmanager
def _taken(path: Path, deadline: float) -> Iterator[int]:
    """Inside, the lock of ``path`` is ours. The kernel hands it on in the order of asking, which looking again and again
    does not; asking blocks without a limit, so a thread asks, and gives it back when nobody wants it any more."""
    handle = _open(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        asked = _Asked(handle)
        if not asked.wait(deadline - time.monotonic()):
            raise _locked() from None
    try:
        yield handle
    finally:
        os.close(handle)


class _Asked:
    """A lock that is asked for by a thread of its own."""

    def __init__(self, handle: int) -> None:
        self.handle, self.came, self.left, self.guard = handle, threading.Event(), False, threading.Lock()
        threading.Thread(target=self._ask, daemon=True).start()

    def _ask(self) -> None:
        fcntl.flock(self.handle, fcntl.LOCK_EX)
        with self.guard:
            if self.left:
                os.close(self.handle)
            self.came.set()

    def wait(self, seconds: float) -> bool:
        """Whether it came in time. When it didn't, the thread closes the handle as soon as it gets it."""
        if self.came.wait(max(0.0, seconds)):
            return True
        with self.guard:
            self.left = not self.came.is_set()
            return not self.left


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Failed(
            "the ledger can't be written", f"{path}: {error.strerror}", "give write permission and try again"
        ) from error


def open_file(path: Path) -> SQLite:
    """Open the ledger at ``path``; it must be there. Any file name is taken literally."""
    if not path.is_file():
        what = "a folder" if path.is_dir() else "nothing" if not path.exists() else "no regular file"
        raise NoLedger(f"there is no ledger at {path}", f"{what} is there", "make one with `harness ledger init`")
    with open(path, "rb") as file:
        if file.read(16) != _MAGIC:
            raise NoLedger(f"{path} is no ledger", "it is no SQLite database", "give the path of a ledger")
    backend = SQLite(connect(path), str(path), path)
    try:
        tables = backend.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'meta'")
        found = backend.rows("SELECT value FROM meta WHERE key = 'version'") if tables else []
        if not found:
            raise NoLedger(f"{path} is no ledger", "it has no ledger's tables", "give the path of a ledger")
        if found[0]["value"] != VERSION:
            raise NoLedger(
                f"{path} has version {found[0]['value']}", f"this program knows version {VERSION}", "update git-harness"
            )
    except BaseException:
        backend.close()
        raise
    return backend


def connect(path: Path) -> sqlite3.Connection:
    """A connection with the guards on; the file must exist, and no part of its name is taken for an option."""
    uri = path.resolve().as_uri() + "?mode=rw"
    with translated():
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=LIMITS.lock_seconds)
        for pragma in ("foreign_keys = ON", "recursive_triggers = ON", "synchronous = FULL", "trusted_schema = ON"):
            connection.execute(f"PRAGMA {pragma}")
    return connection


def create(path: Path) -> None:
    """Make a ledger at ``path``: complete in a file beside it, then renamed. An existing file is left alone (NoLedger)."""
    if path.exists():
        raise NoLedger(f"{path} exists already", "", "use it, or choose another path")
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.harness-new")
    aside.unlink(missing_ok=True)
    try:
        with translated(), contextlib.closing(sqlite3.connect(aside, isolation_level=None)) as made:
            made.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            made.execute("PRAGMA journal_mode = WAL")
            made.executescript(SCHEMA.read_text("utf-8"))
            made.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        os.chmod(aside, 0o600)
        os.link(aside, path)  # unlike a rename it never takes the place of a ledger that another process made meanwhile
    except FileExistsError:
        raise NoLedger(f"{path} exists already", "", "use it, or choose another path") from None
    except OSError as error:
        raise Failed(
            "the ledger can't be made", f"{path}: {error.strerror}", "give write permission and try again"
        ) from error
    finally:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{aside}{suffix}").unlink(missing_ok=True)
