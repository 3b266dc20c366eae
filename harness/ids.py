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
