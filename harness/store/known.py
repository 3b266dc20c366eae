"""The ids and hashes that a history has had so far: to say of the next one whether it is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Final

_HASH: Final = 16  # bytes
_ID: Final = 26  # characters of a ULID


class Known:
    """Ids of rows are kept as they are where they have the usual length, everything else as a hash of 16 bytes.

    ``data`` is what ``dump`` gave, of which the first ``hashes`` are hashes.
    """

    def __init__(self, data: bytes = b"", hashes: int = 0) -> None:
        self._hashes = {data[at : at + _HASH] for at in range(0, hashes * _HASH, _HASH)}
        self._order = bytearray(data[hashes * _HASH :])  # the ids one after the other, in the order in which they came
        self._ids = self._in_order()
        self._doubled = False

    @staticmethod
    def is_whole(data: bytes, hashes: Any) -> bool:
        """Whether ``data`` can be what ``dump`` gave."""
        return isinstance(hashes, int) and 0 <= hashes * _HASH <= len(data) and (len(data) - hashes * _HASH) % _ID == 0

    def add(self, what: str, name: str) -> bool:
        """Note ``name``; False when it was there already."""
        if self.has(what, name):
            return False
        if _usual(what, name):
            self._ids.add(name)
            self._order += name.encode()
        else:
            self._hashes.add(_digest(what, name))
        return True

    def add_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Note the ids of ``rows`` and return those that were there already, or stand twice."""
        try:
            names = list(map(itemgetter("id"), rows))
        except KeyError:
            names = [row.get("id") for row in rows]
        if set(map(type, names)) != {str}:
            names = [name for name in names if isinstance(name, str)]
        if not self._doubled and set(map(len, names)) == {_ID} and all(map(str.isascii, names)):
            size = len(self._ids)
            self._ids.update(names)
            if len(self._ids) == size + len(names):
                self._order += "".join(names).encode()
                return []
            # One of them was there. It is rare: make the set anew as it was, and from now on look at each by itself.
            self._doubled, self._ids = True, self._in_order()
        return [name for name in names if not self.add("row ", name)]

    def has(self, what: str, name: str) -> bool:
        """Whether ``name`` was noted."""
        return name in self._ids if _usual(what, name) else _digest(what, name) in self._hashes

    @property
    def hashes(self) -> int:
        """How many hashes stand at the beginning of what ``dump`` gives."""
        return len(self._hashes)

    def dump(self) -> bytes:
        """All of it, for the next run."""
        return b"".join(self._hashes) + self._order

    def _in_order(self) -> set[str]:
        ids = self._order.decode("ascii", "replace")
        return {ids[at : at + _ID] for at in range(0, len(ids), _ID)}


def _usual(what: str, name: str) -> bool:
    return what == "row " and len(name) == _ID and name.isascii()


def _digest(what: str, name: str) -> bytes:
    return blake2b(f"{what}{name}".encode("utf-8", "surrogatepass"), digest_size=_HASH).digest()
