"""Records that leave the workspace: built from an allow-list of fields, free text only when asked for and then scrubbed."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.errors import USAGE, HarnessError
from harness.flows import ledgers
from harness.scrub import Scrubbed, scrub
from harness.store.commit import Store
from harness.store.gate import parse_document
from harness.store.tree import BadLine

Check = Callable[[Any], bool]
Clean = Callable[[str], Scrubbed]


def _matches(pattern: str) -> Check:
    compiled = re.compile(pattern)
    return lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None


def _number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


_ID: Final = _matches(r"[0-9A-HJKMNP-TV-Z]{26}")
_HASH: Final = _matches(r"[0-9a-f]{64}")
_TIME: Final = _matches(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
# A short name that somebody chose (a skill, a signal): exported, and scrubbed as text is.
_LABEL: Final = _matches(r"\w[\w .:+-]{0,199}")


def _text(value: Any) -> bool:
    """Free text: left out unless it is asked for, and then scrubbed."""
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


_COUNTS: Final[dict[str, Any]] = {"runs": _number, "gaps": _number, "mean_score": _number}

# What may leave, by ledger: field -> what its value must be, or the fields of an object. Everything else stays: sessions,
# turns, agents, positions in logs, paths, operators.
FIELDS: Final[dict[str, dict[str, Any]]] = {
    "feedback": {"id": _ID, "ts": _TIME, "skill": _LABEL, "tag": _LABEL, "claimed_fixed": _flag, "text": _text},
    "runs": {
        "id": _ID, "ts": _TIME, "skill": _LABEL, "via": _LABEL, "base_sha256": _HASH,
        "overlay_sha256": _HASH, "loader_sha256": _HASH,
    },
    "verdicts": {
        "id": _ID, "ts": _TIME, "tick": _ID, "skill": _LABEL, "before": _COUNTS, "after": _COUNTS,
        "e_value": _number, "verdict": _LABEL,
    },
    "scorecards": {
        "id": _ID, "ts": _TIME, "skill": _LABEL, "reward": _number, "signal": _LABEL, "applied": _flag, "status": _LABEL, "path": _LABEL,
        "diff_sha256": _HASH, "overlay_sha256": _HASH, "variant_hash": _LABEL, "kept": _flag, "score_before": _number,
        "score_after": _number, "margin": _number, "reaction": _text, "diagnosis": _text, "expected": _text, "reason": _text,
    },
    "predictions": {"id": _ID, "ts": _TIME, "proposal": _matches(r"[0-9A-Za-z]{4,26}"), "skill": _LABEL, "held": _flag, "check": _text},
    "evals": {"id": _ID, "ts": _TIME, "skill": _LABEL, "score": _number, "primary_issue": _text},
    "taste-hints": {
        "id": _ID, "ts": _TIME, "source_skill": _LABEL, "shape": _LABEL, "accept_rate": _number, "n": _number, "confidence": _LABEL,
        "hint": _text, "rollup": _text,
    },
}  # fmt: skip
# Looked at and held back, so that a new field of a schema is a decision and never an oversight.
HELD_BACK: Final[dict[str, frozenset[str]]] = {
    "feedback": frozenset({"session", "line"}),
    "runs": frozenset({"session", "turn", "agent_id"}),
    "verdicts": frozenset(),
    "scorecards": frozenset({"session", "turn", "proposal"}),
    "predictions": frozenset({"session", "turn"}),
    "evals": frozenset({"actor_session_id", "auditor_session_id", "artifact_path", "run_id", "criteria"}),
    "taste-hints": frozenset(),
}
_NAME_FIELDS: Final = frozenset(
    {
        "name", "id", "operator", "operator_id", "operators", "display_name", "alias", "aliases", "handle", "email", "mail", "counterparty",
        "counterparties", "counterparty_name", "decided_by", "contact", "origin_user",
    }
)  # fmt: skip
_LEDGER_FOLDER: Final = "state/log/ledger"
_OPERATORS: Final = "state/operators.yaml"
_APPROVALS: Final = "state/log/approvals.ndjson"


class UnknownLedger(HarnessError):
    """A ledger that isn't exported."""

    exit_code = USAGE


@dataclass
class Report:
    """``rows`` by ledger; ``removed`` items of personal data by class; ``fields`` held back by ledger and name, with how often;
    ``unread`` lines that are no rows; ``names``: how many names were known."""

    rows: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)
    fields: dict[str, Counter[str]] = field(default_factory=dict)
    unread: Counter[str] = field(default_factory=Counter)
    names: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON takes it."""
        return {
            "rows": dict(self.rows),
            "removed": dict(sorted(self.removed.items())),
            "held_back": {ledger: dict(sorted(names.items())) for ledger, names in self.fields.items() if names},
            "unread": dict(self.unread),
            "known_names": self.names,
        }


def export(
    store: Store, which: Sequence[str], report: Report, *, with_text: bool, extra: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """The records of the ledgers ``which``, one at a time, each with the name of its ledger; ``report`` is filled meanwhile.

    ``extra`` are names to take out besides those that the workspace knows. Raises UnknownLedger before the first record.
    """
    for name in which:
        if name not in FIELDS:
            raise UnknownLedger(f"no ledger {name!r} is exported", "", f"choose from {', '.join(FIELDS)}")
    known = sorted(known_names(store) | set(extra))
    report.names = len(known)
    clean = functools.lru_cache(maxsize=4096)(functools.partial(scrub, known=known))  # labels come again and again
    gone = ledgers.undone(store)
    for name in which:
        for path in _paths(store, name):
            for row in store.rows(path):
                if isinstance(row, BadLine) or not isinstance(row, dict):
                    report.unread[name] += 1
                elif row.get("id") not in gone:
                    report.rows[name] += 1
                    yield {"ledger": name, **_record(name, row, clean, report, with_text)}


def _paths(store: Store, name: str) -> list[str]:
    if name != "scorecards":
        return [f"state/log/{name}.ndjson"]
    return [f"skills/{skill}/scorecards.jsonl" for skill in store.tree.folders("skills")]


def _record(name: str, row: Mapping[str, Any], clean: Clean, report: Report, with_text: bool) -> dict[str, Any]:
    held = report.fields.setdefault(name, Counter())
    out = {}
    for key, value in row.items():
        wanted = FIELDS[name].get(key)
        if wanted is None or (wanted is _text and not with_text):
            held[key if wanted is not None or key in HELD_BACK[name] else "(unknown)"] += 1
            continue
        kept, fits = _kept(value, wanted, clean, report)
        if fits:
            out[key] = kept
        else:
            held[key] += 1
    return out


def _kept(value: Any, wanted: Any, clean: Clean, report: Report) -> tuple[Any, bool]:
    """``value`` as it leaves, and whether it may: it must be of the kind that the table says."""
    if isinstance(wanted, dict):
        if not isinstance(value, dict):
            return None, False
        return {k: value[k] for k, check in wanted.items() if k in value and check(value[k])}, True
    if value is None and wanted not in (_LABEL, _text):
        return None, True
    if not wanted(value):
        return None, False
    if wanted in (_LABEL, _text):
        cleaned = clean(value)
        report.removed.update(cleaned.counts)
        return cleaned.text, True
    return value, True


def known_names(store: Store) -> set[str]:
    """The operators and counterparties that the workspace knows: from its operators, its approvals and the exported ledger."""
    names: set[str] = set()
    operators = store.tree.read(_OPERATORS)
    if operators is not None:
        value, _ = parse_document(_OPERATORS, operators.decode("utf-8", "replace"))
        names |= set(_operators(value))
    paths = [f"{_LEDGER_FOLDER}/{n}" for n in store.tree.names(_LEDGER_FOLDER) if n.endswith(".ndjson")]
    for path in [*paths, _APPROVALS]:
        for row in store.rows(path):
            if isinstance(row, dict):
                names |= set(
                    _named(row, only=frozenset({"operator", "name"}) if path == _APPROVALS else _NAME_FIELDS - {"id"})
                )
    return {name for name in names if len(name.strip()) > 1 and not _ID(name) and not name.isdigit()}


def _operators(value: Any) -> Iterator[str]:
    """Names in the operators' file: the values of fields that hold one, and the keys of a mapping by name."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, Mapping) and key not in _NAME_FIELDS:
                yield str(key)
            yield from _named({key: inner}, only=_NAME_FIELDS)
            if isinstance(inner, Mapping | list):
                yield from _operators(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _operators(inner) if not isinstance(inner, str) else (inner,)


def _named(row: Mapping[str, Any], only: frozenset[str]) -> Iterator[str]:
    for key, value in row.items():
        if key in only and isinstance(value, str):
            yield value
        elif key in only and isinstance(value, list):
            yield from (one for one in value if isinstance(one, str))
        elif isinstance(value, Mapping):
            yield from _named(value, only)
