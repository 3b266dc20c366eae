"""The published reference's behaviours through ``harness.approval.reference`` and its tables as views, on our ledger."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.approval import reference
from harness.approval.ledger import create_ledger

TEXT = "Synthetic approved text"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create_ledger(tmp_path / "ledger.sqlite")
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    made = reference.connect(path)
    authorized(made)
    yield made
    made.close()


def authorized(db: sqlite3.Connection, number: int = 1, epoch: int = 10, sha256: object = None) -> None:
    known = hashlib.sha256(TEXT.encode()).hexdigest() if sha256 is None else sha256
    db.execute(
        "INSERT INTO obligations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (number, f"party {number}", "test", "channel-a", "we_owe_them", "approved", "fixture", 1, 1, epoch),
    )
    db.execute(
        "INSERT INTO obligation_drafts (obligation_id, draft_text, origin_platform, origin_channel, origin_thread, draft_sha256, created_ts, updated_ts) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (number, TEXT, "test", "channel-a", "thread-a", known, 1, epoch),
    )
    decided(db, number, number, epoch)


def decided(db: sqlite3.Connection, number: int, decision: int, epoch: int) -> None:
    db.execute(
        "INSERT INTO obligation_decisions VALUES (?, ?, ?, ?, ?, ?, ?)",
        (decision, number, "approve", "trusted", epoch, f"nonce-{decision}", epoch),
    )
    db.execute(
        "INSERT INTO obligation_approval_snapshots (decision_id, obligation_id, draft_epoch, draft_text, draft_sha256, origin_platform, origin_channel, origin_thread, kind) "
        "SELECT ?, obligation_id, ?, draft_text, draft_sha256, origin_platform, origin_channel, origin_thread, 'draft_sent' FROM obligation_drafts WHERE obligation_id = ?",
        (decision, epoch, number),
    )


def value(db: sqlite3.Connection, sql: str) -> object:
    return db.execute(sql).fetchone()[0]


COLUMNS = {
    "obligations": "id counterparty source channel direction status summary opened_ts last_touch_ts updated_at",
    "obligation_drafts": "obligation_id draft_text context origin_platform origin_channel origin_thread origin_user priority draft_sha256 created_ts updated_ts auto_send_after signal_obligation_id",
    "obligation_decisions": "id obligation_id decision operator decided_ts nonce draft_updated_ts",
    "obligation_deliveries": "id obligation_id decision_id kind coordinate delivered_ts",
    "obligation_approval_snapshots": "decision_id obligation_id draft_epoch draft_text draft_sha256 origin_platform origin_channel origin_thread kind",
    "obligation_delivery_claims": "obligation_id decision_id token state created_ts updated_ts reconciliation_evidence",
}


@pytest.mark.parametrize("table", COLUMNS)
def test_the_tables_have_the_references_columns_in_its_order(db: sqlite3.Connection, table: str) -> None:
    assert [one[0] for one in db.execute(f"SELECT * FROM {table}").description] == COLUMNS[table].split()


def test_a_missing_database_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        reference.connect(tmp_path / "missing.sqlite")
    assert not (tmp_path / "missing.sqlite").exists()


def test_a_file_name_is_no_list_of_options(tmp_path: Path) -> None:
    path = tmp_path / "ledger ?#%.sqlite"
    path.touch()
    db = reference.connect(path)
    db.executescript(reference.schema())
    assert Path(db.execute("PRAGMA database_list").fetchone()[2]) == path.resolve()
    authorized(db)
    assert reference.claim(db, 1, 1, now=20)
    db.close()


@pytest.mark.parametrize("bad", ["é", b"bad", "A" * 64, "g" * 64])
def test_malformed_hashes_fail_closed(db: sqlite3.Connection, bad: object) -> None:
    authorized(db, 2, sha256=bad)
    with pytest.raises(reference.ClaimError) as caught:
        reference.claim(db, 2, 2, now=20)
    assert caught.value.code in ("tampered", "not_bound")
    assert not db.in_transaction
    assert value(db, "SELECT count(*) FROM obligation_delivery_claims") == 0


def test_a_hash_that_was_wrong_from_the_start_fails_too(db: sqlite3.Connection) -> None:
    authorized(db, 2, sha256="0" * 64)
    with pytest.raises(reference.ClaimError, match="approved text hash does not match"):
        reference.claim(db, 2, 2, now=20)


@pytest.mark.parametrize("decisions", [[1, 1], [1, 2]])
def test_two_connections_one_dispatch_and_one_receipt(db: sqlite3.Connection, path: Path, decisions: list[int]) -> None:
    if 2 in decisions:
        decided(db, 1, 2, 10)
    barrier, sent = threading.Barrier(2), []

    def work(decision: int) -> str:
        own = reference.connect(path)
        try:
            barrier.wait(timeout=5)
            try:
                token = reference.claim(own, 1, decision, now=20)
            except reference.ClaimError:
                return "denied"
            sent.append(reference.begin_dispatch(own, token, now=21)["draft_text"])
            reference.complete(own, token, "receipt", now=22)
            return "delivered"
        finally:
            own.close()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(work, decisions)) == ["delivered", "denied"]
    assert sent == [TEXT]
    assert value(db, "SELECT count(*) FROM obligation_deliveries") == 1


BINDING = [
    "UPDATE obligations SET updated_at = 11", "UPDATE obligations SET direction = 'they_owe_us'", "UPDATE obligations SET status = 'rejected'",
    "UPDATE obligation_drafts SET updated_ts = 11", "UPDATE obligation_drafts SET draft_text = 'rewritten'",
    "UPDATE obligation_drafts SET draft_sha256 = 'bad'", "UPDATE obligation_drafts SET origin_platform = 'other'",
    "UPDATE obligation_drafts SET origin_channel = 'other'", "UPDATE obligation_drafts SET origin_thread = NULL", "DELETE FROM obligation_drafts",
]  # fmt: skip


@pytest.mark.parametrize("change", BINDING)
def test_a_change_of_what_was_approved_denies_the_claim(db: sqlite3.Connection, path: Path, change: str) -> None:
    db.execute(change)
    if "updated_ts" in change:
        db.execute(
            "UPDATE obligations SET updated_at = 11"
        )  # ours keeps both epochs; the newer one is current with its obligation
    with pytest.raises(reference.ClaimError):
        reference.claim(db, 1, 1, now=20)


def test_decisions_are_immutable_here_where_the_reference_lets_them_change(db: sqlite3.Connection) -> None:
    for change in ("UPDATE obligation_decisions SET decision = 'reject'", "DELETE FROM obligation_decisions"):
        with pytest.raises(sqlite3.IntegrityError):
            db.execute(change)


def test_another_obligations_decision_and_one_without_snapshot_are_denied(db: sqlite3.Connection) -> None:
    authorized(db, 2)
    with pytest.raises(reference.ClaimError):
        reference.claim(db, 1, 2, now=20)
    db.execute("INSERT INTO obligation_decisions VALUES (3, 1, 'approve', 'fixture', 10, 'nonce-3', 10)")
    with pytest.raises(reference.ClaimError):
        reference.claim(db, 1, 3, now=20)
    assert value(db, "SELECT count(*) FROM obligation_approval_snapshots") == 2


FROZEN = [
    "UPDATE obligations SET updated_at = 11", "DELETE FROM obligations", "UPDATE obligation_drafts SET origin_channel = 'changed'",
    "DELETE FROM obligation_drafts", "UPDATE obligation_decisions SET decision = 'reject'", "DELETE FROM obligation_decisions",
    "INSERT OR REPLACE INTO obligation_drafts SELECT * FROM obligation_drafts", "INSERT OR REPLACE INTO obligations SELECT * FROM obligations",
    "DELETE FROM obligation_delivery_claims", "UPDATE obligation_delivery_claims SET token = 'replacement'",
    "UPDATE obligation_delivery_claims SET state = 'delivered'", "UPDATE obligation_approval_snapshots SET draft_text = 'changed'",
    "DELETE FROM obligation_approval_snapshots", "INSERT OR REPLACE INTO obligation_approval_snapshots SELECT * FROM obligation_approval_snapshots",
]  # fmt: skip


@pytest.mark.parametrize("statement", FROZEN)
def test_an_active_claim_freezes_what_the_reference_freezes(db: sqlite3.Connection, statement: str) -> None:
    token = reference.claim(db, 1, 1, now=20)
    with pytest.raises(sqlite3.IntegrityError):
        db.execute(statement)
    assert value(db, "SELECT state FROM obligation_delivery_claims") == "claimed"
    assert reference.begin_dispatch(db, token, now=21)["draft_text"] == TEXT


def test_cancel_fences_the_token_and_allows_a_new_approval(db: sqlite3.Connection) -> None:
    token = reference.claim(db, 1, 1, now=20)
    reference.cancel(db, token, now=21)
    for again in (lambda: reference.begin_dispatch(db, token, now=22), lambda: reference.claim(db, 1, 1, now=22)):
        with pytest.raises(reference.ClaimError):
            again()
    db.execute("UPDATE obligations SET updated_at = 11")
    db.execute("UPDATE obligation_drafts SET updated_ts = 11")
    decided(db, 1, 2, 11)
    second = reference.claim(db, 1, 2, now=20)
    assert second != token
    assert reference.begin_dispatch(db, second, now=22)["draft_epoch"] == 11


def test_the_payload_is_bound_and_given_once(db: sqlite3.Connection) -> None:
    token = reference.claim(db, 1, 1, now=20)
    got = reference.begin_dispatch(db, token, now=21)
    assert list(got) == COLUMNS["obligation_approval_snapshots"].split()
    assert (got["origin_platform"], got["origin_channel"], got["origin_thread"], got["decision_id"]) == (
        "test",
        "channel-a",
        "thread-a",
        1,
    )
    assert not db.in_transaction
    for again in (reference.begin_dispatch, reference.cancel):
        with pytest.raises(reference.ClaimError):
            again(db, token, now=22)


def test_a_callers_transaction_and_missing_guards_are_refused(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    with pytest.raises(reference.ClaimError):
        reference.claim(db, 1, 1, now=20)
    db.rollback()
    for pragma in ("foreign_keys", "recursive_triggers"):
        db.execute(f"PRAGMA {pragma} = OFF")
        with pytest.raises(reference.ClaimError) as caught:
            reference.claim(db, 1, 1, now=20)
        assert caught.value.code == "unsafe_connection"
        db.execute(f"PRAGMA {pragma} = ON")
    for now in (-1, 1.5, True, "20"):
        with pytest.raises(reference.ClaimError):
            reference.claim(db, 1, 1, now=now)  # type: ignore[arg-type]


def test_a_plain_connection_without_row_factory_works_and_errors_stay_ours(path: Path, db: sqlite3.Connection) -> None:
    plain = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(reference.ClaimError):
        reference.claim(plain, 1, 1, now=20)
    plain.execute("PRAGMA foreign_keys = ON")
    plain.execute("PRAGMA recursive_triggers = ON")
    assert len(reference.claim(plain, 1, 1, now=20)) == 64
    plain.close()


def test_unknown_and_completion_as_in_the_reference(db: sqlite3.Connection) -> None:
    token = reference.claim(db, 1, 1, now=20)
    reference.begin_dispatch(db, token, now=21)
    for blank in ("", "  ", None):
        with pytest.raises(reference.ClaimError):
            reference.complete(db, token, blank, now=22)  # type: ignore[arg-type]
    reference.mark_unknown(db, token, now=22)
    reference.mark_unknown(db, token, now=23)
    with pytest.raises(reference.ClaimError):
        reference.complete(db, token, "receipt", now=23)
    with pytest.raises(reference.ClaimError):
        reference.reconcile(db, token, "receipt", "", now=23)
    assert reference.reconcile(db, token, "receipt", "evidence", now=24) is True
    assert reference.reconcile(db, token, "receipt", "evidence", now=25) is False
    with pytest.raises(reference.ClaimError):
        reference.complete(db, token, "other", now=26)
    assert value(db, "SELECT status FROM obligations") == "sent"
    for statement in ("DELETE FROM obligation_deliveries", "UPDATE obligation_deliveries SET coordinate = 'other'"):
        with pytest.raises(sqlite3.IntegrityError):
            db.execute(statement)


def test_a_legacy_receipt_is_readable_and_denies_a_claim(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO obligation_deliveries VALUES (1, 1, 1, 'draft_sent', 'legacy', 12)")
    assert value(db, "SELECT coordinate FROM obligation_deliveries") == "legacy"
    with pytest.raises(reference.ClaimError):
        reference.claim(db, 1, 1, now=20)


def test_one_waiting_draft_a_destination_and_any_number_of_others(db: sqlite3.Connection) -> None:
    def row(number: int, status: str, party: str = "p", channel: str = "c") -> None:
        db.execute(
            "INSERT INTO obligations VALUES (?, ?, 'test', ?, 'we_owe_them', ?, 'fixture', 1, 1, 10)",
            (number, party, channel, status),
        )

    for number, status in enumerate(("open", "approved", "rejected", "sent", "closed"), 10):
        row(number, status)
    row(20, "drafted")
    with pytest.raises(sqlite3.IntegrityError):
        row(21, "drafted")
    row(22, "drafted", party="q")
    row(23, "drafted", channel="d")
    with pytest.raises(sqlite3.IntegrityError):
        db.execute("UPDATE obligations SET status = 'drafted' WHERE id = 10")
