"""Running the hooks that are installed in a settings file, with a payload on their standard input, as the client does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.workspace import resources


@dataclass(frozen=True)
class Fired:
    """What one installed hook did: its command, exit code, output, and how long it took in milliseconds."""

    command: list[str]
    code: int
    stdout: str
    stderr: str
    milliseconds: float

    @property
    def answer(self) -> dict[str, Any]:
        """The JSON object that it printed, or an empty one."""
        try:
            value = json.loads(self.stdout or "{}")
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


def payload(name: str, project: Path, **changes: Any) -> dict[str, Any]:
    """A recorded payload (``EVENT`` or ``EVENT-TOOL``) as it would be in ``project``; ``changes`` replace fields, mappings
    are merged."""
    text = (resources() / "hooks" / "payloads" / f"{name}.json").read_text("utf-8")
    text = text.replace("@PROJECT@", json.dumps(str(project))[1:-1]).replace(
        "@HOME@", json.dumps(str(project.parent))[1:-1]
    )
    value: dict[str, Any] = json.loads(text)
    for key, new in changes.items():
        value[key] = {**value[key], **new} if isinstance(new, dict) and isinstance(value.get(key), dict) else new
    return value


def commands(settings: Path, event: str, tool: str = "") -> list[list[str]]:
    """The commands that the settings file has for an event and tool, each once, in order. ``if`` filters are not looked at;
    the project's folder is filled in as the client does."""
    project = str(settings.parent.parent)
    try:
        groups = json.loads(settings.read_text("utf-8")).get("hooks", {}).get(event, [])
    except (OSError, ValueError, AttributeError):
        return []
    found: list[list[str]] = []
    for group in groups:
        matcher = group.get("matcher") or "*"
        if tool and matcher != "*" and not any(re.fullmatch(part.strip(), tool) for part in re.split(r"[|,]", matcher)):
            continue
        for hook in group.get("hooks", []):
            if hook.get("type") == "command":
                one = [hook["command"], *hook["args"]] if "args" in hook else ["/bin/sh", "-c", hook["command"]]
                one = [part.replace("${CLAUDE_PROJECT_DIR}", project) for part in one]
                if one not in found:
                    found.append(one)
    return found


def fire(command: list[str], given: Mapping[str, Any], project: Path, env: Mapping[str, str]) -> Fired:
    """Run one hook command with ``given`` as its payload, in ``project``, for 60 seconds at most."""
    start = time.monotonic()
    done = subprocess.run(
        command, input=json.dumps(given).encode(), capture_output=True, check=False, cwd=project, timeout=60,
        env={**env, "CLAUDE_PROJECT_DIR": str(project)},
    )  # fmt: skip
    took = (time.monotonic() - start) * 1000
    return Fired(
        command, done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"), took
    )


def client_environment(env: Mapping[str, str], *, attended: bool) -> dict[str, str]:
    """``env`` as a hook of the client finds it."""
    kept = {k: v for k, v in env.items() if not k.startswith(("GIT_", "HARNESS_"))}
    return {
        **kept,
        "CLAUDECODE": "1",
        "CLAUDE_CODE_SESSION_ATTENDED": "1" if attended else "0",
        "CLAUDE_PID": str(os.getpid()),
    }
