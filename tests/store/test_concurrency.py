"""Many writers at once, agents appending beside them, a person at work: every row once, nothing of the person's touched."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from fixtures.workspaces import LOG, QUARANTINE, Place, run

from harness.store.tick import Take, Tick, sha256

WRITER = Path(__file__).parent / "writer.py"


def writer(place: Place, name: str, count: int, what: str = "append", **env: str) -> subprocess.Popen[str]:
    """A writer process that has its standard output as a pipe."""
    path = os.pathsep.join([str(WRITER.parent.parent), *sys.path])
    return subprocess.Popen(
        [sys.executable, str(WRITER), str(place.root), name, str(count), what],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path, **env},
    )  # fmt: skip


def index_of_others(place: Place) -> list[str]:
    return [line for line in place.git("ls-files", "-s").split("\n") if "state/log/" not in line]


def test_eight_writers_an_agent_and_a_person(place: Place) -> None:
    place.write("staged.txt", "staged\n")
    place.git("add", "staged.txt")
    place.write("staged.txt", "dirty on top\n")
    place.write("state/harness.yaml", (place.root / "state/harness.yaml").read_text() + "# pending\n")
    index, porcelain, start = index_of_others(place), place.porcelain(), place.count()
    done = threading.Event()
    appended = [0]

    def agent() -> None:
        while not done.is_set():
            line = f"[now] aeo: line {appended[0]} [LOGGED]"
            assert run(["sh", "-c", f'echo "$1" >> "{place.root / LOG}"', "sh", line], place.root).returncode == 0
            appended[0] += 1

    beside = threading.Thread(target=agent)
    beside.start()
    writers = [writer(place, f"w{n}", 200) for n in range(8)]
    results = [one.communicate(timeout=500) for one in writers]
    done.set()
    beside.join()
    assert [one.returncode for one in writers] == [0] * 8, [err[-500:] for _, err in results]
    wanted = Counter(f"w{n}-{m}" for n in range(8) for m in range(200))
    assert Counter(place.texts()) == wanted
    for n in range(8):
        mine = [text for text in place.texts() if text.startswith(f"w{n}-")]
        assert mine == [f"w{n}-{m}" for m in range(200)]
    assert place.count() == start + 1600
    assert (place.root / LOG).read_text().splitlines() == [f"[now] aeo: line {n} [LOGGED]" for n in range(appended[0])]
    assert index_of_others(place) == index
    assert [line for line in place.porcelain() if LOG not in line] == porcelain
    assert (place.root / "staged.txt").read_text() == "dirty on top\n"
    place.healthy()


def test_a_log_taken_while_agents_append_loses_no_line(place: Place) -> None:
    total = 400
    script = f'i=0; while [ $i -lt {total} ]; do echo "line $i" >> "{place.root / LOG}"; i=$((i+1)); done'
    with subprocess.Popen(["sh", "-c", script]) as agent:
        while agent.poll() is None:
            whole = (place.root / LOG).read_bytes()
            whole = whole[: whole.rfind(b"\n") + 1]
            old = place.store.tree.read(LOG) or b""
            place.store.commit(Tick("feedback", "take", [Take(LOG, whole, sha256(old))]))
    disk = (place.root / LOG).read_bytes()
    place.store.commit(Tick("feedback", "take", [Take(LOG, disk, sha256(place.store.tree.read(LOG) or b""))]))
    assert place.store.tree.read(LOG) == disk == b"".join(b"line %d\n" % n for n in range(total))
    assert place.porcelain() == []


def test_a_person_commits_and_switches_branches_beside_the_writers(place: Place) -> None:
    one, two = writer(place, "a", 60), writer(place, "b", 60)
    mine = 0
    while one.poll() is None or two.poll() is None:
        place.write("mine.txt", f"{mine}\n")
        # The index may be locked this moment; a person then does it again.
        if run(["git", "add", "mine.txt"], place.root).returncode == 0:
            done = run(["git", *(["-c", "core.hooksPath=/dev/null"]), "commit", "-q", "-m", f"mine {mine}"], place.root, env={
                "GIT_AUTHOR_NAME": "P", "GIT_AUTHOR_EMAIL": "p@x", "GIT_COMMITTER_NAME": "P", "GIT_COMMITTER_EMAIL": "p@x",
            })  # fmt: skip
            mine += done.returncode == 0
    acknowledged = [line for one_of in (one, two) for line in one_of.communicate()[0].splitlines()]
    # A tick that met the person's index.lock is deferred, which ends that writer: its tick is kept and lands now.
    place.store.catch_up()
    texts = place.texts()
    assert mine > 0
    assert len(texts) == len(set(texts)) >= len(acknowledged)
    assert set(acknowledged) <= set(texts)
    assert place.git("log", "--format=%s", "--grep=^mine").count("mine") == mine
    place.healthy()


def test_packing_beside_the_writers_loses_nothing(place: Place) -> None:
    writers = [writer(place, f"w{n}", 60) for n in range(2)]
    while any(one.poll() is None for one in writers):
        place.git("-c", "gc.auto=0", "repack", "-d", "-q")
        place.git("gc", "-q")
    results = [one.communicate() for one in writers]
    assert [one.returncode for one in writers] == [0, 0], [err[-500:] for _, err in results]
    assert Counter(place.texts(QUARANTINE)) == Counter(f"w{n}-{m}" for n in range(2) for m in range(60))
    place.healthy()
