"""What came in and waits for an answer, and closing what nobody will answer or decide on."""

from __future__ import annotations

from harness.approval import text as texts
from harness.approval.errors import Invalid
from harness.approval.file import DIRECTIONS
from harness.approval.ledger import Ledger, stamp
from harness.approval.limits import LIMITS


def record_inbound(
    ledger: Ledger,
    summary: str,
    counterparty: str,
    origin_platform: str,
    origin_channel: str,
    origin_workspace: str | None = None,
    origin_thread: str | None = None,
    *,
    direction: str = "we_owe_them",
    received_ts: int | None = None,
) -> int:
    """Record what came in and waits for an answer; its id is what ``signal_obligation_id`` names. It is closed by the
    answer that was sent, by nothing else but ``close``."""
    if direction not in DIRECTIONS:
        raise Invalid(f"no direction {str(direction)[:40]!r}", "", f"use one of {', '.join(DIRECTIONS)}")
    words = texts.line("summary", summary, LIMITS.summary_characters)
    name = LIMITS.name_characters
    place = {
        "counterparty": texts.line("counterparty", counterparty, LIMITS.counterparty_characters),
        "platform": texts.line("platform", origin_platform, name),
        "workspace": texts.line("workspace", origin_workspace, name, empty=True),
        "channel": texts.line("channel", origin_channel, name),
        "thread": texts.line("thread", origin_thread, name, empty=True),
    }
    with ledger.transaction():
        now = ledger.now()
        opened = now if received_ts is None else min(int(received_ts), now)
        obligation_id = ledger.backend.insert(
            "INSERT INTO obligations (counterparty, platform, workspace, channel, thread, direction, status, summary, "
            "opened_ts, last_touch_ts, epoch) VALUES (?, ?, ?, ?, ?, ?, 'open', ?, ?, ?, ?)",
            (*place.values(), direction, words, opened, now, now),
        )
        ledger.record(
            "obligations.opened",
            obligation_id,
            now,
            **place,
            direction=direction,
            summary=words,
            opened=stamp(opened),
            epoch=now,
        )
    return obligation_id


def close(ledger: Ledger, obligation_id: int, operator: str, reason: str | None = None) -> None:
    """Close an obligation that will not be answered, or a draft that nobody should decide on any more."""
    who = texts.line("operator", operator, LIMITS.name_characters)
    why = texts.line("reason", reason, LIMITS.reason_characters, empty=True)
    with ledger.on(obligation_id) as row:
        now = ledger.now()
        if row["status"] != "closed":
            ledger.backend.change(
                "UPDATE obligations SET status = 'closed', last_touch_ts = ? WHERE id = ?",
                (max(now, int(row["last_touch_ts"])), obligation_id),
            )
            ledger.record("obligations.closed", obligation_id, now, operator=who, reason=why or None)
