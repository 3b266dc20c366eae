"""Cases from public reports: what went wrong elsewhere, and what happens here."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from harness.flows import improve, tune
from harness.store import gate
from harness.store.snapshot import packaged_policy
from harness.store.tick import Replace, Tick
from tests.tune.conftest import OVERLAY, Session, cards, request
from tests.tune.test_overlay_edits import rules_broken
from tests.tune.test_proposals import PERSON

CASES = Path(__file__).parents[1] / "fixtures/cases"
LINE = "Put breaking changes first."


def learn(session: Session, name: str = "aeo") -> str:
    """An approved line for a skill; the folder that keeps it."""
    document, short = tune.propose(session.bench.store, request(f"{LINE}\n", name=name), session.env)
    tune.decide(session.bench.store, short, "approve", PERSON, session.env)
    return str(document["skill"])


def test_s14_an_overlay_belongs_to_the_base_it_was_made_for(session: Session) -> None:
    """A project's skill hides the user's of the same name: what was learned of one is not given with the other."""
    project, home = session.bench.project.root, session.bench.project.home
    mine = home / ".claude/skills/mail/SKILL.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("---\nname: mail\ndescription: The user's.\n---\n")
    assert learn(session, "mail") == "mail"
    nearer = project / ".claude/skills/mail/SKILL.md"
    nearer.parent.mkdir(parents=True)
    nearer.write_text("---\nname: mail\ndescription: The project's.\n---\n")
    session.bench.observe()
    shown = session.bench.project.ok("where", "mail", "--json").json
    assert "user" in json.dumps(shown)
    _, short = tune.propose(session.bench.store, request("Other.\n", name="project~mail"), session.env)
    tune.decide(session.bench.store, short, "approve", PERSON, session.env)
    store = session.bench.store
    assert store.tree.read("skills/mail/overlay.md") == f"{LINE}\n".encode()
    assert store.tree.read("skills/project~mail/overlay.md") == b"Other.\n"
    assert json.loads(store.tree.read("skills/project~mail/origin.json") or b"")["path"] == str(nearer.parent)


def test_s16_a_learned_line_reaches_the_model_once_by_tool_by_name_and_after_a_restart(session: Session) -> None:
    learn(session)
    by_tool = session.uses()["hookSpecificOutput"]["additionalContext"]
    typed = session.hook("UserPromptExpansion", command_name="aeo", command_args="", prompt="/aeo")
    restarted = Session(session.bench, "88888888-2f64-4a0b-9d1e-7d7a3c1f9a10")
    restarted.hook("SessionStart", source="startup")
    later = restarted.uses()["hookSpecificOutput"]["additionalContext"]
    for text in (by_tool, typed["hookSpecificOutput"]["additionalContext"], later):
        assert text.count(LINE) == 1
    whole = session.bench.project.ok("skills", "show", "aeo", "--effective").out
    assert whole.index("# base") < whole.index(LINE)


def test_s17_added_lines_are_what_counts() -> None:
    fifty = "".join(f"- rule {n}\n" for n in range(50))
    verdicts = {
        "+5/-0": rules_broken(fifty, fifty + "a\n" * 5),
        "+6/-0": rules_broken(fifty, fifty + "a\n" * 6),
        "+6/-6": rules_broken(fifty, "a\nb\nc\nd\ne\nf\n" + "".join(fifty.splitlines(True)[6:])),
        "+5/-40": rules_broken(fifty, "a\nb\nc\nd\ne\n" + "".join(fifty.splitlines(True)[40:])),
        "+0/-3": rules_broken(fifty, "".join(fifty.splitlines(True)[3:])),
    }
    assert verdicts == {
        "+5/-0": set(),
        "+6/-0": {"max-added-lines"},
        "+6/-6": {"max-added-lines"},
        "+5/-40": set(),
        "+0/-3": set(),
    }


def test_s18_an_overlay_that_is_too_long_can_be_cured() -> None:
    long = "".join(f"- rule {n}\n" for n in range(104))
    lines = long.splitlines(True)
    tick = Tick("tune", "x", [Replace(OVERLAY, long + "- one more\n", "x")], {"Approved-By": "x", "Evidence": "x"})
    [refusal] = gate.check(tick, lambda _: long.encode(), packaged_policy())
    assert "harness improve" in refusal.todo
    assert rules_broken(long, "".join(lines[:-10])) == set()
    assert rules_broken(long, "".join(lines[:-8]) + "- a\n- b\n") == set()


def test_s25_both_writers_rows_are_read(session: Session) -> None:
    data = (CASES / "S-25.jsonl").read_bytes()
    bench, path = session.bench, "skills/aeo/scorecards.jsonl"
    (bench.workspace.root / path).write_bytes(data if data.endswith(b"\n") else data + b"\n")
    bench.project.git("add", path)
    bench.project.git("commit", "-qm", "rows of another tool", "--no-verify")
    seen = improve.harvest(bench.store, "aeo", datetime(2000, 1, 1, tzinfo=UTC))
    whole = []
    for line in data.decode().splitlines():
        try:
            whole.append(json.loads(line))
        except ValueError:
            continue
    rewards = [r["reward"] for r in whole if isinstance(r.get("reward"), int | float)]
    assert seen.unreadable == len(data.decode().splitlines()) - len(whole) > 0
    assert len(seen.rows) == len([r for r in whole if r.get("ts")])
    assert seen.mean == sum(rewards) / len(rewards)


def test_s26_words_of_tools_and_of_the_model_are_no_reaction(session: Session) -> None:
    """Only the prompt event is classified; a transcript whose tool says "perfect" and whose model says "worse" is not."""
    session.says("run the linter")
    session.uses()
    for line in (CASES / "S-26.jsonl").read_text().splitlines():
        session.write(**{k: v for k, v in json.loads(line).items() if k != "timestamp"})
    session.stops("The output is worse than before, I will fix it.")
    session.hook("SessionEnd", reason="other")
    session.bench.drain()
    assert cards(session.bench) == []
