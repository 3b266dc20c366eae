"""From filing to receipt, on both backends."""

from __future__ import annotations

import json

import pytest

from harness.approval import claim as claims
from harness.approval.errors import AlreadyDecided, ClaimActive, LostRace, NotBound, StaleDecision, WrongState
from tests.approval.book import START, TEXT, Book


def test_filed_approved_sent_once_and_all_of_it_recorded(book: Book) -> None:
    filed = book.file(priority="P1", subject="Delivery window", bodies={"text/html": "<p>Friday</p>"})
    assert filed["refiled"] is False
    assert filed["epoch"] == START
    row = book.ledger.obligation(filed["obligation_id"])
    assert row["summary"].endswith(f"[sha {filed['draft_sha256'][:8]}]")
    decision = book.decide(filed)
    assert book.status(filed["obligation_id"]) == "approved"
    token = claims.claim(book.ledger, filed["obligation_id"], decision["id"])
    got = claims.begin_dispatch(book.ledger, token)
    assert got["text"] == TEXT
    assert got["bodies"] == {"text/html": "<p>Friday</p>"}
    assert (got["platform"], got["workspace"], got["channel"], got["thread"]) == (
        "slack", "T1", "#acme-shared", "1712345678.000100",
    )  # fmt: skip
    assert claims.complete(book.ledger, token, "slack:1712.1") is True
    assert book.status(filed["obligation_id"]) == "sent"
    assert book.events() == [
        "drafts.filed", "decisions.decided", "approval", "claims.claimed", "claims.dispatching", "deliveries.delivered",
    ]  # fmt: skip
    row = json.loads(book.value("SELECT row FROM outbox WHERE path LIKE '%approvals.ndjson'"))
    assert row["decision"] == "approve"
    assert row["path"] == f"ledger/{filed['obligation_id']}/{filed['epoch']}"
    assert row["title"] == "Delivery window"


def test_filed_twice_in_one_second_is_one_obligation_and_two_epochs(book: Book) -> None:
    first, second = book.file(), book.file("Thanks. Friday?")
    assert second["refiled"] is True
    assert second["obligation_id"] == first["obligation_id"]
    assert second["epoch"] == first["epoch"] + 1
    assert book.count("obligations") == 1
    assert book.count("obligation_drafts") == 2
    book.clock.now = START - 500
    assert book.file("Once more")["epoch"] == first["epoch"] + 2, "also when the clock went back"


def test_a_stale_decision_changes_nothing_and_shows_the_difference(book: Book) -> None:
    old = book.file()
    new = book.file("We can hold it until Monday.")
    with pytest.raises(StaleDecision) as caught:
        book.decide(old)
    assert caught.value.epoch == new["epoch"]
    assert "+We can hold it until Monday." in caught.value.diff
    with pytest.raises(StaleDecision):
        book.decide(new, sha256=old["draft_sha256"])
    with pytest.raises(StaleDecision):
        book.decide(old, epoch=new["epoch"])
    assert book.status(new["obligation_id"]) == "drafted"
    assert book.count("obligation_decisions") == 0
    assert claims.waiting(book.ledger) == []


def test_a_refile_after_the_approval_voids_it(book: Book) -> None:
    obligation, decision = book.approved()
    book.file("Another text")
    assert book.status(obligation) == "drafted"
    with pytest.raises(NotBound):
        claims.claim(book.ledger, obligation, decision)
    assert claims.waiting(book.ledger) == []


def test_while_a_claim_is_active_nothing_is_filed_over_it(book: Book) -> None:
    obligation, decision, token = book.claimed()
    with pytest.raises(ClaimActive):
        book.file("Another text")
    claims.cancel(book.ledger, token)
    assert book.status(obligation) == "drafted"
    with pytest.raises(NotBound):
        claims.claim(book.ledger, obligation, decision)
    filed = book.file("Another text")
    new = book.decide(filed)
    second = claims.claim(book.ledger, obligation, new["id"])
    for step in (claims.begin_dispatch, claims.mark_unknown):
        with pytest.raises(WrongState):
            step(book.ledger, token)
    with pytest.raises(WrongState):
        claims.complete(book.ledger, token, "x")
    assert claims.begin_dispatch(book.ledger, second)["text"] == "Another text"


def test_two_decisions_of_one_epoch_are_one(book: Book) -> None:
    filed = book.file()
    book.decide(filed)
    with pytest.raises(AlreadyDecided) as caught:
        book.decide(filed, "reject", operator="bob")
    assert caught.value.decision["operator"] == "ada"
    assert book.count("obligation_decisions") == 1


def test_the_second_claimant_has_lost(book: Book) -> None:
    obligation, decision, _ = book.claimed()
    with pytest.raises(LostRace):
        claims.claim(book.open(), obligation, decision)
