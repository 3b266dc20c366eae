"""The words of praise and complaint that tune knows. Data: add a phrase here and a row to tests/fixtures/tune/reactions.tsv.

A phrase must be the whole of a clause, so a clause with words that no phrase knows decides nothing. Phrases are regular
expressions with ``{names}`` for the parts below; text is in lower case, with contractions written out (``isn't`` is
``is not``) and quoted words taken out.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Signal = Literal["explicit_positive", "implicit_positive", "neutral", "implicit_negative", "explicit_negative"]

REWARDS: Final[dict[Signal, float]] = {
    "explicit_positive": 1.0,
    "implicit_positive": 0.5,
    "neutral": 0.0,
    "implicit_negative": -0.5,
    "explicit_negative": -1.0,
}


class Phrase(NamedTuple):
    """``weak``: decides only in a prompt in which every other clause is understood, since it often means something else."""

    pattern: str
    signal: Signal
    weak: bool = False
    note: str = ""


# What a skill puts out, and the parts of it. A modifier may stand before a part ("that cold email hook").
_OUTPUTS = "output|result|results|draft|answer|response|reply|version|summary|rewrite|translation|outline|write-?up"
_PARTS = (
    "intro|introduction|hook|tone|voice|ending|conclusion|opening|opener|title|headline|subject line|structure|wording|"
    "phrasing|style|format|formatting|copy|paragraph|line|opening line|first line|last line|section|sentence|post|email|pitch|closing|bullets|bullet points"
)
# "the error message is bad", "the API response is wrong": somebody else's.
_FOREIGN = "(?!(?:api|server|http|error|log|commit|json|user|users|customer|customers|test|search|build|query)\\b)"

_GREAT = (
    "perfect|excellent|brilliant|amazing|awesome|fantastic|superb|outstanding|wonderful|beautiful|spot on|impressive|"
    "gorgeous|marvell?ous|stellar|flawless|incredible|terrific|superb|magnificent|top notch|exceptional|phenomenal"
)
_FINE = (
    "good|great|nice|solid|strong|sharp|cool|neat|lovely|helpful|useful|clean|clear|crisp|on point|fire|killer|"
    "really something|well|a lot better|a keeper|a winner|a banger|gold|on brand|well written|well done|so much better|much better|better"
)
_BAD = (
    "bad|terrible|awful|horrible|horrendous|atrocious|dreadful|useless|worthless|garbage|trash|crap|crappy|shit|shitty|"
    "rubbish|bullshit|nonsense|boring|bland|mediocre|mid|lame|weak|sloppy|unusable|unacceptable|disappointing|ugly|"
    "unreadable|robotic|generic|vague|hedgy|wordy|verbose|salesy|stiff|cheesy|dull|confusing|misleading|pathetic|"
    "ridiculous|poor|poorly written|badly written|worse|even worse|much worse|way worse|a mess|a disaster|a joke|slop|"
    "off the mark|off|lazy|repetitive"
)
_TOO = (
    "long|short|hedgy|wordy|verbose|formal|informal|casual|generic|salesy|vague|dry|stiff|complicated|complex|cheesy|"
    "dense|technical|robotic|fluffy|soft|aggressive|pushy|flowery|corporate|repetitive|bland|boring|simplistic|terse|"
    "stuffy|preachy|jargony|academic|cautious|chatty|friendly|abstract|shallow|basic|polite|defensive|marketing-?y|busy"
)
# With "this is" before it any adjective will do, but for these: "too late", "too good to be true", "too kind".
_NOT_TOO = (
    "late|early|bad|good|easy|kind|funny|true|slow|fast|hot|cold|expensive|cheap|cool|great|nice|sweet|real|much|many"
)

PARTS: Final[dict[str, str]] = {
    "it": f"(?:it|this|that|this one|that one|these|those|(?:the|your|this|that) (?:{_FOREIGN}[\\w-]+ ){{0,2}}(?:{_OUTPUTS}|{_PARTS}))",
    "out": f"(?:it|this|that|this one|that one|(?:the|your|this|that) (?:new |last |latest |first |second )?(?:{_OUTPUTS}))",
    "is": "(?: (?:is|was|are|were|looks?|sounds?|feels?|reads?|seems?|came out|turned out|got))",
    "verb": "(?:is|looks?|sounds?|feels?|reads?|seems?|came out|turned out)",
    "very": (
        "(?:(?:so|very|really|pretty|quite|absolutely|totally|completely|entirely|just|simply|truly|damn|fucking|freaking|super|"
        "way|far|much|a bit|a little|still|all|utterly|kinda|kind of|rather|incredibly|extremely|seriously|also|such|"
        "total|complete|absolute|pure|frankly|honestly|actually) )*"
    ),
    "great": f"(?:{_GREAT})",
    "fine": f"(?:{_FINE})",
    "bad": f"(?:{_BAD})",
    "too": f"(?:{_TOO})",
    "any": f"(?!(?:{_NOT_TOO})\\b)[a-z-]+",
    "fact": "(?:wrong|incorrect|inaccurate|not right|not correct)",
    "where": f"(?: (?:in|at|near) (?:the|your) (?:\\w+ )?(?:{_OUTPUTS}|{_PARTS}|end|beginning|start|middle|lines?|paragraphs|sections))?",
    "before": "(?:before|last time|it was|(?:the|your) (?:last|previous|first|old|original|other|earlier)(?: one| version| draft| try)?)",
    "work": "(?:job|work|stuff|draft|one|answer|summary|rewrite|catch up|writing|effort)",
    "much": (
        "(?:hedging|adverbs|adjectives|words|buzzwords|jargon|bullets|bullet points|emojis?|exclamation marks|filler|fluff|"
        "details?|caveats|hedges|commas|sentences|paragraphs|headings|headers|repetition|marketing|boilerplate|qualifiers)"
    ),
    "wanted": "(?:wanted|needed|asked for|was looking for|had in mind|meant|was after|was hoping for|requested)",
}  # fmt: skip

_GOOD: Final[tuple[Phrase, ...]] = (
    Phrase("{very}{great}", "explicit_positive"),
    Phrase(
        "{very}(?:good|great|nice|better|lovely|solid)", "explicit_positive", True, "“great, now …” only leads over"
    ),
    Phrase("{very}(?:better|much better) than {before}", "explicit_positive"),
    Phrase("{it}{is} {very}(?:{great}|{fine})", "explicit_positive"),
    Phrase("{it}{is} {very}better than {before}", "explicit_positive"),
    Phrase("(?:looks|sounds|reads|feels) {very}(?:{great}|{fine})", "explicit_positive"),
    Phrase("(?:{it}{is} )?(?:the )?best (?:one|version|draft|try)(?: so far| yet)?", "explicit_positive"),
    Phrase("(?:you )?got (?:it|this|that) (?:exactly |just |completely )?right(?: this time)?", "explicit_positive"),
    Phrase("(?:this|that) is what i {wanted}", "explicit_positive", True, "may repeat the request"),
    Phrase("works {very}(?:great|perfectly|beautifully|well|like a charm)", "explicit_positive"),
    Phrase(
        "{very}(?:good|great|nice|{great}) {work}",
        "explicit_positive",
        False,
        "“good question” is not about the output",
    ),
    Phrase("(?:very )?well done", "explicit_positive"),
    Phrase("keep {it}(?: up)?(?: please)?", "explicit_positive"),
    Phrase("(?:keep (?:{it} )?|{great} )(?:as is|as it is|like this|like that|that way|this way)", "explicit_positive"),
    Phrase("keep (?:doing|writing|opening|using|it up|up) (?:that|this|it|like this|the good work)", "explicit_positive"),
    Phrase("(?:do it|write it) (?:like )?(?:this|that)(?: every time| from now on| again)", "explicit_positive"),
    Phrase("always (?:do|write|format|structure) (?:it|them|this) (?:like )?(?:this|that)(?: from now on)?", "explicit_positive"),
    Phrase("more (?:of|like) (?:this|that|these|those)(?: from now on)?", "explicit_positive"),
    Phrase("{very}(?:nailed|crushed|aced|killed) it", "explicit_positive"),
    Phrase("(?:you|that|this) {very}(?:nailed|crushed|aced|killed) (?:it|this)", "explicit_positive"),
    Phrase("(?:{it}{is} )?(?:exactly|precisely) what i {wanted}", "explicit_positive"),
    Phrase("(?:{it}{is} )?just what i {wanted}", "explicit_positive", True, "“just what I needed, another meeting”"),
    Phrase("i (?:{very})(?:like|love|adore|enjoy) {it}(?: a lot| very much| so much)?", "explicit_positive"),
    Phrase("(?:love|loving|loved|like) {it}(?: a lot| so much)?", "explicit_positive"),
    Phrase("i {very}(?:like|love) (?:how|the way) (?:you|it|this|that) .+", "explicit_positive"),
    Phrase("i am {very}(?:impressed|delighted|thrilled|(?:happy|pleased|impressed|delighted|thrilled) (?:with|by) {it})", "explicit_positive"),
    Phrase("{very}(?:impressed|chef is kiss|chefs kiss|bang on|on point|on the money|first class|top marks)", "explicit_positive"),
    Phrase("(?:lgtm|10/10|100/100|a\\+|👍|no notes)", "explicit_positive", True),
    Phrase("(?:that|this|it) {very}(?:slaps|rocks|rules|hits|lands)", "explicit_positive"),
    Phrase("(?:{it} )?could not (?:be|have been) (?:better|happier)", "explicit_positive"),
    Phrase("do not change (?:a thing|anything|a word)", "explicit_positive"),
    Phrase("would not change (?:a thing|anything|a word)", "explicit_positive"),
    Phrase("(?:{it}{is} )?not (?:half )?bad(?: at all)?", "explicit_positive", True, "an idiom: rather good"),
)  # fmt: skip

_POOR: Final[tuple[Phrase, ...]] = (
    Phrase(
        "{very}(?:bad|garbage|trash|crap|shit|bullshit|boring|confusing|weak|sloppy|lame|ugly|poor)",
        "explicit_negative",
        True,
        "“shit, I forgot to push”",
    ),
    Phrase(
        "{very}(?:terrible|awful|horrible|horrendous|atrocious|dreadful|useless|worthless|rubbish|nonsense|disappointing|unusable|"
        "unacceptable|mediocre|pathetic|wrong|incorrect|(?:even )?worse)",
        "explicit_negative",
    ),
    Phrase("(?:meh|👎|0/10|1/10|2/10|f-|do better)", "explicit_negative"),
    Phrase("{it}{is} {very}{bad}{where}", "explicit_negative"),
    Phrase("{out}{is} {very}{fact}", "explicit_negative"),
    Phrase("{it}{is} {very}like {bad}", "explicit_negative"),
    Phrase("{very}worse than {before}", "explicit_negative"),
    Phrase("{it}{is} {very}worse than {before}", "explicit_negative"),
    Phrase("(?:this|that|it|you) (?:made|makes) (?:it|things|everything) {very}worse", "explicit_negative"),
    Phrase("{it} {very}(?:sucks|stinks|blows)", "explicit_negative"),
    Phrase("{very}too {too}{where}", "explicit_negative"),
    Phrase("{it}{is} {very}too {any}{where}", "explicit_negative"),
    Phrase("(?:{it} (?:has|uses|is full of) )?{very}too (?:many|much) {much}{where}", "explicit_negative"),
    Phrase("(?:{it} )?(?:sounds|reads|looks|feels|seems) {very}(?:{bad}|too {any})", "explicit_negative"),
    Phrase(
        "(?:{it} )?(?:sounds|reads|feels) like (?:an? |some )?(?:brochure|marketing(?: copy| speak)?|ad|advert|press release|robot|bot|"
        "machine|sales pitch|template|spam|legalese|textbook|linkedin post|corporate \\w+|bad translation|horoscope)",
        "explicit_negative",
    ),
    Phrase("(?:{it} )?(?:sounds|reads|looks) like an? (?!pro|expert|human|native|master)[\\w-]+ (?:wrote|made|did) (?:it|this|that)", "explicit_negative"),
    Phrase("(?:the|your) (?:draft|answer|response|reply|summary|rewrite|translation|outline) (?:misses|missed|lacks|ignores|omits) .+", "explicit_negative"),
    Phrase("{it} {very}(?:misses|missed) the (?:main )?(?:point|mark|nuance)", "explicit_negative"),
    Phrase("what an? (?:{very})(?:mess|disaster|joke|disappointment|letdown)", "explicit_negative", True),
    Phrase("(?:yuck|gross|eww*)", "explicit_negative", True),
    Phrase("stop (?:using|adding|writing) (?:so many |so much |these |those |all these |all the )?{much}{where}", "explicit_negative"),
    Phrase(
        "(?:{it}{is} )?(?:not|never) {very}(?:that |so |quite )?(?:good|great|nice|helpful|useful|acceptable|right|good enough|usable|"
        "readable|clear|convincing|impressive|funny|there yet)(?: enough| at all| either)?",
        "explicit_negative",
    ),
    Phrase("(?:{it}{is} )?no (?:better|good)(?: at all| than {before})?", "explicit_negative"),
    Phrase("(?:{it}{is} )?not (?:at all |quite |really |exactly )*what i {wanted}(?: at all)?", "explicit_negative"),
    Phrase("(?:{it}{is} )?not it", "explicit_negative"),
    Phrase("(?:this|that|it) (?:does|did) not work(?: at all)?", "explicit_negative"),
    Phrase("(?:{it} )?(?:could|should|can) {very}(?:be|have been) {very}better", "explicit_negative"),
    Phrase("i {very}(?:do|did) not {very}(?:like|love|want) {it}(?: at all)?", "explicit_negative"),
    Phrase("(?:do|did) not {very}(?:like|love) {it}(?: at all)?", "explicit_negative"),
    Phrase("i {very}(?:hate|dislike|detest|loathe) {it}", "explicit_negative"),
    Phrase("(?:hate|hated) {it}", "explicit_negative"),
    Phrase("(?:i am )?not (?:a (?:big |huge )?)?(?:fan|happy|pleased|satisfied|impressed|thrilled)(?: (?:of|with|by) {it})?", "explicit_negative"),
    Phrase("i am {very}(?:disappointed|unhappy|dissatisfied|annoyed)(?: (?:by|with|in) {it})?", "explicit_negative"),
    Phrase(
        "you {very}(?:missed|ignored|skipped|left out|misread|misunderstood|messed up|screwed up|did not follow|forgot|omitted) "
        "(?!nothing|anything|my heart|to )\\S.*",
        "explicit_negative",
    ),
    Phrase("you {very}(?:forgot|failed|neglected) to (?:mention|include|add|say|cite|link|explain|use|follow|state|name) .+", "explicit_negative"),
    Phrase("you {very}(?:broke|ruined|butchered) (?!my heart)(?:it|this|that|the .+|my .+|everything)", "explicit_negative"),
    Phrase("you {very}(?:misunderstood|missed it|messed up|screwed up)", "explicit_negative"),
    Phrase("never (?:do|write|use) (?:that|this|it)(?: ever)?(?: again)?", "explicit_negative"),
    Phrase("do not (?:ever )?(?:do|write|use) (?:that|this|it)(?: ever)? again", "explicit_negative"),
    Phrase("do not keep {it}", "explicit_negative"),
    Phrase("stop (?:hedging|apologi[sz]ing|rambling|repeating yourself|making (?:things|stuff) up|doing (?:that|this)|guessing|being so .+)", "explicit_negative"),
    Phrase("(?:revert|undo)(?: {it}| your (?:last )?(?:changes?|edits?|work))?", "explicit_negative", True),
    Phrase("(?:roll|take) (?:it|that|this) back", "explicit_negative", True),
    Phrase("(?:scrap|discard|trash|bin|ditch|delete) (?:it|this|that|(?:the|this|that|your) draft)", "explicit_negative", True),
    Phrase("throw (?:it|this|that) (?:away|out)", "explicit_negative", True),
)  # fmt: skip

_ACTS: Final[tuple[Phrase, ...]] = (
    Phrase("(?:ship|send|commit|merge|publish|post|submit|release) {it}(?: to \\w+(?: \\w+)?| now)?", "implicit_positive", True),
    Phrase("(?:push(?: it)?|commit)", "implicit_positive", True),
    Phrase("(?:try|do it|do this|do that|do it over|run it|once) (?:again|over)", "implicit_negative", True),
    Phrase("(?:redo|regenerate|rerun|re-run|rewrite|retry)(?: {it}| the skill| everything)?(?: from scratch)?", "implicit_negative", True),
    Phrase("start (?:over|again|from scratch)", "implicit_negative", True),
)  # fmt: skip

PHRASES: Final[tuple[Phrase, ...]] = _GOOD + _POOR + _ACTS

# Seeds of words that count only when they are all that was typed: anywhere else they answer a question.
ALONE: Final[dict[str, Signal]] = {"nope": "explicit_negative"}

# Other languages: weak phrases, which decide only a prompt of nothing else. More would need a reader of each language.
OTHER_LANGUAGES: Final[dict[str, Signal]] = {
    **dict.fromkeys(
        (
            # German; "gut", "nein" and "nicht schlecht" are left out: they lead over, answer, or are lukewarm
            "perfekt", "sehr gut", "super", "hervorragend", "ausgezeichnet", "genau so", "gefällt mir", "das gefällt mir", "gefällt mir sehr", "wunderbar", "gut gemacht",
            "das ist super", "das ist perfekt", "das ist sehr gut", "viel besser", "das ist viel besser", "genau das wollte ich",
            # French; "bien", "c'est bien" are lukewarm
            "parfait", "c'est parfait", "très bien", "génial", "c'est génial", "c'est super", "excellent travail", "j'adore", "j'aime beaucoup",
            "beaucoup mieux", "c'est beaucoup mieux", "impeccable", "magnifique",
            # Spanish; "bien", "vale" are lukewarm
            "perfecto", "está perfecto", "genial", "muy bien", "excelente", "me encanta", "me gusta", "me gusta mucho", "mucho mejor",
        ),
        "explicit_positive",
    ),
    **dict.fromkeys(
        (
            "schlecht", "das ist schlecht", "das ist falsch", "falsch", "gefällt mir nicht", "das gefällt mir nicht", "zu lang", "viel zu lang", "zu kurz", "zu förmlich",
            "schlechter als vorher", "schlimmer als vorher", "das ist mist", "unbrauchbar", "mach das rückgängig",
            "c'est nul", "nul", "c'est faux", "c'est mauvais", "je n'aime pas", "je n'aime pas ça", "ça ne me plaît pas", "trop long", "c'est trop long",
            "trop formel", "pire qu'avant", "inutilisable",
            "está mal", "eso está mal", "esto está mal", "no me gusta", "no me gusta nada", "demasiado largo", "es demasiado largo", "peor que antes",
            "es horrible", "inútil", "terrible",
        ),
        "explicit_negative",
    ),
}  # fmt: skip
