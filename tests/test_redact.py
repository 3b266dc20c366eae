"""Secrets in text: found by class, scrubbed, masked; plain words are left alone."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from fixtures.workspaces import run
from hypothesis import assume, given
from hypothesis import strategies as st

from harness import redact

# Put together here, so that no scanner of this repository takes an example for a leak.
SECRETS = {
    "aws-key": "AKIA" + "Q3EXAMPLE7ABCDZZ",
    "github-token": "ghp_" + "a1B2" * 9,
    "gitlab-token": "glpat-" + "a1B2" * 5,
    "api-key": "sk-ant-" + "a1B2c3-_" * 5,
    "stripe-key": "sk_live_" + "a1B2" * 5,
    "slack-token": "xoxb-" + "1234567890-abcdef",
    "slack-webhook": "https://hooks.slack.com/" + "services/T0000/B0000/abcdefghijkl",
    "google-key": "AIza" + "a1B2c" * 7,
    "npm-token": "npm_" + "a1B2" * 9,
    "pypi-token": "pypi-AgEIcHlwaS5vcmc" + "a1B2" * 15,
    "huggingface-token": "hf_" + "a1B2" * 9,
    "sendgrid-key": "SG." + "a1B2" * 5 + "." + "c3D4" * 10,
    "twilio-key": "SK" + "0123456789abcdef" * 2,
    "service-token": "dop_" + "v1_" + "0123456789abcdef" * 4,
    "telegram-token": "123456789:" + "AA" + "a1B2c3D4" * 4,
    "mailchimp-key": "0123456789abcdef" * 2 + "-us12",
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0In0" + ".abcdefghijk_-123",
    "private-key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE\nabc\n-----END RSA " + "PRIVATE KEY-----",
}
IN_CONTEXT = {
    "url-credentials": ("postgres://", "ada:s3cr3tpw", "@db.example/x"),
    "bearer-token": ("Authorization: Bearer ", "abcDEF123456" * 2, " next"),
    "azure-key": ("AccountKey=", "a1B2" * 20 + "==", ";"),
    "npm-auth": ("npm:_authToken=", "abcdefab-cdef-abcd-efab", " "),
    "assigned-secret": ('DB_PASSWORD="', "hunter2hunter2", '"'),
}


@pytest.mark.parametrize("name", SECRETS)
def test_each_class_is_found_and_scrubbed(name: str) -> None:
    text = f"before {SECRETS[name]} after"
    assert [found for found, _, _ in redact.find(text)] == [name]
    assert redact.scrub(text) == f"before [removed: {name}] after"


@pytest.mark.parametrize("name", IN_CONTEXT)
def test_a_secret_known_by_what_stands_around_it(name: str) -> None:
    before, secret, after = IN_CONTEXT[name]
    assert redact.scrub(before + secret + after) == f"{before}[removed: {name}]{after}"


@pytest.mark.parametrize(
    "text",
    [
        "password: see the vault", "the token is in 1Password", "api_key = os.environ['API_KEY']", "secret: ${{ secrets.TOKEN }}",
        "commit 5975f1644e0b1d3c9f1b2a3c4d5e6f708192a3b4", "sha256 " + "ab" * 32, "id 01JE9Z0K3Q5W8T4X7R2M6N1P0A",
        "https://example.com/a?b=c", "user@example.com", "sk-learn is a library", "mailto:ada@example.com", "x = y:z",
    ],
)  # fmt: skip
def test_plain_words_are_left_alone(text: str) -> None:
    assert redact.find(text) == []
    assert redact.scrub(text) == text
    assert redact.mask(text.encode()) == text.encode()


def test_several_secrets_in_one_text() -> None:
    text = " and ".join(SECRETS.values())
    assert [name for name, _, _ in redact.find(text)] == list(SECRETS)


@pytest.mark.parametrize("name", SECRETS)
def test_a_mask_keeps_every_offset_and_shows_nothing(name: str) -> None:
    data = f"one\nbefore é {SECRETS[name]}\nlast".encode()
    masked = redact.mask(data)
    assert len(masked) == len(data)
    assert masked.count(b"\n") == data.count(b"\n")
    assert masked.startswith(b"one\n")
    assert masked.endswith(b"\nlast")
    assert redact.find(masked.decode("utf-8", "replace")) == []


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_mask_of_a_beginning_never_changes_when_lines_are_added(first: bytes, more: bytes) -> None:
    assert redact.mask(first + b"\n" + more).startswith(redact.mask(first + b"\n"))
    assert len(redact.mask(first)) == len(first)


@given(st.text(), st.sampled_from(sorted(SECRETS.values())), st.text())
def test_a_secret_in_any_text_is_gone_after_scrubbing(before: str, secret: str, after: str) -> None:
    assert secret not in redact.scrub(f"{before} {secret} {after}")


def test_no_text_makes_the_search_run_for_ever() -> None:
    # Pieces that look like a beginning over and over: a pattern that tries every start against every end never gets through.
    code = (
        "from harness import redact\n"
        "for piece in ('-----BEGIN ' + 'A ' * 10, 'eyJ' + 'a' * 50 + '.', 'a' * 60 + '://', 'password' * 8, 'sk-' + 'x-' * 9, '://a:' + 'b' * 50):\n"
        "    redact.find(piece * 20_000)\n"
    )
    assert run([sys.executable, "-c", code], Path(), timeout=120).returncode == 0


def test_every_class_has_a_pattern_and_marks() -> None:
    names = [name for name, _ in redact._CLASSES]
    assert len(set(names)) == len(names)
    marks = redact._MARKS | redact._FOLDED_MARKS
    assert set(marks) == set(names) == {*SECRETS, *IN_CONTEXT}
    assert set(redact._LOOSE) == set(names)
    assert all(mark for marks in marks.values() for mark in marks)
    assert all(mark == mark.casefold() for marks in redact._FOLDED_MARKS.values() for mark in marks)


PIECES = [
    *SECRETS.values(),
    *("".join(parts) for parts in IN_CONTEXT.values()),
    "PASSWORD=",
    "pa\u017f\u017fword: abcdefghijk1",
    "to\u212aen=",
    "apiKey: a1",
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=20)), max_size=8).map("".join))
def test_looking_for_marks_first_finds_the_same(text: str) -> None:
    everything = redact._pattern(tuple(range(len(redact._CLASSES))))
    slowly = [
        match.span("value") if match.group("value") is not None else match.span() for match in everything.finditer(text)
    ]
    assert [(start, end) for _, start, end in redact.find(text)] == slowly


def loosely_found(text: str) -> bool:
    """Whether a loose pattern matches, by the engine that they are for."""
    rs = pytest.importorskip("jsonschema_rs")
    schema = {"anyOf": [{"pattern": pattern} for pattern in redact.loose_patterns()]}
    return bool(rs.Draft202012Validator(schema, pattern_options=rs.RegexOptions()).is_valid(text))


@pytest.mark.parametrize("number", range(len(redact._CLASSES)), ids=[name for name, _ in redact._CLASSES])
@given(data=st.data())
def test_a_loose_pattern_matches_whatever_its_class_does(number: int, data: st.DataObject) -> None:
    name, pattern = redact._CLASSES[number]
    around = {
        "url-credentials": ("a://", "@b"), "bearer-token": ("bearer ", ""), "azure-key": ("AccountKey=", ""), "npm-auth": ("_authToken=", ""),
    }.get(name, ("", ""))  # fmt: skip
    # A look-around in a pattern says where it stands; what is drawn for the rest of it is put there.
    plain = re.sub(r"\(\?<?[=!](?:\[[^\]]*\]|[^()\[\]])*\)", "", pattern)
    drawn = data.draw(st.from_regex(re.compile(plain), fullmatch=True))
    line = around[0] + drawn + around[1]
    assume(any(found == name for part in line.splitlines() for found, _, _ in redact.find(part)))
    assert loosely_found(f"{{}}\n{line}\n{{}}")


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=20)), max_size=8).map("\n".join))
def test_no_text_with_a_secret_passes_the_loose_patterns(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    if any(redact.find(line) for line in text.splitlines()):
        assert loosely_found(text)


def test_harmless_text_passes_the_loose_patterns() -> None:
    text = "01JE9SK0K3Q5W8T4X7R2M6N1P0 key: the token = short, see https://a.example/b?password=x and sk-learn, user@example.com"
    assert not loosely_found(text)
