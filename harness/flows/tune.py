"""Tune: a proposal is made, shown, decided by a person, and ends as one row of the scorecards, with the edit or without.

propose -> state/proposals/ID.json -> (a person's yes) -> overlay + row, one commit
"""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from harness import redact
from harness.errors import USAGE, HarnessError
from harness.flows.ledgers import undone
from harness.flows.origin import base_of, origin
from harness.ids import stable_ulid, ulid
from harness.skills import find
from harness.store import files, gate, snapshot
from harness.store.commit import Landed, Store
from harness.store.errors import GateRefused, Stale
from harness.store.tick import ABSENT, Append, Replace, Tick, Write, sha256
from harness.tune import overlay, proposal
from harness.tune.proposal import Expected, NoProposal, Proposal, StaleProposal

Decision = Literal["approve", "reject", "lapse"]
SIGNALS: Final = {
    1: "explicit_positive",
    0.5: "implicit_positive",
    0: "neutral",
    -0.5: "implicit_negative",
    -1: "explicit_negative",
}
EVIDENCE: Final = ("wiki/causal.json", "wiki/patterns.json")


class NothingToTune(HarnessError):
    """The request names nothing that can be tuned, or says nothing."""

    exit_code = USAGE


@dataclass(frozen=True)
class Request:
    """What somebody proposes. ``name`` is a skill, or a member when ``evidence`` backs an edit of a member's overlay."""

    name: str
    reward: float
    reaction: str
    diagnosis: str
    expected: Expected
    edit: overlay.Edit
    origin: str = "user"
    found_in: str = ""
    member: bool = False
    evidence: tuple[str, ...] = ()
    session: str | None = None
    turn: str | None = None
    signal: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Approval:
    """Who decided, as the commit says it (`prompt 650c… "apply a7f3"`, `terminal ada`), and the hash of the diff they saw."""

    by: str
    diff_sha256: str | None = None


@dataclass(frozen=True)
class Decided:
    """What came of a proposal: the row's status, the commit, the sentence to tell; for a stale one the new proposal."""

    status: str
    landed: Landed
    sentence: str
    again: Mapping[str, Any] | None = None


# --- what is open ---------------------------------------------------------------------------------------------------


def open_proposals(store: Store) -> list[dict[str, Any]]:
    """The proposals of the last days that nobody has decided, oldest first."""
    since = (datetime.now(UTC) - timedelta(days=proposal.OPEN_DAYS)).timestamp() * 1000
    oldest = stable_ulid(max(0, int(since)), "")[:10]
    found: list[dict[str, Any]] = []
    decided: dict[str, set[str]] = {}
    gone = undone(store)
    tree = store.tree
    for name in sorted(tree.names(proposal.FOLDER)):
        if name[:10] < oldest or not name.endswith(".json"):
            continue
        document = json.loads(tree.read(f"{proposal.FOLDER}/{name}") or b"{}")
        cards = scorecards(document["target"])
        if cards not in decided:
            decided[cards] = {
                str(r["proposal"]) for r in store.rows(cards) if isinstance(r, dict) and r.get("proposal")
            }
        if document["id"] not in decided[cards] and document["id"] not in gone:
            found.append(document)
    return found


def exported(store: Store) -> list[dict[str, Any]]:
    """The open proposals as the hooks need them: id, session, hashes and the text to show."""
    listed = open_proposals(store)
    ids = proposal.short_ids(one["id"] for one in listed)
    return [
        {
            **{key: one[key] for key in ("id", "session", "skill", "origin", "diff_sha256")},
            "short": ids[one["id"]],
            "text": proposal.shown(one, ids[one["id"]], typed=one["origin"] == "tool"),
        }
        for one in listed
    ]


def scorecards(target: str) -> str:
    """The ledger that belongs to an overlay."""
    return target.rpartition("/")[0] + "/scorecards.jsonl"


# --- proposing ------------------------------------------------------------------------------------------------------


def propose(store: Store, request: Request, env: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """Check an edit by every rule that it must pass when applied, and commit the proposal: (document, short id).

    Nothing else is written. An edit that the gate would refuse is a row `refused` and raises GateRefused.
    """
    store.catch_up()
    made = _made(store, request, env)
    waits = open_proposals(store)
    if same := next((o for o in waits if o["target"] == made.target and o["after"] == made.after), None):
        short = proposal.short_ids(one["id"] for one in waits)[same["id"]]
        raise NothingToTune(f"proposal {short} says the same", "it waits for a person", "see `harness tune list`")
    tick = _apply_tick(store, made.document(), Approval("nobody yet"), env)
    if refusals := gate.check(tick, store.tree.read, snapshot.rules(store, store.tree)):
        row = _row(made.document(), "refused", reason=refusals[0].line())
        _commit_row(store, made.document(), row, f"refused: {refusals[0].rule}")
        raise GateRefused(refusals)
    return _commit_proposal(store, made)


def _commit_proposal(store: Store, made: Proposal) -> tuple[dict[str, Any], str]:
    document = made.document()
    text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
    kind = "member" if made.kind == "member" else "tune"
    tick = Tick(
        kind, f"proposed: {proposal.clip(made.diagnosis)}", [Replace(made.path, text, ABSENT)], _trailers(document)
    )
    _commit(store, tick)
    short = proposal.short_ids(one["id"] for one in [*open_proposals(store), document])[made.id]
    return document, short


def _made(store: Store, request: Request, env: Mapping[str, str]) -> Proposal:
    if not request.diagnosis.strip():
        raise NothingToTune("no diagnosis", "a proposal says in a sentence what was wrong or right", "add --diagnosis")
    if not request.expected.text.strip():
        raise NothingToTune(
            "no prediction",
            "a proposal says what will be different",
            "add --expect, and --expect-absent or --expect-present",
        )
    if request.reward == 0:
        raise NothingToTune(
            "a neutral reaction is no reason for an edit",
            "nothing was praised or complained of",
            "log it: harness tune SKILL --reaction",
        )
    name, target, kind = _target(store, request, env)
    before_bytes = store.tree.read(target)
    before = None if before_bytes is None else before_bytes.decode("utf-8", "replace")
    after = overlay.applied(before or "", request.edit)
    base = base_of(store, name, env) if kind != "member" else store.tree.read(f"team/{name}/MEMBER.md")
    now = datetime.now(UTC)
    return Proposal(
        id=ulid(), ts=f"{now:%Y-%m-%dT%H:%M:%SZ}", kind=kind, target=target, skill=name, session=request.session,
        turn=request.turn, reward=request.reward, signal=request.signal or SIGNALS.get(request.reward, ""),
        reaction=_words(request.reaction, 600), diagnosis=_words(request.diagnosis, 500),
        expected=replace(request.expected, text=_words(request.expected.text, 500)), origin=request.origin,
        edit=request.edit, before=before, after=after, base_sha256=sha256(base) if base is not None else None,
        evidence=request.evidence, found_in=_words(request.found_in, 300),
    )  # fmt: skip


def _target(store: Store, request: Request, env: Mapping[str, str]) -> tuple[str, str, str]:
    if not request.member:
        skills = find.find_all(store.workspace.root, store.workspace.project, _home(env), env)
        name = find.resolve(request.name, skills, store.tree.folders("skills"))
        return name, f"skills/{name}/overlay.md", request.kind or "tune"
    name = request.name
    if name not in store.tree.folders("team"):
        known = ", ".join(store.tree.folders("team")) or "nobody"
        raise NothingToTune(f"no member {name!r}", f"team/ has {known}", "commit team/NAME/MEMBER.md first")
    known_evidence = evidence_ids(store)
    missing = [one for one in request.evidence if one not in known_evidence]
    if not request.evidence or missing:
        why = f"there is none by the id {missing[0]}" if missing else "it cites none"
        todo = "`harness lessons --write-evidence` fills wiki/causal.json and wiki/patterns.json; cite their ids with --evidence"
        raise NothingToTune("an edit of a member needs evidence", why, todo)
    return name, f"team/{name}/overlay.md", "member"


def evidence_ids(store: Store) -> set[str]:
    """The ids that an edit of a member may cite."""
    ids: set[str] = set()
    for path in EVIDENCE:
        value, why = gate.parse_document(path, (store.tree.read(path) or b"{}").decode("utf-8", "replace"))
        listed = [] if why or not isinstance(value, dict) else value.get("edits") or value.get("patterns") or []
        ids |= {str(one.get("id")) for one in listed if isinstance(one, dict)}
    return ids


# --- deciding -------------------------------------------------------------------------------------------------------


def decide(
    store: Store, name: str, decision: Decision, approval: Approval, env: Mapping[str, str], *, reason: str = ""
) -> Decided:
    """Settle one open proposal. An approval whose overlay has changed since applies nothing: the row says `stale`, and a
    new proposal of the same edit is made where the edit still fits. Raises NoProposal."""
    store.catch_up()
    with store.locked():
        return _decide(store, dict(proposal.find(open_proposals(store), name)), decision, approval, env, reason)


def _decide(
    store: Store, document: dict[str, Any], decision: Decision, approval: Approval, env: Mapping[str, str], reason: str
) -> Decided:
    target = document["target"]
    if decision != "approve":
        status = "rejected" if decision == "reject" else "lapsed"
        row = _row(document, status, reason=reason)
        landed = _commit_row(store, document, row, f"{status}: {proposal.clip(document['diagnosis'])}", approval)
        return Decided(status, landed, f"the proposal for {document['skill']} is {status}; nothing was changed")
    if approval.diff_sha256 is not None and approval.diff_sha256 != document["diff_sha256"]:
        what = "another diff was approved"
        raise StaleProposal(what, "the hash is not that of this proposal", "look at it again: harness tune list")
    before = store.tree.read(target)
    if (ABSENT if before is None else sha256(before)) != document["before_sha256"]:
        return _stale(store, document, approval, env)
    if files.read(store.workspace.root / target) not in (before, None):
        what, why = "nothing was applied", f"{target} was changed on disk after the diff was shown, in no commit"
        raise StaleProposal(what, why, f"put it back (git checkout HEAD -- {target}) or commit it, then answer again")
    try:
        landed = _commit(store, _apply_tick(store, document, approval, env))
    except Stale:
        return _stale(store, document, approval, env)
    except GateRefused as error:
        row = _row(document, "refused", reason=error.refusals[0].line())
        landed = _commit_row(store, document, row, f"refused: {error.refusals[0].rule}")
        return Decided("refused", landed, f"the gate refused the edit: {error.refusals[0].line()}")
    commit = (landed.commit or "")[:7]
    return Decided("applied", landed, f"applied to {target} as {commit}; the next use of {document['skill']} gets it")


def _stale(store: Store, document: dict[str, Any], approval: Approval, env: Mapping[str, str]) -> Decided:
    row = _row(document, "stale", reason="the overlay changed after the diff was shown")
    landed = _commit_row(store, document, row, f"stale: {proposal.clip(document['diagnosis'])}", approval)
    sentence = "nothing was applied: the overlay has changed since the diff was shown"
    before = (store.tree.read(document["target"]) or b"").decode("utf-8", "replace")
    if document["edit"]["first"] is not None:
        return Decided(
            "stale", landed, f"{sentence}, and the lines that it replaces may be others now; propose it again"
        )
    try:
        after = proposal.on_top_of(document, before)
    except overlay.BadEdit as error:
        return Decided("stale", landed, f"{sentence}; {error}")
    again = replace(
        _from(document),
        id=ulid(),
        ts=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        before=before,
        after=after,
        replaces=document["id"],
    )
    refusals = gate.check(
        _apply_tick(store, again.document(), Approval("nobody yet"), env),
        store.tree.read,
        snapshot.rules(store, store.tree),
    )
    if refusals:
        return Decided("stale", landed, f"{sentence}; on top of it the gate refuses it: {refusals[0].line()}")
    made, short = _commit_proposal(store, again)
    return Decided(
        "stale",
        landed,
        f"{sentence}. The new diff is proposal {short}, shown when the agent stops; it needs a new yes",
        made,
    )


def _apply_tick(store: Store, document: Mapping[str, Any], approval: Approval, env: Mapping[str, str]) -> Tick:
    row = _row(document, "applied")
    cards = scorecards(document["target"])
    write = Replace(document["target"], document["after"], document["before_sha256"])
    extra: list[Write] = origin(store, document["skill"], env) if document["target"].startswith("skills/") else []
    trailers = _trailers(document) | {
        "Approved-By": approval.by,
        "Evidence": " ".join([f"{cards} {row['id']}", *document.get("evidence", [])]),
        "Origin": document["origin"],
    }
    words = f"“{document['reaction']}” ({document['reward']:+g})\n" if document["reaction"] else ""
    body = f"{words}Expected is: {document['expected']['text']}"
    return Tick(
        document["kind"], proposal.clip(document["diagnosis"]), [write, *extra, Append(cards, row)], trailers, body
    )


def _commit_row(
    store: Store, document: Mapping[str, Any], row: Mapping[str, Any], summary: str, approval: Approval | None = None
) -> Landed:
    trailers = _trailers(document) | ({"Decided-By": approval.by} if approval else {})
    kind = "member" if document["kind"] == "member" else "tune"
    return _commit(store, Tick(kind, summary, [Append(scorecards(document["target"]), row)], trailers))


def _row(document: Mapping[str, Any], status: str, *, reason: str = "") -> dict[str, Any]:
    applied = status == "applied"
    row = {
        "id": stable_ulid(int(datetime.fromisoformat(document["ts"]).timestamp() * 1000), f"{document['id']} decided"),
        "ts": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "skill": document["skill"], "reward": document["reward"],
        "signal": document["signal"], "reaction": document["reaction"][: proposal.MAX_REACTION],
        "diagnosis": document["diagnosis"], "applied": applied, "status": status, "path": "B-live",
        "turn": document["turn"], "session": document["session"], "proposal": document["id"],
        "diff_sha256": document["diff_sha256"],
        "overlay_sha256": document["after_sha256"] if applied else _hex(document["before_sha256"]),
        "expected": document["expected"],
    }  # fmt: skip
    return row | ({"reason": redact.scrub(reason)[:500]} if reason else {})


def operator() -> str:
    """The person at this terminal, as commits name them."""
    try:
        return f"terminal {getpass.getuser()}"
    except (OSError, KeyError):
        return "terminal"


def by_prompt(turn: str | None, words: str) -> str:
    """An approval by a prompt, as commits name it."""
    said = redact.scrub(" ".join(words.split()))[:80]
    return f'prompt {turn or "unknown"} "{said}"'


def _commit(store: Store, tick: Tick) -> Landed:
    """One tick, now or not at all: an answer that waits for a rebase to end stays where it was noted."""
    return store.commit_all([tick], keep=False)[0]


def _from(document: Mapping[str, Any]) -> Proposal:
    e = document["expected"]
    return Proposal(
        id=document["id"], ts=document["ts"], kind=document["kind"], target=document["target"], skill=document["skill"],
        session=document["session"], turn=document["turn"], reward=document["reward"], signal=document["signal"],
        reaction=document["reaction"], diagnosis=document["diagnosis"],
        expected=Expected(e["text"], tuple(e.get("absent", ())), tuple(e.get("present", ())), tuple(e.get("command", ()))),
        origin=document["origin"], edit=overlay.Edit(**document["edit"]), before=None, after=document["after"],
        base_sha256=document["base_sha256"], evidence=tuple(document.get("evidence", ())),
        found_in=document.get("found_in", ""), replaces=document.get("replaces"),
    )  # fmt: skip


def request_of(document: Mapping[str, Any]) -> Request:
    """The request that a proposal was made from, to propose it again with another edit."""
    made = _from(document)
    return Request(
        name=made.skill, reward=made.reward, reaction=made.reaction, diagnosis=made.diagnosis, expected=made.expected,
        edit=made.edit, origin=made.origin, found_in=made.found_in, member=made.kind == "member",
        evidence=tuple(made.evidence), session=made.session, turn=made.turn, signal=made.signal,
        kind="" if made.kind == "member" else made.kind,
    )  # fmt: skip


def _trailers(document: Mapping[str, Any]) -> dict[str, str]:
    out = {"Skill": document["skill"], "Proposal": document["id"]}
    out |= {"Session": document["session"]} if document["session"] else {}
    return out | ({"Turn": document["turn"]} if document["turn"] else {})


def _words(text: str, most: int) -> str:
    return redact.scrub(" ".join(text.split()))[:most]


def _hex(value: str) -> str | None:
    return None if value == ABSENT else value


def _home(env: Mapping[str, str]) -> Any:
    from pathlib import Path

    return Path(env.get("HOME") or "/")


__all__ = [
    "Approval", "Decided", "NoProposal", "Request", "by_prompt", "decide", "exported", "open_proposals", "operator", "propose",
]  # fmt: skip
