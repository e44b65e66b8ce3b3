"""BigCodeBench: functions in replies, tested by the unit tests of their rows. OpenCompass sends them to a service."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from kshot.configs.evaluators.factories import Factory
from kshot.configs.evaluators.program_tests import Case
from kshot.configs.evaluators.programs import PassedAtK
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.metrics import Metric

_SECONDS = 60.0
_MAX_LINES = 400
"""Of longer replies, only so many lines are looked at: the code is looked for among all runs of lines."""
_COLUMNS = ("test", "entry_point", "code_prompt")
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
        for name in _names(each):
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


def _names(statement: ast.stmt) -> Iterator[str]:
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


class _Cases:
    """The program of a reply: the prompt's code with an empty function, the reply's, and the row's tests."""

    def __init__(self, *, completes: bool) -> None:
        """``completes``: replies continue the row's ``complete_prompt``."""
        self._completes = completes

    def __call__(self, gold: Any, row: Row, reply: str) -> tuple[list[Case], float]:
        needed = (*_COLUMNS, *(("complete_prompt",) if self._completes else ()))
        missing = [name for name in needed if name not in row]
        if missing:
            raise DataError(f"the rows have no column {missing[0]!r}", hint=f"BigCodeBench needs {', '.join(needed)}.")
        said = f"{row['complete_prompt']}{reply}" if self._completes else reply
        code = target_code(said, str(row["entry_point"]))
        tests = gold if isinstance(gold, str) and gold else row["test"]
        program = f"{row['code_prompt']}\n    pass\n{code}\n{tests}\n{_RUN_TESTS}"
        return [(program, "pass")], _SECONDS


def _bigcodebench(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - no service is asked
    return PassedAtK("BigCodeBench", _Cases(completes=options.get("eval_type", "instruct") == "complete"), 1)


EVALUATORS: dict[str, Factory] = {"BigCodeBenchEvaluator": _bigcodebench}
