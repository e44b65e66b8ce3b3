"""Where a reply mentions options, and what it says of each: that it is wrong, one of several, or right.

Standard library only. The text is one of ``plain_reply``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kshot.cleanups.letters import letter_index
from kshot.cleanups.plain_reply import FIRST_TEXT
from kshot.cleanups.predicates import (
    ALONE_RULED_OUT_AFTER,
    ASKED_AFTER,
    ASKED_BEFORE,
    CALLED_WRONG_AFTER,
    CLAUSE,
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
    TICKED_BEFORE,
)

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
