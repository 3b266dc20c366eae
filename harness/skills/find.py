"""Which skills there are, where their bases lie, and which folder of the workspace holds what was learned of each.

A skill is called by the name of its folder; the `name` of its frontmatter, and for a plugin's skill the name with the
plugin before it, are accepted too. Sources, later wins: packaged, plugin, user, project, workspace.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.errors import USAGE, HarnessError
from harness.workspace import resources

SOURCES: Final = ("packaged", "plugin", "user", "project", "workspace")
_NAME: Final = re.compile(rb"^name:[ \t]*(['\"]?)([^\s'\"#:]+)\1[ \t\r]*$", re.M)
_HEAD: Final = 4096
NO_SKILL: Final = "no skill "


@dataclass(frozen=True)
class Skill:
    """A base.

    ``folder`` is where the workspace keeps what was learned of it (`skills/<folder>/`), ``name`` its own folder's name,
    ``source`` one of SOURCES, ``path`` the folder with its SKILL.md, ``names`` all that it answers to.
    """

    folder: str
    name: str
    source: str
    path: Path
    names: tuple[str, ...]


class UnknownSkill(HarnessError):
    """No skill of that name is installed, and nothing was learned of one."""

    exit_code = USAGE


@dataclass(frozen=True)
class _Base:
    name: str
    source: str
    path: Path
    plugin: str = ""


def find_all(workspace_root: Path, project: Path | None, home: Path, env: Mapping[str, str]) -> list[Skill]:
    """All bases, in the order of SOURCES. What can't be read is passed over: a broken plugin hides no other skill.

    Two bases with one name (in any case) get two folders: `<name>` for the one in the workspace, else the one whose
    lessons the workspace already keeps, else the one that wins; `<source>~<name>` (for plugins `<plugin>~<name>`) for
    the others.
    """
    config = Path(env.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    found: dict[str, _Base] = {}
    for base in _bases(workspace_root, project, config):
        # One folder that is reached twice (a link, or the home as project) is one base, of the later source.
        real = os.path.realpath(base.path)
        found.pop(real, None)
        found[real] = base
    groups: dict[str, list[_Base]] = {}
    for base in found.values():
        groups.setdefault(_key(base.name), []).append(base)
    owners = {key: _owner(group, workspace_root) for key, group in groups.items()}
    skills, taken = [], set()
    for base in found.values():
        folder = base.name
        if base is not owners[_key(base.name)]:
            folder = f"{base.plugin or base.source}~{base.name}"
            number = 2
            while folder in taken:
                folder, number = f"{base.plugin or base.source}~{base.name}~{number}", number + 1
        taken.add(folder)
        skills.append(Skill(folder, base.name, base.source, base.path, _names(base, folder)))
    return skills


def resolve(name: str, skills: Iterable[Skill], learned: Iterable[str]) -> str:
    """The workspace folder of the skill called ``name``: a folder's own name, any of a base's names (of two, the later
    source wins), or, for a plugin that isn't installed here, the one skill of that short name. ``learned`` are the
    folders that the workspace has, with or without a base. Raises UnknownSkill, which lists near names."""
    bases, wanted = list(skills), _key(name)
    folders = {_key(folder): folder for folder in (*learned, *(s.folder for s in bases))}
    if wanted in folders:
        return folders[wanted]
    for skill in reversed(bases):
        if wanted in map(_key, skill.names):
            return skill.folder
    plugin, colon, short = wanted.partition(":")
    if colon and plugin and short:
        same = {s.folder for s in bases if _key(s.name) == short} | ({folders[short]} if short in folders else set())
        if len(same) == 1:
            return same.pop()
    known = sorted({*folders.values(), *(n for s in bases for n in s.names)})
    near = difflib.get_close_matches(name[:100], known, 3, 0.6)
    shown = "".join(c if c.isprintable() else "?" for c in name)[:100]
    hint = f"do you mean {', '.join(near)}?" if near else f"known: {', '.join(known[:8])}" if known else ""
    raise UnknownSkill(f"{NO_SKILL}{shown!r}", "", hint or "add one: skills/NAME/SKILL.md")


def _bases(workspace_root: Path, project: Path | None, config: Path) -> Iterator[_Base]:
    yield from _in(resources() / "skills", "packaged")
    for plugin, root in _plugins(config):
        yield from _in(root / "skills", "plugin", plugin)
    yield from _in(config / "skills", "user")
    if project is not None:
        yield from _in(project / ".claude" / "skills", "project")
    yield from _in(workspace_root / "skills", "workspace")


def _in(folder: Path, source: str, plugin: str = "") -> Iterator[_Base]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith("."))
    except OSError:
        return
    for name in names:
        try:
            if (folder / name / "SKILL.md").is_file():
                yield _Base(name, source, folder / name, plugin)
        except OSError:
            continue


def _plugins(config: Path) -> Iterator[tuple[str, Path]]:
    """(name, folder) of each installed plugin, by the client's own list; a disabled one may have run before."""
    value = _json(config / "plugins" / "installed_plugins.json")
    listed = value.get("plugins")
    for key, installs in sorted(listed.items()) if isinstance(listed, dict) else ():
        for install in installs if isinstance(installs, list) else [installs]:
            path = install.get("installPath") if isinstance(install, dict) else None
            if isinstance(path, str) and path and "\0" not in path:
                yield str(key).partition("@")[0], Path(path)


def _names(base: _Base, folder: str) -> tuple[str, ...]:
    names = [base.name, folder]
    try:
        with open(base.path / "SKILL.md", "rb") as file:
            head = file.read(_HEAD)
    except OSError:
        head = b""
    block = head.removeprefix(b"\xef\xbb\xbf").partition(b"---")[2].partition(b"\n---")[0]
    if found := _NAME.search(block):
        names.append(found[2].decode("utf-8", "replace"))
    if base.plugin:
        names += [f"{base.plugin}:{name}" for name in names if name != folder or name == base.name]
    return tuple(dict.fromkeys(names))


def _owner(group: list[_Base], root: Path) -> _Base:
    """Which of the bases with one name has the folder of that name."""
    last = group[-1]
    if len(group) == 1 or last.source == "workspace":
        return last
    for base in group:
        if _json(root / "skills" / base.name / "origin.json").get("path") == str(base.path):
            return base
    origin = _json(root / "skills" / last.name / "origin.json").get("source")
    same = [base for base in group if base.source == origin]
    return same[0] if len(same) == 1 else last


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
