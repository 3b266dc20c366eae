"""Pages: never longer than asked, joined they are the whole, and nothing in them is more than text."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.sessions.formats import FORMATS
from harness.sessions.pieces import Caps
from harness.sessions.render import BadRange, render_session
from tests.sessions.places import SAMPLES, case, line, shown

ALL = sorted(p.name for p in SAMPLES.glob("*.jsonl"))


def session(folder: Path, turns: list[tuple[str, list[tuple[str, str]]]]) -> Path:
    """A session in the plain form: (text, calls as (arguments, result)) for each turn."""
    rows = []
    for number, (text, calls) in enumerate(turns):
        rows.append(line(id=f"t{number}", role="assistant" if number % 2 else "user", content=text))
        rows += [
            line(
                id=f"t{number}c{n}",
                role="tool",
                name=f"call{number}x{n}",
                input=given,
                content=result,
                caller=f"t{number}",
            )
            for n, (given, result) in enumerate(calls)
        ]
    path = folder / "s.jsonl"
    path.write_text("\n".join(rows) + "\n", "utf-8")
    return path


WORDS = st.text(st.sampled_from("ab é<&\"'\\\n\t\r\x1b\x07|#[]-*`1…😀\u202e"), max_size=60) | st.integers(0, 5_000).map(
    lambda n: "word " * (n // 5)
)
TURNS = st.lists(st.tuples(WORDS, st.lists(st.tuples(WORDS, WORDS), max_size=5)), min_size=1, max_size=8)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(turns=TURNS, limit=st.integers(1_000, 6_000), form=st.sampled_from(sorted(FORMATS)))
def test_a_page_is_never_longer_and_pages_give_every_turn_and_call_once(
    tmp_path: Path, turns: list[tuple[str, list[tuple[str, str]]]], limit: int, form: str
) -> None:
    path = session(tmp_path, turns)
    at, item, seen_turns, seen_calls = 0, 0, [], []
    for _ in range(300):
        page = render_session(str(path), start_turn=at, start_item=item, max_chars=limit, format=form)
        assert len(page) <= limit
        seen_calls += re.findall(r"\bcall\d+x\d+ (?:ok|FAILED)", page)
        if form == "json":
            document = json.loads(page)
            seen_turns += [
                p["turn"] for p in document["pieces"] if p["depth"] == 0 and ", from item" not in p["heading"]
            ]
            following = document["next"]
            if following is None:
                break
            at, item = following["turn"], following["item"]
            continue
        heads = re.findall(r"^(?:## |<h2>)?\[(\d+)\] \S+  time unknown(, from item)?", page, re.M)
        seen_turns += [int(number) for number, continued in heads if not continued]
        found = re.search(
            r"cut here; next is .* --turns (\d+):(?:\d*)(?: --item (\d+))?",
            page.rsplit("cut here;", 1)[-1] and page[page.rfind("cut here;") :] if "cut here;" in page else "",
        )
        if not found:
            break
        at, item = int(found[1]), int(found[2] or 0)
    assert seen_turns == list(range(1, len(turns) + 1))
    assert seen_calls == [f"call{t}x{n} ok" for t, (_, calls) in enumerate(turns) for n in range(len(calls))]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("form", sorted(FORMATS))
def test_samples_render_the_same_each_time_in_every_format(name: str, form: str) -> None:
    path = SAMPLES / name
    text = shown(path, format=form)
    assert text == shown(path, format=form)
    for limit in (1_000, 1_700, 5_000):
        assert len(render_session(str(path), max_chars=limit, format=form)) <= limit


@pytest.mark.parametrize("name", ALL)
def test_samples_are_as_they_were(name: str) -> None:
    """Golden files: what a person saw when they were last looked at."""
    assert shown(SAMPLES / name) == (SAMPLES / "golden" / f"{name}.txt").read_text("utf-8")


def test_main_sample_shows_calls_failures_and_hooks() -> None:
    text = shown(SAMPLES / "main.jsonl")
    assert "- Bash FAILED" in text
    assert text.count("- Bash ok") == 3
    assert "cannot access '/does/not/exist'" in text
    assert "note: " not in text
    text = shown(SAMPLES / "agent-then-manual-compact.jsonl")
    assert "started subagent a79231781e5c3d240" in text
    assert "subagent a79231781e5c3d240, user" in text
    assert "written by the client, not typed" in text
    for name, client in (("codex-rollout", "codex"), ("gemini-chat", "gemini")):
        text = shown(SAMPLES / f"{name}.jsonl")
        assert client in text.split("\n", 1)[0]
        assert "FAILED" in text
        assert "hook text" in text


def test_secrets_never_reach_a_page(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    path = session(tmp_path, [("use " + token, [(token, "x" * 590 + " " + token)]), ("y" * 1_990 + token, [])])
    for form in FORMATS:
        for limit in (0, 1_000, 1_500):
            text = shown(path, format=form, max_chars=limit)
            assert token[:14] not in text
    assert "[removed: github-token]" in shown(path)


def test_nothing_in_a_text_is_markup(tmp_path: Path) -> None:
    evil = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\n# heading\n[1] user"
    path = session(tmp_path, [(evil, [(evil, evil)])])

    class Tags(HTMLParser):
        seen: set[str] = set()  # noqa: RUF012

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.seen.add(tag)

    parser = Tags()
    text = shown(path, format="html")
    parser.feed(text)
    assert parser.seen == {"meta", "title", "style", "h1", "h2", "pre", "div"}
    assert html.escape(evil.split("\n", 1)[0]) in text
    assert not re.search("^# heading", shown(path, format="md"), re.M)


def test_notices_tell_unknown_sessions_heads_and_empty_sessions_apart(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert "no such session" in render_session("nothing", env=env)
    assert "no such head" in shown(case("T-39"), head_id="nothing")
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b"")
    assert "is empty" in shown(empty)
    for text in (render_session("nothing", env=env), shown(case("T-39"), head_id="x"), shown(empty)):
        assert text.count("\n") == 1
    with pytest.raises(BadRange, match="two heads"):
        render_session("a:b", "c")
    with pytest.raises(BadRange, match="no format"):
        shown(case("T-39"), format="pdf")


@pytest.mark.parametrize("form", sorted(FORMATS))
@pytest.mark.parametrize("limit", [1_000, 1_001, 1_100, 1_500])
def test_long_names_folders_and_notes_don_t_break_the_limit(tmp_path: Path, form: str, limit: int) -> None:
    path = tmp_path / ("s" * 150 + "é&<" * 20 + ".jsonl")
    rows, parent = [], None
    for number in range(12):
        said = {"role": "user", "content": '&<"word\n' * 300}
        uuid = f"{'u' * 50}{number}"
        rows.append(
            line(type="user", uuid=uuid, parentUuid=parent, sessionId="s", cwd="/" + "&<dir>/" * 60, message=said)
        )
        rows.append(
            line(
                type="user", uuid=f"b{number}", parentUuid=f"{'u' * 50}0", sessionId="s", message={"content": "branch"}
            )
        )
        parent = uuid
    path.write_text("\n".join(rows) + "\n17\n{\n", "utf-8")
    for start in (0, 3, -1, 99):
        page = render_session(str(path), parent, start, 0, max_chars=limit, format=form)
        assert len(page) <= limit
        if form == "json":
            json.loads(page)
    assert len(render_session("nobody" * 400, max_chars=limit, format=form, env={"HOME": str(tmp_path)})) <= limit


def test_caps_can_be_set_and_calls_left_out() -> None:
    path = SAMPLES / "main.jsonl"
    assert "- Bash" not in shown(path, include_function_calls=False)
    assert len(shown(path, caps=Caps(turn=100, arguments=20, result=20))) < len(shown(path))
    with_more = shown(SAMPLES / "autocompact.jsonl", caps=Caps(result=8_000))
    assert len(with_more) > len(shown(SAMPLES / "autocompact.jsonl")) + 2_000
