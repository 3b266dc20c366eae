"""What it costs to verify history: one-row ticks by the second, and many rows against a bare parse of them."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from bench.measure import Result, medians, ms
from bench.places import LEDGER, folder, git, row, row_tick, workspace
from harness.store.commit import Store
from harness.store.tick import Append, Tick
from harness.store.verify import verify

_AT_ONCE = 2_000


def history(rounds: int, ticks: int, rows: int) -> Iterator[Result]:
    """All of a history of ``ticks`` one-row ticks, and of one with ``rows`` rows in ticks of 2,000."""
    with folder() as place:
        many_ticks, many_rows = workspace(place / "ticks"), workspace(place / "rows")
        with Store(many_ticks) as one, Store(many_rows) as two:
            for _ in range(0, ticks, _AT_ONCE):
                one.commit_all([row_tick() for _ in range(_AT_ONCE)])
            for _ in range(0, rows, _AT_ONCE):
                two.commit(Tick("feedback", "rows", [Append(LEDGER, row()) for _ in range(_AT_ONCE)]))
            for made in (many_ticks, many_rows):
                git(made.root, "repack", "-adq")
            parts = [two.tree.read(part) or b"" for part in two.tree.parts(LEDGER)]
            lines = [line for part in parts for line in part.split(b"\n") if line]
            name, parse = _parser()
            work: dict[str, Callable[[], object]] = {
                "ticks": lambda: verify(one, full=True),
                "rows": lambda: verify(two, full=True),
                "parse": lambda: [None for line in lines if parse(line) is None],
            }
            found = medians(work, rounds=rounds, warm=1)
    yield Result("verify, one-row ticks", ticks / found["ticks"], 2_000, " ticks/s", ms(found["ticks"]))
    detail = f"{found['rows'] / rows * 1e6:.1f} us a row"
    yield Result(f"verify, {rows:,} rows / their parse by {name}", found["rows"] / found["parse"], 4.0, "x", detail)


def _parser() -> tuple[str, Callable[[bytes], Any]]:
    try:
        return "orjson", importlib.import_module("orjson").loads
    except ImportError:
        return "json", json.loads
