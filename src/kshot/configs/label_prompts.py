"""The prompts that examples would give, for retrievers that choose examples by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshot.configs.planning import make_plan
from kshot.configs.rendering import Rendered
from kshot.configs.rows import SelectedRows
from kshot.core.errors import DataError
from kshot.prompts.dialogue import Messages
from kshot.retrievers.mdl import LabelPrompts

_OWN = ("ice_template", "prompt_template", "labels")
"""The options of such a retriever that say how its prompts are made."""


def with_prompts(options: Mapping[str, Any], rows: SelectedRows, *, strict: bool) -> dict[str, Any]:
    """Return the options of a retriever with a function that gives the prompts of all labels for some examples."""
    plain = {name: value for name, value in options.items() if name not in _OWN}
    if options.get("ice_template") is None:
        raise DataError(
            "the retriever has no ice_template", where=rows.abbr, hint="Give it the ice_template of infer_cfg."
        )
    wanted = {name: options[name] for name in ("ice_template", "prompt_template") if options.get(name) is not None}
    inferencer = {"type": "PPLInferencer", "labels": options.get("labels")}
    infer_cfg = {**wanted, "inferencer": inferencer, "retriever": {**plain, "type": "MDLRetriever"}}
    plan = make_plan(infer_cfg, [[0]], len(rows.input_columns), strict=strict)
    chosen: list[list[int]] = [[] for _ in rows.test]
    rendered = Rendered(rows, chosen, plan, strict=strict)

    def prompts(row: int, examples: Sequence[int]) -> LabelPrompts:
        chosen[row] = list(examples)
        ice = rendered.ice_of(row, bare=strict)
        template = plan.prompt_template
        if isinstance(ice, Messages) or template is None:
            raise DataError("examples that are messages cannot be weighed by a text model", where=rows.abbr)
        shown = str(ice)
        texts = [
            str(template.generate_label_prompt_item(rows.asked(row), shown, label)) for label in rendered.labels or ()
        ]
        return LabelPrompts(shown + plan.eos, texts)

    return {**plain, "prompts": prompts}
