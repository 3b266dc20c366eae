"""Rotation of the log that agents append to: the log begins anew in the tick that keeps its old lines."""

from __future__ import annotations

import os

import pytest

from harness.flows import observe as module
from harness.flows.observe import LOG
from tests.flows.conftest import Bench


@pytest.fixture
def long_log(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A log that is long enough to be rotated at the next observe."""
    monkeypatch.setattr(module, "ROTATE_BYTES", 200)
    monkeypatch.setattr(module, "QUIET_SECONDS", 0)
    bench.append(*(f"aeo: gap number {n} is missing" for n in range(20)))
    return bench


def test_the_log_begins_anew_in_the_commit_that_keeps_its_lines(long_log: Bench) -> None:
    bench, whole = long_log, long_log.log.read_text()
    bench.observe()
    [part] = bench.store.tree.names(f"{LOG}.d")
    assert bench.read(f"{LOG}.d/{part}") == whole
    assert bench.read(LOG) == bench.log.read_text() == ""
    assert bench.project.git("status", "--porcelain") == ""
    assert bench.project.harness("verify").code == 0


def test_a_line_said_again_after_a_rotation_is_a_new_line(long_log: Bench) -> None:
    long_log.observe()
    long_log.append("aeo: gap number 3 is missing")
    long_log.observe()
    assert [r["text"] for r in long_log.feedback()].count("gap number 3 is missing") == 2


@pytest.mark.parametrize("recreated", [False, True])
def test_killed_after_the_renaming_no_line_is_taken_twice(
    long_log: Bench, monkeypatch: pytest.MonkeyPatch, recreated: bool
) -> None:
    bench = long_log
    with monkeypatch.context() as patch:
        patch.setattr(module, "ROTATE_BYTES", 1 << 30)
        bench.observe()
    (bench.log.parent / f"{bench.log.name}.d").mkdir()
    os.rename(bench.log, bench.log.parent / f"{bench.log.name}.d" / "20260701T100000.log")
    if recreated:
        bench.append("aeo: new")
    bench.observe()
    texts = [r["text"] for r in bench.feedback()]
    assert texts == [f"gap number {n} is missing" for n in range(20)] + ["new"] * recreated
    assert bench.log.exists()
    assert bench.project.git("status", "--porcelain") == ""


def test_two_rotations_in_one_second_do_not_meet(long_log: Bench) -> None:
    long_log.observe()
    long_log.append(*(f"aeo: gap number {n} is missing" for n in range(20, 40)))
    long_log.observe()
    long_log.observe()
    parts = sorted(p.read_text() for p in (long_log.log.parent / f"{long_log.log.name}.d").iterdir())
    everything = "".join(parts) + long_log.log.read_text()
    assert sorted(everything.splitlines()) == sorted(f"aeo: gap number {n} is missing" for n in range(40))
    assert len(long_log.feedback()) == 40
