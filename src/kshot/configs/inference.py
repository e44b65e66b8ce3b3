"""How an inferencer of a config asks the model: generation, perplexity, option probability, conversation, losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.names import short
from kshot.configs.rendering import PromptKind, Rendered
from kshot.configs.rows import OPENCOMPASS, Splits, each_split
from kshot.configs.settings import ConfigSettings
from kshot.configs.values import texts, tokens
from kshot.core.content import Content
from kshot.core.errors import DataError
from kshot.core.records import Explained, Generate, Message, Prompt, RequestGenerator, Row, Sample, ask
from kshot.methods.generation import Extract
from kshot.methods.likelihood import best, likelihoods

DEFAULT_MAX_TOKENS = 512
_GENERATION_KWARGS = ("temperature", "top_p", "top_k", "repetition_penalty", "no_repeat_ngram_size")
ConfigMethod: TypeAlias = Callable[[Sample, Any], RequestGenerator]
"""Asks the model about a sample; the second argument is what ``ConfigTask`` renders for its inferencer."""


def sampling(
    entry: DatasetEntry, settings: ConfigSettings, model_cfg: Mapping[str, Any], times: int
) -> tuple[dict[str, Any], str]:
    """Return the fields of ``Generate``, and a note for the user or an empty text.

    The user's settings go before those of the inferencer, which go before those of the model.
    """
    inferencer = entry.inferencer
    kwargs: dict[str, Any] = {"temperature": model_cfg.get("temperature")}
    for given in (model_cfg.get("generation_kwargs"), inferencer.get("generation_kwargs")):
        kwargs.update(given if isinstance(given, Mapping) else {})
    chosen: dict[str, Any] = {name: kwargs[name] for name in _GENERATION_KWARGS if kwargs.get(name) is not None}
    if kwargs.get("do_sample") is False:
        chosen["temperature"] = 0.0
    lengths = (inferencer.get("max_out_len"), model_cfg.get("max_out_len"))
    length = next((length for length in lengths if length), DEFAULT_MAX_TOKENS)
    chosen["max_tokens"] = tokens(length, "max_out_len", entry.place)
    stop = texts(inferencer.get("stopping_criteria"), "stopping_criteria", entry.place)
    stop += texts(model_cfg.get("stop_words"), "stop_words", entry.place)
    if stop:
        chosen["stop"] = tuple(dict.fromkeys(stop))
    chosen |= settings.sampling()
    note = ""
    if times > 1 and not chosen.get("temperature"):
        chosen["temperature"] = 1.0
        note = f"{entry.abbr}: temperature 0 becomes 1, since {times} replies are sampled"
    if chosen.get("temperature"):
        chosen["seed"] = settings.seed
    return chosen, note


ContentReader: TypeAlias = Callable[[Any], Content]
"""Reads the content of a message: text, or parts with images, sound and video (``media.PromptMedia``)."""


def text_alone(content: Any) -> Content:
    """Return a content that is text, and refuse all others."""
    if not isinstance(content, str):
        raise DataError("the prompt has parts that are not text, and only text can be used here")
    return content


def left_out(entry: DatasetEntry) -> str:
    """Return a note on what of a framework's inferencer kshot does not do, or an empty text."""
    notes = {
        "AgentInferencer": "AgentInferencer has no tools here: the model is asked once",
        "BFCLV3FunctionCallInferencer": "functions are offered in kshot's own words",
        "AttackInferencer": "AttackInferencer attacks nothing here: the first prompt of original_prompt_list is asked",
    }
    note = notes.get(short(entry.inferencer["type"]), "")
    return f"{entry.abbr}: {note}" if note else ""


def with_attacked_prompt(entry: DatasetEntry, splits: Splits) -> Splits:
    """Give rows the column that an AttackInferencer would vary: the first of its prompts, as it is written."""
    inferencer = entry.inferencer
    column, prompts = inferencer.get("adv_key"), inferencer.get("original_prompt_list")
    if short(inferencer["type"]) != "AttackInferencer" or not column or not prompts:
        return splits
    return each_split(splits, lambda rows: [{column: prompts[0], **row} for row in rows])


LENGTH_COLUMN = "max_out_len"
"""The column of AISBench that limits the reply of each row, if it is one of the input columns."""


def generate_by_row(extract: Extract, options: Mapping[str, Any]) -> ConfigMethod:
    """Ask for one reply, of at most as many tokens as the row says; a row that says nothing has the usual limit."""

    def method(sample: Sample, prompt: Prompt) -> RequestGenerator:
        length = sample.fields.get(LENGTH_COLUMN)
        limit = {"max_tokens": tokens(length, LENGTH_COLUMN, f"row {sample.id}")} if length else {}
        chosen = {**options, **limit}
        (reply,) = yield from ask(Generate(prompt, **chosen))
        return extract(sample, reply.text)

    return method


def as_prompt(shown: Any, system: str | None = None, read: ContentReader = text_alone) -> Prompt:
    """Return a rendered prompt as a record: text or messages, with the user's system prompt first."""
    if isinstance(shown, str):
        return Prompt(text_after(system) + shown)
    lead = (Message("system", system),) if system and not any(m["role"] == "system" for m in shown) else ()
    return Prompt(messages=(*lead, *(Message(m["role"], read(m["content"])) for m in shown)))


def first_best(labels: Sequence[Any], values: Sequence[float], alike: Sequence[object]) -> Explained:
    """Return the label with the highest value; on a tie the first, as AISBench and OpenCompass do, and count it."""
    first = best(values, alike)
    return Explained(labels[first[0]], tied=("",) if len(first) > 1 else ())


def scored_prompt(shown: Any, system: str | None, where: str) -> tuple[Prompt, str]:
    """Return context and text of one label's prompt: of a text everything; of a chat the last reply after the rest."""
    if isinstance(shown, str):
        return Prompt(text_after(system)), shown
    if not shown or shown[-1]["role"] != "assistant" or not shown[-1]["content"]:
        raise DataError(
            "a chat model cannot score this label: the prompt does not end with a BOT item",
            where=where,
            hint="Use --model-type base.",
        )
    return as_prompt(shown[:-1], system), str(shown[-1]["content"])


def cut(text: Any, token: str | None, system: str | None, where: str) -> tuple[Prompt, str]:
    """Cut a label's prompt at the separator token, into the context and the text that is scored."""
    if not isinstance(text, str) or not token or token not in text:
        raise DataError(
            "LLInferencer finds no separator before the answer",
            where=where,
            hint="Use string templates with a sep_token in them, or PPLInferencer.",
        )
    before, _, after = text.partition(token)
    return Prompt(text_after(system) + before), after.replace(token, "")


def text_after(system: str | None) -> str:
    """Return what stands before the text of a base model: the system prompt and a blank line."""
    return f"{system}\n\n" if system else ""


def options_of(entry: DatasetEntry, row: Mapping[str, Any]) -> list[str]:
    """Return the options of CLPInferencer: ``choices`` of the inferencer or of the row."""
    found = entry.inferencer.get("choices") or row.get("choices") or row.get("labels")
    if not isinstance(found, (list, tuple)) or not found:
        raise DataError(
            "CLPInferencer finds no options",
            where=entry.place,
            hint="Give the rows a column 'choices', or the inferencer choices=['A', 'B'].",
        )
    return [str(each) for each in found]


def probabilities(entry: DatasetEntry, *, all_options: bool) -> ConfigMethod:
    """Score the row's options after the prompt. The answer is the best one, or the probabilities of all of them."""

    def method(sample: Sample, prompt: Prompt) -> RequestGenerator:
        options = options_of(entry, sample.fields)
        lead = "" if prompt.messages or prompt.text[-1:].isspace() else " "
        found = yield from likelihoods([(prompt, lead + option) for option in options])
        logprobs = [each.logprob for each in found]
        if not all_options:
            return first_best(options, logprobs, options)
        odds = [math.exp(logprob - max(logprobs)) for logprob in logprobs]
        return [each / sum(odds) for each in odds]

    return method


def conversation(
    rendered: Rendered,
    extract: Extract,
    options: Mapping[str, Any],
    kind: PromptKind,
    meta: Mapping[str, Any] | None,
    *,
    read: ContentReader = text_alone,
) -> ConfigMethod:
    """Ask turn after turn; each prompt contains the replies so far. The answer is all replies."""

    def method(sample: Sample, shown: tuple[int, str | None]) -> RequestGenerator:
        index, system = shown
        replies: list[str] = []
        for turn in range(rendered.turn_count(index)):
            prompt = as_prompt(rendered.turn(index, turn, replies, kind, meta), system, read)
            (reply,) = yield from ask(Generate(prompt, **options))
            replies.append(reply.text)
        return extract(sample, tuple(replies))

    return method


def answer_to(rendered: Rendered, extract: Extract) -> Callable[[Sample, str], Any]:
    """Return the function that makes an answer of a text as if a model had said it, in each turn of a conversation."""

    def answer(sample: Sample, text: str) -> Any:
        if rendered.mode != "multiturn":
            return extract(sample, text)
        turns = rendered.turn_count(rendered.rows.first_copy(sample.position))
        return extract(sample, (text,) * turns)

    return answer


# ---- how likely texts are: of a label, of a continuation, of a whole text, of spans of a text ----

Scored: TypeAlias = tuple[Prompt, str]
"""A context, and the text whose likelihood is computed after it."""

CONTINUATION = "cont"
"""The column that an LLInferencer reads: the text that is scored, inside of the prompt of each label."""
SPANS = "label"
"""The column of an InferencePPLOnlyInferencer: where the scored parts of the text begin and end, in letters."""

LOSS_MODES = ("ppl", "ll", "loss", "spans")
"""The ways of ``names.INFERENCERS`` that are asked here."""


def scored_texts(
    entry: DatasetEntry,
    rendered: Rendered,
    place: int,
    *,
    kind: PromptKind,
    meta: Mapping[str, Any] | None,
    system: str | None,
) -> Sequence[Scored]:
    """Return what is scored for a row, as the method of the entry's inferencer takes it."""
    if entry.mode == "ppl" and not entry.inferencer.get("normalizing_str"):
        shown = rendered.text(place, meta) if kind == "text" else rendered.chat(place, meta)
        return [scored_prompt(each, system, entry.place) for each in shown]
    if kind != "text":
        raise DataError(
            "the inferencer scores parts of a text, and a chat model reads messages",
            where=entry.place,
            hint="Use --model-type base.",
        )
    row = rendered.rows.test[place]
    if entry.mode == "ll" and CONTINUATION in row:
        where = f"{entry.place}, row {place}"
        return [_continuation(each, row, system, where) for each in rendered.text(place, meta)]
    if entry.mode in ("ll", "ppl"):
        token = rendered.plan.prompt_template.sep_token if rendered.plan.prompt_template else None
        return [cut(each, token, system, entry.place) for each in rendered.output_of(place, remain_sep=True)]
    text = rendered.whole_text(place, meta)
    if entry.mode == "loss":
        return [scored_prompt(text, system, entry.place)]
    return [
        (Prompt(text_after(system) + text[:start]), text[start:end])
        for start, end in _spans(row, len(text), f"{entry.place}, row {place}")
    ]


def _continuation(text: str, row: Row, system: str | None, where: str) -> Scored:
    """Cut a label's prompt as OpenCompass does: its context is as long as the prompt without the continuation."""
    said = str(row[CONTINUATION])
    length = len(text.replace(said, "")) if said else len(text)
    if length == len(text):
        raise DataError(
            f"LLInferencer scores the column {CONTINUATION!r}; its text {said[:60]!r} is not in the prompt of a label",
            where=where,
        )
    return Prompt(text_after(system) + text[:length]), text[length:]


def _spans(row: Row, size: int, where: str) -> list[tuple[int, int]]:
    found = row.get(SPANS)
    spans = [tuple(each[:2]) for each in found if isinstance(each, (list, tuple))] if isinstance(found, list) else []
    if not spans or not all(_is_span(span, size) for span in spans):
        raise DataError(
            f"InferencePPLOnlyInferencer finds no spans in the column {SPANS!r}: {found!r:.80}",
            where=where,
            hint=f"Give a list of [begin, end], letters of the text, which has {size}.",
        )
    return [(int(start), int(end)) for start, end in spans]


def _is_span(span: Sequence[Any], size: int) -> bool:
    whole = len(span) == 2 and all(isinstance(each, int) and not isinstance(each, bool) for each in span)  # noqa: PLR2004 - begin and end
    return whole and 0 <= span[0] < span[1] <= size


def scoring_method(entry: DatasetEntry, labels: Sequence[Any] | None) -> ConfigMethod:
    """Return the method that gets ``scored_texts`` of a sample.

    - ``ppl``: the label whose whole prompt has the lowest loss per scored token; with a ``normalizing_str``, the one
      whose text gains the most per token by its context, compared with that text before it
    - ``ll``: the label whose answer, after the separator, is the most probable
    - ``loss``: the loss of the whole text per token
    - ``spans``: the loss of all spans of a text, and how many tokens they have
    """
    # OpenCompass divides by all tokens of the prompt, of which the first is never scored.
    extra = 1 if entry.framework == OPENCOMPASS else 0
    mode, known = entry.mode, tuple(labels or ())
    baseline = entry.inferencer.get("normalizing_str") if mode == "ppl" else None

    def method(sample: Sample, shown: Sequence[Scored]) -> RequestGenerator:  # noqa: ARG001 - every method takes the sample
        alone = [(Prompt(str(baseline)), text) for _, text in shown] if baseline else []
        found = yield from likelihoods(shown, alone)
        found, bases = found[: len(shown)], found[len(shown) :]
        if mode == "spans":
            return -sum(each.logprob for each in found), sum(each.tokens for each in found)
        if mode == "loss":
            return -found[0].logprob / (found[0].tokens + extra)
        if mode == "ll":
            values = [each.logprob for each in found]
        elif baseline:
            pairs = zip(found, bases, strict=True)
            values = [each.logprob / each.tokens - base.logprob / base.tokens for each, base in pairs]
        else:
            values = [each.logprob / (each.tokens + extra) for each in found]
        return first_best(known, values, shown)

    return method
