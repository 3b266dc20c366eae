"""Many workers at once: each approval goes out exactly once, whoever is first; and the stop button reaches all of them."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from harness.approval import claim as claims
from harness.approval import freeze
from harness.approval.deliver import deliver
from harness.approval.ledger import open_ledger
from tests.approval.book import Book

WORKERS = 16


class Noted:
    """Sends by a line in a file that all workers share: the obligation, and when."""

    name = "noted"

    def __init__(self, path: Path, pause: float = 0.0) -> None:
        self.handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.pause = pause

    def send(self, payload: Any) -> str:
        os.write(self.handle, f"{payload['obligation_id']} {time.time():.6f}\n".encode())
        time.sleep(self.pause)
        return "noted:1"


def start(book: Book, path: Path, *, once: bool, pause: float = 0.0) -> int:
    """A worker in a process of its own; it ends by itself, or (not ``once``) when a file ``stop`` is there."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        with open_ledger(book.place) as ledger:
            deliver(ledger, Noted(path, pause), once=once, stop=lambda: path.with_name("stop").exists(), pause=0.05)
        code = 0
    finally:
        os._exit(code)


def ended(children: list[int]) -> None:
    assert {os.waitpid(child, 0)[1] for child in children} == {0}


def test_sixteen_workers_send_each_approval_once(book: Book, tmp_path: Path) -> None:
    count = 160
    for n in range(count):
        book.approved(counterparty=f"party {n}")
    book.close()
    ended([start(book, tmp_path / "sent", once=True) for _ in range(WORKERS)])
    sent = Counter(line.split()[0] for line in (tmp_path / "sent").read_text().splitlines())
    assert len(sent) == count
    assert set(sent.values()) == {1}
    assert book.count("obligations", "status = 'sent'") == count
    assert claims.held(book.ledger) == []


def test_nothing_begins_once_the_stop_button_has_been_pressed(book: Book, tmp_path: Path) -> None:
    count = 200
    for n in range(count):
        book.approved(counterparty=f"party {n}")
    book.close()
    sent = tmp_path / "sent"
    children = [start(book, sent, once=False, pause=0.02) for _ in range(WORKERS)]
    until = time.monotonic() + 60
    while (not sent.exists() or sent.read_text().count("\n") < 10) and time.monotonic() < until:
        time.sleep(0.01)
    freeze.freeze(book.ledger, "ada", "stop")
    begun = book.count("obligation_delivery_claims", "state IN ('dispatching', 'delivered', 'unknown')")
    time.sleep(1.0)
    assert book.count("obligation_delivery_claims", "state IN ('dispatching', 'delivered', 'unknown')") == begun
    assert sent.read_text().count("\n") == begun < count
    (tmp_path / "stop").touch()
    ended(children)
    again = book.count("obligations", "status = 'drafted'")
    freeze.unfreeze(book.ledger, "ada")
    (tmp_path / "stop").unlink()
    book.close()
    ended([start(book, sent, once=True)])
    numbers = Counter(line.split()[0] for line in sent.read_text().splitlines())
    assert set(numbers.values()) == {1}
    assert len(numbers) == count - again, "what was claimed and had not begun waits for a person again"
