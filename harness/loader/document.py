"""The text of a loader: its sections, its footer, a new one, and gaps folded into it without a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.loader.feedback import clip, shown

FOOTER_START: Final = "<!-- harness:footer -->"
FOOTER_END: Final = "<!-- /harness:footer -->"
KNOWN_GAPS: Final = "Known gaps"
SECTIONS: Final = ("Critical Rules", "Commands", "Self-Test", KNOWN_GAPS)
MAX_GAP: Final = 600
"""Characters of a gap's text in its line; the whole text stays in its row."""

_FOOTER: Final = re.compile(f"{re.escape(FOOTER_START)}.*?{re.escape(FOOTER_END)}", re.S)
_HEADING: Final = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_FENCE: Final = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_FOLDED: Final = re.compile(r"[-*] (\d{4}-\d\d-\d\d): (.*)")
_AWAY: Final = re.compile(r"\((\d+) older gaps? folded away\)\s*")


@dataclass(frozen=True)
class Limits:
    """How long a loader may be."""

    lines: int = 400
    bytes: int = 32 * 1024

    def exceeded(self, text: str) -> str | None:
        """Which limit ``text`` is over, with both numbers; None when it fits."""
        if (lines := len(text.splitlines())) > self.lines:
            return f"{lines} lines, at most {self.lines}"
        size = len(text.encode("utf-8", "replace"))
        return f"{size} bytes, at most {self.bytes}" if size > self.bytes else None


LIMITS: Final = Limits()


@dataclass(frozen=True)
class Section:
    """One heading and what stands below it, up to the next. ``title`` is empty before the first heading."""

    level: int
    title: str
    body: str


def footer_of(text: str) -> str | None:
    """The marked footer of a loader, marks included, or None."""
    found = _FOOTER.search(text)
    return found[0] if found else None


def marked(footer: str) -> str:
    """``footer`` between its two marks, once."""
    return footer_of(footer) or f"{FOOTER_START}\n{footer.strip()}\n{FOOTER_END}"


def sections(text: str) -> list[Section]:
    """The sections of a loader in order. Headings in code blocks and in the footer are none."""
    lines = _lines(text)
    starts = [0, *(i for i, line in enumerate(lines) if line.heading)]
    found = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        head = lines[start].heading if lines[start:end] else None
        body = "".join(line.text for line in lines[start + bool(head) : end] if not line.footer)
        if head or body.strip():
            found.append(Section(head[0] if head else 0, head[1] if head else "", body.strip("\r\n")))
    return found


def new_loader(skill: str, footer: str) -> str:
    """A loader that says nothing yet: title, pointer, empty sections, footer."""
    heads = "\n\n".join(f"## {title}" for title in SECTIONS)
    pointer = "Rules for every turn with this skill. Its full reference is `SKILL.md`; read that for what is not here."
    return f"# {skill}: loader\n\n{pointer}\n\n{heads}\n\n{marked(footer)}\n"


def fold(
    text: str | None,
    skill: str,
    gaps: Iterable[Mapping[str, Any]],
    footer: str,
    today: str,
    limits: Limits = LIMITS,
) -> str:
    """``text`` (None: a new loader) with each gap as one dated line of Known gaps; all else stays as it is.

    ``gaps`` are feedback rows; one without a time is dated ``today`` (YYYY-MM-DD). What is there already is not added
    again. When the loader would grow over ``limits``, the oldest folded lines go and are counted in their place; the
    newest one always stays, and a loader that is too long even so is returned for the gate to refuse.
    """
    whole = text if text and text.strip() else new_loader(skill, footer)
    if footer_of(whole) is None:
        whole = f"{whole.rstrip()}\n\n{marked(footer)}\n"
    before, kept, after = _around_gaps(whole if whole.endswith("\n") else whole + "\n")
    said = {_same(item[2]) for line in kept if (item := _FOLDED.match(line))}
    for gap in sorted(gaps, key=lambda g: str(g.get("ts") or today)):
        told = clip(shown(str(gap["text"])).replace("<!--", "&lt;!--"), MAX_GAP)
        if (key := _same(told)) not in said:
            said.add(key)
            kept.append(f"- {_day(gap.get('ts')) or today}: {told}")
    return _fitted(before, kept, after, limits, "\r\n" if "\r\n" in whole else "\n")


def _around_gaps(whole: str) -> tuple[str, list[str], str]:
    """What stands before the lines of Known gaps (its heading included), those lines, and what stands behind them."""
    lines = _lines(whole)
    start = next((i for i, line in enumerate(lines) if line.heading and _same(line.heading[1]) == "known gaps"), None)
    if start is None:
        start = next(i for i, line in enumerate(lines) if line.footer)
        before = "".join(line.text for line in lines[:start]).rstrip() + f"\n\n## {KNOWN_GAPS}\n"
        return before, [], "".join(line.text for line in lines[start:])
    end = next((i for i in range(start + 1, len(lines)) if lines[i].heading or lines[i].footer), len(lines))
    body = [line.text.rstrip("\r\n") for line in lines[start + 1 : end]]
    head = "".join(line.text for line in lines[: start + 1])
    return (
        head,
        "\n".join(body).strip("\n").split("\n") if any(b.strip() for b in body) else [],
        "".join(line.text for line in lines[end:]),
    )


def _fitted(before: str, kept: list[str], after: str, limits: Limits, end: str) -> str:
    away = sum(int(m[1]) for line in kept if (m := _AWAY.fullmatch(line)))
    if away:  # the count and the empty line below it are written anew
        kept = "\n".join(line for line in kept if not _AWAY.fullmatch(line)).strip("\n").split("\n")
    blocks = list(_blocks(kept))
    folded = sorted((b for b in blocks if _FOLDED.match(b[0])), key=lambda b: b[0][2:12])  # oldest first
    gone: set[int] = set()

    def written() -> str:
        count = away + len(gone)
        told = [f"({count} older gap{'' if count == 1 else 's'} folded away)", ""] if count else []
        body = "\n".join([*told, *("\n".join(b) for b in blocks if id(b) not in gone)]).strip("\n").replace("\n", end)
        return f"{before}{end}{body}{end}{end}{after}" if body else f"{before}{end}{after}"

    text = written()
    while len(folded) > 1 and limits.exceeded(text):
        over_lines, over_bytes = (
            len(text.splitlines()) - limits.lines,
            len(text.encode("utf-8", "replace")) - limits.bytes,
        )
        while len(folded) > 1 and (over_lines > 0 or over_bytes > 0):
            block = folded.pop(0)
            gone.add(id(block))
            over_lines -= len(block)
            over_bytes -= sum(len(line.encode("utf-8", "replace")) + len(end) for line in block)
        text = written()
    return text


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Folded lines with the indented lines below them, which belong to them; any other line is a block of its own."""
    block: list[str] = []
    for line in lines:
        if block and _FOLDED.match(block[0]) and line[:1] in (" ", "\t"):
            block.append(line)
            continue
        if block:
            yield block
        block = [line]
    if block:
        yield block


@dataclass(frozen=True)
class _Line:
    text: str  # with its line end
    heading: tuple[int, str] | None
    footer: bool


def _lines(text: str) -> list[_Line]:
    spans = [match.span() for match in _FOOTER.finditer(text)]
    lines, footers, at = re.findall(r"[^\n]*\n|[^\n]+", text), [], 0
    for line in lines:
        footers.append(any(start < at + len(line) and at < end for start, end in spans))
        at += len(line)
    marks = [None if footer else _FENCE.match(line) for line, footer in zip(lines, footers, strict=True)]
    found: list[_Line] = []
    coded = 0  # lines before this number are code
    for number, line in enumerate(lines):
        if number >= coded and (mark := marks[number]):
            # A fence that is never closed is a slip of the pen, and must not hide the sections below it. The footer is no
            # part of any code.
            end = next((n for n in range(number + 1, len(lines)) if footers[n]), len(lines))
            closes = (n for n in range(number + 1, end) if (m := marks[n]) and m[1].startswith(mark[1]))
            coded = next(closes, number) + 1
        heading = None if number < coded or footers[number] else _HEADING.match(line)
        found.append(_Line(line, (len(heading[1]), heading[2]) if heading else None, footers[number]))
    return found


def _same(text: str) -> str:
    """What two gaps that say the same share: case, spaces and the end of the sentence don't count."""
    return " ".join(text.casefold().split()).rstrip(".!;: ")


def _day(ts: Any) -> str | None:
    return str(ts)[:10] if isinstance(ts, str) and re.match(r"\d{4}-\d\d-\d\d", ts) else None
