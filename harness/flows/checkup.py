"""Doctor: the machine, the repository and the client's settings, each question answered by trying."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from harness.clients import settings
from harness.errors import HarnessError
from harness.flows import fire, report, wiring
from harness.store import gate, policy, snapshot
from harness.store.commit import Store
from harness.store.git import clean_environment, quick
from harness.store.tick import Append, Tick
from harness.workspace import NESTED, Workspace, git_dir_of

Verdict = Literal["ok", "note", "wrong"]
OLDEST_GIT: Final = (2, 34)
_SAMPLES: Final = (
    ("SessionStart", ""), ("UserPromptSubmit", ""), ("UserPromptExpansion", ""), ("PreToolUse", "Write"), ("PostToolUse", "Bash"),
    ("PostToolUse", "Skill"), ("PostToolUse", "Edit"), ("PostToolUseFailure", "Bash"), ("SubagentStart", ""), ("SubagentStop", ""),
    ("Stop", ""), ("SessionEnd", ""),
)  # fmt: skip


@dataclass(frozen=True)
class Check:
    """One question: its group, its name, the verdict, what was found, and what to do when it is not ok."""

    group: str
    name: str
    verdict: Verdict
    found: str
    next: str = ""

    def as_dict(self) -> dict[str, str]:
        """The JSON object of ``--json``."""
        return asdict(self)


def checkup(workspace: Workspace, env: Mapping[str, str]) -> Iterator[Check]:
    """Every check, as it is made. Nothing of the workspace or the settings is changed."""
    yield from _machine(workspace)
    yield from _repository(workspace)
    for one in report.status(workspace)["problems"]:
        yield Check("repository", "as status says", "wrong", f"{one['what']}: {one['why']}", one["next"])
    yield from _contract(workspace)
    yield from _settings(workspace)
    yield from _hooks(workspace, env)


def _machine(workspace: Workspace) -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("machine", "python", "ok", f"{version}, {sys.executable}")
    git = shutil.which("git")
    if git is None:
        yield Check("machine", "git", "wrong", "no git on PATH", "install git 2.34 or newer")
        return
    out = subprocess.run([git, "version"], capture_output=True, text=True, check=False).stdout.strip()
    numbers = tuple(int(n) for n in re.findall(r"\d+", out)[:2])
    fine = numbers >= OLDEST_GIT
    yield Check(
        "machine", "git", "ok" if fine else "wrong", f"{out}, {git}", "" if fine else "install git 2.34 or newer"
    )
    try:
        with tempfile.TemporaryDirectory(dir=workspace.runtime) as folder:
            one = Path(folder, "one")
            one.write_text("x", "ascii")
            os.link(one, Path(folder, "two"))
        yield Check("machine", "file system", "ok", "writable, with hard links")
    except OSError as error:
        yield Check(
            "machine",
            "file system",
            "wrong",
            f"{workspace.runtime}: {error.strerror}",
            "make it writable, on a file system with hard links",
        )


def _repository(workspace: Workspace) -> Iterator[Check]:
    code, out = quick(workspace.root, "rev-parse", "--is-inside-work-tree")
    if code:
        owner = "dubious ownership" in out
        todo = f"git config --global --add safe.directory {workspace.root}" if owner else "harness init"
        yield Check(
            "repository",
            "git folder",
            "wrong",
            "it belongs to another user" if owner else out.strip().splitlines()[-1],
            todo,
        )
        return
    yield Check("repository", "git folder", "ok", str(workspace.git_dir))
    with Store(workspace) as store:
        tree = store.tree
        try:
            rules = policy.load(tree, store.runtime / "cache")
            missing = {
                e[k]
                for e in rules.entries
                for k in ("row", "document", "frontmatter")
                if k in e and rules.validator(e[k]) is None
            }
            found = f"{len(rules.entries)} entries"
            yield Check(
                "repository",
                "policy",
                "wrong" if missing else "ok",
                f"{found}; no schema for {', '.join(sorted(missing))}" if missing else found,
                "harness init" if missing else "",
            )
        except HarnessError as error:
            yield Check("repository", "policy", "wrong", error.what, error.next)
            return
        now = snapshot.now(workspace).get("commit")
        same = now == tree.commit
        yield Check(
            "repository",
            "snapshot",
            "ok" if same else "note",
            f"of {str(now)[:10]}",
            "" if same else "HEAD has moved; the next drain takes it in: harness observe",
        )
        refused = gate.check(Tick("tune", "probe", [Append("state/log/approvals.ndjson", {})]), tree.read, rules)
        yield Check(
            "repository",
            "gate",
            "ok" if refused else "wrong",
            "refuses what it should" if refused else "lets a row of the wrong kind pass",
            "" if refused else "compare schemas/policy.yaml with the shipped one",
        )
    code, out = quick(workspace.root, "fsck", "--connectivity-only", "--no-dangling", "--no-progress")
    yield Check(
        "repository",
        "objects",
        "ok" if code == 0 else "wrong",
        "whole" if code == 0 else out.strip().splitlines()[-1],
        "" if code == 0 else "restore the repository from a copy",
    )
    yield from _git_hooks(workspace)


def _git_hooks(workspace: Workspace) -> Iterator[Check]:
    code, out = quick(workspace.root, "rev-parse", "--path-format=absolute", "--git-common-dir")
    ours = Path(out.splitlines()[0]) / "hooks" / "pre-commit"
    code, configured = _config(workspace, "core.hooksPath")
    if code == 0 and configured:
        yield Check(
            "repository",
            "pre-commit",
            "note",
            f"core.hooksPath is {configured}: git doesn't run the workspace's hook",
            f"git -C {workspace.root} config core.hooksPath {ours.parent}",
        )
    elif not ours.is_file():
        yield Check("repository", "pre-commit", "wrong", "not installed", "harness init")
    else:
        yield Check("repository", "pre-commit", "ok", str(ours))


def _config(workspace: Workspace, key: str) -> tuple[int, str]:
    done = subprocess.run(
        ["git", "config", "--get", key],
        cwd=workspace.root,
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment(os.environ),
    )
    return done.returncode, done.stdout.strip()


def _contract(workspace: Workspace) -> Iterator[Check]:
    """Each clause of the commit contract, tried in a scratch clone of this very workspace."""
    from harness.flows.contract import clauses

    try:
        for name, wrong in clauses(workspace):
            yield Check(
                "contract",
                name,
                "wrong" if wrong else "ok",
                wrong or "holds here",
                "report it with the output of `git version`" if wrong else "",
            )
    except HarnessError as error:
        yield Check("contract", "a scratch clone", "wrong", str(error), error.next)


def _settings(workspace: Workspace) -> Iterator[Check]:
    files = [Path(name) for name in wiring.wired(workspace)]
    if not files:
        yield Check("client", "wired", "note", "no client is wired to this workspace", "harness init")
    for path in files:
        try:
            found = settings.installed(path)
            wrong = settings.problems(path, *(p for p in _beside(path) if p != path))
        except HarnessError as error:
            yield Check("client", path.name, "wrong", str(error), error.next)
            continue
        if found:
            yield Check("client", path.name, "ok", f"{len(found)} events in {path}")
        else:
            yield Check("client", path.name, "wrong", f"our hooks are gone from {path}", "harness init")
        for one in wrong:
            yield Check("client", path.name, "note", one, "")


def _beside(path: Path) -> list[Path]:
    return [path.parent / name for name in ("settings.json", "settings.local.json")] + [
        Path.home() / ".claude" / "settings.json"
    ]


@contextlib.contextmanager
def _scratch() -> Iterator[str]:
    """A folder for the hooks to work in. Stop and its like start a drain of it, which may outlive the check by a moment, so
    the folder is removed until it stays away."""
    folder = tempfile.mkdtemp(prefix="harness-doctor-")
    try:
        yield folder
    finally:
        for _ in range(100):
            shutil.rmtree(folder, ignore_errors=True)
            time.sleep(0.05)
            if not os.path.exists(folder):
                break


def _hooks(workspace: Workspace, env: Mapping[str, str]) -> Iterator[Check]:
    """Each installed hook with a recorded payload, its paths led to a scratch folder: nothing is noted or started here."""
    for path in map(Path, wiring.wired(workspace)):
        with _scratch() as folder:
            # Laid out like a workspace, since a shared launcher looks for one by itself.
            root = Path(folder, "project", ".harness")
            runtime = root / ".git" / "harness"
            (root / "state").mkdir(parents=True)
            (root / "state/harness.yaml").touch()
            for name in ("spool", "sessions", "told"):
                (runtime / name).mkdir(parents=True)
            if workspace.snapshot.is_dir():
                shutil.copytree(workspace.snapshot, runtime / "snapshot")
            swap = ((str(workspace.runtime), str(runtime)), (str(workspace.root), str(root)))
            for event, tool in _SAMPLES:
                for command in fire.commands(path, event, tool):
                    yield _fire(event, tool, _led(command, swap), root.parent, env)


def _led(command: list[str], swap: tuple[tuple[str, str], ...]) -> list[str]:
    out = command
    for old, new in swap:
        out = [new if part == old else part.replace(old + os.sep, new + os.sep) for part in out]
    return out


def _fire(event: str, tool: str, command: list[str], project: Path, env: Mapping[str, str]) -> Check:
    name = f"{event} {tool}".strip()
    given = fire.payload(f"{event}-{tool}" if tool else event, project)
    try:
        fired = fire.fire(command, given, project, fire.client_environment(env, attended=True))
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("hooks", name, "wrong", f"{command[0]}: {error}", "harness init")
    answered = "an answer" if fired.answer else "silent"
    clean = fired.code == 0 and not fired.stderr and (not fired.stdout.strip() or bool(fired.answer))
    found = (
        f"{fired.milliseconds:.0f} ms, {answered}"
        if clean
        else f"exit code {fired.code}: {(fired.stderr or fired.stdout).strip()[:200]}"
    )
    return Check("hooks", name, "ok" if clean else "wrong", found, "" if clean else "harness init")


def repair(workspace: Workspace) -> list[str]:
    """Do again what `init` does, where something of it is gone: files, git hooks, wiring, snapshot. Says what it did."""
    from harness.flows.install import lay_out

    steps: list[str] = []
    code = workspace.root.parent if workspace.root.name == NESTED and git_dir_of(workspace.root.parent) else None
    lay_out(workspace.root, code, steps.append)
    for path in map(Path, wiring.wired(workspace)):
        wiring.wire(
            workspace,
            path,
            shared=path.name == "settings.json" and path.parent.parent == workspace.project,
            permissions=False,
            say=steps.append,
        )
    with Store(workspace) as store:
        store.catch_up()
    return steps


def as_json(checks: list[Check]) -> dict[str, Any]:
    """The JSON value of ``harness doctor --json``."""
    return {"ok": not any(c.verdict == "wrong" for c in checks), "checks": [c.as_dict() for c in checks]}
