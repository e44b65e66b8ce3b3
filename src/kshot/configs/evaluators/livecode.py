"""LiveCodeBench's other two tasks: what code returns, and what a test should expect."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from kshot.configs.evaluators import _judged
from kshot.configs.evaluators.factories import Factory
from kshot.configs.evaluators.program_tests import with_helpers
from kshot.configs.evaluators.scores import RightOrWrong, text_of
from kshot.core.errors import DataError
from kshot.sandbox import program as sandbox

_IN_TAGS = re.compile(r"\[PYTHON\](.*?)\[/PYTHON\]", re.DOTALL)
_SECONDS = 10.0
_MODULES = "copy string math collections bisect heapq functools random itertools operator re sys"
_FROM = {
    "itertools": "accumulate chain combinations count permutations product groupby islice repeat zip_longest cycle",
    "copy": "deepcopy",
    "string": "ascii_lowercase",
    "math": "floor log2 log10 sqrt comb gcd ceil inf isqrt log prod",
    "collections": "defaultdict deque Counter OrderedDict",
    "bisect": "bisect bisect_left bisect_right insort",
    "heapq": "heappush heappop heapify merge",
    "functools": "reduce cache lru_cache partial",
    "random": "randrange shuffle",
    "operator": "itemgetter sub iand",
    "os.path": "commonprefix",
    "typing": "List Tuple Dict Set Optional Union Any Callable Iterable Iterator Generator",
}
_HEAD = "\n".join(
    [
        *(f"from {module} import {', '.join(names.split())}" for module, names in _FROM.items()),
        "from re import search as re_search",
        *(f"import {module}" for module in _MODULES.split()),
    ]
)
"""What the code of LiveCodeBench may use without an import."""
_PACKAGES = {"np": "import numpy as np", "pd": "import pandas as pd"}


class _Programs(RightOrWrong):
    """A share of right answers that runs code to find out."""

    runs_programs = True
    name = "pass@1"


class ReturnedValue(_Programs):
    """Share of replies that say what code returns (LiveCodeBench's code execution)."""

    def __init__(self, *, same_kind: bool = True) -> None:
        super().__init__()
        self.same_kind = same_kind

    def same(self, prediction: Any, reference: Any) -> bool:
        """Run the code, and compare; an answer that repeats the call is none."""
        task = _read(reference, "code", "input", "output")
        answer = stated_value(text_of(prediction, "LCBCodeExecutionEvaluator"))
        if task["input"] in answer:
            return False
        used = [line for name, line in _PACKAGES.items() if re.search(rf"\b{name}\b", task["code"])]
        program = "\n".join([_HEAD, *used, task["code"], f"answer_of_the_reply = ({answer}\n)"])
        helper = _judged.same_kind if self.same_kind else _judged.equal_values
        tests = with_helpers(f"assert {helper.__name__}({task['output']}, answer_of_the_reply)", helper)
        return _passes(program, tests)


class ExpectedValue(_Programs):
    """Share of replies whose test expects the right value (LiveCodeBench's test output)."""

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare what the test says with what the task says."""
        written = expected_in(text_of(prediction, "LCBTestOutputEvaluator"))
        output = _read(reference, "output")["output"]
        try:
            wanted = json.loads(output)
        except ValueError:
            raise DataError(
                f"LCBTestOutputEvaluator wants JSON as the output of the reference, not {output!r:.80}"
            ) from None
        if written is None:
            return False
        try:
            return bool(ast.literal_eval(written.strip()) == wanted)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return _passes(f"answer_of_the_reply = ({written}\n)", f"assert answer_of_the_reply == {wanted!r}")


def _passes(program: str, tests: str) -> bool:
    return sandbox.run(program, tests, timeout=_SECONDS, unsafe=sandbox.unsafe_allowed()).passed


def _read(reference: Any, *fields: str) -> dict[str, str]:
    try:
        found = json.loads(reference) if isinstance(reference, str) else dict(reference)
        return {field: str(found[field]) for field in fields}
    except (ValueError, TypeError, LookupError):
        what = f"LiveCodeBench wants JSON with {', '.join(fields)} as the reference, not {reference!r:.80}"
        raise DataError(what) from None


def stated_value(reply: str) -> str:
    """Return what a reply says that code returns: after ``==``, up to ``[/ANSWER]`` or the end of the line."""
    tagged = _IN_TAGS.findall(reply)
    text = tagged[-1] if tagged else reply
    if "==" in text:
        text = text.split("==")[1].strip()
    end = "[/ANSWER]" if "[/ANSWER]" in text else "\n"
    return str(text.split(end)[0].strip())


def expected_in(reply: str) -> str | None:
    """Return the right side of the test in a reply, or what it has in place of a test; None for other tests."""
    text = _test_in(reply)
    if len(text.splitlines()) > 1:
        lines = [line for line in text.splitlines() if not line.startswith("#") and "assert" in line]
        text = lines[0] if lines else text
    text = text.strip()
    if "assert" not in text:
        return text
    try:
        statement = ast.parse(text).body[0]
    except (SyntaxError, ValueError, IndexError, RecursionError, MemoryError):
        return None
    test = statement.test if isinstance(statement, ast.Assert) else None
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return None
    return ast.get_source_segment(text, test.comparators[0])


def _test_in(reply: str) -> str:
    """Return the last line that begins with ``assert``, else the first code block."""
    lines = reply.split("\n")
    if tests := [line for line in lines if line.startswith("assert")]:
        return tests[-1]
    fences = [number for number, line in enumerate(lines) if "```" in line]
    named = [number for number in fences if "```python" in lines[number] or "```Python" in lines[number]]
    if named:
        fences = [number for number in fences if number >= named[0]]
    return "\n".join(lines[fences[0] + 1 : fences[1]]) if len(fences) > 1 else ""


EVALUATORS: dict[str, Factory] = {
    "LCBCodeExecutionEvaluator": lambda name, *_: ReturnedValue(same_kind=name.framework != "ais_bench"),
    "LCBTestOutputEvaluator": lambda *_: ExpectedValue(),
}
