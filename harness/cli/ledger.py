"""`ledger`: the approval loop on the command line. Agents file and ask; people and workers do the rest."""

from __future__ import annotations

from harness.cli import ledger_books, ledger_work
from harness.cli.ledger_group import ledger_command

__all__ = ["ledger_books", "ledger_command", "ledger_work"]
