"""The skill that ships: what it tells an agent to run can be run, and it obeys the rules that it teaches."""

from __future__ import annotations

import re

from harness.flows import tune
from harness.store import gate
from harness.store.snapshot import packaged_policy
from harness.workspace import resources
from tests.flows.conftest import Bench

PLACE = resources() / "skills" / "tune"


def test_its_frontmatter_obeys_the_schema_and_its_name_is_its_folder() -> None:
    meta, why = gate.frontmatter((PLACE / "SKILL.md").read_text("utf-8"))
    assert not why
    assert meta
    assert meta["name"] == "tune"
    assert len(meta["description"]) <= 1024
    assert list(gate.schema_refusals("x", meta, "skill-frontmatter", packaged_policy())) == []


def test_the_command_that_it_names_makes_a_proposal(bench: Bench) -> None:
    [command] = re.findall(r"harness (tune propose .*?)\n\s*```", (PLACE / "SKILL.md").read_text("utf-8"), re.S)
    edit = bench.project.root / "edit.txt"
    edit.write_text("State facts; drop may and might.\n")
    import shlex

    words = shlex.split(command.replace("\\\n", " ").replace("SKILL", "aeo").replace("FILE", "edit.txt"))
    assert "Proposal" in bench.project.ok(*words).out
    assert len(tune.open_proposals(bench.store)) == 1


def test_every_command_in_it_exists(bench: Bench) -> None:
    text = "".join((PLACE / name).read_text("utf-8") for name in ("SKILL.md", "AGENTS.md"))
    named = {tuple(m.split()) for m in re.findall(r"`harness ([a-z]+(?: (?:list|show|propose|apply))?)", text)}
    assert named
    for words in named:
        assert bench.project.harness(*words, "--help").code == 0, words
