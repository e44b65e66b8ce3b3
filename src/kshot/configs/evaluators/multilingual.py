"""Evaluators of P-MMEval: options, numbers and translations in ten languages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.scores import RoundedPoints, text_of
from kshot.configs.evaluators.tallies import Counts, Tally, gold_of
from kshot.core.errors import DataError
from kshot.core.records import Sample

_LETTERS = "ABCD"
_LEADS = {
    "ar": ("الجواب هو",),
    "en": ("the answer is", "The answer is"),
    "es": ("La respuesta es",),
    "fr": ("La réponse est", "la réponse est"),
    "id": ("Jawaban adalah", "jawaban adalah"),
    "ja": ("答えは",),
    "ko": ("답변은",),
    "pt": ("A resposta é",),
    "th": ("คำตอบคือ",),
    "vi": ("Câu trả lời là", "câu trả lời là"),
    "zh": ("答案是",),
}
"""What stands before an answer, by language. MMMLU writes the languages as ``FR-FR``."""
_ANY_QUOTE = "['\"]"
_IN_JSON = tuple(
    re.compile(form, re.DOTALL)
    for form in (
        r'\{\s*"answer"\s*:\s*"?([A-D])[^}]*?\}',
        rf"\{{\s*{_ANY_QUOTE}answer{_ANY_QUOTE}\s*:\s*{_ANY_QUOTE}([A-D]).*?{_ANY_QUOTE}\s*\}}",
        r'"answer"\s*:\s*"?([A-D])',
        rf"{_ANY_QUOTE}answer{_ANY_QUOTE}\s*:\s*{_ANY_QUOTE}([A-D]){_ANY_QUOTE}",
    )
)
_NUMBER = re.compile(r"[+-]?(?=\.?[0-9])(?:0|[1-9]\d{0,2}(?:,\d{3})*|\d*)?(?:\.\d*)?(?=\D|$)")


def letter_in(reply: str, language: str) -> str | None:
    """Return the letter of a reply: in JSON, after the words of its language, or the first of A-D that occurs."""
    for form in _IN_JSON:
        if found := form.findall(reply):
            return str(found[-1])
    short = language.lower().partition("-")[0]
    if short not in _LEADS:
        raise DataError(f"P-MMEval has no language {language!r}", hint=f"It has: {', '.join(sorted(_LEADS))}.")
    lead = next((each for each in _LEADS[short] if each in reply and each != reply), None)
    after = reply.rpartition(lead)[2].strip()[:1] if lead else ""
    if after and after.upper() in _LETTERS:
        return after
    return next((letter for letter in _LETTERS if letter in reply), None)


def reply_and_language(prediction: Any) -> tuple[str, str]:
    """Return the two parts of what P-MMEval's clean-ups give."""
    if not isinstance(prediction, (list, tuple)) or len(prediction) != 2:  # noqa: PLR2004 - a pair
        raise DataError(
            f"P-MMEval wants a reply and its language, not {prediction!r:.80}",
            hint="Use the clean-up of the same dataset, such as pmmeval_mmmlu_postprocess.",
        )
    return str(prediction[0]), str(prediction[1])


class OptionInLanguage(RoundedPoints):
    """Share of replies that choose the right option, in any of the languages. ``numbered``: the reference is 0-3."""

    def __init__(self, *, numbered: bool) -> None:
        super().__init__("accuracy")
        self.numbered = numbered

    def points(self, prediction: Any, reference: Any) -> tuple[float, float]:
        """Compare the letters, whether small or not."""
        chosen = letter_in(*reply_and_language(prediction))
        wanted = chr(ord("A") + int(reference)) if self.numbered else str(reference)
        return float(chosen is not None and chosen.lower() == wanted.lower()), 1.0


class LastNumber(RoundedPoints):
    """Share of replies whose last number is the reference, commas aside."""

    name = "accuracy"

    def points(self, prediction: Any, reference: Any) -> tuple[float, float]:
        """Compare as texts."""
        found = [each[0] for each in _NUMBER.finditer(text_of(prediction, "PMMEvalMGSMEvaluator"))]
        number = found[-1].replace(",", "").replace("+", "").strip().strip(".") if found else None
        return float(number == str(reference).replace(",", "")), 1.0


class BestLines(Tally):
    """BLEU of the lines of a reply, one after the other, that are most like the reference (Flores)."""

    name = "BLEU"

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Return the lengths of both, and the common and all n-grams of the best lines."""
        reply, language = reply_and_language(answer)
        lines = [_tokens(line, language) for line in reply.split("\n") if line.strip()]
        gold = _tokens("\n".join(each.strip() for each in str(gold_of(sample)).split("\n") if each.strip()), language)
        scorer = _scorer()
        spans = [" ".join(lines[i : j + 1]) for i in range(len(lines)) for j in range(i, len(lines))]
        found = max((scorer.sentence_score(each, [gold]) for each in spans or [""]), key=lambda each: each.score)
        return (found.sys_len, found.ref_len, *found.counts, *found.totals)

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Compute BLEU without smoothing."""
        from sacrebleu.metrics.bleu import BLEU

        system, reference, *grams = (int(each) for each in sums)
        half = len(grams) // 2
        found = BLEU.compute_bleu(correct=grams[:half], total=grams[half:], sys_len=system, ref_len=reference)
        return {self.name: round(found.score, 2)}


@cache
def _scorer() -> Any:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize="13a", effective_order=True)


_APART = re.compile("([\u0e00-\u0e7f\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff])")
"""Signs of Chinese, Japanese, Korean and Thai: each is a word."""


def _tokens(text: str, language: str) -> str:
    """Divide a text into words, as sacrebleu does after the signs of its language are set apart."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
    from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

    if language == "Chinese":
        text = TokenizerZh()(text.strip())
    elif language in ("Japanese", "Korean", "Thai"):
        text = " ".join(_APART.sub(r" \1 ", text.strip()).split())
    else:
        text = " ".join(text.split())
    return str(Tokenizer13a()(text))


EVALUATORS: dict[str, Factory] = {
    "PMMEvalMGSMEvaluator": plain(LastNumber),
    "PMMEvalFloresEvaluator": plain(BestLines),
    **dict.fromkeys(
        ("PMMEvalMMMLUEvaluator", "PMMEvalXNLIEvaluator"), plain(partial(OptionInLanguage, numbered=False))
    ),
    **dict.fromkeys(
        ("PMMEvalMHellaswagEvaluator", "PMMEvalMLogiQAEvaluator"), plain(partial(OptionInLanguage, numbered=True))
    ),
}
