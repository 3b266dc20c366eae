"""What the store raises; each message is for the person who reads it: what, why, next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.errors import BUSY, FAILED, REFUSED, HarnessError


@dataclass(frozen=True)
class Refusal:
    """One reason why the gate refuses a write.

    ``path`` is the file, ``pointer`` where in it (a JSON Pointer or a line), ``rule`` the policy's name for what was
    broken, ``found`` the offending value and ``todo`` what to do instead.
    """

    path: str
    rule: str
    found: str
    todo: str
    pointer: str = ""

    def line(self) -> str:
        """The refusal as one line, for people and for the client's next request."""
        where = f"{self.path}{self.pointer and ' at ' + self.pointer}"
        return f"{where}: {self.rule}: {self.found}. {self.todo}"

    def as_dict(self) -> dict[str, str]:
        """The refusal as the JSON object of ``--json``."""
        return {"path": self.path, "pointer": self.pointer, "rule": self.rule, "found": self.found, "todo": self.todo}


@dataclass
class GateRefused(HarnessError):
    """The gate refused the tick; nothing was written."""

    refusals: Sequence[Refusal] = field(default_factory=tuple)
    exit_code = REFUSED

    def __post_init__(self) -> None:
        super().__init__("refused by the gate", "; ".join(r.line().rstrip(".") for r in self.refusals))


class Stale(HarnessError):
    """A replaced file is no longer what the change was made from; make the change again from the current text."""

    exit_code = REFUSED


class Busy(HarnessError):
    """Another writer held the workspace's lock for the whole bounded wait."""

    exit_code = BUSY


class Deferred(HarnessError):
    """The tick is kept on disk and lands with the next one; `harness status` says what stands in its way."""

    exit_code = BUSY


class Unfinished(HarnessError):
    """The tick is in history, and the files, the index or the snapshot lag behind; or it is in the journal and could not be
    taken out again. The next command finishes it; it must not be made again."""

    exit_code = FAILED


class CommitFailed(HarnessError):
    """Git could not make the commit; nothing has changed."""

    exit_code = FAILED
