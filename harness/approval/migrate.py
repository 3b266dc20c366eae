"""Moving a ledger: from SQLite to PostgreSQL or back, and from a ledger of the published reference."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.approval import copy, freeze, sqlite
from harness.approval.backend import Row
from harness.approval.copy import Contents, Copied
from harness.approval.errors import NoLedger
from harness.approval.file import DEFAULT_SKILL
from harness.approval.ledger import create_ledger, is_url, open_ledger

_PLACE: Final = ("counterparty", "platform", "workspace", "channel", "thread")


def migrate(source: str, target: str) -> Copied:
    """Take the ledger at ``source`` into a new one at ``target``. One of ours is frozen by that: an approval that could be
    claimed in two ledgers could be sent twice. A reference ledger is only read; end its workers first.

    A decision without a snapshot of what it approved comes over and grants nothing; it is listed. Permission is never made
    from a draft that could have changed. Raises NoLedger when the target has rows already.
    """
    if is_url(target) or not Path(target).exists():
        create_ledger(target if is_url(target) else Path(target))
    with open_ledger(target) as made:
        if made.one("SELECT 1 AS n FROM obligations UNION ALL SELECT 1 AS n FROM outbox LIMIT 1"):
            raise NoLedger("the target has rows already", made.backend.place, "give an empty one")
        found, reference = _read(source, made.backend.place)
        out = copy.write(made, found)
        if reference:
            copy.tell(made)
    return out


def _read(source: str, target: str) -> tuple[Contents, bool]:
    if not is_url(source) and Path(source).is_file():
        backend = sqlite.SQLite(sqlite.connect(Path(source)), source, None)
        try:
            columns = {row["name"] for row in backend.rows("PRAGMA table_info(obligations)")}
            if {"source", "updated_at"} <= columns:
                return reference_contents(backend), True
        finally:
            backend.close()
    with open_ledger(source) as ledger:
        pressed = freeze.freeze(ledger, "migrate", f"moved to {target}")
        found = copy.contents(ledger.backend)
    if pressed:  # that freeze is the old ledger's own
        found.freezes.pop()
        found.outbox = [row for row in found.outbox if f'"reason":"moved to {target}"' not in row["row"]]
    return found, False


def reference_contents(backend: sqlite.SQLite) -> Contents:
    """The rows of a reference ledger in our form: its ``source`` is our platform, its ``updated_at`` our epoch."""
    drafts = {int(row["obligation_id"]): row for row in backend.rows("SELECT * FROM obligation_drafts")}
    snapshots = {int(r["decision_id"]): r for r in _table(backend, "obligation_approval_snapshots")}
    out = Contents()
    for row in backend.rows("SELECT * FROM obligations ORDER BY id"):
        thread = (drafts.get(int(row["id"])) or {}).get("origin_thread") or ""
        out.obligations.append(
            {
                "id": row["id"], "counterparty": row["counterparty"], "platform": row["source"], "workspace": "", "channel": row["channel"],
                "thread": thread, "direction": row["direction"], "status": row["status"], "summary": row["summary"],
                "opened_ts": row["opened_ts"], "last_touch_ts": row["last_touch_ts"], "epoch": row["updated_at"],
            }
        )  # fmt: skip
    places = {int(row["id"]): {name: row[name] for name in _PLACE} for row in out.obligations}
    out.drafts = [_draft(row) for row in drafts.values()]
    for row in backend.rows("SELECT * FROM obligation_decisions ORDER BY id"):
        shown = (snapshots.get(int(row["id"])) or {}).get("draft_sha256", "")
        out.decisions.append(
            {
                "id": row["id"], "obligation_id": row["obligation_id"], "epoch": row["draft_updated_ts"], "decision": row["decision"],
                "operator": row["operator"], "channel": "import", "shown_sha256": shown, "reason": None,
                "decided_ts": row["decided_ts"], "nonce": row["nonce"],
            }
        )  # fmt: skip
    for row in snapshots.values():
        place = places[int(row["obligation_id"])]
        out.snapshots.append(
            {
                "decision_id": row["decision_id"], "obligation_id": row["obligation_id"], "epoch": row["draft_epoch"],
                "draft_text": row["draft_text"], "draft_sha256": row["draft_sha256"], "subject": "", "bodies": "[]", "attachments": "[]",
                "digest": "", **place, "platform": row["origin_platform"], "channel": row["origin_channel"],
                "thread": row["origin_thread"] or "",
            }
        )  # fmt: skip
    out.claims = [{**row, "worker_host": "", "worker_pid": 0} for row in _table(backend, "obligation_delivery_claims")]
    out.deliveries = backend.rows("SELECT * FROM obligation_deliveries ORDER BY id")
    return out


def _draft(row: Row) -> Row:
    names = (
        "obligation_id",
        "draft_text",
        "draft_sha256",
        "priority",
        "created_ts",
        "auto_send_after",
        "signal_obligation_id",
    )
    return {name: row[name] for name in names} | {
        "epoch": row["updated_ts"], "subject": "", "context": row["context"] or "", "origin_user": row["origin_user"] or "",
        "source_skill": DEFAULT_SKILL, "attachments": "[]", "digest": "", "baseline": "off", "expires_after": None,
        "looked_ts": None, "request_key": None,
    }  # fmt: skip


def _table(backend: sqlite.SQLite, name: str) -> list[Row]:
    """The rows of a table that older ledgers don't have."""
    there = backend.rows("SELECT 1 AS n FROM sqlite_master WHERE type = 'table' AND name = ?", (name,))
    return backend.rows(f"SELECT * FROM {name} ORDER BY decision_id") if there else []  # noqa: S608
