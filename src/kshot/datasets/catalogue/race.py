"""RACE."""

from __future__ import annotations

from typing import Any

from kshot.datasets.multiple_choice import MultipleChoiceDataset


class Race(MultipleChoiceDataset):
    """RACE: reading comprehension from English exams in China (subsets middle, high).

    lm-eval (race) takes only the last question of each article, after the others with their answers, and writes
    neither ``Question:`` nor ``Answer:`` around it. It has the same options, and reports ``acc``; Accuracy goes by
    mutual information here.
    """

    instruction = "Article: {{article}}\n\nQuestion: {{question}}{{'\n' + options if options}}\nAnswer:"
    load_args = ("ehovy/race",)
    evaluation_set = "test"
    example_set = "train"
    use_normalization = True
    banned_subsets = ("all",)  # middle and high once more

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Read the answer's letter."""
        return {
            "article": instance["article"],
            "question": instance["question"],
            "options": instance["options"],
            "target_idx": "ABCD".index(instance["answer"]),
        }
