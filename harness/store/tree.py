"""Reading what is committed: files, folders and rows of one commit, through one git process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.store.git import Git, GitError


@dataclass(frozen=True)
class BadLine:
    """A line of a ledger that is no row: where it stands, its bytes, and why it can't be read."""

    path: str
    number: int
    data: bytes
    reason: str


class Tree:
    """The files of one commit (None: of a history that has none yet)."""

    def __init__(self, git: Git, commit: str | None) -> None:
        self.git, self.commit = git, commit

    def read(self, path: str) -> bytes | None:
        """The committed bytes of the file ``path``, or None."""
        found = self._object(path)
        return found[2] if found and found[1] == "blob" else None

    def blob_id(self, path: str) -> str | None:
        """The git id of the file ``path``, or None."""
        found = self._object(path)
        return found[0] if found and found[1] == "blob" else None

    def names(self, folder: str) -> list[str]:
        """The names in the folder ``folder`` ("": the top), sorted as text; empty when there is none."""
        return sorted(name for name, _ in self._entries(folder))

    def folders(self, folder: str) -> list[str]:
        """The names of the folders in ``folder``."""
        return sorted(name for name, is_folder in self._entries(folder) if is_folder)

    def _object(self, path: str) -> tuple[str, str, bytes] | None:
        """What stands at ``path``, or None. Raises GitError when something does and it can't be read: taken for absent, a
        ledger would begin anew and an overlay would be gone."""
        if self.commit is None:
            return None
        found = self.git.object(f"{self.commit}:{path}")
        if found is not None:
            return found
        folder, _, name = path.rpartition("/")
        if any(name == known for known, _ in self._entries(folder)) if path else self.git.object(self.commit):
            raise GitError(("cat-file",), 0, f"{path or 'the tree'} of {self.commit} can't be read")
        return None

    def _entries(self, folder: str) -> list[tuple[str, bool]]:
        found = self._object(folder)
        if not found or found[1] != "tree":
            return []
        data, width, at, out = found[2], len(found[0]) // 2, 0, []
        while at < len(data):
            end = data.index(b"\0", at)
            mode, _, name = data[at:end].partition(b" ")
            out.append((name.decode("utf-8", "surrogateescape"), mode == b"40000"))
            at = end + 1 + width
        return out

    def rows(self, path: str) -> Iterator[dict[str, Any] | BadLine]:
        """The rows of the ledger ``path`` in order: sealed segments, then the active file.

        Rows come from the commit, never from the work tree: what was written behind the store's back is no row. A line
        that can't be read is yielded as BadLine. One segment (64 KiB) is in memory at a time.
        """
        for part in self.parts(path):
            for number, line in enumerate((self.read(part) or b"").split(b"\n"), 1):
                if line.strip():
                    yield _row(part, number, line)

    def parts(self, path: str) -> list[str]:
        """The files that make up the ledger ``path``, in order."""
        sealed = [f"{path}.d/{name}" for name in self.names(path + ".d") if name.endswith(".ndjson")]
        return [*sealed, path]


def _row(path: str, number: int, line: bytes) -> dict[str, Any] | BadLine:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return BadLine(path, number, line, f"not JSON: {error}"[:200])
    return value if isinstance(value, dict) else BadLine(path, number, line, "not a JSON object")
