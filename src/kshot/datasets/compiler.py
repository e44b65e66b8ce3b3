"""What kshot makes of a dataset class: samples of its rows, the examples that they show, prompts, and a Task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from numbers import Integral
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any, ClassVar, TypeAlias, TypeVar

from kshot.core.content import glue
from kshot.core.errors import DataError, KshotError
from kshot.core.options import settings_names
from kshot.core.protocols import ExampleRetriever
from kshot.core.records import Choice, Message, Prompt, RequestGenerator, Row, Sample, plain
from kshot.core.task import Task
from kshot.datasets.dataset import (
    Dataset,
    as_messages,
    checked_metrics,
    copied,
    likely_mistakes,
    requested_metrics,
    stripped,
    where_of,
)
from kshot.datasets.rows.settings import RowSettings
from kshot.datasets.settings import DatasetSettings
from kshot.prompts import compile_string, decode_escapes
from kshot.prompts.chat import fold_system, read_template, renderer
from kshot.statistics.averages import Average
from kshot.tables.files import first_rows

TokenCounter: TypeAlias = Callable[[str], int]


class ShownExamples:
    """Chooses the examples of a dataset. ``shots`` are those that every sample shows, if no retriever chooses."""

    def __init__(self, dataset: Dataset, writer: DatasetCompiler) -> None:
        """Choose nothing yet: a class that constructs its own examples may never need any.

        ``writer`` turns example rows into samples, and these into messages.
        """
        self._dataset, self._writer = dataset, writer
        self._chosen: Sequence[Sequence[int]] | None = None
        self._retriever: ExampleRetriever | None = None
        self._count_tokens: TokenCounter | None = None
        self._kept: dict[str, int] = {}
        self._is_unfitted = False
        self.shots: tuple[Sample, ...] = ()

    def choose(self) -> None:
        """Draw the examples once for all samples, or ask the retriever that the settings name."""
        if self._dataset.num_shots and self._dataset.args.retriever:
            self._retrieve(self._dataset.args.retriever)
        else:
            self.shots = self.drawn

    def select(self, sample: Sample) -> Sequence[Sample]:
        """Return the examples before a sample."""
        if self._chosen is None:
            return self._others(sample) if self.shots and self.among_evaluated else self.shots
        chosen = self._chosen[sample.position]
        kept = self._kept.get(str(sample.position), len(chosen))
        shots = tuple(self._writer.example_at(i) for i in chosen[len(chosen) - kept :])
        while shots and not self._fits(shots):
            shots = shots[1:]  # the nearest ones are last
        if len(shots) < len(chosen):
            self._kept[str(sample.position)] = len(shots)
        return shots

    def fit(self, count_tokens: TokenCounter | None, recorded: Mapping[str, Any] | None = None) -> None:
        """Keep the whole examples, from the front, that fit the token budget of the model's tokenizer.

        ``recorded`` are the facts of an earlier run, which say how many it kept.
        """
        self._count_tokens, recorded = count_tokens, recorded or {}
        self._kept = dict(recorded.get("kept", {}))
        shows = bool(self.shots) or self._chosen is not None
        unfitted = shows and count_tokens is None and "max_example_tokens" in self._dataset.args.changed()
        self._is_unfitted = recorded.get("unfitted", False) if recorded else unfitted
        if self._is_unfitted:
            self._writer.note("--max-example-tokens needs a model with a tokenizer and is not applied")
        drawn, kept = len(self.shots), recorded.get("shots")
        self.shots = self.shots[:kept]
        while kept is None and self.shots and not self._fits(self.shots):
            self.shots = self.shots[:-1]
        if len(self.shots) < drawn:
            self._writer.note(f"{len(self.shots)} of {drawn} examples fit {self.budget} tokens")

    @property
    def budget(self) -> int | None:
        """The most tokens that the examples may have together; None: as many as they have."""
        return self._dataset.args.max_example_tokens

    @property
    def is_provisional(self) -> bool:
        """Whether the examples are only for a rehearsal."""
        from kshot.retrievers.base import is_provisional

        return is_provisional(self._retriever)

    def facts(self) -> dict[str, Any]:
        """Return what a run records of the examples.

        ``shots`` is the number of examples before a row. ``kept`` is that of each row that has fewer than the retriever
        chose for it, and grows with the run; ``chosen`` is that of each row for which it chose fewer than for others.
        ``unfitted``: the model could not count tokens, so that none was left out.
        """
        unfitted = {"unfitted": True} if self._is_unfitted else {}
        if self._retriever is None:
            return {"shots": len(self.shots), **unfitted}
        numbers = [len(row) for row in self._chosen or ()]
        shots = max(numbers, default=0)
        fewer = {str(row): number for row, number in enumerate(numbers) if number < shots}
        chosen = {"chosen": fewer} if fewer else {}
        return {"retriever": dict(self._retriever.facts), "shots": shots, "kept": self._kept, **chosen, **unfitted}

    @cached_property
    def drawn(self) -> tuple[Sample, ...]:
        """The examples that the seed draws, the same for all samples."""
        return tuple(self._writer.example_at(i) for i in self.numbers)

    @cached_property
    def numbers(self) -> Sequence[int]:
        """The numbers of their rows."""
        wanted = self._dataset.num_shots
        if not wanted:
            return ()
        size = len(self._dataset.example_data)
        if not size or (self.among_evaluated and size == 1):
            raise DataError(
                f"it has no examples to show ({wanted} wanted)",
                where=where_of(self._dataset),
                hint="Its only row would be its own example." if size else "Set example_set.",
            )
        if wanted >= size:
            if wanted > size or self.among_evaluated:
                shown = f"the {size - 1} other rows are shown" if self.among_evaluated else f"all {size} shown"
                self._writer.note(f"{wanted} examples wanted, {shown}")
            return range(size - 1 if self.among_evaluated else size)
        return self.draw(size, wanted)

    @property
    def among_evaluated(self) -> bool:
        """Whether the examples are drawn from the evaluated rows; a row is then never an example of itself."""
        own = self._dataset
        if own.example_set is None or own.example_set != own.evaluation_set:
            return False
        size = min(len(own.evaluation_data), len(own.example_data))
        return size > 0 and all(own.example_data[number] == own.evaluation_data[number] for number in {0, size - 1})

    def _others(self, sample: Sample) -> Sequence[Sample]:
        """Return the examples before a sample that may be one of them: another row then takes its place."""
        numbers = list(self.numbers[: len(self.shots)])
        if sample.position not in numbers:
            return self.shots
        return tuple(self._writer.example_at(self._spare if each == sample.position else each) for each in numbers)

    @cached_property
    def _spare(self) -> int:
        """The number of the example row that takes the place of a row in its own examples."""
        size = len(self._dataset.example_data)
        if len(self.numbers) == size - 1:
            return next(number for number in range(size) if number not in self.numbers)
        return int(self.draw(size, len(self.numbers) + 1)[-1])  # a longer draw begins with the same rows

    def draw(self, size: int, wanted: int) -> Sequence[int]:
        """Draw the numbers of example rows, by the seed of the dataset."""
        import numpy as np

        drawn: list[int] = np.random.RandomState(self._dataset.seed).choice(size, wanted, replace=False).tolist()
        return drawn

    def _retrieve(self, spec: str) -> None:
        from kshot.retrievers import make

        splits = {self._dataset.example_set, self._dataset.evaluation_set}
        pool = SimpleNamespace(
            train=self._dataset.example_data,
            test=self._dataset.evaluation_data,
            same_split=None if splits == {None} else len(splits) == 1,  # a class without names loads rows of its own
        )
        if not len(pool.train):
            raise DataError("it has no examples to choose from", where=where_of(self._dataset), hint="Set example_set.")
        retriever: ExampleRetriever = make(spec, pool, ice_num=self._dataset.num_shots, seed=self._dataset.seed)
        self._chosen = self._writer.call(f"the retriever {spec}", retriever.retrieve)
        self._check_choice(spec, len(pool.train), len(pool.test))
        self._retriever = retriever

    def _check_choice(self, spec: str, train: int, test: int) -> None:
        """Refuse the choice of a plug-in that names no training rows, or does not fit the test rows."""
        chosen, where = self._chosen or (), where_of(self._dataset)
        if len(chosen) != test:
            raise DataError(f"the retriever {spec} chose examples for {len(chosen)} of {test} rows", where=where)
        numbers: Iterator[object] = (number for row in chosen for number in row)
        for number in numbers:
            if type(number) is bool or not isinstance(number, Integral) or not 0 <= int(number) < train:
                raise DataError(
                    f"the retriever {spec} chose the training row {number!r}; there are {train} rows", where=where
                )

    def _fits(self, shots: Sequence[Sample]) -> bool:
        if self._count_tokens is None or self.budget is None:
            return True
        return self._count_tokens(plain(self._writer.example_messages(shots))) <= self.budget


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Layout:
    """The delimiters and the head of a dataset's prompts.

    ``target_delimiter`` None: one space, where no white space stands already. With ``keep_whitespace`` nothing is
    stripped, and nothing but the delimiters is added.
    """

    system: str = ""
    description: str = ""
    target_delimiter: str | None = None
    fewshot_delimiter: str = "\n\n"
    keep_whitespace: bool = False
    one_turn: bool = False

    @classmethod
    def of(cls, dataset: Dataset) -> Layout:
        """Read the layout of a dataset; the user's settings go before the attributes of the class."""
        args = dataset.args
        given = {
            "description": args.description,
            "target_delimiter": args.target_delimiter,
            "fewshot_delimiter": args.fewshot_delimiter,
        }
        chosen: dict[str, Any] = {
            name: getattr(dataset, name) if value is None else decode_escapes(value) for name, value in given.items()
        }
        for name, value in chosen.items():
            if not (isinstance(value, str) or (value is None and name == "target_delimiter")):
                raise DataError(f"{name} is {value!r}; it must be a text", where=where_of(dataset))
        keep: object = dataset.keep_whitespace
        if not isinstance(keep, bool):
            raise DataError(f"keep_whitespace is {keep!r}; it must be True or False", where=where_of(dataset))
        return cls(
            system=args.system_prompt or "",
            keep_whitespace=keep,
            one_turn=dataset.model_type == "chat" and args.examples_as == "text",
            **chosen,
        )

    def value(self, value: T) -> T:
        """Return a value of a row as a prompt shows it."""
        found: T = value if self.keep_whitespace else stripped(value)
        return found

    def text(self, messages: Sequence[Message]) -> str:
        """Write examples and question as a base model reads them, after the system prompt and the description."""
        whole = self._before(self.head(), self.body(messages))
        return whole if self.keep_whitespace else whole.strip()

    def body(self, messages: Sequence[Message]) -> str:
        """Write examples and question: each answer follows its question, a delimiter ends each round."""
        text = ""
        for index, message in enumerate(messages):
            if index and message.role == "assistant":
                text = self._answered(text, message.text)
            else:
                text += (self.fewshot_delimiter if index else "") + message.text
        return text

    def chat(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Write a conversation; system prompt and description become the system message.

        With ``one_turn`` examples and question are one message of the user.
        """
        if self.one_turn and len(messages) > 1:
            messages = [Message("user", self.body(messages))]
        head = self.head()
        return (Message("system", head), *messages) if head else tuple(messages)

    def continuation(self, prompt: Prompt, text: str) -> str:
        """Return an answer as it follows its prompt: after the delimiter, or bare where the prompt is a chat."""
        text = self.value(text)
        if prompt.messages:
            return text
        if self.target_delimiter is not None:
            return self.target_delimiter + text
        if not self.keep_whitespace:
            return f" {text}" if prompt.text else text
        return self._answered(prompt.text, text)[len(prompt.text) :]

    def choice(self, prompt: Prompt, text: str, baseline: Prompt | None = None) -> Choice:
        """Return an answer that is measured after its prompt.

        Where white space is kept, that at the end of the prompt is measured with the answer, as in lm-eval: a token may
        reach from one into the other.
        """
        spaced = self.keep_whitespace and not prompt.messages and prompt.text[-1:].isspace()
        return Choice(prompt, self.continuation(prompt, text), baseline, self.value(text), spaced)

    def head(self) -> str:
        """Return what comes once, before all examples."""
        return self._before(self.system, self.description)

    def _answered(self, question: str, answer: str) -> str:
        return glue(question, answer) if self.target_delimiter is None else question + self.target_delimiter + answer

    def _before(self, head: str, rest: str) -> str:
        """Join head and rest; where no white space is between them, a delimiter goes there."""
        if not head or not rest or self.keep_whitespace or head[-1].isspace() or rest[0].isspace():
            return head + rest
        return head + self.fewshot_delimiter + rest


_SHOTS = {"num_shots", "max_num_shots"}
_OPTIONS = settings_names(DatasetSettings) - settings_names(RowSettings)
"""Options that a class may read by name; its own fields may be called as those of rows."""

PostProcessing: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]
"""Turns the raw answers of all samples, in order, into those that are scored."""

TaskParts: TypeAlias = tuple[
    Callable[[Sample, Sequence[Sample]], Any], Callable[[Sample, Any], RequestGenerator], PostProcessing | None
]
"""The template, the method and the ``finish`` of a Task."""


class DatasetCompiler:
    """A dataset with its rows read; ``task`` makes what the engine runs. Each kind of dataset has a subclass."""

    dataset_class: ClassVar[type[Dataset]] = Dataset
    examples_class: ClassVar[type[ShownExamples]] = ShownExamples
    layout_class: ClassVar[type[Layout]] = Layout

    def __init__(self, dataset: Dataset) -> None:
        """Read the rows, check what the class defines, and choose the examples."""
        self.dataset = dataset
        self.where = where_of(dataset)
        self.notes: list[str] = []
        self.examples = self.examples_class(dataset, self)
        self._rendered: tuple[Any, list[Message]] = (None, [])
        self._own_names = _own_names(type(dataset), self.dataset_class)
        dataset.args.mark_read(*self._own_names & _OPTIONS)
        template = dataset.args.chat_template
        self._render_chat = (
            None if template is None else partial(renderer(read_template(template)), add_generation_prompt=True)
        )
        self._prepare()
        self._read_rows()
        self._compile_instruction()
        self._format_rows()
        self._references = self._own_references()
        first = self._checked(dataset.evaluation_data[0], "row 0")
        for text in likely_mistakes(dataset, self.dataset_class, lambda: self.fields(first, self.locate(0, first))):
            self.note(text)
        if not self._constructs_examples:
            self.examples.choose()
        # an override of construct_examples may call the method that it replaces
        dataset._examples = self._default_examples  # noqa: SLF001 - private, so that a subclass may use the name

    def _prepare(self) -> None:
        """Let the class set its attributes, then check those that are needed before the rows."""
        dataset = self.dataset
        self._choose_splits()
        self.call("init_arguments", dataset.init_arguments)
        self._choose_splits()
        if dataset.args.metric:
            dataset.metrics = requested_metrics(dataset)
        dataset.metrics = checked_metrics(dataset)

    def _compile_instruction(self) -> None:
        """Compile the instruction; a class may choose it when it loads its rows."""
        dataset = self.dataset
        if dataset.args.instruction is not None:
            dataset.instruction = decode_escapes(dataset.args.instruction)
        if dataset.instruction is None:
            raise DataError("it has no instruction", where=self.where, hint="Set one, or give --instruction.")
        self.layout = self.layout_class.of(dataset)
        if self.layout.keep_whitespace:
            dataset.jinja2_env.keep_trailing_newline = True
        self._render = compile_string(dataset.instruction, dataset.jinja2_env, where=self.where)

    def _choose_splits(self) -> None:
        self.dataset.evaluation_set = self.dataset.args.evaluation_set or self.dataset.evaluation_set
        self.dataset.example_set = self.dataset.args.example_set or self.dataset.example_set

    def _read_rows(self) -> None:
        dataset = self.dataset
        place = (dataset.args.dataset_path, dataset.subset_name, dataset.evaluation_set, dataset.example_set)
        self.call("load_raw_dataset", lambda: dataset.load_raw_dataset(*place))
        rows: dict[str, object] = {"evaluation_data": dataset.evaluation_data, "example_data": dataset.example_data}
        for name, found in rows.items():
            if not isinstance(found, Sized):
                raise DataError(f"{name} is {type(found).__name__}, not a list of rows", where=self.where)
        if not len(dataset.evaluation_data):
            raise DataError("there are no rows to evaluate", where=self.where)
        if dataset.args.limit is not None and dataset.args.limit < len(dataset.evaluation_data):
            dataset.evaluation_data = first_rows(dataset.evaluation_data, dataset.args.limit)

    def _format_rows(self) -> None:
        """Do nothing: rows are formatted when they are asked. A compiler whose references need it does so here."""

    def call(self, name: str, method: Callable[[], Any]) -> Any:
        """Call code that the class brings; an error names the dataset and the method."""
        try:
            return method()
        except KshotError:
            raise
        except (Exception, SystemExit) as exc:
            raise DataError(f"{name} fails: {type(exc).__name__}: {exc}", where=self.where) from exc

    def note(self, text: str) -> None:
        """Tell the user something about this dataset."""
        self.notes.append(f"{self.dataset.display_name}: {text}")

    def mark_unread(self, *names: str) -> None:
        """Note that options change nothing here, although they were read; those that the class names may do so."""
        self.dataset.args.mark_unread(*set(names) - self._own_names)

    def mark_unread_options(self) -> None:
        """Note which options of prompts change nothing in this dataset."""
        dataset = self.dataset
        chat = dataset.model_type == "chat"
        shown = bool(dataset.num_shots) or self._constructs_examples or bool(self._own_names & _SHOTS)
        if not shown:
            self.mark_unread("max_example_tokens", "retriever", "examples_as")
            if type(dataset).load_raw_dataset is Dataset.load_raw_dataset:
                self.mark_unread("example_set")
        if shown and (self.layout.one_turn or not chat):
            return
        if chat or not self.measures_after_delimiter:
            self.mark_unread("target_delimiter")
        if not self._constructs_examples and (chat or not self.layout.head()):
            self.mark_unread("fewshot_delimiter")

    @property
    def measures_after_delimiter(self) -> bool:
        """Whether answers are measured after a prompt and the delimiter."""
        return False

    @property
    def _constructs_examples(self) -> bool:
        """Whether the class constructs its examples itself."""
        return type(self.dataset).construct_examples is not Dataset.construct_examples

    @property
    def processes_answers(self) -> bool:
        """Whether the class has a ``post_processing`` of its own."""
        return type(self.dataset).post_processing is not self.dataset_class.post_processing

    # ---- from rows to samples ----

    def samples(self, first: int = 0) -> Iterator[Sample]:
        """Format the rows one by one, from the one with the number ``first`` on."""
        for index, row in islice(enumerate(self.dataset.evaluation_data), first, None):
            yield self.sample(index, self._checked(row, f"row {index}"))

    def sample(self, index: int, row: Row) -> Sample:
        """Make the sample of one evaluated row; the subclass knows what its target is."""
        raise NotImplementedError

    def example_at(self, index: int) -> Sample:
        """Make the sample of the example row with this number."""
        return self.example(index, self._checked(self.dataset.example_data[index], f"example {index}"))

    def example(self, index: int, row: Row) -> Sample:
        """Make the sample of one example row."""
        raise NotImplementedError

    def _checked(self, row: Any, name: str) -> Row:
        if not isinstance(row, Mapping):
            kind = type(row).__name__
            raise DataError(f"a row must be a dict of named fields, not {kind}", where=f"{self.where}, {name}")
        return row

    def fields(self, row: Row, where: str) -> dict[str, Any]:
        """Call ``format_instance`` on a copy of the row; an error names the row."""
        return self.format(copied(dict(row)), where)

    def format(self, row: dict[str, Any], where: str) -> dict[str, Any]:
        """Call ``format_instance``, which may change the row; an error names it."""
        try:
            formatted = self.dataset.format_instance(row)
        except KeyError as exc:
            have = ", ".join(str(name) for name in row)
            wanted = ", ".join(repr(each) for each in exc.args)
            raise DataError(f"format_instance wants {wanted}; the row has: {have}", where=where) from exc
        except KshotError:
            raise
        except Exception as exc:
            raise DataError(f"format_instance fails: {type(exc).__name__}: {exc}", where=where) from exc
        if not isinstance(formatted, Mapping):
            raise DataError(f"format_instance returned {type(formatted).__name__}, not a dict", where=where)
        return dict(formatted)

    def locate(self, index: int, row: Row, *, example: bool = False) -> str:
        """Return how a message names a row."""
        kind = "example" if example else "row"
        own = self._own_id(row)
        return f"{self.where}, {kind} {index}" + ("" if own is None else f" (id {own})")

    def identify(self, index: int, row: Row) -> str:
        """Return the id of a row: its own if it has one, else its number."""
        own = self._own_id(row)
        return str(index) if own is None else own

    def _own_id(self, row: Row) -> str | None:
        found = None if self.dataset.id_column is None else row.get(self.dataset.id_column)
        return None if found is None or found == "" else str(found)

    def category(self, row: Row, where: str) -> str | None:
        """Return the category of a row."""
        if self.dataset.category_column is None:
            return None
        if self.dataset.category_column not in row:
            raise DataError(f"the row has no category column {self.dataset.category_column!r}", where=where)
        return str(row[self.dataset.category_column])

    def own_reference(self, index: int) -> tuple[Any, ...]:
        """Return the reference that the class defines for a row, as a 1-tuple; empty if it defines none."""
        return () if self._references is None else (self._references[index],)

    def _own_references(self) -> Sequence[Any] | None:
        if type(self.dataset).references is Dataset.references:
            return None

        def read() -> list[Any]:
            found = self.dataset.references
            return list(found() if callable(found) else found)

        listed: list[Any] = self.call("references", read)
        if len(listed) != len(self.dataset.evaluation_data):
            raise DataError(
                f"references has {len(listed)} entries for {len(self.dataset.evaluation_data)} rows", where=self.where
            )
        return listed

    # ---- from samples to prompts ----

    def question(self, sample: Sample, *, example_idx: int = -1, turn_idx: int = 0, shots: int = 0, **more: Any) -> str:
        """Render the instruction for a sample."""
        context = {name: self.layout.value(value) for name, value in sample.fields.items()}
        context |= {
            "num_turns": len(sample.fields["source"]) if self.dataset.multi_turn and example_idx < 0 else 0,
            "turn_idx": turn_idx,
            "real_num_shots": shots,
            "example_idx": example_idx,
            "dataset_name": self.dataset.dataset_name,
            "subset_name": self.dataset.subset_name,
            "display_name": self.dataset.display_name,
            **more,
        }
        try:
            return self._render(context)
        except DataError as exc:
            exc.where = f"{self.where}, {'example' if example_idx >= 0 else 'sample'} {sample.id}"
            raise

    def answer_text(self, sample: Sample) -> str:
        """Return the answer as an example shows it."""
        raise NotImplementedError

    def example_messages(self, shots: Sequence[Sample]) -> list[Message]:
        """Write examples as a conversation: each question, then its answer."""
        messages = []
        for index, shot in enumerate(shots):
            messages.append(Message("user", self.question(shot, example_idx=index, turn_idx=-1, shots=len(shots))))
            messages.append(Message("assistant", self.answer_text(shot)))
        return messages

    def _default_examples(self) -> list[Message]:
        return self.example_messages(self.examples.shots or self.examples.drawn)

    def prompt(self, sample: Sample, shots: Sequence[Sample], question: str) -> Prompt:
        """Put the examples and a question together, for a base or a chat model."""
        messages: list[Message]
        if self._constructs_examples:
            examples = self.call("construct_examples", lambda: self.dataset.construct_examples(dict(sample.fields)))
            if isinstance(examples, str) and examples and question:  # one turn: chat templates want roles to alternate
                shown = examples if self.layout.keep_whitespace else examples.rstrip() + self.layout.fewshot_delimiter
                return self.prompt_of([Message("user", shown + question)])
            messages = as_messages(examples, self.where)
        else:
            if self._rendered[0] is not shots:
                self._rendered = (shots, self.example_messages(shots))
            messages = self._rendered[1]
        return self.prompt_of([*messages, Message("user", question)] if question else messages)

    def prompt_of(self, messages: Sequence[Message]) -> Prompt:
        """Make the prompt of a base model (the joined text) or a chat model (the messages), system prompt first."""
        if self.dataset.model_type != "chat":
            return Prompt(self.layout.text(messages))
        chat = self.layout.chat(messages)
        return Prompt(messages=fold_system(chat, self._render_chat) if self._render_chat is not None else chat)

    # ---- the task ----

    @property
    def average(self) -> Average:
        """How the subsets of the dataset are averaged."""
        return self.dataset.args.average or "macro"

    def example_facts(self) -> dict[str, Any]:
        """Return what a run records of the examples; how many a class constructs itself is not known."""
        facts = self.examples.facts()
        if self._constructs_examples:
            facts.pop("shots")
        return facts

    def sampling_options(self) -> Mapping[str, Any]:
        """Return the options of generation that the class sets."""
        return self.dataset.extra_model_args

    def task(self, count_tokens: TokenCounter | None = None, recorded: Mapping[str, Any] | None = None) -> Task[Any]:
        """Make the Task.

        ``count_tokens`` counts the tokens of a text for the model that will be asked; ``recorded`` are the facts of an
        earlier run, which say how many examples it kept.
        """
        raise NotImplementedError


# ---- the names that a class uses ----


def _own_names(cls: type, base: type) -> frozenset[str]:
    """Return the names that the methods of a class use, without those of its base: options that it may read later."""
    own = [each for each in cls.__mro__ if each not in base.__mro__]
    return frozenset(name for each in own for value in vars(each).values() for name in _names_of(value))


def _names_of(value: Any) -> Iterator[str]:
    match value:
        case property():
            for part in (value.fget, value.fset):
                yield from _names_of(part)
        case classmethod() | staticmethod():
            yield from _names_of(value.__func__)
        case cached_property():
            yield from _names_of(value.func)
        case FunctionType():
            yield from _names_of(value.__code__)
        case CodeType():
            yield from value.co_names
            for constant in value.co_consts:
                yield from (constant,) if isinstance(constant, str) else _names_of(constant)


class DatasetSamples:
    """The samples of a dataset. Only the first ones, which a rehearsal makes, stay in memory for the next passes."""

    def __init__(self, compiler: DatasetCompiler) -> None:
        self._compiler = compiler
        self._first: list[Sample] = []

    @property
    def subset(self) -> str:
        """The subset that they belong to; the name of the dataset if it has none."""
        return self._compiler.dataset.subset_name or self._compiler.dataset.display_name

    @property
    def average(self) -> Average:
        """How the subsets of its dataset are averaged."""
        return self._compiler.average

    def __len__(self) -> int:
        return len(self._compiler.dataset.evaluation_data)

    def __iter__(self) -> Iterator[Sample]:
        yield from self._first
        for sample in self._compiler.samples(len(self._first)):
            if sample.position == len(self._first) < _KEPT_SAMPLES:
                self._first.append(sample)
            yield sample


_KEPT_SAMPLES = 10
