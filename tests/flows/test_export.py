"""What leaves the workspace: listed fields alone, and no word of a person in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fixtures.workspaces import PERSON, Place, run

from harness.flows.export import FIELDS, HELD_BACK, Report, UnknownLedger, export, known_names
from harness.ids import ulid
from harness.store.tick import Append, Tick
from harness.workspace import resources

SCHEMAS = Path(__file__).parents[1] / "fixtures/schemas"
PRIVATE = "tell Grace Hopper <grace@navy.mil> of Acme, +1 650-253-0000, in /home/grace/x; key AKIA" + "Q3EXAMPLE7ABCDZZ"
TEXTS = {
    "feedback": {"text": PRIVATE}, "scorecards": {"reaction": PRIVATE[:120], "diagnosis": PRIVATE[:80]}, "predictions": {"check": PRIVATE},
    "evals": {"primary_issue": PRIVATE}, "taste-hints": {"hint": PRIVATE},
}  # fmt: skip


def path_of(ledger: str) -> str:
    return "skills/aeo/scorecards.jsonl" if ledger == "scorecards" else f"state/log/{ledger}.ndjson"


def valid(ledger: str) -> dict[str, Any]:
    row: dict[str, Any] = json.loads((SCHEMAS / f"{ledger}.valid.json").read_text("utf-8"))
    return {**row, "id": ulid()}


@pytest.fixture
def full(place: Place) -> Place:
    """A workspace with a row in each ledger; the texts hold a person's data, and so does what knows the names."""
    secretless = {k: {f: t.split("; key")[0] for f, t in v.items()} for k, v in TEXTS.items()}
    rows = [Append(path_of(name), valid(name) | secretless.get(name, {})) for name in FIELDS]
    place.store.commit(
        Tick("import", "rows", [*rows, Append("state/log/approvals.ndjson", valid("approvals") | {"operator": "Acme"})])
    )
    place.write("state/operators.yaml", "operators:\n  - name: Grace Hopper\n    role: admin\n")
    run(["git", "add", "state/operators.yaml"], place.root)
    run(["git", "commit", "-qnm", "operators"], place.root, env=PERSON)
    return place


def exported(place: Place, *which: str, with_text: bool = False, **more: Any) -> tuple[list[dict[str, Any]], Report]:
    report = Report()
    return list(export(place.store, which or tuple(FIELDS), report, with_text=with_text, **more)), report


def test_every_field_of_every_exported_ledger_has_been_decided() -> None:
    for name, fields in FIELDS.items():
        schema = json.loads((resources() / f"schemas/{name}.schema.json").read_text("utf-8"))
        assert set(schema["properties"]) == set(fields) | HELD_BACK[name], name
        assert not set(fields) & HELD_BACK[name]


def test_without_text_no_word_leaves(full: Place) -> None:
    records, report = exported(full)
    assert [r["ledger"] for r in records] == list(FIELDS)
    text = json.dumps(records)
    for private in ("Grace", "Acme", "navy", "650-253", "/home/grace", "s1"):
        assert private not in text
    for record in records:
        assert set(record) <= {"ledger", *FIELDS[record["ledger"]]}
        assert record["id"]
    assert report.rows == dict.fromkeys(FIELDS, 1)
    assert report.fields["feedback"] == {"line": 1, "session": 1, "text": 1}
    assert report.removed == {}


def test_with_text_the_words_leave_and_the_person_stays(full: Place) -> None:
    records, report = exported(full, with_text=True)
    feedback = records[0]
    assert feedback["text"] == "tell [name] <[mail]> of [name], [phone], in [home-path]/x"
    text = json.dumps(records)
    for private in ("Grace", "Acme", "navy", "650-253", "/home/grace"):
        assert private not in text
    assert report.names == 2
    assert report.removed["mail"] >= 5


def test_a_skill_that_bears_a_known_name_is_scrubbed_too(full: Place) -> None:
    full.store.commit(
        Tick("import", "row", [Append("state/log/runs.ndjson", valid("runs") | {"skill": "acme-reports"})])
    )
    records, _ = exported(full, "runs")
    assert records[-1]["skill"] == "[name]-reports"


def test_further_names_can_be_given(full: Place) -> None:
    full.store.commit(
        Tick("import", "row", [Append("state/log/feedback.ndjson", valid("feedback") | {"text": "as Zoë wishes"})])
    )
    records, _ = exported(full, "feedback", with_text=True, extra=["Zoe"])
    assert records[-1]["text"] == "as [name] wishes"


def test_a_row_that_was_undone_does_not_leave(full: Place) -> None:
    row = next(iter(full.store.rows("state/log/feedback.ndjson")))
    assert isinstance(row, dict)
    gone = json.loads((SCHEMAS / "undone.valid.json").read_text("utf-8")) | {
        "id": ulid(),
        "row": row["id"],
        "again": False,
    }
    full.store.commit(Tick("import", "undone", [Append("state/log/undone.ndjson", gone)]))
    records, report = exported(full, "feedback")
    assert records == []
    assert report.rows == {}


def test_names_are_known_from_operators_approvals_and_the_ledger(full: Place) -> None:
    full.write(
        "state/log/ledger/obligations.ndjson",
        json.dumps({"id": "7", "counterparty": "Globex", "summary": "x", "row": {"operator": "Kim Lee"}}) + "\n",
    )
    run(["git", "add", "-f", "state/log/ledger"], full.root)
    run(["git", "commit", "-qnm", "ledger"], full.root, env=PERSON)
    assert known_names(full.store) == {"Grace Hopper", "Acme", "Globex", "Kim Lee"}


def test_a_value_of_another_kind_than_the_table_says_stays(full: Place) -> None:
    """A hand-made commit may hold anything."""
    path = full.root / "state/log/runs.ndjson"
    row = valid("runs") | {
        "skill": {"a": 1},
        "via": "x\n<b>",
        "base_sha256": "grace@navy.mil",
        "ts": "Acme",
        "extra": "Acme",
    }
    path.write_text(path.read_text("utf-8") + json.dumps(row) + "\nno row\n", "utf-8")
    run(["git", "commit", "-qnam", "by hand"], full.root, env=PERSON)
    records, report = exported(full, "runs")
    assert set(records[-1]) & {"skill", "via", "base_sha256", "ts", "extra"} == set()
    assert report.fields["runs"]["(unknown)"] == 1
    assert report.unread == {"runs": 1}


def test_a_ledger_that_is_not_exported_is_named(full: Place) -> None:
    with pytest.raises(UnknownLedger, match="quarantine"):
        exported(full, "quarantine")


def test_the_command_writes_lines_a_file_and_a_report(full: Place, tmp_path: Path) -> None:
    lines = full.harness("export").splitlines()
    assert [json.loads(line)["ledger"] for line in lines] == list(FIELDS)
    target = tmp_path / "out.ndjson"
    answer = json.loads(full.harness("export", "feedback", "--with-text", "-o", str(target), "--json"))
    assert answer["report"]["rows"] == {"feedback": 1}
    assert answer["report"]["removed"] == {"home-path": 1, "mail": 1, "name": 2, "phone": 1}
    assert target.stat().st_mode & 0o777 == 0o600
    before = target.read_text("utf-8")
    assert json.loads(before)["text"].startswith("tell [name]")
    full.harness("export", "-o", str(target), ok=(1,))
    assert target.read_text("utf-8") == before
    full.harness("export", "runs", "-o", str(target), "--force")
    assert json.loads(target.read_text("utf-8"))["ledger"] == "runs"
    full.harness("export", "-o", str(tmp_path / "no/such/folder"), ok=(1,))
    assert sorted(p.name for p in tmp_path.iterdir() if "out" in p.name) == ["out.ndjson"]
    document = json.loads(full.harness("export", "runs", "--json"))
    assert document["rows"][0]["ledger"] == "runs"
    done = run([*_command(full), "export", "--report"], full.root)
    assert "held back of feedback: line (1), session (1), text (1)" in done.stderr


def _command(place: Place) -> list[str]:
    import sys

    return [sys.executable, "-P", "-m", "harness", "--workspace", str(place.root)]
