"""The program behind the hooks: whatever comes in, exit 0 and nothing or one JSON object go out."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.clients import serve
from harness.clients.claude_code import EVENTS
from harness.clients.runtime import LOG_BYTES, Runtime, file_name

from .places import PAYLOADS, STUB, Place


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\x00\xff\xfe",
        b"[" * 100_000,
        b'{"hook_event_name": 7}',
        b'{"hook_event_name": "Stop", "session_id": 1, "last_assistant_message": {}}',
        b'{"hook_event_name": "PostToolUse", "tool_name": "Skill", "tool_input": []}',
        b'{"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": {"file_path": "\\u0000"}}',
    ],
)
def test_what_is_no_payload_is_logged_and_never_seen(place: Place, data: bytes) -> None:
    assert place.fire(data).silent


def test_a_failure_is_one_line_without_the_payload_or_the_environment(place: Place) -> None:
    assert place.fire(b'{"prompt": "secret words", ').silent
    (line,) = place.errors
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z unknown JSONDecodeError: .+", line)
    text = (place.runtime / "hook-errors.log").read_text()
    assert "secret" not in text
    assert "very-secret-token" not in text


def test_a_client_update(place: Place) -> None:
    """H-16: unknown events, fields and modes."""
    assert place.hook("H-16.json").silent
    (line,) = place.errors
    assert line.endswith(" PreModelSwitch Ignored: an event this version does not know")
    assert place.hook("H-16.json", hook_event_name="UserPromptSubmit", prompt="x").silent
    assert (place.runtime / "sessions").exists()


def test_a_call_that_was_denied_leaves_nothing(place: Place) -> None:
    """H-10: no hook is registered for a batch, and one that comes all the same is no success of anything."""
    assert place.hook("PreToolUse-Bash.json").silent
    assert place.hook("H-10.json").silent
    assert list(place.spool.iterdir()) == []


def test_events_of_other_clients(place: Place) -> None:
    """H-24: ignored with a reason, never taken for one of this client's."""
    env = place.env(GEMINI_SESSION_ID="g")
    del env["CLAUDECODE"]
    assert place.hook("H-24.json", env=env).silent
    assert place.hook("SessionStart-startup.json", env=env).silent
    assert place.hook("H-25.json").silent
    assert [line.partition("Ignored: ")[2] for line in place.errors] == [
        "an event of Gemini CLI",
        "an event of Gemini CLI",
        "an event of Codex",
    ]
    assert place.notes == []


def test_half_a_payload_and_an_open_pipe(place: Place) -> None:
    """H-30."""
    process = subprocess.Popen(place.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=place.env())
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"session_id":"5b0c","cwd":')
    process.stdin.flush()
    assert process.wait(timeout=30) == 0
    assert process.stdout.read() == b""
    process.stdin.close()
    (line,) = place.errors
    assert "HalfAPayload: 27 bytes came" in line


def test_a_whole_payload_and_an_open_pipe(place: Place) -> None:
    process = subprocess.Popen(place.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=place.env())
    assert process.stdin is not None
    process.stdin.write(place.bytes_of("UserPromptSubmit.json"))
    process.stdin.flush()
    assert process.wait(timeout=30) == 0
    process.stdin.close()
    assert list(place.runtime.glob("sessions/*/prompts"))


@pytest.mark.parametrize("name", ["my proj (v2)", "a b'c", "zwölf"])
def test_odd_folder_names(tmp_path: Path, name: str) -> None:
    """H-01, H-02."""
    place = Place(tmp_path, name)
    place.learn("demo", loader="# demo\n- x\n")
    echo = place.hook("PostToolUse-Skill.json").context.splitlines()[-1]
    assert subprocess.run(["/bin/sh", "-c", echo], check=True).returncode == 0
    assert place.log.read_text() == "demo: what was missing [LOGGED]\n"


@pytest.mark.parametrize("sample", ["H-14.ndjson", "H-04.json", "H-06.json"])
def test_no_environment_at_all_and_a_strict_shell(place: Place, sample: str) -> None:
    """H-06, H-04: no HOME, no PATH with a python, no CLAUDE_*; the interpreter is named by its path."""
    data = place.bytes_of(sample).splitlines()[0] if sample.endswith("ndjson") else place.bytes_of(sample)
    command = ["bash", "-euo", "pipefail", "-c", 'exec "$@"', "-", *place.command()]
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(STUB),
        "SPAWN_LOG": str(place.spawned_in),
    }
    done = subprocess.run(command, input=data, capture_output=True, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_login_shell_that_greets(place: Place) -> None:
    """H-09: of what is printed, only the banner is not ours."""
    place.learn("aeo", loader="# aeo\n- x\n")
    (place.base / "rc").write_text("echo Welcome to devbox\n")
    data = json.dumps(place.payload("H-09.json", prompt="aeo")).encode()
    command = ["bash", "-c", '"$@"', "-", *place.command()]
    done = subprocess.run(command, input=data, capture_output=True, env=place.env(BASH_ENV=str(place.base / "rc")))
    banner, ours = done.stdout.decode().splitlines()
    assert banner == "Welcome to devbox"
    assert json.loads(ours)["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"


def test_a_run_the_harness_started_leaves_nothing(place: Place) -> None:
    """H-42, H-43: the mark is in the environment, so grandchildren have it too."""
    place.learn("demo", loader="# demo\n- x\n")
    env = place.env(HARNESS_LINEAGE="01J")
    for sample in ("PostToolUse-Skill.json", "UserPromptSubmit.json", "Stop.json", "SessionEnd-other.json"):
        assert place.hook(sample, env=env).silent
    assert sorted(path.name for path in place.runtime.iterdir()) == ["snapshot", "spool"]
    assert list(place.spawned_in.iterdir()) == []


def test_no_workspace_is_silence(place: Place) -> None:
    shutil.rmtree(place.root)
    for sample in ("PostToolUse-Skill.json", "Stop.json", "SessionStart-startup.json"):
        assert place.hook(sample).silent
    assert not place.root.exists()


@pytest.mark.parametrize("sample", ["H-41.a.json", "H-41.b.json"])
def test_a_spoiled_store(place: Place, sample: str) -> None:
    """H-41, H-36: no output, the damage is logged, and the work that repairs it is started."""
    place.learn("aeo", loader="# aeo\n")
    for path in place.runtime.rglob("*.json"):
        path.write_bytes(os.urandom(4096))
    assert place.hook(sample).silent
    assert "BadSnapshot" in place.errors[0]
    assert place.spawned()[0]["argv"][2] == "observe"
    assert place.hook("SessionStart-startup.json").silent
    assert "drain" in [record["argv"][2] for record in place.spawned(2)]


def test_a_runtime_folder_that_can_not_be_written(place: Place) -> None:
    """H-39."""
    shutil.rmtree(place.spool)
    place.spool.write_text("a file where the folder should be")
    (place.runtime / "sessions").write_text("here too")
    for sample in ("PostToolUse-Skill.json", "Stop.json", "UserPromptSubmit.json"):
        assert place.hook(sample, last_assistant_message="harness-feedback: a: b").silent
    assert len(place.errors) == 3


def test_each_hook_writes_down_its_time(place: Place) -> None:
    """H-34."""
    place.hook("UserPromptSubmit.json")
    place.hook("PreToolUse-Bash.json")
    lines = (place.runtime / "hook-times.log").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["UserPromptSubmit", "PreToolUse"]
    assert all(re.fullmatch(r"\w+ \d+\.\d", line) for line in lines)


def test_logs_do_not_grow_for_ever(place: Place) -> None:
    (place.runtime / "hook-times.log").write_bytes(b"x" * LOG_BYTES)
    place.hook("UserPromptSubmit.json")
    assert (place.runtime / "hook-times.log.1").stat().st_size > LOG_BYTES
    place.hook("UserPromptSubmit.json")
    assert (place.runtime / "hook-times.log").stat().st_size < 100


def test_parallel_hooks_tear_no_line(place: Place) -> None:
    threads = [threading.Thread(target=place.hook, args=("UserPromptSubmit.json",)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (prompts,) = place.runtime.glob("sessions/*/prompts")
    assert len([json.loads(line) for line in prompts.read_text().splitlines()]) == 20
    assert len((place.runtime / "hook-times.log").read_text().splitlines()) == 20


def test_only_cheap_modules_are_imported(place: Place) -> None:
    """Each of these costs more than half the start of a bare interpreter."""
    dear = {"typing", "pathlib", "dataclasses", "subprocess", "argparse", "hashlib", "site", "tempfile", "logging"}
    place.learn("demo", loader="# demo\n- x\n")
    for sample in ("PostToolUse-Skill.json", "PreToolUse-Bash.json", "Stop.json", "SessionStart-startup.json"):
        command = [sys.executable, "-X", "importtime", *place.command()[1:]]
        done = subprocess.run(command, input=place.bytes_of(sample), capture_output=True, env=place.env())
        loaded = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
        assert "harness.clients.claude_code" in loaded
        assert loaded & dear == set()


def test_one_process(place: Place, tmp_path: Path) -> None:
    """H-32, H-22: an interpreter and no child, no transcript read, no waiting for a row."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    log = tmp_path / "trace"
    command = [strace, "-f", "-e", "trace=execve,openat", "-o", str(log), *place.command()]
    data = json.dumps(place.payload("H-22.json", transcript_path=str(PAYLOADS / "H-21.transcript.jsonl"))).encode()
    subprocess.run(command, input=data, env=place.env(), check=True)
    text = log.read_text()
    assert text.count("execve(") == 1
    assert "H-21.transcript" not in text


def test_a_slow_drain_holds_nobody(place: Place) -> None:
    """H-31: the child has none of the hook's pipes, so the client, which waits for their end, doesn't wait for it."""
    slow = place.base / "slow" / "harness"
    slow.mkdir(parents=True)
    (slow / "__init__.py").touch()
    (slow / "__main__.py").write_text(
        "import os, pathlib, time\n"
        "here = pathlib.Path(os.environ['PYTHONPATH'])\n"
        "while not (here / 'go').exists(): time.sleep(0.01)\n"
        "(here / 'done').touch()\n"
    )
    assert place.hook("Stop.json", env=place.env(PYTHONPATH=str(slow.parent))).silent
    assert not (slow.parent / "done").exists()
    (slow.parent / "go").touch()
    until = time.monotonic() + 30
    while not (slow.parent / "done").exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert (slow.parent / "done").exists()


def test_names_of_files() -> None:
    for text in ("..", ".", "", "a/b", "\\", "x\x00y", "ü" * 300):
        name = file_name(text)
        assert name not in ("", ".", "..")
        assert len(name.encode()) <= 121
        assert "/" not in name
        assert "\x00" not in name


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
TOOLS = st.sampled_from(["Skill", "Write", "Edit", "MultiEdit", "NotebookEdit"])
LOOSE = ("session_id", "prompt_id", "prompt", "command_name", "tool_input", "tool_response", "cwd", "agent_id")
SPAWNING = {"Stop", "SubagentStop", "SessionEnd", "SessionStart"}
FIELDS = st.fixed_dictionaries(
    {"hook_event_name": st.sampled_from(sorted(set(EVENTS) - SPAWNING))},
    optional=dict.fromkeys(LOOSE, VALUES) | {"tool_name": TOOLS | VALUES, "transcript_path": VALUES},
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=FIELDS)
def test_any_values_in_known_fields(place: Place, payload: dict[str, object]) -> None:
    """A function may fail on nonsense (the failure is logged), but what it answers is always well-formed."""
    data = json.dumps(payload).encode()
    decoded = serve.decode(data)
    runtime = Runtime(str(place.root), str(place.runtime), {})
    try:
        answer = EVENTS[decoded["hook_event_name"]](decoded, runtime)
    except (TypeError, ValueError, AttributeError, OSError):
        return
    assert answer is None or answer["hookSpecificOutput"]["hookEventName"] == decoded["hook_event_name"]


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    try:
        payload = serve.decode(data)
    except (ValueError, RecursionError):
        return
    json.dumps(payload, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize("sample", sorted(p.name for p in PAYLOADS.glob("*.json") if not p.name.startswith("H-")))
def test_every_recorded_payload(place: Place, sample: str) -> None:
    place.learn("demo", loader="# demo\n- x\n", overlay="- y\n")
    answer = place.fire(place.bytes_of(sample))
    assert (answer.code, answer.err) == (0, b"")
    if answer.out:
        assert answer.json["hookSpecificOutput"]["hookEventName"] == sample.partition("-")[0].removesuffix(".json")
    assert all(" Ignored: " in line for line in place.errors)
