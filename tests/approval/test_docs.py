"""What docs/approvals.md shows: its commands run, its Python runs, its mail sender sends real mail to a real SMTP server."""

from __future__ import annotations

import re
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from harness.approval.deliver import Command, deliver
from tests.approval.book import Book
from tests.cli.conftest import make_project
from tests.docs.test_commands import blocks, shell, with_harness_on_path

PAGE = "docs/approvals.md"


@pytest.mark.parametrize("block", blocks(PAGE))
def test_its_commands_run(tmp_path: Path, block: str) -> None:
    project = make_project(tmp_path)
    env = with_harness_on_path(project, tmp_path)
    project.ok("init", "--no-hooks")
    done = shell(block, project.root, env)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_python_runs(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    project.ok("init", "--no-hooks")
    project.ok("ledger", "init")
    code = next(block for block in blocks(PAGE, "python") if "open_ledger(" in block)
    done = shell(f"\"{sys.executable}\" - <<'END'\n{code}END\n", project.root, project.env)
    assert done.returncode == 0, done.stderr


class Mail(socketserver.StreamRequestHandler):
    """As much of SMTP as a sender needs; ``behaviour`` of the server says how the end of the message is answered."""

    def handle(self) -> None:
        server: Any = self.server
        self.say("220 ready")
        while line := self.rfile.readline():
            verb = line[:4].upper()
            if verb in (b"EHLO", b"HELO", b"MAIL", b"RCPT", b"RSET"):
                self.say("250 ok")
            elif verb == b"DATA":
                self.say("354 go on")
                lines = []
                while (part := self.rfile.readline()) != b".\r\n":
                    lines.append(part.removeprefix(b".") if part.startswith(b"..") else part)
                server.got.append(message_from_bytes(b"".join(lines), policy=policy.default))
                if server.behaviour == "hangs up":
                    return
                self.say("250 queued" if server.behaviour == "takes it" else "554 no")
            elif verb == b"QUIT":
                self.say("221 bye")
                return

    def say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


@contextmanager
def mail_server(behaviour: str) -> Iterator[tuple[int, list[EmailMessage]]]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mail) as server:
        server.daemon_threads = True
        server.got, server.behaviour = [], behaviour  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1], server.got  # type: ignore[attr-defined]
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("behaviour", "outcome"), [("takes it", "sent"), ("hangs up", "unknown"), ("says no", "unknown")]
)
def test_its_mail_sender_sends_what_was_approved(
    lite: Book, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str, outcome: str
) -> None:
    [code] = [block for block in blocks(PAGE, "python") if "smtplib" in block]
    script = tmp_path / "send-mail"
    script.write_text(re.sub(r"^#!.*", f"#!{sys.executable}", code))
    script.chmod(0o755)
    text = "Grüße, we can hold the slot until Friday.\n"
    obligation, decision = lite.approved(
        text, origin_platform="email", origin_workspace=None, origin_channel="sales@acme.example.invalid",
        origin_thread="<m1@example.invalid>", subject="Delivery window", bodies={"text/html": "<p>Friday</p>"},
    )  # fmt: skip
    with mail_server(behaviour) as (port, got):
        monkeypatch.setenv("MAIL_PORT", str(port))
        monkeypatch.setenv("MAIL_FROM", "desk@shop.example.invalid")
        out = deliver(lite.ledger, Command([str(script)], seconds=20))
        assert not deliver(lite.ledger, Command([str(script)], seconds=20)).sent
    [message] = got
    assert message["To"] == "sales@acme.example.invalid"
    assert message["In-Reply-To"] == "<m1@example.invalid>"
    assert message.get_body(("plain",)).get_content().replace("\r\n", "\n") == text  # type: ignore[union-attr]
    assert message.get_body(("html",)).get_content().strip() == "<p>Friday</p>"  # type: ignore[union-attr]
    if outcome == "sent":
        assert out.sent == {obligation: message["Message-ID"]}
        assert message["Message-ID"].startswith(f"<decision-{decision}-")
    else:
        assert list(out.unknown) == [obligation]
