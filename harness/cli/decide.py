"""`decide`: a person's decision on one draft, on exactly the text that is shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from harness.cli.common import json_option, print_json, workspace
from harness.cli.operator import Operator, operator_options, who
from harness.errors import BUSY
from harness.store.commit import Store


@click.command("decide")
@click.argument("id_", metavar="ID")
@click.option("--approve", "decision", flag_value="approve", help="Approve the text that is shown.")
@click.option("--reject", "decision", flag_value="reject", help="Reject it.")
@click.option("--reason", help="Why; the agent and the taste statistics see it.")
@click.option("--epoch", type=int, help="Decide only if this epoch is still current (needed with a token).")
@click.option(
    "--sha256", metavar="HEX", help="Decide only on the text with this hash, at least 8 digits (needed with a token)."
)
@operator_options
@json_option
@click.pass_context
def decide_command(
    ctx: click.Context, id_: str, decision: str | None, reason: str | None, epoch: int | None, sha256: str | None,
    token_file: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Decide on the draft ID: see the exact text, then approve it, reject it or leave it.

    It needs a person at a terminal of their own, or an operator's token. Exit code 4 when the draft changed meanwhile.

    \b
    Examples:
      harness decide 431
      harness decide 431 --reject --reason "too long"
      harness decide 431 --approve --epoch 1790000000 --sha256 9f2c8a1b --token-file ~/.config/harness/ada.token
    """
    for pattern, run in _FORMS:
        if re.fullmatch(pattern, id_):
            return run(ctx, id_, decision, reason, epoch, sha256, token_file, as_json)
    raise click.BadParameter(f"{id_!r} is no draft: give the number of an obligation", param_hint="ID")


def _obligation(
    ctx: click.Context, id_: str, decision: str | None, reason: str | None, epoch: int | None, sha256: str | None,
    token_file: Path | None, as_json: bool,
) -> int:  # fmt: skip
    from harness.approval import decide as decisions
    from harness.approval.errors import StaleDecision
    from harness.flows.desk import open_desk

    number = int(id_)
    with Store(workspace(ctx)) as store, open_desk(store) as desk:
        operator = who("deciding on a draft", token_file, desk.operators)
        shown_ts = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        row = desk.ledger.obligation(number)
        draft = desk.ledger.draft(number, int(row["epoch"])) or {}
        _expected(operator, row, draft, epoch, sha256)
        if not as_json:
            click.echo(page(row, draft))
        if row["status"] == "drafted":
            decisions.look(desk.ledger, number, int(row["epoch"]))
        answer = decision or _ask(operator, draft)
        if answer is None:
            decisions.resume(desk.ledger, number, int(row["epoch"]))
            click.echo("left as it is", err=True)
            return 0
        try:
            made, exported = desk.decide(
                number, answer, operator.name, int(row["epoch"]), str(draft.get("draft_sha256", "")), reason,
                channel=operator.channel, digest=draft.get("digest"), shown_ts=shown_ts,
            )  # fmt: skip
        except StaleDecision as error:
            if not as_json and error.diff:
                click.echo(exact(error.diff))
            raise
        return _said(made, exported.waits, as_json)


def _said(made: dict[str, Any], waits: str, as_json: bool) -> int:
    if as_json:
        names = (
            "id",
            "obligation_id",
            "epoch",
            "decision",
            "operator",
            "channel",
            "shown_sha256",
            "reason",
            "decided_ts",
        )
        print_json({name: made[name] for name in names} | {"deferred": waits or None})
    else:
        word = "approved" if made["decision"] == "approve" else "rejected"
        click.echo(f"{word} {made['shown_sha256'][:8]} (decision {made['id']})", err=True)
        if waits:
            click.echo(f"recorded; its commit waits: {waits}", err=True)
    return BUSY if waits else 0


def _expected(
    operator: Operator, row: dict[str, Any], draft: dict[str, Any], epoch: int | None, sha256: str | None
) -> None:
    from harness.approval.errors import StaleDecision

    if operator.channel == "token" and (epoch is None or sha256 is None):
        raise click.UsageError(
            "With a token nobody looks at the screen: give --epoch and --sha256 of the text that was read."
        )
    if sha256 is not None and not re.fullmatch(r"[0-9a-f]{8,64}", sha256):
        raise click.BadParameter("give 8 to 64 lowercase hexadecimal digits", param_hint="--sha256")
    stale = (epoch is not None and epoch != row["epoch"]) or (
        sha256 is not None and not str(draft.get("draft_sha256", "")).startswith(sha256)
    )
    if stale:
        now = f"its epoch is {row['epoch']} and its hash {str(draft.get('draft_sha256', ''))[:8]}"
        raise StaleDecision(
            f"the draft of obligation {row['id']} changed", now, "read it and decide again", epoch=int(row["epoch"])
        )


def _ask(operator: Operator, draft: dict[str, Any]) -> str | None:
    if operator.channel == "token":
        raise click.UsageError("With a token, say --approve or --reject.")
    words = {
        "approve": "approve",
        "reject": "reject",
        "a": "approve",
        "r": "reject",
        "leave": None,
        "l": None,
        "": None,
    }
    while True:
        said = click.prompt(
            f"approve {str(draft.get('draft_sha256', ''))[:8]}, reject or leave", default="leave", show_default=False
        )
        if said.strip().lower() in words:
            return words[said.strip().lower()]


def exact(text: str) -> str:
    """``text`` as it will be sent, with everything that can't be seen made visible."""
    import unicodedata

    def mark(c: str) -> str:
        if c == "\n" or (c.isprintable() and not unicodedata.combining(c)) or unicodedata.category(c) in ("Mn", "Mc"):
            return c
        return "\\t" if c == "\t" else f"\\u{{{ord(c):x}}}"

    return "".join(map(mark, text))


def page(row: dict[str, Any], draft: dict[str, Any]) -> str:
    """An obligation with the draft that would be decided on, for a terminal of any width."""
    import json

    place = " / ".join(exact(str(row[name])) for name in ("platform", "workspace", "channel", "thread") if row[name])
    head = [f"obligation {row['id']}, {row['status']}, epoch {row['epoch']}, {draft.get('priority', '')}"]
    head += [f"to       {exact(row['counterparty'])} on {place}"]
    head += [f"subject  {exact(draft['subject'])}"] if draft.get("subject") else []
    head += [f"context  {exact(line)}" for line in str(draft.get("context", "")).splitlines()[:12]]
    head += [f"sha256   {draft.get('draft_sha256', 'no draft')}"]
    body = [f"  {n:>3}  {exact(line)}" for n, line in enumerate(str(draft.get("draft_text", "")).split("\n"), 1)]
    more = []
    for media, sha, text in json.loads(draft.get("bodies", "[]")):
        more += [f"{media}, sha256 {sha}", *(f"  {n:>3}  {exact(line)}" for n, line in enumerate(text.split("\n"), 1))]
    more += [
        f"attached {exact(one['name'])}, sha256 {one['sha256']}" for one in json.loads(draft.get("attachments", "[]"))
    ]
    size = len(str(draft.get("draft_text", "")).encode())
    return "\n".join(
        [
            *head,
            "",
            *body,
            *more,
            "",
            f"Approve allows one dispatch of exactly these {size} bytes. Nothing else leaves.",
        ]
    )


def _draft(
    ctx: click.Context, id_: str, decision: str | None, reason: str | None, epoch: int | None, sha256: str | None,
    token_file: Path | None, as_json: bool,
) -> int:  # fmt: skip
    from harness.cli.draft import decide_one
    from harness.flows import drafting
    from harness.flows.approvals import OPERATORS
    from harness.flows.desk import document

    with Store(workspace(ctx)) as store:
        one = drafting.find(store, id_)
        operator = who("deciding on a draft", token_file, list(document(store, OPERATORS).get("operators") or ()))
        token = operator.channel == "token"
        if token and (sha256 is None or decision is None):
            raise click.UsageError("With a token, give --sha256 of the text that was read, and --approve or --reject.")
        if sha256 is not None and not one.sha256.startswith(sha256):
            raise drafting.Decided(
                f"{one.path} has changed", f"its hash is {one.sha256[:8]}", "read it and decide again"
            )
        verdict = {"approve": "approve", "reject": "dismiss", None: None}[decision]
        return decide_one(store, one, verdict, reason, operator.name, as_json, sure=token)


# The form of an id -> who decides on it: the number of an obligation, or the path or a part of the file name of a draft.
_FORMS: list[tuple[str, Callable[..., int]]] = [
    (r"[0-9]{1,18}", _obligation),
    (r"(?:log/.+|[0-9A-Za-z-]{4,60}(?:\.md)?)", _draft),
]
