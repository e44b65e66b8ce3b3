"""The seven shapes as kshot's dataset classes, each beside its YAML file in tasks/."""

from __future__ import annotations

import re
from typing import Any

from kshot import ExactMatch, GenerationDataset, MultipleChoiceDataset, Perplexity
from kshot.datasets.catalogue.hellaswag import preprocess
from kshot.metrics import Greedy


class LmEvalChoice(MultipleChoiceDataset):
    """lm-eval's multiple choice: nothing is stripped, the first of equals wins, the baseline is an empty context."""

    evaluation_set = "test"
    example_set = "train"
    target_delimiter = " "
    keep_whitespace = True
    on_tie = "first"
    accuracy = "acc"
    use_normalization = True
    normalization_prompt = ""


class Text(LmEvalChoice):
    instruction = "Question: {{question}}\nAnswer:"

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        return instance


_FOUR = "{{question.strip()}}\nA. {{texts[0]}}\nB. {{texts[1]}}\nC. {{texts[2]}}\nD. {{texts[3]}}\nAnswer:"


class Letters(LmEvalChoice):
    description = "The following are multiple choice questions (with answers) about places.\n\n"
    instruction = _FOUR

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        return {
            "question": instance["question"],
            "texts": instance["options"],
            "options": list("ABCD"),
            "label": instance["label"],
        }


class Spelled(LmEvalChoice):
    """The same prompts by ``--ranking-type prob --letters spaced``: kshot lists the options, and asks for " A" alone."""

    description = Letters.description
    instruction = "{{question.strip()}}\n{{options}}\nAnswer:"
    accuracy = None
    use_normalization = False

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        return instance


class Continuation(LmEvalChoice):
    instruction = "{{query}}"

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        context = f"{instance['activity_label']}: {instance['ctx_a']} {instance['ctx_b'].capitalize()}"
        options = [preprocess(ending) for ending in instance["endings"]]
        return {"query": preprocess(context), "options": options, "label": int(instance["label"])}


class Yesno(LmEvalChoice):
    instruction = "{{passage}}\nQuestion: {{question}}?\nAnswer:"

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        return instance | {"options": ["no", "yes"]}


class Generation(GenerationDataset):
    """The last number of a reply, and the number after ####."""

    evaluation_set = "test"
    example_set = "train"
    target_delimiter = " "
    keep_whitespace = True
    instruction = "Question: {{question}}\nAnswer:"
    extra_model_args = {"max_tokens": 32, "temperature": 0.0, "stop": ["Question:"]}
    metrics = (ExactMatch(ignore_case=True, regexes_to_ignore=[",", r"\$", "(?s).*#### ", r"\.$"]),)
    pattern, place = r"#### (\-?[0-9\.\,]+)", 0

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        return {"question": instance["question"], "target": instance["answer"]}

    def post_processing(self, predictions):
        return [self.number(reply) for reply in predictions]

    def number(self, reply: str) -> str:
        found = re.findall(self.pattern, reply)
        if not found:
            return "[invalid]"
        match = found[self.place]
        return (next(part for part in match if part) if isinstance(match, tuple) else match).strip()


class Flexible(Generation):
    pattern, place = r"(-?[$0-9.,]{2,})|(-?[0-9]+)", -1


class Lastword(GenerationDataset):
    """LAMBADA: is the last word what the model itself would write, and how surprised is it."""

    evaluation_set = "test"
    example_set = "train"
    target_delimiter = ""
    keep_whitespace = True
    instruction = "{{before}}"
    metrics = (Greedy(), Perplexity())

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        before, space, word = instance["text"].rpartition(" ")
        return {"before": before, "target": space + word}


class Rolling(GenerationDataset):
    """Documents that may be longer than the window."""

    evaluation_set = "test"
    keep_whitespace = True
    rolling = True
    metrics = (Perplexity(),)

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        return {"target": instance["page"]}
