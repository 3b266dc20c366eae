"""The demo: one skill falls short, says so, learns, and the next session knows. Real hooks, real git, a recorded session.

The recorded payloads go through the hook commands that `init` installed, as the client would run them.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.flows import fire, install, wiring
from harness.store import history, snapshot
from harness.store.commit import Store
from harness.store.git import clean_environment
from harness.workspace import Workspace, interpreter

Show = Callable[[str, str], None]  # style ("title", "say", "data", "good"), text

BASE = """---
name: aeo
description: Drafts a page that answers one question so that answer engines can quote it.
---
# aeo

1. Open the brief and take the question from it.
2. Fill in the form: title, date, answer.
3. Publish the draft.
"""
GAP = "the date field only takes ISO dates (2026-11-30); 30.11.2026 is emptied without a word"
FIX = "The publish button is `#publish-draft`, not the first button."


def run(folder: Path, show: Show, env: Mapping[str, str]) -> Workspace:
    """Play the story in the empty ``folder`` and return its workspace, for a look around afterwards."""
    story = _Story(folder, show, env)
    story.set_up()
    story.first_session()
    story.second_session()
    story.evidence()
    return story.workspace


class _Story:
    def __init__(self, folder: Path, show: Show, env: Mapping[str, str]) -> None:
        self.project, self.show = folder / "shop", show
        # The demo's own home: nothing of the user's skills, settings or git configuration plays a part.
        self.env = {**clean_environment(env), "HOME": str(folder / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
        for name in ("HARNESS_WORKSPACE", "CLAUDE_PROJECT_DIR", "CLAUDE_CONFIG_DIR", "CLAUDECODE", "HARNESS_LINEAGE"):
            self.env.pop(name, None)
        (folder / "home").mkdir(parents=True)
        self.workspace: Workspace

    # --- the story ---------------------------------------------------------------------------------------------

    def set_up(self) -> None:
        self.show("title", "1  A project, one skill, `harness init`")
        self.project.mkdir()
        self.git(self.project, "init", "-q", "-b", "main")
        root, nested = install.place(self.project, self.env, user=False, here=False)
        self.workspace = install.lay_out(root, nested, lambda line: self.show("data", line))
        settings = wiring.target(self.workspace, user=False, shared=False)
        wiring.wire(self.workspace, settings, shared=False, permissions=True, say=lambda line: self.show("data", line))
        self.settings = settings
        base = root / "skills/aeo/SKILL.md"
        base.parent.mkdir(parents=True)
        base.write_text(BASE, "utf-8")
        self.git(root, "add", "skills")
        self.git(
            root, "-c", "user.name=Dev", "-c", "user.email=dev@example.invalid", "commit", "-q", "-m", "skills: aeo"
        )
        self.show("say", "The skill `aeo` is committed by a person; git's pre-commit hook let the gate judge it.")

    def first_session(self) -> None:
        self.show("title", "2  A session: the skill falls short, the agent says so")
        log = self.workspace.root / "state/log/loader-feedback.log"
        self.hook("SessionStart")
        self.hook("UserPromptSubmit", prompt="draft the page about returns with aeo")
        self.hook(
            "PostToolUse-Skill",
            tool_input={"skill": "aeo", "args": "returns"},
            tool_response={"success": True, "commandName": "aeo"},
        )
        self.show("say", "The agent tries to repair the skill's base itself, which would change it for everyone:")
        answer = self.hook(
            "PreToolUse-Write",
            tool_input={
                "file_path": str(self.workspace.root / "skills/aeo/SKILL.md"),
                "content": BASE + "4. Use ISO dates.\n",
            },
        )
        reason = answer.get("hookSpecificOutput", {}).get("permissionDecisionReason", "")
        if not reason:
            raise HarnessError(
                "the stray write was not denied", "the PreToolUse hook gave no refusal", "run `harness doctor`"
            )
        self.show("good", f"denied: {reason}")
        self.show("say", "So it logs the gap, with echo. Another line of its is malformed:")
        line = f"[2026-11-30T21:48:00Z] aeo: {GAP} [LOGGED]"
        for text in (line, "aeo the form is odd"):
            self.append(log, text)
            self.show("data", f"$ echo '{text}' >> state/log/loader-feedback.log")
            self.hook("PostToolUse-Bash", tool_input={"command": f"echo '{text}' >> {log}"})
        self.show("say", "It stops. The Stop hook returns at once; the drain works on behind it.")
        self.hook("Stop", last_assistant_message="The page is published.")
        self.hook("SessionEnd")
        self.wait(lambda: bool(snapshot.skill(self.workspace, "aeo").get("loader")))
        self.show(
            "good", "The loader of `aeo` was written and committed. What could not be read was kept, not dropped:"
        )
        for notice in snapshot.now(self.workspace).get("quarantine", []):
            self.show("data", notice["text"])

    def second_session(self) -> None:
        self.show("title", "3  The next session has it")
        session = "9d68daf8-fc1a-4864-ae30-6c7db89bfd80"
        self.hook("SessionStart", session_id=session)
        answer = self.hook(
            "PostToolUse-Skill",
            session_id=session,
            tool_use_id="toolu_demo2",
            tool_input={"skill": "aeo", "args": "shipping"},
            tool_response={"success": True, "commandName": "aeo"},
        )
        context = answer.get("hookSpecificOutput", {}).get("additionalContext", "")
        learned = next((one.strip() for one in context.splitlines() if "ISO dates" in one), "")
        if not learned:
            raise HarnessError(
                "the second session did not get the lesson", "no context came with the skill", "run `harness doctor`"
            )
        self.show("say", "With the skill, its context now holds (among the notes written by agents):")
        self.show("good", learned)
        self.show("say", "This time the agent finds a small thing and fixes the loader inline, with Edit:")
        loader = self.workspace.root / "skills/aeo/AGENTS.md"
        before = loader.read_text("utf-8")
        edit = {
            "file_path": str(loader),
            "old_string": "## Commands\n",
            "new_string": f"## Commands\n\n- {FIX}\n",
            "replace_all": False,
        }
        if self.hook("PreToolUse-Write", tool_name="Edit", tool_input=edit):
            raise HarnessError("a two-line fix was denied", "the gate should let it pass", "run `harness doctor`")
        loader.write_text(before.replace(str(edit["old_string"]), str(edit["new_string"])), "utf-8")
        self.hook("PostToolUse-Edit", session_id=session, tool_use_id="toolu_demo3", tool_input=edit)
        self.hook("Stop", session_id=session, last_assistant_message=f"Done.\n\nharness-feedback: aeo: {FIX} [FIXED]")
        self.hook("SessionEnd", session_id=session)
        self.wait(lambda: FIX in snapshot.skill(self.workspace, "aeo").get("loader", ""))
        self.show("data", f"+ - {FIX}")
        self.show("good", "Committed as a fix, linked to the line that speaks of it.")

    def evidence(self) -> None:
        self.show("title", "4  Every lesson is one commit: read it, blame it")
        root = self.workspace.root
        self.show("data", "$ harness log\n" + self.harness("log").rstrip())
        with Store(self.workspace) as store:
            regen = next(e for e in history.entries(store.git) if e.kind == "regen")
        lines = (root / "skills/aeo/AGENTS.md").read_text("utf-8").splitlines()
        number = next(n for n, line in enumerate(lines, 1) if "ISO dates" in line)
        self.show("say", "Which commit brought the line, and which words of which session stand behind it:")
        self.show("data", f"$ harness why aeo:{number}\n" + self.harness("why", f"aeo:{number}").rstrip())
        self.show("title", "5  Take a lesson back")
        with Store(self.workspace) as store:
            fix = next(e for e in history.entries(store.git) if e.kind == "fix")
        self.show("data", f"$ harness undo {fix.short}\n" + self.harness("undo", fix.short).rstrip())
        if FIX in snapshot.skill(self.workspace, "aeo").get("loader", ""):
            raise HarnessError(
                "the lesson is still in force", "the undo did not reach the snapshot", "run `harness doctor`"
            )
        self.show(
            "good",
            "The next session gets the loader without it; the commit says who took it back, and history keeps both.",
        )
        self.show("title", "6  The whole story, by git alone")
        self.show("data", "$ harness log --all\n" + self.harness("log", "--all").rstrip())
        self.show(
            "data",
            f"$ git show {regen.short}\n"
            + self.git(
                root, "show", "--no-color", "--stat", "-p", regen.commit, "--", "skills", "state/regen"
            ).rstrip(),
        )

    # --- doing -------------------------------------------------------------------------------------------------

    def hook(self, name: str, **changes: Any) -> dict[str, Any]:
        given = fire.payload(name, self.project, **changes)
        event, tool = given["hook_event_name"], given.get("tool_name", "")
        answer: dict[str, Any] = {}
        for command in fire.commands(self.settings, event, tool):
            fired = fire.fire(command, given, self.project, fire.client_environment(self.env, attended=False))
            if fired.code or fired.stderr:
                raise HarnessError(
                    f"the {event} hook failed",
                    fired.stderr.strip() or f"exit code {fired.code}",
                    "run `harness doctor`",
                )
            answer = fired.answer or answer
        return answer

    def append(self, path: Path, line: str) -> None:
        subprocess.run(["/bin/sh", "-c", 'printf "%s\\n" "$1" >> "$2"', "sh", line, str(path)], check=True)

    def wait(self, ready: Callable[[], bool]) -> None:
        until = time.monotonic() + 30
        while not ready():
            if time.monotonic() > until:
                raise HarnessError(
                    "the drain did not finish in 30 s", "", f"run `harness --workspace {self.workspace.root} status`"
                )
            time.sleep(0.05)

    def git(self, root: Path, *args: str) -> str:
        done = subprocess.run(["git", *args], cwd=root, capture_output=True, text=True, check=False, env=self.env)
        if done.returncode:
            raise HarnessError(
                f"git {args[0]} failed", done.stderr.strip() or done.stdout.strip(), "run `git --version`"
            )
        return done.stdout

    def harness(self, *args: str) -> str:
        command = [interpreter(), "-P", "-m", "harness", "--workspace", str(self.workspace.root), *args]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, env=dict(os.environ) | self.env
        ).stdout
