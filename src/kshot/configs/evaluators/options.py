"""Evaluators of questions with options: medicine, science, tables, graduate exams, judges, P-MMEval's ten languages."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

from kshot.configs.evaluators.factories import Factory, compared, plain
from kshot.configs.evaluators.scores import Counts, RightInRow, Tally, columns, equal, gold_of, rounded, text_of
from kshot.core.errors import DataError
from kshot.core.records import Sample
from kshot.metrics.overlap import bleu_scorer, bleu_sums

_LETTERS = "ABCDEFGHIJ"
_NOT_LETTERS = ("I understand", "A through J", "A through E", "A through D")
"""Phrases with letters that choose nothing."""


def column(sample: Sample, name: str, whose: str) -> Any:
    """Return a column that an evaluator needs."""
    return columns(sample.fields, name, hint=f"{whose} needs it.")[0]


def first_lone_letter(sample: Sample, answer: Any) -> bool:
    """Whether the first letter that stands alone and names one of the row's options is the reference (medicine)."""
    text = text_of(answer, "an evaluator of medical questions")
    for phrase in _NOT_LETTERS:
        text = text.replace(phrase, "")
    letters = "|".join(chr(ord("A") + i) for i in range(len(column(sample, "options", "The evaluator"))))
    found = re.search(rf"\b({letters})\b", text)
    return equal(found[1] if found else None, gold_of(sample))


def first_label(sample: Sample, answer: Any) -> bool:
    """Whether the first label that stands alone and names one of the row's choices is the reference (SciKnowEval)."""
    choices = column(sample, "choices", "SciKnowEval")
    if not isinstance(choices, Mapping) or "label" not in choices:
        raise DataError(f"SciKnowEval wants choices with label, not {choices!r:.80}")
    labels = "|".join(re.escape(str(each)) for each in choices["label"])
    found = re.search(rf"\b({labels})\b", text_of(answer, "SciKnowEvalEvaluator"))
    return equal(found[1] if found else None, gold_of(sample))


# ---- SuperGPQA ----

_OPEN = r"(?:[*$({\[\\]|\\(?:boxed|mathbf|mathrm|text)\{)*\s*"
_CLOSE = r"[\\}$)\]]*(?:[\s:.*)]|$)"
_SAID = r"[Tt]he\s+(?:\w+\s+)?(?:answer|option)(?:\w+\s+)?\s+"
_START = r"^[^\w\r\n]*"
_LABELS = tuple(
    re.compile(rf"{lead}{_OPEN}([A-J]){_CLOSE}", re.IGNORECASE)
    for lead in (rf"{_SAID}is?:?\s*", r"Answer[*\s]*:\s*", _START)
)
_TEXT_LEADS = (rf"{_SAID}is:?\s*", r"(?i:Answer)\s*", _START)


def option_of(reply: str, options: list[str]) -> str | None:
    """Return the letter that a reply says, or that of the option whose text it says; the last line counts first."""
    text = reply.rstrip()
    places = (text.rpartition("\n")[2], text)
    texts = "|".join(re.escape(each) for each in options)
    by_text = [re.compile(f"{lead}{_OPEN}({texts}){_CLOSE}") for lead in _TEXT_LEADS]
    for forms in (_LABELS, by_text):
        found = next((match for place in places for form in forms if (match := form.search(place))), None)
        if found:
            said = found[1]
            if forms is _LABELS:
                return said
            return chr(ord("A") + options.index(said)) if said else None
    return None


_LEVELS = ("hard", "middle", "easy")
_EXAM_NAMES = ("accuracy", "error_rate", "miss_rate", *(f"{level}_accuracy" for level in _LEVELS))


def exam_counts(sample: Sample, answer: Any) -> Counts:
    """Count rows, missing options, and right ones and rows by difficulty (SuperGPQA)."""
    reply, options = text_of(answer, "SuperGPQAEvaluator"), list(column(sample, "options", "SuperGPQA"))
    chosen = None
    if column(sample, "prompt_mode", "SuperGPQA") == "five-shot":
        chosen = option_of(reply.partition("Question:")[0], options)
    chosen = chosen or option_of(reply, options)
    level = column(sample, "difficulty", "SuperGPQA")
    if level not in _LEVELS:
        raise DataError(f"SuperGPQA has no difficulty {level!r}", hint=f"It has: {', '.join(_LEVELS)}.")
    right = float(chosen == gold_of(sample))
    return (1.0, float(chosen is None), *(each * (level == known) for known in _LEVELS for each in (right, 1.0)))


def exam_figures(sums: Counts) -> Mapping[str, float]:
    """Return shares as fractions; no reply is an error here. A difficulty without rows has no share."""
    rows, missing, *levels = sums
    by_level = zip(_EXAM_NAMES[3:], levels[::2], levels[1::2], strict=True)
    return {
        "accuracy": sum(levels[::2]) / rows,
        "error_rate": 0.0,
        "miss_rate": missing / rows,
        **{name: right / size for name, right, size in by_level if size},
    }


# ---- TabMWP ----

_FRACTION = re.compile(r"\$?\\frac\{([\d.,-]+)\}\{([\d.,]+)\}\$?")
_CHOSEN = tuple(
    re.compile(form)
    for form in (
        *(r"^\(([A-Za-z])\)$", r"^([A-Za-z])$", r"^([A-Za-z]). ", r"[Th]he answer is ([A-Z])"),
        *(r"^\(([A-Za-z])\) [\s\S]+$", r"[Th]he answer is \(([A-Za-z])\) [\s\S]+$"),
    )
)
_SIGNS = r"[\d$.,/:]"
_FOUND = tuple(
    re.compile(form)
    for form in (
        *(r"[Th]he answer is ([\s\S]+)$", rf"[Th]he table shows that ({_SIGNS}+) ", rf" = ({_SIGNS}+)"),
        *(rf"(?<={words}) ((?:-|{_SIGNS})*\d+)" for words in (" be| is", " are| was", " were")),
        *(rf" ({_SIGNS}+ [AP]\.M\.)", rf"((?:-|{_SIGNS})*\d+)"),
    )
)
_SUM = re.compile(r"[-+]?[\d,./]+$")


def table_answer(reply: str, choices: list[str] | None) -> str:
    """Return the choice, or the number, that a reply about a table says."""
    text = re.sub(r"(?<![AP]\.M)\.$", "", _FRACTION.sub(r"\1/\2", reply))
    text = re.sub(r"(?<=\d)=(?=[-$\d])", " = ", text).replace("\u2212", "-")
    if not choices:
        found = next((found[-1].strip() for form in _FOUND if (found := form.findall(text))), text)
        return found[:-1] if found is not text and found.endswith(".") and ".M." not in found else found
    for form in _CHOSEN:
        said = form.findall(text)
        if said and said[0].upper() in _LETTERS[:8]:
            place = _LETTERS.index(said[0].upper())
            if place >= len(choices):  # the home then draws one, always with this seed
                place = random.Random(123).choice(range(len(choices)))  # noqa: S311 - no secret
            return choices[place]
    return max(choices, key=lambda each: _alike(each, text))


def _alike(choice: str, text: str) -> float:
    if choice == text:
        return 2.0
    if " " not in choice and " " not in text:
        return 0.0
    words, others = choice.split(" "), text.split(" ")
    return len(set(words) & set(others)) / max(len(words), len(others))


def plain_sum(text: str, unit: str) -> str:
    """Write a number in one way; other texts lose their unit."""
    text = re.sub("[,./]$", "", re.sub(r"^\$", "", text))
    if not _SUM.match(text):
        return text.replace(unit, "").strip() if unit else text
    text = text.replace(",", "")
    if re.match(r"[-+]?\d+$", text):
        return str(int(text))
    top, slash, bottom = text.partition("/")
    number = float(top) / float(bottom.partition("/")[0]) if slash else float(text)
    return re.sub(r"\.0+$", "", str(round(number, 3)))


def same_sum(prediction: Any, reference: Any) -> bool:
    """Whether a reply has the choice or the number of the reference; any other text is wrong (TabMWP)."""
    if not isinstance(reference, Mapping) or not {"answer", "unit", "choices"} <= set(reference):
        raise DataError(f"TabMWPEvaluator wants a reference with answer, unit and choices, not {reference!r:.80}")
    unit = reference["unit"] or ""
    try:
        found = plain_sum(table_answer(text_of(prediction, "TabMWPEvaluator"), reference["choices"]), unit)
    except (ValueError, ZeroDivisionError):
        return False
    return found.lower() == plain_sum(str(reference["answer"]), unit).lower()


# ---- judges ----


def judged_better(prediction: Any, reference: Any) -> bool:
    """Whether a reply chooses the better one of two models, which the reference names as ``winner``.

    The choice is the first sign after ``"Choice": "Model``.
    """
    if not isinstance(reference, Mapping):
        raise DataError(f"JudgeEvaluator wants a reference with winner, not {reference!r:.80}")
    chosen = text_of(prediction, "JudgeEvaluator").split('"Choice": "Model ')[-1][:1] or None
    return bool(chosen == reference.get("winner", ""))


# ---- P-MMEval ----

_FOUR_LETTERS = "ABCD"
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
_WRITTEN_NUMBER = re.compile(r"[+-]?(?=\.?[0-9])(?:0|[1-9]\d{0,2}(?:,\d{3})*|\d*)?(?:\.\d*)?(?=\D|$)")


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
    if after and after.upper() in _FOUR_LETTERS:
        return after
    return next((letter for letter in _FOUR_LETTERS if letter in reply), None)


def reply_and_language(prediction: Any) -> tuple[str, str]:
    """Return the two parts of what P-MMEval's clean-ups give."""
    if not isinstance(prediction, (list, tuple)) or len(prediction) != 2:  # noqa: PLR2004 - a pair
        raise DataError(
            f"P-MMEval wants a reply and its language, not {prediction!r:.80}",
            hint="Use the clean-up of the same dataset, such as pmmeval_mmmlu_postprocess.",
        )
    return str(prediction[0]), str(prediction[1])


def option_in_language(prediction: Any, reference: Any) -> bool:
    """Whether a reply chooses the right option, in any of the languages, whether the letter is small or not."""
    chosen = letter_in(*reply_and_language(prediction))
    return chosen is not None and chosen.lower() == str(reference).lower()


def numbered_option(prediction: Any, reference: Any) -> bool:
    """Whether it does, where the reference is a number from 0 to 3."""
    return option_in_language(prediction, chr(ord("A") + int(reference)))


def last_number(prediction: Any, reference: Any) -> bool:
    """Whether the last number of a reply is the reference, both as text, commas aside."""
    found = [each[0] for each in _WRITTEN_NUMBER.finditer(text_of(prediction, "PMMEvalMGSMEvaluator"))]
    number = found[-1].replace(",", "").replace("+", "").strip().strip(".") if found else None
    return number == str(reference).replace(",", "")


def best_lines(sample: Sample, answer: Any) -> Counts:
    """Return what BLEU is computed from, of the lines, one after the other, that are most like the reference (Flores).

    That is the lengths of both, and the common and all n-grams.
    """
    reply, language = reply_and_language(answer)
    lines = [_tokens(line, language) for line in reply.split("\n") if line.strip()]
    gold = _tokens("\n".join(each.strip() for each in str(gold_of(sample)).split("\n") if each.strip()), language)
    scorer = bleu_scorer("13a")
    spans = [" ".join(lines[i : j + 1]) for i in range(len(lines)) for j in range(i, len(lines))]
    found = max((scorer.sentence_score(each, [gold]) for each in spans or [""]), key=lambda each: each.score)
    return bleu_sums(found)


def plain_bleu(sums: Counts) -> Mapping[str, float]:
    """Compute BLEU without smoothing."""
    from sacrebleu.metrics.bleu import BLEU

    system, reference, *grams = (int(each) for each in sums)
    half = len(grams) // 2
    found = BLEU.compute_bleu(correct=grams[:half], total=grams[half:], sys_len=system, ref_len=reference)
    return {"BLEU": round(found.score, 2)}


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
    **dict.fromkeys(
        ("MedbulletsEvaluator", "MedmcqaEvaluator", "NejmaibenchEvaluator", "MedXpertQAEvaluator"),
        plain(RightInRow, "accuracy", first_lone_letter),
    ),
    "SciKnowEvalEvaluator": plain(RightInRow, "accuracy", first_label),
    "SuperGPQAEvaluator": plain(Tally, _EXAM_NAMES, exam_counts, exam_figures),
    "TabMWPEvaluator": compared(same_sum),
    "JudgeEvaluator": compared(judged_better),
    "PMMEvalMGSMEvaluator": plain(rounded, "accuracy", last_number),
    "PMMEvalFloresEvaluator": plain(Tally, ("BLEU",), best_lines, plain_bleu),
    **dict.fromkeys(("PMMEvalMMMLUEvaluator", "PMMEvalXNLIEvaluator"), plain(rounded, "accuracy", option_in_language)),
    **dict.fromkeys(
        ("PMMEvalMHellaswagEvaluator", "PMMEvalMLogiQAEvaluator"), plain(rounded, "accuracy", numbered_option)
    ),
}
