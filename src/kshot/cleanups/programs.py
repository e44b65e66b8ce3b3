"""Clean-ups that take code from a reply, and programs made of it. Standard library only."""

from __future__ import annotations

import ast
import re

_BLOCK = re.compile(r"```\w*\n(.*?)(?:```|\Z)", re.DOTALL)
_PYTHON_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:\n```|\Z)", re.DOTALL | re.IGNORECASE)


def humaneval_postprocess(text: str) -> str:
    """Take the first code block, or the reply as it is."""
    found = _BLOCK.search(text)
    return (found[1] if found else text).lstrip("\n")


def completed_program(prompt: str, function: str, reply: str) -> str:
    """Put a reply after the head of a function: as a function of its own, or as the body that continues the head."""
    block = _PYTHON_BLOCK.search(reply)
    code = block[1] if block else reply
    head = prompt.rstrip()
    if re.search(rf"^def\s+{re.escape(function)}\b", code, re.MULTILINE):
        return f"{head}\n\n{code}"
    first, _, rest = code.partition("\n")
    if not first.strip():
        return f"{head}\n{rest}"
    return f"{head}\n{code}" if first.startswith(("    ", "\t")) else f"{head}\n    {code.lstrip()}"


def completion_tests(prompt: str, function: str, test: str) -> str:
    """Return the code that tests a function which completes a prompt: HumanEval's ``check``, and the call of it.

    Functions that the prompt defines for the tests (``poly``, ``encode_cyclic``) come with the tests, and so do its
    imports: a program that defines them anew does not change what is tested.
    """
    try:
        body = ast.parse(prompt).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        body = []  # a head without a body: the names are then the program's
    helpers = [
        ast.unparse(node)
        for node in body
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.FunctionDef) and node.name != function)
    ]
    return "\n".join([*helpers, test, f"check({function})"])
