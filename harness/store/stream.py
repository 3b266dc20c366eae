"""History as a stream, oldest first: each commit with the files it changed, through a handful of git processes in all.

    rev-list -> commits -> diff-tree -> changed files -> cat-file -> messages and bytes

Each stage is asked some way ahead of its reader, so that git works while the reader does, and never further than a pipe
holds: asking may not block while an answer waits.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from harness.store.git import Git, GitError, pipe

_AHEAD: Final = 64  # commits whose diff is asked for
_ASKED: Final = 400  # objects that are asked for: 400 ids fit into the smallest pipe
_CACHE_BYTES: Final = 32 * 1024 * 1024
_PIPE_BYTES: Final = 1024 * 1024
# Grafts and a commit-graph file can each tell of other parents than a commit has; replace refs are off everywhere.
TRUE_PARENTS: Final = {"GIT_GRAFT_FILE": os.devnull}
_NO_GRAPH: Final = ("-c", "core.commitGraph=false")


@dataclass(frozen=True)
class FileChange:
    """One file of a commit against one parent: modes as git writes them, blob ids (None: there is no file)."""

    path: str
    old_mode: str
    new_mode: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class Commit:
    """A commit with its changes against each parent (a root has one list, against nothing)."""

    id: str
    parents: Sequence[str]
    author: str
    when: int
    message: str
    changes: Sequence[Sequence[FileChange]]

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.lstrip().partition("\n")[0]


class Objects:
    """Objects by id, read ahead in the order in which they were wanted; what was read last is kept, up to 32 MB."""

    def __init__(self, git: Git) -> None:
        self.git = git
        self._process = git.start("cat-file", "--batch")
        _widen(self._process)
        self._queue: deque[str] = deque()
        self._asked: deque[str] = deque()
        self._coming: Counter[str] = Counter()
        self._kept: OrderedDict[str, bytes | None] = OrderedDict()
        self._size = 0

    def want(self, ids: Sequence[str]) -> None:
        """Say that ``ids`` will be read soon, in this order."""
        self._queue.extend(ids)
        self._coming.update(ids)
        self._ask()

    def get(self, name: str) -> bytes | None:
        """The bytes of the object with the id ``name``, or None when the repository lacks it."""
        while name not in self._kept and self._coming[name] > 0:
            self._read()
        if name in self._kept:
            self._kept.move_to_end(name)
            return self._kept[name]
        found = self.git.object(name)
        self._keep(name, found[2] if found else None)
        return self._kept[name]

    def _ask(self) -> None:
        if self._queue and len(self._asked) <= _ASKED // 2:
            more = [self._queue.popleft() for _ in range(min(len(self._queue), _ASKED - len(self._asked)))]
            pipe(self._process.stdin).write("".join(f"{one}\n" for one in more).encode())
            pipe(self._process.stdin).flush()
            self._asked.extend(more)

    def _read(self) -> None:
        self._ask()
        name, out = self._asked.popleft(), pipe(self._process.stdout)
        self._coming[name] -= 1
        if not self._coming[name]:
            del self._coming[name]
        head = out.readline()
        fields = head.split()
        if not fields:
            raise GitError(
                ("cat-file",), self._process.wait(), pipe(self._process.stderr).read().decode("utf-8", "replace")
            )
        if len(fields) != 3:
            self._keep(name, None)
            return
        self._keep(name, out.read(int(fields[2])))
        out.read(1)

    def _keep(self, name: str, data: bytes | None) -> None:
        if name in self._kept:
            return
        self._kept[name] = data
        self._size += len(data or b"")
        while self._size > _CACHE_BYTES and len(self._kept) > 1:
            self._size -= len(self._kept.popitem(last=False)[1] or b"")

    def close(self) -> None:
        """End the process."""
        end(self._process)


def commits(git: Git, objects: Objects, head: str, *without: str) -> Iterator[Commit]:
    """Every commit that ``head`` reaches and ``without`` don't, parents before children. Raises GitError."""
    known = [f"^{one}" for one in without]
    lister = git.start(*_NO_GRAPH, "rev-list", "--topo-order", "--reverse", "--parents", head, *known, env=TRUE_PARENTS)
    options = ("--stdin", "-r", "-z", "--root", "--raw", "--no-renames", "--no-abbrev", "--always")
    differ = git.start(*_NO_GRAPH, "diff-tree", *options, env=TRUE_PARENTS)
    try:
        pipe(lister.stdin).close()
        groups = _groups(differ)
        asked: deque[tuple[str, list[str]]] = deque()
        read: deque[tuple[str, list[str], list[list[FileChange]]]] = deque()
        for line in pipe(lister.stdout):
            commit, *parents = line.decode("ascii").split()
            # Against each parent by name: a merge has a list of changes for each. The dot comes back as it is and makes
            # git flush, which marks the end of an answer.
            lines = "".join(f"{commit} {parent}\n.\n" for parent in parents) or f"{commit}\n.\n"
            pipe(differ.stdin).write(lines.encode())
            pipe(differ.stdin).flush()
            asked.append((commit, parents))
            if len(asked) > _AHEAD:
                read.append(_diffed(asked.popleft(), groups, objects))
            if len(read) > _AHEAD:
                yield _whole(read.popleft(), objects)
        while asked or read:
            if asked:
                read.append(_diffed(asked.popleft(), groups, objects))
            if len(read) > _AHEAD or not asked:
                yield _whole(read.popleft(), objects)
        if lister.wait():
            raise GitError(("rev-list",), lister.returncode, pipe(lister.stderr).read().decode("utf-8", "replace"))
    finally:
        end(lister)
        end(differ)


def _diffed(
    asked: tuple[str, list[str]], groups: Iterator[list[FileChange]], objects: Objects
) -> tuple[str, list[str], list[list[FileChange]]]:
    commit, parents = asked
    changes = [next(groups) for _ in parents or (None,)]
    objects.want([commit, *(c.new for group in changes for c in group if c.new and not c.new_mode.startswith("16"))])
    return commit, parents, changes


def _whole(read: tuple[str, list[str], list[list[FileChange]]], objects: Objects) -> Commit:
    commit, parents, changes = read
    data = objects.get(commit)
    if data is None:
        raise GitError(("cat-file",), 0, f"the commit {commit} is missing")
    head, _, message = data.decode("utf-8", "replace").partition("\n\n")
    author = next((line[7:] for line in head.split("\n") if line.startswith("author ")), "")
    who, _, stamp = author.rpartition("> ")
    digits = stamp.partition(" ")[0]
    return Commit(commit, parents, who + ">", int(digits) if digits.isdecimal() else 0, message, changes)


def _groups(differ: subprocess.Popen[bytes]) -> Iterator[list[FileChange]]:
    """The answers of diff-tree, one list of changes each."""
    out, buffer, at = pipe(differ.stdout), b"", 0
    group: list[FileChange] = []
    meta: bytes | None = None
    while True:
        if meta is None and buffer.startswith(b".\n", at):
            yield group
            group, at = [], at + 2
            continue
        stop = buffer.find(b"\0", at)
        if stop < 0:
            more = out.read1(65536)  # type: ignore[attr-defined]
            if not more:
                raise GitError(("diff-tree",), differ.wait(), pipe(differ.stderr).read().decode("utf-8", "replace"))
            buffer, at = buffer[at:] + more, 0
            continue
        token, at = buffer[at:stop], stop + 1
        if meta is not None:
            group.append(_change(meta, token))
            meta = None
        elif token.startswith(b":"):
            meta = token


def _change(meta: bytes, path: bytes) -> FileChange:
    old_mode, new_mode, old, new, _ = meta[1:].decode("ascii").split(" ")
    name = path.decode("utf-8", "surrogateescape")
    text_before = old.strip("0") and old_mode != "160000"  # the id of a submodule is no object of this repository
    return FileChange(name, old_mode, new_mode, old if text_before else None, new if new.strip("0") else None)


def _widen(process: subprocess.Popen[bytes]) -> None:
    """A wider pipe, where the system has one: git then unpacks the next objects while the last are looked at."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe(process.stdout), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a git that only reads, whatever it is about."""
    for stream in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            pipe(stream).close()
    process.kill()
    process.wait()
