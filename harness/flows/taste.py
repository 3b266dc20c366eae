"""Distill approvals: decisions -> buckets -> hints and the day's rollup; then another process audits both.

    approvals.ndjson -> (actor) rollup + hints, one tick -> (auditor, its own process) the same from the ledgers -> eval row

Nothing here writes approvals. A burst of decisions is one pass; none is lost: who comes while a pass is at work leaves a
mark, and the pass goes round once more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from harness import evals
from harness.flows.drafting import APPROVALS
from harness.flows.ledgers import undone
from harness.ids import ulid
from harness.store import files
from harness.store.commit import Store
from harness.store.errors import Busy
from harness.store.tick import ABSENT, Append, Replace, Tick, Write, sha256
from harness.taste import hints, shape, tally
from harness.taste.drafts import BadPath, file_of

SKILL: Final = "distill-approvals"
HINTS: Final = "state/log/taste-hints.ndjson"
ROLLUPS: Final = "state/log/distill-approvals"
CACHE: Final = "shape.json"
AUDIT_SECONDS: Final = 600
_ROUNDS: Final = 50


@dataclass
class Distilled:
    """What a pass did: rows read, hints written, the rollup's path, and the audit's score and issue."""

    rows: int = 0
    hints: list[dict[str, Any]] = field(default_factory=list)
    artifact: str | None = None
    score: float | None = None
    issue: str | None = None
    commit: str | None = None
    elsewhere: bool = False


# --- shapes ---------------------------------------------------------------------------------------------------------


class Shapes:
    """The shape of each draft, remembered by its text's hash and the rules' version; a draft that is gone has none."""

    def __init__(self, store: Store) -> None:
        self.store, self.tree, self.changed = store, store.tree, False
        try:
            value = json.loads(files.read(store.runtime / CACHE) or b"{}")
        except ValueError:
            value = {}
        fresh = isinstance(value, dict) and value.get("version") == shape.VERSION
        self.known: dict[str, str] = value.get("shapes", {}) if fresh else {}

    def __call__(self, row: Mapping[str, Any]) -> str | None:
        key = row.get("draft_sha256")
        known = self.known.get(key) if type(key) is str else None
        if known is not None:
            return known
        try:
            data = self.tree.read(file_of(str(row.get("path"))))
        except BadPath:
            return None
        if data is None:
            return None
        found = shape.shape_of(data.decode("utf-8", "replace"))
        self.known[sha256(data)] = found
        self.changed = True
        return found

    def save(self) -> None:
        """Keep what was learned for the next pass."""
        if self.changed:
            value = {"version": shape.VERSION, "shapes": self.known}
            files.replace(self.store.runtime / CACHE, json.dumps(value).encode(), sync=False)


def counted(store: Store, most: int | None = None) -> tally.Tally:
    """The tally of the committed approvals, of the first ``most`` rows when that is given."""
    shapes = Shapes(store)
    gone = undone(store)
    rows = (r for n, r in enumerate(store.rows(APPROVALS)) if most is None or n < most)
    kept = (r for r in rows if not (isinstance(r, dict) and r.get("id") in gone)) if gone else rows
    out = tally.tally(kept, shapes, store.settings["taste"]["half_life_days"] or None)
    shapes.save()
    return out


# --- the actor ------------------------------------------------------------------------------------------------------


def refresh(store: Store, say: Callable[[str], None]) -> Distilled:
    """One pass, or as many as decisions come in meanwhile. When another process is at it, it is asked to go round again."""
    mark = store.runtime / "taste.again"
    mark.touch()
    out = Distilled()
    for _ in range(_ROUNDS):
        try:
            with files.lock(store.runtime / "taste.lock", 0):
                if not mark.exists():
                    return out
                mark.unlink(missing_ok=True)
                out = _pass(store, say)
        except Busy:
            out.elsewhere = True
            return out
        if not mark.exists():
            return out
    return out


def _pass(store: Store, say: Callable[[str], None]) -> Distilled:
    store.catch_up()
    actor, run = evals.actor_id(SKILL), ulid()
    found = counted(store)
    out = Distilled(rows=found.scanned)
    writes: list[Write] = []
    if found.buckets:
        now = datetime.now(UTC)
        out.artifact = f"{ROLLUPS}/{now:%Y-%m-%d}.json"
        table = hints.rollup(found, f"{now:%Y-%m-%dT%H:%M:%SZ}")
        old = store.tree.read(out.artifact)
        if old is None or _without_time(json.loads(old)) != _without_time(table):
            text = json.dumps(table, ensure_ascii=False, indent=1) + "\n"
            writes.append(Replace(out.artifact, text, ABSENT if old is None else sha256(old)))
        out.hints = new_hints(store, found, out.artifact)
        writes += [Append(HINTS, row) for row in out.hints]
    if writes:
        count = f"{len(out.hints)} hint{'' if len(out.hints) == 1 else 's'} from {found.scanned} decisions"
        out.commit = store.commit(Tick("taste", count, writes, {"Skill": SKILL})).commit
        say(count)
    _audited(store, out, actor, run)
    return out


def new_hints(store: Store, found: tally.Tally, artifact: str) -> list[dict[str, Any]]:
    """The rows of buckets whose numbers have changed; a bucket that says what it said writes nothing."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    latest = current_hints(store)
    rows = []
    for (skill, form), bucket in sorted(found.buckets.items()):
        if not hints.worth_a_hint(bucket):
            continue
        row = {
            "id": ulid(), "ts": now, "source_skill": skill, "shape": form, "accept_rate": hints.rounded(bucket.rate), "n": bucket.n,
            "confidence": tally.confidence(bucket.n), "hint": hints.sentence(found.buckets, skill, form), "rollup": artifact,
        }  # fmt: skip
        if not hints.same(latest.get((skill, form), {}), row):
            rows.append(row)
    return rows


def current_hints(store: Store) -> dict[tuple[str, str], dict[str, Any]]:
    """The latest row of each (skill, shape)."""
    gone = undone(store)
    rows = (r for r in store.rows(HINTS) if isinstance(r, dict) and r.get("id") not in gone)
    return {(str(r["source_skill"]), str(r["shape"])): r for r in rows}


def exported(store: Store) -> dict[str, list[str]]:
    """The current hints as the hooks give them: skill -> sentences with their confidence, the surest first."""
    out: dict[str, list[str]] = {}
    for (skill, _), row in sorted(current_hints(store).items(), key=lambda item: -item[1]["n"]):
        out.setdefault(skill, []).append(f"{row['hint']} (confidence {row['confidence']}, n {row['n']})")
    return out


def _without_time(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key != "computed_at"}


def _audited(store: Store, out: Distilled, actor: str, run: str) -> None:
    """Let another process check the result and write the eval row; nothing of this process is handed over but names."""
    program = [sys.executable, "-P", "-m", "harness", "--workspace", str(store.workspace.root)]
    command = [*program, "taste", "audit", "--actor", actor, "--run", run, "--json"]
    if out.artifact:
        command += ["--artifact", out.artifact]
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, env=env, timeout=AUDIT_SECONDS, check=False
    )
    try:
        said = json.loads(done.stdout)
        out.score, out.issue = float(said["score"]), said["primary_issue"]
    except (ValueError, KeyError, TypeError):
        out.issue = f"the audit failed: {done.stderr.decode('utf-8', 'replace').strip()[-300:]}"


# --- the auditor ----------------------------------------------------------------------------------------------------


def audit(store: Store, actor: str, run: str | None, artifact: str | None) -> dict[str, Any]:
    """Derive the result from the ledgers again, compare it with what was written, and commit the eval row."""
    auditor = evals.auditor_id(SKILL)
    store.catch_up()
    found = counted(store)
    if not found.scanned:
        row = evals.row(SKILL, actor, auditor, score=0.5, issue="no-approvals-yet", run=run)
    elif not any(hints.worth_a_hint(b) for b in found.buckets.values()):
        row = evals.row(SKILL, actor, auditor, score=0.5, issue="insufficient-signal", artifact=artifact, run=run)
    else:
        wrong = differences(store, artifact) if artifact else ["no rollup was written"]
        stale = new_hints(store, found, artifact or "")
        told = (
            f"{len(stale)} hints are not what the ledger says" if stale else "each latest hint is what the ledger says"
        )
        same = "every bucket was counted again and is equal"
        criteria = {
            "rollup-matches-ledger": evals.Criterion(0 if wrong else 1, "; ".join(wrong)[:500] or same),
            "hints-current": evals.Criterion(0 if stale else 1, told),
        }
        row = evals.row(SKILL, actor, auditor, criteria=criteria, artifact=artifact, run=run)
    store.commit(
        Tick(
            "eval",
            f"{row['score']:g} {row['primary_issue'] or ''}".strip(),
            [Append(evals.EVALS, row)],
            {"Skill": SKILL},
        )
    )
    return row


def differences(store: Store, artifact: str) -> list[str]:
    """Where a committed rollup is not what the ledger says: counted again over the rows that it was made from."""
    data = store.tree.read(artifact)
    if data is None:
        return [f"{artifact} is not there"]
    try:
        table = json.loads(data)
        if table["shape_rules"] != shape.VERSION:
            return []  # counted by other rules: nothing to compare
        again = hints.rollup(counted(store, int(table["rows_scanned"])), str(table["computed_at"]))
    except (ValueError, KeyError, TypeError) as error:
        return [f"{artifact} can't be read: {error}"]
    wrong = []
    for key in sorted({*table["by_bucket"], *again["by_bucket"]}):
        one, two = table["by_bucket"].get(key), again["by_bucket"].get(key)
        if one != two:
            fields = sorted(k for k in {*(one or {}), *(two or {})} if (one or {}).get(k) != (two or {}).get(k))
            wrong.append(f"{key}: {', '.join(fields)}")
    wrong += [key for key in ("rows_scanned", "rows_skipped", "repeated_decisions") if table.get(key) != again[key]]
    return wrong


def audit_all(store: Store) -> list[str]:
    """Every committed rollup that is not what the ledger says, as sentences: for `harness verify`."""
    names = sorted(store.tree.names(ROLLUPS))
    return [f"{ROLLUPS}/{name}: {wrong}" for name in names for wrong in differences(store, f"{ROLLUPS}/{name}")]


def fire(store: Store) -> None:
    """Start a pass in the background and don't wait: a decision is never slowed by what is learned from it."""
    (store.runtime / "taste.again").touch()
    command = [
        sys.executable,
        "-P",
        "-m",
        "harness",
        "--workspace",
        str(store.workspace.root),
        "taste",
        "refresh",
        "--quiet",
    ]
    null = subprocess.DEVNULL
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "CLAUDE_CODE_MESSAGING_"))}
    subprocess.Popen(
        command, stdin=null, stdout=null, stderr=null, env=env, cwd=store.workspace.root, start_new_session=True
    )
