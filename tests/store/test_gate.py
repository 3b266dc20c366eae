"""The gate: each rule lets through what it should and names what it refuses, where, why and what to do instead."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from fixtures.workspaces import LOADER, QUARANTINE, Place, row, row_tick
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import REFUSED
from harness.ids import ulid
from harness.store import gate
from harness.store.errors import GateRefused, Refusal
from harness.store.rules import RULES, Change, changed_lines, headings
from harness.store.snapshot import packaged_policy
from harness.store.tick import ABSENT, KINDS, Append, Delete, Replace, Take, Tick, Write, sha256

FOOTER = "<!-- harness:footer -->\nthe footer\n<!-- /harness:footer -->\n"
KEY = "sk-ant-" + "a1B2c3D4" * 6


def refusals(kind: str, *writes: Write, before: Mapping[str, str] | None = None) -> list[Refusal]:
    held = {path: text.encode() for path, text in (before or {}).items()}
    return gate.check(Tick(kind, "s", writes), held.get, packaged_policy())


def broken(rule: str, old: str | None, new: str, **numbers: Any) -> list[str]:
    return [one.found for one in RULES[rule](Change(old, new, {"rule": rule, **numbers}))]


# --- the map -------------------------------------------------------------------------------------------------------


def test_a_refusal_says_path_pointer_rule_found_and_todo(place: Place) -> None:
    with pytest.raises(GateRefused) as caught:
        place.store.commit(row_tick(text=5, position="p" * 101))
    assert caught.value.exit_code == REFUSED
    found = {r.pointer: r.as_dict() for r in caught.value.refusals}
    assert set(found) == {"/text", "/position"}
    assert found["/text"] == {
        "path": QUARANTINE, "pointer": "/text", "rule": "schema quarantine", "found": "5 is not of type 'string'",
        "todo": "see schemas/quarantine.schema.json",
    }  # fmt: skip
    line = str(caught.value)
    assert "\n" not in line
    for part in found["/text"].values():
        assert part in line


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../x", "a/../b", "./a", "a//b", "a/", "C:/x", "a\\b", ".git/config", "x/.GIT/y", ".git~1/x", "a\nb", "a\0b", "x" * 1025],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    (one,) = refusals("human", Replace(path, "x", ABSENT))
    assert one.rule == "path"


def test_what_no_entry_covers_is_refused() -> None:
    (one,) = refusals("human", Replace("src/main.py", "x", ABSENT))
    assert (one.path, one.rule) == ("src/main.py", "covered")
    assert refusals("human", Replace("skills/a/b/overlay.md", "x", ABSENT))[0].rule == "covered"


def test_a_kind_may_do_what_the_policy_says_and_nothing_else() -> None:
    assert refusals("human", Replace("skills/a/overlay.md", "x", ABSENT)) == []
    (one,) = refusals("regen", Replace("skills/a/overlay.md", "x", ABSENT))
    assert one.rule == "kind"
    assert one.todo.startswith("An overlay changes only by an edit that a person has seen and approved.")
    assert refusals("tune", Replace("state/log/quarantine.ndjson", "x", ABSENT))[0].rule == "kind"
    assert refusals("feedback", Delete("state/log/quarantine.ndjson", "x"))[0].rule == "kind"
    (unknown,) = refusals("mischief", Replace("skills/a/overlay.md", "x", ABSENT))
    assert unknown.rule == "kind"
    assert "tune" in unknown.todo


def test_the_policy_names_only_kinds_rules_and_schemas_that_exist() -> None:
    policy = packaged_policy()
    for entry in policy.entries:
        assert {kind for kinds in entry["how"].values() for kind in kinds} <= set(KINDS), entry["path"]
        assert {rule["rule"] for rule in entry.get("rules", ())} <= set(RULES), entry["path"]
        for key in ("row", "document", "frontmatter"):
            if key in entry:
                assert policy.validator(entry[key]) is not None, entry["path"]


def test_every_named_rule_is_used_by_the_policy() -> None:
    assert {rule["rule"] for entry in packaged_policy().entries for rule in entry.get("rules", ())} == set(RULES)


def test_sealed_segments_follow_their_ledger() -> None:
    policy = packaged_policy()
    assert policy.entry(f"{QUARANTINE}.d/01A.ndjson") == policy.entry(QUARANTINE)
    assert policy.entry("skills/a/scorecards.jsonl.d/01A.ndjson") == policy.entry("skills/a/scorecards.jsonl")
    assert policy.entry(f"{QUARANTINE}.d/x/y.ndjson") is None


# --- rows ----------------------------------------------------------------------------------------------------------


def test_an_id_is_taken_once() -> None:
    one = row()
    twice = refusals("feedback", Append(QUARANTINE, one), Append(QUARANTINE, one | {"text": "b"}))
    assert [(r.rule, r.pointer) for r in twice] == [("unique-id", "/id")]
    before = {QUARANTINE: json.dumps(one, separators=(",", ":")) + "\n"}
    assert [r.rule for r in refusals("feedback", Append(QUARANTINE, one), before=before)] == ["unique-id"]
    assert refusals("feedback", Append(QUARANTINE, row()), before=before) == []


def test_a_row_that_is_too_long_or_no_json_is_refused() -> None:
    assert "row-size" in [r.rule for r in refusals("feedback", Append(QUARANTINE, row(text="x" * 40_000)))]
    assert [r.rule for r in refusals("feedback", Append(QUARANTINE, row(text=float("nan"))))] == ["json"]
    assert [r.rule for r in refusals("feedback", Append(QUARANTINE, row(text={1, 2})))] == ["json"]


def test_formats_are_checked() -> None:
    (one,) = refusals("feedback", Append(QUARANTINE, row(ts="yesterday")))
    assert (one.pointer, one.rule) == ("/ts", "schema quarantine")


def test_one_file_is_written_once_in_a_tick() -> None:
    two = refusals("human", Replace("skills/a/overlay.md", "x", ABSENT), Replace("skills/a/overlay.md", "y", ABSENT))
    assert [r.rule for r in two] == ["once"]


def test_a_log_only_grows() -> None:
    log, before = "state/log/loader-feedback.log", {"state/log/loader-feedback.log": "one\n"}
    assert refusals("feedback", Take(log, b"one\ntwo\n", ""), before=before) == []
    (one,) = refusals("feedback", Take(log, b"two\n", ""), before=before)
    assert one.rule == "append-only"


# --- documents -----------------------------------------------------------------------------------------------------


def test_documents_are_checked_against_their_schema() -> None:
    assert refusals("settings", Replace("state/harness.yaml", "version: 1\n", ABSENT)) == []
    wrong = refusals("settings", Replace("state/harness.yaml", "version: 1\nloader: {duty: shout}\n", ABSENT))
    assert [(r.pointer, r.rule) for r in wrong] == [("/loader/duty", "schema harness")]
    (one,) = refusals("settings", Replace("state/harness.yaml", "a: [\n", ABSENT))
    assert one.rule == "document"
    (one,) = refusals("human", Replace("skills/a/origin.json", "{", ABSENT))
    assert one.rule == "document"
    (one,) = refusals("human", Replace("skills/a/overlay.md", "a\0b", ABSENT))
    assert one.rule == "text"


def test_frontmatter_is_checked() -> None:
    assert refusals("human", Replace("skills/a/SKILL.md", "---\nname: a\ndescription: b\n---\n# A\n", ABSENT)) == []
    assert [r.rule for r in refusals("human", Replace("skills/a/SKILL.md", "# A\n", ABSENT))] == ["frontmatter"]
    assert [r.rule for r in refusals("human", Replace("skills/a/SKILL.md", "---\n- a\n---\n", ABSENT))] == [
        "frontmatter"
    ]
    assert [r.pointer for r in refusals("human", Replace("skills/a/SKILL.md", "---\nname: a\n---\n", ABSENT))] == ["/"]
    date = gate.frontmatter("---\nday: 2026-07-01\n1: one\n---\n")
    assert date == ({"day": "2026-07-01", "1": "one"}, "")


def test_a_document_that_stands_for_billions_of_values_is_refused_quickly() -> None:
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
    )
    value, why = gate.parse_document("x.yaml", laughs)
    assert value is None
    assert "more than" in why
    assert gate.parse_document("x.json", "[" * 100_000)[0] is None
    assert gate.parse_document("x.yaml", "[" * 2_000)[0] is None


def test_yaml_makes_no_objects() -> None:
    assert gate.parse_document("x.yaml", "!!python/object/apply:os.system ['true']")[0] is None


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_any_text_is_parsed_or_refused_with_a_reason(text: str) -> None:
    for name in ("x.yaml", "x.json"):
        value, why = gate.parse_document(name, text)
        assert value is None or why == ""
        json.dumps(value)


# --- named rules ---------------------------------------------------------------------------------------------------

CASES: dict[str, list[tuple[str | None, str, dict[str, Any], bool]]] = {
    "max-size": [
        (None, "a\nb\n", {"lines": 2}, True),
        (None, "a\nb\nc\n", {"lines": 2}, False),
        ("a\n" * 9, "a\n" * 8, {"lines": 2}, True),  # a deletion is always allowed
        ("a\n" * 9, "b\n" * 9, {"lines": 2}, False),
        (None, "é" * 5, {"bytes": 10}, True),
        (None, "é" * 6, {"bytes": 10}, False),
    ],
    "max-changed-lines": [
        ("a\nb\nc\n", "a\nx\nc\n", {"max": 1}, True),
        ("a\nb\nc\n", "a\nx\ny\n", {"max": 1}, False),
        (None, "a\n", {"max": 1}, True),
        (None, "a\nb\n", {"max": 1}, False),
    ],
    "headings-keep-order": [
        ("# A\n## B\n", "# A\nnew\n## New\n## B\n", {}, True),
        ("# A\n## B\n", "## B\n# A\n", {}, False),
        ("# A\n## B\n", "# A\n", {}, False),
        ("# A\n```\n# not one\n```\n", "# A\n", {}, True),
        ("# A\n# A\n", "# A\n", {}, False),
        (None, "anything", {}, True),
    ],
    "footer-untouched": [
        ("a\n" + FOOTER, "b\n" + FOOTER, {}, True),
        ("a\n" + FOOTER, "a\n" + FOOTER.replace("the", "my"), {}, False),
        ("a\n" + FOOTER, "a\n", {}, False),
        ("a\n" + FOOTER, FOOTER + FOOTER, {}, False),
        ("a\n", "b\n", {}, True),
    ],
    "footer-present": [(None, "a\n" + FOOTER, {}, True), (None, "a\n", {}, False), (None, FOOTER * 2, {}, False)],
    "distilled-here": [
        (None, "anything", {}, True),
        ("---\nmetadata:\n  origin: distilled\n---\n", "new", {}, True),
        ("---\nname: a\n---\n", "new", {}, False),
    ],
    "no-secrets": [
        (None, "nothing here\n", {}, True),
        (None, f"key {KEY}\n", {}, False),
        (f"key {KEY}\n", f"key {KEY}\nmore\n", {}, True),  # it was there before: not this tick's doing
    ],
    "differ": [
        (None, '{"a":"x","b":"y"}', {"fields": ["a", "b"]}, True),
        (None, '{"a":"x","b":"x"}', {"fields": ["a", "b"]}, False),
    ],
    "valid-schema": [
        (None, '{"type": "object"}', {}, True),
        (None, '{"type": "thing"}', {}, False),
        (None, "{", {}, False),
    ],
    "one-hunk": [
        (None, "a\nb\n", {}, True),
        ("a\nb\nc\nd\n", "a\nX\nY\nd\n", {}, True),
        ("a\n\nb\n", "x\n\ny\n", {}, True),  # a blank line between two does not make two places
        ("a\nb\nc\n", "X\nb\nY\n", {}, False),
    ],
    "max-added-lines": [
        ("a\n", "a\nb\nc\n", {"max": 2}, True),
        ("a\nb\nc\nd\n", "a\n", {"max": 0}, True),
        ("a", "a\nb\n", {"max": 1}, True),
        ("a\nb\n", "a\r\nb\r\n", {"max": 1}, False),
        ("a\n", "a\nb\nc\n", {"max": 1}, False),
    ],
    "plain-copy": [
        (None, "Say it plainly, as the API does.\n", {}, True),
        (None, "NEVER hedge\n", {}, False),
        ("NEVER hedge\n", "NEVER hedge\nmore\n", {}, True),
    ],
    "no-personal-data": [
        (None, "Write to the desk, not to one person; use port 8080 and v1.2.3.4.\n", {}, True),
        (None, "Send it to ada.lovelace@acme-corp.com first.\n", {}, False),
        ("Ask ada.lovelace@acme-corp.com.\n", "Ask ada.lovelace@acme-corp.com.\nBe brief.\n", {}, True),
    ],
    "write-once": [(None, "{}", {}, True), ("{}", "{}", {}, False)],
}  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "case"),
    [(rule, case) for rule, cases in CASES.items() for case in cases],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_named_rule_passes_and_fails(rule: str, case: tuple[str | None, str, dict[str, Any], bool]) -> None:
    old, new, numbers, passes = case
    assert (broken(rule, old, new, **numbers) == []) is passes


def test_each_named_rule_has_a_case_that_passes_and_one_that_fails() -> None:
    assert set(CASES) == set(RULES)
    assert all({case[3] for case in cases} == {True, False} for cases in CASES.values())


def test_a_rule_holds_for_the_kinds_it_names() -> None:
    old = "# A\n" + FOOTER
    many = "# A\n" + "line\n" * 11 + FOOTER
    few = "# A\n" + "line\n" * 10 + FOOTER
    for kind, text, rules in (
        ("fix", few, []),
        ("fix", many, ["max-changed-lines"]),
        ("regen", many, []),
        ("human", many, []),
    ):
        found = refusals(kind, Replace(LOADER, text, sha256(old.encode())), before={LOADER: old})
        assert [r.rule for r in found] == rules, kind
    (one,) = refusals("fix", Replace(LOADER, many, ""), before={LOADER: old})
    assert "11 changed lines, at most 10" in one.found
    assert "harness feedback" in one.todo


def test_a_rule_that_this_version_does_not_know_refuses() -> None:
    policy = gate.Policy([{"path": "a", "how": {"replace": ["human"]}, "rules": [{"rule": "of-tomorrow"}]}])
    (one,) = gate.check(Tick("human", "s", [Replace("a", "x", ABSENT)]), lambda path: None, policy)
    assert one.rule == "of-tomorrow"


@pytest.mark.parametrize(
    ("validator", "words"), [(lambda name: json.loads("{"), "does not parse"), (lambda name: None, "missing")]
)
def test_a_schema_that_is_broken_or_missing_refuses(validator: Callable[[str], Any], words: str) -> None:
    policy = gate.Policy([{"path": "a", "how": {"append": ["human"]}, "row": "x"}], validator)
    (one,) = gate.check(Tick("human", "s", [Append("a", {"id": ulid()})]), lambda path: None, policy)
    assert one.rule == "schema"
    assert words in one.found


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_changed_lines_is_zero_only_for_equal_texts(before: list[str], after: list[str]) -> None:
    one, two = "\n".join(before), "\n".join(after)
    count = changed_lines(one, two)
    assert (count == 0) == (before == after)
    assert max(len(before), len(after)) - min(len(before), len(after)) <= count <= len(before) + len(after)


def test_headings_inside_code_are_no_headings() -> None:
    assert headings("# A\n~~~\n# no\n~~~\n  ```python\n# no\n```\n## B #\n####### no\n#no\n") == ["# A", "## B #"]


# --- the second door -----------------------------------------------------------------------------------------------


def test_an_agents_own_edit_is_judged_by_the_kind_that_it_becomes(place: Place) -> None:
    policy = json.loads((place.workspace.snapshot / "policy.json").read_bytes())
    old = "# A\n" + FOOTER
    assert gate.judge_agent_write(LOADER, old, "# A\nnew\n" + FOOTER, policy) == []
    assert [r.rule for r in gate.judge_agent_write(LOADER, old, "# B\n" + FOOTER, policy)] == ["headings-keep-order"]
    (one,) = gate.judge_agent_write("skills/aeo/SKILL.md", "x", "y", policy)
    assert one.rule == "agent"
    assert "harness feedback" in one.todo
    assert gate.judge_agent_write(".git/config", None, "y", policy)[0].rule == "path"
    assert gate.judge_agent_write("new.txt", None, "y", policy)[0].rule == "covered"
