"""The class a user writes: where rows come from, how a row becomes a question, how answers are scored.

The class has only what is documented for users, so that a subclass may use every other name for its own purposes.
What kshot does with a dataset is in ``compiler``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kshot.core.errors import DataError, KshotError, UsageError
from kshot.core.metric import Metric
from kshot.core.records import Message
from kshot.core.specs import split_names
from kshot.datasets.settings import DatasetSettings
from kshot.metrics import make_metric
from kshot.metrics.judge import with_judge_options
from kshot.metrics.metric import as_metric
from kshot.prompts import jinja_environment
from kshot.prompts.strings import names_used
from kshot.tables.files import LazyRows, Rows
from kshot.tables.loading import get_raw_dataset_loader


class Dataset:
    """A dataset as a small class.

    Subclass ``MultipleChoiceDataset`` or ``GenerationDataset``. An instance stands for one subset under one set of
    settings; instances share nothing, and no model is needed to make one.
    """

    name: str = ""
    instruction: str | None = None
    metrics: Sequence[Metric | str] = ()
    evaluation_set: str | None = None
    example_set: str | None = None
    load_args: tuple[str, ...] | None = None
    load_kwargs: Mapping[str, Any] = {}
    extra_model_args: Mapping[str, Any] = {}
    category_column: str | None = None
    categorized_subsets: Mapping[str, Sequence[str]] | None = None
    banned_subsets: Sequence[str] | None = None
    use_normalization: bool = False
    normalization_prompt: str = "Question: \nAnswer:"
    description: str = ""
    target_delimiter: str | None = None
    fewshot_delimiter: str = "\n\n"
    keep_whitespace: bool = False
    supported_cot: Sequence[str] = ()
    multi_turn: bool = False
    id_column: str | None = "id"
    subset_name: str | None = None

    evaluation_data: Rows = ()
    example_data: Rows = ()

    def __init__(self, settings: DatasetSettings | None = None, subset_name: str | None = None) -> None:
        """Prepare the dataset under these settings; its rows are read when it is compiled."""
        self.args = settings or DatasetSettings()
        self.model_type = self.args.model_type or "base"
        self.num_shots = self.args.num_shots
        self.seed = self.args.seed
        self.cot = self.args.cot
        self.dataset_name = name_of(type(self))
        self.subset_name = subset_name or self.subset_name
        self.display_name = display_name(self.dataset_name, self.subset_name)
        self.jinja2_env = jinja_environment()
        self._examples: Callable[[], Sequence[Any]] = tuple  # the compiler sets it
        self._unshare()
        if self.cot is not None and self.cot not in self.supported_cot:
            styles = ", ".join(self.supported_cot) or "none"
            raise UsageError(f"--cot {self.cot!r} is not supported", where=where_of(self), hint=f"Supported: {styles}.")

    def init_arguments(self) -> None:
        """Set attributes that depend on the settings; called before the rows are loaded."""

    def format_instance(self, instance: dict[str, Any], /) -> dict[str, Any]:
        """Turn a row into the fields that the instruction uses."""
        raise DataError("it does not define format_instance", where=where_of(self))

    def load_raw_dataset(
        self, dataset_path: str | None, subset_name: str | None, evaluation_set: str | None, example_set: str | None
    ) -> None:
        """Set ``evaluation_data`` and ``example_data``."""
        if evaluation_set is None:
            raise DataError(
                "evaluation_set is not set",
                where=where_of(self),
                hint="Name the split to evaluate, or override load_raw_dataset.",
            )
        load = get_raw_dataset_loader(
            self.dataset_name, dataset_path, subset_name, self.load_args, load_kwargs=self.load_kwargs
        )
        self.evaluation_data = load(evaluation_set)
        if example_set is not None:
            self.example_data = load(example_set) if self.num_shots else LazyRows(lambda: load(example_set))
        self._keep_rows()

    def post_processing(self, predictions: Sequence[Any], /) -> Sequence[Any]:
        """Turn all raw predictions, in order, into the answers that are scored."""
        return predictions

    def construct_examples(self, instance: dict[str, Any] | None = None, /) -> str | Sequence[Any]:
        """Return the examples shown before an instance, as text or messages."""
        return self._examples()

    @property
    def references(self) -> Sequence[Any]:
        """The reference of every evaluated row; by default what ``format_instance`` calls the target."""
        raise DataError("it does not define references", where=where_of(self))

    def _keep_rows(self) -> None:
        """Keep the rows that were loaded as they are; front ends of other tools may want them in another form."""

    def _unshare(self) -> None:
        """Give the instance its own lists and dicts: one that adds to them must not change its class."""
        checked_load_args(self.load_args, where_of(self))
        shared = {
            "extra_model_args": self.extra_model_args,
            "supported_cot": self.supported_cot,
            "categorized_subsets": self.categorized_subsets,
            "banned_subsets": self.banned_subsets,
        }
        for name, value in shared.items():
            if isinstance(value, (dict, list)):
                setattr(self, name, copied(value))
        if isinstance(self.metrics, list):
            self.metrics = list(self.metrics)


def checked_load_args(load_args: Any, where: str) -> tuple[str, ...] | None:
    """Return the ``load_args`` of a class: None, or texts."""
    if isinstance(load_args, str):
        raise DataError("load_args is a text", where=where, hint=f"Write it as a tuple: ({load_args!r},).")
    if load_args is None:
        return None
    if not isinstance(load_args, (list, tuple)) or not all(isinstance(each, str) for each in load_args):
        hint = "Write a tuple: the dataset on the hub, and its subset if it has one."
        raise DataError(f"load_args is {load_args!r:.60}", where=where, hint=hint)
    return tuple(load_args)


def load_args_of(cls: type[Dataset]) -> tuple[str, ...] | None:
    """Return the ``load_args`` of a class, checked."""
    return checked_load_args(cls.load_args, f"dataset {name_of(cls)}")


def name_of(cls: type[Dataset]) -> str:
    """Return the name of a dataset: its ``name``, or the class name in snake case."""
    return cls.name or snake_case(cls.__name__)


def snake_case(name: str) -> str:
    """Write the name of a class as names of datasets are written."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def display_name(name: str, subset: str | None) -> str:
    """Return the name of a dataset and its subset, as tables show it."""
    return f"{name}:{subset}" if subset else name


def where_of(dataset: Dataset) -> str:
    """Return how a message names a dataset."""
    return f"dataset {dataset.display_name}"


# ---- from the fields of an instance to the text of its question and answer ----


def stripped(value: Any) -> Any:
    """Strip the white space around text, inside lists too; leave everything else."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return [stripped(each) for each in value]
    if isinstance(value, tuple):
        return tuple(stripped(each) for each in value)
    return value


def copied(value: Any) -> Any:
    """Copy the dicts and lists of a row, so that a change of the copy does not reach the original."""
    if type(value) is dict:
        return {name: copied(each) for name, each in value.items()}
    if type(value) is list:
        return [copied(each) for each in value]
    return value


def as_index(value: Any, name: str, where: str) -> int:
    """Read an index that may be a number or digits; ``name`` is what a message calls it."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError) as exc:
        raise DataError(f"{name} is {value!r}; it must be the index of an option", where=where) from exc
    if isinstance(value, float) and number != value:
        raise DataError(f"{name} is {value!r}; it must be a whole number", where=where)
    return number


def as_messages(examples: Any, where: str) -> list[Message]:
    """Read what ``construct_examples`` returned: text, or messages as records or role/content dicts."""
    if isinstance(examples, str):
        return [Message("user", examples)] if examples else []
    if not isinstance(examples, Sequence):
        raise DataError(f"construct_examples returned {type(examples).__name__}, not text or messages", where=where)
    messages = []
    for each in examples:
        if isinstance(each, Message):
            messages.append(each)
        elif isinstance(each, Mapping) and each.get("role") in {"system", "user", "assistant"} and "content" in each:
            messages.append(Message(each["role"], str(each["content"])))
        else:
            raise DataError(f"construct_examples returned {each!r:.80}, which is not a message", where=where)
    return messages


# ---- metrics that cannot be used, and what is legal but probably a mistake ----

RESERVED_FIELDS = {
    *("options", "target", "source", "target_idx", "label", "source_idx", "num_turns", "turn_idx", "real_num_shots"),
    *("example_idx", "dataset_name", "subset_name", "display_name"),
}
"""Names that an instruction may use though no field has them."""

_DOCUMENTED = [name for name in vars(Dataset) if not name.startswith("_")]
_MIN_SIMILARITY = 0.8
"""From this ratio on, an unknown attribute looks like a misspelt one."""


def requested_metrics(dataset: Dataset) -> list[Metric]:
    """Return the metrics that the user named with ``--metric``."""
    return [make_metric(name) for names in dataset.args.metric or () for name in split_names(names)]


def checked_metrics(dataset: Dataset) -> list[Metric]:
    """Return the metrics of a dataset; a text is a spec, such as ``"f1"``. What is no metric is an error."""
    where = where_of(dataset)
    if not isinstance(dataset.metrics, (list, tuple)):
        raise DataError(f"metrics is {dataset.metrics!r}", where=where, hint="Write a list: metrics = [Em()].")
    if not dataset.metrics:
        raise DataError("it has no metrics", where=where, hint="Set metrics = [Em(), F1()], for example.")
    found = []
    for given in dataset.metrics:
        metric = _named_metric(given, where) if isinstance(given, str) else as_metric(given)
        if isinstance(metric, type) or not isinstance(metric, Metric):
            hint = f"Write {metric.__name__}()." if isinstance(metric, type) else "See kshot list metrics."
            raise DataError(f"metrics has {metric!r}, which is not a metric", where=where, hint=hint)
        found.append(metric)
    return with_judge_options(found, dataset.args, where=where)


def _named_metric(spec: str, where: str) -> Metric:
    try:
        return make_metric(spec)
    except KshotError as exc:
        exc.where = exc.where or where
        raise


def likely_mistakes(dataset: Dataset, kind: type[Dataset], fields: Callable[[], Mapping[str, Any]]) -> Iterator[str]:
    """Find what is legal but probably a mistake: template names that no field has, attributes with a misspelt name.

    ``fields`` gives those of the first row; it is called only if they matter.
    """
    unknown = names_used(dataset.instruction or "", dataset.jinja2_env) - RESERVED_FIELDS
    for name in sorted(unknown - set(fields()) if unknown else ()):
        yield f"the instruction uses {name!r}, which row 0 does not have: it renders as nothing"
    known = set(dir(kind))
    for name in vars(type(dataset)):
        if name.startswith("_") or name in known:
            continue
        meant = difflib.get_close_matches(name, _DOCUMENTED, 1, cutoff=_MIN_SIMILARITY)
        if meant:
            yield f"the class defines {name!r}, which means nothing to kshot; {meant[0]!r} would"
