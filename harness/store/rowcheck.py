"""Judging many rows at once, for readers of whole ledgers. It says exactly what the gate says of each row.

The quick way only ever answers "all of these pass"; whatever it isn't sure of goes to the gate, row by row. It needs two
optional packages, orjson and jsonschema-rs; without them every row goes to the gate.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from harness import redact
from harness.store import gate
from harness.store.change import Change
from harness.store.errors import Refusal
from harness.store.rules import RULES, no_secrets
from harness.store.tick import Append, Tick, row_line


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_orjson: Final = _optional("orjson")
_rs: Final = _optional("jsonschema_rs")
_PLAIN_TIME: Final = re.compile(
    r"20\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ", re.ASCII
)


class RowJudge:
    """Judges rows of one ledger as a tick of one kind writes them. ``schema`` is the JSON Schema's text, or None."""

    def __init__(
        self, ledger: str, kind: str, entry: Mapping[str, Any], policy: gate.Policy, schema: bytes | None
    ) -> None:
        self.ledger, self.kind, self.policy = ledger, kind, policy
        self.allowed = kind in entry["how"].get("append", ())
        rules = [rule for rule in entry.get("rules", ()) if kind in rule.get("kinds", (kind,))]
        self._rules = [(RULES[rule["rule"]], rule) for rule in rules if rule["rule"] in RULES]
        self._quick: Any = None
        if len(self._rules) == len(rules) and self.allowed and (schema is not None or not entry.get("row")):
            self._quick = quick_validator(schema or b"{}")

    def judge(self, lines: bytes) -> tuple[list[dict[str, Any]], list[tuple[int, Refusal]]]:
        """The rows in ``lines`` (each line ends in a line feed) that can be read, and the refusals with the number of their
        line, from 1."""
        if self._quick is not None and (rows := self._all_pass(lines)) is not None:
            return rows, []
        rows, refusals = [], []
        for number, line in enumerate(lines.split(b"\n")[:-1], 1):
            row, why = self._parse(line)
            if row is None:
                refusals.append((number, Refusal(self.ledger, "row", why, "")))
                continue
            rows.append(row)
            if why:
                refusals.append((number, Refusal(self.ledger, "row", why, "")))
            tick = Tick(self.kind, "", [Append(self.ledger, row)], id="")
            refusals += [(number, one) for one in gate.check(tick, lambda path: None, self.policy)]
        return rows, refusals

    def _all_pass(self, lines: bytes) -> list[dict[str, Any]] | None:
        body = b"[%s]" % lines[:-1].replace(b"\n", b",")
        try:
            rows = _orjson.loads(body)
            # Written again it is the same: so each row is compact, has no key twice and stands on a line of its own.
            if len(rows) != lines.count(b"\n") or _orjson.dumps(rows) != body or not self._quick.is_valid(rows):
                return None
        except (ValueError, TypeError, RecursionError):
            return None
        parts = lines.split(b"\n")[:-1]
        if max(map(len, parts)) >= gate.MAX_ROW_BYTES:
            return None
        for rule, numbers in self._rules:
            texts = redact.suspects(lines.decode()) if rule is no_secrets else map(bytes.decode, parts)
            if any(next(rule(Change(None, f"{text}\n", numbers)), None) for text in texts):
                return None
        return rows  # type: ignore[no-any-return]

    def _parse(self, line: bytes) -> tuple[dict[str, Any] | None, str]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            return None, f"not JSON: {error}"[:200]
        if not isinstance(row, dict):
            return None, "not a JSON object"
        try:
            same = row_line(row) == line + b"\n"
        except (ValueError, TypeError):
            same = True  # the gate says what is wrong with it
        return row, "" if same else "not as the store writes rows: not compact, or a key stands twice"


def all_pass(ledger: str, kind: str, rows: Sequence[Mapping[str, Any]], policy: gate.Policy) -> bool:
    """Whether the quick way is sure that a tick of ``kind`` may add ``rows`` to ``ledger``, each by itself."""
    entry = None if gate.bad_path(ledger) else policy.entry(ledger)
    if entry is None:
        return False
    try:
        validator = policy.validator(entry["row"]) if entry.get("row") else None
        lines = b"".join(map(row_line, rows))
    except (ValueError, TypeError, RecursionError):
        return False
    if entry.get("row") and validator is None:
        return False
    schema = json.dumps(validator.schema).encode() if validator else None
    judge = RowJudge(ledger, kind, entry, policy, schema)
    return judge._quick is not None and judge._all_pass(lines) is not None


def quick_validator(schema: bytes) -> Any:
    """A validator of a list of rows, or None when there is none as quick. References are left to the other one: resolving
    them could reach for the network."""
    if _orjson is None or _rs is None or b"$ref" in schema or b"Ref" in schema:
        return None
    try:
        items = {"allOf": [{"type": "object"}, json.loads(schema)]}
        return _rs.Draft202012Validator({"type": "array", "items": items}, validate_formats=True, formats=_formats())
    except (ValueError, TypeError):
        return None


def _formats() -> dict[str, Callable[[str], bool]]:
    """The formats as jsonschema judges them: jsonschema-rs takes leap seconds and the year 0 for times, jsonschema doesn't."""
    from jsonschema import FormatChecker

    checker = FormatChecker()

    def is_format(name: str, text: str) -> bool:
        return bool(name == "date-time" and _PLAIN_TIME.fullmatch(text)) or checker.conforms(text, name)

    return {name: functools.partial(is_format, name) for name in checker.checkers}
