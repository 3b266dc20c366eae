"""The named rules of the policy: pure functions over the text before and after. Each number comes from the policy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Final

from harness.store import prose
from harness.store.change import Broken, Change, Rule

FOOTER: Final = re.compile(r"<!-- harness:footer -->.*?<!-- /harness:footer -->", re.S)
PERSONAL: Final = frozenset({"mail", "phone", "card", "iban", "ip", "url-credentials", "home-path"})
"""The classes of `harness.scrub` that no lesson holds; handles and names are words of many skills."""
_HEADING: Final = re.compile(r"#{1,6} .*")


def changed_lines(before: str, after: str) -> int:
    """How many lines a change touches: in each changed place the larger of lines removed and lines added."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal")


def headings(text: str) -> list[str]:
    """The Markdown headings of ``text`` in order, those inside code fences left out."""
    found, fence = [], ""
    for line in text.splitlines():
        mark = re.match(r"\s{0,3}(`{3,}|~{3,})", line)
        if mark:
            fence = "" if fence and mark[1].startswith(fence) else fence or mark[1]
        elif not fence and _HEADING.match(line):
            found.append(line.strip())
    return found


def max_size(change: Change) -> Iterator[Broken]:
    """At most ``lines`` lines and ``bytes`` bytes; a change that makes a too large file smaller passes."""
    old = change.before or ""
    lines, size = len(change.after.splitlines()), len(change.after.encode("utf-8", "replace"))
    limit_lines, limit_bytes = change.numbers.get("lines"), change.numbers.get("bytes")
    if limit_lines and lines > limit_lines and lines >= len(old.splitlines()):
        yield Broken(f"{lines} lines, at most {limit_lines}", change.numbers.get("todo") or "make it shorter first")
    if limit_bytes and size > limit_bytes and size >= len(old.encode("utf-8", "replace")):
        yield Broken(f"{size} bytes, at most {limit_bytes}", "make it shorter first")


def max_changed_lines(change: Change) -> Iterator[Broken]:
    """At most ``max`` lines added or replaced against the text before."""
    count, limit = changed_lines(change.before or "", change.after), change.numbers["max"]
    if count > limit:
        todo = change.numbers.get("todo") or f"change at most {limit} lines at a time"
        yield Broken(f"{count} changed lines, at most {limit}", todo)


def headings_keep_order(change: Change) -> Iterator[Broken]:
    """Every heading that was there is still there, in the same order (new ones may stand between)."""
    rest = iter(headings(change.after))
    for heading in headings(change.before or ""):
        if heading not in rest:
            todo = "keep every section and its place; restructuring is for a regeneration, so log the gap instead"
            yield Broken(f"the section {heading!r} is gone or moved", todo)
            return


def footer_untouched(change: Change) -> Iterator[Broken]:
    """The marked footer is the same text as before."""
    before = FOOTER.search(change.before or "")
    after = FOOTER.findall(change.after)
    if before and after != [before[0]]:
        yield Broken("the footer was changed", "leave everything from `<!-- harness:footer -->` on as it was")


def footer_present(change: Change) -> Iterator[Broken]:
    """The text ends in exactly one marked footer."""
    if len(FOOTER.findall(change.after)) != 1:
        yield Broken("no footer, or more than one", "end the loader with the workspace's footer, once")


def distilled_here(change: Change) -> Iterator[Broken]:
    """A base that exists may only be replaced when its frontmatter says it was distilled here."""
    if change.before is not None and not re.search(r"^\s*origin:\s*distilled\s*$", change.before, re.M):
        yield Broken("this base was written by a person", "write what was learned to the loader or the overlay")


def no_secrets(change: Change) -> Iterator[Broken]:
    """No key, token or password in what the change adds."""
    from harness import redact

    old = set((change.before or "").splitlines())
    for number, line in enumerate(change.after.splitlines(), 1):
        if line not in old:
            for name, _, _ in redact.find(line):
                yield Broken(
                    f"looks like a secret ({name})", "take it out; name where it is kept instead", f"line {number}"
                )


def no_personal_data(change: Change) -> Iterator[Broken]:
    """No contact detail, account, address or home folder of a person in what the change adds."""
    from harness import scrub

    old = set((change.before or "").splitlines())
    for number, line in enumerate(change.after.splitlines(), 1):
        if line not in old:
            for name in sorted(scrub.scrub(line).counts.keys() & PERSONAL):
                yield Broken(f"personal data ({name})", "say it without naming a person", f"line {number}")


def differ(change: Change) -> Iterator[Broken]:
    """The named fields of a row have different values (``after`` is the row's line)."""
    import json

    row = json.loads(change.after)
    fields = change.numbers["fields"]
    values = [row.get(name) for name in fields]
    if len(set(map(str, values))) != len(values):
        yield Broken(
            f"{' and '.join(fields)} are both {values[0]!r}", "let another process check it, with an id of its own"
        )


def valid_schema(change: Change) -> Iterator[Broken]:
    """The text is a JSON Schema."""
    import json

    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(json.loads(change.after))
    except SchemaError as error:
        yield Broken(f"no JSON Schema: {error.message}", "see json-schema.org, draft 2020-12", error.json_path)
    except (ValueError, RecursionError) as error:
        yield Broken(f"does not parse: {error}", "write valid JSON")


RULES: Final[dict[str, Rule]] = {
    "max-size": max_size,
    "max-changed-lines": max_changed_lines,
    "headings-keep-order": headings_keep_order,
    "footer-untouched": footer_untouched,
    "footer-present": footer_present,
    "distilled-here": distilled_here,
    "no-secrets": no_secrets,
    "no-personal-data": no_personal_data,
    "differ": differ,
    "valid-schema": valid_schema,
    "one-hunk": prose.one_hunk,
    "max-added-lines": prose.max_added_lines,
    "plain-copy": prose.plain_copy,
    "write-once": prose.write_once,
}
