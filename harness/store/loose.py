"""Objects written straight into the repository's object folder: a commit of a few files without starting a process.

Git does the same for each object it adds: its header and bytes, deflated, in a file named after their hash. An object that
is half written is never seen, since it gets its name last. Trees are made from the parent's, folder by folder, so the cost
depends on the depth of the changed paths and not on how many files are tracked.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from collections.abc import Mapping
from pathlib import Path

from harness.store.git import Git, GitError

_TREE = b"40000"


class Loose:
    """Writes objects below ``objects`` for ``git``'s repository; ``algorithm`` is the repository's (sha1 or sha256)."""

    def __init__(self, git: Git, objects: Path, algorithm: str) -> None:
        self.git, self.objects, self.algorithm = git, objects, algorithm

    def put(self, kind: str, data: bytes) -> str:
        """Write one object and return its id. Raises OSError."""
        whole = b"%s %d\0" % (kind.encode(), len(data)) + data
        name = hashlib.new(self.algorithm, whole, usedforsecurity=False).hexdigest()
        place = self.objects / name[:2] / name[2:]
        with contextlib.suppress(FileNotFoundError):
            os.utime(place)  # it counts as new now: `git gc` prunes what is old and in no history
            return name
        handle, aside = self._new_file(self.objects / name[:2])
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(zlib.compress(whole, 1))
            os.replace(aside, place)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(aside)
            raise
        return name

    def _new_file(self, folder: Path) -> tuple[int, Path]:
        """(handle, path) of a temporary file in ``folder``, which `git gc` may remove whenever it is empty."""
        aside, tries = folder / f"tmp_obj_{os.urandom(6).hex()}", 20
        while True:
            try:
                return os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444), aside
            except FileNotFoundError:
                tries -= 1
                if not tries or not self.objects.is_dir():
                    raise
                folder.mkdir(exist_ok=True)

    def tree(self, base: str | None, blobs: Mapping[str, tuple[str, str] | None]) -> str | None:
        """The id of the tree ``base`` with the files ``blobs`` set to (mode, blob id) or taken out (None); None when empty."""
        entries = self._entries(base)
        below: dict[str, dict[str, tuple[str, str] | None]] = {}
        for path, blob in blobs.items():
            head, _, rest = path.partition("/")
            if rest:
                below.setdefault(head, {})[rest] = blob
            elif blob is None:
                entries.pop(head, None)
        for folder, inside in below.items():
            mode, old = entries.pop(folder, (b"", b""))
            if made := self.tree(old.hex() if mode == _TREE else None, inside):
                entries[folder] = (_TREE, bytes.fromhex(made))
        # Files last: one may take the place of a folder that has just become empty.
        entries |= {
            path: (blob[0].encode(), bytes.fromhex(blob[1])) for path, blob in blobs.items() if blob and "/" not in path
        }
        if not entries:
            return None
        # Git sorts a folder as if its name ended in a slash.
        encoded = [(name.encode("utf-8", "surrogateescape"), *entry) for name, entry in entries.items()]
        encoded.sort(key=lambda one: one[0] + (b"/" if one[1] == _TREE else b""))
        return self.put("tree", b"".join(b"%s %s\0%s" % (mode, name, oid) for name, mode, oid in encoded))

    def _entries(self, tree: str | None) -> dict[str, tuple[bytes, bytes]]:
        if not tree:
            return {}
        found = self.git.object(tree)
        if found is None:
            raise GitError(("cat-file",), 0, f"the tree {tree} is missing")
        data, width, at, out = found[2], len(found[0]) // 2, 0, {}
        while at < len(data):
            end = data.index(b"\0", at)
            mode, _, name = data[at:end].partition(b" ")
            out[name.decode("utf-8", "surrogateescape")] = (mode, data[end + 1 : end + 1 + width])
            at = end + 1 + width
        return out
