"""Deciding: one transaction that compares what was shown with what is current, and then writes decision and snapshot."""

from __future__ import annotations

import difflib
import secrets
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from harness.approval import text as texts
from harness.approval.backend import Row
from harness.approval.errors import AlreadyDecided, Contradiction, Invalid, NotOpen, StaleDecision, Tampered
from harness.approval.file import DEFAULT_SKILL
from harness.approval.ledger import APPROVALS, Ledger, stamp
from harness.approval.limits import LIMITS
from harness.ids import ulid

AUTO: Final = "auto-ttl"
CHANNELS: Final = ("cockpit", "terminal", "token", AUTO, "import")
_TASTE: Final[Mapping[str, str]] = {"approve": "approve", "reject": "dismiss"}


def decide(
    ledger: Ledger,
    obligation_id: int,
    decision: str,
    operator: str,
    epoch: int,
    sha256: str,
    reason: str | None = None,
    *,
    channel: str = "terminal",
    digest: str | None = None,
    nonce: str | None = None,
    shown_ts: str | None = None,
) -> dict[str, Any]:
    """Record ``approve`` or ``reject`` of exactly the text whose ``epoch`` and ``sha256`` the operator was shown.

    Who may call this is for the caller to see to (``attended``, ``operators``, the cockpit's login). ``digest`` covers the
    bodies, subject, attachments and destination that were shown. ``shown_ts`` is when this epoch was first seen (RFC 3339).
    The same ``nonce`` again gives the stored decision. Returns the decision's row with ``replayed``.
    Raises StaleDecision (with the diff), AlreadyDecided, NotOpen, NotFound, Tampered, Invalid.
    """
    if decision not in ("approve", "reject"):
        raise Invalid(f"no decision {str(decision)[:40]!r}", "", "use approve or reject")
    if channel not in CHANNELS:
        raise Invalid(f"no decision channel {str(channel)[:40]!r}")
    who = texts.line("operator", operator, LIMITS.name_characters)
    why = texts.line("reason", reason, LIMITS.reason_characters, empty=True) or None
    once = secrets.token_hex(16) if nonce is None else texts.line("nonce", nonce, LIMITS.name_characters)
    with ledger.on(obligation_id) as row:
        if nonce is not None and (stored := _replayed(ledger, row, decision, once)):
            return stored
        draft = _decidable(ledger, row, epoch)
        if draft["draft_sha256"] != sha256 or (digest is not None and digest != draft["digest"]):
            raise _stale(ledger, row, epoch, sha256)
        return write(ledger, row, draft, decision, who, channel, why, once, shown_ts)


def write(
    ledger: Ledger, row: Row, draft: Row, decision: str, operator: str, channel: str, reason: str | None, nonce: str,
    shown_ts: str | None,
) -> dict[str, Any]:  # fmt: skip
    """Decision, snapshot and status of a drafted obligation that the caller's transaction holds. Raises Tampered."""
    texts.verify({**row, **draft})
    obligation_id, epoch, now = int(row["id"]), int(row["epoch"]), ledger.now()
    decided = max(now, int(row["last_touch_ts"]), int(draft["created_ts"]))
    status = "approved" if decision == "approve" else "rejected"
    ledger.backend.change(
        "UPDATE obligations SET status = ?, last_touch_ts = ? WHERE id = ?", (status, decided, obligation_id)
    )
    decision_id = ledger.backend.insert(
        "INSERT INTO obligation_decisions (obligation_id, epoch, decision, operator, channel, shown_sha256, reason, "
        "decided_ts, nonce) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (obligation_id, epoch, decision, operator, channel, draft["draft_sha256"], reason, decided, nonce),
    )
    if decision == "approve":
        copied = ledger.backend.change(
            "INSERT INTO obligation_approval_snapshots (decision_id, obligation_id, epoch, draft_text, draft_sha256, subject, "
            "bodies, attachments, digest, counterparty, platform, workspace, channel, thread, kind) "
            "SELECT decision_id, obligation_id, epoch, draft_text, draft_sha256, subject, bodies, attachments, digest, "
            "counterparty, platform, workspace, channel, thread, 'draft_sent' FROM approval_current_drafts WHERE decision_id = ?",
            (decision_id,),
        )
        if copied != 1:
            raise NotOpen(f"obligation {obligation_id} can't be approved", "it is nothing that we send")
    ledger.record(
        "decisions.decided", obligation_id, decided, decision_id=decision_id, epoch=epoch, decision=decision,
        operator=operator, channel=channel, shown_sha256=draft["draft_sha256"], digest=draft["digest"], reason=reason,
        nonce=nonce, clock=stamp(now) if now < decided else None,
    )  # fmt: skip
    if channel not in (AUTO, "import"):
        ledger.post(
            APPROVALS, obligation_id, _taste(row, draft, decision, decision_id, operator, reason, decided, shown_ts)
        )
    found = ledger.one("SELECT * FROM obligation_decisions WHERE id = ?", decision_id)
    assert found is not None
    return found | {"replayed": False}


def _decidable(ledger: Ledger, row: Row, epoch: int) -> Row:
    """The current draft when it may be decided on at this epoch; raises what stands against it."""
    obligation_id, status = int(row["id"]), row["status"]
    if isinstance(epoch, bool) or not isinstance(epoch, int):
        raise Invalid("the epoch is a whole number", f"got {type(epoch).__name__}")
    if status in ("closed", "open", "expired"):
        what = {"closed": "it was closed", "open": "it has no draft", "expired": "its time to decide has passed"}[
            status
        ]
        raise NotOpen(f"obligation {obligation_id} can't be decided on", what, "file it again if it is still wanted")
    if epoch != row["epoch"]:
        raise _stale(ledger, row, epoch, "")
    if status != "drafted":
        made = ledger.one(
            "SELECT * FROM obligation_decisions WHERE obligation_id = ? AND epoch = ? ORDER BY id DESC LIMIT 1",
            obligation_id,
            epoch,
        )
        by = (
            f"{made['decision']} by {made['operator']} ({made['channel']}), {stamp(int(made['decided_ts']))}"
            if made
            else status
        )
        raise AlreadyDecided(f"obligation {obligation_id} was decided already", by, decision=made)
    draft = ledger.draft(obligation_id, epoch)
    if draft is None:
        raise Tampered(f"the draft of obligation {obligation_id} is gone", f"epoch {epoch}", "file it again")
    if draft["expires_after"] is not None and ledger.now() >= draft["expires_after"]:
        raise NotOpen(
            f"obligation {obligation_id} can't be decided on", "its time to decide has passed", "file it again"
        )
    return draft


def _replayed(ledger: Ledger, row: Row, decision: str, nonce: str) -> dict[str, Any] | None:
    found = ledger.one("SELECT * FROM obligation_decisions WHERE nonce = ?", nonce)
    if found is None:
        return None
    if found["obligation_id"] != row["id"] or found["decision"] != decision:
        raise Contradiction("this nonce belongs to another decision", f"decision {found['id']}", "mint a new one")
    if found["epoch"] != row["epoch"]:
        raise _stale(ledger, row, int(found["epoch"]), found["shown_sha256"])
    return found | {"replayed": True}


def _stale(ledger: Ledger, row: Row, epoch: int, sha256: str) -> StaleDecision:
    now = ledger.draft(int(row["id"]), int(row["epoch"]))
    shown = ledger.draft(int(row["id"]), epoch)
    if shown is None and sha256:
        shown = ledger.one(
            "SELECT * FROM obligation_drafts WHERE obligation_id = ? AND draft_sha256 = ?", int(row["id"]), sha256
        )
    diff = difflib.unified_diff(
        (shown or {}).get("draft_text", "").splitlines(), (now or {}).get("draft_text", "").splitlines(),
        f"epoch {epoch}", f"epoch {row['epoch']}", lineterm="",
    )  # fmt: skip
    return StaleDecision(
        f"the draft of obligation {row['id']} changed since it was shown", f"epoch {epoch} was shown, {row['epoch']} is current",
        "read the new text and decide again", epoch=int(row["epoch"]), diff="\n".join(diff),
    )  # fmt: skip


def _taste(
    row: Row,
    draft: Row,
    decision: str,
    decision_id: int,
    operator: str,
    reason: str | None,
    decided: int,
    shown: str | None,
) -> dict[str, Any]:
    """The row of approvals.ndjson that a person's decision becomes."""
    title = draft["subject"] or next((one.strip() for one in draft["draft_text"].splitlines() if one.strip()), "")
    out: dict[str, Any] = {
        "id": ulid(), "ts": stamp(decided), "path": f"ledger/{row['id']}/{row['epoch']}", "decision": _TASTE[decision],
        "source_skill": "".join(c for c in draft["source_skill"] if c not in "/\\") or DEFAULT_SKILL, "title": title[:200],
        "reason": reason, "draft_sha256": draft["draft_sha256"], "operator": operator, "obligation_id": str(row["id"]),
        "decision_id": str(decision_id),
    }  # fmt: skip
    if shown is not None:
        try:
            seen = datetime.fromisoformat(shown)
        except (ValueError, TypeError):
            raise Invalid(
                "shown_ts is a time", f"got {str(shown)[:40]!r}", "for example 2026-07-01T10:00:00Z"
            ) from None
        if seen.tzinfo is None:
            raise Invalid("shown_ts needs its zone", shown, "for example 2026-07-01T10:00:00Z")
        out |= {"shown_ts": shown, "latency_ms": max(0, int(time.time() * 1000 - seen.timestamp() * 1000))}
    return out


def look(ledger: Ledger, obligation_id: int, epoch: int) -> None:
    """An operator looks at this epoch: from now on its deadline alone doesn't approve it."""
    _mark_look(ledger, obligation_id, epoch, seen=True)


def resume(ledger: Ledger, obligation_id: int, epoch: int) -> None:
    """Let the deadline of this epoch count again after a look."""
    _mark_look(ledger, obligation_id, epoch, seen=False)


def _mark_look(ledger: Ledger, obligation_id: int, epoch: int, *, seen: bool) -> None:
    with ledger.on(obligation_id) as row:
        if row["status"] != "drafted" or row["epoch"] != epoch:
            return
        now = ledger.now()
        if (row_draft := ledger.draft(obligation_id, epoch)) and (row_draft["looked_ts"] is None) == seen:
            ledger.backend.change(
                "UPDATE obligation_drafts SET looked_ts = ? WHERE obligation_id = ? AND epoch = ?",
                (now if seen else None, obligation_id, epoch),
            )
            ledger.record("drafts.looked" if seen else "drafts.resumed", obligation_id, now, epoch=epoch)


def outcome(ledger: Ledger, obligation_id: int, epoch: int) -> str:
    """What became of this epoch: pending, approved, denied, stale, expired, closed, sent. Never one for another."""
    row = ledger.obligation(obligation_id)
    if row["epoch"] != epoch:
        return "stale"
    names = {"drafted": "pending", "rejected": "denied", "open": "pending"}
    return names.get(row["status"], str(row["status"]))


def wait(ledger: Ledger, obligation_id: int, epoch: int, seconds: float) -> str:
    """The outcome of this epoch as soon as it is no longer pending, or ``pending`` after ``seconds``. The state is read
    first: a decision that came before the wait is seen at once."""
    until = time.monotonic() + seconds
    while (found := outcome(ledger, obligation_id, epoch)) == "pending" and (left := until - time.monotonic()) > 0:
        ledger.backend.wait(min(left, 1.0))
    return found
