"""What may be known of an obligation, and by whom; and the lists that people and pages are shown."""

from __future__ import annotations

from typing import Any, Final

from harness.approval import claim as claims
from harness.approval.backend import Row
from harness.approval.decide import outcome
from harness.approval.ledger import Ledger, stamp
from harness.approval.limits import LIMITS

WORKER: Final = "worker"


def status(ledger: Ledger, obligation_id: int, *, outside: bool = False) -> dict[str, Any]:
    """What an agent may know. With ``outside`` the result can be seen by others: then it tells only that the obligation is
    there, and neither hash nor state nor operator."""
    row = ledger.obligation(obligation_id)
    if outside:
        return {"obligation_id": obligation_id, "counterparty": row["counterparty"]}
    draft = ledger.draft(obligation_id, int(row["epoch"]))
    decision = ledger.one(
        "SELECT * FROM obligation_decisions WHERE obligation_id = ? AND epoch = ? ORDER BY id DESC LIMIT 1",
        obligation_id, int(row["epoch"]),
    )  # fmt: skip
    claim = ledger.one(
        "SELECT * FROM obligation_delivery_claims WHERE obligation_id = ? ORDER BY updated_ts DESC, decision_id DESC LIMIT 1",
        obligation_id,
    )
    delivery = ledger.one(
        "SELECT * FROM obligation_deliveries WHERE obligation_id = ? ORDER BY id DESC LIMIT 1", obligation_id
    )
    out: dict[str, Any] = {
        "obligation_id": obligation_id, "status": row["status"], "epoch": int(row["epoch"]), "summary": row["summary"],
        "outcome": outcome(ledger, obligation_id, int(row["epoch"])), "direction": row["direction"],
        **{name: row[name] for name in ("counterparty", "platform", "workspace", "channel", "thread")},
        "opened": stamp(int(row["opened_ts"])), "touched": stamp(int(row["last_touch_ts"])),
    }  # fmt: skip
    if draft:
        out |= {
            name: draft[name] for name in ("draft_sha256", "digest", "priority", "baseline", "source_skill", "subject")
        }
        out |= {name: draft[name] for name in ("auto_send_after", "expires_after", "signal_obligation_id", "looked_ts")}
    if decision:
        out["decision"] = {
            "id": int(decision["id"]), "decision": decision["decision"], "operator": decision["operator"],
            "channel": decision["channel"], "reason": decision["reason"], "decided": stamp(int(decision["decided_ts"])),
        }  # fmt: skip
    if claim:
        host = f"{claim['worker_host']}:{claim['worker_pid']}"
        out["claim"] = {"state": claim["state"], "worker": host, "since": stamp(int(claim["updated_ts"]))}
    if delivery:
        out["delivery"] = {"coordinate": delivery["coordinate"], "delivered": stamp(int(delivery["delivered_ts"]))}
    return out


def queue(ledger: Ledger) -> list[Row]:
    """The drafts that wait for a person: the most urgent first, then the oldest."""
    return ledger.backend.rows(
        "SELECT o.id AS obligation_id, o.epoch, o.counterparty, o.platform, o.workspace, o.channel, o.thread, o.summary, "
        "t.priority, t.draft_sha256, t.created_ts, t.auto_send_after, t.expires_after, t.looked_ts, t.baseline, t.source_skill "
        "FROM obligations o JOIN obligation_drafts t ON t.obligation_id = o.id AND t.epoch = o.epoch "
        "WHERE o.status = 'drafted' AND o.direction = 'we_owe_them' ORDER BY t.priority, t.created_ts, o.id"
    )


def overview(ledger: Ledger) -> dict[str, Any]:
    """The state of the whole ledger on one screen."""
    counts = ledger.backend.rows("SELECT status, count(*) AS n FROM obligations GROUP BY status ORDER BY status")
    frozen = ledger.frozen()
    held = claims.held(ledger)
    ready = len(claims.waiting(ledger, 10_000))
    return {
        "place": ledger.backend.place,
        "counts": {one["status"]: int(one["n"]) for one in counts},
        "waiting": len(queue(ledger)),
        "ready": ready,
        "worker": worker_seen(ledger),
        "held": {state: sum(one["state"] == state for one in held) for state in ("claimed", "dispatching", "unknown")},
        "stale": sum(bool(one["stale"]) for one in held),
        "frozen": frozen
        and {"by": frozen["frozen_by"], "since": stamp(int(frozen["frozen_ts"])), "reason": frozen["reason"]},
        "unexported": int((ledger.one("SELECT count(*) AS n FROM outbox WHERE exported_ts IS NULL") or {"n": 0})["n"]),
    }


def worker_seen(ledger: Ledger) -> str | None:
    """The worker that was last seen sending, when that is not long ago; else None: what is approved isn't being sent."""
    text = ledger.meta(WORKER)
    if text is None:
        return None
    seen, _, who = text.partition(" ")
    return who if ledger.now() - int(seen) <= LIMITS.stale_seconds else None


def answered_late(ledger: Ledger, seconds: int) -> list[Row]:
    """Inbound obligations that wait for an answer longer than ``seconds``; one whose answer was sent counts as answered."""
    return ledger.backend.rows(
        "SELECT * FROM obligation_sla WHERE inbound_status = 'open' AND delivered_ts IS NULL AND inbound_ts <= ? ORDER BY inbound_ts",
        (ledger.now() - seconds,),
    )


def latencies(ledger: Ledger) -> list[Row]:
    """Inbound to draft, to decision, to delivery, in seconds, one row an inbound and answer."""
    return ledger.backend.rows("SELECT * FROM obligation_sla ORDER BY inbound_ts, answer_id")
