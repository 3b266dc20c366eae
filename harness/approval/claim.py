"""Claims: the right to send once. Each step is one transaction of its own, and none is open while something is sent."""

from __future__ import annotations

import json
import secrets
from typing import Any, Final

from harness.approval import text as texts
from harness.approval.backend import Row
from harness.approval.errors import (
    AlreadyDelivered,
    Contradiction,
    Frozen,
    Invalid,
    LostRace,
    NeedsEvidence,
    NotBound,
    Tampered,
    UnknownToken,
    WrongState,
)  # fmt: skip
from harness.approval.ledger import Ledger, stamp
from harness.approval.limits import LIMITS

_BOUND: Final = ("draft_text", "draft_sha256", "subject", "attachments", "digest")
_PLACE: Final = ("counterparty", "platform", "workspace", "channel", "thread")


def waiting(ledger: Ledger, limit: int = 64) -> list[Row]:
    """Approved drafts that nobody has claimed, the most urgent first: obligation_id, decision_id and destination. To be
    listed here is no permission."""
    return ledger.backend.rows(
        "SELECT o.id AS obligation_id, d.id AS decision_id, o.platform, o.workspace, o.channel, t.priority, d.decided_ts "
        "FROM obligations o "
        "JOIN obligation_decisions d ON d.obligation_id = o.id AND d.epoch = o.epoch AND d.decision = 'approve' "
        "JOIN obligation_approval_snapshots s ON s.decision_id = d.id "
        "JOIN obligation_drafts t ON t.obligation_id = o.id AND t.epoch = o.epoch "
        "WHERE o.status = 'approved' AND NOT EXISTS (SELECT 1 FROM obligation_delivery_claims c WHERE c.obligation_id = o.id "
        "AND (c.decision_id = d.id OR c.state IN ('claimed', 'dispatching', 'unknown'))) "
        "AND NOT EXISTS (SELECT 1 FROM obligation_deliveries r WHERE r.obligation_id = o.id AND r.kind = 'draft_sent') "
        "ORDER BY t.priority, o.id LIMIT ?",
        (limit,),
    )


def claim(ledger: Ledger, obligation_id: int, decision_id: int) -> str:
    """Take the one right to send what ``decision_id`` approved; its token.

    Raises LostRace, NotBound, Tampered, AlreadyDelivered, Frozen, NotFound, Locked, NestedTransaction.
    """
    token = secrets.token_hex(32)
    host, pid = ledger.worker
    with ledger.on(obligation_id):
        _refuse_frozen(ledger)
        _bound(ledger, obligation_id, decision_id)
        now = max(0, ledger.now())
        ledger.backend.change(
            "INSERT INTO obligation_delivery_claims (obligation_id, decision_id, token, state, worker_host, worker_pid, "
            "heartbeat_ts, created_ts, updated_ts) VALUES (?, ?, ?, 'claimed', ?, ?, ?, ?, ?)",
            (obligation_id, decision_id, token, host, pid, now, now, now),
        )
        ledger.record("claims.claimed", obligation_id, now, decision_id=decision_id, worker=f"{host}:{pid}")
    return token


def begin_dispatch(ledger: Ledger, token: str) -> dict[str, Any]:
    """Cross the line: the exact payload, once, to the caller whose commit won. What comes after is never tried again.

    Raises WrongState, NotBound, Tampered, Frozen, UnknownToken, Locked, NestedTransaction.
    """
    with _holding(ledger, token) as row:
        if row["state"] != "claimed":
            raise WrongState("this claim can't begin", f"it is {row['state']}")
        _refuse_frozen(ledger)
        snapshot = _bound(ledger, int(row["obligation_id"]), int(row["decision_id"]), own=True)
        now = _move(ledger, row, "dispatching")
        ledger.record("claims.dispatching", int(row["obligation_id"]), now, decision_id=int(row["decision_id"]))
    return payload(snapshot)


def payload(snapshot: Row) -> dict[str, Any]:
    """What a transport gets: the approved text and all that goes with it, from the snapshot alone."""
    return {
        "obligation_id": int(snapshot["obligation_id"]), "decision_id": int(snapshot["decision_id"]),
        "epoch": int(snapshot["epoch"]), "kind": snapshot["kind"],
        **{name: snapshot[name] for name in _PLACE},
        "subject": snapshot["subject"], "text": snapshot["draft_text"], "draft_sha256": snapshot["draft_sha256"],
        "bodies": {one.media_type: one.body for one in texts.bodies_of(snapshot["bodies"])},
        "attachments": json.loads(snapshot["attachments"]), "digest": snapshot["digest"],
    }  # fmt: skip


def cancel(ledger: Ledger, token: str, operator: str | None = None, *, reopen: bool = True) -> None:
    """Give a claim back that hasn't begun. Its decision is used up: the draft waits for a new one, unless ``reopen`` is
    false. Raises WrongState."""
    with _holding(ledger, token) as row:
        if row["state"] == "cancelled":
            return
        if row["state"] != "claimed":
            raise WrongState(
                "only a claim that hasn't begun can be cancelled", f"it is {row['state']}", "reconcile it instead"
            )
        now = _move(ledger, row, "cancelled")
        obligation_id = int(row["obligation_id"])
        if reopen:
            _reopen(ledger, obligation_id)
        ledger.record("claims.cancelled", obligation_id, now, decision_id=int(row["decision_id"]), operator=operator)


def _reopen(ledger: Ledger, obligation_id: int) -> None:
    """Back to where a person decides; unless another draft waits for the same destination, which then goes first."""
    ledger.backend.change(
        "UPDATE obligations SET status = CASE WHEN EXISTS (SELECT 1 FROM obligations x WHERE x.status = 'drafted' "
        "AND x.counterparty = obligations.counterparty AND x.platform = obligations.platform "
        "AND x.workspace = obligations.workspace AND x.channel = obligations.channel AND x.thread = obligations.thread) "
        "THEN 'closed' ELSE 'drafted' END WHERE id = ? AND status = 'approved'",
        (obligation_id,),
    )


def cancel_claimed(ledger: Ledger, obligation_id: int, operator: str) -> None:
    """An operator's way to free a claim whose worker is gone: only before it began. Raises WrongState."""
    row = ledger.active_claim(ledger.obligation(obligation_id)["id"])
    if row is None:
        raise WrongState(f"obligation {obligation_id} has no active claim")
    cancel(ledger, row["token"], operator)


def mark_unknown(ledger: Ledger, token: str, why: str | None = None) -> bool:
    """Record that nobody knows whether it was sent; False when that was known already. It is held until reconciled."""
    reason = None if why is None else why[: LIMITS.reason_characters]
    with _holding(ledger, token) as row:
        if row["state"] == "unknown":
            return False
        if row["state"] != "dispatching":
            raise WrongState("only an attempt that began can be unknown", f"it is {row['state']}")
        now = _move(ledger, row, "unknown")
        ledger.record(
            "claims.unknown", int(row["obligation_id"]), now, decision_id=int(row["decision_id"]), reason=reason
        )
    return True


def complete(ledger: Ledger, token: str, coordinate: str) -> bool:
    """Record where it arrived, and the obligation as sent, in one transaction. False when the same was recorded before.

    Raises Invalid (empty coordinate), WrongState, Contradiction, Tampered, UnknownToken.
    """
    return _finish(ledger, token, coordinate, None, None)


def reconcile(ledger: Ledger, token: str, coordinate: str, evidence: str, operator: str | None = None) -> bool:
    """Turn an unknown outcome into a delivered one, on evidence that the caller vouches for. Raises NeedsEvidence."""
    if not isinstance(evidence, str) or texts.blank(evidence):
        raise NeedsEvidence("an unknown outcome needs evidence", "none was given", "say where you saw that it arrived")
    proof = texts.block("evidence", evidence, LIMITS.evidence_characters).text
    return _finish(ledger, token, coordinate, proof, operator)


def reconcile_held(ledger: Ledger, obligation_id: int, coordinate: str, evidence: str, operator: str) -> bool:
    """``reconcile`` by obligation, for an operator. An attempt still marked as dispatching is made unknown first: whoever
    began it may yet complete it, with the same coordinate or not at all."""
    row = ledger.active_claim(ledger.obligation(obligation_id)["id"])
    if row is None:
        raise WrongState(f"nothing of obligation {obligation_id} is held")
    if row["state"] == "dispatching":
        mark_unknown(ledger, row["token"], f"by {operator}, to reconcile")
    return reconcile(ledger, row["token"], coordinate, evidence, operator)


def held(ledger: Ledger) -> list[Row]:
    """Claims that are under way or unknown, the oldest first: state, age in seconds, worker, hash, and whether it is stale."""
    rows = ledger.backend.rows(
        "SELECT c.obligation_id, c.decision_id, c.state, c.worker_host, c.worker_pid, c.created_ts, c.updated_ts, "
        "c.heartbeat_ts, s.draft_sha256, s.counterparty, s.platform, s.workspace, s.channel, s.thread "
        "FROM obligation_delivery_claims c JOIN obligation_approval_snapshots s ON s.decision_id = c.decision_id "
        "WHERE c.state IN ('claimed', 'dispatching', 'unknown') ORDER BY c.updated_ts, c.obligation_id"
    )
    now = ledger.now()
    for row in rows:
        row["age"] = max(0, now - int(row["updated_ts"]))
        row["stale"] = row["state"] != "unknown" and row["age"] >= LIMITS.stale_seconds
    return rows


def beat(ledger: Ledger, token: str) -> None:
    """Say that the worker of a claim is alive."""
    with _holding(ledger, token) as row:
        if row["state"] in ("claimed", "dispatching"):
            _move(ledger, row, row["state"])


# --- inside ----------------------------------------------------------------------------------------------------


class _Holding:
    """A transaction that holds the obligation of a token; entering it gives the claim's row."""

    def __init__(self, ledger: Ledger, token: str) -> None:
        self.ledger, self.token = ledger, token
        self.transaction = ledger.transaction()

    def __enter__(self) -> Row:
        if not isinstance(self.token, str) or not self.token:
            raise UnknownToken("a claim token is required")
        self.transaction.__enter__()
        try:
            found = self._row()
            self.ledger.backend.hold(int(found["obligation_id"]))
            return self._row()
        except BaseException as error:
            self.transaction.__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(self, *exc: Any) -> bool | None:
        return self.transaction.__exit__(*exc)

    def _row(self) -> Row:
        found = self.ledger.one("SELECT * FROM obligation_delivery_claims WHERE token = ?", self.token)
        if found is None:
            raise UnknownToken("no claim has this token", "", "see `harness ledger held`")
        return found


def _holding(ledger: Ledger, token: str) -> _Holding:
    return _Holding(ledger, token)


def _refuse_frozen(ledger: Ledger) -> None:
    if freeze := ledger.frozen():
        raise Frozen(
            "sending is frozen", f"by {freeze['frozen_by']} since {stamp(int(freeze['frozen_ts']))}: {freeze['reason']}",
            "`harness ledger unfreeze` ends it",
        )  # fmt: skip


def _bound(ledger: Ledger, obligation_id: int, decision_id: int, *, own: bool = False) -> Row:
    """The snapshot that still is what is approved, its hashes computed anew; raises why there is none. ``own``: the claim
    under way is the caller's."""
    values = (obligation_id, decision_id)
    if ledger.one(
        "SELECT id FROM obligation_deliveries WHERE obligation_id = ? AND (kind = 'draft_sent' OR decision_id = ?)",
        *values,
    ):
        raise AlreadyDelivered(f"obligation {obligation_id} was delivered already", "", "file it anew to send it again")
    if not own:
        used = ledger.one(
            "SELECT state, decision_id FROM obligation_delivery_claims WHERE obligation_id = ? "
            "AND (decision_id = ? OR state IN ('claimed', 'dispatching', 'unknown')) "
            "ORDER BY CASE state WHEN 'cancelled' THEN 1 ELSE 0 END",
            *values,
        )
        if used is not None and used["state"] == "cancelled":
            raise NotBound(f"decision {decision_id} is used up", "its claim was cancelled", "it takes a new decision")
        if used is not None:
            raise LostRace(f"obligation {obligation_id} is claimed already", f"that claim is {used['state']}")
    found = ledger.one("SELECT * FROM approval_bound_drafts WHERE obligation_id = ? AND decision_id = ?", *values)
    if found is None:
        raise _why_unbound(ledger, obligation_id, decision_id)
    texts.verify(found)
    return found


def _why_unbound(ledger: Ledger, obligation_id: int, decision_id: int) -> NotBound | Tampered:
    row = ledger.obligation(obligation_id)
    decision = ledger.one(
        "SELECT * FROM obligation_decisions WHERE id = ? AND obligation_id = ?", decision_id, obligation_id
    )
    what = f"decision {decision_id} of obligation {obligation_id} grants nothing"
    if decision is None:
        return NotBound(what, "there is no such decision")
    snapshot = ledger.one("SELECT * FROM obligation_approval_snapshots WHERE decision_id = ?", decision_id)
    if snapshot is None:
        why = "it was a rejection" if decision["decision"] == "reject" else "it has no snapshot of the text it approved"
        return NotBound(what, why, "it takes a new decision")
    if decision["decision"] != "approve" or decision["epoch"] != snapshot["epoch"]:
        return Tampered(what, "the decision was changed after it was made")
    if row["epoch"] != snapshot["epoch"] or row["status"] != "approved" or row["direction"] != "we_owe_them":
        return NotBound(
            what,
            f"the obligation is {row['status']} at epoch {row['epoch']}, not approved at epoch {snapshot['epoch']}",
        )
    draft = ledger.draft(obligation_id, int(row["epoch"]))
    changed = [name for name in _PLACE if row[name] != snapshot[name]]
    changed += ["draft"] if draft is None else [name for name in _BOUND if draft[name] != snapshot[name]]
    return Tampered(what, f"changed after the approval: {', '.join(changed) or 'bodies'}", "file it anew")


def _move(ledger: Ledger, row: Row, state: str, evidence: str | None = None, at: int | None = None) -> int:
    """Put the claim into ``state``; the time that was written (``at``, or now), which never goes back."""
    now = max(ledger.now(), int(row["updated_ts"])) if at is None else at
    ledger.backend.change(
        "UPDATE obligation_delivery_claims SET state = ?, updated_ts = ?, heartbeat_ts = ?, reconciliation_evidence = ? "
        "WHERE token = ?",
        (state, now, now, evidence, row["token"]),
    )
    return now


def _finish(ledger: Ledger, token: str, coordinate: str, evidence: str | None, operator: str | None) -> bool:
    if not isinstance(coordinate, str) or texts.blank(coordinate):
        raise Invalid(
            "a coordinate is required", "it says where the message arrived", "give the id that the provider gave"
        )
    where = texts.line("coordinate", coordinate, LIMITS.coordinate_characters)
    with _holding(ledger, token) as row:
        obligation_id, decision_id = int(row["obligation_id"]), int(row["decision_id"])
        if row["state"] == "delivered":
            known = ledger.one(
                "SELECT * FROM obligation_deliveries WHERE obligation_id = ? AND decision_id = ?",
                obligation_id,
                decision_id,
            )
            if known is None or known["coordinate"] != where or known["kind"] != "draft_sent":
                raise Contradiction("it was completed with another coordinate", f"{(known or {}).get('coordinate')}")
            return False
        wanted = "dispatching" if evidence is None else "unknown"
        if row["state"] != wanted:
            todo = "reconcile it, with evidence" if row["state"] == "unknown" else ""
            what = f"only a claim that is {wanted} can be finished like this"
            raise WrongState(what, f"it is {row['state']}", todo, state=row["state"])
        snapshot = ledger.one("SELECT * FROM obligation_approval_snapshots WHERE decision_id = ?", decision_id)
        if snapshot is None:
            raise Tampered("the snapshot of this claim is gone")
        clock = ledger.now()
        now = max(clock, int(row["updated_ts"]))
        delivery = ledger.backend.insert(
            "INSERT INTO obligation_deliveries (obligation_id, decision_id, kind, coordinate, delivered_ts) "
            "VALUES (?, ?, 'draft_sent', ?, ?)",
            (obligation_id, decision_id, where, now),
        )
        _move(ledger, row, "delivered", evidence, now)
        obligation = ledger.obligation(obligation_id)
        if not ledger.backend.change(
            "UPDATE obligations SET status = 'sent', last_touch_ts = ? WHERE id = ? AND status = 'approved'",
            (max(now, int(obligation["last_touch_ts"])), obligation_id),
        ):
            raise WrongState(f"obligation {obligation_id} can't be marked as sent", f"it is {obligation['status']}")
        ledger.record(
            "deliveries.delivered", obligation_id, now, delivery_id=delivery, decision_id=decision_id, kind="draft_sent",
            coordinate=where, evidence=evidence, operator=operator, draft_sha256=snapshot["draft_sha256"],
            clock=stamp(clock) if clock < now else None,
        )  # fmt: skip
        _answer(ledger, obligation_id, int(snapshot["epoch"]), now)
    return True


def _answer(ledger: Ledger, obligation_id: int, epoch: int, now: int) -> None:
    """The inbound that this answers counts as answered from now on."""
    draft = ledger.one(
        "SELECT signal_obligation_id AS inbound FROM obligation_drafts WHERE obligation_id = ? AND epoch = ?",
        obligation_id,
        epoch,
    )
    if draft and draft["inbound"] is not None:
        changed = ledger.backend.change(
            "UPDATE obligations SET status = 'closed', last_touch_ts = ? WHERE id = ? AND status = 'open'",
            (now, draft["inbound"]),
        )
        if changed:
            ledger.record("obligations.answered", int(draft["inbound"]), now, answer=obligation_id)
