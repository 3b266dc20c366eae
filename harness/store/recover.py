"""After a power cut: git's unsynced objects and refs may be gone or torn; the journal has all that they were made of."""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.store import engine, index, snapshot, worktree
from harness.store.git import GitError
from harness.store.planner import plan
from harness.store.tick import decode
from harness.store.tree import Tree

if TYPE_CHECKING:
    from harness.store.commit import Store


def after_power_cut(store: Store, records: Sequence[dict[str, Any]]) -> None:
    """Write again every commit that ``records`` (all of an earlier boot) made, and set the branch to the last one.

    The same parents, bytes, names and times give the same ids, so what did reach the disk is found to be there already.
    A branch that somebody has moved since to a whole commit that holds the last one, or that never held it, is left.
    """
    objects = Path(store.git.text("rev-parse", "--path-format=absolute", "--git-path", "objects"))
    _drop_torn_objects(objects)
    _drop_torn_refs(store)
    at: str | None = records[0]["old"]
    for record in records:
        ticks = [decode(value) for value in record["ticks"]]
        at = record["old"]
        for tick in ticks:
            tree = Tree(store.git, at)
            p = plan(tick, tree.read, tree.names)
            if not p.changes:
                continue
            made = engine.Commit(p.changes, tick.message(), record["who"], record["when"])
            at = engine.build(store.git, at, [made])[0].id
    head = _head(store)
    if at is None or (head is not None and head != at and head not in {r["old"] for r in records}):
        store.journal.checkpoint()
        return
    if head != at:
        engine.swap(store.git, at, head, who=records[-1]["who"], note="harness: recovered after a power cut")
    _restore_files(store, records, at)
    store.journal.checkpoint()


def _head(store: Store) -> str | None:
    """The id of HEAD when it leads to a whole history of at least its newest commits, else None."""
    try:
        head = store.git.text("rev-parse", "--verify", "-q", "HEAD^{tree}", ok=(0, 1, 128))
        return store.git.text("rev-parse", "HEAD") if head else None
    except GitError:
        return None


def _drop_torn_objects(objects: Path) -> None:
    """Remove loose objects that don't hold what their name says: git would take them for present and never write them."""
    for folder in objects.glob("[0-9a-f][0-9a-f]"):
        for path in folder.iterdir():
            if not re.fullmatch(r"[0-9a-f]{38}|[0-9a-f]{62}", path.name):
                continue
            algorithm = "sha1" if len(path.name) == 38 else "sha256"
            try:
                whole = hashlib.new(algorithm, zlib.decompress(path.read_bytes()), usedforsecurity=False).hexdigest() == folder.name + path.name
            except (zlib.error, OSError):
                whole = False
            if not whole:
                path.chmod(0o644)
                path.unlink()


def _drop_torn_refs(store: Store) -> None:
    """Remove ref files that were created but never filled, so that the swap can write them anew."""
    git_dir = store.workspace.git_dir
    ref = store.symbolic_head()
    for name in (ref, engine.SCRATCH):
        path = git_dir / name if name else None
        if path and path.is_file():
            text = path.read_text("ascii", "replace").strip()
            if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", text) or store.git.object(text) is None:
                os.unlink(path)


def _restore_files(store: Store, records: Sequence[dict[str, Any]], head: str) -> None:
    """Bring the files that these ticks wrote to what is committed, where they are empty, gone or a torn beginning."""
    now = Tree(store.git, head)
    entries: dict[str, tuple[str, str] | None] = {}
    root = store.workspace.root
    for record in records:
        for tick in map(decode, record["ticks"]):
            before = Tree(store.git, record["old"])
            p = plan(tick, before.read, before.names)
            for path in p.changes:
                if path in p.taken:
                    continue
                data, blob = now.read(path), now.blob_id(path)
                entries[path] = (engine.mode_of(path), blob) if blob else None
                disk = root / path
                p.changes[path] = data
                if data is not None and disk.exists() and data.startswith(disk.read_bytes()):
                    p.old[path] = disk.read_bytes()
                elif data is not None and not disk.exists():
                    p.old[path] = None
            p.changes = {k: v for k, v in p.changes.items() if k in entries}
            p.moves = {}
            worktree.write(root, p)
    if not (store.workspace.git_dir / "index").exists() or _index_is_torn(store):
        store.git.run("read-tree", head)
    else:
        with index.locked(store.workspace.git_dir, store.runtime, "recovery"):
            index.update(store.git, store.workspace.git_dir, store.runtime, entries, "0" * len(head))
    snapshot.export(store, head, entries)


def _index_is_torn(store: Store) -> bool:
    try:
        store.git.run("ls-files", "--error-unmatch", "--", "schemas/policy.yaml", ok=(0, 1))
    except GitError:
        (store.workspace.git_dir / "index").unlink(missing_ok=True)
        return True
    return False
