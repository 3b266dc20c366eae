"""The inbox of a person: proposals first, then lessons that speak against themselves, lines that a new base overtakes, and
changes on disk that are in no commit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from harness.flows import reactions, report, tune
from harness.flows.origin import base_of
from harness.flows.predictions import Lesson, document_of, lessons
from harness.store import files
from harness.store.commit import Store
from harness.store.git import GitError
from harness.store.tick import sha256
from harness.tune import proposal, variant

Kind = Literal["proposal", "lesson", "base", "pending"]
SEEN: Final = "bases-seen.json"


@dataclass(frozen=True)
class Item:
    """One thing to decide: its kind, a name to call it by, the text to show, and what it is about."""

    kind: Kind
    name: str
    text: str
    about: Mapping[str, Any] = field(default_factory=dict)


def items(store: Store, env: Mapping[str, str]) -> list[Item]:
    """Everything that waits, in the order in which it is to be decided."""
    store.catch_up()
    return [*_proposals(store), *_doubtful(store), *_overtaken(store, env), *_pending(store)]


def _proposals(store: Store) -> list[Item]:
    listed = tune.open_proposals(store)
    ids = proposal.short_ids(one["id"] for one in listed)
    return [
        Item("proposal", ids[one["id"]], proposal.shown(one, ids[one["id"]], typed=True, asked=False), one)
        for one in listed
    ]


def _doubtful(store: Store) -> list[Item]:
    found = []
    for lesson in lessons(store):
        if lesson.state not in ("made it worse", "unproven"):
            continue
        lines = "\n".join(f"    {proposal.visible(line)}" for line in _lines(store, lesson))
        kept = (
            f"{lesson.held} of {lesson.checked} later outputs kept its promise"
            if lesson.checked
            else "no output was checked"
        )
        text = (
            f"Lesson {lesson.short} of {lesson.skill}: {lesson.state}\n\n{lines}\n\nexpected     {lesson.expected.get('text', '')}\n"
            f"since then   {lesson.runs} uses; {kept}\n\nRemove it? (harness undo {lesson.short})"
        )
        found.append(Item("lesson", lesson.short, text, lesson.as_dict()))
    return found


def _lines(store: Store, lesson: Lesson) -> list[str]:
    return [str(line) for line in document_of(store, lesson.proposal).get("edit", {}).get("lines", [])]


def _overtaken(store: Store, env: Mapping[str, str]) -> list[Item]:
    seen = _seen(store)
    found = []
    for skill in store.tree.folders("skills"):
        text = store.tree.read(f"skills/{skill}/overlay.md")
        base = base_of(store, skill, env) if text else None
        if not text or base is None or seen.get(skill) == sha256(base):
            continue
        made_on = _base_then(store, skill)
        if made_on is None or made_on == sha256(base):
            continue
        lines = variant.overtaken(_text(text), _text(base), _old_base(store, skill, made_on))
        told = [f"    line {o.number} “{o.line}”\n      the base now {_verb(o.how)}: “{o.base_line}”" for o in lines]
        what = "\n".join(told) or "    no line of the overlay is covered or contradicted"
        head = f"The base of {skill} has changed under its overlay"
        text_ = f"{head}\n\n{proposal.visible(what)}\n\nKeep the overlay as it is? (edit it by hand, or undo single lessons)"
        about = {"skill": skill, "base_sha256": sha256(base), "lines": [vars(o) for o in lines]}
        found.append(Item("base", skill, text_, about))
    return found


def _verb(how: str) -> str:
    return "says it itself" if how == "covers" else "speaks against it"


def _base_then(store: Store, skill: str) -> str | None:
    """The base that the newest applied edit of a skill was made for."""
    found = None
    for row in reactions.lessons_of(store, skill):
        if row.get("status") == "applied" and (document := document_of(store, str(row.get("proposal")))):
            found = document.get("base_sha256") or found
    return found


def _old_base(store: Store, skill: str, digest: str) -> str | None:
    """The text of an earlier base, where the workspace's own history has it."""
    path = f"skills/{skill}/SKILL.md"
    try:
        commits = store.git.text("log", "-50", "--format=%H", "--", path).split()
    except GitError:
        return None
    for commit in commits:
        found = store.git.object(f"{commit}:{path}")
        if found and sha256(found[2]) == digest:
            return _text(found[2])
    return None


def keep_base(store: Store, skill: str, digest: str) -> None:
    """Remember that a person has looked at the overlay of ``skill`` under this base."""
    files.replace(store.runtime / SEEN, json.dumps({**_seen(store), skill: digest}).encode())


def _seen(store: Store) -> dict[str, str]:
    try:
        value = json.loads(files.read(store.runtime / SEEN) or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _pending(store: Store) -> list[Item]:
    listed = report.status(store.workspace)["pending"]
    what = "was changed on disk and is in no commit; it has no effect"
    return [Item("pending", one["path"], f"{one['path']} {what}\n\n{one['next']}", one) for one in listed]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
