"""The exported snapshot: what is in force. Hooks inject from here, never from the work tree.

Nothing takes effect until it is in a commit that the gate passed. So each tick exports what it changed, and commits made
by hand are judged before their files are exported; one that the gate refuses leaves the older text in force.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.settings import merged
from harness.store import files, gate, policy, raced
from harness.store.git import GitError
from harness.store.tick import Delete, Replace, Tick, sha256
from harness.store.tree import Tree
from harness.workspace import Workspace, resources

if TYPE_CHECKING:
    from harness.store.commit import Store

SETTINGS: Final = "state/harness.yaml"
_RULES: Final = "schemas/"
_SKILL_FILE: Final = re.compile(r"skills/([^/]+)/(SKILL|AGENTS|overlay)\.md")


def now(workspace: Workspace) -> dict[str, Any]:
    """What is in force, in one mapping: commit, settings, skills, notices. Empty before the first tick."""
    try:
        value = json.loads((workspace.snapshot / "now.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def settings(workspace: Workspace) -> dict[str, Any]:
    """The committed settings with the defaults under them; empty before the first tick."""
    found = now(workspace).get("settings")
    return merged(found) if isinstance(found, dict) else {}


def settings_in(tree: Tree) -> dict[str, Any]:
    """The settings that a commit holds, with the defaults under them; the defaults alone when it has none that parse."""
    document, why = gate.parse_document(SETTINGS, (tree.read(SETTINGS) or b"").decode("utf-8", "replace"))
    return merged(None if why else document)


def sweep(workspace: Workspace) -> None:
    """Remove what killed processes left of files that they were about to put in place. Needs the workspace's lock."""
    for folder in (workspace.snapshot, workspace.snapshot / "skills", workspace.runtime / "cache"):
        files.sweep(folder)


def update(workspace: Workspace, **fields: Any) -> None:
    """Set fields of ``now.json``. Needs the workspace's lock."""
    value = now(workspace)
    if any(value.get(key) != new for key, new in fields.items()):
        data = json.dumps({**value, **fields}, ensure_ascii=True, indent=1).encode()
        files.replace(workspace.snapshot / "now.json", data, sync=False)


@functools.cache
def packaged_policy() -> gate.Policy:
    """The policy that ships with the package: it judges the first install, before a workspace has its own."""
    place = resources() / "schemas"
    value, why = gate.parse_document(policy.PATH, (place / "policy.yaml").read_text("utf-8"))
    if why:
        raise policy.NoPolicy("the packaged policy does not parse", why, "install harness again")

    def validator(name: str) -> Any:
        path = place / f"{name}.schema.json"
        return policy.compile_schema(path.read_bytes()) if path.is_file() else None

    return gate.Policy(value["paths"], validator)


def rules(store: Store, tree: Tree) -> gate.Policy:
    """The policy in force for a tick on top of ``tree``: the one that it holds, unless the gate refused a change of it."""
    value = now(store.workspace)
    if any(path.startswith(_RULES) for path in value.get("unaccepted", ())):
        tree = Tree(store.git, value.get("rules"))
    return policy.load(tree, store.runtime / "cache")


def export(store: Store, commit: str, paths: Iterable[str], refused: Mapping[str, str] | None = None) -> None:
    """Write to the snapshot what ``commit`` holds of ``paths``. ``refused`` has all files that stay as they were, and why;
    without it those of before, less ``paths``, which a tick has written."""
    workspace, tree, paths = store.workspace, Tree(store.git, commit), list(paths)
    before = now(workspace)
    if refused is None:
        refused = {path: why for path, why in before.get("unaccepted", {}).items() if path not in paths}
    fields: dict[str, Any] = {"commit": commit, "unaccepted": dict(refused)}
    if not any(path.startswith(_RULES) for path in refused):
        fields["rules"] = commit
    passed = [path for path in paths if path not in refused]
    skills = dict(before.get("skills", {}))
    for folder in sorted({m[1] for path in passed if (m := _SKILL_FILE.fullmatch(path))}):
        held = {p for p in refused if p.startswith(f"skills/{folder}/")}
        if one := _export_skill(workspace, tree, folder, held):
            skills[folder] = {**skills.get(folder, {"names": [folder]}), **one}
        else:
            skills.pop(folder, None)
    fields["skills"] = skills
    if policy.PATH in passed and (blob := tree.blob_id(policy.PATH)):
        value = policy.compiled(blob, tree.read(policy.PATH) or b"", workspace.runtime / "cache")
        files.replace(workspace.snapshot / "policy.json", json.dumps(value).encode(), sync=False)
    if SETTINGS in passed:
        fields["settings"] = settings_in(tree)
        store.settings = fields["settings"]
        store.journal.durable = store.settings["durability"] == "safe"
    update(workspace, **fields)


def _export_skill(workspace: Workspace, tree: Tree, folder: str, held: set[str]) -> dict[str, Any] | None:
    place = workspace.snapshot / "skills" / f"{folder}.json"
    texts = {name: tree.read(f"skills/{folder}/{name}.md") for name in ("SKILL", "AGENTS", "overlay")}
    if not any(data is not None for data in texts.values()):
        place.unlink(missing_ok=True)
        return None
    value: dict[str, Any] = {"skill": folder, "commit": tree.commit}
    try:
        before = json.loads(place.read_bytes()) if held else {}
    except (OSError, ValueError):
        before = {}
    for name, key in (("SKILL", "base"), ("AGENTS", "loader"), ("overlay", "overlay")):
        data = texts[name]
        if f"skills/{folder}/{name}.md" in held:
            value |= {k: before.get(k) for k in (key, f"{key}_sha256") if k in before}
            continue
        value[f"{key}_sha256"] = None if data is None else sha256(data)
        if key != "base":
            value[key] = "" if data is None else data.decode("utf-8", "replace")
    files.replace(place, json.dumps(value).encode(), sync=False)
    return {"loader": bool(value.get("loader")), "overlay": bool(value.get("overlay"))}


def adopt(store: Store) -> None:
    """Take in commits that were not made by the store (by hand, a merge, a pull, a branch switch): judge each changed file
    by the rules for people, export what passes, and keep what was in force before for what doesn't."""
    head = store.head
    value = now(store.workspace)
    last = value.get("commit")
    if head is None or head == last:
        return
    raced.bring_back(store)
    changed = _changed(store, last, head)
    tree, old = Tree(store.git, head), Tree(store.git, last if isinstance(last, str) else None)
    try:
        judge = rules(store, old if old.blob_id(policy.PATH) else tree)
    except policy.NoPolicy:
        judge = packaged_policy()
    refused: dict[str, str] = dict(value.get("unaccepted", {}))
    for path in changed:
        refused.pop(path, None)
        if not path.startswith(_RULES) and path != SETTINGS and not _SKILL_FILE.fullmatch(path):
            continue
        data = tree.read(path)
        write = Delete(path, "") if data is None else Replace(path, data.decode("utf-8", "replace"), "")
        if found := gate.check(Tick("human", "adopt", [write]), old.read, judge):
            refused[path] = found[0].line()
    export(store, head, changed, refused)


def _changed(store: Store, last: object, head: str) -> list[str]:
    if isinstance(last, str):
        try:
            return _names(store, "diff-tree", "-r", "-z", "--name-only", "--no-renames", last, head)
        except GitError:
            pass  # the old commit is gone: take everything as new
    return _names(store, "ls-tree", "-r", "-z", "--name-only", head)


def _names(store: Store, *args: str) -> list[str]:
    return [name for name in store.git.run(*args).decode("utf-8", "surrogateescape").split("\0") if name]


def skill(workspace: Workspace, folder: str) -> dict[str, Any]:
    """The snapshot of one skill: overlay, loader and their SHA-256; empty when nothing is known of it."""
    try:
        value = json.loads(Path(workspace.snapshot / "skills" / f"{folder}.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
