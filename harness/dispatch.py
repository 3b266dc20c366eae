"""One model call through the configured command. Nothing here talks to a model API.

The command gets the prompt on stdin and answers on stdout, under a time limit, in an empty folder of its own, with
HARNESS_LINEAGE set: hooks of ours that it might fire return at once, so a run that we started never feeds us.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any, Final

from harness.errors import HarnessError
from harness.ids import ulid

MAX_ANSWER: Final = 2_000_000
"""Bytes of an answer that are taken; a command that says more is ended."""
_GRACE: Final = 2.0  # seconds between SIGTERM and SIGKILL
_STEP: Final = 0.1

# What must not reach the command. GIT_*: a call made inside a git command would work on a foreign repository. The
# client's own variables: its messaging socket and token are for its hooks, and a nested client must not take itself for
# a part of the session that happened to start us.
_DROPPED: Final = ("GIT_", "CLAUDE_CODE_MESSAGING_")
_DROPPED_NAMES: Final = frozenset(
    {"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_PROJECT_DIR", "CLAUDE_ENV_FILE"}
)


class DispatchFailed(HarnessError):
    """The command could not be asked, gave no answer in time, or answered with an error."""


@dataclass(frozen=True)
class Answer:
    """The model's text, and what the command reported: model, tokens in (cached ones too) and out, US dollars."""

    text: str
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True)
class Preset:
    """A command and how its stdout and stderr are read. ``read`` raises ValueError when they are no answer."""

    command: tuple[str, ...]
    read: Callable[[str, str], Answer]


def call(prompt: str, settings: Mapping[str, Any], env: Mapping[str, str]) -> Answer:
    """Ask once. Raises DispatchFailed.

    ``settings`` is the `dispatch` part of a workspace's settings: the preset, a ``command`` (argument list) that
    replaces the preset's own, and the ``timeout`` in seconds.
    """
    name = str(settings.get("preset"))
    preset = PRESETS.get(name)
    if preset is None:
        raise DispatchFailed(
            f"dispatch.preset is {name!r}", "it asks no model", f"set it to one of {', '.join(PRESETS)}"
        )
    command = [str(part) for part in settings.get("command") or preset.command]
    if not command:
        raise DispatchFailed(
            "no command to ask", "dispatch.preset is 'command'", "set dispatch.command to its argument list"
        )
    program = shutil.which(command[0], path=env.get("PATH", os.defpath))
    if program is None:
        raise DispatchFailed(
            f"{command[0]} can't be started", "it is not on PATH", "install it, or set dispatch.command"
        )
    timeout = float(settings.get("timeout") or 300)
    code, out, err = _run([os.path.abspath(program), *command[1:]], prompt, timeout, environment(env), command[0])
    if code != 0:
        said = _last_line(err) or _complaint(preset, out, err) or "it said nothing"
        raise DispatchFailed(f"{command[0]} ended with code {code}", said, "try the command by hand")
    try:
        answer = preset.read(out, err)
    except (ValueError, RecursionError) as error:
        raise DispatchFailed(
            f"{command[0]} gave no answer", str(error)[:300], f"is it what the preset {name!r} expects?"
        ) from error
    if not answer.text.strip():
        raise DispatchFailed(f"{command[0]} gave an empty answer", _last_line(err), "try the command by hand")
    return answer


def allowed(calls_today: int, usd_today: float, settings: Mapping[str, Any]) -> str | None:
    """Why no more calls may be made today (``daily_calls``, ``daily_usd`` of the `dispatch` settings), or None."""
    if calls_today >= settings["daily_calls"]:
        return f"dispatch.daily_calls is reached: {calls_today} of {settings['daily_calls']} calls today"
    if usd_today >= settings["daily_usd"]:
        return f"dispatch.daily_usd is reached: {usd_today:.2f} of {settings['daily_usd']:.2f} US dollars today"
    return None


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """What the command inherits of ``env``, with HARNESS_LINEAGE (kept when there is one already)."""
    kept = {k: v for k, v in env.items() if not k.startswith(_DROPPED) and k not in _DROPPED_NAMES}
    return {**kept, "HARNESS_LINEAGE": env.get("HARNESS_LINEAGE") or ulid()}


def _run(command: list[str], prompt: str, timeout: float, env: dict[str, str], name: str) -> tuple[int, str, str]:
    # Files instead of pipes: no thread, no deadlock with a command that answers before it has read, and a grandchild
    # that keeps a pipe open can't hold us past the time limit.
    with (
        tempfile.TemporaryFile() as asked,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        tempfile.TemporaryDirectory(prefix="harness-call-", ignore_cleanup_errors=True) as scratch,
    ):
        asked.write(prompt.encode("utf-8", "replace"))
        asked.seek(0)
        try:
            process = subprocess.Popen(
                command, stdin=asked, stdout=out, stderr=err, cwd=scratch, env=env, start_new_session=True
            )
        except OSError as error:
            raise DispatchFailed(
                f"{name} can't be started", error.strerror or str(error), "set dispatch.command"
            ) from error
        try:
            deadline = time.monotonic() + timeout
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_STEP)
                    break
                if time.monotonic() > deadline:
                    raise DispatchFailed(
                        f"{name} gave no answer",
                        f"not within {timeout:g} seconds",
                        "raise dispatch.timeout if it needs longer",
                    )
                _check_size(out, err, name)
        finally:
            _end(process)
        _check_size(out, err, name)
        return process.returncode, _text(out), _text(err)


def _check_size(out: IO[bytes], err: IO[bytes], name: str) -> None:
    if max(os.fstat(out.fileno()).st_size, os.fstat(err.fileno()).st_size) > MAX_ANSWER:
        raise DispatchFailed(
            f"{name} gave no usable answer", f"it printed over {MAX_ANSWER} bytes", "try the command by hand"
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command's whole process group, first politely. A command that has ended by itself is left as it is."""
    if process.poll() is not None:
        return
    for name, grace in (("SIGTERM", _GRACE), ("SIGKILL", None)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, getattr(signal, name))
            else:
                process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
            if name == "SIGTERM":
                # The leader went; children of its that ignore the signal still hold the group's number.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            return


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MAX_ANSWER).decode("utf-8", "replace")


def _last_line(text: str) -> str:
    line = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    return "".join(c if c.isprintable() else " " for c in line.strip())[:300]


def _complaint(preset: Preset, out: str, err: str) -> str:
    """What a command that failed says in its answer's own form (clients with JSON output put errors there)."""
    try:
        return preset.read(out, err).text.strip()[:300]
    except (ValueError, RecursionError) as error:
        return str(error)[:300] if out.strip().startswith("{") else _last_line(out)


# --- how each command answers -----------------------------------------------------------------------------------


def _claude(out: str, _: str) -> Answer:
    value = _object(out)
    if value.get("is_error") or not isinstance(value.get("result"), str):
        raise ValueError(
            f"it reports {value.get('subtype') or 'an error'}: {_last_line(str(value.get('result') or ''))}"
        )
    usage = _mapping(value.get("usage"))
    models = _mapping(value.get("modelUsage"))
    read = [usage.get(k) for k in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")]
    return Answer(
        value["result"],
        next(iter(models), None),
        _sum(read),
        _sum([usage.get("output_tokens")]),
        _usd(value.get("total_cost_usd")),
    )


def _codex(out: str, _: str) -> Answer:
    text: str | None = None
    usage: Mapping[str, Any] = {}
    for line in out.splitlines():
        try:
            event = _object(line)
        except ValueError:
            continue
        item = _mapping(event.get("item"))
        if event.get("type") == "item.completed" and item.get("type") == "agent_message":
            text = str(item.get("text") or "")
        elif event.get("type") == "turn.completed":
            usage = _mapping(event.get("usage"))
        elif event.get("type") in ("turn.failed", "error"):
            raise ValueError(
                _last_line(str(_mapping(event.get("error")).get("message") or event.get("message") or "it failed"))
            )
    if text is None:
        raise ValueError("no agent message among its events")
    return Answer(text, None, _sum([usage.get("input_tokens")]), _sum([usage.get("output_tokens")]))


def _gemini(out: str, _: str) -> Answer:
    value = _object(out)
    if error := _mapping(value.get("error")):
        raise ValueError(_last_line(str(error.get("message") or "it reports an error")))
    if not isinstance(value.get("response"), str):
        raise ValueError("no `response` in its JSON")
    models = _mapping(_mapping(value.get("stats")).get("models"))
    tokens = [_mapping(_mapping(m).get("tokens")) for m in models.values()]
    return Answer(
        value["response"],
        next(iter(models), None),
        _sum([t.get("prompt") for t in tokens]),
        _sum([t.get(k) for t in tokens for k in ("candidates", "thoughts")]),
    )


def _plain(out: str, _: str) -> Answer:
    return Answer(out)


PRESETS: Final[dict[str, Preset]] = {
    # Hooks, tools, skills and MCP servers off, and no transcript that a later scan would take for a person's session.
    "claude": Preset(
        ("claude", "-p", "--output-format", "json", "--settings", '{"disableAllHooks": true}', "--tools", "",
         "--strict-mcp-config", "--disable-slash-commands", "--no-session-persistence"),
        _claude,
    ),
    "codex": Preset(
        ("codex", "exec", "--json", "--skip-git-repo-check", "--sandbox", "read-only", "--ephemeral", "--ignore-rules",
         "--disable", "hooks", "--disable", "shell_tool", "-c", 'web_search="disabled"', "-"),
        _codex,
    ),
    # `--skip-trust`: the folder is our own empty one. Plan mode lets no tool change anything.
    "gemini": Preset(
        ("gemini", "--output-format", "json", "--approval-mode", "plan", "--skip-trust", "--extensions", "none"),
        _gemini,
    ),
    "llm": Preset(("llm", "prompt", "--no-stream", "--no-log"), _plain),
    "command": Preset((), _plain),
}  # fmt: skip


def _object(text: str) -> dict[str, Any]:
    """The JSON object in ``text``; ValueError when there is none."""
    start = text.find("{")
    value = json.loads(text[start:]) if start >= 0 else None
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _sum(values: list[Any]) -> int | None:
    numbers = [v for v in values if isinstance(v, int) and not isinstance(v, bool)]
    return sum(numbers) if numbers else None


def _usd(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
