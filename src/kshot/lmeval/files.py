"""Task files of lm-evaluation-harness: one file with its includes, as data that was checked and not run.

Strangers wrote the YAML: limits come before anything is built, tags are data, and every key has its place.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kshot.core.errors import DataError, UsageError
from kshot.core.extras import importing
from kshot.core.text_files import FileTooLargeError, read_at_most

ROOT_HINT = (
    "Add --lmeval-root DIR: a clone of lm-evaluation-harness, or a folder with your own task files; "
    "or install the package: pip install lm_eval."
)


def root_of(given: str | Path | None) -> Path:
    """Return the folder of tasks: that of a clone, of the package, or the user's own."""
    if given is None:
        installed = installed_root()
        if installed is None:
            raise UsageError("a task of lm-eval is found by its name where lm-eval's files are", hint=ROOT_HINT)
        return installed
    folder = Path(os.path.expanduser(given))  # noqa: PTH111 - pathlib raises for users that there are not
    if not folder.is_dir():
        raise UsageError("there is no such folder", where=f"--lmeval-root {given}", hint=ROOT_HINT)
    folder = folder.resolve()
    inner = [folder / "lm_eval" / "tasks", *([folder / "tasks"] if folder.name == "lm_eval" else [])]
    return next((each for each in inner if each.is_dir()), folder)


def installed_root() -> Path | None:
    """Return the tasks of an installed lm_eval, which is not imported; None where there is none."""
    spec = find_spec("lm_eval")
    places = [Path(place) / "tasks" for place in spec.submodule_search_locations or ()] if spec is not None else []
    return next((place.resolve() for place in places if place.is_dir()), None)


def root_around(path: Path) -> Path:
    """Return the tree that holds a path which the user named without one."""
    around = [path, *path.parents]
    known = next((each for each in around if each.name == "tasks" and each.parent.name == "lm_eval"), None)
    return known or (path if path.is_dir() else path.parent)


MAX_FILE_BYTES = 32 << 20
MAX_DEPTH = 100
MAX_NODES = 2_000_000
"""How many values a file may have, with all its aliases written out."""
_MAX_NUMBER_CHARACTERS = 1000
_NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

Tag = Callable[[str, str], Any]
"""Makes a value from the text behind ``!function`` and its place."""


def read_mapping(path: Path, function_tag: Tag) -> tuple[dict[Any, Any], dict[Any, str]]:
    """Return the mapping of a YAML file, and the place (``file:line:column``) of each of its keys."""
    with importing("a task file", "pyyaml"):
        import yaml
    text = _text_of(path)
    loader_class = _loader_class()
    try:
        _check_size(yaml.parse(text, Loader=loader_class), path)
        loader = loader_class(text)
        try:
            loader.path, loader.function_tag = path, function_tag
            node = loader.get_single_node()
            value = None if node is None else loader.construct_document(node)
            keys = [key for key, _ in node.value] if isinstance(value, dict) else []
            places = {loader.construct_object(key, deep=True): _place(path, key.start_mark) for key in keys}
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        what = " ".join(filter(None, (exc.context, exc.problem))) or "the file cannot be read as YAML"
        raise DataError(what, where=_place(path, mark), hint="Correct the YAML there.") from exc
    except yaml.YAMLError as exc:  # a character that YAML does not allow
        raise DataError(f"it is no YAML: {exc}".replace("\n", " "), where=str(path)) from exc
    if not isinstance(value, dict):
        kind = "nothing" if value is None else f"a {type(value).__name__}"
        raise DataError(f"it holds {kind}, where keys with values are needed", where=str(path))
    return value, places


def _place(path: Path, mark: Any) -> str:
    """Write where something stands in a file."""
    return str(path) if mark is None else f"{path}:{mark.line + 1}:{mark.column + 1}"


def _text_of(path: Path) -> str:
    try:
        content = read_at_most(path, MAX_FILE_BYTES)
    except FileTooLargeError as exc:
        raise DataError(f"it is above {MAX_FILE_BYTES >> 20} MB", where=str(path)) from exc
    except OSError as exc:
        raise DataError(f"the task file cannot be read: {exc.strerror or exc}", where=str(path)) from exc
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        column = exc.start - content.rfind(b"\n", 0, exc.start)
        where = f"{path}:{line}:{column}"
        raise DataError("a byte here is no UTF-8", where=where, hint="Save the file as UTF-8.") from exc


def _check_size(events: Any, path: Path) -> None:
    """Refuse a file that nests too deep, or whose aliases stand for more values than memory holds.

    It reads the events of the parser, so nothing is built and nothing recurses.
    """
    import yaml

    values = 0
    opened: list[tuple[str | None, int]] = []  # the anchors of values that have not ended, and what came before each
    sizes: dict[str | None, int] = {}
    for event in events:
        problem = ""
        if isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in opened):
                problem = f"*{event.anchor} stands inside itself"
            values += sizes.get(event.anchor, 1)  # as much as it stands for
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, start = opened.pop()
            sizes[anchor] = values - start
        elif isinstance(event, yaml.NodeEvent):
            opened += [(event.anchor, values)] if isinstance(event, yaml.CollectionStartEvent) else []
            values += 1
        if len(opened) > MAX_DEPTH:
            problem = f"it nests deeper than {MAX_DEPTH} levels"
        if values > MAX_NODES:
            problem = problem or f"it stands for more than {MAX_NODES:,} values"
        if problem:
            raise DataError(problem, where=_place(path, event.start_mark))


@cache
def _loader_class() -> Any:
    """Return the class that reads plain data and ``!function``; PyYAML's C parser is used where it is there."""
    import yaml

    parent: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

    class TaskFileLoader(parent):  # type: ignore[misc]
        """A safe loader; what cannot be made from a text is an error that names its place."""

        path: Path
        function_tag: Tag

        def construct_object(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - PyYAML's signature
            long = isinstance(node, yaml.ScalarNode) and len(node.value) > _MAX_NUMBER_CHARACTERS
            if long and node.tag in _NUMBER_TAGS:
                raise yaml.constructor.ConstructorError(None, None, "this number is too long", node.start_mark)
            try:
                return super().construct_object(node, deep=deep)
            except (ValueError, KeyError, AttributeError, TypeError, OverflowError) as exc:
                kind = node.tag.rpartition(":")[2]
                raise yaml.constructor.ConstructorError(None, None, f"this is no {kind}", node.start_mark) from exc

    def function(loader: TaskFileLoader, node: Any) -> Any:
        return loader.function_tag(loader.construct_scalar(node), _place(loader.path, node.start_mark))

    TaskFileLoader.add_constructor("!function", function)
    return TaskFileLoader


MAX_INCLUDES = 200
MAX_REPEATS = 100_000
OUTPUT_TYPES = ("generate_until", "multiple_choice", "loglikelihood", "loglikelihood_rolling")
DROPPED = ("tag", "group", "task_list")
"""Keys that only place a task in lists and groups."""


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """What ``!function a.b.name`` names: an attribute of a Python file beside the YAML, or of a module."""

    file: Path | None
    """The file ``a/b.py`` beside the file that holds the tag; None: there is none, ``module`` is to be imported."""
    module: str
    name: str
    where: str
    """The place of the tag: ``file:line:column``."""

    def __str__(self) -> str:
        """Return the function as the task file writes it."""
        return f"{self.module}.{self.name}"


class Body(dict[str, Any]):
    """The keys of a task file with those it includes; ``places`` says where each one stands."""

    def __init__(self, values: Mapping[str, Any], places: Mapping[str, str], files: tuple[Path, ...] = ()) -> None:
        """Take the values, the place (``file:line:column``) of each key, and the files that were read."""
        super().__init__(values)
        self.places, self.files = dict(places), files


def read_body(path: str | Path, root: Path | None = None) -> Body:
    """Return the keys of a task file: included files in order, later ones win, the file's own win over all.

    ``root``: the tree of the task. By their real paths, all files must lie in it or in the folder of the task file: a
    stranger's file must not send other files of this machine to a model.
    """
    first = Path(path).expanduser().absolute()
    folders = (first.parent, root or root_around(first))
    files = _TreeFiles(tuple(folder.resolve() for folder in folders))
    body = files.read(files.named(first.parent, first.name, str(first)), "")
    return Body(body, body.places, tuple(files.seen))


@dataclass(frozen=True, slots=True)
class _TreeFiles:
    """Reads a file and what it includes, only from these folders."""

    folders: tuple[Path, ...]
    seen: list[Path] = field(default_factory=list)

    def named(self, folder: Path, text: str, where: str) -> Path:
        """Return the real path of a file that a file of a folder names; refuse one outside the tree."""
        path = _beside(folder, text, where)
        if not any(path.is_relative_to(allowed) for allowed in self.folders):
            what = f"{text:.200} leads to {path}, outside the tree of the task"
            hint = "Copy that file into the tree, or name a folder that holds both: --lmeval-root DIR."
            raise DataError(what, where=where, hint=hint)
        return path

    def read(self, path: Path, where: str) -> Body:
        """Read a file; ``where``: the place that includes it, empty for the task file itself."""
        if path in self.seen:
            hint = "lm-eval allows each file once, also where there is no true cycle."
            raise DataError(f"{path} is included a second time", where=where, hint=hint)
        if len(self.seen) >= MAX_INCLUDES:
            raise DataError(f"more than {MAX_INCLUDES} files are included", where=where)
        if where and not os.path.isfile(path):  # noqa: PTH113 - pathlib raises for names that are too long
            hint = "Correct the path of the include."
            raise DataError(f"it includes {path}, which is no file", where=where, hint=hint)
        self.seen.append(path)
        values, places = read_mapping(path, lambda text, place: function_ref(text, path.parent, place))
        include = values.pop("include", None)
        at = places.pop("include", "")
        if not at:
            return Body(values, places)
        merged = Body({}, {})
        for each in include if isinstance(include, list) else [include]:
            if not isinstance(each, str):
                raise DataError("include names a file, or a list of files", where=at)
            inner = self.read(self.named(path.parent, each, at), at)
            inner.pop("task_list", None)
            merged.update(inner)
            merged.places.update(inner.places)
        merged.update(values)
        merged.places.update(places)
        return merged


def function_ref(text: str, folder: Path, where: str) -> FunctionRef:
    """Return what ``!function`` names in a file of a folder."""
    module, _, name = text.strip().rpartition(".")
    if not module or not name:
        hint = "Write the file and the name, such as !function utils.process_docs."
        raise DataError(f"!function {text} names no module", where=where, hint=hint)
    file = _beside(folder, f"{module.replace('.', '/')}.py", where)
    here = os.path.isfile(file)  # noqa: PTH113 - pathlib raises for names that are too long
    if not here and not all(part.isidentifier() for part in module.split(".")):
        hint = "Write a file beside the task file, with dots for folders and without .py: !function utils.process_docs."
        raise DataError(f"!function {text} names {file}, which is no file", where=where, hint=hint)
    return FunctionRef(file if here else None, module, name, where)


def _beside(folder: Path, text: str, where: str) -> Path:
    """Return the place that a file of a folder names; any text may come."""
    try:
        return (folder / text).resolve()
    except (ValueError, RuntimeError) as exc:  # a zero byte; links that lead in a circle
        raise DataError(f"{text!r:.80} is no path of a file", where=where) from exc


@dataclass(frozen=True, slots=True)
class FewshotConfig:
    """How examples are made: ``fewshot_config``, with the task's own values for keys that it lacks."""

    sampler: str | FunctionRef = "default"
    split: str | None = None
    process_docs: FunctionRef | None = None
    fewshot_indices: Any = None
    samples: list[dict[str, Any]] | FunctionRef | None = None
    doc_to_text: Any = None
    doc_to_choice: Any = None
    doc_to_target: Any = None
    gen_prefix: Any = None
    fewshot_delimiter: str | None = None
    target_delimiter: str | None = None


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """The keys of a task, with lm-eval's defaults. A function stands as a ``FunctionRef``."""

    path: Path
    """The task file."""
    root: Path | None = None
    """The tree of tasks that it belongs to, where one is known."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where each key stands: ``file:line:column``."""
    files: tuple[Path, ...] = ()
    """The file and all that it includes."""
    task: str | None = None
    task_alias: str | None = None
    custom_dataset: FunctionRef | None = None
    dataset_path: str | None = None
    dataset_name: str | None = None
    dataset_kwargs: dict[str, Any] | None = None
    training_split: str | None = None
    validation_split: str | None = None
    test_split: str | None = None
    fewshot_split: str | None = None
    process_docs: FunctionRef | None = None
    doc_to_text: Any = None
    doc_to_target: Any = None
    doc_to_image: Any = None
    doc_to_audio: Any = None
    unsafe_code: bool = False
    doc_to_choice: Any = None
    process_results: FunctionRef | None = None
    use_prompt: str | None = None
    description: Any = ""
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"
    fewshot_config: FewshotConfig = field(default_factory=FewshotConfig)
    num_fewshot: int | None = None
    metric_list: list[dict[str, Any]] | None = None
    output_type: str = "generate_until"
    generation_kwargs: dict[str, Any] | None = None
    """As lm-eval fills it: ``until`` is always there for tasks that generate."""
    repeats: int = 1
    filter_list: list[dict[str, Any]] | None = None
    should_decontaminate: bool = False
    doc_to_decontamination_query: Any = None
    gen_prefix: Any = None
    metadata: dict[str, Any] | None = None

    def where(self, key: str = "task") -> str:
        """Return the place of a key, or the file where it has none."""
        return self.places.get(key, str(self.path))


_OWN = ("path", "root", "places", "files")
TASK_KEYS = tuple(each.name for each in fields(TaskConfig) if each.name not in _OWN)
FEWSHOT_KEYS = tuple(each.name for each in fields(FewshotConfig))
_INHERITED = {
    "split": "fewshot_split",
    **{
        key: key
        for key in FEWSHOT_KEYS
        if key.startswith("doc_to_") or key.endswith("_delimiter") or key in {"process_docs", "gen_prefix"}
    },
}
"""Keys of ``fewshot_config`` whose missing value is that of a key of the task."""


def task_config(body: Mapping[str, Any], path: Path, root: Path | None = None) -> TaskConfig:
    """Return the checked keys of a task; ``body``: what ``read_body`` gave, perhaps with overrides of a group."""
    places = body.places if isinstance(body, Body) else {}
    files = body.files if isinstance(body, Body) else (path,)
    values = {key: value for key, value in body.items() if key not in DROPPED}
    if "class" in values:
        what = f"it is a task written as a Python class ({values['class']})"
        raise DataError(what, where=places.get("class", str(path)), hint="kshot runs tasks that are YAML.")
    _refuse_unknown(values, TASK_KEYS, "task", places, str(path))
    for key in ("doc_to_image", "doc_to_audio"):
        if values.get(key) is not None:
            what = f"the task needs {key.removeprefix('doc_to_')} input, and kshot runs tasks of text"
            raise DataError(what, where=places.get(key, str(path)))
    _check_kinds(values, places, str(path))
    if not isinstance(values.get("metadata"), dict | None):
        values["metadata"] = {"_metadata": values["metadata"]}
    fewshot = _fewshot_config(values, places.get("fewshot_config", str(path)))
    values["generation_kwargs"] = _generation(values, places.get("generation_kwargs", str(path)))
    return TaskConfig(**{**values, "fewshot_config": fewshot}, path=path, root=root, places=places, files=files)


def _refuse_unknown(
    values: Mapping[Any, Any], known: tuple[str, ...], what: str, places: Mapping[Any, str], where: str
) -> None:
    for key in values:
        if key not in known:
            near = get_close_matches(str(key), known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"The keys are: {', '.join(known)}."
            raise DataError(f"a {what} has no key {key!r}", where=places.get(key, where), hint=hint)


_TEXT: tuple[type, ...] = (str,)
_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("task", "output_type"), ((str, int), "a name")),
    **dict.fromkeys(("target_delimiter", "fewshot_delimiter"), (_TEXT, "a text")),
    **dict.fromkeys(
        ("dataset_path", "training_split", "validation_split", "test_split", "fewshot_split"), (_TEXT, "a name")
    ),
    **dict.fromkeys(("custom_dataset", "process_docs", "process_results"), ((FunctionRef,), "a !function")),
    **dict.fromkeys(("dataset_kwargs", "generation_kwargs", "fewshot_config"), ((dict,), "keys and values")),
    **dict.fromkeys(("num_fewshot", "repeats"), ((int,), "a whole number")),
    "metric_list": ((list,), "a list of metrics"),
    "filter_list": ((list,), "a list of filters"),
    "description": ((str, FunctionRef), "a text"),
    "gen_prefix": ((str, FunctionRef), "a text"),
    "doc_to_text": ((str, int, FunctionRef), "a text, a number or a !function"),
    "doc_to_target": ((str, int, list, FunctionRef), "a text, a number, a list or a !function"),
    "doc_to_choice": ((str, list, dict, FunctionRef), "a text, a list, keys and values, or a !function"),
}
"""What a key may hold, beside null."""
_NEEDED = ("output_type", "target_delimiter", "fewshot_delimiter", "repeats")
"""Keys that may not be null."""


def _check_kinds(values: Mapping[str, Any], places: Mapping[str, str], where: str) -> None:
    """Refuse a value that no task can have."""
    for key, value in values.items():
        kinds, words = _KINDS.get(key, ((object,), ""))
        missing = value is None and key in _NEEDED
        if missing or (value is not None and not isinstance(value, kinds)):
            raise DataError(f"{key} is {value!r}; it must be {words}", where=places.get(key, where))
    if values.get("output_type", "generate_until") not in OUTPUT_TYPES:
        what = f"output_type is {values['output_type']!r}"
        raise DataError(what, where=places.get("output_type", where), hint=f"Use one of {', '.join(OUTPUT_TYPES)}.")
    for key, least in (("num_fewshot", 0), ("repeats", 1)):
        number = values.get(key)
        if number is not None and (isinstance(number, bool) or number < least):
            raise DataError(f"{key} is {number!r}; it must be {least} or more", where=places.get(key, where))
    if values.get("repeats", 1) > MAX_REPEATS:
        what = f"repeats is {values['repeats']:,}; it must be {MAX_REPEATS:,} or less"
        raise DataError(what, where=places.get("repeats", where))
    for key, inner in (("metric_list", "metric"), ("filter_list", "filter")):
        for each in values.get(key) or ():
            if not isinstance(each, dict) or inner not in each:
                raise DataError(f"each entry of {key} needs the key {inner!r}", where=places.get(key, where))


def _fewshot_config(values: Mapping[str, Any], where: str) -> FewshotConfig:
    own = values.get("fewshot_config") or {}
    _refuse_unknown(own, FEWSHOT_KEYS, "fewshot_config", {}, where)
    defaults = {each.name: each.default for each in fields(TaskConfig)}
    inherited = {key: values.get(source, defaults[source]) for key, source in _INHERITED.items()}
    return FewshotConfig(**{**inherited, **own})


def _generation(values: Mapping[str, Any], where: str) -> dict[str, Any] | None:
    """Fill in what lm-eval fills in."""
    given, delimiter = values.get("generation_kwargs"), values.get("fewshot_delimiter", "\n\n")
    if given is None:
        if values.get("output_type", "generate_until") != "generate_until":
            return None
        return {"until": [delimiter], "do_sample": False, "temperature": 0.0, "max_gen_toks": 256}
    filled = {"until": [delimiter], **given}
    if "temperature" in filled:
        try:
            filled["temperature"] = float(filled["temperature"])
        except (TypeError, ValueError) as exc:
            raise DataError(f"temperature is no number: {filled['temperature']!r}", where=where) from exc
    return filled
