"""The worker: find, claim, begin, send, and say what is known. Nothing that began is ever tried again."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from harness.approval import claim as claims
from harness.approval import outside
from harness.approval import text as texts
from harness.approval.channels import Policy
from harness.approval.errors import (
    AlreadyDelivered,
    ApprovalError,
    ChannelRefused,
    ClaimActive,
    Frozen,
    Locked,
    LostRace,
    NotBound,
    Tampered,
    UnknownToken,
    WrongState,
)  # fmt: skip
from harness.approval.ledger import Ledger
from harness.approval.limits import LIMITS
from harness.approval.status import WORKER
from harness.approval.sweep import sweep

_BEAT_SECONDS: Final = 30
_TRIES: Final = 5
_AT_ONCE: Final = 8


class Transport(Protocol):
    """Sends one payload."""

    @property
    def name(self) -> str:
        """What the record calls it."""

    def send(self, payload: Mapping[str, Any]) -> str:
        """Where it arrived. Raises anything when that isn't known; it is never asked a second time."""


@dataclass(frozen=True)
class Command:
    """A program: the payload as JSON on its standard input, the coordinate as the one line it prints."""

    args: Sequence[str]
    seconds: float = LIMITS.transport_seconds
    name: str = "command"

    def send(self, payload: Mapping[str, Any]) -> str:
        data = json.dumps(payload, ensure_ascii=False).encode()
        return coordinate(outside.command(self.args, data, self.seconds, LIMITS.transport_output_bytes))


@dataclass(frozen=True)
class Webhook:
    """An HTTP address: the payload as a JSON POST, the coordinate as ``{"coordinate": …}`` or as the one line of the answer.
    ``Idempotency-Key`` is the same for the same decision, should the other side look at it."""

    url: str
    seconds: float = LIMITS.transport_seconds
    name: str = "webhook"

    def send(self, payload: Mapping[str, Any]) -> str:
        data = json.dumps(payload, ensure_ascii=False).encode()
        key = {
            "Idempotency-Key": f"decision-{payload['decision_id']}-{payload['digest'][:16] or payload['draft_sha256'][:16]}"
        }
        text, _ = outside.post(self.url, data, key, self.seconds, LIMITS.transport_output_bytes)
        try:
            value = json.loads(text)
        except ValueError:
            return coordinate(text)
        found = value.get("coordinate") if isinstance(value, dict) else value
        if isinstance(found, bool) or not isinstance(found, str | int):
            raise outside.NoAnswer("the answer names no coordinate", text[:100])
        return coordinate(str(found))


def coordinate(text: str) -> str:
    """The one line that says where a message arrived. Raises NoAnswer for none, for two, and for one over the limit."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) != 1 or texts.blank(lines[0]) or "\ufffd" in lines[0]:
        raise outside.NoAnswer("the answer is no coordinate", f"{len(lines)} lines, one is wanted")
    if len(lines[0]) > LIMITS.coordinate_characters:
        raise outside.NoAnswer("the answer is no coordinate", f"{len(lines[0]):,} characters")
    return lines[0]


@dataclass
class Delivered:
    """What a worker did: coordinates by obligation; why an outcome is unknown; why something wasn't taken."""

    sent: dict[int, str] = field(default_factory=dict)
    unknown: dict[int, str] = field(default_factory=dict)
    skipped: dict[int, str] = field(default_factory=dict)
    lost: int = 0


def adopt(ledger: Ledger) -> list[int]:
    """Mark as unknown what a worker of this machine had begun when it died. Only who is surely gone is spoken for."""
    host, pid = ledger.worker
    out = []
    rows = ledger.backend.rows(
        "SELECT token, obligation_id, worker_pid FROM obligation_delivery_claims WHERE state = 'dispatching' AND worker_host = ?",
        (host,),
    )
    for row in rows:
        if row["worker_pid"] != pid and not _alive(int(row["worker_pid"])):
            try:
                claims.mark_unknown(ledger, row["token"], f"the worker {host}:{row['worker_pid']} is gone")
            except (WrongState, Locked):
                continue
            out.append(int(row["obligation_id"]))
    return out


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def deliver(
    ledger: Ledger,
    transport: Transport,
    channels: Policy | None = None,
    *,
    once: bool = True,
    stop: Callable[[], bool] = lambda: False,
    pause: float = 1.0,
    after_round: Callable[[], None] = lambda: None,
) -> Delivered:
    """Send what is approved until nothing is left (``once``) or until ``stop``. ``after_round`` runs when a round is over:
    the caller's place to export. A busy ledger is waited for; nobody's permission is lost by that."""
    out = Delivered()
    beat = 0.0
    adopt(ledger)
    while not stop():
        if time.monotonic() - beat > _BEAT_SECONDS:
            beat = time.monotonic()
            _announce(ledger)
        sweep(ledger, channels)
        ready = [one for one in claims.waiting(ledger) if one["obligation_id"] not in out.skipped]
        # Several workers look at the same list: each takes a few at random, most urgent first, and looks again.
        few = sorted(random.sample(ready, min(_AT_ONCE, len(ready))), key=lambda one: one["priority"])
        for one in few:
            if stop():
                break
            try:
                _one(ledger, transport, channels, one, out, stop)
            except Frozen as error:
                out.skipped |= {} if not once else {int(one["obligation_id"]): str(error)}
                break
        after_round()
        if once and not ready:
            break
        if once and ledger.frozen():
            break
        if not ready:
            ledger.backend.wait(pause)
            out.skipped.clear()
    return out


def _announce(ledger: Ledger) -> None:
    host, pid = ledger.worker
    try:
        with ledger.transaction():
            ledger.set_meta(WORKER, f"{ledger.now()} {host}:{pid}")
    except Locked:
        return


def _one(
    ledger: Ledger,
    transport: Transport,
    channels: Policy | None,
    one: Mapping[str, Any],
    out: Delivered,
    stop: Callable[[], bool],
) -> None:
    obligation_id, decision_id = int(one["obligation_id"]), int(one["decision_id"])
    try:
        if channels is not None:
            channels.may_file(one["platform"], one["workspace"], one["channel"])
        token = claims.claim(ledger, obligation_id, decision_id)
    except LostRace:
        out.lost += 1
        return
    except (NotBound, AlreadyDelivered, ClaimActive, Tampered, ChannelRefused) as error:
        out.skipped[obligation_id] = str(error)
        return
    except Locked:
        return  # the next round sees it again
    payload = _begin(ledger, token, obligation_id, out, stop)
    if payload is None:
        return
    try:
        arrived = transport.send(payload)
        # From here on the answer is all that is known of it.
        _record(ledger, token, arrived, transport.name)
        out.sent[obligation_id] = arrived
    except BaseException as error:  # whatever it is, the attempt was made
        out.unknown[obligation_id] = f"{type(error).__name__}: {error}"[:300]
        _unknown(ledger, token, out.unknown[obligation_id])
        if not isinstance(error, Exception):
            raise


def _begin(
    ledger: Ledger, token: str, obligation_id: int, out: Delivered, stop: Callable[[], bool]
) -> dict[str, Any] | None:
    """The payload, or None. What can't begin is cancelled, so that a person decides again; nothing was sent."""
    why = "stopped"
    while not stop():
        try:
            return claims.begin_dispatch(ledger, token)
        except Locked:
            continue
        except (ApprovalError, OSError) as error:
            why = str(error)
            break
    out.skipped[obligation_id] = why
    for _ in range(_TRIES):
        try:
            claims.cancel(ledger, token)
            break
        except Locked:
            continue
        except (WrongState, UnknownToken):
            break
    return None


def _record(ledger: Ledger, token: str, arrived: str, name: str) -> None:
    for left in reversed(range(_TRIES)):
        try:
            claims.complete(ledger, token, arrived)
            return
        except Locked:
            if not left:
                raise
        except WrongState as error:
            if error.state != "unknown":
                raise
            # Somebody took the attempt for lost meanwhile; the transport's own answer is evidence that it was not.
            claims.reconcile(ledger, token, arrived, f"the answer of the transport {name}")
            return


def _unknown(ledger: Ledger, token: str, why: str) -> None:
    for _ in range(_TRIES):
        try:
            claims.mark_unknown(ledger, token, why)
            return
        except Locked:
            continue
        except ApprovalError:
            return  # it stays as dispatching: held all the same
