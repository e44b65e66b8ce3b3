"""What is known of a sample that is shown: its texts, its row and scale, the parts of its response, and its shots.

Examples in prompts are folded away, long texts are cut in their middle, and each says so. Rows may come from strangers:
whatever a part of a message holds, it becomes a text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kshot.core.records import UNANSWERED, ResultRow, TokenLogprobs
from kshot.report.cells import SafeText, assembled, block, cell, joined
from kshot.runs.folder import without_defaults
from kshot.runs.headline import finite
from kshot.runs.record import RunRecord
from kshot.runs.sample_filters import MetricScale, SampleFilter, name_of
from kshot.runs.spec_file import read_spec
from kshot.runs.swept_rows import SHOWN, columns_of, fewer_examples

_DIGEST_LETTERS = 12


def shown_content(content: Any) -> Any:
    """Return the content of a message as one text, if all its parts are such as kshot writes; else as it is."""
    if not isinstance(content, list) or not all(isinstance(each, dict) and "type" in each for each in content):
        return content
    return "\n".join(_shown(each) for each in content)


def _shown(part: dict[str, Any]) -> str:
    if part["type"] == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    digest, size, pictures = part.get("digest"), part.get("bytes"), part.get("pictures")
    told = [
        part.get("name"),
        part.get("url"),
        part.get("mime"),
        f"{pictures:,} pictures" if type(pictures) is int else None,
        f"{size:,} bytes" if type(size) is int else None,
        digest[:_DIGEST_LETTERS] if isinstance(digest, str) else None,
    ]
    words = " · ".join(each for each in told if isinstance(each, str) and each)
    kind = part["type"] if isinstance(part["type"], str) else json.dumps(part["type"])
    return f"[{kind} {words}]" if words else json.dumps(part, ensure_ascii=False)


_ROUND_BREAK = "\n\n"
_NOTE = "dim italic"
_MAX_LISTED = 5


@dataclass(frozen=True, slots=True)
class TextLimit:
    """How much of a text is shown; a third of it is its beginning, the rest its end, where answers stand."""

    characters: int
    lines: int


def excerpt(text: str, limit: TextLimit | None) -> SafeText:
    """Return a text, without its middle if it is longer than the limit; the count of what is left out stands there."""
    if not text:
        return cell("(empty)", _NOTE)
    if not text.strip():
        return cell(f"(nothing but white space: {json.dumps(text[:40])})", _NOTE)
    if limit is None:
        return block(text)
    text = text.strip("\n")
    head = _beginning(text, limit.characters // 3, max(1, limit.lines // 3))
    tail = len(text) - _beginning(text[::-1], limit.characters - head, limit.lines - max(1, limit.lines // 3))
    if tail <= head:
        return block(text)
    before, after = text[:head].rstrip("\n"), text[tail:].lstrip("\n")
    note = f"… {len(text) - len(before) - len(after):,} characters left out …"
    return joined("\n", [block(before), cell(note, _NOTE), block(after)])


def _beginning(text: str, characters: int, lines: int) -> int:
    """Return where the first lines of a text end, or the first characters if those are fewer."""
    end = -1
    for _ in range(lines):
        end = text.find("\n", end + 1, characters)
        if end == -1:
            return min(characters, len(text))
    return end


# ---- prompts ----


@dataclass(frozen=True, slots=True)
class FoldedPrompt:
    """The messages of a prompt that ask (a text is one message without a role), and what was above them."""

    messages: Sequence[tuple[str, str]]
    above: str = ""
    size: int = 0

    def text(self, limit: TextLimit | None) -> SafeText:
        """Return the prompt, after a note on what is folded away."""
        parts = [cell(f"… {self.above} above ({self.size:,} characters)", _NOTE)] if self.above else []
        for role, content in self.messages:
            parts += [cell(f"[{role}]", "dim")] if role else []
            parts.append(excerpt(content, limit))
        return joined("\n", parts)


@dataclass(frozen=True, slots=True)
class QuestionPlace:
    """Where a prompt asks: the message, and the character in it; ``above`` says in words what is before it."""

    message: int = 0
    start: int = 0
    above: str = ""


def question_place(prompt: Any, shots: int | None) -> QuestionPlace:
    """Return where a prompt begins to ask; ``shots`` is how many examples a prompt of the run may show.

    None: the run does not say. Then only the earlier messages of a conversation are before the question.
    """
    messages = whole_prompt(prompt).messages
    last, system = len(messages) - 1, int(messages[0][0] == "system")
    folded = last if shots is None else min(system + 2 * shots, last)
    if folded > system:
        return QuestionPlace(folded, 0, counted(folded, "message") if shots is None else counted(shots, "example"))
    start, count = _question_start(messages[last][1], shots or 0)  # examples and question are one message, or a text
    return QuestionPlace(last, start, counted(count, "example")) if start else QuestionPlace()


def folded_prompt(prompt: Any, shots: int | None) -> FoldedPrompt:
    """Return a prompt without the examples before its question; ``shots`` as in ``question_place``."""
    messages, place = whole_prompt(prompt).messages, question_place(prompt, shots)
    if place.start:
        return FoldedPrompt([("", messages[place.message][1][place.start :])], place.above, place.start)
    asked, size = messages[place.message :], sum(len(content) for _, content in messages[: place.message])
    alone = len(asked) == 1 and asked[0][0] == "user"
    return FoldedPrompt([("", asked[0][1])] if alone else asked, place.above, size)


def whole_prompt(prompt: Any) -> FoldedPrompt:
    """Return all of a prompt."""
    prompt = with_shown_media(prompt)
    if is_conversation(prompt):
        return FoldedPrompt([(str(message["role"]), message["content"]) for message in prompt])
    return FoldedPrompt([("", prompt if isinstance(prompt, str) else written(prompt))])


def with_shown_media(prompt: Any) -> Any:
    """Return a prompt whose messages are texts: images, sounds and videos stand there in words."""
    if not isinstance(prompt, list) or not any(map(_has_parts, prompt)):
        return prompt
    return [{**each, "content": shown_content(each["content"])} if _has_parts(each) else each for each in prompt]


def _has_parts(message: Any) -> bool:
    return isinstance(message, dict) and isinstance(message.get("content"), list)


def is_conversation(prompt: Any) -> bool:
    """Whether a prompt is a list of messages, as kshot writes them."""
    return (
        isinstance(prompt, list)
        and bool(prompt)
        and all(isinstance(each, dict) and isinstance(each.get("content"), str) and "role" in each for each in prompt)
    )


def _question_start(text: str, shots: int) -> tuple[int, int]:
    """Return where the question begins in a text with examples before it, and how many there are; 0, 0 if unsure.

    Examples are written as the question is: its last line, such as "Answer:", stands in each of them. Otherwise the
    blank lines between them tell, if every one has as many. A prompt that does not fit either way is shown whole.
    """
    last = "\n" + text[text.rfind("\n") + 1 :]
    found = text.count(last) - 1
    if last.strip() and 0 < found <= shots:
        place = text[: -len(last)].rfind(last)
        start = text.find(_ROUND_BREAK, place + len(last))
        return (start + len(_ROUND_BREAK), found) if start >= 0 else (0, 0)
    rounds = text.split(_ROUND_BREAK)
    head = len(rounds) % (shots + 1)
    if shots and len(rounds) > shots and head <= 1:
        asked = (len(rounds) - head) // (shots + 1)
        return len(text) - len(_ROUND_BREAK.join(rounds[-asked:])), shots
    return 0, 0


# ---- values ----


def written(value: Any) -> str:
    """Return a value of a row as a text; texts are shown as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def several(values: Sequence[Any], limit: TextLimit | None, *, numbered: bool) -> SafeText:
    """Return values one below the other: numbered, or as alternatives of which any is right."""
    shown = values if limit is None else values[:_MAX_LISTED]
    more = [cell(f"… {len(values) - len(shown)} more", _NOTE)] if len(shown) < len(values) else []
    lines = [
        assembled((f"{number}. " if numbered else "or " if number > 1 else "", "dim"), excerpt(written(each), limit))
        for number, each in enumerate(shown, start=1)
    ]
    return joined("\n", [*lines, *more])


def option_letter(index: int) -> str:
    """Return the letter that a prompt gives an option: A, B, … Z, AA."""
    name = ""
    while index >= 0:
        index, rest = divmod(index, 26)
        name = chr(ord("A") + rest) + name
        index -= 1
    return name


def figure_text(value: float) -> str:
    """Return a score: four digits are enough to look at."""
    return f"{value:.4g}"


def counted(count: int, what: str) -> str:
    """Return a count of things in words."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def parts_of(response: Any) -> Iterator[Any]:
    """Yield the parts of a response: replies, options or passages."""
    yield from response if isinstance(response, list) else [] if response is None else [response]


# ---- responses ----

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
    shown = _counted_shots(record, spec, task, model)
    return int(columns_of(shown)[SHOWN]) if shown else None


def told_shots(record: RunRecord, spec: Mapping[str, Any], row: ResultRow) -> str:
    """Return the shots of a figure in words, such as ``5-shot``; nothing if they are unknown, or differ by task."""
    key = ("task", "model", "metric")
    whole = next((each for each in record.results if all(each[name] == row[name] for name in key)), row)
    tasks = whole.get("tasks") or [row["task"]]
    shown = [_counted_shots(record, spec, task, row["model"]) for task in tasks]
    most = {max(each, default=None) for each in shown}
    if len(most) > 1 or None in most:
        return ""
    return f"{'up to ' if any(len(each) > 1 for each in shown) else ''}{most.pop()}-shot"


def _counted_shots(record: RunRecord, spec: Mapping[str, Any], task: str, model: str) -> Counter[int]:
    """Count the prompts of a task by the number of examples they show; empty if the run did not record it."""
    facts = task_facts(spec, task, model)
    rows = [row for row in record.results if row["task"] == task and row["model"] == model]
    shots = shots_of(facts, record.settings)
    if shots is None:
        return Counter()
    fewer = fewer_examples(facts)
    others = max((row["n"] + row.get("failed", 0) for row in rows), default=1) - len(fewer)
    return Counter(fewer.values()) + Counter({shots: others})
