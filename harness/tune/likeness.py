"""Which short sentences are about the same thing, by their words alone: no model, no network, the same answer each time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_NOISE: Final = frozenset(
    """a about after again all also am an and any are as at be because been before being both but by can could did do does doing
    down during each even few for from further get got had has have having he her here him his how i if in into is it its itself
    just let me more most much my next of off on once one only or other our out over own really same she should so some still
    such than that the their them then there these they this those through to too twice under until up use used uses using very
    was we were what when where which while who whom why will with would you your yours draft drafts output text user said says
    line lines skill keep make made always never avoid drop remove skip stop omit without instead prefer rather less fewer""".split()  # noqa: SIM905 (a list of 150 quoted words reads worse)
)
_AGAINST: Final = re.compile(
    r"\b(?:not|never|no|don'?t|do not|avoid|drop|without|stop|remove|skip|nor|neither|instead of|rather than|less|fewer|omit)\b",
    re.I,
)


_BEGINNING: Final = 3  # words


def words(text: str) -> frozenset[str]:
    """The words of ``text`` that carry meaning, without their endings."""
    return frozenset(_stem(w) for w in _WORD.findall(text.casefold()) if w not in _NOISE)


def _stem(word: str) -> str:
    for ending in ("ings", "ing", "edly", "ies", "ied", "ed", "es", "s", "ly", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 4 and word[-1] == word[-2] else word


def overlap(a: frozenset[str], b: frozenset[str]) -> float:
    """The share of the smaller set that both have; 0 when either says nothing."""
    return len(a & b) / min(len(a), len(b)) if a and b else 0.0


def against(a: str, b: str) -> bool:
    """Whether of two rules on one thing, one says to do it and the other not to. A rule says so at its beginning: later
    words may be a condition ("where you are not sure")."""
    return _forbids(a) != _forbids(b)


def _forbids(rule: str) -> bool:
    return _AGAINST.search(" ".join(re.findall(r"[\w'’]+", rule)[:_BEGINNING])) is not None


def clusters(texts: Sequence[str], least: int = 3, like: float = 0.5) -> list[list[int]]:
    """Groups of at least ``least`` texts about the same thing, as numbers into ``texts``, the largest first.

    A text joins the first group with whose core (the words that at least half of its members have) it shares enough.
    """
    sets = [words(text) for text in texts]
    groups: list[list[int]] = []
    for number, mine in enumerate(sets):
        if not mine:
            continue
        best = max(groups, key=lambda g: overlap(mine, core(sets[n] for n in g)), default=None)
        if best is not None and overlap(mine, core(sets[n] for n in best)) >= like:
            best.append(number)
        else:
            groups.append([number])
    return sorted((g for g in groups if len(g) >= least), key=len, reverse=True)


def core(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    """The words that at least half of the members of a group have."""
    listed = list(sets)
    counts: dict[str, int] = {}
    for one in listed:
        for word in one:
            counts[word] = counts.get(word, 0) + 1
    return frozenset(word for word, count in counts.items() if count * 2 >= len(listed))
