"""The root of every error the project raises on purpose, and the exit codes it documents."""

from __future__ import annotations

DONE = 0
FAILED = 1
USAGE = 2
NEEDS_PERSON = 3
REFUSED = 4
BUSY = 5


class HarnessError(Exception):
    """An error with a reader: what went wrong, why, and the next step, in one line.

    ``exit_code`` is what the command line returns for it (see the constants above).
    """

    exit_code = FAILED

    def __init__(self, what: str, why: str = "", next: str = "") -> None:
        self.what, self.why, self.next = what, why, next
        text = what.rstrip(".")
        if why:
            text += f": {why.rstrip('.')}"
        if next:
            text += f". {next[:1].upper()}{next[1:]}"
        super().__init__(" ".join(text.split()))
