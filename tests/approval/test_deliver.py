"""The worker and its transports: what is known after each kind of answer, and that nothing is ever asked twice."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.approval import channels, freeze
from harness.approval import claim as claims
from harness.approval.deliver import Command, Webhook, adopt, deliver
from harness.approval.errors import Failed
from tests.approval.book import TEXT, Book


def program(tmp_path: Path, body: str) -> tuple[list[str], Path]:
    """A shell program that first notes its input in a file, one line a call, then does ``body``."""
    path, asked = tmp_path / "send", tmp_path / "asked.jsonl"
    path.write_text(f'#!/bin/sh\n{{ cat; echo; }} >> "{asked}"\n{body}\n')
    path.chmod(0o755)
    return [str(path)], asked


def calls(asked: Path) -> int:
    return len(asked.read_text().splitlines()) if asked.exists() else 0


def settle(book: Book, transport: Any) -> Any:
    """Deliver, and then twice more: whatever came out, nothing is asked again."""
    out = deliver(book.ledger, transport)
    for _ in range(2):
        book.clock.now += 100_000
        again = deliver(book.open(), transport)
        assert not again.sent
    return out


ANSWERS = {
    "prints the coordinate": ("echo msg-1", "sent"),
    "is slow, and prints it": ("sleep 0.5; echo msg-1", "sent"),
    "prints it with blanks around": ("printf '\\n  msg-1  \\n\\n'", "sent"),
    "prints nothing": (":", "unknown"),
    "prints two coordinates": ("echo msg-1; echo msg-2", "unknown"),
    "prints garbage": ("printf '\\377\\376\\000'", "unknown"),
    "prints a blank nobody can see": ("printf '\\342\\200\\213\\n'", "unknown"),
    "prints far too much": ("head -c 200000 /dev/zero | tr '\\0' x", "unknown"),
    "fails after it sent": ("echo msg-1; exit 1", "unknown"),
    "is killed": ("kill -9 $$", "unknown"),
    "never answers": ("sleep 60; echo msg-1", "unknown"),
    "answers, and leaves a child behind": ("sleep 60 & echo msg-1", "sent"),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_command_is_asked_once_whatever_it_answers(lite: Book, tmp_path: Path, kind: str) -> None:
    body, outcome = ANSWERS[kind]
    args, asked = program(tmp_path, body)
    obligation, _ = lite.approved(bodies={"text/html": "<p>é</p>"})
    out = settle(lite, Command(args, seconds=2.0))
    assert calls(asked) == 1
    got = json.loads(asked.read_text().splitlines()[0])
    assert got["text"] == TEXT
    assert got["bodies"] == {"text/html": "<p>é</p>"}
    if outcome == "sent":
        assert out.sent == {obligation: "msg-1"}
        assert lite.status(obligation) == "sent"
    else:
        assert list(out.unknown) == [obligation]
        assert [r["state"] for r in claims.held(lite.ledger)] == ["unknown"]
        assert lite.status(obligation) == "approved"


def test_a_command_that_can_not_be_started_leaves_an_unknown(lite: Book, tmp_path: Path) -> None:
    obligation, _ = lite.approved()
    out = settle(lite, Command([str(tmp_path / "nothing")]))
    assert list(out.unknown) == [obligation]


# --- a real HTTP server on loopback ------------------------------------------------------------------------------

Answer = Callable[[BaseHTTPRequestHandler], None]


def whole(status: int, body: bytes, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def hangs(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(3)


def drips(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(30):
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(0.1)


def breaks_off(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"coordinate": "msg-1"}')
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)


WEB: dict[str, tuple[Answer, str]] = {
    "JSON with the coordinate": (whole(200, b'{"coordinate": "msg-1"}'), "sent"),
    "the coordinate as text": (whole(201, b"msg-1\n"), "sent"),
    "JSON with a number": (whole(200, b'{"coordinate": 7}'), "sent"),
    "JSON without one": (whole(200, b'{"ok": true}'), "unknown"),
    "JSON with null": (whole(200, b'{"coordinate": null}'), "unknown"),
    "nothing": (whole(204, b""), "unknown"),
    "two lines": (whole(200, b"a\nb\n"), "unknown"),
    "an error": (whole(500, b"msg-1"), "unknown"),
    "a refusal": (whole(403, b"no"), "unknown"),
    "a redirect": (whole(302, b"", Location="/elsewhere"), "unknown"),
    "a redirect that keeps the method": (whole(307, b"", Location="/elsewhere"), "unknown"),
    "far too much": (whole(200, b"x" * 200_000), "unknown"),
    "nothing for a long time": (hangs, "unknown"),
    "a byte now and then": (drips, "unknown"),
    "half an answer": (breaks_off, "unknown"),
}


@contextmanager
def web(answer: Answer) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that notes each request and gives ``answer``."""
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append({"path": self.path, "body": json.loads(body), "key": self.headers["Idempotency-Key"]})
            try:
                answer(self)
            except OSError:
                self.close_connection = True

        do_GET = do_POST

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/send", seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("kind", WEB)
def test_an_address_is_asked_once_whatever_it_answers(lite: Book, kind: str) -> None:
    answer, outcome = WEB[kind]
    obligation, decision = lite.approved()
    with web(answer) as (url, seen):
        out = settle(lite, Webhook(url, seconds=1.0))
    assert [one["path"] for one in seen] == ["/send"]
    assert seen[0]["body"]["text"] == TEXT
    assert seen[0]["key"].startswith(f"decision-{decision}-")
    assert list(out.sent if outcome == "sent" else out.unknown) == [obligation]


def test_an_address_where_nobody_is_leaves_an_unknown(lite: Book) -> None:
    obligation, _ = lite.approved()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        out = settle(lite, Webhook(f"http://127.0.0.1:{taken.getsockname()[1]}/", seconds=1.0))
    assert list(out.unknown) == [obligation]


# --- the loop ----------------------------------------------------------------------------------------------------


class Recorder:
    """A transport of the test's own that notes what it is given."""

    name = "recorder"

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.got: list[dict[str, Any]] = []
        self.then = then

    def send(self, payload: Any) -> str:
        self.got.append(dict(payload))
        self.then()
        return f"msg-{payload['obligation_id']}"


def test_all_that_is_approved_goes_out_and_the_most_urgent_is_among_the_first(book: Book) -> None:
    for n in range(70):
        book.approved(counterparty=f"party {n}", priority="P3")
    urgent, _ = book.approved(counterparty="urgent", priority="P0")
    transport = Recorder()
    out = deliver(book.ledger, transport)
    assert len(out.sent) == 71
    assert len({one["obligation_id"] for one in transport.got}) == 71
    assert urgent in [one["obligation_id"] for one in transport.got]


def test_no_claim_no_call(book: Book) -> None:
    """When the claim can't be written the transport isn't asked."""
    book.approved()
    if book.backend == "sqlite":
        book.plain(
            "CREATE TRIGGER broken BEFORE INSERT ON obligation_delivery_claims BEGIN SELECT RAISE(ABORT, 'disk'); END"
        )
    else:
        book.plain(
            "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'disk'; END $$",
            "CREATE TRIGGER broken BEFORE INSERT ON obligation_delivery_claims FOR EACH ROW EXECUTE FUNCTION broken()",
        )
    transport = Recorder()
    with pytest.raises(Failed):
        deliver(book.ledger, transport)
    assert transport.got == []


def test_a_receipt_that_can_not_be_written_is_an_unknown_not_a_second_try(book: Book) -> None:
    obligation, _ = book.approved()
    if book.backend == "sqlite":
        book.plain(
            "CREATE TRIGGER broken BEFORE INSERT ON obligation_deliveries BEGIN SELECT RAISE(ABORT, 'disk'); END"
        )
    else:
        book.plain(
            "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'disk'; END $$",
            "CREATE TRIGGER broken BEFORE INSERT ON obligation_deliveries FOR EACH ROW EXECUTE FUNCTION broken()",
        )
    transport = Recorder()
    out = settle(book, transport)
    assert list(out.unknown) == [obligation]
    assert len(transport.got) == 1


def test_an_attempt_that_was_given_up_meanwhile_is_completed_by_its_own_answer(book: Book) -> None:
    obligation, _ = book.approved()
    other = book.open()

    def given_up() -> None:
        claims.mark_unknown(other, str(book.value("SELECT token FROM obligation_delivery_claims")))

    out = deliver(book.ledger, Recorder(given_up))
    assert out.sent == {obligation: f"msg-{obligation}"}
    assert book.status(obligation) == "sent"
    assert "the answer of the transport" in book.value("SELECT reconciliation_evidence FROM obligation_delivery_claims")


def test_a_channel_that_was_frozen_after_the_approval_is_left_alone(book: Book) -> None:
    obligation, _ = book.approved()
    policy = channels.from_document(
        {
            "channels": [
                {"platform": "slack", "workspace": "T1", "channel": "*", "audience": "outside", "autonomy": "frozen"}
            ]
        }
    )
    transport = Recorder()
    out = deliver(book.ledger, transport, policy)
    assert list(out.skipped) == [obligation]
    assert transport.got == []


def test_the_stop_button_between_claim_and_begin_sends_nothing(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    obligation, _ = book.approved()
    real, other = claims.claim, book.open()

    def then_frozen(*args: Any) -> str:
        token = real(*args)
        freeze.freeze(other, "ada", "stop")
        return token

    monkeypatch.setattr(claims, "claim", then_frozen)
    transport = Recorder()
    deliver(book.ledger, transport)
    assert transport.got == []
    assert book.status(obligation) == "drafted", "a person decides again"


def test_a_dead_workers_attempt_is_marked_unknown_and_a_live_ones_is_not(book: Book) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    book.ledger.worker = (book.ledger.worker[0], gone.pid)
    dead, _, _ = book.dispatching(counterparty="dead")
    book.ledger.worker = (book.ledger.worker[0], os.getppid())
    alive, _, _ = book.dispatching(counterparty="alive")
    book.ledger.worker = ("another machine", gone.pid)
    book.dispatching(counterparty="far")
    book.ledger.worker = (socket.gethostname(), os.getpid())
    assert adopt(book.ledger) == [dead]
    states = {r["obligation_id"]: r["state"] for r in claims.held(book.ledger)}
    assert states[dead] == "unknown"
    assert states[alive] == "dispatching"


def test_held_lists_what_is_stale_with_age_worker_and_hash(book: Book) -> None:
    claimed, _, _ = book.claimed(counterparty="a")
    book.dispatching(counterparty="b")
    book.clock.now += 600
    rows = claims.held(book.ledger)
    assert [(r["state"], r["age"], r["stale"]) for r in rows] == [("claimed", 600, True), ("dispatching", 600, True)]
    assert all(len(r["draft_sha256"]) == 64 and r["worker_pid"] for r in rows)
    claims.cancel_claimed(book.ledger, claimed, "ada")
    assert book.status(claimed) == "drafted"
    claims.reconcile_held(book.ledger, rows[1]["obligation_id"], "x", "seen there", "ada")
    assert claims.held(book.ledger) == []


def test_an_approval_that_grants_nothing_is_passed_over_and_the_worker_ends(book: Book) -> None:
    broken, _ = book.approved(counterparty="broken")
    good, _ = book.approved(counterparty="good")
    book.plain(f"UPDATE obligations SET direction = 'none' WHERE id = {broken}")
    out = deliver(book.ledger, Recorder())
    assert list(out.sent) == [good]
    assert list(out.skipped) == [broken]
