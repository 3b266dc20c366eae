"""hooks/gate.sh: a write outside the workspace costs a shell, one inside is handed to the program."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .places import HOOK, HOOKS, Answer, Place


def gate(place: Place, data: bytes | dict[str, Any], python: str = sys.executable, **env: str) -> Answer:
    sent = data if isinstance(data, bytes) else json.dumps(data, ensure_ascii=False).encode()
    command = ["/bin/sh", str(HOOKS / "gate.sh"), str(place.runtime), str(place.root), python, str(HOOK)]
    done = subprocess.run(command, input=sent, capture_output=True, env=place.env(**env), cwd=place.project)
    return Answer(done.returncode, done.stdout, done.stderr)


def write(place: Place, path: object, **fields: Any) -> dict[str, Any]:
    return place.payload("PreToolUse-Write.json", tool_input={"file_path": str(path), "content": "x"}, **fields)


@pytest.mark.parametrize("where", ["absolute", "relative", "from inside", "through dots"])
def test_inside(place: Place, where: str) -> None:
    cwd = place.root / "state" if where == "from inside" else place.project
    path = {
        "absolute": place.root / ".git" / "config",
        "relative": ".harness/.git/config",
        "from inside": "../.git/config",
        "through dots": "src/../.harness/.git/config",
    }[where]
    answer = gate(place, write(place, path, cwd=str(cwd)))
    assert answer.json["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_outside_starts_no_interpreter(place: Place) -> None:
    for path in (place.project / "a.py", "harness/x", "/etc/hosts", "x.harness"):
        assert gate(place, write(place, path), python="/does/not/exist").silent
    assert not (place.runtime / "hook-times.log").exists()


def test_outside_is_two_programs_and_a_shell(place: Place, tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    log = tmp_path / "trace"
    command = ["/bin/sh", str(HOOKS / "gate.sh"), str(place.runtime), str(place.root), sys.executable, str(HOOK)]
    data = json.dumps(write(place, "a.py")).encode()
    traced = [strace, "-f", "-e", "trace=execve", "-o", str(log), *command]
    subprocess.run(traced, input=data, env=place.env(), check=True)
    programs = [line for line in log.read_text().splitlines() if line.endswith("= 0") and "execve(" in line]
    assert len(programs) <= 3


@pytest.mark.parametrize("name", ["zwölf", 'say "x"', "back\\slash", "a b'c", "my proj (v2)", "star*"])
def test_odd_folder_names(tmp_path: Path, name: str) -> None:
    """Also where JSON writes the path otherwise than it is."""
    place = Place(tmp_path, name)
    for escape in (True, False):
        payload = json.dumps(write(place, place.root / ".git" / "config"), ensure_ascii=escape).encode()
        assert gate(place, payload).json["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_half_a_payload(place: Place) -> None:
    """H-30."""
    command = ["/bin/sh", str(HOOKS / "gate.sh"), str(place.runtime), str(place.root), sys.executable, str(HOOK)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=place.env())
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"cwd": "/x/.harness/')
    process.stdin.flush()
    assert process.wait(timeout=30) == 0
    assert process.stdout.read() == b""
    process.stdin.close()
    assert len(place.errors) == 1


def test_a_big_payload_is_handed_on_whole(place: Place) -> None:
    payload = write(place, place.root / ".git" / "config")
    payload["tool_input"]["content"] = "x\n" * 500_000
    assert "git's own folder" in gate(place, payload).json["hookSpecificOutput"]["permissionDecisionReason"]


def test_silence(place: Place) -> None:
    inside = write(place, ".harness/.git/config")
    assert gate(place, inside, HARNESS_LINEAGE="01J").silent
    assert gate(place, inside, python="/does/not/exist").silent
    shutil.rmtree(place.runtime)
    assert gate(place, inside).silent
