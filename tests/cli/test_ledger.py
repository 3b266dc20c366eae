"""`harness ledger` and `harness decide`, as an agent, a person at a terminal and a worker run them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.persons import detached

from tests.cli.conftest import Project

TEXT = "Thanks, we can hold the slot until Friday.\n"


@pytest.fixture
def desk(shop: Project) -> Project:
    """A workspace with a ledger and a way to send: a program that appends what it gets to a file."""
    shop.ok("ledger", "init")
    sender = shop.root.parent / "sender"
    sender.write_text(
        f'#!/bin/sh\ncat >> {shop.root.parent}/sent.jsonl\necho >> {shop.root.parent}/sent.jsonl\necho "msg-1"\n'
    )
    sender.chmod(0o755)
    shop.ok("settings", "deliver.command", json.dumps([str(sender)]))
    return shop


def file(desk: Project, text: str = TEXT, *more: str) -> dict[str, object]:
    path = desk.root.parent / "draft.txt"
    path.write_text(text, "utf-8")
    where = ("--to", "acme-supplier", "--platform", "slack", "--channel", "#acme-shared")
    found = desk.ok("ledger", "file", *where, "--file", str(path), "--json", *more).json
    assert isinstance(found, dict)
    return found


def person(desk: Project, *args: str, typed: str = "", terminal: bool = True, **env: str) -> str:
    """What a person sees who runs ``harness ARGS`` at a terminal of their own; its exit code comes last."""
    command = f'{sys.executable} -P -m harness "$@"; echo "exit $?"'
    return detached(
        ["/bin/sh", "-c", command, "sh", *args],
        desk.root.parent,
        terminal=terminal,
        env={**desk.env, **env},
        typed=typed,
        cwd=desk.root,
    )


def sent(desk: Project) -> list[dict[str, object]]:
    path = desk.root.parent / "sent.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []


def test_from_an_agents_draft_to_one_message_and_its_proof_in_git(desk: Project) -> None:
    filed = file(desk, TEXT, "--priority", "P1")
    assert filed["receipt"] == {
        "text": f"Draft filed for approval (P1, sha {str(filed['draft_sha256'])[:8]}). Waiting on operator.",
        "where": "result",
    }
    assert desk.harness("ledger", "deliver", "--once").code in (0, 3)
    assert sent(desk) == []
    said = person(desk, "decide", "1", typed="approve\n")
    assert "Thanks, we can hold the slot until Friday." in said
    assert str(filed["draft_sha256"]) in said
    assert said.endswith("exit 0\n")
    done = person(desk, "ledger", "deliver", "--once", "--json", terminal=False)
    assert '"sent": {"1": "msg-1"}' in done
    [message] = sent(desk)
    assert message["text"] == TEXT
    assert person(desk, "ledger", "deliver", "--once", terminal=False).endswith("exit 0\n")
    assert len(sent(desk)) == 1
    state = desk.ok("ledger", "status", "1", "--json").json
    assert (state["status"], state["delivery"]["coordinate"]) == ("sent", "msg-1")
    [row] = desk.rows("state/log/approvals.ndjson")
    assert (row["decision"], row["path"]) == ("approve", f"ledger/1/{filed['epoch']}")
    assert row["latency_ms"] >= 0
    assert desk.ok("ledger", "verify").code == 0
    assert [r["event"] for r in desk.rows("state/log/ledger/claims.ndjson")] == ["claims.claimed", "claims.dispatching"]


def test_an_agent_does_not_decide_by_terminal_token_or_pretence(desk: Project) -> None:
    file(desk)
    assert desk.harness("decide", "1", "--approve").code == 3, "no terminal"
    said = person(desk, "decide", "1", "--approve", CLAUDECODE="1")
    assert "runs under Claude Code" in said
    assert said.endswith("exit 3\n")
    for args in (
        ["ledger", "freeze", "--reason", "x"],
        ["ledger", "cancel", "1"],
        ["ledger", "close", "1"],
        ["ledger", "operator", "eve"],
        ["ledger", "deliver", "--once"],
        ["ledger", "reconcile", "1", "--coordinate", "x", "--evidence", "y"],
    ):
        assert person(desk, *args, CLAUDECODE="1").endswith("exit 3\n"), args
    assert desk.ok("ledger", "status", "1", "--json").json["status"] == "drafted"


def test_a_stale_screen_decides_nothing(desk: Project) -> None:
    old = file(desk)
    new = file(desk, "We can hold it until Monday.\n")
    assert new["refiled"] is True
    said = person(desk, "decide", "1", "--approve", "--epoch", str(old["epoch"]))
    assert said.endswith("exit 4\n")
    said = person(desk, "decide", "1", "--approve", "--sha256", str(old["draft_sha256"])[:8])
    assert said.endswith("exit 4\n")
    assert person(desk, "decide", "1", typed="leave\n").endswith("exit 0\n")
    assert desk.ok("ledger", "status", "1", "--json").json["status"] == "drafted"
    assert person(desk, "decide", "1", typed="reject\n").endswith("exit 0\n")
    assert desk.ok("ledger", "wait", "1", "--epoch", str(new["epoch"]), "--json").json == {"outcome": "denied"}
    said = person(desk, "decide", "1", "--approve")
    assert "decided already" in said
    assert said.endswith("exit 4\n")


def test_an_operators_token_decides_from_a_script_and_can_be_revoked(desk: Project) -> None:
    filed = file(desk)
    token = desk.root.parent / "ada.token"
    assert person(desk, "ledger", "operator", "ada", "--token-out", str(token)).endswith("exit 0\n")
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.read_text().strip() not in desk.git("log", "-p", "--all")
    shown = ("--epoch", str(filed["epoch"]), "--sha256", str(filed["draft_sha256"]), "--token-file", str(token))
    said = person(desk, "decide", "1", "--approve", "--token-file", str(token), terminal=False)
    assert said.endswith("exit 2\n"), "nobody looked, so epoch and hash are asked for"
    token.chmod(0o644)
    assert person(desk, "decide", "1", "--approve", *shown, terminal=False).endswith("exit 3\n")
    token.chmod(0o600)
    assert person(desk, "decide", "1", "--approve", *shown, terminal=False, CLAUDECODE="1").endswith("exit 3\n")
    said = person(desk, "decide", "1", "--approve", *shown, "--json", terminal=False)
    assert '"channel": "token"' in said
    assert '"operator": "ada"' in said
    second = file(desk, "Second\n", "--thread", "2")
    assert person(desk, "ledger", "operator", "ada", "--revoke").endswith("exit 0\n")
    shown = ("--epoch", str(second["epoch"]), "--sha256", str(second["draft_sha256"]), "--token-file", str(token))
    assert person(desk, "decide", "2", "--approve", *shown, terminal=False).endswith("exit 3\n")


def test_one_hash_in_every_form_and_width(desk: Project) -> None:
    text = "naïve — 漢字 🎉\nsecond line that is rather longer than forty columns of a narrow terminal\n"
    import hashlib

    sha = hashlib.sha256(text.encode()).hexdigest()
    assert file(desk, text)["draft_sha256"] == sha
    for width in ("40", "200"):
        for colour in ({"NO_COLOR": "1"}, {"FORCE_COLOR": "1"}):
            assert sha in person(desk, "decide", "1", typed="leave\n", COLUMNS=width, **colour)
    assert desk.ok("ledger", "status", "1", "--json").json["draft_sha256"] == sha
    assert desk.rows("state/log/ledger/drafts.ndjson")[0]["draft_sha256"] == sha


def test_what_can_not_be_seen_is_shown_before_it_is_approved(desk: Project) -> None:
    file(desk, "Pay 100\u200b0 euros\u00a0now\n")
    said = person(desk, "decide", "1", typed="leave\n")
    assert "Pay 100\\u{200b}0 euros\\u{a0}now" in said


def test_outsiders_are_told_neither_hash_nor_state(desk: Project) -> None:
    filed = file(desk)
    said = desk.ok("ledger", "status", "1", "--outside", "--json").out
    assert str(filed["draft_sha256"])[:8] not in said
    assert "drafted" not in said


def test_the_stop_button_and_the_list(desk: Project) -> None:
    file(desk)
    assert [r["obligation_id"] for r in desk.ok("ledger", "list", "--json").json] == [1]
    assert person(desk, "ledger", "freeze", "--reason", "wrong price list").endswith("exit 0\n")
    person(desk, "decide", "1", typed="approve\n")
    assert "not sent 1" not in person(desk, "ledger", "deliver", "--once", terminal=False) or not sent(desk)
    assert sent(desk) == []
    assert desk.harness("ledger", "status", "--json").json["frozen"]["reason"] == "wrong price list"
    assert person(desk, "ledger", "unfreeze").endswith("exit 0\n")
    person(desk, "ledger", "deliver", "--once", terminal=False)
    assert len(sent(desk)) == 1


def test_errors_are_for_readers_and_leave_no_file(desk: Project) -> None:
    assert desk.harness("decide", "99", "--approve").code == 3
    assert person(desk, "decide", "99", "--approve").endswith("exit 1\n")
    assert desk.harness("decide", "log/x.md").code == 2
    assert desk.harness("ledger", "status", "7", "--json").json["error"]["kind"] == "NotFound"
    assert desk.harness("ledger", "init").code == 3
    (desk.runtime / "ledger.db").rename(desk.runtime / "aside.db")
    for suffix in ("-wal", "-shm"):
        Path(f"{desk.runtime}/ledger.db{suffix}").unlink(missing_ok=True)
    done = desk.harness("ledger", "list")
    assert done.code == 3
    assert "harness ledger init" in done.err
    assert not (desk.runtime / "ledger.db").exists()


def test_a_password_in_the_settings_is_refused(desk: Project) -> None:
    desk.ok("settings", "ledger.url", "postgresql://u:secret@localhost/x")
    done = desk.harness("ledger", "list")
    assert done.code == 2
    assert "secret" not in done.err


def test_the_limits_are_printed_from_the_one_place(desk: Project) -> None:
    from harness.approval.limits import as_dict

    assert desk.ok("ledger", "limits", "--json").json == as_dict()


def test_a_lost_database_is_built_again_and_sends_nothing_by_itself(desk: Project) -> None:
    file(desk)
    file(desk, "Second\n", "--thread", "2")
    person(desk, "decide", "1", typed="approve\n")
    for suffix in ("", "-wal", "-shm"):
        Path(f"{desk.runtime}/ledger.db{suffix}").unlink(missing_ok=True)
    assert desk.harness("ledger", "rebuild").code == 3
    said = person(desk, "ledger", "rebuild", "--json")
    assert '"held": [' in said
    assert said.endswith("exit 3\n")
    assert person(desk, "ledger", "deliver", "--once", terminal=False).endswith("exit 0\n")
    assert sent(desk) == []
    assert desk.ok("ledger", "verify").code == 0
    assert "REBUILT LEDGER" in person(desk, "decide", "2", typed="leave\n")
    [one] = desk.harness("ledger", "held", "--json").json
    assert one["state"] == "unknown"
    done = person(desk, "ledger", "reconcile", "1", "--coordinate", "msg-9", "--evidence", "seen in the channel")
    assert done.endswith("exit 0\n")
    assert desk.ok("ledger", "status", "1", "--json").json["status"] == "sent"
    desk.ok("ledger", "proof", "1", "--out", str(desk.root / "1.proof"))
    script = Path(__file__).parents[2] / "skills/operator-approval-loop/scripts/check-proof.sh"
    checked = subprocess.run(
        ["sh", str(script), str(desk.root / "1.proof"), str(desk.workspace)],
        capture_output=True,
        text=True,
        check=False,
        env=desk.env,
    )
    assert checked.returncode == 0, checked.stdout
