"""The stop button: while it is pressed, no claim is granted and none begins."""

from __future__ import annotations

from harness.approval import text as texts
from harness.approval.ledger import Ledger
from harness.approval.limits import LIMITS


def freeze(ledger: Ledger, operator: str, reason: str) -> bool:
    """Stop all sending; False when it was stopped already. What began before may still arrive."""
    who = texts.line("operator", operator, LIMITS.name_characters)
    why = texts.line("reason", reason, LIMITS.reason_characters)
    with ledger.transaction():
        now = ledger.now()
        changed = ledger.backend.change(
            "INSERT INTO freezes (frozen_ts, frozen_by, reason) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (now, who, why),
        )
        if changed:
            ledger.record("freezes.frozen", None, now, operator=who, reason=why)
    return bool(changed)


def unfreeze(ledger: Ledger, operator: str, reason: str | None = None) -> bool:
    """Let sending go on; False when nothing was stopped."""
    who = texts.line("operator", operator, LIMITS.name_characters)
    why = texts.line("reason", reason, LIMITS.reason_characters, empty=True) or None
    with ledger.transaction():
        now = ledger.now()
        changed = ledger.backend.change(
            "UPDATE freezes SET lifted_ts = ?, lifted_by = ? WHERE lifted_ts IS NULL", (now, who)
        )
        if changed:
            ledger.record("freezes.lifted", None, now, operator=who, reason=why)
    return bool(changed)
