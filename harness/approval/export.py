"""The one-way export: outbox rows as ticks, each text as a file named by its hash. Git is told; it decides nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.approval import text as texts
from harness.approval.backend import Row
from harness.approval.ledger import APPROVALS, FOLDER, Ledger
from harness.approval.limits import LIMITS
from harness.store.tick import ABSENT, Append, Replace, Tick, Write

TEXTS: Final = f"{FOLDER}/texts"
LEASE: Final = "export_lease"
PENDING: Final = "export_pending"


def text_path(sha256: str) -> str:
    """The file of the workspace that holds the text with this hash."""
    return f"{TEXTS}/{sha256[:2]}/{sha256}.txt"


@dataclass(frozen=True)
class Batch:
    """Some outbox rows as ticks. ``seqs`` are their numbers, tick by tick."""

    ticks: list[Tick]
    seqs: list[list[int]]


def waiting(ledger: Ledger, limit: int = LIMITS.export_batch) -> list[Row]:
    """The oldest outbox rows that are not in git yet."""
    return ledger.backend.rows("SELECT * FROM outbox WHERE exported_ts IS NULL ORDER BY seq LIMIT ?", (limit,))


def batch(ledger: Ledger, rows: Sequence[Row], has: Callable[[str], bool]) -> Batch:
    """Ticks for ``rows``, in order; ``has`` tells whether a file is committed already. Rows of people's decisions go into a
    ``decide`` tick, the others into ``ledger`` ticks."""
    ticks: list[Tick] = []
    seqs: list[list[int]] = []
    placed: set[str] = set()
    for kind, part in _runs(rows):
        writes: list[Write] = []
        for row in part:
            value = json.loads(row["row"])
            if kind == "ledger":
                value["seq"] = int(row["seq"])
                for path, text in _texts(ledger, value):
                    if path not in placed and not has(path):
                        placed.add(path)
                        writes.append(Replace(path, text, ABSENT))
            writes.append(Append(row["path"], value))
        first = json.loads(part[0]["row"])
        trailers = (
            {"Obligation": str(part[0]["obligation_id"])} if len({one["obligation_id"] for one in part}) == 1 else {}
        )
        ticks.append(Tick(kind, _summary(kind, first, len(part)), writes, trailers))
        seqs.append([int(one["seq"]) for one in part])
    return Batch(ticks, seqs)


def _runs(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Rows of one kind of tick together; the order between a decision and what comes before it is kept."""
    part: list[Row] = []
    last = ""
    for row in rows:
        kind = "decide" if row["path"] == APPROVALS else "ledger"
        if part and kind != last:
            yield last, part
            part = []
        part.append(row)
        last = kind
    if part:
        yield last, part


def _texts(ledger: Ledger, value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The texts that an event of filing speaks of. A text that no longer has its hash isn't exported under it."""
    if value.get("event") != "drafts.filed":
        return
    draft = ledger.draft(int(value["obligation_id"]), int(value["epoch"]))
    if draft is None:
        return
    forms = [(value["draft_sha256"], draft["draft_text"])]
    forms += [(value["context_sha256"], draft["context"])] if "context_sha256" in value else []
    forms += [(one.sha256, one.body) for one in texts.bodies_of(draft["bodies"])]
    for sha256, text in forms:
        if texts.is_hash(sha256) and texts.sha256(text) == sha256:
            yield text_path(sha256), text


def _summary(kind: str, row: dict[str, Any], count: int) -> str:
    if kind == "decide":
        more = "" if count == 1 else f" and {count - 1} more"
        return f"{row['decision']} draft {row['draft_sha256'][:8]} by {row['operator']}{more}"
    more = "" if count == 1 else f" and {count - 1} more"
    about = f" of obligation {row['obligation_id']}" if "obligation_id" in row else ""
    return f"{row['event']}{about}{more}"


def take_lease(ledger: Ledger, holder: str) -> bool:
    """Become (or stay) the one that exports; False while another one is. A lease ends by itself."""
    with ledger.transaction():
        now = ledger.now()
        held = ledger.meta(LEASE)
        if held is not None:
            until, _, who = held.partition(" ")
            if who != holder and int(until) > now:
                return False
        ledger.set_meta(LEASE, f"{now + LIMITS.lease_seconds} {holder}")
    return True


def begin(ledger: Ledger, seqs: Sequence[int]) -> None:
    """Note that these rows are on their way, so that whoever comes after a crash looks whether they arrived."""
    with ledger.transaction():
        ledger.set_meta(PENDING, f"{min(seqs)}-{max(seqs)}")


def finish(ledger: Ledger, seqs: Sequence[tuple[int, str]]) -> None:
    """Mark rows as exported, each with the commit that holds it."""
    with ledger.transaction():
        now = ledger.now()
        for seq, commit in seqs:
            ledger.backend.change(
                "UPDATE outbox SET exported_ts = ?, exported_commit = ? WHERE seq = ? AND exported_ts IS NULL",
                (now, commit, seq),
            )
        ledger.backend.change("DELETE FROM meta WHERE key = ?", (PENDING,))
