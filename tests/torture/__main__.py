"""`python -m tests.torture` (`make torture`): stop operations at their system calls and look at what is left.

Examples:
  python -m tests.torture                              every call of every operation, in every way
  python -m tests.torture --sample 240 --seed 1        as many, spread over all of them
  python -m tests.torture --only undo:full:31          one point again, with all that was said
  python -m tests.torture --at bulk:group:.keep        each call of an operation whose description holds a text
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import time
from collections import Counter, defaultdict
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from . import ptrace
from .operations import OPERATIONS
from .place import own_environment, scratch
from .points import DEEDS, Bench, Result, fits

Point = tuple[str, str, int]
_bench: list[Bench] = []
_keep: list[Path] = []  # where the workspaces of wrong points are kept: one folder, or none


def main() -> int:
    """Run what the arguments ask for; 0 when nothing was wrong."""
    asked = arguments()
    if why := ptrace.why_not():
        print(f"torture: {why}", file=sys.stderr)
        return 2
    folder = scratch()
    own_environment(folder)
    try:
        return _run(asked, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """What is asked for by ``words`` (None: by the command line)."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--operations", default=",".join(OPERATIONS), help="which operations, by name")
    parser.add_argument("--deeds", default=",".join(DEEDS), help="\n".join(f"{k}: {v}" for k, v in DEEDS.items()))
    parser.add_argument("--sample", type=int, help="how many points, instead of all")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--jobs", type=int, default=2, help="processes at work at a time")
    parser.add_argument(
        "--at",
        metavar="OPERATION:DEED:TEXT",
        action="append",
        default=[],
        help="points by what is called; may be given again",
    )
    parser.add_argument("--only", metavar="OPERATION:DEED:NUMBER", help="one point, told in full")
    parser.add_argument("--seconds", type=float, help="end after so long, and tell which share was tried")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="keep the workspace of a point that is wrong there")
    parser.add_argument("--json", metavar="FILE", help="write every result there")
    return parser.parse_args(words)


def _run(asked: argparse.Namespace, folder: Path) -> int:
    start = time.monotonic()
    only = asked.only.split(":") if asked.only else None
    at = [one.split(":", 2) for one in asked.at]
    names = [only[0]] if only else list(dict.fromkeys(one[0] for one in at)) or asked.operations.split(",")
    bench = Bench(folder, folder / "templates")
    for (
        operation
    ) in OPERATIONS.values():  # all, so that this process is as warm, and calls are numbered alike, in each run
        bench.template(operation)
    if only:
        result = bench.point(only[0], only[1], int(only[2]))
        print(json.dumps(asdict(result), indent=1))
        return bool(result.problems)
    calls = {name: bench.calls(OPERATIONS[name]) for name in names}
    found = [
        (name, deed, c.number) for name in names for deed in DEEDS for c in calls[name] if fits(deed, c)
        and (any(one[:2] == [name, deed] and one[2] in str(c) for one in at) if at else deed in asked.deeds.split(","))
    ]  # fmt: skip
    points = found if asked.sample is None else spread(found, asked.sample, asked.seed)
    print(
        f"{len(points)} of {len(found)} points at {sum(map(len, calls.values()))} calls of {len(names)} operations",
        flush=True,
    )
    results = []
    with get_context("fork").Pool(asked.jobs, _begin, (folder, asked.keep)) as pool:
        # Small portions, mixed: a long run shows something of everything early.
        mixed = random.Random(asked.seed).sample(points, len(points))
        for result in pool.imap_unordered(_try, mixed):
            results.append(result)
            if result.problems:
                print(f"\n{result.operation}:{result.deed}:{result.number}  {result.call}  exit {result.code}")
                print("".join(f"    {problem}\n" for problem in result.problems[:6]), end="", flush=True)
            if sys.stderr.isatty():
                print(f"\r{len(results)}/{len(points)}", end="", file=sys.stderr, flush=True)
            elif len(results) % 1000 == 0:
                print(f"{len(results)} of {len(points)}, {time.monotonic() - start:.0f} s", flush=True)
            if asked.seconds is not None and time.monotonic() - start > asked.seconds:
                print(f"time is up after {len(results)} of {len(points)} points, mixed by seed {asked.seed}")
                break
    if asked.json:
        Path(asked.json).write_text(json.dumps([asdict(result) for result in results], indent=1))
    tell(results, {name: len(calls[name]) for name in names}, time.monotonic() - start)
    return any(result.problems for result in results)


def spread(points: list[Point], count: int, seed: int) -> list[Point]:
    """``count`` of ``points``, evenly over operations and deeds, the same for the same seed."""
    chance, groups = random.Random(seed), defaultdict[tuple[str, str], list[Point]](list)
    for point in points:
        groups[point[:2]].append(point)
    rest = [chance.sample(group, len(group)) for group in groups.values()]
    chance.shuffle(rest)
    out: list[Point] = []
    while len(out) < min(count, len(points)):
        for group in rest:
            if group and len(out) < count:
                out.append(group.pop())
    return out


def tell(results: list[Result], calls: dict[str, int], seconds: float) -> None:
    """The table of a run: per operation its calls, the points of each deed, and what was wrong."""
    deeds = [deed for deed in DEEDS if any(r.deed == deed for r in results)]
    print(
        f"\n{'operation':16}{'calls':>6}"
        + "".join(f"{deed:>10}" for deed in deeds)
        + f"{'met':>8}{'lost':>6}{'doubled':>9}{'wrong':>7}"
    )
    for name, number in calls.items():
        mine = [r for r in results if r.operation == name]
        count = Counter(r.deed for r in mine)
        words = [" ".join(r.problems) for r in mine]
        row = (
            f"{name:16}{number:6}"
            + "".join(f"{count[deed]:10}" for deed in deeds)
            + f"{sum(bool(r.call) for r in mine):8}"
        )
        print(
            f"{row}{sum('lost:' in w for w in words):6}{sum('doubled:' in w for w in words):9}{sum(map(bool, words)):7}"
        )
    wrong = sum(bool(r.problems) for r in results)
    print(f"\n{len(results)} points, {sum(bool(r.call) for r in results)} met, {wrong} wrong, {seconds:.0f} s")


def _begin(folder: Path, keep: Path | None) -> None:
    mine = folder / f"at-{os.getpid()}"
    mine.mkdir()
    _bench[:] = [Bench(mine, folder / "templates")]
    _keep[:] = [keep] if keep else []


def _try(point: Point) -> Result:
    result = _bench[0].point(*point)
    for folder in _keep if result.problems else ():
        place = folder / "-".join(map(str, point))
        shutil.copytree(_bench[0].root, place / "workspace", symlinks=True, dirs_exist_ok=True)
        (place / "result.json").write_text(json.dumps(asdict(result), indent=1))
    return result


if __name__ == "__main__":
    sys.exit(main())
