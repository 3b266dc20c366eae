"""Exporting a ledger into its workspace, and reading the export again: the parts that need the store."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.approval import export as exports
from harness.approval import operators
from harness.approval import text as texts
from harness.approval import verify as checks
from harness.approval.errors import Invalid
from harness.approval.ledger import APPROVALS, FOLDER, Ledger
from harness.approval.limits import LIMITS
from harness.store import gate
from harness.store.commit import Store
from harness.store.errors import Busy, Deferred, Unfinished
from harness.store.tick import ABSENT, Replace, Tick, sha256

OPERATORS: Final = "state/operators.yaml"
_ROUNDS: Final = 10_000


@dataclass
class Exported:
    """How many rows reached git, and why the rest waits (empty: nothing waits)."""

    rows: int = 0
    waits: str = ""


def export(store: Store, ledger: Ledger) -> Exported:
    """Commit what the outbox holds, oldest first, until it is empty or something stands in the way. May be run at any
    time and again: a row that is in history isn't written twice."""
    out = Exported()
    holder = f"{socket.gethostname()}:{os.path.realpath(store.workspace.root)}"
    for _ in range(_ROUNDS):
        if not exports.waiting(ledger, 1):
            return out
        if not exports.take_lease(ledger, holder):
            out.waits = f"another machine exports: {(ledger.meta(exports.LEASE) or '').partition(' ')[2]}"
            return out
        try:
            with store.locked():
                out.rows += _batch(store, ledger)
        except (Busy, Deferred) as error:
            out.waits = str(error)
            return out
    return out


def _batch(store: Store, ledger: Ledger) -> int:
    rows = exports.waiting(ledger)  # read again: the lock is ours now, and another process here may have been first
    if not rows:
        return 0
    if ledger.meta(exports.PENDING) is not None:
        rows = _without_landed(store, ledger, rows)
        if not rows:
            return 0
    tree = store.tree
    made = exports.batch(ledger, rows, lambda path: tree.blob_id(path) is not None)
    seqs = [seq for part in made.seqs for seq in part]
    exports.begin(ledger, seqs)
    try:
        landed = store.commit_all(made.ticks, keep=False)
    except Unfinished:
        head = store.head or ""
        exports.finish(ledger, [(seq, head) for seq in seqs])
        raise
    exports.finish(
        ledger, [(seq, one.commit or "") for one, part in zip(landed, made.seqs, strict=True) for seq in part]
    )
    return len(seqs)


def _without_landed(store: Store, ledger: Ledger, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``rows`` without those that a process which died had committed already; these are marked."""
    store.catch_up()
    ids = {row["id"] for row in rows}
    known = {
        row["id"]
        for path in {row["path"] for row in rows}
        for row in store.rows(path)
        if isinstance(row, dict) and row.get("id") in ids
    }
    head = store.head or ""
    exports.finish(ledger, [(int(row["seq"]), head) for row in rows if row["id"] in known])
    return [row for row in rows if row["id"] not in known]


def ledger_files(store: Store) -> list[str]:
    """The ledger files of the export that are committed, in order of their names."""
    names = {name.removesuffix(".d") for name in store.tree.names(FOLDER)}
    return [f"{FOLDER}/{name}" for name in sorted(names) if name.endswith(".ndjson")]


def exported_rows(store: Store) -> Iterator[tuple[str, dict[str, Any] | None, str]]:
    """(file, row or None, why it can't be read) for each row of the export and of the approvals."""
    for path in [*ledger_files(store), APPROVALS]:
        for row in store.rows(path):
            yield (path, row, "") if isinstance(row, dict) else (path, None, f"line {row.number}: {row.reason}")


def exported_texts(store: Store) -> Iterator[tuple[str, bytes]]:
    """(hash that the name claims, bytes) of each exported text."""
    tree = store.tree
    for folder in tree.folders(exports.TEXTS):
        for name in tree.names(f"{exports.TEXTS}/{folder}"):
            data = tree.read(f"{exports.TEXTS}/{folder}/{name}")
            if data is not None:
                yield name.removesuffix(".txt"), data


def verify(store: Store, ledger: Ledger) -> list[checks.Finding]:
    """Everything that doesn't agree between a ledger, its hashes, its outbox and its export."""
    return [
        *checks.hashes(ledger),
        *checks.outbox(ledger),
        *checks.exported(ledger, exported_rows(store), exported_texts(store)),
    ]


def set_operator(store: Store, name: str, token_file: Path | None, by: str) -> None:
    """Give an operator a new token, in a new file, or (without one) revoke what they have. Raises Invalid."""
    clean = texts.line("operator", name, LIMITS.name_characters)
    old = store.tree.read(OPERATORS)
    value, why = gate.parse_document(OPERATORS, (old or b"version: 1\noperators: []\n").decode("utf-8", "replace"))
    if why or not isinstance(value, dict):
        raise Invalid(f"{OPERATORS} can't be read", why, "repair and commit it")
    kept = [one for one in value.get("operators") or () if one["name"] != clean]
    if token_file is None:
        if len(kept) == len(value.get("operators") or ()):
            raise Invalid(f"no operator {clean!r}")
    else:
        token, known = operators.new_token()
        try:
            operators.write_token(token_file, token)
        except FileExistsError:
            raise Invalid(f"{token_file} exists", "", "remove it first, or give --token-out") from None
        kept.append({"name": clean, "token_sha256": known})
    head = "".join(
        line for line in (old or b"").decode("utf-8", "replace").splitlines(keepends=True) if line.startswith("#")
    )
    lines = [f"  - {json.dumps(one, ensure_ascii=False)}\n" for one in kept]
    text = f"{head}version: 1\noperators:{'' if lines else ' []'}\n{''.join(lines)}"
    verb = "revokes" if token_file is None else "names"
    store.commit(
        Tick(
            "settings",
            f"{by} {verb} the operator {clean}",
            [Replace(OPERATORS, text, ABSENT if old is None else sha256(old))],
        )
    )
