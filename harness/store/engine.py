"""The engine: (parent, changes, message) -> commit. It writes objects that nobody sees until the swap.

Two ways that give the same ids, to the bit. A few commits are written object by object, which starts no process. Many at
once go through one `git fast-import`, which packs them. Neither uses an index, so the cost doesn't grow with tracked files.
fast-import's `from` is no compare-and-swap and a killed feeder without `done` commits half a tick: hence the scratch ref,
`feature done`, and the swap in `swap`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.store.git import Git, GitError
from harness.store.loose import Loose

SCRATCH: Final = "refs/worktree/harness-scratch"
FEW: Final = 20


@dataclass(frozen=True)
class Commit:
    """What one commit is made of: bytes by path (None deletes it), its message, and who and when (``"NAME <MAIL>"``, seconds)."""

    changes: Mapping[str, bytes | None]
    message: str
    who: str
    when: int


@dataclass(frozen=True)
class Built:
    """A commit's id and, by path, the (mode, blob id) of what it changed; None for what it deleted."""

    id: str
    entries: Mapping[str, tuple[str, str] | None]


def mode_of(path: str) -> str:
    """The git file mode of ``path``: shell scripts are executable."""
    return "100755" if path.endswith(".sh") else "100644"


def build(git: Git, parent: str | None, commits: Sequence[Commit]) -> list[Built]:
    """Write ``commits``, each the parent of the next, on top of ``parent`` (None: no history yet). Raises GitError, OSError."""
    plain = git.plain_objects()
    if plain and len(commits) <= FEW:
        writer, built = Loose(git, *plain), list[Built]()
        for commit in commits:
            built.append(_write(writer, parent, commit))
            parent = built[-1].id
        return built
    return _import(git, parent, commits)


def _write(writer: Loose, parent: str | None, commit: Commit) -> Built:
    base = None
    if parent:
        found = writer.git.object(parent)
        if found is None or found[1] != "commit":
            raise GitError(("cat-file",), 0, f"the parent commit {parent} is missing")
        base = found[2].split(b"\n", 1)[0].removeprefix(b"tree ").decode("ascii")
    entries: dict[str, tuple[str, str] | None] = {}
    for path in sorted(commit.changes, key=lambda p: (commit.changes[p] is not None, p)):
        data = commit.changes[path]
        entries[path] = None if data is None else (mode_of(path), writer.put("blob", data))
    tree = writer.tree(base, entries) or writer.put("tree", b"")
    stamp = f"{commit.who} {commit.when} +0000"
    head = [f"tree {tree}", *([f"parent {parent}"] if parent else []), f"author {stamp}", f"committer {stamp}", "", ""]
    return Built(writer.put("commit", "\n".join(head).encode() + commit.message.encode("utf-8", "replace")), entries)


def _import(git: Git, parent: str | None, commits: Sequence[Commit]) -> list[Built]:
    stream: list[bytes] = [b"feature done\n"]
    if not parent:
        stream += [b"reset %s\n\n" % SCRATCH.encode()]
    for number, commit in enumerate(commits, 1):
        stamp = f"{commit.who} {commit.when} +0000".encode()
        stream += [b"commit %s\nmark :%d\nauthor %s\ncommitter %s\n" % (SCRATCH.encode(), number, stamp, stamp)]
        stream += [_data(commit.message.encode("utf-8", "replace"))]
        if number == 1:
            stream += [b"from %s\n" % parent.encode() if parent else b""]
        # Deletions first: a file may take the place of a folder.
        for path in sorted(commit.changes, key=lambda p: (commit.changes[p] is not None, p)):
            data = commit.changes[path]
            if data is None:
                stream += [b"D %s\n" % _quoted(path)]
            else:
                stream += [b"M %s inline %s\n" % (mode_of(path).encode(), _quoted(path)), _data(data)]
        stream += [b"\nget-mark :%d\n" % number]
        stream += [b"ls :%d %s\n" % (number, _quoted(path)) for path in sorted(commit.changes)]
    stream += [b"done\n"]
    # Few objects stay loose, since small packs pile up; with many a pack is smaller and faster by far.
    limit = "-c", f"fastimport.unpackLimit={1 if len(commits) > FEW else 100}"
    command = (*limit, "fast-import", "--force", "--quiet", "--date-format=raw")
    try:
        out = git.run(*command, data=b"".join(stream))
    except GitError as error:
        if "keep file" not in error.stderr:
            raise
        # A fast-import that was killed leaves the mark that it sets beside its pack; the same commits make the same name.
        _drop_marks_of_no_pack(git)
        out = git.run(*command, data=b"".join(stream))
    answers = iter(out.decode("utf-8", "surrogateescape").splitlines())
    built = []
    for commit in commits:
        commit_id = next(answers, "")
        if not commit_id:
            raise GitError(("fast-import",), 0, "it did not name the commit")
        entries: dict[str, tuple[str, str] | None] = {}
        for path in sorted(commit.changes):
            fields = next(answers, "missing").split(maxsplit=3)
            gone = fields[0] == "missing" or commit.changes[path] is None  # a folder may stand there now
            entries[path] = None if gone else (fields[0], fields[2])
        built.append(Built(commit_id, entries))
    return built


def _drop_marks_of_no_pack(git: Git) -> None:
    folder = Path(git.text("rev-parse", "--path-format=absolute", "--git-path", "objects/pack"))
    for mark in folder.glob("pack-*.keep"):
        if not mark.with_suffix(".idx").exists():
            mark.unlink(missing_ok=True)


def swap(git: Git, new: str, old: str | None, *, who: str, note: str, keep: str | None = None) -> None:
    """Move HEAD from ``old`` to ``new``, or raise GitError and change nothing: the commit point.

    ``keep`` names a ref that is moved in the same transaction, so that a commit on a detached HEAD stays reachable.
    """
    null = "0" * len(new)
    lines = ["start", f"update HEAD {new} {old or null}"]
    if keep:
        lines.append(f"update {keep} {new}")
    lines += ["prepare", "commit", ""]
    name, _, mail = who.partition(" <")
    identity = {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": mail.rstrip(">")}
    git.run("update-ref", "-m", note, "--stdin", data="\n".join(lines).encode(), env=identity)


def sign(git: Git, built: Built, commit: Commit, parent: str | None, *, timeout: float) -> Built:
    """``built`` again with a signature of the user's own signer; GitError when that fails or takes over ``timeout`` seconds."""
    tree = git.text("rev-parse", f"{built.id}^{{tree}}")
    name, _, mail = commit.who.partition(" <")
    env: dict[str, str] = {}
    for role in ("AUTHOR", "COMMITTER"):
        env |= {
            f"GIT_{role}_NAME": name,
            f"GIT_{role}_EMAIL": mail.rstrip(">"),
            f"GIT_{role}_DATE": f"{commit.when} +0000",
        }
    parents = ("-p", parent) if parent else ()
    signed = git.run(
        "commit-tree", "-S", *parents, tree, data=commit.message.encode("utf-8", "replace"), env=env, timeout=timeout
    )
    return Built(signed.decode().strip(), built.entries)


def _data(data: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(data), data)


def _quoted(path: str) -> bytes:
    return b'"' + path.encode("utf-8", "surrogateescape").replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
