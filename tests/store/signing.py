"""Signers for the tests: programs that git calls as it would call gpg."""

from __future__ import annotations

from pathlib import Path

from fixtures.workspaces import Place

_WORKING = """#!/bin/sh
# git hands the commit on standard input and wants a status line and a signature.
cat >/dev/null
echo "[GNUPG:] SIG_CREATED D 1 8 00 1700000000 0123456789ABCDEF" >&2
printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nZml4ZWQ=\\n-----END PGP SIGNATURE-----\\n'
"""


def signer(place: Place, folder: Path, text: str) -> None:
    """Make the shell script ``text`` the workspace's signer and switch signing on in git's configuration."""
    program = folder / "signer"
    program.write_text(text)
    program.chmod(0o755)
    place.git("config", "gpg.program", str(program))
    place.git("config", "commit.gpgsign", "true")
    place.person()


def working_signer(place: Place, folder: Path) -> None:
    """A signer that always gives the same signature."""
    signer(place, folder, _WORKING)
