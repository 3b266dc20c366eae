"""Ticks from which a git command has moved the branch away without anybody's wish.

`git rebase` and `git reset --hard` note where HEAD is when they begin, and an aborted rebase, or a reset to HEAD, puts the
branch back there without a look: a tick that has landed in between is dropped. Seen with git 2.39 beside eight writers. The
branch's own log tells: nobody who goes back to HEAD wants to go anywhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from harness.store import deferred, files
from harness.store.tick import decode
from harness.workspace import common_dir

if TYPE_CHECKING:
    from harness.store.commit import Store

_TAIL: Final = 16 * 1024
_WHY: Final = "git has moved the branch away from it: a rebase or a reset had begun before it landed"
_ENTRY: Final = re.compile(rb"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) .*\t(.*)")
_UNWISHED: Final = (b"rebase (abort): ", b"rebase -i (abort): ")


def bring_back(store: Store) -> None:
    """Let the ticks that were dropped so wait for their landing. One whose record the journal has no more is kept by a ref."""
    from harness.store.recover import landed_since

    for now, before in _moves(store):
        new, old = now.decode(), before.decode()
        if store.git.object(old) is None:
            continue
        dropped = store.git.text(
            "log", "--reverse", "--format=%(trailers:key=Tick,valueonly,separator=)", old, f"^{new}"
        )
        wanted = [name for name in dropped.split("\n") if name]
        there = landed_since(store, new, wanted, "HEAD", "--branches", "--glob=refs/harness/keep") if wanted else {}
        waiting = [name for name in wanted if name not in there]
        known = (
            {value["id"]: value for record in store.journal.records() for value in record["ticks"]} if waiting else {}
        )
        for name in waiting:
            if name in known:
                deferred.keep(store.runtime, decode(known[name]), _WHY)
            else:
                store.git.run("update-ref", f"refs/harness/keep/{old[:16]}", old)


def _moves(store: Store) -> list[tuple[bytes, bytes]]:
    """(to, from) of the unwished moves of the branch since the last tick on it, oldest first."""
    ref, found = store.symbolic_head(), list[tuple[bytes, bytes]]()
    log = files.tail(common_dir(store.workspace.git_dir) / "logs" / ref, _TAIL) if ref else b""
    for line in reversed(log.splitlines()):
        entry = _ENTRY.fullmatch(line)
        if entry is None or entry[3].startswith(b"harness:"):
            break
        if entry[1] != entry[2] and (entry[3].startswith(_UNWISHED) or entry[3] == b"reset: moving to HEAD"):
            found.append((entry[2], entry[1]))
    return found[::-1]
