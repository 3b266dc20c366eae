"""Which hooks Claude Code gets, in exec form, and how ours are told from everybody else's."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.clients.edits import TOOLS
from harness.workspace import resources

LAUNCHER = "harness-hook"
"""The file name of the launcher beside a shared settings file."""

TIMEOUT_SECONDS = 10
"""For every hook of ours; each takes far less than one. SessionEnd gets 1.5 unless a settings file says more."""

LONGEST_SECONDS = 60
SHELL = "/bin/sh"
LOGGING_COMMANDS = ("echo", "printf", "tee", "cat", "harness", "git-harness", "git harness")
"""The commands with which agents log feedback; what another one writes is found in the log itself."""

ANSWERING = (
    "UserPromptSubmit",
    "UserPromptExpansion",
    "SessionStart",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
)
_SPECIAL = frozenset("*?[]{}!\\")
Groups = list[dict[str, Any]]


def entries(
    root: Path | str,
    runtime: Path | str,
    python: str,
    project: Path | str,
    *,
    filters: bool = True,
    shared: bool = False,
) -> dict[str, Groups]:
    """The hooks of the workspace ``root``: event -> groups, as a settings file has them.

    With ``filters`` the client decides by its own rules and starts no process for what concerns nothing of ours.
    ``shared`` names no path of this machine: everything goes through the launcher in the project's ``.claude``.
    """
    hooks = resources() / "hooks"
    program = str(Path(__file__).resolve().parent / "hook.py")
    inside = _inside_rules(str(root), str(project), shared) if filters else None
    if shared:
        launcher = "${CLAUDE_PROJECT_DIR}/.claude/" + LAUNCHER
        spool = _hook(SHELL, launcher, "spool")
        gate = _hook(SHELL, launcher, "gate")
        answers = {event: _hook(SHELL, launcher, event) for event in ("PreToolUse", "PostToolUse", *ANSWERING)}
    else:
        spool = _hook(SHELL, str(hooks / "spool.sh"), str(runtime))
        gate = _hook(SHELL, str(hooks / "gate.sh"), str(runtime), str(root), python, program)
        answer = _hook(python, "-I", "-S", program, str(root), str(runtime))
        answers = dict.fromkeys(("PreToolUse", "PostToolUse", *ANSWERING), answer)
    logging = [f"Bash({command} *)" for command in LOGGING_COMMANDS] if filters else None
    writes = "|".join(TOOLS)
    out = {
        "PreToolUse": [
            _group(writes, answers["PreToolUse"] if inside else gate, inside),
            _group("Skill", answers["PreToolUse"]),
        ],
        "PostToolUse": [
            _group("Bash", spool, logging),
            _group(writes, spool, inside),
            _group("Skill", answers["PostToolUse"]),
        ],
        "PostToolUseFailure": [_group("Bash", spool, logging)],
    }
    out |= {event: [_group(None, answers[event])] for event in ANSWERING}
    if shared:  # who gets these settings with a clone may lack the program, and is told so once a session
        told = _hook(SHELL, launcher, "SessionStart", "say")
        out["SessionStart"] = [_group("startup", told), _group("resume|clear|compact", answers["SessionStart"])]
    return out


def _hook(command: str, *args: str) -> dict[str, Any]:
    return {"type": "command", "command": command, "args": list(args), "timeout": TIMEOUT_SECONDS}


def _group(matcher: str | None, hook: dict[str, Any], rules: list[str] | None = None) -> dict[str, Any]:
    hooks = [{**hook, "if": rule} for rule in rules] if rules else [hook]
    return {"matcher": matcher, "hooks": hooks} if matcher else {"hooks": hooks}


def _inside_rules(root: str, project: str, shared: bool) -> list[str] | None:
    """The client's rules for files inside the workspace; None when its path can't be written as such a rule."""
    places = {root, os.path.realpath(root)}
    if shared:
        relative = os.path.relpath(os.path.realpath(root), os.path.realpath(project)).replace(os.sep, "/")
        places = {"" if relative == "." else relative}
        if relative.startswith(".."):
            return None
    if any(char in _SPECIAL for place in places for char in place):
        return None
    # One slash is the project, two are the file system's root.
    patterns = [f"/{place}/**".replace("//**", "/**") for place in sorted(places)]
    return [f"{tool}({pattern})" for pattern in patterns for tool in TOOLS]


def is_ours(hook: Any) -> bool:
    """Whether a hook entry is one of ours, in exec form or in a shell form that somebody made of it."""
    if not isinstance(hook, dict):
        return False
    args = hook.get("args")
    words = [str(arg) for arg in args] if isinstance(args, list) else []
    text = " ".join([str(hook.get("command", "")), *words]).replace("\\", "/")
    if "harness/clients/hook.py" in text or f"/.claude/{LAUNCHER}" in text:
        return True
    if words:
        return any(
            script.endswith(("/hooks/spool.sh", "/hooks/gate.sh")) and Path(runtime).name == "harness"
            for script, runtime in pairwise(words)
        )
    return any(f"/hooks/{name}" in text for name in ("spool.sh", "gate.sh")) and "/harness" in text


def _all_hooks(value: Any) -> Iterable[tuple[str, Any]]:
    hooks = value.get("hooks") if isinstance(value, dict) else None
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            found = group.get("hooks") if isinstance(group, dict) else None
            for hook in found if isinstance(found, list) else ():
                if isinstance(hook, dict):
                    yield str(event), hook


def _plugins(value: Any) -> list[str]:
    enabled = value.get("enabledPlugins") if isinstance(value, dict) else None
    names = [name for name, on in enabled.items() if on] if isinstance(enabled, dict) else []
    return [name for name in names if name.partition("@")[0] == "harness"]


def problems_of(name: str, value: Any, others: list[tuple[str, Any]]) -> list[str]:
    """What is wrong with the hooks in the settings ``value`` of the file ``name``; ``others`` are in force too."""
    out = []
    ours = [(event, hook) for event, hook in _all_hooks(value) if is_ours(hook)]
    for event, hook in _all_hooks(value):
        seconds = hook.get("timeout")
        if isinstance(seconds, int | float) and seconds > LONGEST_SECONDS:
            whose = "our" if is_ours(hook) else "another program's"
            fix = "; run `harness init` to repair it" if is_ours(hook) else ""
            out.append(
                f"{name}: {whose} {event} hook has a timeout of {seconds:g}: these are seconds ({_span(seconds)}){fix}"
            )
    if any("args" not in hook for _, hook in ours):
        out.append(
            f"{name}: a hook of ours is in shell form, where a greeting of the shell spoils its answer: harness init"
        )
    twice = [other for other, theirs in others if any(is_ours(hook) for _, hook in _all_hooks(theirs))] if ours else []
    plugins = sorted({plugin for _, each in [(name, value), *others] for plugin in _plugins(each)}) if ours else []
    for other in (*twice, *(f"the plugin {plugin}" for plugin in plugins)):
        out.append(f"{name}: our hooks are registered twice, here and in {other}; each event is then delivered twice")
    return out


def _span(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.0f} minutes"
