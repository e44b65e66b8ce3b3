"""Where a reply mentions options, and where it states its answer: "the answer is B", "I choose B", 答案是B.

Standard library only. The text is one of ``plain_reply``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from kshot.cleanups.letters import letter_index
from kshot.cleanups.plain_reply import BOX, FIRST_TEXT
from kshot.cleanups.predicates import (
    ALONE_RULED_OUT_AFTER,
    ASKED_AFTER,
    ASKED_BEFORE,
    CALLED_WRONG_AFTER,
    CLAUSE,
    CLOSERS,
    DOUBTED_BEFORE,
    EITHER,
    HEDGED,
    JUDGED_BEST,
    JUDGED_RIGHT,
    MORE,
    NAME,
    ONLY_AFTER,
    ONLY_BEFORE,
    RULED_OUT_AFTER,
    RULED_OUT_BEFORE,
    TEXT,
    TICKED_BEFORE,
)

# ---- what a reply says of each option that it mentions: that it is wrong, one of several, or right ----

OUT_OF_RANGE = -1
"""The index of a letter that no option has."""

SEVERAL = -2
"""The index of what names several options at once."""

MAX_MENTIONS = 1000
"""Of more mentions, as in a reply that repeats a letter without end, only the first and the last are looked at."""


@dataclass(frozen=True, slots=True)
class Mention:
    """One option that a reply names, by letter or by text, and where."""

    index: int
    start: int
    end: int
    by_text: bool = False


# One-letter words: an article or a pronoun unless it is followed by something that no noun or verb is.
_FUNCTION_WORDS = (
    r"(?:because|since|as|is|was|are|and|or|but|not|for|which|that|the|this|to|it|in|from|by|with|given|based|due|so"
    r"|where|when|while|if|of|rather|instead|also|here|only|alone|too|per|according|would|must|should|seems?|has|fits"
    r"|makes|can|cannot|does|could|looks|appears|matches|works|wins|means|says|states|being|over|than|then|we|you"
    r"|describes|refers|mentions|correctly|incorrectly|will|may|might|remains?|survives|isn|doesn|wasn|wouldn|couldn"
    r"|won)\b"
)
_ARTICLE = re.compile(rf"[Aa] (?!{_FUNCTION_WORDS})[a-z]|[Aa] [A-Za-z]+(?:-[a-z]+)")
_PRONOUN = re.compile(r"I(?:'| [a-z]|, )|i\b")
_FORMULA = re.compile(r"\s?(?:[=+^×∩∪|<>#]|-[A-Za-z])| (?:major|minor|sharp|flat)\b")
_IN_FORMULA = re.compile(r"(?:[=+^×∩∪|<>/*]\s?|\d |\d|\b[A-Za-z]\()\Z")
# A capital after such a word is part of a name: vitamin C, hepatitis B, point A.
_NAMED = re.compile(
    r"\b(?:vitamins?|hepatitis|types?|plan|groups?|grade|points?|step|part|section|figure|fig\.?|table|appendix|team"
    r"|class|category|phase|stage|factor|variable|person|student|company|country|city|set|line|angle|side|vertex|matrix"
    r"|event|influenza|schedule|exhibit|node|area|region|room|building|platform|gate|drive|tube|sample|block"
    r"|key of) \Z",
    re.IGNORECASE,
)
_INITIAL_BEFORE, _INITIAL_AFTER = (
    re.compile(r"\b(?!Option|Choice|Answer|Letter)[A-Z][a-z]+ \Z"),
    re.compile(r"\. [A-Z]"),
)

_LIST_MARK = re.compile(r" ?[.):\]]|\]? [-–—] ")
_LINE_START = re.compile(r"\A[\s>#\-•+(\[:]*(?:\d[.)] )?(?:options? |choices? |选项)?[(\[]?\Z", re.IGNORECASE)


@dataclass(frozen=True)
class Reading:
    """The plain text of a reply, and the number of options."""

    text: str
    count: int
    judgements: frozenset[int] = frozenset()
    """The options that are words such as yes and no."""

    @cached_property
    def mentions(self) -> tuple[Mention, ...]:
        """Every option that the text names, but for letters that are words or stand in formulas and names."""
        names = list(re.finditer(NAME, self.text))
        if len(names) > MAX_MENTIONS:
            names = [*names[: MAX_MENTIONS // 10], *names[MAX_MENTIONS // 10 - MAX_MENTIONS :]]
        found = (self._mention(match) for match in names)
        return tuple(mention for mention in found if mention.index != OUT_OF_RANGE and not self._is_a_word(mention))

    def index_of(self, name: str) -> int:
        """Return the index that a letter or the character of a text names."""
        index = ord(name) - FIRST_TEXT if ord(name[0]) >= FIRST_TEXT else letter_index(name.upper())
        return index if index < self.count else OUT_OF_RANGE

    def _mention(self, match: re.Match[str]) -> Mention:
        by_text = ord(match[0][0]) >= FIRST_TEXT
        return Mention(self.index_of(match[0]), match.start(), match.end(), by_text)

    def is_article(self, start: int) -> bool:
        """Whether the letter there is an English article or a pronoun."""
        return bool(_ARTICLE.match(self.text, start) or _PRONOUN.match(self.text, start))

    def _is_a_word(self, mention: Mention) -> bool:
        if mention.by_text:
            return False
        before = self.text[max(0, mention.start - 30) : mention.start]
        return bool(
            self.is_article(mention.start)
            or _FORMULA.match(self.text, mention.end)
            or _IN_FORMULA.search(before)
            or _NAMED.search(before)
            or (_INITIAL_BEFORE.search(before) and _INITIAL_AFTER.match(self.text, mention.end))
        )

    def ruled_out(self, mention: Mention, *, alone: bool = False) -> bool:
        """Whether the text says that this option is wrong; ``alone``: not only those that it is enumerated with."""
        key = (mention.start, mention.end, alone)
        if key not in self._verdicts:
            self._verdicts[key] = self._is_ruled_out(mention, alone=alone)
        return self._verdicts[key]

    @cached_property
    def _verdicts(self) -> dict[tuple[int, int, bool], bool]:
        return {}

    def _is_ruled_out(self, mention: Mention, *, alone: bool) -> bool:
        before = self._line_before(mention)
        if self.is_judgement(mention):  # "No, that is wrong." rules out nothing
            forms = (RULED_OUT_BEFORE, DOUBTED_BEFORE)
            return any(form.search(before) for form in forms) or bool(CALLED_WRONG_AFTER.match(self.text, mention.end))
        return bool(
            (ALONE_RULED_OUT_AFTER if alone else RULED_OUT_AFTER).match(self.text, mention.end)
            or RULED_OUT_BEFORE.search(before)
            or DOUBTED_BEFORE.search(before)
            or (ASKED_AFTER.match(self.text, mention.end) and ASKED_BEFORE.search(before))
        )

    def is_judgement(self, mention: Mention) -> bool:
        """Whether it is a word such as yes or no, which an option consists of."""
        return mention.by_text and mention.index in self.judgements

    def _line_before(self, mention: Mention) -> str:
        return self.text[max(0, mention.start - 60) : mention.start].rpartition("\n")[2]

    def judged(self, mention: Mention) -> int:
        """Return how the text calls this option: 3 the best, 2 right, 1 the only one, 0 none of these."""
        if self.is_judgement(mention) or HEDGED.match(self.text, mention.end):
            return 0
        if TICKED_BEFORE.search(self._line_before(mention)):
            return 3
        forms = (JUDGED_BEST, JUDGED_RIGHT)
        only = bool(ONLY_BEFORE.search(self._line_before(mention)) and ONLY_AFTER.match(self.text, mention.end))
        return next((3 - rank for rank, form in enumerate(forms) if form.match(self.text, mention.end)), int(only))

    def joined(self, mention: Mention) -> bool:
        """Whether the option begins an enumeration: ``A and B``, ``A or B``, ``A, C``."""
        more = MORE.match(self.text, mention.end)
        if more is None or self.index_of(more[1]) in {mention.index, OUT_OF_RANGE}:
            return False
        last = self._enumeration(mention)[-1]
        rest = Mention(self.index_of(last[1]), last.start(1), last.end(1))
        if RULED_OUT_AFTER.match(self.text, rest.end) or self.is_article(rest.start):
            return False
        return bool(EITHER.match(self.text, mention.end)) or not CLAUSE.match(self.text, last.end())

    def _enumeration(self, mention: Mention) -> list[re.Match[str]]:
        """Return what continues an enumeration; an option that occurs again begins something else."""
        found: list[re.Match[str]] = []
        seen, end = {mention.index}, mention.end
        ended = False  # by "and" or "or": a comma then begins something else
        while (more := MORE.match(self.text, end)) and self.index_of(more[1]) not in seen:
            comma = self.text[end : more.start(1)].strip("()[] ") in {",", "、"}
            if ended and comma:
                break
            ended = not comma
            found.append(more)
            seen.add(self.index_of(more[1]))
            end = more.end(1)
        return found

    @cached_property
    def enumerated(self) -> frozenset[int]:
        """The places of mentions that belong to enumerations."""
        places: set[int] = set()
        for mention in self.mentions:
            if mention.start not in places and self.joined(mention):
                places |= {mention.start, *(more.start(1) for more in self._enumeration(mention))}
        return frozenset(places)

    @cached_property
    def listed(self) -> frozenset[int]:
        """The places of mentions that only go through the options, in their order: a list, or a remark on each."""
        standing = [mention for mention in self.mentions if not self.ruled_out(mention)]
        return self.repeated_list | frozenset(_run(standing, max(self.count, 3)))

    @cached_property
    def repeated_list(self) -> frozenset[int]:
        """The places of mentions that repeat the list of options: two or more at line starts, or all in one."""
        standing = [mention for mention in self.mentions if not self.ruled_out(mention)]
        at_lines = [mention for mention in standing if _LINE_START.search(self._line_before(mention))]
        marked = [mention for mention in standing if _LIST_MARK.match(self.text, mention.end)]
        return frozenset(_run(at_lines, 2)) | frozenset(_run(marked, self.count))

    def standing(self, mentions: Sequence[Mention] | None = None) -> list[Mention]:
        """Return the mentions that may be the answer: neither ruled out nor one of several nor part of a list."""
        return [
            mention
            for mention in (self.mentions if mentions is None else mentions)
            if mention.start not in self.enumerated and mention.start not in self.listed and not self.ruled_out(mention)
        ]


def _run(mentions: Sequence[Mention], least: int) -> list[int]:
    """Return the places of all runs of options in their order, from the first option on, that are long enough."""
    places: list[int] = []
    run: list[int] = []
    for mention in (*mentions, None):
        if mention is not None and mention.index == len(run):
            run.append(mention.start)
            continue
        places += run if len(run) >= max(least, 2) else []
        run = [mention.start] if mention is not None and mention.index == 0 else []
    return places


# ---- where a reply states its answer ----


@dataclass(frozen=True, slots=True)
class Statement:
    """An answer that a reply states: where, which option (or ``SEVERAL``, ``OUT_OF_RANGE``), and in which form."""

    start: int
    index: int
    form: str


# ---- what comes before the option ----

_BE = (
    r"(?:is|are|was|be|would(?: have to)? be|will be|should be|must be|must surely be|has to be|have to be"
    r"|could only be|can only be|could be|may be|might be|seems to be|appears to be|seems|remains|becomes|lies in|ist"
    r"|es|est|è|é|war|wäre|будет)"
)
_NOUNS = (
    r"(?:answer|ans|choice|option|solution|selection|pick|response|alternative|guess|vote|verdict|letter|(?:right"
    r"|correct|best|true) one)"
)
_OTHER_NOUNS = (
    r"(?:antwort|lösung|respuesta|opción|réponse|reponse|risposta|resposta|opção|alternativa|ответ|вариант|jawaban"
    r"|đáp án|odpowiedź|cevap|svar|antwoord|答え|正解|정답|답)"
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
    r"|clearly|likely|most|probably|indeed|therefore|thus|certainly|number|simply|just|obviously|in fact|actually"
    r"|still|then|again|hence|surely|none other than|la|le|der|die|das|opción|opção|lettre|letra|lettera|buchstabe)\b"
    r"|选项|選項|项|就是|是|为|選|选){0,12}",
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
        if mention and mention.index >= 0 and not reading.ruled_out(mention) and not _goes_on(reading, mention):
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
