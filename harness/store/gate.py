"""The gate: does a tick pass the policy? Pure; it answers with refusals and touches nothing."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.store.change import Broken, Change
from harness.store.errors import Refusal
from harness.store.rules import RULES
from harness.store.tick import KINDS, Append, Delete, Replace, Take, Tick, Write

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_ROW_BYTES = 32_768
_USUAL_IDS = re.compile(rb'"id":"([0-9A-Za-z]+)(?=")')
_MAX_VALUES = 100_000
SEGMENT = re.compile(r"(?P<ledger>.+\.(?:ndjson|jsonl))\.d/[^/]+\.ndjson")
_VERBS = {Append: "append", Replace: "replace", Delete: "delete", Take: "take"}


@dataclass(frozen=True)
class Policy:
    """The map of what may be written: the parsed ``schemas/policy.yaml`` and a way to get a compiled schema by name."""

    entries: Sequence[Mapping[str, Any]]
    validator: Callable[[str], Any] = field(default=lambda name: None)
    _found: dict[str, Mapping[str, Any] | None] = field(default_factory=dict, repr=False, compare=False)

    def entry(self, path: str) -> Mapping[str, Any] | None:
        """The entry that covers ``path``: the first whose pattern matches. Sealed segments follow their ledger."""
        sealed = SEGMENT.fullmatch(path)
        wanted = sealed["ledger"] if sealed else path
        if wanted not in self._found:
            self._found[wanted] = next((e for e in self.entries if _matches(e["path"], wanted)), None)
        return self._found[wanted]


def _matches(pattern: str, path: str) -> bool:
    ours, theirs = pattern.split("/"), path.split("/")
    return len(ours) == len(theirs) and all(
        re.fullmatch(re.escape(o).replace(r"\*", ".*"), t) is not None for o, t in zip(ours, theirs, strict=True)
    )


def bad_path(path: str) -> str | None:
    """Why ``path`` can't be a path inside a workspace, or None."""
    parts = path.split("/")
    if not path or path.startswith("/") or "\\" in path or (len(path) > 1 and path[1] == ":"):
        return "not a relative path with forward slashes"
    if any(part in ("", ".", "..") for part in parts):
        return "empty, `.` or `..` in the path"
    if any(part.lower() == ".git" or part.lower().startswith(".git~") for part in parts):
        return "inside a git folder"
    if not path.isprintable() or len(path) > 1024:
        return "control characters, or over 1,024 characters"
    return None


def check(
    tick: Tick, before: Callable[[str], bytes | None], policy: Policy, passed: Collection[str] = ()
) -> list[Refusal]:
    """Every reason to refuse ``tick``; an empty list lets it pass.

    ``before(path)`` gives the committed bytes of a file, or None. ``passed`` are ledgers whose rows in this tick have been
    judged one by one already; what rows have to do with one another is still looked at.
    """
    if tick.kind not in KINDS:
        return [Refusal("", "kind", f"{tick.kind!r} is no kind of tick", f"use one of: {', '.join(KINDS)}")]
    before = functools.cache(before)
    known = _known(before)
    refusals: list[Refusal] = []
    ids: set[str] = set()
    replaced: set[str] = set()
    for write in tick.writes:
        if write.path not in passed:
            refusals += _check_write(tick, write, before, policy)
        if isinstance(write, Append):
            row_id = str(write.row.get("id", ""))
            if row_id and (row_id in ids or known(write.path, row_id)):
                refusals.append(Refusal(write.path, "unique-id", f"the id {row_id} is taken", "mint a new id", "/id"))
            ids.add(row_id)
        elif write.path in replaced:
            refusals.append(Refusal(write.path, "once", "written twice in one tick", "make it one write"))
        else:
            replaced.add(write.path)
    return refusals


def _known(before: Callable[[str], bytes | None]) -> Callable[[str, str], bool]:
    """Whether the committed ledger at a path has a row with an id. A tick may add thousands of rows to one ledger, so the
    usual ids in it are looked for once."""
    usual = functools.cache(lambda path: frozenset(_USUAL_IDS.findall(before(path) or b"")))

    def known(path: str, row_id: str) -> bool:
        sought = row_id.encode("utf-8", "replace")
        if row_id.isascii() and row_id.isalnum():
            return sought in usual(path)
        return b'"id":"%s"' % sought in (before(path) or b"")

    return known


def _check_write(tick: Tick, write: Write, before: Callable[[str], bytes | None], policy: Policy) -> Iterator[Refusal]:
    path, verb = write.path, _VERBS[type(write)]
    if why := bad_path(path):
        yield Refusal(path, "path", why, "give a path relative to the workspace")
        return
    entry = policy.entry(path)
    if entry is None:
        yield Refusal(
            path, "covered", "no entry of schemas/policy.yaml covers it", "write to a path that the policy names"
        )
        return
    may = entry["how"].get(verb, [])
    if tick.kind not in may:
        who = f"a {tick.kind} tick may not {verb} it"
        yield Refusal(path, "kind", who, entry.get("instead") or f"{verb} is for: {', '.join(may) or 'nobody'}")
        return
    for trailer in entry.get("needs", {}).get(tick.kind, ()):
        if not tick.trailers.get(trailer):
            todo = entry.get("instead") or f"name it in the trailer {trailer}"
            yield Refusal(path, "needs", f"a {tick.kind} tick of it needs {trailer}", todo)
    if isinstance(write, Append):
        yield from _check_row(path, write, tick.kind, entry, policy)
    elif isinstance(write, Replace):
        old = before(path)
        old_text = None if old is None else old.decode("utf-8", "replace")
        yield from _check_text(path, old_text, write.text, tick.kind, entry, policy)
    elif isinstance(write, Take):
        old = before(path) or b""
        if not write.data.startswith(old) and not _rotated(tick, path, old, before):
            yield Refusal(path, "append-only", "does not continue what is committed", "only add lines at its end")


def _rotated(tick: Tick, path: str, old: bytes, before: Callable[[str], bytes | None]) -> bool:
    """Whether ``tick`` keeps what the log ``path`` held in a new part of it, so that the log may begin anew."""
    return any(
        isinstance(w, Take) and w.path.startswith(f"{path}.d/") and before(w.path) is None and w.data.startswith(old)
        for w in tick.writes
    )


def _check_row(path: str, write: Append, kind: str, entry: Mapping[str, Any], policy: Policy) -> Iterator[Refusal]:
    try:
        line = write.line
    except (ValueError, TypeError, RecursionError) as error:
        yield Refusal(path, "json", f"the row is no JSON: {error}", "give plain values")
        return
    if len(line) > MAX_ROW_BYTES:
        yield Refusal(path, "row-size", f"{len(line)} bytes, at most {MAX_ROW_BYTES}", "clip the long field and say so")
    if schema := entry.get("row"):
        yield from schema_refusals(path, write.row, schema, policy)
    text = line.decode("utf-8")
    yield from _apply_rules(path, None, text, kind, entry)


def _check_text(
    path: str, old: str | None, new: str, kind: str, entry: Mapping[str, Any], policy: Policy
) -> Iterator[Refusal]:
    if "\0" in new:
        yield Refusal(path, "text", "holds a NUL byte", "write text")
        return
    if schema := entry.get("frontmatter"):
        meta, why = frontmatter(new)
        if meta is None:
            yield Refusal(path, "frontmatter", why, "begin the file with `---`, the YAML fields and `---`", "line 1")
        else:
            yield from schema_refusals(path, meta, schema, policy)
    if schema := entry.get("document"):
        document, why = parse_document(path, new)
        if why:
            yield Refusal(path, "document", why, "write valid " + ("JSON" if path.endswith(".json") else "YAML"))
        else:
            yield from schema_refusals(path, document, schema, policy)
    yield from _apply_rules(path, old, new, kind, entry)


def _apply_rules(path: str, old: str | None, new: str, kind: str, entry: Mapping[str, Any]) -> Iterator[Refusal]:
    for rule in entry.get("rules", ()):
        if kind not in rule.get("kinds", (kind,)):
            continue
        if rule["rule"] not in RULES:
            yield Refusal(path, rule["rule"], "this version of harness doesn't know the rule", "install a newer one")
        else:
            for broken in RULES[rule["rule"]](Change(old, new, rule)):
                yield refusal(path, rule["rule"], broken)


def refusal(path: str, rule: str, broken: Broken) -> Refusal:
    """The refusal that a broken rule stands for."""
    return Refusal(path, rule, broken.found, broken.todo, broken.pointer)


def schema_refusals(path: str, value: Any, schema: str, policy: Policy) -> Iterator[Refusal]:
    """The ways in which ``value`` breaks the JSON Schema named ``schema``, at most five."""
    try:
        validator = policy.validator(schema)
    except ValueError as why:
        yield Refusal(path, "schema", f"schemas/{schema}.schema.json does not parse: {why}", "repair it")
        return
    if validator is None:
        yield Refusal(path, "schema", f"schemas/{schema}.schema.json is missing", "run `harness init` again")
        return
    for error, _ in zip(validator.iter_errors(value), range(5), strict=False):
        pointer = "/" + "/".join(str(part) for part in error.absolute_path)
        message = error.message if len(error.message) < 200 else error.message[:200] + "…"
        yield Refusal(path, f"schema {schema}", message, f"see schemas/{schema}.schema.json", pointer)


def frontmatter(text: str) -> tuple[dict[str, Any] | None, str]:
    """The YAML frontmatter of ``text`` as plain values, or (None, why not)."""
    match = re.match(r"\ufeff?---[ \t]*\r?\n(.*?)(?:\r?\n)?---[ \t]*(?:\r?\n|\Z)", text, re.S)
    if match is None:
        return None, "no frontmatter"
    value, why = parse_document("frontmatter.yaml", match[1])
    if why:
        return None, why
    return (value, "") if isinstance(value, dict) else (None, "the frontmatter is not a mapping")


def parse_document(path: str, text: str) -> tuple[Any, str]:
    """(value, "") of a JSON or YAML text, or (None, why it does not parse)."""
    if path.endswith(".json"):
        try:
            return json.loads(text), ""
        except (ValueError, RecursionError) as error:
            return None, str(error)
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return _plain(YAML(typ="safe", pure=True).load(text), iter(range(_MAX_VALUES))), ""
    except (YAMLError, ValueError, LookupError, ArithmeticError, RecursionError, TypeError, AttributeError) as error:
        # ruamel lets some input of its own down with plain errors: `!!int` without a value, an unhashable key.
        return None, " ".join(str(error).split())[:300] or type(error).__name__


def _plain(value: Any, budget: Iterator[int]) -> Any:
    """A YAML value as JSON has them: dates become text. Ten lines of aliases can stand for billions of values: bounded."""
    if next(budget, None) is None:
        raise ValueError(f"more than {_MAX_VALUES} values")
    if isinstance(value, dict):
        return {str(key): _plain(one, budget) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(one, budget) for one in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def judge_agent_write(path: str, before: str | None, after: str, policy: Mapping[str, Any]) -> list[Refusal]:
    """What the gate says to a client's Write or Edit of ``path`` (relative to the workspace).

    ``policy`` is the compiled policy of the snapshot. A path's entry names the kind of tick that an agent's own edit
    becomes (``agent: fix``); without one, agents don't write there. Standard library only: it runs in a hook.
    """
    if why := bad_path(path):
        return [Refusal(path, "path", why, "leave it to git and harness")]
    rules = Policy(policy["paths"])
    entry = rules.entry(path)
    if entry is None:
        return [Refusal(path, "covered", "no entry of schemas/policy.yaml covers it", "write outside the workspace")]
    kind = entry.get("agent")
    if kind is None:
        todo = entry.get("instead") or "use the harness command for it"
        return [Refusal(path, "agent", "agents don't write this file", todo)]
    return list(_apply_rules(path, before, after, kind, entry))


def lines(refusals: Iterable[Refusal]) -> str:
    """Refusals for a terminal, one a line."""
    return "\n".join(r.line() for r in refusals)
