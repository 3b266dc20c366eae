"""What the operations share: commands in this process, rows and ticks, and the workspace they all start from."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from harness import cli, workspace
from harness.errors import HarnessError
from harness.flows import install
from harness.ids import ulid
from harness.store import files
from harness.store.commit import Store
from harness.store.tick import Append, Tick, Write

from .place import LOG, OVERLAY, QUARANTINE, REFERENCE, Seen, git, person_at_work

SESSION: Final = "5b0c7c1e-2f64-4a0b-9d1e-7d7a3c1f9a10"
LINES: Final = {
    "aeo": ["the date field moved", "prices have a currency now", "the button is below the form"],
    "geo": ["maps need a zoom", "the legend is missing"],
}


def command(root: Path, *args: str) -> int:
    """One call of the command line in this process."""
    return cli.run(["--workspace", str(root), *args])


def by_store(root: Path, work: Callable[[Store], object]) -> int:
    """``work`` with the workspace's store, with errors told and coded as the command line does."""
    try:
        with Store(workspace.find(root, {}, root)) as store:
            work(store)
    except (HarnessError, OSError) as error:
        told = files.explain(error) if isinstance(error, OSError) else error
        print(f"harness: {told}", file=sys.stderr)
        return told.exit_code
    return 0


def row(text: str, reason: str = "test") -> Append:
    """A row that says ``text``."""
    fields = {
        "id": ulid(),
        "ts": "2026-07-01T10:00:00Z",
        "source": "test",
        "position": "line 1",
        "text": text,
        "reason": reason,
    }
    return Append(QUARANTINE, fields)


def tick(text: str, *writes: Write, kind: str = "feedback") -> Tick:
    """A tick with a row that says ``text``, and more."""
    return Tick(kind, text, [row(text), *writes], {"Session": SESSION})


def one_row(root: Path) -> int:
    """One row, one tick."""
    return by_store(root, lambda store: store.commit(tick("the row")))


def life_goes_on(root: Path) -> int:
    """One more tick."""
    return by_store(root, lambda store: store.commit(tick("after")))


def base(root: Path) -> None:
    """The start of all: a workspace with two skills, some rows, a loader, and a person at work."""
    install.lay_out(root, None, lambda line: None)
    for name in LINES:
        place = root / f"skills/{name}/SKILL.md"
        place.parent.mkdir(parents=True)
        place.write_text(f"---\nname: {name}\ndescription: The skill {name}.\n---\n# base\n")
    (root / OVERLAY).write_text("the old overlay\n")
    (root / REFERENCE).parent.mkdir()
    (root / REFERENCE).write_text("old\n")
    git(root, "add", "skills")
    git(root, "commit", "-qm", "skills")
    with Store(workspace.find(root, {}, root)) as store:
        for n in range(3):
            store.commit(tick(f"before {n}"))
    person_at_work(root)
    assert command(root, "observe", "--quiet") == 0


def append(root: Path, *lines: str) -> None:
    """What an agent's echo does."""
    for line in lines:
        script = f"echo {shlex.quote(line)} >> {shlex.quote(str(root / LOG))}"
        subprocess.run(["/bin/sh", "-c", script], check=True)


def once(seen: Seen, path: str, texts: list[str]) -> Iterator[str]:
    found = Counter(str(r.get("text")) for r in seen.rows(path))
    for text in texts:
        if found[text] != 1:
            yield f"{'lost' if not found[text] else 'doubled'}: {path} has {text!r} {found[text]} times"


def nothing(root: Path) -> None:
    pass
