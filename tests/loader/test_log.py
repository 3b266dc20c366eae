"""Reading on in a log that others append to."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.loader.log import fresh

_LOGS = st.lists(st.sampled_from([b"a", b"b", b"c", b"", b"\xff\r"]), max_size=6).map(
    lambda lines: b"".join(line + b"\n" for line in lines)
)


def test_only_whole_lines_behind_what_is_committed_are_new() -> None:
    got = fresh(b"one\n", b"one\ntwo\nthree\nfou")
    assert got.lines == [(2, b"two"), (3, b"three")]
    assert got.committed == b"one\ntwo\nthree\n"
    assert not got.rewritten


def test_a_log_that_was_put_back_to_an_older_state_loses_nothing_and_repeats_nothing() -> None:
    got = fresh(b"one\ntwo\n", b"one\nthree\n")
    assert got.lines == [(2, b"three")]
    assert got.committed == b"one\ntwo\nthree\n"
    assert got.rewritten


@given(_LOGS, _LOGS)
@settings(deadline=None)
def test_what_is_committed_only_grows_and_each_line_is_taken_once(committed: bytes, disk: bytes) -> None:
    got = fresh(committed, disk)
    assert got.committed.startswith(committed)
    assert got.committed[len(committed) :] == b"".join(line + b"\n" for _, line in got.lines)
    again = fresh(got.committed, disk)
    assert again.lines == []
    assert again.committed == got.committed
