"""Improve: what is measured better is kept, what is not is put aside, and noise is not taken for an improvement."""

from __future__ import annotations

import json
import random
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.flows import evidence, improve, inbox, tune
from harness.flows.improve import Terms
from harness.flows.tune import NothingToTune
from harness.ids import ulid
from harness.store import gate, history
from harness.store.snapshot import packaged_policy
from harness.store.tick import Append, Tick
from harness.tune import likeness, trial
from harness.tune.variant import consolidate
from tests.flows.conftest import Bench
from tests.tune.conftest import OVERLAY, cards, request
from tests.tune.test_proposals import put

WEEK = timedelta(days=7)
# A skill with a measurable defect: every hedging rule that says "use" costs a point; each repeated rule costs a little.
SCORE = """
import json, os, sys
text = open(os.environ["HARNESS_EFFECTIVE"]).read()
lines = [l for l in text.splitlines() if l.startswith("- ")]
score = 0.9 - 0.2 * (len(lines) - len(set(l.split()[2] for l in lines))) + NOISE
print("measuring", os.environ["HARNESS_SKILL"])
print(json.dumps({"score": score}))
"""


def measure(tmp_path: Path, noise: str = "0", script: str = SCORE) -> tuple[str, ...]:
    place = tmp_path / f"score-{ulid()}.py"
    place.write_text("import random\n" + script.replace("NOISE", noise))
    return (sys.executable, str(place))


def run(bench: Bench, terms: Terms, skill: str = "aeo") -> improve.Outcome:
    said: list[str] = []
    [out] = improve.improve(bench.store, [skill], WEEK, terms, bench.env, said.append)
    return out


TWICE = "- Never hedge with may or might here.\n- Open with a number.\n- Do hedge never with may, might.\n"


def test_a_better_variant_is_kept_in_one_commit_with_its_row(bench: Bench, tmp_path: Path) -> None:
    put(bench, TWICE)
    out = run(
        bench,
        Terms(
            measure=measure(
                tmp_path,
                script=SCORE.replace("len(set(l.split()[2] for l in lines))", "len(set('hedge' in l for l in lines))"),
            )
        ),
    )
    assert out.status == "kept", out
    assert bench.read(OVERLAY).count("hedge") == 1
    entry = history.find(bench.store.git, "HEAD")
    [row] = cards(bench)
    assert (entry.kind, entry.trailers["Evidence"]) == ("improve", f"skills/aeo/scorecards.jsonl {row['id']}")
    assert (row["path"], row["kept"], row["margin"]) == ("A-cron", True, 0.02)
    assert row["score_after"] > row["score_before"]
    assert bench.project.ok("verify").code == 0


def test_a_harmful_variant_is_put_back_with_one_row(bench: Bench, tmp_path: Path) -> None:
    put(bench, TWICE)
    harmful = 'import json, os\nprint(json.dumps({"score": len(open(os.environ["HARNESS_EFFECTIVE"]).read())}))\n'
    before = bench.store.head
    out = run(bench, Terms(measure=measure(tmp_path, script=harmful)))
    assert out.status == "put back"
    assert bench.read(OVERLAY) == TWICE
    [row] = cards(bench)
    assert (row["kept"], row["reward"]) == (False, 0)
    assert history.find(bench.store.git, "HEAD").parents == [before]


def test_noise_below_the_margin_is_not_kept(bench: Bench, tmp_path: Path) -> None:
    put(bench, TWICE)
    noise = 'import json, random\nprint(json.dumps({"score": 0.6 + random.random() * 0.01}))\n'
    out = run(bench, Terms(measure=measure(tmp_path, script=noise)))
    assert out.status == "put back"
    assert bench.read(OVERLAY) == TWICE


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.05, 0.2])
def test_no_false_keep_in_two_hundred_null_trials(noise: float) -> None:
    """At the shipped margin and repeats, with scores that only noise tells apart."""
    chance = random.Random(f"null {noise}")
    draws = [[[chance.gauss(0.6, noise) for _ in range(trial.REPEATS)] for _ in range(2)] for _ in range(200)]
    assert [
        trial.judge(before, after, trial.MARGIN)
        for before, after in draws
        if trial.judge(before, after, trial.MARGIN).kept
    ] == []


@pytest.mark.parametrize("gain", [0.1, 0.3])
def test_a_true_gain_over_small_noise_is_kept(gain: float) -> None:
    chance = random.Random("gain")
    kept = sum(
        trial.judge(
            [chance.gauss(0.6, 0.01) for _ in range(5)], [chance.gauss(0.6 + gain, 0.01) for _ in range(5)], 0.02
        ).kept
        for _ in range(100)
    )
    assert kept >= 98


# --- S-45: budgets and scorers that give nothing -----------------------------------------------------------------------


def test_one_measurement_compares_nothing(bench: Bench, tmp_path: Path) -> None:
    put(bench, TWICE)
    out = run(bench, Terms(measure=measure(tmp_path), repeat=1))
    assert out.status == "put back"
    assert "budget too small, nothing compared" in out.sentence


@pytest.mark.parametrize(
    "script",
    ["pass", "print('fine')", "import sys; sys.exit(3)", 'print(\'{"score": "high"}\')', "print('{\"score\": NaN}')"],
)
def test_a_scorer_that_gives_nothing_stops_after_two_tries(bench: Bench, tmp_path: Path, script: str) -> None:
    put(bench, TWICE)
    count = tmp_path / "count"
    command = measure(tmp_path, script=f"open({str(count)!r}, 'a').write('x')\n{script}\n")
    out = run(bench, Terms(measure=command))
    assert out.status == "put back"
    assert "gave no score" in out.sentence
    assert count.read_text() == "xx"
    assert bench.read(OVERLAY) == TWICE


def test_a_budget_that_runs_out_keeps_what_was_measured(bench: Bench, tmp_path: Path) -> None:
    put(bench, TWICE)
    slow = 'import json, time\ntime.sleep(0.5)\nprint(json.dumps({"score": 0.5}))\n'
    out = run(bench, Terms(measure=measure(tmp_path, script=slow), seconds=2.0))
    assert out.status == "put back"
    assert "ran out" in out.sentence or "took over" in out.sentence
    [row] = cards(bench)
    assert row["score_before"] == 0.5


# --- without a measure --------------------------------------------------------------------------------------------------


def test_without_a_measure_a_person_is_asked_and_nothing_is_applied(bench: Bench) -> None:
    put(bench, TWICE)
    out = run(bench, Terms())
    assert out.status == "proposed"
    assert bench.read(OVERLAY) == TWICE
    [item] = inbox.items(bench.store, bench.env)
    tune.decide(bench.store, item.name, "approve", tune.Approval("terminal ada"), bench.env)
    assert bench.read(OVERLAY).count("hedge") == 1
    assert history.find(bench.store.git, "HEAD").kind == "consolidate"


def test_a_dry_run_writes_nothing(bench: Bench) -> None:
    put(bench, TWICE)
    head = bench.store.head
    out = run(bench, Terms(dry_run=True))
    assert "-- Never hedge" in out.diff or "-- Do hedge" in out.diff
    assert bench.store.head == head


def test_nothing_to_do_says_so(bench: Bench) -> None:
    put(bench, "- Open with a number.\n")
    assert run(bench, Terms()).status == "nothing"


def test_a_cluster_of_complaints_is_answered_by_a_model(bench: Bench, tmp_path: Path) -> None:
    for text in ("it hedged with may and might", "again hedged, may and might", "hedging: may, might everywhere"):
        bench.store.commit(Tick("tune", "row", [Append("skills/aeo/scorecards.jsonl", card(diagnosis=text))]))
    prompt = tmp_path / "prompt"
    bench.set(
        dispatch__preset="command",
        dispatch__command=bench.command(f"cat > {prompt}; printf 'Say it flatly: no may, no might.\\n'"),
    )
    out = run(bench, Terms())
    assert out.status == "proposed"
    assert "answers 3 complaints alike" in out.done[0]
    assert "again hedged, may and might" in prompt.read_text()
    assert "+Say it flatly: no may, no might." in out.diff


def test_a_variant_that_breaks_the_rules_is_refused(bench: Bench) -> None:
    for n in range(3):
        bench.store.commit(
            Tick("tune", "row", [Append("skills/aeo/scorecards.jsonl", card(diagnosis=f"it hedged with may, {n}"))])
        )
    bench.set(dispatch__preset="command", dispatch__command=bench.command("echo 'NEVER EVER HEDGE'"))
    out = run(bench, Terms())
    assert out.status == "refused"
    assert "capitals" in out.sentence


def test_an_agent_keeps_no_variant_by_a_measure_of_its_own(bench: Bench) -> None:
    put(bench, TWICE)
    done = bench.project.harness("improve", "aeo", "--measure", "true", env={"CLAUDECODE": "1"})
    assert done.code == 3
    assert bench.read(OVERLAY) == TWICE


def test_rows_of_both_paths_and_older_forms_are_read(bench: Bench) -> None:
    """S-25."""
    lines = [
        {"id": ulid(), "ts": "2030-01-01T00:00:00Z", "skill": "aeo", "reward": -1, "path": "B-live", "diagnosis": "x"},
        {
            "id": ulid(),
            "ts": "2030-01-02T00:00:00Z",
            "skill": "aeo",
            "path": "A-cron",
            "variant_hash": "h",
            "kept": False,
        },
        {"ts": "2030-01-03T00:00:00Z", "skill": "aeo", "reward": 1},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines) + '{"torn": \n'
    path = "skills/aeo/scorecards.jsonl"
    (bench.workspace.root / path).write_text(text)
    bench.project.git("add", path)
    bench.project.git("commit", "-qm", "rows of another tool", "--no-verify")
    from datetime import UTC, datetime

    seen = improve.harvest(bench.store, "aeo", datetime(2029, 1, 1, tzinfo=UTC))
    assert (len(seen.rows), seen.unreadable, seen.mean) == (3, 1, 0.0)


# --- consolidation, likeness ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("- Write short sentences.\n- Open with a number.\n", "- Write short sentences.\n- Open with a number.\n"),
        ("- Write short sentences.\n- Write short sentences.\n", "- Write short sentences.\n"),
        ("- Write short sentences.\n- Never write short sentences.\n", "- Never write short sentences.\n"),
        ("## A\n- Write short sentences.\n\n## B\n- Write short sentences.\n", "## B\n- Write short sentences.\n"),
        ("## Empty\n\n## Full\n- Cite sources first.\n", "## Empty\n\n## Full\n- Cite sources first.\n"),
        ("", ""),
    ],
)
def test_consolidation(text: str, after: str) -> None:
    out = consolidate(text)
    assert (out.text if out.done else text) == after


def test_refuted_lines_are_dropped() -> None:
    assert consolidate("- a good rule\n- a bad rule\n", ["- a bad rule"]).text == "- a good rule\n"


def test_complaints_about_one_thing_are_found_among_others() -> None:
    said = [
        "it hedged twice",
        "no source was named",
        "too much hedging",
        "the title is long",
        "hedges again, everywhere",
        "sources missing",
    ]
    assert likeness.clusters(said) == [[0, 2, 4]]


# --- members and evidence -------------------------------------------------------------------------------------------------


def card(**more: Any) -> dict[str, Any]:
    return {
        "id": ulid(), "ts": "2030-01-01T00:00:00Z", "skill": "aeo", "reward": -1, "signal": "explicit_negative", "reaction": "too hedgy",
        "diagnosis": "it hedged", "applied": False, "status": "rejected", "path": "B-live", "turn": None, "session": None,
        "proposal": None, "diff_sha256": None, "overlay_sha256": None, **more,
    }  # fmt: skip


def test_evidence_shows_the_change_around_an_edit_and_complaints_that_recur(bench: Bench) -> None:
    rewards = [-1, -1, -1, -1, 1, 1, 0.5, 1]
    rows = [card(reward=r, diagnosis="it hedged with may and might" if r < 0 else "fine") for r in rewards]
    rows.insert(4, card(status="applied", applied=True, proposal=ulid(), diagnosis="the edit"))
    bench.store.commit_all([Tick("tune", "row", [Append("skills/aeo/scorecards.jsonl", row)]) for row in rows])
    assert evidence.write(bench.store)
    assert evidence.write(bench.store) is None, "the same evidence is not written twice"
    [edit] = json.loads(bench.read("wiki/causal.json"))["edits"]
    assert (edit["n_before"], edit["n_after"], edit["before"], edit["after"]) == (4, 4, -1.0, 0.875)
    assert edit["interval"][0] < edit["change"] < edit["interval"][1]
    [pattern] = json.loads(bench.read("wiki/patterns.json"))["patterns"]
    assert pattern["n"] == 4
    for name in ("causal", "patterns"):
        assert (
            list(gate.schema_refusals("x", json.loads(bench.read(f"wiki/{name}.json")), name, packaged_policy())) == []
        )


def test_a_member_changes_only_on_evidence_that_exists(bench: Bench) -> None:
    """S-24."""
    place = bench.workspace.root / "team/reviewer/MEMBER.md"
    place.parent.mkdir(parents=True)
    place.write_text("# reviewer\n")
    bench.project.git("add", "team")
    bench.project.git("commit", "-qm", "team: reviewer")
    base = place.read_bytes()
    for given in ((), ("P-00000000",)):
        with pytest.raises(NothingToTune, match="needs evidence"):
            tune.propose(bench.store, request(name="reviewer", member=True, evidence=given), bench.env)
    for _ in range(3):
        bench.store.commit(
            Tick("tune", "row", [Append("skills/aeo/scorecards.jsonl", card(diagnosis="it hedged with may and might"))])
        )
    evidence.write(bench.store)
    [pattern] = json.loads(bench.read("wiki/patterns.json"))["patterns"]
    document, short = tune.propose(
        bench.store, request(name="reviewer", member=True, evidence=(pattern["id"],)), bench.env
    )
    assert bench.read("team/reviewer/overlay.md") == "", "advisory until a person approves"
    assert pattern["id"] in (inbox.items(bench.store, bench.env)[0].text)
    tune.decide(bench.store, short, "approve", tune.Approval("terminal ada"), bench.env)
    assert bench.read("team/reviewer/overlay.md") == "State facts; drop may, might and could.\n"
    assert place.read_bytes() == base
    assert pattern["id"] in history.find(bench.store.git, "HEAD").trailers["Evidence"]
    assert document["kind"] == "member"


def test_show_effective_joins_base_and_overlay_and_names_the_origin_of_lines(bench: Bench) -> None:
    put(bench, "By hand.\n")
    _, short = tune.propose(bench.store, request(), bench.env)
    tune.decide(bench.store, short, "approve", tune.Approval("terminal ada"), bench.env)
    text = bench.project.ok("skills", "show", "aeo", "--effective").out
    assert text.endswith("# base\n\nBy hand.\nState facts; drop may, might and could.\n")
    lines = bench.project.ok("skills", "show", "aeo", "--json").json["lines"]
    assert [(one["text"][:8], one["origin"]) for one in lines] == [("By hand.", "hand"), ("State fa", "user")]
