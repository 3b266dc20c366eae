"""Drain: spool -> observe -> queue -> regenerate -> maintenance. One at a time in a workspace; a second leaves a mark.

Each regeneration is one commit: the new loader, and the row that closes its gaps. A regeneration that a model makes is
announced by a `start` row first, so that a drain that dies is seen and its attempt counted.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from harness import dispatch, redact
from harness.flows.ledgers import rows
from harness.flows.observe import FEEDBACK, QUEUE, Observed, announce, observe
from harness.ids import ulid
from harness.loader import brief, controller, document, queue, reply
from harness.store import files
from harness.store.commit import Store
from harness.store.errors import Busy, GateRefused, Stale
from harness.store.faults import point
from harness.store.tick import ABSENT, Append, Replace, Tick, Write, sha256

FOOTER: Final = "state/regen/footer.md"
EVALS: Final = "state/log/evals.ndjson"
MOST_GAPS: Final = 60
MARKER_DAYS: Final = 30
_ROUNDS: Final = 20

Say = Callable[[str], None]
Approve = Callable[[str, str, str], bool]  # skill, old loader, new loader -> a person's yes


@dataclass
class Drained:
    """What a drain did: what it took in, loaders written by skill (with the commit), what failed or waits and why."""

    observed: list[str] = field(default_factory=list)
    regenerated: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    escalated: list[str] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)
    deferred: str = ""
    elsewhere: bool = False


def drain(store: Store, env: Mapping[str, str], say: Say, *, approve: Approve | None = None) -> Drained:
    """Empty the queue within the budget. When another drain is at work it is asked to go round once more, and this one
    returns at once with ``elsewhere``. ``approve`` is asked for each new loader when ``loader.review`` is on."""
    out = Drained()
    for _ in range(_ROUNDS):
        try:
            with files.lock(store.runtime / "drain.lock", 0):
                point("drain-started")
                (store.runtime / "drain.again").unlink(missing_ok=True)
                _round(store, env, say, approve, out)
        except Busy:
            (store.runtime / "drain.again").touch()
            out.elsewhere = True
            return out
        # A mark that was left after the lock was free is nobody's to see but ours: look once more before going.
        if not (store.runtime / "drain.again").exists():
            return out
    return out


def _round(store: Store, env: Mapping[str, str], say: Say, approve: Approve | None, out: Drained) -> None:
    seen = observe(store, env)
    note(out, seen, say)
    if seen.deferred:
        return
    enqueue_from_evals(store)
    budget = store.settings["drain"]["budget"]
    until, left = time.monotonic() + budget["seconds"], budget["regens"]
    # Asked anew after each: a skill with more gaps than one brief holds comes up again, and hooks may have added some.
    while entry := next((e for e in due(store) if e.skill not in out.waiting), None):
        if left <= 0 or time.monotonic() > until:
            out.waiting[entry.skill] = "over this drain's budget; the next one takes it"
        elif store.settings["loader"]["review"] and approve is None:
            out.waiting[entry.skill] = "waits for a person: harness drain --review"
        else:
            left -= 1
            _Regeneration(store, env, entry, say, approve, out).run()
    maintain(store, say)
    announce(store)


def note(out: Drained, seen: Observed, say: Say) -> None:
    """Keep and tell what an observe took in."""
    if seen.line():
        out.observed.append(seen.line())
        say(f"observed {seen.line()}")
    out.deferred = seen.deferred


def gaps_of(store: Store, entry: queue.Entry) -> list[dict[str, Any]]:
    """The feedback rows that an entry of the queue is about, the oldest MOST_GAPS of them: as many as one brief holds."""
    wanted = set(entry.feedback[:MOST_GAPS])
    return [row for row in _gaps(store) if row["id"] in wanted]


def _gaps(store: Store) -> list[dict[str, Any]]:
    """Everything that can be a gap: feedback rows, and evals, whose issue is then what was missing."""
    evals = [
        row | {"text": f"a run scored {row['score']:g}: {row.get('primary_issue') or 'no issue named'}"}
        for row in rows(store, EVALS)
    ]
    return [*rows(store, FEEDBACK), *evals]


def enqueue_from_evals(store: Store) -> None:
    """Put skills into the queue whose evals since their last regeneration ask for one."""
    queued = rows(store, QUEUE)
    taken = {i for row in queued for i in row["feedback"]}
    since = {row["skill"]: row["ts"] for row in queued if row["op"] == "done"}
    by_skill: dict[str, list[dict[str, Any]]] = {}
    for row in rows(store, EVALS):
        if row["ts"] > since.get(row["skill"], ""):
            by_skill.setdefault(row["skill"], []).append(row)
    for skill, evals in sorted(by_skill.items()):
        poor = [row["id"] for row in evals if row["score"] <= 0.75 and row["id"] not in taken]
        if poor and (reason := queue.eval_reason(evals, datetime.now(UTC))):
            row = queue_row(skill, "enqueue", poor[-MOST_GAPS:], reason)
            store.commit(
                Tick("queue", f"evals ask for a regeneration: {reason}", [Append(QUEUE, row)], {"Skill": skill})
            )


def fold(store: Store) -> dict[str, queue.Entry]:
    """The queue as it stands, by skill."""
    return queue.fold(rows(store, QUEUE), max_attempts=store.settings["regen"]["max_attempts"])


def terms(store: Store) -> list[tuple[queue.Entry, controller.Terms]]:
    """Each open entry of the queue with its controller terms, highest u first."""
    entries = [e for e in fold(store).values() if e.state in ("open", "running")]
    feedback = _gaps(store)
    now, gains = datetime.now(UTC), gains_of(store)
    found = []
    for entry in entries:
        wanted = set(entry.feedback)
        gaps = [controller.Gap(row["id"], row["ts"]) for row in feedback if row["id"] in wanted]
        found.append((entry, controller.terms(gaps, now, gains)))
    return sorted(found, key=lambda pair: (-pair[1].u, pair[0].skill))


def due(store: Store) -> list[queue.Entry]:
    """The entries to regenerate now: over the threshold, not waiting for a retry, highest u first."""
    now, threshold = datetime.now(UTC), store.settings["regen"]["threshold"]
    return [entry for entry, found in terms(store) if found.u >= threshold and entry.due(now)]


def gains_of(store: Store) -> controller.Gains:
    """The controller's gains, from the settings."""
    s = store.settings["regen"]
    return controller.Gains(kp=s["kp"], ki=s["ki"], kd=s["kd"], integral_max=s["integral_max"])


def footer_of(store: Store, skill: str) -> str:
    """The footer of this workspace's loaders for ``skill``, with the real path of the log."""
    text = (store.tree.read(FOOTER) or b"").decode("utf-8", "replace").strip()
    return text.replace("@SKILL@", skill).replace("@LOG@", str(store.workspace.root / "state/log/loader-feedback.log"))


class _Regeneration:
    """One skill's gaps become one new loader, or a failed attempt that says why."""

    def __init__(
        self, store: Store, env: Mapping[str, str], entry: queue.Entry, say: Say, approve: Approve | None, out: Drained
    ) -> None:
        self.store, self.env, self.entry, self.say, self.approve, self.out = store, env, entry, say, approve, out
        self.skill = entry.skill
        self.path = f"skills/{entry.skill}/AGENTS.md"
        self.settings = store.settings
        self.spent: list[dispatch.Answer] = []

    def run(self) -> None:
        """Escalate, or regenerate and commit; a failure is a row with its reason, and never stops the drain."""
        gaps = gaps_of(self.store, self.entry)
        if not gaps:
            self._row("done", reason="no gap left")
            return
        if area := self._worn_area(gaps):
            self._escalate(area, gaps)
            return
        model = self.settings["dispatch"]["preset"] != "fold"
        if model:
            if why := self._over_caps():
                self.out.waiting[self.skill] = why
                self.say(f"{self.skill}: {why}")
                return
            self._row("start")
        for attempt in (1, 2):
            old = self.store.tree.read(self.path)
            try:
                text = self._by_model(old, gaps) if model else self._folded(old, gaps)
                if (
                    self.approve
                    and self.settings["loader"]["review"]
                    and not self.approve(self.skill, _text(old), text)
                ):
                    self.out.waiting[self.skill] = "put off by a person"
                    return
                self._land(old, text, gaps, model=model)
                return
            except Stale:
                if attempt == 2:  # somebody fixed the loader twice while we wrote; the gaps stay open
                    self._fail("the loader changed meanwhile, twice")
            except (dispatch.DispatchFailed, _Refused, GateRefused) as error:
                self._fail(str(error))
                return

    def _worn_area(self, gaps: list[dict[str, Any]]) -> str | None:
        s, history = self.settings["regen"], rows(self.store, QUEUE)
        texts = {row["id"]: row["text"] for row in _gaps(self.store)}
        for area in sorted({queue.area(row["text"]) for row in gaps}):
            if queue.escalation(
                history, self.skill, area, datetime.now(UTC), limit=s["area_limit"], days=s["area_days"], texts=texts
            ):
                return area
        return None

    def _escalate(self, area: str, gaps: list[dict[str, Any]]) -> None:
        name = f"state/regen/escalations/{self.skill}-{datetime.now(UTC):%Y%m%dT%H%M%S}.md"
        listed = "\n".join(f"- {row['ts'][:10]} {row['id']} {redact.scrub(row['text'])}" for row in gaps)
        s = self.settings["regen"]
        text = (
            f"# {self.skill}: {area} keeps missing\n\nThis part of the loader was regenerated {s['area_limit']} times in "
            f"{s['area_days']} days and still falls short. It is not patched again; a person should look at the skill itself.\n\n"
            f"Open gaps:\n\n{listed}\n\nWhen it is settled, delete this file and commit; new gaps open the queue again.\n"
        )
        row = self._queue_row(
            "escalate", reason=f"{area} was regenerated {s['area_limit']} times in {s['area_days']} days"
        )
        writes: list[Write] = [Replace(name, text, ABSENT), Append(QUEUE, row)]
        self.store.commit(Tick("queue", f"{area} escalated to a person", writes, {"Skill": self.skill}))
        self.out.escalated.append(self.skill)
        self.say(f"{self.skill}: escalated, {area} keeps missing ({name})")

    def _over_caps(self) -> str | None:
        today = datetime.now(UTC).strftime("%Y-%m-%d")
        calls = sum(row["op"] == "start" and str(row["ts"]).startswith(today) for row in rows(self.store, QUEUE))
        text = self.store.git.text(
            "log", f"--since={today}T00:00:00Z", "--format=%(trailers:key=Cost-USD,valueonly,separator=%x20)"
        )
        usd = sum(_number(word) for word in text.split())
        return dispatch.allowed(calls, usd, self.settings["dispatch"])

    def _folded(self, old: bytes | None, gaps: list[dict[str, Any]]) -> str:
        return document.fold(
            _text(old) or None, self.skill, gaps, footer_of(self.store, self.skill), f"{datetime.now(UTC):%Y-%m-%d}"
        )

    def _by_model(self, old: bytes | None, gaps: list[dict[str, Any]]) -> str:
        footer = footer_of(self.store, self.skill)
        current = _text(old) or document.new_loader(self.skill, footer)
        base = _text(self.store.tree.read(f"skills/{self.skill}/SKILL.md")) or self._foreign_base()
        overlay = _text(self.store.tree.read(f"skills/{self.skill}/overlay.md"))
        prompt = brief.brief(self.skill, base, current, gaps, overlay, footer, reply.LIMITS)
        said = ""
        for _ in range(2):  # a refused reply is sent back once, with the reasons
            answer = dispatch.call(prompt + said, self.settings["dispatch"], self.env)
            self.spent.append(answer)
            point("drain-answered")
            try:
                parsed = reply.parse(answer.text)
                refusals = reply.check(parsed, current, gaps, footer, reply.LIMITS, _secrets)
            except reply.BadReply as error:
                refusals = [str(error)]
            else:
                if not refusals:
                    return parsed.loader
            said = brief.again(refusals)
        raise _Refused("the reply was refused twice: " + "; ".join(refusals))

    def _foreign_base(self) -> str:
        from pathlib import Path

        from harness.skills import find

        skills = find.find_all(
            self.store.workspace.root, self.store.workspace.project, Path(self.env.get("HOME") or "/"), self.env
        )
        found = next((s for s in reversed(skills) if s.folder == self.skill), None)
        return _text(files.read(found.path / "SKILL.md")) if found else ""

    def _land(self, old: bytes | None, text: str, gaps: list[dict[str, Any]], *, model: bool) -> None:
        ids = [row["id"] for row in gaps]
        count = f"{len(ids)} gap{'' if len(ids) == 1 else 's'}"
        summary = f"{count} closed" if model else f"{count} folded in, not rewritten"
        row = self._queue_row("done", feedback=ids, reason="regenerated" if model else "folded")
        row["areas"] = sorted({queue.area(gap["text"]) for gap in gaps})
        writes: list[Write] = [Replace(self.path, text, sha256(old) if old is not None else ABSENT), Append(QUEUE, row)]
        writes += self._origin()
        sessions = sorted({str(gap["session"]) for gap in gaps if gap.get("session")})
        trailers = {
            "Skill": self.skill,
            "Closes": " ".join(ids),
            **({"Session": " ".join(sessions[:4])} if sessions else {}),
            **self._cost(),
        }
        body = "\n".join(f"- {gap['text'][:300]}" for gap in gaps[:20])
        landed = self.store.commit(Tick("regen", summary, writes, trailers, body))
        self.out.regenerated[self.skill] = (landed.commit or "")[:10]
        self.say(f"{self.skill}: {summary} ({(landed.commit or '')[:10]})")

    def _origin(self) -> list[Write]:
        """Where the base lives, noted with the first lesson of a skill whose base comes from another source."""
        import json
        from pathlib import Path

        from harness.skills import find

        place = f"skills/{self.skill}/origin.json"
        if self.store.tree.read(place) is not None or self.store.tree.read(f"skills/{self.skill}/SKILL.md") is not None:
            return []
        skills = find.find_all(
            self.store.workspace.root, self.store.workspace.project, Path(self.env.get("HOME") or "/"), self.env
        )
        found = next((s for s in reversed(skills) if s.folder == self.skill), None)
        if found is None:
            return []
        base = files.read(found.path / "SKILL.md")
        value = {
            "source": found.source,
            "path": str(found.path),
            "base_sha256": sha256(base) if base is not None else None,
        }
        return [Replace(place, json.dumps(value, indent=1) + "\n", ABSENT)]

    def _cost(self) -> dict[str, str]:
        preset = {"Preset": self.settings["dispatch"]["preset"]}
        tokens = sum((a.input_tokens or 0) + (a.output_tokens or 0) for a in self.spent)
        usd = sum(a.usd or 0.0 for a in self.spent)
        return preset | ({"Tokens": str(tokens)} if tokens else {}) | ({"Cost-USD": f"{usd:.4f}"} if usd else {})

    def _fail(self, why: str) -> None:
        s = self.settings["regen"]
        attempt = self.entry.attempt + 1
        reason = queue.retry(attempt, datetime.now(UTC), max_attempts=s["max_attempts"], minutes=s["backoff_minutes"])
        row = self._queue_row("failed", reason=reason, attempt=attempt, error=redact.scrub(why)[:500])
        self.store.commit(
            Tick(
                "queue",
                f"attempt {attempt} failed",
                [Append(QUEUE, row)],
                {"Skill": self.skill, **self._cost()},
                why[:1000],
            )
        )
        self.out.failed[self.skill] = why
        self.say(f"{self.skill}: attempt {attempt} failed: {why}")

    def _row(self, op: str, reason: str = "") -> None:
        row = self._queue_row(op, reason=reason, attempt=self.entry.attempt + (op == "start"))
        self.store.commit(Tick("queue", f"{op} {reason}".strip(), [Append(QUEUE, row)], {"Skill": self.skill}))

    def _queue_row(
        self,
        op: str,
        *,
        reason: str = "",
        feedback: list[str] | None = None,
        attempt: int | None = None,
        error: str | None = None,
    ) -> dict[str, Any]:
        ids = self.entry.feedback if feedback is None else feedback
        return queue_row(self.skill, op, ids, reason, self.entry.attempt if attempt is None else attempt, error)


def queue_row(
    skill: str, op: str, feedback: Sequence[str], reason: str, attempt: int = 0, error: str | None = None
) -> dict[str, Any]:
    """A new row of the queue, as of now."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return queue.new_row(skill, op, feedback, reason, attempt, error, id=ulid(), ts=now)


class _Refused(Exception):
    """The model's reply was refused, twice."""


def maintain(store: Store, say: Say) -> None:
    """Every 1,000 ticks or so, pack what is new; forget the markers of sessions that ended long ago. Never from a hook;
    killed in the middle it leaves nothing that matters."""
    from harness.store import maintenance

    if maintenance.due(store):
        say("packing the repository")
        maintenance.run(store)
    old = time.time() - MARKER_DAYS * 86_400
    for folder in ("sessions", "told"):
        for path in (store.runtime / folder).glob("*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < old:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextlib.contextmanager
def quiet_priority() -> Iterator[None]:
    """Inside, this process gives way to others: a drain in the background must not slow the session it serves."""
    with contextlib.suppress(OSError):
        os.nice(5)
    yield


def _secrets(text: str) -> list[str]:
    return [name for name, _, _ in redact.find(text)]


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode("utf-8", "replace")


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return 0.0
