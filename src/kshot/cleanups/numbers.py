"""Clean-ups that find a number. Standard library only."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"-?\d+\.\d+|-?\d+")
_FLOAT = re.compile(r"-?\d*\.?\d+")
_FLOAT_OR_RATIO = re.compile(r"-?\d*\.?/?\d+")
_BETWEEN_DIGITS = re.compile(r"(\d),(\d)")


def first_number_postprocess(text: str) -> float | None:
    """Take the first number."""
    found = _FLOAT.search(text)
    return float(found[0]) if found else None


def InfiniteBench_first_number_postprocess(text: str) -> str | None:  # noqa: N802 - as configs call it
    """Take the first number without a sign, as text."""
    found = re.search(r"\d+\.\d+|\d+", text)
    return found[0] if found else None


def gsm8k_postprocess(text: str) -> str:
    """Take the last number before another question begins."""
    found = _NUMBER.findall(text.split("Question:", maxsplit=1)[0])
    return found[-1] if found else "NULL"


def gsm8k_dataset_postprocess(text: str) -> str:
    """Take the number of a reference, after ``####``."""
    return gsm8k_dataset_strict(text) if "#### " in text else text.replace(",", "")


def gsm8k_dataset_strict(text: str) -> str:
    """Take the number of a reference, after ``####``; a reference without it is an error."""
    return text.split("#### ")[1].replace(",", "")


def mathbench_postprocess(text: str, name: str = "") -> str:
    """Take the first number after "The answer is" (答案是 where the name has ``_cn``), else the last number."""
    parts = text.split("答案是" if "_cn" in name else "The answer is")
    answer = parts[1].strip() if len(parts) > 1 else text
    found = _FLOAT_OR_RATIO.findall(_BETWEEN_DIGITS.sub(r"\1\2", answer))
    if not found:
        return answer
    number: str = found[0] if len(parts) > 1 else found[-1]
    return number


def scibench_postprocess(text: str) -> str:
    """Take what is boxed first after "answer is", else the last number there."""
    parts = text.split("answer is")
    answer = parts[1].strip() if len(parts) > 1 else text
    box = re.search(r"\\boxed\{(.+?)\}", answer)
    if box:
        return box[1]
    found = _FLOAT.findall(_BETWEEN_DIGITS.sub(r"\1\2", answer))
    return found[-1] if found else answer


_MGSM_WORDS = {
    "en": "Answer",
    "bn": "উত্তর",
    "de": "Antwort",
    "es": "Respuesta",
    "fr": "Réponse",
    "ja": "答え",
    "ru": "Ответ",
    "sw": "Jibu",
    "te": "సమాధానం",
    "th": "คำตอบ",
    "zh": "答案",
}


def mgsm_postprocess(text: str, lang: str) -> str:
    """Take the last number after the language's word for "answer"."""
    word = _MGSM_WORDS[lang]
    if word not in text:
        return ""
    found = re.findall(r"\d+\.?\d*", text.rpartition(word)[2].replace(",", ""))
    return found[-1].rstrip(".") if found else ""


def gsm100_postprocess(text: str) -> str:
    """Take the digits of the first word with a digit after "The answer is"."""
    parts = text.split("The answer is")
    words = parts[1].split(" ") if len(parts) > 1 else []
    first = next((word for word in words if any(map(str.isdigit, word))), "")
    return "".join(filter(str.isdigit, first))


def without_commas(text: str) -> str:
    """Leave out the commas."""
    return text.replace(",", "")


def refcoco_bbox_postprocess(text: str) -> list[float]:
    """Take the first four numbers in square brackets: the corners of a box; four zeros where there are none."""
    number = r"\s*(-?\d+(?:\.\d+)?)\s*"
    found = re.search(rf"\[{number},{number},{number},{number}\]", text)
    return [float(each) for each in found.groups()] if found else [0.0] * 4


def get_lmm_point_list(pred: str) -> str:
    """Take the first list of whole numbers, as text."""
    found = re.search(r"\[\s*\d+(?:\s*,\s*\d+)*\s*\]", pred)
    return found[0] if found else "[]"
