"""Personal data out of text that leaves the workspace: contact details, accounts, addresses, secrets and known names.

Each class is a small detector that gives spans; spans that touch are merged and replaced by ``[CLASS]``. Detectors look at a
bounded stretch around each place, so a line of megabytes costs in proportion to its length. Third-party modules are
imported by the detectors that need them.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from harness import redact

Span = tuple[int, int]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MAIL = re.compile(
    r"@?(?<![\w.%+'\]-])(?P<local>[\w.%+'-]{1,64})@(?P<domain>(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}(?P<top>xn--[a-z0-9-]{2,59}|[^\W\d_]{2,24}))"
    r"(?![\w\[-])"
)
# Endings that no mail domain has, though files and units do, and those that RFC 2606 sets aside.
_NO_TOP: Final = _words(
    """
    png jpg jpeg gif svg webp ico pdf txt json yaml yml toml xml html css scss js jsx ts tsx csv service timer
    socket target slice mount example invalid test localhost local
    """
)
_RESERVED_DOMAIN = re.compile(r"(?:^|\.)example\.(?:com|org|net)$", re.I)
_IN_URL = re.compile(r"://[^\s/@]*$")  # a user and a password before a host: the class url-credentials
_PROGRAM_USERS: Final = frozenset({"git", "hg", "svn"})  # the user part of clone addresses

_PHONE = re.compile(
    r"(?<![\w.,+\])/-])(?:\+|00(?=[1-9][\d() .-]))(?P<intl>[1-9](?:[ .()/-]{0,2}\d){6,14})(?![\w\[]|[.,/-]\d)"
    r"|(?<![\w.,+\]/-])(?<!\d )(?:\(\d{3}\) ?\d{3}[-. ]\d{4}|\d{3}([-.])\d{3}\2\d{4})(?![\w\[]|[.,/ -]\d)"
)
_PHONE_WORD = re.compile(
    r"(?<!\w)(?:tel|telefon|telephone|phone|mobile|mobil|cell|fax|fon|handy|whatsapp|tél|téléphone|teléfono|móvil)\b[\"'.: ]{0,4}"
    r"(?P<number>[(+0-9](?:[ .()/-]{0,2}\d){6,14})(?![\w\[]|[.,/-]\d)",
    re.I,
)
_REGIONS: Final = ("US", "GB", "DE", "FR", "ES", "IT", "NL", "CH", "AT")

_CARD = re.compile(
    r"(?<![\w.\]+-])(?:\d{13,19}|\d{4}(?P<s>[ -])\d{4}(?P=s)\d{4}(?P=s)\d{4}|\d{4}(?P<t>[ -])\d{6}(?P=t)\d{4,5})(?![\w\[]|[.-]\w)"
)
_ISSUER = re.compile(
    r"4\d{12}(?:\d{3}){0,2}$|5[1-5]\d{14}$|2[2-7]\d{14}$|3[47]\d{13}$|3(?:0[0-5]|[68]\d)\d{11}$"
    r"|6(?:011|5\d\d)\d{12}$|35\d{14}$|62\d{14,17}$"
)
_IBAN = re.compile(r"(?<![A-Za-z0-9\]])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![a-z0-9\[])")

_IP4 = re.compile(r"(?<![\w.\]-])(?:\d{1,3}\.){3}\d{1,3}(?![\w\[-]|\.\d|\.[A-Za-z])")
_IP6 = re.compile(r"(?<![\w:.\]])(?=[0-9A-Fa-f:]{0,4}:)[0-9A-Fa-f:]{3,39}(?![\w:\[]|\.\d)")
_VERSION_BEFORE = re.compile(
    r"(?:(?:\b(?:v|ver|release|build|chrome|firefox|edge|safari|section|chapter)|version)[\"']?[.:= (]?"
    r"|[=<>~!]=|[~^]|(?<!-)[<>]|[A-Za-z]/)\s?[\"']?$",
    re.I,
)
_DOCUMENTATION: Final = tuple(
    ipaddress.ip_network(n)
    for n in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "127.0.0.0/8", "::1/128", "::/128")
)

# A whole user part before the host, and the values of query fields that let somebody in.
_USERINFO = re.compile(
    r"(?<=://)(?!git@|hg@)(?=[^\s/@]{2})[^\s/:@'\"<>{}$\]]{0,100}(?::[^\s/@'\"<>{}$]{1,200})?(?=@[\w\[])"
)
_QUERY = re.compile(
    r"[?&](?:sig|signature|token|access_token|key|api_key|apikey|code|auth|password|secret|x-amz-signature|x-amz-credential|x-amz-security-token)="
    r"(?P<value>(?=[^&#\s'\"]{0,40}\d)[^&#\s'\"\]\[]{12,2048})",
    re.I,
)

# Accounts that are a role of the machine rather than somebody.
_NOBODY: Final = _words(
    """
    user username users you your name me runner node vscode codespace ubuntu debian ec2-user linuxbrew shared public
    default all default.migrated home dev-user page about index contact
    """
)
_HOME = re.compile(
    r"(?<![\w.\]-])(?<![\w.]/)(?:/mnt/[a-z])?/(?:home|Users)/(?P<a>[\w.-]{1,64})"
    r"|(?<=file://)/(?:home|Users)/(?P<b>[\w.-]{1,64})"
    r"|(?<=wsl)/home/(?P<c>[\w.-]{1,64})"
    r"|(?<![\w\]])[A-Za-z]:(?:/|\\{1,2})Users(?:/|\\{1,2})(?P<d>[\w.-]{1,64})"
    r"|(?<=/)-(?:home|Users)-(?P<e>[A-Za-z0-9_]{1,64})(?=[-/\s]|$)"
)  # fmt: skip
_PAGE = re.compile(r"\.(?:html?|php|tsx?|jsx?|py|css|md|json|vue|svelte|aspx?)$", re.I)

_HANDLE = re.compile(
    r"(?<![\w@/.:#$&=\])}>\\%`-])(?<!@['\"])@(?P<name>[A-Za-z](?:[\w-]|\.(?=[A-Za-z]\w*(?:\s|$))){1,38})(?![\w/(@\[{-])(?!\.\w)(?!:\w)"
)
# Words that follow an @ in code, style sheets, doc comments, chats and package tags.
_AT_WORDS: Final = _words(
    """
    media import charset supports layer keyframes font-face page namespace container property tailwind apply use
    include mixin extend param params returns return type typedef template throws throw exception override
    deprecated see link linkcode since version author authors todo example default private protected public internal
    readonly static class classdesc constructor module callback event fires summary description remarks defaultvalue
    inheritdoc ts-ignore ts-expect-error ts-nocheck jsx license preserve copyright file fileoverview dataclass
    staticmethod classmethod abstractmethod cached_property cache lru_cache contextmanager wraps final overload
    pytest fixture given test before after beforeeach aftereach beforeall autowired bean entity component service
    repository controller restcontroller configuration inject injectable module input output directive pipe nonnull
    nullable notnull suppresswarnings safevarargs functionalinterface retention target transactional getmapping
    postmapping requestbody pathvariable id column table state published objc escaping available mainactor
    observable discardableresult testable main environment binding latest next beta alpha canary rc stable everyone
    here channel all team echo off end property synthesize interface implementation selector try catch finally
    autoreleasepool if else elseif foreach endif section yield extends csrf php var click submit change input
    lambda name total_ordering runtime_checkable singledispatch
    asynccontextmanager register
    """
)
_CODE_NOUN = re.compile(r" (?:decorat|annotation|directive|protocol|rule|tag\b|block|macro)")
_AT_LINE = re.compile(r"[ \t]*(?:[+>|*-] ?)?$")

# Names that are also words of English: these count in the spelling that was given.
_ALSO_WORDS: Final = _words(
    """
    will mark may grace hope rose art bill rich frank grant chase guy hunter jack joy june april august pat ray rob
    rod sandy sky star stone summer victor wade faith dawn drew dean carol chance bob gene jean king young long
    short brown black white green gray wood hill field page price power case cash love best self target square apple
    shell visa gap box slack notion linear meta stripe amazon oracle
    """
)
_TOKEN = re.compile(r"[^\W_](?:[^\W_]|[\u0300-\u036f])*")
_BETWEEN: Final = 3  # characters between the words of a name: "Müller & Söhne", two spaces


@dataclass(frozen=True)
class Scrubbed:
    """``text`` without what was found; ``counts`` says how many items of each class were taken out."""

    text: str
    counts: dict[str, int]


def scrub(text: str, known: Iterable[str] = ()) -> Scrubbed:
    """``text`` with personal data replaced by ``[mail]``, ``[phone]``, ``[card]``, ``[iban]``, ``[ip]``, ``[secret]``,
    ``[url-credentials]``, ``[home-path]``, ``[handle]`` and, for the names in ``known``, ``[name]``.

    Scrubbing again changes nothing. Addresses, numbers and domains set aside for documentation stay, and so do the loopback
    and the any-address. Names match whole words in any case, but for those that are also common words.
    """
    names = _index(known)
    counts: Counter[str] = Counter()
    for _ in range(_ROUNDS):
        spans = sorted(_spans(text, names))
        if not spans:
            break
        text = _replaced(text, spans, counts)
    return Scrubbed(text, dict(sorted(counts.items())))


_ROUNDS: Final = (
    8  # what one replacement uncovers the next round finds; the second finds nothing in all but crafted text
)


def _spans(text: str, names: Names) -> Iterator[tuple[int, int, int, str]]:
    """(start, end, rank, class) of each item; a lower rank gives its class to what overlaps."""
    for rank, (name, mark, detect) in enumerate(_DETECTORS):
        if mark is None or any(m in text for m in mark):
            for start, end in detect(text):
                yield start, end, rank, name
    for start, end in _names(text, names):
        yield start, end, len(_DETECTORS), "name"


def _replaced(text: str, spans: list[tuple[int, int, int, str]], counts: Counter[str]) -> str:
    out, last = [], 0
    start, end, rank, name = spans[0]
    for one in [*spans[1:], (len(text) + 1, 0, 0, "")]:
        if one[0] < end:  # they overlap: one item, of the class that ranks first
            end = max(end, one[1])
            rank, name = min((rank, name), one[2:])
            continue
        out += [text[last:start], f"[{name}]"]
        counts[name] += 1
        last = end
        start, end, rank, name = one
    return "".join([*out, text[last:]])


def _secrets(text: str) -> Iterator[Span]:
    return ((start, end) for name, start, end in redact.find(text) if name != "url-credentials")


def _credentials(text: str) -> Iterator[Span]:
    for match in _USERINFO.finditer(text):
        yield match.span()
    for match in _QUERY.finditer(text):
        yield match.span("value")


def _mails(text: str) -> Iterator[Span]:
    for match in _MAIL.finditer(text):
        domain, top = match["domain"].lower(), match["top"].lower()
        label = domain.split(".")[-2]
        before = text[max(0, match.start() - 110) : match.start()]
        program = match["local"] in _PROGRAM_USERS or _IN_URL.search(before)
        written = any(c.isalnum() for c in match["local"])
        if (
            written
            and top not in _NO_TOP
            and not label.isdigit()
            and not _RESERVED_DOMAIN.search(domain)
            and not program
        ):
            yield match.start() + match[0].startswith("'"), match.end()


def _cards(text: str) -> Iterator[Span]:
    from stdnum import luhn

    for match in _CARD.finditer(text):
        digits = re.sub(r"[ -]", "", match[0])
        if _ISSUER.match(digits) and luhn.is_valid(digits):
            yield match.span()


def _ibans(text: str) -> Iterator[Span]:
    from stdnum import iban

    for match in _IBAN.finditer(text):
        found = match[0]
        for size in range(len(found), 14, -1):  # a word in capitals may stand behind it
            part = found[:size]
            if part[-1] != " " and iban.is_valid(part, check_country=False):
                yield match.start(), match.start() + size
                break


def _phones(text: str) -> Iterator[Span]:
    import phonenumbers

    def valid(number: str, region: str | None) -> bool:
        with contextlib.suppress(phonenumbers.NumberParseException):
            parsed = phonenumbers.parse(number, region)
            return phonenumbers.is_valid_number(parsed)
        return False

    for match in _PHONE.finditer(text):
        number = f"+{match['intl']}" if match["intl"] else match[0]
        if valid(number, None if match["intl"] else "US"):
            yield match.span()
    for match in _PHONE_WORD.finditer(text):
        if any(valid(match["number"], region) for region in _REGIONS):
            yield match.span("number")


def _addresses(text: str) -> Iterator[Span]:
    for match in _IP4.finditer(text):
        parts = match[0].split(".")
        plain = all(str(int(p)) == p and int(p) < 256 for p in parts)
        if not plain or parts[0] in ("0", "255") or parts[1:] == ["0", "0", "0"]:
            continue
        before = text[max(0, match.start() - 12) : match.start()]
        if not _VERSION_BEFORE.search(before) and _somebody(match[0]):
            yield match.span()
    for match in _IP6.finditer(text):
        groups = [g for g in match[0].split(":") if g]
        wide = len(groups) >= 3 or (len(groups) == 2 and re.match(r"(?i)[23f][0-9a-f]{3}:", match[0]))
        if "::" not in match[0] and len(groups) != 8:
            continue
        if wide and any(c.isdigit() for c in match[0]) and _somebody(match[0]):
            yield match.span()


def _somebody(address: str) -> bool:
    """Whether ``address`` is one, and may be somebody's: not the loopback, not one of the documentation ranges."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not any(parsed in network for network in _DOCUMENTATION)


def _homes(text: str) -> Iterator[Span]:
    for match in _HOME.finditer(text):
        name = match[match.lastgroup or "a"]
        bare = name.rstrip(".")
        if bare and bare.lower() not in _NOBODY and not _PAGE.search(bare):
            yield match.start(), match.end() - (len(name) - len(bare))


def _handles(text: str) -> Iterator[Span]:
    for match in _HANDLE.finditer(text):
        name = match["name"].lower()
        if name in _AT_WORDS or re.split(r"[.-]", name, maxsplit=1)[0] in _AT_WORDS:
            continue
        line = text.rfind("\n", max(0, match.start() - 80), match.start()) + 1
        first = (line or match.start() < 80) and _AT_LINE.match(text, line, match.start())
        rest = text[match.end() : match.end() + 40].split("\n", 1)[0]
        # A line of nothing else, or with a comment behind it, is a decorator.
        decorates = first and (not rest.strip() or rest.lstrip().startswith(("#", "//")))
        if not decorates and not _CODE_NOUN.match(rest):
            yield match.span()


Names = dict[str, list[tuple[tuple[str, ...], str | None]]]


def _folded(token: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", token.casefold()) if not unicodedata.combining(c))


def _index(known: Iterable[str]) -> Names:
    """The known names by their first word; longer ones first. The second value is the one spelling that counts, if any."""
    index: Names = {}
    for name in known:
        words = tuple(_folded(m[0]) for m in _TOKEN.finditer(name))
        if not words or (len(words) == 1 and len(words[0]) < 2):
            continue
        exact = name if len(words) == 1 and (words[0] in _ALSO_WORDS or len(words[0]) < 3) else None
        index.setdefault(words[0], []).append((words, exact))
    for entries in index.values():
        entries.sort(key=lambda entry: -len(entry[0]))
    return index


def _names(text: str, names: Names) -> Iterator[Span]:
    if not names:
        return
    tokens = [(m.start(), m.end()) for m in _TOKEN.finditer(text)]
    number = 0
    while number < len(tokens):
        start, end = tokens[number]
        word = _folded(text[start:end]) if end - start <= 200 else ""
        for words, exact in names.get(word, ()):
            if _follow(text, tokens, number, words) and (exact is None or text[start:end] == exact):
                end, number = tokens[number + len(words) - 1][1], number + len(words) - 1
                placed = (
                    text[start - 1 : start] == "[" and text[end : end + 1] == "]" and text[start:end] in _PLACEHOLDERS
                )
                if not placed:
                    yield start, end
                break
        number += 1


def _follow(text: str, tokens: list[Span], number: int, words: tuple[str, ...]) -> bool:
    if number + len(words) > len(tokens):
        return False
    for offset, word in enumerate(words[1:], number + 1):
        start, end = tokens[offset]
        before = tokens[offset - 1][1]
        if start - before > _BETWEEN or "\n" in text[before:start] or _folded(text[start:end]) != word:
            return False
    return True


_DETECTORS: Final[tuple[tuple[str, tuple[str, ...] | None, Callable[[str], Iterator[Span]]], ...]] = (
    ("url-credentials", ("://",), _credentials),
    ("secret", None, _secrets),
    ("mail", ("@",), _mails),
    ("iban", None, _ibans),
    ("card", None, _cards),
    ("phone", None, _phones),
    ("ip", (".", ":"), _addresses),
    ("home-path", ("home", "Users"), _homes),
    ("handle", ("@",), _handles),
)
CLASSES: Final = (*(name for name, _, _ in _DETECTORS), "name")
_PLACEHOLDERS: Final = frozenset({*CLASSES, "url", "credentials", "home", "path"})
