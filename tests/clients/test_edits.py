"""What a file would hold after an agent's write, and the gate on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.clients.edits import result

from .places import Place


def edit(old: str, new: str, **more: Any) -> dict[str, Any]:
    return {"file_path": "f", "old_string": old, "new_string": new, **more}


@pytest.mark.parametrize(
    ("before", "given", "after"),
    [
        ("a b a", edit("b", "c"), "a c a"),
        ("a b a", edit("a", "c"), None),
        ("a b a", edit("a", "c", replace_all=True), "c b c"),
        ("a", edit("x", "c"), None),
        ("a\r\nb\r\n", edit("a\nb", "x\ny"), "x\r\ny\r\n"),
        ("it\u2019s \u201cso\u201d", edit('it\'s "so"', "no"), "no"),
        (None, edit("", "new"), "new"),
        ("old", edit("", "new"), None),
    ],
)
def test_edit(before: str | None, given: dict[str, Any], after: str | None) -> None:
    assert result("Edit", given, before) == after


def test_multi_edit_applies_one_after_the_other() -> None:
    edits = {"edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "bb", "new_string": "c"}]}
    assert result("MultiEdit", edits, "ab") == "c"
    assert result("MultiEdit", {"edits": [{"old_string": "x", "new_string": "b"}]}, "ab") is None
    assert result("MultiEdit", {"edits": ["nonsense"]}, "ab") is None


def test_write_and_notebook() -> None:
    assert result("Write", {"content": "x"}, "before") == "x"
    book = json.dumps({"cells": [{"id": "a", "source": "1"}, {"id": "b", "source": "2"}]})
    for mode, sources in (("replace", ["1", "9"]), ("insert", ["1", "2", "9"]), ("delete", ["1"])):
        text = result("NotebookEdit", {"cell_id": "b", "new_source": "9", "edit_mode": mode}, book)
        assert [cell["source"] for cell in json.loads(text or "")["cells"]] == sources
    assert result("NotebookEdit", {"new_source": "9"}, "no notebook") == "9"


# -- the gate ----------------------------------------------------------------------------------------------------------


def decision(place: Place, tool: str, **tool_input: Any) -> str | None:
    """The reason an agent's call is denied for, or None."""
    answer = place.hook("PreToolUse-Write.json", tool_name=tool, tool_input=tool_input, cwd=str(place.project))
    if answer.silent:
        return None
    output = answer.json["hookSpecificOutput"]
    assert (output["hookEventName"], output["permissionDecision"]) == ("PreToolUse", "deny")
    return str(output["permissionDecisionReason"])


def test_files_elsewhere_are_nobodys_business(place: Place) -> None:
    for path in ("a.txt", str(place.project / "src" / "x.py"), "/etc/passwd", ".harness-not/x", "../x"):
        assert decision(place, "Write", file_path=path, content="x") is None
    assert place.errors == []


@pytest.mark.parametrize(
    "path", [".harness/.git/config", ".harness/.git/harness/snapshot/now.json", ".harness/x/../.git/HEAD"]
)
def test_the_git_folder_is_closed(place: Place, path: str) -> None:
    assert "git's own folder" in (decision(place, "Write", file_path=path, content="x") or "")


def test_a_link_into_the_git_folder_is_followed(place: Place) -> None:
    (place.project / "innocent").symlink_to(place.root / ".git")
    assert "git's own folder" in (
        decision(place, "Edit", file_path="innocent/config", old_string="", new_string="x") or ""
    )


def test_without_a_policy_nothing_is_denied_and_it_is_logged(place: Place) -> None:
    assert decision(place, "Write", file_path=".harness/skills/aeo/SKILL.md", content="x") is None
    (line,) = place.errors
    assert "NoPolicy" in line


def test_a_call_that_the_client_refuses_itself(place: Place) -> None:
    (place.runtime / "snapshot" / "policy.json").write_text("{}")
    path = place.root / "x.md"
    path.write_text("text")
    assert decision(place, "Edit", file_path=str(path), old_string="not there", new_string="x") is None
    assert place.errors == []


def test_other_tools_and_calls_without_a_path(place: Place) -> None:
    for tool_input in ({}, {"file_path": 7}, {"file_path": ""}):
        assert decision(place, "Write", **tool_input) is None
    assert decision(place, "Bash", file_path=".harness/.git/config") is None
    assert Path(place.root).exists()
