"""What a commit's message says of itself, read as strictly as the store writes it: text from outside can't pass for a trailer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.store.tick import KINDS

_TICK_ID: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_CLAIM: Final = re.compile(r"(Tick|Kind)\s*:", re.IGNORECASE)
_TRAILER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*: ")


@dataclass(frozen=True)
class Claim:
    """What a commit's message says of itself: the id and kind of its tick (None: it is no tick), its trailers, and what is
    wrong with that."""

    tick: str | None
    kind: str | None
    trailers: dict[str, str]
    problems: Sequence[str]


def claim(message: str) -> Claim:
    """Read the trailers of ``message`` as strictly as the store writes them."""
    lines = message.split("\n")
    found = [m[1].capitalize() for line in lines if (m := _CLAIM.match(line))]
    if not found:
        return Claim(None, None, {}, ())
    block = message.strip("\n").rpartition("\n\n")[2].split("\n")
    trailers: dict[str, str] = {}
    for line in block if all(_TRAILER.match(f"{line} ") for line in block) else ():
        key, _, value = line.partition(":")
        trailers.setdefault(key, value.strip())
    problems = [f"{key} stands {count} times" for key, count in Counter(found).items() if count > 1]
    problems += [f"it has no {key}" for key in ("Tick", "Kind") if key not in found]
    problems += [f"{key} is no trailer, but stands in the text" for key in dict.fromkeys(found) if key not in trailers]
    tick, kind = trailers.get("Tick"), trailers.get("Kind")
    if tick is not None and not _TICK_ID.fullmatch(tick):
        problems.append(f"{tick[:60]!r} is no id of a tick")
    if kind is not None and kind not in KINDS:
        problems.append(f"{kind[:60]!r} is no kind of tick")
    elif kind and not message.startswith((f"{kind}: ", f"{kind}(")):
        problems.append(f"Kind says {kind}, the subject says {lines[0][:60]!r}")
    if len(problems) == 0 or (tick and kind in KINDS and len(set(found)) == len(found)):
        return Claim(tick, kind, trailers, problems)
    return Claim(None, None, trailers, problems)
