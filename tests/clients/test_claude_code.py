"""What each event of Claude Code does, fired as the client fires it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from harness.clients import context
from harness.clients.claude_code import EVENTS
from harness.clients.runtime import Runtime

from .places import PAYLOADS, SESSION, Place, sha

LOADER = "# aeo\n\n## Known gaps\n- the date field needs its own selector\n"
OVERLAY = "- Never hedge.\n"
SKILL = "c0bc70e2-9e04-4793-b79f-042d1ba73e3a"  # the session of the recorded Skill call


def use(place: Place, name: str = "aeo", session: str = SESSION, **fields: object) -> str:
    """The model uses a skill; returns the context it gets."""
    answer = place.hook("PostToolUse-Skill.json", session_id=session, tool_input={"skill": name}, **fields)
    assert (answer.code, answer.err) == (0, b"")
    return answer.context if answer.out else ""


# -- a skill is used ---------------------------------------------------------------------------------------------------


def test_a_skill_of_the_model_is_noted_and_gets_what_was_learned(place: Place) -> None:
    place.learn("demo", loader=LOADER, overlay=OVERLAY)
    answer = place.hook("PostToolUse-Skill.json")
    assert answer.json["hookSpecificOutput"]["hookEventName"] == "PostToolUse"
    assert OVERLAY.strip() in answer.context
    assert answer.context.index("notes written by agents") < answer.context.index(LOADER.strip())
    assert answer.context.endswith(f"echo 'demo: what was missing [LOGGED]' >> '{place.log}'")
    (note,) = place.notes
    note.pop("ts")
    assert note == {
        "harness_note": "skill",
        "skill": "demo",
        "name": "demo",
        "via": "model",
        "session": SKILL,
        "turn": "650c7242-0d30-4d9d-b210-56e0b1744da3",
        "agent_id": None,
        "tool_use_id": "toolu_fake000000000000000010",
        "base_sha256": sha("base"),
        "overlay_sha256": sha(OVERLAY),
        "loader_sha256": sha(LOADER),
    }
    assert place.session_file("skill.demo", SKILL).exists()


def test_what_is_given_comes_from_the_snapshot_and_not_from_the_work_tree(place: Place) -> None:
    place.learn("aeo", loader=LOADER)
    for name in ("AGENTS.md", "overlay.md"):
        path = place.root / "skills" / "aeo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("UNGATED")
    text = use(place)
    assert "date field" in text
    assert "UNGATED" not in text


def test_a_skill_nobody_learned_about_is_only_noted(place: Place) -> None:
    assert use(place, "acme:greet") == ""
    (note,) = place.notes
    assert (note["skill"], note["name"]) == ("greet", "acme:greet")
    assert {note["base_sha256"], note["overlay_sha256"], note["loader_sha256"]} == {None}


def test_names_with_and_without_the_plugin(place: Place) -> None:
    place.learn("greet", overlay=OVERLAY, names=("greet", "acme:greet"))
    assert use(place, "greet") == use(place, "acme:greet") != ""
    assert [note["skill"] for note in place.notes] == ["greet", "greet"]


def test_a_short_name_that_two_skills_have_is_not_guessed(place: Place) -> None:
    place.learn("acme~greet", overlay="- a\n", names=("acme:greet", "greet"))
    place.learn("other~greet", overlay="- b\n", names=("other:greet", "greet"))
    assert use(place, "greet") == ""
    assert "- b" in use(place, "other:greet")


def test_only_an_overlay_has_no_duty(place: Place) -> None:
    place.learn("aeo", overlay=OVERLAY)
    assert "harness-feedback" not in use(place)


def test_duty_off(place: Place) -> None:
    place.now["settings"] = {"loader": {"duty": "off"}}
    place.learn("aeo", loader=LOADER)
    assert "date field" in use(place)
    assert "harness-feedback" not in use(place)


@pytest.mark.parametrize("line", ["- a rule of some length, number {}", "- \U0001f600 \U0001f600 rule {}"])
def test_long_texts_are_cut_at_whole_lines(place: Place, line: str) -> None:
    """H-26: the client turns longer context into a file; it counts UTF-16 units."""
    overlay = "\n".join(line.format(number) for number in range(1000))
    place.learn("aeo", overlay=overlay, loader=LOADER + overlay)
    text = use(place)
    assert len(text.encode("utf-16-le")) // 2 < context.LIMIT
    assert text.count("more lines: harness show aeo]") == 2
    assert text.endswith("loader-feedback.log'")
    given = [row for row in text.splitlines() if row.startswith("- ")]
    assert set(given) <= {*overlay.splitlines(), *LOADER.splitlines()}


def test_a_typed_skill(place: Place) -> None:
    place.learn("demo", overlay=OVERLAY)
    answer = place.hook("UserPromptExpansion.json")
    assert answer.json["hookSpecificOutput"]["hookEventName"] == "UserPromptExpansion"
    assert "Never hedge" in answer.context
    (note,) = place.notes
    assert (note["via"], note["skill"], note["tool_use_id"]) == ("typed", "demo", None)


def test_a_forked_skill_gets_nothing_in_its_parent(place: Place) -> None:
    place.learn("forked", overlay=OVERLAY, loader=LOADER)
    assert place.hook("PostToolUse-Skill-forked.json").silent
    (note,) = place.notes
    assert (note["via"], note["agent_id"]) == ("forked", "ae7cfb04392705be4")


def test_a_skill_inside_a_subagent(place: Place) -> None:
    place.learn("aeo", loader=LOADER)
    assert "date field" in use(place, agent_id="a1", agent_type="general-purpose")
    assert place.notes[0]["agent_id"] == "a1"
    assert not place.session_file("given.aeo").exists()  # the main agent hasn't seen it


@pytest.mark.parametrize("sample", ["PostToolUse-Bash.json", "PostToolUse-Write.json", "PostToolUse-mcp.json"])
def test_other_tools_concern_nothing(place: Place, sample: str) -> None:
    """H-28: nothing to say is exit 0 and not one byte, each time."""
    assert place.hook(sample).silent
    assert place.hook(sample).silent
    assert place.notes == []


# -- forks -------------------------------------------------------------------------------------------------------------


def transcript(place: Place, *entries: object) -> str:
    path = place.base / "transcript.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries) + '{"type": "cut off')
    return str(path)


def call(name: str, ident: str, **given: str) -> dict[str, object]:
    block = {"type": "tool_use", "id": ident, "name": name, "input": given}
    return {"type": "assistant", "message": {"role": "assistant", "content": [block]}, "timestamp": "2999"}


def result(ident: str) -> dict[str, object]:
    block = {"type": "tool_result", "tool_use_id": ident, "content": "ok"}
    return {"type": "user", "message": {"role": "user", "content": [block]}}


def about_to_use(place: Place, skill: str, ident: str = "t1", **fields: object) -> None:
    given = {"tool_input": {"skill": skill}, "tool_use_id": ident, **TURN, **fields}
    assert place.hook("PreToolUse-Skill.json", **given).silent


TURN = {"session_id": SESSION, "prompt_id": "the turn"}


def test_a_fork_of_the_models_call_gets_what_was_learned(place: Place) -> None:
    place.learn("forked", loader=LOADER, overlay=OVERLAY)
    about_to_use(place, "acme:forked")
    # The transcript has the call, or lags behind and has none of it.
    path = transcript(place, call("Agent", "t0"), result("t0"), call("Skill", "t1", skill="acme:forked"))
    first = place.hook("SubagentStart.json", **TURN, transcript_path=path)
    assert first.json["hookSpecificOutput"]["hookEventName"] == "SubagentStart"
    assert "Never hedge" in first.context
    assert "harness-feedback: forked:" in first.context
    assert place.hook("SubagentStart.json", **TURN, transcript_path=path).silent  # one call, one fork
    about_to_use(place, "forked", "t2")
    assert "Never hedge" in place.hook("SubagentStart.json", **TURN, transcript_path="/not/yet").context


def test_a_subagent_that_is_no_fork_gets_nothing(place: Place) -> None:
    place.learn("forked", loader=LOADER)
    assert place.hook("SubagentStart.json").silent
    about_to_use(place, "unknown")
    assert place.hook("SubagentStart.json", **TURN).silent
    about_to_use(place, "forked")
    use(place, "forked", tool_use_id="t1")  # no fork: it has ended at once
    assert place.hook("SubagentStart.json", **TURN).silent
    about_to_use(place, "forked")
    assert place.hook("SubagentStart.json", **{**TURN, "prompt_id": "a later turn"}).silent
    for entries in ([call("Skill", "t1", skill="forked"), result("t1")], [call("Agent", "t2")]):
        about_to_use(place, "forked")  # denied by another hook, and then a subagent starts
        assert place.hook("SubagentStart.json", **TURN, transcript_path=transcript(place, *entries)).silent
    about_to_use(place, "forked")
    assert place.hook("SubagentStart.json", **{**TURN, "session_id": "another"}).silent
    assert place.errors == []


def test_a_typed_fork_has_its_context_already(place: Place) -> None:
    place.learn("demo", loader=LOADER)
    turn = place.payload("UserPromptExpansion.json")
    assert "date field" in place.hook("UserPromptExpansion.json").context
    same = {"session_id": turn["session_id"], "prompt_id": turn["prompt_id"]}
    assert place.hook("SubagentStart.json", **same).silent


def test_the_tail_of_a_long_transcript_is_enough(place: Place) -> None:
    place.learn("forked", loader=LOADER)
    filler = [{"type": "user", "message": {"content": "x" * 1000}} for _ in range(500)]
    about_to_use(place, "forked")
    path = transcript(place, call("Agent", "old"), *filler, call("Skill", "t1", skill="forked"))
    assert "date field" in place.hook("SubagentStart.json", **TURN, transcript_path=path).context


# -- prompts -----------------------------------------------------------------------------------------------------------


def test_a_prompt_leaves_its_id_and_hash(place: Place) -> None:
    assert place.hook("UserPromptSubmit.json").silent
    (row,) = place.session_file("prompts", SKILL).read_text().splitlines()
    assert json.loads(row)["id"] == "650c7242-0d30-4d9d-b210-56e0b1744da3"
    assert json.loads(row)["sha256"] == hashlib.sha256(b"do it").hexdigest()


@pytest.mark.parametrize("sample", ["H-11.json", "UserPromptSubmit-task-notification.json"])
def test_a_background_task_is_not_the_user(place: Place, sample: str) -> None:
    """H-11."""
    assert place.hook(sample).silent
    assert not (place.runtime / "sessions").exists()


def test_a_prompt_that_quotes_the_tag_is_the_users(place: Place) -> None:
    place.hook("H-11.json", prompt="what does <task-notification> mean?")
    assert place.session_file("prompts").exists()


def test_a_cut_emoji_in_a_prompt(place: Place) -> None:
    """H-18."""
    assert place.fire(place.bytes_of("H-18.json")).silent
    row = json.loads(place.session_file("prompts").read_bytes())
    assert row["sha256"] == hashlib.sha256("BEFORE party \ufffd AFTER keep it short".encode()).hexdigest()
    assert place.errors == []


def test_a_skill_named_as_a_word_gets_its_loader_once(place: Place) -> None:
    place.learn("aeo", loader=LOADER, overlay=OVERLAY)
    text = place.hook("H-20.json", prompt="please use AEO, then stop").context
    assert "date field" in text
    assert "Never hedge" not in text
    assert place.hook("H-20.json", prompt="aeo again").silent
    assert place.hook("H-20.json", prompt="aeo again", session_id="another").out


@pytest.mark.parametrize(
    "prompt", ["xaeo", "aeon", "/aeo now", "a.eo", "see aeo-2 and my_aeo", "path/to/overlay-only", "", "aeo.py"]
)
def test_words_that_are_not_the_skill(place: Place, prompt: str) -> None:
    place.learn("aeo", loader=LOADER)
    place.learn("overlay-only", overlay=OVERLAY)
    assert place.hook("H-20.json", prompt=prompt).silent


def test_a_used_skill_is_not_given_again_for_its_name(place: Place) -> None:
    place.learn("aeo", loader=LOADER)
    use(place)
    assert place.hook("H-20.json", prompt="thanks, now aeo for the rest").silent


def test_many_skills_named_at_once_stay_below_the_limit(place: Place) -> None:
    names = [f"skill-{number}" for number in range(12)]
    for name in names:
        place.learn(name, loader=f"# {name}\n" + "- a rule\n" * 300)
    text = place.hook("H-20.json", prompt=" ".join(names)).context
    assert context.width(text) <= context.LIMIT
    assert "left out for length: harness show skill-" in text


# -- notices -----------------------------------------------------------------------------------------------------------


def test_an_unreadable_feedback_line_is_told_once(place: Place) -> None:
    place.now["quarantine"] = [
        {"id": "01A", "session": SESSION, "text": "line 3: `???` names no skill"},
        {"id": "01B", "session": "another", "text": "not for this one"},
        {"id": "../../x", "session": None, "text": "for anybody"},
    ]
    place.export()
    text = place.hook("H-20.json").context
    assert "names no skill" in text
    assert "for anybody" in text
    assert "not for this one" not in text
    assert place.hook("H-20.json").silent
    assert {path.parent for path in place.runtime.rglob("*x")} == {place.runtime / "told"}


def test_parallel_hooks_tell_it_once(place: Place) -> None:
    place.now["quarantine"] = [{"id": "01A", "session": None, "text": "TOLD"}]
    place.export()
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: place.hook("H-20.json").out, range(8)))
    assert sum(b"TOLD" in out for out in answers) == 1


# -- a session starts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["startup", "resume", "clear", "compact", "interactive"])
def test_nothing_in_force_is_silence(place: Place, source: str) -> None:
    assert place.hook(f"SessionStart-{source}.json").silent


def test_what_is_in_force(place: Place) -> None:
    place.learn("aeo", loader=LOADER)
    place.learn("quiet")
    place.now["notices"] = [
        {"id": "01A", "text": "old", "ts": "2026-03-02T09:14:20Z", "session": "5b0c7c1e-2f64"},
        {"id": "01B", "text": "aeo/selectors was regenerated 3 times in 7 days"},
    ]
    place.export()
    text = place.hook("SessionStart-startup.json").context
    assert "for the skills aeo." in text
    assert "quiet" not in text
    assert text.index("regenerated 3 times") < text.index("- (2026-03-02, session 5b0c7c1e) old")  # H-29: dated


def test_the_always_on_part_is_small(place: Place) -> None:
    """H-26: some 500 tokens at most, the newest notices first, and what is left out is counted."""
    for number in range(40):
        place.learn(f"skill-{number:02}", overlay=OVERLAY)
    place.now["notices"] = [{"id": f"{number:03}", "text": f"notice {number} " + "x" * 110} for number in range(500)]
    place.export()
    text = place.hook("SessionStart-startup.json").context
    assert len(text) <= context.START_LIMIT
    assert "(and 10 more: harness status)" in text
    assert "notice 499" in text
    assert "notice 0 " not in text
    assert "more lines: harness status]" in text


def test_resuming_says_nothing_twice_and_compaction_does(place: Place) -> None:
    """H-14."""
    place.learn("aeo", loader=LOADER)
    lines = [json.loads(line) for line in (PAYLOADS / "H-14.ndjson").read_bytes().splitlines()]
    startup, resume, compact = ({**line, "cwd": str(place.project)} for line in lines)
    assert "aeo" in place.fire(startup).context
    use(place)
    assert place.fire(resume).silent
    assert place.hook("H-20.json", prompt="aeo").silent
    assert "aeo" in place.fire(compact).context
    assert "date field" in place.hook("H-20.json", prompt="aeo").context  # the model has lost it
    assert len(list((place.runtime / "sessions").iterdir())) == 1
    place.now["notices"] = [{"id": "1", "text": "NEW"}]
    place.export()
    assert "NEW" in place.fire(resume).context


def test_a_transcript_that_does_not_exist_yet(place: Place) -> None:
    """H-20."""
    assert place.hook("H-20.json").silent
    assert place.hook("H-20.json", hook_event_name="SessionStart", source="startup").silent


@pytest.mark.parametrize("left", ["spool/1.2", "spool/taken/1.2", "deferred/01J.json"])
def test_what_a_killed_session_left_is_drained(place: Place, left: str) -> None:
    """H-13, H-38, H-40: whatever session comes next."""
    path = place.runtime / left
    path.parent.mkdir(exist_ok=True)
    path.write_text("{}")
    place.hook("SessionStart-startup.json")
    (started,) = place.spawned()
    assert started["argv"] == ["--workspace", str(place.root), "drain", "--quiet"]


def test_open_entries_are_drained(place: Place) -> None:
    place.now["open"] = True
    place.export()
    place.hook("SessionStart-startup.json")
    assert place.spawned()[0]["argv"][2] == "drain"


def test_clear_keeps_the_old_sessions_notes_under_its_id(place: Place) -> None:
    """H-13."""
    place.learn("aeo", loader=LOADER)
    use(place)
    use(place)
    for line in (PAYLOADS / "H-13.ndjson").read_bytes().splitlines():
        place.fire(line)
    assert [note["session"] for note in place.notes] == [SESSION, SESSION]
    assert [record["argv"][2] for record in place.spawned(2)] == ["drain", "drain"]


# -- a turn stops, a session ends --------------------------------------------------------------------------------------

MESSAGE = """Done.

harness-feedback: aeo: the date field [LOGGED]
- `harness-feedback: acme:greet: fixed the greeting [FIXED]`
> harness-feedback: quoted: not mine [LOGGED]
```
harness-feedback: code: an example [LOGGED]
```
**harness-feedback: aeo: after the fence**
"""


def test_feedback_lines_of_the_last_message_are_noted(place: Place) -> None:
    assert place.hook("Stop.json", last_assistant_message=MESSAGE).silent
    (note,) = place.notes
    assert (note["harness_note"], note["session"], note["turn"]) == (
        "stop",
        SKILL,
        "650c7242-0d30-4d9d-b210-56e0b1744da3",
    )
    assert note["lines"] == [
        "harness-feedback: aeo: the date field [LOGGED]",
        "harness-feedback: acme:greet: fixed the greeting [FIXED]",
        "harness-feedback: aeo: after the fence",
    ]


def test_a_turn_without_feedback_leaves_no_note(place: Place) -> None:
    """H-21, H-27: also when the answer is missing; and nothing is printed."""
    assert place.hook("H-27.json").silent
    assert place.hook("H-27.json", stop_hook_active=True).silent
    payload = place.payload("H-21.payload.json")
    del payload["last_assistant_message"]
    assert place.fire(payload).silent
    assert (place.notes, place.errors) == ([], [])


@pytest.mark.parametrize(
    ("attended", "on", "verb"),
    [("1", "session_end", "observe"), ("0", "session_end", "drain"), ("1", "stop", "drain"), ("0", "stop", "drain")],
)
def test_what_a_stop_starts(place: Place, attended: str, on: str, verb: str) -> None:
    place.now["settings"] = {"drain": {"on": on}}
    place.export()
    env = place.env(CLAUDE_CODE_SESSION_ATTENDED=attended, CLAUDE_CODE_ENTRYPOINT="sdk-zig")  # H-23
    assert place.hook("Stop.json", env=env).silent
    (started,) = place.spawned()
    assert started["argv"] == ["--workspace", str(place.root), verb, "--quiet"]
    assert started["sid"] == started["pid"]  # a session of its own survives the client
    assert not [name for name in started["env"] if name.startswith("CLAUDE_CODE_MESSAGING_")]
    assert os.path.samefile(started["cwd"], place.root)


def test_the_end_of_a_session_starts_the_drain(place: Place) -> None:
    """H-33, H-40: the client kills the hook's process group; the drain lives on, and what is queued stays whole."""
    for number in range(200):
        Runtime(str(place.root), str(place.runtime), {}).note("skill", skill="aeo", session=SESSION, turn=str(number))
    hook = subprocess.Popen(
        place.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=place.env(), start_new_session=True
    )
    out, _ = hook.communicate(place.bytes_of("H-33.json"))
    with suppress(ProcessLookupError):
        os.killpg(hook.pid, signal.SIGKILL)
    assert (hook.returncode, out) == (0, b"")
    (started,) = place.spawned()
    assert started["argv"][2] == "drain"
    assert sorted(int(note["turn"]) for note in place.notes) == list(range(200))


def test_a_subagents_stop(place: Place) -> None:
    message = "harness-feedback: aeo: missing in the fork [LOGGED]"
    assert place.hook("SubagentStop.json", last_assistant_message=message).silent
    assert place.spawned()[0]["argv"][2] == "observe"
    assert place.notes[0]["agent_id"] == "a1dcd39abbc1bd647"


@pytest.mark.parametrize("sample", ["H-12.json", "SubagentStop-compaction.json"])
def test_compaction_is_no_subagent(place: Place, sample: str) -> None:
    """H-12."""
    assert place.hook(sample, last_assistant_message="harness-feedback: aeo: x [LOGGED]").silent
    assert place.notes == []
    place.hook("H-33.json")
    assert [record["argv"][2] for record in place.spawned()] == ["drain"]  # the only thing ever started


def asking(place: Place) -> None:
    place.now["settings"] = {"loader": {"duty": "ask"}}
    place.learn("aeo", loader=LOADER, names=("aeo", "acme:aeo"))


def test_asked_once_a_skill_and_session(place: Place) -> None:
    asking(place)
    use(place)
    answer = place.hook("H-27.json").json
    assert answer["decision"] == "block"
    assert "harness-feedback: aeo: " in answer["reason"]
    use(place)
    assert place.hook("H-27.json").silent
    assert place.session_file("asked.aeo").exists()
    use(place, session="another")
    assert place.hook("H-27.json", session_id="another").json["decision"] == "block"


@pytest.mark.parametrize("active", [True])
def test_never_asked_while_a_stop_hook_is_active(place: Place, active: bool) -> None:
    """H-27, H-41."""
    asking(place)
    use(place)
    assert place.hook("H-41.b.json", stop_hook_active=active).silent


def test_not_asked_when_the_line_is_there(place: Place) -> None:
    asking(place)
    place.log.write_text("aeo: an old line [LOGGED]\n")
    use(place)
    with place.log.open("a") as file:
        file.write("[2026-11-30T21:48:00Z] acme:aeo: a new one [LOGGED]\n")
    assert place.hook("H-27.json").silent


def test_not_asked_when_the_message_or_a_fork_has_said_it(place: Place) -> None:
    asking(place)
    use(place)
    assert place.hook("H-27.json", last_assistant_message="harness-feedback: aeo: x [LOGGED]").silent
    use(place, session="another")
    message = "harness-feedback: aeo: x [LOGGED]"
    place.hook("SubagentStop.json", session_id="another", last_assistant_message=message)
    assert place.hook("H-27.json", session_id="another").silent


def test_asked_when_only_an_older_line_is_there(place: Place) -> None:
    asking(place)
    place.log.write_text("aeo: an old line [LOGGED]\nother: x\n")
    use(place)
    assert place.hook("H-27.json").json["decision"] == "block"


def test_a_log_rotated_away_is_read_from_its_start(place: Place) -> None:
    asking(place)
    place.log.write_text("aeo: an old line [LOGGED]\n" * 50)
    use(place)
    place.log.rename(place.log.with_suffix(".old"))
    place.log.write_text("aeo: new [LOGGED]\n")
    assert place.hook("H-27.json").silent


def test_a_skill_without_a_loader_owes_nothing(place: Place) -> None:
    asking(place)
    place.learn("plain", overlay=OVERLAY)
    use(place, "plain")
    assert place.hook("H-27.json").silent


def test_every_event_has_its_function() -> None:
    assert [function.__name__ for function in EVENTS.values()] == [
        "post_tool_use",
        "user_prompt_expansion",
        "pre_tool_use",
        "user_prompt_submit",
        "session_start",
        "stop",
        "subagent_start",
        "subagent_stop",
        "session_end",
    ]


def test_session_ids_never_leave_their_folder(place: Place) -> None:
    place.learn("aeo", loader=LOADER)
    for session in ("../../../escape", "..", "", "a/b", "x" * 500):
        use(place, session=session)
    folders = {path.parent for path in place.runtime.rglob("skill.aeo")}
    assert {folder.parent for folder in folders} == {place.runtime / "sessions"}
    assert len(folders) == 5
    assert not list(Path(place.base).glob("escape*"))
