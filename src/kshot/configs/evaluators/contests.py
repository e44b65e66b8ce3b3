"""Programs for the tasks of TACO and APPS: the row's ``input_output`` has the inputs and what is expected of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from kshot.configs.evaluators import _judged
from kshot.configs.evaluators.factories import Factory
from kshot.configs.evaluators.program_tests import Case, as_function, joined, with_helpers
from kshot.configs.evaluators.programs import PassedAtK
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.metrics import Metric

_SECONDS, _ALL_SECONDS = 4.0, 11.0
"""What a test, and all tests of a program, may take."""
_HEAD = """
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
    block: str = blocks[0]
    return block if block.startswith("\n") or "\n" not in block else block.partition("\n")[2]


def judged_case(sample: Mapping[str, Any], program: str) -> Case:
    """Return a program and its tests: calls of a function, or inputs and outputs."""
    head = _HEAD + (_NUMPY if re.search(r"\bnp\b", program) else "")
    pairs = list(zip(sample["inputs"], sample["outputs"], strict=True))
    name = sample.get("fn_name")
    if name is None:
        lines = [
            f"assert printed_loosely(output_of(code, {joined(given)!r}, {_SECONDS}), {joined(wanted)!r})"
            for given, wanted in pairs
        ]
        helpers = (_judged.within, _judged.output_of, _judged.printed_loosely)
        return head + as_function(program), with_helpers("\n".join(lines), *helpers)
    lines = [f"solve = {'Solution().' if 'class Solution' in program else ''}{name}"]
    for given, wanted in pairs:
        values = _judged.with_int_keys(given) if given and isinstance(given[0], dict) else given
        expected = _judged.with_int_keys(wanted)
        lines.append(f"assert returned(within({_SECONDS}, solve, *{values!r}), {expected!r}, same_kind)")
    return head + program, with_helpers("\n".join(lines), _judged.within, _judged.returned, _judged.same_kind)


def _cases(gold: Any, row: Row, reply: str) -> tuple[list[Case], float]:  # noqa: ARG001 - the row has the tests
    if "input_output" not in row:
        raise DataError("the rows have no column 'input_output'", hint="TACO and APPS have inputs and outputs there.")
    return [judged_case(json.loads(row["input_output"]), first_block(reply))], _ALL_SECONDS


def _contest(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    return PassedAtK(name.last.removesuffix("Evaluator"), _cases, (1, 10, 100))


EVALUATORS: dict[str, Factory] = dict.fromkeys(("TACOEvaluator", "APPSEvaluator"), _contest)
