"""Random verbs, several at work, the clock stepping both ways, against a small model of the contract."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from harness.approval import claim as claims
from harness.approval import freeze, verify
from harness.approval.errors import Refused, StaleDecision
from tests.approval.book import START, Book, make_postgres, make_sqlite

PARTIES = ("acme", "bolt", "crux")


@dataclass
class Known:
    """What the model knows of one obligation."""

    party: str
    text: str
    epoch: int
    status: str = "drafted"
    approved: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Decision -> (epoch, text) that it approved."""
    used: set[int] = field(default_factory=set)
    claim: tuple[int, str, str] | None = None
    """(decision, token, state) of the claim in force."""


class Contract(RuleBasedStateMachine):
    """The ledger under random verbs; ``begun`` counts what a transport would have been given, by decision."""

    make: Callable[[], Book]

    def __init__(self) -> None:
        super().__init__()
        self.book = self.make()
        self.known: dict[int, Known] = {}
        self.open: dict[str, int] = {}
        self.begun: dict[int, str] = {}
        self.tokens: list[str] = []
        self.frozen = False

    def teardown(self) -> None:
        found = [*verify.hashes(self.book.ledger), *verify.outbox(self.book.ledger)]
        assert found == []
        self.book.close()

    @initialize()
    def start(self) -> None:
        self.book.clock.now = START

    def one(self, data: Any) -> tuple[int, Known] | None:
        return data.draw(st.sampled_from(sorted(self.known.items(), key=lambda kv: kv[0]))) if self.known else None

    @rule(step=st.integers(-500, 500))
    def clock(self, step: int) -> None:
        self.book.clock.now += step

    @rule(
        party=st.sampled_from(PARTIES),
        text=st.text(alphabet="ab \u00e9\n", min_size=1, max_size=20).filter(lambda t: t.strip() != ""),
    )
    def file(self, party: str, text: str) -> None:
        number = self.open.get(party)
        old = self.known.get(number) if number is not None else None
        try:
            filed = self.book.file(text, counterparty=party)
        except Refused:
            assert old is not None
            assert old.claim is not None
            return
        assert old is None or old.claim is None
        if old is not None:
            assert filed["obligation_id"] == number
            assert filed["epoch"] > old.epoch
        new = Known(party, text, filed["epoch"]) if old is None else old
        new.text, new.epoch, new.status = text, filed["epoch"], "drafted"
        self.known[filed["obligation_id"]] = new
        self.open[party] = filed["obligation_id"]

    @rule(data=st.data(), decision=st.sampled_from(["approve", "reject"]), back=st.integers(0, 2))
    def decide(self, data: Any, decision: str, back: int) -> None:
        if (found := self.one(data)) is None:
            return
        number, known = found
        filed = {"obligation_id": number, "epoch": known.epoch - back, "draft_sha256": self.sha(known.text)}
        try:
            made = self.book.decide(filed, decision)
        except StaleDecision:
            assert back
            return
        except Refused:
            assert known.status != "drafted"
            return
        assert known.status == "drafted"
        assert not back
        known.status = "approved" if decision == "approve" else "rejected"
        if decision == "approve":
            known.approved[made["id"]] = (known.epoch, known.text)
        else:
            self.open.pop(known.party, None)

    def sha(self, text: str) -> str:
        from harness.approval.text import sha256

        return sha256(text)

    @rule(data=st.data())
    def claim(self, data: Any) -> None:
        if (found := self.one(data)) is None or not found[1].approved:
            return
        number, known = found
        decision = data.draw(st.sampled_from(sorted(known.approved)))
        allowed = (
            known.status == "approved" and known.claim is None and not self.frozen and decision not in known.used
            and known.approved[decision] == (known.epoch, known.text)
        )  # fmt: skip
        try:
            token = claims.claim(self.book.ledger, number, decision)
        except Refused:
            assert not allowed
            return
        assert allowed
        known.claim = (decision, token, "claimed")
        known.used.add(decision)
        self.tokens.append(token)

    @rule(data=st.data(), verb=st.sampled_from(["begin", "cancel", "unknown", "complete", "reconcile"]))
    def step(self, data: Any, verb: str) -> None:
        if not self.tokens:
            return
        token = data.draw(st.sampled_from(self.tokens))
        mine = [(n, k) for n, k in self.known.items() if k.claim and k.claim[1] == token]
        number, known = mine[0] if mine else (0, None)
        state = known.claim[2] if known and known.claim else "over"
        wanted = {
            "begin": "claimed",
            "cancel": "claimed",
            "unknown": "dispatching",
            "complete": "dispatching",
            "reconcile": "unknown",
        }
        allowed = state == wanted[verb] and not (verb == "begin" and self.frozen)
        ledger = self.book.ledger
        try:
            if verb == "begin":
                got = claims.begin_dispatch(ledger, token)
                assert known is not None
                assert got["text"] == known.text
                assert got["decision_id"] not in self.begun, "one beginning a decision"
                self.begun[got["decision_id"]] = got["text"]
                assert got["text"] == known.approved[got["decision_id"]][1]
                self.to(known, "dispatching")
            elif verb == "cancel":
                claims.cancel(ledger, token)
                if known is not None:
                    known.claim, known.status = None, "drafted"
            elif verb == "unknown":
                if claims.mark_unknown(ledger, token):
                    assert known is not None
                    self.to(known, "unknown")
            else:
                work = claims.complete if verb == "complete" else lambda led, t, c: claims.reconcile(led, t, c, "seen")
                if work(ledger, token, f"at {token[:8]}"):
                    assert known is not None
                    known.claim, known.status = None, "sent"
                    self.open.pop(known.party, None)
        except Refused:
            assert not allowed
            return
        # What changed nothing is allowed where it was done before.
        assert allowed or state in ("over", "unknown")
        assert number == 0 or self.book.status(number) == self.known[number].status

    def to(self, known: Known, state: str) -> None:
        assert known.claim is not None
        known.claim = (known.claim[0], known.claim[1], state)

    @rule()
    def press_stop(self) -> None:
        freeze.freeze(self.book.ledger, "ada", "x")
        self.frozen = True

    @rule()
    def go_on(self) -> None:
        freeze.unfreeze(self.book.ledger, "ada")
        self.frozen = False

    @rule()
    def reopen(self) -> None:
        """Another process takes over: nothing lives in the one before."""
        self.book.close()

    @invariant()
    def the_ledger_says_what_the_model_says(self) -> None:
        rows = self.book.ledger.backend.rows("SELECT id, status, epoch FROM obligations ORDER BY id")
        assert {r["id"]: (r["status"], r["epoch"]) for r in rows} == {
            n: (k.status, k.epoch) for n, k in self.known.items()
        }
        held = {r["obligation_id"]: r["state"] for r in claims.held(self.book.ledger)}
        assert held == {n: k.claim[2] for n, k in self.known.items() if k.claim}
        assert self.book.count("obligation_deliveries") == sum(k.status == "sent" for k in self.known.values())
        assert self.book.idle()


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_random_verbs_keep_the_contract(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if backend == "sqlite":

        def make() -> Book:
            return make_sqlite(Path(tempfile.mkdtemp(dir=tmp_path)))
    else:
        new_database = request.getfixturevalue("new_database")

        def make() -> Book:
            return make_postgres(new_database)

    machine = type("Machine", (Contract,), {"make": staticmethod(make)})
    examples = 40 if backend == "sqlite" else 15
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
