"""What can't be read is an error, never an absence: taken for one, the next commit would be made without it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from fixtures.workspaces import QUARANTINE, Place, row_tick

from harness.errors import HarnessError
from harness.store.git import GitError


def answering(text: str) -> subprocess.Popen[bytes]:
    """A reading process that dies after it has said ``text``."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(["sh", "-c", 'read -r _; printf "%b" "$1"; cat', "sh", text], **pipes)


@pytest.mark.parametrize("half", ["", "4b825dc642cb", "4b825dc642cb6eb9a060e54bf8d69288fbee4904 tree 90\\n100644 ab"])
def test_a_reader_that_dies_in_the_middle_of_its_answer(place: Place, half: str) -> None:
    git = place.store.git
    git.close()
    git._reader = answering(half)
    assert git._reader.stdin
    # What `cat` waits for: the reader ends when nobody can ask any more.
    with git._reader.stdin as to:
        to.write(b"\n")
        git._reader.stdin = open("/dev/null", "wb")  # noqa: SIM115
    with pytest.raises(GitError):
        git.object("HEAD:")
    assert place.tick(text="and on").commit


def objects(place: Place, *names: str) -> list[Path]:
    ids = [place.git("rev-parse", name) for name in names]
    return [place.workspace.git_dir / "objects" / one[:2] / one[2:] for one in ids]


@pytest.mark.parametrize("name", [f"HEAD:{QUARANTINE}", "HEAD:state/log", "HEAD:state", "HEAD:"])
def test_a_tick_on_top_of_what_cannot_be_read_is_no_tick(place: Place, name: str) -> None:
    place.tick(text="before")
    head, [path] = place.head, objects(place, name)
    place.close()
    aside = path.with_name("aside")
    path.rename(aside)
    with pytest.raises(HarnessError):
        place.store.commit(row_tick(text="lost?"))
    assert place.head == head
    aside.rename(path)
    place.close()
    place.store.catch_up()
    place.tick(text="after")
    assert [text for text in place.texts() if text != "lost?"] == ["before", "after"]
    assert place.porcelain() == []
    place.healthy()
