"""hooks/spool.sh: one event, one file, three processes, and never a word to the client."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from harness.clients.spool import Event, take

from .places import HOOKS, Place

SHELLS = [path for path in (shutil.which("dash"), shutil.which("bash"), shutil.which("busybox")) if path]


def files(place: Place) -> list[Path]:
    return sorted(path for path in place.spool.iterdir() if path.is_file())


@pytest.mark.parametrize("shell", SHELLS)
def test_the_payload_is_kept_unread(place: Place, shell: str) -> None:
    data = place.bytes_of("H-17.json")
    command = [shell, *(["sh"] if shell.endswith("busybox") else []), *place.command("spool")[1:]]
    done = subprocess.run(command, input=data, capture_output=True, env=place.env(), check=True)
    (file,) = files(place)
    assert (done.stdout, done.stderr) == (b"", b"")
    assert file.read_bytes() == data
    assert re.fullmatch(r"\d+\.\d+", file.name)
    assert file.stat().st_mode & 0o077 == 0  # a payload may hold what only the user should read


def test_a_strict_shell_and_no_environment_at_all(place: Place) -> None:
    """H-06."""
    script = '"$0" "$1" < "$2"'
    command = ["bash", "-euo", "pipefail", "-c", script, str(HOOKS / "spool.sh"), str(place.runtime), "/dev/stdin"]
    done = subprocess.run(command, input=b"{}", capture_output=True, env={"PATH": os.environ["PATH"]})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert [file.read_bytes() for file in files(place)] == [b"{}"]


@pytest.mark.parametrize("name", ["my proj (v2)", "a b'c", "$HOME", "-n", "zwölf"])
def test_odd_folder_names(tmp_path: Path, name: str) -> None:
    """H-01, H-02: no part of a path is ever a word of its own."""
    place = Place(tmp_path, name)
    assert place.fire(place.payload("H-01.json"), "spool").silent
    assert len(files(place)) == 1


def test_the_working_folder_does_not_matter(place: Place) -> None:
    """H-05."""
    inside = place.project / "packages" / "api" / "src"
    inside.mkdir(parents=True)
    subprocess.run(place.command("spool"), input=place.bytes_of("H-05.json"), cwd=inside, env=place.env(), check=True)
    assert len(files(place)) == 1
    assert list((place.project / "packages").rglob("*.json")) == []


def test_without_python_on_the_path(place: Place, tmp_path: Path) -> None:
    """H-03, H-04: the spool hook needs no interpreter."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for tool in ("sh", "cat"):
        (bin_folder / tool).symlink_to(str(shutil.which(tool)))
    assert place.fire(place.payload("H-04.json"), "spool", env={"PATH": str(bin_folder)}).silent
    assert len(files(place)) == 1


def test_three_processes_at_most(place: Place, tmp_path: Path) -> None:
    """H-32."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    log = tmp_path / "trace"
    command = [strace, "-f", "-e", "trace=execve,clone,fork,vfork", "-o", str(log), *place.command("spool")]
    subprocess.run(command, input=b"{}", env=place.env(), check=True, capture_output=True)
    started = {line.split()[0] for line in log.read_text().splitlines()}
    programs = [line for line in log.read_text().splitlines() if "execve(" in line and line.endswith("= 0")]
    assert len(started) <= 3
    assert len(programs) <= 3


def test_a_client_that_never_closes_the_pipe(place: Place) -> None:
    """H-30: the deadline ends it, what came is kept, and the loss is counted."""
    if not shutil.which("timeout"):
        pytest.skip("no timeout program here")
    process = subprocess.Popen(place.command("spool"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=place.env())
    assert process.stdin is not None
    process.stdin.write(b'{"session_id":"5b0c","cwd":')
    process.stdin.flush()
    assert process.wait(timeout=30) == 0
    assert process.stdout is not None
    assert process.stdout.read() == b""
    process.stdin.close()
    (error,) = place.errors
    assert "SpoolFailed" in error
    assert "5b0c" not in error


def test_silent_without_a_runtime_folder_and_for_runs_of_our_own(place: Place, tmp_path: Path) -> None:
    gone = subprocess.run(
        ["/bin/sh", str(HOOKS / "spool.sh"), str(tmp_path / "none")], input=b"{}", capture_output=True
    )
    assert (gone.returncode, gone.stdout, gone.stderr) == (0, b"", b"")
    assert not (tmp_path / "none").exists()
    assert place.fire(b"{}", "spool", env=place.env(HARNESS_LINEAGE="01J")).silent  # H-42
    assert files(place) == []


def test_a_missing_spool_folder_is_made(place: Place) -> None:
    place.spool.rmdir()
    assert place.fire(b"{}", "spool").silent
    assert len(files(place)) == 1


def test_a_spool_that_can_not_be_written(place: Place) -> None:
    """H-39: exit 0, nothing printed, the loss counted."""
    place.spool.rmdir()
    place.spool.write_text("a file where the folder should be")
    assert place.fire(b"{}", "spool").silent
    (error,) = place.errors
    assert re.match(r"\d{4}-\d\d-\d\dT\S+ spool SpoolFailed: ", error)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small tmpfs")
def test_a_full_disk_leaves_no_half_event(place: Place) -> None:
    """H-39: the half that fitted is given back, and events are kept again when there is space."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place.spool)], capture_output=True)
    if done.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        assert place.fire(b'{"x": "' + b"x" * 200_000 + b'"}', "spool").silent
        assert [file.stat().st_size for file in files(place)] in ([0], [])
        assert len(place.errors) == 1
        assert place.fire(place.payload("H-01.json"), "spool").silent
        assert [item.kind for item in take(place.spool) if isinstance(item, Event)] == ["PostToolUse"]
    finally:
        subprocess.run(["umount", str(place.spool)], check=True)


def test_twenty_at_once(place: Place) -> None:
    """H-35: parallel tool calls lose nothing, at any size."""
    payload = place.payload("H-35.json")
    ids = [f"toolu_case0000000000000000{number:02}" for number in range(1, 21)]
    big = {"stdout": "x" * 300_000, "stderr": ""}

    def one(call: str) -> None:
        assert place.fire({**payload, "tool_use_id": call, "tool_response": big}, "spool").silent

    threads = [threading.Thread(target=one, args=(call,)) for call in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(files(place)) == 20
    taken = [item.payload["tool_use_id"] for item in take(place.spool) if isinstance(item, Event)]
    assert sorted(taken) == ids


def test_eight_megabytes(place: Place) -> None:
    """H-19: the hook keeps them unread, the taker clips them and says by how much."""
    text = "HEAD-MARK " + "log line 123456\n" * 500_000 + " TAIL-MARK"
    payload = place.payload("H-01.json", tool_response={"stdout": text, "stderr": ""})
    assert place.fire(payload, "spool").silent
    (event,) = take(place.spool)
    assert isinstance(event, Event)
    kept = event.payload["tool_response"]["stdout"]
    assert kept.startswith("HEAD-MARK ")
    assert kept.endswith(" TAIL-MARK")
    assert f"[... {len(text) - 20_000} characters cut ...]" in kept
    assert len(kept) < 20_100
