"""A draft: a Markdown file with frontmatter under `state/log/<skill>/`, and the path by which rows speak of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from harness.errors import USAGE, HarnessError
from harness.taste.shape import body_of

STATE: Final = "state/"
NAME: Final = re.compile(r"\d{8}T\d{6}Z-[0-9a-z]{4,26}-draft\.md")
MAX_TITLE: Final = 200


class BadPath(HarnessError):
    """The path of a draft is not in the form that approvals use."""

    exit_code = USAGE


@dataclass(frozen=True)
class Draft:
    """One draft. ``path`` is relative to `state/` (as rows have it), ``file`` to the workspace; ``text`` is the whole file."""

    path: str
    source_skill: str
    text: str
    sha256: str

    @property
    def file(self) -> str:
        """The path in the workspace."""
        return STATE + self.path

    @property
    def title(self) -> str:
        """A line to know it by: the frontmatter's title, a Subject, a heading, or the first line."""
        front = re.match(r"\ufeff?---[ \t]*\r?\n(.*?)\n---", self.text, re.S)
        named = re.search(r"^title:[ \t]*(.+)$", front[1], re.M) if front else None
        body = body_of(self.text)
        subject = re.search(r"^subject[ \t]*:[ \t]*(.+)$", body[:400], re.I | re.M)
        first = next((line for line in body.splitlines() if line.strip()), "")
        found = named[1].strip("'\" ") if named else subject[1] if subject else first.lstrip("# ")
        return " ".join(found.split())[:MAX_TITLE]


def file_of(path: str) -> str:
    """The file in the workspace for a row's ``path``; raises BadPath with the right form."""
    right = path
    for start in ("./", STATE, "/"):
        right = right.removeprefix(start)
    if path.startswith("/") or "\\" in path or re.match(r"[A-Za-z]:", path):
        form = right[right.find("log/") :] if "log/" in right else "log/SKILL/NAME-draft.md"
        raise BadPath(f"{path!r} is no path of a draft", "it is absolute", f"give it relative to state/: {form}")
    if path.startswith((STATE, "./")):
        raise BadPath(f"{path!r} is no path of a draft", "paths are relative to state/", f"write {right}")
    parts = PurePosixPath(path).parts
    if ".." in parts or not path.startswith("log/") or len(parts) != 3:
        raise BadPath(
            f"{path!r} is no path of a draft", "it is not a file of log/SKILL/", "write log/SKILL/NAME-draft.md"
        )
    return STATE + path


def draft_name(utc: str, short: str) -> str:
    """The file name of a new draft: `20261201T093000Z-7k3f-draft.md`."""
    return f"{utc}-{short}-draft.md"
