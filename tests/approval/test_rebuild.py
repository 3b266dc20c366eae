"""Building a ledger again from git, moving it, coming from elsewhere, and proving one sending with git and sha256sum alone."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.workspaces import Place

from harness.approval import claim as claims
from harness.approval import freeze, rebuild, verify
from harness.approval.deliver import deliver
from harness.approval.errors import Frozen, NoLedger, Refused
from harness.approval.ledger import Ledger, open_ledger
from harness.approval.migrate import migrate
from harness.flows import approvals
from harness.workspace import resources
from tests.approval.book import TEXT, Book
from tests.approval.test_deliver import Recorder

CHECK = resources() / "skills/operator-approval-loop/scripts/check-proof.sh"


def story(book: Book) -> dict[str, int]:
    """One obligation in each state there is."""
    sent, _, token = book.dispatching(
        counterparty="sent", subject="Window", bodies={"text/html": "<p>ü</p>"}, context="asked by Bob"
    )
    claims.complete(book.ledger, token, "slack:1")
    rejected = book.file(counterparty="rejected")
    book.decide(rejected, "reject", reason="no")
    waiting = book.file(counterparty="waiting")
    book.file("second text", counterparty="waiting")
    approved, _ = book.approved(counterparty="approved")
    claimed, _, _ = book.claimed(counterparty="claimed")
    dispatching, _, _ = book.dispatching(counterparty="dispatching")
    unknown, _, token = book.dispatching(counterparty="unknown")
    claims.mark_unknown(book.ledger, token)
    settled, _, token = book.dispatching(counterparty="settled")
    claims.mark_unknown(book.ledger, token)
    claims.reconcile(book.ledger, token, "slack:2", "seen there")
    cancelled, _, token = book.claimed(counterparty="cancelled")
    claims.cancel(book.ledger, token)
    book.decide(book.file("third text", counterparty="cancelled"))
    return {
        "sent": sent, "rejected": rejected["obligation_id"], "waiting": waiting["obligation_id"], "approved": approved,
        "claimed": claimed, "dispatching": dispatching, "unknown": unknown, "settled": settled, "cancelled": cancelled,
    }  # fmt: skip


def states(ledger: Ledger) -> dict[str, str]:
    rows = ledger.backend.rows(
        "SELECT o.counterparty, o.status, c.state FROM obligations o LEFT JOIN obligation_delivery_claims c "
        "ON c.obligation_id = o.id AND c.state IN ('claimed', 'dispatching', 'unknown') ORDER BY o.id"
    )
    return {r["counterparty"]: f"{r['status']} {r['state'] or ''}".strip() for r in rows}


def test_a_rebuilt_ledger_holds_what_may_have_been_sent_and_sends_nothing(
    book: Book, place: Place, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    numbers = story(book)
    freeze.freeze(book.ledger, "ada", "moving")
    approvals.export(place.store, book.ledger)
    target = str(tmp_path / "again.db") if book.backend == "sqlite" else request.getfixturevalue("new_database")()
    done, held = approvals.rebuild(place.store, target)
    assert done.problems == []
    assert sorted(held) == sorted(numbers[name] for name in ("approved", "claimed", "dispatching", "cancelled"))
    with open_ledger(target) as made:
        assert states(made) == {
            "sent": "sent", "rejected": "rejected", "waiting": "drafted", "approved": "approved unknown", "claimed": "approved unknown",
            "dispatching": "approved unknown", "unknown": "approved unknown", "settled": "sent", "cancelled": "approved unknown",
        }  # fmt: skip
        with pytest.raises(Frozen):
            claims.claim(made, numbers["approved"], 3)
        freeze.unfreeze(made, "ada")
        transport = Recorder()
        deliver(made, transport)
        assert transport.got == []
        row = made.obligation(numbers["waiting"])
        assert rebuild.MARK in made.draft(numbers["waiting"], row["epoch"])["context"]  # type: ignore[index]
        assert made.one("SELECT coordinate FROM obligation_deliveries WHERE obligation_id = ?", numbers["settled"]) == {
            "coordinate": "slack:2"
        }
        approvals.export(place.store, made)
        assert approvals.verify(place.store, made) == []
        new = claims.waiting(made)
        assert new == []


def test_rows_that_never_reached_git_can_not_make_a_second_sending(book: Book, place: Place, tmp_path: Path) -> None:
    """The approval was exported; that it was sent was not, when the machine died."""
    obligation, decision = book.approved()
    approvals.export(place.store, book.ledger)
    token = claims.claim(book.ledger, obligation, decision)
    claims.begin_dispatch(book.ledger, token)
    claims.complete(book.ledger, token, "slack:1")
    done, held = approvals.rebuild(place.store, str(tmp_path / "again.db"))
    assert (done.problems, held) == ([], [obligation])
    with open_ledger(tmp_path / "again.db") as made:
        transport = Recorder()
        deliver(made, transport)
        assert transport.got == []
        assert claims.reconcile_held(made, obligation, "slack:1", "seen there", "ada") is True


def test_an_edited_export_is_no_permission_after_a_rebuild_either(book: Book, place: Place, tmp_path: Path) -> None:
    filed = book.file()
    book.decide(filed, "reject")
    approvals.export(place.store, book.ledger)
    path = place.root / "state/log/ledger/decisions.ndjson"
    path.write_text(path.read_text().replace('"decision":"reject"', '"decision":"approve"'))
    place.git("add", "state")
    place.git("commit", "-qm", "by hand", "--no-verify")
    _, held = approvals.rebuild(place.store, str(tmp_path / "again.db"))
    assert held == [filed["obligation_id"]]
    with open_ledger(tmp_path / "again.db") as made:
        assert deliver(made, Recorder()).sent == {}


def test_a_text_that_is_missing_from_the_export_is_said_and_grants_nothing(
    book: Book, place: Place, tmp_path: Path
) -> None:
    book.approved()
    approvals.export(place.store, book.ledger)
    place.git("rm", "-rq", "state/log/ledger/texts")
    place.git("commit", "-qm", "by hand", "--no-verify")
    done, _ = approvals.rebuild(place.store, str(tmp_path / "again.db"))
    assert done.problems
    assert "its text is not in" in done.problems[0][1]
    with open_ledger(tmp_path / "again.db") as made:
        assert deliver(made, Recorder()).sent == {}


def test_the_old_file_is_moved_aside(lite: Book, place: Place) -> None:
    lite.approved()
    approvals.export(place.store, lite.ledger)
    lite.close()
    approvals.rebuild(place.store, lite.place)
    assert list(Path(lite.place).parent.glob("ledger.db.before-*"))
    with pytest.raises(Refused):
        claims.begin_dispatch(lite.open(), "x")


@pytest.mark.parametrize("way", ["sqlite to postgres", "postgres to sqlite", "sqlite to sqlite"])
def test_a_move_takes_everything_and_what_was_approved_goes_out_there(
    way: str, tmp_path: Path, new_database: Callable[[], str]
) -> None:
    from tests.approval.book import make_postgres, make_sqlite

    source = make_sqlite(tmp_path) if way.startswith("sqlite") else make_postgres(new_database)
    numbers = story(source)
    target = new_database() if way.endswith("postgres") else str(tmp_path / "moved.db")
    done = migrate(source.place, target)
    assert (done.obligations, done.problems) == (9, [])
    with open_ledger(target) as made:
        assert states(made) == states(source.ledger)
        assert [*verify.hashes(made), *verify.outbox(made)] == []
        transport = Recorder()
        out = deliver(made, transport)
        assert sorted(out.sent) == sorted(numbers[name] for name in ("approved", "cancelled"))
        new = Book(source.backend, target, opened=[made])
        assert new.file(counterparty="new")["obligation_id"] == 10
        made.backend.rows("SELECT 1 AS n")
    with pytest.raises(NoLedger):
        migrate(source.place, target)
    with pytest.raises(Frozen, match="moved to"):
        claims.claim(source.ledger, numbers["approved"], 4)
    assert deliver(source.ledger, Recorder()).sent == {}, "the old ledger sends nothing any more"
    source.close()


def test_a_reference_ledger_comes_over_and_what_has_no_snapshot_grants_nothing(tmp_path: Path) -> None:
    from harness.approval import text

    path = tmp_path / "old.sqlite"
    db = sqlite3.connect(path)
    db.executescript(
        """
        CREATE TABLE obligations (id INTEGER PRIMARY KEY, counterparty TEXT, source TEXT, channel TEXT, direction TEXT, status TEXT,
          summary TEXT, opened_ts INTEGER, last_touch_ts INTEGER, updated_at INTEGER);
        CREATE TABLE obligation_drafts (obligation_id INTEGER PRIMARY KEY, draft_text TEXT, context TEXT, origin_platform TEXT,
          origin_channel TEXT, origin_thread TEXT, origin_user TEXT, priority TEXT, draft_sha256 TEXT, created_ts INTEGER,
          updated_ts INTEGER, auto_send_after INTEGER, signal_obligation_id INTEGER);
        CREATE TABLE obligation_decisions (id INTEGER PRIMARY KEY, obligation_id INTEGER, decision TEXT, operator TEXT,
          decided_ts INTEGER, nonce TEXT, draft_updated_ts INTEGER);
        CREATE TABLE obligation_deliveries (id INTEGER PRIMARY KEY, obligation_id INTEGER, decision_id INTEGER, kind TEXT,
          coordinate TEXT, delivered_ts INTEGER);
        CREATE TABLE obligation_approval_snapshots (decision_id INTEGER PRIMARY KEY, obligation_id INTEGER, draft_epoch INTEGER,
          draft_text TEXT, draft_sha256 TEXT, origin_platform TEXT, origin_channel TEXT, origin_thread TEXT, kind TEXT);
        """
    )
    sha = text.sha256(TEXT)
    for number, status in ((1, "approved"), (2, "approved"), (3, "sent"), (4, "drafted"), (5, "drafted")):
        db.execute(
            "INSERT INTO obligations VALUES (?, ?, 'slack', '#c', 'we_owe_them', ?, 's', 1, 2, 10)",
            (number, f"party {number}", status),
        )
        db.execute(
            "INSERT INTO obligation_drafts VALUES (?, ?, NULL, 'slack', '#c', 't1', NULL, 'P2', ?, 1, 10, NULL, NULL)",
            (number, TEXT, sha),
        )
    for number in (1, 2, 3):
        db.execute(
            "INSERT INTO obligation_decisions VALUES (?, ?, 'approve', 'ada', 11, ?, 10)",
            (number, number, f"n{number}"),
        )
    db.execute(
        "INSERT INTO obligation_approval_snapshots VALUES (1, 1, 10, ?, ?, 'slack', '#c', 't1', 'draft_sent')",
        (TEXT, sha),
    )
    db.execute("INSERT INTO obligation_deliveries VALUES (1, 3, 3, 'draft_sent', 'legacy', 12)")
    db.execute("UPDATE obligation_drafts SET draft_sha256 = 'bad' WHERE obligation_id = 5")
    db.commit()
    db.close()
    before = path.read_bytes()
    done = migrate(str(path), str(tmp_path / "new.db"))
    assert done.obligations == 4
    assert [where for where, _ in done.problems] == [
        "decision 2 of obligation 2", "decision 3 of obligation 3", "obligation 5",
    ]  # fmt: skip
    assert path.read_bytes() == before
    with open_ledger(tmp_path / "new.db") as made:
        assert [*verify.hashes(made), *verify.outbox(made)] == []
        transport = Recorder()
        assert list(deliver(made, transport).sent) == [1]
        assert transport.got[0]["thread"] == "t1"
        with pytest.raises(Refused):
            claims.claim(made, 2, 2)


def check(proof: Path, repository: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", str(CHECK), str(proof), str(repository)], capture_output=True, text=True, check=False)


def test_a_proof_is_checked_with_git_and_sha256sum_alone(book: Book, place: Place, tmp_path: Path) -> None:
    number = story(book)["sent"]
    proof = tmp_path / "proof"
    proof.write_bytes(approvals.prove(place.store, book.ledger, number))
    done = check(proof, place.root)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("the proof holds\n")
    assert "the decision names this text" in done.stdout
    assert "bytes of text/html" in done.stdout
    whole = proof.read_bytes()
    assert whole.endswith(TEXT.encode() + "<p>ü</p>".encode())
    for old, new in (
        (b"Friday", b"Monday"),
        (b'"operator":"ada"', b'"operator":"eve"'),
        ("<p>ü".encode(), "<p>ä".encode()),
        (b"--\n", b"x: y\n--\n"),
    ):
        assert old in whole
        proof.write_bytes(whole.replace(old, new))
        wrong = check(proof, place.root)
        expected = 0 if new.startswith(b"x:") else 1
        assert wrong.returncode == expected, (new, wrong.stdout)
    proof.write_bytes(whole + b"and more")
    assert check(proof, place.root).returncode == 1


def test_a_proof_of_nothing_is_refused_and_of_a_rejection_is_given(book: Book, place: Place, tmp_path: Path) -> None:
    filed = book.file()
    with pytest.raises(Refused):
        approvals.prove(place.store, book.ledger, filed["obligation_id"])
    book.decide(filed, "reject", reason="no")
    proof = tmp_path / "proof"
    proof.write_bytes(approvals.prove(place.store, book.ledger, filed["obligation_id"]))
    assert b"decision: reject" in proof.read_bytes()
    assert check(proof, place.root).returncode == 0
