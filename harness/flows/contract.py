"""The commit contract, tried clause by clause in a scratch clone of the user's own workspace: their git, their file system,
their configuration."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from harness.errors import HarnessError
from harness.flows.install import lay_out
from harness.ids import ulid
from harness.store.commit import Store
from harness.store.errors import Deferred
from harness.store.git import clean_environment, quick
from harness.store.tick import ABSENT, Append, Replace, Tick, sha256
from harness.workspace import Workspace, interpreter

RUNS: Final = "state/log/runs.ndjson"
Clause = Callable[["Scratch"], str]


class Scratch:
    """A clone of a workspace in a folder with a space and an accent in its name, where something is staged and something dirty."""

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        root = folder / "a clone é"
        env = clean_environment(os.environ)
        command = ["git", "clone", "--quiet", "--local", "--template=", str(workspace.root), str(root)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        if done.returncode:
            raise HarnessError("the workspace can't be cloned", done.stderr.strip(), "run `git fsck` in it")
        self.workspace = lay_out(root, None, lambda line: None)
        self.root = root
        (root / "staged.txt").write_text("staged\n", "utf-8")
        self.git("add", "staged.txt")
        (root / "README.md").write_text("dirty\n", "utf-8")
        self.before = self.state()

    def git(self, *args: str) -> str:
        """The output of a git command in the clone."""
        return quick(self.root, *args)[1]

    def state(self) -> tuple[str, str, bytes]:
        """What a person has staged and left dirty, with its bytes."""
        return (
            self.git("diff", "--cached", "--name-status"),
            self.git("diff", "--name-status"),
            (self.root / "README.md").read_bytes(),
        )

    def row(self) -> dict[str, Any]:
        """A row of the runs ledger, as of now."""
        empty = dict.fromkeys(("session", "turn", "base_sha256", "overlay_sha256", "loader_sha256"))
        return {"id": ulid(), "ts": "2026-01-01T00:00:00Z", "skill": "probe", "via": "model", **empty}

    def tick(self, store: Store) -> str:
        """Make one tick of one row and return the row's id."""
        row = self.row()
        store.commit(Tick("feedback", "probe", [Append(RUNS, row)]))
        return str(row["id"])

    def has(self, row: str) -> int:
        """How often the row is in the committed ledger."""
        with Store(self.workspace) as store:
            return sum(isinstance(r, dict) and r.get("id") == row for r in store.rows(RUNS))


def clauses(workspace: Workspace) -> Iterator[tuple[str, str]]:
    """(clause, what was wrong or "") for each clause, as it is tried."""
    with tempfile.TemporaryDirectory(prefix="harness-doctor-", ignore_cleanup_errors=True) as folder:
        scratch = Scratch(workspace, Path(folder))
        for name, clause in CLAUSES.items():
            try:
                yield name, clause(scratch)
            except (HarnessError, OSError) as error:
                yield name, str(error)


def _exact_paths(s: Scratch) -> str:
    with Store(s.workspace) as store:
        s.tick(store)
    files = s.git("show", "--format=", "--name-only", "HEAD").split()
    if [f for f in files if not f.startswith(RUNS)]:
        return f"the commit also holds {', '.join(files)}"
    return "" if s.state() == s.before else "staged or dirty work was changed"


def _nothing_empty(s: Scratch) -> str:
    with Store(s.workspace) as store:
        head, text = store.head, store.tree.read("state/regen/footer.md") or b""
        store.commit(
            Tick(
                "human",
                "same text",
                [Replace("state/regen/footer.md", text.decode(), sha256(text) if text else ABSENT)],
            )
        )
        return "" if store.head == head else "an empty commit was made"


def _no_hooks_no_signer(s: Scratch) -> str:
    mark = s.root.parent / "ran"
    hook = s.root.parent / "hooks"
    hook.mkdir(exist_ok=True)
    for name in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change"):
        (hook / name).write_text(f"#!/bin/sh\ntouch '{mark}'\nexit 1\n", "utf-8")
        (hook / name).chmod(0o755)
    for key, value in (
        ("core.hooksPath", str(hook)),
        ("commit.gpgsign", "true"),
        ("gpg.program", str(hook / "pre-commit")),
    ):
        s.git("config", key, value)
    try:
        with Store(s.workspace) as store:
            s.tick(store)
    finally:
        for key in ("core.hooksPath", "commit.gpgsign", "gpg.program"):
            s.git("config", "--unset", key)
    return "a hook or a signer ran" if mark.exists() else ""


def _inherited_environment(s: Scratch) -> str:
    other = s.root.parent / "other"
    subprocess.run(
        ["git", "init", "-q", str(other)], check=False, capture_output=True, env=clean_environment(os.environ)
    )
    given = {"GIT_DIR": str(other / ".git"), "GIT_INDEX_FILE": str(other / ".git/index"), "GIT_WORK_TREE": str(other)}
    kept = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        with Store(s.workspace) as store:
            row = s.tick(store)
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    return "" if s.has(row) == 1 else "the tick went elsewhere"


def _whole_after_a_kill(s: Scratch) -> str:
    line = "probe: killed in the middle"
    for fault in ("intent-written", "built", "swapped", "files-written"):
        with open(s.root / "state/log/loader-feedback.log", "a", encoding="utf-8") as log:
            log.write(f"{line} at {fault}\n")
        command = [interpreter(), "-P", "-m", "harness", "--workspace", str(s.root), "observe", "--quiet"]
        env = {**clean_environment(os.environ), "HARNESS_FAULT": fault}
        code = subprocess.run(command, env=env, check=False, capture_output=True).returncode
        if code >= 0:
            return f"the process did not die at {fault}"
        subprocess.run(command, env=clean_environment(os.environ), check=False, capture_output=True)
        with Store(s.workspace) as store:
            text = b"".join(store.tree.read(part) or b"" for part in store.tree.parts("state/log/quarantine.ndjson"))
        if text.count(f"at {fault}".encode()) != 1:
            return f"killed at {fault}, a row is there {text.count(f'at {fault}'.encode())} times"
    return "" if s.state() == s.before else "staged or dirty work was changed"


def _waits_for_a_rebase(s: Scratch) -> str:
    (s.workspace.git_dir / "rebase-merge").mkdir()
    row = s.row()
    try:
        with Store(s.workspace) as store:
            store.commit(Tick("feedback", "probe", [Append(RUNS, row)]))
        return "a tick landed in the middle of a rebase"
    except Deferred:
        pass
    finally:
        (s.workspace.git_dir / "rebase-merge").rmdir()
    with Store(s.workspace) as store:
        store.catch_up()
    return "" if s.has(str(row["id"])) == 1 else "the tick that waited did not land once"


def _leaves_a_users_lock(s: Scratch) -> str:
    lock = s.workspace.git_dir / "index.lock"
    lock.touch()
    try:
        with Store(s.workspace) as store:
            s.tick(store)
        return "a tick landed although somebody holds the index"
    except Deferred:
        return "" if lock.exists() else "somebody's lock was removed"
    finally:
        lock.unlink(missing_ok=True)


def _detached(s: Scratch) -> str:
    s.git("checkout", "-q", "--detach")
    with Store(s.workspace) as store:
        s.tick(store)
        head = str(store.head)
    kept = s.git("for-each-ref", "--contains", head, "--format=%(refname)", "refs/harness")
    return "" if kept.strip() else "no ref keeps a tick on a detached HEAD"


CLAUSES: Final[dict[str, Clause]] = {
    "exactly the tick's paths": _exact_paths,
    "no empty commit": _nothing_empty,
    "no hook, no signer": _no_hooks_no_signer,
    "inherited GIT_DIR has no effect": _inherited_environment,
    "whole or nothing after kill -9": _whole_after_a_kill,
    "waits for a rebase": _waits_for_a_rebase,
    "leaves a user's lock alone": _leaves_a_users_lock,
    "keeps ticks of a detached HEAD": _detached,
}
