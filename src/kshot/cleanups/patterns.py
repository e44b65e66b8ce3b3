"""Clean-ups by patterns: phrases, tags, the reasoning before an answer. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_ARTICLES = re.compile(r"\b(?:a|an|the)\b", re.IGNORECASE)


def general_postprocess(text: str) -> str:
    """Keep what stands before the first line break, full stop or comma, without punctuation and articles."""
    first = re.split(r"[\n.,]", text, maxsplit=1)[0]
    bare = _ARTICLES.sub("", re.sub(r"[^\w\s]", "", first))
    return re.sub(r"\s+", " ", bare).strip()


def general_cn_postprocess(text: str) -> str:
    """Do the same for Chinese, with the words set apart (package ``jieba``)."""
    import jieba  # type: ignore[import-not-found,import-untyped,unused-ignore]  # untyped, and an extra

    return " ".join(jieba.cut(general_postprocess(text)))


def extract_non_reasoning_content(
    text: Any,
    think_start_token: str = "<think>",  # noqa: S107 - no password
    think_end_token: str = "</think>",  # noqa: S107 - no password
) -> Any:
    """Leave out what a model thought before it answered."""
    if isinstance(text, list):
        return [extract_non_reasoning_content(each, think_start_token, think_end_token) for each in text]
    if think_start_token not in text and think_end_token in text:
        return text.split(think_end_token)[-1].strip()
    kept, place = [], 0
    for start, end in _spans(text, think_start_token, think_end_token):
        kept.append(text[place:start])
        place = end
    return "".join([*kept, text[place:]]).strip()


def _spans(text: str, opening: str, closing: str) -> Iterator[tuple[int, int]]:
    """Yield where each pair begins and ends; a reply of openings alone is searched once, not once for each."""
    start = text.find(opening)
    while start >= 0 and (end := text.find(closing, start + len(opening))) >= 0:
        end += len(closing)
        if end == start:  # both are empty
            return
        yield start, end
        start = text.find(opening, end)


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
    """Take what the last pair of a tag encloses."""
    name = tag.strip("<>/ ")
    opening, closing = f"<{name}>", f"</{name}>"
    found = [text[start + len(opening) : end - len(closing)] for start, end in _spans(text, opening, closing)]
    return found[-1].strip() if found else "NO ANSWER FOUND"


def after_answer_is(text: str) -> str:
    """Take what follows the first "answer is", or everything where that does not occur."""
    return text.split("answer is ")[1].strip() if "answer is " in text else text


def bbh_freeform_postprocess(text: str) -> str:
    """Take the rest of the line after "answer is", or what is bold in it."""
    line = after_answer_is(text).split("\n")[0].strip()
    line = line[:-1].strip() if line.endswith(".") else line
    bold = re.search(r"\*\*(.*?)\*\*", line)
    return bold[1] if bold else line


def first_line(text: str) -> str:
    """Take the first line that is not empty."""
    return text.strip().split("\n")[0].strip()


def strip(text: str) -> str:
    """Take the white space away from both ends."""
    return text.strip()
