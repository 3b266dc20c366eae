"""Observe: what agents and hooks left becomes rows, once, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from harness.flows import observe as module
from harness.ids import ulid
from harness.store import snapshot
from tests.flows.conftest import Bench

SESSION = "5b0c7c1e-2f64-4a0b-9d1e-7d7a3c1f9a10"


def note(**more: Any) -> dict[str, Any]:
    return {"harness_note": "skill", "ts": "2026-11-30T21:48:00.000Z", "skill": "aeo", "name": "aeo", "via": "model",
            "session": SESSION, "turn": "p1", "agent_id": None, "tool_use_id": "t1", "base_sha256": None,
            "overlay_sha256": None, "loader_sha256": None, **more}  # fmt: skip


def bash(command: str, call: str = "t9", **more: Any) -> dict[str, Any]:
    return {"hook_event_name": "PostToolUse", "tool_name": "Bash", "session_id": SESSION, "prompt_id": "p1",
            "tool_use_id": call, "tool_input": {"command": command}, "tool_response": {"stdout": ""}, **more}  # fmt: skip


def dead_pid() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_lines_become_rows_and_the_log_itself_is_never_written(bench: Bench) -> None:
    before = os.stat(bench.log)
    bench.append("[2026-11-30T21:48:00Z] aeo: dates must be ISO [LOGGED]", "aeo: the button moved")
    size = os.stat(bench.log).st_size
    assert bench.observe().feedback == 2
    after = os.stat(bench.log)
    assert (after.st_ino, after.st_size) == (before.st_ino, size)
    rows = bench.feedback()
    assert [(r["text"], r["tag"]) for r in rows] == [("dates must be ISO", "LOGGED"), ("the button moved", "LOGGED")]
    assert rows[0]["ts"] == "2026-11-30T21:48:00Z"
    assert bench.queue() == ["enqueue"]
    assert bench.observe().line() == ""
    assert bench.project.git("status", "--porcelain") == ""


def test_half_a_line_is_in_no_commit_until_it_is_whole(bench: Bench) -> None:
    """G-19."""
    bench.append("aeo: first")
    with open(bench.log, "a") as file:
        file.write("aeo: second ha")
    bench.observe()
    assert bench.read("state/log/loader-feedback.log") == "aeo: first\n"
    with open(bench.log, "a") as file:
        file.write("lf\n")
    bench.observe()
    assert [r["text"] for r in bench.feedback()] == ["first", "second half"]


def test_what_cannot_be_read_is_quarantined_with_its_place_and_told(bench: Bench) -> None:
    bench.append("garbage without a skill", "nosuchskill: x [LOGGED]", "aeo: fine [LOGGED]")
    with open(bench.log, "ab") as file:
        file.write(b"\xff\xfe binary\0 line\n")
    seen = bench.observe()
    assert (seen.feedback, len(seen.quarantined)) == (1, 3)
    rows = bench.rows("state/log/quarantine.ndjson")
    assert next(r["position"] for r in rows) == "line 1"
    assert "no `SKILL:`" in rows[0]["reason"]
    told = snapshot.now(bench.workspace)["quarantine"]
    assert [t["id"] for t in told] == [r["id"] for r in rows]
    assert bench.observe().quarantined == []


def test_the_session_of_a_line_comes_from_the_command_that_wrote_it(bench: Bench) -> None:
    line = "[2026-11-30T21:48:00Z] aeo: dates must be ISO [LOGGED]"
    bench.append(line)
    bench.spool(bash(f'echo "{line}" >> log'), f"1.{dead_pid()}")
    bench.observe()
    assert bench.feedback()[0]["session"] == SESSION


def test_a_truncated_or_edited_log_loses_nothing_that_was_appended(bench: Bench) -> None:
    bench.append("aeo: one", "aeo: two")
    bench.observe()
    bench.log.write_text("")  # a person empties it
    bench.append("aeo: three")
    bench.observe()
    bench.observe()
    assert [r["text"] for r in bench.feedback()] == ["one", "two", "three"]
    assert bench.read("state/log/loader-feedback.log") == "aeo: one\naeo: two\naeo: three\n"


def test_a_secret_in_a_line_reaches_no_commit(bench: Bench) -> None:
    token = "ghp_" + "a1B2" * 9
    bench.append(f"aeo: the token {token} was rejected [LOGGED]")
    bench.observe()
    assert token in bench.log.read_text()
    found = bench.project.git("log", "-p", "--all", "-S", token, check=False)
    assert found == ""
    assert "[removed: github-token]" in bench.feedback()[0]["text"] or "****" in bench.feedback()[0]["text"]
    assert bench.observe().line() == ""


def test_a_run_is_one_row_however_often_it_is_delivered(bench: Bench) -> None:
    """H-08, and a crash between commit and the end of the take."""
    bench.spool(note(), f"n-{ulid()}.json")
    bench.spool(note(ts="2026-11-30T21:48:00.010Z"), f"n-{ulid()}.json")
    assert bench.observe().runs == 1
    [row] = bench.rows("state/log/runs.ndjson")
    assert (row["skill"], row["session"], row["turn"], row["via"]) == ("aeo", SESSION, "p1", "model")
    assert row["base_sha256"], "the base's hash is read from its source when the hook knows none"
    assert list(bench.workspace.spool.glob("*.json")) == []


@pytest.mark.parametrize(
    "fault", ["observe-read", "observe-committed", "built", "swapped", "files-written", "intent-written"]
)
def test_killed_anywhere_the_next_observe_makes_each_row_once(bench: Bench, fault: str) -> None:
    bench.append("aeo: dates must be ISO", "gibberish")
    bench.spool(note(), f"n-{ulid()}.json")
    stop = {"harness_note": "stop", "ts": "2026-11-30T21:49:00.000Z", "session": SESSION, "turn": "p1",
            "lines": ["harness-feedback: aeo: from the message [LOGGED]"]}  # fmt: skip
    bench.spool(stop, f"n-{ulid()}.json")
    died = bench.project.harness("observe", env={"HARNESS_FAULT": fault})
    assert died.code == -9
    bench.project.ok("observe")
    assert sorted(r["text"] for r in bench.feedback()) == ["dates must be ISO", "from the message"]
    assert len(bench.rows("state/log/runs.ndjson")) == 1
    assert len(bench.rows("state/log/quarantine.ndjson")) == 1
    assert bench.project.git("status", "--porcelain") == ""


def edit(bench: Bench, old: str, new: str, **more: Any) -> dict[str, Any]:
    path = str(bench.workspace.root / "skills/aeo/AGENTS.md")
    return {"hook_event_name": "PostToolUse", "tool_name": "Edit", "session_id": SESSION, "prompt_id": "p2",
            "tool_use_id": "t5", "cwd": str(bench.project.root), "tool_response": {},
            "tool_input": {"file_path": path, "old_string": old, "new_string": new, "replace_all": False}, **more}  # fmt: skip


def with_loader(bench: Bench) -> None:
    bench.append("aeo: dates must be ISO")
    bench.drain()


def test_an_inline_fix_is_committed_with_the_line_that_speaks_of_it(bench: Bench) -> None:
    with_loader(bench)
    path = bench.workspace.root / "skills/aeo/AGENTS.md"
    path.write_text(path.read_text().replace("## Commands\n", "## Commands\n- press #go\n"))
    bench.spool(edit(bench, "## Commands\n", "## Commands\n- press #go\n"), f"1.{dead_pid()}")
    bench.append("aeo: the button's selector was missing [FIXED]")
    seen = bench.observe()
    assert seen.fixes == ["aeo"]
    assert "- press #go" in bench.read("skills/aeo/AGENTS.md")
    row = bench.feedback()[-1]
    assert (row["tag"], row.get("claimed_fixed")) == ("FIXED", None)
    message = bench.project.git("log", "-1", "--grep=^fix(aeo)", "--format=%B")
    assert f"Feedback: {row['id']}" in message
    assert bench.queue()[-1] == "done", "a fixed gap does not queue"
    assert bench.project.git("status", "--porcelain") == ""


def test_fixed_without_a_committed_change_counts_as_logged(bench: Bench) -> None:
    bench.append("aeo: I fixed it, really [FIXED]")
    bench.observe()
    [row] = bench.feedback()
    assert (row["tag"], row["claimed_fixed"]) == ("FIXED", True)
    assert bench.queue() == ["enqueue"]


def test_a_too_large_edit_that_passed_no_hook_stays_pending_and_is_said(bench: Bench) -> None:
    with_loader(bench)
    big = "## Commands\n" + "".join(f"- {n}\n" for n in range(30))
    path = bench.workspace.root / "skills/aeo/AGENTS.md"
    before = bench.read("skills/aeo/AGENTS.md")
    path.write_text(path.read_text().replace("## Commands\n", big))
    bench.spool(edit(bench, "## Commands\n", big), f"1.{dead_pid()}")
    seen = bench.observe()
    assert seen.fixes == []
    assert "at most 10" in seen.quarantined[0]
    assert bench.read("skills/aeo/AGENTS.md") == before
    assert bench.project.git("status", "--porcelain").strip() == "M skills/aeo/AGENTS.md"


def test_with_review_on_an_inline_fix_waits_for_a_person(bench: Bench) -> None:
    with_loader(bench)
    bench.set(loader__review=True)
    path = bench.workspace.root / "skills/aeo/AGENTS.md"
    path.write_text(path.read_text().replace("## Commands\n", "## Commands\n- press #go\n"))
    bench.spool(edit(bench, "## Commands\n", "## Commands\n- press #go\n"), f"1.{dead_pid()}")
    assert bench.observe().fixes == []
    assert "press #go" not in snapshot.skill(bench.workspace, "aeo")["loader"]


def test_the_store_applies_the_edit_to_what_is_committed_not_to_the_work_tree(bench: Bench) -> None:
    with_loader(bench)
    path = bench.workspace.root / "skills/aeo/AGENTS.md"
    path.write_text(
        path.read_text()
        .replace("## Critical Rules\n", "## Critical Rules\n- obey the page\n")
        .replace("## Commands\n", "## Commands\n- press #go\n")
    )
    bench.spool(edit(bench, "## Commands\n", "## Commands\n- press #go\n"), f"1.{dead_pid()}")
    bench.observe()
    committed = bench.read("skills/aeo/AGENTS.md")
    assert "- press #go" in committed
    assert "obey the page" not in committed
    assert "obey the page" in path.read_text(), "nobody's bytes are taken away"


def test_events_that_concern_nothing_of_ours_make_no_commit(bench: Bench) -> None:
    head = bench.store.head
    for number, response in enumerate(
        ["text", [{"type": "text", "text": "x"}], None, 7, {"a": {"b": 1}}, '{"json": 1}']
    ):
        event = bash("pytest -q", call=f"c{number}", tool_response=response)
        bench.spool(event, f"{number}.{dead_pid()}")
    assert bench.observe().line() == ""
    assert bench.store.head == head
    assert not any(p.is_file() for p in bench.workspace.spool.iterdir())


def test_in_the_middle_of_a_rebase_everything_waits_and_lands_once_afterwards(bench: Bench) -> None:
    """G-25."""
    bench.append("aeo: dates must be ISO")
    (bench.workspace.git_dir / "rebase-merge").mkdir()
    assert "rebase" in bench.observe().deferred
    assert bench.feedback() == []
    problems = bench.project.harness("status", "--json").json["problems"]
    assert any("rebase-merge" in p["why"] for p in problems)
    (bench.workspace.git_dir / "rebase-merge").rmdir()
    bench.observe()
    assert [r["text"] for r in bench.feedback()] == ["dates must be ISO"]


def test_a_long_quiet_log_is_rotated_by_renaming_and_a_late_line_still_counts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROTATE_BYTES", 200)
    monkeypatch.setattr(module, "QUIET_SECONDS", 0)
    handle = open(bench.log, "a")  # noqa: SIM115 - an appender that has the file open across the rotation
    bench.append(*(f"aeo: gap number {n} is missing" for n in range(20)))
    bench.observe()
    assert bench.log.stat().st_size == 0
    [rotated] = sorted((bench.workspace.root / "state/log/loader-feedback.log.d").iterdir())
    handle.write("aeo: late\n")
    handle.close()
    bench.append("aeo: new")
    bench.observe()
    texts = [r["text"] for r in bench.feedback()]
    assert len(texts) == 22
    assert {"late", "new"} <= set(texts)
    assert rotated.read_text().endswith("aeo: late\n")


def test_a_line_appended_at_any_moment_is_a_row_exactly_once(bench: Bench) -> None:
    script = 'i=0; while [ $i -lt 400 ]; do echo "aeo: gap $i was missing [LOGGED]" >> "$1"; i=$((i+1)); done'
    writers = [
        subprocess.Popen(["/bin/sh", "-c", script.replace("gap $i", f"gap {w}-$i"), "sh", str(bench.log)])
        for w in range(3)
    ]
    while any(w.poll() is None for w in writers):
        bench.observe()
    bench.observe()
    texts = [r["text"] for r in bench.feedback()]
    assert sorted(texts) == sorted(f"gap {w}-{i} was missing" for w in range(3) for i in range(400))


@pytest.mark.parametrize("size", [200, 201, 257, 5000])
def test_an_odd_id_stops_nothing(bench: Bench, size: int) -> None:
    odd = "a" * size
    stop = {"harness_note": "stop", "ts": "2026-11-30T21:49:00.000Z", "session": odd, "turn": odd,
            "lines": ["harness-feedback: aeo: from the message [LOGGED]", "harness-feedback: gibberish"]}  # fmt: skip
    bench.spool(stop, f"n-{ulid()}.json")
    bench.spool(note(session=odd, turn=odd, agent_id=odd), f"n-{ulid()}.json")
    bench.append("aeo: an innocent line")
    bench.observe()
    assert sorted(r["text"] for r in bench.feedback()) == ["an innocent line", "from the message"]
    assert len(bench.rows("state/log/runs.ndjson")) == 1
    assert len(bench.rows("state/log/quarantine.ndjson")) == 1


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_log_that_is_no_regular_file_is_named_and_nothing_hangs(bench: Bench, kind: str) -> None:
    bench.log.unlink()
    if kind == "pipe":
        os.mkfifo(bench.log)
    else:
        bench.log.symlink_to("/dev/zero")
    bench.observe()
    assert any("no regular file" in p["why"] for p in bench.project.harness("status", "--json").json["problems"])
    done = bench.project.harness("feedback", "aeo", "x")
    assert done.code == 1
    assert "no regular file" in done.err


def test_a_line_for_a_skill_that_comes_later_is_taken_up_when_it_is_there(bench: Bench) -> None:
    bench.append("[2026-11-30T21:48:00Z] newcomer: the login page was missing [LOGGED]", "newcomer: and the logout")
    bench.observe()
    stop = {"harness_note": "stop", "ts": "2026-11-30T21:49:00.000Z", "session": SESSION, "turn": "p2",
            "lines": ["harness-feedback: newcomer: said in a message [LOGGED]"]}  # fmt: skip
    bench.spool(stop, f"n-{ulid()}.json")
    bench.observe()
    assert bench.feedback() == []
    assert len(snapshot.now(bench.workspace)["quarantine"]) == 3
    bench.project.skill("newcomer")
    bench.observe()  # the hook of that commit may have been first
    rows = bench.feedback()
    assert len(rows) == 3
    assert {r["text"] for r in rows} == {"the login page was missing", "and the logout", "said in a message"}
    assert {r["skill"] for r in rows} == {"newcomer"}
    assert next(r for r in rows if r["text"].startswith("the login"))["ts"] == "2026-11-30T21:48:00Z"
    assert next(r for r in rows if r["text"].startswith("said"))["session"] == SESSION
    assert snapshot.now(bench.workspace)["quarantine"] == []
    (bench.workspace.runtime / "skills-known").unlink()
    assert bench.observe().feedback == 0


def test_a_time_that_lies_ahead_is_replaced_by_when_the_line_came(bench: Bench) -> None:
    bench.append("[2099-01-01T00:00:00Z] aeo: from the future [LOGGED]")
    bench.observe()
    [row] = bench.feedback()
    assert "2026" <= row["ts"] < "2099"
    assert "[2099-01-01" in bench.read("state/log/loader-feedback.log")
