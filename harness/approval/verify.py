"""Verify: the database against its own hashes, against its outbox, and against the export in git."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from harness.approval import text as texts
from harness.approval.backend import Row
from harness.approval.errors import Tampered
from harness.approval.ledger import APPROVALS, FOLDER, Ledger

_STATES: Final = {"claimed", "dispatching", "unknown", "cancelled"}


@dataclass(frozen=True)
class Finding:
    """Something that doesn't agree: where it is, and what is wrong."""

    where: str
    what: str


def hashes(ledger: Ledger) -> Iterator[Finding]:
    """Every draft and every snapshot against its own hashes, and each snapshot against its decision."""
    for row in ledger.backend.rows(
        "SELECT id, counterparty, platform, workspace, channel, thread FROM obligations ORDER BY id"
    ):
        drafts = ledger.backend.rows(
            "SELECT epoch FROM obligation_drafts WHERE obligation_id = ? ORDER BY epoch", (row["id"],)
        )
        for one in drafts:
            draft = ledger.draft(int(row["id"]), int(one["epoch"]))
            yield from _checked(f"draft {row['id']}/{one['epoch']}", {**row, **(draft or {})})
    rows = ledger.backend.rows(
        "SELECT s.*, d.decision, d.epoch AS decided_epoch, d.obligation_id AS decided_obligation, d.shown_sha256 "
        "FROM obligation_approval_snapshots s JOIN obligation_decisions d ON d.id = s.decision_id ORDER BY s.decision_id"
    )
    for row in rows:
        where = f"snapshot of decision {row['decision_id']}"
        yield from _checked(where, row)
        if (
            row["decision"] != "approve"
            or row["decided_epoch"] != row["epoch"]
            or row["decided_obligation"] != row["obligation_id"]
        ):
            yield Finding(where, "its decision says something else")
        if row["shown_sha256"] and row["shown_sha256"] != row["draft_sha256"]:
            yield Finding(where, "it is not the text that was shown")


def _checked(where: str, row: Row) -> Iterator[Finding]:
    try:
        texts.verify(row)
    except Tampered as error:
        yield Finding(where, str(error))


def outbox(ledger: Ledger) -> Iterator[Finding]:
    """The tables against what the outbox says came to pass."""
    told = _Told()
    for row in ledger.backend.rows("SELECT path, row FROM outbox ORDER BY seq"):
        if row["path"] != APPROVALS:
            told.take(json.loads(row["row"]))
    yield from _drafts(ledger, told)
    yield from _decisions(ledger, told)
    yield from _claims(ledger, told)


class _Told:
    """The last word of the events on each thing."""

    def __init__(self) -> None:
        self.drafts: dict[tuple[int, int], dict[str, Any]] = {}
        self.decisions: dict[int, dict[str, Any]] = {}
        self.claims: dict[tuple[int, int], str] = {}
        self.deliveries: dict[tuple[int, int], dict[str, Any]] = {}

    def take(self, row: dict[str, Any]) -> None:
        event, obligation = row["event"], row.get("obligation_id", 0)
        kind, _, what = event.partition(".")
        if event == "drafts.filed":
            self.drafts[obligation, row["epoch"]] = row
        elif event == "decisions.decided":
            self.decisions[row["decision_id"]] = row
        elif kind == "claims" and what in _STATES:
            self.claims[obligation, row["decision_id"]] = what
        elif event == "deliveries.delivered":
            self.deliveries[obligation, row["decision_id"]] = row
            if (obligation, row["decision_id"]) in self.claims:  # a receipt from elsewhere has none
                self.claims[obligation, row["decision_id"]] = "delivered"


def _drafts(ledger: Ledger, told: _Told) -> Iterator[Finding]:
    seen = set()
    rows = ledger.backend.rows(
        "SELECT t.*, o.counterparty, o.platform, o.workspace, o.channel, o.thread FROM obligation_drafts t "
        "JOIN obligations o ON o.id = t.obligation_id ORDER BY t.obligation_id, t.epoch"
    )
    names = (
        "draft_sha256",
        "digest",
        "subject",
        "priority",
        "counterparty",
        "platform",
        "workspace",
        "channel",
        "thread",
    )
    for row in rows:
        key = (int(row["obligation_id"]), int(row["epoch"]))
        seen.add(key)
        known = told.drafts.get(key)
        yield from _compare(f"draft {key[0]}/{key[1]}", row, known, names)
    for key in told.drafts.keys() - seen:
        yield Finding(f"draft {key[0]}/{key[1]}", "it was filed, and is gone")


def _decisions(ledger: Ledger, told: _Told) -> Iterator[Finding]:
    seen = set()
    for row in ledger.backend.rows("SELECT * FROM obligation_decisions ORDER BY id"):
        seen.add(int(row["id"]))
        names = ("obligation_id", "epoch", "decision", "operator", "channel", "shown_sha256", "reason", "nonce")
        yield from _compare(f"decision {row['id']}", row, told.decisions.get(int(row["id"])), names)
    for key in told.decisions.keys() - seen:
        yield Finding(f"decision {key}", "it was made, and is gone")


def _claims(ledger: Ledger, told: _Told) -> Iterator[Finding]:
    have = {
        (int(r["obligation_id"]), int(r["decision_id"])): r
        for r in ledger.backend.rows("SELECT obligation_id, decision_id, state FROM obligation_delivery_claims")
    }
    for key in sorted(have.keys() | told.claims.keys()):
        state = have[key]["state"] if key in have else "gone"
        if state != told.claims.get(key, "unheard of"):
            yield Finding(f"claim {key[0]}/{key[1]}", f"it is {state}, and was {told.claims.get(key, 'unheard of')}")
    arrived = {
        (int(r["obligation_id"]), int(r["decision_id"])): r
        for r in ledger.backend.rows("SELECT * FROM obligation_deliveries WHERE kind = 'draft_sent'")
    }
    for key in sorted(arrived.keys() | told.deliveries.keys()):
        where = f"delivery {key[0]}/{key[1]}"
        if key not in arrived:
            yield Finding(where, "it was recorded, and is gone")
        else:
            yield from _compare(where, arrived[key], told.deliveries.get(key), ("coordinate", "kind"))
    for row in ledger.backend.rows("SELECT id, status FROM obligations"):
        sent = any(key[0] == row["id"] for key in arrived)
        if sent != (row["status"] == "sent") and row["status"] != "closed":
            yield Finding(
                f"obligation {row['id']}", f"it is {row['status']}, and {'was' if sent else 'was not'} delivered"
            )


def _compare(where: str, row: Row, known: dict[str, Any] | None, names: Iterable[str]) -> Iterator[Finding]:
    if known is None:
        yield Finding(where, "the outbox knows nothing of it")
        return
    for name in names:
        if (row[name] or None) != (known.get(name) or None):
            yield Finding(where, f"{name} is {str(row[name])[:60]!r}, and was {str(known.get(name))[:60]!r}")


def exported(
    ledger: Ledger, rows: Iterable[tuple[str, dict[str, Any] | None, str]], files: Iterable[tuple[str, bytes]]
) -> Iterator[Finding]:
    """The export in git against the outbox, both ways, and each exported text against the hash in its name."""
    known = {row["id"]: row for row in ledger.backend.rows("SELECT * FROM outbox")}
    seen: set[str] = set()
    for path, row, why in rows:
        if row is None:
            yield Finding(path, f"a line can't be read: {why}")
            continue
        own = known.get(row.get("id"))
        if own is None:
            if path != APPROVALS:  # decisions on other drafts are written there too
                yield Finding(f"{path} {row.get('id')}", "git has a row that the ledger never wrote")
            continue
        if row["id"] in seen:
            yield Finding(f"{path} {row['id']}", "git has it twice")
        seen.add(row["id"])
        wrote = json.loads(own["row"]) | ({"seq": int(own["seq"])} if path.startswith(FOLDER) else {})
        if own["path"] != path or wrote != row:
            names = sorted(name for name in wrote.keys() | row.keys() if wrote.get(name) != row.get(name))
            yield Finding(f"{path} {row['id']}", f"git and the ledger differ in {', '.join(names) or 'the file'}")
    for key in known.keys() - seen:
        if known[key]["exported_ts"] is not None:
            yield Finding(f"{known[key]['path']} {key}", "it was exported, and git has it no more")
    for sha256, data in files:
        if hashlib.sha256(data).hexdigest() != sha256:
            yield Finding(f"text {sha256[:16]}", "the exported text isn't the one its name says")
