"""Ledgers: rows go in at the end, come out in order, and an old ledger costs what a young one does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fixtures.workspaces import QUARANTINE, Place, row, row_tick
from hypothesis import given
from hypothesis import strategies as st

from harness.store.planner import SEGMENT_BYTES, Plan, plan, segment_name
from harness.store.tick import Append, Tick, row_line
from harness.store.tree import BadLine


def segments(place: Place) -> list[str]:
    return [
        name
        for name in place.git("ls-tree", "-r", "--name-only", "HEAD").split("\n")
        if name.startswith(QUARANTINE + ".d/")
    ]


def test_a_row_is_one_line_of_compact_json(place: Place) -> None:
    place.tick(text="é\n\u2028")
    data = (place.root / QUARANTINE).read_bytes()
    assert data == place.store.tree.read(QUARANTINE)
    assert data.count(b"\n") == 1
    assert data.endswith(b"\n")
    assert b'"text":"\xc3\xa9\\n\xe2\x80\xa8"' in data
    assert place.texts() == ["é\n\u2028"]


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text())))
def test_any_row_is_a_line_that_reads_back(value: dict[str, Any]) -> None:
    line = row_line(value)
    assert line.count(b"\n") == 1
    assert json.loads(line) == json.loads(json.dumps(value).encode("utf-8", "replace"))


def test_lone_surrogates_become_readable() -> None:
    assert json.loads(row_line({"a": "x\ud800y", "b": "é\udcff"})) == {
        "a": "x\ufffd\ufffd\ufffdy",
        "b": "é\ufffd\ufffd\ufffd",
    }


def test_an_active_file_past_64_kib_is_sealed_and_order_is_kept(place: Place) -> None:
    first = row(text="0")
    place.store.commit(Tick("feedback", "first", [Append(QUARANTINE, first)]))
    texts = ["0"]
    while len(segments(place)) < 2:
        texts.append(f"{len(texts)} " + "x" * 3000)
        place.tick(text=texts[-1])
        assert (place.root / QUARANTINE).stat().st_size <= SEGMENT_BYTES
    assert segments(place)[0] == f"{QUARANTINE}.d/{first['id']}.ndjson"
    assert place.texts() == texts
    for name in segments(place):
        assert SEGMENT_BYTES - 4000 < (place.root / name).stat().st_size <= SEGMENT_BYTES
    assert place.porcelain() == []
    # The tick that overfills seals and starts anew in one commit.
    roll = place.git("log", "-1", "--diff-filter=A", "--format=%H", "--", segments(place)[-1])
    assert place.changed(roll) == [QUARANTINE, segments(place)[-1]]


def test_many_rows_in_one_tick_roll_as_often_as_they_must(place: Place) -> None:
    texts = [f"{n} " + "x" * 500 for n in range(600)]
    place.store.commit(Tick("import", "many", [Append(QUARANTINE, row(text=text)) for text in texts]))
    assert len(segments(place)) >= 5
    assert place.texts() == texts
    assert place.porcelain() == []
    place.tick(text="one more")
    assert place.texts() == [*texts, "one more"]


def test_a_row_is_found_once_across_a_roll_of_several_ticks(place: Place) -> None:
    texts = [f"{n} " + "x" * 3000 for n in range(60)]
    place.store.commit_all([row_tick(text=text) for text in texts])
    assert place.texts() == texts
    assert place.porcelain() == []


def test_order_is_kept_when_the_clock_goes_back(place: Place) -> None:
    texts = []
    for hour, letter in enumerate("ZAMB"):
        for n in range(40):
            texts.append(f"{letter}{n} " + "x" * 2000)
            row_id = f"01{letter}{hour}{n:02}".ljust(26, "0")
            place.store.commit(Tick("feedback", "s", [Append(QUARANTINE, row(id=row_id, text=texts[-1]))]))
    assert len(segments(place)) >= 4
    assert place.texts() == texts


def test_segment_names_sort_after_all_that_exist() -> None:
    body = row_line({"id": "01A"})
    assert segment_name("l", body, [], Plan()) == "l.d/01A.ndjson"
    assert segment_name("l", body, ["01B.ndjson"], Plan()) == "l.d/01B~000001.ndjson"
    assert segment_name("l", body, ["01B.ndjson", "01B~000009.ndjson"], Plan()) == "l.d/01B~000010.ndjson"
    assert segment_name("l", body, ["01A.ndjson"], Plan()) == "l.d/01A~000001.ndjson"
    assert segment_name("l", b"no json\n", [], Plan()).startswith("l.d/")
    assert segment_name("l", row_line({"id": "../../x"}), [], Plan()).count("/") == 1


@given(st.lists(st.integers(0, 99), min_size=1, max_size=300))
def test_segment_names_stay_in_order_and_short_whatever_the_clock_does(clock: list[int]) -> None:
    names: list[str] = []
    for at in clock:
        name = segment_name("l", row_line({"id": f"01ARZ3NDEKTSV4RRFFQ69G5F{at:02}"}), names, Plan()).removeprefix(
            "l.d/"
        )
        assert name not in names
        names.append(name)
    assert names == sorted(names)
    assert max(map(len, names)) <= 255


def test_lines_that_cannot_be_read_are_given_as_such(place: Place) -> None:
    place.tick(text="a")
    lines = [b"not json", b"[1, 2]", b"\xff\xfe", b"", b"[" * 5000, b'{"text": "b"}']
    (place.root / QUARANTINE).write_bytes((place.root / QUARANTINE).read_bytes() + b"\n".join(lines))
    place.git("commit", "-q", "--no-verify", "-am", "by hand")
    found = list(place.store.rows(QUARANTINE))
    bad = [one for one in found if isinstance(one, BadLine)]
    assert [(one.number, one.data) for one in bad] == [(2, lines[0]), (3, lines[1]), (4, lines[2]), (6, lines[4])]
    assert all(one.path == QUARANTINE and one.reason for one in bad)
    assert [one["text"] for one in found if isinstance(one, dict)] == ["a", "b"]
    # A last line without its line break is completed, never glued to the next row.
    place.tick(text="c")
    assert [r["text"] for r in place.store.rows(QUARANTINE) if isinstance(r, dict)] == ["a", "b", "c"]


def test_what_is_written_behind_the_stores_back_is_no_row(place: Place) -> None:
    place.tick(text="a")
    with open(place.root / QUARANTINE, "ab") as file:
        file.write(row_line(row(text="sneaked in")))
    assert place.texts() == ["a"]
    landed = place.tick(text="b")
    assert landed.left == [QUARANTINE]
    assert place.texts() == ["a", "b"]
    assert place.porcelain() == [f" M {QUARANTINE}"]
    (place.root / QUARANTINE).unlink()
    assert place.texts() == ["a", "b"]


def test_a_pending_edit_survives_the_roll_of_its_ledger(place: Place) -> None:
    place.tick(text="a" * 3900)
    with open(place.root / QUARANTINE, "ab") as file:
        file.write(b"mine\n")
    mine = (place.root / QUARANTINE).read_bytes()
    texts = ["a" * 3900]
    while not segments(place):
        texts.append(f"{len(texts)} ".ljust(3900, "x"))
        place.tick(text=texts[-1])
    assert (place.root / QUARANTINE).read_bytes() == mine
    assert place.texts() == texts
    place.git("checkout", "HEAD", "--", QUARANTINE)
    place.tick(text="last")
    assert place.porcelain() == []


def test_an_empty_or_missing_ledger_has_no_rows(place: Place) -> None:
    assert list(place.store.rows("state/log/none.ndjson")) == []
    assert list(place.store.rows("state")) == []


@given(st.lists(st.integers(1, 40_000), min_size=1, max_size=30))
def test_a_plan_loses_no_byte_whatever_the_sizes(sizes: list[int]) -> None:
    writes = [Append("l", {"id": f"{n:03}", "text": "x" * size}) for n, size in enumerate(sizes)]
    made = plan(Tick("feedback", "s", writes), lambda path: None, lambda folder: [])
    parts = [made.changes[path] or b"" for path in sorted(p for p in made.changes if p.startswith("l.d/"))]
    assert b"".join([*parts, made.changes["l"] or b""]) == b"".join(row_line(w.row) for w in writes)


@pytest.mark.parametrize("kind", ["one tick a row", "all at once"])
def test_rows_read_by_another_store_are_the_same(place: Place, kind: str) -> None:
    ticks = [row_tick(text=str(n)) for n in range(50)]
    if kind == "all at once":
        place.store.commit_all(ticks)
    else:
        for tick in ticks:
            place.store.commit(tick)
    assert (
        place.texts()
        == [str(n) for n in range(50)]
        == [r["text"] for r in place.store.rows(QUARANTINE) if isinstance(r, dict)]
    )
