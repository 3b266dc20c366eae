"""What it costs to read a long history: the first line of `log`, and `why` for a line, beside what git itself takes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from bench.measure import Result, medians, ms
from bench.places import folder, row_tick, workspace
from harness.store.commit import Store
from harness.store.tick import ABSENT, Replace, Tick
from harness.workspace import Workspace

LOADER = "skills/aeo/AGENTS.md"


def _first_line(made: Workspace, *args: str) -> None:
    command = [sys.executable, "-P", "-m", "harness", "--workspace", str(made.root), *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout
        process.stdout.readline()
        process.kill()


def reading(rounds: int, commits: int = 50_000) -> Iterator[Result]:
    """`log` and `why` on ``commits`` one-row ticks that lie on top of one lesson."""
    with folder() as place:
        made = workspace(place / "long")
        with Store(made) as store:
            store.commit(
                Tick("human", "loader", [Replace(LOADER, "# aeo\n\n- dates are ISO\n", ABSENT)], {"Skill": "aeo"})
            )
            for _ in range(0, commits, 2_000):
                store.commit_all([row_tick() for _ in range(2_000)])
        subprocess.run(["git", "-C", str(made.root), "repack", "-adq"], check=True)
        subprocess.run(
            ["git", "-C", str(made.root), "commit-graph", "write", "--reachable"], check=True, capture_output=True
        )
        blame = ["git", "-C", str(made.root), "blame", "-L3,3", "--", LOADER]
        got = medians(
            {
                "log": lambda: _first_line(made, "log", "--all"),
                "why": lambda: _first_line(made, "why", "aeo:3"),
                "git log": lambda: subprocess.run(
                    ["git", "-C", str(made.root), "log", "-1"], check=True, capture_output=True
                ),
                "git blame": lambda: subprocess.run(blame, check=True, capture_output=True),
            },
            rounds=min(rounds, 7),
            warm=1,
        )
        yield Result(
            f"log --all, first line of {commits:,} commits (seconds)",
            got["log"],
            0.2,
            "s",
            f"git log -1: {ms(got['git log'])}",
        )
        yield Result(
            f"why, first line under {commits:,} commits / git blame",
            got["why"] / got["git blame"],
            None,
            "x",
            f"{ms(got['why'])}, {ms(got['git blame'])}",
        )
