"""What a user gets, with the real client: a gap that the model logs ends as a commit, and the next session has it."""

from __future__ import annotations

import json
import subprocess

from tests.e2e.conftest import CLAUDE, Client, bash, tool


def test_a_logged_gap_becomes_a_feedback_commit_and_a_regeneration(client: Client) -> None:
    log = client.project.workspace / "state/log/loader-feedback.log"
    line = "[$(date -u +%FT%TZ)] aeo: the date field takes ISO dates only [LOGGED]"
    session = client.run([[bash(f'echo "{line}" >> "{log}"')], ["All done."]])
    assert session.out.strip() == "All done."
    assert len(session.requests) == 2, "the session was never blocked"
    client.wait(lambda: any(s.startswith("regen(aeo): 1 gap") for s in client.subjects()))
    subjects = client.subjects()
    assert sum(s.startswith("feedback") for s in subjects) == 1
    [row] = client.project.rows("state/log/feedback.ndjson")
    assert (row["skill"], row["text"], row["tag"]) == ("aeo", "the date field takes ISO dates only", "LOGGED")
    assert row["session"], "the Bash event names the session of the line"
    assert "ISO dates only" in client.project.ok("show", "aeo", "--json").json["loader"]
    assert client.project.git("status", "--porcelain") == ""
    assert client.project.git("fsck", "--no-dangling", check=False).strip() == ""


def test_the_next_session_gets_the_lesson_with_the_skill(client: Client) -> None:
    commands = client.project.root / ".claude/skills/aeo"
    commands.mkdir(parents=True)
    (commands / "SKILL.md").write_text("---\nname: aeo\ndescription: Drafts pages.\n---\nSKILL-BODY\n")
    client.project.ok("feedback", "aeo", "the date field takes ISO dates only")
    client.project.ok("drain")
    session = client.run([[tool("Skill", skill="aeo")], ["ok"]])
    assert session.saw("SKILL-BODY") == [1]
    assert session.saw("the date field takes ISO dates only") == [1]
    assert session.saw("notes written by agents") == [1]
    client.wait(lambda: len(client.project.rows("state/log/runs.ndjson")) == 1)
    [run] = client.project.rows("state/log/runs.ndjson")
    assert (run["skill"], run["via"]) == ("aeo", "model")
    assert run["loader_sha256"]


def test_a_typed_skill_is_noted_and_gets_its_loader(client: Client) -> None:
    place = client.project.root / ".claude/skills/aeo"
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text("---\nname: aeo\ndescription: Drafts pages.\n---\nSKILL-BODY\n")
    client.project.ok("feedback", "aeo", "the date field takes ISO dates only")
    client.project.ok("drain")
    session = client.run([["ok"]], "/aeo returns")
    assert session.saw("the date field takes ISO dates only") == [0]
    client.wait(lambda: [r["via"] for r in client.project.rows("state/log/runs.ndjson")] == ["typed"])


def test_a_write_to_a_base_is_denied_and_the_model_is_told_why(client: Client) -> None:
    base = client.project.workspace / "skills/aeo/SKILL.md"
    before = base.read_bytes()
    session = client.run([[tool("Write", file_path=str(base), content="rewritten")], ["ok"]])
    assert base.read_bytes() == before
    assert session.saw("The base is read-only for agents") == [1]


def loader(client: Client) -> str:
    client.project.ok("feedback", "aeo", "the date field takes ISO dates only")
    client.project.ok("drain")
    return (client.project.workspace / "skills/aeo/AGENTS.md").read_text()


def test_a_thirty_line_edit_of_a_loader_is_denied_with_log_it(client: Client) -> None:
    path = client.project.workspace / "skills/aeo/AGENTS.md"
    before = loader(client)
    new = "## Commands\n" + "".join(f"- rule {n}\n" for n in range(30))
    turns = [
        [tool("Read", file_path=str(path))],
        [tool("Edit", file_path=str(path), old_string="## Commands\n", new_string=new)],
        ["ok"],
    ]
    session = client.run(turns)
    assert path.read_text() == before
    assert session.saw("Log it instead") == [2]


def test_a_three_line_edit_of_a_loader_is_committed_as_a_fix(client: Client) -> None:
    path = client.project.workspace / "skills/aeo/AGENTS.md"
    loader(client)
    new = "## Commands\n- press #publish\n- wait for the banner\n- copy the link\n"
    turns = [
        [tool("Read", file_path=str(path))],
        [tool("Edit", file_path=str(path), old_string="## Commands\n", new_string=new)],
        ["Done.\n\nharness-feedback: aeo: the publish steps were missing [FIXED]"],
    ]
    client.run(turns)
    client.wait(lambda: any(s.startswith("fix(aeo)") for s in client.subjects()))
    assert "press #publish" in client.project.git("show", "HEAD:skills/aeo/AGENTS.md")
    rows = [r for r in client.project.rows("state/log/feedback.ndjson") if r["tag"] == "FIXED"]
    assert [r.get("claimed_fixed") for r in rows] == [None]
    fix = client.project.git("log", "-1", "--format=%(trailers:key=Feedback,valueonly)", "--grep=^fix(aeo)").strip()
    assert fix == rows[0]["id"]


def test_duty_ask_blocks_once_and_only_once(client: Client) -> None:
    place = client.project.root / ".claude/skills/aeo"
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text("---\nname: aeo\ndescription: Drafts pages.\n---\nSKILL-BODY\n")
    loader(client)
    client.project.ok("settings", "loader.duty", "ask")
    session = client.run([[tool("Skill", skill="aeo")], ["first"], ["second"], ["third"]])
    assert session.out.strip() == "second", "one block, then the end"
    assert len(session.saw("Stop hook feedback")) == 1


def test_a_failing_command_still_has_its_line_taken_in(client: Client) -> None:
    log = client.project.workspace / "state/log/loader-feedback.log"
    client.run([[bash(f'echo "aeo: exit codes are not documented" >> "{log}"; false')], ["ok"]])
    client.wait(lambda: len(client.project.rows("state/log/feedback.ndjson")) == 1)


def test_a_model_that_the_drain_calls_leaves_no_trace_of_its_own(client: Client) -> None:
    """H-42, H-43: the drain calls the real client in the same project; its run must feed nothing."""
    client.project.ok("settings", "dispatch.preset", "claude")
    wrapper = client.folder / "bin"
    wrapper.mkdir()
    (wrapper / "claude").symlink_to(CLAUDE or "")
    log = client.project.workspace / "state/log/loader-feedback.log"
    reply = {"loader": "no loader", "coverage": [], "dropped": []}
    turns = {
        "turns": [[bash(f'echo "aeo: the date field takes ISO dates only" >> "{log}"')], ["All done."]],
        "lanes": [
            {
                "name": "regen",
                "match": "aeo",
                "where": "first_user",
                "turns": [[json.dumps(reply)], [json.dumps(reply)]],
            }
        ],
    }
    import os

    session = client.run(turns, PATH=f"{wrapper}{os.pathsep}{os.environ['PATH']}")
    assert session.out.strip() == "All done."
    client.wait(lambda: any(r["op"] == "failed" for r in client.project.rows("state/regen/queue.ndjson")))
    ops = [r["op"] for r in client.project.rows("state/regen/queue.ndjson")]
    assert ops == ["enqueue", "start", "failed"], "the nested runs left nothing"
    assert client.project.rows("state/log/runs.ndjson") == []
    assert client.project.ok("status", "--json").json["spool"] == 0


def test_the_plugin_form_validates() -> None:
    from harness.workspace import resources

    done = subprocess.run(
        [CLAUDE or "", "plugin", "validate", "--strict", str(resources())], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
