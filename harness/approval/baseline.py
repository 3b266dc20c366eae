"""The baseline gate: before a draft is filed, what stands between us and that counterparty already?"""

from __future__ import annotations

import importlib
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.approval import outside
from harness.approval.errors import BaselineRefused
from harness.approval.limits import LIMITS
from harness.store.tick import one_line

OVERRIDE: Final = "[BASELINE_OVERRIDE_SIGNED_CONTRACT]"
UNAVAILABLE: Final = "[BASELINE_CHECK_UNAVAILABLE]"
_ADVICE: Final = "do not ask; what was agreed is on record"
_FORGED: Final = re.compile(r"\[(?=\s*BASELINE)", re.I)


@dataclass(frozen=True)
class Finding:
    """What a baseline knows: ``none``, ``signed`` or ``delivered``; the evidence; advice; facts, the newest first."""

    status: str = "none"
    evidence: tuple[str, ...] = ()
    advice: str = ""
    facts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Baseline:
    """A gate over one source: ``file``, ``command``, ``http`` or ``python`` (see schemas/baseline.schema.json)."""

    source: str
    seconds: float = LIMITS.baseline_seconds
    counterparties: Mapping[str, Any] = field(default_factory=dict)
    command: Sequence[str] = ()
    url: str = ""
    entry_point: str = ""

    def check(self, counterparty: str, context: str, *, force: bool) -> tuple[str, str]:
        """(the context with its stamps, a word). The word is ``clear``, ``override`` or ``unavailable``.

        Raises BaselineRefused when a contract is signed or delivered and ``force`` isn't set. A source that can't be asked
        lets the draft through with a stamp that says so: it never switches the gate off silently.
        """
        told = unstamped(context)
        try:
            found = self.ask(counterparty)
        except Exception as error:  # any failure of what is plugged in is the same to us: nobody looked
            return _stamped(told, f"{UNAVAILABLE} {one_line(str(error))[:200]}"), "unavailable"
        stamps = []
        if found.status != "none":
            if not force:
                advice = found.advice or _ADVICE
                raise BaselineRefused(
                    f"the baseline shows a {found.status} contract with {counterparty!r}",
                    f"evidence: {'; '.join(found.evidence) or 'none given'}. Advice: {advice}",
                    "an operator may file it with force_despite_signed_contract if this is a new matter",
                    evidence=found.evidence, advice=advice,
                )  # fmt: skip
            stamps.append(f"{OVERRIDE} {'; '.join(found.evidence)}".strip())
        if found.facts:
            stamps.append(f"[BASELINE FACTS: {' | '.join(found.facts[: LIMITS.baseline_facts])}]")
        return _stamped(told, *stamps), "clear" if found.status == "none" else "override"

    def ask(self, counterparty: str) -> Finding:
        """What the source says of a counterparty. Raises whatever goes wrong with it."""
        question = json.dumps({"counterparty": counterparty}, ensure_ascii=False).encode()
        if self.source == "file":
            known: Any = next(
                (v for k, v in self.counterparties.items() if k.casefold() == counterparty.casefold()), {}
            )
            return read(known)
        if self.source == "command":
            return read(
                json.loads(outside.command(self.command, question, self.seconds, LIMITS.transport_output_bytes))
            )
        if self.source == "http":
            return read(
                json.loads(outside.post(self.url, question, {}, self.seconds, LIMITS.transport_output_bytes)[0])
            )
        if self.source == "python":
            return read(_in_time(_loaded(self.entry_point), counterparty, self.seconds))
        raise ValueError(f"no source {self.source!r}")


def unstamped(context: str) -> str:
    """``context`` with nothing in it that looks like one of our stamps: only the gate stamps."""
    return _FORGED.sub("(", context)


def _stamped(context: str, *stamps: str) -> str:
    return "\n".join([*stamps, context] if context else stamps)


def read(value: Any) -> Finding:
    """An answer as a Finding. Raises ValueError when it is none."""
    if not isinstance(value, Mapping):
        raise ValueError("the answer is no JSON object")
    status = value.get("status", "none")
    if status not in ("none", "signed", "delivered"):
        raise ValueError(f"no status {str(status)[:40]!r}")
    facts = [one if isinstance(one, Mapping) else {"text": one} for one in value.get("facts", ())]
    facts.sort(key=lambda one: str(one.get("ts", "")), reverse=True)
    shown = [f"{one['ts']} {one['text']}" if one.get("ts") else str(one["text"]) for one in facts]
    evidence = value.get("evidence", ())
    return Finding(
        status,
        tuple(_plain(one) for one in ([evidence] if isinstance(evidence, str) else evidence)),
        _plain(value.get("advice", "")),
        tuple(_plain(one) for one in shown),
    )


def _plain(value: object) -> str:
    return unstamped(one_line(str(value)))[:300].replace("]", ")")


def _loaded(name: str) -> Callable[[str], Any]:
    module, _, attribute = name.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    assert callable(found)
    return found  # type: ignore[no-any-return]


def _in_time(work: Callable[[str], Any], counterparty: str, seconds: float) -> Any:
    box: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            box.append(work(counterparty))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not box:
        raise TimeoutError(f"no answer within {seconds:g} seconds")
    return box[0]


def from_document(value: Mapping[str, Any]) -> Baseline | None:
    """The gate that state/baseline.yaml describes; None when its source is ``none``."""
    if value.get("source", "none") == "none":
        return None
    return Baseline(
        value["source"], float(value.get("seconds", LIMITS.baseline_seconds)), value.get("counterparties") or {},
        tuple(value.get("command", ())), value.get("url", ""), value.get("entry_point", ""),
    )  # fmt: skip
