"""The model's reply: found, parsed, and refused for every reason there is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from harness import redact
from harness.loader import reply
from harness.loader.document import new_loader
from harness.loader.reply import LIMITS, BadReply, Cover, Drop, Reply, check, parse
from harness.workspace import resources

FOOTER = "<!-- harness:footer -->\n## When these notes fall short\nfoot\n<!-- /harness:footer -->"
OLD = new_loader("aeo", FOOTER).replace(
    "## Commands\n", "## Commands\n\n- Run `aeo --check` before you publish.\n1. Never skip it.\n"
)
RULE = "- The date field takes ISO dates only."
NEW = OLD.replace("## Critical Rules\n", f"## Critical Rules\n\n{RULE}\n")
GAPS = [{"id": "G1", "text": "the date field"}]
VALIDATOR = Draft202012Validator(json.loads((resources() / "schemas/regen-reply.schema.json").read_text()))


def secrets(text: str) -> list[str]:
    return [name for name, _, _ in redact.find(text)]


def reply_of(loader: str = NEW, quote: str = RULE, **more: Any) -> Reply:
    return parse(json.dumps({"loader": loader, "coverage": [{"gap": "G1", "quote": quote}], "dropped": [], **more}))


def refusals(given: Reply, old: str = OLD, find: Callable[[str], list[str]] = secrets) -> list[str]:
    return check(given, old, GAPS, FOOTER, LIMITS, find)


def test_a_good_reply_passes() -> None:
    assert refusals(reply_of()) == []


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "```json\n{}\n```",
        "Here it is, with {{braces}}:\n\n{}\n\nDone.",
        '{{"note": "first"}} then {}',
        "\ufeff\n{}",
    ],
)
def test_a_reply_is_found_in_what_stands_around_it(around: str) -> None:
    value = {
        "loader": "a\n```sh\nls\n```\n}",
        "coverage": [{"gap": "g", "quote": "q"}],
        "dropped": [{"quote": "x", "reason": "y"}],
    }
    found = parse(around.format(json.dumps(value, indent=1)))
    assert found == Reply("a\n```sh\nls\n```\n}", (Cover("g", "q"),), (Drop("x", "y"),))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("I'm sorry, I can't do that.", "no JSON object"),
        ("{" * 5000, "no JSON object"),
        ('{"a":' * 100_000, "no JSON object"),
        ("x" * 3_000_000, "3000000 characters"),
        ('{"loader": "", "coverage": [], "dropped": []}', "'loader' of the reply"),
        ('{"loader": 3, "coverage": [], "dropped": []}', "'loader' of the reply"),
        ('{"loader": "\\ud800", "coverage": [], "dropped": []}', "half a character"),
        ('{"loader": "x", "dropped": []}', "'coverage'"),
        ('{"loader": "x", "coverage": {}, "dropped": []}', "'coverage'"),
        ('{"loader": "x", "coverage": ["y"], "dropped": []}', "'gap' of coverage"),
        ('{"loader": "x", "coverage": [], "dropped": [{"quote": "y"}]}', "'reason' of dropped"),
        ('{"loader": "x", "coverage": [], "dropped": [], "note": 1}', "unknown field 'note'"),
    ],
)
def test_what_is_no_reply_says_why(text: str, why: str) -> None:
    with pytest.raises(BadReply) as caught:
        parse(text)
    assert why in str(caught.value)


_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=8), st.sampled_from(["loader", "x"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["loader", "coverage", "dropped", "gap", "quote", "reason", "z"]), inner, max_size=5
        ),
    ),
    max_leaves=12,
)


def _near_reply() -> st.SearchStrategy[dict[str, Any]]:
    text = st.one_of(st.text(max_size=6), _VALUES)
    cover = st.one_of(_VALUES, st.fixed_dictionaries({"gap": text, "quote": text}))
    drop = st.one_of(_VALUES, st.fixed_dictionaries({"quote": text, "reason": text}))
    return st.fixed_dictionaries(
        {
            "loader": text,
            "coverage": st.one_of(_VALUES, st.lists(cover, max_size=2)),
            "dropped": st.lists(drop, max_size=2),
        }
    )


@given(_near_reply())
@settings(max_examples=500, deadline=None)
def test_the_schema_and_the_parser_agree(value: dict[str, Any]) -> None:
    try:
        parse(json.dumps(value))
    except BadReply as bad:
        reason = str(bad)
    else:
        reason = ""
    assert "half a character" in reason or VALIDATOR.is_valid(value) == (not reason)


_PIECES = st.sampled_from(
    [
        "{",
        "}",
        '"loader"',
        ":",
        '"x"',
        ",",
        "[",
        "]",
        '"coverage":',
        '"dropped":',
        "```json\n",
        "\\",
        "\ud800",
        "1e999",
        "NaN",
        "9" * 5000,
    ]
)


@given(st.one_of(st.text(max_size=300), st.lists(_PIECES, max_size=30).map("".join)))
@settings(max_examples=500, deadline=None)
def test_any_text_is_a_reply_or_a_bad_one(text: str) -> None:
    try:
        found = parse(text)
    except BadReply as bad:
        lines = [str(bad)]
    else:
        lines = check(found, OLD, GAPS, FOOTER, LIMITS, secrets)
    assert not any("\n" in line for line in lines)


@given(st.text(max_size=200), st.text(max_size=200), st.text(max_size=30))
@settings(max_examples=200, deadline=None)
def test_any_loader_can_be_checked(loader: str, old: str, quote: str) -> None:
    found = check(Reply(loader, (Cover("G1", quote),), (Drop(quote, "r"),)), old, GAPS, FOOTER, LIMITS, secrets)
    assert all("\n" not in line for line in found)


# --- refusals ---------------------------------------------------------------------------------------------------------


def only(found: list[str], words: str) -> None:
    assert len(found) == 1, found
    assert words in found[0]


def test_a_gap_without_a_quote() -> None:
    only(refusals(reply_of(coverage=[])), "gap G1 has no quote")


def test_a_quote_that_is_not_there_too_short_or_of_the_footer() -> None:
    only(refusals(reply_of(quote="The date field takes any date.")), "is not in the new loader")
    only(refusals(reply_of(quote="The")), "shorter than 10")
    only(refusals(reply_of(quote="## When these notes fall short")), "is not in the new loader")


def test_a_rule_that_is_gone_must_be_listed() -> None:
    new = NEW.replace("- Run `aeo --check` before you publish.\n", "")
    only(refusals(reply_of(new)), "is gone and not listed in dropped: Run `aeo --check`")
    listed = [{"quote": "- Run `aeo --check` before you publish.", "reason": "the command is gone"}]
    assert refusals(reply_of(new, dropped=listed)) == []


def test_a_rule_that_is_changed_counts_as_gone() -> None:
    only(refusals(reply_of(NEW.replace("Never skip it.", "Skip it."))), "Never skip it.")
    only(refusals(reply_of(NEW.replace("1. Never skip it.", "1. Never skip it. Or do."))), "Never skip it.")


def test_a_rule_may_move_and_change_its_mark() -> None:
    new = NEW.replace("1. Never skip it.\n", "").replace("## Self-Test\n", "## Self-Test\n\n  - [ ]  Never skip it.\n")
    assert refusals(reply_of(new)) == []


def test_a_long_rule_may_be_broken_into_lines() -> None:
    long = "Before you publish, look at the preview in both languages and at the mobile width, too."
    old = OLD.replace("## Self-Test\n", f"## Self-Test\n\n{long}\n")
    new = NEW.replace("## Self-Test\n", f"## Self-Test\n\n{long[:40]}\n{long[40:]}\n".replace(" \n", "\n"))
    assert refusals(reply_of(new), old) == []


def test_what_is_listed_as_dropped_must_have_been_there_and_have_a_reason() -> None:
    only(refusals(reply_of(dropped=[{"quote": "a rule that never was", "reason": "x"}])), "is not in the old loader")
    new = NEW.replace("1. Never skip it.\n", "")
    assert any(
        "no reason" in line for line in refusals(Reply(new, (Cover("G1", RULE),), (Drop("Never skip it.", " "),)))
    )


def test_a_scrap_of_a_rule_does_not_stand_for_it() -> None:
    new = NEW.replace("- Run `aeo --check` before you publish.\n", "")
    only(refusals(reply_of(new, dropped=[{"quote": "Run", "reason": "x"}])), "is gone and not listed")


def test_a_missing_section_title_or_pointer() -> None:
    listed = [{"quote": "## Self-Test", "reason": "empty"}]
    only(refusals(reply_of(NEW.replace("## Self-Test\n\n", ""), dropped=listed)), "section `## Self-Test` is missing")
    assert "the title (`# …`) is missing" in refusals(reply_of(NEW.replace("# aeo: loader\n", "")))
    assert "the pointer to SKILL.md is missing" in refusals(reply_of(NEW.replace("SKILL.md", "it")))


@pytest.mark.parametrize(
    "new",
    [
        NEW.replace(FOOTER, ""),
        NEW.replace("foot\n", "foot!\n"),
        NEW + FOOTER,
        NEW.replace("<!-- /harness", "<!-- harness:footer --><!-- /harness"),
    ],
)
def test_a_footer_that_is_missing_changed_or_doubled(new: str) -> None:
    assert "the footer is not there exactly once, exactly as given" in refusals(reply_of(new))


def test_nothing_stands_behind_the_footer() -> None:
    only(refusals(reply_of(NEW + "\n- one more rule\n")), "behind the footer")


def test_the_old_loaders_own_footer_is_the_one_to_keep() -> None:
    own = FOOTER.replace("foot\n", "an older one\n")
    old, new = OLD.replace(FOOTER, own), NEW.replace(FOOTER, own)
    assert refusals(reply_of(new), old) == []
    assert any("footer" in line for line in refusals(reply_of(), old))


def test_a_loader_that_is_too_long() -> None:
    only(refusals(reply_of(NEW.replace("## Self-Test\n", "## Self-Test\n" + "\n- x" * 500))), "lines, at most 400")
    only(
        refusals(reply_of(NEW.replace("## Self-Test\n", "## Self-Test\n\n" + "é" * 20_000 + "\n"))),
        "bytes, at most 32768",
    )


def test_a_secret_that_is_new() -> None:
    line = "- Log in with AKIA" + "ABCDEFGHIJKLMNOP" + ".\n"
    new = NEW.replace("## Self-Test\n", f"## Self-Test\n\n{line}")
    only(refusals(reply_of(new)), "secret (aws-key)")
    assert refusals(reply_of(new), OLD.replace("## Self-Test\n", f"## Self-Test\n\n{line}")) == []


def test_control_characters() -> None:
    only(refusals(reply_of(NEW.replace("## Self-Test\n", "## Self-Test\n\na\x1b[2J\n"))), "control characters: \\x1b")


def test_limits_are_the_documents() -> None:
    assert (reply.LIMITS.lines, reply.LIMITS.bytes) == (400, 32768)
