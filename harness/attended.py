"""Is a person at this terminal? What runs under an agent's client is the agent, whatever it says of itself.

Looked at: the variables that clients set for what they start, in this process and in each process above it, and the
programs above it. A process that has cut itself off from its client (new session, parent gone, clean environment, a
terminal of its own making) isn't recognised: the same user can always do that, and THREATS.md says so.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.errors import NEEDS_PERSON, HarnessError

# variable -> client; each is set by that client for the commands it runs, by HARNESS_LINEAGE for the models we start
MARKS: Final[Mapping[str, str]] = {
    "CLAUDECODE": "Claude Code",
    "CLAUDE_CODE_CHILD_SESSION": "Claude Code",
    "CODEX_SANDBOX": "Codex",
    "CODEX_SANDBOX_NETWORK_DISABLED": "Codex",
    "CODEX_THREAD_ID": "Codex",
    "GEMINI_CLI": "Gemini CLI",
    "GEMINI_SESSION_ID": "Gemini CLI",
    "HARNESS_LINEAGE": "a model that harness started",
}
_PROGRAMS: Final[Mapping[str, str]] = {"claude": "Claude Code", "codex": "Codex", "gemini": "Gemini CLI"}
_PACKAGES: Final = re.compile(r"@(anthropic-ai/claude-code|openai/codex|google/gemini-cli)(?:/|@|$)")
_PACKAGE_NAMES: Final[Mapping[str, str]] = {
    "anthropic-ai/claude-code": "Claude Code", "openai/codex": "Codex", "google/gemini-cli": "Gemini CLI",
}  # fmt: skip
_INTERPRETERS: Final = frozenset({"node", "bun", "deno", "nodejs", "sh", "bash", "env"})
_MAX_DEPTH: Final = 64


class NeedsPerson(HarnessError):
    """Only a person may do this, from a terminal of their own."""

    exit_code = NEEDS_PERSON


@dataclass(frozen=True)
class Process:
    """One process: its id, its parent's, its arguments and, where the system shows it, the environment it began with."""

    pid: int
    parent: int
    args: tuple[str, ...]
    env: Mapping[str, str]


def require_person(what: str) -> None:
    """Return when standard input is a terminal that isn't under a client; raise NeedsPerson otherwise.

    ``what`` is what only a person may do, as the beginning of a sentence ("deciding on a draft").
    """
    if client := client_ancestor():
        raise NeedsPerson(
            f"{what} is for a person", f"this command runs under {client}", "run it in a terminal of your own"
        )
    if not has_terminal():
        raise NeedsPerson(
            f"{what} is for a person", "standard input is no terminal", "run it in a terminal of your own"
        )


def has_terminal() -> bool:
    """Whether standard input is this process's controlling terminal: not a pipe, and not a terminal of others."""
    try:
        if not os.isatty(0):
            return False
        handle = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    os.close(handle)
    return True


def client_ancestor() -> str | None:
    """The client that this process runs under, by the name people know it by; None when there is no sign of one."""
    if found := _marked(os.environ):
        return found
    for process in ancestors():
        if found := _marked(process.env) or _program(process.args):
            return found
    return None


def _marked(env: Mapping[str, str]) -> str | None:
    return next((client for name, client in MARKS.items() if env.get(name)), None)


def _program(args: tuple[str, ...]) -> str | None:
    """The client whose program these arguments start: by its own name, or as a script that an interpreter runs."""
    if not args:
        return None
    name = _name(args[0])
    words = args[1:6] if name in _INTERPRETERS or name.startswith("node") else ()
    for word in (args[0], *(w for w in words if not w.startswith("-"))):
        if package := _PACKAGES.search(word.replace("\\", "/")):
            return _PACKAGE_NAMES[package[1]]
        if known := _PROGRAMS.get(_name(word)):
            return known
        if word is not args[0]:
            break  # what comes behind the script is its input: `node tool.js claude` is no client
    return None


def _name(word: str) -> str:
    return os.path.basename(word).lower().removesuffix(".exe").removesuffix(".js").lstrip("-")


def ancestors() -> Iterator[Process]:
    """The processes above this one, the nearest first, as far as the system shows them."""
    look = _from_proc if Path("/proc/self/stat").exists() else _from_ps
    pid, seen = os.getpid(), set[int]()
    for _ in range(_MAX_DEPTH):
        found = look(pid)
        if found is None:
            return
        if seen:
            yield found
        seen.add(pid)
        if found.parent <= 0 or found.parent in seen:
            return
        pid = found.parent


def _from_proc(pid: int) -> Process | None:
    folder = f"/proc/{pid}"
    try:
        with open(f"{folder}/stat", "rb") as file:
            # The name in brackets may hold anything, brackets and spaces too; what counts comes behind the last one.
            parent = int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None
    args = tuple(part.decode("utf-8", "replace") for part in _bytes(f"{folder}/cmdline").split(b"\0") if part)
    pairs = (part.decode("utf-8", "replace").partition("=") for part in _bytes(f"{folder}/environ").split(b"\0"))
    return Process(pid, parent, args, {name: value for name, _, value in pairs if name in MARKS})


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""  # a process of another user, or one that has just ended


def _from_ps(pid: int) -> Process | None:
    command = ["ps", "-ww", "-o", "ppid=", "-o", "args=", "-p", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    parent, _, args = done.stdout.strip().partition(" ")
    return Process(pid, int(parent), tuple(args.split()), {}) if parent.isdigit() else None
