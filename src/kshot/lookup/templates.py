"""The texts around lookup examples: variants, and template files in the format of ``templates.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from kshot.core.errors import DataError, UsageError
from kshot.core.text_files import parse_json, read_text
from kshot.lookup.generate import LOOKUP_TASKS
from kshot.prompts.strings import FieldFormatter

SEPARATORS = ("sep", "nosep")
POOLS = ("small", "same")
TEMPLATES = ("bare", "simple_rule", "math_rule", "simple_rule_explained", "math_rule_explained")
Texts: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to put a record to a model: whether a bar precedes the query, which examples, which wording."""

    separator: str
    pool: str
    template: str

    def __str__(self) -> str:
        """Write the variant as the command line does."""
        return f"{self.separator}|{self.pool}|{self.template}"

    @property
    def folder(self) -> str:
        """The name of the variant in published result paths: it has no bars."""
        return self.separator + self.pool + self.template

    @property
    def input_field(self) -> str:
        """The field of a record that is shown."""
        return "input_with_space" if self.separator == "sep" else "input_no_space"


VARIANTS = tuple(str(Variant(s, p, t)) for s in SEPARATORS for p in POOLS for t in TEMPLATES)


def variant(text: str) -> Variant:
    """Read ``sep|small|simple_rule``, or its folder name without bars."""
    for known in VARIANTS:
        if text in (known, known.replace("|", "")):
            return Variant(*known.split("|"))
    raise UsageError(
        f"there is no variant {text!r}",
        hint=f"Join one each of {'/'.join(SEPARATORS)}, {'/'.join(POOLS)} and {'/'.join(TEMPLATES)} by bars.",
    )


@lru_cache(maxsize=1)
def default_texts() -> Texts:
    """Return the wording of kshot."""
    texts: Texts = json.loads(files("kshot.lookup").joinpath("templates.json").read_text(encoding="utf-8"))
    return texts


def load_texts(source: str | Path | Texts | None) -> Texts:
    """Read a template file, or take its content; ``None`` gives the wording of kshot."""
    if source is None:
        return default_texts()
    if isinstance(source, Mapping):
        return _checked(source, "templates")
    try:
        content = parse_json(read_text(Path(source)))
    except (OSError, ValueError) as error:
        raise DataError(f"the lookup templates cannot be read: {error}", where=str(source)) from error
    return _checked(content, str(source))


def _checked(texts: Any, where: str) -> Texts:
    hint = "The file needs the parts rules, completion, instruct, system, format and explanation."
    if not isinstance(texts, Mapping):
        raise DataError("lookup templates must be a JSON object", where=where, hint=hint)
    needed: list[tuple[str, ...]] = [
        *(("rules", task, kind) for task in LOOKUP_TASKS for kind in ("simple", "math")),
        *((kind, template) for kind in ("completion", "instruct") for template in TEMPLATES),
        ("system",),
        ("format",),
        ("explanation",),
    ]
    for path in needed:
        value: Any = texts
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if not isinstance(value, str):
            raise DataError(f"lookup templates lack the text {'.'.join(path)!r}", where=where, hint=hint)
    separators = texts.get("separators", {})
    wordings = list(separators.values()) if isinstance(separators, Mapping) else [None]
    if not all(isinstance(each, Mapping) for each in wordings):
        what = "the part 'separators' of lookup templates must hold an object for each separator"
        raise DataError(what, where=where)
    return texts


def fill(template: str, **fields: object) -> str:
    """Put values in place of the ``{names}`` of a text."""
    try:
        return FieldFormatter().vformat(template, (), fields)
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        known = ", ".join(f"{{{name}}}" for name in fields)
        raise DataError(
            f"the lookup template {template[:60]!r} cannot be filled in: {error}",
            hint=f"It may use {known}; write other braces twice.",
        ) from error
