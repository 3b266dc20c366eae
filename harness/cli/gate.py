"""`gate`: the third door, called by the workspace's pre-commit hook."""

from __future__ import annotations

import os
import subprocess

import click

from harness.cli.common import json_option, print_json, workspace
from harness.errors import REFUSED
from harness.store import gate, policy
from harness.store.audit import odd_mode
from harness.store.commit import Store
from harness.store.errors import Refusal
from harness.store.stream import FileChange
from harness.store.tick import ABSENT, Append, Delete, Replace, Take, Tick, Write, sha256
from harness.workspace import Workspace


@click.command("gate")
@click.option("--staged", is_flag=True, required=True, help="Judge what is staged for commit.")
@json_option
@click.pass_context
def gate_command(ctx: click.Context, staged: bool, as_json: bool) -> int:
    """Judge staged changes by the rules for people. Exit code 4 when one is refused.

    \b
    Example:
      harness gate --staged
    """
    found = workspace(ctx)
    refusals = judge_staged(found)
    if as_json:
        print_json({"refusals": [r.as_dict() for r in refusals]})
    else:
        for one in refusals:
            click.echo(f"harness: {one.line()}", err=True)
    return REFUSED if refusals else 0


def judge_staged(workspace: Workspace) -> list[Refusal]:
    """What the policy says of the changes that are staged (in the index that GIT_INDEX_FILE names, if it does)."""
    changed = _changes(workspace)
    if not changed:
        return []
    if os.environ.get("CLAUDECODE"):
        return [
            Refusal(
                changed[0].path,
                "person",
                "an agent's shell is committing by hand",
                "leave it to a person, or use the harness command for it",
            )
        ]
    with Store(workspace) as store:
        tree = store.tree
        rules = policy.load(tree, store.runtime / "cache")
        writes: list[Write] = []
        refusals: list[Refusal] = []
        for change in changed:
            path = change.path
            if odd := odd_mode(change, None):
                refusals.append(Refusal(path, "mode", f"it is {odd}", "put a plain file there"))
                continue
            old = tree.read(path)
            expect = ABSENT if old is None else sha256(old)
            new = _staged(workspace, path)
            entry = rules.entry(path) if not gate.bad_path(path) else None
            verbs = entry["how"] if entry else {}
            if new is None:
                writes.append(Delete(path, expect))
            elif "append" in verbs or "take" in verbs:
                refusals += _judge_rows(path, old or b"", new, rules, ledger="append" in verbs)
            else:
                writes.append(Replace(path, new.decode("utf-8", "replace"), expect))
        return refusals + gate.check(Tick("human", "staged", writes), tree.read, rules)


def _changes(workspace: Workspace) -> list[FileChange]:
    """What is staged, with the modes: one record of git's raw form is ``:MODE MODE ID ID STATUS``, then the path."""
    fields = (
        _git(workspace, "diff", "--cached", "--raw", "--no-abbrev", "--no-renames", "-z")
        .decode("utf-8", "surrogateescape")
        .split("\0")
    )
    found = []
    for head, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, new_mode, old, new, _ = head.lstrip(":").split(" ")
        found.append(
            FileChange(path, old_mode, new_mode, old if old.strip("0") else None, new if new.strip("0") else None)
        )
    return found


def _judge_rows(path: str, old: bytes, new: bytes, rules: gate.Policy, *, ledger: bool) -> list[Refusal]:
    """People add no rows by hand: a ledger is written by the store alone. An agent-appended log may be committed as it grows."""
    if not new.startswith(old):
        return [
            Refusal(
                path, "append-only", "lines that are committed were changed", f"put it back: git checkout -- {path}"
            )
        ]
    if ledger and new != old:
        return [
            Refusal(path, "ledger", "rows were added by hand", "rows come from harness commands alone; put it back")
        ]
    return gate.check(
        Tick("feedback", "staged", [Take(path, new, "")] if not ledger else list[Append]()), lambda _: old, rules
    )


def _staged(workspace: Workspace, path: str) -> bytes | None:
    done = _run(workspace, "cat-file", "blob", f":{path}")
    return done.stdout if done.returncode == 0 else None


def _git(workspace: Workspace, *args: str) -> bytes:
    return _run(workspace, *args).stdout


def _run(workspace: Workspace, *args: str) -> subprocess.CompletedProcess[bytes]:
    # The one call that keeps the caller's index: git names the index of the commit that is being made there.
    from harness.store.git import clean_environment

    keep = {"GIT_INDEX_FILE": os.environ["GIT_INDEX_FILE"]} if os.environ.get("GIT_INDEX_FILE") else {}
    return subprocess.run(
        ["git", *args], cwd=workspace.root, capture_output=True, check=False, env=clean_environment(os.environ, **keep)
    )
