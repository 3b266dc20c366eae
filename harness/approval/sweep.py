"""The sweep: drafts whose deadline passed. A deadline approves only where the channel's policy says so."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from harness.approval import decide
from harness.approval.backend import Row
from harness.approval.errors import ApprovalError
from harness.approval.file import Channels
from harness.approval.ledger import Ledger, stamp


@dataclass
class Swept:
    """What a sweep did, by obligation; ``kept`` says why a deadline that passed approved nothing."""

    approved: list[int] = field(default_factory=list)
    expired: list[int] = field(default_factory=list)
    kept: dict[int, str] = field(default_factory=dict)


def sweep(ledger: Ledger, channels: Channels | None, now: int | None = None) -> Swept:
    """Approve drafts whose ``auto_send_after`` passed, as operator ``auto-ttl``; expire those whose time to decide is over.

    Each is looked at again inside its own write transaction: an operator's decision, a look or a new filing that came
    first makes it a no-op. An expired draft is neither approved nor rejected, and can be filed again.
    """
    at = ledger.now() if now is None else now
    out = Swept()
    rows = ledger.backend.rows(
        "SELECT o.id, o.epoch FROM obligations o JOIN obligation_drafts t ON t.obligation_id = o.id AND t.epoch = o.epoch "
        "WHERE o.status = 'drafted' AND (t.auto_send_after <= ? OR t.expires_after <= ?) ORDER BY o.id",
        (at, at),
    )
    for one in rows:
        try:
            _one(ledger, channels, int(one["id"]), int(one["epoch"]), at, out)
        except ApprovalError as error:
            out.kept[int(one["id"])] = str(error)
    return out


def _one(ledger: Ledger, channels: Channels | None, obligation_id: int, epoch: int, at: int, out: Swept) -> None:
    with ledger.on(obligation_id) as row:
        draft = ledger.draft(obligation_id, epoch)
        if row["status"] != "drafted" or row["epoch"] != epoch or draft is None:
            return
        if draft["expires_after"] is not None and draft["expires_after"] <= at:
            _expire(ledger, row, draft)
            out.expired.append(obligation_id)
        elif draft["auto_send_after"] is not None and draft["auto_send_after"] <= at:
            if why := _gated(channels, row, draft):
                out.kept[obligation_id] = why
                return
            decide.write(
                ledger, row, draft, "approve", decide.AUTO, decide.AUTO, f"no decision by {stamp(int(draft['auto_send_after']))}",
                secrets.token_hex(16), None,
            )  # fmt: skip
            out.approved.append(obligation_id)


def _gated(channels: Channels | None, row: Row, draft: Row) -> str | None:
    if channels is None or not channels.auto_allowed(row["platform"], row["workspace"], row["channel"]):
        return "the channel's policy leaves this to a person"
    if draft["looked_ts"] is not None:
        return "an operator is looking at it"
    if draft["baseline"] in ("override", "unavailable"):
        return f"the baseline gate said {draft['baseline']}, so a person decides"
    return None


def _expire(ledger: Ledger, row: Row, draft: Row) -> None:
    now = max(ledger.now(), int(row["last_touch_ts"]))
    ledger.backend.change(
        "UPDATE obligations SET status = 'expired', last_touch_ts = ? WHERE id = ?", (now, int(row["id"]))
    )
    ledger.record(
        "obligations.expired", int(row["id"]), now, epoch=int(row["epoch"]), draft_sha256=draft["draft_sha256"]
    )
