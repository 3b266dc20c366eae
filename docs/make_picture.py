"""Draw the pictures of docs/ from real runs: `.venv/bin/python docs/make_picture.py`."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 118
KEEP = ("2  A session", "3  The next", "4  Every lesson", "5  Take")


def printed(*args: str, home: Path) -> str:
    """What `harness ARGS` prints on a terminal, with its colours."""
    # The output goes through a pipe, and colour is for terminals; here the picture's reader has one.
    keep_colour = "import click; click.utils.should_strip_ansi = lambda *a, **k: False"
    code = f"{keep_colour}\nimport sys\nfrom harness.cli import run\nrun(sys.argv[1:])"
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    out = subprocess.run(
        [sys.executable, "-c", code, *args], env=env, capture_output=True, text=True, check=True
    ).stdout
    return out.replace(str(home), "~")


def chosen(text: str) -> list[str]:
    """The parts of the story that fit on one picture."""
    lines: list[str] = []
    on = False
    for line in text.splitlines():
        plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
        if re.match(r"\d  ", plain):
            on = plain.startswith(KEEP)
            if on and lines:
                lines.append("")
        if on and plain.strip():
            lines.append(line)
    return lines


def draw(name: str, title: str, lines: list[str]) -> None:
    """Write docs/NAME.svg with ``lines``, long ones cut."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines:
        text = Text.from_ansi(line)
        text.truncate(WIDTH, overflow="ellipsis")
        console.print(text, no_wrap=True, crop=True)
    svg = console.export_svg(title=title)
    # The picture must load nothing from elsewhere: the reader's own monospaced font serves.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)
    svg = re.sub(r"<!-- Generated.*?-->\s*", "", svg).replace("Fira Code", "ui-monospace")
    Path(__file__).with_name(f"{name}.svg").write_text(svg, "utf-8")


def main() -> None:
    """Draw both pictures."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "demo")
        draw("demo", "harness demo", chosen(printed("demo", "--keep", str(home), home=home)))
        place = ["--workspace", str(home / "shop/.harness")]
        log = printed(*place, "log", "--all", home=home)
        regen = next(line for line in log.splitlines() if "regen(" in line)
        short = re.sub(r"\x1b\[[0-9;]*m", "", regen).split()[0]
        lines = ["$ harness log --all", *log.splitlines(), "", f"$ harness show {short}"]
        lines += printed(*place, "show", short, home=home).splitlines()[:24]
        loader = (home / "shop/.harness/skills/aeo/AGENTS.md").read_text("utf-8").splitlines()
        line = f"aeo:{next(n for n, text in enumerate(loader, 1) if 'ISO dates' in text)}"
        lines += ["…", "", f"$ harness why {line}", *printed(*place, "why", line, home=home).splitlines()]
        draw("history", "log, show, why", lines)


if __name__ == "__main__":
    main()
