"""Text clean-up by the names configs use: from a reply, or a reference, to the answer that is compared.

Standard library only: the confined process of a config loads this file too, so that functions of
a config may call these.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from kshot.cleanups.formulas import math_postprocess, math_postprocess_v2, normalize_final_answer

_ARTICLES = re.compile(r"\b(?:a|an|the)\b", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+\.\d+|-?\d+")


# ---- general ----


def general_postprocess(text: str) -> str:
    """Keep what stands before the first line break, full stop or comma, without punctuation and articles."""
    first = re.split(r"[\n.,]", text, maxsplit=1)[0]
    bare = _ARTICLES.sub("", re.sub(r"[^\w\s]", "", first))
    return re.sub(r"\s+", " ", bare).strip()


def general_cn_postprocess(text: str) -> str:
    """Do the same for Chinese, with the words set apart (package ``jieba``)."""
    import jieba  # type: ignore[import-not-found,import-untyped,unused-ignore]

    return " ".join(jieba.cut(general_postprocess(text)))


def general_eval_wrapper_postprocess(text: str, postprocess: Any = None, **kwargs: Any) -> str:
    """Read a reply that was written as a Python literal, then clean it up by another function."""
    try:
        held = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        held = text
    said = held if isinstance(held, str) else str(held)
    if not postprocess:
        return said
    function = CLEANUP_FUNCTIONS[postprocess] if isinstance(postprocess, str) else postprocess
    return str(function(said, **kwargs))


def extract_non_reasoning_content(
    text: Any,
    think_start_token: str = "<think>",  # noqa: S107 - no password
    think_end_token: str = "</think>",  # noqa: S107
) -> Any:
    """Leave out what a model thought before it answered."""
    if isinstance(text, list):
        return [extract_non_reasoning_content(each, think_start_token, think_end_token) for each in text]
    if think_start_token not in text and think_end_token in text:
        return text.split(think_end_token)[-1].strip()
    span = re.escape(think_start_token) + r".*?" + re.escape(think_end_token)
    return re.sub(span, "", text, flags=re.DOTALL).strip()


def think_pred_postprocess(prediction: str, re_pattern: str) -> str:
    """Keep the first group of a pattern, or everything where it does not occur."""
    found = re.search(re_pattern, prediction)
    return found[1].strip() if found else prediction


def match_answer_pattern(response_text: str, answer_pattern: str) -> str:
    """Take the last match of a pattern."""
    found = re.findall(answer_pattern, response_text)
    last = found[-1] if found else ""
    return last if isinstance(last, str) else next((part for part in last if part), "")


def xml_tag_postprocessor(text: str, tag: str) -> str:
    """Take what the last pair of a tag holds."""
    name = tag.strip("<>/ ")
    found = re.findall(rf"<{re.escape(name)}>(.*?)</{re.escape(name)}>", text, re.DOTALL)
    return found[-1].strip() if found else "NO ANSWER FOUND"


def first_number_postprocess(text: str) -> float | None:
    """Take the first number."""
    found = re.search(r"-?\d*\.?\d+", text)
    return float(found[0]) if found else None


# ---- options ----


def first_capital_postprocess(text: str) -> str:
    """Take the first capital letter."""
    return next((sign for sign in text if sign.isupper()), "")


def last_capital_postprocess(text: str) -> str:
    """Take the last capital letter."""
    return next((sign for sign in reversed(text) if sign.isupper()), "")


def multiple_select_postprocess(text: str) -> str:
    """Take all capital letters, each once, in alphabetical order."""
    return "".join(sorted({sign for sign in text if sign.isupper()}))


def first_capital_postprocess_multi(text: str) -> str:
    """Take the first run of the letters A to D."""
    found = re.search(r"[A-D]+", text)
    return found[0] if found else ""


def last_option_postprocess(text: str, options: str, cushion: Any = None) -> str:  # noqa: ARG001 - configs pass it
    """Take the last of the option letters, wherever it stands."""
    found = re.findall(f"[{options}]", text)
    return found[-1] if found else ""


# From what says most clearly that an option is meant to what says least; the first form that occurs decides.
_SAYING = (
    r"答案(?:选项)?(?:应该|应|该)?(?:是|为|选)?(?:选项)?\s*[：:]?\s*\(?\*{{0,2}}([{o}])",
    r"(?:故|应|因此)?选择?(?:选?项)?\s*[：:]?\s*([{o}])",
    r"只有选?项?\s?([{o}])\s?是?对",
    r"([{o}])\s?(?:是|为)?(?:正确|对)的?(?:答案|选项)?",
    r"[Aa]nswer(?:\s+to the question)?\s+is:?\s*(?:the\s+)?(?:[Oo]ption:?\s*)?\(?\*{{0,2}}\(?([{o}])(?![A-Za-z])",
    r"[Cc]orrect (?:answer|option|choice) (?:is|would be):?\s*(?:[Oo]ption\s*)?.{{0,3}}?\(?\*{{0,2}}([{o}])(?!\w)",
    r"\\boxed{{\s*(?:\\text{{)?\(?([{o}])\)?",
    r"[Aa]nswer\s*[:：]\s*\(?\*{{0,2}}\(?([{o}])(?![A-Za-z])",
    r"^选项\s?([{o}])",
    r"^([{o}])\s?选?项",
    r"(?:\s|^)\(?([{o}])\)?[\s。，,：:.]",
    r"(?:\s|^)([{o}])$",
)
_CUSHION = (r"([{o}]):", r"([{o}])")


def first_option_postprocess(text: str, options: str, cushion: bool = True) -> str:  # noqa: FBT001, FBT002 - configs'
    """Find the option a reply settles on: by a phrase that says so, else (``cushion``) by the first letter."""
    text = text.strip()
    for form in (*_SAYING, *(_CUSHION if cushion else ())):
        if found := re.search(form.format(o=options), text, re.DOTALL):
            return found[1]
    return ""


def bbh_mcq_postprocess(text: str) -> str:
    """Take the letter after "answer is", in brackets or bare."""
    said = text.split("answer is ")[1].strip() if "answer is " in text else text
    found = re.search(r"\(([A-Z])\)*", said) or re.search(r"([A-Z])", said)
    return found[1] if found else said


def bbh_freeform_postprocess(text: str) -> str:
    """Take the rest of the line after "answer is", or what is bold in it."""
    said = text.split("answer is ")[1].strip() if "answer is " in text else text
    said = said.split("\n")[0].strip()
    said = said[:-1].strip() if said.endswith(".") else said
    bold = re.search(r"\*\*(.*?)\*\*", said)
    return bold[1] if bold else said


# ---- numbers and mathematics ----


def gsm8k_postprocess(text: str) -> str:
    """Take the last number before another question begins."""
    found = _NUMBER.findall(text.split("Question:", maxsplit=1)[0])
    return found[-1] if found else "NULL"


def gsm8k_dataset_postprocess(text: str) -> str:
    """Take the reference's number, after ``####``."""
    return text.split("#### ")[1].replace(",", "") if "#### " in text else text.replace(",", "")


# ---- code ----


def humaneval_postprocess(text: str) -> str:
    """Take the first code block, or the reply as it is."""
    found = re.findall(r"```\w*\n(.*?)(?:```|\Z)", text, re.DOTALL)
    return found[0].lstrip("\n") if found else text.lstrip("\n")


def last_code_postprocess(text: str) -> str:
    """Take the last code block, or the reply as it is."""
    found = re.findall(r"```\w*\n(.*?)(?:```|\Z)", text, re.DOTALL)
    return found[-1].lstrip("\n") if found else text.lstrip("\n")


def first_line(text: str) -> str:
    """Take the first line that is not empty."""
    return text.strip().split("\n")[0].strip()


def strip(text: str) -> str:
    """Take the white space away from both ends."""
    return text.strip()


_OWN: tuple[Callable[..., Any], ...] = (
    *(general_postprocess, general_cn_postprocess, general_eval_wrapper_postprocess, extract_non_reasoning_content),
    *(think_pred_postprocess, match_answer_pattern, xml_tag_postprocessor, first_number_postprocess),
    *(first_capital_postprocess, last_capital_postprocess, multiple_select_postprocess, first_option_postprocess),
    *(first_capital_postprocess_multi, last_option_postprocess, bbh_mcq_postprocess, bbh_freeform_postprocess),
    *(gsm8k_postprocess, gsm8k_dataset_postprocess, math_postprocess, math_postprocess_v2, humaneval_postprocess),
    normalize_final_answer,
)
CLEANUP_FUNCTIONS: dict[str, Callable[..., Any]] = {function.__name__: function for function in _OWN} | {
    "general": general_postprocess,
    "general_cn": general_cn_postprocess,
    "general_eval_wrapper": general_eval_wrapper_postprocess,
    "first-capital": first_capital_postprocess,
    "last-capital": last_capital_postprocess,
    "first-option": first_option_postprocess,
    "last-option": last_option_postprocess,
    "first-capital-multi": first_capital_postprocess_multi,
    "multiple-select": multiple_select_postprocess,
    "extract-non-reasoning-content": extract_non_reasoning_content,
    "bbh-mcq": bbh_mcq_postprocess,
    "bbh-freeform": bbh_freeform_postprocess,
    "gsm8k": gsm8k_postprocess,
    "gsm8k_dataset": gsm8k_dataset_postprocess,
    "math_postprocess": math_postprocess,
    "math_postprocess_v3": math_postprocess_v2,
    "mathbench_postprocess": math_postprocess_v2,
    "humaneval_postprocess_v2": humaneval_postprocess,
    "humaneval_postprocess_v3": last_code_postprocess,
    "humaneval": humaneval_postprocess,
    "mbpp_postprocess": humaneval_postprocess,
    "TriviaQA": first_line,
    "strip": strip,
}
