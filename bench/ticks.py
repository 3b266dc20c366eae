"""What a tick costs, against `git add` and `git commit` of the same row in an equal repository."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator

from bench.measure import Result, medians, ms, once
from bench.places import LEDGER, add_and_commit, folder, row, row_tick, workspace
from harness.store import maintenance
from harness.store.commit import Store
from harness.store.tick import Append, Tick

SIZES = {"10 files": {}, "1,000 files": {"files": 1_000}, "10,000 files": {"files": 10_000}}
AGES = {"1,000 commits": {"commits": 1_000}, "50,000 commits": {"commits": 50_000}}
BOUNDS = {"10 files": 2.0, "10,000 files": 0.6}


def inside(rounds: int) -> Iterator[Result]:
    """One tick in a running process, by tracked files and by length of history."""
    kept: dict[str, float] = {}
    for name, what in {**SIZES, **AGES}.items():
        with folder() as place:
            ours, theirs = workspace(place / "ours", **what), workspace(place / "theirs", **what)

            def opened() -> None:
                with Store(ours) as store:  # noqa: B023
                    store.commit(row_tick())

            with Store(ours) as long_lived:
                found = medians(
                    {
                        "git": lambda: add_and_commit(theirs.root),  # noqa: B023
                        "opened": opened,
                        "kept": lambda: long_lived.commit(row_tick()),
                    },
                    rounds=rounds,
                )
            detail = ", ".join(f"{key} {ms(value)}" for key, value in found.items())
            yield Result(
                f"tick, store opened for it, {name} / git add + commit",
                found["opened"] / found["git"],
                BOUNDS.get(name),
                "x",
                detail,
            )
            bound = 1.0 if name == "10 files" else None
            yield Result(f"tick, store kept open, {name} / git add + commit", found["kept"] / found["git"], bound)
            kept[name] = found["kept"]
    yield Result("tick, kept open: 50,000 commits / 1,000 commits", kept["50,000 commits"] / kept["1,000 commits"], 1.3)
    yield Result(
        "tick, kept open: 10,000 files / 10 files (index refresh in it)", kept["10,000 files"] / kept["10 files"], None
    )


def cold(rounds: int) -> Iterator[Result]:
    """One tick in a process of its own, against a process that only imports what a tick needs."""
    with folder() as place:
        ours = workspace(place / "ours")
        one_shot = (
            "import sys; from pathlib import Path; from harness import workspace\n"
            "from harness.store.commit import Store; from bench.places import row_tick\n"
            "with Store(workspace.find(Path.cwd(), {}, sys.argv[1])) as store: store.commit(row_tick())"
        )
        command = [sys.executable, "-P", "-m", "harness", "--workspace", str(ours.root)]

        def run(*args: str) -> None:
            subprocess.run(args, capture_output=True, check=True)

        found = medians(
            {
                "imports": lambda: run(sys.executable, "-c", "import git, jsonschema"),
                "store": lambda: run(sys.executable, "-c", one_shot, str(ours.root)),
                "feedback": lambda: run(*command, "feedback", "feedback", "a gap"),
                "pass": lambda: run(sys.executable, "-c", "pass"),
                "status": lambda: run(*command, "status"),
                "help": lambda: run(*command, "--help"),
            },
            rounds=rounds,
        )
    yield Result(
        "one-shot tick / python -c 'import git, jsonschema'",
        found["store"] / found["imports"],
        1.5,
        "x",
        ms(found["store"]),
    )
    yield Result(
        "harness feedback / python -c 'import git, jsonschema'",
        found["feedback"] / found["imports"],
        1.5,
        "x",
        ms(found["feedback"]),
    )
    yield Result("harness status / python -c pass", found["status"] / found["pass"], 3.0, "x", ms(found["status"]))
    yield Result("harness --help / python -c pass", found["help"] / found["pass"], 3.0, "x", ms(found["help"]))


def bulk(rounds: int) -> Iterator[Result]:
    """Many ticks at once, and many rows in one tick."""
    with folder() as place, Store(workspace(place / "ours")) as store:
        ticks = statistics.median(once(lambda: store.commit_all([row_tick() for _ in range(1_000)])) for _ in range(3))
        imports = [Tick("import", "rows", [Append(LEDGER, row()) for _ in range(20_000)]) for _ in range(3)]
        rows = statistics.median(once(lambda: store.commit(tick)) for tick in imports)  # noqa: B023
    yield Result("ticks a second, 1,000 at once", 1_000 / ticks, 1_000, "/s")
    yield Result("rows a second in one tick, validated", 20_000 / rows, 50_000, "/s")


def ageing(ticks: int) -> Iterator[Result]:
    """One-row ticks over a ledger's life, packed now and then as the drain does."""
    times, raw = [], 0
    with folder() as place:
        ours = workspace(place / "ours")
        with Store(ours) as store:
            for n in range(ticks):
                tick = row_tick()
                times.append(once(lambda: store.commit(tick)))  # noqa: B023
                if n % 100 == 99 and maintenance.due(store):
                    maintenance.run(store)
            raw = sum(len(store.tree.read(part) or b"") for part in store.tree.parts(LEDGER))
        size = sum(path.stat().st_size for path in (ours.git_dir / "objects").rglob("*") if path.is_file())
    span = min(1_000, ticks // 4)
    first, last = statistics.median(times[:span]), statistics.median(times[-span:])
    yield Result(
        f"tick, last {span:,} of {ticks:,} / first {span:,}", last / first, 1.15, "x", f"{ms(first)}, {ms(last)}"
    )
    yield Result(
        f"objects after {ticks:,} one-row ticks / raw rows",
        size / raw,
        2.0,
        "x",
        f"{size / 1e6:.1f} MB of {raw / 1e6:.1f} MB",
    )
