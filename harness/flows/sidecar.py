"""Run the program of a skill: in a child process, under a time limit, and leave an eval row of how it went.

The child is the actor; this process audits it: it looks at the exit and at the artifact, not at what the child says of itself.
A program that has its work audited by a process of its own says so (`"eval": ID` in the last line), and gets no second row.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness import evals, redact
from harness.errors import USAGE, HarnessError
from harness.ids import ulid
from harness.skills import find
from harness.store.commit import Store
from harness.store.tick import Append, Tick

PROGRAMS: Final = ("scripts/run.py", "scripts/run.sh")
MAX_OUTPUT: Final = 200_000


class NoSidecar(HarnessError):
    """The skill has no program to run."""

    exit_code = USAGE


@dataclass(frozen=True)
class Ran:
    """A finished run: exit code (None: it was ended for its time), what it printed, and the eval row, if we wrote one."""

    skill: str
    code: int | None
    output: str
    row: dict[str, Any] | None


def program_of(store: Store, name: str, env: Mapping[str, str]) -> tuple[str, Path]:
    """(folder, program) of the skill called ``name``; raises NoSidecar, UnknownSkill."""
    home = Path(env.get("HOME") or "/")
    skills = find.find_all(store.workspace.root, store.workspace.project, home, env)
    folder = find.resolve(name, skills, store.tree.folders("skills"))
    for skill in reversed([s for s in skills if s.folder == folder]):
        for relative in PROGRAMS:
            if (skill.path / relative).is_file():
                return folder, skill.path / relative
    raise NoSidecar(
        f"{folder} has no program", f"there is no {' and no '.join(PROGRAMS)} in its folder", "it is used by an agent"
    )


def run(store: Store, name: str, args: Sequence[str], env: Mapping[str, str], timeout: float) -> Ran:
    """Run it with the workspace as its current folder."""
    folder, program = program_of(store, name, env)
    actor, run_id = evals.actor_id(folder), ulid()
    command = [sys.executable, "-P", str(program)] if program.suffix == ".py" else ["/bin/sh", str(program)]
    given = {k: v for k, v in env.items() if not k.startswith(("GIT_", "CLAUDE_CODE_MESSAGING_"))}
    given |= {"HARNESS_WORKSPACE": str(store.workspace.root), "HARNESS_ACTOR": actor, "HARNESS_RUN": run_id}
    given["HARNESS_PYTHON"] = sys.executable
    child = subprocess.Popen(
        [*command, *args], cwd=store.workspace.root, env=given, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        out, _ = child.communicate(timeout=timeout)
        code: int | None = child.returncode
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, _ = child.communicate()
        code = None
    text = out[:MAX_OUTPUT].decode("utf-8", "replace")
    said = _last(text)
    if code == 0 and isinstance(said.get("eval"), str):
        return Ran(folder, code, text, None)
    return Ran(folder, code, text, _evaluate(store, folder, actor, run_id, code, text, said))


def _last(text: str) -> dict[str, Any]:
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        value = json.loads(lines[-1]) if lines else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _evaluate(
    store: Store, skill: str, actor: str, run_id: str, code: int | None, text: str, said: Mapping[str, Any]
) -> dict[str, Any]:
    ended = "it was ended for its time" if code is None else f"exit code {code}"
    last = redact.scrub((text.strip().splitlines() or [""])[-1])[:200]
    criteria = {"ended-well": evals.Criterion(1 if code == 0 else 0, ended if code == 0 else f"{ended}: {last}")}
    artifact = said.get("artifact_path")
    if isinstance(artifact, str):
        there = ".." not in artifact and (store.workspace.root / artifact).is_file()
        criteria["artifact-is-there"] = evals.Criterion(1 if there else 0, artifact[:300])
    row = evals.row(
        skill,
        actor,
        evals.auditor_id(skill),
        criteria=criteria,
        artifact=artifact if isinstance(artifact, str) else None,
        run=run_id,
    )
    store.commit(
        Tick(
            "eval",
            f"{row['score']:g} {row['primary_issue'] or ''}".strip(),
            [Append(evals.EVALS, row)],
            {"Skill": skill},
        )
    )
    return row
