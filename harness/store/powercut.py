"""After a power cut: what git had not synced may be gone or torn, and the journal has all that it was made of.

A boot of the machine that went down in good order looks the same from here, so each step first looks and then does only
what is missing. Making a commit again from the same parent, bytes, names and time gives the same id.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.store import deferred, engine, files, index, snapshot
from harness.store.errors import CommitFailed, Deferred, GateRefused, Stale
from harness.store.git import GitError
from harness.store.planner import plan
from harness.store.tick import Take, Tick, decode
from harness.store.tree import Tree
from harness.workspace import common_dir

if TYPE_CHECKING:
    from harness.store.commit import Store

KEEP: Final = "refs/harness/keep/"
_ID: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# What the last entry of HEAD's log may say when the branch fell back by itself. After a `reset` or a `checkout` a person
# wants it where it is.
_OUR_PLACE: Final = ("harness:", "commit", "merge", "pull", "clone", "")


@dataclass
class _Rebuilt:
    """``tip`` is the last commit that the journal leads to; ``ticks`` are those in it, by id of their commit; ``aside`` those
    that can't be made again, and why; ``parents`` are the heads that the records started from."""

    tip: str | None = None
    ticks: list[tuple[Tick, str]] = field(default_factory=list)
    aside: list[tuple[Tick, str]] = field(default_factory=list)
    parents: set[str | None] = field(default_factory=set)


def repair(store: Store, records: Sequence[Mapping[str, Any]]) -> None:
    """Make every row of ``records`` (all of an earlier boot, in order) part of history again, then empty the journal."""
    index.release_stale(store.workspace.git_dir)
    damaged = _drop_torn_objects(common_dir(store.workspace.git_dir) / "objects")
    old = records[0]["old"]
    if old is not None and not _is_whole(store, old):
        # That was on the disk long ago. Either somebody has rewritten history since, or the repository is lost.
        if not _is_whole(store, "HEAD"):
            raise CommitFailed(
                "git has lost history of this workspace", f"{old} is missing", "restore .git from a clone or a backup"
            )
        store.journal.checkpoint()
        return
    damaged = _drop_torn_refs(store) or damaged
    damaged = damaged or not _all_there(store, records)
    if damaged:
        store.git.close()  # it may remember what is no longer so
        made = _rebuild(store, records)
        _put_head(store, made)
        for tick, why in made.aside:
            deferred.refuse(store.runtime, deferred.Kept(tick, "", ""), why)
        for tick, _ in made.ticks:
            deferred.drop(store.runtime, tick.id)
    _restore_files(store, records, damaged=damaged)
    store.journal.checkpoint()


def _all_there(store: Store, records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether history has each tick of ``records`` and every object since they began."""
    from harness.store.recover import landed_since

    try:
        old = records[0]["old"]
        store.git.run("rev-list", "--objects", "HEAD", *((f"^{old}",) if old else ()))
        found = landed_since(store, old, [t["id"] for record in records for t in record["ticks"]])
        return all(any(t["id"] in found for t in record["ticks"]) for record in records)
    except GitError:
        return False


def _rebuild(store: Store, records: Sequence[Mapping[str, Any]]) -> _Rebuilt:
    out = _Rebuilt()
    for record in records:
        out.parents.add(record["old"])
        # A parent that is gone was a person's commit, or a signed one that has another id now: go on from what there is.
        at = record["old"] if record["old"] is None or _is_whole(store, record["old"]) else out.tip
        if not snapshot.now(store.workspace):
            store.settings = snapshot.settings_in(Tree(store.git, at))
        for tick in (decode(value) for value in record["ticks"]):
            tree = Tree(store.git, at)
            try:
                p = plan(tick, tree.read, tree.names)
                if p.changes:
                    at = store.build(at, [engine.Commit(p.changes, tick.message(), record["who"], record["when"])])[
                        0
                    ].id
                    out.ticks.append((tick, at))
            except (Stale, GateRefused, CommitFailed, Deferred, GitError) as error:
                out.aside.append((tick, f"could not be made again after a power cut: {error}"))
        out.tip = at
    return out


def _is_whole(store: Store, commit: str) -> bool:
    """Whether a commit and all that its newest state holds are there."""
    try:
        store.git.run("rev-list", "--objects", "--no-walk", commit)
    except GitError:
        return False
    return True


def _put_head(store: Store, made: _Rebuilt) -> None:
    """Move the branch to what was made again, unless a person has taken it elsewhere; then a ref of ours keeps that."""
    head, tip = _head(store), made.tip
    if tip is None or head == tip:
        return
    if head is None or ((head in made.parents or _is_in(store, head, tip)) and _fell_back(store)):
        engine.swap(store.git, tip, head, who=store.who, note="harness: recovered after a power cut")
    elif not _is_in(store, tip, head):
        store.git.run("update-ref", f"{KEEP}{tip[:12]}-recovered", tip)


def _head(store: Store) -> str | None:
    """The id of HEAD when its newest state is whole, else None."""
    head = store.git.text("rev-parse", "--verify", "-q", "HEAD^{commit}", ok=(0, 1, 128))
    if head and not _is_whole(store, head):
        _forget_branch(store)
        return None
    return head or None


def _is_in(store: Store, old: str, new: str) -> bool:
    """Whether ``old`` is part of the history of ``new``."""
    try:
        store.git.run("merge-base", "--is-ancestor", old, new)
    except GitError:
        return False
    return True


def _fell_back(store: Store) -> bool:
    """Whether HEAD is where it is because the newest writes were lost, and not because a person moved it there."""
    log = files.read(store.workspace.git_dir / "logs" / "HEAD") or b""
    last = log.rstrip(b"\0\n").rpartition(b"\n")[2].partition(b"\t")[2].decode("utf-8", "replace")
    return last.startswith(_OUR_PLACE[:-1]) or last == ""


def _drop_torn_objects(objects: Path) -> bool:
    """Remove loose objects that don't hold what their name says: git would take them for present and never write them."""
    found = False
    for folder in objects.glob("[0-9a-f][0-9a-f]"):
        for path in folder.iterdir():
            if not re.fullmatch(r"[0-9a-f]{38}|[0-9a-f]{62}", path.name):
                continue
            algorithm = "sha1" if len(path.name) == 38 else "sha256"
            try:
                name = hashlib.new(algorithm, zlib.decompress(path.read_bytes()), usedforsecurity=False).hexdigest()
            except (zlib.error, OSError):
                name = ""
            if name != folder.name + path.name:
                path.unlink()
                found = True
    return found


def _drop_torn_refs(store: Store) -> bool:
    """Remove ref files that were created but never filled, so that they can be written anew."""
    found = False
    for path in filter(None, (_branch_file(store), store.workspace.git_dir / engine.SCRATCH)):
        text = (files.read(path) or b"").decode("ascii", "replace").strip()
        if path.is_file() and (not _ID.fullmatch(text) or store.git.object(text) is None):
            path.unlink()
            found = True
    return found


def _branch_file(store: Store) -> Path | None:
    ref = store.symbolic_head()
    return common_dir(store.workspace.git_dir) / ref if ref else None


def _forget_branch(store: Store) -> None:
    """Take away a branch whose commit is gone: git refuses to move it from a value that it can't read."""
    path = _branch_file(store)
    if path:
        path.unlink(missing_ok=True)
        store.git.run("update-ref", "-d", str(store.symbolic_head()), ok=(0, 1, 128))


def _restore_files(store: Store, records: Sequence[Mapping[str, Any]], *, damaged: bool) -> None:
    """Bring the files that these ticks wrote to what is committed, where the disk has less than that: a beginning of it,
    with or without zeros behind, the text before, or (after damage) nothing. Other bytes are somebody's and stay."""
    head = store.head
    if head is None:
        return
    root, tree = store.workspace.root, Tree(store.git, head)
    entries: dict[str, tuple[str, str] | None] = {}
    for record in records:
        for tick in (decode(value) for value in record["ticks"]):
            for path in _paths(store, tick):
                blob = tree.blob_id(path)
                entries[path] = (engine.mode_of(path), blob) if blob else None
    for path in entries:
        new, disk = tree.read(path), files.read(root / path)
        if new is None or disk == new or (disk is None and not damaged):
            continue
        rest = (disk or b"").rstrip(b"\0")
        if new.startswith(rest) or any(rest == text for text in _before(store, path, records)):
            files.replace(root / path, new, mode=0o755 if engine.mode_of(path) == "100755" else 0o644)
    _restore_index(store, head, entries, damaged=damaged)
    snapshot.export(store, head, list(entries))


def _paths(store: Store, tick: Tick) -> list[str]:
    """The files of ``tick``, with the sealed parts of its ledgers; not those that only agents write on disk."""
    out = []
    for write in tick.writes:
        if not isinstance(write, Take):
            out.append(write.path)
            out += [f"{write.path}.d/{name}" for name in store.tree.names(write.path + ".d")]
    return out


def _before(store: Store, path: str, records: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """What ``path`` held before each of these transactions."""
    with contextlib.suppress(GitError):
        return [data for record in records if (data := Tree(store.git, record["old"]).read(path)) is not None]
    return []


def _restore_index(store: Store, head: str, entries: dict[str, tuple[str, str] | None], *, damaged: bool) -> None:
    if _index_is_torn(store):
        (store.workspace.git_dir / "index").unlink(missing_ok=True)
        store.git.run("read-tree", head)
    elif damaged:
        with index.locked(store.workspace.git_dir, store.runtime, "recovery"):
            index.update(store.git, store.workspace.git_dir, store.runtime, entries, "0" * len(head))


def _index_is_torn(store: Store) -> bool:
    data = files.read(store.workspace.git_dir / "index") or b""
    algorithm, width = ("sha256", 32) if len(store.head or "") == 64 else ("sha1", 20)
    sums = {
        hashlib.new(algorithm, data[:-width], usedforsecurity=False).digest(),
        bytes(width),
    }  # zeros: index.skipHash
    if not data.startswith(b"DIRC") or data[-width:] not in sums:
        return True
    try:
        store.git.run("ls-files", "-s", "-z")
    except GitError:
        return True
    return False
