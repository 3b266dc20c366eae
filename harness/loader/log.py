"""Reading the log that agents append to. Pure: bytes on disk and bytes committed in, new lines out.

What is committed is the read position: log and rows land in one commit, so no line is ever read twice or skipped. The
file on disk is never rewritten, since a line that is appended meanwhile would be lost.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Fresh:
    """What a look at the log found.

    ``lines`` are new, as (line number on disk, bytes without the line feed); ``committed`` is what to commit now;
    ``rewritten`` says that the file on disk no longer begins with what was committed.
    """

    lines: list[tuple[int, bytes]]
    committed: bytes
    rewritten: bool = False


def fresh(committed: bytes, disk: bytes) -> Fresh:
    """The lines of ``disk`` that are not in ``committed`` yet; a last one without its line feed is still being written.

    A file that was truncated, edited or put back to an older state is read by its lines: those that are not committed
    are new, and are added to the commit, which itself stays append-only.
    """
    whole = disk[: disk.rfind(b"\n") + 1]
    if whole.startswith(committed):
        start = committed.count(b"\n") + 1
        return Fresh(list(enumerate(whole[len(committed) :].split(b"\n")[:-1], start)), whole)
    known = Counter(committed.split(b"\n")[:-1])
    lines = []
    for number, line in enumerate(whole.split(b"\n")[:-1], 1):
        if known[line] > 0:
            known[line] -= 1
        else:
            lines.append((number, line))
    added = b"".join(line + b"\n" for _, line in lines)
    return Fresh(lines, committed + added, rewritten=True)
