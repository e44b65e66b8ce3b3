"""What stands in for the modules of lm-eval that functions of task files import: small equivalents of what they use.

Runs inside the confined process; standard library only. Where lm-eval is installed, its own modules give everything
else; where it is not, using something else is an error that names the package.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import logging
import os
import random
import re
import sys
import types
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from kshot.lmeval.filters import first_match
from kshot.sandbox._guest_deferred import no_equivalent, stand_in_modules

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

PACKAGE = "lm_eval"


class Filter(ABC):
    """A step of a pipeline over the responses to all requests of a task."""

    def __init__(self, **_: Any) -> None:  # noqa: B027 - subclasses may leave it as it is
        """Take options; this class has none."""

    @abstractmethod
    def apply(self, resps: Any, docs: Any) -> Any:
        """Return the filtered responses, in the same order."""


class RegexFilter(Filter):
    """Takes out of each response what a pattern finds."""

    def __init__(
        self, regex_pattern: str = r"#### (\-?[0-9\.\,]+)", group_select: int = 0, fallback: str = "[invalid]"
    ) -> None:
        """``group_select``: which of the matches; ``fallback``: what a response without a match gives."""
        self.regex_pattern, self.regex = regex_pattern, re.compile(regex_pattern)
        self.group_select, self.fallback = group_select, fallback

    def apply(self, resps: Any, docs: Any) -> Any:
        """Return the match of each response."""
        del docs
        return [[first_match(self.regex, each, self.group_select, self.fallback) for each in given] for given in resps]


class ContextSampler:
    """Chooses examples from a list of documents by a random generator of its own."""

    def __init__(
        self, df: Any = None, *, rnd: int | None = None, fewshot_indices: Sequence[int] | None = None, **_: Any
    ) -> None:
        """``df``: the documents; ``rnd``: the seed."""
        self.rnd, self.df, self.fewshot_indices = random.Random(rnd), df or [], fewshot_indices  # noqa: S311 - as lm-eval draws

    def sample(self, n: int, eval_doc: Any = None, df: Any = None, **_: Any) -> Any:
        """Return ``n`` documents, none of them equal to ``eval_doc``."""
        self.df = df or self.df
        if not eval_doc:
            return self.rnd.sample(self.fewshot_docs(), n)
        found = self.rm_eval_doc(eval_doc, self.rnd.sample(self.fewshot_docs(), n + 1), n)
        return found if len(found) == n else self.rnd.sample(self.rm_eval_doc(eval_doc, self.fewshot_docs()), n)

    def set_rnd(self, rnd: int | None) -> ContextSampler:
        """Start the random stream of a seed."""
        self.rnd = random.Random(rnd)  # noqa: S311 - as above
        return self

    def replace_df(self, df: Any) -> ContextSampler:
        """Choose from other documents from now on."""
        self.df = df
        return self

    def fewshot_docs(self) -> list[Any]:
        """Return the documents to choose from."""
        return [self.df[index] for index in self.fewshot_indices] if self.fewshot_indices else list(self.df)

    @staticmethod
    def rm_eval_doc(doc: Any, _iter: Iterable[Any], n: int | None = None) -> list[Any]:
        """Return the first ``n`` documents that differ from one."""
        return [each for each in _iter if each != doc][:n]


class FirstNSampler(ContextSampler):
    """Takes the first documents."""

    def sample(self, n: int, eval_doc: Any = None, df: Any = None, **_: Any) -> Any:
        """Return the first ``n`` documents, none of them equal to ``eval_doc``."""
        del df
        return (self.df if eval_doc is None else self.rm_eval_doc(eval_doc, self.df))[:n]


@dataclass
class Instance:
    """One request of a task, as functions see it."""

    request_type: str
    doc: Any
    arguments: Any
    idx: int
    metadata: Any = (None, None, None)
    resps: list[Any] = field(default_factory=list)
    filtered_resps: dict[str, Any] = field(default_factory=dict)


def _weighted_f1_score(items: Any) -> Any:
    golds, predictions = zip(*items, strict=True)
    return importlib.import_module("sklearn.metrics").f1_score(golds, predictions, average="weighted")


def _general_detokenize(text: str) -> str:
    for old, new in ((" n't", "n't"), (" )", ")"), ("( ", "("), ('" ', '"'), (' "', '"')):
        text = text.replace(old, new)
    return re.sub(r" (['.,])", r"\1", text)


def _regex_replace(string: str, pattern: str, repl: str, count: int = 0) -> str:
    return re.sub(pattern, repl, string, count=count)


def _apply_template(template: str, doc: dict[str, Any]) -> Any:
    jinja2 = importlib.import_module("jinja2")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.filters["regex_replace"] = _regex_replace
    return environment.from_string(template).render(**doc)


def _max_over_ground_truths(metric_fn: Callable[..., Any], prediction: Any, ground_truths: Iterable[Any]) -> Any:
    return max(metric_fn(prediction, truth) for truth in ground_truths)


def _mean(values: Sequence[Any]) -> Any:
    return sum(values) / len(values)


def _registering(*_: Any, **__: Any) -> Callable[[Any], Any]:
    """Return a decorator that changes nothing: task files name functions by ``!function``, not as registered."""
    return lambda thing: thing


def _quiet_logger() -> logging.Logger:
    logger = logging.getLogger(PACKAGE)
    logger.addHandler(logging.NullHandler())
    return logger


def _contents() -> dict[str, dict[str, Any]]:
    """Return what the modules hold, by their names."""
    registering = ("filter", "metric", "aggregation", "model", "task", "group")
    return {
        PACKAGE: {},
        f"{PACKAGE}.utils": {
            "weighted_f1_score": _weighted_f1_score,
            "general_detokenize": _general_detokenize,
            "regex_replace": _regex_replace,
            "apply_template": _apply_template,
            "eval_logger": _quiet_logger(),
            "logging": logging,
        },
        f"{PACKAGE}.api": {},
        f"{PACKAGE}.api.filter": {"Filter": Filter},
        f"{PACKAGE}.api.instance": {"Instance": Instance},
        f"{PACKAGE}.api.metrics": {"metric_max_over_ground_truths": _max_over_ground_truths, "mean": _mean},
        f"{PACKAGE}.api.registry": {f"register_{kind}": _registering for kind in registering},
        f"{PACKAGE}.api.samplers": {"ContextSampler": ContextSampler, "FirstNSampler": FirstNSampler},
        f"{PACKAGE}.filters": {},
        f"{PACKAGE}.filters.extraction": {"Filter": Filter, "RegexFilter": RegexFilter},
        f"{PACKAGE}.tasks": {},
    }


def lm_eval_modules() -> dict[str, Callable[[], types.ModuleType]]:
    """Return what makes each module that stands in for one of lm-eval, by name."""
    installed = importlib.machinery.PathFinder.find_spec(PACKAGE, sys.path)
    places = list(installed.submodule_search_locations or ()) if installed is not None else []
    contents = _contents()
    for called, held in contents.items():
        held["__path__"] = [os.path.join(place, *called.split(".")[1:]) for place in places]  # noqa: PTH118 - pathlib takes long to load
    return stand_in_modules(contents, lambda called, name: _elsewhere(called, name, contents, places))


def _elsewhere(called: str, name: str, contents: dict[str, Any], places: list[str]) -> Any:
    """Return a name that a stand-in lacks: from the installed package, or as something that cannot be used."""
    if name.startswith("__"):
        raise AttributeError(name)
    if f"{called}.{name}" in contents:
        return importlib.import_module(f"{called}.{name}")
    if called == f"{PACKAGE}.tasks":
        raise AttributeError(name)  # a folder of the tree, which importlib finds
    for place in places:
        module = _installed_module(called, place)
        if module is not None and hasattr(module, name):
            return getattr(module, name)
    return no_equivalent(called, name)


def _installed_module(called: str, place: str) -> types.ModuleType | None:
    """Return the installed module that a stand-in stands for, under another name."""
    alias = f"installed_{called}"
    if alias in sys.modules:
        return sys.modules[alias]
    stem = os.path.join(place, *called.split(".")[1:])  # noqa: PTH118 - pathlib takes long to load
    for file in (f"{stem}.py", f"{stem}/__init__.py"):
        if os.path.isfile(file):  # noqa: PTH113 - as above
            spec = importlib.util.spec_from_file_location(alias, file)
            if spec is None or spec.loader is None:
                continue
            module = sys.modules[alias] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    return None
