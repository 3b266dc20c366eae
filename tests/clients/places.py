"""A small real workspace with an exported snapshot, and the means to fire a hook at it as a client does."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness

PACKAGE = Path(harness.__file__).parent
HOOKS = PACKAGE.parent / "hooks"
HOOK = PACKAGE / "clients" / "hook.py"
PAYLOADS = Path(__file__).parent.parent / "fixtures" / "payloads"
STUB = Path(__file__).parent / "stub"
SESSION = "5b0c7c1e-2f64-4a0b-9d1e-7d7a3c1f9a10"


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Answer:
    """What the client sees of one hook."""

    code: int
    out: bytes
    err: bytes

    @property
    def json(self) -> dict[str, Any]:
        lines = self.out.splitlines()
        assert len(lines) == 1, self
        answer = json.loads(lines[0])
        assert isinstance(answer, dict)
        return answer

    @property
    def context(self) -> str:
        return str(self.json["hookSpecificOutput"]["additionalContext"])

    @property
    def silent(self) -> bool:
        return (self.code, self.out, self.err) == (0, b"", b"")


class Place:
    """A project with a workspace in ``.harness`` and its runtime folder."""

    def __init__(self, base: Path, project: str = "project") -> None:
        self.base = base
        self.project = base / project
        self.root = self.project / ".harness"
        self.runtime = self.root / ".git" / "harness"
        self.spool = self.runtime / "spool"
        self.log = self.root / "state" / "log" / "loader-feedback.log"
        self.home = base / "home"
        self.spawned_in = base / "spawned"
        for folder in (self.spool, self.runtime / "snapshot" / "skills", self.log.parent, self.home, self.spawned_in):
            folder.mkdir(parents=True)
        (self.root / "state" / "harness.yaml").write_text("{}\n")
        self.now: dict[str, Any] = {"commit": "0" * 40, "settings": {}, "skills": {}, "notices": [], "quarantine": []}
        self.export()

    # -- the snapshot ----------------------------------------------------------------------------------------------

    def export(self) -> None:
        (self.runtime / "snapshot" / "now.json").write_text(json.dumps(self.now))

    def learn(self, folder: str, *, loader: str = "", overlay: str = "", names: tuple[str, ...] = ()) -> None:
        self.now["skills"][folder] = {
            "names": list(names or (folder,)),
            "loader": bool(loader),
            "overlay": bool(overlay),
        }
        skill = {
            "skill": folder,
            "commit": self.now["commit"],
            "base_sha256": sha("base"),
            "overlay": overlay,
            "overlay_sha256": sha(overlay) if overlay else None,
            "loader": loader,
            "loader_sha256": sha(loader) if loader else None,
        }
        (self.runtime / "snapshot" / "skills" / f"{folder}.json").write_text(json.dumps(skill))
        self.export()

    # -- firing ----------------------------------------------------------------------------------------------------

    def env(self, **extra: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "CLAUDECODE": "1",
            "CLAUDE_PROJECT_DIR": str(self.project),
            "CLAUDE_CODE_SESSION_ATTENDED": "1",
            "CLAUDE_CODE_MESSAGING_TOKEN": "very-secret-token",
            "CLAUDE_CODE_MESSAGING_SOCKET": "/tmp/socket",
            "PYTHONPATH": str(STUB),
            "SPAWN_LOG": str(self.spawned_in),
            **extra,
        }

    def bytes_of(self, sample: str) -> bytes:
        """A recorded payload with this place's paths in it."""
        data = (PAYLOADS / sample).read_bytes()
        for mark, path in ((b"@PROJ@", self.project), (b"@HOME@", self.home), (b"/home/dev/project", self.project)):
            data = data.replace(mark, json.dumps(str(path))[1:-1].encode())
        return data

    def payload(self, sample: str, **fields: Any) -> dict[str, Any]:
        return {**json.loads(self.bytes_of(sample)), **fields}

    def command(self, kind: str = "hook") -> list[str]:
        if kind == "hook":
            return [sys.executable, "-I", "-S", str(HOOK), str(self.root), str(self.runtime)]
        return ["/bin/sh", str(HOOKS / "spool.sh"), str(self.runtime)]

    def fire(self, data: bytes | dict[str, Any], kind: str = "hook", env: dict[str, str] | None = None) -> Answer:
        sent = data if isinstance(data, bytes) else json.dumps(data).encode()
        done = subprocess.run(
            self.command(kind), input=sent, capture_output=True, timeout=30, cwd=self.project, env=env or self.env()
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def hook(self, sample: str, env: dict[str, str] | None = None, **fields: Any) -> Answer:
        return self.fire(self.payload(sample, **fields), env=env)

    # -- what came of it -------------------------------------------------------------------------------------------

    @property
    def notes(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_bytes()) for path in sorted(self.spool.glob("n-*.json"))]

    @property
    def errors(self) -> list[str]:
        path = self.runtime / "hook-errors.log"
        return path.read_text().splitlines() if path.exists() else []

    def spawned(self, count: int = 1) -> list[dict[str, Any]]:
        """The first ``count`` commands that hooks have started, waited for; fails when they never come."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            found = sorted(self.spawned_in.glob("*.json"))
            if len(found) >= count:
                return [json.loads(path.read_text()) for path in found]
            time.sleep(0.01)
        raise AssertionError(f"only {list(self.spawned_in.iterdir())} started, {self.errors}")

    def session_file(self, name: str, session: str = SESSION) -> Path:
        return self.runtime / "sessions" / session / name
