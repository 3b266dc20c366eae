"""`python -m tests.torture.crowd`: writers, an agent that appends, and a person at git, all in one workspace.

The person stages, commits, stashes, switches branches, rebases and packs by a seeded script. What was acknowledged is kept
outside the workspace; at the end each row must be in the history of some branch, and in no history twice.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness import workspace
from harness.errors import HarnessError
from harness.flows import install
from harness.store.commit import Store
from harness.store.errors import Busy, Deferred, Unfinished

from .common import command, tick
from .place import FEEDBACK, LOG, QUARANTINE, git, own_environment, scratch

MINE: Final = "state/memory/mine.md"
PLAN: Final = "state/memory/plan.md"
KEPT: Final = ("ack", "deferred", "unfinished")


@dataclass
class Crowd:
    """Where the crowd works, until when, and where it writes down what it was told."""

    root: Path
    notes: Path
    until: float
    seed: int

    @property
    def running(self) -> bool:
        return time.time() < self.until

    @contextmanager
    def log_at_rest(self, exclusive: bool) -> Iterator[None]:
        """Inside, the agent doesn't append while git replaces the log in the work tree. An `echo` that has opened the file
        which git unlinks that moment writes into nothing: that is between git and the shell, and no store can mend it."""
        with open(self.notes / "log-lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            yield


def writer(crowd: Crowd, number: int) -> None:
    """Make ticks, and write down what became of each."""
    chance, count = random.Random(f"{crowd.seed}-{number}"), 0
    with open(crowd.notes / f"writer-{number}", "w", buffering=1) as notes:
        while crowd.running:
            with Store(workspace.find(crowd.root, {}, crowd.root)) as store:
                for _ in range(chance.randint(1, 20)):
                    text = f"w{number}-{count}"
                    count += 1
                    print("try", text, file=notes)
                    print(_outcome(lambda text=text: store.commit(tick(text))), text, file=notes)
                    time.sleep(chance.uniform(0, 0.1))
                    if not crowd.running:
                        return


def _outcome(commit: Callable[[], Any]) -> str:
    try:
        commit()
    except Deferred:
        return "deferred"
    except Busy:
        return "busy"
    except Unfinished:
        return "unfinished"
    except HarnessError as error:
        return f"failed:{str(error).replace(' ', '_')}"
    return "ack"


def agent(crowd: Crowd) -> None:
    """What agents do: `echo … >> log`, one line after the other."""
    chance, count = random.Random(f"{crowd.seed}-agent"), 0
    with open(crowd.notes / "agent", "w", buffering=1) as notes:
        while crowd.running:
            with crowd.log_at_rest(False):
                line = f"aeo: line {count} [LOGGED]"
                subprocess.run(["/bin/sh", "-c", 'echo "$1" >> "$2"', "sh", line, str(crowd.root / LOG)], check=True)
                print(f"line {count}", file=notes)
                count += 1
            time.sleep(chance.uniform(0, 0.08))


def observer(crowd: Crowd) -> None:
    """What the hooks start again and again."""
    codes = Counter[int]()
    while crowd.running:
        codes[command(crowd.root, "observe", "--quiet")] += 1
        time.sleep(0.3)
    (crowd.notes / "observer").write_text(json.dumps(codes))


@dataclass
class Person:
    """A person at git, by a seeded script. ``done`` counts what went through, ``again`` what git refused that moment."""

    crowd: Crowd
    done: Counter[str] = field(default_factory=Counter)
    again: Counter[str] = field(default_factory=Counter)
    commits: list[str] = field(default_factory=list)
    stashed: list[str] = field(default_factory=list)
    count: int = 0

    def work(self) -> None:
        """Act until the time is over, then leave an orderly place."""
        chance = random.Random(f"{self.crowd.seed}-person")
        actions = [
            self.commit,
            self.commit,
            self.stage,
            self.stash,
            self.branch,
            self.rebase,
            self.replay,
            self.gc,
            self.detach,
        ]
        while self.crowd.running:
            chance.choice(actions)(chance)
            time.sleep(chance.uniform(0, 0.2))
        self.tidy()
        told = {"done": self.done, "again": self.again, "commits": self.commits}
        (self.crowd.notes / "person").write_text(json.dumps(told))

    def git(self, *args: str, hooks: bool = False, tries: int = 1) -> bool:
        """`git ARGS`, some times over when something is in the way; whether it went through."""
        options = () if hooks else ("-c", "core.hooksPath=/dev/null")
        for _ in range(tries):
            ran = subprocess.run(
                ["git", *options, *args], cwd=self.crowd.root, capture_output=True, text=True, check=False
            )
            if ran.returncode == 0:
                self.done[args[0]] += 1
                return True
            self.again[args[0]] += 1
            with open(self.crowd.notes / "refused", "a") as notes:
                print(args, ran.returncode, ran.stderr.strip(), file=notes)
            time.sleep(0.01)
        return False

    def write(self, path: str) -> str:
        """New words in one of the person's files."""
        self.count += 1
        (self.crowd.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.crowd.root / path).write_text(f"{self.count}\n")
        return f"mine {self.count}"

    def stage(self, chance: random.Random) -> None:
        """Stage a file, then change it again."""
        self.write(PLAN)
        self.git("add", PLAN, tries=20)
        self.write(PLAN)

    def commit(self, chance: random.Random) -> None:
        """Commit one file, sometimes through the hooks."""
        subject = self.write(MINE)
        if self.git("add", MINE, tries=20) and self.git(
            "commit", "-qm", subject, "--", MINE, hooks=chance.random() < 0.3, tries=5
        ):
            self.commits.append(subject)

    def stash(self, chance: random.Random) -> None:
        """Put the plan away and take it out again."""
        self.write(PLAN)
        with self.crowd.log_at_rest(True):
            if command(self.crowd.root, "observe", "--quiet") == 0 and self.git(
                "stash", "push", "-q", "--", PLAN, tries=10
            ):
                time.sleep(chance.uniform(0, 0.2))
                self.git("stash", "pop", "-q", tries=50) or self.git("checkout", "-q", "--", PLAN)

    def branch(self, chance: random.Random) -> None:
        """Over to another branch, a commit there, and back."""
        name = f"topic-{chance.randint(0, 3)}"
        if not self.switch(name):
            return
        time.sleep(chance.uniform(0, 0.5))
        self.commit(chance)
        self.switch("main")
        if chance.random() < 0.5:
            with self.crowd.log_at_rest(True):
                self.git("merge", "-q", "--ff-only", name)

    def switch(self, name: str) -> bool:
        """To a branch that may have to be made; the plan, which is in no commit, stays as it is."""
        with self.crowd.log_at_rest(True):
            if command(self.crowd.root, "observe", "--quiet") != 0:
                return False
            exists = self.git("rev-parse", "-q", "--verify", f"refs/heads/{name}")
            if self.git("switch", "-q", *(() if exists else ("-c",)), name, tries=30):
                return True
            self.put_back()
            return False

    def put_back(self) -> None:
        """Give up pending changes of ledgers. `git switch -c` reads HEAD before it takes the branch there: a tick in between
        stays behind on the old branch, and its row in the work tree; `harness status` shows that as a pending change."""
        lines = subprocess.run(
            ["git", "status", "--porcelain"], cwd=self.crowd.root, capture_output=True, text=True, check=False
        )
        changed = [line[3:] for line in lines.stdout.splitlines() if line.startswith(" M") and line.endswith(".ndjson")]
        if changed and self.git("checkout", "-q", "--", *changed, tries=10):
            self.done["ledgers put back"] += 1

    def rebase(self, chance: random.Random) -> None:
        """A small branch onto main: where ticks have landed in both, it stops at a conflict and is given up."""
        if not self.switch("small"):
            return
        self.commit(chance)
        with self.crowd.log_at_rest(True):
            if command(self.crowd.root, "observe", "--quiet") == 0 and not self.git(
                "rebase", "-q", "--autostash", "main"
            ):
                time.sleep(chance.uniform(0, 0.5))
                self.abort()
        self.switch("main")

    def replay(self, chance: random.Random) -> None:
        """The last commits once more, as new ones: ticks are among them."""
        with self.crowd.log_at_rest(True):
            if command(self.crowd.root, "observe", "--quiet") == 0 and not self.git(
                "rebase",
                "-q",
                "--autostash",
                "--force-rebase",
                "--committer-date-is-author-date",
                f"HEAD~{chance.randint(1, 5)}",
            ):
                self.abort()

    def abort(self) -> None:
        """Give up a rebase that has stopped. One that could not even put the plan away leaves its folder with nothing in
        it to go back to (git 2.39, "Cannot autostash"); git then asks for that folder to be removed by hand."""
        state = self.crowd.root / ".git/rebase-merge"
        if state.exists() and not self.git("rebase", "--abort", tries=50) and not (state / "head-name").exists():
            shutil.rmtree(state)

    def gc(self, chance: random.Random) -> None:
        """Pack."""
        self.git(*chance.choice([("gc", "-q"), ("repack", "-d", "-q"), ("pack-refs", "--all")]))

    def detach(self, chance: random.Random) -> None:
        """Look at a commit for a moment."""
        with self.crowd.log_at_rest(True):
            if command(self.crowd.root, "observe", "--quiet") != 0 or not self.git(
                "switch", "-q", "--detach", tries=10
            ):
                return
        time.sleep(chance.uniform(0, 0.3))
        self.switch("main")

    def tidy(self) -> None:
        """Nothing under way, and on main."""
        self.abort()
        for _ in range(20):
            if self.switch("main"):
                break
            time.sleep(0.1)
        self.put_back()


def start(crowd: Crowd, work: Callable[[], None]) -> int:
    """``work`` in a process of its own; its id."""
    pid = os.fork()
    if pid == 0:
        code = 70
        with contextlib.suppress(KeyboardInterrupt):
            sys.stdout = sys.stderr = open(crowd.notes / f"said-{os.getpid()}", "w")  # noqa: SIM115
            try:
                work()
                code = 0
            except BaseException:
                import traceback

                traceback.print_exc()
                sys.stderr.flush()
        os._exit(code)
    return pid


def histories(root: Path) -> dict[str, dict[str, Counter[str]]]:
    """By ref: how often each row of the ledgers, each tick and each subject of the person is in it."""
    out = {}
    names = git(root, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/harness").split()
    for name in [*names, "HEAD"]:
        found = defaultdict[str, Counter[str]](Counter)
        paths = git(root, "ls-tree", "-r", "--name-only", name, "state/log").split()
        for path in paths:
            if path.startswith((QUARANTINE, FEEDBACK)):
                for line in git(root, "cat-file", "blob", f"{name}:{path}").splitlines():
                    row = json.loads(line)
                    found[path.split(".d/")[0]][row["text"]] += 1
                    found["ids"][row["id"]] += 1
        log = git(root, "log", "--format=%s%x00%(trailers:key=Tick,valueonly,separator=)", name)
        for line in log.splitlines():
            subject, _, tick_id = line.partition("\0")
            found["ticks" if tick_id else "subjects"][tick_id or subject] += 1
        out[name] = dict(found)
    return out


def judge(crowd: Crowd) -> tuple[list[str], dict[str, Any]]:
    """What is wrong at the end, and the figures."""
    problems: list[str] = []
    outcomes: dict[str, str] = {}
    for path in crowd.notes.glob("writer-*"):
        for line in path.read_text().splitlines():
            outcome, _, text = line.partition(" ")
            outcomes[text] = outcome
    lines = (crowd.notes / "agent").read_text().splitlines()
    person = json.loads((crowd.notes / "person").read_text())
    seen = histories(crowd.root)

    def everywhere(part: str) -> Counter[str]:
        total = Counter[str]()
        for found in seen.values():
            total |= found.get(part, Counter())
        return total

    for name, found in seen.items():
        for part, counts in found.items():
            double = [text for text, n in counts.items() if n > 1]
            if double and part != "subjects":
                problems.append(f"doubled: {part} of {name}: {len(double)}: {double[:5]}")
    rows, fed, subjects = everywhere(QUARANTINE), everywhere(FEEDBACK), everywhere("subjects")
    aside = {json.loads(p.read_bytes())["tick"]["summary"] for p in (crowd.root / ".git/harness/refused").glob("*")}
    lost = [text for text, outcome in outcomes.items() if outcome in KEPT and not rows[text] and text not in aside]
    if lost:
        problems.append(f"lost: {len(lost)} rows, of them {[(text, outcomes[text]) for text in lost[:5]]}")
    gone = [line for line in lines if not fed[line]]
    if gone:
        problems.append(f"lost: {len(gone)} lines of the log: {gone[:5]}")
    missing = [subject for subject in person["commits"] if not subjects[subject]]
    if missing:
        problems.append(f"lost: commits of the person: {missing[:5]}")
    if aside:
        problems.append(f"set aside: {sorted(aside)[:5]}")
    if waiting := list((crowd.root / ".git/harness/deferred").glob("*")):
        problems.append(f"waiting: {len(waiting)} ticks are still deferred")
    for check in (["fsck", "--strict", "--no-dangling", "--no-progress"],):
        with contextlib.suppress(AssertionError):
            git(crowd.root, *check)
            continue
        problems.append("git fsck complains")
    runtime = crowd.root / ".git/harness"
    # Git itself leaves gc.log.lock where `git gc` is disturbed.
    if locks := [
        p for p in (crowd.root / ".git").rglob("*.lock") if runtime not in p.parents and p.name != "gc.log.lock"
    ]:
        problems.append(f"lock: left behind: {[str(p.relative_to(crowd.root)) for p in locks]}")
    state = [
        line for line in git(crowd.root, "status", "--porcelain", "-uall").splitlines() if line[3:] not in (PLAN, MINE)
    ]
    if state:
        problems.append(f"index: status shows {state[:5]}")
    failed = Counter(outcome for outcome in outcomes.values() if outcome.startswith("failed"))
    problems += [f"failed: {count} times {what}" for what, count in failed.items()]
    problems += [
        f"died: {p.name}: {p.read_text()[-800:]}" for p in crowd.notes.glob("said-*") if "Traceback" in p.read_text()
    ]
    counts = Counter(outcome.partition(":")[0] for outcome in outcomes.values())
    figures = {
        "ticks": dict(counts), "rows in all branches": len(rows), "lines appended": len(lines), "refs": len(seen),
        "commits on main": sum(seen["HEAD"].get("ticks", {}).values()) + sum(seen["HEAD"].get("subjects", {}).values()),
        "person": person["done"], "refused to the person": person["again"], "person's commits": len(person["commits"]),
    }  # fmt: skip
    return problems, figures


def run(seconds: float, seed: int, writers: int) -> int:
    """A crowd for so many seconds; 0 when nothing was lost, doubled or left behind."""
    folder = scratch()
    own_environment(folder)
    crowd = Crowd(folder / "workspace", folder / "notes", time.time() + seconds, seed)
    crowd.notes.mkdir()
    install.lay_out(crowd.root, None, lambda line: None)
    skill = crowd.root / "skills/aeo/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: aeo\ndescription: The skill aeo.\n---\n# base\n")
    for path in (MINE, PLAN):
        (crowd.root / path).parent.mkdir(parents=True, exist_ok=True)
        (crowd.root / path).write_text("0\n")
    git(crowd.root, "add", "skills", MINE, PLAN)
    git(crowd.root, "commit", "-qm", "start")
    assert command(crowd.root, "observe", "--quiet") == 0
    crowd.until = time.time() + seconds
    works: list[Callable[[], None]] = [lambda n=n: writer(crowd, n) for n in range(writers)]  # type: ignore[misc]
    works += [lambda: agent(crowd), lambda: observer(crowd), Person(crowd).work]
    children = [start(crowd, work) for work in works]
    try:
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    except KeyboardInterrupt:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        raise
    for _ in range(3):
        code = command(crowd.root, "observe", "--quiet")
    problems, figures = judge(crowd)
    with contextlib.redirect_stdout(io.StringIO()) as told:
        proof = command(crowd.root, "verify", "--full")
    if proof:
        problems.append(f"verify: {told.getvalue()[-1500:]}")
    if any(codes) or code:
        problems.append(f"exit codes {codes}, and {code} of the last observe")
    print(json.dumps(figures, indent=1))
    for problem in problems:
        print(problem)
    print(f"{seconds:g} s, seed {seed}: {len(problems)} problems")
    if problems:
        print(f"left in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return bool(problems)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.torture.crowd", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writers", type=int, default=8)
    asked = parser.parse_args()
    sys.exit(run(asked.seconds, asked.seed, asked.writers))
