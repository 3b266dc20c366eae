"""The group of `harness ledger`, and the end that its commands share."""

from __future__ import annotations

from typing import Any

import click

from harness.cli.common import print_json
from harness.errors import BUSY


@click.group("ledger")
def ledger_command() -> None:
    """Drafts for others: file them, see what waits, send what was approved, and prove it.

    The guarantee: at most one automatic dispatch attempt per approved decision; not exactly-once delivery.

    \b
    Examples:
      harness ledger init
      harness ledger list
      harness decide 431
      harness ledger deliver --once
    """


def done(desk: Any, value: dict[str, Any], words: str, as_json: bool) -> int:
    """Export, then say what was done. Exit code 5 when its commit waits; it is recorded all the same."""
    waits = desk.export().waits
    if as_json:
        print_json({**value, "deferred": waits or None})
    else:
        click.echo(words + (f"; its commit waits: {waits}" if waits else ""), err=True)
    return BUSY if waits else 0
