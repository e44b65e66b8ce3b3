"""HellaSwag."""

from __future__ import annotations

import re
from typing import Any

from kshot.datasets.multiple_choice import MultipleChoiceDataset

_MARK = re.compile(r"\[.*?\]")


def preprocess(text: str) -> str:
    """Remove the marks in brackets that the layout of WikiHow left in the text; a title begins a new sentence."""
    return _MARK.sub("", text.strip().replace(" [title]", ". ")).replace("  ", " ")


class Hellaswag(MultipleChoiceDataset):
    """HellaSwag: which of four endings continues the description of an everyday activity.

    lm-eval (hellaswag) has the same prompt. Its options are the same but for a second space before an ending that
    begins with a mark. It reports ``acc`` and ``acc_norm``.
    """

    instruction = (
        "{{ preprocess(activity_label + ': ' + ctx_a + ' ' + ctx_b.capitalize()) }}"
        "{{'\n' + options + '\nAnswer:' if options}}"
    )
    load_args = ("Rowan/hellaswag",)
    evaluation_set = "validation"
    example_set = "train"

    def init_arguments(self) -> None:
        """Let the instruction call ``preprocess``."""
        self.jinja2_env.globals["preprocess"] = preprocess

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Use the endings as the options."""
        return {
            "activity_label": instance["activity_label"],
            "ctx_a": instance["ctx_a"],
            "ctx_b": instance["ctx_b"],
            "options": [preprocess(ending) for ending in instance["endings"]],
            "label": int(instance["label"]),
        }
