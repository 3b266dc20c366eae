"""Keeping an excerpt of a session in the workspace: clients delete theirs after a while, and `why` should still lead somewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.errors import HarnessError
from harness.flows.export import known_names
from harness.flows.ledgers import excerpt_of
from harness.scrub import scrub
from harness.sessions import reader
from harness.sessions.render import Request, page
from harness.store.commit import Store
from harness.store.tick import ABSENT, Replace, Tick, sha256

MAX_CHARS: Final = 60_000
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")


@dataclass(frozen=True)
class Kept:
    """Where the excerpt lies, the commit (None: it was there already, word for word), and what was taken out by class."""

    path: str
    commit: str | None
    removed: dict[str, int]


def keep(store: Store, file: Path, start: int = 0, end: int = 0) -> Kept:
    """Commit the turns ``start`` to ``end`` of the session in ``file`` as Markdown, without secrets and personal data.

    Keeping again replaces the excerpt; an excerpt that would be the same is not committed again. Raises HarnessError.
    """
    session = reader.read(file)
    if not _NAME.fullmatch(session.id):
        raise HarnessError(f"the session {session.id!r} can't be kept", "its id is no file name", "rename the file")
    if session.head is None:
        raise HarnessError(f"the session {session.id} can't be kept", "it has no turn", "")
    clean = scrub(
        page(session, Request(start=start, end=end, max_chars=MAX_CHARS, format="md", name=session.id)),
        known_names(store),
    )
    path, text = excerpt_of(session.id), clean.text
    old = store.tree.read(path)
    if old is not None and old.decode("utf-8", "replace") == text:
        return Kept(path, None, clean.counts)
    expect = ABSENT if old is None else sha256(old)
    landed = store.commit(
        Tick("import", f"excerpt of session {session.id}", [Replace(path, text, expect)], {"Session": session.id})
    )
    return Kept(path, landed.commit, clean.counts)
