"""Asking something outside: a command or an HTTP address, within limits of time and size, nothing of it trusted."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from harness.errors import HarnessError

_STEP: Final = 0.02
# A call that was made inside a git command would work on a foreign repository; a client's variables are not for others,
# and neither is the operator's token.
_DROPPED: Final = ("GIT_", "CLAUDE_CODE_MESSAGING_", "HARNESS_OPERATOR_")


class NoAnswer(HarnessError):
    """It could not be asked, took too long, said too much, or failed. What it did meanwhile is not known."""


def command(args: Sequence[str], data: bytes, seconds: float, most: int) -> str:
    """What ``args`` print when ``data`` is their standard input. Raises NoAnswer; then the whole process group is gone."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        asked.write(data)
        asked.seek(0)
        try:
            process = subprocess.Popen(list(args), stdin=asked, stdout=out, stderr=err, env=env, start_new_session=True)
        except (OSError, IndexError, ValueError) as error:
            raise NoAnswer(f"{args[0] if args else 'the command'} can't be started", str(error)) from error
        try:
            deadline = time.monotonic() + seconds
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(_STEP)
                    break
                if time.monotonic() > deadline:
                    raise NoAnswer(f"{args[0]} gave no answer", f"not within {seconds:g} seconds")
                if max(os.fstat(one.fileno()).st_size for one in (out, err)) > most:
                    raise NoAnswer(f"{args[0]} says too much", f"over {most:,} bytes")
        finally:
            _end(process)
        if os.fstat(out.fileno()).st_size > most:
            raise NoAnswer(f"{args[0]} says too much", f"over {most:,} bytes")
        if code:
            err.seek(max(0, os.fstat(err.fileno()).st_size - 300))
            raise NoAnswer(f"{args[0]} failed", f"exit code {code}: {_shown(err.read())}")
        out.seek(0)
        return out.read().decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the command's process group; what it was to do it has had the time for."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _shown(data: bytes) -> str:
    text = data.decode("utf-8", "replace").strip().splitlines()
    return "".join(c if c.isprintable() else " " for c in text[-1])[:200] if text else ""


class _Straight(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: what was approved for one address isn't sent to another."""

    def redirect_request(self, *args: object, **more: object) -> None:
        return None


def post(url: str, data: bytes, headers: Mapping[str, str], seconds: float, most: int) -> tuple[str, Mapping[str, str]]:
    """The body and headers of a 2xx answer to a POST of JSON. Raises NoAnswer for anything else."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise NoAnswer("that is no web address", url[:100], "use http:// or https://")
    opener = urllib.request.build_opener(_Straight, urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers}, method="POST")  # noqa: S310
    deadline = time.monotonic() + seconds
    try:
        with opener.open(request, timeout=seconds) as answer:
            parts, size = [], 0
            # Each read may wait for the whole time limit; a drip-feeding server must not add these up.
            while chunk := answer.read1(16_384):
                size += len(chunk)
                parts.append(chunk)
                if size > most:
                    raise NoAnswer("the address says too much", f"over {most:,} bytes")
                if time.monotonic() > deadline:
                    raise NoAnswer("the address gave no whole answer", f"not within {seconds:g} seconds")
            if answer.length:  # what is left of the announced length: read1 doesn't complain about a short answer
                raise NoAnswer("the address broke off in its answer", f"{answer.length} bytes are missing")
            return b"".join(parts).decode("utf-8", "replace"), dict(answer.headers.items())
    except urllib.error.HTTPError as error:
        with error:
            raise NoAnswer("the address answered with an error", f"HTTP {error.code}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswer("the address can't be reached, or broke off", str(error)[:200]) from error
