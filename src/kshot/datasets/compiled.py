"""What kshot makes of a dataset class: samples of its rows, examples within a budget, prompts, answers in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any, ClassVar

from kshot.core.errors import DataError, KshotError
from kshot.core.records import Message, Prompt, Sample, plain
from kshot.core.task import Task
from kshot.datasets.checks import check_metrics, chosen_metrics, doubts
from kshot.datasets.dataset import Dataset, place
from kshot.datasets.rendering import as_messages, copied, stripped
from kshot.prompts import compile_string, decode_escapes
from kshot.prompts.chat import fold_system, read_template, renderer
from kshot.retrievers import Retriever
from kshot.tables.loading import Row, first_rows

Count = Callable[[str], int]


class Compiled:
    """A dataset with its rows read; ``task`` gives what the engine runs. One subclass per kind of dataset."""

    kind: ClassVar[type[Dataset]] = Dataset

    def __init__(self, dataset: Dataset) -> None:
        """Read the rows, check what the class defines, and draw the examples."""
        self.dataset = dataset
        self.where = place(dataset)
        self.notes: list[str] = []
        self.shots: tuple[Sample, ...] = ()
        self._retriever: Retriever | None = None
        self._count: Count | None = None
        self._rendered: tuple[Any, list[Message]] = (None, [])
        template = dataset.args.chat_template
        self._chat_text = (
            None if template is None else partial(renderer(read_template(template)), add_generation_prompt=True)
        )
        self._load()
        # an override of construct_examples may call the one it replaces
        dataset._examples = lambda: self._example_messages(self.shots or self._drawn)  # noqa: SLF001

    def _load(self) -> None:
        """Read the rows and check what the class defines."""
        self._choose_splits()
        self.call("init_arguments", self.dataset.init_arguments)
        self._choose_splits()
        self.dataset.metrics = chosen_metrics(self.dataset)
        check_metrics(self.dataset)
        if self.dataset.args.instruction is not None:
            self.dataset.instruction = decode_escapes(self.dataset.args.instruction)
        if self.dataset.instruction is None:
            raise DataError("it has no instruction", where=self.where, hint="Set one, or give --instruction.")
        self._render = compile_string(self.dataset.instruction, self.dataset.jinja2_env, where=self.where)
        where_from = (
            self.dataset.args.dataset_path,
            self.dataset.subset_name,
            self.dataset.evaluation_set,
            self.dataset.example_set,
        )
        self.call("load_raw_dataset", lambda: self.dataset.load_raw_dataset(*where_from))
        for name in ("evaluation_data", "example_data"):
            held = getattr(self.dataset, name)
            if not hasattr(held, "__len__"):
                raise DataError(f"{name} is {type(held).__name__}, not a list of rows", where=self.where)
        if not len(self.dataset.evaluation_data):
            raise DataError("there are no rows to evaluate", where=self.where)
        if self.dataset.args.limit is not None and self.dataset.args.limit < len(self.dataset.evaluation_data):
            self.dataset.evaluation_data = first_rows(self.dataset.evaluation_data, self.dataset.args.limit)
        self._references = self._own_references()
        first = self._checked(self.dataset.evaluation_data[0], "row 0")
        for hint in doubts(self.dataset, self.kind, lambda: self.fields(first, self.locate(0, first))):
            self.note(hint)
        if self.dataset.args.retriever and self.dataset.num_shots and not self.overrides("construct_examples"):
            self._retriever = self._make_retriever(self.dataset.args.retriever)
        elif not self.overrides("construct_examples"):
            self.shots = self._drawn

    def call(self, name: str, method: Callable[[], Any]) -> Any:
        """Call a method that the class defines; whatever it raises names the dataset and the method."""
        try:
            return method()
        except KshotError:
            raise
        except Exception as exc:
            raise DataError(f"{name} fails: {type(exc).__name__}: {exc}", where=self.where) from exc

    def samples(self) -> Iterator[Sample]:
        """Format the rows one by one."""
        for index, row in enumerate(self.dataset.evaluation_data):
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
            formatted = self.dataset.format_instance(copied(dict(row)))
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
        """Name a row for a message."""
        kind = "example" if example else "row"
        own = self._own_id(row)
        return f"{self.where}, {kind} {index}" + ("" if own is None else f" (id {own})")

    def identify(self, index: int, row: Row) -> str:
        """Give the id of a row: its own where it has one, else its number."""
        own = self._own_id(row)
        return str(index) if own is None else own

    def _own_id(self, row: Row) -> str | None:
        found = None if self.dataset.id_column is None else row.get(self.dataset.id_column)
        return None if found is None or found == "" else str(found)

    def category(self, row: Row, where: str) -> str | None:
        """Give the category of a row."""
        if self.dataset.category_column is None:
            return None
        if self.dataset.category_column not in row:
            raise DataError(f"the row has no category column {self.dataset.category_column!r}", where=where)
        return str(row[self.dataset.category_column])

    def own_reference(self, index: int) -> tuple[Any, ...]:
        """Give the reference the class defines for a row, as a 1-tuple; empty where it defines none."""
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

    def note(self, text: str) -> None:
        """Say something that the user of this dataset should know."""
        self.notes.append(f"{self.dataset.display_name}: {text}")

    # ---- examples ----

    @cached_property
    def _drawn(self) -> tuple[Sample, ...]:
        wanted = self.dataset.num_shots
        if not wanted:
            return ()
        have = len(self.dataset.example_data)
        if not have:
            raise DataError(f"it has no examples to show ({wanted} wanted)", where=self.where, hint="Set example_set.")
        if wanted >= have:
            if wanted > have:
                self.note(f"{wanted} examples wanted, all {have} shown")
            drawn = range(have)
        else:
            import numpy as np

            drawn = np.random.RandomState(self.dataset.seed).choice(have, wanted, replace=False).tolist()
        rows = [(i, self._checked(self.dataset.example_data[i], f"example {i}")) for i in drawn]
        return tuple(self.example(i, row) for i, row in rows)

    def example(self, index: int, row: Row) -> Sample:
        """Make the sample of one example row."""
        raise NotImplementedError

    def overrides(self, method: str) -> bool:
        """Whether the class replaces one of kshot's own methods."""
        return getattr(type(self.dataset), method) is not getattr(self.kind, method)

    def _make_retriever(self, name: str) -> Retriever:
        from kshot.retrievers import make

        pool = SimpleNamespace(train=self.dataset.example_data, test=self.dataset.evaluation_data)
        if not len(pool.train):
            raise DataError("it has no examples to choose from", where=self.where, hint="Set example_set.")
        made: Retriever = make(name, pool, ice_num=self.dataset.num_shots, seed=self.dataset.seed)
        self.call(f"the retriever {name}", lambda: made.chosen)
        return made

    def select(self, sample: Sample) -> Sequence[Sample]:
        """The examples shown before a sample: the same for all, or those its retriever chose, within the budget."""
        if self._retriever is None:
            return self.shots
        chosen = [
            (i, self._checked(self.dataset.example_data[i], f"example {i}"))
            for i in self._retriever.chosen[sample.position]
        ]
        shots = tuple(self.example(i, row) for i, row in chosen)
        count, budget = self._count, self.dataset.args.max_example_tokens
        while count is not None and shots and count(plain(self._example_messages(shots))) > budget:
            shots = shots[1:]  # the nearest stand last
        return shots

    def facts(self) -> dict[str, Any]:
        """What the run's spec records about the examples."""
        return {"shots": len(self.shots)} if self._retriever is None else {"retriever": dict(self._retriever.facts)}

    def fit_examples(self, count: Count | None, kept: int | None = None) -> None:
        """Keep the whole examples, from the front, that fit the token budget of the model's tokenizer."""
        self._count = count
        if not self.shots:
            return
        if kept is not None:
            self.shots = self.shots[:kept]
            return
        if count is None:
            self.note("the example budget needs a tokenizer and is not applied")
            return
        budget, drawn = self.dataset.args.max_example_tokens, len(self.shots)
        while self.shots and count(plain(self._example_messages(self.shots))) > budget:
            self.shots = self.shots[:-1]
        if len(self.shots) < drawn:
            self.note(f"{len(self.shots)} of {drawn} examples fit {budget} tokens")

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
        """Give the answer as an example shows it."""
        raise NotImplementedError

    def prompt(self, sample: Sample, shots: Sequence[Sample], question: str) -> Prompt:
        """Put the examples and a question together, for a base or a chat model."""
        messages: list[Message]
        if self.overrides("construct_examples"):
            examples = self.call("construct_examples", lambda: self.dataset.construct_examples(dict(sample.fields)))
            if isinstance(examples, str) and examples and question:  # one turn: chat templates want roles to alternate
                return self.prompt_of([Message("user", f"{examples.rstrip()}\n\n{question}")])
            messages = as_messages(examples, self.where)
        else:
            messages = self._cached_examples(shots)
        asked = [*messages, Message("user", question)] if question else messages
        return self.prompt_of(asked)

    def prompt_of(self, messages: Sequence[Message]) -> Prompt:
        """Make the prompt of a base model (the joined text) or a chat model (the messages, system message first)."""
        if self.dataset.model_type != "chat":
            return Prompt(plain(messages))
        lead = (Message("system", self.dataset.args.system_prompt),) if self.dataset.args.system_prompt else ()
        chat = (*lead, *messages)
        return Prompt(messages=fold_system(chat, self._chat_text) if self._chat_text is not None else chat)

    def _cached_examples(self, shots: Sequence[Sample]) -> list[Message]:
        if self._rendered[0] is not shots:
            self._rendered = (shots, self._example_messages(shots))
        return self._rendered[1]

    # ---- the task ----

    def task(self, count: Count | None = None, kept: int | None = None) -> Task[Any]:
        """Make the Task; ``count`` counts a text's tokens for the model that will be asked."""
        raise NotImplementedError

    def _choose_splits(self) -> None:
        self.dataset.evaluation_set = self.dataset.args.evaluation_set or self.dataset.evaluation_set
        self.dataset.example_set = self.dataset.args.example_set or self.dataset.example_set

    def rows(self) -> Samples:
        """The samples as a re-iterable stream of known length."""
        return Samples(self)


class Samples:
    """Samples of a dataset, formatted anew on each pass, so that none is held."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled

    def __len__(self) -> int:
        return len(self._compiled.dataset.evaluation_data)

    def __iter__(self) -> Iterator[Sample]:
        return self._compiled.samples()
