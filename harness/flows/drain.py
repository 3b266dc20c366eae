"""Drain: spool -> observe -> queue -> regenerate -> maintenance. One at a time in a workspace; a second leaves a mark."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from typing import Final

from harness.flows import answers, kept
from harness.flows.backlog import due, enqueue_from_evals
from harness.flows.notices import announce
from harness.flows.observe import Observed, observe
from harness.flows.regenerate import Approve, Drained, Regeneration, Say
from harness.store import files
from harness.store.commit import Store
from harness.store.errors import Busy
from harness.store.faults import point

MARKER_DAYS: Final = 30
_ROUNDS: Final = 20


def drain(store: Store, env: Mapping[str, str], say: Say, *, approve: Approve | None = None) -> Drained:
    """Empty the queue within the budget. When another drain is at work it is asked to go round once more, and this one
    returns at once with ``elsewhere``. ``approve`` is asked for each new loader when ``loader.review`` is on."""
    out = Drained()
    for _ in range(_ROUNDS):
        try:
            with files.lock(store.runtime / "drain.lock", 0):
                point("drain-started")
                (store.runtime / "drain.again").unlink(missing_ok=True)
                _round(store, env, say, approve, out)
        except Busy:
            (store.runtime / "drain.again").touch()
            out.elsewhere = True
            return out
        # A mark that was left after the lock was free is nobody's to see but ours: look once more before going.
        if not (store.runtime / "drain.again").exists():
            return out
    return out


def _round(store: Store, env: Mapping[str, str], say: Say, approve: Approve | None, out: Drained) -> None:
    seen = observe(store, env)
    note(out, seen, say)
    if seen.deferred:
        return
    for sentence in answers.prove(store):
        out.observed.append(sentence)
        say(sentence)
    answers.settle_reactions(store)
    kept.settle(store, env)
    enqueue_from_evals(store)
    budget = store.settings["drain"]["budget"]
    until, left = time.monotonic() + budget["seconds"], budget["regens"]
    # Asked anew after each: a skill with more gaps than one brief holds comes up again, and hooks may have added some.
    while entry := next((e for e in due(store) if e.skill not in out.waiting), None):
        if left <= 0 or time.monotonic() > until:
            out.waiting[entry.skill] = "over this drain's budget; the next one takes it"
        elif store.settings["loader"]["review"] and approve is None:
            out.waiting[entry.skill] = "waits for a person: harness drain --review"
        else:
            left -= 1
            Regeneration(store, env, entry, say, approve, out).run()
    maintain(store, say)
    announce(store)


def note(out: Drained, seen: Observed, say: Say) -> None:
    """Keep and tell what an observe took in."""
    if seen.line():
        out.observed.append(seen.line())
        say(f"observed {seen.line()}")
    out.deferred = seen.deferred


def maintain(store: Store, say: Say) -> None:
    """Every 1,000 ticks or so, pack what is new; forget the markers of sessions that ended long ago. Never from a hook;
    killed in the middle it leaves nothing that matters."""
    from harness.store import maintenance

    if maintenance.due(store):
        say("packing the repository")
        maintenance.run(store)
    old = time.time() - MARKER_DAYS * 86_400
    for folder in ("sessions", "told"):
        for path in (store.runtime / folder).glob("*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < old:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextlib.contextmanager
def quiet_priority() -> Iterator[None]:
    """Inside, this process gives way to others: a drain in the background must not slow the session it serves."""
    with contextlib.suppress(OSError):
        os.nice(5)
    yield
