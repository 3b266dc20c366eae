"""What commands share: the workspace, JSON output, small tables, colour that only a terminal gets."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from harness.errors import HarnessError
from harness.workspace import Workspace, find

json_option = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Say nothing but errors.")


def workspace(ctx: click.Context) -> Workspace:
    """The workspace that this call is about; raises NotAWorkspace."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise HarnessError("the current folder is gone", "somebody deleted it", "cd to a folder that exists") from None
    return find(here, os.environ, ctx.find_root().obj["workspace"])


def print_json(value: Any) -> None:
    """Print ``value`` as JSON: one line in a pipe, indented on a terminal."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


def say(quiet: bool) -> Callable[[str], None]:
    """A printer of progress lines on standard error; silent when ``quiet``."""
    return (lambda line: None) if quiet else (lambda line: click.echo(line, err=True))


def ago(ts: str | None) -> str:
    """An ISO time as a short age: ``3 min``, ``2 h``, ``5 d``; empty when there is none."""
    if not ts:
        return ""
    try:
        then = datetime.fromisoformat(ts)
    except ValueError:
        return ts
    seconds = max(0, (datetime.now(UTC) - (then if then.tzinfo else then.replace(tzinfo=UTC))).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def table(rows: Sequence[Sequence[str]], *, indent: str = "  ") -> None:
    """Print rows in columns as wide as their widest cell; the last column runs on."""
    if not rows:
        return
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo((indent + "  ".join([*cells, row[-1]])).rstrip())


def shown(text: str) -> str:
    """``text`` with control characters made visible: output of tools must not drive the reader's terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)
