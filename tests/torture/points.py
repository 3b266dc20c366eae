"""One point: stop one operation at one of its calls in one way, then see what the next commands make of it."""

from __future__ import annotations

import contextlib
import errno
import io
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from . import ptrace
from .operations import OPERATIONS, Operation
from .place import QUARANTINE, Seen, look
from .ptrace import GO, HALF, KILL, KILL_ALL, KILL_HOLD, Call

DEEDS: Final = {
    "kill": "the process that makes the call dies, the others go on",
    "group": "every process of the operation dies",
    "torn": "half of a write is done, then every process dies",
    "late": "the first process dies; the others stand still until the next command is done, then go on",
    "ENOSPC": "this call fails for want of room, the next ones work",
    "EIO": "this call fails with an input/output error, the next ones work",
    "EACCES": "this call is not permitted, the next ones are",
    "unread": "a file that is there can't be opened for reading: input/output error",
    "full": "half of a write is done; from here on nothing finds room",
    "readonly": "from here on every change fails: the file system is read-only",
}
ROWS: Final = ("tick", "text", "roll", "bulk", "detached")
_NAMES: Final = {"mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat", "rename", "renameat", "renameat2"}
_GROWING: Final = _NAMES | {"write", "pwrite64", "writev", "pwritev", "fallocate", "sendfile", "copy_file_range"}
_CHANGING: Final = _NAMES | {
    "unlink",
    "unlinkat",
    "rmdir",
    "truncate",
    "chmod",
    "fchmodat",
    "utimensat",
    "open",
    "openat",
}
_WRITES: Final = ("write", "pwrite64")


def fits(deed: str, call: Call) -> bool:
    """Whether ``deed`` can be done at ``call``."""
    if call.reads or deed == "unread":
        return call.reads and deed == "unread" and call.inside
    if deed == "kill":
        return True
    if deed == "group":
        return not call.alone  # else it is the same as `kill`
    if deed == "late":
        return not call.alone and call.process == 0
    if not call.inside:
        return False
    if deed == "torn":
        return call.name in _WRITES and call.size > 1
    if deed in ("ENOSPC", "full"):
        return call.name in _GROWING or call.creates
    if deed == "EIO":
        return call.name in _GROWING | _CHANGING | {"fsync", "fdatasync", "ftruncate"}
    return call.name in _CHANGING


def decider(deed: str, number: int) -> Callable[[Call], str | int]:
    """What is answered at each call so that ``deed`` is done at the call ``number``."""
    killing = {"kill": KILL, "group": KILL_ALL, "late": KILL_HOLD}
    done: list[Call] = []

    def decide(call: Call) -> str | int:
        if call.number < number or (done and deed not in ("torn", "full", "readonly")):
            return GO
        first = not done
        if first:
            # The calls of two runs may differ a little: the first one that fits stands for it.
            if not fits(deed, call):
                return GO
            done.append(call)
        if deed in killing:
            return killing[deed]
        if deed == "torn":
            return HALF if first else KILL_ALL
        if deed == "full":
            if first and call.name in _WRITES and call.size > 1:
                return HALF
            return errno.ENOSPC if fits(deed, call) else GO
        if deed == "readonly":
            return errno.EROFS if fits(deed, call) else GO
        return errno.EIO if deed == "unread" else int(getattr(errno, deed))

    return decide


@dataclass
class Result:
    """What came of a point: the call that was met, the exit code, what the operation said, and what is wrong."""

    operation: str
    deed: str
    number: int
    call: str = ""
    code: int = 0
    said: str = ""
    next_code: int = 0
    problems: list[str] = field(default_factory=list)


class Bench:
    """A folder in which points are tried, one after the other; the operations' templates lie beside it."""

    def __init__(self, folder: Path, templates: Path) -> None:
        self.folder, self.templates = folder, templates
        self.root = folder / "workspace"

    def template(self, operation: Operation) -> None:
        """Make the state from which an operation starts."""
        base, place = self.templates / "base", self.templates / operation.name
        if not base.is_dir():
            from . import common

            base.mkdir(parents=True)
            common.base(base)
            with contextlib.redirect_stdout(io.StringIO()):
                _verify(base)  # what it imports, the processes of each point have already
        if not place.is_dir():
            shutil.copytree(base, place, symlinks=True)
            operation.prepare(place)

    def fresh(self, operation: Operation) -> None:
        """Put a copy of the operation's template in place."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.templates / operation.name, self.root, symlinks=True)

    def calls(self, operation: Operation) -> list[Call]:
        """The calls of an undisturbed run, which must itself leave nothing wrong."""
        self.fresh(operation)
        seen = ptrace.run(lambda: operation.work(self.root), self.root)
        result = Result(operation.name, "none", 0, "", seen.code, seen.output)
        self._aftermath(operation, result, acked=True)
        if seen.code or result.problems:
            raise AssertionError(f"{operation.name} fails undisturbed: {result}")
        return seen.calls

    def point(self, name: str, deed: str, number: int) -> Result:
        """Try one point."""
        operation = OPERATIONS[name]
        self.fresh(operation)
        met: list[Call] = []
        answer = decider(deed, number)

        def decide(call: Call) -> str | int:
            said = answer(call)
            if said != GO and not met:
                met.append(call)
            return said

        run = ptrace.run(lambda: operation.work(self.root), self.root, decide)
        result = Result(name, deed, number, "", run.code, run.output)
        if met:
            result.call = str(met[0])
            if met[0].name.startswith("unlink") and met[0].on.endswith(".lock") and deed in ("EIO", "EACCES"):
                # Git could not take its own lock away; nobody but a person can know that it is nobody's.
                (self.root / met[0].on).unlink(missing_ok=True)
        if run.hung:
            result.problems.append("hung: the operation did not end")
        if run.held:
            late = ptrace.plain(lambda: operation.next(self.root))
            result.problems += [f"unclear: next command: {what}" for what in unclear(late.code, late.output)]
            run.release()
        return self.judged(operation, result)

    def judged(self, operation: Operation, result: Result) -> Result:
        """``result`` of a run that is over, with everything that is wrong now and after the next commands."""
        result.problems += [f"unclear: {what}" for what in unclear(result.code, result.said)]
        self._aftermath(operation, result, acked=result.code == 0)
        said = any(words in result.said for words in ("is in history", "is in the journal", "the tick waits"))
        if operation.name in ROWS and result.code > 0 and not said and Seen(self.root).count(QUARANTINE, "the row"):
            # Any other error says that nothing has changed: whoever believes it makes the tick again.
            result.problems.append(f"promised: it failed, and yet the row is there: {result.said.strip()}")
        return result

    def _aftermath(self, operation: Operation, result: Result, *, acked: bool) -> None:
        """The next command, a look, what a person does then, and another look."""
        done = ptrace.plain(lambda: operation.next(self.root))
        result.next_code = done.code
        if done.code:
            result.problems.append(f"next command: exit code {done.code}: {done.output.strip()}")
        seen = look(self.root, operation.porcelain)
        result.problems += seen.problems
        result.problems += _asked(lambda: list(operation.holds(seen, acked)))
        more = ptrace.plain(lambda: operation.after(self.root))
        if more.code not in (0,):
            result.problems.append(f"afterwards: exit code {more.code}: {more.output.strip()}")
        proof = ptrace.plain(lambda: _verify(self.root))
        if proof.code:
            result.problems.append(f"verify: {proof.output.strip()[-600:]}")
        seen = look(self.root, operation.porcelain)
        result.problems += [f"afterwards: {what}" for what in seen.problems]
        result.problems += [f"afterwards: {what}" for what in _asked(lambda: list(operation.complete(seen)))]


def unclear(code: int, output: str) -> list[str]:
    """What is wrong with the way in which a command ended."""
    if "Traceback" in output:
        return [f"a traceback: {output.strip()[-900:]}"]
    if code < 0:
        return []
    if code not in (0, 1, 2, 3, 4, 5):
        return [f"exit code {code} is not documented: {output.strip()[-300:]}"]
    errors = [line for line in output.splitlines() if line.startswith("harness: ")]
    if code and (len(errors) > 1 or not output.strip()):
        return [f"exit code {code} with {len(errors)} lines of error: {output.strip()[-300:]!r}"]
    return []


def _verify(root: Path) -> int:
    from .common import command

    return command(root, "verify")


def _asked(ask: Callable[[], list[str]]) -> list[str]:
    try:
        return ask()
    except (AssertionError, ValueError, OSError, KeyError, IndexError) as error:
        return [f"unreadable: {type(error).__name__}: {error}"]
