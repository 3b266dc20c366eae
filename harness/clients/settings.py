"""Our entries in a client's settings file: put in, recognised, taken out, and not one other byte touched."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.clients import jsontext
from harness.clients.entries import LAUNCHER, entries, is_ours, problems_of
from harness.errors import HarnessError
from harness.workspace import resources

__all__ = ["ALLOW_RULE", "SettingsUnreadable", "allow_rule", "entries", "install", "installed", "problems", "remove"]

ALLOW_RULE = "Bash(harness feedback:*)"
BACKUP = ".harness-backup"
Groups = list[dict[str, Any]]


class SettingsUnreadable(HarnessError):
    """A settings file that is no JSON object is left alone. Repair it, then run `harness init` again."""


def install(path: Path | str, wanted: Mapping[str, Groups]) -> bool:
    """Merge ``wanted`` (event -> groups) into the settings file; True when it changed.

    Entries of ours that are there already and differ are replaced; everyone else's stay, byte for byte. The first
    change of a file leaves its old bytes in ``<name>.harness-backup``. Raises SettingsUnreadable, and then changes
    nothing. Entries that go through a launcher bring it along.
    """
    path = Path(path)
    launcher = _launcher(path) if any(_names_launcher(groups) for groups in wanted.values()) else False

    def change(text: str, backup: str | None) -> str:
        if installed_in(text) == {event: groups for event, groups in wanted.items() if groups}:
            return text
        text = _without_hooks(text, backup)
        for event, groups in wanted.items():
            for group in groups:
                text = _add_group(text, event, group)
        return text

    return _rewrite(path, change, create=True) or launcher


def allow_rule(path: Path | str, rule: str = ALLOW_RULE) -> bool:
    """Let agents run `harness feedback …` unasked, by a rule in ``permissions.allow``; True when it changed."""

    def change(text: str, backup: str | None) -> str:
        root = jsontext.parse(text)
        permissions = jsontext.find(root, ["permissions"])
        allow = jsontext.find(root, ["permissions", "allow"])
        if permissions is None:
            return jsontext.add(text, root, {"allow": [rule]}, "permissions")
        if allow is None:
            return jsontext.add(text, permissions, [rule], "allow")
        _must_be(allow, "array", "permissions.allow")
        return text if rule in jsontext.value(text, allow) else jsontext.add(text, allow, rule)

    return _rewrite(Path(path), change, create=True)


def remove(path: Path | str) -> bool:
    """Take out our hooks and our permission rule and nothing else; True when the file changed.

    What only we put into it goes: empty lists and objects that were not there before, and the file if it was ours.
    """
    path = Path(path)
    if path.is_file():
        backup = _backup_text(path)
        changed = _rewrite(path, _without_ours, create=False)
        if changed and backup is None and _whole(path) == {}:
            path.unlink()
        elif backup is not None and _read(path) == backup:
            _backup(path).unlink()
    else:
        changed = False
    launcher = path.parent / LAUNCHER
    if launcher.is_file() and launcher.read_bytes() == _launcher_bytes() and not _others_use_launcher(path):
        launcher.unlink()
        changed = True
    return changed


def installed(path: Path | str) -> dict[str, Groups]:
    """Our entries as the file has them, event -> groups; empty when there is no file."""
    path = Path(path)
    return _guarded(path, lambda: installed_in(_read(path))) if path.is_file() else {}


def problems(path: Path | str, *also: Path | str) -> list[str]:
    """What is wrong with the hooks in ``path``, one sentence each; ``also`` are other files in force beside it."""
    path = Path(path)
    if not path.is_file():
        return []
    value = _guarded(path, lambda: jsontext.value(text := _read(path), jsontext.parse(text)))
    others = []
    for other in map(Path, also):
        if other.is_file():
            others.append(
                (other.name, _guarded(other, lambda o=other: jsontext.value(t := _read(o), jsontext.parse(t))))
            )
    return problems_of(path.name, value, others)


# -- the text ----------------------------------------------------------------------------------------------------------


def installed_in(text: str) -> dict[str, Groups]:
    """Our groups in a settings text, each with our hooks only."""
    out: dict[str, Groups] = {}
    for event, _, group in _groups(text):
        found = jsontext.value(text, group)
        hooks = found.get("hooks") if isinstance(found, dict) else None
        ours = [hook for hook in hooks if is_ours(hook)] if isinstance(hooks, list) else []
        if ours:
            out.setdefault(event, []).append({**found, "hooks": ours})
    return out


def _groups(text: str) -> Iterator[tuple[str, jsontext.Node, jsontext.Node]]:
    """(event, its array, group) of a settings text."""
    root = jsontext.parse(text)
    _must_be(root, "object", "the file")
    hooks = jsontext.find(root, ["hooks"])
    if hooks is None:
        return
    _must_be(hooks, "object", "hooks")
    for event, _, _ in hooks.members:
        array = hooks.member(event)
        if array is not None:
            _must_be(array, "array", f"hooks.{event}")
            for group in array.items:
                yield event, array, group


def _add_group(text: str, event: str, group: dict[str, Any]) -> str:
    root = jsontext.parse(text)
    hooks = jsontext.find(root, ["hooks"])
    if hooks is None:
        return jsontext.add(text, root, {event: [group]}, "hooks")
    array = hooks.member(event)
    return jsontext.add(text, hooks, [group], event) if array is None else jsontext.add(text, array, group)


def _without_hooks(text: str, backup: str | None) -> str:
    while (shorter := _without_one(text, backup)) is not None:
        text = shorter
    return text


def _without_one(text: str, backup: str | None) -> str | None:
    """``text`` without the last hook of ours, and without what that leaves empty; None when there is none."""
    for event, array, group in reversed(list(_groups(text))):
        hooks = group.member("hooks") if group.kind == "object" else None
        if hooks is None or hooks.kind != "array":
            continue
        for index in reversed(range(len(hooks.items))):
            if is_ours(jsontext.value(text, hooks.items[index])):
                if len(hooks.items) > 1:
                    return jsontext.cut(text, hooks, index)
                text = jsontext.cut(text, array, array.items.index(group))
                return _without_empty(text, ["hooks", event], backup)
    return None


def _without_empty(text: str, keys: list[str], backup: str | None) -> str:
    """``text`` without the container under ``keys`` and those around it, as far as empty and not there before us."""
    before = jsontext.parse(backup) if backup is not None else None
    for depth in range(len(keys), 0, -1):
        root = jsontext.parse(text)
        node, parent = jsontext.find(root, keys[:depth]), jsontext.find(root, keys[: depth - 1])
        if node is None or parent is None or node.spans():
            break
        if before is not None and jsontext.find(before, keys[:depth]) is not None:
            break
        text = jsontext.cut(text, parent, [name for name, _, _ in parent.members].index(keys[depth - 1]))
    return text


def _without_rule(text: str, backup: str | None) -> str:
    path = ["permissions", "allow"]
    if backup is not None:
        old = jsontext.find(jsontext.parse(backup), path)
        if old is not None and ALLOW_RULE in jsontext.value(backup, old):
            return text
    allow = jsontext.find(jsontext.parse(text), path)
    if allow is None or allow.kind != "array" or ALLOW_RULE not in jsontext.value(text, allow):
        return text
    text = jsontext.cut(text, allow, jsontext.value(text, allow).index(ALLOW_RULE))
    return _without_empty(text, path, backup)


def _without_ours(text: str, backup: str | None) -> str:
    """``text`` without hooks and rule. Where nothing shows that we were here, a rule of that text is the user's own."""
    return _without_rule(_without_hooks(text, backup), backup) if installed_in(text) or backup is not None else text


def _must_be(node: jsontext.Node, kind: str, name: str) -> None:
    if node.kind != kind:
        raise ValueError(f"{name} is no {kind}")


# -- the file ----------------------------------------------------------------------------------------------------------


def _rewrite(path: Path, change: Any, *, create: bool) -> bool:
    """Apply ``change(text, backup)`` to the file and replace it whole; what somebody changes meanwhile is not lost."""
    for _ in range(5):
        old = _read(path) if path.is_file() else None
        if old is None and not create:
            return False
        text = "{}\n" if old is None else old
        new = _guarded(path, lambda text=text: change(text, _backup_text(path)))
        if new == text:
            return False
        if old is None:
            if _backup(path).exists():  # of a file that is gone; it may be the only copy
                _backup(path).replace(f"{_backup(path)}.old")
        elif not _guarded(path, lambda old=old: _touched(old, _backup_text(path))):
            _replace(_backup(path), old, path)
        if (_read(path) if path.is_file() else None) == old:
            _replace(path, new, path)
            return True
    raise SettingsUnreadable(f"{path} keeps changing", "another program writes it", "try again when it is quiet")


def _touched(text: str, backup: str | None) -> bool:
    """Whether a settings text has been changed by us already."""
    if installed_in(text):
        return True
    bare = _without_rule(text, backup)
    return bare != text and (backup is not None or jsontext.value(bare, jsontext.parse(bare)) == {})


def _guarded(path: Path, work: Any) -> Any:
    try:
        return work()
    except (ValueError, RecursionError) as error:
        raise SettingsUnreadable(
            f"{path} was left alone", str(error), "repair it, then run the command again"
        ) from error


def _read(path: Path) -> str:
    return _guarded(path, lambda: path.read_bytes().decode("utf-8"))  # type: ignore[no-any-return]


def _replace(path: Path, text: str, like: Path) -> None:
    """Put ``text`` at ``path`` (at what it links to) in one step, with the mode of the file ``like``."""
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        if like.exists():
            shutil.copymode(like, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _whole(path: Path) -> Any:
    """The value of a settings file."""
    text = _read(path)
    return _guarded(path, lambda: jsontext.value(text, jsontext.parse(text)))


def _backup(path: Path) -> Path:
    return path.with_name(path.name + BACKUP)


def _backup_text(path: Path) -> str | None:
    return _read(_backup(path)) if _backup(path).is_file() else None


# -- the launcher of a shared settings file ----------------------------------------------------------------------------


def _launcher_bytes() -> bytes:
    return (resources() / "hooks" / "run").read_bytes()


def _names_launcher(groups: Groups) -> bool:
    return any(LAUNCHER in str(hook.get("args")) for group in groups for hook in group["hooks"])


def _launcher(path: Path) -> bool:
    """Write the launcher beside the settings file; True when it changed."""
    place, data = path.parent / LAUNCHER, _launcher_bytes()
    if place.is_file() and place.read_bytes() == data:
        return False
    _replace(place, data.decode("utf-8"), resources() / "hooks" / "run")
    return True


def _others_use_launcher(path: Path) -> bool:
    files = [other for other in path.parent.glob("settings*.json") if other != path]
    return any(_names_launcher(groups) for other in files for groups in installed(other).values())
