"""Which skills are found, what they are called, and where their lessons go."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.skills.find import Skill, UnknownSkill, find_all, resolve


class Machine:
    """A home with a client's folders, a project, and a workspace in it."""

    def __init__(self, base: Path) -> None:
        self.home, self.project = base / "home", base / "project"
        self.root = self.project / ".harness"
        for folder in (self.home, self.root / "skills"):
            folder.mkdir(parents=True)
        self.plugins: dict[str, list[dict[str, str]]] = {}

    def skill(self, place: Path, name: str, own: str | None = None) -> Path:
        folder = place / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {own or name}\ndescription: x\n---\nbody\n", "utf-8")
        return folder

    def user(self, name: str) -> Path:
        return self.skill(self.home / ".claude/skills", name)

    def of_project(self, name: str) -> Path:
        return self.skill(self.project / ".claude/skills", name)

    def workspace(self, name: str, own: str | None = None) -> Path:
        return self.skill(self.root / "skills", name, own)

    def plugin(self, plugin: str, name: str) -> Path:
        root = self.home / ".claude/plugins/cache/market" / plugin / "1.0.0"
        folder = self.skill(root / "skills", name)
        self.plugins[f"{plugin}@market"] = [{"scope": "user", "installPath": str(root), "version": "1.0.0"}]
        (self.home / ".claude/plugins/installed_plugins.json").write_text(
            json.dumps({"version": 2, "plugins": self.plugins})
        )
        return folder

    def found(self, **env: str) -> list[Skill]:
        return [s for s in find_all(self.root, self.project, self.home, env) if s.source != "packaged"]

    def folders(self, **env: str) -> dict[str, Path]:
        return {s.folder: s.path for s in self.found(**env)}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_five_sources_in_their_order(machine: Machine) -> None:
    machine.workspace("w")
    machine.of_project("p")
    machine.user("u")
    machine.plugin("acme", "greet")
    (machine.root / "skills/learned-only").mkdir()
    assert [(s.folder, s.source) for s in machine.found()] == [
        ("greet", "plugin"),
        ("u", "user"),
        ("p", "project"),
        ("w", "workspace"),
    ]


def test_packaged_skills_come_first(machine: Machine) -> None:
    machine.workspace("w")
    sources = [s.source for s in find_all(machine.root, None, machine.home, {})]
    assert sources == sorted(sources, key=["packaged", "workspace"].index)


def test_names(machine: Machine) -> None:
    machine.plugin("acme", "greet")
    machine.workspace("changelog-helper", own="'change-log'")
    names = {s.folder: s.names for s in machine.found()}
    assert names == {"greet": ("greet", "acme:greet"), "changelog-helper": ("changelog-helper", "change-log")}


def test_of_two_bases_the_winner_has_the_bare_folder(machine: Machine) -> None:
    user, project = machine.user("aeo"), machine.of_project("aeo")
    assert machine.folders() == {"user~aeo": user, "aeo": project}
    workspace = machine.workspace("aeo")
    assert machine.folders() == {"user~aeo": user, "project~aeo": project, "aeo": workspace}


def test_a_folder_with_lessons_stays_with_the_base_that_they_are_about(machine: Machine) -> None:
    user = machine.user("aeo")
    (machine.root / "skills/aeo").mkdir()
    (machine.root / "skills/aeo/origin.json").write_text(
        json.dumps({"source": "user", "path": str(user), "base_sha256": None})
    )
    project = machine.of_project("aeo")
    assert machine.folders() == {"aeo": user, "project~aeo": project}


def test_a_plugin_that_moved_with_an_update_keeps_its_folder(machine: Machine) -> None:
    greet = machine.plugin("acme", "greet")
    (machine.root / "skills/greet").mkdir()
    (machine.root / "skills/greet/origin.json").write_text(
        json.dumps({"source": "plugin", "path": "/gone/0.9.0", "base_sha256": None})
    )
    user = machine.user("greet")
    assert machine.folders() == {"greet": greet, "user~greet": user}


def test_two_plugins_and_a_name_in_another_case(machine: Machine) -> None:
    acme, other, user = machine.plugin("acme", "greet"), machine.plugin("other", "greet"), machine.user("Greet")
    assert machine.folders() == {"acme~greet": acme, "other~greet": other, "Greet": user}


def test_a_base_that_is_reached_twice_is_one(machine: Machine) -> None:
    workspace = machine.workspace("aeo")
    (machine.project / ".claude/skills").mkdir(parents=True)
    os.symlink(workspace, machine.project / ".claude/skills/aeo")
    assert machine.folders() == {"aeo": workspace}
    machine.user("u")
    assert [s.source for s in find_all(machine.root, machine.home, machine.home, {}) if s.name == "u"] == ["project"]


def test_the_clients_folder_may_be_elsewhere(machine: Machine) -> None:
    machine.user("u")
    elsewhere = machine.skill(machine.home / "config/skills", "e")
    assert machine.folders(CLAUDE_CONFIG_DIR=str(machine.home / "config")) == {"e": elsewhere}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"plugins": []}',
        '{"plugins": {"a@b": null}}',
        '{"plugins": {"a@b": [{"installPath": 3}, {"installPath": "/x\\u0000"}, {}, 4]}}',
        "[" * 100_000,
    ],
)
def test_a_broken_list_of_plugins_hides_no_other_skill(machine: Machine, text: str) -> None:
    user = machine.user("u")
    (machine.home / ".claude/plugins").mkdir()
    (machine.home / ".claude/plugins/installed_plugins.json").write_text(text)
    assert machine.folders() == {"u": user}


def test_what_is_no_skill_is_passed_over(machine: Machine) -> None:
    place = machine.home / ".claude/skills"
    (place / "empty").mkdir(parents=True)
    (place / "file").write_text("x")
    (place / "folder/SKILL.md").mkdir(parents=True)
    os.symlink(place / "nowhere", place / "dangling")
    os.symlink(place / "loop", place / "loop")
    machine.skill(place, ".hidden")
    (place / "latin").mkdir()
    (place / "latin/SKILL.md").write_bytes(b"\xff\xfe---\nname: \xe9\n")
    assert list(machine.folders()) == ["latin"]


def test_nothing_is_needed_to_look(tmp_path: Path) -> None:
    assert all(s.source == "packaged" for s in find_all(tmp_path / "none", None, tmp_path / "nohome", {}))


# --- resolve ----------------------------------------------------------------------------------------------------------


def test_any_name_leads_to_the_folder(machine: Machine) -> None:
    machine.plugin("acme", "greet")
    machine.user("greet")
    machine.workspace("changelog-helper", own="change-log")
    skills = machine.found()
    for name, folder in {
        "greet": "greet", "GREET": "greet", "acme:greet": "acme~greet", "acme~greet": "acme~greet",
        "change-log": "changelog-helper", "changelog-helper": "changelog-helper", "team:change-log": None,
        "team:changelog-helper": "changelog-helper", "other:greet": None,
    }.items():  # fmt: skip
        if folder:
            assert resolve(name, skills, set()) == folder
        else:
            with pytest.raises(UnknownSkill):
                resolve(name, skills, set())


def test_a_folder_that_only_holds_lessons_is_known() -> None:
    assert resolve("Old-Name", [], {"old-name"}) == "old-name"
    assert resolve("acme:old-name", [], {"old-name"}) == "old-name"


def test_an_unknown_name_lists_near_ones(machine: Machine) -> None:
    machine.workspace("changelog-helper")
    with pytest.raises(UnknownSkill) as caught:
        resolve("changelog-helpr", machine.found(), {"aeo"})
    assert str(caught.value) == "no skill 'changelog-helpr'. Do you mean changelog-helper?"
    with pytest.raises(UnknownSkill, match="Known: aeo, changelog-helper"):
        resolve("\x1bzzz", machine.found(), {"aeo"})


def test_an_unknown_name_among_none() -> None:
    with pytest.raises(UnknownSkill, match=r"Add one: skills/NAME/SKILL\.md"):
        resolve("x" * 100_000, [], set())
