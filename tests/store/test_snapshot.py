"""The first law: nothing takes effect until it is in a commit that the gate passed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fixtures.workspaces import LOADER, QUARANTINE, Place, row_tick

from harness.store import snapshot
from harness.store.errors import GateRefused
from harness.store.tick import sha256

OVERLAY = "skills/aeo/overlay.md"
BASE = "skills/aeo/SKILL.md"
GOOD_BASE = "---\nname: aeo\ndescription: d\n---\n# Aeo\n"
POLICY = "schemas/policy.yaml"
SETTINGS = "state/harness.yaml"


def now(place: Place) -> dict[str, Any]:
    return snapshot.now(place.workspace)


def by_hand(place: Place, path: str, text: str | None, *, verify: bool = False) -> None:
    """A commit that the store did not make; the workspace's own hooks run only with ``verify``."""
    if text is None:
        place.git("rm", "-q", "--", path)
    else:
        place.write(path, text)
        place.git("add", "--", path)
    off = () if verify else ("-c", "core.hooksPath=/dev/null")
    place.git(*off, "commit", "-q", "-m", "by hand", "--", path)


def test_a_tick_puts_its_texts_in_force(place: Place) -> None:
    place.put(BASE, GOOD_BASE)
    place.put(OVERLAY, "be brief\n")
    place.put(LOADER, "# Rules\n")
    assert snapshot.skill(place.workspace, "aeo") == {
        "skill": "aeo", "commit": place.head, "base_sha256": sha256(GOOD_BASE.encode()),
        "overlay": "be brief\n", "overlay_sha256": sha256(b"be brief\n"),
        "loader": "# Rules\n", "loader_sha256": sha256(b"# Rules\n"),
    }  # fmt: skip
    assert now(place)["commit"] == place.head
    assert now(place)["skills"]["aeo"] == {"names": ["aeo"], "overlay": True, "loader": True}
    assert now(place)["settings"] == snapshot.settings(place.workspace)


def test_a_skill_that_is_gone_is_gone_from_the_snapshot(place: Place) -> None:
    from harness.store.tick import Delete, Tick

    place.put(OVERLAY, "be brief\n")
    place.store.commit(Tick("human", "gone", [Delete(OVERLAY, sha256(b"be brief\n"))]))
    assert snapshot.skill(place.workspace, "aeo") == {}
    assert now(place)["skills"] == {}


def test_what_is_changed_on_disk_has_no_effect(place: Place) -> None:
    place.put(BASE, GOOD_BASE)
    place.put(OVERLAY, "be brief\n")
    place.put(LOADER, "# Rules\n")
    before, settings = snapshot.skill(place.workspace, "aeo"), now(place)["settings"]
    place.write(OVERLAY, "obey me\n")
    place.write(BASE, GOOD_BASE + "obey me\n")
    place.write(LOADER, "obey me\n")
    place.write(SETTINGS, "version: 1\nloader: {duty: off}\ndurability: fast\n")
    place.write(POLICY, "version: 1\npaths: [{path: '*', how: {replace: [human]}}]\n")
    place.write("schemas/quarantine.schema.json", "{}")
    place.tick(text="a")
    place.store.catch_up()
    after = snapshot.skill(place.workspace, "aeo")
    assert after == before
    assert now(place)["settings"] == settings == place.open().settings
    with pytest.raises(GateRefused):
        place.put("anything.txt", "x")
    with pytest.raises(GateRefused):
        place.store.commit(row_tick(text=5))
    assert sorted(place.porcelain()) == sorted(
        f" M {path}" for path in (OVERLAY, BASE, LOADER, SETTINGS, POLICY, "schemas/quarantine.schema.json")
    )


def test_staging_alone_has_no_effect(place: Place) -> None:
    place.put(OVERLAY, "be brief\n")
    place.write(OVERLAY, "obey me\n")
    place.git("add", OVERLAY)
    place.tick(text="a")
    assert snapshot.skill(place.workspace, "aeo")["overlay"] == "be brief\n"


def test_a_commit_by_hand_that_passes_is_taken_in(place: Place) -> None:
    by_hand(place, OVERLAY, "be brief\n")
    assert snapshot.skill(place.workspace, "aeo") == {}
    place.store.catch_up()
    assert snapshot.skill(place.workspace, "aeo")["overlay"] == "be brief\n"
    assert now(place)["commit"] == place.head
    by_hand(place, SETTINGS, "version: 1\nloader: {duty: ask}\n")
    place.tick(text="a")
    assert now(place)["settings"]["loader"]["duty"] == "ask"
    assert now(place)["unaccepted"] == {}


@pytest.mark.parametrize("text", ["x\n" * 101, "key sk-ant-" + "a1B2c3D4" * 6 + "\n"])
def test_a_commit_by_hand_that_the_gate_refuses_is_listed_and_not_in_force(place: Place, text: str) -> None:
    place.put(OVERLAY, "be brief\n")
    by_hand(place, OVERLAY, text)
    place.store.catch_up()
    assert snapshot.skill(place.workspace, "aeo")["overlay"] == "be brief\n"
    assert list(now(place)["unaccepted"]) == [OVERLAY]
    assert OVERLAY in now(place)["unaccepted"][OVERLAY]
    # Ticks on other files of the skill don't let it in by the back door.
    place.put(LOADER, "# Rules\n")
    place.tick(text="a")
    skill = snapshot.skill(place.workspace, "aeo")
    assert (skill["overlay"], skill["loader"]) == ("be brief\n", "# Rules\n")
    assert list(now(place)["unaccepted"]) == [OVERLAY]
    # Put right by hand, or by a tick, it is.
    by_hand(place, OVERLAY, "be very brief\n")
    place.store.catch_up()
    assert now(place)["unaccepted"] == {}
    assert snapshot.skill(place.workspace, "aeo")["overlay"] == "be very brief\n"


def test_a_tick_on_a_refused_file_settles_it(place: Place) -> None:
    by_hand(place, OVERLAY, "x\n" * 101)
    place.store.catch_up()
    assert list(now(place)["unaccepted"]) == [OVERLAY]
    place.put(OVERLAY, "short\n")
    assert now(place)["unaccepted"] == {}
    assert snapshot.skill(place.workspace, "aeo")["overlay"] == "short\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (POLICY, "version: 1\npaths: nonsense\n"),
        (POLICY, ": : :"),
        (POLICY, "version: 1\npaths: [{path: '*', how: {replace: [human]}, rules: [{rule: unheard-of}]}]\n"),
        (POLICY, None),
        ("schemas/quarantine.schema.json", "{"),
        ("schemas/quarantine.schema.json", '{"type": "thing"}'),
    ],
)
def test_a_gate_that_was_broken_by_hand_is_not_in_force(place: Place, path: str, text: str | None) -> None:
    by_hand(place, path, text)
    compiled = (place.workspace.snapshot / "policy.json").read_bytes()
    place.tick(text="a")
    assert list(now(place)["unaccepted"]) == [path]
    assert (place.workspace.snapshot / "policy.json").read_bytes() == compiled
    with pytest.raises(GateRefused):
        place.store.commit(row_tick(text=5))
    with pytest.raises(GateRefused):
        place.put("anything.txt", "x")
    place.git("checkout", "-q", "HEAD~2", "--", path)
    place.git("-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "put back")
    place.tick(text="b")
    assert now(place)["unaccepted"] == {}
    assert place.texts() == ["a", "b"]


def test_settings_broken_by_hand_leave_the_ones_before_in_force(place: Place) -> None:
    by_hand(place, SETTINGS, "version: 1\nloader: {duty: ask}\n")
    place.store.catch_up()
    by_hand(place, SETTINGS, "version: 1\nloader: {duty: shout}\n")
    place.tick(text="a")
    assert now(place)["settings"]["loader"]["duty"] == "ask"
    assert list(now(place)["unaccepted"]) == [SETTINGS]


def test_a_policy_changed_by_hand_judges_from_then_on(place: Place) -> None:
    text = (place.root / POLICY).read_text() + "\n  - {path: extra/*, how: {replace: [human]}}\n"
    by_hand(place, POLICY, text)
    place.put("extra/a.txt", "x\n")
    assert now(place)["unaccepted"] == {}
    assert any(
        entry["path"] == "extra/*"
        for entry in json.loads((place.workspace.snapshot / "policy.json").read_bytes())["paths"]
    )


def test_a_policy_cannot_wave_itself_through(place: Place) -> None:
    # A commit that both loosens the gate and uses the looser gate is judged by the gate before it.
    loose = (place.root / POLICY).read_text().replace("lines: 100, bytes: 16384", "lines: 1000, bytes: 163840")
    place.write(POLICY, loose)
    place.write(OVERLAY, "x\n" * 101)
    place.git("add", "-A")
    place.git("commit", "-q", "--no-verify", "-m", "both")
    place.store.catch_up()
    assert list(now(place)["unaccepted"]) == [OVERLAY]


def test_a_branch_switch_puts_that_branchs_texts_in_force(place: Place) -> None:
    place.put(OVERLAY, "main\n")
    place.git("switch", "-q", "-c", "other")
    place.put(OVERLAY, "other\n")
    place.git("switch", "-q", "main")
    place.store.catch_up()
    assert snapshot.skill(place.workspace, "aeo")["overlay"] == "main\n"
    place.git("reset", "-q", "--hard", "HEAD~1")
    place.store.catch_up()
    assert snapshot.skill(place.workspace, "aeo") == {}


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", None])
def test_a_lost_snapshot_is_made_again(place: Place, damage: bytes | None) -> None:
    place.put(OVERLAY, "be brief\n")
    skill, file = snapshot.skill(place.workspace, "aeo"), place.workspace.snapshot / "now.json"
    place.close()
    if damage is None:
        import shutil

        shutil.rmtree(place.workspace.snapshot)
    else:
        file.write_bytes(damage)
    place.store.catch_up()
    assert snapshot.skill(place.workspace, "aeo") == skill
    assert now(place)["commit"] == place.head
    assert place.texts(QUARANTINE) == []
    place.tick(text="a")


def test_rewritten_history_is_taken_in_whole(place: Place) -> None:
    place.put(OVERLAY, "one\n")
    place.put(OVERLAY, "two\n")
    place.git("commit", "-q", "--no-verify", "--amend", "-m", "amended")
    place.git("reflog", "expire", "--expire=now", "--all")
    place.git("update-ref", "-d", "refs/worktree/harness-scratch", ok=(0, 1))
    place.git("gc", "-q", "--prune=now")
    place.store.catch_up()
    assert now(place)["commit"] == place.head
    assert snapshot.skill(place.workspace, "aeo")["overlay"] == "two\n"


def test_the_notices_of_others_are_kept(place: Place) -> None:
    with place.store.locked():
        snapshot.update(place.workspace, notices=[{"id": "x", "text": "y"}])
    place.tick(text="a")
    assert now(place)["notices"] == [{"id": "x", "text": "y"}]
