"""`harness review` and its like at a real terminal: one key, one decision."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from harness.flows import inbox, tune
from harness.store import history
from harness.store.tick import Replace, Tick, sha256
from tests.flows.conftest import Bench
from tests.terminal import Terminal
from tests.tune.conftest import OVERLAY, Session, cards, request
from tests.tune.test_predictions import apply, draft
from tests.tune.test_proposals import put


def terminal(bench: Bench, *args: str, **env: str) -> Terminal:
    argv = [sys.executable, "-P", "-m", "harness", *args]
    return Terminal(argv, bench.project.root, {**bench.env, "PYTHONPATH": str(Path(__file__).parents[2]), **env})


def proposed(bench: Bench, text: str = "State facts; drop may, might and could.\n", **fields: object) -> str:
    _, short = tune.propose(bench.store, request(text, **fields), bench.env)
    return short


def test_one_key_accepts(bench: Bench) -> None:
    short = proposed(bench)
    with terminal(bench, "review") as screen:
        shown = screen.wait("[q] quit")
        assert f"[1 of 1] Proposal {short}" in shown
        assert "+State facts; drop may, might and could." in shown
        assert "about 10 tokens" in shown
        screen.press("a")
        assert "applied to skills/aeo/overlay.md" in screen.end()
    assert bench.read(OVERLAY) == "State facts; drop may, might and could.\n"
    entry = history.find(bench.store.git, "HEAD")
    assert entry.trailers["Approved-By"].startswith("terminal ")
    assert [r["status"] for r in cards(bench)] == ["applied"]


def test_reject_skip_and_quit(bench: Bench) -> None:
    proposed(bench)
    proposed(bench, "Keep it short.\n")
    proposed(bench, "Name the source.\n")
    with terminal(bench, "review") as screen:
        screen.wait("[1 of 3]")
        screen.press("r")
        screen.wait("[2 of 3]")
        screen.press("s")
        screen.wait("[3 of 3]")
        screen.press("q")
        screen.end()
    assert [r["status"] for r in cards(bench)] == ["rejected"]
    assert len(tune.open_proposals(bench.store)) == 2
    assert bench.read(OVERLAY) == ""


def test_edit_makes_a_new_proposal_and_asks_again(bench: Bench, tmp_path: Path) -> None:
    proposed(bench)
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf "State facts only.\\n" > "$1"\n')
    editor.chmod(0o755)
    with terminal(bench, "review", EDITOR=str(editor)) as screen:
        screen.wait("[q] quit")
        screen.press("e")
        screen.wait("+State facts only.")
        screen.press("a")
        screen.end()
    assert bench.read(OVERLAY) == "State facts only.\n"
    assert [(r["status"], r.get("reason", "").split(" into")[0]) for r in cards(bench)] == [
        ("rejected", "edited"),
        ("applied", ""),
    ]


def test_text_from_a_tool_is_accepted_by_typing_its_id(bench: Bench) -> None:
    short = proposed(bench, origin="tool", found_in="WebFetch's output")
    with terminal(bench, "review") as screen:
        screen.wait("[q] quit")
        screen.press("a")
        screen.wait(f"Type {short} to accept it")
        screen.say("yes")
        assert "left open" in screen.end()
    assert bench.read(OVERLAY) == ""
    with terminal(bench, "tune", "apply", short) as screen:
        screen.wait("Type the id to apply it")
        screen.say(short)
        screen.end()
    assert bench.read(OVERLAY) != ""


def test_a_refuted_lesson_is_offered_and_one_key_takes_it_back(session: Session) -> None:
    """S-23."""
    apply(session)
    draft(session, "It might.")
    draft(session, "It may.")
    bench = session.bench
    with terminal(bench, "review") as screen:
        shown = screen.wait("[q] quit")
        assert "made it worse" in shown
        assert "0 of 2 later outputs kept its promise" in shown
        screen.press("a")
        assert "taken back as" in screen.end()
    assert bench.read(OVERLAY) == ""
    assert inbox.items(bench.store, bench.env) == []


def test_a_changed_base_lists_the_lines_that_it_overtakes(bench: Bench) -> None:
    """S-13."""
    short = proposed(bench, "- Never hedge with may or might.\n- Open with a recent number.\n")
    tune.decide(bench.store, short, "approve", tune.Approval("terminal ada"), bench.env)
    assert inbox.items(bench.store, bench.env) == []
    overlay = bench.read(OVERLAY)
    path = "skills/aeo/SKILL.md"
    old = bench.store.tree.read(path) or b""
    new = (
        old.decode()
        + "Hedge with may and might where you are not sure.\nOpen with a recent number from a filing.\nBe kind.\n"
    )
    bench.store.commit(Tick("human", "base v2", [Replace(path, new, sha256(old))]))
    with terminal(bench, "review") as screen:
        shown = screen.wait("[q] quit")
        assert "line 1 “- Never hedge with may or might.”" in shown
        assert "speaks against it: “Hedge with may and might" in shown
        assert "line 2 “- Open with a recent number.”" in shown
        assert "says it itself: “Open with a recent number from a filing.”" in shown
        screen.press("a")
        screen.end()
    assert inbox.items(bench.store, bench.env) == []
    assert bench.read(OVERLAY) == overlay
    assert bench.read(path) == new


def test_pending_changes_are_in_the_inbox(bench: Bench) -> None:
    put(bench, "one\n")
    (bench.workspace.root / OVERLAY).write_text("one\nsneaked in\n")
    [item] = inbox.items(bench.store, bench.env)
    assert (item.kind, item.name) == ("pending", OVERLAY)


@pytest.mark.parametrize("args", [("review",), ("tune", "apply", "x"), ("tune", "reject", "x")])
def test_without_a_terminal_nothing_is_decided(bench: Bench, args: tuple[str, ...]) -> None:
    short = proposed(bench)
    done = bench.project.harness(*(short if word == "x" else word for word in args))
    assert done.code == 3
    assert "a person" in done.err
    assert len(json.loads(bench.project.ok("review", "--json").out)) == 1
    assert "proposal" in bench.project.ok("review", "--list").out


def test_an_empty_inbox_says_so(bench: Bench) -> None:
    assert "Nothing waits" in bench.project.ok("review").err
