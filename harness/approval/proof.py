"""The proof of one sending: a single file that `git` and `sha256sum` check, without a line of this program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from harness.approval import text as texts
from harness.approval.errors import Refused
from harness.approval.export import text_path
from harness.approval.ledger import APPROVALS, Ledger, stamp
from harness.store.tick import one_line, row_line

TITLE: Final = "harness approval proof 1"
END: Final = "--"
_EVENTS: Final = ("drafts.filed", "decisions.decided", "claims.dispatching", "deliveries.delivered")

_PLACE: Final = ("counterparty", "platform", "workspace", "channel", "thread")

Where = Callable[[str, bytes, str | None], tuple[str, str]]


def proof(ledger: Ledger, obligation_id: int, where: Where) -> bytes:
    """The proof of the last decision on an obligation: a header of lines, the line ``--``, then the bytes of each part.

    ``where(path, line, commit)`` gives the commit and file in which git holds the line of a row; it raises when none does.
    Raises Refused when there is no decision, or something of it isn't exported.
    """
    row = ledger.obligation(obligation_id)
    decision = ledger.one(
        "SELECT * FROM obligation_decisions WHERE obligation_id = ? ORDER BY id DESC LIMIT 1", obligation_id
    )
    if decision is None:
        raise Refused(f"there is nothing to prove of obligation {obligation_id}", "nobody has decided on it")
    approved = ledger.one("SELECT * FROM obligation_approval_snapshots WHERE decision_id = ?", int(decision["id"]))
    draft = approved or ledger.draft(obligation_id, int(decision["epoch"]))
    if draft is None:
        raise Refused(f"the text of decision {decision['id']} is gone")
    texts.verify({**row, **draft})
    delivery = ledger.one("SELECT * FROM obligation_deliveries WHERE decision_id = ?", int(decision["id"]))
    parts = [("text", draft["draft_sha256"], draft["draft_text"])]
    parts += [(one.media_type, one.sha256, one.body) for one in texts.bodies_of(draft["bodies"])]
    facts: list[tuple[str, Any]] = [
        ("obligation", obligation_id), *((name, draft.get(name, row[name])) for name in _PLACE),
        ("subject", draft["subject"]), ("epoch", decision["epoch"]), ("decision", f"{decision['decision']} {decision['id']}"),
        ("operator", decision["operator"]), ("decided-by", decision["channel"]), ("decided", stamp(int(decision["decided_ts"]))),
        ("reason", decision["reason"] or ""), ("digest", draft["digest"]),
        ("delivered", stamp(int(delivery["delivered_ts"])) if delivery else ""), ("coordinate", delivery["coordinate"] if delivery else ""),
    ]  # fmt: skip
    head = [TITLE, *(f"{name}: {one_line(str(value))}" for name, value in facts)]
    head += [f"attachment: {one['sha256']} {one['name']}" for one in json.loads(draft["attachments"])]
    head += [f"part: {sha256} {len(body.encode())} {text_path(sha256)} {kind}" for kind, sha256, body in parts]
    head += _rows(ledger, obligation_id, int(decision["epoch"]), int(decision["id"]), where)
    return ("\n".join([*head, END, ""])).encode() + b"".join(body.encode() for _, _, body in parts)


def _rows(ledger: Ledger, obligation_id: int, epoch: int, decision_id: int, where: Where) -> list[str]:
    out = []
    for row in ledger.backend.rows("SELECT * FROM outbox WHERE obligation_id = ? ORDER BY seq", (obligation_id,)):
        value = json.loads(row["row"])
        of_this = value.get("decision_id", decision_id) == decision_id and value.get("epoch", epoch) == epoch
        if row["path"] == APPROVALS or value["event"] not in _EVENTS or not of_this:
            continue
        if row["exported_ts"] is None:
            raise Refused("not all of it is in git yet", value["event"], "run `harness ledger export` first")
        line = row_line({**value, "seq": int(row["seq"])}).rstrip(b"\n")
        commit, path = where(row["path"], line, row["exported_commit"])
        out.append(f"row: {commit} {path} {line.decode()}")
    return out
