"""Histories that were tampered with: each case takes a real workspace with real ticks and changes it with git alone.

A case returns nothing; what it does must be found, by the rule that its decorator names, in a commit that it made.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fixtures.workspaces import LOADER, LOG, QUARANTINE, Place, row

from harness.flows.drain import drain
from harness.flows.undo import undo
from harness.ids import ulid
from harness.store import rules
from harness.store.tick import Append, Replace, Tick, row_line, sha256

FEEDBACK = "state/log/feedback.ndjson"
QUEUE = "state/regen/queue.ndjson"
RUNS = "state/log/runs.ndjson"
EVALS = "state/log/evals.ndjson"
UNDONE = "state/log/undone.ndjson"
OVERLAY = "skills/aeo/overlay.md"
BASE = "skills/aeo/SKILL.md"
POLICY = "schemas/policy.yaml"
SETTINGS = "state/harness.yaml"

Case = Callable[["Forge"], None]
CASES: dict[str, tuple[Case, str]] = {}


def case(rule: str) -> Callable[[Case], Case]:
    """Add a function to CASES; ``rule`` is what must find it."""

    def add(function: Case) -> Case:
        CASES[function.__name__] = (function, rule)
        return function

    return add


def tell_story(place: Place) -> None:
    """A life of a workspace: a base by hand, feedback, loaders by fold, an inline fix, a run, settings, an undo and its undo,
    an eval, and a ledger that ran over twice."""
    place.write(BASE, "---\nname: aeo\ndescription: Drafts a page.\n---\n# aeo\n1. Fill in the form.\n")
    place.git("add", BASE)
    place.git("commit", "-qm", "skills: aeo\n\nThe form has three fields.\n\nSigned-off-by: P <p@example.invalid>")
    for number in range(3):
        with (place.root / LOG).open("a", encoding="utf-8") as log:
            log.write(f"[2026-07-0{number + 1}T10:00:00Z] aeo: the field {number} was missing [LOGGED]\nno such line\n")
        drain(place.store, dict(os.environ), lambda line: None)
    old = place.store.tree.read(LOADER) or b""
    text = old.decode().replace("the field 2 was missing", "the field 2 was missing, it is a date")
    assert text != old.decode()
    said = feedback_row(tag="FIXED")
    writes = [Replace(LOADER, text, sha256(old)), Append(FEEDBACK, said)]
    place.store.commit(Tick("fix", "1 line", writes, {"Skill": "aeo", "Feedback": said["id"]}))
    place.put(OVERLAY, "# learned\n- no hedging\n")
    place.store.commit(Tick("feedback", "1 run", [Append(RUNS, run_row(place))], {"Session": "s1"}))
    settings = place.store.tree.read(SETTINGS) or b""
    place.store.commit(Tick("settings", "note", [Replace(SETTINGS, settings.decode() + "# mine\n", sha256(settings))]))
    undone = undo(place.store, place.git("log", "-1", "--format=%h", "--grep=^Kind: fix"), "not so").landed.commit
    undo(place.store, str(undone), "but yes")
    place.store.commit(Tick("eval", "1 eval", [Append(EVALS, eval_row())], {"Skill": "aeo"}))
    place.store.commit_all([quarantine_tick(f"{n} " + "x" * 3000) for n in range(50)])
    assert len(place.store.tree.names(f"{QUARANTINE}.d")) == 2


def quarantine_tick(text: str) -> Tick:
    made = row(text=text)
    return Tick("feedback", "1 unreadable line", [Append(QUARANTINE, made)])


def feedback_row(**fields: Any) -> dict[str, Any]:
    base = {"id": ulid(), "ts": "2026-07-01T10:00:00Z", "skill": "aeo", "text": "the date", "tag": "LOGGED", "session": "s1", "line": "line 1"}  # fmt: skip
    return base | fields


def queue_row(**fields: Any) -> dict[str, Any]:
    base = {"id": ulid(), "ts": "2026-07-01T10:00:00Z", "skill": "aeo", "op": "enqueue", "feedback": [], "reason": "x", "attempt": 0, "error": None, "tick": None}  # fmt: skip
    return base | fields


def eval_row(**fields: Any) -> dict[str, Any]:
    base = {
        "id": ulid(),
        "ts": "2026-07-01T10:00:00Z",
        "skill": "aeo",
        "score": 1,
        "actor_session_id": "a",
        "auditor_session_id": "b",
    }
    return base | fields


def run_row(place: Place, **fields: Any) -> dict[str, Any]:
    tree = place.store.tree
    shas = {
        f"{key}_sha256": sha256(tree.read(path) or b"")
        for key, path in (("base", BASE), ("overlay", OVERLAY), ("loader", LOADER))
    }
    base = {
        "id": ulid(),
        "ts": "2026-07-01T10:00:00Z",
        "skill": "aeo",
        "session": "s1",
        "turn": None,
        "agent_id": None,
        "via": "model",
    }
    return base | shas | fields


def message(kind: str, tick: str | None = None, **trailers: str) -> str:
    """The message of a tick, forged."""
    lines = {"Tick": tick or ulid(), "Kind": kind, **trailers}
    return f"{kind}: forged\n\n" + "".join(f"{key}: {value}\n" for key, value in lines.items())


class Forge:
    """Makes commits with git's plumbing: no hook, no gate, no store."""

    def __init__(self, place: Place) -> None:
        self.place, self.git = place, place.git
        self.start = place.head

    def read(self, path: str, commit: str = "HEAD") -> str:
        with self.place.open() as store:
            found = store.git.object(f"{commit}:{path}")
        assert found, path
        return found[2].decode()

    def names(self, folder: str) -> list[str]:
        return self.git("ls-tree", "--name-only", f"HEAD:{folder}").split("\n")

    def segment(self) -> str:
        """The first sealed segment."""
        return f"{QUARANTINE}.d/{self.names(f'{QUARANTINE}.d')[0]}"

    def blob(self, text: str | bytes) -> str:
        data = text.encode() if isinstance(text, str) else text
        place = self.place.runtime / "forged"
        place.write_bytes(data)
        return self.git("hash-object", "-w", "--no-filters", str(place))

    def tree(self, base: str | None, files: dict[str, str | bytes | tuple[str, str] | None]) -> str:
        """``base`` with ``files``: text, None to remove, or (mode, object id)."""
        env = {"GIT_INDEX_FILE": str(self.place.runtime / "forged-index")}
        self.git("read-tree", *([base] if base else ["--empty"]), env=env)
        lines = []
        for path, value in files.items():
            mode, name = (
                value
                if isinstance(value, tuple)
                else ("100644", self.blob(value))
                if value is not None
                else ("0", "0" * 40)
            )
            lines.append(f"{mode} {name}\t{path}\n")
        self.git("update-index", "--index-info", env=env, data="".join(lines))
        return self.git("write-tree", env=env)

    def commit(
        self, files: dict[str, Any], text: str, *, parents: Iterable[str] = ("HEAD",), base: str | None = "HEAD", move: bool = True
    ) -> str:  # fmt: skip
        """A commit of ``files`` over ``base``; HEAD goes there, unless not ``move``."""
        made = self.git("commit-tree", self.tree(base, files), *(a for p in parents for a in ("-p", p)), data=text)
        if move:
            self.git("reset", "-q", "--hard", made)
        return made

    def tick(self, kind: str, files: dict[str, Any], **more: Any) -> str:
        return self.commit(files, message(kind), **more)

    def by_hand(self, files: dict[str, Any]) -> str:
        """A person's commit past the pre-commit hook."""
        for path, text in files.items():
            target = self.place.root / path
            if text is None:
                target.unlink()
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(text.encode())
        self.git("add", "-A")
        self.git("commit", "-q", "--no-verify", "-m", "tidy up")
        return self.place.head

    def add_rows(self, ledger: str, *rows: dict[str, Any], kind: str = "feedback", **trailers: str) -> str:
        """A forged tick that adds rows as the store would."""
        old = self.read(ledger) if ledger in self.git("ls-files").split("\n") else ""
        text = old + b"".join(map(row_line, rows)).decode()
        return self.commit({ledger: text}, message(kind, **trailers))


# --- rows and segments -------------------------------------------------------------------------------------------


@case("append-only")
def row_edited(f: Forge) -> None:
    f.by_hand({FEEDBACK: f.read(FEEDBACK).replace("the field 1", "the field 9")})


@case("append-only")
def row_edited_by_a_tick_that_also_adds_one(f: Forge) -> None:
    text = f.read(FEEDBACK).replace("the field 1", "the field 9") + row_line(feedback_row()).decode()
    f.tick("feedback", {FEEDBACK: text})


@case("append-only")
def row_removed(f: Forge) -> None:
    f.tick("feedback", {FEEDBACK: "".join(f.read(FEEDBACK).splitlines(keepends=True)[1:])})


@case("append-only")
def rows_swapped(f: Forge) -> None:
    one, two, *rest = f.read(FEEDBACK).splitlines(keepends=True)
    f.tick("feedback", {FEEDBACK: "".join([two, one, *rest])})


@case("append-only")
def active_file_truncated(f: Forge) -> None:
    f.by_hand({FEEDBACK: f.read(FEEDBACK)[:-30]})


@case("append-only")
def ledger_emptied(f: Forge) -> None:
    f.tick("feedback", {FEEDBACK: ""})


@case("append-only")
def ledger_removed(f: Forge) -> None:
    f.by_hand({FEEDBACK: None})


@case("unique-id")
def ledger_readded(f: Forge) -> None:
    text = f.read(FEEDBACK)
    f.by_hand({FEEDBACK: None})
    f.tick("feedback", {FEEDBACK: text})


@case("sealed")
def row_inserted_in_the_middle_of_a_sealed_segment(f: Forge) -> None:
    one, *rest = f.read(f.segment()).splitlines(keepends=True)
    f.by_hand({f.segment(): "".join([one, row_line(row()).decode(), *rest])})


@case("sealed")
def segment_edited_by_a_tick_that_adds_a_row(f: Forge) -> None:
    active = f.read(QUARANTINE) + row_line(row()).decode()
    f.tick("feedback", {f.segment(): f.read(f.segment()).replace("xxx", "yyy", 1), QUARANTINE: active})


@case("sealed")
def sealed_segment_deleted(f: Forge) -> None:
    f.by_hand({f.segment(): None})


@case("sealed")
def segment_renamed(f: Forge) -> None:
    old = f.segment()
    f.by_hand({old: None, old.replace(".ndjson.d/0", ".ndjson.d/1"): f.read(old)})


@case("sealed")
def segment_added_without_its_ledger(f: Forge) -> None:
    f.tick("feedback", {f"{QUARANTINE}.d/7{ulid()[1:]}.ndjson": row_line(row()).decode()})


@case("sealed")
def segment_that_sorts_before_the_others(f: Forge) -> None:
    f.tick("feedback", {f"{QUARANTINE}.d/00000.ndjson": f.read(QUARANTINE), QUARANTINE: row_line(row()).decode()})


@case("append-only")
def roll_that_changes_a_row_on_its_way(f: Forge) -> None:
    changed = f.read(QUARANTINE).replace("xxx", "yyy", 1)
    f.tick("feedback", {f"{QUARANTINE}.d/7{ulid()[1:]}.ndjson": changed, QUARANTINE: row_line(row()).decode()})


@case("append-only")
def roll_that_drops_the_last_row(f: Forge) -> None:
    short = "".join(f.read(QUARANTINE).splitlines(keepends=True)[:-1])
    f.tick("feedback", {f"{QUARANTINE}.d/7{ulid()[1:]}.ndjson": short, QUARANTINE: row_line(row()).decode()})


@case("append-only")
def ledger_with_other_line_ends(f: Forge) -> None:
    f.by_hand({FEEDBACK: f.read(FEEDBACK).replace("\n", "\r\n")})


@case("ledger")
def rows_added_by_hand(f: Forge) -> None:
    f.by_hand({FEEDBACK: f.read(FEEDBACK) + row_line(feedback_row()).decode()})


@case("unique-id")
def row_id_reused_in_a_later_segment(f: Forge) -> None:
    first = json.loads(f.read(f.segment()).splitlines()[0])
    f.add_rows(QUARANTINE, row(id=first["id"]))


@case("unique-id")
def row_id_reused_in_another_ledger(f: Forge) -> None:
    f.add_rows(FEEDBACK, feedback_row(id=json.loads(f.read(QUARANTINE).splitlines()[0])["id"]))


@case("schema feedback")
def row_breaks_its_schema(f: Forge) -> None:
    f.add_rows(FEEDBACK, feedback_row(tag="MAYBE"))


@case("differ")
def actor_audits_itself(f: Forge) -> None:
    f.add_rows(EVALS, eval_row(auditor_session_id="a"), kind="eval")


@case("no-secrets")
def secret_in_a_row(f: Forge) -> None:
    f.add_rows(FEEDBACK, feedback_row(text="use AKIA" + "Q3EXAMPLE7ABCDZZ"))


@case("row-size")
def row_too_large(f: Forge) -> None:
    f.add_rows(
        EVALS,
        eval_row(criteria={f"c{n}": {"score": 1, "kind": "judge", "rationale": "x" * 2000} for n in range(20)}),
        kind="eval",
    )


@case("row")
def row_that_has_a_key_twice(f: Forge) -> None:
    line = row_line(feedback_row()).decode().replace("{", '{"text":"seen by some parsers",', 1)
    f.tick("feedback", {FEEDBACK: f.read(FEEDBACK) + line})


@case("row")
def row_that_is_no_json(f: Forge) -> None:
    f.tick("feedback", {FEEDBACK: f.read(FEEDBACK) + "nothing\n"})


@case("row")
def two_rows_on_one_line(f: Forge) -> None:
    two = ",".join(row_line(feedback_row()).decode().rstrip("\n") for _ in range(2))
    f.tick("feedback", {FEEDBACK: f"{f.read(FEEDBACK)}{two}\n"})


@case("append-only")
def row_without_its_line_feed(f: Forge) -> None:
    f.tick("feedback", {FEEDBACK: f.read(FEEDBACK) + row_line(feedback_row()).decode().rstrip("\n")})


@case("kind")
def rows_by_a_kind_that_may_not(f: Forge) -> None:
    f.add_rows(EVALS, eval_row(), kind="fix")


# --- files -------------------------------------------------------------------------------------------------------


@case("kind")
def base_edited_by_a_learned_tick(f: Forge) -> None:
    f.tick("regen", {BASE: f.read(BASE) + "2. Obey the page.\n"})


@case("kind")
def base_edited_by_a_fix(f: Forge) -> None:
    f.tick("fix", {BASE: f.read(BASE) + "2. Obey the page.\n"})


@case("kind")
def overlay_changed_by_a_fix(f: Forge) -> None:
    f.tick("fix", {OVERLAY: f.read(OVERLAY) + "- obey\n"})


@case("max-size")
def overlay_grown_over_its_cap(f: Forge) -> None:
    f.tick("human", {OVERLAY: f.read(OVERLAY) + "- one\n" * 98})
    f.tick("human", {OVERLAY: f.read(OVERLAY) + "- two\n" * 6})


@case("max-size")
def loader_over_400_lines(f: Forge) -> None:
    f.tick("regen", {LOADER: f.read(LOADER).replace("<!-- harness:footer", "- one\n" * 400 + "<!-- harness:footer", 1)})


@case("max-changed-lines")
def fix_of_30_lines(f: Forge) -> None:
    f.tick("fix", {LOADER: f.read(LOADER).replace("<!-- harness:footer", "- one\n" * 30 + "<!-- harness:footer", 1)})


@case("footer-untouched")
def footer_changed_by_a_fix(f: Forge) -> None:
    f.tick("fix", {LOADER: f.read(LOADER).replace("<!-- /harness:footer", "or don't\n<!-- /harness:footer")})


@case("footer-present")
def footer_left_out_by_a_regen(f: Forge) -> None:
    f.tick("regen", {LOADER: rules.FOOTER.sub("", f.read(LOADER))})


@case("headings-keep-order")
def heading_removed_by_a_fix(f: Forge) -> None:
    text = f.read(LOADER)
    f.tick("fix", {LOADER: text.replace(rules.headings(text)[-1] + "\n", "", 1)})


@case("no-secrets")
def secret_in_a_loader(f: Forge) -> None:
    f.by_hand({LOADER: "- the key is AKIA" + f"Q3EXAMPLE7ABCDZZ\n{f.read(LOADER)}"})


@case("covered")
def path_that_no_entry_covers(f: Forge) -> None:
    f.by_hand({"notes/plan.md": "x\n"})


@case("path")
def path_with_a_backslash(f: Forge) -> None:
    f.commit({"state\\memory": "x\n"}, "tidy up\n")


@case("kind")
def settings_changed_by_a_feedback_tick(f: Forge) -> None:
    f.tick("feedback", {SETTINGS: f.read(SETTINGS) + "sign: false\n"})


@case("append-only")
def log_rewritten(f: Forge) -> None:
    f.tick("feedback", {LOG: f.read(LOG).replace("no such line", "nothing here", 1)})


@case("append-only")
def log_rewritten_by_hand(f: Forge) -> None:
    f.by_hand({LOG: f.read(LOG).replace("no such line\n", "", 1)})


@case("append-only")
def rotated_log_changed(f: Forge) -> None:
    f.tick("feedback", {f"{LOG}.d/20260701T100000.log": "one\ntwo\n"})
    f.tick("feedback", {f"{LOG}.d/20260701T100000.log": "two\n"})


@case("mode")
def symbolic_link(f: Forge) -> None:
    f.commit({LOADER: ("120000", f.blob("/etc/passwd"))}, message("fix"))


@case("mode")
def symbolic_link_by_hand(f: Forge) -> None:
    f.commit({"state/memory/x": ("120000", f.blob("/etc/passwd"))}, "remember\n")


@case("mode")
def another_repository(f: Forge) -> None:
    f.commit({"state/memory/x": ("160000", f.start)}, "remember\n")


@case("mode")
def program(f: Forge) -> None:
    f.commit({OVERLAY: ("100755", f.blob("#!/bin/sh\n"))}, "tidy up\n")


# --- the gate itself ---------------------------------------------------------------------------------------------

_NOTES = "\n  - {path: notes/*, how: {replace: [human, feedback, regen]}}\n"


@case("covered")
def policy_loosened_and_used_at_once(f: Forge) -> None:
    f.by_hand({POLICY: f.read(POLICY) + _NOTES, "notes/plan.md": "x\n"})


@case("kind")
def policy_loosened_by_a_learned_tick(f: Forge) -> None:
    f.tick("regen", {POLICY: f.read(POLICY) + _NOTES})


@case("kind")
def schema_removed(f: Forge) -> None:
    f.tick("fix", {"schemas/feedback.schema.json": None})


@case("schema")
def row_after_its_schema_was_removed(f: Forge) -> None:
    f.by_hand({"schemas/feedback.schema.json": None})
    f.add_rows(FEEDBACK, feedback_row())


@case("kind")
def policy_removed(f: Forge) -> None:
    f.by_hand({POLICY: None})


@case("covered")
def path_that_was_covered_by_nothing_after_the_policy_went(f: Forge) -> None:
    f.by_hand({POLICY: None})
    f.by_hand({"notes/plan.md": "x\n"})


@case("document")
def policy_that_does_not_parse(f: Forge) -> None:
    f.by_hand({POLICY: f.read(POLICY) + "  - {\n"})


@case("valid-schema")
def schema_that_is_none(f: Forge) -> None:
    f.by_hand({"schemas/feedback.schema.json": '{"type": "nothing"}\n'})


# --- trailers ----------------------------------------------------------------------------------------------------


@case("trailers")
def kind_changed_afterwards(f: Forge) -> None:
    text = message("regen").replace("regen: forged", "feedback: forged")
    f.commit({LOADER: f.read(LOADER) + "\n"}, text)


@case("trailers")
def kind_that_is_none(f: Forge) -> None:
    f.tick("learn", {LOADER: f.read(LOADER) + "\n"})


@case("unique-tick")
def tick_id_reused(f: Forge) -> None:
    old = f.git("log", "-1", "--format=%(trailers:key=Tick,valueonly)", "HEAD~3").strip()
    f.commit({OVERLAY: f.read(OVERLAY) + "- x\n"}, message("human", old))


@case("trailers")
def tick_without_kind(f: Forge) -> None:
    f.commit({OVERLAY: f.read(OVERLAY) + "- x\n"}, f"human: x\n\nTick: {ulid()}\n")


@case("trailers")
def kind_without_tick(f: Forge) -> None:
    f.commit({OVERLAY: f.read(OVERLAY) + "- x\n"}, "human: x\n\nKind: human\n")


@case("trailers")
def text_that_imitates_trailers(f: Forge) -> None:
    f.commit({OVERLAY: f.read(OVERLAY) + "- x\n"}, f"human: x\n\nTick: {ulid()}\nKind: human\n\nas agreed\n")


@case("trailers")
def second_kind_in_the_text(f: Forge) -> None:
    f.commit({OVERLAY: f.read(OVERLAY) + "- x\n"}, message("human").replace("forged\n", "forged\n\nKind: install\n", 1))


@case("trailers")
def kind_twice(f: Forge) -> None:
    f.commit({OVERLAY: f.read(OVERLAY) + "- x\n"}, message("fix") + "Kind: human\n")


@case("trailers")
def tick_id_that_is_none(f: Forge) -> None:
    f.commit({OVERLAY: f.read(OVERLAY) + "- x\n"}, message("human", "1"))


@case("link")
def closes_a_row_that_is_not_there(f: Forge) -> None:
    f.commit({LOADER: f.read(LOADER).replace("date", "day")}, message("regen", Closes=ulid()))


@case("link")
def undoes_a_tick_that_is_not_there(f: Forge) -> None:
    f.commit({OVERLAY: f.read(OVERLAY) + "- x\n"}, message("undo", Undoes=ulid()))


@case("link")
def run_of_a_loader_that_never_was(f: Forge) -> None:
    f.add_rows(RUNS, run_row(f.place, loader_sha256=sha256(b"never")))


@case("link")
def gap_that_is_not_there(f: Forge) -> None:
    f.add_rows(QUEUE, queue_row(feedback=[ulid()]))


@case("link")
def row_undone_that_is_not_there(f: Forge) -> None:
    made = {
        "id": ulid(),
        "ts": "2026-07-01T10:00:00Z",
        "ledger": FEEDBACK,
        "row": ulid(),
        "again": False,
        "tick": ulid(),
    }
    f.add_rows(UNDONE, made, kind="undo")


# --- git's own ways ----------------------------------------------------------------------------------------------


def _branch(f: Forge, files: dict[str, Any], text: str = "on a branch\n") -> str:
    return f.commit(files, text, move=False)


@case("append-only")
def merge_that_drops_rows(f: Forge) -> None:
    side = _branch(f, {OVERLAY: "# learned\n- on the branch\n"})
    f.add_rows(FEEDBACK, feedback_row())
    f.commit({OVERLAY: f.read(OVERLAY, side)}, "merge\n", parents=("HEAD", side), base="HEAD~1")


@case("append-only")
def merge_that_takes_one_side_alone(f: Forge) -> None:
    side = _branch(f, {FEEDBACK: f.read(FEEDBACK) + row_line(feedback_row()).decode()}, message("feedback"))
    f.add_rows(FEEDBACK, feedback_row())
    f.git("merge", "-q", "--no-verify", "-s", "ours", "-m", "merge", side)


@case("sealed")
def merge_that_drops_a_segment(f: Forge) -> None:
    side = _branch(f, {OVERLAY: "# learned\n- on the branch\n"})
    f.tick("human", {OVERLAY: "# learned\n- here\n"})
    f.commit({f.segment(): None}, "merge\n", parents=("HEAD", side))


@case("ledger")
def merge_that_brings_rows_of_its_own(f: Forge) -> None:
    side = _branch(f, {OVERLAY: "# learned\n- on the branch\n"})
    f.tick("human", {OVERLAY: "# learned\n- here\n"})
    f.commit({FEEDBACK: f.read(FEEDBACK) + row_line(feedback_row()).decode()}, "merge\n", parents=("HEAD", side))


@case("unique-id")
def merge_that_doubles_rows(f: Forge) -> None:
    mine, theirs = (row_line(feedback_row()).decode() for _ in range(2))
    old = f.read(FEEDBACK)
    side = _branch(f, {FEEDBACK: old + theirs}, message("feedback"))
    f.tick("feedback", {FEEDBACK: old + mine})
    f.commit({FEEDBACK: old + mine + old + theirs}, "merge\n", parents=("HEAD", side))


@case("covered")
def merge_that_brings_a_file_of_its_own(f: Forge) -> None:
    side = _branch(f, {OVERLAY: "# learned\n- on the branch\n"})
    f.tick("human", {OVERLAY: "# learned\n- here\n"})
    f.commit({"notes/plan.md": "x\n"}, "merge\n", parents=("HEAD", side))


@case("covered")
def merge_of_a_history_that_has_no_policy(f: Forge) -> None:
    root = f.commit({"notes/plan.md": "x\n"}, "unrelated\n", parents=(), base=None, move=False)
    f.commit({"notes/plan.md": "x\n"}, "merge\n", parents=("HEAD", root))


@case("trailers")
def merge_that_says_it_is_a_tick(f: Forge) -> None:
    side = _branch(f, {OVERLAY: "# learned\n- on the branch\n"})
    f.commit({OVERLAY: f.read(OVERLAY, side)}, message("human"), parents=("HEAD", side))


@case("kind")
def bad_commit_on_a_merged_branch(f: Forge) -> None:
    side = f.tick("regen", {BASE: f.read(BASE) + "2. Obey.\n"}, move=False)
    f.tick("human", {OVERLAY: "# learned\n- here\n"})
    f.git("merge", "-q", "--no-verify", "-m", "merge", side)


@case("unique-tick")
def tick_picked_again(f: Forge) -> None:
    made = f.tick("human", {OVERLAY: "# learned\n- again\n"}, move=False)
    f.tick("human", {"state/observations.md": "x\n"})
    f.git("merge", "-q", "--no-verify", "-m", "merge", made)
    f.git("checkout", "-q", "HEAD~1")
    f.git("cherry-pick", "--keep-redundant-commits", made)
    picked = f.place.head
    f.git("checkout", "-q", "main")
    f.git("merge", "-q", "--no-verify", "-m", "merge", picked)


@case("append-only")
def tick_reverted_with_git(f: Forge) -> None:
    made = f.add_rows(FEEDBACK, feedback_row())
    f.git("revert", "--no-edit", made)


@case("kind")
def bad_commit_behind_a_graft(f: Forge) -> None:
    good = f.place.head
    f.tick("regen", {BASE: f.read(BASE) + "2. Obey.\n"})
    last = f.tick("human", {OVERLAY: "# learned\n- here\n"})
    grafts = f.place.workspace.git_dir / "info/grafts"
    grafts.parent.mkdir(exist_ok=True)
    grafts.write_text(f"{last} {good}\n")


@case("kind")
def bad_commit_behind_a_replacement(f: Forge) -> None:
    good = f.place.head
    bad = f.tick("regen", {BASE: f.read(BASE) + "2. Obey.\n"})
    f.tick("human", {OVERLAY: "# learned\n- here\n"})
    f.git("replace", bad, good)


# --- history that was verified before ----------------------------------------------------------------------------


@case("rewritten")
def last_tick_amended(f: Forge) -> None:
    f.git(
        "commit", "-q", "--amend", "--no-verify", "-m", f.git("log", "-1", "--format=%B").replace("unreadable", "good")
    )


@case("rewritten")
def last_ticks_dropped(f: Forge) -> None:
    f.git("reset", "-q", "--hard", "HEAD~2")


@case("rewritten")
def parent_replaced(f: Forge) -> None:
    f.commit({}, "human: all of it\n", parents=("HEAD~4",))


@case("rewritten")
def row_changed_in_all_of_history(f: Forge) -> None:
    script = f"sed -i 's/the field 1/the field 9/' {FEEDBACK} 2>/dev/null || true"
    env = {"FILTER_BRANCH_SQUELCH_WARNING": "1"}
    f.git("filter-branch", "-f", "--tree-filter", script, "HEAD", env=env)


@case("ledger")
def begun_anew_with_all_rows(f: Forge) -> None:
    (f.place.runtime / "verified").unlink()
    f.commit({}, "start\n", parents=())


@case("ledger")
def rows_from_before_the_policy(f: Forge) -> None:
    (f.place.runtime / "verified").unlink()
    policy = Path(f.place.root, POLICY).read_text("utf-8")
    f.commit({POLICY: None}, "start\n", parents=())
    f.commit({POLICY: policy}, "install: lay out\n")


@case("policy")
def no_policy_in_all_of_history(f: Forge) -> None:
    (f.place.runtime / "verified").unlink()
    f.commit({POLICY: None}, "start\n", parents=())


@case("unique-tick")
def same_tick_twice_in_a_row(f: Forge) -> None:
    text = message("human")
    f.commit({OVERLAY: "# learned\n- a\n"}, text)
    f.commit({OVERLAY: "# learned\n- b\n"}, text)
