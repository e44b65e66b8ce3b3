"""Clean-ups by the names that config files use. Standard library only.

The confined process of a config loads this module too, so that the config's own functions may call these.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from typing import Any

from kshot.cleanups.formulas import math_postprocess, math_postprocess_v2, normalize_final_answer
from kshot.cleanups.numbers import first_number_postprocess, gsm8k_dataset_postprocess, gsm8k_postprocess
from kshot.cleanups.options import (
    bbh_mcq_postprocess,
    first_capital_postprocess,
    first_capital_postprocess_multi,
    first_option_postprocess,
    last_capital_postprocess,
    last_option_postprocess,
    multiple_select_postprocess,
)
from kshot.cleanups.patterns import (
    bbh_freeform_postprocess,
    extract_non_reasoning_content,
    first_line,
    general_cn_postprocess,
    general_postprocess,
    match_answer_pattern,
    strip,
    think_pred_postprocess,
    xml_tag_postprocessor,
)
from kshot.cleanups.programs import humaneval_postprocess, last_code_postprocess


def general_eval_wrapper_postprocess(text: str, postprocess: Any = None, **kwargs: Any) -> str:
    """Read a reply that was written as a Python literal, then clean it up by another function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of odd literals, which here a model wrote
            value = ast.literal_eval(text)
        plain = value if isinstance(value, str) else str(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # str() refuses a number of more than 4,300 digits
        plain = text
    if not postprocess:
        return plain
    function = CLEANUP_FUNCTIONS[postprocess] if isinstance(postprocess, str) else postprocess
    return str(function(plain, **kwargs))


_NAMES: dict[Callable[..., Any], tuple[str, ...]] = {
    general_postprocess: ("general_postprocess", "general"),
    general_cn_postprocess: ("general_cn_postprocess", "general_cn"),
    general_eval_wrapper_postprocess: ("general_eval_wrapper_postprocess", "general_eval_wrapper"),
    extract_non_reasoning_content: ("extract_non_reasoning_content", "extract-non-reasoning-content"),
    think_pred_postprocess: ("think_pred_postprocess",),
    match_answer_pattern: ("match_answer_pattern",),
    xml_tag_postprocessor: ("xml_tag_postprocessor",),
    first_number_postprocess: ("first_number_postprocess",),
    first_capital_postprocess: ("first_capital_postprocess", "first-capital"),
    last_capital_postprocess: ("last_capital_postprocess", "last-capital"),
    multiple_select_postprocess: ("multiple_select_postprocess", "multiple-select"),
    first_option_postprocess: ("first_option_postprocess", "first-option"),
    first_capital_postprocess_multi: ("first_capital_postprocess_multi", "first-capital-multi"),
    last_option_postprocess: ("last_option_postprocess", "last-option"),
    bbh_mcq_postprocess: ("bbh_mcq_postprocess", "bbh-mcq"),
    bbh_freeform_postprocess: ("bbh_freeform_postprocess", "bbh-freeform"),
    gsm8k_postprocess: ("gsm8k_postprocess", "gsm8k"),
    gsm8k_dataset_postprocess: ("gsm8k_dataset_postprocess", "gsm8k_dataset"),
    math_postprocess: ("math_postprocess",),
    math_postprocess_v2: ("math_postprocess_v2", "math_postprocess_v3", "mathbench_postprocess"),
    humaneval_postprocess: ("humaneval_postprocess", "humaneval_postprocess_v2", "humaneval", "mbpp_postprocess"),
    last_code_postprocess: ("humaneval_postprocess_v3",),
    normalize_final_answer: ("normalize_final_answer",),
    first_line: ("TriviaQA",),
    strip: ("strip",),
}


def _table() -> dict[str, Callable[..., Any]]:
    """Return the functions by name; a name that is given twice is an error."""
    table: dict[str, Callable[..., Any]] = {}
    for function, names in _NAMES.items():
        for name in names:
            if name in table:
                raise ValueError(f"two clean-ups are called {name!r}: {table[name].__name__} and {function.__name__}")
            table[name] = function
    return table


CLEANUP_FUNCTIONS = _table()

FRAMEWORK_FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {"opencompass": {}, "ais_bench": {}}
"""Clean-ups of the same name that differ between the projects, by project."""


def cleanup_function(name: str, framework: str = "") -> Callable[..., Any] | None:
    """Return the clean-up that a config of this framework means by a name; None where kshot has none."""
    return FRAMEWORK_FUNCTIONS.get(framework, {}).get(name) or CLEANUP_FUNCTIONS.get(name)


TAKE_NO_PATTERNS = frozenset(
    (first_option_postprocess, last_option_postprocess, xml_tag_postprocessor, extract_non_reasoning_content)
)
"""Clean-ups whose options are never regular expressions. Others run in a process of their own if a config gives any."""
