"""What every dataset class shares: its attributes, its rows, its examples, and the text of its questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, ClassVar

from kshot.datasets.loading import Later, Row, Rows, get_raw_dataset_loader
from kshot.datasets.rendering import as_messages, copied, stripped
from kshot.errors import DataError, KshotError, UsageError
from kshot.prompts import compile_string, decode_escapes, jinja_environment
from kshot.prompts.chat import fold_system, read_template, renderer
from kshot.prompts.strings import Render
from kshot.records import Failed, Message, Prompt, Repeats, Sample, plain
from kshot.settings import Settings
from kshot.task import Scorer, Task

Count = Callable[[str], int]
Processing = Callable[[Sequence[Any]], Sequence[Any]]

SAMPLING = ("max_tokens", "temperature", "stop", "top_p", "top_k", "repetition_penalty", "no_repeat_ngram_size", "seed")
"""What ``extra_model_args`` may set for a method that generates."""


class Dataset:
    """A dataset as a small class: where its rows come from, how a row becomes a question, how answers are scored.

    Subclass ``MultipleChoiceDataset`` or ``GenerationDataset``. An instance stands for one subset under one set of
    settings; nothing is shared between instances, and no model is needed to make one.
    """

    name: str = ""
    instruction: str | None = None
    metrics: Sequence[Scorer] = ()
    evaluation_set: str | None = None
    example_set: str | None = None
    load_args: tuple[str, ...] | None = None
    extra_model_args: Mapping[str, Any] = {}
    category_column: str | None = None
    categorized_subsets: Mapping[str, Sequence[str]] | None = None
    banned_subsets: Sequence[str] | None = None
    use_normalization: bool = False
    normalization_prompt: str = "Question: \nAnswer:"
    supported_cot: Sequence[str] = ()
    multi_turn: bool = False
    id_column: str | None = "id"
    subset_name: str | None = None

    evaluation_data: Rows = ()
    example_data: Rows = ()

    _overridable: ClassVar[type[Dataset]]

    def __init__(self, settings: Settings | None = None, subset_name: str | None = None) -> None:
        """Prepare the dataset under these settings; ``load`` then reads its rows."""
        self.args = settings or Settings()
        self.model_type = self.args.model_type
        self.num_shots = self.args.num_shots
        self.seed = self.args.seed
        self.cot = self.args.cot
        self.dataset_name = self.registered_name()
        self.subset_name = subset_name or self.subset_name
        self.display_name = f"{self.dataset_name}:{self.subset_name}" if self.subset_name else self.dataset_name
        self.where = f"dataset {self.display_name}"
        self.jinja2_env = jinja_environment()
        self.notes: list[str] = []
        self.shots: tuple[Sample, ...] = ()
        self._drawn: tuple[Sample, ...] | None = None
        template = self.args.chat_template
        self._chat_text = (
            None if template is None else partial(renderer(read_template(template)), add_generation_prompt=True)
        )
        self._unshare()
        self._choose_splits()
        self._check_cot()

    # ---- what a dataset class may define ----

    def init_arguments(self) -> None:
        """Set attributes that depend on the settings; called before the rows are loaded."""

    def format_instance(self, instance: dict[str, Any], /) -> dict[str, Any]:
        """Turn a row into the fields that the instruction uses."""
        raise DataError("it does not define format_instance", where=self.where)

    def load_raw_dataset(
        self, dataset_path: str | None, subset_name: str | None, evaluation_set: str | None, example_set: str | None
    ) -> None:
        """Set ``evaluation_data`` and ``example_data``."""
        if evaluation_set is None:
            raise DataError(
                "evaluation_set is not set",
                where=self.where,
                hint="Name the split to evaluate, or override load_raw_dataset.",
            )
        load = get_raw_dataset_loader(self.dataset_name, dataset_path, subset_name, self.load_args)
        self.evaluation_data = load(evaluation_set)
        if example_set is not None:
            self.example_data = load(example_set) if self.num_shots else Later(lambda: load(example_set))

    def post_processing(self, predictions: Sequence[Any], /) -> Sequence[Any]:
        """Turn all raw predictions, in order, into the answers that are scored."""
        return predictions

    def construct_examples(self, instance: dict[str, Any] | None = None, /) -> str | Sequence[Any]:
        """Give the examples shown before an instance, as text or messages."""
        if not self.shots and self._drawn is None:  # an override asks for what it replaces
            self._drawn = self._draw()
        return self._example_messages(self._drawn or self.shots)

    @property
    def references(self) -> Sequence[Any]:
        """The reference of every evaluated row; by default what ``format_instance`` calls the target."""
        raise DataError("it does not define references", where=self.where)

    # ---- from rows to samples ----

    @classmethod
    def registered_name(cls) -> str:
        """The dataset's name: its ``name``, or the class name in snake case."""
        return cls.name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower()

    def load(self) -> None:
        """Read the rows and check what the class defines."""
        self._call("init_arguments", self.init_arguments)
        self._choose_splits()
        self._check_metrics()
        if self.args.instruction is not None:
            self.instruction = decode_escapes(self.args.instruction)
        if self.instruction is None:
            raise DataError("it has no instruction", where=self.where, hint="Set one, or give --instruction.")
        self._render: Render = compile_string(self.instruction, self.jinja2_env, where=self.where)
        where_from = (self.args.dataset_path, self.subset_name, self.evaluation_set, self.example_set)
        self._call("load_raw_dataset", lambda: self.load_raw_dataset(*where_from))
        for name in ("evaluation_data", "example_data"):
            if not hasattr(getattr(self, name), "__len__"):
                raise DataError(f"{name} is {type(getattr(self, name)).__name__}, not a list of rows", where=self.where)
        if not len(self.evaluation_data):
            raise DataError("there are no rows to evaluate", where=self.where)
        if self.args.limit is not None and self.args.limit < len(self.evaluation_data):
            self.evaluation_data = _first(self.evaluation_data, self.args.limit)
        self._references = self._own_references()
        self.shots = () if self.overrides("construct_examples") else self._draw()

    def _call(self, name: str, method: Callable[[], Any]) -> Any:
        """Call a method that the class defines; whatever it raises names the dataset and the method."""
        try:
            return method()
        except KshotError:
            raise
        except Exception as exc:
            raise DataError(f"{name} fails: {type(exc).__name__}: {exc}", where=self.where) from exc

    def samples(self) -> Iterator[Sample]:
        """Format the rows one by one."""
        for index, row in enumerate(self.evaluation_data):
            yield self.sample(index, self._checked(row, f"row {index}"))

    def _checked(self, row: Any, name: str) -> Row:
        if not isinstance(row, Mapping):
            kind = type(row).__name__
            raise DataError(f"a row must be a dict of named fields, not {kind}", where=f"{self.where}, {name}")
        return row

    def sample(self, index: int, row: Row) -> Sample:
        """Make the sample of one evaluated row; the subclass knows what its target is."""
        raise NotImplementedError

    def fields(self, row: Row, where: str) -> dict[str, Any]:
        """Call ``format_instance`` on a copy of the row, and say where it fails if it does."""
        try:
            formatted = self.format_instance(copied(dict(row)))
        except KeyError as exc:
            have = ", ".join(str(name) for name in row)
            raise DataError(f"format_instance wants {exc.args[0]!r}; the row has: {have}", where=where) from exc
        except KshotError:
            raise
        except Exception as exc:
            raise DataError(f"format_instance fails: {type(exc).__name__}: {exc}", where=where) from exc
        if not isinstance(formatted, Mapping):
            raise DataError(f"format_instance returned {type(formatted).__name__}, not a dict", where=where)
        return dict(formatted)

    def place(self, index: int, row: Row, *, example: bool = False) -> str:
        """Name a row for a message."""
        kind = "example" if example else "row"
        own = self._own_id(row)
        return f"{self.where}, {kind} {index}" + ("" if own is None else f" (id {own})")

    def identify(self, index: int, row: Row) -> str:
        """Give the id of a row: its own where it has one, else its number."""
        own = self._own_id(row)
        return str(index) if own is None else own

    def _own_id(self, row: Row) -> str | None:
        found = None if self.id_column is None else row.get(self.id_column)
        return None if found is None or found == "" else str(found)

    def category(self, row: Row, where: str) -> str | None:
        """Give the category of a row."""
        if self.category_column is None:
            return None
        if self.category_column not in row:
            raise DataError(f"the row has no category column {self.category_column!r}", where=where)
        return str(row[self.category_column])

    def own_reference(self, index: int) -> tuple[Any, ...]:
        """Give the reference the class defines for a row, as a 1-tuple; empty where it defines none."""
        return () if self._references is None else (self._references[index],)

    def _own_references(self) -> Sequence[Any] | None:
        if type(self).references is Dataset.references:
            return None

        def read() -> list[Any]:
            found = self.references
            return list(found() if callable(found) else found)

        listed: list[Any] = self._call("references", read)
        if len(listed) != len(self.evaluation_data):
            raise DataError(
                f"references has {len(listed)} entries for {len(self.evaluation_data)} rows", where=self.where
            )
        return listed

    # ---- examples ----

    def _draw(self) -> tuple[Sample, ...]:
        wanted, have = self.num_shots, len(self.example_data)
        if not wanted:
            return ()
        if not have:
            raise DataError(f"it has no examples to show ({wanted} wanted)", where=self.where, hint="Set example_set.")
        if wanted >= have:
            if wanted > have:
                self.notes.append(f"{self.display_name}: {wanted} examples wanted, all {have} shown")
            drawn = range(have)
        else:
            import numpy as np

            drawn = np.random.RandomState(self.seed).choice(have, wanted, replace=False).tolist()
        rows = [(i, self._checked(self.example_data[i], f"example {i}")) for i in drawn]
        return tuple(self.example(i, row) for i, row in rows)

    def example(self, index: int, row: Row) -> Sample:
        """Make the sample of one example row."""
        raise NotImplementedError

    def overrides(self, method: str) -> bool:
        """Whether the class replaces one of kshot's own methods."""
        return getattr(type(self), method) is not getattr(self._overridable, method)

    def fit_examples(self, count: Count | None, kept: int | None = None) -> None:
        """Keep the whole examples, from the front, that fit the token budget of the model's tokenizer."""
        if not self.shots:
            return
        if kept is not None:
            self.shots = self.shots[:kept]
            return
        if count is None:
            self.notes.append(f"{self.display_name}: the example budget needs a tokenizer and is not applied")
            return
        budget, drawn = self.args.max_example_tokens, len(self.shots)
        while self.shots and count(plain(self._example_messages(self.shots))) > budget:
            self.shots = self.shots[:-1]
        if len(self.shots) < drawn:
            self.notes.append(f"{self.display_name}: {len(self.shots)} of {drawn} examples fit {budget} tokens")

    def _example_messages(self, shots: Sequence[Sample]) -> list[Message]:
        messages = []
        for index, shot in enumerate(shots):
            messages.append(Message("user", self.question(shot, example_idx=index, turn_idx=-1, shots=len(shots))))
            messages.append(Message("assistant", self.answer_text(shot)))
        return messages

    # ---- from samples to prompts ----

    def question(self, sample: Sample, *, example_idx: int = -1, turn_idx: int = 0, shots: int = 0, **more: Any) -> str:
        """Render the instruction for a sample."""
        context = {name: stripped(value) for name, value in sample.fields.items()}
        context |= {
            "num_turns": len(sample.fields["source"]) if self.multi_turn and example_idx < 0 else 0,
            "turn_idx": turn_idx,
            "real_num_shots": shots,
            "example_idx": example_idx,
            "dataset_name": self.dataset_name,
            "subset_name": self.subset_name,
            "display_name": self.display_name,
            **more,
        }
        try:
            return self._render(context)
        except DataError as exc:
            exc.where = f"{self.where}, {'example' if example_idx >= 0 else 'sample'} {sample.id}"
            raise

    def answer_text(self, sample: Sample) -> str:
        """Give the answer as an example shows it."""
        raise NotImplementedError

    def prompt(self, sample: Sample, shots: Sequence[Sample], question: str) -> Prompt:
        """Put the examples and a question together, for a base or a chat model."""
        messages: list[Message]
        if self.overrides("construct_examples"):
            examples = self._call("construct_examples", lambda: self.construct_examples(dict(sample.fields)))
            if isinstance(examples, str) and examples and question:  # one turn: chat templates want roles to alternate
                return self.prompt_of([Message("user", f"{examples.rstrip()}\n\n{question}")])
            messages = as_messages(examples, self.where)
        else:
            messages = self._cached_examples(shots)
        asked = [*messages, Message("user", question)] if question else messages
        return self.prompt_of(asked)

    def prompt_of(self, messages: Sequence[Message]) -> Prompt:
        """Make the prompt of a base model (the joined text) or a chat model (the messages, system message first)."""
        if self.model_type != "chat":
            return Prompt(plain(messages))
        lead = (Message("system", self.args.system_prompt),) if self.args.system_prompt else ()
        chat = (*lead, *messages)
        return Prompt(messages=fold_system(chat, self._chat_text) if self._chat_text is not None else chat)

    def _cached_examples(self, shots: Sequence[Sample]) -> list[Message]:
        held: tuple[Any, list[Message]] | None = getattr(self, "_rendered", None)
        if held is None or held[0] is not shots:
            held = self._rendered = (shots, self._example_messages(shots))
        return held[1]

    # ---- the task ----

    def task(self, count: Count | None = None, kept: int | None = None) -> Task[Any]:
        """Compile to a Task; ``count`` counts a text's tokens for the model that will be asked."""
        raise DataError(
            "it does not say what kind of dataset it is",
            where=self.where,
            hint="Subclass MultipleChoiceDataset or GenerationDataset.",
        )

    def refuse_sampling(self, method: str) -> None:
        """Refuse ``extra_model_args`` for a method that samples nothing."""
        if self.extra_model_args:
            raise DataError(
                f"extra_model_args has {', '.join(self.extra_model_args)}, which {method} cannot use",
                where=self.where,
                hint="It can use none; generation can.",
            )

    def sampling(self, method: str) -> dict[str, Any]:
        """Merge what the class and the user say about generation; the user wins."""
        for name in self.extra_model_args:
            if name not in SAMPLING:
                raise DataError(
                    f"extra_model_args has {name!r}, which {method} cannot use",
                    where=self.where,
                    hint=f"It can use: {', '.join(SAMPLING)}.",
                )
        chosen = dict(self.extra_model_args)
        for name in ("max_tokens", "temperature", "stop", "top_p", "top_k"):
            if getattr(self.args, name) is not None:
                chosen[name] = getattr(self.args, name)
        if "stop" in chosen:
            stop = chosen["stop"] or ()
            chosen["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
        if self.args.sample_num > 1 and not chosen.get("temperature"):
            chosen["temperature"] = 1.0
            self.notes.append(
                f"{self.display_name}: temperature 0 becomes 1, since {self.args.sample_num} replies are sampled"
            )
        if chosen.get("temperature"):
            chosen.setdefault("seed", self.seed)
        else:
            chosen.pop("seed", None)
        return chosen

    def finished(self, blank: Callable[[Sample], Any], process: Processing | None = None) -> Processing:
        """Let the class's own post_processing see all raw answers in order, a blank in place of each failed one.

        Repeats are processed a round at a time, so that every call sees one answer per evaluated row.
        """
        process = process or self.post_processing

        def finish(answers: Sequence[Any]) -> Sequence[Any]:
            pairs = zip(answers, self.samples(), strict=True)
            whole = [self._blanked(blank, s) if isinstance(a, Failed) else a for a, s in pairs]
            if self.args.sample_num == 1:
                return self._processed(process, whole)
            rounds = [self._processed(process, [a.answers[i] for a in whole]) for i in range(self.args.sample_num)]
            return [Repeats(tuple(each)) for each in zip(*rounds, strict=True)]

        return finish

    def _blanked(self, blank: Callable[[Sample], Any], sample: Sample) -> Any:
        times = self.args.sample_num
        return blank(sample) if times == 1 else Repeats((blank(sample),) * times)

    def _processed(self, process: Processing, answers: Sequence[Any]) -> Sequence[Any]:
        done: list[Any] = self._call("post_processing", lambda: list(process(answers)))
        if len(done) != len(self.evaluation_data):
            raise DataError(
                f"post_processing returned {len(done)} answers for {len(self.evaluation_data)} rows", where=self.where
            )
        return done

    def _unshare(self) -> None:
        """Give the instance its own lists and dicts: one that adds to them must not change its class."""
        if isinstance(self.load_args, str):
            raise DataError(
                "load_args is a text", where=self.where, hint=f"Write it as a tuple: ({self.load_args!r},)."
            )
        for name in ("extra_model_args", "supported_cot", "categorized_subsets", "banned_subsets"):
            if isinstance(value := getattr(self, name), (dict, list)):
                setattr(self, name, copied(value))
        if isinstance(self.metrics, list):
            self.metrics = list(self.metrics)

    def _choose_splits(self) -> None:
        self.evaluation_set = self.args.evaluation_set or self.evaluation_set
        self.example_set = self.args.example_set or self.example_set

    def _check_metrics(self) -> None:
        if not isinstance(self.metrics, (list, tuple)):
            raise DataError(f"metrics is {self.metrics!r}", where=self.where, hint="Write a list: metrics = [Em()].")
        for metric in self.metrics:
            if isinstance(metric, type) or not isinstance(metric, Scorer):
                called = f"Write {metric.__name__}()." if isinstance(metric, type) else "See kshot list metrics."
                raise DataError(f"metrics has {metric!r}, which is not a metric", where=self.where, hint=called)

    def _check_cot(self) -> None:
        if self.cot is not None and self.cot not in self.supported_cot:
            styles = ", ".join(self.supported_cot) or "none"
            raise UsageError(f"--cot {self.cot!r} is not supported", where=self.where, hint=f"Supported: {styles}.")

    def rows(self) -> _Samples:
        """The samples as a re-iterable stream of known length."""
        return _Samples(self)


class _Samples:
    """Samples of a dataset, formatted anew on each pass, so that none is held."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset.evaluation_data)

    def __iter__(self) -> Iterator[Sample]:
        return self._dataset.samples()


def _first(rows: Rows, limit: int) -> Rows:
    return rows.select(range(limit)) if hasattr(rows, "select") else list(islice(rows, limit))


Dataset._overridable = Dataset  # noqa: SLF001 - each kshot class compares with itself
