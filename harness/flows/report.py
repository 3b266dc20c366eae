"""What waits, what is pending and what went wrong, gathered by looking alone: no lock, no write, no third-party import."""

from __future__ import annotations

import contextlib
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from harness.store import snapshot
from harness.store.deferred import waiting
from harness.store.files import read
from harness.store.git import quick
from harness.workspace import Workspace

VERIFIED: Final = "verified"
LOG: Final = "state/log/loader-feedback.log"
_IN_THE_MIDDLE: Final = ("rebase-merge", "rebase-apply", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG")
_STALE_SECONDS: Final = 60


def status(workspace: Workspace) -> dict[str, Any]:
    """The state of a workspace as one JSON value. ``problems`` holds what needs somebody; each has what, why and next."""
    now = snapshot.now(workspace)
    out: dict[str, Any] = {"workspace": str(workspace.root), "why": workspace.how, "commit": now.get("commit")}
    problems: list[dict[str, str]] = []
    out["spool"] = _count(workspace.spool) + _count(workspace.spool / "taken")
    out["unreadable_events"] = _count(workspace.spool / "bad")
    out["deferred"] = [_kept(k) for k in waiting(workspace.runtime)]
    out["refused"] = [_kept(k) for k in waiting(workspace.runtime, "refused")]
    out["pending"], out["by_hand"] = _git_facts(workspace, now, problems)
    out["log_lines"] = _log_lines(workspace)
    out["unaccepted"] = now.get("unaccepted", {})
    notices = [
        n for n in now.get("notices", []) if not str(n.get("id")).startswith("proposals-")
    ]  # these are counted below
    out["notices"] = [n.get("text") for n in notices]
    out["quarantine"] = [q.get("text") for q in now.get("quarantine", [])]
    out["proposals"] = [{k: one.get(k) for k in ("id", "short", "skill")} for one in now.get("proposals", [])]
    out["open_queue"] = bool(now.get("open"))
    out["hook_errors"] = _tail(workspace.runtime / "hook-errors.log", 5)
    out["hook_times"] = hook_times(workspace)
    out["drain"] = _holder(workspace.runtime / "drain.lock")
    out["signing"] = _signing(workspace, now)
    out["ledger"] = _ledger(workspace, problems)
    _find_problems(workspace, out, problems)
    out["problems"] = problems
    return out


def _kept(kept: Any) -> dict[str, str]:
    return {
        "tick": kept.tick.id,
        "kind": kept.tick.kind,
        "summary": kept.tick.summary,
        "since": kept.since,
        "why": kept.why,
    }


def _count(folder: Path) -> int:
    try:
        return sum(1 for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False))
    except OSError:
        return 0


def _git_facts(
    workspace: Workspace, now: dict[str, Any], problems: list[dict[str, str]]
) -> tuple[list[dict[str, str]], int]:
    """Pending changes (files that differ from the last commit), and how many commits came that the store did not make."""
    code, text = quick(workspace.root, "status", "--porcelain=v1", "-z", "-uall", "--no-renames")
    if code != 0:
        last = text.strip().splitlines()[-1] if text.strip() else f"exit code {code}"
        todo = (
            f"git config --global --add safe.directory {workspace.root}"
            if "dubious ownership" in text
            else "harness doctor"
        )
        problems.append({"what": "git cannot read the workspace", "why": last, "next": todo})
        return [], 0
    pending = []
    for item in text.split("\0"):
        state, path = item[:2], item[3:]
        if path and path != LOG and not path.endswith(".harness-new"):
            pending.append({"path": path, "state": state, "next": _next_for(workspace, path, state)})
    code, text = quick(workspace.root, "log", "--format=%(trailers:key=Tick,valueonly,separator=%x20)", "-200")
    by_hand = sum(not line.strip() for line in text.splitlines()) if code == 0 else 0
    return pending, by_hand


def _next_for(workspace: Workspace, path: str, state: str) -> str:
    where = f"git -C {_quoted(str(workspace.root))}"
    if state == "??":
        return f"{where} add {_quoted(path)} && {where} commit, or remove it"
    return f"to accept it: {where} commit -- {_quoted(path)}; to put it back: {where} checkout HEAD -- {_quoted(path)}"


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _log_lines(workspace: Workspace) -> int:
    """Bytes of the log that are not committed, as lines; an approximation by size that costs no read of history."""
    code, size = quick(workspace.root, "cat-file", "-s", f"HEAD:{LOG}")
    start = int(size) if code == 0 and size.strip().isdigit() else 0
    return (read(workspace.root / LOG) or b"")[start:].count(b"\n")


def _tail(path: Path, lines: int) -> list[str]:
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 16_384))
            return file.read().decode("utf-8", "replace").splitlines()[-lines:]
    except OSError:
        return []


def hook_times(workspace: Workspace) -> dict[str, dict[str, float]]:
    """The time of each event's Python hook in milliseconds: how many, p50 and p99 of the last ones. The `sh` hook has none."""
    by_event: dict[str, list[float]] = {}
    for line in _tail(workspace.runtime / "hook-times.log", 1000):
        event, _, figure = line.rpartition(" ")
        with contextlib.suppress(ValueError):
            taken = float(figure)
            by_event.setdefault(event, []).append(taken)
    out = {}
    for event, values in sorted(by_event.items()):
        values.sort()
        out[event] = {
            "n": len(values),
            "p50": values[len(values) // 2],
            "p99": values[min(len(values) - 1, len(values) * 99 // 100)],
        }
    return out


def _holder(lock: Path) -> str | None:
    """Who holds a lock of ours now, or None."""
    import fcntl

    try:
        handle = os.open(lock, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return os.pread(handle, 200, 0).decode("utf-8", "replace").strip()
    else:
        return None
    finally:
        os.close(handle)


def _signing(workspace: Workspace, now: dict[str, Any]) -> str:
    code, value = quick(workspace.root, "config", "--type=bool", "--get", "commit.gpgsign")
    wanted = code == 0 and value.strip() == "true"
    if now.get("settings", {}).get("sign"):
        return "ticks are signed (setting `sign`)"
    return (
        "ticks are not signed, although commit.gpgsign is on; `harness settings sign true` signs them"
        if wanted
        else "ticks are not signed"
    )


def _find_problems(workspace: Workspace, out: dict[str, Any], problems: list[dict[str, str]]) -> None:
    for name in _IN_THE_MIDDLE:
        if (workspace.git_dir / name).exists():
            problems.append(
                {
                    "what": "ticks wait",
                    "why": f"{name} exists: git is in the middle of something in the workspace",
                    "next": "finish it; ticks land by themselves then",
                }
            )
    index = workspace.git_dir / "index.lock"
    for lock in (index, workspace.git_dir / "HEAD.lock"):
        with contextlib.suppress(OSError):
            age = time.time() - lock.stat().st_mtime
            if age > _STALE_SECONDS or lock == index:
                problems.append(
                    {
                        "what": "ticks wait",
                        "why": f"{lock} exists, {_age(age)} old; {_held(lock)}",
                        "next": f"if no git command runs there: rm {_quoted(str(lock))}",
                    }
                )
    if out["deferred"]:
        first = out["deferred"][0]
        problems.append(
            {
                "what": f"{len(out['deferred'])} tick(s) deferred since {first['since']}",
                "why": first["why"],
                "next": "they land with the next tick",
            }
        )
    for one in out["refused"]:
        problems.append(
            {
                "what": f"a deferred tick no longer passes: {one['summary']}",
                "why": one["why"],
                "next": f"read it in {workspace.runtime / 'refused' / (one['tick'] + '.json')}",
            }
        )
    for path in sorted((workspace.runtime / "deferred").glob("*.unreadable")):
        problems.append(
            {
                "what": "a deferred tick is spoiled",
                "why": f"{path} is not as it was written",
                "next": "read it, then remove it",
            }
        )
    for path, why in out["unaccepted"].items():
        problems.append(
            {
                "what": f"{path} was committed by hand and is not in force",
                "why": why,
                "next": "correct it and commit again",
            }
        )
    log = workspace.root / LOG
    if log.exists() and not log.is_file():
        todo = f"rm {_quoted(str(log))}, and restore it: git -C {_quoted(str(workspace.root))} checkout HEAD -- {LOG}"
        problems.append({"what": "no feedback is taken in", "why": f"{log} is no regular file", "next": todo})
    if found := _violations(workspace):
        what = f"{found} violation{'' if found == 1 else 's'} in history, as of the last `harness verify`"
        problems.append(
            {"what": what, "why": "commits that did not pass the gate of their day", "next": "harness verify"}
        )
    if not out["commit"]:
        problems.append(
            {"what": "nothing is in force", "why": "the snapshot is missing or unreadable", "next": "harness init"}
        )
    errors = [line for line in out["hook_errors"] if line.split(" ")[2:3] != ["Ignored:"]]  # ignoring is no error
    if errors and _recent(errors[-1].split(" ")[0]):
        problems.append({"what": "a hook had an error", "why": errors[-1], "next": "harness doctor"})


def _violations(workspace: Workspace) -> int:
    """How many violations the last `verify` found; 0 when it found none or was never run."""
    try:
        with open(workspace.runtime / VERIFIED, "rb") as file:
            value = json.loads(file.readline())
    except (OSError, ValueError):
        return 0
    listed = value.get("violations") if isinstance(value, dict) else None
    return len(listed) if isinstance(listed, list) else 0


def _recent(stamp: str) -> bool:
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds() < 86_400
    except (ValueError, TypeError):
        return True


def _age(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} seconds"


def _held(lock: Path) -> str:
    """Whether a process has the lock file open, as far as this system tells."""
    proc = Path("/proc")
    if not proc.is_dir():
        return "whether a process holds it is not known on this system"
    wanted = os.path.realpath(lock)
    for pid in proc.iterdir():
        if pid.name.isdigit():
            with contextlib.suppress(OSError):
                for handle in (pid / "fd").iterdir():
                    with contextlib.suppress(OSError):
                        if os.readlink(handle) == wanted:
                            return f"process {pid.name} holds it"
    return "no process holds it"


def _ledger(workspace: Workspace, problems: list[dict[str, str]]) -> dict[str, Any] | None:
    """The approval ledger on this machine in figures, or None when there is none. One elsewhere is left to `harness ledger
    status`: this screen waits for no network."""
    place = workspace.runtime / "ledger.db"
    if not place.is_file():
        return None
    from harness.approval import status as approvals
    from harness.approval.errors import ApprovalError
    from harness.approval.ledger import open_ledger

    try:
        with open_ledger(place) as ledger:
            state = approvals.overview(ledger)
    except ApprovalError as error:
        problems.append({"what": error.what, "why": error.why, "next": error.next or "harness ledger status"})
        return None
    if state["ready"] and not state["worker"] and not state["frozen"]:
        count = f"{state['ready']} approved draft{'' if state['ready'] == 1 else 's'}"
        problems.append(
            {
                "what": f"{count} and nothing is sending",
                "why": "no worker was seen lately",
                "next": "harness ledger deliver",
            }
        )
    if stuck := state["held"]["unknown"] + state["stale"]:
        problems.append(
            {
                "what": f"{stuck} sending{'' if stuck == 1 else 's'} held",
                "why": "unknown, or stale",
                "next": "harness ledger held",
            }
        )
    return {name: state[name] for name in ("waiting", "ready", "held", "frozen", "unexported")}
