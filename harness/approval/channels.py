"""Channel discipline: who reads a channel, what may be written there, and where an internal word may go."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.approval import outside
from harness.approval.errors import ChannelRefused
from harness.approval.limits import LIMITS

ANY: Final = "*"


@dataclass(frozen=True)
class Channel:
    """One channel as state/channels.yaml describes it. Platform, workspace and name come from the caller's adapter."""

    platform: str
    channel: str
    workspace: str = ""
    audience: str = "unknown"
    access: str = "unknown"
    participation: str = "none"
    autonomy: str = "draft_only"
    verified: bool = False
    auto_approve: bool = False

    @property
    def internal(self) -> bool:
        """Whether only our own people read it, and somebody has made sure of that. Unknown is outside; a direct message
        or a channel shared with others is internal only where it is listed so."""
        return self.audience == "internal" and self.verified and self.access in ("private", "members")


@dataclass(frozen=True)
class Policy:
    """All channels, and the one internal place for receipts with the command that writes there."""

    channels: tuple[Channel, ...] = ()
    receipts: Channel | None = None
    receipts_command: tuple[str, ...] = ()

    def find(self, platform: str, workspace: str, channel: str) -> Channel:
        """What is known of a channel; an unlisted one is unknown, so outside and quiet."""
        exact = [
            one
            for name in (channel, ANY)
            for one in self.channels
            if (one.platform, one.workspace, one.channel) == (platform, workspace, name)
        ]
        return exact[0] if exact else Channel(platform, channel, workspace)

    def may_file(self, platform: str, workspace: str, channel: str) -> None:
        """Raise ChannelRefused where the policy says ``never`` or ``frozen``."""
        autonomy = self.find(platform, workspace, channel).autonomy
        if autonomy != "draft_only":
            words = {"never": "nothing is ever written there", "frozen": "nothing is written there for now"}
            raise ChannelRefused(
                f"{platform} {channel} is {autonomy}", words.get(autonomy, autonomy), "see state/channels.yaml"
            )

    def auto_allowed(self, platform: str, workspace: str, channel: str) -> bool:
        """Whether a draft may be approved there by its deadline alone: only where it is written so."""
        found = self.find(platform, workspace, channel)
        return found.auto_approve and found.autonomy == "draft_only"

    def receipt_place(self, platform: str, workspace: str, channel: str) -> Channel | None:
        """Where the receipt of a filing may go: the origin if that is internal, else the configured place if that is, else
        nowhere (it stays in the tool's result)."""
        origin = self.find(platform, workspace, channel)
        if origin.internal:
            return origin
        return self.receipts if self.receipts is not None and self.receipts.internal else None


def receipt_text(priority: str, sha256: str) -> str:
    """The internal word that a draft was filed."""
    return f"Draft filed for approval ({priority}, sha {sha256[:8]}). Waiting on operator."


def footer(operator: str, decision_id: int, sha256: str) -> str:
    """The internal footer of what was sent. It never goes into the text that was approved."""
    return f"approved by {operator} · receipt {decision_id} · draft sha256 {sha256[:16]}"


def give_receipt(
    policy: Policy, filed: Mapping[str, Any], platform: str, workspace: str, channel: str
) -> dict[str, Any]:
    """Tell of a filing where that is allowed: ``where`` is ``origin`` (the caller acknowledges there), ``internal`` (it was
    written to the configured place) or ``result`` (it stays here). There is no other place to fall back to."""
    text = receipt_text(filed["priority"], filed["draft_sha256"])
    place = policy.receipt_place(platform, workspace, channel)
    if place is None:
        return {"text": text, "where": "result"}
    to = {"platform": place.platform, "workspace": place.workspace, "channel": place.channel}
    if (place.platform, place.workspace, place.channel) == (platform, workspace, channel):
        return {"text": text, "where": "origin", "to": to}
    if not policy.receipts_command:
        return {"text": text, "where": "result"}
    try:
        data = json.dumps({**to, "text": text}, ensure_ascii=False).encode()
        outside.command(policy.receipts_command, data, LIMITS.notify_seconds, LIMITS.transport_output_bytes)
    except outside.NoAnswer as error:
        return {"text": text, "where": "result", "note": f"the internal place could not be reached: {error}"}
    return {"text": text, "where": "internal", "to": to}


def from_document(value: Mapping[str, Any]) -> Policy:
    """The policy that state/channels.yaml describes."""
    receipts = value.get("receipts") or {}
    place = {name: item for name, item in receipts.items() if name != "command"}
    return Policy(
        tuple(_channel(one) for one in value.get("channels") or ()),
        _channel(place) if place else None,
        tuple(receipts.get("command", ())),
    )


def _channel(value: Mapping[str, Any]) -> Channel:
    return Channel(**{name: value[name] for name in Channel.__dataclass_fields__ if name in value})


def notify(command: Sequence[str], waiting: Mapping[str, Any], link: str) -> str | None:
    """Tell ``notify.command`` of one waiting draft: a line with destination, hash and link. The reason when it failed."""
    if not command:
        return None
    place = " ".join(str(waiting[name]) for name in ("platform", "workspace", "channel", "thread") if waiting[name])
    line = f"{waiting['counterparty']} on {place}: draft {waiting['draft_sha256'][:8]} waits: {link}\n"
    try:
        outside.command(command, line.encode(), LIMITS.notify_seconds, LIMITS.transport_output_bytes)
    except outside.NoAnswer as error:
        return str(error)
    return None
