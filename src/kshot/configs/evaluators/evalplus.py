"""HumanEval+ and MBPP+: programs in replies, compared with the reference solutions on evalplus's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from kshot.configs.evaluators.factories import Factory
from kshot.configs.evaluators.program_tests import Case, mbpp_program
from kshot.configs.evaluators.programs import Cases, PassedAtK, mbpp_evaluator
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError, UsageError
from kshot.core.records import Row
from kshot.metrics import Metric

_SECONDS = 60.0
_SETS = (
    *("similar_elements", "find_char_long", "common_in_nested_lists", "extract_singly", "larg_nnum"),
    *("intersection_array", "find_dissimilar", "Diff"),
)
"""Functions of MBPP+ whose results may stand in any order."""
_FOUND = ("check_str", "text_match_three", "text_starta_endb")
"""Functions of MBPP+ of which only whether they find something counts."""
_TESTS = """
import copy as _copy
import math as _math

inf, nan = float("inf"), float("nan")
_own = {{}}
exec({solution!r}, _own)


def _whether(value):
    return value if isinstance(value, bool) else value is not None


def _near(out, wanted, most):
    if isinstance(wanted, (list, tuple)):
        return len(out) == len(wanted) and all(_near(a, b, most) for a, b in zip(out, wanted))
    return abs(out - wanted) <= most + 1e-07 * abs(wanted) or out == wanted


def _same(out, wanted, given, most):
    if {zero!r}:
        return abs(sum(factor * _math.pow(out, power) for power, factor in enumerate(*given))) <= most
    if {found!r}:
        return _whether(out) == _whether(wanted)
    if {any_order!r}:
        return set(out) == set(wanted)
    if out == wanted or {anything!r} or ({or_nothing!r} and out == 0):
        return True
    floats = wanted if isinstance(wanted, (list, tuple)) else [wanted]
    most = most or (1e-06 if floats and all(isinstance(each, float) for each in floats) else 0)
    return bool(most) and type(out) is type(wanted) and _near(out, wanted, most)


for _given in {inputs!r}:
    _wanted = _own[{name!r}](*_copy.deepcopy(_given))
    _out = {name}(*_copy.deepcopy(_given))
    assert _same(_out, _wanted, _given, {most!r}), _given
"""


@cache
def _problems(kind: str) -> Mapping[str, Mapping[str, Any]]:
    """Return evalplus's problems by their ``task_id``; the package fetches them when it first needs them."""
    try:
        data: Any = import_module("evalplus.data")
    except ImportError as exc:
        raise UsageError(
            f"{kind} needs the package evalplus, which is not installed", hint="pip install evalplus"
        ) from exc
    try:
        found: Mapping[str, Mapping[str, Any]] = data.get_mbpp_plus() if kind == "MBPP+" else data.get_human_eval_plus()
    except (OSError, ValueError, TypeError, KeyError) as exc:
        variable = "MBPP_OVERRIDE_PATH" if kind == "MBPP+" else "HUMANEVAL_OVERRIDE_PATH"
        hint = f"evalplus fetches it when it has a network; {variable} names a file that is here."
        raise DataError(f"evalplus has no data of {kind}: {exc}", hint=hint) from exc
    return found


def _tests(problem: Mapping[str, Any]) -> str:
    """Return code that compares a function with the reference solution on all inputs."""
    name = str(problem["entry_point"])
    return _TESTS.format(
        solution=f"{problem['prompt']}{problem['canonical_solution']}",
        name=name,
        inputs=[list(each) for each in (*problem["base_input"], *problem["plus_input"])],
        most=problem.get("atol") or 0,
        zero=name == "find_zero",
        found=name in _FOUND,
        any_order=name in _SETS,
        anything=name == "are_equivalent",
        or_nothing=name == "sum_div",
    )


def _cases(kind: str) -> Cases:
    def cases(gold: Any, row: Row, reply: str) -> tuple[list[Case], float]:
        problem = _problems(kind).get(str(gold))
        if problem is None:
            raise DataError(f"{kind} has no task {gold!r}", hint="reader_cfg's output_column must name the task_id.")
        program = mbpp_program(reply) if kind == "MBPP+" else f"{row.get('prompt', problem['prompt'])}{reply}"
        return [(program, _tests(problem))], _SECONDS

    return cases


def _humaneval_plus(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    return PassedAtK("HumanEval+", _cases("HumanEval+"), 1, "humaneval_plus_")


def _mbpp(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric | None:
    if options.get("metric") == "MBPPPlus":
        return PassedAtK("MBPP+", _cases("MBPP+"), 1, "mbpp_plus_")
    return mbpp_evaluator(name, options, scope)


EVALUATORS: dict[str, Factory] = {"HumanEvalPlusEvaluator": _humaneval_plus, "MBPPEvaluator": _mbpp}
