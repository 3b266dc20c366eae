"""Finding sessions and choosing their reader: one small protocol, one module a client."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from harness.errors import HarnessError
from harness.sessions.graph import KEEP, Session
from harness.sessions.lines import NotATranscript, parse, refuse_binary

_SNIFF_LINES: Final = 40
_HUGE: Final = 1024 * 1024
_DOCUMENT_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True)
class Found:
    """A session on disk: its id, its client, its file, and when that was last written (seconds since 1970)."""

    id: str
    client: str
    path: Path
    mtime: float
    size: int


class Reader(Protocol):
    """What a client's module offers."""

    CLIENT: str

    def roots(self, env: Mapping[str, str]) -> list[Path]:
        """The folders in which the client keeps sessions; they need not exist."""

    def sessions(self, root: Path) -> Iterator[Path]:
        """The files below ``root`` that are sessions."""

    def fits(self, data: Mapping[str, Any]) -> bool:
        """Whether ``data`` is a record of this client."""

    def is_record(self, data: dict[str, Any]) -> bool:
        """Whether ``data``, found inside a broken line, is a record of its own rather than a part of one."""

    def read(self, path: Path, keep: int) -> Session:
        """The session in ``path``. Raises NotATranscript and OSError."""


class NoSession(HarnessError):
    """No session of that name was found."""


CLIENTS: Final = ("claude_code", "codex", "gemini", "generic")


def reader(client: str) -> Reader:
    """The reader of a client."""
    module: Any = importlib.import_module(f"harness.sessions.{client}")
    return module  # type: ignore[no-any-return]


def read(path: Path, keep: int = KEEP) -> Session:
    """The session in ``path``, by the reader whose records it holds. Raises NotATranscript, and OSError."""
    with no_collection():
        return reader(client_of(path)).read(path, keep)


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """No garbage collection meanwhile: reading makes many objects and no cycles, and looking for some takes a third of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def client_of(path: Path) -> str:
    """Which client wrote ``path``: by its first records, never by its name. An empty file counts as the generic form."""
    with open(path, "rb") as file:
        head = file.read(16)
        refuse_binary(path, head)
        file.seek(0)
        seen = 0
        for _ in range(_SNIFF_LINES):
            line = file.readline()
            if not line:
                break
            if len(line) > _HUGE and _ends_like_claude_code(line):
                return "claude_code"
            for data, whole in _objects(line):
                seen += 1
                for client in CLIENTS if whole else CLIENTS[:-1]:
                    if reader(client).is_record(data) or (whole and reader(client).fits(data)):
                        return client
    if not head.strip() or seen:
        return "generic" if not head.strip() else _unknown(path)
    return _document(path)


def _ends_like_claude_code(line: bytes) -> bool:
    """Whether a line that is too long to be read twice has Claude Code's keys where it begins or ends."""
    ends = line[:2048] + line[-2048:]
    return b'"parentUuid"' in ends or (b'"uuid"' in ends and b'"sessionId"' in ends)


def _objects(line: bytes) -> Iterator[tuple[dict[str, Any], bool]]:
    """The first objects of a line, and whether each begins it rather than stands somewhere inside."""
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(value := parse(line), dict):
            yield value, True
        return
    text = line.replace(b"\0", b"").decode("utf-8-sig", "replace").strip()
    at = text.find("{")
    for _ in range(8):
        if at < 0:
            return
        begin = at
        try:
            value, at = json.JSONDecoder(strict=False).raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find('{"', at + 1)
            continue
        if isinstance(value, dict):
            yield value, begin == 0
        at = text.find("{", at)


def _document(path: Path) -> str:
    """A whole file that is one JSON document rather than lines of them."""
    if path.stat().st_size <= _DOCUMENT_BYTES:
        try:
            value = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            return _unknown(path)
        if isinstance(value, dict) and reader("gemini").fits(value):
            return "gemini"
        raise NotATranscript(f"{path} can't be read as a session", "it is one JSON document, not JSON lines", "")
    return _unknown(path)


def _unknown(path: Path) -> str:
    raise NotATranscript(
        f"{path} can't be read as a session",
        "none of its first lines is a record of a known client",
        "name another file",
    )


def find_all(env: Mapping[str, str]) -> tuple[list[Found], list[tuple[Path, str]]]:
    """Every session on this machine, newest first, and the folders that were looked at with what was found there."""
    found: list[Found] = []
    places: list[tuple[Path, str]] = []
    for client in CLIENTS:
        module = reader(client)
        for root in module.roots(env):
            try:
                os.scandir(root).close()
            except FileNotFoundError:
                places.append((root, "no such folder"))
                continue
            except OSError as error:
                places.append((root, error.strerror or str(error)))
                continue
            count = 0
            for path in module.sessions(root):
                try:
                    stat = path.stat()
                except OSError:
                    continue
                count += 1
                found.append(Found(path.stem, client, path, stat.st_mtime, stat.st_size))
            places.append((root, f"{count} session{'' if count == 1 else 's'}"))
    found.sort(key=lambda one: (-one.mtime, str(one.path)))
    return found, places


def is_file(path: Path) -> bool:
    """Whether ``path`` is a file; a name that can't be one is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def locate(name: str, env: Mapping[str, str]) -> Path:
    """The file of the session ``name``: a path, an id, or the beginning of one. Raises NoSession, which says where it looked."""
    path = Path(name)
    if is_file(path):
        return path
    found, places = find_all(env)
    matches = [one for one in found if one.id == name] or [one for one in found if len(name) >= 4 and name in one.id]
    if len(matches) == 1 or (matches and len({m.id for m in matches}) == 1):
        return matches[0].path
    if matches:
        raise NoSession(
            f"{name!r} stands for {len(matches)} sessions", ", ".join(m.id for m in matches[:5]), "give more of the id"
        )
    looked = "; ".join(f"{root}: {what}" for root, what in places)
    raise NoSession(f"no session {name!r}", f"looked in {looked}", "see `harness sessions list --all`")


def gone(env: Mapping[str, str]) -> list[str]:
    """Sessions that an index of a client names and that are not there any more."""
    from harness.sessions import claude_code

    return [name for root in claude_code.roots(env) for name in claude_code.gone(root)]
