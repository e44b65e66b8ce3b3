"""What the functions of a task read of a row: a small reading of their source."""

import ast
import contextlib
import functools
import inspect
from pathlib import Path

from python_reader import FunctionReader
from shape import Shape

TASKS = "/lm_eval/tasks/"
DEEP = 3


def _keywords(function):
    found = {}
    while isinstance(function, functools.partial):
        found |= function.keywords
        function = function.func
    return found


def plain(function):
    """The function below partials, and the values that they give."""
    given = []
    while isinstance(function, functools.partial):
        given += [*function.args, *function.keywords.values()]
        function = function.func
    return function, given


def _known(function, keywords):
    """The names that a function's source may use, with their values."""
    known = dict(getattr(function, "__globals__", {})) | keywords
    with contextlib.suppress(TypeError, ValueError):
        known |= inspect.getclosurevars(function).nonlocals
    return known


def columns_of(function):
    """The shape of the rows that a function reads, and the words that it knows (lists of texts)."""
    root, words, keywords = Shape(), [], _keywords(function)
    function, given = plain(function)
    known = _known(function, keywords)
    given = [
        *given,
        *[
            held
            for name, held in known.items()
            if name in getattr(getattr(function, "__code__", None), "co_freevars", ())
        ],
    ]
    words += [(value,) for value in given if isinstance(value, str)]
    words += [
        tuple(value)
        for value in given
        if isinstance(value, (list, tuple)) and value and all(isinstance(one, str) for one in value)
    ]
    module = inspect.getmodule(function)
    place = getattr(function, "__code__", None)
    file = place.co_filename if place else getattr(module, "__file__", None)
    name = getattr(function, "__name__", type(function).__name__)
    if file and TASKS in str(file):
        _read_name(root, words, Path(file), name, set(), DEEP, known)
    return root, words


@functools.cache
def _module(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    named = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            named.setdefault(node.name, node)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.setdefault(node.targets[0].id, node)
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            source = _sibling(file, node)
            if source:
                imported |= {alias.asname or alias.name: (source, alias.name) for alias in node.names}
    return named, imported


def _sibling(file, node):
    root = Path(str(file).split(TASKS)[0] + TASKS)
    if node.level:
        base = file.parents[node.level - 1]
        found = base / f"{(node.module or '__init__').replace('.', '/')}.py"
    elif (node.module or "").startswith("lm_eval.tasks."):
        found = root / f"{node.module.removeprefix('lm_eval.tasks.').replace('.', '/')}.py"
    else:
        found = file.parent / f"{(node.module or '?').replace('.', '/')}.py"
    return found if found.exists() else None


def _read_name(root, words, file, name, seen, deep, known):
    if (file, name) in seen or deep < 0:
        return
    seen.add((file, name))
    named, imported = _module(file)
    if name in imported and name not in named:
        source, original = imported[name]
        _read_name(root, words, source, original, seen, deep, known)
        return
    node = named.get(name)
    if node is None:
        return
    _words_in(node, words)
    if not isinstance(node, ast.Assign):
        FunctionReader(root, known).visit(node)
    else:
        FunctionReader(root, known).visit(node.value)
    used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - {name}
    for other in sorted(used):
        if other in named or other in imported:
            _read_name(root, words, file, other, seen, deep - 1, known)


def _words_in(node, words):
    for one in ast.walk(node):
        if isinstance(one, ast.Call):  # another function may compare a column with what it is given
            given = [
                each.value
                for each in [*one.args, *(held.value for held in one.keywords)]
                if isinstance(each, ast.Constant)
            ]
            words += [(value,) for value in given if isinstance(value, str) and (value,) not in words]
            continue
        if isinstance(one, (ast.List, ast.Tuple, ast.Set)):
            values = one.elts
        elif isinstance(one, ast.Dict):
            values = one.keys
        else:
            continue
        texts = [
            value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, (str, int))
        ]
        if len(texts) >= 2 and len(texts) == len(values) and tuple(texts) not in words:
            words.append(tuple(texts))
