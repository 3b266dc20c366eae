"""Which segment of a ledger is its last one, for a reader that goes through history commit by commit."""

from __future__ import annotations

from collections.abc import Sequence

from harness.store import gate
from harness.store.git import Git
from harness.store.stream import Commit
from harness.store.tree import Tree


class LastSegments:
    """The name of a ledger's last segment, without reading a folder of thousands of them at each commit: along a line of
    commits it is known from what they added."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._at = ""
        self._names: dict[str, str] = {}

    def of(self, commit: str, ledger: str) -> str:
        """The last segment of ``ledger`` in ``commit``; empty when there is none."""
        if commit == self._at and ledger in self._names:
            return self._names[ledger]
        name = max(Tree(self._git, commit).names(f"{ledger}.d"), default="")
        if commit == self._at:
            self._names[ledger] = name
        return name

    def came_to(self, parents: Sequence[str]) -> None:
        """A commit with these parents is looked at next."""
        if list(parents) != [self._at]:
            self._at, self._names = parents[0] if len(parents) == 1 else "", {}

    def went_on(self, commit: Commit) -> None:
        """``commit`` was looked at."""
        self._at = commit.id
        if len(commit.parents) != 1:
            self._names = {}
            return
        for change in commit.changes[0]:
            if ".d/" not in change.path:
                continue
            sealed = gate.SEGMENT.fullmatch(change.path)
            if not sealed or change.old or not change.new:
                self._names = {}  # not what a tick does: look again
            elif sealed["ledger"] in self._names:
                name = change.path.rpartition("/")[2]
                self._names[sealed["ledger"]] = max(name, self._names[sealed["ledger"]])
