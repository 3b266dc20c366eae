"""Building a ledger again from its export in git. It can never send: what could have been on its way is held as unknown."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from harness.approval import copy
from harness.approval import text as texts
from harness.approval.backend import Row
from harness.approval.copy import Contents, Copied
from harness.approval.export import text_path
from harness.approval.file import refile_as_is
from harness.approval.ledger import APPROVALS, Ledger

MARK: Final = (
    "[REBUILT LEDGER: an approval or a sending of this may be missing; make sure it was not sent before you decide]"
)
_WHY: Final = "the ledger was rebuilt; outbox rows may have died with the old one"
_PLACE: Final = ("counterparty", "platform", "workspace", "channel", "thread")


def fold(
    rows: Iterable[tuple[str, Mapping[str, Any]]], read: Mapping[str, str]
) -> tuple[Contents, list[tuple[str, str]]]:
    """The tables that exported events (file, row) in any order speak of, and what is missing for them. ``read`` gives the
    exported texts by hash."""
    told = _Folded(read)
    events = sorted((row for path, row in rows if path != APPROVALS), key=lambda row: int(row["seq"]))
    for row in events:
        told.take(row)
    out = Contents(
        list(told.obligations.values()), told.drafts, told.bodies, told.decisions, told.snapshots, list(told.claims.values()),
        told.deliveries, told.freezes,
    )  # fmt: skip
    return out, told.missing


def _seconds(ts: str) -> int:
    return int(datetime.fromisoformat(ts).timestamp())


class _Folded:
    """Tables growing event by event."""

    def __init__(self, read: Mapping[str, str]) -> None:
        self.read = read
        self.missing: list[tuple[str, str]] = []
        self.obligations: dict[int, Row] = {}
        self.drafts: list[Row] = []
        self.bodies: list[Row] = []
        self.decisions: list[Row] = []
        self.snapshots: list[Row] = []
        self.claims: dict[int, Row] = {}
        self.deliveries: list[Row] = []
        self.freezes: list[Row] = []

    def take(self, row: Mapping[str, Any]) -> None:
        """One event, in the order of ``seq``."""
        kind, _, what = str(row["event"]).partition(".")
        at = _seconds(row["ts"])
        number = int(row.get("obligation_id", 0))
        if kind in ("drafts", "obligations"):
            getattr(self, f"_{what}", self._nothing)(row, number, at)
        elif number in self.obligations or kind == "freezes":
            getattr(self, f"_{kind}")(row, number, at, what)
        if number in self.obligations:
            touched = self.obligations[number]
            touched["last_touch_ts"] = max(touched["last_touch_ts"], at)

    def _nothing(self, row: Mapping[str, Any], number: int, at: int) -> None:
        """An event that leaves no mark on the tables that come over."""

    def _opened(self, row: Mapping[str, Any], number: int, at: int) -> None:
        self.obligations[number] = {
            "id": number, **{name: row[name] for name in _PLACE}, "direction": row["direction"], "status": "open",
            "summary": row["summary"], "opened_ts": _seconds(row["opened"]), "last_touch_ts": at, "epoch": row["epoch"],
        }  # fmt: skip

    def _closed(self, row: Mapping[str, Any], number: int, at: int) -> None:
        self.obligations[number]["status"] = "closed"

    _answered = _closed

    def _expired(self, row: Mapping[str, Any], number: int, at: int) -> None:
        self.obligations[number]["status"] = "expired"

    def _filed(self, row: Mapping[str, Any], number: int, at: int) -> None:
        place = {name: row[name] for name in _PLACE}
        known = self.obligations.setdefault(
            number,
            {"id": number, **place, "direction": "we_owe_them", "summary": "", "opened_ts": at, "last_touch_ts": at},
        )
        known |= {"status": "drafted", "epoch": row["epoch"]}
        text = self._text(row["draft_sha256"], f"draft {number}/{row['epoch']}")
        known["summary"] = (
            f"{row['counterparty']}: {' '.join((row['subject'] or text).split())[:100]} [sha {row['draft_sha256'][:8]}]"
        )
        context = (
            self._text(row["context_sha256"], f"context {number}/{row['epoch']}") if "context_sha256" in row else ""
        )
        names = ("epoch", "subject", "origin_user", "source_skill", "priority", "draft_sha256", "digest", "baseline")
        more = ("auto_send_after", "expires_after", "signal_obligation_id", "request_key")
        self.drafts.append(
            {name: row[name] for name in names}
            | {name: row.get(name) for name in more}
            | {"obligation_id": number, "draft_text": text, "context": context, "created_ts": at, "looked_ts": None}
            | {"attachments": json.dumps(row["attachments"], ensure_ascii=False)}
        )
        for media, sha256 in row["bodies"]:
            body = self._text(sha256, f"{media} body {number}/{row['epoch']}")
            self.bodies.append(
                {"obligation_id": number, "epoch": row["epoch"], "media_type": media, "body": body, "sha256": sha256}
            )

    def _text(self, sha256: str, what: str) -> str:
        text = self.read.get(sha256)
        if text is None or texts.sha256(text) != sha256:
            self.missing.append((what, f"its text is not in {text_path(sha256)}"))
            return ""
        return text

    def _decisions(self, row: Mapping[str, Any], number: int, at: int, what: str) -> None:
        known = self.obligations[number]
        names = ("epoch", "decision", "operator", "channel", "shown_sha256", "nonce")
        self.decisions.append(
            {name: row[name] for name in names}
            | {"id": row["decision_id"], "obligation_id": number, "reason": row.get("reason"), "decided_ts": at}
        )
        known["status"] = "approved" if row["decision"] == "approve" else "rejected"
        draft = next((d for d in self.drafts if d["obligation_id"] == number and d["epoch"] == row["epoch"]), None)
        if row["decision"] == "approve" and draft is not None:
            bodies = [
                [b["media_type"], b["sha256"], b["body"]]
                for b in self.bodies
                if (b["obligation_id"], b["epoch"]) == (number, row["epoch"])
            ]
            self.snapshots.append(
                {
                    **draft,
                    **{name: known[name] for name in _PLACE},
                    "decision_id": row["decision_id"],
                    "bodies": json.dumps(sorted(bodies)),
                }
            )

    def _claims(self, row: Mapping[str, Any], number: int, at: int, what: str) -> None:
        decision = int(row["decision_id"])
        if what == "claimed":
            host, _, pid = str(row.get("worker", "")).rpartition(":")
            self.claims[decision] = {
                "obligation_id": number, "decision_id": decision, "token": secrets.token_hex(32), "worker_host": host,
                "worker_pid": int(pid) if pid.isdigit() else 0, "created_ts": at, "reconciliation_evidence": None,
            }  # fmt: skip
        if claim := self.claims.get(decision):
            claim |= {"state": what, "updated_ts": max(at, claim.get("updated_ts", at))}
        if what == "cancelled":
            self.obligations[number]["status"] = "drafted"

    def _deliveries(self, row: Mapping[str, Any], number: int, at: int, what: str) -> None:
        decision = int(row["decision_id"])
        self.deliveries.append(
            {
                "id": row["delivery_id"],
                "obligation_id": number,
                "decision_id": decision,
                "kind": row["kind"],
                "coordinate": row["coordinate"],
                "delivered_ts": at,
            }
        )
        if claim := self.claims.get(decision):
            claim |= {"state": "delivered", "updated_ts": at, "reconciliation_evidence": row.get("evidence")}
        self.obligations[number]["status"] = "sent"

    def _freezes(self, row: Mapping[str, Any], number: int, at: int, what: str) -> None:
        if what == "frozen":
            self.freezes.append(
                {
                    "id": len(self.freezes) + 1,
                    "frozen_ts": at,
                    "frozen_by": row["operator"],
                    "reason": row["reason"],
                    "lifted_ts": None,
                    "lifted_by": None,
                }
            )
        elif self.freezes:
            self.freezes[-1] |= {"lifted_ts": at, "lifted_by": row["operator"]}


def rebuild(
    target: Ledger, rows: list[tuple[str, Mapping[str, Any]]], read: Mapping[str, str]
) -> tuple[Copied, list[int]]:
    """Fill the empty ledger ``target`` from the export; what came over, and the obligations held as unknown.

    A draft that waited for a person waits again, at a new epoch and with a mark: its approval may be what is missing.
    """
    made, missing = fold(rows, read)
    freezes, made.freezes = made.freezes, []
    made.outbox = [_sent(path, row, target.now()) for path, row in rows if path != APPROVALS]
    done = copy.write(target, made)
    done.problems[:0] = missing
    held = copy.hold(target, _WHY)
    for one in target.backend.rows("SELECT id FROM obligations WHERE status = 'drafted' ORDER BY id"):
        refile_as_is(target, int(one["id"]), MARK)
    with target.transaction():
        for freeze in freezes:
            names = ", ".join(freeze)
            target.backend.change(f"INSERT INTO freezes ({names}) VALUES (?, ?, ?, ?, ?, ?)", list(freeze.values()))  # noqa: S608
    copy.count_on(target)
    return done, held


def _sent(path: str, row: Mapping[str, Any], now: int) -> Row:
    """An exported row as the outbox row that it was."""
    own = json.dumps(
        {name: value for name, value in row.items() if name != "seq"}, ensure_ascii=False, separators=(",", ":")
    )
    return {
        "seq": row["seq"], "id": row["id"], "path": path, "obligation_id": row.get("obligation_id"), "row": own,
        "exported_ts": now, "exported_commit": None,
    }  # fmt: skip
