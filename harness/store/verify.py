"""Verify: every commit of history against the policy of its day, ids unique and links whole over all of it.

What was verified is remembered in ``verified`` beside the lock, so that the next run goes on from there. It is never
trusted over history: a remembered commit that is gone means that history was rewritten.
"""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from harness.store import files, policy
from harness.store.audit import Auditor, Violation
from harness.store.claim import Claim, claim
from harness.store.known import Known
from harness.store.stream import TRUE_PARENTS, Commit, FileChange, Objects, commits
from harness.store.tick import sha256

if TYPE_CHECKING:
    from harness.store.commit import Store

STATE: Final = "verified"  # a line of JSON, then what is known
_VERSION: Final = 2
_MOST: Final = 20  # violations told of one commit
_KEYS: Final = {
    "commit",
    "rules",
    "rewritten",
    "branches",
    "hashes",
    "before",
    "kinds",
    "by_hand",
    "gate_changes",
    "violations",
}
_NAMING: Final = ("/undone.ndjson", "/queue.ndjson")  # ledgers whose rows name other rows
_LOADER, _OVERLAY = "loader_sha256", "overlay_sha256"  # fields of rows that name a version of a text
_SKILL_TEXT: Final = {_LOADER: "AGENTS.md", _OVERLAY: "overlay.md"}


@dataclass
class Report:
    """What a verification found. Numbers and lists are of the whole history, ``judged`` of this run alone; ``before`` counts
    commits that are older than the workspace; ``gate_changes`` are the commits that changed the policy or a schema."""

    head: str
    judged: int = 0
    since: str | None = None
    commits: int = 0
    before: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    by_hand: list[dict[str, str]] = field(default_factory=list)
    gate_changes: list[dict[str, str]] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The JSON object of ``--json``."""
        return {
            "clean": not self.violations, "head": self.head, "since": self.since, "judged": self.judged,
            "commits": self.commits, "before": self.before, "kinds": dict(sorted(self.kinds.items())),
            "by_hand": self.by_hand, "gate_changes": self.gate_changes, "violations": [v.as_dict() for v in self.violations],
        }  # fmt: skip


def verify(store: Store, *, full: bool = False, progress: Callable[[int], None] = lambda count: None) -> Report:
    """Judge every commit that HEAD reaches, from the last verified one on, or all of them when ``full``.

    ``progress`` is called with the number of commits judged so far. Raises GitError when the repository can't be read.
    """
    head = store.head
    if head is None:
        return Report("")
    state = _State(store)
    rewritten = state.rewritten()
    everything = full or any(v not in state.told for v in rewritten)
    objects = Objects(store.git)
    collects = gc.isenabled()
    gc.disable()  # rows come and go by the million and hold no cycles; looking for some takes a fifth of the time
    try:
        run = _Run(store, objects, head)
        since = None if everything else state.commit
        if since:
            state.resume(run)
        for commit in commits(store.git, objects, head, *([since] if since else [])):
            run.commit(commit)
            progress(run.report.judged)
    finally:
        objects.close()
        if collects:
            gc.enable()
    state.save(run, [] if full else rewritten)
    run.report.violations = [*rewritten, *run.report.violations, *run.notes()]
    return run.report


class _Run:
    """One pass over history: the auditor's judgement of each commit, and what only all of history can tell."""

    def __init__(self, store: Store, objects: Objects, head: str) -> None:
        self.store, self.objects = store, objects
        self.report, self.known = Report(head), Known()
        self.auditor = Auditor(store.git, objects, store.runtime / "cache")
        self.report.violations = self.auditor.violations
        self._elsewhere: dict[str, set[str]] = {}

    def commit(self, commit: Commit) -> None:
        """Judge the next commit."""
        told = self.report.violations
        before = len(told)
        self._judge(commit)
        if len(told) - before > _MOST:
            more = len(told) - before - _MOST
            del told[before + _MOST :]
            self._tell(commit, "", "more", f"{more:,} more violations of this commit are not listed")

    def _judge(self, commit: Commit) -> None:
        report, said = self.report, claim(commit.message)
        report.judged += 1
        report.commits += 1
        taken: list[tuple[str, str]] = []
        linked: dict[str, list[dict[str, Any]]] = {}

        def take(ledger: str, rows: list[dict[str, Any]]) -> None:
            taken.extend((ledger, row_id) for row_id in self.known.add_rows(rows))
            named = rows if ledger.endswith(_NAMING) else [r for r in rows if _LOADER in r or _OVERLAY in r]
            if named:
                linked.setdefault(ledger, []).extend(named)

        if not self.auditor.judge(commit, said, take):
            report.before += 1
            return
        kind = said.kind if said.tick and said.kind else "by hand"
        report.kinds[kind] += 1
        if kind == "by hand":
            report.by_hand.append(_named(commit))
        if said.tick and not self.known.add("tick ", said.tick):
            self._tell(commit, "", "unique-tick", f"the tick {said.tick} is in history already")
        changed = {c.path: c for group in commit.changes for c in group}
        if any(path.startswith("schemas/") for path in changed):
            report.gate_changes.append({**_named(commit), "kind": kind})
        self._note_texts(changed.values())
        for ledger, row_id in taken:
            self._tell(commit, ledger, "unique-id", f"the id {row_id} is taken", "/id")
        if kind != "import":  # rows of another workspace speak of its history
            for ledger, rows in linked.items():
                self._links(commit, ledger, rows)
            self._trailers(commit, said)

    def notes(self) -> list[Violation]:
        """What is wrong with history as a whole, as it is now."""
        head, out = self.report.head, []
        if self.auditor.rules_after(head) is None:
            found = "no commit holds a policy, so nothing could be judged"
            out.append(Violation(head, policy.PATH, "policy", found))
        if self.store.git.text("rev-parse", "--is-shallow-repository") == "true":
            found = "older commits are not in this clone; run `git fetch --unshallow`"
            out.append(Violation(head, "", "shallow", found))
        return out

    # --- links -------------------------------------------------------------------------------------------------

    def _note_texts(self, changed: Iterable[FileChange]) -> None:
        for change in changed:
            folder, _, name = change.path.rpartition("/")
            if name in _SKILL_TEXT.values() and change.new and change.new_mode.startswith("100"):
                data = self.objects.get(change.new)
                self.known.add(f"{folder}/{name} ", sha256(data or b""))

    def _links(self, commit: Commit, ledger: str, rows: Sequence[Mapping[str, Any]]) -> None:
        for key, name in _SKILL_TEXT.items():
            for skill, wanted in {(str(row.get("skill")), row.get(key)) for row in rows if type(row.get(key)) is str}:
                path = f"skills/{skill}/{name}"
                if not self.known.has(f"{path} ", str(wanted)) and wanted not in self._anywhere(path):
                    found = f"{key} {str(wanted)[:12]} is no version of {path}"
                    self._tell(commit, ledger, "link", found, f"/{key}")
        if ledger.endswith(_NAMING):
            for row in rows:
                named = row.get("feedback") if "feedback" in row else [row.get("row")]
                for row_id in named if isinstance(named, list) else ():
                    if not self.known.has("row ", str(row_id)):
                        self._tell(commit, ledger, "link", f"{row.get('id')} names the row {row_id}, which isn't there")

    def _trailers(self, commit: Commit, said: Claim) -> None:
        for key, what in (("Closes", "row "), ("Feedback", "row "), ("Undoes", "tick ")):
            for name in said.trailers.get(key, "").split() if said.tick else ():
                if not self.known.has(what, name):
                    self._tell(commit, "", "link", f"{key} names the {what}{name}, which isn't there")

    def _anywhere(self, path: str) -> set[str]:
        """The SHA-256 of each version of ``path`` in any branch or reflog: a run may have used what a branch had that was
        left or reset since."""
        if path not in self._elsewhere:
            args = ("log", "--all", "--reflog", "-m", "--raw", "--no-abbrev", "--no-renames", "--format=", "--", path)
            blobs = {line.split()[3] for line in self.store.git.text(*args).splitlines() if line.startswith(":")}
            texts = (self.store.git.object(blob) for blob in blobs)
            self._elsewhere[path] = {sha256(found[2]) for found in texts if found}
        return self._elsewhere[path]

    def _tell(self, commit: Commit, path: str, rule: str, found: str, pointer: str = "") -> None:
        self.report.violations.append(Violation(commit.id, path, rule, found, pointer))


def _named(commit: Commit) -> dict[str, str]:
    ts = datetime.fromtimestamp(commit.when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"commit": commit.id, "ts": ts, "author": commit.author, "summary": commit.subject}


class _State:
    """What the last run left: where it came to, what it knew, what it told."""

    def __init__(self, store: Store) -> None:
        self.store, self.path, self.known = store, store.runtime / STATE, b""
        try:
            head, _, self.known = self.path.read_bytes().partition(b"\n")
            value = json.loads(head)
            usable = isinstance(value, dict) and value.get("version") == _VERSION and value.keys() >= _KEYS
            usable = usable and Known.is_whole(self.known, value["hashes"])
        except (OSError, ValueError):
            usable = False
        self.value: dict[str, Any] = value if usable else {}
        self.told = [Violation(**one) for one in self.value.get("rewritten", ())]
        self.branch = store.symbolic_head() or "HEAD"

    @property
    def commit(self) -> str | None:
        """The last verified commit, when HEAD still reaches it."""
        last = self.value.get("commit")
        return last if isinstance(last, str) and self._reaches("HEAD", last) else None

    def rewritten(self) -> list[Violation]:
        """A violation for each branch that no longer reaches what was verified on it, and those that were told before. A
        branch that was deleted, or left for another one, is no rewriting."""
        out = list(self.told)
        for branch, last in self.value.get("branches", {}).items():
            here = branch == self.branch
            if branch == "HEAD" and not here:
                continue
            if not here and not self.store.git.text("rev-parse", "--verify", "-q", branch, ok=(0, 1, 128)):
                continue
            if not self._reaches(branch, last):
                found = f"history was rewritten: {branch} no longer reaches {last}, which was verified"
                out.append(Violation(last, "", "rewritten", found))
        return list(dict.fromkeys(out))

    def _reaches(self, branch: str, commit: str) -> bool:
        found = self.store.git.object(commit)
        if found is None or found[1] != "commit":
            return False
        return not self.store.git.text("rev-list", "-1", commit, f"^{branch}", env=TRUE_PARENTS)

    def resume(self, run: _Run) -> None:
        """Give ``run`` what was known at the last verified commit."""
        value, report = self.value, run.report
        run.known = Known(self.known, value["hashes"])
        report.since, report.commits, report.before = value["commit"], value["commits"], value["before"]
        report.kinds, report.by_hand, report.gate_changes = (
            Counter(value["kinds"]),
            value["by_hand"],
            value["gate_changes"],
        )
        # What was found is in history for good, so it is told each time.
        report.violations += [Violation(**one) for one in value["violations"]]
        run.auditor.start_from(value["commit"], value["rules"])

    def save(self, run: _Run, rewritten: Sequence[Violation]) -> None:
        """Keep where ``run`` came to, and what is to be told until all of history is judged anew."""
        report = run.report
        rules = run.auditor.rules_after(report.head)
        value = report.as_dict() | {
            "version": _VERSION, "commit": report.head, "rules": rules.commit if rules else None,
            "rewritten": [v.as_dict() for v in rewritten], "branches": {**self.value.get("branches", {}), self.branch: report.head},
            "hashes": run.known.hashes,
        }  # fmt: skip
        files.replace(self.path, json.dumps(value).encode() + b"\n" + run.known.dump(), sync=False)
