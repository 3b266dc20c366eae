"""Taking a whole ledger over into a new one, row by row through the new one's own guards: for moving, for coming from
elsewhere, and for building one again from the export. What a guard refuses is reported, never forced."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from harness.approval.backend import Backend, Row
from harness.approval.errors import ApprovalError, Refused
from harness.approval.file import record_draft
from harness.approval.ledger import Ledger, stamp
from harness.approval.text import is_hash

_DRAFT: Final = (
    "obligation_id", "epoch", "draft_text", "subject", "context", "origin_user", "source_skill", "priority", "attachments",
    "draft_sha256", "digest", "baseline", "created_ts", "auto_send_after", "expires_after", "looked_ts", "signal_obligation_id",
    "request_key",
)  # fmt: skip
_DECISION: Final = (
    "id",
    "obligation_id",
    "epoch",
    "decision",
    "operator",
    "channel",
    "shown_sha256",
    "reason",
    "decided_ts",
    "nonce",
)
_SNAPSHOT: Final = (
    "draft_text", "draft_sha256", "subject", "attachments", "digest", "counterparty", "platform", "workspace", "channel", "thread",
)  # fmt: skip
_OBLIGATION: Final = ("counterparty", "platform", "workspace", "channel", "thread", "direction", "summary", "opened_ts")


@dataclass
class Contents:
    """All rows of a ledger, by table."""

    obligations: list[Row] = field(default_factory=list)
    drafts: list[Row] = field(default_factory=list)
    bodies: list[Row] = field(default_factory=list)
    decisions: list[Row] = field(default_factory=list)
    snapshots: list[Row] = field(default_factory=list)
    claims: list[Row] = field(default_factory=list)
    deliveries: list[Row] = field(default_factory=list)
    freezes: list[Row] = field(default_factory=list)
    outbox: list[Row] = field(default_factory=list)


@dataclass
class Copied:
    """What came over, and for each thing that didn't: where it is, and why a person should look at it."""

    obligations: int = 0
    problems: list[tuple[str, str]] = field(default_factory=list)


def contents(backend: Backend) -> Contents:
    """All rows of one of our ledgers."""

    def rows(table: str, order: str) -> list[Row]:
        return backend.rows(f"SELECT * FROM {table} ORDER BY {order}")  # noqa: S608 (names from the lines below)

    return Contents(
        rows("obligations", "id"),
        rows("obligation_drafts", "obligation_id, epoch"),
        rows("draft_bodies", "obligation_id, epoch, media_type"),
        rows("obligation_decisions", "id"),
        rows("obligation_approval_snapshots", "decision_id"),
        rows("obligation_delivery_claims", "created_ts, decision_id"),
        rows("obligation_deliveries", "id"),
        rows("freezes", "id"),
        rows("outbox", "seq"),
    )


def write(target: Ledger, source: Contents) -> Copied:
    """Put ``source`` into the empty ledger ``target``, one obligation a transaction. Freezes come last: they would stop the
    claims that are part of the history."""
    out = Copied()
    drafts, bodies = _by(source.drafts), _by(source.bodies)
    decisions, claims, deliveries = _by(source.decisions), _by(source.claims), _by(source.deliveries)
    snapshots = {int(row["decision_id"]): row for row in source.snapshots}
    # Drafts name the inbound that they answer, so all obligations are there before the first draft.
    with target.transaction():
        for row in source.obligations:
            values = [row[name] for name in _OBLIGATION]
            _insert(
                target,
                "obligations",
                (*_OBLIGATION, "id", "status", "last_touch_ts", "epoch"),
                [*values, row["id"], "open", row["opened_ts"], -1],
            )
    for row in source.obligations:
        number = int(row["id"])
        one = _One(target, row, snapshots, out.problems)
        try:
            with target.transaction():
                mine = claims.get(number, [])
                one.drafts(drafts.get(number, []), bodies.get(number, []), decisions.get(number, []), mine)
                one.claims([claim for claim in mine if claim["state"] != "cancelled"], deliveries.get(number, []))
                one.finish()
            out.obligations += 1
        except ApprovalError as error:
            out.problems.append((f"obligation {number}", f"it did not come over: {error}"))
    with target.transaction():
        for row in source.outbox:
            _insert(target, "outbox", tuple(row), list(row.values()))
        for row in source.freezes:
            _insert(target, "freezes", tuple(row), list(row.values()))
    count_on(target)
    return out


def _by(rows: Iterable[Row]) -> dict[int, list[Row]]:
    out: dict[int, list[Row]] = {}
    for row in rows:
        out.setdefault(int(row["obligation_id"]), []).append(row)
    return out


def _insert(target: Ledger, table: str, names: tuple[str, ...], values: list[Any]) -> None:
    marks = ", ".join("?" * len(names))
    target.backend.change(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", values)  # noqa: S608 (our own names)


def count_on(target: Ledger) -> None:
    """Let new rows get numbers behind those that came over. SQLite does so by itself."""
    if target.backend.name == "postgres":
        for table, column in (
            ("obligations", "id"),
            ("obligation_decisions", "id"),
            ("obligation_deliveries", "id"),
            ("outbox", "seq"),
            ("freezes", "id"),
        ):
            target.backend.rows(
                f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), greatest((SELECT max({column}) FROM {table}), 1), "  # noqa: S608
                f"EXISTS (SELECT 1 FROM {table}))"
            )


class _One:
    """One obligation on its way: each epoch, what was decided on it, what was claimed of that, and its last state."""

    def __init__(self, target: Ledger, row: Row, snapshots: Mapping[int, Row], problems: list[tuple[str, str]]) -> None:
        self.target, self.row, self.snapshots, self.problems = target, row, snapshots, problems
        self.id = int(row["id"])
        self.bound: set[int] = set()

    def drafts(self, drafts: list[Row], bodies: list[Row], decisions: list[Row], claims: list[Row]) -> None:
        """Epoch by epoch, in the order in which they came to be, with the claims that were cancelled then."""
        epochs = sorted({int(one["epoch"]) for one in (*drafts, *decisions)} | {int(self.row["epoch"])})
        for epoch in epochs:
            if epoch <= int(self.row["epoch"]):
                self._set(epoch=epoch)
            for one in drafts:
                if int(one["epoch"]) == epoch:
                    if not is_hash(one["draft_sha256"]):
                        raise Refused(
                            "its draft's hash is no hash", f"epoch {epoch}", "file it again in the new ledger"
                        )
                    _insert(self.target, "obligation_drafts", _DRAFT, [one[name] for name in _DRAFT])
            for one in bodies:
                if int(one["epoch"]) == epoch:
                    _insert(self.target, "draft_bodies", tuple(one), list(one.values()))
            for one in decisions:
                if int(one["epoch"]) == epoch:
                    self._decision(one)
                    self._cancelled([c for c in claims if c["state"] == "cancelled" and c["decision_id"] == one["id"]])

    def _decision(self, decision: Row) -> None:
        number = int(decision["id"])
        _insert(self.target, "obligation_decisions", _DECISION, [decision[name] for name in _DECISION])
        snapshot = self.snapshots.get(number)
        where = f"decision {number} of obligation {self.id}"
        if snapshot is None:
            if decision["decision"] == "approve":
                self.problems.append(
                    (where, "it has no snapshot of the text it approved, so it grants nothing: decide again")
                )
            return
        self._set(status="approved")
        now = self.target.one("SELECT * FROM approval_current_drafts WHERE decision_id = ?", number)
        if (
            now is None
            or any(now[name] != snapshot[name] for name in _SNAPSHOT)
            or json.loads(now["bodies"]) != json.loads(snapshot["bodies"])
        ):
            self.problems.append(
                (where, "its snapshot is not the draft of its epoch, so it grants nothing: decide again")
            )
        else:
            self.target.backend.change(
                "INSERT INTO obligation_approval_snapshots (decision_id, obligation_id, epoch, draft_text, draft_sha256, subject, "
                "bodies, attachments, digest, counterparty, platform, workspace, channel, thread, kind) "
                "SELECT decision_id, obligation_id, epoch, draft_text, draft_sha256, subject, bodies, attachments, digest, "
                "counterparty, platform, workspace, channel, thread, 'draft_sent' FROM approval_current_drafts WHERE decision_id = ?",
                (number,),
            )
            self.bound.add(number)
        self._set(status="open")

    def claims(self, claims: list[Row], deliveries: list[Row]) -> None:
        """Claims through their states. What is left of the receipts belongs to none, and only forbids."""
        receipts = {int(one["decision_id"]): one for one in deliveries}
        for claim in claims:
            number = int(claim["decision_id"])
            if number in self.bound:
                self._claim(claim, receipts.pop(number, None))
            else:
                self.problems.append((f"claim of decision {number}", "it stands on no snapshot that came over"))
        for one in receipts.values():
            _insert(self.target, "obligation_deliveries", tuple(one), list(one.values()))

    def _cancelled(self, claims: list[Row]) -> None:
        for claim in claims:
            if int(claim["decision_id"]) in self.bound:
                self._set(status="approved")
                self._put(claim)
                self._move(claim, "cancelled", int(claim["updated_ts"]))
                self._set(status="open")

    def _claim(self, claim: Row, receipt: Row | None) -> None:
        self._set(status="approved")
        self._put(claim)
        wanted, last = claim["state"], int(claim["updated_ts"])
        if wanted == "claimed":
            return
        begun = int(claim["created_ts"])
        self._move(claim, "dispatching", begun)
        evidence = claim["reconciliation_evidence"]
        if wanted == "unknown" or evidence:
            self._move(claim, "unknown", begun if evidence else last)
        if receipt is not None:
            _insert(self.target, "obligation_deliveries", tuple(receipt), list(receipt.values()))
        if wanted == "delivered":
            self._move(claim, "delivered", last, evidence)
        elif wanted == "dispatching":
            self._move(claim, "dispatching", last)

    def _put(self, claim: Row) -> None:
        names = ("obligation_id", "decision_id", "token", "worker_host", "worker_pid", "created_ts")
        at = int(claim["created_ts"])
        _insert(
            self.target, "obligation_delivery_claims", (*names, "state", "heartbeat_ts", "updated_ts"),
            [*(claim[name] for name in names), "claimed", at, at],
        )  # fmt: skip

    def _move(self, claim: Row, state: str, at: int, evidence: str | None = None) -> None:
        self.target.backend.change(
            "UPDATE obligation_delivery_claims SET state = ?, updated_ts = ?, heartbeat_ts = ?, reconciliation_evidence = ? "
            "WHERE token = ?",
            (state, at, at, evidence, claim["token"]),
        )

    def finish(self) -> None:
        """The obligation's last state; where a claim holds it, it is already as it was approved."""
        if self.target.active_claim(self.id) is None:
            self._set(status=self.row["status"], last_touch_ts=self.row["last_touch_ts"])
        elif self.row["status"] != "approved":
            raise Refused(
                f"obligation {self.id} is {self.row['status']} under an active claim", "that can't have come about"
            )

    def _set(self, **values: Any) -> None:
        names = ", ".join(f"{name} = ?" for name in values)
        self.target.backend.change(f"UPDATE obligations SET {names} WHERE id = ?", [*values.values(), self.id])  # noqa: S608


def hold(target: Ledger, why: str) -> list[int]:
    """Hold as unknown every approval that a worker could still take, and every attempt under way: where rows may be missing,
    nobody knows whether they went out. The obligations it holds now."""
    out = []
    rows = target.backend.rows(
        "SELECT b.obligation_id, b.decision_id, c.token, c.state FROM approval_bound_drafts b "
        "LEFT JOIN obligation_delivery_claims c ON c.decision_id = b.decision_id "
        "WHERE (c.state IS NULL OR c.state IN ('claimed', 'dispatching')) "
        "AND NOT EXISTS (SELECT 1 FROM obligation_deliveries r WHERE r.obligation_id = b.obligation_id AND r.kind = 'draft_sent') "
        "ORDER BY b.obligation_id, b.decision_id"
    )
    for row in rows:
        number = int(row["obligation_id"])
        active = target.active_claim(number)
        if active is not None and active["decision_id"] != row["decision_id"]:
            continue  # another decision on the same text is held already
        with target.on(number):
            now, token = target.now(), row["token"] or secrets.token_hex(32)
            if row["state"] is None:
                names = ("obligation_id", "decision_id", "token", "state", "created_ts", "updated_ts")
                _insert(
                    target,
                    "obligation_delivery_claims",
                    names,
                    [number, row["decision_id"], token, "claimed", now, now],
                )
                target.record("claims.claimed", number, now, decision_id=int(row["decision_id"]), worker="rebuild")
            at = max(now, int((target.active_claim(number) or {"updated_ts": 0})["updated_ts"]))
            for state in ("dispatching", "unknown") if row["state"] != "dispatching" else ("unknown",):
                target.backend.change(
                    "UPDATE obligation_delivery_claims SET state = ?, updated_ts = ? WHERE token = ?",
                    (state, at, token),
                )
                target.record(f"claims.{state}", number, at, decision_id=int(row["decision_id"]), reason=why)
        out.append(number)
    return out


def tell(target: Ledger) -> None:
    """Put into the outbox what the tables of a ledger that had none say, so that export and verify know of it."""
    rows = contents(target.backend)
    places = {int(row["id"]): row for row in rows.obligations}
    with target.transaction():
        for row in rows.obligations:
            if not any(one["obligation_id"] == row["id"] for one in rows.drafts):
                place = {name: row[name] for name in _OBLIGATION if name != "opened_ts"}
                target.record(
                    "obligations.opened",
                    int(row["id"]),
                    int(row["opened_ts"]),
                    **place,
                    opened=stamp(int(row["opened_ts"])),
                    epoch=int(row["epoch"]),
                )
        for one in rows.drafts:
            place = {name: places[int(one["obligation_id"])][name] for name in _OBLIGATION[:5]}
            bodies = [
                [b["media_type"], b["sha256"]]
                for b in rows.bodies
                if (b["obligation_id"], b["epoch"]) == (one["obligation_id"], one["epoch"])
            ]
            record_draft(target, one, place, bodies)
        for one in rows.decisions:
            names = ("epoch", "decision", "operator", "channel", "shown_sha256", "reason", "nonce")
            target.record(
                "decisions.decided",
                int(one["obligation_id"]),
                int(one["decided_ts"]),
                decision_id=int(one["id"]),
                **{name: one[name] for name in names},
            )
        for one in rows.claims:
            worker = f"{one['worker_host']}:{one['worker_pid']}"
            target.record(
                "claims.claimed",
                int(one["obligation_id"]),
                int(one["created_ts"]),
                decision_id=int(one["decision_id"]),
                worker=worker,
            )
            if one["state"] not in ("claimed", "delivered"):
                target.record(
                    f"claims.{one['state']}",
                    int(one["obligation_id"]),
                    int(one["updated_ts"]),
                    decision_id=int(one["decision_id"]),
                )
        evidence = {int(one["decision_id"]): one["reconciliation_evidence"] for one in rows.claims}
        for one in rows.deliveries:
            decision = int(one["decision_id"])
            target.record(
                "deliveries.delivered", int(one["obligation_id"]), int(one["delivered_ts"]), delivery_id=int(one["id"]),
                decision_id=decision, kind=one["kind"], coordinate=one["coordinate"], evidence=evidence.get(decision),
            )  # fmt: skip
        for row in rows.obligations:
            if row["status"] in ("closed", "expired"):
                target.record(f"obligations.{row['status']}", int(row["id"]), int(row["last_touch_ts"]))
