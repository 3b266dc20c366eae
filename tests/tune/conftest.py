"""A workspace, a session of a client in it, and the hooks as the client calls them: each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.flows import proposing, tune
from harness.flows.tune import Request
from harness.tune.overlay import Edit
from harness.tune.proposal import Expected
from tests.flows.conftest import Bench, bench

__all__ = ["bench"]

OVERLAY = "skills/aeo/overlay.md"
HOOK = Path(proposing.__file__).parent.parent / "clients" / "hook.py"


@dataclass
class Session:
    """One attended session of the client, which is this test process: it starts the hooks, and its pid is theirs."""

    bench: Bench
    id: str = "5b0c7c1e-2f64-4a0b-9d1e-7d7a3c1f9a10"
    turn: int = 0

    @property
    def env(self) -> dict[str, str]:
        return {
            **self.bench.env, "CLAUDECODE": "1", "CLAUDE_PID": str(os.getpid()), "CLAUDE_CODE_SESSION_ATTENDED": "1",
            "CLAUDE_CODE_SESSION_ID": self.id, "CLAUDE_CONFIG_DIR": str(self.bench.project.home / ".claude"),
        }  # fmt: skip

    @property
    def transcript(self) -> Path:
        folder = self.bench.project.home / ".claude/projects/shop"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{self.id}.jsonl"

    def hook(
        self, event: str, *, through: list[str] | None = None, env: dict[str, str] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Fire one event; the hook's answer, or {}."""
        payload = {"hook_event_name": event, "session_id": self.id, "cwd": str(self.bench.project.root),
                   "transcript_path": str(self.transcript), "prompt_id": f"p{self.turn}", **fields}  # fmt: skip
        workspace = self.bench.workspace
        command = [sys.executable, "-I", "-S", str(HOOK), str(workspace.root), str(workspace.runtime)]
        done = subprocess.run(
            [*(through or []), *command], input=json.dumps(payload).encode(), env={**self.env, **(env or {})},
            capture_output=True, check=True,
        )  # fmt: skip
        assert done.stderr == b""
        errors = workspace.runtime / "hook-errors.log"
        wrong = [
            line for line in (errors.read_text().splitlines() if errors.exists() else []) if " Forged: " not in line
        ]
        assert wrong == []
        answer: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
        return answer

    def uses(self, skill: str = "aeo", **fields: Any) -> dict[str, Any]:
        return self.hook("PostToolUse", tool_name="Skill", tool_input={"skill": skill},
                         tool_response={"success": True, "commandName": skill}, **fields)  # fmt: skip

    def says(self, prompt: str, *, typed: bool = True, **fields: Any) -> str:
        """The user's next prompt; what the model is told with it. ``typed`` puts it into the transcript as the client does."""
        self.turn += 1
        answer = self.hook("UserPromptSubmit", prompt=prompt, **fields)
        if typed:
            self.write(
                type="user",
                promptId=f"p{self.turn}",
                promptSource="typed",
                turnOrigin="human",
                message={"role": "user", "content": prompt},
            )
        context = answer.get("hookSpecificOutput", {}).get("additionalContext", "")
        return str(context)

    def stops(self, message: str = "Done.", **fields: Any) -> str:
        """The turn ends; what the user is shown."""
        self.write(type="assistant", message={"role": "assistant", "content": [{"type": "text", "text": message}]})
        shown = self.hook("Stop", last_assistant_message=message, stop_hook_active=False, **fields)
        return str(shown.get("systemMessage", ""))

    def write(self, **row: Any) -> None:
        from harness.clients.runtime import now_text

        with open(self.transcript, "a") as file:
            file.write(json.dumps({"timestamp": now_text(), **row}) + "\n")

    def proposes(
        self, text: str = "State facts; drop may, might and could.\n", **fields: Any
    ) -> tuple[dict[str, Any], str]:
        """The agent proposes an edit by the command that it has."""
        wanted = request(text, **fields)
        store = self.bench.store
        made = tune.propose(store, proposing.with_evidence(store, wanted, self.env), self.env)
        proposing.announce(store)
        return made


def request(text: str = "State facts; drop may, might and could.\n", **fields: Any) -> Request:
    given: dict[str, Any] = {
        "name": "aeo", "reward": -1.0, "reaction": "too hedgy", "diagnosis": "the draft hedged twice",
        "expected": Expected("the next draft has no hedging", ("may", "might")), "edit": Edit(tuple(text.splitlines())),
    }  # fmt: skip
    return Request(**{**given, **fields})


def cards(bench: Bench, skill: str = "aeo") -> list[dict[str, Any]]:
    return bench.rows(f"skills/{skill}/scorecards.jsonl")


@pytest.fixture
def session(bench: Bench) -> Session:
    return Session(bench)
