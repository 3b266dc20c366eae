"""A program in a real terminal (a pty), its screen as a person sees it, and keys to press."""

from __future__ import annotations

import os
import pty
import signal
import struct
import termios
import threading
import time
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path
from types import TracebackType

import pyte

ENTER = "\r"


class Terminal:
    """``argv`` at work in a terminal of its own; leave the block to end it.

    The program is no descendant of the tests (its parent is process 1): who runs the tests must not count as its user.
    """

    def __init__(self, argv: list[str], cwd: Path, env: dict[str, str], columns: int = 150, rows: int = 120) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self._fd, worker = pty.openpty()
        ioctl(worker, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        pids, told = os.pipe()
        middle = os.fork()
        if middle == 0:
            try:
                os.setsid()
                child = os.fork()
                if child:
                    os.write(told, str(child).encode())
                    os._exit(0)
                os.setsid()
                ioctl(worker, termios.TIOCSCTTY, 0)
                for handle in (0, 1, 2):
                    os.dup2(worker, handle)
                os.closerange(3, 256)
                os.chdir(cwd)
                os.execve(argv[0], argv, {**env, "TERM": "xterm-256color"})  # noqa: S606 (no shell is the point)
            finally:
                os._exit(127)
        os.waitpid(middle, 0)
        os.close(worker)
        os.close(told)
        self.pid = int(os.read(pids, 20))
        os.close(pids)
        self.ended = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._fd, 65536)
            except OSError:  # the last process of the terminal has gone
                data = b""
            if not data:
                self.ended.set()
                return
            with self._lock:
                self._stream.feed(data)

    @property
    def text(self) -> str:
        """The screen now."""
        with self._lock:
            return "\n".join(line.rstrip() for line in self._screen.display)

    def wait(self, ready: str | Callable[[str], bool], seconds: float = 30.0) -> str:
        """Wait until the screen holds ``ready`` (a text, or a test of the screen), and return it."""
        until = time.monotonic() + seconds
        while True:
            shown = self.text
            if ready in shown if isinstance(ready, str) else ready(shown):
                return shown
            assert time.monotonic() < until, f"not on the screen: {ready!r}\n{shown.strip()}"
            time.sleep(0.05)

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._fd, keys.encode())

    def say(self, text: str) -> None:
        """Type a line and send it, with the pause that a person makes: a client takes keys in one burst for a paste."""
        for char in text:
            self.press(char)
            time.sleep(0.004)
        time.sleep(0.15)
        self.press(ENTER)

    def end(self, seconds: float = 30.0) -> str:
        """Wait until the program has ended by itself, and return the last screen."""
        assert self.ended.wait(seconds), self.text.strip()
        return self.text

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                break
            if self.ended.wait(5):
                break
        os.close(self._fd)
