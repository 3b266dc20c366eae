"""JSON lines as clients leave them: joined, torn, padded, half written. Every byte is a record or stands in the account.

A line is decoded whole when it can be. When it can't, it is mended (raw control characters, broken escapes, bad UTF-8), and
else searched: decoded again from where the last record ended, and behind a fragment from the next place where a record of
this client begins. The search is bounded by the length of the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from harness.errors import HarnessError
from harness.sessions.account import Account, Dropped

try:
    from orjson import loads as _orjson
except ImportError:  # the extra `fast`; without it reading takes about twice as long
    parse: Callable[[bytes], Any] = json.loads
else:
    parse = _orjson

IsRecord = Callable[[dict[str, Any]], bool]
_DECODER: Final = json.JSONDecoder(strict=False)
_ESCAPE: Final = re.compile(r"\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4}|(.?))", re.S)
_STRETCH: Final = 2048
_EFFORT: Final = 32  # a search reads a line at most so many times over
_BINARY: Final = (
    (b"\x1f\x8b", "it is compressed (gzip)"),
    (b"\x28\xb5\x2f\xfd", "it is compressed (zstd)"),
    (b"PK\x03\x04", "it is a zip archive"),
    (b"SQLite format 3", "it is a SQLite database"),
)


class NotATranscript(HarnessError):
    """A file that holds no session in a form that is known."""


class Record(NamedTuple):
    """One object of a transcript: its line (from 1) and whether it had to be mended to be read."""

    line: int
    data: dict[str, Any]
    mended: bool = False


def refuse_binary(path: Path, head: bytes) -> None:
    """Raises NotATranscript for what the first bytes of ``path`` show to be no text of one byte a letter."""
    why = next((why for mark, why in _BINARY if head.startswith(mark)), "")
    halves = (head[::2], head[1::2])
    two_bytes = len(head) >= 8 and any(not any(a) and all(b) for a, b in (halves, halves[::-1]))
    if two_bytes or head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        why = "it looks like UTF-16"
    if why:
        raise NotATranscript(f"{path} can't be read as a session", why, "unpack or convert it to UTF-8 first")


def records(path: Path, is_record: IsRecord, account: Account) -> Iterator[Record]:
    """The records of ``path`` in order, one line in memory at a time; ``account`` is filled meanwhile.

    ``is_record`` says whether an object found inside a broken line is a record of this client or a part of one.
    """
    with open(path, "rb") as file:
        refuse_binary(path, file.read(16))
        file.seek(0)
        yield from _read(file, is_record, account)


def _read(file: BinaryIO, is_record: IsRecord, account: Account) -> Iterator[Record]:
    for number, raw in enumerate(file, 1):
        line = raw.strip(b" \t\r\n")
        if number == 1 and line.startswith(b"\xef\xbb\xbf"):
            line = line[3:].strip(b" \t\r\n")
        if not line:
            continue
        account.lines += 1
        try:
            value = parse(line)
        except (ValueError, RecursionError):
            yield from _broken(number, line, not raw.endswith(b"\n"), is_record, account)
            continue
        if isinstance(value, dict):
            account.records += 1
            yield Record(number, value)
        else:
            account.dropped.append(Dropped(number, len(line), "JSON, but no object"))


def _broken(number: int, line: bytes, last: bool, is_record: IsRecord, account: Account) -> Iterator[Record]:
    """The records of a line that is not one valid object."""
    data = line.replace(b"\0", b"")
    if not data.strip():
        account.dropped.append(Dropped(number, len(line), "padding"))
        return
    padded = len(data) != len(line)
    text = data.decode("utf-8", "surrogateescape")
    bad_bytes = any("\udc80" <= c <= "\udcff" for c in text) if not text.isascii() else False
    if bad_bytes:
        text = data.decode("utf-8", "replace")
    how = "padding taken out" if padded else "bad UTF-8 replaced" if bad_bytes else ""
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        account.dropped.append(Dropped(number, len(line), "nested too deep"))
        return
    except ValueError:
        value = None
    else:
        # Valid but for what `orjson` alone refuses (a lone surrogate, NaN) counts as whole.
        if isinstance(value, dict):
            account.records += 1
            how = how or ("control characters kept" if not _strictly(text) else "")
            if how:
                account.recovered.append((number, how))
            yield Record(number, value, mended=bool(how) and not padded)
        else:
            account.dropped.append(Dropped(number, len(line), "JSON, but no object"))
        return
    yield from _search(number, text, last, is_record, account)


def _strictly(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _search(number: int, text: str, last: bool, is_record: IsRecord, account: Account) -> Iterator[Record]:
    """Decode again and again: records side by side, and whole ones behind a fragment."""
    at, fragment, effort = 0, 0, _EFFORT * len(text) + 4096
    found = 0
    while at < len(text):
        try:
            value, end, cost = _value_at(text, at)
        except RecursionError:
            break
        effort -= cost
        behind = fragment < at  # what stands before is a fragment, and this may be a part of it
        if isinstance(value, dict) and (not behind or is_record(value)):
            if behind:
                account.dropped.append(Dropped(number, _size(text[fragment:at]), "cut off before its end"))
            account.records += 1
            account.recovered.append((number, "behind a fragment" if behind else "one of several on the line"))
            found += 1
            yield Record(number, value)
            at = fragment = _space(text, end)
            continue
        if effort <= 0:
            break
        at = text.find('{"', at + 1 if value is None or not isinstance(value, dict) else end)
        if at < 0:
            break
    rest = text[fragment:]
    if not rest.strip():
        return
    if not found and (mended := _mended(rest)) is not None:
        account.records += 1
        account.recovered.append((number, "broken escapes kept as they stand"))
        yield Record(number, mended, mended=True)
        return
    lost = Dropped(
        number, _size(rest), "cut off before its end" if rest.lstrip().startswith(("{", "[", '"')) else "no JSON"
    )
    if last and rest.lstrip().startswith("{"):
        account.incomplete = Dropped(number, lost.bytes, "last line incomplete")
    else:
        account.dropped.append(lost)


def _value_at(text: str, at: int) -> tuple[Any, int, int]:
    """The JSON value that begins at ``at`` (None when there is none), its end, and how many characters were read.

    Tried on a stretch that grows while the value runs over its end: the decoder's errors cost as much as the text before them.
    """
    size, cost = _STRETCH, 0
    while True:
        stretch = text[at : at + size]
        cost += len(stretch)
        try:
            value, end = _DECODER.raw_decode(stretch)
            return value, at + end, cost
        except json.JSONDecodeError as error:
            open_end = error.msg.startswith("Unterminated string") or error.pos >= len(stretch) - 16
            if not open_end or at + size >= len(text):
                return None, at, cost
        except ValueError:  # a number beyond what Python converts
            return None, at, cost
        size *= 8


def _mended(text: str) -> dict[str, Any] | None:
    """The object that ``text`` is once backslashes that begin no escape stand for themselves."""
    fixed = _ESCAPE.sub(lambda m: m[0] if m[1] is None else "\\\\" + m[1], text)
    if fixed == text:
        return None
    try:
        value = _DECODER.decode(fixed)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
