"""Evaluators that run the programs in replies, by dataset; ``program_tests`` makes these. See ``sandbox.program``."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from typing import Any, TypeAlias

from kshot.cleanups.programs import completion_tests
from kshot.configs.evaluators import _judged
from kshot.configs.evaluators.basic import CompletedPrograms, humaneval_columns
from kshot.configs.evaluators.factories import Factory, with_options
from kshot.configs.evaluators.program_tests import (
    CONTEST_HEAD,
    Case,
    as_function,
    contest_seconds,
    contest_tests,
    fenced,
    leetcode_programs,
    leetcode_tests,
    mbpp_program,
    of_same_kind,
    unguarded,
    without_language,
)
from kshot.configs.evaluators.scores import Counts, RightInRow, Tally, columns, gold_of, text_of
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError, UsageError
from kshot.core.metric import Measure
from kshot.core.records import Row, Sample
from kshot.metrics import Metric, PassAtK
from kshot.metrics.passatk import test_code, tests_of_sample
from kshot.sandbox import program as sandbox

Cases: TypeAlias = Callable[[Any, Row, str], tuple[list[Case], float]]
"""Makes of a reference, a row and a reply the programs of which one must pass, and how many seconds each has."""

_COUNTS = ("pass", "timeout", "failed", "wrong_answer")
_MBPP_SECONDS, _LEETCODE_SECONDS, _HUMANEVAL_SECONDS = 10.0, 10.0, 10.0
_CONTEST_SECONDS = 6.0


class PassedPrograms(Tally):
    """The share of programs that pass their tests, and how many do, take too long, fail, or give wrong answers."""

    runs_programs = True

    def __init__(self, kind: str, cases: Cases) -> None:
        def counts(sample: Sample, answer: Any) -> Counts:
            outcome = _outcome(cases, sample, text_of(answer, kind))
            return tuple(float(name == outcome) for name in _COUNTS)

        def figures(sums: Counts) -> Mapping[str, float]:
            return {"score": 100 * sums[0] / sum(sums), **dict(zip(_COUNTS, sums, strict=True))}

        super().__init__(("score", *_COUNTS), counts, figures, mean=True)


class PassedAtK(PassAtK):
    """pass@k of the programs in replies."""

    def __init__(self, kind: str, cases: Cases, k: int | Sequence[int] | None = None, prefix: str = "") -> None:
        super().__init__(k)
        self._kind, self._cases, self._prefix = kind, cases, prefix

    def __repr__(self) -> str:
        """Show which programs it runs."""
        return f"{type(self).__name__}({self._kind!r}, k={self.k!r})"

    @property
    def measures(self) -> Sequence[Measure]:
        """``pass@k`` for every k, after what the dataset puts before it."""
        return [replace(measure, name=f"{self._prefix}{measure}") for measure in super().measures]

    def with_k(self, k: int | Sequence[int]) -> PassAtK:
        """Return a copy of this metric with another k."""
        made = copy(self)
        made.k = PassAtK(k).k
        return made

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:
        """Run the programs of every reply; equal ones run once."""
        replies = [text_of(each, self._kind) for each in answer]
        passed = {reply: _outcome(self._cases, sample, reply) == "pass" for reply in dict.fromkeys(replies)}
        right = sum(passed[reply] for reply in replies)
        values = [100 * self.estimate_pass_at_k(len(replies), right, k) for k in self.k]
        return dict(zip(map(str, self.measures), values, strict=True))


def _outcome(made: Cases, sample: Sample, reply: str) -> str:
    with tests_of_sample():
        cases, seconds = made(gold_of(sample), sample.fields, reply)
    return outcome_of(cases, seconds)


def outcome_of(cases: Sequence[Case], seconds: float) -> str:
    """Return ``pass`` if one of the programs passes, else what became of the first."""
    found = []
    for program, tests in cases:
        ran = sandbox.run(program, tests, timeout=seconds, unsafe=sandbox.unsafe_allowed())
        if ran.passed:
            return "pass"
        found.append("wrong_answer" if ran.failure == "wrong" else ran.failure or "failed")
    return found[0] if found else "failed"


def _listed_tests(gold: Any) -> str:
    return test_code(gold["test_list_2"] if isinstance(gold, Mapping) else gold)


def _mbpp(rewrite: Callable[[str], str], gold: Any, row: Row, reply: str) -> tuple[list[Case], float]:  # noqa: ARG001 - the reference has the tests
    return [(mbpp_program(reply), rewrite(_listed_tests(gold)))], _MBPP_SECONDS


def _leetcode(gold: Any, row: Row, reply: str) -> tuple[list[Case], float]:  # noqa: ARG001 - the reference has the tests
    tests = _listed_tests(gold)
    programs = leetcode_programs(reply)
    return [(each, of_same_kind(leetcode_tests(each, tests))) for each in programs], _LEETCODE_SECONDS


def _humaneval(gold: Any, row: Row, reply: str) -> tuple[list[Case], float]:  # noqa: ARG001 - the row has the tests
    prompt, test, function = humaneval_columns(row)
    return [(prompt + reply, completion_tests(prompt, function, test))], _HUMANEVAL_SECONDS


# ---- by name ----


def _is_opencompass(name: Name) -> bool:
    return name.framework != "ais_bench"


def _passed(kind: str, cases: Cases, name: Name, options: Mapping[str, Any]) -> Metric:
    """Return the share of programs that pass, or pass@k if the evaluator's name says so."""
    if name.last.endswith("PassKEvaluator"):
        return PassedAtK(kind, cases, options.get("k", (1, 10, 100)))
    return PassedPrograms(kind, cases)


def _mbpp_evaluator(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric | None:  # noqa: ARG001 - as every factory
    """Return the metric of MBPP's own tests, or of those of evalplus; None where others are wanted."""
    tests = options.get("metric", "MBPP")
    if tests == "MBPPPlus" and name.last == "MBPPEvaluator":
        return PassedAtK("MBPP+", _plus_cases("MBPP+"), 1, "mbpp_plus_")
    cases = partial(_mbpp, of_same_kind if _is_opencompass(name) else str)
    return _passed("MBPP", cases, name, options) if tests == "MBPP" else None


def _leetcode_evaluator(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    return _passed("LeetCode", _leetcode, name, options)


def _humaneval_evaluator(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    if not name.framework:  # kshot finds the function in a reply; the homes put the reply after the prompt, as it is
        return CompletedPrograms(options.get("k", 1))
    return PassedAtK("HumanEval", _humaneval, options.get("k", (1, 10, 100)), "humaneval_")


def _contest_evaluator(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    seconds = float(options.get("timeout", _CONTEST_SECONDS))
    last = options.get("extractor_version", "v1") == "v2"
    same = _judged.same_kind if _is_opencompass(name) else _judged.equal_values

    def cases(gold: Any, row: Row, reply: str) -> tuple[list[Case], float]:  # noqa: ARG001 - the row has the tests
        (written,) = columns(row, "evaluation_sample", hint="LiveCodeBench has its inputs and outputs there.")
        sample = json.loads(written)
        program = fenced(reply, last=last)
        tests = contest_tests(sample, program, seconds, _judged.printed, same, in_json=True)
        program = as_function(unguarded(program)) if sample.get("fn_name") is None else program
        return [(CONTEST_HEAD + program, tests)], contest_seconds(sample, seconds)

    return PassedAtK("LiveCodeBench", cases, 1)


# ---- HumanEval Pro, MBPP Pro, CRUXEval ----

_BLOCK = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
_PRO_SECONDS, _OUTPUT_SECONDS = 10.0, 3.0


def _two_problems(gold: Any, row: Row, reply: str) -> tuple[list[Case], float]:  # noqa: ARG001 - the row has the tests
    """Return the first code block of a reply, or all of it, with the tests of the row."""
    (tests,) = columns(row, "test_code", hint="It needs test_code.")
    block = _BLOCK.search(reply)
    return [(block[1] if block else reply, test_code(tests))], _PRO_SECONDS


class SaidOutput(RightInRow):
    """Share of replies that are what a function returns for an input; one that calls it is wrong (CRUXEval)."""

    runs_programs = True

    def __init__(self, timeout: float = _OUTPUT_SECONDS) -> None:
        super().__init__("CRUXEval-O", self._passes)
        self.timeout = timeout

    def _passes(self, sample: Sample, answer: Any) -> bool:
        """Run the comparison."""
        code, given, output = columns(sample.fields, "code", "input", "output", hint="It needs code, input, output.")
        replies = [str(each) for each in (answer if isinstance(answer, (list, tuple)) else [answer])]
        cases = [(f"{code}\nassert {output} == {reply}", "pass") for reply in replies if f"f({given})" not in reply]
        return outcome_of(cases, self.timeout) == "pass"


# ---- HumanEval+, MBPP+ ----

_PLUS_SECONDS = 60.0
_SETS = (
    *("similar_elements", "find_char_long", "common_in_nested_lists", "extract_singly", "larg_nnum"),
    *("intersection_array", "find_dissimilar", "Diff"),
)
"""Functions of MBPP+ whose results may stand in any order."""
_FOUND = ("check_str", "text_match_three", "text_starta_endb")
"""Functions of MBPP+ of which only whether they find something counts."""
_PLUS_TESTS = """
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


def _plus_tests(problem: Mapping[str, Any]) -> str:
    """Return code that compares a function with the reference solution on all inputs."""
    name = str(problem["entry_point"])
    return _PLUS_TESTS.format(
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


def _plus_cases(kind: str) -> Cases:
    def cases(gold: Any, row: Row, reply: str) -> tuple[list[Case], float]:
        problem = _problems(kind).get(str(gold))
        if problem is None:
            raise DataError(f"{kind} has no task {gold!r}", hint="reader_cfg's output_column must name the task_id.")
        program = mbpp_program(reply) if kind == "MBPP+" else f"{row.get('prompt', problem['prompt'])}{reply}"
        return [(program, _plus_tests(problem))], _PLUS_SECONDS

    return cases


# ---- BigCodeBench ----

_UNIT_TEST_SECONDS = 60.0
_MAX_LINES = 400
"""Of longer replies, only so many lines are looked at: the code is looked for among all runs of lines."""
_RUN_TESTS = """
import unittest as _unittest
_outcome = _unittest.TestResult()
_unittest.defaultTestLoader.loadTestsFromTestCase(TestCases).run(_outcome)
assert _outcome.testsRun and _outcome.wasSuccessful(), [*_outcome.failures, *_outcome.errors]
"""


def longest_code(text: str) -> str:
    """Return the longest run of lines that is Python code; the first line where there is none."""
    lines = text.split("\n")[:_MAX_LINES]
    filled = [0]
    for line in lines:
        filled.append(filled[-1] + bool(line.strip()))
    spans = [(start, end) for start in range(len(lines)) for end in range(start + 2, len(lines) + 1)]
    spans.sort(key=lambda span: filled[span[0]] - filled[span[1]])  # the fullest first; of equal ones, the earliest
    for start, end in spans:
        if filled[end] > filled[start] and _parsed(code := "\n".join(lines[start:end])) is not None:
            return code
    return lines[0]


def target_code(text: str, entry_point: str) -> str:
    """Return the imports of the code in a text, and the definitions that the function uses, each name once."""
    code = longest_code(text.strip())
    tree = _parsed(code)
    body = [] if tree is None else tree.body
    imports = [each for each in body if isinstance(each, (ast.Import, ast.ImportFrom))]
    definitions: dict[str, ast.stmt] = {}
    for each in body:
        for name in _defined_names(each):
            definitions.setdefault(name, each)
    wanted, waiting = {entry_point}, [entry_point]
    while waiting:
        found = definitions.get(waiting.pop())
        used = {each.id for each in ast.walk(found) if isinstance(each, ast.Name)} if found is not None else set()
        waiting += sorted(used - wanted)
        wanted |= used
    kept = [each for name, each in definitions.items() if name in wanted]
    shown = "\n".join(ast.get_source_segment(code, each) or "" for each in (*imports, *kept)).strip()
    return shown or longest_code(text)


def _defined_names(statement: ast.stmt) -> Iterator[str]:
    """Yield the name that a statement at the top of a program defines."""
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        yield statement.name
    elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        if isinstance(target, ast.Name):
            yield target.id


def _parsed(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _bigcodebench(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - no service is asked
    completes = options.get("eval_type", "instruct") == "complete"  # replies continue the row's complete_prompt
    needed = ("test", "entry_point", "code_prompt", *(("complete_prompt",) if completes else ()))

    def cases(gold: Any, row: Row, reply: str) -> tuple[list[Case], float]:
        """Return the prompt's code with an empty function, the reply's code, and the row's tests."""
        test, function, prompt, *begun = columns(row, *needed, hint=f"BigCodeBench needs {', '.join(needed)}.")
        code = target_code("".join(map(str, begun)) + reply, str(function))
        tests = gold if isinstance(gold, str) and gold else test
        return [(f"{prompt}\n    pass\n{code}\n{tests}\n{_RUN_TESTS}", "pass")], _UNIT_TEST_SECONDS

    return PassedAtK("BigCodeBench", cases, 1)


# ---- TACO, APPS ----

_TEST_SECONDS, _ALL_SECONDS = 4.0, 11.0
"""What a test, and all tests of a program, may take."""
_TACO_HEAD = """
import sys, time, itertools, collections, math, fractions, random, heapq
from itertools import accumulate, combinations, permutations, product
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque
from functools import lru_cache
from math import ceil, cos, exp, fabs, floor, gcd, log, log2, sin, sqrt, tan
from typing import List, Tuple
from heapq import *
"""
_NUMPY = "import numpy as np\n"


def first_block(reply: str) -> str:
    """Return the first code block of a reply without the name of its language, or the reply."""
    if "```" not in reply:
        return reply
    blocks = re.findall(r"```(.*?)```", reply, re.DOTALL)
    if not blocks:
        return reply.split("```")[1]
    return without_language(blocks[0])


def _judged_cases(gold: Any, row: Row, reply: str) -> tuple[list[Case], float]:  # noqa: ARG001 - the row has the tests
    (written,) = columns(row, "input_output", hint="TACO and APPS have inputs and outputs there.")
    sample, program = json.loads(written), first_block(reply)
    tests = contest_tests(sample, program, _TEST_SECONDS, _judged.printed_loosely, _judged.same_kind)
    head = _TACO_HEAD + (_NUMPY if re.search(r"\bnp\b", program) else "")
    return [(head + (as_function(program) if sample.get("fn_name") is None else program), tests)], _ALL_SECONDS


EVALUATORS: dict[str, Factory] = {
    **dict.fromkeys(("MBPPEvaluator", "MBPPPassKEvaluator"), _mbpp_evaluator),
    **dict.fromkeys(("LCEvaluator", "LCPassKEvaluator"), _leetcode_evaluator),
    **dict.fromkeys(("HumanEvalEvaluator", "HumanevalEvaluator", "HumanEvaluator"), _humaneval_evaluator),
    "LCBCodeGenerationEvaluator": _contest_evaluator,
    **dict.fromkeys(
        ("HumanevalProEvaluator", "MBPPProEvaluator"),
        lambda name, *_: PassedAtK(name.last.removesuffix("Evaluator"), _two_problems, 1),
    ),
    "CRUXEvalOEvaluator": with_options(SaidOutput),
    "HumanEvalPlusEvaluator": lambda *_: PassedAtK("HumanEval+", _plus_cases("HumanEval+"), 1, "humaneval_plus_"),
    "BigCodeBenchEvaluator": _bigcodebench,
    **dict.fromkeys(
        ("TACOEvaluator", "APPSEvaluator"),
        lambda name, *_: PassedAtK(name.last.removesuffix("Evaluator"), _judged_cases, (1, 10, 100)),
    ),
}
