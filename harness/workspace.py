"""Where a workspace is and what lies where in it. Finding one costs no git process and no third-party import."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import NEEDS_PERSON, HarnessError

MARK = Path("state/harness.yaml")
NESTED = ".harness"


class NotAWorkspace(HarnessError):
    """No workspace was found. Run `harness init` in your project, or name one with --workspace."""

    exit_code = NEEDS_PERSON


@dataclass(frozen=True)
class Workspace:
    """A git repository that holds ``skills/``, ``state/`` and ``schemas/``.

    ``root`` is its work tree, ``git_dir`` the git folder of that work tree, ``how`` the sentence that says
    why this one was chosen.
    """

    root: Path
    git_dir: Path
    how: str

    @property
    def runtime(self) -> Path:
        """The folder for lock, journal, spool, snapshot and caches; nothing in it is ever tracked."""
        return self.git_dir / "harness"

    @property
    def spool(self) -> Path:
        """Where hooks leave one file an event."""
        return self.runtime / "spool"

    @property
    def snapshot(self) -> Path:
        """What hooks may inject: an export of the last gated commit."""
        return self.runtime / "snapshot"

    @property
    def project(self) -> Path:
        """The folder the client works in: the parent of a nested workspace, else the workspace itself."""
        return self.root.parent if self.root.name == NESTED else self.root


def resources() -> Path:
    """The folder that holds ``hooks/ skills/ state/ schemas/``: package data, or the checkout's top level."""
    packaged = Path(__file__).resolve().parent / "_data"
    return packaged if packaged.is_dir() else packaged.parent.parent


def git_dir_of(folder: Path) -> Path | None:
    """The git folder of the work tree at ``folder``, or None; a ``.git`` file (submodule, linked work tree) is followed."""
    dot = folder / ".git"
    if dot.is_dir():
        return dot
    if dot.is_file():
        text = dot.read_text("utf-8", "replace").strip()
        if text.startswith("gitdir:"):
            target = (folder / text[len("gitdir:") :].strip()).resolve()
            return target if target.is_dir() else None
    return None


def common_dir(git_dir: Path) -> Path:
    """The folder with the objects and branches of ``git_dir``: for a linked work tree that of its repository, else itself."""
    shared = git_dir / "commondir"
    return Path(os.path.normpath(git_dir / shared.read_text("utf-8").strip())) if shared.is_file() else git_dir


def at(folder: Path, how: str) -> Workspace | None:
    """The workspace whose work tree is ``folder``, or None."""
    if not (folder / MARK).is_file():
        return None
    git_dir = git_dir_of(folder)
    return Workspace(folder, git_dir, how) if git_dir else None


def _main_work_tree(folder: Path) -> Path | None:
    """For a linked work tree of some repository, the folder of its main work tree (agents often run in linked ones)."""
    for parent in (folder, *folder.parents):
        git_dir = git_dir_of(parent)
        if git_dir is None:
            continue
        shared = common_dir(git_dir)
        return shared.resolve().parent if shared != git_dir and shared.name == ".git" else None
    return None


def _ancestors(start: Path, why: str) -> Iterator[Workspace]:
    for folder in (start, *start.parents):
        for place, how in ((folder, f"{why} is in it"), (folder / NESTED, f"{why} is in {folder}, which holds it")):
            if found := at(place, how):
                yield found


def user_root(env: Mapping[str, str]) -> Path:
    """The folder of the user's own workspace, under the platform's data folder (HARNESS_USER_DIR overrides it)."""
    if env.get("HARNESS_USER_DIR"):
        return Path(env["HARNESS_USER_DIR"])
    from platformdirs import user_data_path

    return user_data_path("git-harness", appauthor=False) / "workspace"


def find(start: Path, env: Mapping[str, str], explicit: str | Path | None = None) -> Workspace:
    """Find the workspace to use from ``start``.

    Tried in this order: ``explicit`` (--workspace), HARNESS_WORKSPACE, the nearest ancestor of ``start`` that is or
    holds one, the same for the client's project folder, the main work tree of the repository, the user's own.
    Raises NotAWorkspace; a named workspace that isn't one is an error and never replaced by another.
    """
    named = (("--workspace", explicit), ("HARNESS_WORKSPACE", env.get("HARNESS_WORKSPACE")))
    for name, value in named:
        if value:
            folder = Path(os.path.abspath(value))
            found = at(folder, f"named by {name}") or at(folder / NESTED, f"held by the folder named by {name}")
            if found is None:
                raise NotAWorkspace(
                    f"{folder} is not a workspace", f"named by {name}, but it has no {MARK}", "run `harness init` there"
                )
            return found
    start = Path(os.path.abspath(start))
    starts = [(start, "the current folder")]
    if env.get("CLAUDE_PROJECT_DIR"):
        starts.append((Path(os.path.abspath(env["CLAUDE_PROJECT_DIR"])), "the client's project"))
    for place, why in starts:
        for found in _ancestors(place, why):
            return found
    for place, why in starts:
        main = _main_work_tree(place)
        if main and (
            found := at(main / NESTED, f"{why} is a linked work tree of {main}")
            or at(main, f"{why} is a linked work tree of it")
        ):
            return found
    if found := at(user_root(env), "the user's own"):
        return found
    raise NotAWorkspace("no workspace here", f"none at or above {start}", "run `harness init` in your project")


def interpreter() -> str:
    """The absolute path of the running interpreter, a virtual environment's own when in one, never a shim on PATH."""
    return os.path.abspath(sys.executable)
