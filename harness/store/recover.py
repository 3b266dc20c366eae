"""Finishing what a dead process left: its record in the journal says what it was about, history says how far it came."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.store import deferred, engine, files, index, snapshot
from harness.store.errors import CommitFailed, Deferred, GateRefused, Stale
from harness.store.git import GitError
from harness.store.planner import Plan, plan
from harness.store.tick import Tick, decode
from harness.store.tree import Tree
from harness.workspace import common_dir

if TYPE_CHECKING:
    from harness.store.commit import Landed, Store


def finish(store: Store) -> list[Landed]:
    """Bring a transaction that a dead process left to its end, and return its ticks if they are in history now.

    Needs the workspace's lock. After a power cut, everything of the last boot that git may have lost is made again first.
    """
    if records := store.journal.before_power_cut():
        from harness.store import powercut

        powercut.repair(store, records)
    record = store.journal.unfinished()
    if record is None:
        index.release_stale(store.workspace.git_dir)
        return []
    release_our_ref_locks(store)
    snapshot.sweep(store.workspace)
    ticks = [decode(value) for value in record["ticks"]]
    ids = [tick.id for tick in ticks]
    commits = landed_since(store, record["old"], ids)
    if not commits and landed_since(store, record["old"], ids, "--branches", "--glob=refs/harness/keep"):
        # It is in a branch that somebody has left since; its files are that branch's business.
        index.release_stale(store.workspace.git_dir)
        store.journal.end()
        return []
    return _bring_out(store, ticks, commits) if commits else _again(store, ticks, record["old"])


def _again(store: Store, ticks: Sequence[Tick], old: str | None) -> list[Landed]:
    """Nothing of it is in history: land it now, defer it, or set it aside; it is lost in no case."""
    for last in (False, True):
        try:
            return store.land(ticks)
        except Deferred as reason:
            for tick in ticks:
                deferred.keep(store.runtime, tick, reason.why)
            break
        except (GateRefused, Stale, CommitFailed) as error:
            # Killed alone, a process can leave a git of its own that moves HEAD a moment later.
            if commits := landed_since(store, old, [tick.id for tick in ticks]):
                return _bring_out(store, ticks, commits)
            if isinstance(error.__cause__, GitError) and error.__cause__.code < 0:
                raise  # a killed git says nothing about the tick: the record stays, and the next command tries again
            if not last and isinstance(error, CommitFailed):
                continue  # an error of the disk may be gone at once, and with it the reason to bother a person
            for tick in ticks:
                deferred.refuse(store.runtime, deferred.Kept(tick, "", ""), str(error))
            break
    index.release_stale(store.workspace.git_dir)
    store.journal.end()
    return []


def landed_since(store: Store, old: str | None, ids: Sequence[str], *where: str) -> dict[str, str]:
    """Those of the ticks ``ids`` that are in history (of HEAD, or of ``where``), with their commits; ``old`` was the head
    before they were made."""
    if store.head is None:
        return {}
    since = (f"^{old}",) if old and store.git.object(old) else ()
    text = store.git.text(
        "log", "--format=%H %(trailers:key=Tick,valueonly,separator=%x20)", *(where or ("HEAD",)), *since
    )
    wanted, found = set(ids), {}
    for line in text.splitlines():
        commit, _, tick = line.partition(" ")
        if tick.strip() in wanted:
            found[tick.strip()] = commit
    return found


def _plan_of(store: Store, commit: str, tick: Tick) -> Plan:
    """The plan that a landed tick had, read back from its commit and that commit's parent."""
    new, old = Tree(store.git, commit), Tree(store.git, f"{commit}^")
    out = plan(tick, old.read, old.names)
    out.changes = {path: new.read(path) for path in out.changes}
    return out


def _bring_out(store: Store, ticks: Sequence[Tick], commits: Mapping[str, str]) -> list[Landed]:
    landed = [(tick, _plan_of(store, commits[tick.id], tick), commits[tick.id]) for tick in ticks if tick.id in commits]
    entries: dict[str, tuple[str, str] | None] = {}
    with index.locked(store.workspace.git_dir, store.runtime, ticks[0].id):
        head = store.tree
        store.keep(str(head.commit))
        for _, p, _ in landed:
            for path in p.changes:
                place = store.workspace.root / path
                files.sweep(place.parent, place.name)
                blob = head.blob_id(path)
                entries[path] = (engine.mode_of(path), blob) if blob else None
        return store.bring_out(landed, entries, str(head.commit))


def release_our_ref_locks(store: Store) -> None:
    """Remove locks that our own git left on our own scratch ref, and on HEAD when they are empty or name our commit.

    Called only when a tick of ours is unfinished, and its git has died, or its process, so that its git is about to.
    """
    git_dir = store.workspace.git_dir
    with contextlib.suppress(OSError):
        (git_dir / f"{engine.SCRATCH}.lock").unlink()
    ref = store.symbolic_head()
    common = common_dir(git_dir)
    locks = [
        git_dir / "HEAD.lock",
        *(common / "refs/harness/keep").glob("*.lock"),
        *([common / f"{ref}.lock"] if ref else []),
    ]
    for lock in locks:
        with contextlib.suppress(OSError, GitError):
            text = lock.read_text("ascii", "replace").strip()
            ours = bool(text) and _is_our_commit(store, text)
            if not text:
                time.sleep(1.0)  # a living git holds an empty lock for less than that
                ours = lock.stat().st_size == 0
            if ours:
                lock.unlink()


def _is_our_commit(store: Store, name: str) -> bool:
    """Whether ``name`` is a commit that the unfinished transaction made."""
    found = store.git.object(name) if name.isalnum() else None
    record = store.journal.unfinished() or {}
    return (
        found is not None
        and found[1] == "commit"
        and any(f"\nTick: {t['id']}\n".encode() in found[2] for t in record.get("ticks", ()))
    )
