"""What agents and people are told of the state of things: computed from the ledgers, exported for the hooks."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from harness.flows import taste
from harness.flows.ledgers import rows
from harness.flows.predictions import to_check
from harness.flows.tune import exported
from harness.loader import feedback, queue
from harness.skills import find
from harness.store import deferred, files, snapshot
from harness.store.commit import Store
from harness.store.tick import sha256

_QUARANTINE: Final = "state/log/quarantine.ndjson"
_QUEUE: Final = "state/regen/queue.ndjson"
_TOLD_DAYS: Final = 1
_GATED: Final = ("/SKILL.md", "/AGENTS.md", "/overlay.md", "/MEMBER.md")


def announce(store: Store) -> None:
    """Put into the snapshot what hooks tell: unread lines of the last day, names of skills, whether the queue has work."""
    with store.locked():
        snapshot.sweep(store.workspace)
        snapshot.update(store.workspace, **notices(store))


def notices(store: Store) -> dict[str, Any]:
    """The fields of ``now.json`` that hooks tell from: notices for a session's start, unread feedback lines of the last
    day, each skill's names, and whether the queue holds work."""
    entries = queue.fold(rows(store, _QUEUE))
    told = []
    for entry in entries.values():
        if entry.state == "escalated":
            told.append(
                {
                    "id": f"escalated-{entry.skill}-{entry.opened}",
                    "text": f"the loader of {entry.skill} keeps missing the same area; a person should look: state/regen/escalations/",
                }
            )
        elif entry.state == "failed":
            told.append(
                {
                    "id": f"failed-{entry.skill}-{entry.opened}",
                    "text": f"regenerating the loader of {entry.skill} failed ({entry.error}); see `harness regen status`",
                }
            )
    waits = exported(store)
    if waits:
        ids = ", ".join(f"{one['short']} ({one['skill']})" for one in waits[:5])
        told.append(
            {
                "id": f"proposals-{waits[-1]['id']}",
                "text": f"{len(waits)} proposed edits wait for the user: {ids}; harness review",
            }
        )
    for path in sorted((store.runtime / "forged").glob("*.json")):
        why = json.loads(path.read_bytes()).get("why", "")
        told.append({"id": f"forged-{path.stem}", "text": f"an edit was taken back: {why}"})
    waiting = list(deferred.waiting(store.runtime))
    if waiting:
        told.append(
            {
                "id": f"deferred-{waiting[0].tick.id}",
                "text": f"{len(waiting)} tick(s) wait since {waiting[0].since}: {waiting[0].why}",
            }
        )
    return {
        "notices": told,
        "quarantine": _unread(store),
        "proposals": waits,
        "checks": to_check(store),
        "hints": taste.exported(store),
        "behind": _behind(store),
        "open": any(entry.state in ("open", "running") for entry in entries.values()),
        "skills": _names(store),
    }


def _unread(store: Store) -> list[dict[str, Any]]:
    since = (datetime.now(UTC) - timedelta(days=_TOLD_DAYS)).strftime("%Y-%m-%dT%H:%M:%SZ")
    new = [row for row in rows(store, _QUARANTINE) if str(row.get("ts", "")) >= since][-20:]
    if any(str(row["reason"]).startswith(find.NO_SKILL) for row in new):
        had = {row["id"] for row in rows(store, "state/log/feedback.ndjson")}
        new = [row for row in new if feedback.taken_up_id(row["id"]) not in had]
    return [
        {
            "id": row["id"],
            "session": row.get("session"),
            "text": f"{row['position']}: {row['text'][:200]!r}: {row['reason']}",
        }
        for row in new
    ]


def _behind(store: Store) -> list[dict[str, Any]]:
    """Files of skills and members that somebody changed on disk behind the gate: agents are told once that this does nothing."""
    out = store.git.text("status", "--porcelain", "-z", "-uall", "--no-renames", "--", "skills", "team")
    told = []
    for path in sorted(item[3:] for item in out.split("\0") if item[3:].endswith(_GATED)):
        data = files.read(store.workspace.root / path) or b""
        text = (
            f"{path} was changed on disk behind the gate. That has no effect until a person commits it: overlays change"
        )
        text += " only by a proposal that the user approves"
        told.append({"id": f"behind-{sha256(path.encode() + data)[:16]}", "text": text})
    return told[:4]


def _names(store: Store) -> dict[str, Any]:
    """What the snapshot knows of skills, with every name that a client may call them by."""
    known = dict(snapshot.now(store.workspace).get("skills", {}))
    for skill in find.find_all(store.workspace.root, store.workspace.project, Path.home(), os.environ):
        if skill.folder in known:
            known[skill.folder] = {
                **known[skill.folder],
                "names": sorted({*known[skill.folder].get("names", []), *skill.names}),
            }
    return known
