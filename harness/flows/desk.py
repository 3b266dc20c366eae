"""A workspace's approval loop, opened: its ledger, its gate, its channels, its operators. What the command line, the
cockpit and the MCP server call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from harness.approval import baseline, channels, deliver, status
from harness.approval import decide as decisions
from harness.approval.errors import ApprovalError, Invalid, NoLedger, NotAllowed
from harness.approval.file import file_request
from harness.approval.inbound import record_inbound
from harness.approval.ledger import Ledger, create_ledger, is_url, open_ledger
from harness.flows import taste
from harness.flows.approvals import OPERATORS, Exported, export
from harness.settings import BadSetting
from harness.store import gate
from harness.store.commit import Store
from harness.workspace import Workspace

CHANNELS: Final = "state/channels.yaml"
BASELINE: Final = "state/baseline.yaml"
URL: Final = "HARNESS_LEDGER_URL"
_AGENTS_OWN: Final = frozenset(
    {
        "draft", "counterparty", "context", "origin_platform", "origin_channel", "origin_workspace", "origin_thread", "origin_user",
        "subject", "bodies", "attachments", "priority", "signal_obligation_id", "auto_send_after", "expires_after", "request_key",
        "source_skill",
    }
)  # fmt: skip


def ledger_place(workspace: Workspace, settings: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """Where a workspace's ledger is: HARNESS_LEDGER_URL, the setting ``ledger.url``, or a file in its runtime folder."""
    if env.get(URL):
        return env[URL]
    url = str(settings["ledger"]["url"])
    if not url:
        return str(workspace.runtime / "ledger.db")
    if not is_url(url):
        raise BadSetting("ledger.url is no postgresql:// address", url[:60], "see `harness help settings`")
    if urlsplit(url).password:
        raise BadSetting(
            "ledger.url holds a password", "settings are committed", f"use ~/.pgpass, or {URL} in the environment"
        )
    return url


@dataclass
class Desk:
    """Everything that a verb needs. Close it, or use it as a context manager; the store stays the caller's."""

    store: Store
    ledger: Ledger
    gate: baseline.Baseline | None
    channels: channels.Policy
    operators: list[Mapping[str, Any]]

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *exc: object) -> None:
        self.ledger.close()

    def file(self, **request: Any) -> dict[str, Any]:
        """``file_request`` with this workspace's gate and channels, then the receipt and the notice of what waits."""
        filed = file_request(self.ledger, gate=self.gate, channels=self.channels, **request)
        if filed["replayed"]:
            return filed
        row = self.ledger.obligation(filed["obligation_id"])
        filed["receipt"] = channels.give_receipt(
            self.channels, filed, row["platform"], row["workspace"], row["channel"]
        )
        link = f"harness decide {filed['obligation_id']}"
        if failed := channels.notify(
            self.store.settings["notify"]["command"], row | {"draft_sha256": filed["draft_sha256"]}, link
        ):
            filed["notes"].append(f"notify.command failed: {failed}")
        return filed

    def decide(
        self,
        obligation_id: int,
        decision: str,
        operator: str,
        epoch: int,
        sha256: str,
        reason: str | None = None,
        **more: Any,
    ) -> tuple[dict[str, Any], Exported]:
        """``decide``, then its export, then a pass of taste in the background. The decision stands also when its commit has
        to wait; then ``Exported.waits`` says why."""
        made = decisions.decide(self.ledger, obligation_id, decision, operator, epoch, sha256, reason, **more)
        done = self.export()
        if not done.waits and not made["replayed"]:
            taste.fire(self.store)
        return made, done

    def transport(self) -> deliver.Transport:
        """The configured way out. Raises BadSetting when there is none, or two."""
        setting = self.store.settings["deliver"]
        command, webhook, seconds = setting["command"], setting["webhook"], float(setting["timeout"])
        if bool(command) == bool(webhook):
            raise BadSetting(
                "no way to send is set" if not command else "two ways to send are set",
                "",
                "set deliver.command or deliver.webhook",
            )
        return deliver.Command(tuple(command), seconds) if command else deliver.Webhook(webhook, seconds)

    def export(self) -> Exported:
        """Bring what happened into git. What can't be written now waits in the outbox and is exported later."""
        return export(self.store, self.ledger)


def open_desk(store: Store, env: Mapping[str, str] | None = None) -> Desk:
    """The approval loop of a workspace, by its committed files. Raises NoLedger when there is no ledger yet."""
    place = ledger_place(store.workspace, store.settings, os.environ if env is None else env)
    documents = {path: document(store, path) for path in (CHANNELS, BASELINE, OPERATORS)}
    return Desk(
        store,
        open_ledger(place),
        baseline.from_document(documents[BASELINE]),
        channels.from_document(documents[CHANNELS]),
        list(documents[OPERATORS].get("operators") or ()),
    )


def init(store: Store, env: Mapping[str, str] | None = None) -> str:
    """Make the workspace's ledger; where it is. A ledger in PostgreSQL that exists is brought to this version."""
    place = ledger_place(store.workspace, store.settings, os.environ if env is None else env)
    create_ledger(place if is_url(place) else Path(place))
    with open_ledger(place) as made:
        return made.backend.place


def exists(store: Store, env: Mapping[str, str] | None = None) -> bool:
    """Whether the workspace has a ledger, without opening it; an address counts as one."""
    place = ledger_place(store.workspace, store.settings, os.environ if env is None else env)
    return is_url(place) or Path(place).is_file()


def operators(store: Store) -> list[Mapping[str, Any]]:
    """The operators by token of a workspace, whether it has a ledger or not."""
    return list(document(store, OPERATORS).get("operators") or ())


def document(store: Store, path: str) -> dict[str, Any]:
    """A committed YAML file; empty when there is none. What isn't committed has no effect."""
    data = store.tree.read(path)
    if data is None:
        return {}
    value, why = gate.parse_document(path, data.decode("utf-8", "replace"))
    if why or not isinstance(value, dict):
        # Without its rules this loop would be laxer than its owner wants, so it stands still.
        raise NoLedger(f"{path} can't be read", why or "it is no mapping", "repair and commit it")
    return value


# --- what agents may call (MCP) ----------------------------------------------------------------------------------


def agent_file(desk: Desk, arguments: Mapping[str, Any], *, outside: bool = False) -> dict[str, Any]:
    """``file_request`` for an agent. Only an operator overrules the gate. ``outside``: others can see the result, so it
    holds no hash and no state."""
    if arguments.get("force_despite_signed_contract"):
        raise NotAllowed(
            "force_despite_signed_contract is an operator's",
            "an agent asked for it",
            "an operator files it with `harness ledger file --force`",
        )
    given = {name: value for name, value in arguments.items() if name != "force_despite_signed_contract"}
    if unknown := set(given) - _AGENTS_OWN:
        raise Invalid(f"no argument {', '.join(sorted(unknown))}", "", f"known are {', '.join(sorted(_AGENTS_OWN))}")
    try:
        filed = desk.file(**given)
    except TypeError as error:
        raise Invalid("an argument is missing", str(error).partition("()")[2].strip()) from error
    return {"obligation_id": filed["obligation_id"]} if outside else filed


def obligation_status(desk: Desk, obligation_id: int, *, outside: bool = False) -> dict[str, Any]:
    """``status`` for an agent."""
    return status.status(desk.ledger, obligation_id, outside=outside)


__all__ = ["ApprovalError", "Desk", "agent_file", "exists", "init", "obligation_status", "open_desk", "record_inbound"]
