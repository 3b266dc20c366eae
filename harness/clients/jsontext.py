"""Change a JSON text in a few places and keep every other byte: where values lie, and how to add and cut out one.

Adding and then cutting out again gives the text that was there before, blanks included.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_BLANK = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"[-+.0-9A-Za-z]+")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


@dataclass
class Node:
    """A value of the text: ``text[start:end]``. ``members`` of an object are (key, where the key starts, value)."""

    start: int
    end: int
    kind: str
    members: list[tuple[str, int, Node]] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)

    def member(self, key: str) -> Node | None:
        """The value of ``key``, or None. Raises ValueError when the object has that key twice."""
        found = [node for name, _, node in self.members if name == key]
        if len(found) > 1:
            raise ValueError(f"the key {key!r} is there twice")
        return found[0] if found else None

    def spans(self) -> list[tuple[int, int]]:
        """Where each member or item starts and ends, in order."""
        if self.kind == "object":
            return [(start, node.end) for _, start, node in self.members]
        return [(node.start, node.end) for node in self.items]


def parse(text: str) -> Node:
    """The value that ``text`` holds, with the places of all its parts. Raises ValueError when it is no JSON text."""
    at = _skip(text, 1 if text.startswith("\ufeff") else 0)
    json.loads(text[at:])  # the grammar is the library's business; below only places are noted
    return _value(text, at)


def _skip(text: str, at: int) -> int:
    return _end(_BLANK, text, at)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _value(text: str, at: int) -> Node:
    if text[at] == '"':
        return Node(at, _end(_STRING, text, at), "string")
    if text[at] not in "{[":
        return Node(at, _end(_SCALAR, text, at), "scalar")
    node = Node(at, at, "object" if text[at] == "{" else "array")
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        if node.kind == "object":
            end = _end(_STRING, text, at)
            value = _value(text, _skip(text, _skip(text, end) + 1))
            node.members.append((json.loads(text[at:end]), at, value))
        else:
            value = _value(text, at)
            node.items.append(value)
        at = _skip(text, value.end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    node.end = at + 1
    return node


def value(text: str, node: Node) -> Any:
    """What ``node`` holds."""
    return json.loads(text[node.start : node.end])


def indent_unit(text: str) -> str:
    """The blanks by which ``text`` indents its first member; two when it has none on a line of its own."""
    match = re.search(r"[{\[]\r?\n([ \t]+)\S", text)
    return match[1] if match else "  "


def add(text: str, container: Node, new: Any, key: str | None = None) -> str:
    """``text`` with ``new`` as the last member (under ``key``) or item of ``container``."""
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = indent_unit(text)
    spans = container.spans()
    outer = _line_indent(text, container.start)
    inner = _own_line_indent(text, spans[-1][0]) if spans else None
    inner = outer + unit if inner is None else inner
    lines = json.dumps(new, indent=unit, ensure_ascii=False).split("\n")
    body = (newline + inner).join(lines)
    if key is not None:
        body = f"{json.dumps(key, ensure_ascii=False)}: {body}"
    if spans:
        at = spans[-1][1]
        return f"{text[:at]},{newline}{inner}{body}{text[at:]}"
    at = container.end - 1
    return f"{text[:at]}{newline}{inner}{body}{newline}{outer}{text[at:]}"


def cut(text: str, container: Node, index: int) -> str:
    """``text`` without the member or item number ``index`` of ``container``."""
    spans = container.spans()
    start, end = spans[index]
    if len(spans) == 1:
        before = text[container.start + 1 : start]
        blank = before.rpartition("\n")[0].removesuffix("\r")
        return text[: container.start + 1] + blank + text[container.end - 1 :]
    if index == len(spans) - 1:
        return text[: spans[index - 1][1]] + text[end:]
    return text[:start] + text[spans[index + 1][0] :]


def find(root: Node, path: Sequence[str]) -> Node | None:
    """The value under the keys ``path``, or None. Raises ValueError where a key is there twice or holds no object."""
    node: Node | None = root
    for key in path:
        if node is None:
            return None
        if node.kind != "object":
            raise ValueError(f"{key!r} is looked for in a value that is no object")
        node = node.member(key)
    return node


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at].lstrip("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


def _own_line_indent(text: str, at: int) -> str | None:
    """The blanks before ``at`` when nothing else is before it on its line, else None."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line if "\n" in text[:at] and not line.strip(" \t") else None
