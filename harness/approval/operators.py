"""Operators by token: names and hashes are in state/operators.yaml, the token in a file that only its owner reads."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.approval.errors import NotAllowed

TOKEN_FILE: Final = "HARNESS_OPERATOR_TOKEN_FILE"  # noqa: S105 (the name of a variable that names a file)


def new_token() -> tuple[str, str]:
    """A new token and the hash that the workspace keeps of it."""
    token = secrets.token_urlsafe(32)
    return token, token_hash(token)


def token_hash(token: str) -> str:
    """The SHA-256 of a token: it has 256 bits of chance, so no slow hash is needed."""
    return hashlib.sha256(token.encode()).hexdigest()


def by_token_file(path: Path, operators: Sequence[Mapping[str, Any]]) -> str:
    """The name of the operator whose token ``path`` holds. Raises NotAllowed: wrong token, or others may read the file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise NotAllowed("the operator's token can't be read", f"{path}: {error.strerror}") from error
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077 or about.st_uid != os.getuid():
            why = f"{path} must be a plain file of yours alone"
            raise NotAllowed("the token's file is open to others", why, f"run `chmod 600 {path}`")
        token = os.read(handle, 4096).decode("utf-8", "replace").strip()
    finally:
        os.close(handle)
    found = token_hash(token)
    for one in operators:
        if hmac.compare_digest(found, str(one.get("token_sha256", ""))) and not one.get("revoked"):
            return str(one["name"])
    raise NotAllowed(
        "no operator has this token", str(path), "an operator is added with `harness ledger operator NAME`"
    )


def write_token(path: Path, token: str) -> None:
    """Put a token into a new file that only its owner reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(token + "\n")
