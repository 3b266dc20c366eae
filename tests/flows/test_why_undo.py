"""From a line back to its cause, and taking a lesson back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.flows import tune
from harness.flows.undo import CannotUndo, undo
from harness.flows.why import NothingThere, why
from harness.store import history, snapshot
from harness.store.tick import Replace, Tick, sha256
from tests.flows.conftest import Bench

LOADER = "skills/aeo/AGENTS.md"
SESSION = "5b0c7c1e-2f64-4a0b-9d1e-7d7a3c1f9a10"


def line_of(bench: Bench, text: str) -> int:
    return next(n for n, line in enumerate(bench.read(LOADER).splitlines(), 1) if text in line)


def learn(bench: Bench, gap: str) -> history.Entry:
    bench.append(f"[2026-11-30T21:48:00Z] aeo: {gap} [LOGGED]")
    bench.drain()
    return next(e for e in history.entries(bench.store.git) if e.kind == "regen")


def fix(bench: Bench, old: str, new: str) -> history.Entry:
    before = bench.read(LOADER)
    tick = Tick(
        "fix", "inline", [Replace(LOADER, before.replace(old, new, 1), sha256(before.encode()))], {"Skill": "aeo"}
    )
    bench.store.commit(tick)
    return history.find(bench.store.git, "HEAD")


def test_why_leads_from_a_line_to_commit_row_words_and_the_users_prompt(bench: Bench) -> None:
    place = bench.project.home / ".claude/projects/shop"
    place.mkdir(parents=True)
    rows = [
        {"type": "user", "message": {"role": "user", "content": "draft the page about returns"}},
        {
            "type": "assistant",
            "message": {"content": [{"type": "tool_use", "input": {"command": "echo dates must be ISO"}}]},
        },
        {"type": "user", "message": {"role": "user", "content": "thanks"}},
    ]
    (place / f"{SESSION}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    line = "[2026-11-30T21:48:00Z] aeo: dates must be ISO [LOGGED]"
    bench.append(line)
    event = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "session_id": SESSION, "prompt_id": "p1",
             "tool_use_id": "t1", "tool_input": {"command": f'echo "{line}" >> log'}}  # fmt: skip
    bench.spool(event, "1.999999")
    bench.drain()
    [cause] = why(bench.store, f"aeo:{line_of(bench, 'dates must be ISO')}", bench.env)
    assert cause.entry.kind == "regen"
    assert [(r["ledger"], r["text"], r["session"]) for r in cause.rows] == [
        ("state/log/feedback.ndjson", "dates must be ISO", SESSION)
    ]
    assert [p["prompt"] for p in cause.prompts] == ["draft the page about returns"]
    said = bench.project.ok("why", f"{LOADER}:{cause.number}", cwd=bench.workspace.root).out
    assert "the user had said: “draft the page about returns”" in said
    assert len(said.splitlines()) < 24, "one screen"


def test_why_takes_a_row_a_tick_a_skill_and_a_path(bench: Bench) -> None:
    entry = learn(bench, "dates must be ISO")
    row = bench.feedback()[0]["id"]
    assert why(bench.store, row, bench.env)[0].entry.kind == "feedback"
    assert why(bench.store, entry.short, bench.env)[0].entry.commit == entry.commit
    assert why(bench.store, entry.trailers["Tick"], bench.env)[0].entry.commit == entry.commit
    assert [c.entry.commit for c in why(bench.store, "aeo", bench.env)] == [entry.commit]
    assert json.loads(bench.project.ok("why", row, "--json").out)[0]["entry"]["kind"] == "feedback"


@pytest.mark.parametrize(
    "target", ["aeo:999", "nothing", "aeo:0", "skills/none/AGENTS.md:1", "01AAAAAAAAAAAAAAAAAAAAAAAA"]
)
def test_why_of_nothing_is_a_clear_error(bench: Bench, target: str) -> None:
    learn(bench, "dates must be ISO")
    with pytest.raises(NothingThere):
        why(bench.store, target, bench.env)
    assert bench.project.harness("why", target).code == 2


def queue(bench: Bench) -> list[Any]:
    return list(bench.project.ok("regen", "status", "--json").json["queue"])


def test_undo_takes_text_back_with_its_gaps_and_the_next_drain_does_not_bring_it_again(bench: Bench) -> None:
    entry = learn(bench, "dates must be ISO")
    assert queue(bench) == []
    done = bench.project.ok("undo", entry.short, "--json").json
    assert (done["text"], done["rows"]) == ([LOADER], 1)
    assert bench.read(LOADER) == ""
    assert snapshot.skill(bench.workspace, "aeo")["loader"] == ""
    assert len(bench.rows("state/log/feedback.ndjson")) == 1, "no row is removed"
    assert why(bench.store, entry.short, bench.env)[0].undone_by
    assert bench.project.git("status", "--porcelain") == ""
    bench.drain()
    assert bench.read(LOADER) == ""
    assert queue(bench) == []


def test_undo_can_open_the_gaps_again(bench: Bench) -> None:
    entry = learn(bench, "dates must be ISO")
    bench.project.ok("undo", entry.short, "--reopen")
    assert [q["gaps"] for q in queue(bench)] == [1]
    assert "regeneration queue has work" in bench.project.ok("status").out
    bench.drain()
    assert "dates must be ISO" in bench.read(LOADER)


def test_to_and_fro_ends_where_it_was(bench: Bench) -> None:
    entry = learn(bench, "dates must be ISO")
    text = bench.read(LOADER)
    name = entry.commit
    for number in range(4):
        name = undo(bench.store, name).landed.commit or ""
        bench.drain()
        assert bench.read(LOADER) == ("" if number % 2 == 0 else text)
        assert queue(bench) == []


def test_the_first_of_two_lessons_is_taken_back_alone(bench: Bench) -> None:
    first = learn(bench, "dates must be ISO")
    learn(bench, "the button moved")
    undo(bench.store, first.short)
    text = bench.read(LOADER)
    assert "dates must be ISO" not in text
    assert "the button moved" in text
    assert "<!-- harness:footer -->" in text


def test_the_lesson_of_a_skill_that_lies_elsewhere_is_taken_back_too(bench: Bench) -> None:
    place = bench.project.root / ".claude/skills/mail/SKILL.md"
    place.parent.mkdir(parents=True)
    place.write_text("---\nname: mail\ndescription: Writes mail.\n---\n")
    bench.append("mail: say who it is from")
    bench.drain()
    assert bench.read("skills/mail/origin.json")
    undo(bench.store, next(e for e in history.entries(bench.store.git) if e.kind == "regen").commit)
    assert bench.read("skills/mail/AGENTS.md") == ""


def test_a_proposal_is_no_lesson_to_undo(bench: Bench) -> None:
    from tests.tune.conftest import request

    tune.propose(bench.store, request(), bench.env)
    with pytest.raises(CannotUndo, match="harness tune reject"):
        undo(bench.store, "HEAD")


def test_an_undo_can_be_undone(bench: Bench) -> None:
    entry = learn(bench, "dates must be ISO")
    before = bench.read(LOADER)
    undo(bench.store, entry.short)
    undo(bench.store, "HEAD")
    assert bench.read(LOADER) == before
    assert bench.project.ok("regen", "status", "--json").json["queue"] == []


def test_undo_keeps_later_changes_elsewhere_in_the_file(bench: Bench) -> None:
    learn(bench, "dates must be ISO")
    first = fix(bench, "## Critical Rules\n", "## Critical Rules\n\n- rule one\n")
    fix(bench, "## Self-Test\n", "## Self-Test\n\n- check two\n")
    undo(bench.store, first.short)
    text = bench.read(LOADER)
    assert "rule one" not in text
    assert "check two" in text
    assert "dates must be ISO" in text


def test_undo_names_the_lines_in_conflict_and_changes_nothing(bench: Bench) -> None:
    learn(bench, "dates must be ISO")
    first = fix(bench, "## Critical Rules\n", "## Critical Rules\n\n- rule one\n")
    fix(bench, "- rule one\n", "- rule one, sharper\n")
    head, number = bench.store.head, line_of(bench, "rule one")
    done = bench.project.harness("undo", first.short)
    assert done.code == 3
    assert f"{LOADER} line" in done.err
    with pytest.raises(CannotUndo) as caught:
        undo(bench.store, first.short)
    assert any(abs(int(word) - number) <= 1 for word in caught.value.why.replace(",", " ").split() if word.isdigit())
    assert bench.store.head == head


def test_undo_twice_and_undo_by_hand_made_commits_say_so(bench: Bench) -> None:
    entry = learn(bench, "dates must be ISO")
    undo(bench.store, entry.short)
    with pytest.raises(CannotUndo, match="undone already"):
        undo(bench.store, entry.short)
    by_hand = bench.project.git("log", "--format=%h", "--grep=^skills: aeo").strip()
    with pytest.raises(CannotUndo, match="made by hand"):
        undo(bench.store, by_hand)
    assert bench.project.harness("undo", "zzzz").code == 2


def test_an_agent_cannot_undo(bench: Bench) -> None:
    entry = learn(bench, "dates must be ISO")
    assert bench.project.harness("undo", entry.short, env={"CLAUDECODE": "1"}).code == 3


def test_undo_leaves_a_persons_own_change_on_disk(bench: Bench) -> None:
    entry = learn(bench, "dates must be ISO")
    path = bench.workspace.root / LOADER
    path.write_text(path.read_text() + "\nmine\n")
    assert "still there" in bench.project.ok("undo", entry.short).out
    assert "mine" in path.read_text()


def test_undoing_an_undo_names_the_lesson_and_not_the_undo(bench: Bench) -> None:
    bench.append("aeo: the button moved")
    bench.drain()
    lesson = next(e for e in history.entries(bench.store.git) if e.kind == "regen")
    assert "the button moved" in lesson.subject
    subjects = []
    name = lesson.commit
    for _ in range(3):
        name = undo(bench.store, name).landed.commit or ""
        subjects.append(history.find(bench.store.git, name).subject.partition(": ")[2])
    away, back = (f"{verb} {lesson.short}, {lesson.subject}" for verb in ("take back", "bring back"))
    assert subjects == [away, back, away]


def test_a_skill_without_lessons_is_said_to_have_none(bench: Bench) -> None:
    with pytest.raises(NothingThere, match="nothing was learned about aeo yet"):
        why(bench.store, "aeo", bench.env)
    done = bench.project.ok("show", "aeo")
    assert "Nothing was learned about aeo yet" in done.err + done.out
