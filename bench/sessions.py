"""Reading sessions: beside a bare parse of the same lines, with the memory it takes; a line of 30 MB."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Result, medians, ms
from bench.places import folder
from harness.sessions import reader

_READ = """
import sys
from pathlib import Path
from harness.sessions import reader

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

base = peak()
for name in sys.argv[1:]:
    reader.read(Path(name))
print((peak() - base) // 1024)
"""


def corpus(place: Path, files: int, turns: int) -> list[Path]:
    """``files`` sessions of ``turns`` replies, shaped like real ones: small lines of book-keeping, results of 0.2 to 40 kB."""
    chance = random.Random(1)
    out = []
    for number in range(files):
        path = place / f"s{number:03d}.jsonl"
        with open(path, "w", encoding="utf-8") as file:
            parent = None
            for turn in range(turns):
                for line in _exchange(chance, turn, parent):
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
                    parent = line.get("uuid", parent)
        out.append(path)
    return out


def _exchange(chance: random.Random, turn: int, parent: str | None) -> Iterator[dict[str, object]]:
    common = {
        "isSidechain": False,
        "sessionId": "s",
        "cwd": "/proj",
        "version": "2.1.332",
        "timestamp": "2026-03-02T09:00:00.000Z",
    }
    size = int(chance.paretovariate(0.9) * 200) % 40_000
    text = "".join(
        chance.choice(("let me look ", "über die Datei\n", 'a "quoted" word ', "1234567 ")) for _ in range(20)
    )
    output = "def work(value):\n    return value + 1  # naïve\n" * (size // 45 + 1)
    call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "Read", "input": {"file_path": "/proj/a.py"}}
    reply = {"id": f"msg_{turn}", "role": "assistant", "usage": {"input_tokens": 9, "output_tokens": 9}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": output}
    yield {
        "parentUuid": parent, "type": "assistant", "uuid": f"a{turn}", **common,
        "message": {**reply, "content": [{"type": "text", "text": text}, call]},
    }  # fmt: skip
    yield {
        "parentUuid": f"a{turn}", "type": "user", "uuid": f"u{turn}", **common, "message": {"role": "user", "content": [result]},
        "toolUseResult": {"stdout": output, "stderr": "", "interrupted": False},
    }  # fmt: skip
    yield {
        "type": "progress",
        "uuid": f"p{turn}",
        "parentUuid": f"u{turn}",
        **common,
        "data": {"hookEvent": "PostToolUse"},
    }
    yield {"type": "last-prompt", "leafUuid": f"u{turn}", "sessionId": "s"}


def reading(rounds: int, megabytes: int) -> Iterator[Result]:
    """A corpus of about ``megabytes``, then one line of 30 MB."""
    with folder() as place:
        paths = corpus(place, max(1, megabytes * 1_000_000 // 2_600_000), 1_000)
        size = sum(p.stat().st_size for p in paths)
        few = paths[:4]

        def bare() -> None:
            for path in few:
                with open(path, "rb") as file:
                    for line in file:
                        json.loads(line)

        got = medians({"read": lambda: [reader.read(p) for p in few], "bare": bare}, rounds=min(rounds, 7), warm=1)
        share = sum(p.stat().st_size for p in few) / 1e6
        yield Result(
            "sessions: read / bare json.loads of the lines",
            got["read"] / got["bare"],
            1.0,
            "x",
            f"{share:.0f} MB, {ms(got['read'])}, {ms(got['bare'])}",
        )
        taken = int(
            subprocess.run(
                [sys.executable, "-c", _READ, *map(str, paths)], capture_output=True, text=True, check=True
            ).stdout
        )
        with open(paths[0], "rb") as file:
            longest = max(map(len, file)) / 1e6
        yield Result(
            f"sessions: memory over a corpus of {size / 1e6:.0f} MB (MB)",
            float(taken),
            64.0,
            "",
            f"longest line {longest:.2f} MB",
        )
        big = place / "big.jsonl"
        output = "a short line of output\n" * (30_000_000 // 23)
        big.write_text(
            json.dumps({"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": output}})
            + "\n"
        )
        got = medians(
            {"read": lambda: reader.read(big), "bare": lambda: json.loads(big.read_bytes())},
            rounds=min(rounds, 5),
            warm=1,
        )
        yield Result(
            "sessions: read a line of 30 MB / bare json.loads of the file",
            got["read"] / got["bare"],
            1.5,
            "x",
            ms(got["read"]),
        )
