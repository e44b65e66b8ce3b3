"""BoolQ."""

from __future__ import annotations

from typing import Any

from kshot.datasets.multiple_choice import MultipleChoiceDataset


class Boolq(MultipleChoiceDataset):
    """BoolQ: yes/no questions that people asked, each with a Wikipedia passage.

    Rows as in SuperGLUE (``label`` 0 or 1) or as in google/boolq (``answer`` true or false).

    lm-eval (boolq) writes ``Question:`` and ``Answer:`` with a capital letter; it has the same options, and reports
    ``acc``.
    """

    instruction = "{{passage}}\nquestion: {{question}}?{{'\n' + options if options}}\nanswer:"
    load_args = ("aps/super_glue", "boolq")
    evaluation_set = "validation"
    example_set = "train"

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Use no and yes as the options, in the order of the labels."""
        return {
            "passage": instance["passage"],
            "question": instance["question"].removesuffix("?"),
            "options": ["no", "yes"],
            "label": instance["answer"] if "answer" in instance else instance["label"],
        }
