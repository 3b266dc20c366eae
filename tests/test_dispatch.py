"""One call through a command: real processes, and the real client where it is installed."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fixtures.fake_model import FakeModel

from harness import dispatch
from harness.dispatch import Answer, DispatchFailed, allowed, call, environment


def python(code: str, **settings: Any) -> dict[str, Any]:
    return {"preset": "command", "command": [sys.executable, "-c", code], "timeout": 30, **settings}


def failure(prompt: str, settings: dict[str, Any], env: dict[str, str] | None = None) -> str:
    with pytest.raises(DispatchFailed) as caught:
        call(prompt, settings, dict(os.environ) if env is None else env)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_prompt_goes_in_and_the_answer_comes_out() -> None:
    code = "import sys; sys.stdout.write('got ' + sys.stdin.read())"
    assert call("grüße", python(code), {**os.environ, "PYTHONUTF8": "1"}) == Answer("got grüße")


def test_a_command_that_reads_nothing_and_one_that_answers_before_it_reads() -> None:
    assert call("x" * 5_000_000, python("print('done')"), os.environ).text == "done\n"
    code = "import sys; sys.stdout.write('y' * 1_000_000); sys.stdout.flush(); print(len(sys.stdin.read()))"
    assert call("x" * 1_000_000, python(code), os.environ).text == "y" * 1_000_000 + "1000000\n"


def test_it_works_in_an_empty_folder_of_its_own_that_is_gone_afterwards() -> None:
    code = "import os; open('x', 'w').close(); print(os.getcwd()); print(os.listdir('.'))"
    where, held = call("", python(code), os.environ).text.splitlines()
    assert held == "['x']"
    assert not os.path.exists(where)
    assert where != os.getcwd()


def test_what_the_command_inherits() -> None:
    env = {
        "PATH": "/bin", "ANTHROPIC_API_KEY": "k", "GIT_DIR": "/x", "GIT_INDEX_FILE": "/x",
        "CLAUDE_CODE_MESSAGING_SOCKET": "s", "CLAUDE_CODE_MESSAGING_TOKEN": "t", "CLAUDE_PROJECT_DIR": "/p", "CLAUDECODE": "1",
    }  # fmt: skip
    given = environment(env)
    assert len(given.pop("HARNESS_LINEAGE")) == 26
    assert given == {"PATH": "/bin", "ANTHROPIC_API_KEY": "k"}
    assert environment({"HARNESS_LINEAGE": "outer"})["HARNESS_LINEAGE"] == "outer"
    shown = call(
        "",
        python("import os; print(sorted(k for k in os.environ if k.startswith(('GIT_', 'HARNESS_'))))"),
        {**os.environ, **env},
    )
    assert shown.text == "['HARNESS_LINEAGE']\n"


def test_the_whole_group_is_ended_at_the_time_limit(tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    child = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"while True: open({str(beat)!r}, 'a').write('x'); time.sleep(0.02)"
    )
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(600)"
    assert "not within 1 seconds" in failure("", python(code, timeout=1))
    assert beat.exists()  # the child was at work
    time.sleep(0.2)
    size = beat.stat().st_size
    time.sleep(0.3)
    assert beat.stat().st_size == size


def test_a_command_that_ignores_a_polite_end_is_killed() -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    assert "gave no answer" in failure("", python(code, timeout=1))


def test_a_child_that_stays_does_not_hold_the_answer_up() -> None:
    child = "import time; time.sleep(5)"
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}]); print('answered')"
    assert call("", python(code, timeout=4), os.environ).text == "answered\n"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (python("import sys; sys.stderr.write('first\\nno credit\\n'); sys.exit(3)"), "ended with code 3: no credit"),
        (python("import sys; print('half'); sys.exit(1)"), "ended with code 1: half"),
        (python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"), "ended with code -9: it said nothing"),
        (python(""), "an empty answer"),
        (python("print('  ')"), "an empty answer"),
        (
            python("import sys, itertools\nfor _ in itertools.count(): sys.stdout.write('x' * 65536)"),
            "over 2000000 bytes",
        ),
        (python("print('sorry')", preset="claude"), "it is no JSON object"),
        (python("print('{' * 9)", preset="gemini"), "gave no answer"),
        (python("print('[' * 10 ** 5)", preset="gemini"), "gave no answer"),
        (python("print('{}')", preset="gemini"), "no `response`"),
        (python("print('{}')", preset="codex"), "no agent message"),
        ({"preset": "fold"}, "it asks no model"),
        ({"preset": "command", "command": []}, "dispatch.command"),
        ({"preset": "command", "command": ["no-such-program-here"]}, "not on PATH"),
    ],
)
def test_failures_say_what_and_why(settings: dict[str, Any], words: str) -> None:
    assert words in failure("", settings)


def test_a_program_that_cannot_run(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF not really")
    broken.chmod(0o755)
    assert "can't be started" in failure("", {"preset": "command", "command": [str(broken)]})


def printed(text: str, preset: str, code: int = 0) -> dict[str, Any]:
    return python(f"import sys; print({text!r}); sys.exit({code})", preset=preset)


def test_how_each_client_answers() -> None:
    claude = {
        "type": "result", "is_error": False, "result": "hi", "total_cost_usd": 0.5, "modelUsage": {"m-1": {}},
        "usage": {"input_tokens": 1, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100,
                  "output_tokens": 7},
    }  # fmt: skip
    assert call("", printed(json.dumps(claude), "claude"), os.environ) == Answer("hi", "m-1", 111, 7, 0.5)
    events = [
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "thinking aloud"}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "hi"}},
        {"type": "turn.completed", "usage": {"input_tokens": 10, "output_tokens": 5}},
    ]
    assert call("", printed("\n".join(map(json.dumps, events)), "codex"), os.environ) == Answer("hi", None, 10, 5)
    gemini = {
        "response": "hi",
        "stats": {"models": {"g-1": {"tokens": {"prompt": 10, "candidates": 5, "thoughts": 2}}}},
    }
    assert call("", printed(json.dumps(gemini, indent=1), "gemini"), os.environ) == Answer("hi", "g-1", 10, 7)
    assert call("", printed("hi", "llm"), os.environ) == Answer("hi\n")
    assert call("", printed('{"result": "hi"}', "claude"), os.environ) == Answer("hi")


def test_an_error_in_the_clients_own_form_is_told() -> None:
    told = json.dumps({"type": "result", "subtype": "success", "is_error": True, "result": "API Error: 529 overloaded"})
    assert "529 overloaded" in failure("", printed(told, "claude", code=1))
    assert "529 overloaded" in failure("", printed(told, "claude"))
    assert "no quota" in failure("", printed(json.dumps({"error": {"message": "no quota"}}), "gemini", code=1))
    assert "no quota" in failure(
        "", printed(json.dumps({"type": "turn.failed", "error": {"message": "no quota"}}), "codex", code=1)
    )


@pytest.mark.parametrize(
    ("calls", "usd", "words"),
    [(0, 0.0, None), (49, 4.99, None), (50, 0.0, "50 of 50 calls"), (0, 5.0, "5.00 of 5.00"), (99, 9.0, "daily_calls")],
)
def test_the_daily_caps(calls: int, usd: float, words: str | None) -> None:
    why = allowed(calls, usd, {"daily_calls": 50, "daily_usd": 5.0})
    assert words in why if words and why else why is words


# --- the real client against a scripted model

_CACHED = Path.home() / ".cache/e2e-clients/claude/node_modules/.bin/claude"
CLAUDE = shutil.which(os.environ.get("CLAUDE_BIN") or "claude") or (str(_CACHED) if _CACHED.exists() else None)
needs_claude = pytest.mark.skipif(CLAUDE is None, reason="Claude Code is not installed (set CLAUDE_BIN)")


class Asked:
    """A home whose settings hold a hook, a project with a skill, and the client as the `claude` preset starts it."""

    def __init__(self, folder: Path) -> None:
        self.home, self.record, self.fired = folder / "home", folder / "requests.jsonl", folder / "fired"
        (self.home / ".claude/skills/aeo").mkdir(parents=True)
        (self.home / ".claude/skills/aeo/SKILL.md").write_text(
            "---\nname: aeo\ndescription: LISTED-SKILL.\n---\nbody\n"
        )
        group = [{"hooks": [{"type": "command", "command": f"echo x >> {self.fired}"}]}]
        events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")
        hooks = dict.fromkeys(events, group)
        (self.home / ".claude/settings.json").write_text(json.dumps({"hooks": hooks}))

    def ask(self, prompt: str, *turns: Any) -> Answer:
        script = {"lanes": [{"match": prompt, "turns": list(turns)}]}
        with FakeModel(script, str(self.record)) as model:
            env = {
                "PATH": os.environ["PATH"], "HOME": str(self.home), "ANTHROPIC_BASE_URL": model.url,
                "ANTHROPIC_API_KEY": "dummy", "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_ERROR_REPORTING": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            }  # fmt: skip
            command = [str(CLAUDE), *dispatch.PRESETS["claude"].command[1:]]
            return call(prompt, {"preset": "claude", "command": command, "timeout": 60}, env)

    def requests(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.record.read_text().splitlines()]
        return [line["body"] for line in lines if line["path"].startswith("/v1/messages")]


@needs_claude
def test_the_real_client_answers_without_hooks_tools_skills_or_a_transcript(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    answer = asked.ask("PROMPT-HERE", ['{"loader": "x"}'])
    assert answer.text == '{"loader": "x"}'
    assert (answer.input_tokens, answer.output_tokens) == (100, 20)
    assert answer.model
    assert answer.usd
    bodies = asked.requests()
    assert len(bodies) == 1
    assert "PROMPT-HERE" in json.dumps(bodies[0])
    assert not bodies[0].get("tools")
    assert "LISTED-SKILL" not in json.dumps(bodies[0])
    assert not asked.fired.exists()
    assert not list(asked.home.rglob("*.jsonl"))


@needs_claude
def test_a_tool_that_the_model_asks_for_is_not_run(tmp_path: Path) -> None:
    asked, touched = Asked(tmp_path), tmp_path / "touched"
    call_tool = {"tool": "Bash", "input": {"command": f"touch {touched}", "description": "x"}}
    assert asked.ask("do it", [call_tool], ["well then"]).text == "well then"
    assert len(asked.requests()) == 2
    assert not touched.exists()
    assert not asked.fired.exists()


@needs_claude
def test_an_error_of_the_api_is_told(tmp_path: Path) -> None:
    with pytest.raises(DispatchFailed, match="400"):
        Asked(tmp_path).ask("do it", *[{"status": 400, "error": "invalid_request_error"}] * 20)
