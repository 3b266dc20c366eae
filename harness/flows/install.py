"""Setting up a workspace: which folder, its repository, its files, its git hooks. Running it again changes nothing."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from harness.errors import NEEDS_PERSON, HarnessError
from harness.flows import excludes
from harness.store import files
from harness.store.commit import Store
from harness.store.git import clean_environment, quick
from harness.store.tick import ABSENT, Replace, Tick, sha256
from harness.store.tree import Tree
from harness.workspace import MARK, NESTED, Workspace, at, git_dir_of, interpreter, resources, user_root

Say = Callable[[str], None]

_HOOK_MARK: Final = "# harness hook"


class CannotInstall(HarnessError):
    """The folder can't become a workspace."""

    exit_code = NEEDS_PERSON


def place(start: Path, env: Mapping[str, str], *, user: bool, here: bool) -> tuple[Path, Path | None]:
    """(folder of the workspace, work tree of the code repository it is nested in or None) for `init` in ``start``."""
    start = Path(os.path.abspath(start))
    if user:
        return user_root(env), None
    if here or (start / MARK).is_file():
        return start, None
    if start.name == NESTED and at(start, ""):
        return start, None
    code = _code_root(start)
    if code is not None:
        return code / NESTED, code
    if not start.exists() or not any(start.iterdir()):
        return start, None
    return start / NESTED, None


def _code_root(start: Path) -> Path | None:
    """The main work tree of the code repository that ``start`` lies in; a linked work tree leads to its main one."""
    if not start.is_dir():
        return None
    code, out = quick(start, "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir", above=True)
    if code != 0:
        return None
    top, common = (Path(line) for line in out.splitlines()[:2])
    return common.parent if common.name == ".git" and (common.parent / ".git").is_dir() else top


def lay_out(root: Path, nested_in: Path | None, say: Say) -> Workspace:
    """Make ``root`` a workspace, or bring an existing one up to date, and return it. ``say`` gets one line a step."""
    if root.exists() and not root.is_dir():
        raise CannotInstall(f"{root} is not a folder", "", "move the file away, or give another folder")
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise files.explain(error) from error
    if git_dir_of(root) is None:
        _git_init(root)
        say(f"made a repository in {root}")
    if nested_in is not None and (path := excludes.add(nested_in, [f"/{NESTED}/"])):
        say(f"listed /{NESTED}/ in {path}")
    git_dir = git_dir_of(root)
    if git_dir is None:
        raise CannotInstall(f"{root} has no usable git folder", "its .git file leads nowhere", "repair or remove it")
    workspace = Workspace(root, git_dir, "just set up")
    for folder in ("spool", "snapshot/skills", "sessions", "told"):
        (workspace.runtime / folder).mkdir(parents=True, exist_ok=True)
    files.replace(workspace.runtime / "python", interpreter().encode() + b"\n", sync=False)
    with Store(workspace) as store:
        tick = _tick(store)
        if tick.writes:
            landed = store.commit(tick)
            say(f"committed {len(tick.writes)} files ({(landed.commit or '')[:10]})")
        else:
            store.catch_up()
    _git_hooks(workspace, say)
    return workspace


def _git_init(root: Path) -> None:
    import subprocess

    command = ["git", "-c", "init.defaultBranch=main", "init", "--quiet", "--template=", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean_environment(os.environ))
    if done.returncode:
        raise CannotInstall(
            f"cannot make a repository in {root}", done.stderr.strip(), "run `git --version` and `harness doctor`"
        )


def unexclude(code: Path, say: Say) -> None:
    """Take the workspace's line out of the code repository's exclude file again."""
    if path := excludes.take(code, [f"/{NESTED}/"]):
        say(f"took /{NESTED}/ out of {path}")


def packaged_files() -> dict[str, str]:
    """The files that `init` lays out, by their path in the workspace."""
    home = resources()
    out = {"README.md": "state/README.md", ".gitattributes": "state/gitattributes"}
    for path in sorted((home / "schemas").iterdir()):
        out[f"schemas/{path.name}"] = f"schemas/{path.name}"
    for name in (
        "state/harness.yaml", "state/channels.yaml", "state/baseline.yaml", "state/operators.yaml", "state/regen/footer.md",
        "state/regen/drain.sh",
    ):  # fmt: skip
        out[name] = name
    texts = {path: (home / source).read_text("utf-8") for path, source in out.items()}
    # The log is there from the start: an agent's `echo … >>` into a folder that isn't would be lost.
    return {**texts, "state/log/loader-feedback.log": ""}


def _tick(store: Store) -> Tick:
    """The install tick: missing files, and newer versions of the shipped ones that nobody here has changed."""
    tree, writes = store.tree, []
    for path, text in packaged_files().items():
        old = tree.read(path)
        if old is None:
            # A file that is on disk but in no commit is somebody's: it stays and shows as pending.
            writes.append(Replace(path, text, ABSENT))
        elif old != text.encode() and path.startswith("schemas/") and _untouched(store, tree, path):
            writes.append(Replace(path, text, sha256(old)))
    summary = "lay out the workspace" if tree.commit is None else "bring the workspace up to date"
    return Tick("install", summary, writes)


def _untouched(store: Store, tree: Tree, path: str) -> bool:
    kind = store.git.text("log", "-1", "--format=%(trailers:key=Kind,valueonly)", str(tree.commit), "--", path)
    return kind.strip() == "install"


def _git_hooks(workspace: Workspace, say: Say) -> None:
    """The third door: pre-commit judges commits made by hand, post-commit puts them in force. Existing hooks run first."""
    code, out = quick(workspace.root, "rev-parse", "--path-format=absolute", "--git-common-dir")
    folder = Path(out.splitlines()[0]) / "hooks" if code == 0 else workspace.git_dir / "hooks"
    for name, verb in (("pre-commit", "gate --staged"), ("post-commit", "observe --quiet")):
        path, chained = folder / name, folder / f"{name}.before-harness"
        old = files.read(path)
        if old is not None and _HOOK_MARK.encode() not in old and not chained.exists():
            path.rename(chained)
            say(f"kept the existing {name} hook as {chained.name}; it runs first")
        text = _hook_text(name, verb, workspace)
        if old != text.encode():
            files.replace(path, text.encode(), mode=0o755)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
            say(f"installed the {name} hook of the workspace")


def _hook_text(name: str, verb: str, workspace: Workspace) -> str:
    note = shlex.quote(str(workspace.runtime / "python"))
    tail = "" if name == "pre-commit" else " </dev/null >/dev/null 2>&1 || :"
    # Git names the index of the commit that was made; what runs afterwards is no part of that commit.
    after = 'if [ -n "$HARNESS_LINEAGE" ]; then exit 0; fi\nunset GIT_INDEX_FILE\n'
    guard = after if name == "post-commit" else ""
    return (
        f"#!/bin/sh\n{_HOOK_MARK}: `harness uninstall` removes it\n"
        f'if [ -x "$0.before-harness" ]; then "$0.before-harness" "$@" || exit $?; fi\n{guard}'
        f"[ -r {note} ] || exit 0\n"
        f"read -r python < {note}\n"
        f'"$python" -P -m harness --workspace {shlex.quote(str(workspace.root))} {verb}{tail}\n'
    )


def remove_git_hooks(workspace: Workspace, say: Say) -> None:
    """Take the workspace's own git hooks away and put the ones before them back."""
    code, out = quick(workspace.root, "rev-parse", "--path-format=absolute", "--git-common-dir")
    folder = Path(out.splitlines()[0]) / "hooks" if code == 0 else workspace.git_dir / "hooks"
    for name in ("pre-commit", "post-commit"):
        path, chained = folder / name, folder / f"{name}.before-harness"
        if _HOOK_MARK.encode() in (files.read(path) or b""):
            path.unlink()
            if chained.exists():
                chained.rename(path)
            say(f"removed the {name} hook of the workspace")
