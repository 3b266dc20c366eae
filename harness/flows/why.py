"""Why: from a learned line back to its cause. Blame gives the commit, its trailers the rows, the rows the words and the session.

line -> commit -> feedback row -> the agent's words -> the user's prompt of that turn
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from harness import redact
from harness.errors import USAGE, HarnessError
from harness.flows.ledgers import excerpt_of, undone
from harness.skills import find
from harness.store import history
from harness.store.commit import Store
from harness.store.tree import Tree

_EVIDENCE: Final = (
    "state/log/feedback.ndjson",
    "state/log/quarantine.ndjson",
    "state/regen/queue.ndjson",
    "state/log/runs.ndjson",
    "state/log/evals.ndjson",
    "state/log/approvals.ndjson",
)
_ULID: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
MAX_QUOTE: Final = 600


class NothingThere(HarnessError):
    """There is no such line, file, skill, row or tick."""

    exit_code = USAGE


@dataclass
class Cause:
    """Why a line is there. ``line`` and ``number`` are empty for a whole tick or a row; ``rows`` are the ledger rows behind
    it; ``prompts`` are the user's words of those turns, where the session's transcript is still there."""

    path: str
    number: int | None
    line: str
    entry: history.Entry
    rows: list[dict[str, Any]] = field(default_factory=list)
    prompts: list[dict[str, str]] = field(default_factory=list)
    undone_by: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The JSON object of ``--json``."""
        return {**asdict(self), "entry": self.entry.as_dict()}


def why(store: Store, target: str, env: Mapping[str, str]) -> list[Cause]:
    """The causes of ``FILE[:LINE]``, ``SKILL[:LINE]`` (its loader), a row's id, or a tick. Without a line, one cause for
    each commit that the file's lines come from."""
    name, _, number = target.rpartition(":")
    if not name or not number.isdigit():
        name, number = target, ""
    tree = store.tree
    path = _path(store, tree, name)
    if path:
        found = list(_blamed(store, path, int(number) if number else None))
    elif _ULID.fullmatch(name.upper()) and (entry := _entry_of_row(store, name.upper())):
        found = [Cause("", None, "", entry)]
    else:
        try:
            found = [Cause("", None, "", history.find(store.git, name))]
        except history.NoSuchTick:
            if name in known_skills(store, env):
                raise NothingThere(
                    f"nothing was learned about {name} yet",
                    "it has no loader and no overlay",
                    f"see `harness log --all --skill {name}`",
                ) from None
            raise NothingThere(
                f"nothing answers to {target!r}",
                "no committed file, skill, row or tick of that name",
                "see `harness log --all`",
            ) from None
    for cause in found:
        _fill(store, cause, env)
    return found


def known_skills(store: Store, env: Mapping[str, str]) -> set[str]:
    """Every name that a skill answers to here, learned of or not."""
    skills = find.find_all(store.workspace.root, store.workspace.project, Path(env.get("HOME") or "/"), env)
    return {name for skill in skills for name in (skill.folder, *skill.names)} | set(store.tree.folders("skills"))


def behind(store: Store, entry: history.Entry, env: Mapping[str, str]) -> Cause:
    """What stands behind one commit: rows, words, prompts, and the undo that took it back."""
    cause = Cause("", None, "", entry)
    _fill(store, cause, env)
    return cause


def _fill(store: Store, cause: Cause, env: Mapping[str, str]) -> None:
    cause.rows = _rows_behind(store, cause.entry)
    cause.prompts = list(_prompts(store, cause, env))
    cause.undone_by = _undone_by(store, cause.entry)


def _path(store: Store, tree: Tree, name: str) -> str | None:
    root = os.path.realpath(store.workspace.root)
    full = os.path.realpath(os.path.join(os.getcwd(), name))
    for path in (
        name,
        os.path.relpath(full, root).replace(os.sep, "/"),
        f"skills/{name}/AGENTS.md",
        f"skills/{name}/overlay.md",
    ):
        if path and not path.startswith("..") and "\n" not in path and tree.blob_id(path):
            return path
    return None


def _blamed(store: Store, path: str, number: int | None) -> Iterator[Cause]:
    args = ["blame", "--porcelain", "-w", *([f"-L{number},{number}"] if number else []), "HEAD", "--", path]
    lines = (store.tree.read(path) or b"").count(b"\n") + 1
    if number is not None and not 1 <= number <= lines:
        raise NothingThere(f"{path} has no line {number}", f"it has {lines - 1}", "give a line that is there")
    text = store.git.text(*args)
    entries: dict[str, history.Entry] = {}
    at: tuple[str, int] | None = None
    for line in text.split("\n"):
        head = re.fullmatch(r"([0-9a-f]{40}|[0-9a-f]{64}) \d+ (\d+)(?: \d+)?", line)
        if head:
            at = (head[1], int(head[2]))
        elif line.startswith("\t") and at:
            commit, row = at
            if number or (commit not in entries and line.strip()):
                new = commit not in entries
                entries.setdefault(commit, history.find(store.git, commit))
                if number or new:
                    yield Cause(path, row, line[1:], entries[commit])


def _entry_of_row(store: Store, row_id: str) -> history.Entry | None:
    """The commit that added the row ``row_id``: git's pickaxe over the ledgers finds when the id came in."""
    out = store.git.text(
        "log", "-S", f'"id":"{row_id}"', "--format=%H", "--reverse", "--", "state", "skills"
    ).splitlines()
    return history.find(store.git, out[0]) if out else None


def _rows_behind(store: Store, entry: history.Entry) -> list[dict[str, Any]]:
    wanted = set(_ULID.findall(" ".join(entry.trailers.get(key, "") for key in ("Closes", "Feedback", "Evidence"))))
    if not wanted:
        return []
    gone, found = undone(store), []
    cards = re.findall(r"(?:skills|team)/[^/\s]+/scorecards\.jsonl", entry.trailers.get("Evidence", ""))
    for ledger in (*cards, *_EVIDENCE):
        for row in store.rows(ledger):
            if isinstance(row, dict) and row.get("id") in wanted:
                found.append({"ledger": ledger, **row, **({"undone": True} if row["id"] in gone else {})})
        if len(found) >= len(wanted):
            break
    return found


def _undone_by(store: Store, entry: history.Entry) -> str | None:
    tick = entry.trailers.get("Tick")
    if not tick:
        return None
    out = store.git.text("log", "-1", f"--grep=^Undoes: {tick}$", "--abbrev=4", "--format=%h", f"{entry.commit}..HEAD")
    return out.strip() or None


def _prompts(store: Store, cause: Cause, env: Mapping[str, str]) -> Iterator[dict[str, str]]:
    seen = set()
    sessions = [str(row["session"]) for row in cause.rows if row.get("session")] or cause.entry.trailers.get(
        "Session", ""
    ).split()
    needle = next((str(row["text"]) for row in cause.rows if row.get("text")), "")
    turn = next((str(row["turn"]) for row in cause.rows if row.get("turn")), cause.entry.trailers.get("Turn", ""))
    for session in sessions:
        if session in seen:
            continue
        seen.add(session)
        path, kept = transcript_of(session, env), excerpt_of(session)
        said = _prompt_before(path, needle, turn) if path else None
        yield {
            "session": session,
            "transcript": str(path) if path else "",
            "kept": kept if not path and store.tree.blob_id(kept) else "",
            "prompt": redact.scrub(said or "")[:MAX_QUOTE],
        }


def transcript_of(session: str, env: Mapping[str, str]) -> Path | None:
    """The transcript of a session on this machine, or None."""
    if not re.fullmatch(r"[\w-]{8,64}", session):
        return None
    home = Path(env.get("CLAUDE_CONFIG_DIR") or Path(env.get("HOME") or "/", ".claude"))
    return next(iter(sorted((home / "projects").glob(f"*/{session}.jsonl"))), None)


def _prompt_before(path: Path, needle: str, turn: str = "") -> str | None:
    """The user's own prompt of the turn with the id ``turn``; else the last one before the words ``needle`` appear in the
    transcript (of the whole, when they don't)."""
    said: str | None = None
    quoted = json.dumps(needle)[1:-1]
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if needle and said is not None and quoted in line and '"assistant"' in line:
                return said
            if '"user"' not in line:
                continue
            try:
                row = json.loads(line)
            except ValueError:
                continue
            content = (
                row.get("message", {}).get("content")
                if isinstance(row, dict) and isinstance(row.get("message"), dict)
                else None
            )
            if (
                row.get("type") == "user"
                and isinstance(content, str)
                and not row.get("isMeta")
                and not content.startswith("<task-notification>")
            ):
                said = content
                if turn and row.get("promptId") == turn:
                    return said
    return said
