"""How a tick reaches disk, top to bottom: lock, journal, objects, swap, work tree and index, snapshot."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.settings import merged
from harness.store import deferred, engine, files, gate, index, policy, snapshot, worktree
from harness.store.errors import Busy, CommitFailed, Deferred, GateRefused, Stale
from harness.store.faults import point
from harness.store.git import Git, GitError
from harness.store.journal import Journal
from harness.store.planner import Plan, plan
from harness.store.tick import Tick, decode, encode
from harness.store.tree import BadLine, Tree
from harness.workspace import Workspace

FALLBACK_WHO: Final = "harness <harness@localhost>"
_SWAP_TRIES: Final = 5
_KEEP: Final = "refs/harness/keep/"
_IN_THE_MIDDLE: Final = {
    "rebase-merge": "a rebase", "rebase-apply": "a rebase or `git am`", "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick", "REVERT_HEAD": "a revert", "BISECT_LOG": "a bisect",
}  # fmt: skip


@dataclass(frozen=True)
class Landed:
    """A tick that is in history: its id, the commit (None: it changed nothing), and the paths whose copy on disk was
    left as it is because somebody has changed it (pending changes)."""

    tick: str
    commit: str | None
    left: Sequence[str] = field(default_factory=tuple)


class Store:
    """The only door to disk of one workspace. Use it as a context manager; it keeps one git process open for reading."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.git = Git(workspace.root)
        self.runtime = workspace.runtime
        try:
            self.runtime.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise files.explain(error) from error
        self.settings: dict[str, Any] = snapshot.settings(workspace) or merged(None)
        self.journal = Journal(self.runtime / "journal", durable=self.settings["durability"] == "safe")
        self._who: str | None = None
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
        """The id of the last commit, or None before the first."""
        found = self.git.object("HEAD")
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
        """Make ``tick`` one commit. Raises GateRefused, Stale, Busy, Deferred, NotWritable; then nothing has changed
        (a Deferred tick is kept and lands with the next one)."""
        return self.commit_all([tick])[0]

    def commit_all(self, ticks: Sequence[Tick], *, keep: bool = True) -> list[Landed]:
        """Make each of ``ticks`` one commit, in order, under one lock and one swap: all of them land or none.

        Without ``keep`` a Deferred tick is not kept: the caller still has what it was made from and makes it again.
        """
        try:
            with self.locked():
                self._catch_up()
                return self._land_or_defer(ticks) if keep else self._land(ticks)
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

    def _catch_up(self) -> None:
        self._recover()
        snapshot.adopt(self)
        for kept in deferred.waiting(self.runtime):
            try:
                self._land([kept.tick])
            except Deferred:
                return
            except (GateRefused, Stale) as error:
                deferred.refuse(self.runtime, kept, str(error))
                continue
            deferred.drop(self.runtime, kept)

    def _land_or_defer(self, ticks: Sequence[Tick]) -> list[Landed]:
        try:
            return self._land(ticks)
        except Deferred as reason:
            for tick in ticks:
                deferred.keep(self.runtime, tick, str(reason.why))
            raise

    def blocker(self) -> str | None:
        """What a person has going on in this repository that a tick must not disturb, or None."""
        for name, what in _IN_THE_MIDDLE.items():
            if (self.workspace.git_dir / name).exists():
                return f"{what} is under way"
        return None

    def _land(self, ticks: Sequence[Tick]) -> list[Landed]:
        for _ in range(_SWAP_TRIES):
            parent = self.head
            plans, tree = [], _Overlaid(Tree(self.git, parent))
            for tick in ticks:
                rules = self._rules(tree.base, tick)
                if refusals := gate.check(tick, tree.read, rules):
                    raise GateRefused(refusals)
                worktree.refuse_escapes(self.workspace.root, tick)
                plans.append(plan(tick, tree.read, tree.names))
                tree.add(plans[-1])
            if why := self.blocker():
                raise Deferred("the tick waits", why, "it lands by itself afterwards; see `harness status`")
            real = [(tick, p) for tick, p in zip(ticks, plans, strict=True) if p.changes]
            if not real:
                return [Landed(tick.id, None) for tick in ticks]
            with index.locked(self.workspace.git_dir, self.runtime, ticks[0].id):
                point("index-locked")
                record = {"ticks": [encode(tick) for tick in ticks], "old": parent, "who": self.who, "when": int(time.time())}
                self.journal.begin(record)
                point("intent-written")
                try:
                    commits = self._build_and_swap(parent, real, record)
                except _Lost:
                    self.journal.end()
                    continue
                except Deferred:
                    self.journal.end()
                    raise
                landed = self._after_swap(real, commits)
                by_id = {one.tick: one for one in landed}
                return [by_id.get(tick.id, Landed(tick.id, None)) for tick in ticks]
        raise Busy("the workspace is busy", "HEAD moved at every try", "try again in a moment")

    def _rules(self, tree: Tree, tick: Tick) -> gate.Policy:
        if tick.kind == "install" and tree.blob_id(policy.PATH) is None:
            return snapshot.packaged_policy()
        return policy.load(tree, self.runtime / "cache")

    def _build_and_swap(self, parent: str | None, real: Sequence[tuple[Tick, Plan]], record: dict[str, Any]) -> list[engine.Built]:
        made = [engine.Commit(p.changes, tick.message(), record["who"], record["when"]) for tick, p in real]
        try:
            if self.settings["sign"]:
                built, at = [], parent
                for one in made:
                    signed = engine.sign(self.git, engine.build(self.git, at, [one])[0], one, at, timeout=20)
                    built.append(signed)
                    at = signed.id
            else:
                built = engine.build(self.git, parent, made)
        except GitError as error:
            if self.settings["sign"]:
                raise Deferred("the tick waits", f"no signature: {error.why}", "repair the signer or `harness settings sign false`") from error
            raise _as_ours(error) from error
        point("built")
        try:
            engine.swap(self.git, built[-1].id, parent, who=record["who"], note=f"harness: {real[-1][0].kind}", keep=self._keep_ref(parent))
        except GitError as error:
            if self.head != parent:
                raise _Lost from error
            if ".lock'" in error.stderr or "unable to lock" in error.stderr.lower() or "cannot lock ref" in error.stderr.lower():
                raise Deferred("the tick waits", f"git says: {error.why}", "see `harness status`") from error
            raise _as_ours(error) from error
        point("swapped")
        return built

    def _after_swap(self, real: Sequence[tuple[Tick, Plan]], built: Sequence[engine.Built]) -> list[Landed]:
        entries: dict[str, tuple[str, str] | None] = {}
        landed = []
        for (tick, p), one in zip(real, built, strict=True):
            left = worktree.write(self.workspace.root, p)
            landed.append(Landed(tick.id, one.id, left))
            entries |= one.entries
        point("files-written")
        self._write_index(entries, built[-1].id)
        snapshot.export(self, built[-1].id, entries)
        point("exported")
        self.journal.end()
        point("ended")
        return landed

    def _write_index(self, entries: dict[str, tuple[str, str] | None], head: str) -> None:
        # In a fresh repository somebody may have staged files while there was no commit: those entries stay too.
        index.update(self.git, self.workspace.git_dir, self.runtime, entries, "0" * len(head))
        point("index-written")

    # --- recovery ----------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        index.release_stale(self.workspace.git_dir)
        lost = self.journal.before_power_cut()
        if lost:
            from harness.store import recover

            recover.after_power_cut(self, lost)
        record = self.journal.unfinished()
        if record is None:
            return
        self._release_our_ref_locks()
        ticks = [decode(value) for value in record["ticks"]]
        commits = self._already_landed([tick.id for tick in ticks])
        if commits:
            real = []
            for tick in ticks:
                if tick.id in commits:
                    real.append((tick, self._plan_of(commits[tick.id], tick)))
            self._finish(real, commits)
            return
        try:
            self.journal.end()
            self._land(ticks)
        except Deferred as reason:
            for tick in ticks:
                deferred.keep(self.runtime, tick, reason.why)
        except (GateRefused, Stale) as error:
            for tick in ticks:
                deferred.refuse(self.runtime, deferred.Kept(tick, "", ""), str(error))

    def _already_landed(self, ids: Sequence[str]) -> dict[str, str]:
        """Commits by tick id, among the newest ones, for the ticks that made it into history."""
        if self.head is None:
            return {}
        text = self.git.text("log", f"-{len(ids) + 50}", "--format=%H %(trailers:key=Tick,valueonly,separator=%x20)")
        found = {}
        for line in text.splitlines():
            commit, _, tick = line.partition(" ")
            if tick.strip() in ids:
                found[tick.strip()] = commit
        return found

    def _plan_of(self, commit: str, tick: Tick) -> Plan:
        """The plan that a landed tick had, read back from its commit and that commit's parent."""
        new, old = Tree(self.git, commit), Tree(self.git, f"{commit}^")
        out = plan(tick, old.read, old.names)
        out.changes = {path: new.read(path) for path in out.changes}
        return out

    def _finish(self, real: Sequence[tuple[Tick, Plan]], commits: dict[str, str]) -> None:
        entries: dict[str, tuple[str, str] | None] = {}
        with index.locked(self.workspace.git_dir, self.runtime, real[0][0].id):
            head = self.tree
            for _, p in real:
                worktree.write(self.workspace.root, p)
                for path in p.changes:
                    blob = head.blob_id(path)
                    entries[path] = (engine.mode_of(path), blob) if blob else None
            self._write_index(entries, str(head.commit))
            snapshot.export(self, str(head.commit), entries)
            self.journal.end()

    def _release_our_ref_locks(self) -> None:
        """Remove locks that our own git left on our own scratch ref, and on HEAD when they are empty or name our commit.

        Called only when a tick of ours is unfinished and its process dead, so its git is dead too or about to be.
        """
        git_dir = self.workspace.git_dir
        scratch = self.git.object(engine.SCRATCH)
        with contextlib.suppress(OSError):
            (git_dir / f"{engine.SCRATCH}.lock").unlink()
        ref = self.symbolic_head()
        common = _common_dir(git_dir)
        for lock in [git_dir / "HEAD.lock", *([common / f"{ref}.lock"] if ref else [])]:
            with contextlib.suppress(OSError):
                text = lock.read_text("ascii", "replace").strip()
                ours = scratch is not None and text == scratch[0]
                if not ours and not text:
                    time.sleep(1.0)  # a living git holds an empty lock for less than that
                    ours = lock.stat().st_size == 0
                if ours:
                    lock.unlink()

    # --- small facts -------------------------------------------------------------------------------------------

    @property
    def who(self) -> str:
        """The author of ticks: the workspace's configured user, else harness itself. Nothing is written to any config."""
        if self._who is None:
            text = self.git.text("config", "-z", "--get-regexp", r"^user\.(name|email)$", ok=(0, 1))
            found = dict(part.partition("\n")[::2] for part in text.split("\0") if part)
            name, mail = (found.get(f"user.{key}", "").strip() for key in ("name", "email"))
            clean = "".join(c for c in name if c not in "<>\n")
            self._who = f"{clean} <{mail}>" if clean and mail and not set(mail) & set("<>\n ") else FALLBACK_WHO
        return self._who

    def symbolic_head(self) -> str | None:
        """The branch that HEAD stands for (``refs/heads/…``), or None when it is detached."""
        text = (self.workspace.git_dir / "HEAD").read_text("utf-8", "replace").strip()
        if text.startswith("ref: ") and not text.endswith("/.invalid"):
            return text[5:]
        return self.git.text("symbolic-ref", "-q", "HEAD", ok=(0, 1)) or None

    def _keep_ref(self, parent: str | None) -> str | None:
        """On a detached HEAD, the ref that keeps its ticks reachable after the next checkout."""
        if parent is None or self.symbolic_head() is not None:
            return None
        kept = self.git.text("for-each-ref", "--points-at", parent, "--format=%(refname)", _KEEP).splitlines()
        return kept[0] if kept else f"{_KEEP}{parent[:12]}-{int(time.time())}"


class _Lost(Exception):
    """HEAD moved between reading and swapping."""


class _Overlaid:
    """A tree with the plans of earlier ticks of the same transaction laid over it."""

    def __init__(self, base: Tree) -> None:
        self.base, self.changes = base, dict[str, bytes | None]()

    def add(self, p: Plan) -> None:
        self.changes |= p.changes

    def read(self, path: str) -> bytes | None:
        return self.changes[path] if path in self.changes else self.base.read(path)

    def names(self, folder: str) -> list[str]:
        new = [p.rpartition("/")[2] for p, data in self.changes.items() if data is not None and p.rpartition("/")[0] == folder]
        return sorted({*self.base.names(folder), *new})


def _as_ours(error: GitError) -> Exception:
    if "No space left" in error.stderr or "Read-only file system" in error.stderr or "Permission denied" in error.stderr:
        return files.NotWritable("git cannot write the workspace", error.why, "make room or give permission, then run the command again")
    return CommitFailed("git could not make the commit", error.why, "run `harness doctor`; the tick is kept and tried again by the next command")


def _common_dir(git_dir: Path) -> Path:
    shared = git_dir / "commondir"
    return Path(os.path.normpath(git_dir / shared.read_text("utf-8").strip())) if shared.is_file() else git_dir
