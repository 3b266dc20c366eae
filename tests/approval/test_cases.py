"""Cases from public bug reports that no other test of this folder tells: races, replays, broken places."""

from __future__ import annotations

import json
import multiprocessing
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from harness.approval import claim as claims
from harness.approval import sqlite
from harness.approval.errors import (
    AlreadyDecided,
    Contradiction,
    Failed,
    Locked,
    LostRace,
    NoLedger,
    NotBound,
    NotFound,
    StaleDecision,
    Tampered,
    UnknownToken,
    UnsafeConnection,
)
from harness.approval.ledger import create_ledger, open_ledger
from harness.approval.text import digest
from tests.approval.book import Book

FIXTURES = Path(__file__).parent.parent / "fixtures" / "approvals"


def test_one_word_of_the_html_changed_after_the_approval_is_refused(book: Book) -> None:
    case = json.loads((FIXTURES / "A-01.json").read_bytes())
    filed = book.file(
        case["text"], counterparty=case["counterparty"], origin_platform=case["platform"], origin_channel=case["channel"],
        origin_workspace=None, origin_thread=case["thread"], subject=case["subject"], bodies={"text/html": case["html"]},
        attachments=case["attachments"],
    )  # fmt: skip
    decision = book.decide(filed)
    book.plain("UPDATE draft_bodies SET body = replace(body, 'Friday', 'Monday')")
    with pytest.raises(Tampered):
        claims.claim(book.ledger, filed["obligation_id"], decision["id"])
    assert book.count("obligation_delivery_claims") == 0


def test_a_body_that_was_changed_before_the_decision_can_not_be_approved(book: Book) -> None:
    filed = book.file(bodies={"text/html": "<p>Friday</p>"})
    shown = book.ledger.draft(filed["obligation_id"], filed["epoch"])
    assert shown is not None
    book.plain("UPDATE draft_bodies SET body = '<p>Monday</p>'")
    with pytest.raises(Tampered):
        book.decide(filed)
    from harness.approval import text

    new = text.Body("text/html", "<p>Monday</p>", text.sha256("<p>Monday</p>"))
    place = book.ledger.obligation(filed["obligation_id"])
    consistent = digest(shown["draft_text"], "", [new], [], place)
    book.tamper("UPDATE draft_bodies SET sha256 = ?", values=(new.sha256,))
    book.tamper("UPDATE obligation_drafts SET digest = ?", values=(consistent,))
    with pytest.raises(StaleDecision):
        book.decide(filed, digest=shown["digest"])


def _race(place: str, barrier: Any, out: Any, rounds: int) -> None:
    ledger = open_ledger(place)
    for n in range(1, rounds + 1):
        barrier.wait(30)
        try:
            token = claims.claim(ledger, n, n)
            out.put((n, claims.begin_dispatch(ledger, token)["text"]))
        except (LostRace, Locked) as error:
            out.put((n, type(error).__name__))


def test_two_processes_on_a_barrier_get_one_payload_each_round(book: Book) -> None:
    rounds = 100
    for n in range(rounds):
        book.approved(counterparty=f"party {n}")
    book.close()
    context = multiprocessing.get_context("fork")
    barrier, out = context.Barrier(2), context.Queue()
    workers = [context.Process(target=_race, args=(book.place, barrier, out, rounds)) for _ in range(2)]
    for one in workers:
        one.start()
    answers = [out.get(timeout=60) for _ in range(2 * rounds)]
    for one in workers:
        one.join(30)
    for n in range(1, rounds + 1):
        mine = sorted(text for number, text in answers if number == n)
        assert mine[0] == "LostRace", mine
        assert mine[1].startswith("Thanks"), mine


def test_each_trouble_has_its_own_code_and_only_busy_says_try_again(lite: Book) -> None:
    obligation, decision, token = lite.claimed()
    other = lite.approved(counterparty="other")
    codes = {}
    for name, work in {
        "race": lambda: claims.claim(lite.ledger, obligation, decision),
        "token": lambda: claims.begin_dispatch(lite.ledger, "nope"),
        "missing": lambda: claims.claim(lite.ledger, 99, 1),
        "unbound": lambda: claims.claim(lite.ledger, other[0], 99),
    }.items():
        with pytest.raises((LostRace, UnknownToken, NotFound, NotBound)) as caught:
            work()
        codes[name] = caught.value.code
        assert "try again" not in str(caught.value).lower()
    assert codes == {"race": "lost_race", "token": "unknown_token", "missing": "not_found", "unbound": "not_bound"}
    blocker = sqlite3.connect(lite.place, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(Locked, match="Try again"):
        claims.claim(lite.ledger, *other)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert claims.claim(lite.ledger, *other)
    assert lite.state(token) == "claimed"


def test_a_busy_postgres_is_locked_not_lost(request: pytest.FixtureRequest) -> None:
    import psycopg

    from tests.approval.book import make_postgres

    book = make_postgres(request.getfixturevalue("new_database"))
    obligation, decision = book.approved()
    book.ledger.backend.connection.execute("SET lock_timeout = '200ms'")  # type: ignore[attr-defined]
    with psycopg.connect(book.place) as blocker:
        blocker.execute("SELECT 1 FROM obligations WHERE id = %s FOR UPDATE", (obligation,))
        with pytest.raises(Locked):
            claims.claim(book.ledger, obligation, decision)
    assert claims.claim(book.ledger, obligation, decision)
    book.close()


def test_a_replayed_click_decides_once(book: Book) -> None:
    filed = book.file()
    other = book.file(counterparty="other")
    first = book.decide(filed, nonce="click-1")
    for _ in range(2):
        again = book.decide(filed, nonce="click-1")
        assert again["replayed"] is True
        assert again["id"] == first["id"]
    with pytest.raises(Contradiction):
        book.decide(other, nonce="click-1")
    with pytest.raises(Contradiction):
        book.decide(filed, "reject", nonce="click-1")
    book.file("new text")
    with pytest.raises(StaleDecision):
        book.decide(filed, nonce="click-1")
    assert book.count("obligation_decisions") == 1


def test_a_click_that_could_not_be_stored_is_an_error_and_pressing_again_shows_what_is(
    book: Book, tmp_path: Path
) -> None:
    filed = book.file()
    if book.backend == "sqlite":
        book.ledger.backend.connection.execute("PRAGMA query_only = ON")  # type: ignore[attr-defined]
        with pytest.raises(Failed):
            book.decide(filed)
        book.ledger.backend.connection.execute("PRAGMA query_only = OFF")  # type: ignore[attr-defined]
    else:
        book.ledger.backend.connection.execute("SET default_transaction_read_only = on")  # type: ignore[attr-defined]
        with pytest.raises(Failed):
            book.decide(filed)
        book.ledger.backend.connection.execute("SET default_transaction_read_only = off")  # type: ignore[attr-defined]
    assert book.status(filed["obligation_id"]) == "drafted"
    made = book.decide(filed)
    with pytest.raises(AlreadyDecided) as caught:
        book.decide(filed)
    assert caught.value.decision["id"] == made["id"]


def test_decisions_on_several_are_each_their_own(book: Book) -> None:
    filed = [book.file(counterparty=name) for name in "abc"]
    book.file("moved on", counterparty="b")
    out = []
    for one in filed:
        try:
            out.append(book.decide(one)["decision"])
        except StaleDecision as error:
            out.append(error.code)
    assert out == ["approve", "stale_decision", "approve"]


def test_a_decision_on_what_is_gone_leaves_no_orphan(book: Book) -> None:
    filed = book.file()
    book.tamper("DELETE FROM draft_bodies", "DELETE FROM obligation_drafts", "DELETE FROM obligations")
    with pytest.raises(NotFound):
        book.decide(filed)
    assert book.count("obligation_decisions") == 0
    insert = "INSERT INTO obligation_decisions (obligation_id, epoch, decision, operator, channel, decided_ts, nonce) "
    words = book.refused(f"{insert}VALUES (7, 1, 'approve', 'x', 'terminal', 1, 'n')")
    assert "ledger:not_found" in words or "foreign key" in words


def test_only_init_makes_a_ledger(tmp_path: Path) -> None:
    cases = {"missing.db": None, "folder": "dir", "empty.db": b"", "text.db": b"hello, I am no database at all"}
    for name, content in cases.items():
        path = tmp_path / name
        if content == "dir":
            path.mkdir()
        elif isinstance(content, bytes):
            path.write_bytes(content)
        before = sorted(p.name for p in tmp_path.iterdir())
        with pytest.raises(NoLedger):
            open_ledger(path)
        assert sorted(p.name for p in tmp_path.iterdir()) == before
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(NoLedger):
        open_ledger(tmp_path / "other.db")
    odd = tmp_path / "ledger ?#%.sqlite"
    create_ledger(odd)
    with open_ledger(odd) as made:
        assert made.backend.rows("PRAGMA database_list")[0]["file"] == str(odd.resolve())
    with pytest.raises(NoLedger):
        create_ledger(odd)
    assert not list(tmp_path.glob(".*harness-new*"))


def test_a_connection_without_guards_is_refused(lite: Book) -> None:
    obligation, decision = lite.approved()
    for pragma in ("foreign_keys", "recursive_triggers"):
        plain = sqlite3.connect(lite.place, isolation_level=None)
        plain.execute("PRAGMA foreign_keys = ON")
        plain.execute("PRAGMA recursive_triggers = ON")
        plain.execute(f"PRAGMA {pragma} = OFF")
        ledger = open_ledger(lite.place)
        ledger.backend = sqlite.SQLite(plain, lite.place, Path(lite.place))
        with pytest.raises(UnsafeConnection):
            claims.claim(ledger, obligation, decision)
        plain.close()
    assert lite.count("obligation_delivery_claims") == 0


def test_a_full_disk_is_said_and_nothing_is_half_filed(lite: Book) -> None:
    lite.file()
    lite.ledger.backend.connection.execute("PRAGMA max_page_count = 1")  # type: ignore[attr-defined]

    def until_full() -> None:
        for n in range(2000):
            lite.file("x" * 16_000, counterparty=f"party {n}")

    with pytest.raises(Failed, match="Make room"):
        until_full()
    assert lite.idle()
    assert lite.count("obligations") == lite.count("obligation_drafts") == lite.count("outbox")


def _hold_and_die(place: str) -> None:
    ledger = open_ledger(place)
    connection = ledger.backend.connection  # type: ignore[attr-defined]
    connection.execute("BEGIN IMMEDIATE") if ledger.backend.name == "sqlite" else connection.execute("BEGIN")
    connection.execute(
        "INSERT INTO obligation_delivery_claims (obligation_id, decision_id, token, state, created_ts, updated_ts) VALUES (1, 1, 'lost', 'claimed', 1, 1)"
    )
    os._exit(9)


def test_a_claim_that_was_not_committed_is_none(book: Book) -> None:
    pair = book.approved()
    worker = multiprocessing.get_context("fork").Process(target=_hold_and_die, args=(book.place,))
    worker.start()
    worker.join(30)
    assert book.count("obligation_delivery_claims") == 0
    until = time.monotonic() + 10
    while True:
        try:
            assert claims.claim(book.ledger, *pair)
            return
        except Locked:
            assert time.monotonic() < until
