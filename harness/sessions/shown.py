"""Text of tools as it may be shown: nothing drives the reader's terminal, nothing hides, no secret stays."""

from __future__ import annotations

import re
from typing import Final

from harness import redact
from harness.sessions.graph import Text

_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor moves
    r"|\x1b[\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)"  # titles, links, device strings
    r"|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]"
)
_BACKSPACE: Final = re.compile(r"[^\x08\n]\x08")
_ODD: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ufeff\ud800-\udfff]"
)
_RUN: Final = re.compile(r"[A-Za-z0-9+/]{200,}={0,2}")


def clean(text: str, *, printed: bool = False) -> str:
    """``text`` with colours gone and control and direction characters written out.

    What a program ``printed`` is left as its terminal left it: a progress bar in its last state, with a count of the others.
    """
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = re.sub(r"\r+\n", "\n", text)
        text = "\n".join(map(_last_state, text.split("\n"))) if printed else text.replace("\r", "\n")
    for _ in range(4) if printed else ():
        if "\x08" not in text:
            break
        text = _BACKSPACE.sub("", text)
    return _ODD.sub(_written_out, text)


def _last_state(line: str) -> str:
    states = [s for s in line.split("\r") if s.strip()]
    if len(states) < 3:
        return "\n".join(states)
    return f"{states[-1]} [after {len(states) - 1} earlier states]"


def _written_out(match: re.Match[str]) -> str:
    char = match[0]
    if "\ud800" <= char <= "\udfff":
        return "\ufffd"
    return f"\\x{ord(char):02x}" if char < "\u0100" else f"\\u{ord(char):04x}"


def safe(text: str, *, printed: bool = False) -> str:
    """``text`` cleaned, with secrets replaced and runs of base 64 shortened."""
    return redact.scrub(_RUN.sub(lambda m: f"[{len(m[0]):,} characters of base 64]", clean(text, printed=printed)))


def clip(text: Text, cap: int, *, printed: bool = False) -> str:
    """``text``, safe, in at most ``cap`` characters; what is left out of its middle is counted."""
    head = safe(text.head, printed=printed)
    if not text.left_out and len(head) <= cap:
        return head
    tail = safe(text.tail, printed=printed) if text.tail else head
    mark = f" [… {max(1, text.size - cap):,} of {text.size:,} characters left out …] "
    room = max(0, cap - len(mark))
    if not room:
        return mark.strip()[:cap]
    first = room - room // 3
    return head[:first] + mark + (tail[-(room - first) :] if room > first else "")
