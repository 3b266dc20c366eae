"""`doctor` finds what is wrong, `demo` tells the story, and the installed wheel stands alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.workspace import resources
from tests.cli.conftest import Project


def verdicts(project: Project) -> dict[str, dict[str, str]]:
    done = project.harness("doctor", "--json")
    return {f"{c['group']}/{c['name']}": c for c in done.json["checks"]}


def test_everything_is_in_place_after_init_and_each_hook_is_fired(shop: Project) -> None:
    head, spool = shop.git("rev-parse", "HEAD"), sorted((shop.runtime / "spool").iterdir())
    found = verdicts(shop)
    assert {c["verdict"] for c in found.values()} == {"ok"}
    assert sum(name.startswith("hooks/") for name in found) == 12
    assert "silent" in found["hooks/PreToolUse Write"]["found"]
    assert (shop.git("rev-parse", "HEAD"), sorted((shop.runtime / "spool").iterdir())) == (head, spool)


def test_doctor_names_a_hook_that_cannot_run(shop: Project) -> None:
    settings = shop.root / ".claude/settings.local.json"
    settings.write_text(settings.read_text().replace(json.dumps(sys.executable)[1:-1], "/nowhere/python3"))
    found = verdicts(shop)
    assert found["hooks/Stop"]["verdict"] == "wrong"
    assert "/nowhere/python3" in found["hooks/Stop"]["found"]
    assert shop.harness("doctor").code == 1


def test_doctor_names_missing_hooks_a_missing_schema_and_a_disabled_git_hook(shop: Project) -> None:
    (shop.root / ".claude/settings.local.json").write_text("{}\n")
    shop.git("rm", "-q", "schemas/runs.schema.json")
    shop.git("commit", "-qm", "x", "--no-verify")
    shop.git("config", "core.hooksPath", "/nowhere")
    found = verdicts(shop)
    assert "gone" in found["client/settings.local.json"]["found"]
    assert "runs" in found["repository/policy"]["found"]
    assert found["repository/pre-commit"]["verdict"] == "note"


@pytest.mark.parametrize("seconds", [2000])
def test_a_timeout_meant_as_milliseconds_is_named_and_repaired(shop: Project, seconds: int) -> None:
    """H-07."""
    settings = shop.root / ".claude/settings.local.json"
    settings.write_text(settings.read_text().replace('"timeout": 10', f'"timeout": {seconds}', 1))
    done = shop.harness("doctor", "--json")
    assert "checks" in done.json, done
    notes = [c["found"] for c in done.json["checks"] if c["verdict"] == "note"]
    assert any("2000" in n and "seconds" in n for n in notes)
    shop.ok("init")
    assert str(seconds) not in settings.read_text()


def test_the_demo_ends_in_a_history_to_read(project: Project, tmp_path: Path) -> None:
    place = tmp_path / "demo"
    text = project.ok("demo", "--keep", str(place)).out
    for part in (
        "denied",
        "not a feedback line",
        "harness log",
        "harness why",
        "harness undo",
        "git show",
        "regen(aeo): 1 gap",
    ):
        assert part in text, part
    kinds = project.git("log", "--format=%(trailers:key=Kind,valueonly)", cwd=place / "shop/.harness").split()
    assert kinds == ["undo", "feedback", "fix", "regen", "feedback", "install"]
    assert project.harness("demo", "--keep", str(place)).code == 2, "a folder with something in it is not played in"


def test_the_wheel_alone_is_enough(tmp_path: Path) -> None:
    """Hooks, skills, schemas and templates are package data: nothing of the checkout is needed."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(tmp_path / "dist"), str(resources())]
    subprocess.run(build, check=True, capture_output=True, env=dict(os.environ))
    [wheel] = (tmp_path / "dist").glob("git_harness-*.whl")
    place = tmp_path / "site"
    # The dependencies come from the environment of the tests; the package itself from the wheel alone.
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(place), str(wheel)]
    subprocess.run(command, check=True, capture_output=True, env=dict(os.environ))
    code = "import harness, sys; assert harness.__file__.startswith(sys.argv[1]); from harness.cli import run; sys.exit(run(['demo']))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(place)], env={**env, "PYTHONPATH": str(place)}, cwd=tmp_path, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The whole story" in done.stdout


def test_shared_hooks_go_through_a_launcher_and_name_no_machine(shop: Project) -> None:
    shop.ok("uninstall")
    shop.ok("init", "--shared")
    text = (shop.root / ".claude/settings.json").read_text()
    assert sys.executable not in text
    assert str(shop.root) not in text
    bin_folder = shop.home / "bin"
    bin_folder.mkdir()
    (bin_folder / "harness").write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m harness "$@"\n')
    (bin_folder / "harness").chmod(0o755)
    shop.env["PATH"] = f"{bin_folder}:{shop.env['PATH']}"
    found = verdicts(shop)
    assert {c["verdict"] for name, c in found.items() if name.startswith("hooks/")} == {"ok"}
    shop.ok("uninstall")
    assert not list((shop.root / ".claude").iterdir())


def test_fix_repairs_what_is_ours_and_leaves_a_users_lock(shop: Project) -> None:
    settings = shop.root / ".claude/settings.local.json"
    settings.write_text("{}\n")
    (shop.workspace / ".git/hooks/pre-commit").unlink()
    (shop.runtime / "snapshot/now.json").write_text("torn")
    lock = shop.workspace / ".git/refs/heads/other.lock"
    lock.touch()
    assert shop.harness("doctor").code == 1
    done = shop.harness("doctor", "--fix")
    assert done.code == 0, done
    assert "fixed  wired Claude Code" in done.out
    assert lock.exists()
    assert {c["verdict"] for c in verdicts(shop).values()} == {"ok"}


def test_every_clause_of_the_contract_is_tried_on_the_users_own_workspace(shop: Project) -> None:
    shop.git("config", "core.autocrlf", "true")
    names = [name for name in verdicts(shop) if name.startswith("contract/")]
    assert len(names) == 8
