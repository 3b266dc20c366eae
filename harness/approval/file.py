"""Filing a draft: clean, gate, hash, put in the place of what waits for the same destination. Nothing leaves by filing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from harness import redact
from harness.approval import text as texts
from harness.approval.backend import Row
from harness.approval.baseline import unstamped
from harness.approval.errors import ClaimActive, Invalid, Locked
from harness.approval.ledger import Ledger
from harness.approval.limits import LIMITS
from harness.approval.text import Body

PRIORITIES: Final = ("P0", "P1", "P2", "P3")
DESTINATION: Final = ("counterparty", "platform", "workspace", "channel", "thread")
DIRECTIONS: Final = ("we_owe_them", "they_owe_us", "none")
_TRIES: Final = 10
DEFAULT_SKILL: Final = "operator-approval-loop"
_MILLISECONDS: Final = 10**11  # a number of seconds from here on lies in the year 5138 or is no number of seconds
_MEDIA: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789!#$&-^_.+/; =")


class Gate(Protocol):
    """Looks up what stands between us and a counterparty. ``check`` raises BaselineRefused; see ``baseline``."""

    def check(self, counterparty: str, context: str, *, force: bool) -> tuple[str, str]:
        """(the context with its stamps, what the gate said as one word)."""


class Channels(Protocol):
    """Says what may be done in a channel. ``may_file`` raises ChannelRefused; see ``channels``."""

    def may_file(self, platform: str, workspace: str, channel: str) -> None:
        """Return when drafts may be filed for that channel."""

    def auto_allowed(self, platform: str, workspace: str, channel: str) -> bool:
        """Whether a draft may be approved there by its deadline alone."""


@dataclass(frozen=True)
class Draft:
    """A cleaned draft, ready to be written."""

    destination: Mapping[str, str]
    text: str
    subject: str
    context: str
    origin_user: str
    source_skill: str
    priority: str
    bodies: tuple[Body, ...]
    attachments: tuple[Mapping[str, str], ...]
    notes: tuple[str, ...]

    @property
    def sha256(self) -> str:
        """The hash of the text."""
        return texts.sha256(self.text)

    @property
    def digest(self) -> str:
        """The hash over everything that can be sent."""
        return texts.digest(self.text, self.subject, self.bodies, self.attachments, self.destination)

    @property
    def summary(self) -> str:
        """One line for lists; it ends with the beginning of the hash, so that a reader sees which text it speaks of."""
        first = self.subject or next(one.strip() for one in self.text.splitlines() if not texts.blank(one))
        words = " ".join(first.split())
        end = f" [sha {self.sha256[:8]}]"
        room = LIMITS.summary_characters - len(end) - len(self.destination["counterparty"]) - 2
        shown = words if len(words) <= min(120, room) else f"{words[: min(119, room - 1)]}…"
        return f"{self.destination['counterparty']}: {shown}{end}"


def file_request(
    ledger: Ledger,
    draft: str,
    counterparty: str,
    context: str,
    origin_platform: str,
    origin_channel: str,
    origin_workspace: str | None = None,
    origin_thread: str | None = None,
    origin_user: str | None = None,
    subject: str | None = None,
    bodies: Mapping[str, str] | None = None,
    attachments: Sequence[Mapping[str, str]] | None = None,
    priority: str = "P2",
    signal_obligation_id: int | None = None,
    auto_send_after: int | None = None,
    force_despite_signed_contract: bool = False,
    *,
    expires_after: int | None = None,
    request_key: str | None = None,
    source_skill: str = DEFAULT_SKILL,
    gate: Gate | None = None,
    channels: Channels | None = None,
) -> dict[str, Any]:
    """File a draft for a person's decision; returns obligation_id, draft_sha256, epoch, refiled, and notes in words.

    The destination is counterparty, platform, workspace, channel and thread. What waits there already gets this text as a
    new epoch; an approval of the old text that nobody has claimed is void then. ``auto_send_after`` and ``expires_after``
    are seconds since 1970. ``request_key`` names the request: the same key again changes nothing and gives the answer of
    the first time. Raises Invalid, BaselineRefused, ChannelRefused, ClaimActive, Locked.
    """
    made = clean(
        draft, counterparty, context, origin_platform, origin_channel, origin_workspace, origin_thread, origin_user,
        subject, bodies, attachments, priority, source_skill,
    )  # fmt: skip
    key = None if request_key is None else texts.line("request_key", request_key, LIMITS.name_characters)
    times = [_deadline(ledger, "auto_send_after", auto_send_after), _deadline(ledger, "expires_after", expires_after)]
    if key is not None and (known := _replayed(ledger, key, made)):
        return known
    platform, workspace, channel = (made.destination[name] for name in ("platform", "workspace", "channel"))
    notes = list(made.notes)
    if channels is not None:
        channels.may_file(platform, workspace, channel)
    if times[0] is not None and not (channels and channels.auto_allowed(platform, workspace, channel)):
        notes.append("auto_send_after has no effect: this channel's policy doesn't allow it, so a person decides")
    stamped, baseline = (made.context, "off")
    if gate is not None:
        stamped, baseline = gate.check(
            made.destination["counterparty"], made.context, force=force_despite_signed_contract
        )
    with ledger.transaction():
        if key is not None and (known := _replayed(ledger, key, made)):
            return known
        found, fresh = _place(ledger, made)
        obligation_id = int(found["id"])
        _check_signal(ledger, signal_obligation_id, obligation_id)
        now = ledger.now()
        epoch = int(found["epoch"]) if fresh else max(now, int(found["epoch"]) + 1)
        if not fresh:
            ledger.backend.change(
                "UPDATE obligations SET epoch = ?, status = 'drafted', direction = 'we_owe_them', summary = ?, "
                "last_touch_ts = ? WHERE id = ?",
                (epoch, made.summary, max(now, int(found["last_touch_ts"])), obligation_id),
            )
        _write(ledger, made, obligation_id, epoch, now, stamped, baseline, times, signal_obligation_id, key)
    return {
        "obligation_id": obligation_id, "draft_sha256": made.sha256, "epoch": epoch, "refiled": not fresh,
        "priority": made.priority, "baseline": baseline, "notes": notes, "replayed": False,
    }  # fmt: skip


def clean(
    draft: str, counterparty: str, context: str, platform: str, channel: str, workspace: str | None, thread: str | None,
    user: str | None, subject: str | None, bodies: Mapping[str, str] | None,
    attachments: Sequence[Mapping[str, str]] | None, priority: str, source_skill: str,
) -> Draft:  # fmt: skip
    """The parts of a filing, cleaned. Raises Invalid with the figure that is over, or with what is empty."""
    name = LIMITS.name_characters
    made = texts.block("draft", draft, LIMITS.draft_characters)
    told = texts.block("context", "" if context is None else context, LIMITS.context_characters, empty=True)
    plain = redact.scrub(unstamped(told.text))
    one_line = texts.line("subject", subject, LIMITS.subject_characters, empty=True)
    destination = {
        "counterparty": texts.line("counterparty", counterparty, LIMITS.counterparty_characters),
        "platform": texts.line("platform", platform, name),
        "workspace": texts.line("workspace", workspace, name, empty=True),
        "channel": texts.line("channel", channel, name),
        "thread": texts.line("thread", thread, name, empty=True),
    }
    if priority not in PRIORITIES:
        raise Invalid(f"no priority {str(priority)[:40]!r}", "", f"use one of {', '.join(PRIORITIES)}")
    notes = [*made.notes, *told.notes]
    if plain != told.text:
        notes.append("context: a secret or a stamp of the gate's own was masked")
    out = tuple(_bodies(bodies or {}, notes))
    for label, value in (("draft", made.text), ("subject", one_line), *((one.media_type, one.body) for one in out)):
        texts.refuse_secrets(label, value)
    return Draft(
        destination, made.text, one_line, plain,
        texts.line("origin_user", user, name, empty=True), texts.line("source_skill", source_skill, name), priority,
        out, tuple(_attachments(attachments or ())), tuple(notes),
    )  # fmt: skip


def _bodies(bodies: Mapping[str, str], notes: list[str]) -> list[Body]:
    if len(bodies) > LIMITS.bodies:
        raise Invalid("too many bodies", f"{len(bodies)}, at most {LIMITS.bodies}")
    out = []
    for media, value in sorted(bodies.items()):
        kind = texts.line("media type", media, LIMITS.name_characters).lower()
        if kind.count("/") != 1 or not set(kind) <= _MEDIA:
            raise Invalid(f"{kind!r} is no media type", "", "for example text/html")
        cleaned = texts.block(f"body {kind}", value, LIMITS.body_characters)
        notes += cleaned.notes
        out.append(Body(kind, cleaned.text, texts.sha256(cleaned.text)))
    if len({one.media_type for one in out}) != len(out):
        raise Invalid("two bodies of one media type", "")
    return out


def _attachments(attachments: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    if len(attachments) > LIMITS.attachments:
        raise Invalid("too many attachments", f"{len(attachments)}, at most {LIMITS.attachments}")
    out = []
    for one in attachments:
        if not isinstance(one, Mapping) or set(one) != {"name", "sha256"} or not texts.is_hash(one["sha256"]):
            raise Invalid("an attachment is its name and its sha256", "the hash is 64 lowercase hexadecimal digits")
        out.append(
            {"name": texts.line("attachment name", one["name"], LIMITS.name_characters), "sha256": one["sha256"]}
        )
    return sorted(out, key=lambda one: (one["name"], one["sha256"]))


def _deadline(ledger: Ledger, name: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"{name} is a number of seconds since 1970", f"got {type(value).__name__}")
    now = ledger.now()
    if value >= _MILLISECONDS:
        raise Invalid(f"{name} looks like milliseconds", f"{value}", "give seconds since 1970")
    if value <= now:
        raise Invalid(f"{name} lies in the past", f"{value}, and now is {now}", "leave it out, or give a time to come")
    if value > now + LIMITS.auto_send_days * 86_400:
        raise Invalid(f"{name} lies too far ahead", f"more than {LIMITS.auto_send_days} days")
    return value


def _replayed(ledger: Ledger, key: str, made: Draft) -> dict[str, Any] | None:
    found = ledger.one("SELECT * FROM obligation_drafts WHERE request_key = ?", key)
    if found is None:
        return None
    if found["draft_sha256"] != made.sha256:
        raise Invalid(
            "this request key was used for another text", f"obligation {found['obligation_id']}", "mint a new key"
        )
    return {
        "obligation_id": int(found["obligation_id"]), "draft_sha256": found["draft_sha256"], "epoch": int(found["epoch"]),
        "refiled": False, "priority": found["priority"], "baseline": found["baseline"], "notes": [], "replayed": True,
    }  # fmt: skip


def _place(ledger: Ledger, made: Draft) -> tuple[Row, bool]:
    """The obligation that this draft belongs to, held, and whether it was made just now."""
    where = " AND ".join(f"{name} = ?" for name in DESTINATION)
    values = tuple(made.destination[name] for name in DESTINATION)
    for _ in range(_TRIES):
        found = ledger.one(
            f"SELECT id FROM obligations WHERE {where} AND status IN ('drafted', 'approved') "  # noqa: S608
            "ORDER BY CASE status WHEN 'drafted' THEN 0 ELSE 1 END, id DESC LIMIT 1",
            *values,
        )
        if found is not None:
            ledger.backend.hold(int(found["id"]))
            row = ledger.obligation(int(found["id"]))
            if claim := ledger.active_claim(int(row["id"])):
                raise ClaimActive(
                    f"obligation {row['id']} is being sent or its outcome is unknown",
                    f"its claim is {claim['state']}",
                    "cancel the claim if it is only claimed; else wait, or reconcile it: `harness ledger held`",
                )
            if ledger.one(
                "SELECT id FROM obligation_deliveries WHERE obligation_id = ? AND kind = 'draft_sent'", int(row["id"])
            ):
                # Somebody has set the status of a sent one back. It stays sent; what is filed now is a thing of its own.
                ledger.backend.change("UPDATE obligations SET status = 'sent' WHERE id = ?", (int(row["id"]),))
            elif row["status"] in ("drafted", "approved"):
                return row, False
            continue  # it was sent or closed between the look and the lock
        now = ledger.now()
        made_now = ledger.backend.change(
            "INSERT INTO obligations (counterparty, platform, workspace, channel, thread, direction, status, summary, "
            "opened_ts, last_touch_ts, epoch) VALUES (?, ?, ?, ?, ?, 'we_owe_them', 'drafted', ?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING",
            (*values, made.summary, now, now, now),
        )
        if made_now:
            row_now = ledger.one(f"SELECT * FROM obligations WHERE {where} AND status = 'drafted'", *values)  # noqa: S608
            assert row_now is not None
            return row_now, True
    raise Locked("the ledger is busy", "others file for the same destination at this moment", "try again")


def _check_signal(ledger: Ledger, signal: int | None, own: int) -> None:
    if signal is None:
        return
    if isinstance(signal, bool) or not isinstance(signal, int) or not 0 < signal < 2**63:
        raise Invalid("signal_obligation_id is the number of an obligation", f"got {str(signal)[:40]!r}")
    if signal == own:
        raise Invalid("an obligation can't answer itself", f"signal_obligation_id is {signal}")
    if ledger.one("SELECT id FROM obligations WHERE id = ?", signal) is None:
        raise Invalid(f"signal_obligation_id {signal} doesn't exist", "", "record the inbound first, or leave it out")
    if ledger.one("SELECT epoch FROM obligation_drafts WHERE obligation_id = ?", signal):
        raise Invalid(
            f"obligation {signal} is outbound", "it has drafts of its own", "name the inbound that this answers"
        )


def _write(
    ledger: Ledger, made: Draft, obligation_id: int, epoch: int, now: int, context: str, baseline: str,
    times: Sequence[int | None], signal: int | None, key: str | None,
) -> None:  # fmt: skip
    ledger.backend.change(
        "INSERT INTO obligation_drafts (obligation_id, epoch, draft_text, subject, context, origin_user, source_skill, "
        "priority, attachments, draft_sha256, digest, baseline, created_ts, auto_send_after, expires_after, "
        "signal_obligation_id, request_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            obligation_id, epoch, made.text, made.subject, context, made.origin_user, made.source_skill, made.priority,
            json.dumps(list(made.attachments), ensure_ascii=False), made.sha256, made.digest, baseline, now, *times,
            signal, key,
        ),
    )  # fmt: skip
    for one in made.bodies:
        ledger.backend.change(
            "INSERT INTO draft_bodies (obligation_id, epoch, media_type, body, sha256) VALUES (?, ?, ?, ?, ?)",
            (obligation_id, epoch, one.media_type, one.body, one.sha256),
        )
    row = ledger.one("SELECT * FROM obligation_drafts WHERE obligation_id = ? AND epoch = ?", obligation_id, epoch)
    assert row is not None
    record_draft(ledger, row, made.destination, [[one.media_type, one.sha256] for one in made.bodies])


def record_draft(ledger: Ledger, row: Row, place: Mapping[str, str], bodies: list[list[str]]) -> None:
    """The event of a draft's filing, from its row; in the transaction that wrote it."""
    names = ("priority", "subject", "origin_user", "source_skill", "baseline", "draft_sha256", "digest", "request_key")
    ledger.record(
        "drafts.filed", int(row["obligation_id"]), int(row["created_ts"]), **place, epoch=int(row["epoch"]),
        **{name: row[name] for name in (*names, "auto_send_after", "expires_after", "signal_obligation_id")},
        context_sha256=texts.sha256(row["context"]) if row["context"] else None, attachments=json.loads(row["attachments"]),
        bodies=bodies,
    )  # fmt: skip


def refile_as_is(ledger: Ledger, obligation_id: int, mark: str) -> None:
    """Give a waiting draft a new epoch with ``mark`` in its context and without a deadline; the text stays."""
    with ledger.on(obligation_id) as row:
        draft = ledger.draft(obligation_id, int(row["epoch"]))
        if row["status"] != "drafted" or draft is None:
            return
        now = ledger.now()
        epoch = max(now, int(row["epoch"]) + 1)
        ledger.backend.change(
            "UPDATE obligations SET epoch = ?, last_touch_ts = ? WHERE id = ?",
            (epoch, max(now, int(row["last_touch_ts"])), obligation_id),
        )
        ledger.backend.change(
            "INSERT INTO obligation_drafts (obligation_id, epoch, draft_text, subject, context, origin_user, source_skill, priority, "
            "attachments, draft_sha256, digest, baseline, created_ts, expires_after, signal_obligation_id) "
            "SELECT obligation_id, ?, draft_text, subject, ?, origin_user, source_skill, priority, attachments, draft_sha256, digest, "
            "baseline, ?, expires_after, signal_obligation_id FROM obligation_drafts WHERE obligation_id = ? AND epoch = ?",
            (epoch, f"{mark}\n{draft['context']}", now, obligation_id, int(row["epoch"])),
        )
        ledger.backend.change(
            "INSERT INTO draft_bodies (obligation_id, epoch, media_type, body, sha256) "
            "SELECT obligation_id, ?, media_type, body, sha256 FROM draft_bodies WHERE obligation_id = ? AND epoch = ?",
            (epoch, obligation_id, int(row["epoch"])),
        )
        made = ledger.one("SELECT * FROM obligation_drafts WHERE obligation_id = ? AND epoch = ?", obligation_id, epoch)
        assert made is not None
        bodies = [[one.media_type, one.sha256] for one in texts.bodies_of(draft["bodies"])]
        record_draft(ledger, made, {name: row[name] for name in DESTINATION}, bodies)
