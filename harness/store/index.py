"""The user's index: locked while a tick lands, and changed in the entries of the tick's paths alone.

Without its own entries a tick would be taken back by the user's next commit, which writes the tree that the index holds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from harness.store.errors import Deferred, Unfinished
from harness.store.git import Git

_OURS: Final = b"harness tick "


@contextlib.contextmanager
def locked(git_dir: Path, runtime: Path, tick_id: str) -> Iterator[None]:
    """Inside, no git command can write the index: ``index.lock`` is ours. Deferred when somebody else holds it.

    The lock file says in its text that it is ours, so that after a crash it can be told from a user's. It comes into
    being with that text, by a hard link: a file that is created and then written would be nobody's in between.
    """
    lock, token = git_dir / "index.lock", runtime / "index-token"
    token.write_bytes(_OURS + tick_id.encode() + b"\n")
    try:
        os.link(token, lock)
    except FileExistsError:
        # Ours, left by a dead process: it kept the user's git away from the half-done tick until now.
        if not _is_ours(lock):
            raise Deferred(
                "the tick waits", f"{lock} exists: another git command is at work or was killed", "see `harness status`"
            ) from None
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # what went wrong first is what the caller must hear
            os.unlink(lock)
        raise
    try:
        os.unlink(lock)
    except FileNotFoundError:
        pass
    except OSError as error:
        why = f"{lock}: {error.strerror}"
        raise Unfinished(
            "the tick is in history, but the index is still locked", why, "the next command unlocks it"
        ) from error


def release_stale(git_dir: Path) -> None:
    """Remove an ``index.lock`` that a dead process of ours left. Needs the workspace's lock; anybody else's stays."""
    lock = git_dir / "index.lock"
    if _is_ours(lock):
        lock.unlink(missing_ok=True)


def _is_ours(lock: Path) -> bool:
    try:
        return lock.read_bytes().startswith(_OURS)
    except OSError:
        return False


def update(git: Git, git_dir: Path, runtime: Path, entries: Mapping[str, tuple[str, str] | None], null: str) -> None:
    """Set the index entries of these paths to (mode, blob id), or drop them; every other entry and flag stays.

    Git writes a copy, which then takes the index's place: the index's own lock is already ours. ``null`` is an id of zeros.
    """
    index, copy = git_dir / "index", runtime / f"index-copy-{os.getpid()}"
    # A git that a killed process left may still be writing its own copy: that one has another name.
    for left in runtime.glob("index-copy-*"):
        left.unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        # copy2 keeps the time: git takes entries as new as the index itself for possibly changed ("racily clean").
        shutil.copy2(index, copy)
    env = {"GIT_INDEX_FILE": str(copy)}
    skipped = _skipped(git, entries, env)
    lines = []
    for path, entry in entries.items():
        mode, blob = entry or ("0", null)
        lines.append(f"{mode} {blob}\t{path}\0".encode("utf-8", "surrogateescape"))
    git.run("update-index", "-z", "--index-info", data=b"".join(lines), env=env)
    if skipped:
        git.run("update-index", "-z", "--skip-worktree", "--stdin", data=b"".join(p + b"\0" for p in skipped), env=env)
    os.replace(copy, index)


def _skipped(git: Git, entries: Mapping[str, tuple[str, str] | None], env: Mapping[str, str]) -> list[bytes]:
    """The paths that a sparse checkout keeps off the disk: they lose their flag when their entry is set, and get it back."""
    if git.facts.get("core.sparsecheckout") != "true":
        return []
    tagged = git.run("ls-files", "-t", "-z", "--", *(f":(literal){p}" for p in entries), env=env).split(b"\0")
    kept = {p.encode("utf-8", "surrogateescape") for p, entry in entries.items() if entry}
    return [line[2:] for line in tagged if line.startswith(b"S ") and line[2:] in kept]
