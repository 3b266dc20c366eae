"""The shipped skills as commands of a project: ours are made and removed, a person's own stay."""

from __future__ import annotations

from tests.cli.conftest import Project, project

__all__ = ["project"]


def test_init_makes_commands_that_git_ignores_and_uninstall_removes_them(project: Project) -> None:
    (project.root / "README.md").write_text("x\n")
    project.git("add", ".", cwd=project.root)
    project.git("commit", "-qm", "first", cwd=project.root)
    exclude = (
        (project.root / ".git/info/exclude").read_bytes() if (project.root / ".git/info/exclude").exists() else b""
    )
    project.ok("init")
    folder = project.root / ".claude/commands"
    assert {"tune.md", "feedback.md", "run-skill.md", "distill-approvals.md"} <= {p.name for p in folder.iterdir()}
    assert "commands" not in project.git("status", "--porcelain", "-uall", cwd=project.root)
    before = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    project.ok("init")
    assert {p.name: p.stat().st_mtime_ns for p in folder.iterdir()} == before
    project.ok("uninstall", "--purge", "--yes")
    assert not folder.exists()
    assert (project.root / ".git/info/exclude").read_bytes() == exclude


def test_a_command_or_skill_of_ones_own_is_left_alone_and_named(project: Project) -> None:
    mine = project.root / ".claude/commands/tune.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("my own\n")
    other = project.root / ".claude/skills/feedback/SKILL.md"
    other.parent.mkdir(parents=True)
    other.write_text("---\nname: feedback\ndescription: mine\n---\n")
    said = project.ok("init").out
    assert "left your own" in said
    assert "tune" in said.split("left your own")[1].splitlines()[0]
    assert not (mine.parent / "feedback.md").exists()
    project.ok("uninstall")
    assert mine.read_text() == "my own\n"
    assert [p.name for p in mine.parent.iterdir()] == ["tune.md"]
