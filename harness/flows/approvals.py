"""Exporting a ledger into its workspace, and reading the export again: the parts that need the store."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.approval import export as exports
from harness.approval import operators
from harness.approval import proof as proofs
from harness.approval import rebuild as rebuilds
from harness.approval import text as texts
from harness.approval import verify as checks
from harness.approval.copy import Copied
from harness.approval.errors import Invalid, Refused
from harness.approval.ledger import APPROVALS, FOLDER, Ledger, create_ledger, is_url, open_ledger
from harness.approval.limits import LIMITS
from harness.store import gate
from harness.store.commit import Store
from harness.store.errors import Busy, Deferred, Unfinished
from harness.store.git import GitError
from harness.store.tick import ABSENT, Replace, Tick, sha256
from harness.store.tree import Tree

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


def prove(store: Store, ledger: Ledger, obligation_id: int) -> bytes:
    """``proof`` with what git holds of it. Exports first. Raises Refused when that has to wait."""
    done = export(store, ledger)
    if done.waits:
        raise Refused("not all of it is in git yet", done.waits, "try again when that is over")
    return proofs.proof(ledger, obligation_id, lambda path, line, commit: _held(store, path, line, commit))


def _held(store: Store, path: str, line: bytes, commit: str | None) -> tuple[str, str]:
    """The commit and file that hold a row's line: the commit that brought it, or the last one where history was rewritten."""
    head = store.head or ""
    for at in [commit, head] if commit and _ancestor(store, commit, head) else [head]:
        tree = Tree(store.git, at)
        for part in reversed(tree.parts(path)):
            if line in (tree.read(part) or b"").split(b"\n"):
                return str(at), part
    raise Refused("git doesn't hold a row of it", path, "run `harness ledger verify`")


def _ancestor(store: Store, commit: str, head: str) -> bool:
    try:
        store.git.run("merge-base", "--is-ancestor", commit, head)
    except GitError:
        return False
    return True


def rebuild(store: Store, place: str) -> tuple[Copied, list[int]]:
    """Make the ledger at ``place`` anew from the committed export. A file that is there is moved aside, never overwritten;
    a database must be empty. What it holds as unknown comes back too."""
    if not is_url(place):
        _aside(Path(place))
    create_ledger(place if is_url(place) else Path(place))
    rows: list[tuple[str, Mapping[str, Any]]] = [
        (path, row) for path, row, _ in exported_rows(store) if row is not None
    ]
    read = {name: data.decode("utf-8", "replace") for name, data in exported_texts(store)}
    with open_ledger(place) as target:
        if target.one("SELECT 1 AS n FROM obligations UNION ALL SELECT 1 AS n FROM outbox LIMIT 1"):
            raise Refused("that ledger has rows", target.backend.place, "give an empty database")
        done, held = rebuilds.rebuild(target, rows, read)
        done.problems += [
            (path, f"a line can't be read: {why}") for path, row, why in exported_rows(store) if row is None
        ]
    return done, held


def _aside(path: Path) -> None:
    """Move a ledger's files out of the way, under names that tell when."""
    mark = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for suffix in ("", "-wal", "-shm"):
        one = Path(f"{path}{suffix}")
        if one.exists():
            one.rename(f"{path}.before-{mark}{suffix}")
