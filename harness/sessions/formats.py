"""How a page is written: text, Markdown, HTML or JSON. Each says its frame, and how one piece stands in it."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from harness.sessions.pieces import Piece

Texts = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Frame:
    """What stands around the pieces: the range of turns, facts and notes about the session, and what comes next."""

    first: int
    last: int
    total: int
    session: str
    client: str
    cwd: str
    notes: tuple[str, ...]
    next: str = ""
    next_turn: int | None = None
    next_item: int | None = None

    @property
    def heading(self) -> str:
        """``turns 37-52 of 120 · session … · client · folder``."""
        parts = [f"turns {self.first}-{self.last} of {self.total}", f"session {self.session}", self.client, self.cwd]
        return " · ".join(p for p in parts if p)


class Format(Protocol):
    """One way of writing."""

    def begin(self, frame: Frame) -> str:
        """What stands before the pieces."""

    def piece(self, piece: Piece, texts: Texts) -> str:
        """One piece with its texts, which are safe and clipped."""

    def between(self) -> str:
        """What stands between two pieces."""

    def end(self, frame: Frame) -> str:
        """What stands behind the pieces."""


def _lines(text: str, indent: str) -> str:
    return "".join(f"{indent}| {line}\n" if line else f"{indent}|\n" for line in text.split("\n"))


class TextFormat:
    """Headings at the margin, everything that was said or printed behind a bar: no text can pass for a heading."""

    def begin(self, frame: Frame) -> str:
        return frame.heading + "\n" + "".join(f"note: {note}\n" for note in frame.notes)

    def piece(self, piece: Piece, texts: Texts) -> str:
        if not piece.depth:
            return f"\n{piece.heading}\n" + "".join(_lines(text, "  ") for _, text in texts if text)
        indent = "  " * piece.depth
        out = f"{indent}- {piece.heading}\n"
        for label, text in texts:
            out += (f"{indent}  {label}:\n" if label else "") + _lines(text, indent + "    ")
        return out

    def between(self) -> str:
        return ""

    def end(self, frame: Frame) -> str:
        return f"\n{frame.next}\n" if frame.next else ""


class MarkdownFormat(TextFormat):
    """Headings for turns, lists for calls, and what was said as indented code, which Markdown leaves as it is."""

    def begin(self, frame: Frame) -> str:
        return f"# {frame.heading}\n" + "".join(f"\n_{note}_\n" for note in frame.notes)

    def piece(self, piece: Piece, texts: Texts) -> str:
        if not piece.depth:
            quoted = "".join(f"\n{_code(text, '')}" for _, text in texts if text)
            return f"\n## {piece.heading}\n{quoted}"
        indent = "  " * (piece.depth - 1)
        out = f"\n{indent}- **{piece.heading}**\n"
        for label, text in texts:
            out += (f"\n{indent}  {label}\n" if label else "") + f"\n{_code(text, indent + '  ')}"
        return out

    def end(self, frame: Frame) -> str:
        return f"\n---\n\n_{frame.next}_\n" if frame.next else ""


def _code(text: str, indent: str) -> str:
    return "".join(f"{indent}    {line}\n" for line in text.split("\n"))


_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:50em;margin:auto;padding:1em}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#8881;padding:.5em}"
    "h2{font-size:1em;margin:1.5em 0 0}.c{margin-left:1em}.f{color:#c33}"
)


class HtmlFormat:
    """One file, no script, readable on a phone, light and dark."""

    def begin(self, frame: Frame) -> str:
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in frame.notes)
        return (
            '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>{html.escape(frame.session)}</title><style>{_STYLE}</style><h1>{html.escape(frame.heading)}</h1>{notes}\n"
        )

    def piece(self, piece: Piece, texts: Texts) -> str:
        said = "".join(f"{html.escape(label)}<pre>{html.escape(text)}</pre>" for label, text in texts if text)
        if not piece.depth:
            return f"<h2>{html.escape(piece.heading)}</h2>{said}\n"
        failed = " f" if piece.ok is False else ""
        return f'<div class="c{failed}" style="margin-left:{piece.depth}em">{html.escape(piece.heading)}{said}</div>\n'

    def between(self) -> str:
        return ""

    def end(self, frame: Frame) -> str:
        return f"<p><b>{html.escape(frame.next)}</b></p>\n" if frame.next else ""


class JsonFormat:
    """One strict JSON document; ``next`` says where to go on, or is null."""

    def begin(self, frame: Frame) -> str:
        facts = {
            "turns": [frame.first, frame.last], "of": frame.total, "session": frame.session, "client": frame.client, "cwd": frame.cwd,
            "notes": list(frame.notes),
        }  # fmt: skip
        return json.dumps(facts, ensure_ascii=False)[:-1] + ', "pieces": [\n'

    def piece(self, piece: Piece, texts: Texts) -> str:
        facts = {
            "turn": piece.number,
            "depth": piece.depth,
            "kind": piece.kind,
            "heading": piece.heading,
            "node": piece.node,
        }
        said = {label or "text": text for label, text in texts}
        return json.dumps({**facts, **({"ok": piece.ok} if piece.kind == "call" else {}), **said}, ensure_ascii=False)

    def between(self) -> str:
        return ",\n"

    def end(self, frame: Frame) -> str:
        more = (
            None
            if frame.next_turn is None
            else {"turn": frame.next_turn, "item": frame.next_item, "command": frame.next}
        )
        return '\n], "next": ' + json.dumps(more, ensure_ascii=False) + "}\n"


FORMATS: Final[dict[str, Format]] = {
    "text": TextFormat(),
    "md": MarkdownFormat(),
    "html": HtmlFormat(),
    "json": JsonFormat(),
}
