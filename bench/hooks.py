"""What a hook costs the client, against the interpreter that would start for the least Python hook."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Result, medians, ms
from bench.places import folder, workspace
from harness.store.commit import Store
from harness.store.tick import ABSENT, Replace, Tick
from harness.workspace import resources

PAYLOADS = Path(__file__).parent.parent / "tests" / "fixtures" / "payloads"
EVENTS = (
    "SessionStart-startup",
    "UserPromptSubmit",
    "PreToolUse-Write",
    "PostToolUse-Skill",
    "Stop-active",
    "SubagentStart",
)


class Runner:
    """Runs a command as cheaply as a client does: the payload is a file on its standard input, nothing is read back."""

    def __init__(self, place: Path) -> None:
        self.place, self.inputs = place, dict[bytes, Path]()

    def __call__(self, command: list[str], data: bytes = b"") -> None:
        """Run ``command`` with ``data`` on its standard input, to its end."""
        if data not in self.inputs:
            self.inputs[data] = self.place / f"payload-{len(self.inputs)}"
            self.inputs[data].write_bytes(data)
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, str(self.inputs[data]), os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        os.waitpid(os.posix_spawn(command[0], command, os.environ, file_actions=actions), 0)


def hooks(rounds: int) -> Iterator[Result]:
    """Each hook once a round, with recorded payloads."""
    with folder() as place:
        ours = workspace(place / "ours")
        with Store(ours) as store:
            store.commit(
                Tick("human", "a loader", [Replace("skills/aeo/AGENTS.md", "# Rules\n" + "- a rule\n" * 50, ABSENT)])
            )
        home, runtime = resources() / "hooks", str(ours.runtime)
        hook = Path(sys.modules["harness"].__file__ or "").parent / "clients" / "hook.py"
        spool = ["/bin/sh", str(home / "spool.sh"), runtime]
        python = [sys.executable, "-I", "-S", str(hook), str(ours.root), runtime]
        small = json.dumps(
            {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": "x" * 2_000}
        ).encode()
        large = json.dumps(
            {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": "x" * 1_000_000}
        ).encode()

        run = Runner(place)

        contestants = {
            "pass": lambda: run([sys.executable, "-I", "-S", "-c", "pass"]),
            "spool.sh, 2 KB": lambda: run(spool, small),
            "spool.sh, 1 MB": lambda: run(spool, large),
        }
        if (home / "gate.sh").is_file():
            gate = ["/bin/sh", str(home / "gate.sh"), runtime, str(ours.root), sys.executable, str(hook)]
            contestants["gate.sh, a write elsewhere"] = lambda: run(gate, small)
        for event in EVENTS:
            data = (PAYLOADS / f"{event}.json").read_bytes().replace(b"/home/dev/project", str(ours.root).encode())
            contestants[f"hook.py, {event}"] = lambda data=data: run(python, data)  # type: ignore[misc]
        found = medians(contestants, rounds=rounds)
    for name, value in found.items():
        if name != "pass":
            bound = 0.35 if name.startswith("spool") else None
            yield Result(f"{name} / python -I -S -c pass", value / found["pass"], bound, "x", ms(value))
