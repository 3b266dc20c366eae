"""A tidier overlay from the overlay alone: duplicates merged, contradicted and refuted lines dropped. And what a changed
base now says itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

from harness.store.prose import split
from harness.tune.likeness import against, overlap, words

SAME: Final = 0.8
"""The share of words from which on two lines say the same."""
COVERED: Final = 0.6
_DATED: Final = re.compile(r"\s*\((?:learned )?\d{4}-\d\d-\d\d\)\s*$")


@dataclass(frozen=True)
class Consolidated:
    """The overlay after consolidation and, in a sentence each, what was done."""

    text: str
    done: list[str]


def consolidate(text: str, refuted: Collection[str] = ()) -> Consolidated:
    """``text`` without lines that repeat another, that a later one contradicts, or that are in ``refuted`` (their exact
    words); headings that are left without a line go too. The later of two lines stays: it is the newer lesson."""
    lines = split(text)
    drop: dict[int, str] = {}
    listed = [n for n, line in enumerate(lines) if _is_rule(line)]
    wanted = {line.strip() for line in refuted}
    for n in listed:
        if lines[n].strip() in wanted:
            drop[n] = f"dropped, its prediction did not hold: {_quote(lines[n])}"
    for at, n in enumerate(listed):
        if n in drop:
            continue
        mine = words(lines[n])
        for later in listed[at + 1 :]:
            if (
                later in drop
                or overlap(mine, words(lines[later])) < SAME
                or min(len(mine), len(words(lines[later]))) < 2
            ):
                continue
            verb = "contradicted by" if against(lines[n], lines[later]) else "said again by"
            if verb == "said again by" and len(words(lines[later])) < len(mine):
                drop[later] = f"merged into {_quote(lines[n])}: {_quote(lines[later])}"
                continue
            drop[n] = f"{verb} {_quote(lines[later])}: {_quote(lines[n])}"
            break
    kept = [line for n, line in enumerate(lines) if n not in drop]
    return Consolidated("".join(_without_empty_sections(kept)), list(drop.values()))


def _is_rule(line: str) -> bool:
    bare = line.strip()
    return bool(bare) and not bare.startswith(("#", "```", "~~~", "<!--", "|"))


def _without_empty_sections(lines: list[str]) -> list[str]:
    out: list[str] = []
    for n, line in enumerate(lines):
        if line.lstrip().startswith("#"):
            level = len(line.lstrip()) - len(line.lstrip().lstrip("#"))
            rest = iter(lines[n + 1 :])
            following = next((x for x in rest if x.strip()), "")
            depth = (
                len(following.lstrip()) - len(following.lstrip().lstrip("#"))
                if following.lstrip().startswith("#")
                else 99
            )
            if not following or depth <= level:
                continue
        if line.strip() or (out and out[-1].strip()):
            out.append(line)
    while out and not out[-1].strip():
        out.pop()
    return out


def _quote(line: str) -> str:
    text = line.strip()
    return f"“{text if len(text) <= 80 else text[:79] + '…'}”"


@dataclass(frozen=True)
class Overtaken:
    """A line of an overlay that a changed base says itself (``covers``) or speaks against."""

    number: int
    line: str
    base_line: str
    how: Literal["covers", "speaks against"]


def overtaken(overlay: str, base: str, old_base: str | None) -> list[Overtaken]:
    """The lines of ``overlay`` that the new ``base`` now covers or speaks against; only lines that the base gained since
    ``old_base`` are looked at, all of them when that is not known."""
    had = {line.strip() for line in (old_base or "").splitlines()} if old_base is not None else set()
    fresh = [line for line in base.splitlines() if _is_rule(line) and line.strip() not in had]
    found = []
    for number, line in enumerate(overlay.splitlines(), 1):
        mine = words(_DATED.sub("", line))
        if not _is_rule(line) or len(mine) < 2:
            continue
        like = max(fresh, key=lambda other: overlap(mine, words(other)) if len(words(other)) > 1 else 0, default="")
        if like and len(words(like)) > 1 and overlap(mine, words(like)) >= COVERED:
            how: Literal["covers", "speaks against"] = "speaks against" if against(line, like) else "covers"
            found.append(Overtaken(number, line.strip(), like.strip(), how))
    return found
