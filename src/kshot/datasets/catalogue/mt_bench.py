"""MT-Bench."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshot.datasets.generation import GenerationDataset
from kshot.metrics import GPTEval


class MtBench(GenerationDataset):
    """MT-Bench: conversations of two turns in eight categories, rated by a judge model (--judge).

    lm-eval has no task of it.
    """

    instruction = "{{source[turn_idx]}}"
    load_args = ("HuggingFaceH4/mt_bench_prompts",)
    evaluation_set = "train"
    metrics = (GPTEval(multi_turn=True),)
    multi_turn = True
    id_column = "prompt_id"
    category_column = "category"
    extra_model_args: Mapping[str, Any] = {"max_tokens": 1024}

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Use both turns as the source; maths, reasoning and coding rows have reference answers for the judge."""
        return {"source": instance["prompt"], "target": instance.get("reference") or []}
