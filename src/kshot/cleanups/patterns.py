"""Clean-ups by patterns: phrases, tags, the reasoning before an answer, numbers. Standard library only."""

from __future__ import annotations

import re
from typing import Any

from kshot.cleanups.spans import between, without

_ARTICLES = re.compile(r"\b(?:a|an|the)\b", re.IGNORECASE)


def general_postprocess(text: str) -> str:
    """Keep what stands before the first line break, full stop or comma, without punctuation and articles."""
    first = re.split(r"[\n.,]", text, maxsplit=1)[0]
    bare = _ARTICLES.sub("", re.sub(r"[^\w\s]", "", first))
    return re.sub(r"\s+", " ", bare).strip()


def general_cn_postprocess(text: str) -> str:
    """Set the words of a Chinese text apart by spaces (package ``jieba``)."""
    import jieba  # type: ignore[import-not-found,import-untyped,unused-ignore]  # untyped, and an extra

    return " ".join(jieba.cut(text))


def extract_non_reasoning_content(
    text: Any,
    think_start_token: str = "<think>",  # noqa: S107 - no password
    think_end_token: str = "</think>",  # noqa: S107 - no password
) -> Any:
    """Leave out what a model thought before it answered."""
    if isinstance(text, list):
        return [extract_non_reasoning_content(each, think_start_token, think_end_token) for each in text]
    if not isinstance(text, str):
        return text
    opened = think_start_token in text
    answer = without(text, think_start_token, think_end_token) if opened else text.rpartition(think_end_token)[2]
    return answer.strip()


def think_pred_postprocess(prediction: str, re_pattern: str) -> str:
    """Keep the first group of a pattern, or everything where it does not occur."""
    found = re.search(re_pattern, prediction)
    return found[1].strip() if found else prediction


def match_answer_pattern(response_text: str, answer_pattern: str) -> Any:
    """Take the first group of the first match of a pattern."""
    found = re.search(answer_pattern, response_text)
    return found[1] if found else ""


def xml_tag_postprocessor(text: str, tag: str) -> str:
    """Take what the last pair of a tag encloses."""
    name = tag.strip("<>/ ")
    found = between(text, f"<{name}>", f"</{name}>")
    return found[-1].strip() if found else "NO ANSWER FOUND"


def after_answer_is(text: str) -> str:
    """Take what follows the first "answer is", or everything where that does not occur."""
    return text.split("answer is ")[1].strip() if "answer is " in text else text


def bbh_freeform_postprocess(text: str) -> str:
    """Take the rest of the line after the last "answer is", or what is bold in it; yes, no, true, false alone."""
    parts = re.split(r"answer is\s*(?::\s*)?", text, flags=re.IGNORECASE)
    line = _line(parts[-1].strip() if len(parts) > 1 else text)
    bold = re.search(r"\*\*(.*?)\*\*", line)
    answer = re.sub(r"\s+", " ", bold[1].strip() if bold else line)
    if word := re.match(r"(?:yes|no|true|false)\b", answer, re.IGNORECASE):
        return word[0].capitalize()
    if not re.search(r"\d ?, ?\d", answer):
        answer = re.sub(" ?, ?", " ", answer)
    return re.sub(r"\s+", " ", answer).strip()


def bbh_freeform_ais_bench(text: str) -> str:
    """Take the rest of the line after the first "answer is", or what is bold in it."""
    line = _line(after_answer_is(text))
    bold = re.search(r"\*\*(.*?)\*\*", line)
    return bold[1] if bold else line


def _line(text: str) -> str:
    """Return the first line without a full stop at its end."""
    line = text.partition("\n")[0].strip()
    return line[:-1].strip() if line.endswith(".") else line


def first_line(text: str) -> str:
    """Take the first line that is not empty."""
    return text.strip().split("\n")[0].strip()


def strip(text: str) -> str:
    """Take the white space away from both ends."""
    return text.strip()


# ---- numbers ----

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
