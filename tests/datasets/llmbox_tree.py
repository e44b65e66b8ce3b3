"""A package folder as LLMBox has one, with dataset files in kshot's own words."""

import json
from textwrap import dedent

import kshot

ROWS = [{"q": f"q{i}", "choices": ["red", "blue", "green"], "gold": i % 3} for i in range(4)]
EXAMPLES = [{"q": f"e{i}", "choices": ["one", "two", "three"], "gold": i % 3} for i in range(5)]

CHOICE = """
    from functools import cached_property
    from .multiple_choice_dataset import MultipleChoiceDataset

    class Colours(MultipleChoiceDataset):
        instruction = "{{q}}{{'\\n' + options if options}}\\nA:"
        evaluation_set = "test"
        example_set = "train"

        def format_instance(self, instance):
            instance["target_idx"] = instance["gold"]
            instance["options"] = instance["choices"]
            return instance

        @cached_property
        def references(self):
            return [instance["target_idx"] for instance in self.evaluation_data]
"""

GENERATION = """
    from functools import cached_property
    from ..metric import Em
    from .generation_dataset import GenerationDataset

    class Words(GenerationDataset):
        instruction = "{q}:"
        evaluation_set = "test"
        example_set = "train"
        metrics = [Em()]

        def format_instance(self, instance):
            instance["target"] = instance["choices"][instance["gold"]]
            return instance

        @cached_property
        def references(self):
            return [[instance["target"]] for instance in self.evaluation_data]
"""


class Tree:
    """Writes files of the package, and of its rows."""

    def __init__(self, root):
        self.root, self.rows = root / "utilization", root / "rows"
        self.write_rows(test=ROWS, train=EXAMPLES)

    def add(self, text, place="dataset/mine.py"):
        """Write a file of the package; return its path."""
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    def write_rows(self, **splits):
        self.rows.mkdir(exist_ok=True)
        for split, rows in splits.items():
            (self.rows / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def asked(self, text, name, **options):
        """The requests of a preview of one class."""
        spec = f"{self.add(text)}:{name}"
        return [r for each in kshot.preview(spec, dataset_path=str(self.rows), **options) for r in each.requests]

    def prompts(self, text, name, **options):
        return [request.prompt.text for request in self.asked(text, name, **options)]

    def scores(self, model, text, name, **options):
        """The figures of a run of one class, by name."""
        spec = f"{self.add(text)}:{name}"
        result = kshot.evaluate(model, spec, dataset_path=str(self.rows), **options)
        return {row["metric"]: row["value"] for row in result.results if not row.get("detail")}


def changed(text, *replacements):
    """A file with some of its text replaced; what is replaced must be there."""
    text = dedent(text)
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new)
    return text
