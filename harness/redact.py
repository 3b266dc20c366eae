"""Secrets out of text. Below the store, since the gate refuses what this finds and the store masks what it takes from logs."""

from __future__ import annotations

import functools
import re
from typing import Final

_CLASSES: Final[tuple[tuple[str, str], ...]] = (
    ("private-key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----[\s\S]*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----|\Z)"),
    ("aws-key", r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA)[A-Z2-7]{16}\b"),
    ("github-token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})\b"),
    ("gitlab-token", r"\bgl(?:pat|dt|rt|cbt|ptt|ft)-[A-Za-z0-9_-]{20,}"),
    ("api-key", r"\bsk-(?:ant-|proj-|svcacct-|live-|or-)?[A-Za-z0-9_-]{20,}"),
    ("stripe-key", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}\b"),
    ("slack-token", r"\b(?:xox[abeoprs]|xapp-\d)-[A-Za-z0-9-]{10,}"),
    ("slack-webhook", r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}"),
    ("google-key", r"\bAIza[A-Za-z0-9_-]{35}\b"),
    ("npm-token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("pypi-token", r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,}"),
    ("huggingface-token", r"\bhf_[A-Za-z0-9]{30,}\b"),
    ("sendgrid-key", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("twilio-key", r"\bSK[0-9a-f]{32}\b"),
    ("service-token",
     r"\b(?:dop_v1_[0-9a-f]{64}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|hv[sb]\.[A-Za-z0-9_-]{24,}|lin_api_[A-Za-z0-9]{32,}"
     r"|glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}|sq0(?:csp|atp)-[A-Za-z0-9_-]{22,}|PMAK-[0-9a-f]{24}-[0-9a-f]{34}|dapi[0-9a-f]{32}"
     r"|ATATT3[A-Za-z0-9_=-]{50,}|AGE-SECRET-KEY-1[A-Z0-9]{50,}|figd_[A-Za-z0-9_-]{40,}|sbp_[0-9a-f]{40}|ntn_[A-Za-z0-9]{40,})"),
    ("telegram-token", r"\b\d{8,10}:AA[A-Za-z0-9_-]{32,34}(?![A-Za-z0-9_-])"),
    ("mailchimp-key", r"\b[0-9a-f]{32}-us\d{1,2}\b"),
    ("azure-key", r"(?<=AccountKey=)[A-Za-z0-9+/]{40,}={0,2}"),
    ("npm-auth", r"(?<=_authToken=)[^\s'\"${}]{20,}"),
    # Not behind a character of its own alphabet: a run of beginnings would be read again from each.
    ("jwt", r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    ("url-credentials", r"(?<=://)[^\s/:@'\"<>{}$]{1,100}:[^\s/@'\"<>{}$]{3,200}(?=@)"),
    ("bearer-token", r"(?i:(?<=\bbearer )|(?<=\bauthorization: basic ))[A-Za-z0-9._~+/=-]{20,}"),
    # An assignment needs a value that is no plain word or placeholder: at least 12 characters with a digit among them.
    ("assigned-secret",
     r"(?i:\b[\w.-]{0,40}(?:password|passwd|secret(?:[_-]?access[_-]?key)?|api[_-]?key|access[_-]?token|"
     r"auth[_-]?token|private[_-]?key)['\"]?(?:\s{0,3}[:=]\s{0,3}['\"]?| is ['\"]))"
     r"(?P<value>(?![\w.]{1,100}[(\[])(?=[^\s'\"]{0,200}\d)[^\s'\"<>{}$,;]{12,})"),
)  # fmt: skip

# Every secret of a class holds one of these: most texts hold none, and looking for them is quick. Those of a pattern that
# takes any case are looked for in the text with its case folded.
_MARKS: Final[dict[str, tuple[str, ...]]] = {
    "private-key": ("PRIVATE KEY-----",),
    "aws-key": ("AKIA", "ASIA", "AGPA", "AIDA", "AROA", "ANPA"),
    "github-token": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    "gitlab-token": ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-"),
    "api-key": ("sk-",),
    "stripe-key": ("k_live_", "k_test_"),
    "slack-token": ("xox", "xapp-"),
    "slack-webhook": ("hooks.slack.com",),
    "google-key": ("AIza",),
    "npm-token": ("npm_",),
    "pypi-token": ("pypi-",),
    "huggingface-token": ("hf_",),
    "sendgrid-key": ("SG.",),
    "twilio-key": ("SK",),
    "service-token": (
        "dop_v1_",
        "shpat_",
        "shpca_",
        "shppa_",
        "shpss_",
        "hvs.",
        "hvb.",
        "lin_api_",
        "glsa_",
        "sq0csp-",
        "sq0atp-",
        "PMAK-",
        "dapi",
        "ATATT3",
        "AGE-SECRET-KEY-1",
        "figd_",
        "sbp_",
        "ntn_",
    ),
    "telegram-token": (":AA",),
    "mailchimp-key": ("-us",),
    "azure-key": ("AccountKey=",),
    "npm-auth": ("_authToken=",),
    "jwt": (".eyJ",),
    "url-credentials": ("://",),
}
_FOLDED_MARKS: Final[dict[str, tuple[str, ...]]] = {
    "bearer-token": ("bearer ", "authorization: basic "),
    "assigned-secret": ("password", "passwd", "secret", "key", "token"),
}

# What holds a secret of a class matches this, too, and hardly anything else does. For engines that neither look around nor
# agree on what a word or a space is; those of the classes in _FOLDED_MARKS take any case.
_LOOSE: Final[dict[str, str]] = {
    "private-key": r"PRIVATE KEY-----",
    "aws-key": r"A(?:KIA|SIA|GPA|IDA|ROA|NPA)[A-Z2-7]{16}",
    "github-token": r"gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{22}",
    "gitlab-token": r"gl(?:pat|dt|rt|cbt|ptt|ft)-[A-Za-z0-9_-]{20}",
    "api-key": r"sk-[A-Za-z0-9_-]{20}",
    "stripe-key": r"[rs]k_(?:live|test)_[A-Za-z0-9]{16}",
    "slack-token": r"(?:xox[abeoprs]|xapp-[^\n])-[A-Za-z0-9-]{10}",
    "slack-webhook": r"https://hooks\.slack\.com/",
    "google-key": r"AIza[A-Za-z0-9_-]{35}",
    "npm-token": r"npm_[A-Za-z0-9]{36}",
    "pypi-token": r"pypi-AgEIcHlwaS5vcmc",
    "huggingface-token": r"hf_[A-Za-z0-9]{30}",
    "sendgrid-key": r"SG\.[A-Za-z0-9_-]{16}",
    "twilio-key": r"SK[0-9a-f]{32}",
    "service-token": r"dop_v1_[0-9a-f]{64}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|hv[sb]\.[A-Za-z0-9_-]{24}|lin_api_[A-Za-z0-9]{32}"
    r"|glsa_[A-Za-z0-9]{32}_|sq0(?:csp|atp)-[A-Za-z0-9_-]{22}|PMAK-[0-9a-f]{24}-|dapi[0-9a-f]{32}|ATATT3[A-Za-z0-9_=-]{50}"
    r"|AGE-SECRET-KEY-1|figd_[A-Za-z0-9_-]{40}|sbp_[0-9a-f]{40}|ntn_[A-Za-z0-9]{40}",
    "telegram-token": r":AA[A-Za-z0-9_-]{32}",
    "mailchimp-key": r"-us[^A-Za-z \n\"',.;:)]",
    "azure-key": r"AccountKey=",
    "npm-auth": r"_authToken=",
    "jwt": r"eyJ[A-Za-z0-9_-]{10,}\.eyJ",
    "url-credentials": r"://[^ /:@'\"\n]+:[^ /@'\"\n]{3,}@",
    "bearer-token": r"bearer [A-Za-z0-9._~+/=-]{20}|authorization: basic ",
    "assigned-secret": r"(?:password|passwd|secret(?:[_-]?access[_-]?key)?|api[_-]?key|(?:access|auth)[_-]?token|private[_-]?key)"
    r"['\"]?(?:[^:=\n]{0,3}[:=][^\n]{0,4}| is ['\"])[^ '\"<>{}$,;\n]{12}",
}


def _numbered(marks: dict[str, tuple[str, ...]]) -> list[tuple[str, int]]:
    return [(mark, n) for n, (name, _) in enumerate(_CLASSES) for mark in marks.get(name, ())]


_MARKED: Final = _numbered(_MARKS)
_FOLDED_MARKED: Final = _numbered(_FOLDED_MARKS)


@functools.cache
def _pattern(classes: tuple[int, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<c{n}>{_CLASSES[n][1]})" for n in classes))


def loose_patterns() -> list[str]:
    """Patterns of which one at least matches a text that holds a secret in one of its lines. They look around nowhere and
    name no classes of characters, so any engine reads them alike; that of Rust goes through a text at once."""
    folded = [_LOOSE[name] for name in _FOLDED_MARKS]
    return ["|".join(_LOOSE[name] for name in _MARKS), f"(?i:{'|'.join(folded)})"]


def find(text: str) -> list[tuple[str, int, int]]:
    """The secrets in ``text`` as (class, start, end), in order; offsets are characters."""
    folded = text.casefold()
    hits = {n for mark, n in _MARKED if mark in text} | {n for mark, n in _FOLDED_MARKED if mark in folded}
    classes = tuple(sorted(hits))
    found = []
    for match in _pattern(classes).finditer(text) if classes else ():
        name = _CLASSES[int((match.lastgroup or "c0")[1:])][0] if match.lastgroup != "value" else "assigned-secret"
        inner = match.groupdict().get("value")
        start, end = match.span("value") if inner is not None else match.span()
        found.append((name, start, end))
    return found


def scrub(text: str) -> str:
    """``text`` with each secret replaced by ``[removed: CLASS]``."""
    out, last = [], 0
    for name, start, end in find(text):
        out += [text[last:start], f"[removed: {name}]"]
        last = end
    return "".join([*out, text[last:]])


def mask(data: bytes) -> bytes:
    """``data`` with the characters of each secret overwritten by ``*``, every offset kept.

    Works line by line, so the mask of a file's beginning never changes when lines are added (a key block that spans
    lines is masked line by line from its BEGIN to its END mark).
    """
    out, in_key = [], False
    for line in data.splitlines(keepends=True):
        text = line.decode("latin-1")  # one character a byte: offsets stay bytes
        if "PRIVATE KEY-----" in text:
            in_key = "-----BEGIN" in text and "-----END" not in text
            text = re.sub(r"[^\r\n]", "*", text)
        elif in_key:
            text = re.sub(r"[^\r\n]", "*", text)
        else:
            for _, start, end in find(text):
                text = text[:start] + "*" * (end - start) + text[end:]
        out.append(text.encode("latin-1"))
    return b"".join(out)
