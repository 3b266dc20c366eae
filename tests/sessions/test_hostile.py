"""Transcripts as bad as they come: whatever is done to the lines, every marker is shown once and the account is exact."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.sessions import claude_code, lines, reader
from harness.sessions.account import Account
from harness.sessions.lines import NotATranscript, records
from harness.sessions.pieces import Caps
from harness.sessions.render import render_session


def record(number: int, parent: str | None, text: str) -> dict[str, Any]:
    role = "user" if number % 2 == 0 else "assistant"
    said: Any = f"<m{number:03d}> {text}"
    message: dict[str, Any] = {"role": role, "content": said}
    if role == "assistant":
        message = {"role": role, "id": f"msg_{number}", "content": [{"type": "text", "text": said}]}
    return {
        "parentUuid": parent, "isSidechain": False, "type": role, "message": message, "uuid": f"u{number}", "sessionId": "s",
        "timestamp": f"2026-03-02T09:00:{number % 60:02d}.000Z", "cwd": "/proj",
    }  # fmt: skip


DAMAGE = st.sampled_from(
    ["none", "none", "joined", "fragment", "nul", "nul line", "bad utf8", "surrogate", "again", "circle", "orphan", "deep", "huge", "blank", "number", "crlf", "progress"]
)  # fmt: skip
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@dataclass
class Made:
    """A file's bytes, and what must come of it."""

    data: bytes
    markers: list[str]
    lines: int
    records: int
    recovered: int
    dropped: int
    duplicates: int


@st.composite
def transcripts(draw: st.DrawFn) -> Made:
    made = Made(b"\xef\xbb\xbf" if draw(st.booleans()) else b"", [], 0, 0, 0, 0, 0)
    parent: str | None = None
    waiting = b""  # a record that shares its line with the next
    count = draw(st.integers(1, 12))
    for number in range(count):
        damage = draw(DAMAGE)
        one = record(number, parent, draw(TEXT))
        if damage == "circle":
            one["parentUuid"] = one["uuid"]
        elif damage == "orphan":
            one["parentUuid"] = "nobody"
        elif damage == "huge":
            one["padding"] = "x" * 200_000
        parent = one["uuid"]
        line = json.dumps(one, ensure_ascii=draw(st.booleans())).encode("utf-8")
        made.markers.append(f"<m{number:03d}>")
        made.records += 1
        before, end, broken = b"", b"\n", bool(waiting)
        if damage == "fragment" and not waiting:
            cut = json.dumps(record(900 + number, parent, "lost") | {"input": {"type": "user", "uuid": "x"}}).encode()
            before = cut[: draw(st.integers(2, len(cut) - 2))]
            made.dropped += 1
            broken = True
        elif damage == "nul":
            before, broken = b"\0" * draw(st.integers(1, 600)), True
        elif damage == "bad utf8":
            line = line.replace(b"> ", b"> \xff\xfe", 1)
            broken = True
        elif damage == "surrogate":
            line = line.replace(b"> ", b"> \\ud83d", 1)
        elif damage == "crlf":
            end = b"\r\r\n"
        made.recovered += broken
        if waiting and not broken:
            made.recovered += 1
        if damage == "joined" and not waiting and number < count - 1:
            waiting = before + line
            made.recovered += not broken
            continue
        made.data += waiting + before + line + end
        made.lines += 1
        waiting = b""
        if damage == "nul line":
            made.data += b"\0" * 64 + b"\n"
            made.lines, made.dropped = made.lines + 1, made.dropped + 1
        elif damage == "again":
            made.data += json.dumps(one).encode() + b"\n"
            made.lines, made.records, made.duplicates = made.lines + 1, made.records + 1, made.duplicates + 1
        elif damage == "deep":
            made.data += b'{"type":"user","uuid":"deep","message":' + b"[" * 60_000 + b"]" * 60_000 + b"}\n"
            made.lines, made.dropped = made.lines + 1, made.dropped + 1
        elif damage == "blank":
            made.data += b"  \n\r\n\n"
        elif damage == "number":
            made.data += b"17\n"
            made.lines, made.dropped = made.lines + 1, made.dropped + 1
        elif damage == "progress":
            made.data += (
                json.dumps({"type": "progress", "uuid": f"p{number}", "parentUuid": parent, "sessionId": "s"}).encode()
                + b"\n"
            )
            made.lines, made.records = made.lines + 1, made.records + 1
            parent = f"p{number}"
    return made


WIDE = Caps(turn=10_000)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(made=transcripts(), plain=st.booleans())
def test_no_marker_is_lost_and_the_account_is_exact(tmp_path: Path, made: Made, plain: bool) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(made.data)
    with pytest.MonkeyPatch.context() as patch:
        if plain:  # as where orjson is not installed
            patch.setattr(lines, "parse", json.loads)
        session = reader.read(path)
    account = session.accounts["s.jsonl"]
    got = (account.lines, account.records, len(account.recovered), len(account.dropped), len(account.duplicates))
    assert got == (made.lines, made.records, made.recovered, made.dropped, made.duplicates)
    assert account.incomplete is None
    text = render_session(str(path), max_chars=0, caps=WIDE)
    assert re.findall(r"<m\d{3}>", text) == made.markers
    text.encode("utf-8")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=transcripts(), cut=st.integers(0, 4_000))
def test_a_file_that_ends_anywhere_is_read_up_to_there(tmp_path: Path, made: Made, cut: int) -> None:
    """What the whole lines give, the torn one takes nothing of; its own bytes are a record, a drop or a line still being written."""
    torn = made.data[: max(0, len(made.data) - cut)]
    whole, torn_account = Account(), Account()
    for name, data, account in (("whole", torn[: torn.rfind(b"\n") + 1], whole), ("torn", torn, torn_account)):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(data)
        list(records(path, claude_code.is_record, account))
    more = torn_account.lines - whole.lines
    assert more in (0, 1)
    assert 0 <= torn_account.records - whole.records <= 2 * more
    assert 0 <= len(torn_account.dropped) - len(whole.dropped) <= 2 * more
    rest = torn[torn.rfind(b"\n") + 1 :]
    assert bool(torn_account.incomplete) <= rest.lstrip(b"\0\xef\xbb\xbf \r").startswith(b"{")
    try:
        assert len(render_session(str(tmp_path / "torn.jsonl"), max_chars=1_000)) <= 1_000
    except NotATranscript:
        assert not whole.records


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400) | st.text(max_size=200).map(lambda t: t.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_an_account_or_a_clear_refusal(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(data)
    account = Account()
    try:
        list(records(path, lambda data: True, account))
    except NotATranscript:
        return
    body = data.removeprefix(b"\xef\xbb\xbf") if data.startswith(b"\xef\xbb\xbf") else data
    assert account.lines == sum(1 for line in body.split(b"\n") if line.strip(b" \t\r"))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "message", "content", "uuid", "parentUuid", "id", "tool_use_id", "input", "attachment", "payload", "$set", "messages",
                         "toolUseResult", "usage", "role", "sessionId", "timestamp", "isSidechain", "agentId", "text", "name", "subtype", "toolCalls"]),
        inner | st.sampled_from(["user", "assistant", "tool_use", "tool_result", "system", "attachment", "gemini", "message", "response_item", "u1", "thinking"]),
        max_size=6,
    ), max_leaves=20), max_size=6))  # fmt: skip
@pytest.mark.parametrize("client", ["claude_code", "codex", "gemini", "generic"])
def test_records_of_any_shape_crash_no_reader(tmp_path: Path, client: str, rows: list[Any]) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    session = reader.reader(client).read(path, 1_000)
    assert session.accounts["s.jsonl"].lines == len(rows)
    for node in session.nodes:
        assert node.predecessor is None or session.node(node.predecessor) is not None
        assert node.caller is None or session.node(node.caller) is not None
    session.branch()


def test_a_broken_line_of_megabytes_is_searched_in_bounded_time(tmp_path: Path) -> None:
    """Many places that look like the beginning of a record, none of them whole, and one that is."""
    good = json.dumps(record(1, None, "end")).encode()
    for piece in (
        b'{"type":"user","uuid":"x","message":',
        b'{"a":"',
        b"{" * 50,
        b'{"a":{}}',
        b'["',
        b"\\u12",
        b'{"uuid":1},',
    ):
        path = tmp_path / "s.jsonl"
        path.write_bytes(
            json.dumps(record(0, None, "first")).encode() + b"\n" + piece * (1_000_000 // len(piece)) + good + b"\n"
        )
        session = reader.read(path)
        assert session.accounts["s.jsonl"].lines == 2
        assert session.accounts["s.jsonl"].records >= 1
