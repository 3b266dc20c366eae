"""The transcripts of the fixtures, made or copied for a test, and small looks at what is rendered."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from fixtures.workspaces import run

from harness.sessions import reader
from harness.sessions.account import Account
from harness.sessions.graph import Session
from harness.sessions.render import render_session

CASES = Path(__file__).parents[1] / "fixtures/sessions"
SAMPLES = CASES / "samples"


def case(name: str) -> Path:
    return CASES / f"{name}.jsonl"


def made(name: str, folder: Path) -> Path:
    """What ``NAME.py`` prints, as a file."""
    path = folder / f"{name}.jsonl"
    done = run([sys.executable, str(CASES / f"{name}.py")], folder)
    assert done.returncode == 0, done.stderr
    path.write_text(done.stdout, "utf-8")
    return path


def tree(name: str, folder: Path) -> Path:
    """The tree that ``NAME.py`` writes."""
    done = run([sys.executable, str(CASES / f"{name}.py"), str(folder)], folder)
    assert done.returncode == 0, done.stderr
    return folder


def session_and_account(path: Path) -> tuple[Session, Account]:
    session = reader.read(path)
    return session, session.accounts[path.name]


def counts(account: Account) -> tuple[int, int, int, int]:
    """(lines, records, recovered, dropped)."""
    return account.lines, account.records, len(account.recovered), len(account.dropped)


def shown(path: Path, **more: Any) -> str:
    return render_session(str(path), **{"max_chars": 0, **more})


def markers(text: str) -> list[str]:
    return re.findall(r"t\d\d-m\d\d", text)


def headings(text: str) -> list[str]:
    """The lines of a page that begin a turn."""
    return [line for line in text.split("\n") if re.match(r"\[\d+\] ", line)]


def line(**fields: Any) -> str:
    return json.dumps(fields)
