"""The YAML frontmatter of a SKILL.md. Values stay as they are written: `1.10` is no number, a date is no object."""

from __future__ import annotations

import re
from typing import Any, Final

MAX_BYTES: Final = 64 * 1024
MAX_ALIASES: Final = 20
MAX_DEPTH: Final = 30

_START: Final = re.compile(r"\ufeff?---[ \t]*(?:\r\n|\n|\r)")
_END: Final = re.compile(r"^---[ \t]*(?:\r\n|\n|\r|\Z)", re.M)


def split(text: str) -> tuple[dict[str, Any] | None, str, list[str]]:
    """(fields, body, errors) of ``text``.

    Fields are None when there are none to be had, and ``errors`` then says why, with line, column and what to do; the
    body is what stands behind the end mark, byte for byte, or the whole text. A byte order mark and Windows line ends
    are fine. Aliases that would unfold to gigabytes, and tags that name Python objects, are errors.
    """
    start = _START.match(text)
    if start is None:
        return None, text, ["no frontmatter: the file does not begin with `---`"]
    end = _END.search(text, start.end())
    if end is None:
        return None, text, ["the frontmatter has no end mark: put `---` on a line of its own behind its last field"]
    head, body = text[start.end() : end.start()], text[end.end() :]
    if len(head.encode("utf-8", "replace")) > MAX_BYTES:
        return None, body, [f"the frontmatter has over {MAX_BYTES} bytes"]
    value, error = _load(head)
    if error:
        return None, body, [error]
    if not isinstance(value, dict):
        return None, body, ["the frontmatter is no mapping: write `name: value` lines"]
    return {str(key): one for key, one in value.items()}, body, []


def _load(head: str) -> tuple[Any, str]:
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import SafeConstructor
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

    class AsWritten(SafeConstructor):
        pass

    for kind in ("float", "timestamp"):
        AsWritten.add_constructor(f"tag:yaml.org,2002:{kind}", SafeConstructor.construct_yaml_str)
    try:
        yaml = YAML(typ="safe", pure=True)
        yaml.Constructor = AsWritten
        aliases = depth = 0
        for event in yaml.parse(head):
            aliases += isinstance(event, AliasEvent)
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if aliases > MAX_ALIASES or depth > MAX_DEPTH:
                return None, f"over {MAX_ALIASES} aliases, or nested over {MAX_DEPTH} deep: write it plainly"
        yaml = YAML(typ="safe", pure=True)
        yaml.Constructor = AsWritten
        value = yaml.load(head)
        return {} if value is None else value, ""
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 2}, column {mark.column + 1}: " if mark else ""
        why = " ".join(str(error.problem or "not valid YAML").split())[:200]
        hint = "; put the value in quotes" if "mapping values are not allowed" in why else ""
        return None, f"{where}{why}{hint}"
    except (YAMLError, ValueError, LookupError, ArithmeticError, RecursionError, TypeError, AttributeError) as error:
        # ruamel lets some input of its own down with plain errors: an unhashable key, nesting, a broken number.
        return None, f"not valid YAML: {' '.join(str(error).split())[:200] or type(error).__name__}"
