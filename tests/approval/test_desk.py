"""A workspace's approval loop as the command line, the cockpit and the MCP server open it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.persons import detached
from fixtures.workspaces import Place

from harness.approval.errors import BaselineRefused, ChannelRefused, Invalid, NoLedger, NotAllowed
from harness.flows import desk as desks
from harness.settings import BadSetting
from tests.approval.book import TEXT

REQUEST = {
    "draft": TEXT,
    "counterparty": "acme-supplier",
    "context": "",
    "origin_platform": "slack",
    "origin_channel": "#acme-shared",
}


@pytest.fixture
def desk(place: Place) -> Iterator[desks.Desk]:
    desks.init(place.store, {})
    with desks.open_desk(place.store, {}) as made:
        yield made


def set_yaml(place: Place, name: str, text: str) -> None:
    place.put(f"state/{name}.yaml", text)


def test_an_agent_files_and_asks_and_that_is_all(desk: desks.Desk) -> None:
    filed = desks.agent_file(desk, {**REQUEST, "priority": "P1", "request_key": "step-1"})
    assert filed["receipt"]["where"] == "result"
    assert desks.agent_file(desk, {**REQUEST, "request_key": "step-1", "priority": "P1"})["replayed"] is True
    assert desks.obligation_status(desk, filed["obligation_id"])["outcome"] == "pending"
    for bad in ({"force_despite_signed_contract": True}, {"gate": None}, {"operator": "x"}):
        with pytest.raises((NotAllowed, Invalid)):
            desks.agent_file(desk, {**REQUEST, **bad})
    with pytest.raises(Invalid, match="missing"):
        desks.agent_file(desk, {"draft": TEXT})


def test_a_result_that_outsiders_see_holds_a_number_alone(desk: desks.Desk) -> None:
    filed = desks.agent_file(desk, REQUEST, outside=True)
    assert filed == {"obligation_id": 1}
    assert set(desks.obligation_status(desk, 1, outside=True)) == {"obligation_id", "counterparty"}


def test_the_workspaces_committed_files_are_its_gate_and_its_channels(desk: desks.Desk, place: Place) -> None:
    place.write(
        "state/baseline.yaml",
        "version: 1\nsource: file\ncounterparties:\n  acme-supplier: {status: signed, evidence: [executed]}\n",
    )
    with desks.open_desk(place.store, {}) as loose:
        assert loose.gate is None, "what isn't committed has no effect"
    place.git("checkout", "-q", "state/baseline.yaml")
    set_yaml(
        place,
        "baseline",
        "version: 1\nsource: file\ncounterparties:\n  acme-supplier: {status: signed, evidence: [executed]}\n",
    )
    with desks.open_desk(place.store, {}) as strict, pytest.raises(BaselineRefused):
        strict.file(**REQUEST)
    set_yaml(place, "baseline", "version: 1\nsource: none\n")
    set_yaml(
        place,
        "channels",
        "version: 1\nchannels:\n  - {platform: slack, channel: '#acme-shared', audience: outside, autonomy: never}\n",
    )
    with desks.open_desk(place.store, {}) as closed, pytest.raises(ChannelRefused):
        closed.file(**REQUEST)


def test_rules_that_can_not_be_read_stop_the_loop(desk: desks.Desk, place: Place) -> None:
    place.write("state/channels.yaml", "version: [1\n")
    place.git("add", "state")
    place.git("commit", "-qm", "by hand", "--no-verify")
    with pytest.raises(NoLedger, match="can't be read"):
        desks.open_desk(place.store, {})


def test_a_waiting_draft_is_told_of_and_a_failure_of_that_is_said(place: Place, tmp_path: Path) -> None:
    script = tmp_path / "tell"
    script.write_text(f'#!/bin/sh\ncat >> "{tmp_path}/lines"\n')
    script.chmod(0o755)
    place.harness("settings", "notify.command", json.dumps([str(script)]))
    desks.init(place.store, {})
    with place.open() as store, desks.open_desk(store, {}) as made:
        filed = made.file(**REQUEST)
        script.chmod(0o644)
        assert any("notify.command failed" in note for note in made.file(**REQUEST)["notes"])
    assert (
        tmp_path / "lines"
    ).read_text() == f"acme-supplier on slack #acme-shared: draft {filed['draft_sha256'][:8]} waits: harness decide 1\n"


def test_one_way_out_must_be_set(desk: desks.Desk, place: Place) -> None:
    with pytest.raises(BadSetting):
        desk.transport()
    place.harness("settings", "deliver.webhook", "http://127.0.0.1:1/")
    with place.open() as store, desks.open_desk(store, {}) as made:
        assert made.transport().name == "webhook"
    place.harness("settings", "deliver.command", '["x"]')
    with place.open() as store, desks.open_desk(store, {}) as made, pytest.raises(BadSetting):
        made.transport()


def test_a_team_shares_a_ledger_in_postgres(place: Place, new_database: Callable[[], str], tmp_path: Path) -> None:
    url = new_database()
    env = {desks.URL: url}
    with pytest.raises(NoLedger, match="ledger init"):
        desks.open_desk(place.store, env)
    desks.init(place.store, env)
    desks.init(place.store, env)
    with desks.open_desk(place.store, env) as made:
        filed = made.file(**REQUEST)
        row, done = made.decide(1, "approve", "ada", filed["epoch"], filed["draft_sha256"])
        assert (row["decision"], done.waits) == ("approve", "")
    assert json.loads(place.harness("ledger", "status", "--json", env=env, ok=(0, 3)))["ready"] == 1
    command = [
        sys.executable,
        "-P",
        "-m",
        "harness",
        "ledger",
        "migrate",
        "--from",
        url,
        "--to",
        str(tmp_path / "copy.db"),
        "--json",
    ]
    moved = detached(command, tmp_path, terminal=False)
    assert json.loads(moved) == {"obligations": 1, "problems": [], "held": []}
    assert not (place.runtime / "ledger.db").exists()


def test_a_server_that_is_not_there_is_said_without_the_password(place: Place) -> None:
    with pytest.raises(NoLedger) as caught:
        desks.open_desk(place.store, {desks.URL: "postgresql://u:secret@127.0.0.1:1/x"})
    assert "secret" not in str(caught.value)


def test_status_says_what_is_approved_and_not_being_sent(desk: desks.Desk, place: Place) -> None:
    filed = desk.file(**REQUEST)
    assert place.status()["ledger"]["waiting"] == 1
    desk.decide(1, "approve", "ada", filed["epoch"], filed["draft_sha256"])
    told = place.status()
    assert told["ledger"]["ready"] == 1
    assert any("nothing is sending" in one["what"] for one in told["problems"])


def test_a_proof_and_a_rebuild_by_command(desk: desks.Desk, place: Place, tmp_path: Path) -> None:
    filed = desk.file(**REQUEST)
    desk.decide(1, "approve", "ada", filed["epoch"], filed["draft_sha256"])
    place.harness("ledger", "proof", "1", "--out", str(tmp_path / "proof"))
    assert (tmp_path / "proof").read_bytes().endswith(TEXT.encode())
    assert place.harness("ledger", "verify") == ""
    place.harness("ledger", "rebuild", ok=(3,))
    assert place.harness("ledger", "export", "--json").startswith('{"rows": 0')
    assert json.loads(place.harness("ledger", "held", "--json", ok=(0, 3))) == []
    assert place.harness("ledger", "sla", "--json") == "[]\n"
    assert json.loads(place.harness("ledger", "sweep", "--json"))["approved"] == []
