"""math-verify: reads a reply and a reference as formulas, and tells whether they have the same value.

Runs inside the confined process.
"""

from __future__ import annotations

from math_verify import (  # type: ignore[import-not-found,import-untyped,unused-ignore]  # untyped, and an extra
    ExprExtractionConfig,
    LatexExtractionConfig,
    parse,
    verify,
)

TYPE_CHECKING = False  # without the module typing where it is not needed
if TYPE_CHECKING:
    from typing import Any


def prepare(_: dict[str, Any]) -> None:
    """Compare two formulas: sympy imports much when it is first used."""
    for warm in ("$\\frac{1}{2}$", "\\boxed{x = 2}"):
        verify(_parsed(warm), parse(warm))


def same(prediction: str, references: list[str]) -> bool:
    """Whether the boxed formula of a reply has the value of the first reference that can be read."""
    known = [LatexExtractionConfig(), ExprExtractionConfig()]
    for text in references:
        if gold := parse(text, extraction_mode="first_match", extraction_config=known):
            return bool(verify(_parsed(prediction), gold))
    return False


def _parsed(reply: str) -> list[Any]:
    from latex2sympy2_extended import (  # type: ignore[import-not-found,import-untyped,unused-ignore]  # as above
        NormalizationConfig,
    )

    rewritten = NormalizationConfig(
        nits=False, malformed_operators=False, basic_latex=True, equations=True, boxed="all", units=True
    )
    wanted = LatexExtractionConfig(
        normalization_config=rewritten, boxed_match_priority=0, try_extract_without_anchor=False
    )
    found: list[Any] = parse(reply, extraction_config=[wanted], extraction_mode="first_match")
    return found
