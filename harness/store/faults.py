"""Named points at which a test can kill the process, to show that a tick is whole or nothing wherever it stops."""

from __future__ import annotations

import os
import signal
from typing import Final

POINTS: Final = (
    "locked", "index-locked", "intent-written", "built", "swapped", "files-written", "index-written", "exported", "ended",
    "observe-read", "observe-committed", "drain-started", "drain-answered", "checkpointed",
)  # fmt: skip

_WANTED = os.environ.get("HARNESS_FAULT", "")


def point(name: str) -> None:
    """Die here, as by `kill -9`, when the environment variable HARNESS_FAULT names this point."""
    if name == _WANTED:
        os.kill(os.getpid(), signal.SIGKILL)
