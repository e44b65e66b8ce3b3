"""HumanEval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshot.cleanups.programs import completed_program, completion_tests
from kshot.datasets.generation import GenerationDataset
from kshot.metrics import PassAtK

_CHAT = (
    "Complete the following Python function. Reply with the whole function in one code block.\n\n"
    "```python\n{prompt}\n```"
)


class Humaneval(GenerationDataset):
    """HumanEval: Python functions to complete from their docstrings, checked by unit tests.

    Base models continue the function; chat models are asked for a code block. For pass@k with k above 1 use
    ``--sample-num`` and ``--pass-at-k``.

    lm-eval (humaneval) keeps the line break at the end of the prompt, and runs the text as it is: ``pass_at_k``.
    kshot also finds a whole function, or a code block, in a reply.
    """

    instruction = "{prompt}"
    load_args = ("openai/openai_humaneval",)
    evaluation_set = "test"
    metrics = (PassAtK(),)
    id_column = "task_id"
    extra_model_args: Mapping[str, Any] = {"max_tokens": 512}

    def init_arguments(self) -> None:
        """Choose the instruction by the kind of model."""
        if self.model_type == "chat":
            self.instruction = _CHAT
        else:
            self.extra_model_args = {**self.extra_model_args, "stop": ["\nclass", "\ndef", "\n#", "\nif", "\nprint"]}

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Show the head of the function; the target is its body, which no metric uses."""
        return {"prompt": instance["prompt"], "target": instance["canonical_solution"]}

    def post_processing(self, predictions: Sequence[str]) -> list[str]:
        """Turn replies into whole programs."""
        return [
            completed_program(row["prompt"], row["entry_point"], reply)
            for row, reply in zip(self.evaluation_data, predictions, strict=True)
        ]

    @property
    def references(self) -> list[str | None]:
        """The tests, and the call that runs them; None for a row without tests."""
        return [
            completion_tests(row["prompt"], row["entry_point"], row["test"]) if isinstance(row["test"], str) else None
            for row in self.evaluation_data
        ]
