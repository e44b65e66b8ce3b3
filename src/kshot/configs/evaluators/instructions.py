"""IFEval: how many instructions of a prompt a reply follows, strictly and loosely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.scores import RIGHT, WRONG, MeasureFamily, text_of
from kshot.core.errors import DataError
from kshot.core.metric import MEAN, Aggregate
from kshot.metrics.aggregates import SHARE
from kshot.metrics.instruction_checks import follows, loose_forms

_KINDS = ("strict", "loose")


class FollowedInstructions(MeasureFamily):
    """Share of prompts all of whose instructions are followed, and of followed instructions.

    Loosely, an instruction is followed if a reply without its first or last line, or without ``*``, follows it.
    """

    name = "Prompt-level-strict-accuracy"
    bounds = (WRONG, RIGHT)
    names = tuple(f"{level}-level-{kind}-accuracy" for kind in _KINDS for level in ("Prompt", "Inst"))

    def aggregate(self, name: str) -> Aggregate:
        """Return a share of instructions, or of prompts."""
        return SHARE if name.startswith("Inst") else MEAN

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Check every instruction of the row, which is the reference."""
        if not isinstance(reference, Mapping) or not {"instruction_id_list", "kwargs"} <= set(reference):
            raise DataError(f"IFEvaluator wants instruction_id_list and kwargs as the reference, not {reference!r:.80}")
        reply = text_of(prediction, "IFEvaluator")
        asked = [
            (name, {key: value for key, value in (options or {}).items() if value is not None})
            for name, options in zip(reference["instruction_id_list"], reference["kwargs"], strict=True)
        ]
        found: dict[str, Any] = {}
        for kind, forms in zip(_KINDS, ((reply,), loose_forms(reply)), strict=True):
            followed = [any(follows(name, options, form) for form in forms) for name, options in asked]
            found[f"Prompt-level-{kind}-accuracy"] = RIGHT if all(followed) else WRONG
            found[f"Inst-level-{kind}-accuracy"] = (float(sum(followed)), float(len(followed)))
        return found


EVALUATORS: dict[str, Factory] = {"IFEvaluator": plain(FollowedInstructions)}
