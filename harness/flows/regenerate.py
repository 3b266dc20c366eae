"""One regeneration: a skill's gaps become one new loader in one commit, or a failed attempt that says why.

A regeneration that a model makes is announced by a `start` row first, so that a drain that dies is seen and its attempt
counted.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from harness import dispatch, redact
from harness.flows.backlog import all_gaps, gaps_of, queue_row
from harness.flows.ledgers import rows
from harness.flows.observe import QUEUE
from harness.flows.origin import base_of, origin
from harness.loader import brief, document, feedback, queue, reply
from harness.store.commit import Store
from harness.store.errors import GateRefused, Stale
from harness.store.faults import point
from harness.store.tick import ABSENT, Append, Replace, Tick, Write, sha256

FOOTER: Final = "state/regen/footer.md"
MAX_WORDS: Final = 80
"""Characters of a lesson's own words in a subject line."""

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


def footer_of(store: Store, skill: str) -> str:
    """The footer of this workspace's loaders for ``skill``, with the real path of the log."""
    log = shlex.quote(str(store.workspace.root / "state/log/loader-feedback.log"))
    text = (store.tree.read(FOOTER) or b"").decode("utf-8", "replace").strip()
    return text.replace("@SKILL@", skill).replace("@LOG@", log)


class Regeneration:
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
        texts = {row["id"]: row["text"] for row in all_gaps(self.store)}
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
        base = _text(base_of(self.store, self.skill, self.env))
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

    def _land(self, old: bytes | None, text: str, gaps: list[dict[str, Any]], *, model: bool) -> None:
        ids = [row["id"] for row in gaps]
        if old is not None and text == _text(old):
            row = self._queue_row("done", feedback=ids, reason="the loader says it already")
            self.store.commit(
                Tick("queue", "closed: the loader says it already", [Append(QUEUE, row)], {"Skill": self.skill})
            )
            self.say(f"{self.skill}: the loader says it already")
            return
        count = f"{len(ids)} gap{'' if len(ids) == 1 else 's'}"
        summary = f"{count} closed" if model else f"{count} folded in, not rewritten"
        subject = f"{summary}: {feedback.clip(gaps[0]['text'], MAX_WORDS)}"
        row = self._queue_row("done", feedback=ids, reason="regenerated" if model else "folded")
        row["areas"] = sorted({queue.area(gap["text"]) for gap in gaps})
        writes: list[Write] = [Replace(self.path, text, sha256(old) if old is not None else ABSENT), Append(QUEUE, row)]
        writes += origin(self.store, self.skill, self.env)
        sessions = sorted({str(gap["session"]) for gap in gaps if gap.get("session")})
        trailers = {
            "Skill": self.skill,
            "Closes": " ".join(ids),
            **({"Session": " ".join(sessions[:4])} if sessions else {}),
            **self._cost(),
        }
        body = "\n".join(f"- {gap['text'][:300]}" for gap in gaps[:20])
        landed = self.store.commit(Tick("regen", subject, writes, trailers, body))
        self.out.regenerated[self.skill] = (landed.commit or "")[:10]
        self.say(f"{self.skill}: {summary} ({(landed.commit or '')[:10]})")

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


class _Refused(Exception):
    """The model's reply was refused, twice."""


def _secrets(text: str) -> list[str]:
    return [name for name, _, _ in redact.find(text)]


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode("utf-8", "replace")


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return 0.0
