"""What a rule of the policy looks at, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Change:
    """One file's text before and after a tick (None: there is no file), with the rule's numbers."""

    before: str | None
    after: str
    numbers: Mapping[str, Any]


@dataclass(frozen=True)
class Broken:
    """A rule that doesn't hold: where, what was found, what to do instead."""

    found: str
    todo: str
    pointer: str = ""


Rule = Callable[[Change], Iterator[Broken]]
