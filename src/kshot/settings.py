"""Every option of an evaluation: the command line and the Python functions are both made from this class."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from kshot.core.errors import UsageError

if TYPE_CHECKING:
    from kshot.core.specs import Spec

MODEL_OPTIONS = ("dtype", "revision", "trust_remote_code", "add_bos", "device", "batch_size", "engine_option")
"""The settings of a model that runs in this process."""

SERVER_OPTIONS = ("base_url", "max_concurrency", "rpm", "tpm", "timeout", "patience")
"""The settings of a model behind a server."""

RANKING_TYPES = ("ppl_no_option", "ppl", "prob", "generation", "first_token", "auto")


LOOKUP, GENERATION, MODEL = "token lookup (-d lookup)", "generation", "model"
PASSAGES = "passage search (-d handbook, passages, fastbook, beir, trec)"
SERVERS = "servers (openai:, anthropic:)"


def _option(default: Any, text: str, *, flags: tuple[str, ...] = (), kind: type = str, **more: Any) -> Any:
    """Declare one option: its default, its help text, its extra flags, and the type of its value."""
    return field(default=default, metadata={"help": text, "flags": flags, "kind": kind, **more})


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How datasets are put to models.

    ``identity=False`` marks settings that cannot change a result. ``unset_is_no_identity`` marks options that
    version 0.1 did not have: a run without them has the same identity as a run of that version.
    """

    num_shots: int = _option(0, "number of examples in the prompt", flags=("-k",), kind=int)
    retriever: str | None = _option(
        None,
        "retriever that chooses the examples, such as bm25,k1=1.2 (kshot list retrievers; default: one random draw)",
    )
    retriever_seeds: str | None = _option(
        None, "repeat the run over these seeds of the retriever, such as 0..9, and report the spread"
    )
    max_example_tokens: int = _option(1024, "token budget for the examples; each is kept whole or left out", kind=int)
    ranking_type: str | None = _option(
        None,
        "how multiple choice is decided; auto takes the best way that the model offers (default: ppl_no_option)",
        choices=RANKING_TYPES,
    )
    seed: int = _option(2023, "seed of every random choice", kind=int)
    limit: int | None = _option(None, "evaluate only the first N samples of each subset", kind=int)
    instruction: str | None = _option(None, "prompt template to use instead of the dataset's own")
    system_prompt: str | None = _option(None, "system message for chat models")
    model_type: Literal["base", "chat"] = _option(
        "base", "whether prompts are text (base) or messages (chat)", choices=("base", "chat"), group=MODEL
    )
    chat_template: str | None = _option(
        None, "file with a jinja chat template to use instead of the model's own", metavar="FILE", group=MODEL
    )
    dataset_path: str | None = _option(
        None, "local file, local folder, or pattern with {subset} and {split}", metavar="PATH"
    )
    evaluation_set: str | None = _option(None, "split to evaluate instead of the dataset's own; slices are allowed")
    example_set: str | None = _option(None, "split to take examples from instead of the dataset's own")
    max_tokens: int | None = _option(None, "maximum length of a reply, in tokens", kind=int, group=GENERATION)
    temperature: float | None = _option(
        None, "0 takes the most likely token; above 0, replies are sampled", kind=float, group=GENERATION
    )
    top_p: float | None = _option(
        None,
        "sample only from the most likely tokens that hold this share of the probability",
        kind=float,
        group=GENERATION,
    )
    top_k: int | None = _option(None, "sample only from the N most likely tokens", kind=int, group=GENERATION)
    stop: tuple[str, ...] | None = _option(
        None, "end the reply before this text (repeatable)", repeat=True, group=GENERATION
    )
    sample_num: int = _option(
        1, "number of replies for each sample; the majority answer counts", kind=int, group=GENERATION
    )
    pass_at_k: tuple[int, ...] | None = _option(
        None, "values of k for pass@k, such as 1,10", kind=int, listed=True, group=GENERATION
    )
    cot: str | None = _option(None, "reasoning style; it must be one that the dataset supports")
    metric: tuple[str, ...] | None = _option(
        None,
        "metrics to use instead of the dataset's own, such as em,f1 or file.py:Class (kshot list metrics; repeatable)",
        repeat=True,
        metavar="NAME",
        unset_is_no_identity=True,
        group=GENERATION,
    )
    cleanup: str | None = _option(
        None,
        "clean-up that takes the answer out of each reply, such as first-capital (kshot list cleanups)",
        metavar="NAME",
        unset_is_no_identity=True,
        group=GENERATION,
    )
    length: tuple[int, ...] | None = _option(
        None, "lengths of the records, such as 10,20,30", kind=int, listed=True, group=LOOKUP
    )
    variant: tuple[str, ...] | None = _option(
        None,
        "prompt variant, such as 'sep|small|simple_rule'; 'all' means all 20 (repeatable)",
        repeat=True,
        group=LOOKUP,
    )
    shots: int | None = _option(None, "number of examples in the prompt (default: 5)", kind=int, group=LOOKUP)
    samples: int | None = _option(None, "number of records for each length (default: 100)", kind=int, group=LOOKUP)
    data: tuple[str, ...] | None = _option(
        None,
        "where the data is: FILE for lookup, FOLDER_OR_URL for passages, KEY=FILE_OR_FOLDER for a config (repeatable)",
        repeat=True,
        metavar="[KEY=]FILE",
    )
    config_root: str | None = _option(None, "folder in which a config's absolute imports are looked up", metavar="DIR")
    templates: str | None = _option(None, "file with texts to use instead of kshot's own", metavar="FILE", group=LOOKUP)
    reference: bool | None = _option(None, "follow the published procedure, byte for byte", kind=bool, group=LOOKUP)
    chunker: tuple[str, ...] | None = _option(
        None,
        "how documents are cut: NAME:SIZE/OVERLAP or file.py:Class (kshot list chunkers; repeatable)",
        repeat=True,
        group=PASSAGES,
    )
    queries: str | None = _option(
        None,
        "file with texts to search for instead of the questions, matched by their numbers",
        metavar="FILE",
        group=PASSAGES,
    )
    rewrite: str | None = _option(
        None, "language model that writes the query for each question", metavar="MODEL", group=PASSAGES
    )
    within: str | None = _option(
        None,
        "search only passages with the question's value of this field; none searches all passages",
        metavar="FIELD",
        group=PASSAGES,
    )
    components: tuple[str, ...] | None = _option(
        None, "answer components that count: all, nonempty, explicit, essential", listed=True, group=PASSAGES
    )
    measures: tuple[str, ...] | None = _option(
        None, "measures to report, such as AC_MRR@10,AC_Recall@2000t or nDCG@10", listed=True, group=PASSAGES
    )
    method: str | None = _option(
        None, "search finds passages; rag answers from them", choices=("search", "rag"), group=PASSAGES
    )
    search: str | None = _option(
        None, "search engine for --method rag (default: fts5)", metavar="SEARCH_ENGINE", group=PASSAGES
    )
    read: int | None = _option(
        None, "number of passages that the model reads with --method rag (default: 5)", kind=int, group=PASSAGES
    )
    judge: str | None = _option(None, "model that judges replies (for GPTEval)", metavar="MODEL", group=GENERATION)
    dtype: str | None = _option(None, "number format of the weights: float32, bfloat16, float16, auto", group=MODEL)
    revision: str | None = _option(None, "branch, tag or commit of a model on the hub", group=MODEL)
    trust_remote_code: bool | None = _option(
        None, "allow Python code that comes with a model to run", kind=bool, group=MODEL
    )
    add_bos: bool | None = _option(
        None, "put the beginning-of-text token first, whatever the tokenizer does", kind=bool, group=MODEL
    )
    device: str | None = _option(None, "where the model runs: cpu, cuda, cuda:1", identity=False, group=MODEL)
    batch_size: int | None = _option(
        None,
        "sequences computed together (default: 16, on a GPU 128; no effect with vllm:)",
        kind=int,
        identity=False,
        group=MODEL,
    )
    engine_option: tuple[str, ...] | None = _option(
        None,
        "option of vLLM, such as tensor_parallel_size=2 (for vllm:; repeatable)",
        repeat=True,
        metavar="NAME=VALUE",
        group=MODEL,
    )
    base_url: str | None = _option(
        None, "address of the server, such as http://localhost:8000/v1", metavar="URL", group=SERVERS
    )
    max_concurrency: int = _option(
        64, "maximum number of requests at one time", kind=int, identity=False, group=SERVERS
    )
    rpm: int | None = _option(None, "maximum number of requests in any minute", kind=int, identity=False, group=SERVERS)
    tpm: int | None = _option(None, "maximum number of tokens in any minute", kind=int, identity=False, group=SERVERS)
    timeout: float = _option(
        600.0, "seconds after which a reply is given up", kind=float, identity=False, group=SERVERS
    )
    patience: float = _option(
        300.0, "seconds to keep trying while the server does not answer", kind=float, identity=False, group=SERVERS
    )
    price_in: float | None = _option(
        None, "USD per million tokens read, for the cost in the summary", kind=float, identity=False, group=SERVERS
    )
    price_out: float | None = _option(None, "USD per million tokens written", kind=float, identity=False, group=SERVERS)

    def __post_init__(self) -> None:
        """Refuse values that cannot mean anything, naming the option."""
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{flag(name)} is {value}; it must be {least} or more")
        for item in fields(self):
            choices, value = item.metadata.get("choices"), getattr(self, item.name)
            if choices and value is not None and value not in choices:
                raise UsageError(f"{flag(item.name)} is {value!r}; it must be one of {', '.join(choices)}")
        if not 0 <= self.seed < 2**32:
            raise UsageError(f"--seed is {self.seed}; it must be from 0 to 4294967295")
        for name in ("temperature", "timeout", "patience", "price_in", "price_out"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise UsageError(f"{flag(name)} is {value}; it must be a finite number")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UsageError(f"--top-p is {self.top_p}; it must be above 0 and at most 1")
        if self.pass_at_k and min(self.pass_at_k) < 1:
            raise UsageError("--pass-at-k must be 1 or more")

    def options(self) -> dict[str, Any]:
        """Return every setting by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def changed(self, names: Iterable[str]) -> dict[str, Any]:
        """Return those of the named settings that differ from their defaults."""
        defaults = {item.name: item.default for item in fields(self)}
        return {name: value for name in names if (value := getattr(self, name)) != defaults[name]}

    def identity(self) -> dict[str, Any]:
        """Return the settings that a result depends on, as plain JSON values."""
        return {
            item.name: list(value) if isinstance(value := getattr(self, item.name), tuple) else value
            for item in fields(self)
            if item.metadata.get("identity", True)
            and not (item.metadata.get("unset_is_no_identity") and getattr(self, item.name) is None)
        }


_LEAST = {
    "num_shots": 0,
    "max_example_tokens": 0,
    "limit": 1,
    "max_tokens": 1,
    "temperature": 0,
    "top_k": 1,
    "sample_num": 1,
    "shots": 0,
    "samples": 1,
    "batch_size": 1,
    "read": 1,
    "max_concurrency": 1,
    "rpm": 1,
    "tpm": 1,
    "timeout": 0.001,
    "patience": 0,
    "price_in": 0,
    "price_out": 0,
}


def flag(name: str) -> str:
    """Return an option as the command line spells it."""
    return "--" + name.replace("_", "-")


def with_options(settings: Settings, spec: Spec | None) -> Settings:
    """Return the settings of one dataset: those of the run, changed by the options of its spec."""
    if spec is None or not spec.options:
        return settings
    import inspect  # imported here: ``kshot --help`` needs neither

    from kshot.core.specs import read_option

    known = {item.name: item for item in fields(Settings)}
    changed: dict[str, Any] = {}
    for name, text in spec.options.items():
        kind = known[name].metadata["kind"].__name__
        several = known[name].metadata.get("repeat") or known[name].metadata.get("listed")
        annotation = f"Sequence[{kind}]" if several else kind
        parameter = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
        changed[name] = _read(known[name], read_option(parameter, text, spec.text))
    return replace(settings, **changed)


def settings_from(options: dict[str, Any]) -> Settings:
    """Make settings from keyword options; an unknown name is an error that lists the known ones."""
    known = {item.name: item for item in fields(Settings)}
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise UsageError(f"there is no option {unknown[0]!r}", hint=f"Options: {', '.join(sorted(known))}.")
    return Settings(**{name: _read(known[name], value) for name, value in options.items()})


def _read(item: Any, value: Any) -> Any:
    """Convert a Python value to the type of the option: a single stop string becomes a tuple, and so on."""
    if value is None:
        return item.default
    meta = item.metadata
    if meta.get("repeat") or meta.get("listed"):
        values = value if isinstance(value, (list, tuple)) else (value,)
        return tuple(_typed(item.name, meta["kind"], each) for each in values)
    return _typed(item.name, meta["kind"], value)


def _typed(name: str, kind: type, value: Any) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is str and isinstance(value, os.PathLike):
        return str(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"{name} is {value!r}; it must be {kind.__name__}")
    return value


def refuse_scoring_options(settings: Settings, source: str, *, where: str = "", hint: str = "") -> None:
    """Refuse ``--metric`` and ``--cleanup`` for a source that scores by rules of its own: they would have no effect."""
    for name, value in {"metric": settings.metric, "cleanup": settings.cleanup}.items():
        if value is not None:
            raise UsageError(
                f"{flag(name)} has no effect on {source}",
                where=where,
                hint=f"{hint}To use it for another dataset only, write -d NAME,{name}=….",
            )
