"""Bad input and the small doors: each refused with words, nothing changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harness.approval import claim as claims
from harness.approval import decide as decisions
from harness.approval import inbound as inbounds
from harness.approval import operators, status
from harness.approval.errors import Invalid, NotAllowed, NotFound, NotOpen, WrongState
from tests.approval.book import START, Book

BAD_DECISIONS: dict[str, dict[str, Any]] = {
    "no decision": {"decision": "maybe"},
    "a channel of its own": {"channel": "fax"},
    "no operator": {"operator": "  "},
    "an epoch as text": {"epoch": str(START)},
    "an epoch that is true": {"epoch": True},
    "a reason over the limit": {"reason": "x" * 2001},
    "a time without its zone": {"shown_ts": "2026-07-01T10:00:00"},
    "no time": {"shown_ts": "yesterday"},
}


@pytest.mark.parametrize("kind", BAD_DECISIONS)
def test_a_bad_decision_is_none(book: Book, kind: str) -> None:
    filed = book.file()
    with pytest.raises(Invalid):
        book.decide(filed, **BAD_DECISIONS[kind])
    assert book.status(filed["obligation_id"]) == "drafted"
    assert book.idle()


BAD_FILINGS: dict[str, dict[str, Any]] = {
    "a priority of its own": {"priority": "P9"},
    "nine bodies": {"bodies": {f"text/x-{n}": "x" for n in range(9)}},
    "a body of no type": {"bodies": {"html": "x"}},
    "two bodies of one type": {"bodies": {"text/html": "a", "TEXT/HTML": "b"}},
    "eleven attachments": {"attachments": [{"name": f"{n}", "sha256": "a" * 64} for n in range(11)]},
    "an attachment without a hash": {"attachments": [{"name": "x", "sha256": "A" * 64}]},
    "an attachment with more": {"attachments": [{"name": "x", "sha256": "a" * 64, "path": "/etc/passwd"}]},
    "an empty channel": {"origin_channel": " "},
    "a secret in a body": {"bodies": {"text/html": "AKIA" + "A2" * 8}},
}


@pytest.mark.parametrize("kind", BAD_FILINGS)
def test_a_bad_filing_is_none(lite: Book, kind: str) -> None:
    with pytest.raises(Invalid):
        lite.file(**BAD_FILINGS[kind])
    assert lite.count("obligations") == 0


@pytest.mark.parametrize("number", [0, -1, 99, True, "1", 2**63])
def test_an_obligation_that_is_not_there(book: Book, number: Any) -> None:
    with pytest.raises(NotFound):
        status.status(book.ledger, number)
    assert book.idle()


def test_what_is_open_has_nothing_to_decide(book: Book) -> None:
    inbound = inbounds.record_inbound(book.ledger, "asks", "acme", "slack", "#c")
    with pytest.raises(NotOpen):
        decisions.decide(book.ledger, inbound, "approve", "ada", START, "a" * 64)
    with pytest.raises(Invalid):
        inbounds.record_inbound(book.ledger, "asks", "acme", "slack", "#c", direction="sideways")
    for work in (
        lambda: claims.cancel_claimed(book.ledger, inbound, "ada"),
        lambda: claims.reconcile_held(book.ledger, inbound, "x", "y", "ada"),
    ):
        with pytest.raises(WrongState):
            work()


def test_the_screen_of_the_whole_ledger(book: Book) -> None:
    book.file(counterparty="a")
    book.approved(counterparty="b")
    claims.mark_unknown(book.ledger, book.dispatching(counterparty="c")[2])
    state = status.overview(book.ledger)
    assert state["counts"] == {"approved": 2, "drafted": 1}
    assert (state["waiting"], state["ready"], state["worker"]) == (1, 1, None)
    assert state["held"] == {"claimed": 0, "dispatching": 0, "unknown": 1}
    assert state["unexported"] == book.count("outbox")
    with book.ledger.transaction():
        book.ledger.set_meta(status.WORKER, f"{START} host:1")
    assert status.overview(book.ledger)["worker"] == "host:1"
    book.clock.now += 3600
    assert status.overview(book.ledger)["worker"] is None
    told = status.status(book.ledger, 3)
    assert told["claim"]["state"] == "unknown"


def test_a_worker_may_say_that_it_lives_without_moving_anything(book: Book) -> None:
    _, _, token = book.dispatching()
    book.clock.now += 7
    claims.beat(book.ledger, token)
    assert book.state(token) == "dispatching"
    assert book.value("SELECT heartbeat_ts FROM obligation_delivery_claims") == START + 7
    assert claims.complete(book.ledger, token, "x") is True


def test_a_token_counts_only_from_a_file_of_ones_own(tmp_path: Path) -> None:
    token, known = operators.new_token()
    path = tmp_path / "deep" / "ada.token"
    operators.write_token(path, token)
    people = [{"name": "bob", "token_sha256": "b" * 64}, {"name": "ada", "token_sha256": known}]
    assert operators.by_token_file(path, people) == "ada"
    with pytest.raises(FileExistsError):
        operators.write_token(path, token)
    with pytest.raises(NotAllowed):
        operators.by_token_file(path, [{"name": "ada", "token_sha256": known, "revoked": True}])
    with pytest.raises(NotAllowed):
        operators.by_token_file(path, [])
    for mode in (0o640, 0o604):
        os.chmod(path, mode)
        with pytest.raises(NotAllowed, match="chmod 600"):
            operators.by_token_file(path, people)
    os.chmod(path, 0o600)
    link = tmp_path / "link"
    link.symlink_to(path)
    for other in (link, tmp_path / "nothing", tmp_path):
        with pytest.raises(NotAllowed):
            operators.by_token_file(other, people)
