"""Clean-ups that take code from a reply, and programs made of it. Standard library only."""

from __future__ import annotations

import ast
import re

from kshot.cleanups.literals import text_of_literal
from kshot.cleanups.spans import between

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


# ---- code of single datasets ----

_FENCED = re.compile(r"```\w*\n(.*?)```", re.DOTALL)


def humaneval_postprocess_v2(text: str) -> str:
    """Take the first closed code block, or the reply, without the white space before it."""
    return humaneval_v2_ais_bench(text).lstrip()


def humaneval_v2_ais_bench(text: str) -> str:
    """Take the first closed code block, or the reply, as it is."""
    found = _FENCED.search(text)
    return found[1] if found else text


def humaneval_postprocess_v3(text: str) -> str:
    """Take the last closed code block, or the reply, without the white space before it."""
    return humaneval_v3_ais_bench(text).lstrip()


def humaneval_v3_ais_bench(text: str) -> str:
    """Take the last closed code block, or the reply, as it is."""
    found: list[str] = _FENCED.findall(text)
    return found[-1] if found else text


def humaneval_internal_v2_postprocess(text: str) -> str:
    """Take the indented lines that begin a reply: the body of a function."""
    if len(text) - len(text.lstrip(" ")) == 3:  # noqa: PLR2004 - a body is indented by four
        text = f" {text}"
    lines = text.split("\n\n\n", maxsplit=1)[0].split("\n```", maxsplit=1)[0].split("\n")
    unindented = (place for place, line in enumerate(lines) if line and not line.startswith(" "))
    return "\n".join(lines[: next(unindented, len(lines))])


def humaneval_internal_v1_postprocess(text: str) -> str:
    """Take the body of the function that a reply completes, indented by four spaces."""
    return _body(text_of_literal(text))


def humaneval_internal_v1_ais_bench(text: str) -> str:
    """Do as ``humaneval_internal_v1_postprocess`` does; a reply like ``1/0`` is an error, as in AISBench."""
    return _body(text_of_literal(text, (ValueError, SyntaxError)))


def _body(text: str) -> str:
    text = text.lstrip("\n")
    if "```" in text:
        text = _first_fenced(text)
    if text.strip().startswith(("from", "import")) and (head := text.find("def")) >= 0:
        text = text[text.find("\n", head) + 1 :]
    text = "\n".join(line for line in text.split("\n") if line)
    if text.strip().startswith("def"):
        text = text.partition("\n")[2]
    if text.startswith(" "):
        return _while_indented("    " + text.lstrip())
    return _while_indented("\n".join(f"    {line}" for line in text.split("\n")))


def _first_fenced(text: str) -> str:
    """Return what the first pair of fences encloses, without the word behind the first; else what follows a fence."""
    blocks = between(text, "```", "```")
    if not blocks:
        return text.split("```")[1]
    return blocks[0] if blocks[0].startswith("\n") else blocks[0][blocks[0].find("\n") + 1 :]


def _while_indented(text: str) -> str:
    """Return the lines before the first one that is indented less than the first; comments and strings do not count."""
    lines, first = text.split("\n"), None
    for place, line in enumerate(lines):
        bare = line.strip()
        if not bare or bare[0] in "'\"#":
            continue
        indent = len(line.rstrip()) - len(bare)
        if first is None:
            first = indent
        elif indent < first:
            return "\n".join(lines[:place])
    return text


def ds1000_postprocess(text: str) -> str:
    """Take the code: in code tags, in fences, between the marks of a solution, one within the other."""
    marks = (("<code>", "</code>"), ("```python", "```"), ("```", "```"), ("BEGIN SOLUTION", "END SOLUTION"))
    for opening, closing in marks:
        text = (between(text, opening, closing) or [text])[0]
    return text


def ds1000_completion_postprocess(text: str) -> str:
    """Take what stands before the closing code tag."""
    return text.partition("</code>")[0]


_CLEARS_FIGURES = ("plt.show()", "plt.clf()", "plt.close()", "savefig")


def ds1000_matplotlib_postprocess(text: str) -> str:
    """Take the code without the lines that show, save or clear a figure."""
    lines = ds1000_postprocess(text).split("\n")
    return "\n".join(line for line in lines if not any(call in line for call in _CLEARS_FIGURES))


def cruxeval_o_postprocess(text: str) -> str:
    """Take the first line before "# done"."""
    return text.partition("# done")[0].strip().partition("\n")[0].strip()
