"""What the ledger raises: a small family, each with a stable ``code`` that programs may rely on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.errors import BUSY, FAILED, NEEDS_PERSON, REFUSED, USAGE, HarnessError


class ApprovalError(HarnessError):
    """The root of the family. Nothing was changed and no permission was granted."""

    code = "failed"
    exit_code = FAILED


class Invalid(ApprovalError):
    """A value that can't be filed, decided or recorded: empty, over a limit, or of the wrong kind."""

    code = "invalid"
    exit_code = USAGE


class NotFound(ApprovalError):
    """There is no such obligation or decision."""

    code = "not_found"


class NoLedger(ApprovalError):
    """There is no ledger at that place, or what is there is none. Make one with `harness ledger init`."""

    code = "no_ledger"
    exit_code = NEEDS_PERSON


class Locked(ApprovalError):
    """Another writer held the ledger for the whole wait; the same call may be made again."""

    code = "locked"
    exit_code = BUSY


class NestedTransaction(ApprovalError):
    """The caller has a transaction open; permission may not depend on a commit that comes later."""

    code = "nested_transaction"


class UnsafeConnection(ApprovalError):
    """The connection runs without foreign keys or recursive triggers."""

    code = "unsafe_connection"


class Failed(ApprovalError):
    """The database refused the write: full, read-only, damaged or gone."""

    code = "failed"


class Refused(ApprovalError):
    """The ledger, or a policy, doesn't permit it."""

    code = "refused"
    exit_code = REFUSED


class StaleDecision(Refused):
    """The draft was filed anew since it was shown. ``diff`` shows the change; nothing was decided."""

    code = "stale_decision"

    def __init__(self, what: str, why: str = "", next: str = "", *, epoch: int = 0, diff: str = "") -> None:
        super().__init__(what, why, next)
        self.epoch, self.diff = epoch, diff


class AlreadyDecided(Refused):
    """A decision on this epoch exists; ``decision`` is its row."""

    code = "already_decided"

    def __init__(self, what: str, why: str = "", next: str = "", *, decision: Mapping[str, Any] | None = None) -> None:
        super().__init__(what, why, next)
        self.decision = dict(decision or {})


class NotOpen(Refused):
    """The obligation is closed, expired, rejected or sent; there is nothing to decide."""

    code = "not_open"


class NotBound(Refused):
    """There is no current approval of this text: none, voided, cancelled, or without a snapshot."""

    code = "not_bound"


class Tampered(Refused):
    """What is stored doesn't agree with its hash or with what was approved."""

    code = "tampered"


class LostRace(Refused):
    """Another worker claimed it first."""

    code = "lost_race"


class ClaimActive(Refused):
    """A claim under way freezes the obligation, its draft and its decision."""

    code = "claim_active"


class Frozen(Refused):
    """Sending is frozen; `harness ledger unfreeze` ends that."""

    code = "frozen"


class AlreadyDelivered(Refused):
    """It was sent already; sending again takes a new filing."""

    code = "already_delivered"


class WrongState(Refused):
    """The claim isn't in the state that this step needs; ``state`` is the one it is in, where that is known."""

    code = "wrong_state"

    def __init__(self, what: str, why: str = "", next: str = "", *, state: str = "") -> None:
        super().__init__(what, why, next)
        self.state = state


class UnknownToken(Refused):
    """No claim has this token."""

    code = "unknown_token"


class Contradiction(Refused):
    """The claim is completed with another coordinate."""

    code = "contradiction"


class NeedsEvidence(Refused):
    """An unknown outcome becomes delivered only with evidence."""

    code = "needs_evidence"


class Immutable(Refused):
    """The row is written once."""

    code = "immutable"


class BaselineRefused(Refused):
    """The baseline gate refuses this draft; ``evidence`` and ``advice`` say why and what to do instead."""

    code = "baseline_refused"

    def __init__(
        self, what: str, why: str = "", next: str = "", *, evidence: Sequence[str] = (), advice: str = ""
    ) -> None:
        super().__init__(what, why, next)
        self.evidence, self.advice = list(evidence), advice


class ChannelRefused(Refused):
    """The channel policy forbids it."""

    code = "channel_refused"


class NotAllowed(ApprovalError):
    """Only an operator may do this."""

    code = "not_allowed"
    exit_code = NEEDS_PERSON


_BY_CODE: Final[Mapping[str, type[ApprovalError]]] = {
    kind.code: kind
    for kind in (
        NotFound,
        NotBound,
        LostRace,
        ClaimActive,
        Frozen,
        AlreadyDelivered,
        WrongState,
        NeedsEvidence,
        Immutable,
    )
}
_REFUSAL: Final = re.compile(r"ledger:(\w+) ([^\n]*)")


def from_database(text: str) -> ApprovalError | None:
    """The error that a guard of the database means by ``text``, or None when it is no guard's."""
    found = _REFUSAL.search(text)
    if found is None:
        return None
    return _BY_CODE.get(found[1], Refused)("the ledger refuses that", found[2])
