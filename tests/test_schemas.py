"""Each schema lets its valid example through and refuses its invalid one, for the one reason that it was made for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harness.store import gate, policy
from harness.store.snapshot import packaged_policy
from harness.workspace import resources

SCHEMAS = sorted(path.name.removesuffix(".schema.json") for path in (resources() / "schemas").glob("*.schema.json"))
EXAMPLES = Path(__file__).parent / "fixtures" / "schemas"


def example(name: str, verdict: str) -> Any:
    return json.loads((EXAMPLES / f"{name}.{verdict}.json").read_bytes())


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_valid_example_passes_and_the_invalid_one_does_not(name: str) -> None:
    rules = packaged_policy()
    assert list(gate.schema_refusals("x", example(name, "valid"), name, rules)) == []
    wrong = list(gate.schema_refusals("x", example(name, "invalid"), name, rules))
    assert wrong
    assert all(one.rule == f"schema {name}" and one.found and one.pointer for one in wrong)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_a_valid_schema_of_this_draft(name: str) -> None:
    value = json.loads((resources() / "schemas" / f"{name}.schema.json").read_bytes())
    assert value["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert value["title"]
    Draft202012Validator.check_schema(value)


def test_no_example_is_without_its_schema() -> None:
    assert {path.name.split(".")[0] for path in EXAMPLES.iterdir()} == set(SCHEMAS)


def test_the_shipped_policy_obeys_its_own_schema() -> None:
    text = (resources() / "schemas/policy.yaml").read_text("utf-8")
    value, why = gate.parse_document(policy.PATH, text)
    assert not why
    assert list(gate.schema_refusals("x", value, "policy", packaged_policy())) == []


def test_the_shipped_settings_obey_their_schema_and_name_every_default() -> None:
    from harness.settings import DEFAULTS

    value, why = gate.parse_document("x.yaml", (resources() / "state/harness.yaml").read_text("utf-8"))
    assert not why
    assert list(gate.schema_refusals("x", value, "harness", packaged_policy())) == []
    assert list(gate.schema_refusals("x", DEFAULTS, "harness", packaged_policy())) == []
    schema = json.loads((resources() / "schemas/harness.schema.json").read_bytes())
    assert set(schema["properties"]) == set(DEFAULTS)
    for name, default in DEFAULTS.items():
        if isinstance(default, dict):
            assert set(schema["properties"][name]["properties"]) == set(default)
