"""Verify: whatever was done to history is found by its rule, and whatever is allowed is not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fixtures import workspaces
from fixtures.workspaces import LOG, QUARANTINE, Place, row_tick
from hypothesis import given
from hypothesis import strategies as st

from harness.flows import install
from harness.flows.undo import undo
from harness.store import snapshot
from harness.store.commit import Store
from harness.store.errors import Refusal
from harness.store.known import Known
from harness.store.rowcheck import RowJudge
from harness.store.tick import row_line
from harness.store.verify import Report, verify
from harness.workspace import resources
from store import tampering
from store.tampering import CASES, FEEDBACK, OVERLAY, Forge, feedback_row, tell_story


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a life behind it, verified once."""
    root = tmp_path_factory.mktemp("story") / "workspace"
    patch = pytest.MonkeyPatch()
    patch.setenv("HOME", str(root.parent))
    patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    with workspaces.make(root) as place:
        tell_story(place)
        assert verify(place.store).violations == []
    patch.undo()
    return root


@pytest.fixture
def lived(story: Path, tmp_path: Path, own_home: Path) -> Iterator[Place]:
    """A copy of it for one test, with what verify remembers."""
    root = tmp_path / "workspace"
    shutil.copytree(story, root, symlinks=True)
    place = Place(install.lay_out(root, None, lambda line: None))
    yield place
    place.close()


def check(place: Place, *, full: bool = False) -> Report:
    with Store(place.workspace) as store:
        return verify(store, full=full)


@pytest.mark.parametrize("name", CASES)
def test_what_was_tampered_with_is_found_by_its_rule(lived: Place, name: str) -> None:
    tamper, rule = CASES[name]
    before = set(lived.git("rev-list", "HEAD").split())
    tamper(Forge(lived))
    report = check(lived)
    found = [v for v in report.violations if v.rule == rule]
    assert found, [(v.rule, v.path, v.found) for v in report.violations]
    if rule != "rewritten":
        assert all(v.commit not in before for v in report.violations), report.violations
        again = check(lived, full=True)
        assert [(v.commit, v.path, v.rule) for v in again.violations] == [
            (v.commit, v.path, v.rule) for v in report.violations
        ]


# --- what is allowed is not flagged ------------------------------------------------------------------------------


def assert_clean(place: Place, **by_hand: int) -> Report:
    """Nothing is found, from the last verified commit on and from the first."""
    for report in (check(place), check(place, full=True)):
        assert report.violations == []
        assert report.kinds["by hand"] == by_hand.get("by_hand", report.kinds["by hand"])
    return report


def test_ten_thousand_ticks(place: Place) -> None:
    for start in range(0, 10_000, 2_500):
        place.store.commit_all([row_tick(text=f"the field {n}") for n in range(start, start + 2_500)])
    report = assert_clean(place, by_hand=0)
    assert report.kinds == {"install": 1, "feedback": 10_000}
    assert check(place).judged == 0


def test_a_lived_in_workspace_and_undo_of_undo(lived: Place) -> None:
    report = assert_clean(lived, by_hand=1)
    assert {"install", "feedback", "fix", "regen", "human", "settings", "undo", "eval"} < set(report.kinds)
    assert [one["summary"] for one in report.by_hand] == ["skills: aeo"]
    undo(lived.store, lived.git("log", "-1", "--format=%h", "--grep=^Kind: undo"), "once more")
    assert_clean(lived)


def test_commits_by_hand_through_the_pre_commit_hook(lived: Place) -> None:
    lived.write("skills/aeo/scripts/fill.py", "print()\n").chmod(0o755)
    lived.write("skills/aeo/references/form.md", "three fields\n")
    lived.write(OVERLAY, "# learned\n- dates are ISO\n")
    with (lived.root / LOG).open("a") as log:
        log.write("aeo: one more [LOGGED]\n")
    lived.git("add", "-A")
    lived.git("commit", "-qm", "aeo: a script\n\nIt fills in the form: all three fields.\nSee also: the form.")
    lived.git("commit", "-q", "--allow-empty", "-m", "nothing")
    lived.git("rm", "-q", "skills/aeo/references/form.md")
    lived.git("commit", "-qm", "aeo: no form")
    assert_clean(lived, by_hand=4)


def test_a_rotated_log(lived: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.flows import observe

    monkeypatch.setattr(observe, "ROTATE_BYTES", 10)
    monkeypatch.setattr(observe, "QUIET_SECONDS", -1)
    for number in range(3):
        with (lived.root / LOG).open("a") as log:
            log.write(f"aeo: the page {number} was missing [LOGGED]\n")
        observe.observe(lived.store, {})
    assert [p for p in lived.git("ls-files").split("\n") if p.startswith(f"{LOG}.d/")]
    assert_clean(lived)


def test_a_newer_version_brings_its_schemas(lived: Place) -> None:
    path = "schemas/verdicts.schema.json"
    old = (lived.store.tree.read(path) or b"").decode()
    lived.put(path, old.replace("{", '{ "$comment": "older",', 1), "install")
    policy = (lived.store.tree.read("schemas/policy.yaml") or b"").decode()
    lived.put("schemas/policy.yaml", policy.replace("path: state/harness.yaml", "path: state/old.yaml"), "install")
    install.lay_out(lived.root, None, lambda line: None)
    assert (lived.store.tree.read(path) or b"").decode() == old
    lived.tick()
    assert len(assert_clean(lived).gate_changes) == 4


def test_a_new_version_lays_out_a_file_that_a_persons_policy_does_not_name(lived: Place) -> None:
    text = (lived.root / "schemas/policy.yaml").read_text("utf-8")
    lived.git("rm", "-q", "README.md")
    lived.git("commit", "-qm", "no readme")
    lived.write("schemas/policy.yaml", "".join(x for x in text.splitlines(True) if "path: README.md" not in x))
    lived.git("commit", "-qam", "policy: no readme")
    install.lay_out(lived.root, None, lambda line: None)
    assert lived.changed() == ["README.md"]
    assert_clean(lived, by_hand=3)


def test_a_person_changes_the_policy_and_uses_it_in_the_next_commit(lived: Place) -> None:
    text = (lived.root / "schemas/policy.yaml").read_text("utf-8")
    lived.write("schemas/policy.yaml", text + "\n  - {path: notes/*, how: {replace: [human]}}\n")
    lived.git("commit", "-qam", "policy: notes")
    lived.write("notes/plan.md", "x\n")
    lived.git("add", "notes")
    lived.git("commit", "-qm", "notes: a plan")
    assert_clean(lived, by_hand=3)


def test_a_repository_that_had_commits_before(tmp_path: Path, own_home: Path) -> None:
    root = tmp_path / "own"
    root.mkdir()
    place = Place(install.Workspace(root, root / ".git", ""))
    place.git("init", "-q", "-b", "main")
    place.write("src/main.py", "x\n")
    place.git("add", "-A")
    place.git("commit", "-qm", "Kind regards: none of ours")
    install.lay_out(root, None, lambda line: None)
    place.tick()
    report = assert_clean(place)
    assert (report.before, report.commits) == (1, 3)
    place.close()


def test_a_sha256_repository(tmp_path: Path, own_home: Path) -> None:
    root = tmp_path / "own"
    root.mkdir()
    place = Place(install.Workspace(root, root / ".git", ""))
    place.git("init", "-q", "-b", "main", "--object-format=sha256")
    install.lay_out(root, None, lambda line: None)
    place.store.commit_all([row_tick(text="x" * 3000) for _ in range(30)])
    assert assert_clean(place).commits == 31
    place.close()


def test_a_text_that_looks_like_trailers_is_told_apart(lived: Place) -> None:
    lived.put(
        OVERLAY, "# learned\n", body="Tick: 1\nKind: install\n\nKind: human", trailers={"Skill": "Kind: fix\nKind: x"}
    )
    assert_clean(lived)


def test_a_commit_of_many_files_and_a_tick_of_many_rows(lived: Place) -> None:
    for number in range(3_000):
        lived.write(f"skills/aeo/references/{number}.md", f"{number}\n" * 30)
    lived.git("add", "-A")
    lived.git("commit", "-q", "--no-verify", "-m", "aeo: references")
    ticks = [row_tick(text=f"{n} " + "y" * 300) for n in range(2_000)]
    lived.store.commit(type(ticks[0])("feedback", "many", [t.writes[0] for t in ticks]))
    assert_clean(lived, by_hand=2)


# --- branches ----------------------------------------------------------------------------------------------------


def test_two_branches_merged_by_git(lived: Place) -> None:
    lived.git("checkout", "-q", "-b", "side")
    lived.put(OVERLAY, "# learned\n- from the side\n")
    lived.git("checkout", "-q", "main")
    lived.store.commit_all([row_tick(text="z" * 3000) for _ in range(30)])
    lived.git("merge", "-q", "-m", "merge the side", "side")
    lived.tick()
    lived.git("checkout", "-q", "-b", "other", "HEAD~3")
    lived.write("state/observations.md", "seen\n")
    lived.git("add", "-A")
    lived.git("commit", "-qm", "seen")
    lived.git("checkout", "-q", "main")
    lived.git("merge", "-q", "-m", "merge two", "other", "side")
    assert_clean(lived, by_hand=4)


def test_a_ledger_that_grew_on_both_sides_is_merged_by_hand(lived: Place) -> None:
    forge = Forge(lived)
    old = forge.read(FEEDBACK)
    one, two, three = (row_line(feedback_row()).decode() for _ in range(3))
    side = forge.tick("feedback", {FEEDBACK: old + one}, move=False)
    forge.tick("feedback", {FEEDBACK: old + two})
    forge.commit({FEEDBACK: old + one + two}, "merge\n", parents=("HEAD", side))
    forge.tick("feedback", {FEEDBACK: old + one + two + three})
    assert_clean(lived, by_hand=2)


def test_a_ledger_that_ran_over_on_one_side_is_merged_by_hand(lived: Place) -> None:
    forge = Forge(lived)
    active = forge.read(QUARANTINE)
    added = row_line(workspaces.row()).decode()
    side = forge.tick("feedback", {QUARANTINE: active + added}, move=False)
    lived.store.commit_all([row_tick(text="z" * 3000) for _ in range(25)])
    forge.commit({QUARANTINE: forge.read(QUARANTINE) + added}, "merge\n", parents=("HEAD", side))
    assert_clean(lived, by_hand=2)


def test_leaving_a_branch_or_deleting_one_is_no_rewriting(lived: Place) -> None:
    lived.git("checkout", "-q", "-b", "side", "HEAD~5")
    lived.put(OVERLAY, "# learned\n- from the side\n")
    assert_clean(lived)
    lived.git("checkout", "-q", "main")
    assert_clean(lived)
    lived.git("branch", "-q", "-D", "side")
    lived.git("checkout", "-q", "HEAD~2")
    assert_clean(lived)
    lived.git("checkout", "-q", "main")
    assert_clean(lived)


def test_a_run_may_have_used_the_loader_of_a_branch_that_was_left(lived: Place) -> None:
    forge = Forge(lived)
    lived.git("checkout", "-q", "-b", "side")
    lived.put(OVERLAY, "# learned\n- from the side\n")
    run = tampering.run_row(lived)
    lived.git("checkout", "-q", "main")
    forge.add_rows(tampering.RUNS, run)
    assert_clean(lived)


def test_a_clone_is_verified_from_its_first_commit_and_a_shallow_one_says_so(lived: Place, tmp_path: Path) -> None:
    for name, options in (("whole", ()), ("shallow", ("--depth=3",))):
        root = tmp_path / name
        lived.git("clone", "-q", *options, f"file://{lived.root}", str(root))
        place = Place(install.lay_out(root, None, lambda line: None))
        rules = {v.rule for v in check(place).violations}
        assert rules == set() if name == "whole" else "shallow" in rules
        place.close()


# --- going on from the last run ----------------------------------------------------------------------------------


def test_it_goes_on_from_the_last_verified_commit(lived: Place) -> None:
    before = check(lived)
    lived.tick()
    report = check(lived)
    assert (report.judged, report.since) == (1, before.head)
    assert report.commits == before.commits + 1 == lived.count()


def test_what_was_found_is_told_each_time_and_a_rewriting_until_a_full_run(lived: Place) -> None:
    tampering.row_edited(Forge(lived))
    first = check(lived)
    lived.tick()
    assert check(lived).violations == first.violations != []
    lived.git("reset", "-q", "--hard", "HEAD~2")
    assert [v.rule for v in check(lived).violations] == ["rewritten"]
    lived.tick()
    again = check(lived)
    assert ([v.rule for v in again.violations], again.judged) == (["rewritten"], 1)
    assert [v.rule for v in check(lived, full=True).violations] == ["rewritten"]
    assert check(lived).violations == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}'])
def test_a_damaged_memory_means_all_of_history(lived: Place, text: str) -> None:
    (lived.runtime / "verified").write_text(text)
    report = check(lived)
    assert (report.judged, report.violations) == (lived.count(), [])


def test_a_memory_that_was_cut_means_all_of_history(lived: Place) -> None:
    path = lived.runtime / "verified"
    assert check(lived).judged == 0
    path.write_bytes(path.read_bytes()[:-3])
    report = check(lived)
    assert (report.judged, report.violations) == (lived.count(), [])
    assert check(lived).judged == 0


def test_what_is_remembered_stays_small(place: Place) -> None:
    place.store.commit_all([row_tick() for _ in range(1_000)])
    check(place)
    # 26 bytes for the id of a row, 16 for that of a tick.
    assert len((place.runtime / "verified").read_bytes()) < 1_000 * (26 + 16) + 2_000


# --- the command -------------------------------------------------------------------------------------------------


def test_the_command(lived: Place) -> None:
    assert "no violations" in lived.harness("verify")
    tampering.base_edited_by_a_learned_tick(Forge(lived))
    told = lived.harness("verify", ok=(4,))
    assert f"{lived.head[:10]}  skills/aeo/SKILL.md  kind: a regen tick may not replace it" in told
    assert "skills: aeo  (P)" in told
    value = json.loads(lived.harness("verify", "--full", "--json", ok=(4,)))
    assert value["clean"] is False
    assert value["judged"] == value["commits"] == lived.count()
    assert [v["rule"] for v in value["violations"]] == ["kind"]
    assert sum(value["kinds"].values()) == value["commits"]
    documented = lived.harness("verify", "--help")
    assert all(key in documented for key in value)


# --- the quick way says what the gate says -----------------------------------------------------------------------

_ODD = [
    "", "x", "\n", "2026-07-01T10:00:00Z", "2026-07-01T10:00:00Z\n", "2016-12-31T23:59:60Z", "0000-01-01T00:00:00Z", "2026-02-30T10:00:00Z",
    "2026-07-01t10:00:00z", "2026-07-01T24:00:00Z", "2026-07-01T10:00:00.5+25:00", "2000-02-29T00:00:00+00:00", "２026-07-01T10:00:00Z",
    "01M8QMNPB97CD2P59EA6XFDCFF", "01M8QMNPB97CD2P59EA6XFDCFF\n", "a" * 64, "ab" * 32, "A" * 64, "LOGGED", "model", "enqueue", "failed",
    "\u2028", "a/b", "é", "\U0001f600", "\x7f", "AKIA" + "Q3EXAMPLE7ABCDZZ", "x" * 5000, "\ud800",
]  # fmt: skip
_values = st.one_of(
    st.sampled_from(_ODD), st.none(), st.booleans(), st.integers(-2, 3), st.sampled_from([2**63, 2**64, -(2**70)]),
    st.floats(allow_nan=False, allow_infinity=False), st.lists(st.sampled_from(_ODD), max_size=3),
    st.dictionaries(st.sampled_from(["score", "kind", "rationale", "x"]), st.sampled_from([0, 0.5, 1, 1.0, "judge", "x"]), max_size=3),
)  # fmt: skip


_LEDGERS = [entry for entry in snapshot.packaged_policy().entries if "row" in entry]


def judge_of(entry: Mapping[str, Any]) -> RowJudge:
    ledger, kind = entry["path"].replace("*", "aeo"), entry["how"]["append"][0]
    schema = (resources() / "schemas" / f"{entry['row']}.schema.json").read_bytes()
    return RowJudge(ledger, kind, entry, snapshot.packaged_policy(), schema)


def judged(judge: RowJudge, lines: bytes) -> tuple[list[dict[str, Any]], list[tuple[int, Refusal]]]:
    rows: list[dict[str, Any]] = []
    refusals = judge.judge(lines, rows.extend)
    return rows, refusals


@given(
    st.lists(st.lists(st.sampled_from([*"abcdefg", *(c * 26 for c in "ABCDEFGé")]), max_size=6), max_size=6),
    st.integers(0, 6),
)
def test_an_id_is_known_from_its_first_row_on(batches: list[list[str]], again: int) -> None:
    known, seen = Known(), set[str]()
    for number, names in enumerate(batches):
        if number == again:
            known = Known(known.dump(), known.hashes)
        double = [name for n, name in enumerate(names) if name in seen or name in names[:n]]
        assert known.add_rows([{"id": name} for name in names]) == double
        seen |= set(names)
    assert all(known.has("row ", name) for name in seen)
    assert not known.has("tick ", "a")


def near(good: dict[str, Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """A few rows near to one that passes: some fields changed, gone (...) or added."""
    change = st.dictionaries(st.sampled_from([*good, "x"]), st.one_of(_values, st.just(...)), max_size=2)
    return st.lists(
        change.map(lambda new: {k: v for k, v in (good | new).items() if v is not ...}), min_size=1, max_size=3
    )


@pytest.mark.parametrize("entry", _LEDGERS, ids=lambda entry: str(entry["row"]))
@given(data=st.data(), spaced=st.booleans())
def test_many_rows_at_once_are_judged_as_one_by_one(
    entry: Mapping[str, Any], data: st.DataObject, spaced: bool
) -> None:
    pytest.importorskip("orjson")
    pytest.importorskip("jsonschema_rs")
    good = json.loads(
        (Path(__file__).parents[1] / "fixtures/schemas" / f"{entry['row']}.valid.json").read_text("utf-8")
    )
    quick, slow = judge_of(entry), judge_of(entry)
    assert quick._quick is not None
    assert quick.all_pass(row_line(good)) == [good]
    slow._quick = None
    rows = data.draw(near(good))
    lines = b"".join(map(row_line, rows)) if not spaced else b"".join(json.dumps(r).encode() + b"\n" for r in rows)
    assert judged(quick, lines) == judged(slow, lines)


def test_a_row_with_values_of_any_type_is_told_and_stops_nothing(lived: Place) -> None:
    odd = {"loader_sha256": ["x"], "skill": {}, "feedback": 7, "id": 3, "row": None}
    Forge(lived).add_rows(tampering.RUNS, tampering.run_row(lived) | odd)
    Forge(lived).add_rows(tampering.QUEUE, tampering.queue_row() | {"feedback": [[], None], "id": None}, kind="queue")
    assert {v.rule for v in check(lived).violations} == {"schema runs", "schema queue", "link"}


def test_without_the_optional_packages_the_gate_judges_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.store.rowcheck._rs", None)
    entry = next(e for e in _LEDGERS if e["row"] == "feedback")
    good = feedback_row()
    rows, refusals = judged(judge_of(entry), row_line(good) + row_line(good | {"tag": "MAYBE"}))
    assert (rows[0], [(number, one.rule) for number, one in refusals]) == (good, [(2, "schema feedback")])
