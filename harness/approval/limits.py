"""Every limit of the approval ledger, in one place; `harness ledger limits` prints them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final


@dataclass(frozen=True)
class Limits:
    """Characters, counts and seconds. Over a limit means refused with both figures, never cut."""

    draft_characters: int = 16_000
    context_characters: int = 8_000
    summary_characters: int = 500
    counterparty_characters: int = 200
    subject_characters: int = 500
    name_characters: int = 200
    """Platform, workspace, channel, thread, user, skill, operator, file name."""
    reason_characters: int = 2_000
    coordinate_characters: int = 1_000
    evidence_characters: int = 4_000
    body_characters: int = 64_000
    bodies: int = 8
    attachments: int = 10
    auto_send_days: int = 90
    """How far ahead ``auto_send_after`` and ``expires_after`` may lie."""
    lock_seconds: float = 5.0
    """How long a write waits for the database before it is Locked."""
    transport_seconds: float = 60.0
    baseline_seconds: float = 5.0
    baseline_facts: int = 3
    notify_seconds: float = 10.0
    transport_output_bytes: int = 64 * 1024
    stale_seconds: int = 600
    """From this age on a claim that is under way is named as stale."""
    lease_seconds: int = 60
    """How long the one that exports to git keeps that duty without renewing it."""
    export_batch: int = 500


LIMITS: Final = Limits()


def as_dict() -> dict[str, int | float]:
    """The limits by name."""
    return {one.name: getattr(LIMITS, one.name) for one in fields(LIMITS)}
