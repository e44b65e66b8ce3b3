"""TextVQA: answers of several people to a question about an image, as VQA compares them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.scores import Points, text_of
from kshot.core.errors import DataError

_MARKS = ("☞", "☟", "☜", "<unk>", "<|im_end|>", "<|endoftext|>")
_SIGNS = ';/[]"{}()=+\\_-><@`,?!'
_THOUSANDS = re.compile(r"\d,\d")
_FULL_STOP = re.compile(r"\.(?!\d)")
_MOST_STOPS = 32
"""More full stops than these stay."""
_AGREED = 3
"""So many people with the same answer make it right."""
_NUMBER_WORDS = "none zero one two three four five six seven eight nine ten"
_NUMBERS = dict(zip(_NUMBER_WORDS.split(), (0, *range(11)), strict=True))
_ARTICLES = frozenset({"a", "an", "the"})
_CONTRACTIONS = (
    "ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't haven't he'd "
    "he'd've he's how'd how'll how's isn't it'd it'd've it'll ma'am mightn't mightn't've might've mustn't must've "
    "needn't not've o'clock oughtn't 'ow's'at shan't she'd've should've shouldn't shouldn't've somebody'd've "
    "somebody'll somebody's someone'd someone'd've someone'll someone's something'd something'd've something'll "
    "that's there'd there'd've there're there's they'd they'd've they'll they're they've 'twas wasn't we'd've we've "
    "weren't what'll what're what's what've when's where'd where's where've who'd who'd've who'll who's who've "
    "why'll why're why's won't would've wouldn't wouldn't've y'all y'all'll y'all'd've you'd you'd've you'll you're "
    "you've"
)
_SPELLED = {
    word[:at] + word[at + 1 :]: word for word in _CONTRACTIONS.split() for at, sign in enumerate(word) if sign == "'"
} | {"somebody'd": "somebodyd"}
"""By how they look with an apostrophe missing: contractions."""
_BOX = re.compile(r"<\|begin_of_box\|>(.*?)<\|end_of_box\|>")


class AgreedAnswer(Points):
    """Share of the people whose answer, among those of the others, makes the reply right (TextVQA)."""

    def __init__(self) -> None:
        super().__init__("accuracy")

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare with what the others answered, for each of the people."""
        if not isinstance(reference, (list, tuple)) or not all(
            isinstance(each, Mapping) and "answer" in each for each in reference
        ):
            raise DataError(f"TEXTEvaluator wants a list of dicts with answer as the reference, not {reference!r:.80}")
        text = self.answer(text_of(prediction, "TEXTEvaluator")).replace("\n", " ").replace("\t", " ").strip()
        for mark in _MARKS:
            text = text.replace(mark, "")
        found = _plain(_without_signs(text))
        people = [dict(each) for each in reference]
        if len({each["answer"] for each in people}) > 1:
            people = [{**each, "answer": _without_signs(each["answer"])} for each in people]
        agreed = [sum(each != own and each["answer"] == found for each in people) for own in people]
        return 100 * sum(min(1.0, count / _AGREED) for count in agreed) / len(agreed) if agreed else 0.0

    def answer(self, reply: str) -> str:
        """Return the answer of a reply: all of it."""
        return reply


class BoxedAnswer(AgreedAnswer):
    """The same for what a reply has between the marks of a box."""

    def answer(self, reply: str) -> str:
        """Return what stands between the marks; without them, the whole reply."""
        found = _BOX.search(reply)
        return found[1].strip() if found else reply


class MarkedAnswer(AgreedAnswer):
    """The same for what a reply has after its marks."""

    def answer(self, reply: str) -> str:
        """Return what follows the marks, without signs of a quotation."""
        text = reply.replace("\n", " ").replace("\t", " ").strip()
        for mark in ("<|im_end|>", "<|end_of_box|>", "<|begin_of_box|>", "<unk>"):
            text = text.replace(mark, "")
        text = re.split("[☜☞☟]", text)[-1]
        return re.sub(r"^[!>\s]+", "", text.strip()).strip()


def _without_signs(text: str) -> str:
    """Take signs out where one stands at a space, or a number has thousands; else a space takes their place."""
    has_thousands, written = _THOUSANDS.search(text), text
    for sign in _SIGNS:
        at_space = f"{sign} " in text or f" {sign}" in text
        written = written.replace(sign, "" if at_space or has_thousands else " ")
    return _FULL_STOP.sub("", written, count=_MOST_STOPS)


def _plain(text: str) -> str:
    """Write numbers as digits and contractions with their apostrophes, and leave articles out."""
    words = [str(_NUMBERS.get(word, word)) for word in text.lower().split()]
    return " ".join(_SPELLED.get(word, word) for word in words if word not in _ARTICLES)


EVALUATORS: dict[str, Factory] = {
    "TEXTEvaluator": plain(AgreedAnswer),
    "TEXTEvaluatorForGlm4v": plain(BoxedAnswer),
    "TEXTEvaluatorForVita": plain(MarkedAnswer),
}
