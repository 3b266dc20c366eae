"""The export in git: complete, in order, once, also after a crash; and what verify finds when somebody edits something."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fixtures.workspaces import Place

from harness.approval import claim as claims
from harness.approval import export as exports
from harness.approval import freeze
from harness.flows import approvals
from tests.approval.book import Book


@pytest.fixture
def desk(book: Book, place: Place) -> tuple[Book, Place]:
    return book, place


def export(book: Book, place: Place) -> approvals.Exported:
    return approvals.export(place.store, book.ledger)


def exported(place: Place, name: str) -> list[dict[str, object]]:
    return [r for r in place.store.rows(f"state/log/ledger/{name}.ndjson") if isinstance(r, dict)]


def walk(book: Book) -> int:
    """One sent, one rejected, one unknown, one waiting, a freeze."""
    obligation, _, token = book.dispatching(
        subject="Window", bodies={"text/html": "<p>Friday</p>"}, context="who asked: Bob"
    )
    claims.complete(book.ledger, token, "slack:1")
    book.decide(book.file(counterparty="second"), "reject", reason="too long")
    claims.mark_unknown(book.ledger, book.dispatching(counterparty="third")[2])
    book.file(counterparty="fourth")
    book.file("again", counterparty="fourth")
    freeze.freeze(book.ledger, "ada", "lunch")
    return obligation


def test_everything_that_happened_is_in_git_with_who_and_which_bytes(desk: tuple[Book, Place]) -> None:
    book, place = desk
    obligation = walk(book)
    done = export(book, place)
    assert not done.waits
    assert done.rows == book.count("outbox")
    assert [r["event"] for r in exported(place, "claims")] == [
        "claims.claimed",
        "claims.dispatching",
        "claims.claimed",
        "claims.dispatching",
        "claims.unknown",
    ]
    [first, second, third] = exported(place, "decisions")
    assert (first["decision"], first["operator"], second["reason"], third["decision"]) == (
        "approve",
        "ada",
        "too long",
        "approve",
    )
    sha = str(first["shown_sha256"])
    data = place.git("show", f"HEAD:{exports.text_path(sha)}")
    assert data == book.value("SELECT draft_text FROM obligation_drafts WHERE obligation_id = ?", obligation)
    rows = [r for r in place.store.rows("state/log/approvals.ndjson") if isinstance(r, dict)]
    assert [(r["decision"], r["obligation_id"]) for r in rows] == [("approve", "1"), ("dismiss", "2"), ("approve", "3")]
    seqs = sorted(
        r["seq"] for name in ("drafts", "decisions", "claims", "deliveries", "freezes") for r in exported(place, name)
    )
    assert len(set(seqs)) == len(seqs)
    assert approvals.verify(place.store, book.ledger) == []
    assert export(book, place).rows == 0
    assert not place.porcelain()
    assert "Kind: decide" in place.git("log", "--format=%B")


def test_a_crash_between_the_commit_and_the_mark_writes_nothing_twice(
    desk: tuple[Book, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    book, place = desk
    walk(book)

    def dies(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(exports, "finish", dies)
    with pytest.raises(KeyboardInterrupt):
        export(book, place)
    monkeypatch.undo()
    before = place.count()
    assert book.count("outbox", "exported_ts IS NULL") == book.count("outbox")
    assert export(book, place).rows == 0
    assert place.count() == before
    assert book.count("outbox", "exported_ts IS NULL") == 0
    assert approvals.verify(place.store, book.ledger) == []


def test_a_tick_that_has_to_wait_stays_in_the_outbox(desk: tuple[Book, Place]) -> None:
    book, place = desk
    book.approved()
    (place.workspace.git_dir / "MERGE_HEAD").write_text(place.head + "\n")
    done = export(book, place)
    assert "merge" in done.waits
    assert book.count("outbox", "exported_ts IS NOT NULL") == 0
    (place.workspace.git_dir / "MERGE_HEAD").unlink()
    assert export(book, place).rows == 3


def test_only_the_holder_of_the_lease_exports(desk: tuple[Book, Place]) -> None:
    book, place = desk
    book.approved()
    assert exports.take_lease(book.ledger, "elsewhere")
    assert "elsewhere" in export(book, place).waits
    book.clock.now += 3600
    assert export(book, place).rows == 3


def test_many_decisions_make_segments_and_still_agree(desk: tuple[Book, Place]) -> None:
    book, place = desk
    for n in range(150):
        book.approved(counterparty=f"party {n}", context="c" * 3000)
    assert export(book, place).rows == 450
    assert place.store.tree.names("state/log/ledger/drafts.ndjson.d")
    assert approvals.verify(place.store, book.ledger) == []


TAMPERED = {
    "a decision edited": ("UPDATE obligation_decisions SET operator = 'mallory' WHERE id = 1", "decision 1"),
    "a rejection turned": ("UPDATE obligation_decisions SET decision = 'approve' WHERE id = 2", "decision 2"),
    "a draft edited": ("UPDATE obligation_drafts SET draft_text = 'other' WHERE obligation_id = 3", "draft 3"),
    "a body edited": ("UPDATE draft_bodies SET body = '<p>Monday</p>'", "draft 1"),
    "a receipt edited": ("UPDATE obligation_deliveries SET coordinate = 'elsewhere'", "delivery 1"),
    "a snapshot edited": (
        "UPDATE obligation_approval_snapshots SET draft_text = 'other' WHERE decision_id = 3",
        "snapshot of decision 3",
    ),
    "a claim freed": ("UPDATE obligation_delivery_claims SET state = 'cancelled' WHERE obligation_id = 3", "claim 3"),
    "a claim erased": ("DELETE FROM obligation_delivery_claims WHERE obligation_id = 3", "claim 3"),
    "a status set back": ("UPDATE obligations SET status = 'approved' WHERE id = 1", "obligation 1"),
    "an outbox row edited": (
        "UPDATE outbox SET row = replace(row, 'ada', 'eve') WHERE path LIKE '%decisions%'",
        "decisions.ndjson",
    ),
    "a receipt erased": ("DELETE FROM obligation_deliveries", "delivery 1"),
}


@pytest.mark.parametrize("change", TAMPERED)
def test_verify_names_what_was_changed_in_the_database(desk: tuple[Book, Place], change: str) -> None:
    book, place = desk
    walk(book)
    export(book, place)
    statement, where = TAMPERED[change]
    book.tamper(statement)
    found = approvals.verify(place.store, book.ledger)
    assert any(where in one.where for one in found), found


def test_an_edited_export_is_found_and_grants_nothing(desk: tuple[Book, Place]) -> None:
    book, place = desk
    walk(book)
    export(book, place)
    path = place.root / "state/log/ledger/decisions.ndjson"
    path.write_text(path.read_text().replace('"decision":"reject"', '"decision":"approve"'))
    place.git("add", "state")
    place.git("commit", "-qm", "by hand", "--no-verify")
    [found] = approvals.verify(place.store, book.ledger)
    assert "decision" in found.what
    assert claims.waiting(book.ledger) == []
    assert book.status(2) == "rejected"


def test_a_row_or_text_that_was_forged_or_removed_in_git_is_found(desk: tuple[Book, Place]) -> None:
    book, place = desk
    walk(book)
    export(book, place)
    decisions = place.root / "state/log/ledger/decisions.ndjson"
    lines = decisions.read_text().splitlines(keepends=True)
    forged = json.loads(lines[0]) | {"id": "01JE9Z0K3Q5W8T4X7R2M6N1P0A", "decision_id": 99, "seq": 999}
    decisions.write_text("".join(lines[1:]) + json.dumps(forged) + "\n")
    text = next(Path(place.root / exports.TEXTS).rglob("*.txt"))
    text.write_text("other")
    place.git("add", "state")
    place.git("commit", "-qm", "by hand", "--no-verify")
    words = " ".join(one.what for one in approvals.verify(place.store, book.ledger))
    assert "never wrote" in words
    assert "git has it no more" in words
    assert "isn't the one its name says" in words
