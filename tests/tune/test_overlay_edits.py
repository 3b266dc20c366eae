"""A table of overlay edits with their verdict, each through the whole gate as a tick of tune."""

from __future__ import annotations

import pytest

from harness.store import gate
from harness.store.snapshot import packaged_policy
from harness.store.tick import ABSENT, Delete, Replace, Tick, sha256

APPROVED = {
    "Approved-By": 'prompt p1 "apply a7f3"',
    "Evidence": "skills/aeo/scorecards.jsonl 01JE9Z0K3Q5W8T4X7R2M6N1P0A",
}
TEN = "".join(f"- rule number {n}\n" for n in range(10))
FULL = "".join(f"- rule number {n}\n" for n in range(100))
OVER = "".join(f"- rule number {n}\n" for n in range(104))


def rules_broken(
    before: str | None, after: str, path: str = "skills/aeo/overlay.md", kind: str = "tune", **more: str
) -> set[str]:
    expect = ABSENT if before is None else sha256(before.encode())
    tick = Tick(kind, "edit", [Replace(path, after, expect)], {**APPROVED, **more})
    found = gate.check(tick, lambda _: None if before is None else before.encode(), packaged_policy())
    assert all(one.found and one.todo for one in found), found
    return {one.rule for one in found}


EDITS: list[tuple[str, str | None, str, str]] = [
    # what it is, overlay before, overlay after, the rule that refuses it ("" passes)
    ("a first line", None, "Write short sentences.\n", ""),
    ("five lines", None, "a\nb\nc\nd\ne\n", ""),
    ("six lines", None, "a\nb\nc\nd\ne\nf\n", "max-added-lines"),
    ("five lines at the end", TEN, TEN + "a\nb\nc\nd\ne\n", ""),
    ("six for six", TEN, TEN.replace("rule", "law", 6), "max-added-lines"),
    ("five for five", TEN, TEN.replace("rule", "law", 5), ""),
    ("five for many", TEN * 5, "a\nb\nc\nd\ne\n", ""),
    ("three lines away", TEN, "".join(TEN.splitlines(True)[3:]), ""),
    ("all lines away", TEN, "", ""),
    ("two places", TEN, TEN.replace("number 1", "number one").replace("number 8", "number eight"), "one-hunk"),
    ("a deletion in two places", TEN, "".join(TEN.splitlines(True)[1:-1]), "one-hunk"),
    ("behind a last line without an end", "- a", "- a\n- b\n", ""),
    ("CRLF stays CRLF", "- a\r\n- b\r\n", "- a\r\n- b\r\n- c\r\n", ""),
    ("CRLF turned into LF", TEN.replace("\n", "\r\n"), TEN + "- c\n", "max-added-lines"),
    ("the hundredth line", FULL[: FULL.rindex("-")], FULL, ""),
    ("line 101", FULL, FULL + "- more\n", "max-size"),
    ("104 and one more", OVER, OVER + "- more\n", "max-size"),
    ("104 less ten", OVER, "".join(OVER.splitlines(True)[:-10]), ""),
    ("104, two for eight", OVER, "".join(OVER.splitlines(True)[:-8]) + "- a\n- b\n", ""),
    ("104, six for twenty", OVER, "".join(OVER.splitlines(True)[:-20]) + "a\nb\nc\nd\ne\nf\n", "max-added-lines"),
    ("two words in capitals", None, "DO NOT hedge.\n", "plain-copy"),
    ("one long word in capitals", None, "Never EVER say maybe, ALWAYS be sure.\n", "plain-copy"),
    ("a short word in capitals", None, "Use bold for KPI and NOT for links.\n", ""),
    ("known acronyms in a row", None, "Return JSON over HTTPS from the REST API.\n", ""),
    ("a plural acronym", None, "Link the PRs and the URLs.\n", ""),
    ("an unknown long acronym", None, "Report to the BUNDESBANK.\n", "plain-copy"),
    ("capitals in a code span", None, "Set `MAX_RETRIES` and `DEBUG INFO`.\n", ""),
    ("capitals in a fence", None, "```sql\nSELECT NAME FROM USERS;\n```\n", ""),
    ("capitals after a fence", None, "```\nSELECT\n```\nSHOUT LOUD\n", "plain-copy"),
    ("the name of a file", None, "Read SKILL.md, then docs/STYLE/GUIDE.md.\n", ""),
    ("a constant without backticks", None, "Respect MAX_LINE_LENGTH.\n", ""),
    ("capitals that were there", "DO NOT hedge.\n", "DO NOT hedge.\nBe brief.\n", ""),
    ("shouting in another script", None, "ΠΑΝΤΑ ΜΙΚΡΑ.\n", "plain-copy"),
    ("an umlaut shouted", None, "Kein ÄRGER bitte, GRÖSSE zählt.\n", "plain-copy"),
    ("text without letter case", None, "要約は三文以内にする。\n", ""),
    ("an em dash", None, "Be brief \u2014 always.\n", "plain-copy"),
    ("an em dash as an entity", None, "Be brief &mdash; always.\n", "plain-copy"),
    ("an en dash in a range", None, "Use 3\u20135 bullets.\n", ""),
    ("two hyphens", None, "Pass -- before file names.\n", ""),
    ("an em dash in a code span", None, "Replace `\u2014` by a comma.\n", ""),
    ("the buzzword", None, "Sound less like AI.\n", "plain-copy"),
    ("the buzzword with a hyphen", None, "No AI-powered claims.\n", "plain-copy"),
    ("the buzzword with dots", None, "Avoid A.I. talk.\n", "plain-copy"),
    ("the letters inside words", None, "He said: maintain the OpenAI client, in Dubai.\n", ""),
    ("the letters as a file", None, "Keep `ai.py` and AI.md apart.\n", ""),
    ("a key", None, "Use sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcd_1234-AA here.\n", "no-secrets"),
    ("a NUL byte", None, "a\0b\n", "text"),
    ("a heading and three lines", TEN, TEN + "\n## Stricter (2026-04-17)\nScan for may, might.\nRewrite.\n", ""),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "rule"), [e[1:] for e in EDITS], ids=[e[0] for e in EDITS])
def test_an_edit_gets_its_verdict(before: str | None, after: str, rule: str) -> None:
    assert rules_broken(before, after) == ({rule} if rule else set())


def test_the_table_is_long_enough_and_has_both_verdicts() -> None:
    assert len(EDITS) >= 40
    assert {bool(e[3]) for e in EDITS} == {True, False}


def test_without_an_approval_or_its_evidence_nothing_passes() -> None:
    assert rules_broken(None, "Be brief.\n", **{"Approved-By": ""}) == {"needs"}
    assert rules_broken(None, "Be brief.\n", Evidence="") == {"needs"}


@pytest.mark.parametrize(
    "path", ["skills/aeo/SKILL.md", "skills/x/../aeo/SKILL.md", "team/a/MEMBER.md", "skills/aeo/AGENTS.md", "README.md"]
)
def test_tune_writes_overlays_and_nothing_else(path: str) -> None:
    assert rules_broken(None, "---\nname: x\ndescription: y\n---\n", path) & {"kind", "path"}


def test_an_overlay_is_never_deleted_by_a_tick_of_tune() -> None:
    tick = Tick("tune", "edit", [Delete("skills/aeo/overlay.md", "x")], APPROVED)
    assert [r.rule for r in gate.check(tick, lambda _: b"a\n", packaged_policy())] == ["kind"]
