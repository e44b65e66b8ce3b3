"""Programs in replies and the tests that judge them: MBPP, LeetCode, HumanEval, LiveCodeBench."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kshot.configs.evaluators import _judged
from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.scores import RightOrWrong, text_of
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.metrics import Metric
from kshot.sandbox import program as sandbox

# ---- programs, and the code that tests them ----

_QUOTED = ("'(.*)'", "'(.*)", "(.*)")
_BEGINS, _ENDS = (r"\[BEGIN\]", "BEGIN"), (r"\[DONE\]", "DONE")
_MBPP_FORMS = (
    *(rf"{begin}\s*{what}\s*{end}" for what in _QUOTED for end in _ENDS for begin in _BEGINS),
    *(r"```python\s*(.*)\s*```", r"```\s*(.*)\s*```", r"```python\s*(.*)\s*$", r"```\s*(.*)\s*$", r"(.*)\s*```.*"),
    *(r"\[BEGIN\]\s*'(.*)", r"\[BEGIN\](.*)", r"'(.*)'\s*\[DONE\]"),
)
_CALLED = re.compile(r"assert\s+(\w+)\(")
_STARS = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys json"
)
CONTEST_HEAD = "\n".join(
    [
        *(f"from {name} import *" for name in (*_STARS.split(), "builtins", "typing")),
        *(f"import {name}" for name in _STARS.split()),
        "sys.setrecursionlimit(600000)\n",
    ]
)
_MARGIN_SECONDS = 5.0

Case = tuple[str, str]
"""A program and the code that tests it."""


# ---- MBPP, LeetCode ----


def mbpp_program(reply: str) -> str:
    """Return the program between ``[BEGIN]`` and ``[DONE]``, or in a code block, or the reply."""
    text = reply
    for form in _MBPP_FORMS:
        if ("```" in form and "```" not in reply) or ("DONE" in form and "DONE" not in reply):
            continue
        if found := re.search(form, reply, re.DOTALL):
            text = found[1]
            break
    text = text.split("```")[0]
    head, done, _ = text.partition("DONE")
    if done:
        text = head.removesuffix("[").rstrip().removesuffix("'")
    return text.replace("\\_", "_").strip()


def leetcode_programs(reply: str) -> list[str]:
    """Return the programs of all code blocks, of which one must pass."""
    text = _unquoted(reply)
    blocks = re.findall(r"```python\s*(.*?)```", text, re.DOTALL)
    if not blocks and "```" in text:
        closed = re.findall(r"```(.*?)```", text, re.DOTALL)
        blocks = [without_language(block) for block in closed] or [text.split("```")[1]]
    return [_unmarked(block) for block in blocks or [text]]


def _unquoted(text: str) -> str:
    """Return the text of a reply that is a literal of Python's."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    return found if isinstance(found, str) else text


def without_language(block: str) -> str:
    """Return a code block without its first line, which may name a language."""
    return block.partition("\n")[2] if not block.startswith("\n") and "\n" in block else block


def _unmarked(block: str) -> str:
    text = re.split(r"(?:'\s*)?(?:\[DONE\]|DONE)", block.strip(), maxsplit=1)[0]
    text = re.split(r"(?:\[BEGIN\]|BEGIN)(?:'\s*)?", text, maxsplit=1)[-1].strip()
    return text.removeprefix("'").removesuffix("'").replace("\\", "")


def leetcode_tests(program: str, tests: str) -> str:
    """Return the tests; those of a class ``Solution`` call its methods."""
    if "class Solution" not in program:
        return tests
    for name in set(_CALLED.findall(tests)):
        tests = re.sub(rf"(\bassert\s+){name}(?=\()", rf"\1Solution().{name}", tests)
    return tests


def of_same_kind(tests: str) -> str:
    """Let every ``assert a == b`` compare types, too; tests that are no Python code stay as they are."""
    try:
        tree = ast.parse(tests)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return tests
    for each in ast.walk(tree):
        match each:
            case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
                each.test = _call(_judged.same_kind.__name__, left, right)
    return with_helpers(ast.unparse(tree), _judged.same_kind)


def _call(name: str, *given: ast.expr) -> ast.expr:
    """Return the call of a function."""
    return ast.fix_missing_locations(ast.Call(ast.Name(name, ast.Load()), list(given), []))


def with_helpers(tests: str, *helpers: Any) -> str:
    """Put the functions that tests use before them."""
    return "\n".join(["from typing import Any", *(inspect.getsource(each) for each in helpers), tests])


# ---- LiveCodeBench ----


def fenced(reply: str, *, last: bool) -> str:
    """Return what stands between the first two, or the last two, lines with a fence; nothing where there are fewer."""
    lines = reply.split("\n")
    fences = [number for number, line in enumerate(lines) if "```" in line]
    if len(fences) < 2:  # noqa: PLR2004 - a pair
        return ""
    start, end = fences[-2:] if last else fences[:2]
    return "\n".join(lines[start + 1 : end])


def contest_seconds(sample: Mapping[str, Any], seconds: float) -> float:
    """Return how long all tests of a task may take."""
    return (seconds + 1) * len(sample["inputs"]) + _MARGIN_SECONDS


def contest_tests(
    sample: Mapping[str, Any],
    program: str,
    seconds: float,
    printed: Callable[[str, str], bool],
    same: Callable[..., bool],
    *,
    in_json: bool = False,
) -> str:
    """Return the tests of a contest's task: calls of its function, or what the function ``code`` prints for each input.

    ``printed`` compares outputs, ``same`` values. ``in_json``: values are written as JSON, and results must be such.
    """
    pairs = list(zip(sample["inputs"], sample["outputs"], strict=True))
    name = sample.get("fn_name")
    if name is None:
        compare = printed.__name__
        lines = [f"assert {compare}(output_of(code, {_joined(i)!r}, {seconds}), {_joined(o)!r})" for i, o in pairs]
        return with_helpers("\n".join(lines), _judged.within, _judged.output_of, printed)
    lines = [f"solve = {'Solution().' if 'class Solution' in program else ''}{name}"]
    for given, wanted in pairs:
        values = [json.loads(line) for line in given.split("\n")] if in_json else given
        values = _judged.with_int_keys(values) if values and isinstance(values[0], dict) else values
        expected = _judged.with_int_keys(json.loads(wanted) if in_json else wanted)
        result = f"within({seconds}, solve, *{values!r})"
        result = f"as_json({result})" if in_json else result
        lines.append(f"assert returned({result}, {expected!r}, {same.__name__})")
    return with_helpers("\n".join(lines), _judged.within, _judged.as_json, _judged.returned, same)


def _joined(text: Any) -> str:
    """Return an input or an output as one text; some tasks have a list of lines."""
    return "\n".join(map(str, text)) if isinstance(text, list) else str(text)


def as_function(program: str) -> str:
    """Write a program as a function ``code``, so that it runs once for each input; imports before it stay outside."""
    written, started = [], False
    for line in program.split("\n"):
        is_import = line.startswith(("from ", "import "))
        if not is_import and not started:
            written += ["stdin = sys.stdin", "stdout = sys.stdout", "def code():"]
            started = True
        written.append(f"\t{line}" if started else line)
    return "\n".join(written)


def unguarded(program: str) -> str:
    """Take the last ``if __name__ == "__main__"`` away from what it guards."""
    try:
        *before, last = ast.parse(program).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return program
    if not isinstance(last, ast.If) or ast.unparse(last.test) != "__name__ == '__main__'":
        return program
    return ast.unparse(ast.Module([*before, *last.body], []))


# ---- LiveCodeBench: what code returns, and what a test should expect ----

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


class RightByPrograms(RightOrWrong):
    """A share of right answers that runs code to find out."""

    runs_programs = True


def returned_value(helper: Callable[..., bool], prediction: Any, reference: Any) -> bool:
    """Whether a reply says what code returns, as ``helper`` compares (LiveCodeBench's code execution).

    An answer that repeats the call is none.
    """
    task = _read(reference, "code", "input", "output")
    answer = stated_value(text_of(prediction, "LCBCodeExecutionEvaluator"))
    if task["input"] in answer:
        return False
    used = [line for name, line in _PACKAGES.items() if re.search(rf"\b{name}\b", task["code"])]
    program = "\n".join([_HEAD, *used, task["code"], f"answer_of_the_reply = ({answer}\n)"])
    return _passes(program, with_helpers(f"assert {helper.__name__}({task['output']}, answer_of_the_reply)", helper))


def expected_value(prediction: Any, reference: Any) -> bool:
    """Whether the test in a reply expects the right value (LiveCodeBench's test output)."""
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


def _returned_value(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    helper = _judged.equal_values if name.framework == "ais_bench" else _judged.same_kind
    return RightByPrograms("pass@1", partial(returned_value, helper))


EVALUATORS: dict[str, Factory] = {
    "LCBCodeExecutionEvaluator": _returned_value,
    "LCBTestOutputEvaluator": plain(RightByPrograms, "pass@1", expected_value),
}
