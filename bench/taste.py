"""What it costs to count a million decisions, beside parsing their lines."""

from __future__ import annotations

import json
import random
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.measure import Result
from bench.places import folder, workspace
from harness.flows import drafting
from harness.flows import taste as taste_flow
from harness.store.commit import Store
from harness.taste import tally

try:
    from orjson import loads
except ImportError:
    loads = json.loads


def taste(rows: int = 1_000_000) -> Iterator[Result]:
    """One pass over ``rows`` approvals of as many drafts; the shapes of their texts are known."""
    with folder() as place:
        path = place / "approvals.ndjson"
        _write(path, rows)
        shapes = {_hash(n): ("email", "message", "other")[n % 3] for n in range(5_000)}
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        parse = min(_seconds(lambda: _parse(path)) for _ in range(3))
        took = min(
            _seconds(lambda: tally.tally(_rows(path), lambda row: shapes.get(row["draft_sha256"]))) for _ in range(3)
        )
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    yield from _latency()
    detail = f"{took:.2f} s; parsing alone {parse:.2f} s; memory grew by {grown} MB"
    yield Result(f"distill-approvals over {rows:,} decisions vs parsing them", took / parse, 3.0, "x", detail)


def _latency(times: int = 5) -> Iterator[Result]:
    """From a decision's commit to its hint on disk: the pass runs in the background, in a process of its own."""
    with folder() as place, Store(workspace(place / "w")) as store:
        for _ in range(2):
            _decide(store)
        taste_flow.refresh(store, lambda line: None)
        waited = []
        for _ in range(times):
            _decide(store)
            before = store.tree.blob_id(taste_flow.HINTS)
            start = time.perf_counter()
            taste_flow.fire(store)
            while store.tree.blob_id(taste_flow.HINTS) == before:
                time.sleep(0.01)
            waited.append(time.perf_counter() - start)
            while (store.runtime / "taste.again").exists():
                time.sleep(0.01)
    yield Result(
        "from a decision to its hint on disk (seconds)",
        statistics.median(waited),
        5.0,
        "s",
        f"of {times}, longest {max(waited):.1f} s",
    )


def _decide(store: Store) -> None:
    draft, _ = drafting.new(store, "mail", f"Subject: Offer\n\n{time.time_ns()}\n", {})
    drafting.decide(store, draft.path, drafting.Decision("approve", "ada", draft.sha256))


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _parse(path: Path) -> None:
    with open(path, "rb") as file:
        for line in file:
            loads(line)


def _rows(path: Path) -> Iterator[Any]:
    with open(path, "rb") as file:
        for line in file:
            yield loads(line)


def _hash(number: int) -> str:
    return f"{number:064x}"


def _write(path: Path, count: int) -> None:
    chance = random.Random(1)
    with open(path, "w") as file:
        for n in range(count):
            skill = f"mail{n % 7}"
            row = {
                "id": f"01JE9Z0K3Q5W8T4X7R{n:08d}", "ts": "2026-11-30T21:48:00Z", "path": f"log/{skill}/{n:09d}-draft.md",
                "decision": chance.choice(("approve", "dismiss", "approve", "edit")), "source_skill": skill, "title": f"Offer {n}",
                "reason": None, "latency_ms": chance.randrange(60_000), "draft_sha256": _hash(n % 5_000), "operator": "ada",
            }  # fmt: skip
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
