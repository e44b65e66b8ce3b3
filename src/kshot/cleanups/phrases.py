"""Clean-ups of single datasets: a line of the reply, or what follows a phrase. Standard library only."""

from __future__ import annotations

import json
import re

from kshot.cleanups.spans import between

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from typing import Any


def unchanged(text: Any) -> Any:
    """Keep the reply as it is."""
    return text


def first_line_of(text: str) -> str:
    """Take the first line after leading line breaks, with its spaces."""
    return text.lstrip("\n").partition("\n")[0]


def flores_postprocess(text: str) -> str:
    """Take the first line that is not empty, with the spaces at its end."""
    return text.strip().partition("\n")[0]


def flores_postprocess_chinese(text: str) -> str:
    """Take the first line, its Chinese words set apart (package ``jieba``)."""
    import jieba  # type: ignore[import-not-found,import-untyped,unused-ignore]  # untyped, and an extra

    return " ".join(jieba.cut(re.sub(r"\s+", " ", flores_postprocess(text)).strip()))


def Xsum_postprocess(text: str) -> str:  # noqa: N802 - as configs call it
    """Take the first line that is not empty."""
    return flores_postprocess(text).strip()


def ReCoRD_postprocess(text: str) -> str:  # noqa: N802 - as configs call it
    """Take the first line without "Answer: "."""
    return flores_postprocess(text).replace("Answer: ", "").strip()


_LCSTS_QUIRK = "своей"
"""A word that both projects leave out of summaries."""


def lcsts_postprocess(text: str) -> str:
    """Take the first line without the mark of a list and without quotation marks and full stops around it."""
    line = flores_postprocess(text).replace(_LCSTS_QUIRK, "").strip()
    for mark in ("1. ", "- "):
        line = line.replace(mark, "") if line.startswith(mark) else line
    return line.strip("“，。！”")


def after_answer_is_chinese(text: str) -> str:
    """Take what follows the first 答案是, up to the next; everything where that does not occur."""
    return text.split("答案是")[1] if "答案是" in text else text


def chinese_simpleqa_preprocess(text: str) -> str:
    """Take what stands before 问题：."""
    return text.partition("问题：")[0].strip()


def strategyqa_pred_postprocess(text: str) -> str:
    """Take the first yes or no after the last "answer is " of the first paragraph."""
    found = re.search("yes|no", text.partition("\n\n")[0].rpartition("answer is ")[2].lower())
    return found[0] if found else ""


def strategyqa_dataset_postprocess(text: Any) -> str:
    """Write the reference True as yes, and every other one as no."""
    return "yes" if str(text) == "True" else "no"


_TEVAL_ENDS = ("<eoa>", "<TOKENS_UNUSED_1>", "<|im_end|>", "\nuser", "\nUSER", "[INST]")


def teval_postprocess(text: Any) -> str:
    """Take the JSON that begins a reply, before the marks of another turn."""
    if not isinstance(text, str):
        return str(text)
    begin = text
    for end in _TEVAL_ENDS:
        begin = begin.partition(end)[0]
    begin = begin.strip().removeprefix("```json").strip("`").strip()
    return begin[1:-1] if begin[:2] == "{{" and begin[-2:] == "}}" else begin


def GPQA_Simple_Eval_postprocess(text: str) -> str | None:  # noqa: N802 - as configs call it
    """Take the letter A to D after the first "Answer:", in its own case."""
    found = re.search(r"answer\s*:\s*([a-d])", text, re.IGNORECASE)
    return found[1] if found else None


def my_multiple_select_postprocess(text: str) -> str:
    """Take all capital letters, each once, in alphabetical order, with commas between them."""
    return ", ".join(sorted(set(filter(str.isupper, text))))


def crowspairs_postprocess(text: str) -> str:
    """Take A or B; ``invalid`` for a reply that names neither or says Neither or Both."""
    if "Neither" in text or "Both" in text:
        return "invalid"
    if text[:1] in {"A", "B"}:
        return text[0]
    return next((letter for letter in "AB" if re.search(rf"{letter}[^\n]", text)), "invalid")


def game24_postprocess(output: str) -> str:
    """Take the expression of the last line, before the equals sign."""
    return output.strip().rpartition("\n")[2].lower().replace("answer: ", "").partition("=")[0]


def mydataset_postprocess(formula_str: str) -> str:
    """Take the formula of the first line, with Python's signs for its operations."""
    for sign, plain in (("×", "*"), ("·", "*"), ("÷", "/"), ("−", "-"), ("^", "**")):
        formula_str = formula_str.replace(sign, plain)
    line = formula_str.replace('"', "'").replace("`", "").replace("$", "").strip().partition("\n")[0].strip()
    return re.sub(r"[^\w\s+\-*/^=.()]", "", line).strip()


def smolinstruct_acc_postprocess(text: str) -> str | None:
    """Take yes or no, wherever it stands."""
    return next((_boolean(word) for word in ("yes", "no") if word in text.lower()), None)


def _boolean(word: str) -> str:
    return f"<BOOLEAN> {word.capitalize()} </BOOLEAN>"


_SMOL_MARKS = r"[.:'\"“‘’\-]"
_YES_NO_FORMS = tuple(
    re.compile(form.replace("@", "(yes|no)"), re.IGNORECASE)
    for form in (
        r"\\boxed\{\s*@\s*\}",
        rf"[Th]he\s+answer\s+is\s*(?:{_SMOL_MARKS}+\s*)?@",
        r"answer:\s*@\b",
        r"\*\*answer:\*\*\s*@\b",
        r"\*\*answer\*\*:\s*@\b",
        r"<BOOLEAN>\s*@\s*</BOOLEAN>",
        r"^\s*@[.?!]?\s*$",
        r"<\|begin_of_box\|>\s*@\s*<\|end_of_box\|>",
    )
)


def smolinstruct_acc_0shot_postprocess(text: str) -> str:
    """Take yes or no from a phrase that states it, else from the beginning or the end of the reply."""
    text = (text.rpartition("</think>")[2] if "</think>" in text else text).strip()
    for form in _YES_NO_FORMS:
        if found := form.search(text):
            return _boolean(found[1])
    lower = text.lower()
    return next((_boolean(word) for word in ("yes", "no") if lower.startswith(word) or lower.endswith(word)), "")


def olympiadbench_postprocess_v2(text: str, is_chinese: bool = False, is_deepseek: bool = False) -> str:  # noqa: FBT001, FBT002 - as configs pass it
    """Take the rest of the line after the last phrase that announces the answer."""
    phrases = {
        (False, False): "So the final answer is ",
        (False, True): "The answer is: ",
        (True, False): "所以最终答案是",
        (True, True): "## 解题答案",
    }
    found: list[str] = re.findall(f"{phrases[bool(is_chinese), bool(is_deepseek)]}(.*)", text)
    return found[-1].strip() if found else text


_BBEH_LEADS = ("The answer is: ", "The answer is ", "The final answer is: ", "The final answer is ")


def _bbeh_answer(text: str) -> str:
    lead = next((lead for lead in _BBEH_LEADS if lead in text), "")
    return text.rpartition(lead)[2] if lead else text


def bbeh_freeform_postprocess(text: str) -> str:
    """Take the rest of the line after the phrase that announces the answer, without markup, in lower case."""
    answer = _bbeh_answer(text)
    for form in _BBEH_MARKUP:
        answer = form.sub(r"\1", answer)
    return answer.partition("\n")[0].strip().lower()


_BBEH_MARKUP = tuple(map(re.compile, (r"\\boxed\{(.*?)\}", r"\\text(?:tt)?\{(.*?)\}", r"\*\*(.*?)\*\*")))


def bbeh_mcq_postprocess(text: str) -> str:
    """Take the rest of the line after the phrase that announces the answer, without brackets, in lower case."""
    return _bbeh_answer(text).strip("()").partition("\n")[0].strip().lower()


def arxivrollbench_selection_postprocess(text: Any) -> str:
    """Take the number of a selection, 1 to 4, as ``Selection N``."""
    if text is None:
        return ""
    plain = str(text).strip()
    found = re.search(r"\bselection\s*([1-4])\b", plain, re.IGNORECASE) or re.search(r"\b([1-4])\b", plain)
    return f"Selection {found[1]}" if found else plain


def arxivrollbench_choice_postprocess(text: Any) -> str:
    """Take the first letter A to D that stands alone, as a capital."""
    if text is None:
        return ""
    plain = str(text).strip()
    found = re.search(r"\b([a-d])\b", plain, re.IGNORECASE)
    return found[1].upper() if found else plain


def get_a_or_b(pred: str) -> str:
    """Take the last sign if it is A, else B."""
    return "A" if pred.endswith("A") else "B"


def clbench_pred_postprocess(prediction: Any, max_chars: int | None = None) -> str:
    """Keep the reply without the white space at its end, cut to a length."""
    text = "" if prediction is None else str(prediction).rstrip()
    return text[:max_chars] if max_chars is not None and max_chars > 0 else text


def atlas_pred_postprocess(prediction: str | None, think_tags: tuple[str, str] = ("<think>", "</think>")) -> Any:
    """Take the JSON of the answers: in a fence, or from the key ``answers`` on; and whether there is none."""
    text = (prediction or "").rpartition(think_tags[1])[2] if think_tags[1] in (prediction or "") else prediction or ""
    fenced = between(text, "```json\n", "\n```") or between(text, "```", "```")
    if not fenced and '"answers":' not in text:
        return {"extract_error": True, "answers": json.dumps({"answers": []})}
    content = fenced[0].strip() if fenced else '{\n"answers"' + text.rpartition('"answers"')[2]
    return {"extract_error": False, "answers": re.sub(r'(?<!\\)\\(?![\\/"bfnrtu])', r"\\\\", content)}


def with_language(text: str, lang_code: str) -> list[str]:
    """Keep the reply, and the language for the evaluator."""
    return [text, lang_code]


def with_language_name(text: str, lang_fullname: str) -> list[str]:
    """Keep the reply, and the name of the language for the evaluator."""
    return [text, lang_fullname]
