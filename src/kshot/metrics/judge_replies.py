"""What a judge decided: the rating or the verdict in its reply.

A number that only names the scale ("from 1 to 10", "out of 10", "[[8]]/[[10]]") is no rating. The forms are tried in
order, from the one that the prompt asks for to a bare number; within a form the last one counts. A range ("7-8") is no
rating, and neither is a number outside the scale: the sample fails instead of getting a number that nobody gave.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from kshot.cleanups.plain_reply import beginning_and_end

Scale = tuple[float, float]
"""The lowest and the highest rating."""

_N = r"(?<![\d.,])([-+]?(?:\d{1,4}(?:[.,]\d{1,3})?|(?<!\w)\.\d{1,3}))(?![\d%]|[.,]\d)"
_OPEN, _CLOSE = r"(?:\[\[|\[)?\s*", r"\s*(?:\]\]|\])?"
_WORDS = {
    word: str(n)
    for n, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    )
}
_LABELS = r"(?:\b(?:rating|score|grade|mark|bewertung)s?\b|评分|得分|分数|打分)"
_AFTER_LABEL = (
    r"(?:[\s:=\"'>(){}|–—]|-(?=\s))*(?:(?:is|are|of|as|at|would be|will be|should be|must be|might be)\s+)?"
    r"(?:an?\s+|about\s+|exactly\s+){0,6}"
)
# What stands before a number that somebody else would get, or that the answer did not get.
_NOT_GIVEN = re.compile(
    r"(?:\b(?:not|never|than|instead of|short of|below|above|under|over|beyond|perfect|full|ideal|max(?:imum)?"
    r"|min(?:imum)?|"
    r"without|except|avoid|nor|from|start(?:ing|ed)? at|at (?:most|least)|up to)|n't)\s+(?:an?\s+|of\s+|the\s+|to\s+"
    r"|give\s+)*\Z",
    re.IGNORECASE,
)
_HYPOTHETICAL = re.compile(
    r"(?:\bnot|n't|never)\s+\Z|\b(?:if (?:it|they|this|the \w+)|had it)\b[^.!?\n]*\Z|\bwould have\s+\Z", re.IGNORECASE
)
# What follows a number that the answer would get if it were another one, or that says what a number asks for.
_IF_OTHER = re.compile(r"[\]⟫]{0,2}[^.!?\n]{0,20}\bif (?:it|they|this|that|only|the \w+)\b", re.IGNORECASE)
_WOULD = re.compile(r"(?:\b(?:would|could|might)\b|'d\b)[^.!?\n]*\Z", re.IGNORECASE)
_ASKS_FOR = re.compile(
    r"[\]⟫]{0,2}\s*(?:(?:would|could) (?:need|require|take|demand|call for|mean|imply|have|be (?:perfect|possible|for"
    r"|reserved|too|unfair))|requires?|needs?|demands?|is (?:reserved|for))\b",
    re.IGNORECASE,
)
_FORMS = tuple(
    re.compile(form, re.IGNORECASE | re.MULTILINE)
    for form in (
        rf"\b(?:rating|score|verdict|grade|final)\b{_AFTER_LABEL}\[\[\s*{_N}\s*\]\]",
        rf"\[\[\s*(?:{_LABELS}\s*[:=]?)?\s*{_N}\s*(?:points?|stars?)?\s*\]\]",
        rf"(?:overall|final|total)\s*(?:{_LABELS})?{_AFTER_LABEL}\[?{_N}",
        rf"{_LABELS}{_AFTER_LABEL}\[?{_N}",
        (
            r"\b(?:giv(?:e|es|ing)|gave|rat(?:e|es|ed|ing)|assign(?:s|ed)?|award(?:s|ed)?|deserves?|scor(?:e|es|ed)"
            r"|earns?|gets?|merits?"
            rf"|say|grade[sd]?|settle (?:on|for)|go (?:with|for)|worth|打|给)\b[^.\d\n!?]{{0,40}}?\[?{_N}"
        ),
        rf"⟪{_N}⟫",
        rf"\[\s*{_N}\s*\]",
        rf"{_N}\s*(?:points?|stars?|分)\b",
        (
            rf"\b(?:it's|it is|this is|that's|that is|so)\s+(?:an?\s+)?(?:\w+\s+)?{_N}(?=\s*(?:[.,;!)]|$|for me|overall"
            r"|in my))"
        ),
        (
            r"(?:^|[.!?:;]\s)[\s\"'(]*an?\s+(?:(?:very|really|fairly)\s+)?(?:(?:solid|strong|weak|high|low|firm|clear"
            rf"|generous|fair|decent|good|respectable|mere|bare|comfortable|borderline)\s+)?{_N}(?=\s*(?:[.,;!)]|$))"
        ),
        rf"\A(?:[^\w.+-]|[.+-](?![\d.]))*{_N}\s*[–—:-]\s",
        rf"^(?:[\s\"'(>:,)]|-(?![\d.]))*{_N}[\s\"').!]*$",
    )
)

_BRACKETED = _FORMS[:2]


def parse_rating(reply: str, scale: Scale = (1.0, 10.0)) -> float | None:
    """Return the rating on this scale in the reply of a judge; None when there is none."""
    text = _without_scale(reply, scale)
    for form in _FORMS:
        partial = _of_criteria(text, "[[" if form in _BRACKETED else "")
        found = [
            match for match in form.finditer(text) if match.start(1) not in partial and not _is_no_rating(text, match)
        ]
        if found:
            last = found[-1]
            before = text[max(0, last.start(1) - 12) : last.start(1)]
            if _RANGE.match(text, last.end(1)) or _RANGE_BEFORE.search(before):
                return None
            rating = float(last[1].replace(",", "."))
            return rating if scale[0] <= rating <= scale[1] else None
    return None


_WHOLE = (
    r"(?:overall|final|total|rating|score|grade|mark|verdict|scale|answer|response|reply|assistant|result|conclusion"
    r"|summary|judge?ment|decision|evaluation|assessment|value|number|quality|example|instance|me|this|that"
    r"|it|its|being|having|giving|all|总分|总体|总评|评分|得分|分数|打分|给)"
)
_CRITERION = re.compile(
    rf"{_N}\s*[\]⟫]{{0,2}}\s*(?:points?|stars?)?\s+(?:for|on)\s+(?:the\s+|its\s+)?(?!{_WHOLE}\b)(?P<after>[a-z]+)"
    rf"|\bfor\s+(?:the\s+|its\s+)?(?!{_WHOLE}\b)(?P<for>[a-z]+)\b[^.\d\n]{{0,25}}?{_N}"
    rf"|\b(?!{_WHOLE}\b)(?P<before>[^\W\d_]+)(?:\s+(?:score|rating|grade|mark)s?)?(?:\s*[:=]\s*|\s+(?:is|gets|at)\s+)"
    rf"[\[⟪]{{0,2}}\s*{_N}",
    re.IGNORECASE,
)


def _of_criteria(text: str, before: str) -> set[int]:
    """Return the places of numbers after ``before`` that rate one criterion each: 4 for accuracy and 3 for clarity."""
    found: dict[int, str] = {}
    for match in _CRITERION.finditer(text):
        name = match["after"] or match["for"] or match["before"]
        place = match.start(1) if match["after"] else match.end() - len(match[match.lastindex or 0])
        if text[max(0, place - 8) : place].rstrip().endswith(before):
            found[place] = name.lower()
    return set(found) if len(set(found.values())) > 1 else set()


def _plain(reply: str) -> str:
    """Return a reply without markdown and with single spaces, which keeps the search for the forms short.

    Of a long reply its beginning and its end are left, where judges say what they decide. A box counts as the brackets
    that the prompt asks for, and every minus sign is one character.
    """
    text = re.sub(r"[*_`]+", "", unicodedata.normalize("NFKC", beginning_and_end(reply)))
    text = re.sub(r"[\u2010-\u2012\u2212]", "-", text)
    text = re.sub(r"\\boxed\s?\{\s?(?:\\text\w*\s?\{)?([^{}\n]{1,40})\}{1,2}", r"[[\1]]", text)
    return re.sub(r"\s+", lambda match: "\n" if "\n" in match[0] else " ", text)


_RANGE = re.compile(r"\s*[\]⟫]{0,2}\s*(?:-|–|—|~|to|or|bis|到|至)\s*[\[⟪]{0,2}\s*\d")
_RANGE_BEFORE = re.compile(r"\d\s*[\]⟫]{0,2}\s*(?:-|–|—|~|to|or|bis|到|至)\s*[\[⟪]{0,2}\s*\Z")


def _is_no_rating(text: str, match: re.Match[str]) -> bool:
    before = text[max(0, match.start(1) - 40) : match.start(1)]
    whole = text[max(0, match.start() - 80) : match.start()]
    bare = re.sub(r"[\[⟪\s]+\Z", " ", before)
    if _NOT_GIVEN.search(bare) or _HYPOTHETICAL.search(whole) or _ASKS_FOR.match(text, match.end(1)):
        return True
    return bool(_IF_OTHER.match(text, match.end(1)) and _WOULD.search(before))


# "One" is too common a word: it counts only after a label.
_SPELLED = re.compile(
    rf"\b(?:{'|'.join(list(_WORDS)[2:])})\b(?=\s*(?:/|out of|points?\b|stars?\b))"
    rf"|(?<=\w )(?:{'|'.join(list(_WORDS)[2:])})\b(?=[.!]?\s*$)|(?<=[:=] )(?:{'|'.join(_WORDS)})\b",
    re.IGNORECASE,
)
_OUT_OF_TEN = re.compile(r"\bout of (?:a (?:possible|maximum|total)(?: of)? )?ten\b", re.IGNORECASE)
_ANY_RANGE = re.compile(r"\b(?:from|between|scale of|range of)\s+-?\d+\s*(?:-|–|to|and)\s*-?\d+", re.IGNORECASE)
_ASIDE = r"\s*(?:\([^()\n]{0,60}\)|\[[^\[\]\d\n]{1,60}\])?"
_TO = r"\s*(?:-|–|—|to|through|and|\.{2,3}|~|到|至|bis)\s*"
_MEANS = r"\s*(?:=|(?:is|being|means|meaning|for|as|could)\b)"


_CHANGED = re.compile(
    r"\b(?<!not )(?<!n't )(?:lower|rais|reduc|increas|chang|drop|bump|revis|adjust|downgrad|upgrad|cut|mov|bring"
    r"|correct|updat)(?:e|es|ed|s|ped|ping|ting|ing)?\s"
    r"(?:(?:my|the|its|this|our)\s(?:[a-z]+\s)?(?:rating|score|grade|mark)|it)\s"
    rf"(?:(?:down|up)\s)?(?:from\s{_N}\s)?(?:(?:down|up)\s)?to\s(?:an?\s)?{_N}",
    re.IGNORECASE,
)
_MINUS = re.compile(r"(?:(?<=[:=\[(])|(?<=[:=\[(] ))[–—](?=[\d.])")
_PERCENT = re.compile(r"(?<=\d) ?%(?= ?(?:[.,;!)\]]|$))", re.MULTILINE)
_FULL_MARKS = re.compile(r"满分(?:为|是|:)? ?\d+(?: ?分)?|(?<!\d)\d{1,6} ?分制")


@lru_cache(maxsize=16)
def _scale_forms(scale: Scale) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what names the scale, and a rating with its denominator."""
    low, high = (re.escape(f"{end:g}") + r"(?:\.0+)?" for end in scale)
    names = re.compile(
        # 1 (useless) to 10 (perfect), 1-10, [[1]] to [[10]]
        rf"(?:\b(?:on|an?|the|from|between|scale|range|of|in)\s+){{0,6}}(?<![\d.])\[{{0,2}}{low}\]{{0,2}}{_ASIDE}{_TO}"
        rf"\[{{0,2}}{high}(?![\d.]*\d)\]{{0,2}}{_ASIDE}(?:[\s-]*(?:point )?scale\b)?"
        rf"|(?:\b(?:on|an?|the)\s+){{0,6}}\b{high}[\s-]*point\s+scale\b"
        # where 1 is the worst and 10 the best
        rf"|(?<![\d.]){low}{_MEANS}[^.\d\n]{{0,60}}(?<![\d.]){high}(?!\d)(?:{_MEANS})?[^.,;)\n]{{0,60}}",
        re.IGNORECASE,
    )
    over = re.compile(
        # 8/10, [[8]]/[[10]], [[8]] out of [[10]]
        rf"{_OPEN}{_N}{_CLOSE}\s*\(?\s*(?:/|out of|von|(?:in|of) (?:a )?(?:possible|total) (?:of )?|\bof(?= {high}\b)"
        rf"|分? ?[,;(]? ?满分[为是:]?"
        rf"|分? ?[,;(]? ?总分[为是]?(?= ?{high}(?!\d)))"
        rf"\s*{_OPEN}(\d+(?:\.\d+)?){_CLOSE}",
        re.IGNORECASE,
    )
    return names, over


def _without_scale(reply: str, scale: Scale) -> str:
    """Return a reply in which no number names the scale; ``8/10`` and ``8 out of 10`` become ``⟪8⟫``."""
    names, over = _scale_forms(scale)

    def given(match: re.Match[str]) -> str:
        if float(match[2]) != scale[1]:
            return " "  # another denominator is another scale
        return f"[[{match[1]}]]" if match[0].lstrip().startswith("[[") else f"⟪{match[1]}⟫"

    text = _plain(reply)
    text = _SPELLED.sub(lambda match: _WORDS[match[0].lower()], text)
    text = _OUT_OF_TEN.sub(f"out of {scale[1]:g}", text)
    text = _CHANGED.sub(r"rating: \2", text)
    if scale[0] < 0:
        text = _MINUS.sub("-", text)
    if scale == (0.0, 100.0):
        text = _PERCENT.sub("", text)
    text = _ANY_RANGE.sub(" ", names.sub(" ", text))
    return re.sub(r"⟪([^⟫]*)⟫\s*\]\]", r"\1]]", _FULL_MARKS.sub(" ", over.sub(given, text)))


# ---- verdicts ----

_V = r"(A|B|C|tie)"
_OF_NONE = re.compile(
    r"(?:\b(?:than|over|not|beats?|against|vs\.?|versus|outperforms|surpasses|unlike|instead of)"
    r"|n't)\s+(?:assistant\s+)?\[{0,2}\s*\Z",
    re.IGNORECASE,
)
_INSTRUCTION = re.compile(r"\]{0,2}\s*(?:if|for|when|means|in case|,? or \[\[)\b", re.IGNORECASE)
_LOSES = re.compile(r"\]{0,2}\s*(?:is worse|loses|lost|is weaker|falls short|is inferior)\b", re.IGNORECASE)
_VERDICT_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"\b(?:verdict|winner|decision)\b[\s:=\"'>-]*(?:is\s+)?(?:assistant\s+)?\[\[\s*(?:assistant\s+)?{_V}\s*\]\]",
        rf"\[\[\s*(?:(?:verdict|winner|assistant|answer|response)\s*:?\s*)*{_V}\s*\]\]",
        (
            rf"\b(?:verdict|winner|decision|final answer)\b[\s:=\"'>-]*(?:is\s+)?\[?\s*(?:(?:assistant|answer"
            rf"|response)\s+)?{_V}\b(?!')"
        ),
        rf"\[\s*{_V}\s*\]",
        rf"\A\W*(?:(?:assistant|answer|response)\s+)?{_V}\W*\Z",
    )
)
_BETTER = re.compile(
    r"\b(?:(?:assistant|answer|response|model)\s+)?(A|B)(?:'s (?:answer|response|reply))?\s+(?:is|was|wins?|won|does)\b"
    r"(?:\s+(?:clearly|slightly|much|the|overall|therefore|thus|far|somewhat|a bit))*\s*(?:better|stronger|superior"
    r"|preferable|winner)?",
)
_WORSE = re.compile(
    r"\b(?:(?:assistant|answer|response|model)\s+)?(A|B)(?:'s (?:answer|response|reply))?\s+(?:(?:is|was|does)"
    r"(?:\s+(?:clearly|slightly|much|the|overall|therefore|thus|far|somewhat|a bit))*\s+(?:worse|weaker|inferior)"
    r"|loses|lost)\b"
)
_COMPARED = re.compile(r"(?<![\w>])(A|B) ?(>{1,3}|≫|<{1,3}|≪|={1,2}|≈|~) ?(?!\1)(A|B)(?![\w<])")
_BETTER_WORDS = re.compile(r"better|stronger|superior|preferable|winner|wins?\b|won\b")
_EVEN = re.compile(
    r"\b(?:it(?:'s| is) a tie|a tie\b|equally good|neither (?:one |answer |of them )?is better"
    r"|both (?:are|answers are) equal)",
    re.IGNORECASE,
)


def parse_verdict(reply: str) -> str | None:
    """Return the verdict, ``A``, ``B`` or ``C`` (a tie), in the reply of a judge; None when there is none.

    The forms are tried in order; within a form the last one counts that is not only compared with ("better than
    [[B]]"). Without any of them, a sentence says who is better, if all such sentences agree.
    """
    text = _COMPARED.sub(_winner, _plain(reply))
    for form in _VERDICT_FORMS:
        found = [match for match in form.finditer(text) if not _is_no_verdict(text, match)]
        if found:
            return "C" if found[-1][1].upper() == "TIE" else found[-1][1].upper()
    said = {
        match[1]
        for match in _BETTER.finditer(text)
        if _BETTER_WORDS.search(match[0]) and not re.search(r"\bnot\b|n't", text[match.start() : match.end() + 5])
    }
    said |= {"B" if match[1] == "A" else "A" for match in _WORSE.finditer(text)}
    said |= {"C"} if _EVEN.search(text) else set()
    return said.pop() if len(said) == 1 else None


def _winner(compared: re.Match[str]) -> str:
    """Return the verdict of a comparison: A of ``A>B`` and ``A>>B``, C of ``A=B``."""
    if compared[2][0] in ">≫":
        return compared[1]
    return compared[3] if compared[2][0] in "<≪" else "C"


def _is_no_verdict(text: str, match: re.Match[str]) -> bool:
    before = text[max(0, match.start() - 30) : match.start(1)]
    return bool(_OF_NONE.search(before) or _INSTRUCTION.match(text, match.end(1)) or _LOSES.match(text, match.end(1)))
