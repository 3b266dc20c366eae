"""The runtime folder as a hook sees it: the snapshot to read, and the few files a hook may write.

Standard library only, and only its cheap parts: every hook pays for each import.
"""

from __future__ import annotations

import json
import os
import sys
import time

from harness.ids import ulid

TYPE_CHECKING = False  # importing typing would cost each hook half the start of a bare interpreter
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LOG_BYTES = 256 * 1024
DEFAULTS: dict[str, dict[str, Any]] = {"loader": {"duty": "remind"}, "drain": {"on": "session_end"}}
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~:")


def now_text() -> str:
    """The time as the client's transcripts write it: UTC with milliseconds, so that the two compare as text."""
    ns = time.time_ns()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ns // 10**9)) + f".{ns // 10**6 % 1000:03d}Z"


def digest(text: str) -> str:
    """The SHA-256 of a text in hex. The interpreter's own small module does it: hashlib loads OpenSSL, which costs a hook as
    much as the rest of it."""
    try:
        from _sha2 import sha256
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:
            from hashlib import sha256
    return str(sha256(text.encode("utf-8")).hexdigest())


def file_name(text: str) -> str:
    """``text`` as the name of one file: nothing that leaves its folder, 120 characters at most."""
    name = "".join(char if char in _NAME else "_" for char in text)[:120]
    return name if name.strip(".") else "_" + name


def session_folder(runtime: str, session: str) -> str:
    """The folder of a session's markers (skill used, duty asked, prompts seen)."""
    return os.path.join(runtime, "sessions", file_name(session or "unknown"))


class Runtime:
    """One hook's view of a workspace: ``root``, its ``runtime`` folder and the client's environment ``env``."""

    def __init__(self, root: str, runtime: str, env: Mapping[str, str]) -> None:
        self.root = root
        self.runtime = runtime
        self.env = env
        self.event = "unknown"
        self.damaged = False
        self._now: dict[str, Any] | None = None

    # -- reading what the last gated commit exported ---------------------------------------------------------------

    def snapshot(self, *parts: str) -> dict[str, Any] | None:
        """A JSON object of the snapshot, or None when it isn't there; a spoiled file is logged and counts as none."""
        try:
            with open(os.path.join(self.runtime, "snapshot", *parts), "rb") as file:
                value = json.loads(file.read())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            value = error
        if isinstance(value, dict):
            return value
        self.damaged = True
        self.log("BadSnapshot", f"snapshot/{'/'.join(parts)} can't be read ({type(value).__name__}): harness doctor")
        return None

    @property
    def now(self) -> dict[str, Any]:
        """``snapshot/now.json``; empty when nothing has been exported yet."""
        if self._now is None:
            self._now = self.snapshot("now.json") or {}
        return self._now

    def setting(self, group: str, name: str) -> Any:
        """One setting as the snapshot has it, else its default."""
        groups = self.now.get("settings")
        group_now = groups.get(group) if isinstance(groups, dict) else None
        found = group_now.get(name) if isinstance(group_now, dict) else None
        return DEFAULTS[group][name] if found is None else found

    @property
    def skills(self) -> dict[str, dict[str, Any]]:
        """The skills something is known about: folder -> {names, loader, overlay}."""
        found = self.now.get("skills")
        return {k: v for k, v in found.items() if isinstance(v, dict)} if isinstance(found, dict) else {}

    def skill(self, folder: str) -> dict[str, Any] | None:
        """What the snapshot has of one skill: texts and hashes of base, overlay and loader."""
        return self.snapshot("skills", file_name(folder) + ".json")

    def folder_of(self, name: str) -> str | None:
        """The folder of the skill a client calls ``name`` ("greet", "acme:greet"); None when not known or not sure."""
        short = name.rpartition(":")[2]
        for wanted in (name, short):
            if wanted in self.skills:
                return wanted
            found = [folder for folder, skill in self.skills.items() if wanted in (skill.get("names") or ())]
            if len(found) == 1:
                return found[0]
        return None

    # -- writing ---------------------------------------------------------------------------------------------------

    def note(self, kind: str, **fields: Any) -> None:
        """Leave a note of ours in the spool; it appears there whole or not at all."""
        spool = os.path.join(self.runtime, "spool")
        os.makedirs(spool, 0o700, exist_ok=True)
        name = ulid()
        data = json.dumps({"harness_note": kind, "ts": now_text(), **fields}, ensure_ascii=False).encode("utf-8")
        temporary = os.path.join(spool, "t-" + name)
        self._write(temporary, data, os.O_EXCL)
        os.rename(temporary, os.path.join(spool, f"n-{name}.json"))

    def marker(self, session: str, name: str) -> str:
        """The path of a marker file of a session."""
        return os.path.join(session_folder(self.runtime, session), file_name(name))

    def mark(self, session: str, name: str, text: str = "", *, again: bool = False) -> bool:
        """Set a marker; True when this call was the first. With ``again`` an old one is written anew."""
        path = self.marker(session, name)
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        try:
            self._write(path, text.encode("utf-8"), os.O_EXCL)
            return True
        except FileExistsError:
            if again:
                self._write(path, text.encode("utf-8"), os.O_TRUNC)
            return False

    def marked(self, session: str, name: str) -> str | None:
        """The text of a marker, or None when it isn't set."""
        try:
            with open(self.marker(session, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return None

    def markers(self, session: str, prefix: str) -> list[str]:
        """What follows ``prefix`` in the names of a session's markers, sorted."""
        try:
            names = os.listdir(session_folder(self.runtime, session))
        except OSError:
            return []
        return sorted(name[len(prefix) :] for name in names if name.startswith(prefix))

    def tell_once(self, identity: str) -> bool:
        """True for the first hook that asks whether this notice may be told, False for all others."""
        folder = os.path.join(self.runtime, "told")
        os.makedirs(folder, 0o700, exist_ok=True)
        try:
            self._write(os.path.join(folder, file_name(identity)), b"", os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def append(self, path: str, line: str) -> None:
        """Append one line by one write, so that hooks that run in parallel never tear each other's lines."""
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        self._write(path, (line + "\n").encode("utf-8", "replace"), os.O_APPEND)

    def _write(self, path: str, data: bytes, how: int) -> None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600)
        try:
            while data:
                data = data[os.write(handle, data) :]
        finally:
            os.close(handle)

    # -- the two logs; a log that can't be written is nobody's concern but the status screen's -------------------------

    def log(self, kind: str, message: str) -> None:
        """One line in hook-errors.log: time, event, ``kind``, ``message`` (one line, clipped, no payload text)."""
        text = " ".join(message.split())[:300]
        self._log("hook-errors.log", f"{now_text()} {self.event} {kind}: {text}")

    def failed(self, error: BaseException) -> None:
        """Log a failure of ours."""
        self.log(type(error).__name__, str(error))

    def took(self, milliseconds: float) -> None:
        """Log how long the hook took."""
        self._log("hook-times.log", f"{self.event} {milliseconds:.1f}")

    def _log(self, name: str, line: str) -> None:
        path = os.path.join(self.runtime, name)
        try:
            self.append(path, line)
            if os.path.getsize(path) > LOG_BYTES:
                os.replace(path, path + ".1")
        except OSError:
            pass

    # -- background work -------------------------------------------------------------------------------------------

    def spawn(self, verb: str) -> None:
        """Start ``harness VERB`` for this workspace in a session of its own and don't wait for it.

        The client kills a hook's process group when the hook overstays, and waits for open pipes: so the child
        gets its own session, the null device, and none of the client's descriptors or its messaging secrets.
        """
        command = [sys.executable, "-P", "-m", "harness", "--workspace", self.root, verb, "--quiet"]
        env = {k: v for k, v in self.env.items() if not k.startswith("CLAUDE_CODE_MESSAGING_")}
        if os.name == "nt":
            import subprocess

            flags = 0x00000008 | 0x00000200  # DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP
            null = subprocess.DEVNULL
            subprocess.Popen(command, cwd=self.root, env=env, stdin=null, stdout=null, stderr=null, creationflags=flags)
            return
        if os.fork():
            return
        try:
            os.setsid()
            os.chdir(self.root if os.path.isdir(self.root) else "/")
            null = os.open(os.devnull, os.O_RDWR)
            for handle in (0, 1, 2):
                os.dup2(null, handle)
            os.closerange(3, 256)
            os.execve(command[0], command, env)  # noqa: S606 (no shell is the point)
        finally:
            os._exit(127)  # never let the child run on as a second hook
