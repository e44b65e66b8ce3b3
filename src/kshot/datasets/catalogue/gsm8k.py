"""GSM8K."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kshot.datasets.generation import GenerationDataset
from kshot.metrics import Accuracy

_QUESTION = "Question: {{question.replace('\n', ' ')}}\nAnswer:"
_STYLES = {
    "base": "Answer the following question.\n\n" + _QUESTION,
    "k0_math": "Answer the following question.\n\n" + _QUESTION + " Let's think step by step.",
    "least_to_most": (
        "Answer the following question. First split it into smaller questions, then answer them one after the other, "
        "and end with the final number.\n\n" + _QUESTION
    ),
}
_CALCULATOR = re.compile(r"<<[^<>]*>>")
_NUMBER = re.compile(r"(?<!\d)-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")


class Gsm8k(GenerationDataset):
    """GSM8K: grade-school word problems whose answer is a number.

    Without ``--cot`` examples show the answers as they are written. With a style they show the reasoning without the
    marks of the calculator, and end in "The answer is N.". The last number of a reply is its answer.

    lm-eval (gsm8k) has no first sentence, keeps the line breaks of a question, and shows five examples. Its
    ``exact_match`` compares texts: the number after ``####`` (strict-match), or the last one (flexible-extract);
    kshot compares numbers, so that 7.0 is 7.
    """

    instruction = _STYLES["base"]
    load_args = ("openai/gsm8k", "main")
    evaluation_set = "test"
    example_set = "train"
    metrics = (Accuracy(),)
    extra_model_args: Mapping[str, Any] = {"max_tokens": 512, "temperature": 0.0, "stop": ["Question:"]}
    supported_cot = tuple(_STYLES)

    def init_arguments(self) -> None:
        """Choose the instruction of the reasoning style."""
        self.instruction = _STYLES[self.cot or "base"]

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Keep the reasoning as the target that examples show."""
        reasoning, _, short = instance["answer"].rpartition("####")
        target = instance["answer"]
        if self.cot:
            target = f"{_CALCULATOR.sub('', reasoning).strip()} The answer is {short.strip()}."
        return {"question": instance["question"], "short_answer": short.strip(), "target": target}

    def post_processing(self, predictions: Sequence[str]) -> list[str]:
        """Take the last number of each reply."""
        return [_number(reply) for reply in predictions]

    @property
    def references(self) -> list[list[str]]:
        """The number after ``####``."""
        return [[_number(row["answer"].rpartition("####")[2])] for row in self.evaluation_data]


def _number(text: str) -> str:
    """Return the last number of a text in a normal form: 1,200.00 is 1200."""
    found = _NUMBER.findall(text)
    if not found:
        return ""
    number: str = found[-1].replace(",", "")
    return number.rstrip("0").rstrip(".") if "." in number else number
