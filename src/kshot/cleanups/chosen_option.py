r"""Which option a reply chooses, by ordered rules; the first rule that finds an answer decides.

1. ``answer is``, ``choose``, ``boxed``: the last statement of an answer ("The answer is B", "I choose B",
   ``\boxed{B}``, 答案是B). The last one counts, since a model that corrects itself does so at the end.
2. ``line``: a line that is an option alone, the last one.
3. ``judged``: the option that is called right or best ("B is correct", "(C) fits best", B正确).
4. ``beginning``: the option that the reply begins with ("B. London", "B, not A").
5. ``conclusion``: what the reply concludes ("so it must be C").
6. ``brackets``: the last option in brackets.
7. ``option text``: the one option whose text the reply contains.
8. ``last letter``: the last letter that stands alone.

An option may be named by its letter, in either case where that is clear, or by its text. Letters that no option has,
options that the reply rules out ("not B", "D is wrong") or repeats as a list, and words (the article "A", "I") are no
answers. Several options together ("A and B", "AC") are no answer either. Options that are words such as yes and no call
no other option right or wrong; ``beginning`` then comes before ``judged``. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kshot.cleanups.mentions import (
    OUT_OF_RANGE,
    SEVERAL,
    Mention,
    Reading,
    Statement,
    conclusions,
    is_unfinished,
    option_at,
    statements,
)
from kshot.cleanups.plain_reply import FIRST_TEXT, beginning_and_end, judgements, with_options_marked
from kshot.cleanups.predicates import CLOSERS, CONSIDERED_BEFORE, NAME, TEXT

NO_OPTION = -1
"""The index where a reply chooses no option."""

LAST_LETTER = "last letter"
"""The weakest rule."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The option that a reply chooses, and the rule that found it; without an option, why there is none."""

    index: int
    rule: str


_SEVERAL, _NO_SUCH = Chosen(NO_OPTION, "several options"), Chosen(NO_OPTION, "no such option")
_NEXT_QUESTION = re.compile(
    r"\n[^\S\n]*(?:#{1,4} )?(?:(?:Question|Q|问题|题目|例题)\s?\d{0,4}\s?[:.：]|(?:Human|User|Instruction)\s?[:：])",
    re.IGNORECASE,
)
_INSTEAD = re.compile(
    rf"(\A|[.;:\n] ?)(?:rather than|instead of) (?:options? |choices? )?[(\[]?{NAME}{CLOSERS}, ?"
    rf"(?=(?:option |choice )?[(\[]?{NAME}{CLOSERS}\s?(?:[.!:;]|\Z|\n))",
    re.IGNORECASE,
)


def chosen_option(reply: str, options: Sequence[str]) -> Chosen:
    """Return the option that a reply chooses among those with these texts.

    A base model may go on with a question or a turn of its own; what it answers there does not count.
    """
    reply = beginning_and_end(reply)
    following = _NEXT_QUESTION.search(reply)
    if following and reply[: following.start()].strip():
        own = _chosen(_reading(reply[: following.start()], options))
        if own.index != NO_OPTION and own.rule != LAST_LETTER:
            return own
    return _chosen(_reading(reply, options))


def _reading(reply: str, options: Sequence[str]) -> Reading:
    text = _INSTEAD.sub(r"\1", with_options_marked(reply, options))
    return Reading(text, len(options), judgements(options))


def _chosen(reading: Reading) -> Chosen:
    for rule in _JUDGEMENT_RULES if reading.judgements else _RULES:
        found = rule(reading)
        if found is not None:
            return found
    return _SEVERAL if reading.enumerated else Chosen(NO_OPTION, "no answer")


# ---- the rules ----


def _stated(reading: Reading) -> Chosen | None:
    found = sorted(statements(reading), key=lambda statement: statement.start)
    within = [statement for statement in found if statement.index != OUT_OF_RANGE]
    return _of(within[-1]) if within else _NO_SUCH if found else None


def _of(statement: Statement) -> Chosen:
    return _SEVERAL if statement.index == SEVERAL else Chosen(statement.index, statement.form)


def _judged(reading: Reading) -> Chosen | None:
    mentions = [mention for mention in reading.mentions if not reading.ruled_out(mention)]
    levels = [reading.judged(mention) for mention in mentions]
    top = max(levels, default=0)
    best = [mention for mention, level in zip(mentions, levels, strict=True) if level == top and top]
    if not best:
        return None
    if len({mention.index for mention in best}) == 1 and best[0].start not in reading.enumerated:
        return Chosen(best[0].index, "judged")
    return _concluded(reading) or _SEVERAL


_LINE = re.compile(
    rf"^[ \t>#\-–—•+:=./\\]*(?:\d[.)] )?(?:(?:option|choice|letter|answer|选项|选)[\s:]*)?[(\[{{\"'<]*([A-Z]{{1,3}}"
    rf"|[a-z]|{TEXT}){CLOSERS}"
    r"[ \t]?[.,;:!?。、)\-–—]*[ \t]?(?:选项|项)?[ \t\r]*$",
    re.IGNORECASE | re.MULTILINE,
)


def _line(reading: Reading) -> Chosen | None:
    lines = [
        Mention(reading.index_of(match[1]), match.start(1), match.end(1)) for match in _LINE.finditer(reading.text)
    ]
    own = reading.standing([mention for mention in lines if mention.index != OUT_OF_RANGE])
    if own:
        return Chosen(own[-1].index, "line")
    if _names_several(reading):
        return _SEVERAL
    return _NO_SUCH if lines and not _LINE.sub("", reading.text).strip() and not reading.mentions else None


_LETTERS_ALONE = re.compile(rf"[(\[]?(?:[A-Z]|{TEXT})(?:[ ,/&+、]*(?:[A-Z]|{TEXT}))+[)\].!。]*")


def _names_several(reading: Reading) -> bool:
    """Whether the reply is nothing but several options: ``AC``, ``A C``."""
    if not _LETTERS_ALONE.fullmatch(text := reading.text.strip()):
        return False
    indices = {reading.index_of(name) for name in text if name.isalpha() or ord(name) >= FIRST_TEXT}
    return len(indices) > 1 and OUT_OF_RANGE not in indices


_GREETING = re.compile(
    r"\A[^\w\ue000-\uf8ff]*(?:(?:sure|okay|ok|yes|certainly|well|hmm|hm|i see|got it|easy|of course)\b[\s,.!:;-]*)?",
    re.IGNORECASE,
)
_LABEL = re.compile(rf"(?:\A|\n)[^\w\n]*A: ?[(\[]?([A-Z]|{TEXT})[)\].]*\s*(?:\n|\Z)")
_AFTER_FIRST = re.compile(
    rf"{CLOSERS}\s?(?:[.,:;!?)(\]\-–—。、，]|\Z|\n| (?:because|since|as|for|due|based|-)\b)|[选是项]"
)


_SUBJECT = re.compile(rf"{CLOSERS} (?:would|could|might|may|seems?|says?|states?|claims?)\b")


def _beginning(reading: Reading) -> Chosen | None:
    if label := _LABEL.search(reading.text):
        index = reading.index_of(label[1])
        return Chosen(index, "beginning") if index != OUT_OF_RANGE else None
    greeting = _GREETING.match(reading.text)
    mention = option_at(reading, greeting.end() if greeting else 0)
    if mention is None or mention.start in reading.listed or mention.start in reading.enumerated:
        return None
    if mention.index >= 0 and (reading.ruled_out(mention) or _SUBJECT.match(reading.text, mention.end)):
        return None
    if mention.index == SEVERAL:
        return _SEVERAL if mention.start == 0 else None
    follows = _AFTER_FIRST.match(reading.text, mention.end)
    if mention.index == OUT_OF_RANGE:
        marked = re.match(r"[.):] ?\S|\)?\s*\Z", reading.text[mention.end : mention.end + 4])
        named = reading.text[mention.start].isupper() and not reading.text.startswith("Q:", mention.start)
        return _NO_SUCH if marked and named else None
    return Chosen(mention.index, "beginning") if follows or reading.is_judgement(mention) else None


def _concluded(reading: Reading) -> Chosen | None:
    found = sorted(conclusions(reading), key=lambda statement: statement.start)
    if len({statement.index for statement in found}) > 1 and all(statement.form == "guess" for statement in found):
        return _SEVERAL
    return Chosen(_of(found[-1]).index, "conclusion") if found else None


_BRACKETED = re.compile(
    rf"(?<![A-Za-z0-9_\])])(?:[(\[]\s?(?:option |choice )?([A-Z]{{1,3}}|[a-z]|{TEXT})\s?[)\]]"
    r"|(?<![A-Za-z0-9_(\[])([A-Z])\)(?!\w))"
)
_OPENED = re.compile(r"\([^()\n]*\Z")


def _brackets(reading: Reading) -> Chosen | None:
    found = []
    for match in _BRACKETED.finditer(reading.text):
        group = 1 if match[1] else 2
        mention = Mention(reading.index_of(match[group]), match.start(group), match.end(group))
        if group == 2 and _OPENED.search(reading.text, max(0, match.start() - 200), match.start()):  # noqa: PLR2004
            continue  # the bracket closes an aside, such as (A–D)
        if mention.index != OUT_OF_RANGE:
            found.append(mention)
    lower = [mention for mention in found if reading.text[mention.start].islower()]
    is_list = len(lower) > 1 and [mention.index for mention in lower] == list(range(len(lower)))
    listed = {mention.start for mention in lower if is_list}
    own = [mention for mention in reading.standing(found) if mention.start not in listed]
    return Chosen(own[-1].index, "brackets") if own else None


_IS_BEFORE = re.compile(r"\b(?:is|was|are|be|were) \Z|是\Z")


def _option_text(reading: Reading) -> Chosen | None:
    texts = [mention for mention in reading.standing() if mention.by_text and not _is_considered(reading, mention)]
    found = {mention.index for mention in texts}
    if len(found) > 1:
        found = {m.index for m in texts if _IS_BEFORE.search(reading.text, max(0, m.start - 12), m.start)}
    return Chosen(found.pop(), "option text") if len(found) == 1 else None


def _is_considered(reading: Reading, mention: Mention) -> bool:
    """Whether the reply only says that it looks at this option."""
    return CONSIDERED_BEFORE.search(reading.text, max(0, mention.start - 40), mention.start) is not None


_DISCUSSED = re.compile(
    rf"{CLOSERS} (?:says?|states?|claims?|describes?|mentions?|refers?|suggests?|talks?|asserts?|implies|is about)\b"
)
_TERMINAL = re.compile(rf"{CLOSERS}\s?(?:[.,;:!?。，、)]|\Z|\n)")


def _last_letter(reading: Reading) -> Chosen | None:
    if is_unfinished(reading):
        return Chosen(NO_OPTION, "unfinished")
    own = [
        m
        for m in reading.standing()
        if not m.by_text and not _DISCUSSED.match(reading.text, m.end) and not _is_considered(reading, m)
    ]
    if len({mention.index for mention in own}) > 1:
        own = [mention for mention in own if _TERMINAL.match(reading.text, mention.end)]
    return Chosen(own[-1].index, LAST_LETTER) if own else None


_RULES: tuple[Callable[[Reading], Chosen | None], ...] = (
    _stated,
    _line,
    _judged,
    _beginning,
    _concluded,
    _brackets,
    _option_text,
    _last_letter,
)
_JUDGEMENT_RULES = (_stated, _line, _beginning, *(rule for rule in _RULES if rule not in {_stated, _line, _beginning}))
"""Where yes or no are options, a reply begins with its answer, and the words that follow judge something else."""
