"""How a tick reaches disk, top to bottom: lock, journal, objects, swap, work tree and index, snapshot."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.settings import merged
from harness.store import deferred, engine, files, gate, index, recover, snapshot, worktree
from harness.store.errors import Busy, CommitFailed, Deferred, GateRefused, Stale, Unfinished
from harness.store.faults import point
from harness.store.git import Git, GitError
from harness.store.journal import Journal
from harness.store.planner import Plan, plan
from harness.store.tick import Append, Tick, encode
from harness.store.tree import BadLine, Tree
from harness.workspace import Workspace

FALLBACK_WHO: Final = "harness <harness@localhost>"
_SWAP_TRIES: Final = 5
_NO_ROOM: Final = (
    "No space left",
    "Out of diskspace",
    "couldn't write",
    "quota exceeded",
    "Read-only file system",
    "Permission denied",
    "Input/output error",
)
_SIGN_SECONDS: Final = 20
_MANY_ROWS: Final = 50
_KEEP: Final = "refs/harness/keep/"
_IN_THE_MIDDLE: Final = {
    "rebase-merge": "a rebase", "rebase-apply": "a rebase or `git am`", "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick", "REVERT_HEAD": "a revert", "sequencer": "a row of cherry-picks or reverts",
    "BISECT_LOG": "a bisect",
}  # fmt: skip


@dataclass(frozen=True)
class Landed:
    """A tick that is in history: its id, the commit (None: it changed nothing), and the paths whose copy on disk was
    left as it is because somebody has changed it (pending changes)."""

    tick: str
    commit: str | None
    left: Sequence[str] = field(default_factory=tuple)


class Store:
    """The only door to disk of one workspace. Use it as a context manager; it keeps one git process open for reading.

    A store belongs to one thread. Opening one and reading from it writes nothing.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.git = Git(workspace.root)
        self.runtime = workspace.runtime
        self.settings: dict[str, Any] = snapshot.settings(workspace) or merged(None)
        self.journal = Journal(self.runtime / "journal", durable=self.settings["durability"] == "safe")
        self._held = False

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the git process that reads."""
        self.git.close()

    # --- reading -----------------------------------------------------------------------------------------------

    @property
    def head(self) -> str | None:
        """The id of the last commit, or None before the first. Raises GitError when there is one that can't be read."""
        found = self.git.object("HEAD")
        if found is None and (name := self.git.text("rev-parse", "--verify", "-q", "HEAD", ok=(0, 1, 128))):
            raise GitError(("cat-file",), 0, f"HEAD ({name}) can't be read")
        return found[0] if found else None

    @property
    def tree(self) -> Tree:
        """What the last commit holds."""
        return Tree(self.git, self.head)

    def rows(self, path: str) -> Iterator[dict[str, Any] | BadLine]:
        """The committed rows of a ledger, in order."""
        return self.tree.rows(path)

    # --- writing -----------------------------------------------------------------------------------------------

    def commit(self, tick: Tick) -> Landed:
        """Make ``tick`` one commit.

        Raises GateRefused, Stale, Busy, NotWritable, CommitFailed: then nothing has changed. Deferred: the tick is kept and
        lands with the next one. Unfinished: it is in history, and the next command brings the files after it.
        """
        return self.commit_all([tick])[0]

    def commit_all(self, ticks: Sequence[Tick], *, keep: bool = True) -> list[Landed]:
        """Make each of ``ticks`` one commit, in order, under one lock and one swap: all of them land or none.

        All of them are in memory meanwhile, with the files they write: pass some thousands at most. A tick that has landed
        already (it was deferred, or its process died) isn't made again. Without ``keep`` a Deferred tick is not kept: the
        caller still has what it was made from and makes it again.
        """
        try:
            with self.locked():
                before, waits = self._catch_up()
                rest = [tick for tick in ticks if tick.id not in before]
                landed = before | {one.tick: one for one in self._land_or_defer(rest, waits, keep=keep)}
                return [landed[tick.id] for tick in ticks]
        except OSError as error:
            raise files.explain(error) from error

    def catch_up(self) -> None:
        """Finish what a dead process left, land what was deferred, and take in commits made by hand."""
        try:
            with self.locked():
                self._catch_up()
        except OSError as error:
            raise files.explain(error) from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Inside, no other process writes this workspace. Waits ``lock_wait`` seconds, then Busy. Re-entrant."""
        if self._held:
            yield
            return
        with files.lock(self.runtime / "lock", float(self.settings["lock_wait"])):
            self._held = True
            try:
                point("locked")
                yield
            finally:
                self._held = False

    def _catch_up(self) -> tuple[dict[str, Landed], Deferred | None]:
        """The ticks that landed only now, and why the oldest one that still waits does so."""
        try:
            landed = {one.tick: one for one in recover.finish(self)}
            snapshot.adopt(self)
            for kept in deferred.waiting(self.runtime):
                try:
                    landed |= {one.tick: one for one in self.land([kept.tick])}
                except Deferred as reason:
                    return landed, reason
                except (GateRefused, Stale) as error:
                    deferred.refuse(self.runtime, kept, str(error))
                else:
                    deferred.drop(self.runtime, kept.tick.id)
        except Unfinished as error:
            # Said of an earlier tick. Passed on as it is, the caller would take its own for landed.
            raise CommitFailed("an earlier tick could not be finished", str(error), error.next) from error
        return landed, None

    def _land_or_defer(self, ticks: Sequence[Tick], waits: Deferred | None, *, keep: bool) -> list[Landed]:
        if not ticks:
            return []
        try:
            if waits:
                # What stood in the way may be gone this moment; a tick still never overtakes one that was there first.
                self._planned(ticks, self.head)
                raise Deferred(waits.what, waits.why, waits.next)
            return self.land(ticks)
        except Deferred as reason:
            if keep:
                for tick in ticks:
                    deferred.keep(self.runtime, tick, reason.why)
            raise

    def blocker(self) -> str | None:
        """What a person has going on in this repository that a tick must not disturb, or None."""
        for name, what in _IN_THE_MIDDLE.items():
            if (self.workspace.git_dir / name).exists():
                return f"{what} is under way"
        # In the hooks of a commit git holds no lock, and fails when HEAD has moved meanwhile; this variable gives it away.
        hooked = os.environ.get("GIT_INDEX_FILE")
        if hooked and os.path.realpath(os.path.dirname(os.path.abspath(hooked))) == os.path.realpath(
            self.workspace.git_dir
        ):
            return "a commit is under way, and this is one of its hooks"
        return None

    def land(self, ticks: Sequence[Tick]) -> list[Landed]:
        """The walk of a transaction, from the gate to the snapshot. Needs the lock; callers outside the store use ``commit``."""
        for _ in range(_SWAP_TRIES):
            parent = self.head
            plans = self._planned(ticks, parent)
            if why := self.blocker():
                raise Deferred("the tick waits", why, "it lands by itself afterwards; see `harness status`")
            real = [(tick, p) for tick, p in zip(ticks, plans, strict=True) if p.changes]
            if not real:
                return [Landed(tick.id, None) for tick in ticks]
            with index.locked(self.workspace.git_dir, self.runtime, ticks[0].id):
                point("index-locked")
                record = {
                    "ticks": [encode(tick) for tick in ticks],
                    "old": parent,
                    "who": self.who,
                    "when": int(time.time()),
                }
                self.journal.begin(record)
                point("intent-written")
                try:
                    built = self._build_and_swap(parent, real, record)
                except _Lost:
                    self._take_back()
                    continue
                except (Deferred, CommitFailed, files.NotWritable, OSError):
                    self._take_back()
                    raise
                by_id = {one.tick: one for one in self._after_swap(real, built)}
                return [by_id.get(tick.id, Landed(tick.id, None)) for tick in ticks]
        raise Busy("the workspace is busy", "HEAD moved at every try", "try again in a moment")

    def _take_back(self) -> None:
        """Take the transaction out of the journal; where the disk refuses, the next command lands it, and that is said."""
        try:
            self.journal.undo()
        except OSError as error:
            raise Unfinished(
                "the tick is in the journal already", str(files.explain(error)), "the next command lands it"
            ) from error

    def _planned(self, ticks: Sequence[Tick], parent: str | None) -> list[Plan]:
        """What each tick changes, the ones before it laid over ``parent``; raises GateRefused and Stale."""
        plans, tree = [], Overlaid(Tree(self.git, parent))
        rules = functools.cache(lambda kind: self._rules(tree.base, kind))
        for tick in ticks:
            policy = rules(tick.kind)
            if refusals := gate.check(tick, tree.read, policy, _passed(tick, policy)):
                raise GateRefused(refusals)
            worktree.refuse_escapes(self.workspace.root, tick)
            worktree.refuse_twins(tick, tree.read, tree.names)
            plans.append(plan(tick, tree.read, tree.names))
            tree.add(plans[-1])
        return plans

    def _rules(self, tree: Tree, kind: str) -> gate.Policy:
        if kind == "install":
            return snapshot.packaged_policy()  # it may bring the very schemas that the new policy needs
        return snapshot.rules(self, tree)

    def _build_and_swap(
        self, parent: str | None, real: Sequence[tuple[Tick, Plan]], record: dict[str, Any]
    ) -> list[engine.Built]:
        made = [engine.Commit(p.changes, tick.message(), record["who"], record["when"]) for tick, p in real]
        try:
            built = self.build(parent, made)
        except GitError as error:
            # Only ticks use that ref, one at a time: a lock on it is of a fast-import that was killed.
            (self.workspace.git_dir / f"{engine.SCRATCH}.lock").unlink(missing_ok=True)
            raise _as_ours(error) from error
        point("built")
        try:
            engine.swap(
                self.git,
                built[-1].id,
                parent,
                who=record["who"],
                note=f"harness: {real[-1][0].kind}",
                keep=self._keep_ref(parent, built[-1].id),
            )
        except GitError as error:
            if error.code < 0:
                recover.release_our_ref_locks(self)  # a git that was killed (out of memory, say) leaves them
            now = self.head
            if now == built[-1].id:
                self.keep(now)  # git moves the refs of one transaction one after the other, HEAD first
                return built
            if now != parent or "but expected" in error.stderr:
                # The second alone: seen beside `git gc`, which packs the branch in that moment. The next look is right.
                raise _Lost from error
            if "File exists" in error.stderr:
                raise Deferred("the tick waits", f"git says: {error.why}", "see `harness status`") from error
            raise _as_ours(error) from error
        point("swapped")
        return built

    def build(self, parent: str | None, commits: Sequence[engine.Commit]) -> list[engine.Built]:
        """The objects of ``commits`` on top of ``parent``, signed when the settings say so. Raises Deferred for want of a
        signature, and GitError."""
        if not self.settings["sign"]:
            return engine.build(self.git, parent, commits)
        built: list[engine.Built] = []
        for commit in commits:
            plain = engine.build(self.git, parent, [commit])[0]
            try:
                built.append(engine.sign(self.git, plain, commit, parent, timeout=_SIGN_SECONDS))
            except GitError as error:
                why = f"no signature: {error.why}"
                raise Deferred(
                    "the tick waits", why, "repair the signer or run `harness settings sign false`"
                ) from error
            parent = built[-1].id
        return built

    def _after_swap(self, real: Sequence[tuple[Tick, Plan]], built: Sequence[engine.Built]) -> list[Landed]:
        entries: dict[str, tuple[str, str] | None] = {}
        for one in built:
            entries |= one.entries
        return self.bring_out(
            [(tick, p, one.id) for (tick, p), one in zip(real, built, strict=True)], entries, built[-1].id
        )

    def bring_out(
        self, landed: Sequence[tuple[Tick, Plan, str]], entries: dict[str, tuple[str, str] | None], head: str
    ) -> list[Landed]:
        """Everything after the commit point, for ticks with their plans and commits: work tree, index, snapshot, end of the
        journal's record. May be done again. Raises Unfinished."""
        try:
            out = [
                Landed(tick.id, commit, worktree.write(self.workspace.root, p, sync=self.journal.durable))
                for tick, p, commit in landed
            ]
            point("files-written")
            # In a fresh repository somebody may have staged files while there was no commit: those entries stay too.
            index.update(self.git, self.workspace.git_dir, self.runtime, entries, "0" * len(head))
            point("index-written")
            snapshot.export(self, head, entries)
            point("exported")
            for tick, _, _ in landed:
                deferred.drop(self.runtime, tick.id)
            self.journal.end()
        except (OSError, GitError) as error:
            why = files.explain(error) if isinstance(error, OSError) else error
            raise Unfinished(
                "the tick is in history, but not all files could follow", str(why), "the next command finishes it"
            ) from error
        point("ended")
        return out

    # --- small facts -------------------------------------------------------------------------------------------

    @property
    def who(self) -> str:
        """The author of ticks: the workspace's configured user, else harness itself. Nothing is written to any config."""
        name, mail = (self.git.facts.get(f"user.{key}", "").strip() for key in ("name", "email"))
        clean = "".join(c for c in name if c not in "<>\n")
        return f"{clean} <{mail}>" if clean and mail and not set(mail) & set("<>\n ") else FALLBACK_WHO

    def symbolic_head(self) -> str | None:
        """The branch that HEAD stands for (``refs/heads/…``), or None when it is detached."""
        text = (self.workspace.git_dir / "HEAD").read_text("utf-8", "replace").strip()
        if text.startswith("ref: ") and not text.endswith("/.invalid"):
            return text[5:]
        return self.git.text("symbolic-ref", "-q", "HEAD", ok=(0, 1)) or None

    def keep(self, commit: str) -> None:
        """See to it that a ref of ours keeps ``commit`` when HEAD is detached there, after a swap that was cut off."""
        kept = ("for-each-ref", "--count=1", "--contains", commit, _KEEP)
        if self.symbolic_head() is None and not self.git.text(*kept):
            self.git.run("update-ref", f"{_KEEP}{commit[:16]}", commit)

    def _keep_ref(self, parent: str | None, new: str) -> str | None:
        """On a detached HEAD, the ref that keeps its ticks reachable after the next checkout."""
        if parent is None or self.symbolic_head() is not None:
            return None
        kept = self.git.text("for-each-ref", "--points-at", parent, "--format=%(refname)", _KEEP).splitlines()
        return kept[0] if kept else f"{_KEEP}{new[:16]}"


class _Lost(Exception):
    """HEAD moved between reading and swapping."""


class Overlaid:
    """A tree with the plans of earlier ticks of the same transaction laid over it."""

    def __init__(self, base: Tree) -> None:
        self.base, self.changes = base, dict[str, bytes | None]()

    def add(self, p: Plan) -> None:
        """Lay ``p`` over it."""
        self.changes |= p.changes

    def read(self, path: str) -> bytes | None:
        """The bytes of a file as they are now."""
        return self.changes[path] if path in self.changes else self.base.read(path)

    def names(self, folder: str) -> list[str]:
        """The names in a folder as they are now; one that was deleted on the way may still be among them."""
        new = [
            p.rpartition("/")[2]
            for p, data in self.changes.items()
            if data is not None and p.rpartition("/")[0] == folder
        ]
        return sorted({*self.base.names(folder), *new})


def _passed(tick: Tick, policy: gate.Policy) -> set[str]:
    """The ledgers to which ``tick`` adds so many rows that they are judged together, and all of them pass."""
    if len(tick.writes) < _MANY_ROWS:
        return set()
    from harness.store import rowcheck

    added: dict[str, list[Append]] = {}
    for write in tick.writes:
        if isinstance(write, Append):
            added.setdefault(write.path, []).append(write)
    return {path for path, rows in added.items() if rowcheck.all_pass(path, tick.kind, rows, policy)}


def _as_ours(error: GitError) -> Exception:
    if any(words in error.stderr for words in _NO_ROOM):
        return files.NotWritable(
            "git cannot write the workspace", error.why, "make room or give permission, then run the command again"
        )
    return CommitFailed("git could not make the commit", error.why, "run `harness doctor`")
