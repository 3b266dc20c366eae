"""Judging many rows at once, for readers of whole ledgers. It says exactly what the gate says of each row.

The quick way only ever answers "all of these pass"; whatever it isn't sure of goes to the gate, row by row. It needs two
optional packages, orjson and jsonschema-rs; without them every row goes to the gate.
"""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from harness import redact
from harness.store import gate
from harness.store.change import Change, Rule
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
_BLOCK: Final = 65_536  # bytes judged at once
_ODD_TIMES: Final = ":60|0000-"


class RowJudge:
    """Judges rows of one ledger as a tick of one kind writes them. ``schema`` is the JSON Schema's text, or None."""

    def __init__(
        self, ledger: str, kind: str, entry: Mapping[str, Any], policy: gate.Policy, schema: bytes | None
    ) -> None:
        self.ledger, self.kind, self.policy = ledger, kind, policy
        self.allowed = kind in entry["how"].get("append", ())
        rules = [rule for rule in entry.get("rules", ()) if kind in rule.get("kinds", (kind,))]
        self._rules = [(RULES[rule["rule"]], rule) for rule in rules if rule["rule"] in RULES]
        self._quick: QuickValidator | None = None
        if len(self._rules) == len(rules) and self.allowed and (schema is not None or not entry.get("row")):
            self._quick = quick_validator(schema or b"{}")

    def judge(self, lines: bytes, take: Callable[[list[dict[str, Any]]], None]) -> list[tuple[int, Refusal]]:
        """The refusals of ``lines`` (each ends in a line feed) with the number of their line, from 1. ``take`` is given the
        rows that can be read, some at a time, so that a million of them need not be held."""
        refusals: list[tuple[int, Refusal]] = []
        number = 0
        for block in _blocks(lines):
            rows = self.all_pass(block)
            if rows is None:
                rows, told = self._one_by_one(block)
                refusals += [(number + line, one) for line, one in told]
                number += block.count(b"\n")
            else:
                number += len(rows)
            take(rows)
        return refusals

    def _one_by_one(self, lines: bytes) -> tuple[list[dict[str, Any]], list[tuple[int, Refusal]]]:
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

    def all_pass(self, lines: bytes) -> list[dict[str, Any]] | None:
        """The rows in ``lines`` when it is sure, and quickly so, that each of them passes."""
        if self._quick is None:
            return None
        body = b"[%s]" % lines[:-1].replace(b"\n", b",")
        try:
            rows = _orjson.loads(body)
            # Written again it is the same: so each row is compact, has no key twice and stands on a line of its own.
            if len(rows) != lines.count(b"\n") or _orjson.dumps(rows) != body:
                return None
            text = lines.decode()
            if not self._quick.all_valid(rows, text):
                return None
        except (ValueError, TypeError, RecursionError):
            return None
        if _has_long_line(lines):
            return None
        for rule, numbers in self._rules:
            if any(next(rule(Change(None, f"{line}\n", numbers)), None) for line in _suspects(rule, text)):
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


def all_pass(ledger: str, kind: str, rows: Sequence[Append], policy: gate.Policy) -> bool:
    """Whether the quick way is sure that a tick of ``kind`` may add ``rows`` to ``ledger``, each by itself."""
    entry = None if gate.bad_path(ledger) else policy.entry(ledger)
    if entry is None:
        return False
    try:
        validator = policy.validator(entry["row"]) if entry.get("row") else None
        lines = b"".join([row.line for row in rows])
    except (ValueError, TypeError, RecursionError):
        return False
    if entry.get("row") and validator is None:
        return False
    schema = json.dumps(validator.schema).encode() if validator else None
    judge = RowJudge(ledger, kind, entry, policy, schema)
    return all(judge.all_pass(block) is not None for block in _blocks(lines))


class QuickValidator:
    """Whether each of many rows obeys one schema."""

    def __init__(self, schema: Any) -> None:
        many = {"type": "array", "items": {"allOf": [{"type": "object"}, schema]}}
        formats = _formats()
        self._exact = _rs.Draft202012Validator(many, validate_formats=True, formats=formats)
        del formats["date-time"]
        self._own_times = _rs.Draft202012Validator(many, validate_formats=True, formats=formats)

    def all_valid(self, rows: list[Any], text: str) -> bool:
        """Whether all of ``rows`` do; ``text`` is what they were read from, compact."""
        # Of times jsonschema-rs thinks as jsonschema does, but that it takes leap seconds and the year 0. Where there is
        # none of these its own, much quicker, judgement holds.
        validator = self._exact if _searcher(_ODD_TIMES)(text) else self._own_times
        return bool(validator.is_valid(rows))


def quick_validator(schema: bytes) -> QuickValidator | None:
    """A validator of many rows, or None when there is none as quick. References are left to the other one: resolving them
    could reach for the network."""
    if _orjson is None or _rs is None or b"$ref" in schema or b"Ref" in schema:
        return None
    try:
        return QuickValidator(json.loads(schema))
    except (ValueError, TypeError):
        return None


def _formats() -> dict[str, Callable[[str], bool]]:
    """The formats as jsonschema judges them."""
    from jsonschema import FormatChecker

    checker = FormatChecker()

    def is_format(name: str, text: str) -> bool:
        return bool(checker.conforms(text, name))

    return {name: functools.partial(is_format, name) for name in checker.checkers}


@functools.cache
def _searcher(*patterns: str) -> Callable[[str], bool]:
    """Whether one of ``patterns`` matches somewhere in a text: by the engine of jsonschema-rs, hundreds of times as fast as
    that of ``re`` on a long text in which nothing is found."""
    schema = {"anyOf": [{"pattern": pattern} for pattern in patterns]}
    found: Callable[[str], bool] = _rs.Draft202012Validator(schema, pattern_options=_rs.RegexOptions()).is_valid
    return found


def _suspects(rule: Rule, text: str) -> list[str]:
    """The lines of ``text`` that may break ``rule``: of secrets, few or none."""
    lines = functools.partial(text[:-1].split, "\n")
    if rule is not no_secrets:
        return lines()
    found = _searcher(*redact.loose_patterns())
    return [line for line in lines() if found(line)] if found(text) else []


def _blocks(lines: bytes) -> Iterator[bytes]:
    """``lines`` in pieces of whole lines that a processor's cache holds."""
    start = 0
    while start < len(lines):
        stop = (lines.rfind(b"\n", start, start + _BLOCK) + 1) or (lines.find(b"\n", start) + 1) or len(lines)
        yield lines[start:stop]
        start = stop


def _has_long_line(lines: bytes) -> bool:
    """Whether a line is longer than a row may be. Looks at a few places only."""
    start = 0
    while len(lines) - start > gate.MAX_ROW_BYTES:
        last = lines.rfind(b"\n", start, start + gate.MAX_ROW_BYTES)
        if last < 0:
            return True
        start = last + 1
    return False
