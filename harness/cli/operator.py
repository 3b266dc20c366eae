"""Who decides: a person at a terminal of their own, or the bearer of an operator's token. Never what runs under a client."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from harness import attended

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Operator:
    """The name that goes on record, and how we know it: ``terminal`` or ``token``."""

    name: str
    channel: str


def operator_options(command: _F) -> _F:
    """The option that names the file with an operator's token. The token itself is never an argument."""
    return click.option(
        "--token-file", type=click.Path(path_type=Path), envvar="HARNESS_OPERATOR_TOKEN_FILE",
        help="A file (mode 0600) with an operator's token, for programs and other accounts.",
    )(command)  # fmt: skip


def who(what: str, token_file: Path | None, operators: Sequence[Mapping[str, Any]]) -> Operator:
    """The operator of this call; ``what`` is what only one may do. Raises NeedsPerson and NotAllowed (exit code 3)."""
    from harness.approval.operators import by_token_file

    refuse_clients(what)
    if token_file is not None:
        return Operator(by_token_file(token_file, operators), "token")
    attended.require_person(what)
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = f"uid {os.getuid()}"
    return Operator(name, "terminal")


def refuse_clients(what: str) -> None:
    """Raise NeedsPerson when this runs under a client: a token in an agent's reach is no person's decision."""
    if client := attended.client_ancestor():
        raise attended.NeedsPerson(
            f"{what} is for a person", f"this command runs under {client}", "run it in a terminal of your own"
        )
