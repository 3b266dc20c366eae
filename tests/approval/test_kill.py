"""Kill -9 before every statement of file, decide, claim, begin, send and complete: never two sends, and the state says what
is known. The table that docs/approvals.md shows is made here."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.approval import claim as claims
from harness.approval import sqlite
from harness.approval.deliver import deliver
from harness.approval.ledger import open_ledger
from tests.approval.book import Book

_MOST = 400


class Fuse:
    """Kills this process at the n-th thing that it does."""

    def __init__(self, left: int) -> None:
        self.left = left

    def burn(self) -> None:
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Fused:
    """A backend that burns the fuse before each statement, and on both sides of each commit."""

    def __init__(self, real: Any, fuse: Fuse) -> None:
        self._real, self._fuse = real, fuse

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def rows(self, *args: Any) -> Any:
        return self._real.rows(*args)

    def change(self, *args: Any) -> Any:
        self._fuse.burn()
        return self._real.change(*args)

    def insert(self, *args: Any) -> Any:
        self._fuse.burn()
        return self._real.insert(*args)

    def transaction(self) -> Any:
        import contextlib

        @contextlib.contextmanager
        def fused() -> Any:
            self._fuse.burn()
            with self._real.transaction():
                yield
                self._fuse.burn()
            self._fuse.burn()

        return fused()


class ToFile:
    """Sends by appending a line to a file; the fuse burns before and behind."""

    name = "file"

    def __init__(self, path: Path, fuse: Fuse) -> None:
        self.path, self.fuse = path, fuse

    def send(self, payload: Any) -> str:
        self.fuse.burn()
        with open(self.path, "a") as file:
            file.write(json.dumps(payload["counterparty"]) + "\n")
        self.fuse.burn()
        return "file:1"


def walk(book: Book, party: str, sent: Path, fuse: Fuse) -> None:
    """The whole way of one draft, in this process."""
    ledger = open_ledger(book.place)
    ledger.backend = Fused(ledger.backend, fuse)
    own = Book(book.backend, book.place, opened=[ledger])
    filed = own.file(counterparty=party, bodies={"text/html": "<p>x</p>"})
    decision = own.decide(filed)
    token = claims.claim(ledger, filed["obligation_id"], decision["id"])
    payload = claims.begin_dispatch(ledger, token)
    claims.complete(ledger, token, ToFile(sent, fuse).send(payload))


def dies(work: Callable[[], None]) -> bool:
    """Run ``work`` in a process of its own; whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def known(book: Book, party: str) -> str:
    row = book.ledger.one("SELECT id, status FROM obligations WHERE counterparty = ?", party)
    if row is None:
        return "nothing"
    claim = book.ledger.active_claim(row["id"])
    return f"{row['status']}, {claim['state']}" if claim else row["status"]


def test_killed_anywhere_it_is_sent_at_most_once_and_the_state_is_true(book: Book, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    sent.touch()
    seen: list[tuple[str, int]] = []
    for step in range(_MOST):
        party = f"party {step}"
        if not dies(lambda party=party, step=step: walk(book, party, sent, Fuse(step))):  # type: ignore[misc]
            break
        count = sent.read_text().count(json.dumps(party))
        seen.append((known(book, party), count))
    else:
        pytest.fail("the walk never ended")
    assert len(seen) > 20
    allowed = {
        "nothing": {0}, "drafted": {0}, "approved": {0}, "approved, claimed": {0}, "approved, dispatching": {0, 1}, "sent": {1},
    }  # fmt: skip
    assert all(count in allowed[state] for state, count in seen), seen
    states = [state for state, _ in seen]
    assert list(dict.fromkeys(states)) == list(allowed), "each state in turn, and none comes back"
    # A worker of the same machine comes afterwards. What was only approved goes out; what had begun is unknown and stays so.
    for _ in range(2):
        deliver(book.open(), ToFile(sent, Fuse(10**9)))
    counts = Counter(json.loads(line) for line in sent.read_text().splitlines())
    assert set(counts.values()) == {1}
    for step, (state, before) in enumerate(seen):
        party = f"party {step}"
        after = {"approved": "sent", "approved, dispatching": "approved, unknown"}.get(state, state)
        assert known(book, party) == after
        assert counts[party] == (1 if state == "approved" else before)


@pytest.mark.parametrize("size", [0, 1, 2])
def test_a_worker_killed_in_its_loop_leaves_no_doubt(book: Book, tmp_path: Path, size: int) -> None:
    sent = tmp_path / "sent"
    sent.touch()
    for n in range(4):
        book.approved(counterparty=f"party {n}")
    book.close()

    def work(step: int) -> Callable[[], None]:
        def run() -> None:
            ledger = open_ledger(book.place)
            ledger.backend = Fused(ledger.backend, Fuse(step))
            deliver(ledger, ToFile(sent, Fuse(10**9)))

        return run

    for step in range(size, 200, 3):
        if not dies(work(step)):
            break
    counts = Counter(sent.read_text().splitlines())
    assert all(n == 1 for n in counts.values())
    held = claims.held(book.ledger)
    # Each of the four is sent, or held with a reason; none is both waiting and sent.
    assert book.count("obligations", "status = 'sent'") + len(held) == 4
    assert len(counts) <= 4
    assert all(row["state"] in ("claimed", "unknown") for row in held)


def test_the_writers_lock_goes_with_the_process_that_held_it(lite: Book) -> None:
    def work() -> None:
        with sqlite.turn(Path(lite.place)):
            os.kill(os.getpid(), signal.SIGKILL)

    assert dies(work)
    assert lite.file()["obligation_id"] == 1
