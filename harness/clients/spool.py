"""Take events out of the spool: whole, once, and none lost when the taker dies in the middle.

A raw payload lies in a file ``<ppid>.<pid>`` that ``sh`` has appended to, unread; a note of ours in ``n-<ulid>.json``.
A file that is finished is renamed into ``taken/`` before it is read, and deleted by :meth:`Taken.done`, after the
caller's commit. What was taken and never done is given again by the next take, with the same ``key``.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.clients.serve import valid
from harness.ids import ulid

CLIP = 20_000
"""Characters that a string of a tool's response keeps; the middle of a longer one is cut and the cut counted."""

WAIT_SECONDS = 0.1
ABANDONED_SECONDS = 60.0
"""A file not written to for so long is finished even if its pid lives: the writers' own deadline is 5 seconds."""

BAD_FILES = 100
BAD_BYTES = 64 * 1024
SEEN_KEYS = 5_000
_SPACE = " \t\r\n\ufeff"


@dataclass(frozen=True)
class Event:
    """One event. ``kind`` is the client's event name, or ``skill`` / ``stop`` for a note of ours.

    ``key`` is the same for each delivery of one event (settings and plugin both registered, a take that was cut off),
    ``source`` is the name of its file.
    """

    kind: str
    payload: dict[str, Any]
    key: str
    source: str


@dataclass(frozen=True)
class Bad:
    """Bytes that are no event: what could not be read, why, and the file's name. ``data`` has 64 KiB at most."""

    data: bytes
    reason: str
    key: str
    source: str


def take(spool: Path) -> Taken:
    """Take every finished file out of ``spool``; iterate the result for the events, then call its ``done()``."""
    return Taken(spool)


class Taken:
    """The events of one take, oldest first, and the end of it."""

    def __init__(self, spool: Path) -> None:
        self.spool = spool
        self._taken = spool / "taken"
        self._seen = spool.parent / "spool.seen"
        self._sizes: dict[Path, int] = {}
        self._bad: set[Path] = set()
        self._keys: list[str] = []

    def __iter__(self) -> Iterator[Event | Bad]:
        """Yield what the files hold, each event once: a second delivery is recognised and dropped."""
        self._sizes, self._bad, self._keys = {}, set(), []
        if not self.spool.is_dir():
            return
        self._taken.mkdir(mode=0o700, exist_ok=True)
        self._collect()
        known = set(_lines(self._seen))
        for path in sorted(self._taken.iterdir(), key=_age):
            try:
                data = path.read_bytes()
            except OSError as error:
                # Left where it is: what can't be read this moment is given by a later take.
                yield Bad(b"", f"can't be read: {error.strerror}", f"bad:{path.name}", path.name)
                continue
            self._sizes[path] = len(data)
            for item in read(data, path.name, _age(path)[0]):
                if isinstance(item, Bad):
                    self._bad.add(path)
                elif item.key in known:
                    continue
                else:
                    known.add(item.key)
                    self._keys.append(item.key)
                yield item

    def _collect(self) -> None:
        """Rename the finished files into ``taken/``; one that is still being written stays for the next take."""
        until = time.monotonic() + WAIT_SECONDS
        waiting = sorted((p for p in self.spool.iterdir() if p.is_file() and not p.is_symlink()), key=_age)
        while waiting:
            left = []
            for path in waiting:
                if not finished(path):
                    left.append(path)
                    continue
                target = self._taken / path.name
                if target.exists():  # left by a take that was cut off, and the pid has been used again since
                    target = self._taken / f"{path.name}.{ulid()}"
                try:
                    path.rename(target)
                except FileNotFoundError:
                    continue  # another taker was faster
            waiting = left
            if not waiting or time.monotonic() >= until:
                return
            time.sleep(0.005)

    def done(self) -> None:
        """Forget what was taken. To be called when the rows made from it are committed."""
        if not self._sizes:
            return
        lines = [*_lines(self._seen), *self._keys][-SEEN_KEYS:]
        temporary = self._seen.with_suffix(".tmp")
        temporary.write_text("".join(line + "\n" for line in lines), "utf-8")
        temporary.replace(self._seen)
        for path, size in self._sizes.items():
            try:
                if path in self._bad:
                    self._keep(path)
                elif path.stat().st_size <= size:  # else a reused pid has just appended: the next take reads it again
                    path.unlink()
            except FileNotFoundError:
                continue
        self._sizes = {}

    def _keep(self, path: Path) -> None:
        """Keep an unreadable file in ``bad/``, its first 64 KiB and the newest 100 files at most."""
        bad = self.spool / "bad"
        bad.mkdir(mode=0o700, exist_ok=True)
        kept = path.rename(bad / f"{ulid()}.{path.name}")
        if kept.stat().st_size > BAD_BYTES:
            os.truncate(kept, BAD_BYTES)
        for old in sorted(bad.iterdir())[:-BAD_FILES]:
            old.unlink(missing_ok=True)


def finished(path: Path) -> bool:
    """Whether nobody writes ``path`` any more: a note is whole by its name, a payload when its writer is gone.

    The pid in the name may be in use again by a stranger, so a file that holds nothing but whole objects, or that has
    not grown for a minute, counts as finished too.
    """
    if path.name.startswith("n-"):
        return True
    try:
        idle = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return False
    if idle > ABANDONED_SECONDS:
        return True
    pid = path.name.rpartition(".")[2]
    if not pid.isdecimal():
        return False  # a note on its way to its name
    if not alive(int(pid)):
        return True
    try:
        items = list(read(path.read_bytes(), path.name))
    except FileNotFoundError:
        return False
    return bool(items) and not any(isinstance(item, Bad) for item in items)


def alive(pid: int) -> bool:
    """Whether a process runs under ``pid``; one that is dead and waits for its parent (a zombie) doesn't."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return True  # no /proc here (macOS): the age of the file decides
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def read(data: bytes, source: str, written: int = 0) -> Iterator[Event | Bad]:
    """What a spool file holds: JSON objects, one after the other, then perhaps a rest that is none.

    Bad UTF-8 and lone surrogates are replaced, byte order marks skipped, long strings of a tool's response clipped.
    ``written`` (nanoseconds) tells two files of one name apart, as reused pids make them.
    """
    text = data.decode("utf-8", "replace")
    decoder = json.JSONDecoder(strict=False)
    at, number = 0, 0
    while True:
        while at < len(text) and text[at] in _SPACE:
            at += 1
        if at >= len(text):
            return
        try:
            value, end = decoder.raw_decode(text, at)
            if not isinstance(value, dict):
                raise ValueError(f"a {type(value).__name__}, not an object")
        except (ValueError, RecursionError) as error:
            rest = text[at:].encode("utf-8")
            digest = hashlib.sha256(rest).hexdigest()
            reason = f"{len(rest)} bytes are no event: {str(error) or type(error).__name__}"
            yield Bad(rest[:BAD_BYTES], reason, f"bad:{digest}", source)
            return
        at, number = end, number + 1
        yield _event(valid(value), source, f"{source}:{written}:{number}")


def _event(payload: dict[str, Any], source: str, place: str) -> Event:
    note = payload.get("harness_note")
    kind = str(note or payload.get("hook_event_name") or "unknown")
    for part in ("tool_response", "error"):
        if part in payload:
            payload[part] = clipped(payload[part])
    return Event(kind, payload, _key(kind, payload, place), source)


def clipped(value: Any) -> Any:
    """The same value with the middle of every string over ``CLIP`` characters cut out, and how much was cut said."""
    if isinstance(value, str) and len(value) > CLIP:
        half = CLIP // 2
        return f"{value[:half]}\n[... {len(value) - CLIP} characters cut ...]\n{value[-half:]}"
    if isinstance(value, list):
        return [clipped(item) for item in value]
    if isinstance(value, dict):
        return {key: clipped(item) for key, item in value.items()}
    return value


def _key(kind: str, payload: dict[str, Any], place: str) -> str:
    """What two deliveries of one event share: session, event, turn and tool call; else its place, which none shares.

    The turn is part of it because tool call ids can come again in a resumed session.
    """
    note = bool(payload.get("harness_note"))
    turn = payload.get("turn") if note else payload.get("prompt_id") or payload.get("turn_id")
    call = payload.get("tool_use_id")
    if not turn and not call:
        return f"{kind}:{place}"
    own = [kind, payload.get("session") if note else payload.get("session_id"), turn, call, payload.get("agent_id")]
    own += [payload.get("name"), payload.get("lines")] if note else []
    return f"{kind}:{hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()[:32]}"


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []


def _age(path: Path) -> tuple[int, str]:
    try:
        return path.stat().st_mtime_ns, path.name
    except FileNotFoundError:
        return 0, path.name
