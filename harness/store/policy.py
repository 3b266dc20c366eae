"""Loading the policy and the schemas that a commit holds; both are versioned with what they judge."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.store import files
from harness.store.gate import Policy, parse_document
from harness.store.tree import Tree

PATH = "schemas/policy.yaml"


class NoPolicy(HarnessError):
    """The workspace has no readable policy, so nothing may be written."""


def load(tree: Tree, cache: Path) -> Policy:
    """The policy that ``tree`` holds. Parsed YAML is cached under the blob's id in ``cache``, so it can't be out of date."""
    found = tree.git.object(f"{tree.commit}:{PATH}") if tree.commit else None
    if found is None or found[1] != "blob":
        raise NoPolicy("the workspace has no policy", f"{PATH} is not in the last commit", "run `harness init` again")
    validator = functools.cache(functools.partial(_validator, tree))
    return Policy(compiled(found[0], found[2], cache)["paths"], validator)


@functools.lru_cache(maxsize=8)
def compiled(blob: str, data: bytes, cache: Path) -> dict[str, Any]:
    """The policy's YAML as plain values."""
    kept = cache / f"policy-{blob}.json"
    try:
        value = json.loads(kept.read_bytes())
    except (OSError, ValueError):
        value, why = parse_document(PATH, data.decode("utf-8", "replace"))
        if why or not isinstance(value, dict) or not isinstance(value.get("paths"), list):
            raise NoPolicy(
                f"{PATH} does not parse", why or "no list of paths", "repair it, or run `harness init` again"
            ) from None
        files.replace(kept, json.dumps(value).encode(), sync=False)
    return value  # type: ignore[no-any-return]


def _validator(tree: Tree, name: str) -> Any:
    data = tree.read(f"schemas/{name}.schema.json")
    return None if data is None else compile_schema(data)


@functools.lru_cache(maxsize=64)
def compile_schema(data: bytes) -> Any:
    """A JSON Schema (Draft 2020-12, formats on) as a validator, compiled once per content."""
    from jsonschema import Draft202012Validator, FormatChecker

    return Draft202012Validator(json.loads(data), format_checker=FormatChecker())
