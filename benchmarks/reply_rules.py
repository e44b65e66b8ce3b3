"""What each rule of the reader of replies gains: each is switched off, and all replies are read again.

The reader (``kshot.cleanups.chosen_option``) is four modules of patterns. A rule is one of its ordered rules, a named
pattern or list of words, or a step that takes markup away. A part is one alternative or an optional piece of a pattern.
A rule that is switched off never matches; a part is cut out of its pattern. The replies have the answer that a reader
gives: those that the rules were made on, those that were held out, and those that ``--replies`` names.

    python benchmarks/reply_rules.py                    # a table of the rules, as Markdown
    python benchmarks/reply_rules.py --parts            # and every part without which no reply is read differently
    python benchmarks/reply_rules.py --replies MORE.jsonl --json OUT.json
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODULES = ("plain_reply", "predicates", "mentions", "chosen_option")
"""The reader, what is imported first."""
DATA = (ROOT / "tests" / "data" / "replies.jsonl", ROOT / "tests" / "data" / "replies_held_out.jsonl")
PARTED = ("_RULES", "_STEPS")
"""Names whose parts are rules themselves."""
_HOLE = 0xF0000
"""Characters from here stand for the parts of a pattern that another name gives."""


@dataclass(frozen=True)
class Switch:
    """A rule or a part, and the source of its module without it."""

    module: str
    name: str
    part: str
    source: ast.Module


@dataclass(frozen=True)
class Gain:
    """What is lost where a rule is switched off: replies that are then misread, or read rightly, or otherwise."""

    module: str
    name: str
    part: str
    lost: int
    gained: int
    changed: int
    """Replies that get another answer or another rule."""


# ---- the sources without a rule ----


def switches(module: str, *, parts: bool) -> Iterator[Switch]:
    """Yield a module without each of its rules; with ``parts``, without each part of its patterns too."""
    tree = ast.parse((ROOT / "src" / "kshot" / "cleanups" / f"{module}.py").read_text(encoding="utf-8"))
    for place, statement in enumerate(tree.body):
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            name = ast.unparse(statement.targets[0] if isinstance(statement, ast.Assign) else statement.target)
            for part, value in _without(name, statement.value, parts=parts):
                changed = copy.copy(tree)
                changed.body = [*tree.body]
                changed.body[place] = new = copy.copy(statement)
                new.value = value
                yield Switch(module, name, part, ast.fix_missing_locations(changed))


def _without(name: str, value: ast.expr, *, parts: bool) -> Iterator[tuple[str, ast.expr]]:
    """Yield the value of a name without a rule, and which: an ordered rule, a set of words, a step or a pattern."""
    if name == "_RULES" and isinstance(value, ast.Tuple):
        for number, rule in enumerate(value.elts):
            yield ast.unparse(rule), ast.Tuple([*value.elts[:number], *value.elts[number + 1 :]], ast.Load())
    elif name in {"_COMMON", "_JUDGEMENTS"}:
        yield "", ast.parse("frozenset()", mode="eval").body
    elif name == "_STEPS":
        steps = next(node for node in ast.walk(value) if isinstance(node, ast.Tuple) and len(node.elts) > 5)
        patterns = [ast.literal_eval(step.elts[0]) for step in steps.elts if isinstance(step, ast.Tuple)]
        for number, pattern in enumerate(patterns):
            yield pattern, _with(value, steps, _all_but(steps, number))
    else:
        for text in _patterns(value):
            yield from _of_pattern(value, text, parts=parts)


def _all_but(row: ast.Tuple, number: int) -> ast.Tuple:
    return ast.Tuple([*row.elts[:number], *row.elts[number + 1 :]], ast.Load())


def _patterns(value: ast.expr) -> list[ast.expr]:
    """Return the regular expressions in a value: those that are compiled, or the text that others are made of."""
    if isinstance(value, ast.Tuple):
        return [text for each in value.elts for text in _patterns(each)]
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "re.compile":
        return [value.args[0]]
    return [value] if isinstance(value, (ast.JoinedStr, ast.Constant)) and _is_pattern(value) else []


def _is_pattern(value: ast.expr) -> bool:
    return not isinstance(value, ast.Constant) or (isinstance(value.value, str) and len(value.value) > 1)


def _of_pattern(value: ast.expr, text: ast.expr, *, parts: bool) -> Iterator[tuple[str, ast.expr]]:
    template, holes = _template(text)
    optional = text is value and _may_be_empty(template)  # a piece of other patterns that they can do without
    before, after = ("(?:", "){0}") if optional else ("(?!)(?:", ")")  # its groups stay
    yield "", _with(value, text, _rebuilt(f"{before}{template}{after}", holes))
    if parts:
        for start, end in cuts(template):
            shown = "".join("…" if ord(sign) >= _HOLE else sign for sign in template[start:end]).strip("|")
            yield shown, _with(value, text, _rebuilt(template[:start] + template[end:], holes))


def _with(value: ast.expr, old: ast.expr, new: ast.expr) -> ast.expr:
    """Return a value in which one node is replaced."""

    class Replaced(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return new if node is marked else self.generic_visit(node)

    memo: dict[int, Any] = {}
    changed = copy.deepcopy(value, memo)
    marked = memo[id(old)]
    return ast.parse(ast.unparse(ast.fix_missing_locations(Replaced().visit(changed))), mode="eval").body


# ---- the parts of a pattern ----


def _template(text: ast.expr) -> tuple[str, list[ast.expr]]:
    """Return a pattern with one character for each part that a name gives, and these parts."""
    if isinstance(text, ast.Constant):
        return str(text.value), []
    if isinstance(text, ast.BinOp):
        left, holes = _template(text.left)
        right, more = _template(text.right)
        moved = "".join(chr(ord(sign) + len(holes)) if ord(sign) >= _HOLE else sign for sign in right)
        return left + moved, [*holes, *more]
    if not isinstance(text, ast.JoinedStr):
        return chr(_HOLE), [text]
    found, holes = "", []
    for value in text.values:
        if isinstance(value, ast.Constant):
            found += str(value.value)
        elif isinstance(value, ast.FormattedValue):
            found += chr(_HOLE + len(holes))
            holes.append(value.value)
    return found, holes


def _rebuilt(template: str, holes: Sequence[ast.expr]) -> ast.expr:
    values: list[ast.expr] = [
        ast.FormattedValue(holes[ord(piece) - _HOLE], -1) if ord(piece[0]) >= _HOLE else ast.Constant(piece)
        for piece in re.findall(f"[{chr(_HOLE)}-\U000fffff]|[^{chr(_HOLE)}-\U000fffff]+", template)
    ]
    return ast.JoinedStr(values)


def _may_be_empty(template: str) -> bool:
    """Whether a pattern matches an empty text, so that it is optional where it stands; parts of it are not."""
    return re.fullmatch("".join("x" if ord(sign) >= _HOLE else sign for sign in template), "") is not None


def cuts(pattern: str) -> list[tuple[int, int]]:
    """Return the alternatives at every depth of a pattern, with the sign that divides them, and its optional parts."""
    found: list[tuple[int, int]] = []
    opened: list[tuple[int, list[int]]] = [(0, [])]  # where a group's text begins, and where it is divided
    place, before = 0, -1  # ``before``: where the last item begins
    while place < len(pattern):
        sign, start = pattern[place], place
        if sign == "(":
            head = re.compile(r"\((?:\?(?:[:=!]|<[=!]|-?[a-z]+:))?").match(pattern, place)
            place = head.end() if head else place + 1
            opened.append((place, [start]))
            continue
        if sign == "|":
            opened[-1][1].append(place)
            place += 1
            continue
        if sign == ")":
            inside, (start, *bars) = opened.pop()
            found += _alternatives(inside, bars, place)
            place += 1
        elif sign in "?*{" and before >= 0:
            quantifier = re.compile(r"[?*+]\??|\{\d*,?\d*\}\??").match(pattern, place)
            if quantifier is None:
                place += 1
                continue
            place = quantifier.end()
            if quantifier[0][0] in "?*" or quantifier[0].startswith(("{0", "{,")):
                found.append((before, place))
            continue
        else:
            item = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL).match(pattern, place)
            place = item.end() if item else place + 1
        before = start
    return found + _alternatives(opened[0][0], opened[0][1], len(pattern))


def _alternatives(start: int, bars: Sequence[int], end: int) -> list[tuple[int, int]]:
    """Return each alternative between these places, with a bar beside it."""
    if not bars:
        return []
    edges = [start - 1, *bars, end]
    pairs = list(pairwise(edges))
    return [(start, pairs[0][1] + 1), *pairs[1:]]


# ---- reading all replies ----


def _reader(changed: Switch | None) -> Callable[[str, Sequence[str]], Any]:
    """Return ``chosen_option`` of modules that are made anew, one of them without a rule."""
    names = [f"kshot.cleanups.{module}" for module in MODULES]
    kept = {name: sys.modules.pop(name, None) for name in names}
    try:
        for module, name in zip(MODULES, names, strict=True):
            path = ROOT / "src" / "kshot" / "cleanups" / f"{module}.py"
            source: Any = path.read_text(encoding="utf-8")
            if changed is not None and changed.module == module:
                source = changed.source
            made = sys.modules[name] = ModuleType(name)
            exec(compile(source, str(path), "exec"), made.__dict__)
        return sys.modules[names[-1]].chosen_option  # type: ignore[no-any-return]
    finally:
        for name, module_before in kept.items():
            sys.modules.pop(name, None)
            if module_before is not None:
                sys.modules[name] = module_before


def _read(reader: Callable[[str, Sequence[str]], Any], rows: Sequence[dict[str, Any]]) -> list[tuple[str | None, str]]:
    from kshot.cleanups.letters import letter

    found = [reader(row["reply"], row["options"]) for row in rows]
    return [(None if one.index < 0 else letter(one.index), one.rule) for one in found]


def gains(rows: Sequence[dict[str, Any]], modules: Sequence[str] = MODULES, *, parts: bool) -> Iterator[Gain]:
    """Switch off every rule of these modules, and yield what that changes."""
    usual = _read(_reader(None), rows)
    texts = [_letters_of(row["reply"]) for row in rows]
    for module in modules:
        for switch in switches(module, parts=parts):
            needed = _needed_letters(switch.part) if switch.name not in PARTED else ""
            places = [place for place, text in enumerate(texts) if needed in text]
            try:
                now = _read(_reader(switch), [rows[place] for place in places])
            except (re.error, IndexError):  # a lookbehind without one width, or a group that the reader takes
                continue
            triples = [(usual[place], found, rows[place]["answer"]) for place, found in zip(places, now, strict=True)]
            lost = sum(was[0] == answer != found[0] for was, found, answer in triples)
            gained = sum(found[0] == answer != was[0] for was, found, answer in triples)
            changed = sum(was != found for was, found, _ in triples)
            yield Gain(switch.module, switch.name, switch.part, lost, gained, changed)


def _letters_of(reply: str) -> str:
    """Return a reply in which the letters of a part are looked for: as it is, and without markup."""
    from kshot.cleanups.plain_reply import plain

    return f"{unicodedata.normalize('NFKC', reply)} {plain(reply)}".lower()


def _needed_letters(part: str) -> str:
    """Return letters without which a part matches nothing; an empty text: they are not known."""
    found = re.match(r"(?:\\b)?([\w' ]{2,}|[^\x00-\x7f…])(?![?*{])", part)
    return found[1].lower() if found else ""


def _table(found: Sequence[Gain]) -> str:
    lines = ["| module | rule | right answers lost without it | gained | read differently |", "|---|---|---|---|---|"]
    for one in sorted(found, key=lambda one: (MODULES.index(one.module), -one.lost + one.gained)):
        shown = f"{one.name}: {one.part}" if one.part else one.name
        shown = " ".join(shown.split()).replace("|", "\\|")
        lines.append(f"| `{one.module}` | `{shown[:90]}` | {one.lost} | {one.gained} | {one.changed} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--parts", action="store_true", help="list the parts without which nothing is read differently")
    parser.add_argument("--replies", type=Path, action="append", default=[], help="more replies, as tests/data has")
    parser.add_argument("--json", type=Path, help="write what every rule and part gains to this file")
    options = parser.parse_args()
    rows = [
        json.loads(line) for path in (*DATA, *options.replies) for line in path.read_text(encoding="utf-8").splitlines()
    ]
    found = list(gains(rows, parts=options.parts))
    print(f"{len(rows)} replies\n")
    print(_table([one for one in found if not one.part or one.name in PARTED]))
    if options.parts:
        idle = [one for one in found if one.part and one.name not in PARTED and not one.changed]
        print(f"\n{len(idle)} parts of {len(found)} rules and parts change nothing:")
        for one in idle:
            print(f"- {one.module}.{one.name}: {one.part!r}")
    if options.json:
        text = json.dumps([vars(one) for one in found], ensure_ascii=False, indent=0)
        options.json.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
