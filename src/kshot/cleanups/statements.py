"""Where a reply states its answer: "the answer is B", "I choose B", 答案是B. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kshot.cleanups.mentions import OUT_OF_RANGE, SEVERAL, Mention, Reading
from kshot.cleanups.plain_reply import BOX
from kshot.cleanups.predicates import CLOSERS, TEXT


@dataclass(frozen=True, slots=True)
class Statement:
    """An answer that a reply states: where, which option (or ``SEVERAL``, ``OUT_OF_RANGE``), and in which form."""

    start: int
    index: int
    form: str


# ---- what comes before the option ----

_BE = (
    r"(?:is|are|was|be|would(?: have to)? be|will be|should be|must be|must surely be|has to be|have to be"
    r"|could only be"
    r"|can only be|could be|may be|might be|seems to be|appears to be|seems|remains|becomes|lies in|ist|es|est|è|é"
    r"|war|wäre|будет)"
)
_NOUNS = (
    r"(?:answer|ans|choice|option|solution|selection|pick|response|alternative|guess|vote|verdict|letter|(?:right"
    r"|correct|best|true) one)"
)
_OTHER_NOUNS = (
    r"(?:antwort|lösung|respuesta|opción|réponse|reponse|risposta|resposta|opção|alternativa|ответ|вариант|jawaban"
    r"|đáp án"
    r"|odpowiedź|cevap|svar|antwoord|答え|正解|정답|답)"
)
_ASIDE = r"(?:, [^,.:;!?\n]{1,40},|\s?\([^()\n]{1,40}\))?"
_GAP = (
    r"(?:\s(?!not\b|never\b|isn|can't|cannot|couldn|wouldn|shouldn|doesn|won't|aren|wasn|neither\b|hardly\b"
    r"|nor\b)[^\s.:;!?,]{1,24}){0,14}?"
)
_ANSWER_IS = re.compile(
    rf"\b(?:{_NOUNS}|answers){_ASIDE}(?:{_GAP}\s{_BE}\b|\s?['\"]?\s?(?:[:=]|[-=]+>|→|⇒|[–—-](?=\s)))"
    r"|\bans\.(?=\s)"
    rf"|\b(?:final|correct|selected|chosen|result|output|prediction|label|conclusion)\s?['\"]?\s?(?:[:=]|→)"
    rf"|{_OTHER_NOUNS}(?:\s[^\s.:;!?]{{1,15}}){{0,4}}?\s?(?:[:=—–-]|\b(?:ist|es|est|è|é|är|is|będzie|adalah|là)\b|は"
    r"|は、|은|는)"
    r"|####",
    re.IGNORECASE,
)
_CHOOSE = re.compile(
    r"\b(?:choos(?:e|es|ing)|chose|pick(?:s|ed|ing)?|select(?:s|ed|ing)?|go(?:es|ing)? (?:for|with)|went (?:for|with)"
    r"|opt(?:s|ed|ing)? for|vot(?:e|es|ed|ing) for|settl(?:e|es|ed|ing) (?:on|for)|prefer(?:s|red)?|lean(?:s|ed"
    r"|ing)? (?:towards?|to)"
    r"|stick(?:ing)? with|bet(?:ting)? on|answer(?:ing)? with|respond with|(?:i|we)(?:'d| would|'ll| will)? (?:say"
    r"|guess|answer)"
    r"|i(?:'m| am) (?:going|confident|sure|certain)(?: (?:with|in|of|it's|it is|that it is|about))?|my (?:money"
    r"|vote) is on"
    r"|conclude (?:that )?(?:it's|it is|the answer is)?|(?:i|we) (?:\w+ )?(?:think|believe|suspect"
    r"|feel)(?: that)?(?: it's| it is| it must be| this is)?)",
    re.IGNORECASE,
)
_CHINESE = re.compile(
    r"我(?:认为|觉得|猜)(?:是|选)|答案(?:选项|選項)?(?:应该|應該|应|應|就|只能|可能|最终|最終|显然)*(?:是|为|為|选择"
    r"|选|選|:|】|」)*"
    r"|(?<![不没])(?<!不能)(?<!不应)(?:选择|選擇|选(?!项)|選(?!項))(?:答案|的是|为|為|:)*"
    r"|正确(?:的)?(?:选项|答案|说法|一项|项)?(?:应该|应|就)*(?:是|为|:)|正確(?:的)?(?:選項|答案)?(?:應該|應|就)*(?:是"
    r"|為|:)"
)
_CONCLUDE = re.compile(
    rf"\b(?:so|thus|therefore|hence|accordingly|consequently|conclusion|overall|ultimately|finally|in summary"
    r"|in short|anyway|tl;?dr)"
    rf"\b[\s,:;-]{{0,3}}(?:(?:it|this|that) {_BE} )?"
    rf"|\b(?:it|this|that|which|these|he|she)(?:'s| {_BE}| leaves?(?: us| me)?(?: with)?| gives(?: us)?| points? to"
    r"| corresponds? to| matches| means"
    r"| suggests| yields| leads? (?:me |us )?to| aligns? with| fits| supports?| describes)\b"
    r"|\b(?:author|passage|text|evidence|context|article|speaker|narrator|writer|data) (?:suggests?|impl(?:y|ies)"
    r"|supports?|indicates?|points? to|says?|favou?rs?)\b"
    r"|\b(?:we|i|you) (?:get|have|obtain|find|arrive at|end up with)|\bits?\b|\b(?:leaving(?: us)?(?: with)?"
    r"|match(?:es|ing)|correspond(?:s|ing) (?:to|with)|must be|has to be|can only be)"
    r"|\b(?:definitely|probably|maybe|perhaps|certainly|surely|most likely|clearly|obviously|likely)\b|=>|->|→|⇒|∴"
    r"|(?:因此|所以|故|综上|应该是|应为|应是|就是|可知|我认为是|我觉得是|是)[,:]?",
    re.IGNORECASE,
)

_PAUSE = r"[\s,.!:;…–—-]{1,4}"
_CORRECTED = re.compile(
    r"\bcorrection\s?[:,–—-]|\bbut no[,:;–—-]"
    rf"|\b(?:wait|hold on|no|sorry|oops|scratch that|on second thoughts?|actually|i meant?|but){_PAUSE}"
    rf"(?:(?:no|wait|sorry|actually|rather|then|so){_PAUSE}){{0,3}}"
    r"(?:(?:it|this|that)(?:'s(?! not)| is| should be| must be| has to be)|make (?:that|it)|should be)"
    r"(?: actually)?(?=\s)"
    r"|\bit(?:'s| is) actually(?=\s)",
    re.IGNORECASE,
)
_ALL_BUT = re.compile(
    r"\b(?:everything|nothing|all|none|every|each|no)\b[^.!?\n]{0,60}?\b(?:but|except(?: for)?|other than)(?=\s)",
    re.IGNORECASE,
)

# ---- what makes it no statement ----

_HYPOTHETICAL = re.compile(
    r"\b(?:whether|if|assum(?:e|ing)|suppos(?:e|ing)|unless|not|n't|never|nor|tempt(?:ed|ing)(?: \w+)? to"
    r"|mistake(?:nly)?(?: \w+)? to"
    r"|(?:might|may|could|would) (?:be tempted to )?(?:think|say|assume|guess|believe|answer|choose|pick|expect|argue)"
    r"|(?:people|students|some|many|others|one|you) (?:often |sometimes |usually |would |might |may |will )?(?:think"
    r"|say|assume|guess|believe|answer|choose|pick|argue)"
    r"|wrong|incorrect|why|when|which|how|what|would have been|to)"
    r"(?: that| say| it| to| is| was| the| a| an| my| your| our| final| correct| right| best| most| only"
    r"| \w+ly){0,6}\s?\Z",
    re.IGNORECASE,
)
_OTHERS = re.compile(
    r"\b(?:people|students|some|many|others|most|someone|they)(?: (?:would|might|may|often|sometimes|usually|will"
    r"|could))?\s\Z",
    re.IGNORECASE,
)
_CONDITIONAL = re.compile(r"\b(?:if|had|were|unless|otherwise)\b[^.!?\n]*\Z", re.IGNORECASE)
_WOULD = re.compile(r"would|could|might|may", re.IGNORECASE)

# ---- the option itself ----

_FILLER = re.compile(
    r"(?:[\s\"'(\[{<:=,⟦]+|[-–—]\s|\b(?:the|options?|choices?|letters?|answers?|statements?|both|either|definitely"
    r"|clearly|likely"
    r"|most|probably|indeed|therefore|thus|certainly|number|simply|just|obviously|in fact|actually|still|then|again"
    r"|hence"
    r"|surely|none other than|la|le|der|die|das|opción|opção|lettre|letra|lettera|buchstabe)\b|选项|選項|项|就是|是"
    r"|为|選|选){0,12}",
    re.IGNORECASE,
)
_LETTERS = re.compile(r"([A-Z]{1,3})(?![A-Za-z0-9_])(?!'[A-Za-z])(?!\.[A-Za-z](?![A-Za-z]))|(" + TEXT + ")")
_LOWER = re.compile(
    r"(?:([b-hj-z])(?![A-Za-z0-9_'])(?!\.[a-z])|([ai])(?=\s*(?:[.),;:!?\]}\"'⟧。]|\Z|\n)| (?:because|since"
    r"|as)\b))(?!\.[a-z])(?! ?[=+^*/])"
)
_SAID_ON = re.compile(rf"{CLOSERS} (?!because\b|since\b|as\b|instead\b|after\b|then\b)[a-z]+")
_RUN = re.compile(r"[A-Z]{2,8}(?![A-Za-z0-9_])")
_NOT_BUT = re.compile(
    rf"\s(?:\w+ly )?not (?:options? )?[(\[\"']?(?:[A-Z]|{TEXT}){CLOSERS}(?:,? but(?: rather| instead)?|, rather"
    r"|[,;] (?:it's|it is|rather|instead))\s",
)
_REVERSED = re.compile(
    rf"{CLOSERS},? (?:is|must be|would be|has to be|seems to be|appears to be|should be|was"
    r"|remains)(?: \w+ly)? (?:the|my|our)"
    r" (?:(?:final|correct|right|best|only|most \w+|obvious|likely|true) ){0,3}(?:answer|choice|option|one|pick"
    r"|solution|selection)\b"
    rf"|{CLOSERS}(?: it is(?=\W*(?:\Z|\n))| final answer\b)"
    rf"|{CLOSERS},? ?(?:是|为)(?:正确|最佳)?(?:的)?答案",
    re.IGNORECASE,
)
_UNFINISHED = re.compile(
    r"(?:(?<!\b[A-Za-z] )\b(?:answer|choice|option|one)\s?(?:is|:|would be|must be|should be)\s?(?:the |option "
    r"|choice )?"
    r"|答案\s?[是为:]\s?|选)[(\[\"⟦]?\s*\Z",
    re.IGNORECASE,
)


def option_at(reading: Reading, start: int, *, may_be_ruled_out: bool = False) -> Mention | None:
    """Return the option that is named next; the index is ``SEVERAL`` where it begins an enumeration."""
    text = reading.text
    filled = _FILLER.match(text, start)
    place = filled.end() if filled else start
    found = _LETTERS.match(text, place)
    if found is None:
        lower = _LOWER.match(text, place)
        return (
            None
            if lower is None
            else _checked(reading, lower[1] or lower[2], place, lower.end(), may_be_ruled_out=may_be_ruled_out)
        )
    name = found[1] or found[2]
    if reading.is_article(place):
        return None
    run = _RUN.match(text, place)
    if run and reading.index_of(name) == OUT_OF_RANGE and list(name) == sorted(set(name)):
        if all(reading.index_of(each) != OUT_OF_RANGE for each in name):
            return Mention(SEVERAL, place, found.end())
        return None
    if len(name) > 1 and reading.index_of(name) == OUT_OF_RANGE:
        return None
    return _checked(reading, name, place, found.end(), may_be_ruled_out=may_be_ruled_out)


def _checked(reading: Reading, name: str, start: int, end: int, *, may_be_ruled_out: bool) -> Mention | None:
    mention = Mention(reading.index_of(name), start, end, not name.isascii())
    if mention.index != OUT_OF_RANGE:
        if (mention.index == 0 and start in reading.repeated_list) or (
            reading.ruled_out(mention, alone=True) and not may_be_ruled_out
        ):
            return None
        if reading.joined(mention) or start in reading.enumerated:
            return Mention(SEVERAL, start, end)
    return mention


def statements(reading: Reading) -> Iterator[Statement]:
    """Find every statement of an answer."""
    text = reading.text
    for form, place in _cues(text):
        yield from _stated(option_at(reading, place), form)
    for match in _CORRECTED.finditer(text):
        mention = option_at(reading, match.end())
        others = _HYPOTHETICAL.search(text[max(0, match.start() - 60) : match.start()].rstrip(" :,\"'"))
        if mention and mention.index >= 0 and not others and not _SAID_ON.match(text, mention.end):
            yield Statement(mention.start, mention.index, "answer is")
    for match in _ALL_BUT.finditer(text):
        yield from _stated(option_at(reading, match.end(), may_be_ruled_out=True), "answer is")
    for mention in reading.mentions:
        before = text[max(0, mention.start - 60) : mention.start]
        if _REVERSED.match(text, mention.end) and not _HYPOTHETICAL.search(before) and not reading.ruled_out(mention):
            index = SEVERAL if mention.start in reading.enumerated else mention.index
            yield Statement(mention.start, index, "answer is")


def _cues(text: str) -> Iterator[tuple[str, int]]:
    """Yield where an answer is to be named next, and the form of the statement."""
    for match in _ANSWER_IS.finditer(text):
        if not _is_hypothetical(text, match):
            but = _NOT_BUT.match(text, match.end())
            yield "answer is", but.end() if but else match.end()
    for match in _CHOOSE.finditer(text):
        before = text[max(0, match.start() - 60) : match.start()]
        if not _HYPOTHETICAL.search(before) and not _OTHERS.search(before):
            yield "choose", match.end()
    for match in _CHINESE.finditer(text):
        yield "answer is", match.end()
    for place, character in enumerate(text):
        if character == BOX:
            yield "boxed", place + 1


def _is_hypothetical(text: str, cue: re.Match[str]) -> bool:
    before = text[max(0, cue.start() - 160) : cue.start()]
    if _HYPOTHETICAL.search(before[-80:]):
        return True
    return bool(_WOULD.search(cue[0]) and _CONDITIONAL.search(before))


def _stated(mention: Mention | None, form: str) -> Iterator[Statement]:
    if mention is not None:
        yield Statement(mention.start, mention.index, form)


def conclusions(reading: Reading) -> Iterator[Statement]:
    """Find what a reply concludes without the word "answer": "so it must be C", "this corresponds to (B)"."""
    for match in _CONCLUDE.finditer(reading.text):
        if _HYPOTHETICAL.search(reading.text[max(0, match.start() - 60) : match.start()]):
            continue
        mention = option_at(reading, match.end())
        if mention is None or mention.index < 0 or reading.ruled_out(mention):
            continue
        if not _goes_on(reading, mention):
            hedged = _HEDGE.search(reading.text[max(0, match.start() - 8) : match.end()])
            yield Statement(mention.start, mention.index, "guess" if hedged else "conclusion")


_HEDGE = re.compile(r"可能|也许|或许|maybe|perhaps|might|may|could", re.IGNORECASE)
_VERB = re.compile(rf"{CLOSERS} [a-z]+")
_AFTERWARDS = re.compile(
    rf"{CLOSERS} (?:because|since|as|for|due|given|based|in|by|with|from|and|but|that|which|here|then|again|instead"
    r"|rather|it|i|to|over|maybe|not|or|after|on)\b",
)


def _goes_on(reading: Reading, mention: Mention) -> bool:
    """Whether a verb follows, so that the option is only the subject of another sentence."""
    return bool(
        not mention.by_text
        and _VERB.match(reading.text, mention.end)
        and not _AFTERWARDS.match(reading.text, mention.end)
        and not reading.judged(mention)
    )


def is_unfinished(reading: Reading) -> bool:
    """Whether a reply breaks off where it would name its answer."""
    return _UNFINISHED.search(reading.text.rstrip()[-60:]) is not None
