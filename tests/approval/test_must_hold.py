"""What must hold whatever happens, on both backends: binding, epochs, one attempt, guards in the database itself."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from harness.approval import claim as claims
from harness.approval import freeze
from harness.approval.errors import (
    AlreadyDelivered,
    ApprovalError,
    Contradiction,
    Frozen,
    Invalid,
    LostRace,
    NeedsEvidence,
    NestedTransaction,
    NotBound,
    NotFound,
    Tampered,
    UnknownToken,
    WrongState,
)
from harness.approval.ledger import Ledger
from tests.approval.book import START, TEXT, Book

CHANGES = {
    "epoch": "UPDATE obligations SET epoch = epoch + 1",
    "direction": "UPDATE obligations SET direction = 'they_owe_us'",
    "status": "UPDATE obligations SET status = 'rejected'",
    "decision": "UPDATE obligation_decisions SET decision = 'reject'",
    "decision epoch": "UPDATE obligation_decisions SET epoch = epoch + 1",
    "draft epoch": "UPDATE obligation_drafts SET epoch = epoch + 1",
    "text": "UPDATE obligation_drafts SET draft_text = 'rewritten'",
    "hash": "UPDATE obligation_drafts SET draft_sha256 = 'bad'",
    "subject": "UPDATE obligation_drafts SET subject = 'other'",
    "attachments": "UPDATE obligation_drafts SET attachments = '[]'",
    "digest": "UPDATE obligation_drafts SET digest = ''",
    "platform": "UPDATE obligations SET platform = 'other'",
    "workspace": "UPDATE obligations SET workspace = ''",
    "channel": "UPDATE obligations SET channel = 'other'",
    "thread": "UPDATE obligations SET thread = ''",
    "counterparty": "UPDATE obligations SET counterparty = 'other'",
    "body": "UPDATE draft_bodies SET body = '<p>Monday</p>'",
    "body hash": "UPDATE draft_bodies SET sha256 = 'bad'",
    "body gone": "DELETE FROM draft_bodies",
    "snapshot text": "UPDATE obligation_approval_snapshots SET draft_text = 'rewritten'",
    "snapshot bodies": "UPDATE obligation_approval_snapshots SET bodies = '[]'",
    "snapshot destination": "UPDATE obligation_approval_snapshots SET channel = 'other'",
}


def rich(book: Book) -> tuple[int, int]:
    return book.approved(
        subject="Delivery window",
        bodies={"text/html": "<p>Friday</p>"},
        attachments=[{"name": "offer.pdf", "sha256": "a" * 64}],
    )


@pytest.mark.parametrize("change", CHANGES)
def test_a_bound_field_that_changed_after_the_approval_grants_no_claim(book: Book, change: str) -> None:
    obligation, decision = rich(book)
    book.tamper(CHANGES[change])
    with pytest.raises((NotBound, Tampered)):
        claims.claim(book.ledger, obligation, decision)
    assert book.count("obligation_delivery_claims") == 0
    assert book.idle()


@pytest.mark.parametrize("change", CHANGES)
def test_nor_does_it_begin_when_it_changed_after_the_claim(book: Book, change: str) -> None:
    obligation, decision = rich(book)
    token = claims.claim(book.ledger, obligation, decision)
    book.tamper(CHANGES[change])
    with pytest.raises((NotBound, Tampered)):
        claims.begin_dispatch(book.ledger, token)
    assert book.state(token) == "claimed"
    assert book.idle()


def test_text_and_hash_changed_together_are_held_against_the_snapshot(book: Book) -> None:
    from harness.approval import text

    obligation, decision = book.approved()
    new = "We accept your price."
    place = book.ledger.obligation(obligation)
    values = (new, text.sha256(new), text.digest(new, "", [], [], place))
    book.tamper("UPDATE obligation_drafts SET draft_text = ?, draft_sha256 = ?, digest = ?", values=values)
    with pytest.raises(Tampered):
        claims.claim(book.ledger, obligation, decision)


@pytest.mark.parametrize("bad", ["A" * 64, "a" * 63, "é" + "a" * 63, "", "g" * 64])
def test_a_malformed_hash_fails_closed_and_touches_nobody_else(book: Book, bad: str) -> None:
    obligation, decision = book.approved()
    other = book.approved(counterparty="other")
    book.tamper("UPDATE obligation_drafts SET draft_sha256 = ? WHERE obligation_id = 1", values=(bad,))
    book.tamper("UPDATE obligation_approval_snapshots SET draft_sha256 = ? WHERE obligation_id = 1", values=(bad,))
    with pytest.raises(Tampered) as caught:
        claims.claim(book.ledger, obligation, decision)
    assert caught.value.code == "tampered"
    assert book.idle()
    assert book.count("obligation_delivery_claims") == 0
    assert claims.claim(book.ledger, *other)


def test_bytes_in_the_place_of_a_hash_fail_closed(lite: Book) -> None:
    obligation, decision = lite.approved()
    for table in ("obligation_drafts", "obligation_approval_snapshots"):
        lite.tamper(f"UPDATE {table} SET draft_sha256 = ?", values=(b"bad",))
    with pytest.raises(Tampered):
        claims.claim(lite.ledger, obligation, decision)
    assert lite.idle()


def test_completion_is_one_transaction_and_the_same_again_changes_nothing(book: Book) -> None:
    obligation, _, token = book.dispatching()
    for blank in ("", "  ", "\u200b", None):
        with pytest.raises(Invalid):
            claims.complete(book.ledger, token, blank)  # type: ignore[arg-type]
    assert book.state(token) == "dispatching"
    assert claims.complete(book.ledger, token, "x") is True
    events = book.events()
    assert claims.complete(book.ledger, token, "x") is False
    assert book.events() == events
    with pytest.raises(Contradiction):
        claims.complete(book.ledger, token, "y")
    assert book.count("obligation_deliveries") == 1
    assert book.status(obligation) == "sent"


def test_a_receipt_that_can_not_be_stored_leaves_an_unknown_and_no_second_try(book: Book) -> None:
    obligation, _decision, token = book.dispatching()
    if book.backend == "sqlite":
        book.plain(
            "CREATE TRIGGER broken BEFORE UPDATE OF status ON obligations WHEN NEW.status = 'sent' BEGIN SELECT RAISE(ABORT, 'disk'); END"
        )
    else:
        book.plain(
            "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'disk'; END $$",
            "CREATE TRIGGER broken BEFORE UPDATE ON obligations FOR EACH ROW EXECUTE FUNCTION broken()",
        )
    with pytest.raises(ApprovalError):
        claims.complete(book.ledger, token, "x")
    assert book.count("obligation_deliveries") == 0
    assert book.state(token) == "dispatching"
    assert book.status(obligation) == "approved"
    assert claims.mark_unknown(book.ledger, token) is True
    with pytest.raises(WrongState):
        claims.begin_dispatch(book.ledger, token)
    assert claims.waiting(book.ledger) == []


def test_unknown_never_retries_expires_or_reopens(book: Book) -> None:
    obligation, decision, token = book.dispatching()
    assert claims.mark_unknown(book.ledger, token) is True
    assert claims.mark_unknown(book.ledger, token) is False
    book.clock.now += 10 * 365 * 86_400
    for step in (claims.begin_dispatch, claims.cancel):
        with pytest.raises(WrongState):
            step(book.ledger, token)
    with pytest.raises(WrongState):
        claims.complete(book.ledger, token, "x")
    with pytest.raises(LostRace):
        claims.claim(book.ledger, obligation, decision)
    with pytest.raises(ApprovalError):
        book.file("Another")
    assert claims.waiting(book.ledger) == []
    assert book.state(token) == "unknown"
    for none in ("", " ", None):
        with pytest.raises(NeedsEvidence):
            claims.reconcile(book.ledger, token, "x", none)  # type: ignore[arg-type]
    assert claims.reconcile(book.ledger, token, "x", "seen in the channel") is True
    assert claims.reconcile(book.ledger, token, "x", "seen in the channel") is False
    assert book.status(obligation) == "sent"


def test_what_was_sent_is_not_sent_again_even_when_the_status_is_set_back(book: Book) -> None:
    obligation, decision, token = book.dispatching()
    claims.complete(book.ledger, token, "x")
    epoch = book.ledger.obligation(obligation)["epoch"]
    book.plain(
        "UPDATE obligations SET status = 'approved'",
        f"INSERT INTO obligation_decisions (obligation_id, epoch, decision, operator, channel, decided_ts, nonce) "
        f"VALUES ({obligation}, {epoch}, 'approve', 'x', 'terminal', 1, 'again')",
        "INSERT INTO obligation_approval_snapshots SELECT decision_id, obligation_id, epoch, draft_text, draft_sha256, "
        "subject, bodies, attachments, digest, counterparty, platform, workspace, channel, thread, 'draft_sent' "
        f"FROM approval_current_drafts WHERE decision_id <> {decision}",
    )
    again = book.value("SELECT max(id) AS n FROM obligation_decisions")
    with pytest.raises(AlreadyDelivered):
        claims.claim(book.ledger, obligation, again)
    assert claims.waiting(book.ledger) == []
    words = book.refused(
        f"INSERT INTO obligation_delivery_claims (obligation_id, decision_id, token, state, created_ts, updated_ts) "
        f"VALUES ({obligation}, {again}, 't', 'claimed', 1, 1)"
    )
    assert "ledger:already_delivered" in words
    assert book.file()["refiled"] is False, "a deliberate second send is a new filing"


def test_different_decisions_of_one_obligation_do_not_pass_an_active_claim(book: Book) -> None:
    obligation, _ = book.approved()
    epoch = book.ledger.obligation(obligation)["epoch"]
    book.plain(
        f"INSERT INTO obligation_decisions (obligation_id, epoch, decision, operator, channel, decided_ts, nonce) "
        f"VALUES ({obligation}, {epoch}, 'approve', 'x', 'terminal', 1, 'second')",
        "INSERT INTO obligation_approval_snapshots SELECT decision_id, obligation_id, epoch, draft_text, draft_sha256, "
        "subject, bodies, attachments, digest, counterparty, platform, workspace, channel, thread, 'draft_sent' "
        "FROM approval_current_drafts WHERE decision_id = 2",
    )
    claims.claim(book.ledger, obligation, 1)
    with pytest.raises(LostRace):
        claims.claim(book.open(), obligation, 2)


def test_a_rejection_grants_nothing_and_can_not_be_turned_round(book: Book) -> None:
    filed = book.file()
    decision = book.decide(filed, "reject", reason="too long")
    with pytest.raises(NotBound):
        claims.claim(book.ledger, filed["obligation_id"], decision["id"])
    assert "ledger:immutable" in book.refused("UPDATE obligation_decisions SET decision = 'approve'")
    book.tamper("UPDATE obligation_decisions SET decision = 'approve'", "UPDATE obligations SET status = 'approved'")
    with pytest.raises(NotBound):
        claims.claim(book.ledger, filed["obligation_id"], decision["id"])
    with pytest.raises(NotFound):
        claims.claim(book.ledger, 99, decision["id"])


def test_a_decision_of_another_obligation_grants_nothing(book: Book) -> None:
    one, _ = book.approved()
    _, two = book.approved(counterparty="other")
    with pytest.raises(NotBound):
        claims.claim(book.ledger, one, two)


ACTIVE_STATEMENTS = [
    "UPDATE obligations SET epoch = epoch + 1",
    "UPDATE obligations SET status = 'drafted'",
    "DELETE FROM obligations",
    "UPDATE obligation_drafts SET subject = 'changed'",
    "DELETE FROM obligation_drafts",
    "UPDATE draft_bodies SET body = 'changed'",
    "DELETE FROM draft_bodies",
    "UPDATE obligation_decisions SET decision = 'reject'",
    "DELETE FROM obligation_decisions",
    "UPDATE obligation_approval_snapshots SET draft_text = 'changed'",
    "DELETE FROM obligation_approval_snapshots",
    "DELETE FROM obligation_delivery_claims",
    "UPDATE obligation_delivery_claims SET token = 'replacement'",
    "UPDATE obligation_delivery_claims SET state = 'delivered'",
    "UPDATE obligation_delivery_claims SET state = 'unknown'",
    "UPDATE obligation_delivery_claims SET created_ts = 0",
    "UPDATE outbox SET row = '{}'",
    "DELETE FROM outbox",
    "INSERT INTO obligation_deliveries (obligation_id, decision_id, kind, coordinate, delivered_ts) VALUES (1, 1, 'draft_sent', 'x', 1)",
    "INSERT INTO draft_bodies (obligation_id, epoch, media_type, body, sha256) SELECT id, epoch, 'text/rtf', 'x', 'x' FROM obligations",
    "INSERT INTO obligation_decisions (obligation_id, epoch, decision, operator, channel, decided_ts, nonce) SELECT id, epoch, 'approve', 'x', 'terminal', 1, 'n' FROM obligations",
]
REPLACES = [
    "INSERT OR REPLACE INTO obligations SELECT * FROM obligations",
    "INSERT OR REPLACE INTO obligation_drafts SELECT * FROM obligation_drafts",
    "INSERT OR REPLACE INTO draft_bodies SELECT * FROM draft_bodies",
    "INSERT OR REPLACE INTO obligation_decisions SELECT * FROM obligation_decisions",
    "INSERT OR REPLACE INTO obligation_approval_snapshots SELECT * FROM obligation_approval_snapshots",
    "INSERT OR REPLACE INTO obligation_delivery_claims SELECT * FROM obligation_delivery_claims",
    "INSERT OR REPLACE INTO outbox SELECT * FROM outbox",
    "UPDATE OR REPLACE obligation_delivery_claims SET token = 'x'",
    "UPDATE OR REPLACE obligations SET id = id + 1",
]


@pytest.mark.parametrize("statement", ACTIVE_STATEMENTS)
def test_an_active_claim_freezes_all_it_stands_on_for_any_connection(book: Book, statement: str) -> None:
    obligation, decision = rich(book)
    token = claims.claim(book.ledger, obligation, decision)
    assert re.search(r"ledger:\w+ ", book.refused(statement))
    assert claims.begin_dispatch(book.ledger, token)["text"] == TEXT


@pytest.mark.parametrize("statement", REPLACES)
def test_nor_can_it_be_replaced_on_a_connection_without_any_pragma(lite: Book, statement: str) -> None:
    obligation, decision = rich(lite)
    token = claims.claim(lite.ledger, obligation, decision)
    assert "ledger:" in lite.refused(statement)
    assert lite.state(token) == "claimed"


@pytest.mark.parametrize(
    "table",
    [
        "obligations",
        "obligation_drafts",
        "draft_bodies",
        "obligation_decisions",
        "obligation_approval_snapshots",
        "obligation_delivery_claims",
        "obligation_deliveries",
        "outbox",
        "freezes",
    ],
)
def test_postgres_tables_are_not_emptied(request: pytest.FixtureRequest, table: str) -> None:
    from tests.approval.book import make_postgres

    book = make_postgres(request.getfixturevalue("new_database"))
    assert "ledger:immutable" in book.refused(f"TRUNCATE {table} CASCADE")


def test_snapshots_that_do_not_match_their_decision_are_refused(book: Book) -> None:
    obligation, decision = book.approved()
    filed = book.file("Other text", counterparty="other")
    assert "ledger:" in book.refused(
        "INSERT INTO obligation_approval_snapshots SELECT decision_id + 100, obligation_id, epoch, 'forged', draft_sha256, subject, "
        "bodies, attachments, digest, counterparty, platform, workspace, channel, thread, kind FROM obligation_approval_snapshots"
    )
    book.plain(
        "INSERT INTO obligation_decisions (obligation_id, epoch, decision, operator, channel, decided_ts, nonce) "
        f"VALUES ({filed['obligation_id']}, {filed['epoch']}, 'approve', 'x', 'terminal', 1, 'raw')"
    )
    raw = book.value("SELECT max(id) AS n FROM obligation_decisions")
    with pytest.raises(NotBound):
        claims.claim(book.ledger, filed["obligation_id"], raw)
    assert claims.claim(book.ledger, obligation, decision)


def test_a_callers_transaction_is_refused(book: Book) -> None:
    obligation, decision = book.approved()
    other = book.claimed(counterparty="other")
    connection = book.ledger.backend.connection  # type: ignore[attr-defined]
    connection.execute("BEGIN")
    with pytest.raises(NestedTransaction):
        claims.claim(book.ledger, obligation, decision)
    with pytest.raises(NestedTransaction):
        claims.begin_dispatch(book.ledger, other[2])
    connection.execute("ROLLBACK")
    assert book.state(other[2]) == "claimed"
    assert book.count("obligation_delivery_claims") == 1


def test_inside_a_transaction_of_ours_no_second_one_begins(book: Book) -> None:
    obligation, decision = book.approved()
    with book.ledger.transaction(), pytest.raises(NestedTransaction):
        claims.claim(book.ledger, obligation, decision)
    assert book.count("obligation_delivery_claims") == 0


@pytest.mark.parametrize(
    "step", [claims.begin_dispatch, claims.cancel, claims.mark_unknown, lambda b, t: claims.complete(b, t, "x")]
)
@pytest.mark.parametrize("token", ["wrong", "", None])
def test_a_wrong_token_moves_nothing(book: Book, step: Callable[[Ledger, object], object], token: object) -> None:
    _, _, real = book.claimed()
    with pytest.raises(UnknownToken):
        step(book.ledger, token)
    assert book.state(real) == "claimed"


def test_the_clock_may_step_back_between_any_two_steps(book: Book) -> None:
    obligation, decision = book.approved()
    token = claims.claim(book.ledger, obligation, decision)
    book.clock.now = START - 900
    claims.begin_dispatch(book.ledger, token)
    assert claims.complete(book.ledger, token, "x") is True
    at = book.value("SELECT delivered_ts FROM obligation_deliveries")
    assert at == START
    assert '"clock":"2023-11-14T21:58:20Z"' in book.value("SELECT row FROM outbox ORDER BY seq DESC LIMIT 1")
    other = book.dispatching(counterparty="other")
    book.clock.now -= 500
    assert claims.mark_unknown(book.ledger, other[2]) is True


def test_the_stop_button_grants_nothing_until_it_is_lifted(book: Book) -> None:
    obligation, decision = book.approved()
    before = book.claimed(counterparty="other")
    freeze.freeze(book.ledger, "ada", "wrong price list")
    assert freeze.freeze(book.ledger, "bob", "again") is False
    with pytest.raises(Frozen):
        claims.claim(book.ledger, obligation, decision)
    with pytest.raises(Frozen):
        claims.begin_dispatch(book.ledger, before[2])
    assert "ledger:frozen" in book.refused("UPDATE obligation_delivery_claims SET state = 'dispatching'")
    filed = book.file("While frozen", counterparty="third")
    book.decide(filed)
    assert freeze.unfreeze(book.ledger, "ada") is True
    assert freeze.unfreeze(book.ledger, "ada") is False
    assert claims.begin_dispatch(book.ledger, before[2])["text"] == TEXT
    assert claims.claim(book.ledger, obligation, decision)
    assert [e for e in book.events() if e.startswith("freezes")] == ["freezes.frozen", "freezes.lifted"]


def test_a_receipt_from_elsewhere_stays_readable_and_forbids_a_claim(book: Book) -> None:
    obligation, decision = book.approved()
    book.plain(
        "INSERT INTO obligation_deliveries (obligation_id, decision_id, kind, coordinate, delivered_ts) "
        f"VALUES ({obligation}, {decision}, 'draft_sent', 'legacy', 12)"
    )
    with pytest.raises(AlreadyDelivered):
        claims.claim(book.ledger, obligation, decision)
    assert book.value("SELECT coordinate FROM obligation_deliveries") == "legacy"
    assert "ledger:immutable" in book.refused("UPDATE obligation_deliveries SET coordinate = 'other'")
    assert "ledger:immutable" in book.refused("DELETE FROM obligation_deliveries")


def test_a_second_that_ends_in_the_middle_of_a_step_changes_nothing(book: Book) -> None:
    """Each look at the clock shows a later second: receipt and claim still name the same moment."""
    ticks = iter(range(START, START + 10_000))
    book.ledger.clock = lambda: next(ticks)
    obligation, _, token = book.dispatching()
    assert claims.complete(book.ledger, token, "x") is True
    other = book.dispatching(counterparty="other")
    claims.mark_unknown(book.ledger, other[2])
    assert claims.reconcile(book.ledger, other[2], "y", "seen") is True
    assert book.status(obligation) == "sent"
