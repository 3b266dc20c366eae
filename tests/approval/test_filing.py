"""Filing: caps with figures, cleaning that says so, keys, deadlines, the baseline gate, channels, receipts and links."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from harness.approval import baseline, channels, status
from harness.approval import claim as claims
from harness.approval import inbound as inbounds
from harness.approval.decide import look, outcome, resume, wait
from harness.approval.errors import BaselineRefused, ChannelRefused, Invalid, NotOpen
from harness.approval.ledger import open_ledger
from harness.approval.limits import LIMITS
from harness.approval.sweep import sweep
from tests.approval.book import START, Book
from tests.approval.test_deliver import web, whole


@pytest.mark.parametrize("character", ["x", "é", "🎉"])
def test_caps_count_characters_and_nothing_is_cut(lite: Book, character: str) -> None:
    assert lite.file(character * LIMITS.draft_characters)["obligation_id"]
    with pytest.raises(Invalid) as caught:
        lite.file(character * (LIMITS.draft_characters + 1))
    assert "16,001" in str(caught.value)
    assert "16,000" in str(caught.value)
    assert lite.count("obligation_drafts") == 1
    for name, most in (("counterparty", 200), ("context", 8000), ("subject", 500), ("origin_channel", 200)):
        lite.file(**{name: "y" * most})
        with pytest.raises(Invalid):
            lite.file(**{name: "y" * (most + 1)})


@pytest.mark.parametrize("blank", ["", "  \n\t ", "\u200b\u200d\ufeff", "\u2800", "\x00\x01", None, 7, b"x"])
def test_a_draft_that_nobody_can_see_is_refused(lite: Book, blank: Any) -> None:
    with pytest.raises(Invalid):
        lite.file(blank)
    assert lite.count("obligations") == 0


def test_control_characters_go_and_it_is_said_while_line_breaks_stay(lite: Book) -> None:
    filed = lite.file("one\r\ntwo\x07\x1b[31m\n\tthree \n", counterparty="  acme \n supplier\t")
    assert lite.value("SELECT draft_text FROM obligation_drafts") == "one\ntwo[31m\n\tthree \n"
    assert lite.value("SELECT counterparty FROM obligations") == "acme supplier"
    assert filed["notes"] == ["draft: line ends made \\n", "draft: 2 control characters taken out"]


def test_half_a_character_and_reordering_are_refused_whole(book: Book) -> None:
    text = json.loads('"ok \\ud83d"')
    for bad in (text, "pay \u202e0001\u202c euros"):
        with pytest.raises(Invalid):
            book.file(bad)
        with pytest.raises(Invalid):
            book.file(bodies={"text/html": bad})
    assert book.count("obligations") == book.count("outbox") == 0


def test_a_secret_is_not_filed(lite: Book) -> None:
    secret = "ghp_" + "a1B2" * 10
    with pytest.raises(Invalid) as caught:
        lite.file(f"use {secret}")
    assert secret not in str(caught.value)
    lite.file(context=f"they sent {secret}")
    assert secret not in lite.value("SELECT context FROM obligation_drafts")


@pytest.mark.parametrize("bad", [1_772_442_000_000, 0, -1, "1790000000", START - 5, START, True, 1.5, START + 10**9])
def test_a_deadline_of_the_wrong_kind_is_refused(lite: Book, bad: Any) -> None:
    with pytest.raises(Invalid):
        lite.file(auto_send_after=bad)
    with pytest.raises(Invalid):
        lite.file(expires_after=bad)
    assert lite.count("obligations") == 0


def test_the_destination_is_all_of_its_parts(book: Book) -> None:
    places = [
        {"origin_platform": "slack", "origin_workspace": "1", "origin_channel": "#general", "origin_thread": None},
        {"origin_platform": "slack", "origin_workspace": "2", "origin_channel": "#general", "origin_thread": None},
        {"origin_platform": "email", "origin_workspace": None, "origin_channel": "general", "origin_thread": None},
        {"origin_platform": "slack", "origin_workspace": "1", "origin_channel": "#general", "origin_thread": "a"},
        {"origin_platform": "slack", "origin_workspace": "1", "origin_channel": "#general", "origin_thread": "b"},
    ]
    filed = [book.file(counterparty="acme", **place) for place in places]
    assert len({one["obligation_id"] for one in filed}) == 5
    again = book.file("Other", counterparty="acme", **{**places[0], "origin_thread": ""})
    assert again["refiled"] is True
    assert again["obligation_id"] == filed[0]["obligation_id"]
    assert [book.ledger.obligation(one["obligation_id"])["epoch"] for one in filed[1:]] == [
        one["epoch"] for one in filed[1:]
    ]


def test_the_same_request_again_changes_nothing(book: Book) -> None:
    first = book.file("draft 0", request_key="k0")
    replay = book.file("draft 0", request_key="k0")
    second = book.file("draft 1", request_key="k1")
    for text, key in (("draft 0", "k0"), ("draft 1", "k1")):
        assert book.file(text, request_key=key)["replayed"] is True
    third = book.file("draft 2", request_key="k2")
    assert replay["replayed"] is True
    assert replay["epoch"] == first["epoch"]
    assert book.count("obligations") == 1
    assert book.count("obligation_drafts") == 3
    assert first["epoch"] < second["epoch"] < third["epoch"]
    assert book.events().count("drafts.filed") == 3
    with pytest.raises(Invalid):
        book.file("another text", request_key="k2")


# --- the baseline gate -------------------------------------------------------------------------------------------

SIGNED = {"status": "signed", "evidence": ["executed 2026-02-10"], "advice": "do not ask"}
FACTS = {"facts": [{"ts": f"2026-0{n}-01", "text": f"fact {n}"} for n in (1, 4, 2, 3)]}


def gates(tmp_path: Path, answer: dict[str, Any]) -> dict[str, baseline.Baseline]:
    script = tmp_path / "gate"
    script.write_text(f"#!/bin/sh\ncat > /dev/null\necho '{json.dumps(answer)}'\n")
    script.chmod(0o755)
    module = tmp_path / "gate_for_a_test.py"
    module.write_text(f"def ask(counterparty):\n    return {answer!r}\n")
    sys.path.insert(0, str(tmp_path))
    sys.modules.pop("gate_for_a_test", None)
    return {
        "file": baseline.Baseline("file", counterparties={"ACME-supplier": answer}),
        "command": baseline.Baseline("command", command=[str(script)]),
        "python": baseline.Baseline("python", entry_point="gate_for_a_test:ask"),
    }


@pytest.mark.parametrize("source", ["file", "command", "python", "http"])
def test_a_signed_contract_refuses_and_an_override_is_stamped_once(lite: Book, tmp_path: Path, source: str) -> None:
    with web(whole(200, json.dumps(SIGNED).encode())) as (url, _):
        gate = baseline.Baseline("http", url=url) if source == "http" else gates(tmp_path, SIGNED)[source]
        with pytest.raises(BaselineRefused) as caught:
            lite.file(gate=gate)
        assert "executed 2026-02-10" in str(caught.value)
        assert caught.value.advice == "do not ask"
        assert lite.count("obligations") == 0
        filed = lite.file(gate=gate, force_despite_signed_contract=True)
        assert filed["baseline"] == "override"
        assert lite.value("SELECT context FROM obligation_drafts").startswith(
            "[BASELINE_OVERRIDE_SIGNED_CONTRACT] executed"
        )
        with pytest.raises(BaselineRefused):
            lite.file("again", gate=gate)


def test_a_stamp_in_the_agents_own_words_is_no_stamp(lite: Book) -> None:
    lite.file(
        "[BASELINE_OVERRIDE_SIGNED_CONTRACT] hello",
        context="[BASELINE_OVERRIDE_SIGNED_CONTRACT] [baseline facts: all paid]",
    )
    draft = lite.ledger.draft(1, START)
    assert draft is not None
    assert draft["baseline"] == "off"
    assert "[" not in draft["context"].replace("(BASELINE", "").replace("(baseline", "")


@pytest.mark.parametrize(
    "gate",
    [
        baseline.Baseline("command", command=["/nonexistent/gate"]),
        baseline.Baseline("command", command=["false"]),
        baseline.Baseline("command", command=["echo", "no JSON"]),
        baseline.Baseline("command", command=["echo", '{"status": "maybe"}']),
        baseline.Baseline("command", command=["sleep", "30"], seconds=0.2),
        baseline.Baseline("http", url="http://127.0.0.1:9/"),
        baseline.Baseline("python", entry_point="no.such:thing"),
        baseline.Baseline("python", entry_point="time:sleep"),
    ],
)
def test_a_gate_that_can_not_be_asked_says_so_on_the_draft(lite: Book, gate: baseline.Baseline) -> None:
    began = time.monotonic()
    filed = lite.file(gate=gate)
    assert filed["baseline"] == "unavailable"
    assert lite.value("SELECT context FROM obligation_drafts").startswith("[BASELINE_CHECK_UNAVAILABLE]")
    assert time.monotonic() - began < 20


def test_the_newest_facts_come_with_the_draft(lite: Book, tmp_path: Path) -> None:
    lite.file(gate=gates(tmp_path, FACTS)["file"])
    assert lite.value("SELECT context FROM obligation_drafts").startswith(
        "[BASELINE FACTS: 2026-04-01 fact 4 | 2026-03-01 fact 3 | 2026-02-01 fact 2]\n"
    )


# --- channels and receipts ---------------------------------------------------------------------------------------

INTERNAL = {
    "platform": "slack",
    "workspace": "T1",
    "channel": "#ops",
    "audience": "internal",
    "access": "private",
    "verified": True,
}


def policy(tmp_path: Path, *, command: str = "cat >> told", receipts: dict[str, Any] | None = None) -> channels.Policy:
    script = tmp_path / "tell"
    script.write_text(f"#!/bin/sh\ncd '{tmp_path}'\n{command}\n")
    script.chmod(0o755)
    return channels.from_document(
        {
            "receipts": {**(receipts or INTERNAL), "command": [str(script)]},
            "channels": [
                INTERNAL,
                {
                    "platform": "slack",
                    "workspace": "T1",
                    "channel": "#acme-shared",
                    "audience": "outside",
                    "access": "shared",
                },
                {
                    "platform": "slack",
                    "workspace": "T1",
                    "channel": "#half",
                    "audience": "internal",
                    "access": "shared",
                    "verified": True,
                },
                {
                    "platform": "slack",
                    "workspace": "T1",
                    "channel": "#unverified",
                    "audience": "internal",
                    "access": "private",
                },
                {
                    "platform": "slack",
                    "workspace": "T1",
                    "channel": "#never",
                    "audience": "outside",
                    "autonomy": "never",
                },
                {
                    "platform": "slack",
                    "workspace": "T1",
                    "channel": "#frozen",
                    "audience": "outside",
                    "autonomy": "frozen",
                },
                {
                    "platform": "slack",
                    "workspace": "T1",
                    "channel": "#auto",
                    "audience": "outside",
                    "auto_approve": True,
                },
            ],
        }
    )


def receipt(book: Book, known: channels.Policy, channel: str) -> dict[str, Any]:
    filed = book.file(origin_channel=channel, priority="P1")
    return channels.give_receipt(known, filed, "slack", "T1", channel)


def test_receipts_go_to_verified_internal_places_alone(lite: Book, tmp_path: Path) -> None:
    known = policy(tmp_path)
    assert receipt(lite, known, "#ops")["where"] == "origin"
    assert not (tmp_path / "told").exists()
    for outside in ("#acme-shared", "#unknown", "@direct-message", "#half", "#unverified"):
        told = receipt(lite, known, outside)
        assert told["where"] == "internal", outside
        assert told["to"]["channel"] == "#ops"
    lines = (tmp_path / "told").read_text()
    assert "Draft filed for approval (P1, sha " in lines
    assert lines.count('"channel": "#ops"') == 5
    assert "acme" not in lines
    broken = policy(tmp_path, command="exit 1")
    assert receipt(lite, broken, "#acme-shared")["where"] == "result"
    loose = policy(tmp_path, receipts={**INTERNAL, "verified": False})
    assert receipt(lite, loose, "#acme-shared")["where"] == "result"
    assert channels.Policy().receipt_place("slack", "T1", "#ops") is None


def test_the_footer_is_beside_the_text_never_in_it() -> None:
    assert (
        channels.footer("ada", 118, "9f2c8a1b2d3e4f50" + "0" * 48)
        == "approved by ada · receipt 118 · draft sha256 9f2c8a1b2d3e4f50"
    )


@pytest.mark.parametrize("channel", ["#never", "#frozen"])
def test_a_closed_channel_takes_no_draft(lite: Book, tmp_path: Path, channel: str) -> None:
    with pytest.raises(ChannelRefused):
        lite.file(origin_channel=channel, channels=policy(tmp_path))
    assert lite.count("obligations") == 0


def test_notify_gets_a_line_with_destination_hash_and_link(tmp_path: Path) -> None:
    waiting = {
        "counterparty": "acme",
        "platform": "slack",
        "workspace": "T1",
        "channel": "#c",
        "thread": "",
        "draft_sha256": "9f2c8a1b" + "0" * 56,
    }
    script = tmp_path / "tell"
    script.write_text(f'#!/bin/sh\ncat > "{tmp_path}/line"\n')
    script.chmod(0o755)
    assert channels.notify([str(script)], waiting, "harness decide 7") is None
    assert (tmp_path / "line").read_text() == "acme on slack T1 #c: draft 9f2c8a1b waits: harness decide 7\n"
    assert channels.notify([], waiting, "x") is None
    assert "can't be started" in str(channels.notify(["/nonexistent"], waiting, "x"))


# --- deadlines ---------------------------------------------------------------------------------------------------


def test_silence_approves_only_where_the_channel_says_so(book: Book, tmp_path: Path) -> None:
    known = policy(tmp_path)
    auto = book.file(origin_channel="#auto", auto_send_after=START + 60, channels=known)
    gated = book.file(origin_channel="#acme-shared", auto_send_after=START + 60, channels=known)
    never = book.file(origin_channel="#auto", counterparty="without a deadline", channels=known)
    assert any("no effect" in note for note in gated["notes"])
    assert sweep(book.ledger, known).approved == []
    book.clock.now += 61
    assert sweep(book.ledger, None).approved == []
    done = sweep(book.ledger, known)
    assert done.approved == [auto["obligation_id"]]
    assert list(done.kept) == [gated["obligation_id"]]
    row = book.ledger.one("SELECT * FROM obligation_decisions")
    assert row is not None
    assert (row["operator"], row["channel"]) == ("auto-ttl", "auto-ttl")
    assert "approval" not in book.events(), "no person decided, so taste learns nothing"
    book.clock.now += 10**8
    assert sweep(book.ledger, known).approved == []
    assert book.status(never["obligation_id"]) == "drafted"


def test_a_new_filing_moves_the_deadline_and_a_look_pauses_it(book: Book, tmp_path: Path) -> None:
    known = policy(tmp_path)
    first = book.file(origin_channel="#auto", auto_send_after=START + 60)
    book.clock.now += 59
    second = book.file("rewritten", origin_channel="#auto", auto_send_after=START + 600)
    book.clock.now += 60
    assert sweep(book.ledger, known).approved == []
    book.clock.now += 600
    look(book.ledger, first["obligation_id"], first["epoch"])
    look(book.ledger, first["obligation_id"], second["epoch"])
    assert "looking" in sweep(book.ledger, known).kept[first["obligation_id"]]
    resume(book.ledger, first["obligation_id"], second["epoch"])
    assert sweep(book.ledger, known).approved == [first["obligation_id"]]
    text = book.value("SELECT draft_text FROM obligation_approval_snapshots")
    assert text == "rewritten"


def test_the_gates_doubt_takes_the_deadline_away(book: Book, tmp_path: Path) -> None:
    known = policy(tmp_path)
    gone = baseline.Baseline("command", command=["false"])
    filed = book.file(origin_channel="#auto", auto_send_after=START + 60, channels=known, gate=gone)
    book.clock.now += 61
    assert "unavailable" in sweep(book.ledger, known).kept[filed["obligation_id"]]


def test_no_decision_in_time_is_neither_yes_nor_no(book: Book) -> None:
    filed = book.file(expires_after=START + 60)
    book.clock.now += 60
    with pytest.raises(NotOpen):
        book.decide(filed)
    assert sweep(book.ledger, None).expired == [filed["obligation_id"]]
    assert outcome(book.ledger, filed["obligation_id"], filed["epoch"]) == "expired"
    assert book.count("obligation_decisions") == 0
    assert "approval" not in book.events()
    again = book.file()
    assert again["refiled"] is False
    assert outcome(book.ledger, again["obligation_id"], again["epoch"]) == "pending"


def test_every_outcome_has_its_own_word(book: Book) -> None:
    pending = book.file(counterparty="a")
    denied = book.file(counterparty="b")
    book.decide(denied, "reject")
    approved = book.file(counterparty="c")
    book.decide(approved)
    stale = book.file(counterparty="d")
    book.file("new", counterparty="d")
    closed = book.file(counterparty="e")
    inbounds.close(book.ledger, closed["obligation_id"], "ada", "settled")
    words = [
        outcome(book.ledger, one["obligation_id"], one["epoch"]) for one in (pending, denied, approved, stale, closed)
    ]
    assert words == ["pending", "denied", "approved", "stale", "closed"]
    with pytest.raises(NotOpen, match="closed"):
        book.decide(closed)


def test_a_decision_that_came_before_the_wait_is_seen_at_once(book: Book) -> None:
    first, second = book.file(counterparty="a"), book.file(counterparty="b")
    book.decide(second)
    book.decide(first, "reject")
    other = book.open()
    assert wait(other, first["obligation_id"], first["epoch"], 0) == "denied"
    assert wait(other, second["obligation_id"], second["epoch"], 30) == "approved"


def test_a_wait_ends_when_another_process_decides(book: Book) -> None:
    filed = book.file()
    waited: list[str] = []

    def work() -> None:
        with open_ledger(book.place) as mine:
            waited.append(wait(mine, filed["obligation_id"], filed["epoch"], 20))

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.2)
    book.decide(filed)
    thread.join(20)
    assert waited == ["approved"]


# --- what an answer answers --------------------------------------------------------------------------------------


def test_a_link_leads_to_an_inbound_and_only_a_sending_answers_it(book: Book) -> None:
    inbound = inbounds.record_inbound(
        book.ledger, "asks for the window", "acme", "slack", "#acme-shared", received_ts=START - 100
    )
    outbound = book.file(counterparty="other")["obligation_id"]
    for wrong in (999_999, outbound, 0, -1, True, "1"):
        with pytest.raises(Invalid):
            book.file(signal_obligation_id=wrong)
    mine = book.file(signal_obligation_id=inbound)
    with pytest.raises(Invalid, match="answer itself"):
        book.file(signal_obligation_id=mine["obligation_id"])
    book.clock.now += 10
    token = claims.claim(book.ledger, mine["obligation_id"], book.decide(mine)["id"])
    claims.begin_dispatch(book.ledger, token)
    assert book.status(inbound) == "open"
    assert [r["inbound_id"] for r in status.answered_late(book.ledger, 60)] == [inbound]
    book.clock.now += 5
    claims.complete(book.ledger, token, "x")
    assert book.status(inbound) == "closed"
    assert status.answered_late(book.ledger, 0) == []
    [row] = status.latencies(book.ledger)
    assert (row["to_draft"], row["to_decision"], row["to_delivery"], row["to_answer"]) == (100, 10, 5, 115)
    late = book.file(counterparty="late", signal_obligation_id=inbound)
    assert late["obligation_id"], "a closed inbound may still be answered; it stays closed"


def test_what_outsiders_see_tells_nothing(book: Book) -> None:
    filed = book.file()
    assert status.status(book.ledger, filed["obligation_id"], outside=True) == {
        "obligation_id": 1,
        "counterparty": "acme-supplier",
    }
    inside = status.status(book.ledger, filed["obligation_id"])
    assert inside["draft_sha256"] == filed["draft_sha256"]
    assert inside["outcome"] == "pending"
