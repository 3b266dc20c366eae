"""The commands that the docs show are run, in order, as a reader would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import COMMANDS
from harness.workspace import resources
from tests.cli.conftest import Project, make_project

PAGES = [
    "README.md",
    *sorted(f"docs/{p.name}" for p in (resources() / "docs").glob("*.md")),
    "THREATS.md",
    "CHANGELOG.md",
]


def blocks(page: str, language: str = "sh") -> list[str]:
    text = (resources() / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)


def with_harness_on_path(project: Project, folder: Path) -> dict[str, str]:
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name in ("harness", "git-harness"):
        script = bin_folder / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m harness "$@"\n')
        script.chmod(0o755)
    return {**project.env, "PATH": f"{bin_folder}:{project.env['PATH']}"}


def shell(script: str, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-eu", "-c", script],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_the_tutorial_runs_from_top_to_bottom(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    env = with_harness_on_path(project, tmp_path)
    place = tmp_path / "tutorial"
    place.mkdir()
    script = "\n".join(blocks("docs/tutorial.md"))
    done = shell(script, place, env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 gap folded in, not rewritten" in done.stdout
    assert "the date field takes ISO dates only" in done.stdout
    assert "AGENTS.md:13  - 2" in done.stdout, "why is asked about the line of the lesson"
    assert "pending" in done.stdout
    assert not (place / "shop/.claude/settings.local.json").exists()


@pytest.mark.parametrize("block", [*blocks("docs/howto.md"), *blocks("docs/tune.md"), *blocks("docs/taste.md")])
def test_how_tos_run(tmp_path: Path, block: str) -> None:
    project = make_project(tmp_path)
    env = with_harness_on_path(project, tmp_path)
    project.ok("init", "--no-hooks")
    done = shell(block, project.root, env)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readmes_way_in_works_as_shown(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    env = with_harness_on_path(project, tmp_path)
    use = next(b for b in blocks("README.md") if "harness init" in b)
    # The package is installed already, and `your-project` is the reader's own.
    script = use.replace("pip install .      # in a clone of this repository", ":").replace(
        "cd your-project", f"cd '{project.root}'"
    )
    assert shell(script, tmp_path, env).returncode == 0
    for command in (
        "harness log",
        "harness status",
        "harness doctor",
        "harness drain",
        "git harness log",
        "harness uninstall",
    ):
        assert shell(command, project.root, env).returncode == 0, command


def test_the_makefile_has_the_readmes_two_commands() -> None:
    make = (resources() / "Makefile").read_text("utf-8")
    [two] = [b for b in blocks("README.md") if "make demo" in b]
    for target in re.findall(r"^make (\w+)", two, re.M):
        assert re.search(rf"^{target}:", make, re.M), target


@pytest.mark.parametrize("page", PAGES)
def test_pages_name_real_commands_and_their_links_lead_somewhere(page: str) -> None:
    text = (resources() / page).read_text("utf-8")
    for name in re.findall(r"`harness ([a-z]+)", text):
        assert name in COMMANDS, name
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert ((resources() / page).parent / target).exists(), target
    for path in re.findall(r"`(tests/[\w/.-]+)`", text):
        assert (resources() / path).exists(), path
