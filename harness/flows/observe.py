"""Observe: what hooks spooled and agents appended becomes rows and inline fixes. No model is asked, nothing is lost.

    spool, log -> events and lines -> one transaction of ticks -> done

The log on disk is never written. Spool files go only after their rows are committed; a crash in between makes the same
rows again, and the ids give them away.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from harness import redact
from harness.clients import edits, spool
from harness.flows import answers, predictions
from harness.flows.notices import announce
from harness.ids import stable_ulid, ulid
from harness.loader import feedback, log, queue
from harness.skills import find
from harness.store import files, gate, snapshot
from harness.store.commit import Store
from harness.store.errors import Deferred, Refusal
from harness.store.faults import point
from harness.store.tick import ABSENT, Append, Replace, Take, Tick, Write, sha256

LOG: Final = "state/log/loader-feedback.log"
FEEDBACK: Final = "state/log/feedback.ndjson"
QUARANTINE: Final = "state/log/quarantine.ndjson"
RUNS: Final = "state/log/runs.ndjson"
QUEUE: Final = "state/regen/queue.ndjson"

ROTATE_BYTES: Final = 64 * 1024
QUIET_SECONDS: Final = 30
MOST_IDS: Final = 200
AHEAD_SECONDS: Final = 600
MAX_WORDS: Final = 80
_IDS: Final = frozenset(("session", "session_id", "turn", "prompt_id", "agent_id"))
_LOADER: Final = re.compile(r"skills/([^/]+)/AGENTS\.md")


@dataclass
class Observed:
    """What one pass took in: numbers of rows by kind, the skills whose loaders were fixed inline, and lines that could
    not be read (as told to the agent)."""

    runs: int = 0
    feedback: int = 0
    fixes: list[str] = field(default_factory=list)
    quarantined: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    checks: int = 0
    deferred: str = ""

    def line(self) -> str:
        """The pass in one line; empty when there was nothing."""
        parts = [
            (self.runs, "run"),
            (self.feedback, "feedback line"),
            (len(self.fixes), "inline fix"),
            (len(self.quarantined), "unreadable line"),
            (len(self.answers), "answer"),
            (self.checks, "checked prediction"),
        ]
        told = [f"{n} {name}{'' if n == 1 else 'es' if name.endswith('x') else 's'}" for n, name in parts if n]
        return ", ".join(told) + (f" (deferred: {self.deferred})" if self.deferred else "")


def observe(store: Store, env: Mapping[str, str]) -> Observed:
    """Take in everything that is there, as one transaction, and return what it was."""
    with files.lock(store.runtime / "observe.lock", float(store.settings["lock_wait"])):
        store.catch_up()
        taken = spool.take(store.workspace.spool)
        work = _Pass(store, env)
        answers_noted: list[spool.Event] = []
        outputs: list[spool.Event] = []
        for event in taken:
            if isinstance(event, spool.Event) and event.kind == "tune":
                answers_noted.append(event)
            elif isinstance(event, spool.Event) and event.kind == "output":
                outputs.append(event)
            else:
                work.event(event)
        work.read_logs()
        work.take_up()
        point("observe-read")
        work.commit()
        point("observe-committed")
        if not work.out.deferred and (answers_noted or outputs):
            try:
                work.out.checks = predictions.take(store, outputs)
                work.out.answers = answers.take(store, answers_noted, env)
            except Deferred as reason:
                work.out.deferred = reason.why
        if not work.out.deferred:
            taken.done()
            work.remember_skills()
            if rotate(store):
                work.after_rotation()
        announce(store)
        return work.out


@dataclass(frozen=True)
class _Fix:
    skill: str
    path: str
    text: str
    session: str | None
    turn: str | None


@dataclass(frozen=True)
class _Said:
    """A feedback line that was understood: what it says, of which skill, in which session, where, and its row's id."""

    line: feedback.Line
    skill: str
    session: str | None
    position: str
    id: str


class _Pass:
    """One pass: events and lines come in, ticks go out."""

    def __init__(self, store: Store, env: Mapping[str, str]) -> None:
        self.store, self.env, self.out, self.tree = store, env, Observed(), store.tree
        self.skills = find.find_all(store.workspace.root, store.workspace.project, Path(env.get("HOME") or "/"), env)
        self.learned = set(self.tree.folders("skills"))
        self.rows: list[Append] = []
        self.lines: list[_Said] = []
        self.fixes: dict[str, _Fix] = {}
        self.takes: list[Take] = []
        self.bash: list[tuple[str, str | None]] = []  # command, session
        self.known: dict[str, bytes] = {}

    # --- coming in ---------------------------------------------------------------------------------------------

    def event(self, event: spool.Event | spool.Bad) -> None:
        """Take in one spooled event."""
        if isinstance(event, spool.Bad):
            self._quarantine("spool", event.source, event.data, event.reason, None, event.key)
            return
        payload = event.payload
        for key in _IDS & payload.keys():
            # What a client calls its sessions is not ours to rule: one odd id must not stop everything behind it.
            payload[key] = _short(payload[key])
        if event.kind == "skill":
            self._run(event)
        elif event.kind == "stop":
            for number, line in enumerate(payload.get("lines") or []):
                self._message_line(str(line), payload, f"{event.key}:{number}")
        elif payload.get("tool_name") == "Bash":
            command = (
                payload.get("tool_input", {}).get("command") if isinstance(payload.get("tool_input"), dict) else None
            )
            self.bash.append((str(command or ""), payload.get("session_id")))
        elif event.kind == "PostToolUse":
            self._edit(payload)

    def _run(self, event: spool.Event) -> None:
        p = event.payload
        row = {
            key: p.get(key)
            for key in ("skill", "session", "turn", "agent_id", "via", "base_sha256", "overlay_sha256", "loader_sha256")
        }
        row |= {"id": stable_ulid(_milliseconds(p.get("ts")), event.key), "ts": _time(p.get("ts"))}
        if row["base_sha256"] is None and (found := self._base_of(str(row["skill"]))):
            row["base_sha256"] = sha256(found)
        self._add(RUNS, row, f"run of {p.get('name')}", p.get("session"))

    def _base_of(self, folder: str) -> bytes | None:
        return next((files.read(s.path / "SKILL.md") for s in reversed(self.skills) if s.folder == folder), None)

    def _message_line(self, text: str, payload: Mapping[str, Any], key: str) -> None:
        session, position = payload.get("session"), f"message {payload.get('turn') or ''}".strip()[:200]
        row_id = stable_ulid(_milliseconds(payload.get("ts")), key)  # a message may be taken twice, after a crash
        unread: list[tuple[str, feedback.BadFeedback]] = []
        for line in feedback.from_message(text, lambda bare, why: unread.append((bare, why))):
            if not self._is_known(FEEDBACK, row_id):
                self._feedback(line, text.encode("utf-8", "replace"), session, position, key, row_id)
        for bare, why in unread:
            self._quarantine("message", position, bare.encode("utf-8", "replace"), str(why), session, key)

    def _edit(self, payload: Mapping[str, Any]) -> None:
        """An agent's own edit of a loader: the event names the file and the text; that text goes onto the committed one."""
        tool, given = str(payload.get("tool_name")), payload.get("tool_input")
        if not isinstance(given, dict) or not isinstance(given.get("file_path"), str):
            return
        root = os.path.realpath(self.store.workspace.root)
        full = os.path.realpath(os.path.join(str(payload.get("cwd") or root), given["file_path"]))
        path = os.path.relpath(full, root).replace(os.sep, "/")
        found = _LOADER.fullmatch(path)
        if not found or self.store.settings["loader"]["review"]:
            return  # with review on, the edit stays a pending change until a person commits it
        fix = self.fixes.get(path)
        before = fix.text if fix else _text(self.tree.read(path))
        after = edits.result(tool, given, before)
        if after is None or after == before:
            return
        self.fixes[path] = _Fix(found[1], path, after, payload.get("session_id"), payload.get("prompt_id"))

    def read_logs(self) -> None:
        """Take in the new lines of the log and of its newest rotated part (whose last appender may have come late)."""
        place, committed = self.store.workspace.root / LOG, self.tree.read(LOG) or b""
        folder = place.with_name(f"{place.name}.d")
        if part := max((p.name for p in folder.glob("*.log")), default=None):
            path = f"{LOG}.d/{part}"
            held = self.tree.read(path)
            # Renamed and in no commit yet: it goes on where the log ended, and the log begins anew, in one tick.
            self._read_log(path, committed if held is None else held)
            if held is None:
                committed = b""
                place.touch()
        if place.exists():
            self._read_log(LOG, committed)

    def _read_log(self, path: str, committed: bytes) -> None:
        disk = files.read(self.store.workspace.root / path)
        got = log.fresh(committed, redact.mask(disk or b""))
        for number, data in got.lines:
            self._log_line(path, number, data)
        before = self.tree.read(path)
        if got.committed != before:
            self.takes.append(Take(path, got.committed, ABSENT if before is None else sha256(before)))

    def take_up(self) -> None:
        """Take in lines that named a skill which was not known then and is now. Looked for only when the skills have
        changed since the last pass."""
        if files.read(self.store.runtime / "skills-known") == self._known_skills():
            return
        had: set[str] | None = None
        for held in self.tree.rows(QUARANTINE):
            if not isinstance(held, dict) or not str(held.get("reason", "")).startswith(find.NO_SKILL):
                continue
            row_id = feedback.taken_up_id(str(held["id"]))
            try:
                line = feedback.quarantined(str(held["text"]))
                skill = find.resolve(line.skill, self.skills, self.learned)
            except (feedback.BadFeedback, find.UnknownSkill):
                continue
            if had is None:
                had = {str(row.get("id")) for row in self.tree.rows(FEEDBACK) if isinstance(row, dict)}
            if row_id not in had:
                told = line if line.ts else replace(line, ts=str(held["ts"]))
                self.lines.append(_Said(told, skill, held.get("session"), str(held["position"]), row_id))

    def _known_skills(self) -> bytes:
        names = {name for skill in self.skills for name in (skill.folder, *skill.names)} | self.learned
        return sha256("\n".join(sorted(names)).encode("utf-8", "replace")).encode()

    def remember_skills(self) -> None:
        """Note which skills this pass knew, so that the next looks at old lines only when there are new ones."""
        place = self.store.runtime / "skills-known"
        if files.read(place) != self._known_skills():
            files.replace(place, self._known_skills(), sync=False)

    def after_rotation(self) -> None:
        """Commit the log as it lies now, with the lines that came in meanwhile."""
        late = _Pass(self.store, self.env)
        late.read_logs()
        late.commit()
        self.out.feedback += late.out.feedback
        self.out.quarantined += late.out.quarantined
        self.out.deferred = late.out.deferred

    def _log_line(self, path: str, number: int, data: bytes) -> None:
        if not data.strip():
            return
        name = path.rpartition("/")[2]
        text = data.decode("utf-8", "replace")
        session = next((s for command, s in self.bash if _names(command, text)), None)
        try:
            line = feedback.parse_line(data)
        except feedback.BadFeedback as error:
            self._quarantine(path, f"line {number}", data, str(error), session, f"{path}:{number}:{text}")
            return
        self._feedback(line, data, session, f"{name} line {number}", f"{path}:{number}:{text}", ulid())

    def _feedback(
        self, line: feedback.Line, data: bytes, session: str | None, position: str, key: str, row_id: str
    ) -> None:
        try:
            skill = find.resolve(line.skill, self.skills, self.learned)
        except find.UnknownSkill as error:
            self._quarantine(position, position, data, str(error), session, key)
            return
        self.lines.append(_Said(line, skill, session, position, row_id))

    def _quarantine(self, source: str, position: str, data: bytes, reason: str, session: str | None, key: str) -> None:
        text = redact.scrub(
            "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in data[:2000].decode("utf-8", "replace"))
        )[:4000]
        row = {
            "id": stable_ulid(0, key),
            "ts": _time(None),
            "source": source[:500],
            "position": position[:100],
            "text": text,
            "reason": redact.scrub(reason)[:500],
        }
        if self._add(QUARANTINE, row | {"session": session}, position, session):
            self.out.quarantined.append(f"{position}: {reason}")

    def _add(self, path: str, row: dict[str, Any], what: str, session: Any) -> bool:
        if self._is_known(path, row["id"]):
            return False
        refused = gate.check(Tick("feedback", "check", [Append(path, row)]), lambda _: None, self._rules())
        if refused and path != QUARANTINE:
            self._quarantine(path, what, repr(row).encode(), refused[0].line(), session, f"refused:{row['id']}")
            return False
        self.rows.append(Append(path, row))
        return True

    def _rules(self) -> gate.Policy:
        return snapshot.rules(self.store, self.tree)

    def _is_known(self, path: str, row_id: str) -> bool:
        if path not in self.known:
            parts = self.tree.parts(path)[-2:]
            self.known[path] = b"".join(self.tree.read(part) or b"" for part in parts)
        return f'"id":"{row_id}"'.encode() in self.known[path] or any(
            a.path == path and a.row["id"] == row_id for a in self.rows
        )

    # --- going out ---------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Land the pass: the fixes, each with the FIXED line that speaks of it, then everything else."""
        ticks: list[Tick] = []
        fixed: set[str] = set()
        for fix in self.fixes.values():
            tick = self._fix_tick(fix)
            if tick is not None:
                ticks.append(tick)
                fixed.add(fix.skill)
                self.out.fixes.append(fix.skill)
        writes: list[Write] = [*self.rows, *self._feedback_rows(fixed), *self.takes]
        self.out.runs = sum(a.path == RUNS for a in self.rows)
        if writes:
            ticks.append(Tick("feedback", self._summary(), writes, self._trailers()))
        if ticks:
            try:
                # Not kept: the spool stays and the log is not taken, so a later pass makes the same ticks again.
                self.store.commit_all(ticks, keep=False)
            except Deferred as reason:
                self.out.deferred = reason.why

    def _fix_tick(self, fix: _Fix) -> Tick | None:
        old = self.tree.read(fix.path)
        write = Replace(fix.path, fix.text, sha256(old) if old is not None else ABSENT)
        trailers = {
            "Skill": fix.skill,
            **({"Session": fix.session} if fix.session else {}),
            **({"Turn": fix.turn} if fix.turn else {}),
        }
        rows: list[Append] = []
        used: list[_Said] = []
        body = ""
        for said in [
            s for s in self.lines if s.skill == fix.skill and s.line.tag == "FIXED" and s.session in (None, fix.session)
        ]:
            row = self._row(said, claimed=False)
            used.append(said)
            rows.append(Append(FEEDBACK, row))
            trailers["Feedback"] = " ".join(filter(None, (trailers.get("Feedback"), row["id"])))
            body = body or row["text"]
        count = _changed(_text(old), fix.text)
        summary = f"{count} line{'' if count == 1 else 's'} of the loader, inline"
        if body:
            summary += f": {feedback.clip(body, MAX_WORDS)}"
        tick = Tick("fix", summary, [write, *rows], trailers, body)
        refused = gate.check(tick, self.tree.read, self._rules())
        if refused:
            self._refused_fix(fix, refused)
            return None
        self.lines = [said for said in self.lines if said not in used]
        self.out.feedback += len(rows)
        return tick

    def _refused_fix(self, fix: _Fix, refused: list[Refusal]) -> None:
        """An edit that passed no gate on its way (made where no hook ran): it stays a pending change, and is said."""
        key = f"fix:{fix.path}:{sha256(fix.text.encode('utf-8', 'replace'))}"
        self._quarantine(
            fix.path, "inline fix", fix.text.encode("utf-8", "replace")[-500:], refused[0].line(), fix.session, key
        )

    def _feedback_rows(self, fixed: set[str]) -> list[Append]:
        out: list[Append] = []
        gaps: dict[str, list[str]] = {}
        for said in self.lines:
            claimed = (
                said.line.tag == "FIXED"
                and said.skill not in fixed
                and not self._fixed_before(said.skill, said.session)
            )
            row = self._row(said, claimed=claimed)
            out.append(Append(FEEDBACK, row))
            if said.line.tag == "LOGGED" or claimed:
                gaps.setdefault(said.skill, []).append(row["id"])
        self.out.feedback += len(out)
        for skill, ids in gaps.items():
            for start in range(0, len(ids), MOST_IDS):
                out.append(
                    Append(
                        QUEUE,
                        queue.new_row(
                            skill, "enqueue", ids[start : start + MOST_IDS], "logged gap", id=ulid(), ts=_time(None)
                        ),
                    )
                )
        return out

    def _row(self, said: _Said, *, claimed: bool) -> dict[str, Any]:
        row = feedback.row(
            said.line,
            id=said.id,
            ts=_time(said.line.ts),
            skill=said.skill,
            session=said.session,
            position=said.position,
        )
        row["text"] = redact.scrub(row["text"])
        return row | {"claimed_fixed": True} if claimed else row

    def _fixed_before(self, skill: str, session: str | None) -> bool:
        """Whether an inline fix of this loader was committed earlier in the session (in the last day, when it has no name)."""
        if self.tree.commit is None:
            return False
        text = self.store.git.text(
            "log",
            "-20",
            "--since=1 day ago",
            "--format=%(trailers:key=Kind,valueonly,separator=) %(trailers:key=Session,valueonly,separator=)",
            "HEAD",
            "--",
            f"skills/{skill}/AGENTS.md",
        )
        return any(
            line.split() and line.split()[0] == "fix" and (session is None or session in line)
            for line in text.splitlines()
        )

    def _summary(self) -> str:
        names = sorted({said.skill for said in self.lines})
        return (self.out.line() or "the log") + (f" ({', '.join(names)})" if names else "")

    def _trailers(self) -> dict[str, str]:
        sessions = {said.session for said in self.lines if said.session} | {
            str(a.row["session"]) for a in self.rows if a.row.get("session")
        }
        return {"Session": " ".join(sorted(sessions)[:4])} if sessions else {}


def rotate(store: Store) -> bool:
    """Rename a log that is long, wholly committed and quiet to ``…log.d/<time>.log``, and say whether that was done.
    Renamed, never copied: a process that has it open goes on writing to the same file, and observe reads the newest part
    to its end."""
    place, committed = store.workspace.root / LOG, store.tree.read(LOG)
    disk = files.read(place)
    if disk is None or committed is None or len(disk) < ROTATE_BYTES or redact.mask(disk) != committed:
        return False
    if time.time() - place.stat().st_mtime < QUIET_SECONDS:
        return False
    folder, name = place.with_name(f"{place.name}.d"), f"{datetime.now(UTC):%Y%m%dT%H%M%S}.log"
    if folder.is_dir() and any(p.name >= name for p in folder.glob("*.log")):
        return False  # one was made this second, or the clock has gone back: parts are read in the order of their names
    folder.mkdir(exist_ok=True)
    os.rename(place, folder / name)
    place.touch()
    return True


def _short(value: Any) -> str | None:
    """An id as rows take it: text of at most 200 characters; a longer one ends in a digest, so that two stay two."""
    if not isinstance(value, str):
        return None
    return value if len(value) <= 200 else f"{value[:160]}...{sha256(value.encode('utf-8', 'replace'))[:16]}"


def _names(command: str, line: str) -> bool:
    """Whether the shell command ``command`` is the one that wrote the log line ``line``: it holds the line's own words."""
    text = line.partition("] ")[2] if line.startswith("[") else line
    return len(text) > 3 and text.split(" [")[0].strip() in command


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode("utf-8", "replace")


def _changed(before: str, after: str) -> int:
    from harness.store.rules import changed_lines

    return changed_lines(before, after)


def _time(ts: Any) -> str:
    """``ts``, or now when it is none or lies ahead: what an agent writes as the time of a line may be anything."""
    ahead = (time.time() + AHEAD_SECONDS) * 1000
    return ts if isinstance(ts, str) and 0 < _milliseconds(ts) <= ahead else f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _milliseconds(ts: Any) -> int:
    try:
        return int(datetime.fromisoformat(str(ts)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0
