"""Our entries in a settings file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.clients import settings
from harness.clients.entries import LAUNCHER, entries
from harness.clients.settings import ALLOW_RULE, SettingsUnreadable

from .places import HOOKS, PAYLOADS, Place

THEIRS = {"type": "command", "command": "/opt/their hook.sh", "timeout": 5}
BASH = {"matcher": "Bash", "hooks": [THEIRS]}

FILES = {
    "empty object": "{}",
    "with a blank": "{ }\n",
    "with a line": "{\n}\n",
    "other settings": '{"model": "x",   "env": {"A":"ü\\u00fc"}}',
    "tabs and CRLF": '{\r\n\t"model": "x",\r\n\t"permissions": {\r\n\t\t"allow": ["Bash(ls)"\r\n\t\t]\r\n\t}\r\n}\r\n',
    "BOM": '\ufeff{\n  "model": "x"\n}\n',
    "empty hooks": '{\n  "hooks": {},\n  "permissions": {"allow": []}\n}\n',
    "empty event": '{"hooks": {"Stop": [ ], "PostToolUse":[]}}',
    "their hooks": json.dumps({"hooks": {"PostToolUse": [BASH], "Stop": [{"hooks": [THEIRS]}]}, "z": 1}, indent=4),
    "their rule": json.dumps({"permissions": {"allow": ["Read", ALLOW_RULE], "deny": []}}),
}


@pytest.fixture
def path(place: Place) -> Path:
    folder = place.project / ".claude"
    folder.mkdir()
    return folder / "settings.local.json"


def wanted(place: Place, **kind: bool) -> dict[str, list[dict[str, Any]]]:
    return entries(place.root, place.runtime, sys.executable, place.project, **kind)


def backup(path: Path) -> Path:
    return path.with_name(path.name + ".harness-backup")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", [{}, {"filters": False}, {"shared": True}])
def test_in_and_out_again(place: Place, path: Path, name: str, kind: dict[str, bool]) -> None:
    before = FILES[name].encode()
    path.write_bytes(before)
    path.chmod(0o640)
    assert settings.install(path, wanted(place, **kind))
    settings.allow_rule(path)
    once = path.read_bytes()
    value = json.loads(once.removeprefix(b"\xef\xbb\xbf"))
    assert ALLOW_RULE in value["permissions"]["allow"]
    assert settings.installed(path) == wanted(place, **kind)
    assert backup(path).read_bytes() == before
    for _ in range(3):
        assert not settings.install(path, wanted(place, **kind))
        assert not settings.allow_rule(path)
    assert path.read_bytes() == once
    assert settings.remove(path)
    assert path.read_bytes() == before
    assert path.stat().st_mode & 0o777 == 0o640
    assert not settings.remove(path)
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name]


def test_a_file_of_ours_goes_when_nothing_else_is_in_it(place: Place, path: Path) -> None:
    settings.install(path, wanted(place))
    settings.allow_rule(path)
    assert not backup(path).exists()
    assert settings.remove(path)
    assert not path.exists()
    settings.allow_rule(path)  # the rule first, then the hooks
    settings.install(path, wanted(place))
    settings.remove(path)
    assert list(path.parent.iterdir()) == []


def test_what_others_add_meanwhile_stays(place: Place, path: Path) -> None:
    settings.install(path, wanted(place))
    value = json.loads(path.read_text())
    value["model"] = "y"
    value["hooks"]["Stop"].insert(0, {"hooks": [THEIRS]})
    value["hooks"]["PostToolUse"][0]["hooks"].append(THEIRS)  # in a group of ours
    path.write_text(json.dumps(value, indent=2))
    assert not settings.install(path, wanted(place))
    assert settings.remove(path)
    left = json.loads(path.read_text())
    assert left == {
        "hooks": {"PostToolUse": [BASH], "Stop": [{"hooks": [THEIRS]}]},
        "model": "y",
    }


def test_an_entry_of_ours_that_was_changed_is_repaired_and_no_other(place: Place, path: Path) -> None:
    """H-07."""
    slow = {**THEIRS, "timeout": 2000}
    settings.install(path, wanted(place))
    value = json.loads(path.read_text())
    value["hooks"]["Stop"][0]["hooks"][0]["timeout"] = 2000
    value["hooks"]["Stop"].append({"hooks": [slow]})
    path.write_text(json.dumps(value))
    told = settings.problems(path)
    assert len(told) == 2
    assert "our Stop hook has a timeout of 2000: these are seconds (33 minutes); run `harness init`" in told[0]
    assert "another program's Stop hook" in told[1]
    assert settings.install(path, wanted(place))
    value = json.loads(path.read_text())
    assert settings.installed(path) == wanted(place)
    assert {"hooks": [slow]} in value["hooks"]["Stop"]
    assert len(settings.problems(path)) == 1


def test_a_shell_form_with_a_huge_timeout(place: Place, path: Path) -> None:
    """H-07, H-09: as an old installer, or a person, may have written it."""
    command = f"'/bin/sh' '{HOOKS}/spool.sh' '{place.runtime}'"
    path.write_bytes((PAYLOADS / "H-07.settings.json").read_bytes().replace(b"@TOOL_HOOK@", command.encode()))
    told = " ".join(settings.problems(path))
    assert "33 minutes" in told
    assert "shell form" in told
    settings.install(path, wanted(place))
    assert settings.problems(path) == []
    assert command not in path.read_text()


def test_registered_twice(place: Place, path: Path) -> None:
    """H-08."""
    settings.install(path, wanted(place))
    user = place.home / "settings.json"
    user.write_text(json.dumps({"enabledPlugins": {"harness@local": True, "other@x": True}}))
    (told,) = settings.problems(path, user)
    assert "registered twice, here and in the plugin harness@local" in told
    settings.install(user, wanted(place))
    assert len(settings.problems(path, user)) == 2
    user.write_text(json.dumps({"enabledPlugins": {"harness@local": False}}))
    assert settings.problems(path, user, place.home / "none.json") == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"hooks": []}',
        '{"hooks": {"Stop": {}}}',
        '{"hooks": {}, "hooks": {}}',
        '{"hooks": {"Stop": [], "Stop": []}}',
        "// comment\n{}",
        "\udcff",
    ],
)
def test_a_file_that_can_not_be_read_is_left_alone(place: Place, path: Path, text: str) -> None:
    data = text.encode("utf-8", "surrogateescape")
    path.write_bytes(data)
    for action in (lambda: settings.install(path, wanted(place)), lambda: settings.remove(path)):
        with pytest.raises(SettingsUnreadable, match=r"settings\.local\.json was left alone: .+\. Repair it"):
            action()
        assert path.read_bytes() == data
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name]


def test_permissions_that_are_no_list(place: Place, path: Path) -> None:
    path.write_text('{"permissions": {"allow": "all"}}')
    with pytest.raises(SettingsUnreadable):
        settings.allow_rule(path)


def test_a_linked_settings_file_stays_a_link(place: Place, path: Path) -> None:
    real = place.base / "dotfiles.json"
    real.write_text("{}")
    path.symlink_to(real)
    settings.install(path, wanted(place))
    assert path.is_symlink()
    assert "hooks" in json.loads(real.read_text())
    settings.remove(path)
    assert real.read_text() == "{}"


def test_a_backup_of_a_file_that_is_gone_is_kept(place: Place, path: Path) -> None:
    path.write_text('{"model": "x"}')
    settings.install(path, wanted(place))
    path.unlink()
    settings.install(path, wanted(place))
    assert Path(f"{backup(path)}.old").read_text() == '{"model": "x"}'
    settings.remove(path)
    assert not path.exists()


def test_the_launcher_comes_and_goes_with_the_shared_file(place: Place, path: Path) -> None:
    shared = path.with_name("settings.json")
    settings.install(shared, wanted(place, shared=True))
    launcher = shared.parent / LAUNCHER
    assert launcher.read_bytes() == (HOOKS / "run").read_bytes()
    assert os.access(launcher, os.X_OK)
    text = shared.read_text()
    for of_this_machine in (str(place.base), sys.executable, str(HOOKS)):
        assert of_this_machine not in text
    settings.install(path, wanted(place, shared=True))
    settings.remove(path)
    assert launcher.exists()  # the other file still uses it
    settings.remove(shared)
    assert not launcher.exists()


# -- the entries -------------------------------------------------------------------------------------------------------


def hooks_of(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [hook for group in groups for hook in group["hooks"]]


@pytest.mark.parametrize("kind", [{}, {"filters": False}, {"shared": True}])
def test_every_entry_is_in_exec_form_with_a_short_timeout(place: Place, kind: dict[str, bool]) -> None:
    for groups in wanted(place, **kind).values():
        for hook in hooks_of(groups):
            assert hook["type"] == "command"
            assert os.path.isabs(hook["command"])
            assert all(isinstance(arg, str) for arg in hook["args"])
            assert 0 < hook["timeout"] <= 30


def test_filters_name_the_workspace_and_the_logging_commands(place: Place) -> None:
    found = wanted(place)
    inside = {hook["if"] for hook in hooks_of(found["PreToolUse"][:1])}
    assert {f"Write(/{place.root}/**)", f"Edit(/{place.root}/**)"} <= inside
    bash = {hook["if"] for hook in found["PostToolUse"][0]["hooks"]}
    assert {"Bash(echo *)", "Bash(harness *)", "Bash(git-harness *)", "Bash(tee *)"} <= bash
    assert {hook["if"] for hook in hooks_of(found["PostToolUseFailure"])} == bash
    shared = {hook["if"] for hook in hooks_of(wanted(place, shared=True)["PreToolUse"][:1])}
    assert "Write(/.harness/**)" in shared


def test_a_linked_path_is_filtered_under_both_names(place: Place) -> None:
    link = place.base / "link"
    link.symlink_to(place.project)
    found = entries(link / ".harness", place.runtime, sys.executable, link)
    rules = {hook["if"] for hook in hooks_of(found["PreToolUse"][:1])}
    assert {f"Write(/{place.root}/**)", f"Write(/{link}/.harness/**)"} <= rules


def test_a_path_that_no_rule_can_name_gets_the_gate(tmp_path: Path) -> None:
    place = Place(tmp_path, "a[1]b")
    (hook,) = hooks_of(wanted(place)["PreToolUse"][:1])
    assert hook["args"][0].endswith("gate.sh")
    assert "if" not in hook


@pytest.mark.parametrize("project", ["my proj (v2)", "a b'c"])
@pytest.mark.parametrize("filters", [True, False])
def test_the_commands_as_installed_do_their_work(tmp_path: Path, project: str, filters: bool) -> None:
    """H-01, H-02, H-05: fired exactly as written, from a strange folder."""
    place = Place(tmp_path, project)
    place.learn("demo", loader="# demo\n- a rule\n")
    folder = place.project / ".claude"
    settings.install(folder / "settings.local.json", wanted(place, filters=filters))
    written = json.loads((folder / "settings.local.json").read_text())["hooks"]
    answers, samples = {}, {"PostToolUse": "PostToolUse-Skill.json", "PreToolUse": "PreToolUse-Write.json"}
    for event, groups in written.items():
        for group in groups:
            hook = group["hooks"][0]
            data = json.dumps(place.payload(samples.get(event, "H-06.json"), hook_event_name=event)).encode()
            if group.get("matcher") == "Bash":
                data = place.bytes_of("H-01.json")
            command = [hook["command"], *hook["args"]]
            done = subprocess.run(command, input=data, capture_output=True, env=place.env(), cwd=tmp_path)
            assert (done.returncode, done.stderr) == (0, b"")
            answers[event, group.get("matcher")] = done.stdout
    assert b"a rule" in answers["PostToolUse", "Skill"]
    assert answers["PostToolUse", "Bash"] == b""
    assert len([path for path in place.spool.iterdir() if path.name[0].isdigit()]) == 3


@pytest.mark.parametrize(
    ("hook", "ours"),
    [
        ({"command": "/bin/sh", "args": ["/x/hooks/spool.sh", "/p/.harness/.git/harness"]}, True),
        ({"command": "/bin/sh", "args": ["/x/hooks/gate.sh", "/p/.git/harness", "/p", "/py", "/x"]}, True),
        ({"command": "/py", "args": ["-I", "-S", "/x/harness/clients/hook.py", "/p", "/r"]}, True),
        ({"command": "/bin/sh", "args": ["${CLAUDE_PROJECT_DIR}/.claude/harness-hook", "spool"]}, True),
        ({"command": "sh '/x/hooks/spool.sh' '/p/.git/harness'"}, True),
        ({"command": "python C:\\x\\harness\\clients\\hook.py C:\\p C:\\r"}, True),
        ({"command": "/bin/sh", "args": ["/home/me/hooks/spool.sh", "/var/spool"]}, False),
        ({"command": "/home/me/hooks/spool.sh"}, False),
        ({"command": "harness lint"}, False),
        ({"type": "http", "url": "http://localhost/harness"}, False),
        ({}, False),
        ("text", False),
    ],
)
def test_ours_and_not_ours(hook: Any, ours: bool) -> None:
    from harness.clients.entries import is_ours

    assert is_ours(hook) is ours
