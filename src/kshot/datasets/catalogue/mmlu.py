"""MMLU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshot.datasets.multiple_choice import MultipleChoiceDataset

_STEM = """abstract_algebra astronomy college_biology college_chemistry college_computer_science college_mathematics
college_physics computer_security conceptual_physics electrical_engineering elementary_mathematics high_school_biology
high_school_chemistry high_school_computer_science high_school_mathematics high_school_physics high_school_statistics
machine_learning"""
_HUMANITIES = """formal_logic high_school_european_history high_school_us_history high_school_world_history
international_law jurisprudence logical_fallacies moral_disputes moral_scenarios philosophy prehistory professional_law
world_religions"""
_SOCIAL_SCIENCES = """econometrics high_school_geography high_school_government_and_politics high_school_macroeconomics
high_school_microeconomics high_school_psychology human_sexuality professional_psychology public_relations
security_studies sociology us_foreign_policy"""
_OTHER = """anatomy business_ethics clinical_knowledge college_medicine global_facts human_aging management marketing
medical_genetics miscellaneous nutrition professional_accounting professional_medicine virology"""


class Mmlu(MultipleChoiceDataset):
    """MMLU: exam questions from 57 subjects; mmlu:[stem] takes a category, mmlu:anatomy a subject.

    lm-eval (mmlu_anatomy) lists the options and asks for the letter, as ``--ranking-type prob --letters spaced``
    does. It writes the first sentence once, before all examples, and no ``Question:``; the examples are the first
    ones. It reports ``acc``, and averages subjects weighted by their size (``--average weighted``).
    """

    instruction = (
        "The following are multiple choice questions (with answers) about {{subset}}.\n\n"
        "Question: {{source}}{{ '\n' + options if options }}\nAnswer:"
    )
    load_args = ("cais/mmlu",)
    evaluation_set = "test"
    example_set = "dev"
    categorized_subsets: Mapping[str, Sequence[str]] = {
        "stem": _STEM.split(),
        "humanities": _HUMANITIES.split(),
        "social_sciences": _SOCIAL_SCIENCES.split(),
        "other": _OTHER.split(),
    }
    banned_subsets = ("all", "auxiliary_train")

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Name the subject in words."""
        subject = self.subset_name or instance.get("subject") or ""
        return {
            "source": instance["question"],
            "subset": subject.replace("_", " "),
            "options": instance["choices"],
            "target_idx": instance["answer"],
        }
