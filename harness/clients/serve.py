"""From the bytes on stdin to the answer on stdout: what all events of all clients share."""

from __future__ import annotations

import json
import os
import select
import time

from harness.clients.runtime import Runtime

TYPE_CHECKING = False  # importing typing would cost each hook half the start of a bare interpreter
if TYPE_CHECKING:
    from typing import Any

DEADLINE_SECONDS = 2.0


class HalfAPayload(Exception):
    """The client kept the pipe open and what came is not a whole JSON object."""


def read_stdin(deadline: float = DEADLINE_SECONDS) -> tuple[bytes, bool]:
    """Read stdin to its end, but no longer than ``deadline`` seconds; returns the bytes and whether the end came."""
    pieces: list[bytes] = []
    until = time.monotonic() + deadline
    while True:
        left = until - time.monotonic()
        # Windows can't select on a pipe; there the client's own time limit is the deadline.
        if left <= 0 or (os.name != "nt" and not select.select([0], [], [], left)[0]):
            return b"".join(pieces), False
        piece = os.read(0, 1 << 20)
        if not piece:
            return b"".join(pieces), True
        pieces.append(piece)


def valid(value: Any) -> Any:
    """The same value with every lone surrogate replaced: JSON may hold one (a cut emoji), UTF-8 may not."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [valid(item) for item in value]
    if isinstance(value, dict):
        return {valid(key): valid(item) for key, item in value.items()}
    return value


def decode(data: bytes) -> dict[str, Any]:
    """The JSON object in ``data``: a BOM is skipped, bytes that are no UTF-8 and lone surrogates are replaced.

    Raises ValueError when it is no JSON object.
    """
    text = data.decode("utf-8", "replace").lstrip("\ufeff")
    payload = json.loads(text, strict=False)
    if not isinstance(payload, dict):
        raise ValueError(f"the payload is a {type(payload).__name__} and no object")
    checked: dict[str, Any] = valid(payload) if "\\u" in text else payload
    return checked


def answer(message: dict[str, Any]) -> None:
    """Print one JSON object, in ASCII, so that no locale can spoil it."""
    rest = json.dumps(message).encode("ascii") + b"\n"
    while rest:
        rest = rest[os.write(1, rest) :]


def serve(root: str, runtime: str, started: float) -> None:
    """Read one event, let its function decide, print the answer and log the time since ``started`` (perf_counter)."""
    place = Runtime(root, runtime, os.environ)
    try:
        data, ended = read_stdin()
        try:
            payload = decode(data)
        except ValueError as error:
            if ended:
                raise
            raise HalfAPayload(f"{len(data)} bytes came and no end within {DEADLINE_SECONDS:g} s") from error
        from harness.clients import claude_code

        event = payload.get("hook_event_name")
        if isinstance(event, str) and event.isidentifier():
            place.event = event[:40]
        function, reason = claude_code.function_for(payload, os.environ)
        if function is None:
            place.log("Ignored", reason)
        else:
            message = function(payload, place)
            if message:
                answer(message)
    except BaseException as error:  # the client must never see a failure of ours
        place.failed(error)
    place.took((time.perf_counter() - started) * 1000)
