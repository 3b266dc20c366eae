"""Judging one commit after the fact, by the policy of its day: what a tick of its kind, or a person, might have done.

The store's gate and git's pre-commit hook judge before; a merge, a pull, `--no-verify` or a rewritten commit pass them by.
"""

from __future__ import annotations

import functools
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from harness.store import gate, policy, snapshot
from harness.store.claim import Claim, claim
from harness.store.engine import mode_of
from harness.store.errors import Refusal
from harness.store.git import Git, GitError
from harness.store.rowcheck import RowJudge
from harness.store.segments import LastSegments
from harness.store.stream import Commit, FileChange, Objects
from harness.store.tick import Delete, Replace, Take, Tick, Write
from harness.store.tree import Tree

_RULES: Final = "schemas/"
_REMEMBERED: Final = 1024
FILE: Final = "100644"
PROGRAM: Final = "100755"

TakeRows = Callable[[str, list[dict[str, Any]]], None]
"""What is given rows that a commit added to a ledger."""


@dataclass(frozen=True)
class Violation:
    """A rule that a commit broke: where, which rule, what was found."""

    commit: str
    path: str
    rule: str
    found: str
    pointer: str = ""

    def as_dict(self) -> dict[str, str]:
        """The violation as the JSON object of ``--json``."""
        return asdict(self)


class Rules:
    """The policy and schemas that a commit holds, with what was looked up in them."""

    def __init__(self, policy_: gate.Policy, commit: str | None, schema: Callable[[str], bytes | None]) -> None:
        self.commit, self._schema = commit, schema
        self._validators: dict[str, Any] = {}
        self._entries: dict[str, Any] = {}
        self._judges: dict[tuple[str, str], RowJudge] = {}
        self.policy = gate.Policy(policy_.entries, lambda name: self._validator(policy_, name))

    def _validator(self, policy_: gate.Policy, name: str) -> Any:
        if name not in self._validators:
            self._validators[name] = policy_.validator(name)
        return self._validators[name]

    def entry(self, path: str) -> Any:
        """The entry of the policy that covers ``path``, or None."""
        if path not in self._entries:
            if len(self._entries) > 10_000:
                self._entries.clear()
            self._entries[path] = None if gate.bad_path(path) else self.policy.entry(path)
        return self._entries[path]

    def rows(self, ledger: str, kind: str) -> RowJudge:
        """The judge of rows that a tick of ``kind`` adds to ``ledger``."""
        if (ledger, kind) not in self._judges:
            entry = self.entry(ledger)
            schema = self._schema(entry["row"]) if entry.get("row") else None
            self._judges[ledger, kind] = RowJudge(ledger, kind, entry, self.policy, schema)
        return self._judges[ledger, kind]


class Auditor:
    """Judges commits that come parents first."""

    def __init__(self, git: Git, objects: Objects, cache: Any) -> None:
        self.git, self.objects, self._cache = git, objects, cache
        self._in_force: OrderedDict[str, Rules | None] = OrderedDict()
        self._segments = LastSegments(git)
        self.violations: list[Violation] = []

    # --- the policy of the day ---------------------------------------------------------------------------------

    def load(self, commit: str) -> Rules:
        """The rules that ``commit`` holds; raises NoPolicy."""
        tree = Tree(self.git, commit)
        return Rules(policy.load(tree, self._cache), commit, lambda name: tree.read(f"{_RULES}{name}.schema.json"))

    def start_from(self, commit: str, rules: str | None) -> None:
        """Take ``commit`` as judged; the rules in force after it are those that the commit ``rules`` holds."""
        self._in_force[commit] = self.load(rules) if rules else None

    def rules_after(self, commit: str) -> Rules | None:
        """The rules in force for a child of ``commit``; None before there was a workspace."""
        if commit not in self._in_force:
            # Far back, on a side branch: the newest commit on the way here whose policy can be read.
            names = self.git.text("rev-list", "-20", commit, "--", policy.PATH).split()
            self._in_force[commit] = None
            for name in [commit, *names]:
                try:
                    self._in_force[commit] = self.load(name)
                    break
                except policy.NoPolicy:
                    continue
        self._in_force.move_to_end(commit)
        return self._in_force[commit]

    def _remember(self, commit: Commit, before: Rules | None, changed: Sequence[FileChange]) -> None:
        """Settle what is in force after ``commit``. As the store does: a changed policy counts if a person might have made
        the change, else the one before it stays in force."""
        after = before
        rules = [c for c in changed if c.path.startswith(_RULES)]
        if rules:
            try:
                new = self.load(commit.id)
                judge = before or new
                if claim(commit.message).kind == "install" or not self._check_texts("human", rules, judge):
                    after = new
            except policy.NoPolicy:
                pass
        self._in_force[commit.id] = after
        while len(self._in_force) > _REMEMBERED:
            self._in_force.popitem(last=False)

    # --- one commit --------------------------------------------------------------------------------------------

    def judge(self, commit: Commit, said: Claim, take: TakeRows = lambda ledger, rows: None) -> bool:
        """Judge ``commit``; False when there was no workspace yet. What it broke is added to ``violations``, and ``take``
        is given the rows that it added, some at a time."""
        for problem in said.problems:
            self._tell(commit, "", "trailers", problem)
        befores = [self.rules_after(parent) for parent in commit.parents] or [None]
        judged = [n for n, rules in enumerate(befores) if rules is not None]
        self._segments.came_to(commit.parents)
        if len(commit.parents) > 1 and judged:
            if said.kind not in (None, "sync"):
                self._tell(commit, "", "trailers", "a merge is no tick")
            self._judge_merge(commit, [(commit.changes[n], rules) for n in judged if (rules := befores[n])])
        elif len(commit.parents) <= 1:
            rules = self._rules_for(commit, said, befores[0])
            if rules is None:
                if said.kind:
                    self._tell(commit, "", "policy", "a tick, and no policy to judge it by")
                self._in_force[commit.id] = None
                return False
            if befores[0] is None and commit.parents:
                self._judge_found(commit, rules)
            self._judge_changes(commit, said, commit.changes[0], rules, take)
        else:
            self._remember(commit, None, commit.changes[0])
            return False
        first = judged[0] if judged else 0
        self._remember(commit, befores[first], commit.changes[first])
        self._segments.went_on(commit)
        return True

    def _rules_for(self, commit: Commit, said: Claim, before: Rules | None) -> Rules | None:
        brings = any(c.path == policy.PATH and c.new for c in commit.changes[0])
        if before is not None and not (said.kind == "install" and brings):
            return before
        if not brings:
            return None
        try:
            return self.load(commit.id)
        except policy.NoPolicy as error:
            self._tell(commit, policy.PATH, "document", error.why)
            return before

    def _judge_changes(
        self, commit: Commit, said: Claim, changes: Sequence[FileChange], rules: Rules, take: TakeRows
    ) -> None:
        kind = said.kind
        ledgers: dict[str, list[FileChange]] = {}
        texts: list[FileChange] = []
        for change in changes:
            if why := odd_mode(change, kind):
                self._tell(commit, change.path, "mode", why)
            if change.new_mode.startswith("1") and not change.new_mode.startswith("100"):
                continue  # a link holds no text to judge
            if (ledger := _ledger(rules, change.path)) is None:
                texts.append(change)
            else:
                ledgers.setdefault(ledger, []).append(change)
        refusals = self._check_texts(kind, texts, rules, said.trailers)
        if refusals and kind == "install":  # what it laid out came with the policy of the program that made it
            refusals = self._check_texts(kind, texts, Rules(snapshot.packaged_policy(), None, lambda name: None))
        for one in refusals:
            self._tell(commit, one.path, one.rule, one.found, one.pointer)
        for ledger, parts in ledgers.items():
            self._judge_ledger(commit, kind, ledger, parts, rules, functools.partial(take, ledger))

    def _judge_found(self, commit: Commit, rules: Rules) -> None:
        """A workspace may be made in a repository that had other files; rows of a ledger can't have been there."""
        names = self.git.run("ls-tree", "-r", "-z", "--name-only", commit.parents[0]).decode("utf-8", "surrogateescape")
        for path in filter(None, names.split("\0")):
            if _ledger(rules, path):
                self._tell(commit, path, "ledger", "rows from before there was a policy")

    def _check_texts(
        self, kind: str | None, changes: Sequence[FileChange], rules: Rules, trailers: Mapping[str, str] | None = None
    ) -> list[Refusal]:
        """What the gate says of files that are no ledgers."""
        by_path = {c.path: c for c in changes}
        writes: list[Write] = []
        taken: list[Write] = []
        for change in changes:
            entry = rules.entry(change.path)
            takes = entry["how"].get("take", ()) if entry else ()
            if change.new is None:
                writes.append(Delete(change.path, ""))
            elif takes and (kind is None or kind in takes):
                # People may commit an agent-appended log as it grows.
                taken.append(Take(change.path, self._bytes(change.new), ""))
            else:
                writes.append(Replace(change.path, self._bytes(change.new).decode("utf-8", "replace"), ""))

        def before(path: str) -> bytes | None:
            old = by_path[path].old
            return None if old is None else self._bytes(old)

        if kind is None:
            found = gate.check(Tick("human", "", writes, id=""), before, rules.policy) if writes else []
            return found + (gate.check(Tick("feedback", "", taken, id=""), before, rules.policy) if taken else [])
        tick = Tick(kind, "", [*writes, *taken], trailers or {}, id="")
        return gate.check(tick, before, rules.policy) if changes else []

    # --- ledgers -----------------------------------------------------------------------------------------------

    def _judge_ledger(
        self,
        commit: Commit,
        kind: str | None,
        ledger: str,
        parts: Sequence[FileChange],
        rules: Rules,
        take: Callable[[list[dict[str, Any]]], None],
    ) -> None:
        """Hold that the ledger only grew at its end, also where its active file was sealed, and judge its new rows."""
        broken = len(self.violations)
        active = next((c for c in parts if c.path == ledger), None)
        sealed = sorted((c for c in parts if c.path != ledger), key=lambda c: c.path)
        for change in sealed:
            if change.old is not None:
                what = "removed" if change.new is None else "changed"
                self._tell(commit, change.path, "sealed", f"a sealed segment was {what}")
        fresh = [c for c in sealed if c.old is None]
        if active is not None and active.new is None:
            self._tell(commit, ledger, "append-only", "the ledger was removed")
        elif fresh and active is None:
            self._tell(commit, fresh[0].path, "sealed", "a segment that its ledger did not run over into")
        if fresh and commit.parents:
            last = self._segments.of(commit.parents[0], ledger)
            for change in fresh:
                if change.path.rpartition("/")[2] <= last:
                    self._tell(commit, change.path, "sealed", f"a segment that would be read before {last}")
        old = self._bytes(active.old) if active and active.old else b""
        whole = b"".join(self._bytes(c.new) for c in [*fresh, *([active] if active else ())] if c.new)
        if len(self.violations) > broken:
            return
        if not whole.startswith(old) or (old and not old.endswith(b"\n")):
            self._tell(commit, ledger, "append-only", _first_difference(old, whole))
            return
        new = whole[len(old) :]
        if kind is None:
            self._tell(commit, ledger, "ledger", f"rows added by hand: {_short(new)}")
        elif not new or not new.endswith(b"\n"):
            self._tell(commit, ledger, "append-only", "its last row is no whole line" if new else "no row was added")
            return
        judge = rules.rows(ledger, kind or "human")
        if kind is not None and not judge.allowed:
            self._tell(commit, ledger, "kind", f"a {kind} tick may not append it")
        refusals = judge.judge(new, take)
        for number, one in refusals if judge.allowed else ():
            where = f" (new row {number})"
            self._tell(commit, ledger, one.rule, one.found + where, one.pointer)

    def _judge_merge(self, commit: Commit, parents: Sequence[tuple[Sequence[FileChange], Rules]]) -> None:
        """A merge answers for what it made of its own: what differs from every parent. No parent's rows may be missing."""
        shared = set.intersection(*({c.path for c in changes} for changes, _ in parents))
        ledgers: set[str] = set()
        own: list[list[FileChange]] = []
        for changes, rules in parents:
            ledgers |= {name for c in changes if (name := _ledger(rules, c.path) or _log(rules, c.path))}
            own.append([c for c in changes if c.path in shared])
        texts = [[c for c in mine if not any(_within(c.path, name) for name in ledgers)] for mine in own]
        for change in texts[0]:
            if why := odd_mode(change, None):
                self._tell(commit, change.path, "mode", why)
            refusals: list[Refusal] = []
            for mine, (_, rules) in zip(texts, parents, strict=True):
                same = [c for c in mine if c.path == change.path and c.new_mode[:3] in ("100", "000")]
                found = self._check_texts(None, same, rules)
                refusals = refusals or found
                if not found:
                    break
            else:
                for one in refusals:
                    self._tell(commit, one.path, one.rule, one.found, one.pointer)
        for ledger in sorted(ledgers):
            self._merge_ledger(commit, ledger, [[c for c in ch if _within(c.path, ledger)] for ch, _ in parents])

    def _merge_ledger(self, commit: Commit, ledger: str, parents: Sequence[Sequence[FileChange]]) -> None:
        added: list[Counter[bytes]] = []
        for changes in parents:
            for change in changes:
                if change.path != ledger and change.old is not None:
                    what = "removed" if change.new is None else "changed"
                    self._tell(commit, change.path, "sealed", f"a sealed segment was {what}")
            parts = sorted(changes, key=lambda c: (c.path == ledger, c.path))
            old = [line for c in parts if c.old for line in self._bytes(c.old).split(b"\n") if line]
            new = [line for c in parts if c.new for line in self._bytes(c.new).split(b"\n") if line]
            rest = iter(new)
            gone = next((line for line in old if line not in rest), None)
            if gone is not None:
                self._tell(commit, ledger, "append-only", f"a line of a parent is gone or moved: {_short(gone)}")
            added.append(Counter(new) - Counter(old))
        own = added[0].copy()
        for other in added[1:]:
            own &= other
        if own:
            self._tell(commit, ledger, "ledger", f"{own.total()} lines that no parent has: {_short(next(iter(own)))}")
        if ledger.endswith((".ndjson", ".jsonl")) and sum(bool(one) for one in added) > 1:
            wanted = set().union(*added)
            tree, seen = Tree(self.git, commit.id), Counter[bytes]()
            for part in tree.parts(ledger):
                seen.update(line for line in (tree.read(part) or b"").split(b"\n") if line in wanted)
            for line, count in seen.items():
                if count > 1:
                    self._tell(commit, ledger, "unique-id", f"a row stands {count} times: {_short(line)}")

    # --- small things ------------------------------------------------------------------------------------------

    def _bytes(self, blob: str) -> bytes:
        data = self.objects.get(blob)
        if data is None:
            raise GitError(("cat-file",), 0, f"the object {blob} is missing; see `git fsck`")
        return data

    def _tell(self, commit: Commit, path: str, rule: str, found: str, pointer: str = "") -> None:
        one = Violation(commit.id, path, rule, found, pointer)
        if one not in self.violations[-50:]:  # of a merge, each parent may say the same
            self.violations.append(one)


def odd_mode(change: FileChange, kind: str | None) -> str | None:
    """What is odd about the kind of file that ``change`` leaves, or None. A tick writes plain files, and programs where the
    name ends in `.sh`; people may also commit programs in a skill's `scripts/`."""
    mode = change.new_mode
    if change.new is None or mode == mode_of(change.path):
        return None
    if mode == "120000":
        return "a symbolic link"
    if mode == "160000":
        return "another repository (a submodule)"
    if kind is None and (mode == FILE or (mode == PROGRAM and "/scripts/" in change.path)):
        return None
    return "a program" if mode == PROGRAM else f"the file mode {mode}"


def _ledger(rules: Rules, path: str) -> str | None:
    """The ledger whose active file or sealed segment ``path`` is, or None."""
    entry = rules.entry(path)
    if not entry or "append" not in entry["how"]:
        return None
    sealed = gate.SEGMENT.fullmatch(path)
    return sealed["ledger"] if sealed else path


def _log(rules: Rules, path: str) -> str | None:
    entry = rules.entry(path)
    return path if entry and "take" in entry["how"] else None


def _within(path: str, ledger: str) -> bool:
    return path == ledger or path.startswith(f"{ledger}.d/")


def _short(line: bytes, most: int = 100) -> str:
    text = line.decode("utf-8", "replace")
    return text if len(text) <= most else text[:most] + "…"


def _first_difference(old: bytes, new: bytes) -> str:
    """Where ``new`` leaves ``old``, with a few characters around it."""
    at = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    number, start = old.count(b"\n", 0, at) + 1, old.rfind(b"\n", 0, at) + 1
    was, now = (text[start:].partition(b"\n")[0] for text in (old, new))
    from_ = max(0, at - start - 30)
    if not now:
        return f"line {number} is gone: {_short(was)}"
    return f"line {number} had {_short(was[from_:], 60)!r} at character {from_ + 1} and has {_short(now[from_:], 60)!r}"
