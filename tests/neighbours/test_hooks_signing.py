"""A person's hooks, signers, templates and editors: none of them runs, unless signing is asked for, and then not for ever."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fixtures.workspaces import FEEDBACK, PERSON, QUARANTINE, Place, row, run
from store.signing import signer, working_signer

from harness.store import commit as commit_module
from harness.store.errors import Deferred
from harness.store.tick import Append, Tick

SIGN = "version: 1\nsign: true\n"


def hook(place: Place, name: str, text: str) -> None:
    path = place.workspace.git_dir / "hooks" / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def test_G_07_a_tick_from_within_a_persons_commit_waits_for_it(place: Place) -> None:

    place.script("G-07")
    command = f'"{sys.executable}" -P -m harness --workspace "{place.root}" feedback feedback "from the hook" || :'
    done = run(["git", "commit", "-q", "-m", "user"], place.root, env={**PERSON, "TICK_CMD": command})
    assert done.returncode == 0, done.stderr
    mine = place.git("log", "--format=%H", "--grep=^user$")
    assert place.changed(mine) == ["a.txt"]
    place.harness("observe", ok=(0,))
    assert place.texts(FEEDBACK) == ["from the hook"]
    assert place.porcelain() == []
    place.healthy()


def test_G_21_unsigned_by_default_and_said_so(place: Place, tmp_path: Path) -> None:
    working_signer(place, tmp_path)
    place.tick(text="a")
    assert place.git("log", "-1", "--format=%G?") == "N"
    state = place.status()
    assert "not signed" in state["signing"]
    assert "harness settings sign true" in state["signing"]


def test_G_21_signed_when_the_settings_say_so(place: Place, tmp_path: Path) -> None:
    working_signer(place, tmp_path)
    place.put("state/harness.yaml", SIGN, "settings")
    place.tick(text="a")
    raw = place.git("cat-file", "commit", "HEAD")
    assert "gpgsig -----BEGIN PGP SIGNATURE-----" in raw
    place.store.commit_all([Tick("feedback", str(n), [Append(QUARANTINE, row(text=str(n)))]) for n in range(3)])
    assert all("gpgsig" in place.git("cat-file", "commit", f"HEAD~{n}") for n in range(3))
    assert place.texts() == ["a", "0", "1", "2"]
    assert "are signed" in place.status()["signing"]
    assert place.porcelain() == []
    place.healthy()


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh\nsleep 600\n",
        "#!/bin/sh\nsleep 600 & exec sleep 600\n",
        "#!/bin/sh\nread answer < /dev/tty\nexit 1\n",
        "#!/bin/sh\nexit 1\n",
    ],
)
def test_a_signer_that_hangs_or_fails_defers_the_tick(
    place: Place, tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    working_signer(place, tmp_path)
    place.put("state/harness.yaml", SIGN, "settings")
    signer(place, tmp_path, text)
    monkeypatch.setattr(commit_module, "_SIGN_SECONDS", 0.5)
    before = place.head
    with pytest.raises(Deferred, match="no signature"):
        place.tick(text="a")
    assert place.head == before
    assert place.porcelain() == []
    assert len(place.status(ok=(3,))["deferred"]) == 1
    working_signer(place, tmp_path)
    place.tick(text="b")
    assert place.texts() == ["a", "b"]
    place.healthy()


def test_a_signer_is_not_called_by_default(place: Place, tmp_path: Path) -> None:
    signer(place, tmp_path, f"#!/bin/sh\ntouch '{tmp_path}/called'\nsleep 600\n")
    place.tick(text="a")
    place.store.commit_all([Tick("feedback", str(n), [Append(QUARANTINE, row(text=str(n)))]) for n in range(30)])
    assert not (tmp_path / "called").exists()
    assert place.count() == 32


def test_G_22_hooks_that_reject_do_not_run_for_ticks(place: Place) -> None:
    place.script("G-22")
    for n in range(5):
        place.tick(text=str(n))
    for name in ("pre-commit", "commit-msg"):
        (place.workspace.git_dir / "hooks" / name).unlink()
    place.tick(text="5")
    assert place.texts() == list("012345")
    assert place.count() == 7


def test_G_22_also_through_core_hookspath(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "hooks"
    folder.mkdir()
    for name in ("pre-commit", "commit-msg", "reference-transaction", "post-commit", "pre-auto-gc"):
        (folder / name).write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran-{name}'\nexit 1\n")
        (folder / name).chmod(0o755)
    place.git("config", "core.hooksPath", str(folder))
    place.tick(text="a")
    place.store.commit_all([Tick("feedback", str(n), [Append(QUARANTINE, row(text=str(n)))]) for n in range(30)])
    assert not list(tmp_path.glob("ran-*"))
    assert place.count() == 32


def test_G_23_a_hook_that_takes_changes_back_makes_no_empty_commit(place: Place) -> None:
    hook(place, "pre-commit", "git checkout HEAD -- state 2>/dev/null; git reset -q HEAD -- state; exit 0\n")
    for n in range(3):
        place.tick(text=str(n))
    assert place.texts() == list("012")
    assert place.count() == 4
    for commit in place.git("rev-list", "HEAD").split("\n"):
        assert place.changed(commit) != [""]


def test_G_24_no_editor_and_the_message_as_it_is(place: Place, tmp_path: Path) -> None:
    (place.root.parent / "tmpl").write_text("from the template\n")
    for name, value in (
        ("commit.template", str(place.root.parent / "tmpl")), ("core.editor", f"touch '{tmp_path}/edited'; sleep 600 #"),
        ("commit.verbose", "true"), ("commit.cleanup", "scissors"), ("core.commentChar", "#"),
    ):  # fmt: skip
        place.git("config", name, value)
    body = "# a heading\n# ------------------------ >8 ------------------------\nDo not modify\n\n\nend   "
    tick = Tick("feedback", "#1 first", [Append(QUARANTINE, row())], {}, body)
    place.store.commit(tick)
    assert place.git("cat-file", "commit", "HEAD").partition("\n\n")[2] + "\n" == tick.message()
    assert place.message().startswith("feedback: #1 first\n\n# a heading\n")
    assert not (tmp_path / "edited").exists()
