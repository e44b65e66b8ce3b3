"""Evaluators of questions about images, sound and video (AISBench): options, boxes, short answers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kshot.cleanups.literals import NO_VALUE, literal
from kshot.configs.evaluators.factories import Factory, compared, plain, with_options
from kshot.configs.evaluators.scores import BySubset, Points, RightOrWrong, text_of, texts_of
from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.metrics.words import edit_distance

_MARK = "<|im_end|>"
_BETWEEN_WORDS = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_REFUSALS = (
    "can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
_NONE = "Z"
_NEAR_END = 5
"""A letter counts among so many last words."""
_SOUNDS = {"A": "laughter", "B": "sigh", "C": "cough", "D": "throatclearing", "E": "sneeze", "F": "sniff"}
_LEADS = (
    *("The best answer is", "The correct answer is", "The answer is", "The answer", "The best option is"),
    *("The correct option is", "Best answer:", "Best option:", "Answer:", "Option:"),
)
_LEAST_LIKENESS = 0.5
_MAX_ASPECT = 200


def chosen(reply: str, options: Mapping[str, Any]) -> str:
    """Return the option that a reply names by its letter, else by its text; an empty text for none or several."""
    if "Failed to obtain answer via API" not in reply:
        if any(each in reply for each in _REFUSALS):
            return _NONE
        words = reply.translate(_BETWEEN_WORDS).split()
        named = [letter for letter in options if letter in words]
        if len(named) == 1 and words.index(named[0]) > len(words) - _NEAR_END:
            return named[0]
        if not named and _NONE in words:
            return _NONE
    text, texts = reply.lower(), {letter: str(each).lower() for letter, each in options.items()}
    if len(text) > 2 * sum(map(len, map(str, options.values()))):
        return ""
    held = [letter for letter, each in texts.items() if each in text]
    return held[0] if len(held) == 1 else ""


def chosen_option(evaluator: str, *, stated: bool = False) -> BySubset:
    """Return the share of replies that name the right option, in all and by category (MMStar, MMMU-Pro)."""

    def same(prediction: Any, reference: Any) -> bool:
        options, answer, _ = read(reference)
        reply = str(prediction)
        if evaluator != "MMStarEvaluator":
            reply = reply.replace(_MARK, "")
        return bool(chosen(_stated(reply) if stated else reply, options) == answer)

    def read(reference: Any) -> tuple[dict[str, Any], Any, Any]:
        try:
            if isinstance(reference, Mapping):
                return json.loads(reference["choices"]), reference["answer"], reference["category"]
            options, answer, category = json.loads(reference)
        except (TypeError, ValueError, LookupError):
            what = f"{evaluator} wants choices, answer and category as the reference, not {reference!r:.80}"
            raise DataError(what) from None
        return options, answer, category

    return BySubset("Overall", lambda gold, _: [str(read(gold)[2])], same)


def _stated(reply: str) -> str:
    """Return what the one line that begins with ``Answer:`` says; its own A counts as a letter."""
    lines = [line for line in map(str.strip, reply.strip().split("\n")) if line.startswith("Answer:")]
    if len(lines) != 1:
        return reply
    letters = set(re.findall("[A-Z]", lines[0]))
    return "A" if len(letters) == 1 else lines[0].removeprefix("Answer:")


def video_letter(prediction: Any, reference: Any) -> bool:
    """Whether the first letter of a reply, without the words that lead to it, is the right one (Video-MME)."""
    text = text_of(prediction, "VideoMMEEvaluator").strip()
    for lead in _LEADS:
        text = text.replace(lead, "")
    found = re.search("[ABCD]", text)
    return bool((found[0] if found else _NONE) == _told(reference, "answer", "VideoMMEEvaluator"))


def video_parts(gold: Any, row: Row) -> Iterable[str]:  # noqa: ARG001 - the reference says it
    """Return the figures of a video by domain, category and task, of this length and of all lengths."""
    length, *parts = (
        f"[{column}: {_told(gold, column, 'VideoMMEEvaluator')}]"
        for column in ("duration", "domain", "sub_category", "task_type")
    )
    return [f"{length}[overall]", *(length + part for part in parts), *(f"[Overall]{part}" for part in parts)]


def _told(reference: Any, key: str, evaluator: str) -> Any:
    if not isinstance(reference, Mapping) or key not in reference:
        raise DataError(
            f"{evaluator} wants a reference with {key!r}, not {reference!r:.80}", hint="Look at output_column."
        )
    return reference[key]


def right_letter(letter: Callable[[str], str]) -> Callable[[Any, Any], bool]:
    """Return the function that says whether the letter of a reply is the right one (Video-Bench)."""

    def same(prediction: Any, reference: Any) -> bool:
        wanted = _told(reference, "answer", "VideoBenchEvaluator")
        return bool(letter(text_of(prediction, "VideoBenchEvaluator")) == wanted)

    return same


def first_of_letters(reply: str) -> str:
    """Return the letter that a reply names; of several, the first in the alphabet."""
    return next((letter for letter in "ABCDEF" if letter in reply), "")


def lone_letter(reply: str) -> str:
    """Return the first letter that stands alone after the last mark."""
    found = re.search(r"\b[A-F]\b", reply.rpartition("☜")[2].replace(_MARK, "").strip())
    return found[0] if found else ""


def sound_of_letter(least: int) -> Callable[[Any, Any], bool]:
    """Return the function that says whether the first letter, or the first of several turns, stands for the sound.

    Replies shorter than ``least``, and fewer turns, are compared as they are.
    """

    def same(prediction: Any, reference: Any) -> bool:
        said = list(prediction) if isinstance(prediction, (list, tuple)) else text_of(prediction, "VocalSoundEvaluator")
        return bool((_SOUNDS.get(said[0], "") if len(said) >= least else said) == reference)

    return same


def after_answer(prediction: Any, reference: Any) -> bool:
    """Whether the rest of the line after ``ANSWER:`` is the reference, letter case aside (RealWorldQA)."""
    wanted = reference.get("answer", "") if isinstance(reference, Mapping) else reference
    found = re.search(r"ANSWER:\s*(.*)", text_of(prediction, "RealworldQAEvaluator"))
    return (found[1] if found else "").strip().lower() == str(wanted).strip().lower()


def near_answer(prediction: Any, reference: Any) -> float:
    """Return the likeness of a reply and the nearest reference; less than a half is nothing (DocVQA, InfoVQA)."""
    text = text_of(prediction, "DocVQAEvaluator").replace(_MARK, "").strip()
    likeness = 1 - min(_edits(each, text) for each in _listed(reference))
    return 100 * likeness if likeness >= _LEAST_LIKENESS else 0.0


def _listed(reference: Any) -> list[str]:
    """Return the reference texts: a list, one that is written as Python, or one text."""
    if isinstance(reference, str):
        try:
            written = literal(reference)
        except NO_VALUE:
            written = None
        reference = written if isinstance(written, (list, tuple)) else reference
    return texts_of(reference, "DocVQAEvaluator")


def _edits(gold: str, text: str) -> float:
    length = max(len(gold.upper()), len(text.upper()))
    left, right = (" ".join(each.lower().split()) for each in (gold, text))
    return edit_distance(left, right) / length if length else 0.0


class BoxOverlap(RightOrWrong):
    """Share of boxes that overlap the right one by a half of their union or more (RefCOCO)."""

    def __init__(
        self,
        *,
        iou_threshold: float = 0.5,
        coord_scale: float = 1000.0,
        reference_bbox_key: str = "bbox",
        image_width_key: str = "image_width",
        image_height_key: str = "image_height",
        metric_prefix: str = "Accuracy",
        clip_to_image: bool = True,
        smart_resize_cfg: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{metric_prefix}@{iou_threshold}", self._overlaps)
        self.threshold, self.scale, self.clip = iou_threshold, coord_scale, clip_to_image
        self.keys = (image_width_key, image_height_key, reference_bbox_key)
        self.resize = dict(smart_resize_cfg) if smart_resize_cfg else None

    def _overlaps(self, prediction: Any, reference: Any) -> bool:
        """Compare two boxes; a reply without a box is wrong."""
        width, height, *wanted = self._read(reference)
        try:
            box = self._in_pixels([float(value) for value in prediction], width, height)
            return _overlap(box, wanted) >= self.threshold
        except (TypeError, ValueError, LookupError):
            return False

    def _read(self, reference: Any) -> list[float]:
        """Return the width and the height of the image, then the box."""
        try:
            row = json.loads(reference) if isinstance(reference, str) else reference
            width, height = (float(row[key]) for key in self.keys[:2])
            left, top, right, bottom = (float(value) for value in row[self.keys[2]])
        except (TypeError, ValueError, LookupError):
            what = f"BBoxIoUEvaluator wants {', '.join(self.keys)} as the reference, not {reference!r:.80}"
            raise DataError(what, hint="The box has four numbers. Look at output_column.") from None
        return [width, height, left, top, right, bottom]

    def _in_pixels(self, box: list[float], width: float, height: float) -> list[float]:
        left, top, right, bottom = box
        wide, high = width / self.scale, height / self.scale
        if self.resize is not None:
            resized_height, resized_width = _resized(height, width, self.resize)
            wide, high = wide * resized_width / width, high * resized_height / height
        found = [left * wide, top * high, right * wide, bottom * high]
        if self.clip:
            ends = (width, height, width, height)
            found = [min(max(value, 0.0), end) for value, end in zip(found, ends, strict=True)]
        if found[2] <= found[0] or found[3] <= found[1]:
            raise ValueError("an empty box")
        return found


def _resized(height: float, width: float, options: Mapping[str, Any]) -> tuple[float, float]:
    """Return the size to which a model resizes an image: multiples of a factor, within limits of pixels."""
    factor = options.get("factor", 32)
    least, most = options.get("min_pixels", 16 * 32**2), options.get("max_pixels", 65536 * 32**2)
    if max(height, width) / min(height, width) > _MAX_ASPECT:
        raise ValueError("too long an image")
    sizes = [max(factor, round(side / factor) * factor) for side in (height, width)]
    if sizes[0] * sizes[1] > most:
        shrunk = math.sqrt(height * width / most)
        sizes = [max(factor, math.floor(side / shrunk / factor) * factor) for side in (height, width)]
    elif sizes[0] * sizes[1] < least:
        grown = math.sqrt(least / (height * width))
        sizes = [max(factor, math.ceil(side * grown / factor) * factor) for side in (height, width)]
    return sizes[0], sizes[1]


def _overlap(one: list[float], other: list[float]) -> float:
    common = _area([*map(max, one[:2], other[:2]), *map(min, one[2:4], other[2:4])])
    union = _area(one) + _area(other) - common
    return common / union if union > 0 else 0.0


def _area(box: list[float]) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


EVALUATORS: dict[str, Factory] = {
    "MMStarEvaluator": plain(chosen_option, "MMStarEvaluator"),
    "MMMUProEvaluator": plain(chosen_option, "MMMUProEvaluator"),
    "MMMUProCotEvaluator": plain(partial(chosen_option, "MMMUProCotEvaluator", stated=True)),
    "VideoMMEEvaluator": plain(BySubset, "[Overall][overall]", video_parts, video_letter),
    "VideoBenchEvaluator": compared(right_letter(first_of_letters)),
    "VideoBenchEvaluatorForVita": compared(right_letter(lone_letter)),
    "VocalSoundEvaluator": compared(sound_of_letter(1)),
    **dict.fromkeys(("MTBenchEvaluator", "ShareGPTEvaluator"), compared(sound_of_letter(2))),
    "RealworldQAEvaluator": compared(after_answer),
    **dict.fromkeys(("DocVQAEvaluator", "InfoVQAEvaluator"), plain(Points, "ANLS Acc", near_answer)),
    "BBoxIoUEvaluator": with_options(BoxOverlap),
}
