"""Drafts of a workspace: written once, listed until a person has decided, and the decision as a row of approvals."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from harness.errors import USAGE, HarnessError
from harness.ids import ulid
from harness.store.commit import Landed, Store
from harness.store.tick import ABSENT, Append, Replace, Tick, Write, sha256
from harness.taste.drafts import NAME, STATE, Draft, draft_name, file_of

APPROVALS: Final = "state/log/approvals.ndjson"
Verdict = Literal["approve", "dismiss", "edit"]
_OWN: Final = frozenset({"distill-approvals", "ledger", "sessions"})  # folders of state/log/ that hold no drafts


class NoDraft(HarnessError):
    """No draft answers to this name, or more than one does."""

    exit_code = USAGE


class Decided(HarnessError):
    """The draft was decided before, or has changed since it was shown."""


@dataclass(frozen=True)
class Decision:
    """What a person decides on one draft, and what they saw: the hash of the text, when it was first shown."""

    verdict: Verdict
    operator: str
    sha256: str
    reason: str | None = None
    shown_ts: str | None = None
    latency_ms: int | None = None


def new(store: Store, skill: str, text: str, fields: dict[str, str]) -> tuple[Draft, Landed]:
    """Write a draft of ``skill``: ``fields`` go into its frontmatter, the rest is the exact text. Raises GateRefused."""
    made = with_fields(text, {"source_skill": skill, **fields})
    now = datetime.now(UTC)
    path = f"log/{skill}/{draft_name(f'{now:%Y%m%dT%H%M%SZ}', ulid()[-6:].lower())}"
    draft = Draft(path, skill, made, sha256(made.encode("utf-8", "replace")))
    landed = store.commit(
        Tick("draft", draft.title or "a draft", [Replace(draft.file, made, ABSENT)], {"Skill": skill})
    )
    return draft, landed


def with_fields(text: str, fields: dict[str, str]) -> str:
    """``text`` with ``fields`` in its frontmatter, which is made when there is none."""
    text = text.removeprefix("\ufeff")
    lines = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in fields.items())
    if text.startswith(("---\n", "---\r\n")):
        first, rest = text.split("\n", 1)
        return f"{first}\n{lines}{rest}"
    return f"---\n{lines}---\n{text}"


def drafts(store: Store) -> Iterator[Draft]:
    """Every draft, oldest first within its skill."""
    tree = store.tree
    for skill in tree.folders("state/log"):
        if skill in _OWN or skill.endswith(".d"):
            continue
        for name in sorted(tree.names(f"state/log/{skill}")):
            if NAME.fullmatch(name):
                data = tree.read(f"state/log/{skill}/{name}") or b""
                yield Draft(f"log/{skill}/{name}", skill, data.decode("utf-8", "replace"), sha256(data))


def undecided(store: Store) -> list[Draft]:
    """The drafts that nobody has decided, oldest first."""
    decided = {str(r.get("path")) for r in store.rows(APPROVALS) if isinstance(r, dict)}
    return sorted((d for d in drafts(store) if d.path not in decided), key=lambda d: d.path.rpartition("/")[2])


def find(store: Store, name: str) -> Draft:
    """The draft that ``name`` stands for: its path, or a part of its file name. Raises NoDraft, BadPath."""
    if "/" in name:
        path = file_of(name)[len(STATE) :]
        found = [d for d in drafts(store) if d.path == path]
    else:
        wanted = name.lower()
        found = [d for d in drafts(store) if wanted and wanted in d.path.rpartition("/")[2].lower()]
    if len(found) == 1:
        return found[0]
    if found:
        raise NoDraft(
            f"{name!r} stands for {len(found)} drafts", ", ".join(d.path for d in found[:5]), "give more of its name"
        )
    raise NoDraft(f"no draft {name!r}", "", "see `harness draft list`")


def decide(store: Store, name: str, decision: Decision, edited: str | None = None) -> tuple[dict[str, Any], Landed]:
    """Commit a person's decision on the exact text they saw. With ``edited`` the changed text is a new draft in the same
    commit. Raises Decided when another text lies there, or somebody was faster with another decision."""
    store.catch_up()
    with store.locked():
        draft = find(store, name)
        if draft.sha256 != decision.sha256:
            raise Decided(
                f"{draft.path} has changed",
                "the text is not the one that was shown",
                "look at it again: harness draft show",
            )
        last = next(
            (r for r in reversed(list(store.rows(APPROVALS))) if isinstance(r, dict) and r.get("path") == draft.path),
            None,
        )
        if last is not None and last["decision"] == decision.verdict:
            raise Decided(
                f"{draft.path} was decided before",
                f"{last['decision']} by {last['operator']}, {last['ts']}",
                "nothing to do",
            )
        row = {
            "id": ulid(), "ts": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "path": draft.path, "decision": decision.verdict,
            "source_skill": draft.source_skill, "title": draft.title, "reason": decision.reason, "shown_ts": decision.shown_ts,
            "latency_ms": decision.latency_ms, "draft_sha256": draft.sha256, "operator": decision.operator,
        }  # fmt: skip
        writes: list[Write] = [Append(APPROVALS, row)]
        if edited is not None:
            name_ = draft_name(f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}", ulid()[-6:].lower())
            writes.append(Replace(f"state/log/{draft.source_skill}/{name_}", edited, ABSENT))
        summary = f"{decision.verdict}: {draft.title}"[:120]
        trailers = {
            "Skill": draft.source_skill,
            "Approved-By": decision.operator,
            "Evidence": f"{APPROVALS} {row['id']}",
        }
        return row, store.commit(Tick("decide", summary, writes, trailers))


def field_of(text: str) -> tuple[str, str]:
    """`name=value` as a field of the frontmatter; raises NoDraft when it is none."""
    key, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", key):
        raise NoDraft(f"{text!r} is no field", "", "write name=value, the name in small letters")
    return key, value
