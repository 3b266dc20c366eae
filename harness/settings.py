"""A workspace's settings: the defaults, what ``state/harness.yaml`` says beside them, and edits that keep its comments."""

from __future__ import annotations

import copy
import io
from collections.abc import Mapping
from typing import Any, Final

from harness.errors import USAGE, HarnessError

DEFAULTS: Final[dict[str, Any]] = {
    "version": 1,
    "loader": {"duty": "remind", "review": False},
    "drain": {"on": "session_end", "budget": {"regens": 5, "seconds": 600}},
    "regen": {
        "kp": 1.0, "ki": 0.25, "kd": 0.5, "integral_max": 5.0, "threshold": 0.75,
        "backoff_minutes": 10, "max_attempts": 3, "area_limit": 3, "area_days": 7,
    },
    "dispatch": {"preset": "fold", "command": [], "timeout": 300, "daily_calls": 50, "daily_usd": 5.0},
    "ledger": {"url": ""},
    "deliver": {"command": [], "webhook": "", "timeout": 60},
    "notify": {"command": []},
    "taste": {"half_life_days": 0},
    "durability": "safe",
    "sign": False,
    "lock_wait": 10,
}  # fmt: skip


class BadSetting(HarnessError):
    """A setting that doesn't exist, or a value it can't have."""

    exit_code = USAGE


def merged(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The defaults with ``given`` laid over them, mapping by mapping. What isn't a mapping is ignored, never guessed."""
    out = copy.deepcopy(DEFAULTS)
    if isinstance(given, Mapping):
        _lay(out, given)
    return out


def _lay(under: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(under.get(key), dict):
            if isinstance(value, Mapping):
                _lay(under[key], value)
        elif key in under:
            under[key] = value


def get(settings: Mapping[str, Any], dotted: str) -> Any:
    """The value of ``dotted`` (``loader.duty``); BadSetting when there is none of that name."""
    value: Any = settings
    for part in dotted.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise BadSetting(f"no setting {dotted!r}", "", "see `harness settings` for all of them")
        value = value[part]
    return value


def with_value(text: str, dotted: str, value: Any) -> str:
    """``text`` (YAML) with the setting ``dotted`` set to ``value``; comments, order and quotes are kept."""
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap

    get(DEFAULTS, dotted)
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    document = yaml.load(text)
    if not isinstance(document, CommentedMap):
        document = CommentedMap()
    place = document
    *parents, last = dotted.split(".")
    for part in parents:
        if not isinstance(place.get(part), CommentedMap):
            place[part] = CommentedMap()
        place = place[part]
    place[last] = value
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()
