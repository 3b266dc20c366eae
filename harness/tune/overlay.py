"""An overlay as text: apply one edit to it, and say what it changes. Pure; the gate's rules judge the result."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import USAGE, HarnessError
from harness.store.prose import split


class BadEdit(HarnessError):
    """The edit does not fit the overlay it is for."""

    exit_code = USAGE


@dataclass(frozen=True)
class Edit:
    """One edit: ``lines`` (without their ends) go to the end, or take the place of the overlay's lines ``first`` to
    ``last`` (1-based, both included); no lines there means that those are deleted."""

    lines: Sequence[str]
    first: int | None = None
    last: int | None = None


def applied(before: str, edit: Edit) -> str:
    """The overlay after ``edit``; it keeps the line ends that it has. Raises BadEdit."""
    old = split(before)
    end = "\r\n" if old and old[0].endswith("\r\n") else "\n"
    new = [line.rstrip("\r\n") + end for line in edit.lines]
    if edit.first is None or edit.last is None:
        if not any(line.strip() for line in new):
            raise BadEdit("the edit is empty", "it adds nothing", "write the lines to add into the file")
        had = {line.strip() for line in old}
        if all(line.strip() in had for line in new if line.strip()):
            raise BadEdit("the edit adds nothing", "the overlay says these lines already", "see `harness skills show`")
        return "".join(old + new)
    if not 1 <= edit.first <= edit.last <= len(old):
        where = f"line {edit.first}" if edit.first == edit.last else f"lines {edit.first} to {edit.last}"
        raise BadEdit(
            f"the overlay has no {where}", f"it has {len(old)}", "name lines of the overlay; the base is never edited"
        )
    after = "".join([*old[: edit.first - 1], *new, *old[edit.last :]])
    if after == "".join(old):
        raise BadEdit("the edit changes nothing", "these lines are there already", "say what should be different")
    return after


def diff(path: str, before: str, after: str) -> str:
    """The unified diff of an edit, as a person is shown it."""
    lines = difflib.unified_diff(split(before), split(after), f"{path} (now)", f"{path} (proposed)", n=3)
    return "".join(line.replace("\r\n", "\n") for line in lines)


def added(before: str, after: str) -> list[str]:
    """The lines that an edit adds, without their ends."""
    return [line[2:].rstrip("\r\n") for line in difflib.ndiff(split(before), split(after)) if line.startswith("+ ")]


def tokens(text: str) -> int:
    """About how many tokens ``text`` costs in each use of the skill: a quarter of its characters, rounded up."""
    return -(-len(text) // 4)
