"""Draw docs/demo.svg: what `harness demo` prints, from a real run. Run it as `.venv/bin/python docs/make_picture.py`."""

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


def demo() -> str:
    """The demo's output with its colours."""
    with tempfile.TemporaryDirectory() as folder:
        # The output goes through a pipe, and colour is for terminals; here the picture's reader has one.
        keep_colour = "import click; click.utils.should_strip_ansi = lambda *a, **k: False"
        code = f"{keep_colour}\nimport sys\nfrom harness.cli import run\nrun(['demo', '--keep', sys.argv[1]])"
        command = [sys.executable, "-c", code, str(Path(folder, "demo"))]
        env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
        out = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
        return out.replace(str(Path(folder, "demo")), "~")


def chosen(text: str) -> list[str]:
    """The parts of the story that fit on one picture, long lines cut."""
    lines, on = [], False
    for line in text.splitlines():
        plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
        if re.match(r"\d  ", plain):
            on = plain.startswith(KEEP)
            if on and lines:
                lines.append("")
        if on and plain.strip():
            lines.append(line)
    return lines


def main() -> None:
    """Write the picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in chosen(demo()):
        text = Text.from_ansi(line)
        text.truncate(WIDTH, overflow="ellipsis")
        console.print(text, no_wrap=True, crop=True)
    svg = console.export_svg(title="harness demo")
    # The picture must load nothing from elsewhere: the reader's own monospaced font serves.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)
    svg = re.sub(r"<!-- Generated.*?-->\s*", "", svg).replace("Fira Code", "ui-monospace")
    Path(__file__).with_name("demo.svg").write_text(svg, "utf-8")


if __name__ == "__main__":
    main()
