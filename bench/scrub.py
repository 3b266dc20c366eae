"""What the scrubber finds of what was planted, and what it takes that it should leave; by class."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.measure import Result
from harness.scrub import CLASSES, scrub

TABLES = Path(__file__).parents[1] / "tests/fixtures/scrub"
KNOWN = (
    "Acme", "Grace Hopper", "Müller & Söhne", "O'Neil", "Łukasz", "Globex Corporation", "Globex", "José", "Will", "Initech",
)  # fmt: skip
_ITEM = re.compile(r"⟦(.*?)⟧", re.S)
_ESCAPE = re.compile(r"\\(n|u[0-9a-f]{4}|\\)")


@dataclass
class Score:
    """Items by class: planted, found with exactly the right bounds, and look-alikes that were changed (with the text)."""

    planted: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    taken: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def rows(name: str) -> list[tuple[str, str]]:
    """(class, text) of each line that is no comment."""
    out = []
    for line in (TABLES / name).read_text("utf-8").split("\n"):
        if line and not line.startswith("# "):
            label, text = line.split("\t", 1)
            out.append((label, _ESCAPE.sub(_unescaped, text).replace("¦", "")))
    return out


def _unescaped(match: re.Match[str]) -> str:
    one = match[1]
    return "\n" if one == "n" else "\\" if one == "\\" else chr(int(one[1:], 16))


def score(planted: str = "planted.tsv", survive: str = "survive.tsv") -> Score:
    """The score over both tables."""
    out = Score()
    for label, text in rows(planted):
        items = len(_ITEM.findall(text))
        out.planted[label] += items
        plain = _ITEM.sub(r"\1", text)
        got = scrub(plain, KNOWN)
        if got.text == _ITEM.sub(f"[{label}]", text):
            out.found[label] += items
        else:
            out.wrong.append(f"{label}: {plain!r} became {got.text!r}")
    for label, text in rows(survive):
        if (got := scrub(text, KNOWN)).counts:
            out.taken.update(got.counts)
            out.wrong.append(f"like {label}: {text!r} became {got.text!r}")
    return out


def scrubbed() -> Iterator[Result]:
    """Recall and precision of each class on the tables; a row whose item is cut wrongly counts as not found."""
    for heading, planted, survive in (
        ("", "planted.tsv", "survive.tsv"),
        ("held out: ", "heldout-planted.tsv", "heldout-survive.tsv"),
        ("held out 2: ", "heldout-2-planted.tsv", "heldout-2-survive.tsv"),
    ):
        got = score(planted, survive)
        for name in CLASSES:
            found, taken, all_of = got.found[name], got.taken[name], got.planted[name]
            if all_of:
                yield Result(f"{heading}{name}: recall", found / all_of, None, "", f"{found} of {all_of}")
            if found + taken:
                yield Result(
                    f"{heading}{name}: precision", found / (found + taken), None, "", f"{taken} look-alikes taken"
                )
        found, taken, all_of = got.found.total(), got.taken.total(), got.planted.total()
        yield Result(f"{heading}all classes: recall", found / all_of, None, "", f"{found} of {all_of}")
        yield Result(f"{heading}all classes: precision", found / (found + taken), None, "", f"{taken} taken")
