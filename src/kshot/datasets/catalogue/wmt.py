"""WMT."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kshot.core.errors import UsageError
from kshot.datasets.generation import GenerationDataset
from kshot.metrics import Bleu

_LANGUAGES = {
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "et": "Estonian",
    "fi": "Finnish",
    "fr": "French",
    "gu": "Gujarati",
    "hi": "Hindi",
    "kk": "Kazakh",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "ro": "Romanian",
    "ru": "Russian",
    "tr": "Turkish",
    "zh": "Chinese",
}
_SUBSET = re.compile(r"(wmt\d\d)-([a-z]{2})-([a-z]{2})")


class Wmt(GenerationDataset):
    """WMT: news translation; name the year and the direction, as in wmt:wmt16-en-de.

    lm-eval (wmt16-de-en) writes ``German phrase:`` and ``English phrase:``, and two spaces before the translation of
    an example. Its ``bleu``, ``chrf`` and ``ter`` are ``--metric bleu,tokenize=13a --metric chrf,ter``.
    """

    instruction = (
        "Translate the following text from {source_language} into {target_language}.\n\n"
        "{source_language}: {source}\n{target_language}:"
    )
    load_args: tuple[str, ...] | None = ()  # the subset says which of the hub's datasets it is
    evaluation_set = "test"
    example_set = "validation"
    metrics = (Bleu(),)
    extra_model_args: Mapping[str, Any] = {"max_tokens": 256, "temperature": 0.0, "stop": ["\n"]}

    def init_arguments(self) -> None:
        """Find year and languages in the subset's name."""
        found = _SUBSET.fullmatch(self.subset_name or "")
        if found is None or not {found[2], found[3]} <= set(_LANGUAGES):
            raise UsageError(
                f"the subset {self.subset_name!r} does not say what to translate",
                where=f"dataset {self.display_name}",
                hint=f"Write wmt:wmt16-de-en; languages: {', '.join(_LANGUAGES)}.",
            )
        year, self.source_language, self.target_language = found.groups()
        self.load_args = (f"wmt/{year}",)

    def load_raw_dataset(
        self, dataset_path: str | None, subset_name: str | None, evaluation_set: str | None, example_set: str | None
    ) -> None:
        """Load the pair of languages; the hub has one pair for both directions, with English last."""
        del subset_name
        others = sorted({self.source_language, self.target_language} - {"en"}, reverse=True)
        pair = "-".join(others if len(others) > 1 else [*others, "en"])
        super().load_raw_dataset(dataset_path, pair, evaluation_set, example_set)

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Take source and target from the pair."""
        translation = instance["translation"]
        return {
            "source_language": _LANGUAGES[self.source_language],
            "target_language": _LANGUAGES[self.target_language],
            "source": translation[self.source_language],
            "target": translation[self.target_language],
        }
