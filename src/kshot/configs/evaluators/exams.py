"""Evaluators of exams: AGIEval, GAOKAO-Bench, GPQA, MMLU-Pro, L-Eval, DROP, LAMBADA, MGSM; of instructions: IFEval."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from functools import partial
from typing import Any

from kshot.cleanups.formulas import plain_formula
from kshot.cleanups.patterns import general_postprocess
from kshot.configs.evaluators.factories import Factory, plain, with_options
from kshot.configs.evaluators.scores import RIGHT, WRONG, Points, RightOrWrong, listed, summed, text_of
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.metrics import Metric
from kshot.metrics.aggregates import SHARE
from kshot.metrics.instruction_checks import follows, loose_forms
from kshot.metrics.words import plain_words

# ---- AGIEval ----

_PHRASES = ("The answer is therefore", "答案是")
_BOX = "\\boxed"


def same_answer(prediction: Any, reference: Any, *, with_dollar: bool = True) -> bool:
    """Whether the answer of a reply is the reference, once both are written in one way.

    ``with_dollar``: a number that stands alone keeps the ``$`` before it, as OpenCompass has it.
    """
    answer = answer_in(text_of(prediction, "AGIEvalEvaluator"), with_dollar=with_dollar)
    if answer is None or reference is None:
        return answer is None and reference is None
    try:
        return plain_formula(answer) == plain_formula(reference)
    except (AttributeError, IndexError, ValueError):  # it cannot be written in this way
        return bool(answer == reference)


def answer_in(reply: str, *, with_dollar: bool = True) -> str | None:
    """Return what is boxed, else what is between dollar signs, else what follows ``=``, else the last number."""
    for phrase in _PHRASES:
        if reply.startswith(phrase):
            reply = reply[len(phrase) :].strip()
        elif phrase in reply:
            reply = reply.rpartition(phrase)[2].strip()
    if _BOX in reply:
        return _boxed(reply)
    between = re.findall(r"\$(.*)\$", reply)
    if between and (found := _right_side(between[-1])):
        return found
    if "=" in reply:
        return _right_side(reply).rstrip(".").split("\\n")[0]
    number = r"\d+(?:\.\d+)?(?!\w)"
    numbers = re.findall(rf"\$?{number}" if with_dollar else number, reply)
    return numbers[-1] if numbers else None


def _boxed(reply: str) -> str | None:
    """Return what the last box holds; None for a box that is not closed, or has more than braces around it."""
    start = reply.rindex(_BOX)
    depth = 0
    for at in range(start, len(reply)):
        depth += (reply[at] == "{") - (reply[at] == "}")
        if reply[at] == "}" and depth == 0:
            box = reply[start : at + 1]
            return _right_side(box[len(_BOX) + 1 : -1]) if box.startswith(_BOX + "{") else None
    return None


def _right_side(text: str) -> str:
    return text.rpartition("=")[2].lstrip(" ") if "=" in text else text


# ---- other exams ----

_OPTIONS = frozenset(string.ascii_uppercase[:16])
_DROP_ANSWER = re.compile(r"answer\s*:\s*([^\n]+)", re.IGNORECASE)
_WORD_END = re.compile("[" + re.escape(string.punctuation.replace("\\", "")) + "]")
"""LAMBADA: where a word ends. A backslash is a part of it."""
_GAOKAO_LETTERS = {"single_choice": "[A-D]", "multi_choice": "[A-D]", "five_out_of_seven": "[A-G]"}
_GAOKAO_ANSWER = "【答案】"
_TAIL = 10
"""Where a reply to several options has no mark, its answer is in so many signs at its end."""
_UNSCORED = ("cloze", "subjective", "correction")


def exam_letters(question_type: str) -> Points:
    """Return points for the letters in a reply to GAOKAO-Bench; the reference is a list, a letter for each question.

    Where several options of a question are right, all of them give 2 points, and some of them without a wrong one 1.
    """
    if question_type not in ("multi_question_choice", *_GAOKAO_LETTERS):
        raise DataError(f"GaokaoBenchEvaluator does not know question_type={question_type!r}")

    def points(prediction: Any, reference: Any) -> tuple[float, float]:
        """Compare the answer to each question; another number of answers than of questions is all wrong."""
        reference = listed(reference) if question_type == "multi_choice" else reference
        answers = _exam_answers(question_type, text_of(prediction, "GaokaoBenchEvaluator"), len(reference))
        if len(answers) != len(reference):
            answers = ["Z"] * len(reference)
        pairs = list(zip(answers, reference, strict=True))
        if question_type == "multi_choice":
            return sum(2 if a == r else all(letter in r for letter in a) for a, r in pairs), 2 * len(pairs)
        return sum(a == r for a, r in pairs), len(pairs)

    return summed("score", points)


def _exam_answers(question_type: str, reply: str, size: int) -> list[str]:
    if question_type == "multi_question_choice":
        marked = re.findall(rf"{_GAOKAO_ANSWER}\s*[:：]*\s*([A-Z])", reply)
        return marked if len(marked) == size else re.findall("[A-Z]", reply)[:size]
    if question_type == "multi_choice":
        text = "".join(reply.split())
        place = text.find(_GAOKAO_ANSWER)
        found = re.findall("[A-D]", text[place:] if place > 0 else text[-_TAIL:])
        return ["".join(found)] if found else []
    letters = re.findall(_GAOKAO_LETTERS[question_type], reply)
    return letters[-1:] if question_type == "single_choice" else letters[:5]


def letter_or_text(prediction: Any, reference: Any) -> bool:
    """Whether the first line of a reply is the letter, or the text, of the reference ``A. text`` (MMLU-Pro).

    A reference with more than one ``. `` is never right, as in the home.
    """
    line = text_of(prediction, "MMLUProBaseEvaluator").split("\n")[0].strip()
    parts = str(reference).split(". ")
    if len(parts) == 1:
        what = f"MMLUProBaseEvaluator wants 'LETTER. text' as the reference, not {reference!r:.80}"
        raise DataError(what, hint="Look at the column that reader_cfg's output_column names.")
    if len(parts) != 2:  # noqa: PLR2004 - the letter and the text
        return False
    return (line in _OPTIONS and line == parts[0]) or line == parts[1].strip()


def holds_reference(prediction: Any, reference: Any) -> bool:
    """Whether a reply, trimmed to its first phrase, contains the reference, as it is or trimmed (L-Eval)."""
    phrase = general_postprocess(text_of(prediction, "LEvalEMEvaluator"))
    return general_postprocess(str(reference)) in phrase or str(reference) in phrase


def same_first_word(prediction: Any, reference: Any) -> bool:
    """Whether the first word of a reply is the reference, both without articles (LAMBADA)."""
    word = _WORD_END.split(text_of(prediction, "LambadaEvaluator").strip().split(" ")[0])[0]
    return general_postprocess(word) == general_postprocess(str(reference))


def either_contains(prediction: Any, reference: Any) -> bool:
    """Whether an answer contains one of the references, which ``|`` divides, or is contained in one (DROP).

    The answer is what follows ``Answer:``, or all of the reply.
    """
    text = text_of(prediction, "DropOpenAIEvaluator")
    marked = _DROP_ANSWER.search(text)
    answer = " ".join(plain_words(marked[1] if marked else text))
    return any(_alike(answer, " ".join(plain_words(each))) for each in str(reference).split("|"))


def _alike(answer: str, reference: str) -> bool:
    if not answer or not reference:
        return answer == reference
    return answer in reference or reference in answer


_MARK = re.compile(r"(?i:answer|答案)\s*(?:[:：]|[是为])?\s*(\S.*)")
_LONE = re.compile("(?<![A-Za-z])[A-Ja-j](?![A-Za-z])")
_OTHERS = re.compile(r"[^\sA-J,，、.。()\[\]:：和与]")


def same_letters(prediction: Any, reference: Any) -> bool:
    """Whether a reply chooses the options of the reference, in any order (ELBench)."""
    wanted = set(re.findall("[A-J]", str(reference).upper()))
    if not wanted:
        raise DataError(f"ELBenchChoiceEvaluator wants letters from A to J as the reference, not {reference!r:.80}")
    return _chosen_letters(str(prediction or "")) == wanted


def _chosen_letters(reply: str) -> set[str]:
    """Return the letters after a mark, else those of a last line that has nothing else."""
    marked = _MARK.search(reply)
    if marked and (found := {letter.upper() for letter in _LONE.findall(marked[1])}):
        return found
    lines = [line.strip().upper() for line in reply.splitlines() if line.strip()]
    return set(re.findall("[A-J]", lines[-1])) if lines and not _OTHERS.search(lines[-1]) else set()


def _gaokao(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    kind = name.last.removeprefix("GaokaoBenchEvaluator").removeprefix("_")
    options = {**options, **({"question_type": kind} if kind else {})}
    if options.get("question_type") in _UNSCORED:  # GAOKAO-Bench has no rule for questions without options
        return Points("score", lambda prediction, reference: WRONG)  # noqa: ARG005 - no rule looks at them
    return exam_letters(**options)


# ---- IFEval ----

_KINDS = ("strict", "loose")
_LEVELS = tuple(f"{level}-level-{kind}-accuracy" for kind in _KINDS for level in ("Prompt", "Inst"))
_SHARES = {name: SHARE for name in _LEVELS if name.startswith("Inst")}


def followed_instructions(prediction: Any, reference: Any) -> Mapping[str, Any]:
    """Return whether all instructions of the row, which is the reference, are followed, and how many of them.

    Loosely, an instruction is followed if a reply without its first or last line, or without ``*``, follows it.
    """
    if not isinstance(reference, Mapping) or not {"instruction_id_list", "kwargs"} <= set(reference):
        raise DataError(f"IFEvaluator wants instruction_id_list and kwargs as the reference, not {reference!r:.80}")
    reply = text_of(prediction, "IFEvaluator")
    asked = [
        (name, {key: value for key, value in (options or {}).items() if value is not None})
        for name, options in zip(reference["instruction_id_list"], reference["kwargs"], strict=True)
    ]
    found: dict[str, Any] = {}
    for kind, forms in zip(_KINDS, ((reply,), loose_forms(reply)), strict=True):
        followed = [any(follows(name, options, form) for form in forms) for name, options in asked]
        found[f"Prompt-level-{kind}-accuracy"] = RIGHT if all(followed) else WRONG
        found[f"Inst-level-{kind}-accuracy"] = (float(sum(followed)), float(len(followed)))
    return found


def _agieval(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    return RightOrWrong("score", partial(same_answer, with_dollar=name.framework != "ais_bench"), **options)


def _leval(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    return RightOrWrong("accuracy" if name.framework == "ais_bench" else "score", holds_reference, **options)


EVALUATORS: dict[str, Factory] = {
    **dict.fromkeys(("GPQAEvaluator", "MGSM_Evaluator"), with_options(RightOrWrong, "accuracy")),
    **dict.fromkeys(("AGIEvalEvaluator_mcq", "CharmReasonEvaluator"), with_options(RightOrWrong, "score")),
    "AGIEvalEvaluator": _agieval,
    "GaokaoBenchEvaluator": _gaokao,
    **{f"GaokaoBenchEvaluator_{kind}": _gaokao for kind in ("multi_question_choice", *_GAOKAO_LETTERS, *_UNSCORED)},
    "MMLUProBaseEvaluator": with_options(RightOrWrong, "accuracy", letter_or_text),
    "LEvalEMEvaluator": _leval,
    "LambadaEvaluator": with_options(RightOrWrong, "accuracy", same_first_word),
    "DropOpenAIEvaluator": with_options(RightOrWrong, "accuracy", either_contains),
    "ELBenchChoiceEvaluator": with_options(RightOrWrong, "accuracy", same_letters),
    "IFEvaluator": plain(partial(Points, _LEVELS[0], followed_instructions, more=_LEVELS[1:], aggregates=_SHARES)),
}
