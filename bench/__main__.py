"""`python -m bench`: run the benchmarks, print a table of ratios with what they should be, and keep the figures as JSON."""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import approval, hooks, reading, scrub, sessions, taste, ticks, verify
from bench.measure import Result

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Run what was asked for; the exit code is 0 whatever the figures say: they are for people to judge."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        help="inside, cold, bulk, ageing, hooks, verify, reading, scrub, taste, sessions, approval (default: all)",
    )
    parser.add_argument("--rounds", type=int, default=25, help="rounds of each comparison (default: 25)")
    parser.add_argument("--ticks", type=int, default=20_000, help="ticks of `ageing` (default: 20,000)")
    parser.add_argument(
        "--approvals", type=int, default=10_000, help="approvals that 16 workers send (default: 10,000)"
    )
    given = parser.parse_args()
    parts: dict[str, Callable[[], Iterator[Result]]] = {
        "inside": lambda: ticks.inside(given.rounds),
        "cold": lambda: ticks.cold(given.rounds),
        "bulk": lambda: ticks.bulk(given.rounds),
        "ageing": lambda: ticks.ageing(given.ticks),
        "hooks": lambda: hooks.hooks(given.rounds),
        "verify": lambda: verify.history(given.rounds, 10_000, 100_000),
        "reading": lambda: reading.reading(given.rounds),
        "scrub": scrub.scrubbed,
        "taste": taste.taste,
        "sessions": lambda: sessions.reading(given.rounds, 100),
        "approval": lambda: itertools.chain(approval.steps(given.rounds), approval.workers(given.approvals)),
    }
    if unknown := set(given.names) - set(parts):
        parser.error(f"no benchmark named {', '.join(sorted(unknown))}")
    found = []
    print(f"{'what':<76} {'value':>10} {'bound':>9}        detail")
    for name in given.names or parts:
        for one in parts[name]():
            found.append(one)
            print(line(one), flush=True)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.json"
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    machine = {"python": sys.version.split()[0], "git": git, "system": platform.platform()}
    path.write_text(
        json.dumps({"machine": machine, "results": [vars(one) | {"verdict": one.verdict} for one in found]}, indent=1)
        + "\n"
    )
    print(f"\nwritten to {path}")
    return 0


def line(one: Result) -> str:
    """One result as a line of the table."""
    rate = one.unit.endswith("/s")
    value = f"{one.value:,.0f}{one.unit}" if rate else f"{one.value:.2f}{one.unit}"
    bound = "" if one.bound is None else (f">= {one.bound:,.0f}" if rate else f"<= {one.bound:.2f}")
    return f"{one.name:<76} {value:>10} {bound:>9} {one.verdict:<6} {one.detail}"


if __name__ == "__main__":
    raise SystemExit(main())
