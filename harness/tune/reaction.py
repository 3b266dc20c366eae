"""What a user's prompt says about the output before it, read from their words by the lexicon alone; unsure is neutral."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Final

from harness.tune.lexicon import ALONE, OTHER_LANGUAGES, PARTS, PHRASES, REWARDS, Phrase, Signal

MAX_CHARS: Final = 600  # a longer prompt is a task or a paste
MAX_LINES: Final = 4
_WORDS_CHARS: Final = 120  # what a scorecard row holds

# Prompts that the client made, commands, and pastes: nobody speaks of the output in them.
_NOT_TYPED = re.compile(
    r"\s*(?:[</!#>]|\[(?:Pasted|Image|Request|\.\.\.|Truncated)|Stop hook|Caveat:)"
    r"|[\s\S]*?(?:```|~~~|\[Pasted text|\[Image #|<[a-z][a-z-]*>|\w\(\)|^[ \t]*>|\bTraceback \(most recent)",
    re.M,
)
_PASTED_LINE = re.compile(r"^(?:\d{4}-\d\d-\d\d|(?:Subject|From|To|Date|Cc|Re)\s*:|\s+at \S+\(|@@ |[+-]{3} )", re.M)
_QUOTED = re.compile(r"`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|„[^“”\n]*[“”]|«[^»\n]*»|‘[^’\n]*’|(?<![\w])'[^'\n]*'(?!\w)")
_SARCASM = re.compile(
    r"🙄|😒|(?:^|\s)/s\b|\byeah,? right\b|\bthanks for nothing\b|\bslow clap\b"
    r"|\b(?:oh,?|well,? (?:that|this) is just) (?:great|perfect|wonderful|brilliant|nice)\b"
)
_HARM = re.compile(
    r"\b(?:deleted|broke|broken|breaks|destroyed|ruined|lost|wiped|crash\w*|overwrote|erased|fail(?:s|ed|ing)?|errors?|"
    r"another (?:bug|issue)|red again|still not)\b"
)
_CONDITION = re.compile(
    r"^(?:and |but |then |only )?(?:if|when|unless|once|whether|maybe|perhaps|probably|suppose|assuming|in case|"
    r"would be|it would be|hopefully|i hope|i wish)\b"
)
_REPORTED = re.compile(
    r"\b(?:says?|said|told|thinks?|thought|wrote|asked|claims?|claimed|complains|complained|reports?|reported|according to|heard)\b"
)
_ASKING = re.compile(
    r"^(?:and |but |so |ok |okay )?(?:is|are|was|were|does|do|did|can|could|would|should|shall|will|have|has|what|why|how|who|where|"
    r"when|which|am|any)\b"
)  # fmt: skip
_TAGS: Final = frozenset(
    {
        "right",
        "no",
        "yes",
        "correct",
        "ok",
        "okay",
        "huh",
        "yeah",
        "is it",
        "is it not",
        "is not it",
        "or",
        "true",
        "agreed",
        "or not",
    }
)
_CONTRAST = re.compile(r"\b(?:but|except|however|although|though|apart from|yet|still|otherwise)\b")
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|\n+")
_CLAUSE = re.compile(r"[,;.!?…()]+|\s+[-–—]+\s+|—|\b(?=(?:but|except|however|although|though|because|since)\b)|\band\b")

_FIRST = re.compile(
    r"(?:oh|ooh+|aah+|ah|ok|okay|hmm+|hm|well|wow|whoa|damn|dang|man|dude|bro|bruh|ngl|tbh|imo|imho|honestly|frankly|hey|hi|thanks|"
    r"thank you|thx|ty|please|sorry|so|actually|unfortunately|regrettably|sadly|i am afraid|i think|i must say|i would say|to be honest|"
    r"holy (?:shit|crap|cow)|hell yes|hell yeah|fuck|lol|haha|ugh|yikes|again|also|because|since|and|but|though|however|claude|"
    r"then|now|no doubt|for me|yes|yeah|yep) +"
)  # fmt: skip
_LAST = re.compile(
    r" +(?:thanks|thank you|thx|please|pls|man|dude|bro|lol|haha|now|imo|imho|tbh|to me|for me|so far|honestly|for sure|indeed|mate|claude|"
    r"here|either|though|to be honest|overall|already|so much|a lot|everyone|guys|today)$"
)  # fmt: skip
# A clause of nothing but these says nothing by itself.
_EMPTY: Final = frozenset(
    {
        "oh", "ooh", "ah", "ew", "ok", "okay", "hmm", "hm", "well", "wow", "whoa", "damn", "dang", "man", "dude",
        "bro", "bruh", "ngl", "tbh", "honestly", "frankly", "hey", "hi", "thanks", "thx", "ty", "please", "sorry",
        "so", "actually", "unfortunately", "regrettably", "sadly", "lol", "haha", "ugh", "claude", "yes", "yeah",
        "yep", "yup", "no", "nope", "nah", "sure", "then", "now", "though", "however", "and", "but", "fine", "cool",
        "hell", "again", "also", "because", "since", "holy", "shit", "thank", "you", "very", "much", "can", "not",
        "complain", "i", "am", "afraid", "must", "say", "just", "to", "be", "fair", "danke", "merci", "gracias",
    }
)  # fmt: skip
_CONTRACTIONS: Final = (
    (re.compile(r"[’ʼ`´]"), "'"),
    (re.compile(r"\b(?:can't|cannot|cant)\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\b(is|are|was|were|does|do|did|could|would|should|has|have)n'?t\b"), r"\1 not"),
    (re.compile(r"\b(it|that|this|one|what|there|chef|nothing)'?s\b(?!')"), r"\1 is"),
    (re.compile(r"\bi'?m\b"), "i am"),
    (re.compile(r"\byou're\b"), "you are"),
    (re.compile(r"\b(i|you|it|that)'d\b"), r"\1 would"),
    (re.compile(r"\b(i|you)'ve\b"), r"\1 have"),
)  # fmt: skip


@dataclass(frozen=True)
class Reaction:
    """``reward`` is -1, -0.5, 0, 0.5 or 1, as ``signal`` says; ``words`` are the clauses that decided it ("" when neutral)."""

    signal: Signal
    reward: float
    words: str


NEUTRAL: Final = Reaction("neutral", 0.0, "")


def classify(prompt: str) -> Reaction:
    """The reaction that ``prompt``, the one right after an output, expresses towards it.

    Only clauses that the lexicon knows as a whole count; questions, conditions and other people's words don't. Praise and
    complaint together are neutral, and so is praise next to a mishap. Never raises.
    """
    if not typed(prompt):
        return NEUTRAL
    text = _plain(prompt)
    alone = text.strip(" .!¡,")
    if known := ALONE.get(alone):
        return Reaction(known, REWARDS[known], prompt.strip()[:_WORDS_CHARS])
    found, unknown, contrast = _evidence(text)
    signs = {REWARDS[phrase.signal] > 0 for phrase, _ in found}
    if unknown:
        found = [(phrase, words) for phrase, words in found if not phrase.weak]
    if not found or len(signs) != 1 or (contrast and unknown):
        return NEUTRAL
    if True in signs and (_SARCASM.search(text) or _HARM.search(text)):
        return NEUTRAL
    signal = max(found, key=lambda one: abs(REWARDS[one[0].signal]))[0].signal
    words = "; ".join(words for phrase, words in found if phrase.signal == signal)
    return Reaction(signal, REWARDS[signal], words[:_WORDS_CHARS])


def typed(prompt: str) -> bool:
    """Whether a person may have typed ``prompt`` as words of their own: no paste, quote, command or message of the client."""
    lines = [line for line in prompt.splitlines() if line.strip()]
    return bool(
        lines
        and len(prompt) <= MAX_CHARS
        and len(lines) <= MAX_LINES
        and not _NOT_TYPED.match(prompt)
        and not _PASTED_LINE.search(prompt)
    )


def _plain(prompt: str) -> str:
    """Lower case, quoted words out, contractions written out."""
    text = _QUOTED.sub(" ❝ ", prompt.strip()).lower()
    for pattern, whole in _CONTRACTIONS:
        text = pattern.sub(whole, text)
    return text


def _evidence(text: str) -> tuple[list[tuple[Phrase, str]], bool, bool]:
    """The clauses that the lexicon knows; whether there are others; whether one clause is set against another."""
    found: list[tuple[Phrase, str]] = []
    unknown = contrast = False
    for sentence in _SENTENCE.split(text):
        clauses = [c for c in (" ".join(c.split()) for c in _CLAUSE.split(sentence)) if c]
        contrast = contrast or any(_CONTRAST.match(c) for c in clauses)
        if _set_aside(sentence, clauses):
            unknown = True
            continue
        asked = sentence.rstrip().endswith("?")
        lost = False  # a clause of this sentence was not understood
        for number, clause in enumerate(clauses):
            if asked and (number == len(clauses) - 1 or _ASKING.match(clause)):
                unknown = True
            elif (phrase := _phrase(clause) or _foreign(clause)) and not (lost and " " not in clause):
                found.append((phrase, clause))
            elif phrase or not _EMPTY.issuperset(clause.split()):
                unknown = lost = True  # behind it a bare word (“… and useless”) may speak of anything
    return found, unknown, contrast


def _set_aside(sentence: str, clauses: list[str]) -> bool:
    """Whether a sentence is conditional, somebody else's words, or asks for assent ("that's wrong, right?")."""
    own = re.sub(r"\bi (?:think|must say|would say|asked)\b|\bwrote (?:it|this|that)\b", "", sentence)
    return bool(
        any(_CONDITION.match(c) for c in clauses)
        or _REPORTED.search(own)
        or (sentence.rstrip().endswith("?") and clauses and clauses[-1] in _TAGS)
    )


def _phrase(clause: str) -> Phrase | None:
    """The phrase that ``clause`` is, as it stands or without the words of no weight around it."""
    for _ in range(8):
        for phrase, pattern in _compiled():
            if pattern.fullmatch(clause):
                return phrase
        shorter = _LAST.sub("", clause)
        shorter = shorter if shorter != clause else _FIRST.sub("", clause, count=1) if _FIRST.match(clause) else clause
        if shorter == clause:
            return None
        clause = shorter
    return None


def _foreign(clause: str) -> Phrase | None:
    """A set phrase of another language; it decides only where every other clause is understood too."""
    words = clause.strip("¡¿ ")
    known = OTHER_LANGUAGES.get(words)
    return Phrase(words, known, weak=True) if known else None


@functools.cache
def _compiled() -> tuple[tuple[Phrase, re.Pattern[str]], ...]:
    return tuple((phrase, re.compile(_filled(phrase.pattern))) for phrase in PHRASES)


def _filled(pattern: str) -> str:
    for name, part in PARTS.items():
        pattern = pattern.replace(f"{{{name}}}", part)
    return pattern
