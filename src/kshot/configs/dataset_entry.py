"""One entry of a config's datasets: its dict, its rows, its prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from kshot import retrievers
from kshot.configs.foreign_template import ForeignRetriever, with_foreign_templates
from kshot.configs.home import Home, Part
from kshot.configs.names import FRAMEWORK_INFERENCERS, INFERENCERS, ConfigCallable, short, unknown
from kshot.configs.project import Project
from kshot.configs.rendering import PromptKind, Rendered, make_plan, render
from kshot.configs.rows import SelectedRows, Splits, read_rows
from kshot.configs.scope import Scope, located
from kshot.configs.values import repeats
from kshot.core.errors import DataError, KshotError
from kshot.core.protocols import ExampleRetriever
from kshot.prompts.dialogue import Messages
from kshot.retrievers.base import Retriever
from kshot.retrievers.embedding import LabelPrompts

# ---- entries that kshot does not run: what they are, and what runs them ----

_AISBENCH, _OPENCOMPASS = "AISBench runs it: ais_bench FILE.", "OpenCompass runs it: opencompass FILE."

_TASKS = {
    "SWEBench": "SWE-bench: an agent repairs software in containers, and the software's own tests judge the repair",
    "Harbor": "Harbor: an agent works on tasks in containers, which judge what it leaves",
    "TAU2Bench": "tau2-bench: an agent calls tools, and talks to a user whom a second model plays",
    "VBench": "VBench: videos that a model has made are rated by other models",
}
"""What AISBench runs by tasks of its own, by the beginning of the names of datasets and tasks."""

_INFERENCERS = {
    "ToTInferencer": "a tree of thoughts: the config's prompt_wrapper has the model propose steps and rate them",
    "SWCELossInferencer": "the loss of all rows as one sequence of tokens, in sliding windows (bits per character)",
    "MinKPercentInferencer": "the likelihood of the least likely tokens of a text, a sign that a model has seen it",
    **dict.fromkeys(("ChatMLInferencer", "ParallelChatMLInferencer"), "rows that are ChatML conversations"),
}
_CHATML = "a ChatML dataset: a path and an evaluator, for which OpenCompass makes prompts, reader and judge itself"
_OWN_TASKS = ("OpenICL", "Empty")
"""The beginnings of the names of ordinary tasks, which run what the entries describe, or nothing."""


def tasks_named(variables: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the framework's special tasks by which a whole evaluation file runs its entries."""
    found: dict[str, None] = {}
    for section in ("infer", "eval"):
        value: Any = variables.get(section)
        for key in ("runner", "task", "type"):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None and not short(value).startswith(_OWN_TASKS):
            found[short(value)] = None
    return tuple(found)


def what_it_is(body: Mapping[str, Any], tasks: tuple[str, ...]) -> tuple[str, str]:
    """Return what an entry is and what runs it, if kshot does not; two empty texts if it does."""
    infer_cfg, eval_cfg = body.get("infer_cfg"), body.get("eval_cfg")
    inferencer = infer_cfg.get("inferencer") if isinstance(infer_cfg, Mapping) else None
    kind = short(inferencer.get("type")) if isinstance(inferencer, Mapping) else ""
    if kind in _INFERENCERS:
        return f"for {kind}, {_INFERENCERS[kind]}", _OPENCOMPASS
    if kind and isinstance(eval_cfg, Mapping) and "evaluator" in eval_cfg:
        return "", ""
    for name in (short(body.get("type", "")), *tasks):
        if said := next((said for start, said in _TASKS.items() if name.startswith(start)), ""):
            return said, _AISBENCH
    if infer_cfg is None and "reader_cfg" not in body and tasks:
        return f"the work of {tasks[0]}, a task of its framework's own", _AISBENCH
    if infer_cfg is None and isinstance(body.get("args"), Mapping) and "type" not in body:
        return "the work of an agent (it has args, and no prompts)", _AISBENCH
    return (_CHATML, _OPENCOMPASS) if infer_cfg is None and "evaluator" in body else ("", "")


# ---- an entry ----

_TAKEN_OUT = ("type", "abbr", "reader_cfg", "infer_cfg", "eval_cfg", "n", "k")  # by the frameworks themselves
_NOT_FOR_LOADERS = frozenset((*_TAKEN_OUT, "judge_infer_cfg", "local_mode", "trust_remote_code"))
"""Keys that are not meant for the loader, or do not change the rows."""


@dataclass(eq=False, repr=False)
class DatasetEntry:
    """A dataset as a config writes it: ``reader_cfg``, ``infer_cfg``, ``eval_cfg``, ``abbr``, ``type``, ``path``."""

    body: dict[str, Any]
    _: KW_ONLY
    strict: bool = True
    where: str = ""
    registered: Mapping[str, Any] = field(default_factory=dict)
    """What the config gives a name."""
    framework: str = ""
    """What it was written for."""
    project: Project | None = None
    """Where the rows that it names must lie; None for a dict that the user gave."""
    homes: Mapping[str, Home] = field(default_factory=dict)
    """The projects whose source is here, by framework."""
    tasks: tuple[str, ...] = ()
    """Those of the framework that the config's ``infer`` and ``eval`` name."""
    used: dict[tuple[Part, str], Home] = field(default_factory=dict, init=False)
    """What of the entry ran by the code of homes. It grows."""
    notes: dict[str, None] = field(default_factory=dict, init=False)
    """Notes for the user, each once. It grows."""

    def with_body(self, **changes: Any) -> DatasetEntry:
        """Return an entry of the same config with some values replaced."""
        return replace(self, body={**self.body, **changes})

    @property
    def is_run(self) -> bool:
        """Whether kshot runs it: some entries are for agents, or for inferencers that kshot does not have."""
        return not what_it_is(self.body, self.tasks)[0]

    def check_is_run(self) -> None:
        """Raise DataError, which says what the entry is, if kshot does not run it."""
        what, by = what_it_is(self.body, self.tasks)
        if what:
            raise DataError(f"it is {what}; kshot does not run it", where=self.place, hint=by)

    def __getitem__(self, key: str) -> Any:
        """Return one of the dict's values."""
        return self.body[key]

    def __contains__(self, key: str) -> bool:
        """Whether the dict has it."""
        return key in self.body

    def get(self, key: str, default: Any = None) -> Any:
        """Return one of the dict's values, or a default."""
        return self.body.get(key, default)

    def __repr__(self) -> str:
        """Show what it is called."""
        return f"<config entry {self.abbr}>"

    def note_ignored(self, keys: Iterable[str], loader: str) -> None:
        """Note keys that the loader does not take, unless they are not meant for it."""
        if ignored := [key for key in keys if key not in _NOT_FOR_LOADERS]:
            self.notes[f"{loader} does not take {', '.join(ignored)}: no effect on the rows"] = None

    @property
    def abbr(self) -> str:
        """Its name in tables."""
        named = self.body.get("abbr")
        if named is not None:
            return str(named)
        path = str(self.body.get("path") or short(self.body.get("type", "entry"))).strip("/")
        name = self.body.get("name")
        return "_".join(str(part).replace("/", "_") for part in (path, name) if part)

    @property
    def place(self) -> str:
        """The file and the entry, for messages."""
        return f"{self.where}, {self.abbr}" if self.where else self.abbr

    @property
    def scope(self) -> Scope:
        """What its names stand for."""
        given = None if self.project is None else self.project.given
        return Scope(self.place, self.framework, self.registered, self.homes, given, self.used)

    def _part(self, name: str) -> dict[str, Any]:
        value = {} if self.body.get(name) is None else self.body[name]
        if not isinstance(value, Mapping):
            raise DataError(f"{name} is {value!r:.80}, not a dict", where=self.place)
        return dict(value)

    @property
    def reader_cfg(self) -> dict[str, Any]:
        """Its columns and splits."""
        return self._part("reader_cfg")

    @property
    def infer_cfg(self) -> dict[str, Any]:
        """Its templates, retriever and inferencer."""
        return self._part("infer_cfg")

    @property
    def eval_cfg(self) -> dict[str, Any]:
        """Its evaluator and clean-ups."""
        return self._part("eval_cfg")

    @property
    def repeats(self) -> int:
        """How often each row is asked."""
        return repeats(self.body.get("n") or 1, "n", self.place)

    @property
    def inferencer(self) -> dict[str, Any]:
        """The inferencer's dict, of an entry that kshot runs."""
        self.check_is_run()
        return self._named_inferencer

    @property
    def _named_inferencer(self) -> dict[str, Any]:
        """The inferencer's dict, also of an entry whose prompts alone can be made."""
        config = self.infer_cfg.get("inferencer")
        if not isinstance(config, Mapping) or "type" not in config:
            raise DataError(
                "infer_cfg has no inferencer", where=self.place, hint="Write inferencer=dict(type=GenInferencer)."
            )
        return dict(config)

    @property
    def mode(self) -> str:
        """How the model is asked: gen, ppl, ll, clp, multiturn; of frameworks alone: loss, spans, functions."""
        kind = self.inferencer["type"]
        known = INFERENCERS if self.strict else {**INFERENCERS, **FRAMEWORK_INFERENCERS}
        if short(kind) not in known:
            unknown("inferencer", kind, self.place, known)
        return known[short(kind)]

    @property
    def columns(self) -> list[str]:
        """The columns that it reads: those of the question, then that of the answer."""
        given = self.reader_cfg.get("input_columns") or ()
        names = [*(given.split() if isinstance(given, str) else given), self.reader_cfg.get("output_column")]
        return [name for name in names if isinstance(name, str)]

    @property
    def list_columns(self) -> tuple[str, ...]:
        """The columns in which its retriever needs a list in each row."""
        config = self.body.get("infer_cfg")
        options = _options_of(config.get("retriever") if isinstance(config, Mapping) else None)
        found = _retriever_class(options.get("type"))
        return () if found is None else found.list_columns(options)

    def packages(self, retriever: Mapping[str, Any] | None = None) -> dict[str, tuple[str, ...]]:
        """Return the packages of kshot's extras that choosing examples needs; ``retriever`` replaces the config's."""
        config = _options_of(retriever or self.infer_cfg.get("retriever"))
        found = _retriever_class(config.get("type"))
        if found is None:
            return {}
        with located(self.place):
            return {f"{found.__name__} ({self.abbr})": found.packages({"strict": self.strict, **config})}

    def counts_tokens(self, retriever: Mapping[str, Any] | None = None) -> bool:
        """Whether the tokens of examples are counted, as the retriever asks; ``retriever`` replaces the config's."""
        return "max_tokens" in _options_of(retriever or self.infer_cfg.get("retriever"))

    # ---- prompts ----

    def prompts(
        self,
        rows: Splits,
        kind: PromptKind = "text",
        meta: Mapping[str, Any] | None = None,
        replies: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Return a prompt for each test row: text, or messages; for perplexity a list of them, one for each label."""
        return list(self.render(rows).prompts(kind, meta, replies))

    def render(self, splits: Splits, *, n: int | None = None, retriever: Mapping[str, Any] | None = None) -> Rendered:
        """Choose the examples and check the templates; each prompt is made when it is used."""
        return self.prepare(splits, n=n, retriever=retriever)[0]

    def prepare(
        self,
        splits: Splits,
        *,
        n: int | None = None,
        retriever: Mapping[str, Any] | None = None,
        count: Callable[[str], int] | None = None,
    ) -> tuple[Rendered, ExampleRetriever]:
        """Render, and return the retriever too.

        ``retriever`` replaces the config's; ``count`` gives the length of a text in tokens.
        """
        infer_cfg = self.infer_cfg if retriever is None else {**self.infer_cfg, "retriever": dict(retriever)}
        inferencer = self._named_inferencer
        only_shown = not self.strict and short(inferencer["type"]) not in INFERENCERS  # ``mode`` may refuse to run it
        if only_shown or self.mode == "clp":  # one prompt, as for generation; clp compares the options after it
            infer_cfg["inferencer"] = {**inferencer, "type": "GenInferencer"}
        try:
            times = self.repeats if n is None else n
            mode: dict[str, Any] = {"strict": self.strict, "framework": self.framework}
            rows = read_rows(self.reader_cfg, splits, abbr=self.abbr, n=times, **mode)
            infer_cfg = with_foreign_templates(infer_cfg, self.scope)
            with located(self.place):
                examples = self._retriever(rows, infer_cfg, count)
                ids = examples.retrieve()
            return render(self.reader_cfg, infer_cfg, rows, ids, **mode), examples
        except KshotError as exc:
            exc.where = exc.where or self.place
            raise

    def _retriever(
        self, rows: SelectedRows, infer_cfg: Mapping[str, Any], count: Callable[[str], int] | None
    ) -> ExampleRetriever:
        config = infer_cfg.get("retriever")
        if not isinstance(config, Mapping) or "type" not in config:
            raise DataError(
                "infer_cfg has no retriever", where=self.place, hint="Write retriever=dict(type=ZeroRetriever)."
            )
        kind = config["type"]
        found = _retriever_class(kind)
        options = {name: value for name, value in config.items() if name != "type"}
        if found is None and (home := self.scope.home("retriever", self.scope.name(kind))) is not None:
            return ForeignRetriever(home, self.scope.name(kind), options, rows)
        if found is None:
            known = [name for name in retrievers.__all__ if name.endswith("Retriever")]
            self.scope.unknown("retriever", kind, known)
        if "max_tokens" in options and count is not None:
            options.setdefault("count", count)
        if found.reads_templates:
            options = with_prompts(options, rows, strict=self.strict)
        try:
            return found(rows, strict=self.strict, **options)
        except TypeError as exc:
            raise DataError(f"{short(kind)} cannot be made: {exc}", where=self.place) from exc


def _options_of(config: Any) -> Mapping[str, Any]:
    return config if isinstance(config, Mapping) else {}


def _retriever_class(kind: Any) -> type[Retriever] | None:
    """Return the retriever that a config names by ``type``; None where kshot has none."""
    found = kind if isinstance(kind, type) else _named_retriever(short(kind))
    retriever = isinstance(found, type) and issubclass(found, Retriever) and not isinstance(kind, ConfigCallable)
    return found if retriever else None


def _named_retriever(name: str) -> Any:
    """Return the retriever that kshot or an installed package gives this name; None where there is none."""
    if name in retrievers.__all__:
        return getattr(retrievers, name)  # the package imports each retriever when it is first used
    entry = retrievers.RETRIEVERS.find(name)
    return None if entry is None else entry.load()


# ---- prompts for retrievers that choose examples by them ----

_OWN = ("ice_template", "prompt_template", "labels")
"""The options of such a retriever that say how its prompts are made."""


def with_prompts(options: Mapping[str, Any], rows: SelectedRows, *, strict: bool) -> dict[str, Any]:
    """Return the options of a retriever with a function that gives the prompts of all labels for some examples."""
    plain = {name: value for name, value in options.items() if name not in _OWN}
    if options.get("ice_template") is None:
        raise DataError(
            "the retriever has no ice_template", where=rows.abbr, hint="Give it the ice_template of infer_cfg."
        )
    wanted = {name: options[name] for name in ("ice_template", "prompt_template") if options.get(name) is not None}
    inferencer = {"type": "PPLInferencer", "labels": options.get("labels")}
    infer_cfg = {**wanted, "inferencer": inferencer, "retriever": {**plain, "type": "MDLRetriever"}}
    plan = make_plan(infer_cfg, [[0]], len(rows.input_columns), strict=strict)
    chosen: list[list[int]] = [[] for _ in rows.test]
    rendered = Rendered(rows, chosen, plan, strict=strict)

    def prompts(row: int, examples: Sequence[int]) -> LabelPrompts:
        chosen[row] = list(examples)
        ice = rendered.ice_of(row, bare=strict)
        template = plan.prompt_template
        if isinstance(ice, Messages) or template is None:
            raise DataError("examples that are messages cannot be weighed by a text model", where=rows.abbr)
        shown = str(ice)
        texts = [
            str(template.generate_label_prompt_item(rows.asked(row), shown, label)) for label in rendered.labels or ()
        ]
        return LabelPrompts(shown + plan.eos, texts)

    return {**plain, "prompts": prompts}
