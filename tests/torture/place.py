"""A workspace with a person at work in it, and the eyes of the oracle: git and plain files, none of the store's code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

LOG: Final = "state/log/loader-feedback.log"
FEEDBACK: Final = "state/log/feedback.ndjson"
QUARANTINE: Final = "state/log/quarantine.ndjson"
RUNS: Final = "state/log/runs.ndjson"
QUEUE: Final = "state/regen/queue.ndjson"
UNDONE: Final = "state/log/undone.ndjson"
LOADER: Final = "skills/aeo/AGENTS.md"
OVERLAY: Final = "skills/aeo/overlay.md"
REFERENCE: Final = "skills/aeo/references/old.md"

STAGED, CHANGED, UNTRACKED = "state/memory/plan.md", "state/observations.md", "state/memory/scratch.md"
PERSON: Final = {
    STAGED: "staged, then changed on top\n", CHANGED: "# changed, not staged\n", UNTRACKED: "untracked\n",
}  # fmt: skip
PORCELAIN: Final = [f" M {CHANGED}", f"AM {STAGED}", f"?? {UNTRACKED}"]


def scratch() -> Path:
    """A new folder in memory where there is one: what is tried here is order, not speed of a disk."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="harness-torture-", dir=memory if memory.is_dir() else None))


def own_environment(folder: Path) -> None:
    """Give this process a home of its own, in ``folder``, and take every variable away that leads elsewhere."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "HARNESS_", "XDG_", "CLAUDE")):
            del os.environ[name]
    git = shutil.which("git") or "/usr/bin/git"
    for name in ("home", "tmp"):
        (folder / name).mkdir(exist_ok=True)
    os.environ |= {
        "HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8",
        "PATH": os.pathsep.join([os.path.dirname(git), os.environ["PATH"]]),
        "GIT_AUTHOR_NAME": "P", "GIT_AUTHOR_EMAIL": "p@example.invalid",
        "GIT_COMMITTER_NAME": "P", "GIT_COMMITTER_EMAIL": "p@example.invalid",
    }  # fmt: skip
    tempfile.tempdir = None


def git(root: Path, *args: str, data: str | None = None, ok: tuple[int, ...] = (0,)) -> str:
    """``git ARGS`` as a person types it, without hooks; it never takes the index's lock to look."""
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", *args]
    done = subprocess.run(
        command, cwd=root, input=data, capture_output=True, text=True, errors="surrogateescape", check=False,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
    )  # fmt: skip
    if done.returncode not in ok:
        raise AssertionError(f"git {' '.join(args)}: {done.returncode}: {done.stdout}{done.stderr}".strip())
    return done.stdout


def person_at_work(root: Path) -> None:
    """One file staged and then changed, one changed, one untracked."""
    for path, text in ((CHANGED, "# committed\n"), (STAGED, "staged\n")):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        git(root, "add", path)
        if path == CHANGED:
            git(root, "commit", "-qm", "observations")
    for path, text in PERSON.items():
        (root / path).write_text(text)


@dataclass
class Seen:
    """What a workspace holds, as HEAD has it. ``problems`` has what no state of a workspace may show."""

    root: Path
    porcelain: list[str] = field(default_factory=lambda: list(PORCELAIN))
    problems: list[str] = field(default_factory=list)

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The committed files below ``skills/`` and ``state/``, by path."""
        names = git(self.root, "ls-tree", "-r", "-z", "--name-only", "HEAD", "skills", "state").split("\0")[:-1]
        out = subprocess.run(
            ["git", "cat-file", "--batch"], cwd=self.root, capture_output=True, check=True,
            input="".join(f"HEAD:{name}\n" for name in names).encode("utf-8", "surrogateescape"),
        ).stdout  # fmt: skip
        found, at = {}, 0
        for name in names:
            end = out.index(b"\n", at)
            size = int(out[at:end].split()[2])
            found[name] = out[end + 1 : end + 1 + size]
            at = end + size + 2
        return found

    @cached_property
    def ledgers(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of each ledger, sealed segments first."""
        out: dict[str, list[dict[str, Any]]] = {}
        for path in sorted(self.files, key=lambda p: (p.split(".d/")[0], ".d/" not in p, p)):
            if not path.endswith(".ndjson"):
                continue
            rows = out.setdefault(path.split(".d/")[0], [])
            for line in self.files[path].decode("utf-8").splitlines():
                rows.append(json.loads(line))
        return out

    def rows(self, path: str) -> list[dict[str, Any]]:
        """The rows of one ledger."""
        return self.ledgers.get(path, [])

    def count(self, path: str, text: str) -> int:
        """How many rows of a ledger have this text."""
        return sum(row.get("text") == text for row in self.rows(path))

    def text(self, path: str) -> str | None:
        """A committed file, or None."""
        data = self.files.get(path)
        return None if data is None else data.decode("utf-8")

    @cached_property
    def history(self) -> list[list[str]]:
        """(commit, parents, tree, tick, kind) of each commit of HEAD, newest first."""
        form = "%H%x00%P%x00%T%x00%(trailers:key=Tick,valueonly,separator=%x20)%x00%(trailers:key=Kind,valueonly,separator=%x20)"
        return [line.split("\0") for line in git(self.root, "log", f"--format={form}").splitlines()]

    def kinds(self, kind: str) -> int:
        """How many ticks of one kind there are."""
        return sum(entry[4] == kind for entry in self.history)


def look(root: Path, porcelain: list[str]) -> Seen:
    """See what a workspace holds and everything that is wrong with it, whatever was done before."""
    seen = Seen(root, porcelain)
    for check in (_objects, _index, _locks, _rows, _history, _snapshot, _waiting, _person):
        try:
            check(seen)
        except (AssertionError, ValueError, OSError, KeyError, IndexError) as error:
            seen.problems.append(f"{check.__name__.strip('_')}: {type(error).__name__}: {error}")
    return seen


def _objects(seen: Seen) -> None:
    git(seen.root, "fsck", "--strict", "--no-dangling", "--no-progress")


def _index(seen: Seen) -> None:
    lines = sorted(git(seen.root, "status", "--porcelain", "-uall").splitlines())
    if lines != sorted(seen.porcelain):
        extra = [line for line in lines if line not in seen.porcelain]
        gone = [line for line in seen.porcelain if line not in lines]
        seen.problems.append(f"index: status shows {extra or 'nothing'} too many and misses {gone or 'nothing'}")


def _locks(seen: Seen) -> None:
    git_dir = seen.root / ".git"
    runtime = git_dir / "harness"
    left = [p for p in git_dir.rglob("*.lock") if runtime not in p.parents]
    left += [p for p in seen.root.rglob("*.harness-new") if runtime not in p.parents or "snapshot" in p.parts]
    if left:
        seen.problems.append(f"lock: left behind: {', '.join(str(p.relative_to(seen.root)) for p in left)}")


def _rows(seen: Seen) -> None:
    for path, rows in seen.ledgers.items():
        double = [name for name, n in Counter(row["id"] for row in rows).items() if n > 1]
        if double:
            seen.problems.append(f"doubled: {path} has the ids {double[:3]} twice")


def _history(seen: Seen) -> None:
    if any(" " in entry[1] for entry in seen.history):
        seen.problems.append("history: a merge that nobody made")
    double = [name for name, n in Counter(e[3] for e in seen.history if e[3]).items() if n > 1]
    if double:
        seen.problems.append(f"doubled: the ticks {double[:3]} are in history twice")
    for newer, older in zip(seen.history, seen.history[1:], strict=False):
        if newer[2] == older[2]:
            seen.problems.append(f"history: {newer[0][:10]} is empty")


def _snapshot(seen: Seen) -> None:
    place = seen.root / ".git/harness/snapshot"
    now = json.loads((place / "now.json").read_bytes())
    if now["commit"] != seen.history[0][0] or now.get("unaccepted"):
        seen.problems.append(f"snapshot: of {now['commit'][:10]}, unaccepted {now.get('unaccepted')}")
    for path in place.glob("skills/*.json"):
        value = json.loads(path.read_bytes())
        for name, key in (("AGENTS", "loader"), ("overlay", "overlay")):
            if value[key] != (seen.text(f"skills/{path.stem}/{name}.md") or ""):
                seen.problems.append(f"snapshot: {key} of {path.stem} is not the committed one")


def _waiting(seen: Seen) -> None:
    runtime = seen.root / ".git/harness"
    for folder in ("deferred", "refused", "spool/taken", "spool/bad"):
        names = [p.name for p in (runtime / folder).iterdir()] if (runtime / folder).is_dir() else []
        if names:
            seen.problems.append(f"waiting: {folder} holds {names[:3]}")
    journal = (runtime / "journal").read_bytes()
    if journal.count(b"\n") > 1 and not journal.endswith(b'{"end":1}\n'):
        seen.problems.append("waiting: the journal has an unfinished transaction")


def _person(seen: Seen) -> None:
    for path, text in PERSON.items():
        if (seen.root / path).read_text() != text:
            seen.problems.append(f"person: {path} is not as it was left")
    if git(seen.root, "show", f":{STAGED}") != "staged\n":
        seen.problems.append("person: what was staged is not as it was left")
