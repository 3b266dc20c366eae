"""ULIDs: ids that sort by time, in the standard library alone (hooks run without site-packages)."""

from __future__ import annotations

import os
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_last = 0


def ulid() -> str:
    """Return a new ULID: 26 characters of Crockford base 32, 48 bits of milliseconds and 80 of chance.

    Two ids of one process never sort against the order in which they were made, not even when the clock
    goes back: the next id is then the last one plus one.
    """
    global _last
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    if value <= _last:
        value = _last + 1
    _last = value
    return "".join(_ALPHABET[value >> shift & 31] for shift in range(125, -1, -5))


def stable_ulid(milliseconds: int, key: str) -> str:
    """The ULID of the event ``key`` at ``milliseconds``: the same each time, so that an event that is taken twice after a
    crash makes the same row, which the gate then knows."""
    import hashlib

    chance = int.from_bytes(hashlib.sha256(key.encode("utf-8", "replace")).digest()[:10], "big")
    value = (milliseconds & (1 << 48) - 1) << 80 | chance
    return "".join(_ALPHABET[value >> shift & 31] for shift in range(125, -1, -5))
