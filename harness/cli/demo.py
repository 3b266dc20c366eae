"""`demo`: the loop in a scratch project, from a gap to the next session that has it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import click


@click.command("demo")
@click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Play it in DIR and leave it there."
)
def demo_command(keep: Path | None) -> None:
    """Play a recorded session in a scratch project: what the agent missed, what was learned, the next use that has it.

    \b
    Examples:
      harness demo
      harness demo --keep /tmp/harness-demo
    """
    from harness.flows import demo

    if keep and keep.exists() and any(keep.iterdir()):
        raise click.UsageError(f"{keep} is not empty. Name a new folder.")
    folder = keep or Path(tempfile.mkdtemp(prefix="harness-demo-"))
    start = time.monotonic()
    try:
        workspace = demo.run(folder.resolve(), _show, os.environ)
        click.echo(
            f"\n{time.monotonic() - start:.1f} s. "
            + (
                f"Look around: git -C {workspace.root} log"
                if keep
                else "The scratch project is removed; keep one with: harness demo --keep DIR"
            )
        )
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _show(style: str, text: str) -> None:
    if style == "title":
        click.echo(click.style(f"\n{text}", bold=True))
    else:
        mark = {
            "say": "  ",
            "data": "    ",
            "good": "  ✓ " if (sys.stdout.encoding or "").lower().startswith("utf") else "  ok ",
        }[style]
        colour = {"good": "green", "data": None, "say": None}[style]
        click.echo("\n".join(click.style(mark + line, fg=colour, dim=style == "data") for line in text.splitlines()))
