"""Rules for text that an agent proposes and people read: short edits in one place, in plain words. Standard library only."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Final

from harness.store.change import Broken, Change

_KNOWN: Final = """
    API APIS ASCII AWS CD CEO CI CLI CPU CRM CSS CSV CTA CTO DNS DOM EU FAQ GDPR GPU HTML HTTP HTTPS IBAN ID IDS IP ISO
    JPEG JSON JSONL KPI LTS MCP MIT NATO NDA NDJSON OAUTH OK OKR OS PDF PNG POSIX PR PRS QA RAM README REST RFC ROI RSS
    SDK SEO SKU SLA SQL SSH SSL SVG TLS TODO TSV UI UK ULID UN URI URL URLS US USA USB USD UTC UTF UUID UX VAT VPN WCAG
    XML YAML ZIP"""
ACRONYMS: Final = frozenset(_KNOWN.split())
"""Words in capitals that are no shouting."""

LONGEST_CAPITALS: Final = 4
"""Letters that one word in capitals may have when it is no known acronym."""

_FENCE: Final = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_CODE: Final = re.compile(r"(`+).+?\1")
_FILE: Final = re.compile(r"\S*(?:/\S*|\w\.[A-Za-z]\w{0,7}\b|\w_\w)\S*")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_DASH: Final = re.compile("[\u2014\u2e3a\u2e3b]|&mdash;|&#8212;|&#x2014;", re.I)
_BUZZ: Final = re.compile(r"(?<![\w.])(?:AI|Ai)(?![\w.]*\w)")
_DOTTED: Final = re.compile(r"(?<![\w.])A\.I\b")


def split(text: str) -> list[str]:
    """The lines of ``text`` with their ends; a last line without one gets it, so that adding behind it touches it not."""
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += "\r\n" if lines[0].endswith("\r\n") else "\n"
    return lines


def hunks(before: str, after: str) -> list[tuple[list[str], list[str]]]:
    """The places in which two texts differ, as (lines removed, lines added); only blank lines between two join them."""
    old, new = split(before), split(after)
    found: list[tuple[list[str], list[str]]] = []
    gap: list[str] | None = None
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            gap = old[i1:i2]
        elif found and gap is not None and not "".join(gap).strip():
            removed, added = found.pop()
            found.append((removed + gap + old[i1:i2], added + gap + new[j1:j2]))
        else:
            found.append((old[i1:i2], new[j1:j2]))
    return found


def one_hunk(change: Change) -> Iterator[Broken]:
    """The change is in one place."""
    found = hunks(change.before or "", change.after)
    if len(found) > 1:
        yield Broken(f"changes in {len(found)} places", "one edit is one place; propose the others by themselves")


def max_added_lines(change: Change) -> Iterator[Broken]:
    """At most ``max`` lines are added, those that replace others counted; taking lines away costs nothing."""
    added = sum(len(new) for _, new in hunks(change.before or "", change.after))
    if added > (limit := change.numbers["max"]):
        todo = change.numbers.get("todo") or f"say it in at most {limit} lines"
        yield Broken(f"{added} lines added or replaced, at most {limit}", todo)


def plain_copy(change: Change) -> Iterator[Broken]:
    """Lines that are added hold no shouting, no em dash and no buzzword. Code and the names of files may."""
    old = set((change.before or "").splitlines())
    for number, line in _prose(change.after):
        if line in old:
            continue
        where = f"line {number}"
        bare = _CODE.sub(" . ", line)
        if dash := _DASH.search(bare):
            yield Broken(f"an em dash ({dash[0]})", "use a comma, a colon or two sentences", where)
        buzz = _DOTTED.search(bare)
        bare = _FILE.sub(lambda m: " . " if not _shouts(m[0]) else m[0], bare)
        if shout := shouting(bare):
            yield Broken(
                f"words in capitals: {shout[:60]}", "write them in small letters; put names of code in backticks", where
            )
        if buzz or _BUZZ.search(bare):
            yield Broken('the word "AI"', "name the thing itself: the agent, the model, the draft", where)


def shouting(text: str) -> str:
    """The first words in capitals of ``text`` that are shouting, or nothing: two or more in a row, or a long one alone."""
    row: list[str] = []
    end = 0
    for match in _WORD.finditer(text):
        if row and text[end : match.start()].strip(" ,\t*_"):
            row = []  # a full stop or a bracket ends the row
        end = match.end()
        word = match[0]
        letters = [c for c in word if c.isalpha()]
        if len(letters) < 2 or not word.isupper() or word.upper().rstrip("S") in ACRONYMS or word in ACRONYMS:
            row = []
            continue
        row.append(word)
        if len(row) > 1 or len(letters) > LONGEST_CAPITALS:
            return " ".join(row)
    return ""


def _shouts(token: str) -> bool:
    """Whether a token that looks like a file or a name of code is two words of shouting with a slash between."""
    words = re.split(r"[/]", token.strip(".,;:!?()"))
    return (
        "/" in token
        and len(words) > 1
        and all(w.isalpha() and w.isupper() and len(w) > LONGEST_CAPITALS for w in words)
    )


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines of ``text`` with their numbers, those inside code fences left out."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence):
            fence = ""
        elif not fence:
            yield number, line


def write_once(change: Change) -> Iterator[Broken]:
    """The file is new: what it says stays as it was said."""
    if change.before is not None:
        yield Broken("the file exists", "it is never changed; make a new one")
