"""What an edit promised, held against later outputs. Pure, but for a command that a person has approved with the edit."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

MAX_OUTPUT: Final = 200_000
COMMAND_SECONDS: Final = 20
RUNS: Final = 20
"""Uses of a skill after which a lesson that nothing speaks for is offered for removal."""

State = Literal["not tried yet", "held", "made it worse", "unproven"]


@dataclass(frozen=True)
class Checked:
    """One check of one output: what was looked for, and whether the promise was kept."""

    check: str
    held: bool


def check(expected: Mapping[str, Any], output: str, cwd: str) -> list[Checked]:
    """Hold ``expected`` (see the schema `proposals`) against an output. Words count as whole words, in any case."""
    output = output[:MAX_OUTPUT]
    found = []
    for name, wanted in (("absent", False), ("present", True)):
        words = expected.get(name) or []
        if words:
            there = [word for word in words if holds(output, word)]
            kept = (len(there) == len(words)) if wanted else not there
            found.append(Checked(f"{name}: {', '.join(words)}"[:500], kept))
    if command := expected.get("command"):
        found.append(Checked(f"command: {' '.join(command)}"[:500], _passes(command, output, cwd)))
    return found


def holds(text: str, word: str) -> bool:
    """Whether ``text`` has ``word``, not as a part of a longer one."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.I) is not None


def _passes(command: Sequence[str], output: str, cwd: str) -> bool:
    try:
        done = subprocess.run(
            list(command), input=output.encode("utf-8", "replace"), cwd=cwd, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=COMMAND_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def state(held: Sequence[bool], runs: int) -> State:
    """What is known of a lesson: ``held`` are its checks in order, ``runs`` the uses of the skill since it was applied.

    It made things worse when its last two checks both failed, or more than half of all; it is unproven when RUNS uses have
    passed without a check that it held.
    """
    if len(held) >= 2 and (not any(held[-2:]) or sum(held) * 2 < len(held)):
        return "made it worse"
    if any(held):
        return "held"
    return "unproven" if runs >= RUNS else "not tried yet"
