"""Lines of a code repository's own exclude file (`.git/info/exclude`): what we put beside its code is none of its business."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.store import files
from harness.store.git import quick


def _place(code: Path) -> Path | None:
    status, out = quick(code, "rev-parse", "--path-format=absolute", "--git-path", "info/exclude", above=True)
    return Path(out.splitlines()[0]) if status == 0 and out.strip() else None


def add(code: Path, lines: Sequence[str]) -> Path | None:
    """List ``lines`` in the exclude file; the file when that changed it. In no repository nothing is done."""
    path = _place(code)
    if path is None:
        return None
    text = (files.read(path) or b"").decode("utf-8", "surrogateescape")
    new = [line for line in lines if line not in text.splitlines()]
    if not new:
        return None
    path.parent.mkdir(exist_ok=True)
    gap = "" if not text or text.endswith("\n") else "\n"
    files.replace(path, (text + gap + "\n".join(new) + "\n").encode("utf-8", "surrogateescape"))
    return path


def take(code: Path, lines: Sequence[str]) -> Path | None:
    """Take ``lines`` out of the exclude file again; the file when that changed it."""
    path = _place(code)
    if path is None:
        return None
    text = (files.read(path) or b"").decode("utf-8", "surrogateescape")
    kept = "".join(one for one in text.splitlines(keepends=True) if one.rstrip("\n") not in lines)
    if kept == text:
        return None
    files.replace(path, kept.encode("utf-8", "surrogateescape"))
    return path
