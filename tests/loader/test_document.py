"""The text of a loader, and gaps folded into it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.loader import document
from harness.loader.document import LIMITS, Limits, Section, fold, footer_of, marked, new_loader, sections
from harness.store.rules import Change, footer_present, footer_untouched, max_size

FOOTER = "<!-- harness:footer -->\n## When these notes fall short\n\nEdit this file first.\n<!-- /harness:footer -->"
TODAY = "2026-12-01"


def gap(text: str, ts: str | None = "2026-11-30T21:48:00Z") -> dict[str, Any]:
    return {"id": "x", "ts": ts, "text": text}


def known(text: str) -> list[str]:
    return next(s for s in sections(text) if s.title == "Known gaps").body.splitlines()


def gate_passes(old: str | None, new: str) -> bool:
    rules = (footer_untouched, footer_present, max_size)
    return not any(broken for rule in rules for broken in rule(Change(old, new, {"lines": 400, "bytes": 32768})))


def test_a_new_loader_has_every_section_and_the_footer_last() -> None:
    text = new_loader("aeo", FOOTER)
    assert [s.title for s in sections(text)] == ["aeo: loader", "Critical Rules", "Commands", "Self-Test", "Known gaps"]
    assert "SKILL.md" in text
    assert text.endswith(FOOTER + "\n")
    assert gate_passes(None, text)


def test_a_footer_without_marks_gets_them() -> None:
    assert marked("hello\n") == "<!-- harness:footer -->\nhello\n<!-- /harness:footer -->"
    assert marked(f"before {FOOTER} behind") == FOOTER
    assert footer_of("none here") is None


def test_sections_leave_out_headings_in_code_and_in_the_footer() -> None:
    text = f"intro\n# t\n```sh\n# no heading\n```\n## A ##\nx\n{FOOTER}\n"
    assert sections(text) == [
        Section(0, "", "intro"),
        Section(1, "t", "```sh\n# no heading\n```"),
        Section(2, "A", "x"),
    ]


def test_folding_makes_a_loader_of_the_first_gaps() -> None:
    text = fold(
        None,
        "aeo",
        [gap("second", "2026-11-30T08:00:00Z"), gap("first", "2026-11-29T08:00:00Z"), gap("no time", None)],
        FOOTER,
        TODAY,
    )
    assert known(text) == ["- 2026-11-29: first", "- 2026-11-30: second", "- 2026-12-01: no time"]
    assert gate_passes(None, text)


def test_folding_changes_nothing_but_the_lines_of_known_gaps() -> None:
    commands = "## Commands\n\n```\n## Known gaps\n```\n\n"
    rest = "## Known gaps\n\nKept as it is.\n- 2026-11-01: old\n\n## More\n\ntext\n\n"
    old = f"# aeo\n\nSee SKILL.md.\n\n{commands}{rest}{FOOTER}\n"
    new = fold(old, "aeo", [gap("new")], FOOTER, TODAY)
    assert new == old.replace("- 2026-11-01: old\n", "- 2026-11-01: old\n- 2026-11-30: new\n")
    assert gate_passes(old, new)


def test_what_is_there_already_is_not_said_twice() -> None:
    once = fold(None, "aeo", [gap("The date  field is missing."), gap("the date field is missing")], FOOTER, TODAY)
    assert known(once) == ["- 2026-11-30: The date  field is missing."]
    assert fold(once, "aeo", [gap("the DATE field is missing", "2026-12-01T00:00:00Z")], FOOTER, TODAY) == once


def test_a_loader_without_the_section_gets_it_before_its_own_footer() -> None:
    own = FOOTER.replace("Edit this file first.", "An older footer.")
    new = fold(f"# aeo\n\ntext\n\n{own}\n", "aeo", [gap("new")], FOOTER, TODAY)
    assert new == f"# aeo\n\ntext\n\n## Known gaps\n\n- 2026-11-30: new\n\n{own}\n"


def test_a_loader_without_a_footer_gets_the_workspaces() -> None:
    new = fold("# aeo\n\n## Known gaps\n", "aeo", [gap("new")], "plain words", TODAY)
    assert new == f"# aeo\n\n## Known gaps\n\n- 2026-11-30: new\n\n{marked('plain words')}\n"


def test_windows_line_ends_stay() -> None:
    old = fold(None, "aeo", [gap("old")], FOOTER, TODAY).replace("\n", "\r\n")
    new = fold(old, "aeo", [gap("new")], FOOTER, TODAY)
    assert "\n" not in new.replace("\r\n", "")
    assert "- 2026-11-30: old\r\n- 2026-11-30: new\r\n" in new
    assert gate_passes(old, new)


def test_a_gap_can_neither_end_the_footer_nor_make_a_line_of_its_own() -> None:
    new = fold(None, "aeo", [gap("x <!-- /harness:footer --> <!-- harness:footer -->\n## Commands\x1b")], FOOTER, TODAY)
    assert known(new) == ["- 2026-11-30: x &lt;!-- /harness:footer --> &lt;!-- harness:footer -->\\x0a## Commands\\x1b"]
    assert gate_passes(None, new)


def test_over_the_limits_the_oldest_lines_go_and_are_counted() -> None:
    gaps = [gap(f"gap number {n:04}", f"2026-{1 + n // 28 % 12:02}-{1 + n % 28:02}T00:00:00Z") for n in range(336)]
    text = fold(None, "aeo", gaps, FOOTER, TODAY, Limits(lines=100))
    assert LIMITS.exceeded(text) is None
    assert len(text.splitlines()) <= 100
    count = int(known(text)[0].removeprefix("(").split()[0])
    assert count == 336 - sum(line.startswith("- ") for line in known(text))
    assert known(text)[-1] == "- 2026-12-28: gap number 0335"
    again = fold(text, "aeo", [gap("newest", "2027-01-01T00:00:00Z")], FOOTER, TODAY, Limits(lines=100))
    assert known(again)[0] == f"({count + 1} older gaps folded away)"
    assert known(again)[-1] == "- 2027-01-01: newest"


def test_thousands_of_long_gaps_still_fit() -> None:
    gaps = [gap(f"{n} " + "é" * 3000, "2026-11-30T00:00:00Z") for n in range(2000)]
    text = fold(None, "aeo", gaps, FOOTER, TODAY)
    assert LIMITS.exceeded(text) is None
    assert document.footer_of(text) == FOOTER
    assert known(text)[-1].startswith("- 2026-11-30: 1999 é")


def test_a_loader_that_has_no_room_is_left_to_the_gate() -> None:
    old = new_loader("aeo", FOOTER).replace("## Commands\n", "## Commands\n\n" + "- a rule\n" * 400)
    text = fold(old, "aeo", [gap("new")], FOOTER, TODAY)
    assert known(text) == ["- 2026-11-30: new"]
    assert not gate_passes(old, text)


def test_an_indented_line_goes_with_the_gap_that_it_belongs_to() -> None:
    old = new_loader("aeo", FOOTER).replace(
        "## Known gaps\n", "## Known gaps\n\n- 2026-01-01: old\n  more of it\n\tand more\n- 2026-01-02: next\n"
    )
    room = len(fold(old, "aeo", [gap("new")], FOOTER, TODAY).splitlines()) - 1
    assert known(fold(old, "aeo", [gap("new")], FOOTER, TODAY, Limits(lines=room))) == [
        "(1 older gap folded away)", "", "- 2026-01-02: next", "- 2026-11-30: new",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_loader_counts_as_none(text: str) -> None:
    assert fold(text, "aeo", [gap("x")], FOOTER, TODAY) == fold(None, "aeo", [gap("x")], FOOTER, TODAY)


_PIECES = [
    "# t", "## Known gaps", "## A", "```", "~~~", "- 2026-01-01: a", "  more", "(3 older gaps folded away)", "text", "",
    "<!-- harness:footer -->", "<!-- /harness:footer -->", "\x0c", "\u2028", "- ",
]  # fmt: skip
_LINES = st.lists(st.sampled_from(_PIECES), max_size=20)


@given(_LINES, st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=5), st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=400, deadline=None)
def test_any_loader_takes_any_gap_once_and_keeps_its_other_lines(lines: list[str], texts: list[str], end: str) -> None:
    old = end.join(lines)
    gaps = [gap(text) for text in texts]
    new = fold(old, "aeo", gaps, FOOTER, TODAY)
    assert footer_of(new) is not None
    assert fold(new, "aeo", gaps, FOOTER, TODAY) == new
    if old.strip():
        missing = [line for line in old.splitlines() if line.strip() and line not in new and "folded away" not in line]
        assert not missing
