"""What is known of a sample that is shown: its row and scale, the parts of its response, its answer, and its shots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kshot.core.records import UNANSWERED, ResultRow, TokenLogprobs
from kshot.report.cells import SafeText, cell, joined
from kshot.report.sample_texts import (
    FoldedPrompt,
    TextLimit,
    counted,
    folded_prompt,
    option_letter,
    parts_of,
    whole_prompt,
    written,
)
from kshot.runs.folder import without_defaults
from kshot.runs.headline import finite
from kshot.runs.record import RunRecord
from kshot.runs.sample_filters import MetricScale, SampleFilter, name_of
from kshot.runs.spec_file import read_spec
from kshot.runs.swept_rows import SHOWN, columns_of, fewer_examples

_TOKENS = ([str, float], [str, int])


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """Options, with their log-probabilities where those were asked; ``contexts``: each is the end of its own prompt."""

    texts: Sequence[str] = ()
    logprobs: Sequence[float] = ()
    tokens: Sequence[int | None] = ()
    baselines: Sequence[float] = ()
    contexts: bool = False
    token_logprobs: Sequence[TokenLogprobs | None] = ()


@dataclass(frozen=True, slots=True)
class ReadResponse:
    """What a model or search engine gave.

    ``chooses``: the answer is the number of an option. ``ranks``: it is a list of passages, which may be empty.
    ``reply_tokens`` are those of each reply, None where they are not known.
    """

    replies: Sequence[str] = ()
    reply_tokens: Sequence[TokenLogprobs | None] = ()
    reasoning: Sequence[str] = ()
    passages: Sequence[ResultRow] = ()
    rewritten: bool = False
    options: SampleOptions = field(default_factory=SampleOptions)
    likelihood: ResultRow | None = None
    likelihood_tokens: TokenLogprobs | None = None
    chooses: bool = False
    ranks: bool = False


def read_response(row: ResultRow, ranking_type: str) -> ReadResponse:
    """Sort the parts of a response; parts that kshot would not have written are left out."""
    parts = list(parts_of(row.get("response")))
    hits = [at for at, part in enumerate(parts) if _is_scored(part, "id", "score")]
    first = hits[0] if hits else 0
    thoughts = row.get("reasoning")
    measured = [part for part in parts if _is_scored(part, "text", "logprob")]
    answer, rights = row.get("answer"), list(parts_of(row.get("target")))
    document = isinstance(answer, dict) and "nll" in answer and len(measured) == 1
    options = SampleOptions() if document else _options(measured, row.get("prompt"), listed_options(row))
    replies = [part for part in parts[first:] if isinstance(part, str)]
    return ReadResponse(
        replies,
        _reply_tokens(row, replies),
        [text for text in parts_of(thoughts) if isinstance(text, str)],
        [parts[at] for at in hits],
        rewritten=any(isinstance(part, str) for part in parts[:first]),
        options=options,
        likelihood=measured[0] if document else None,
        likelihood_tokens=_token_logprobs(measured[0].get("token_logprobs")) if document else None,
        chooses=bool(ranking_type or options.logprobs)
        or bool(options.texts and rights and all(type(each) is int for each in rights)),
        ranks=isinstance(answer, list) and not replies and not measured and bool(hits or not answer),
    )


def is_number(value: Any) -> bool:
    """Whether a value can be written as a decimal number; infinity counts, an integer beyond all floats does not."""
    return isinstance(value, float) or finite(value) is not None


def _is_scored(part: Any, text: str, number: str) -> bool:
    """Whether a part of a response has a text and a number under these names."""
    return isinstance(part, dict) and isinstance(part.get(text), str) and is_number(part.get(number))


def _reply_tokens(row: ResultRow, replies: Sequence[str]) -> list[TokenLogprobs | None]:
    """Return the tokens of each reply; a row has them in the order of its texts, of which the last are the replies."""
    found = row.get("token_logprobs")
    if isinstance(row.get("response"), str):
        return [_token_logprobs(found)]
    texts = sum(isinstance(part, str) for part in parts_of(row.get("response")))
    known = found if isinstance(found, list) and len(found) == texts else [None] * texts
    return [_token_logprobs(each) for each in known[texts - len(replies) :]]


def _token_logprobs(found: Any) -> TokenLogprobs | None:
    """Return tokens as kshot writes them, pairs of a text and a number; None for anything else."""
    if not isinstance(found, list) or not all(_is_token(each) for each in found):
        return None
    return tuple((text, float(logprob)) for text, logprob in found)


def _is_token(pair: Any) -> bool:
    return isinstance(pair, list) and [type(part) for part in pair] in _TOKENS and finite(pair[1]) is not None


def listed_options(row: ResultRow) -> list[str]:
    """Return the texts of the options that a row lists beside its response."""
    found = row.get("options")
    return found if isinstance(found, list) and all(isinstance(each, str) for each in found) else []


def _options(measured: Sequence[ResultRow], prompt: Any, listed: Sequence[str]) -> SampleOptions:
    """Return the options. An answer after several contexts is an option each; a baseline stands beside its option.

    ``listed`` are the texts of options of which only the letters were measured, or nothing.
    """
    own = [each for each in measured if "prompt" not in each]
    others = [each for each in measured if "prompt" in each]
    if others and len({each["text"] for each in measured}) == 1:
        # The baselines follow the options; the row lists as many texts as there are options.
        count = len(listed) if len(measured) == 2 * len(listed) else len(measured)
        texts = [f"{_end(each.get('prompt', prompt))}{each['text']}" for each in measured[:count]]
        return _made(texts, measured[:count], [each["logprob"] for each in measured[count:]], contexts=True)
    baselines = [each["logprob"] for each in others] if len(others) == len(own) else []
    pairs = list(zip(own, own[len(own) // 2 :], strict=False))[: len(own) // 2]
    if len(own) % 2 == 0 and pairs and all(a["text"] != b["text"] == a["text"].strip() for a, b in pairs):
        likelier = [max(pair, key=lambda each: each["logprob"]) for pair in pairs]
        # letters with a space before them, and without
        return _made(_lettered([each["text"] for _, each in pairs], listed), likelier)
    if not own:
        return SampleOptions(_lettered([option_letter(at) for at in range(len(listed))], listed))
    return _made(_lettered([each["text"].strip() for each in own], listed), own, baselines)


def _lettered(letters: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return each letter before the text of its option."""
    if len(letters) != len(texts):
        return list(letters)
    return [f"{letter}. {text.strip()}" for letter, text in zip(letters, texts, strict=True)]


def _made(
    texts: Sequence[str], measured: Sequence[ResultRow], baselines: Sequence[float] = (), *, contexts: bool = False
) -> SampleOptions:
    tokens = [each.get("tokens") for each in measured]
    return SampleOptions(
        texts,
        [each["logprob"] for each in measured],
        [count if isinstance(count, int) else None for count in tokens],
        baselines,
        contexts,
        [_token_logprobs(each.get("token_logprobs")) for each in measured],
    )


def _end(prompt: Any) -> str:
    """Return the last message of a conversation, or the text of a prompt."""
    last = prompt[-1] if isinstance(prompt, list) and prompt else prompt
    content = last.get("content") if isinstance(last, dict) else last
    return content if isinstance(content, str) else ""


@dataclass(frozen=True)
class SampleLook:
    """A sample, the scale by which it is right, and how many examples its prompt may show (None: not known).

    ``pattern`` is the one that the user gave to find answers in replies.
    """

    row: ResultRow
    scale: MetricScale
    facts: Mapping[str, Any] = field(default_factory=dict)
    shots: int | None = None
    full: bool = False
    pattern: str = ""

    def limit(self, usual: TextLimit) -> TextLimit | None:
        """Return how much of a text is shown."""
        return None if self.full else usual

    @cached_property
    def question(self) -> FoldedPrompt:
        """The prompt, or the part of it that asks."""
        prompt = self.row.get("prompt")
        return whole_prompt(prompt) if self.full else folded_prompt(prompt, self.shots)

    @property
    def answer(self) -> Any:
        """The answer that the metric scores: that of its own rule, where a sample was answered by several."""
        answers = self.row.get("answers")
        own = self.row.get("answer")
        return answers.get(self.scale.metric, own) if isinstance(answers, dict) else own

    @cached_property
    def response(self) -> ReadResponse:
        """The parts of the response by their kind."""
        return read_response(self.row, str(self.facts.get("ranking_type", "")))


class SampleLooks:
    """Makes the looks of the samples of one run."""

    def __init__(
        self, run: str | Path, wanted: SampleFilter, *, full: bool, spec: Mapping[str, Any] | None = None
    ) -> None:
        """Take what the run recorded, its ``spec.json`` if it is not given; ``wanted`` has the scales."""
        self.folder = Path(run).expanduser()
        self._spec = read_spec(self.folder) if spec is None else spec
        self._settings = without_defaults(self._spec.get("identity", {}))
        self._wanted, self._full = wanted, full

    def of(self, row: ResultRow, scale: MetricScale | None = None) -> SampleLook:
        """Return the look of a sample; the scale is that of its task, unless another one is given."""
        facts = task_facts(self._spec, name_of(row, "task"), name_of(row, "model"))
        own = self._wanted.scale(row) if scale is None else scale
        pattern = self._settings.get("answer_pattern")
        shown = pattern if isinstance(pattern, str) else ""
        return SampleLook(row, own, facts, shots_of(facts, self._settings), self._full, shown)


def task_facts(spec: Mapping[str, Any], task: str, model: str) -> Mapping[str, Any]:
    """Return what a run has recorded of a task on a model beside its figures; nothing if it has not."""
    of_model = spec.get("tasks", {}).get(model, {})
    facts = of_model.get(task, {}) if isinstance(of_model, dict) else {}
    return facts if isinstance(facts, dict) else {}


def shots_of(facts: Mapping[str, Any], settings: Mapping[str, Any]) -> int | None:
    """Return how many examples the prompts of a task may show; None if the run does not say."""
    if isinstance(facts.get("shots"), int):
        return int(facts["shots"])
    wanted = settings.get("num_shots") if "kept" in facts else None
    return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else None


# ---- the answer in words ----


_MAX_LETTERED = 10_000
"""No prompt has more options."""

_STOPS = {
    "length": "the reply was cut: it has all tokens that --max-tokens allows",
    "window": "the reply was cut: the context window was full",
}


def option_words(index: Any, options: SampleOptions, row: ResultRow) -> str:
    """Return the text of an option, or its letter where only the prompt has the texts, as in folders of 0.1."""
    if not isinstance(index, int):
        return written(index)
    if index == UNANSWERED:
        return "none: several options come first" if row.get("tied") else "none"
    if 0 <= index < len(options.texts):
        return options.texts[index]
    return option_letter(index) if 0 <= index < _MAX_LETTERED else written(index)


def rule_words(look: SampleLook) -> str:
    """Return the rule by which the answer was read from the reply, or chosen among the options; "" without one."""
    row, answers = look.row, look.row.get("answers")
    rule = row.get("rule")
    if isinstance(rule, list):
        names = dict.fromkeys(written(each) for each in rule if each is not None)
        return f"the most frequent; read by: {', '.join(names)}" if names else ""
    if rule is not None:
        return f"({written(rule)})" if row.get("answer") == UNANSWERED else f'by the rule "{written(rule)}"'
    if isinstance(answers, dict) and look.response.options.logprobs:
        own = look.scale.metric if look.scale.metric in answers else look.scale.rule
        differ = [name for name, index in answers.items() if index != look.answer]
        return (f"by {own}" + (f" (not by {', '.join(differ)})" if differ else "")) if own else ""
    return ""


def cut_notes(row: ResultRow) -> Iterator[str]:
    """Yield what is not whole: a reply that was cut, or a prompt."""
    reasons = set(map(written, parts_of(row.get("stop_reason"))))
    yield from (note for reason, note in _STOPS.items() if reason in reasons)
    cut = [count for count in parts_of(row.get("cut_tokens")) if isinstance(count, int) and count > 0]
    if cut:
        yield f"the prompt was too long: {counted(max(cut), 'token')} were cut from its beginning"


def likelihood_text(answer: Any) -> str:
    """Return how likely a text is, in words."""
    if not isinstance(answer, dict):
        return written(answer)
    counts = [
        counted(answer[f"{name}s"], name)
        for name in ("token", "word", "byte")
        if isinstance(answer.get(f"{name}s"), int)
    ]
    greedy = {True: ["the model would write it"], False: ["the model would write something else"]}
    nats = f"{answer['nll']:.2f} nats" if is_number(answer.get("nll")) else ""
    told = answer.get("greedy")
    return " · ".join([nats, *counts, *(greedy[told] if isinstance(told, bool) else [])])


# ---- the evidence of a search ----


def evidence_quotes(row: ResultRow) -> list[list[str]]:
    """Return the quotes of each component of the answer; nothing where a target is not evidence."""
    target = row.get("target")
    if not isinstance(target, list) or not all(isinstance(each, list) for each in target):
        return []
    return [[quote for quote in each if isinstance(quote, str) and quote] for each in target]


def evidence_ranks(row: ResultRow) -> list[list[int]]:
    """Return at which ranks each component was found, as the run recorded it; nothing where it did not."""
    found, components = row.get("evidence"), len(evidence_quotes(row))
    if not isinstance(found, list) or len(found) != components or not all(isinstance(each, list) for each in found):
        return []
    return [[rank for rank in each if type(rank) is int and rank > 0] for each in found]


def evidence_mark(ranks: Sequence[Sequence[int]], rank: int) -> str:
    """Return which components the passage at a rank has; "" for none."""
    numbers = [str(number) for number, each in enumerate(ranks, start=1) if rank in each]
    if not numbers:
        return ""
    return "✓ evidence" if len(ranks) == 1 else f"✓ component{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def evidence_summary(ranks: Sequence[Sequence[int]], shown: int) -> SafeText | None:
    """Say which components no passage has, and which only those below the ones that are shown; None: neither."""
    lines = []
    for number, each in enumerate(ranks, start=1):
        name = "the evidence" if len(ranks) == 1 else f"component {number}"
        if not each:
            lines.append(cell(f"✗ {name} is in none of them", "red"))
        elif min(each) > shown:
            lines.append(cell(f"{name} is first in number {min(each)}", "dim italic"))
    return joined("\n", lines) if lines else None


# ---- examples in prompts ----


def shots_in_prompts(record: RunRecord, spec: Mapping[str, Any], task: str, model: str) -> int | None:
    """Return how many examples the prompts of a task had, or their median; None if the run did not record it.

    The option is no answer: a config, a task file or token lookup has a number of its own.
    """
    shown = _shown(record, spec, task, model)
    return int(columns_of(shown)[SHOWN]) if shown else None


def told_shots(record: RunRecord, spec: Mapping[str, Any], row: ResultRow) -> str:
    """Return the shots of a figure in words, such as ``5-shot``; nothing if they are unknown, or differ by task."""
    key = ("task", "model", "metric")
    whole = next((each for each in record.results if all(each[name] == row[name] for name in key)), row)
    tasks = whole.get("tasks") or [row["task"]]
    shown = [_shown(record, spec, task, row["model"]) for task in tasks]
    most = {max(each, default=None) for each in shown}
    if len(most) > 1 or None in most:
        return ""
    return f"{'up to ' if any(len(each) > 1 for each in shown) else ''}{most.pop()}-shot"


def _shown(record: RunRecord, spec: Mapping[str, Any], task: str, model: str) -> Counter[int]:
    """Count the prompts of a task by the number of examples they show; empty if the run did not record it."""
    facts = task_facts(spec, task, model)
    rows = [row for row in record.results if row["task"] == task and row["model"] == model]
    shots = shots_of(facts, record.settings)
    if shots is None:
        return Counter()
    fewer = fewer_examples(facts)
    others = max((row["n"] + row.get("failed", 0) for row in rows), default=1) - len(fewer)
    return Counter(fewer.values()) + Counter({shots: others})
