"""Text of tools as it may be shown: nothing drives the reader's terminal, nothing hides, no secret stays."""

from __future__ import annotations

import re
from typing import Final

from harness import redact
from harness.sessions.graph import Text

_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor moves
    r"|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?"  # titles, links, device strings
    r"|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]"
)
_BACKSPACE: Final = re.compile(r"[^\x08\n]\x08")
_ODD: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ufeff\ud800-\udfff]"
)
_RUN: Final = re.compile(r"[A-Za-z0-9+/]{200,}={0,2}")


def clean(text: str) -> str:
    """``text`` as a terminal would leave it, line by line: colours gone, a progress bar in its last state, other control and
    direction characters written out."""
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
        text = "\n".join(lines)
    for _ in range(4):
        if "\x08" not in text:
            break
        text = _BACKSPACE.sub("", text)
    return _ODD.sub(
        lambda m: (
            "\ufffd"
            if "\ud800" <= m[0] <= "\udfff"
            else f"\\x{ord(m[0]):02x}"
            if m[0] < "\u0100"
            else f"\\u{ord(m[0]):04x}"
        ),
        text,
    )


def safe(text: str) -> str:
    """``text`` cleaned, with secrets replaced and runs of base 64 shortened."""
    return redact.scrub(_RUN.sub(lambda m: f"[{len(m[0]):,} characters of base 64]", clean(text)))


def clip(text: Text, cap: int) -> str:
    """``text``, safe, in at most ``cap`` characters; what is left out of its middle is counted."""
    head = safe(text.head)
    if not text.left_out and len(head) <= cap:
        return head
    tail = safe(text.tail) if text.tail else head
    mark = f" [… {max(1, text.size - cap):,} of {text.size:,} characters left out …] "
    room = max(0, cap - len(mark))
    if not room:
        return mark.strip()[:cap]
    first = room - room // 3
    return head[:first] + mark + (tail[-(room - first) :] if room > first else "")
