"""Taking events out of the spool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.clients import spool as spool_module
from harness.clients.runtime import Runtime
from harness.clients.spool import Bad, Event, alive, take

from .places import PAYLOADS, Place


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    folder = tmp_path / "runtime" / "spool"
    folder.mkdir(parents=True)
    return folder


def put(spool: Path, data: bytes | dict[str, object], name: str | None = None) -> Path:
    path = spool / (name or f"1.{dead_pid()}")
    with path.open("ab") as file:
        file.write(data if isinstance(data, bytes) else json.dumps(data).encode())
    return path


def events(spool: Path) -> list[Event]:
    items = list(take(spool))
    assert all(isinstance(item, Event) for item in items), items
    return [item for item in items if isinstance(item, Event)]


def test_files_go_when_the_caller_has_committed_and_not_before(spool: Path) -> None:
    put(spool, {"hook_event_name": "PostToolUse", "tool_use_id": "t1", "session_id": "s"})
    first = take(spool)
    (one,) = first
    assert [path.name for path in spool.iterdir()] == ["taken"]
    (again,) = take(spool)  # the first taker died before its commit
    assert isinstance(one, Event)
    assert isinstance(again, Event)
    assert (again.key, again.payload) == (one.key, one.payload)
    second = take(spool)
    assert len(list(second)) == 1
    second.done()
    assert list(take(spool)) == []
    assert list((spool / "taken").iterdir()) == []


def test_nothing_there(tmp_path: Path) -> None:
    nowhere = take(tmp_path / "none")
    assert list(nowhere) == []
    nowhere.done()
    assert not (tmp_path / "none").exists()


def test_a_note_is_an_event_of_its_kind(place: Place) -> None:
    Runtime(str(place.root), str(place.runtime), {}).note("skill", skill="aeo", session="s", turn="t", lines=None)
    (event,) = events(place.spool)
    assert (event.kind, event.payload["skill"], event.payload["harness_note"]) == ("skill", "aeo", "skill")


def test_several_objects_in_one_file(spool: Path) -> None:
    """A pid that was used twice."""
    path = put(spool, b'\xef\xbb\xbf{"hook_event_name":"A","n":1}\r\n')
    put(spool, b'\xef\xbb\xbf{"hook_event_name":"B","n":2}{"hook_event_name":"C"}', path.name)
    assert [event.kind for event in events(spool)] == ["A", "B", "C"]


def test_two_deliveries_of_one_event(spool: Path) -> None:
    """H-08: settings and plugin both run; also when they come in different takes."""
    payload = json.loads((PAYLOADS / "H-08.json").read_bytes())
    put(spool, payload)
    put(spool, payload)
    first = take(spool)
    assert len(list(first)) == 1
    first.done()
    put(spool, payload)
    assert list(take(spool)) == []
    put(spool, {**payload, "tool_use_id": "another"})
    put(spool, {**payload, "prompt_id": "another turn of a resumed session, where the ids start anew"})
    assert len(list(take(spool))) == 2


def test_events_without_an_id_by_prompt_or_never(spool: Path) -> None:
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt_id": "p", "prompt": "x"}
    put(spool, prompt)
    put(spool, prompt)
    bare = {"hook_event_name": "SessionEnd", "session_id": "s"}
    put(spool, bare)
    put(spool, bare)
    first = take(spool)
    kinds = [item.kind for item in first if isinstance(item, Event)]
    first.done()
    assert sorted(kinds) == ["SessionEnd", "SessionEnd", "UserPromptSubmit"]


def test_a_name_that_comes_again_is_a_new_event(spool: Path) -> None:
    name = f"1.{dead_pid()}"
    put(spool, {"hook_event_name": "SessionEnd"}, name)
    first = take(spool)
    assert len(list(first)) == 1
    first.done()
    time.sleep(0.01)
    put(spool, {"hook_event_name": "SessionEnd"}, name)
    assert len(list(take(spool))) == 1


def test_a_writer_at_work_is_left_alone(spool: Path) -> None:
    half = put(spool, b'{"hook_event_name":', f"1.{os.getpid()}")
    assert list(take(spool)) == []
    assert half.exists()
    put(spool, b'"A"}', half.name)  # whole now, and the writer only has to end
    assert [event.kind for event in events(spool)] == ["A"]


def test_a_writer_that_ends_while_we_wait(spool: Path) -> None:
    script = f"import os,time; f=open({str(spool)!r}+'/1.'+str(os.getpid()),'wb'); f.write(b'{{\"a\"'); f.flush();"
    script += "print(flush=True); time.sleep(0.03); f.write(b':1}'); f.close()"
    writer = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()
    while not (found := list(take(spool))):  # a slow machine may need more than one take
        assert not (spool / "bad").exists()
    writer.wait()
    assert isinstance(found[0], Event)
    assert found[0].payload == {"a": 1}


def test_a_dead_writer_that_was_not_waited_for(spool: Path) -> None:
    process = subprocess.Popen(["true"])
    deadline = time.monotonic() + 10
    while alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert not alive(process.pid)  # still a zombie: nobody has waited for it
    os.kill(process.pid, 0)
    process.wait()


def test_a_pid_that_a_stranger_has_now(spool: Path) -> None:
    path = put(spool, b'{"half', f"1.{os.getpid()}")
    old = time.time() - 2 * spool_module.ABANDONED_SECONDS
    os.utime(path, (old, old))
    (bad,) = take(spool)
    assert isinstance(bad, Bad)


@pytest.mark.parametrize(
    ("data", "good"),
    [(b'{"session_id":"5b0c","cwd":', 0), (b"[1, 2]", 0), (b'{"a":1} rest', 1), (b"\x00\xff", 0), (b"[" * 100_000, 0)],
)
def test_what_is_no_event_is_kept_and_said(spool: Path, data: bytes, good: int) -> None:
    put(spool, data)
    taken = take(spool)
    items = list(taken)
    assert [type(item) for item in items] == [Event] * good + [Bad]
    bad = items[-1]
    assert isinstance(bad, Bad)
    assert "no event" in bad.reason
    taken.done()
    (kept,) = (spool / "bad").iterdir()
    assert kept.read_bytes() == data[: spool_module.BAD_BYTES]
    assert list(take(spool)) == []


def test_an_empty_file_is_nothing(spool: Path) -> None:
    put(spool, b"")
    put(spool, b" \n")
    taken = take(spool)
    assert list(taken) == []
    taken.done()
    assert list((spool / "taken").iterdir()) == []


def test_bad_files_are_bounded(spool: Path) -> None:
    for number in range(spool_module.BAD_FILES + 7):
        put(spool, b"bad %d" % number, f"{number}.{dead_pid()}")
    taken = take(spool)
    assert len(list(taken)) == spool_module.BAD_FILES + 7
    taken.done()
    assert len(list((spool / "bad").iterdir())) == spool_module.BAD_FILES


def test_every_form_of_a_response_survives(spool: Path) -> None:
    """H-15, H-25: string, blocks, null, number, missing, nested object, JSON in a string, another client's string."""
    lines = (PAYLOADS / "H-15.ndjson").read_bytes().splitlines()
    for line in lines:
        put(spool, line)
    put(spool, (PAYLOADS / "H-25.json").read_bytes())
    found = {event.payload["tool_use_id"]: event.payload.get("tool_response") for event in events(spool)}
    sent = [json.loads(line) for line in lines]
    assert len(found) == len(sent) + 1
    assert [found[payload["tool_use_id"]] for payload in sent] == [payload.get("tool_response") for payload in sent]


def test_bytes_that_are_no_text(spool: Path) -> None:
    """H-17, H-18: what comes out can be written as UTF-8, and the words around the damage are whole."""
    put(spool, (PAYLOADS / "H-17.json").read_bytes())
    put(spool, (PAYLOADS / "H-18.json").read_bytes())
    rows = {event.kind: json.dumps(event.payload, ensure_ascii=False).encode() for event in events(spool)}
    assert b'"stdout": "caf\xef\xbf\xbd"' in rows["PostToolUse"]
    assert b"BEFORE party \xef\xbf\xbd AFTER keep it short" in rows["UserPromptSubmit"]


def test_only_responses_are_clipped(spool: Path) -> None:
    long = "x" * 50_000
    put(
        spool,
        {"hook_event_name": "E", "tool_input": {"content": long}, "tool_response": [{"text": long}], "error": long},
    )
    (event,) = events(spool)
    assert event.payload["tool_input"]["content"] == long
    assert "[... 30000 characters cut ...]" in event.payload["tool_response"][0]["text"]
    assert "[... 30000 characters cut ...]" in event.payload["error"]


def test_a_writer_that_appends_after_the_take(spool: Path) -> None:
    name = f"1.{dead_pid()}"
    put(spool, {"hook_event_name": "SessionEnd"}, name)
    taken = take(spool)
    assert len(list(taken)) == 1
    put(spool, {"hook_event_name": "Stop"}, f"taken/{name}")  # it had the file open when it was renamed
    taken.done()
    assert "Stop" in [event.kind for event in events(spool)]
