"""Reading history: ticks as they are in the commits, newest first, streamed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.errors import USAGE, HarnessError
from harness.store.git import Git, GitError, pipe

LESSONS: Final = ("fix", "regen", "tune", "improve", "consolidate", "member", "distill", "undo")
_FIELDS: Final = ("%H", "%h", "%P", "%an", "%aI", "%B")


class NoSuchTick(HarnessError):
    """No commit or tick answers to this id, or more than one does."""

    exit_code = USAGE


@dataclass(frozen=True)
class Entry:
    """One commit: its hash, shortest unambiguous form, parents, author, ISO time, subject, body, and trailers by key.
    ``kind`` is None for a commit that no tick made."""

    commit: str
    short: str
    parents: Sequence[str]
    author: str
    ts: str
    subject: str
    body: str
    trailers: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str | None:
        """The kind of tick, by its trailers."""
        return self.trailers.get("Kind") if "Tick" in self.trailers else None

    @property
    def is_lesson(self) -> bool:
        """Whether it changed what is in force: a proposal, a row alone and a variant that was not kept did not."""
        unapproved = self.kind in ("tune", "member", "consolidate") and "Approved-By" not in self.trailers
        return self.kind in LESSONS and not unapproved and self.trailers.get("Kept") != "no"

    def as_dict(self) -> dict[str, Any]:
        """The JSON object of ``--json``."""
        return {"id": self.short, "commit": self.commit, "ts": self.ts, "kind": self.kind, "skill": self.trailers.get("Skill"),
                "summary": self.subject, "body": self.body, "author": self.author, "trailers": dict(self.trailers)}  # fmt: skip


def entries(
    git: Git, *, paths: Sequence[str] = (), since: str | None = None, start: str = "HEAD", limit: int | None = None
) -> Iterator[Entry]:
    """The commits from ``start`` back, newest first, as they are read; ``since`` is any date that git understands."""
    args = ["log", "-z", "--abbrev=4", "--format=" + "%x00".join(_FIELDS)]
    args += [f"--since={since}"] if since else []
    args += [f"-{limit}"] if limit else []
    with git.start(*args, start, "--", *paths) as process:
        pipe(process.stdin).close()
        fields: list[bytes] = []
        pending = b""
        while chunk := pipe(process.stdout).read1(65536):  # type: ignore[attr-defined]
            *whole, pending = (pending + chunk).split(b"\0")
            for one in whole:  # every field ends in a NUL, and no field can hold one
                fields.append(one)
                if len(fields) == len(_FIELDS):
                    yield _entry(fields)
                    fields = []
        stderr = pipe(process.stderr).read().decode("utf-8", "replace")
    if process.returncode and "does not have any commits" not in stderr and "ambiguous argument 'HEAD'" not in stderr:
        raise GitError(args, process.returncode, stderr)


def _entry(fields: Sequence[bytes]) -> Entry:
    commit, short, parents, author, ts, message = (one.decode("utf-8", "replace") for one in fields)
    subject, _, rest = message.strip().partition("\n")
    *body, last = rest.strip().split("\n\n")
    found = dict(_trailer(line) for line in last.splitlines()) if _is_trailers(last) else {}
    text = "\n\n".join(body if found else [*body, last]).strip()
    return Entry(commit, short, parents.split(), author, ts, subject, text, found)


def _is_trailers(block: str) -> bool:
    return bool(block) and all(re.match(r"[A-Za-z][A-Za-z0-9-]*: ", line + " ") for line in block.splitlines())


def _trailer(line: str) -> tuple[str, str]:
    key, _, value = line.partition(":")
    return key, value.strip()


def find(git: Git, name: str) -> Entry:
    """The commit that ``name`` stands for; raises NoSuchTick.

    ``name`` is a git revision (``a7f3``, ``HEAD~1``) or a tick's id, whole or its beginning or end.
    """
    if re.fullmatch(r"(?!-)[\w./~^@{}-]{1,200}", name):
        code = git.text("rev-parse", "--verify", "-q", f"{name}^{{commit}}", ok=(0, 1, 128))
        if code:
            return next(entries(git, start=code, limit=1))
    if re.fullmatch(r"[0-9A-Za-z]{4,26}", name):
        wanted = name.upper()
        found = [
            e
            for e in entries(git)
            if (t := e.trailers.get("Tick", "")) and (t.startswith(wanted) or t.endswith(wanted))
        ]
        if len(found) == 1:
            return found[0]
        if found:
            raise NoSuchTick(
                f"{name!r} stands for {len(found)} ticks", ", ".join(e.short for e in found[:5]), "give more characters"
            )
    raise NoSuchTick(f"nothing answers to {name!r}", "", "see `harness log --all`")


def graph(git: Git, *, since: str | None = None, skill: str | None = None, limit: int | None = None) -> Iterator[str]:
    """The commits of all branches as git draws them, one line each, as they come."""
    args = ["log", "--graph", "--branches", "--remotes", "HEAD", "--abbrev=4", "--format=%h  %ad  %s%d", "--date=short"]
    args += [f"--since={since}"] if since else []
    args += [f"-{limit}"] if limit else []
    args += ["-F", f"--grep=Skill: {skill}"] if skill else []
    with git.start(*args, "--") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        for line in process.stdout:
            yield line.decode("utf-8", "replace").rstrip("\n")


def diff(git: Git, commit: str, *, colour: bool) -> str:
    """The change of one commit as a unified diff; nothing of the repository's configuration runs."""
    return git.text(
        "show",
        "--format=",
        "--no-ext-diff",
        "--no-textconv",
        f"--color={'always' if colour else 'never'}",
        "--stat",
        "-p",
        commit,
    )
