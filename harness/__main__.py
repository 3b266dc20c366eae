"""The command `harness` (also `git-harness`, so that `git harness log` works)."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit with one of the documented codes."""
    if sys.argv[1:] == ["--handshake"]:
        # A plugin's script asks whether the program it found is ours before it runs it; it must be quick and exact.
        hook = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients", "hook.py")
        print(f"git-harness 1 {os.path.abspath(sys.executable)} {hook}")
        return
    from harness.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
