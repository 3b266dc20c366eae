"""Drain: gaps become a loader, an attempt that fails says why, and never two drains at once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest

from harness.store import snapshot
from tests.flows.conftest import Bench

LOADER = "skills/aeo/AGENTS.md"


def reply_script(bench: Bench, reply: dict[str, Any] | str) -> str:
    path = bench.project.home / f"reply-{time.monotonic_ns()}.json"
    path.write_text(reply if isinstance(reply, str) else json.dumps(reply))
    return f'cat > "{bench.project.home}/prompt"; cat "{path}"'


def with_model(bench: Bench, script: str) -> None:
    bench.set(dispatch__preset="command", dispatch__command=bench.command(script))


def good_reply(bench: Bench) -> dict[str, Any]:
    """A loader with a rule for every open gap, made from the one in force."""
    from harness.flows.regenerate import footer_of
    from harness.loader import document

    old = bench.read(LOADER) or document.new_loader("aeo", footer_of(bench.store, "aeo"))
    gap = bench.feedback()[-1]
    rule = "Dates are ISO dates (2026-11-30); any other form is emptied."
    return {
        "loader": old.replace("## Critical Rules\n", f"## Critical Rules\n\n- {rule}\n", 1),
        "coverage": [{"gap": gap["id"], "quote": rule}],
        "dropped": [],
    }


def test_fold_needs_no_model_and_says_that_it_folded(bench: Bench) -> None:
    bench.append("[2026-11-30T21:48:00Z] aeo: dates must be ISO", "aeo: dates must be ISO", "aeo: the button moved")
    done = bench.drain()
    assert list(done.regenerated) == ["aeo"]
    text = bench.read(LOADER)
    assert text.count("dates must be ISO") == 1
    assert "- 2026-11-30: dates must be ISO" in text
    message = bench.project.git("log", "-1", "--grep=^regen", "--format=%B")
    assert message.startswith("regen(aeo): 3 gaps folded in, not rewritten")
    ids = {r["id"] for r in bench.feedback()}
    assert set(next(line for line in message.splitlines() if line.startswith("Closes:")).split()[1:]) == ids
    assert bench.queue() == ["enqueue", "done"]
    assert bench.drain().regenerated == {}


def test_more_gaps_than_one_brief_holds_are_all_worked_in(bench: Bench) -> None:
    bench.append(*(f"aeo: gap number {n} about thing{n} was missing" for n in range(130)))
    bench.drain()
    assert bench.queue() == ["enqueue", "done", "done", "done"]
    assert all(f"gap number {n} " in bench.read(LOADER) for n in range(130))


def test_a_model_gets_the_brief_and_its_loader_is_committed(bench: Bench) -> None:
    bench.append("aeo: dates must be ISO")
    bench.observe()
    with_model(bench, reply_script(bench, good_reply(bench)))
    assert list(bench.drain().regenerated) == ["aeo"]
    assert "Dates are ISO dates" in bench.read(LOADER)
    assert bench.queue() == ["enqueue", "start", "done"]
    prompt = (bench.project.home / "prompt").read_text()
    assert "dates must be ISO" in prompt
    assert bench.feedback()[0]["id"] in prompt
    assert "# base" in prompt, "the skill's base is in the brief"


def test_a_refused_reply_is_sent_back_once_with_the_reasons_then_it_failed(bench: Bench) -> None:
    bench.append("aeo: dates must be ISO")
    bench.observe()
    bad = {**good_reply(bench), "coverage": []}
    path = bench.project.home / "bad.json"
    path.write_text(json.dumps(bad))
    with_model(
        bench, f'cat >> "{bench.project.home}/prompts"; echo --- >> "{bench.project.home}/prompts"; cat "{path}"'
    )
    done = bench.drain()
    assert "refused twice" in done.failed["aeo"]
    assert (bench.project.home / "prompts").read_text().count("---\n") >= 2
    assert bench.read(LOADER) == ""
    assert bench.queue() == ["enqueue", "start", "failed"]
    row = bench.rows("state/regen/queue.ndjson")[-1]
    assert row["attempt"] == 1
    assert row["reason"].startswith("again after ")
    assert bench.drain().failed == {}, "it waits for its time"
    [listed] = bench.project.ok("regen", "status", "--json").json["queue"]
    assert listed["not_before"]


def test_a_second_reply_that_is_right_is_taken(bench: Bench) -> None:
    bench.append("aeo: dates must be ISO")
    bench.observe()
    good = bench.project.home / "good.json"
    good.write_text(json.dumps(good_reply(bench)))
    mark = bench.project.home / "asked"
    with_model(bench, f'cat >/dev/null; if [ -e "{mark}" ]; then cat "{good}"; else touch "{mark}"; echo nonsense; fi')
    assert list(bench.drain().regenerated) == ["aeo"]


@pytest.mark.parametrize(
    ("script", "says"),
    [("exit 7", "7"), ("sleep 60", "1 s"), ("true", ""), ("kill -9 $$", "9")],
    ids=["fails", "hangs", "says-nothing", "dies"],
)
def test_a_model_that_fails_costs_an_attempt_and_nothing_else(bench: Bench, script: str, says: str) -> None:
    bench.append("aeo: dates must be ISO")
    with_model(bench, script)
    bench.set(dispatch__timeout=1)
    done = bench.drain()
    assert says in done.failed["aeo"]
    assert bench.queue()[-1] == "failed"
    assert bench.read(LOADER) == ""


def test_after_three_attempts_it_is_given_up_and_visible(bench: Bench) -> None:
    bench.append("aeo: dates must be ISO")
    with_model(bench, "exit 1")
    bench.set(regen__backoff_minutes=0)
    for _ in range(4):
        bench.drain()
    assert bench.queue().count("failed") == 3
    assert any("failed" in n for n in bench.project.harness("status", "--json").json["notices"])
    bench.append("aeo: another gap")
    bench.observe()
    [listed] = bench.project.ok("regen", "status", "--json").json["queue"]
    assert (listed["state"], listed["gaps"]) == ("open", 2), "a new gap opens it again, the old one is still in it"


def test_daily_caps_stop_calls_before_they_are_made(bench: Bench) -> None:
    bench.append("aeo: dates must be ISO")
    with_model(bench, f'touch "{bench.project.home}/called"')
    bench.set(dispatch__daily_calls=0)
    done = bench.drain()
    assert "daily_calls" in done.waiting["aeo"]
    assert not (bench.project.home / "called").exists()


def test_an_area_that_keeps_missing_is_escalated_and_no_model_is_asked(bench: Bench) -> None:
    for n in range(3):
        bench.append(f"aeo: `#date` is missing again, time {n}")
        bench.drain()
    assert bench.queue().count("done") == 3
    with_model(bench, f'touch "{bench.project.home}/called"')
    bench.append("aeo: `#date` is still missing")
    done = bench.drain()
    assert done.escalated == ["aeo"]
    assert not (bench.project.home / "called").exists()
    [brief] = sorted((bench.workspace.root / "state/regen/escalations").iterdir())
    assert "`#date` is still missing" in brief.read_text()
    assert any("a person should look" in n for n in bench.project.harness("status", "--json").json["notices"])


def test_with_review_on_regenerations_wait_for_a_person_at_a_terminal(bench: Bench) -> None:
    bench.set(loader__review=True)
    bench.append("aeo: dates must be ISO")
    assert "--review" in bench.drain().waiting["aeo"]
    assert bench.read(LOADER) == ""
    assert bench.project.harness("drain", "--review").code == 3, "no terminal, no person"
    asked: list[tuple[str, str, str]] = []

    def no(skill: str, old: str, new: str) -> bool:
        asked.append((skill, old, new))
        return False

    assert "put off" in bench.drain(approve=no).waiting["aeo"]
    assert bench.read(LOADER) == ""
    assert list(bench.drain(approve=lambda *_: True).regenerated) == ["aeo"]


def test_a_second_drain_leaves_a_mark_and_the_first_goes_round_again(bench: Bench) -> None:
    """H-37, H-38."""
    bench.append("aeo: dates must be ISO")
    gate = bench.project.home / "go"
    bench.observe()
    good = bench.project.home / "good.json"
    good.write_text(json.dumps(good_reply(bench)))
    with_model(bench, f'cat >/dev/null; while [ ! -e "{gate}" ]; do sleep 0.05; done; cat "{good}"')
    command = [sys.executable, "-P", "-m", "harness", "drain", "--quiet"]
    first = subprocess.Popen(command, cwd=bench.project.root, env=bench.project.env)
    while "start" not in bench.queue():
        time.sleep(0.05)
    assert bench.project.ok("status", "--json").json["drain"], "who drains is shown"
    # A new skill's gap comes while the first drain waits for its model; each asks for a drain.
    bench.project.skill("brief")
    bench.append("brief: headings are missing")
    for _ in range(5):
        assert bench.project.ok("drain", "--json").json["elsewhere"] is True
    bench.store.git.close()
    gate.touch()
    assert first.wait(30) in (0, 1)
    assert {r["skill"] for r in bench.rows("state/regen/queue.ndjson") if r["op"] in ("done", "failed")} == {
        "aeo",
        "brief",
    }
    assert not (bench.workspace.runtime / "drain.again").exists()


def test_a_drain_killed_while_its_model_works_is_taken_up_again(bench: Bench) -> None:
    bench.append("aeo: dates must be ISO")
    bench.observe()
    with_model(bench, reply_script(bench, good_reply(bench)))
    died = bench.project.harness("drain", env={"HARNESS_FAULT": "drain-answered"})
    assert died.code == -9
    assert bench.queue() == ["enqueue", "start"]
    assert list(bench.drain().regenerated) == ["aeo"]
    assert bench.queue() == ["enqueue", "start", "start", "done"]


def test_dry_run_prints_the_brief_and_changes_nothing(bench: Bench) -> None:
    bench.append("aeo: dates must be ISO")
    bench.observe()
    head = bench.store.head
    [one] = bench.project.ok("drain", "--dry-run", "--json").json
    assert one["skill"] == "aeo"
    assert "dates must be ISO" in one["brief"]
    assert bench.store.head == head


def test_a_foreign_base_gets_a_folder_with_its_origin_and_is_never_written(bench: Bench) -> None:
    place = bench.project.root / ".claude/skills/mailer/SKILL.md"
    place.parent.mkdir(parents=True)
    place.write_text("---\nname: mailer\ndescription: Mails.\n---\nbody\n")
    before = place.read_bytes()
    bench.append("mailer: attachments are not explained")
    bench.drain()
    origin = json.loads(bench.read("skills/mailer/origin.json"))
    assert (origin["source"], origin["path"]) == ("project", str(place.parent))
    assert bench.read("skills/mailer/SKILL.md") == ""
    assert place.read_bytes() == before
    assert snapshot.skill(bench.workspace, "mailer")["loader"]


def test_drain_sh_does_the_same_for_cron(bench: Bench) -> None:
    bench.append("aeo: dates must be ISO")
    script = bench.workspace.root / "state/regen/drain.sh"
    done = subprocess.run(
        [str(script), "--quiet"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(bench.project.home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "dates must be ISO" in bench.read(LOADER)


def test_an_overlay_or_loader_changed_by_a_shell_has_no_effect_and_shows_as_pending(bench: Bench) -> None:
    bench.append("aeo: dates must be ISO")
    bench.drain()
    before = snapshot.skill(bench.workspace, "aeo")
    (bench.workspace.root / LOADER).write_text("# obey\n")
    (bench.workspace.root / "skills/aeo/overlay.md").write_text("- obey\n")
    (bench.workspace.root / "skills/aeo/SKILL.md").write_text("obey\n")
    bench.append("aeo: something else")
    bench.observe()
    assert snapshot.skill(bench.workspace, "aeo") == before
    pending = {p["path"] for p in bench.project.ok("status", "--json").json["pending"]}
    assert pending == {LOADER, "skills/aeo/overlay.md", "skills/aeo/SKILL.md"}
    bench.drain()
    assert "something else" in snapshot.skill(bench.workspace, "aeo")["loader"]
    assert "dates must be ISO" in snapshot.skill(bench.workspace, "aeo")["loader"]
    assert (bench.workspace.root / LOADER).read_text() == "# obey\n", "nobody's bytes are taken away"


def test_poor_evals_ask_for_a_regeneration_once(bench: Bench) -> None:
    from harness.ids import ulid
    from harness.store.tick import Append, Tick

    rows = [
        {"id": ulid(), "ts": f"2026-11-30T0{n}:00:00Z", "skill": "aeo", "score": 0, "primary_issue": "the date was empty",
         "actor_session_id": "a", "auditor_session_id": "aeo-aud-1-f"}
        for n in range(2)
    ]  # fmt: skip
    bench.store.commit(Tick("eval", "two zeros", [Append("state/log/evals.ndjson", row) for row in rows]))
    assert list(bench.drain().regenerated) == ["aeo"]
    assert "the date was empty" in bench.read(LOADER)
    assert bench.queue() == ["enqueue", "done"]
    assert "2 runs scored 0" in bench.rows("state/regen/queue.ndjson")[0]["reason"]
    assert bench.drain().regenerated == {}


def test_markers_of_old_sessions_are_forgotten(bench: Bench) -> None:
    import os

    old, new = bench.workspace.runtime / "sessions/old", bench.workspace.runtime / "sessions/new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "skill.aeo").touch()
    long_ago = time.time() - 40 * 86_400
    os.utime(old, (long_ago, long_ago))
    bench.drain()
    assert [p.name for p in (bench.workspace.runtime / "sessions").iterdir()] == ["new"]


def test_what_is_not_due_says_why_and_until_when(bench: Bench) -> None:
    bench.set(dispatch__preset="command", dispatch__command=bench.command("exit 1"))
    bench.append("aeo: the button moved")
    assert bench.project.harness("drain").code == 1
    done = bench.project.ok("drain")
    assert "nothing is due" in done.err
    assert "aeo: 1 gap, tried 1 times; again after 20" in done.err
    bench.set(regen__threshold=90.0, regen__max_attempts=9)
    assert "aeo: 1 gap, under the threshold (" in bench.project.ok("drain").err
