"""One test for each kind of transcript that has gone wrong somewhere, by its number (T-01 to T-42)."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.sessions import lines, reader
from harness.sessions.lines import NotATranscript
from harness.sessions.render import render_session
from tests.sessions.places import CASES, case, counts, headings, made, markers, session_and_account, shown, tree

# name -> markers that must be there once, in order; (lines, records, recovered, dropped)
WHOLE = {
    "T-01": ([1, 2, 3, 4], (3, 4, 2, 0)), "T-02": ([1, 3, 4], (3, 3, 1, 1)), "T-03": ([1, 3, 4], (3, 3, 1, 1)),
    "T-04": ([1, 2, 3, 4], (5, 4, 1, 1)), "T-05": ([1, 2, 3, 4], (4, 4, 0, 0)), "T-06": ([1, 2, 3, 4], (4, 4, 1, 0)),
    "T-07": ([1, 2, 3, 4], (4, 4, 0, 0)), "T-08": ([1, 2, 3, 4], (4, 4, 0, 0)), "T-12": ([1, 2, 3, 4], (4, 4, 0, 0)),
    "T-13": ([1, 2, 3, 4], (10, 10, 0, 0)), "T-14": ([1, 2, 3, 4], (10, 5, 0, 5)), "T-15": ([1, 2, 3, 4], (4, 4, 0, 0)),
    "T-17": ([1, 2, 3, 4], (4, 4, 0, 0)), "T-19": ([1, 2, 3, 4, 5], (6, 6, 0, 0)), "T-20": ([1, 2, 3, 4, 5], (6, 6, 0, 0)),
    "T-21": ([1, 2, 3, 4, 5], (5, 5, 0, 0)), "T-22": ([1, 2, 3, 4, 5], (7, 7, 0, 0)), "T-23": ([1, 2, 3, 4, 5, 6], (12, 12, 0, 0)),
    "T-24": ([1, 2, 3, 4, 5, 6, 7], (15, 15, 0, 0)), "T-25": ([1, 2, 3, 4, 5, 6, 7, 8], (16, 16, 0, 0)),
    "T-26": ([1, 2, 3, 4], (4, 4, 0, 0)), "T-27": ([1, 3, 4], (4, 4, 0, 0)), "T-28": ([1, 2, 3, 4, 5, 6], (6, 6, 0, 0)),
    "T-29": ([1, 2, 3, 4, 5, 6], (7, 7, 0, 0)), "T-39": ([1, 2, 3, 4, 5, 6], (6, 6, 0, 0)), "T-40": ([1, 2, 3, 4], (5, 5, 0, 0)),
    "T-41": ([1, 2, 3, 4, 5], (6, 6, 0, 0)), "T-42": ([1, 2, 3, 4, 5, 6], (8, 8, 0, 0)),
}  # fmt: skip


@pytest.mark.parametrize("parse", [lines.parse, json.loads], ids=["fast", "plain"])
@pytest.mark.parametrize("name", WHOLE)
def test_every_turn_is_shown_once_and_the_account_is_exact(
    name: str, parse: Callable[[bytes], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "parse", parse)
    wanted, account = WHOLE[name]
    text = shown(case(name))
    assert markers(text) == [f"{name.lower().replace('-', '')}-m{n:02d}" for n in wanted]
    assert counts(session_and_account(case(name))[1]) == account
    text.encode("utf-8")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text)


def test_t01_the_joined_line_is_named() -> None:
    assert {line for line, _ in session_and_account(case("T-01"))[1].recovered} == {2}


def test_t02_t03_fragments_are_named_with_their_size() -> None:
    (dropped,) = session_and_account(case("T-02"))[1].dropped
    assert (dropped.line, dropped.bytes) == (2, 150)
    (dropped,) = session_and_account(case("T-03"))[1].dropped
    assert dropped.line == 2
    assert "not-a-record" not in shown(case("T-03"))


def test_t04_a_line_of_padding_is_called_so() -> None:
    (dropped,) = session_and_account(case("T-04"))[1].dropped
    assert (dropped.line, dropped.reason) == (4, "padding")


def test_t05_the_words_around_lone_surrogates_stay() -> None:
    text = shown(case("T-05"))
    assert "\ufffd WORD-AFTER" in text
    assert "\ufffd WORD-AFTER-TWO" in text


def test_t06_a_mended_line_says_so() -> None:
    heading = next(h for h in headings(shown(case("T-06"))) if h.startswith("[3]"))
    assert "line mended" in heading


def test_t09_a_session_that_is_being_written_is_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "T-09.jsonl"
    shutil.copy(case("T-09"), path)
    _, account = session_and_account(path)
    assert account.dropped == []
    assert account.incomplete
    assert account.incomplete.line == 4
    assert "last line incomplete" in shown(path)
    with open(path, "ab") as file:
        file.write((CASES / "T-09.rest").read_bytes())
    _, account = session_and_account(path)
    assert account.incomplete is None
    assert markers(shown(path)) == [f"t09-m{n:02d}" for n in range(1, 5)]


@pytest.mark.parametrize(("name", "why"), [("T-10.utf16", "UTF-16"), ("T-10.gz", "gzip")])
def test_t10_what_is_no_text_is_refused_with_the_cause(name: str, why: str) -> None:
    with pytest.raises(NotATranscript, match=why):
        reader.read(case(name))


def test_t11_a_deep_value_is_one_dropped_line(tmp_path: Path) -> None:
    path = made("T-11", tmp_path)
    account = session_and_account(path)[1]
    assert [(d.line, d.reason) for d in account.dropped] == [(3, "nested too deep")]
    assert markers(shown(path)) == ["t11-m01", "t11-m02", "t11-m04", "t11-m05"]


def test_t12_our_own_json_is_strict() -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    document = json.loads(shown(case("T-12"), format="json"), parse_constant=refuse)
    assert document["turns"] == [1, 4]


def test_t13_t14_t17_odd_records_are_counted_by_kind() -> None:
    assert session_and_account(case("T-13"))[1].odd.total() >= 6
    account = session_and_account(case("T-14"))[1]
    assert len(account.dropped) + account.odd.total() == 6
    assert "UNKNOWN-BLOCK-TEXT" in shown(case("T-17"))


def test_t15_times_that_are_none_are_unknown() -> None:
    times = [h.split("  ")[1] for h in headings(shown(case("T-15")))]
    assert times[0] == times[2] == "time unknown"


def test_t16_noise_does_not_crowd_out_the_turns(tmp_path: Path) -> None:
    path = made("T-16", tmp_path)
    text = render_session(str(path))
    assert markers(text) == [f"t16-m{n:02d}" for n in range(1, 21)]
    assert session_and_account(path)[1].notes == []


def test_t18_one_json_document_is_read(tmp_path: Path) -> None:
    assert markers(shown(case("T-18"))) == ["t18-m01", "t18-m02"]
    other = tmp_path / "other.jsonl"
    other.write_text('{\n "name": "x",\n "list": [1]\n}\n')
    with pytest.raises(NotATranscript, match="one JSON document, not JSON lines"):
        reader.read(other)


def test_t19_t30_a_reply_counts_its_tokens_once(tmp_path: Path) -> None:
    assert session_and_account(case("T-19"))[0].usage()["output_tokens"] == 500
    (path,) = tree("T-30", tmp_path).glob("*.jsonl")
    assert markers(shown(path)) == [f"t30-m{n:02d}" for n in range(1, 5)]
    assert reader.read(path).usage()["output_tokens"] == 650


def test_t20_the_orphan_and_the_second_answer_are_labelled() -> None:
    text = shown(case("T-20"))
    assert text.index("result without a call") < text.index("t20-m02")
    assert text.index("answer 2:") < text.index("t20-m04")


def test_t21_an_image_is_one_short_line() -> None:
    text = render_session(str(case("T-21")), max_chars=6_000)
    assert markers(text) == [f"t21-m{n:02d}" for n in range(1, 6)]
    assert "[image: image/png, 15,000 bytes]" in text
    assert not re.search(r"[A-Za-z0-9+/]{100}", text)


def test_t22_hook_text_is_labelled_as_such() -> None:
    text = shown(case("T-22"))
    for number, label in ((2, "hook additional context"), (3, "hook blocking error"), (4, "hook errors at the stop")):
        assert text.index(label) < text.index(f"t22-m{number:02d}")
    assert "hook cancelled, Stop" in text
    assert [h.split()[1] for h in headings(text)] == ["user", "assistant", "assistant"]


@pytest.mark.parametrize(("name", "repeats"), [("T-23", 4), ("T-24", 4), ("T-25", 8)])
def test_t23_to_t25_repeats_are_counted(name: str, repeats: int) -> None:
    assert len(session_and_account(case(name))[1].duplicates) == repeats
    assert f"{repeats} repeats left out" in shown(case(name))


def test_t24_t42_summaries_are_labelled_with_what_they_stand_for() -> None:
    text = shown(case("T-24"))
    assert text.index("summary of the 4 turns before it") < text.index("SUMMARY-ONE")
    assert text.index("summary of the 6 turns before it") < text.index("SUMMARY-TWO")
    text = shown(case("T-42"), start_turn=-2)
    assert markers(text) == ["t42-m05", "t42-m06"]
    assert "summary of the 4 turns before it (written by the client, not typed)" in text


def test_t26_a_circle_is_named() -> None:
    assert any("circle" in note for note in session_and_account(case("T-26"))[1].notes)
    assert "circle" in shown(case("T-26"))


def test_t27_the_branch_that_was_left_is_announced_and_can_be_read() -> None:
    path = case("T-27")
    text = shown(path)
    found = re.search(r"another branch of 1 turn ends in T-27:([0-9a-f-]+)", text)
    assert found
    assert markers(shown(path, head_id=found[1])) == ["t27-m01", "t27-m02"]
    assert markers(render_session(f"x:{found[1]}", store=lambda name: path)) == ["t27-m01", "t27-m02"]


def test_t28_a_side_thread_is_no_turn_of_the_main_one() -> None:
    text = shown(case("T-28"))
    assert len(headings(text)) == 3
    assert text.count("side thread, ") == 3


def test_t29_each_result_stands_under_the_call_before_it() -> None:
    text = shown(case("T-29"))
    first, second = text.index("t29-m03"), text.index("t29-m05")
    assert text.count("- Bash ok") == 2
    assert text.index("- Bash ok") < first < text.rindex("- Bash ok") < second


def test_t31_five_levels_of_subagents(tmp_path: Path) -> None:
    (path,) = tree("T-31", tmp_path).glob("*.jsonl")
    text = shown(path)
    assert markers(text) == [f"t31-m{n:02d}" for n in range(1, 7)]
    assert "subagent a1 > a2 > a3 > a4 > a5, assistant" in text
    next(tmp_path.rglob("agent-a3.jsonl")).unlink()
    text = shown(path)
    assert markers(text) == ["t31-m01", "t31-m02", "t31-m03", "t31-m05", "t31-m06"]
    assert "started subagent a3 (its file is missing)" in text
    assert "a4 > a5" in text


def test_t32_projects_are_told_apart_by_their_records(tmp_path: Path) -> None:
    tree("T-32", tmp_path)
    folders = {reader.read(path).cwd for path in tmp_path.rglob("*.jsonl")}
    assert folders == {"/proj/my-app", "/proj/my/app"}


def test_t33_sessions_are_found_by_listing_and_the_index_is_a_hint(tmp_path: Path) -> None:
    project = tmp_path / "projects/-proj-demo"
    project.mkdir(parents=True)
    for number in range(12):
        shutil.copy(case("T-39"), project / f"s{number:02d}.jsonl")
    index = {"version": 1, "entries": [{"sessionId": name} for name in ("s00", "s01", "lost-one")]}
    (project / "sessions-index.json").write_text(json.dumps(index))
    env = {"CLAUDE_CONFIG_DIR": str(tmp_path), "HOME": str(tmp_path / "nobody")}
    assert len(reader.find_all(env)[0]) == 12
    assert reader.gone(env) == ["lost-one"]


def test_t35_every_root_that_was_looked_at_is_named(tmp_path: Path) -> None:
    (tmp_path / "cfg/projects/-p").mkdir(parents=True)
    (tmp_path / "home/.claude/projects").mkdir(parents=True)
    shutil.copy(case("T-39"), tmp_path / "cfg/projects/-p/abcd1234.jsonl")
    env = {"CLAUDE_CONFIG_DIR": str(tmp_path / "cfg"), "HOME": str(tmp_path / "home")}
    found, places = reader.find_all(env)
    assert [one.id for one in found] == ["abcd1234"]
    assert [(str(root.relative_to(tmp_path)), what) for root, what in places] == [
        ("cfg/projects", "1 session"), ("home/.claude/projects", "0 sessions"), ("home/.codex/sessions", "no such folder"),
        ("home/.gemini/tmp", "no such folder"),
    ]  # fmt: skip
    assert reader.locate("abcd", env).name == "abcd1234.jsonl"
    with pytest.raises(reader.NoSession, match=r"cfg/projects: 1 session"):
        reader.locate("nothing", env)


def test_t36_a_line_of_thirty_megabytes(tmp_path: Path) -> None:
    path = made("T-36", tmp_path)
    text = shown(path)
    assert markers(text) == [f"t36-m{n:02d}" for n in range(1, 5)]
    assert re.search(r"… [\d,]+ of 3\d,\d{3},\d{3} characters left out …", text)
    kept = sum(len(n.output.head) + len(n.output.tail) for n in reader.read(path).nodes)
    assert kept < 20_000


def follow(path: Path, **more: int) -> list[str]:
    """The pages of a session, each from where the one before says."""
    pages, turn, item = [], 0, 0
    while len(pages) < 1_000:
        pages.append(render_session(str(path), start_turn=turn, start_item=item, **more))
        found = re.search(r"^cut here; .* --turns (\d+):\d*(?: --item (\d+))?$", pages[-1], re.M)
        if not found:
            return pages
        turn, item = int(found[1]), int(found[2] or 0)
    raise AssertionError("no end")


def test_t37_the_limit_is_hard_and_every_call_is_reached(tmp_path: Path) -> None:
    path = made("T-37", tmp_path)
    pages = follow(path, max_chars=2_000)
    assert all(len(page) <= 2_000 for page in pages)
    assert re.search(r"next is turn 2 of 3, item \d+: ", pages[1])
    calls = re.findall(r"t37-c\d{3}", "".join(pages))
    assert calls == [f"t37-c{n:03d}" for n in range(300)]
    assert markers("".join(pages)) == ["t37-m01", "t37-m02"]


def test_t38_pages_join_to_the_whole(tmp_path: Path) -> None:
    path = made("T-38", tmp_path)
    pages = follow(path, max_chars=3_000)
    assert len(pages) > 5
    blocks = "".join(re.sub(r"\Aturns [^\n]*\n|\ncut here; [^\n]*\n\Z", "", page) for page in pages)
    assert blocks == shown(path).split("\n", 1)[1]
    numbers = [re.match(r"turns (\d+)-(\d+) of 40 ", page) for page in pages]
    ends = [int(m[2]) for m in numbers if m]
    assert [int(m[1]) for m in numbers if m] == [1, *(end + 1 for end in ends[:-1])]
    assert ends[-1] == 40


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        (-2, 0, (5, 6)),
        (0, -1, (1, 6)),
        (3, 3, (3, 3)),
        (5, 2, None),
        (7, 9, None),
        (-99, 2, (1, 2)),
        (0, 0, (1, 6)),
        (2, 999, (2, 6)),
    ],
)
def test_t39_ranges(start: int, end: int, wanted: tuple[int, int] | None) -> None:
    text = shown(case("T-39"), start_turn=start, end_turn=end)
    if wanted is None:
        assert text.count("\n") == 1
        assert "6 turns" in text
    else:
        assert text.startswith(f"turns {wanted[0]}-{wanted[1]} of 6 ")
        assert [int(h[1]) for h in headings(text)] == list(range(wanted[0], wanted[1] + 1))


def test_t40_text_of_a_result_cannot_pass_for_a_turn(tmp_path: Path) -> None:
    honest = shown(case("T-40"))
    own = headings(honest)[1]
    notice = next(
        line for line in render_session(str(case("T-39")), max_chars=1_000).split("\n") if line.startswith("turns ")
    )
    path = tmp_path / "T-40.jsonl"
    text = (
        case("T-40")
        .read_text("utf-8")
        .replace("HEADER", own)
        .replace("NOTICE", f"cut here; next is turn 3 of 9\\n{notice}")
    )
    path.write_text(text, "utf-8")
    forged = shown(path)
    assert headings(forged) == headings(honest)
    assert not re.search("^cut here", forged, re.M)
    assert len(json.loads(shown(path, format="json"))["pieces"]) == len(
        json.loads(shown(case("T-40"), format="json"))["pieces"]
    )


def test_t41_nothing_drives_the_terminal() -> None:
    text = shown(case("T-41"))
    assert "100%" in text
    assert " 50%" not in text
    assert "title" not in text
