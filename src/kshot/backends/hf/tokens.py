"""From text to tokens and back with a Hugging Face tokenizer: BOS, chat templates, the tokens of a continuation.

Requests that do not fit into a model's context window fail, or their prompts are cut from the left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kshot.backends.hf.trie import IdArray, TokenSequence, common_prefix_length
from kshot.backends.texts import (
    Pieces,
    ScoredSpans,
    TextInProgress,
    common_length,
    replace_surrogates,
    rolling_windows,
    scored_parts,
    scored_pieces,
    start_token,
    unscorable,
    valid_message,
    written_pieces,
)
from kshot.core.errors import BackendError
from kshot.core.reasoning import is_think_tag, opens_thoughts
from kshot.core.records import Failed, Generate, Generated, Loglik, Message, Prompt, RollingStart, Scored, Usage
from kshot.prompts.chat import TEMPLATE_FAULTS, Renderer, as_dicts, opened_text, renderer, template_fault

_OVERLAP_TOKENS = 24
"""Tokens before the end of the shared text that are encoded again; the seam is searched among them."""
_MATCHING_TOKENS = 8
"""Tokens after the seam that both encodings must have in common; then the text further left has no influence."""
_CHECK_INTERVAL = 64
"""One text in this many is encoded whole as well (and every one whose number is a power of two)."""


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A text, its tokens, and where in the text each token ends. ``in_order``: no token ends before an earlier one."""

    text: str
    ids: IdArray
    ends: NDArray[np.int64]
    in_order: bool

    @classmethod
    def of(cls, text: str, ids: IdArray, ends: NDArray[np.int64]) -> EncodedText:
        """Return an encoded text, and find out whether its tokens are in order."""
        return cls(text, ids, ends, not (ends[1:] < ends[:-1]).any())


class IncrementalEncoder:
    """Encodes texts, and reuses the tokens of a known text that begins alike.

    Tokenizers decide locally: a token depends on the word that it is in and on the characters beside that word. A text
    that begins like a known one therefore has the same tokens up to some place before the difference. The seam goes
    where both encodings have a token boundary and agree on the tokens after it. Where there is no such place, the text
    is encoded whole. Should a whole encoding ever differ from a joined one, all texts are encoded whole from then on.
    Without ``reuse`` they all are from the start, and no text depends on another.
    """

    def __init__(self, encode_whole: Callable[[Sequence[str]], list[EncodedText]], *, reuse: bool = True) -> None:
        self._encode_whole = encode_whole
        self._reuse_is_safe = reuse
        self._count = 0

    def encode(self, pairs: Sequence[tuple[EncodedText, str]]) -> list[EncodedText]:
        """Encode texts, each paired with a known text that it may begin like.

        Texts are handed to the tokenizer together, because it has threads.
        """
        cuts = [_reusable_part(known, text) if self._reuse_is_safe else None for known, text in pairs]
        tails = [text[cut[1] :] for cut, (_, text) in zip(cuts, pairs, strict=True) if cut]
        encoded_tails = iter(self._encode_whole(tails) if tails else ())
        found = [
            _join(known, text, cut, next(encoded_tails)) if cut else None
            for cut, (known, text) in zip(cuts, pairs, strict=True)
        ]
        checked = [at for at, joined in enumerate(found) if joined is None or self._check_is_due()]
        wholes = self._encode_whole([pairs[at][1] for at in checked]) if checked else ()
        for at, whole in zip(checked, wholes, strict=True):
            if (joined := found[at]) is not None:
                self._reuse_is_safe &= np.array_equal(whole.ids, joined.ids) and np.array_equal(whole.ends, joined.ends)
            found[at] = whole
        if not self._reuse_is_safe and tails:
            return self._encode_whole([text for _, text in pairs])
        return [encoded for encoded in found if encoded is not None]

    def _check_is_due(self) -> bool:
        self._count += 1
        return self._count % _CHECK_INTERVAL == 0 or self._count & (self._count - 1) == 0


_ReusablePart: TypeAlias = tuple[int, int]
"""The number of tokens that are surely the same, and the character from which the text is encoded again."""


def _reusable_part(known: EncodedText, text: str) -> _ReusablePart | None:
    shared = common_length(known.text, text)
    # Tokens that end before the difference, without the last of them: it might have gone on.
    inside = int(known.ends.searchsorted(shared)) - 1
    start = inside - _OVERLAP_TOKENS
    if start < _OVERLAP_TOKENS or not known.in_order:
        return None
    # The bytes of one character may be several tokens that all end with it: the seam is behind the last of them.
    start = int(known.ends.searchsorted(known.ends[start], side="right"))
    return inside, int(known.ends[start - 1])


def _join(known: EncodedText, text: str, part: _ReusablePart, tail: EncodedText) -> EncodedText | None:
    if not tail.in_order:
        return None
    inside, start = part
    ends = tail.ends + start
    for end in ends[: _OVERLAP_TOKENS - _MATCHING_TOKENS].tolist():
        seam = int(known.ends.searchsorted(end, side="right"))
        if seam == 0 or known.ends[seam - 1] != end or seam + _MATCHING_TOKENS > inside:
            continue
        at = int(ends.searchsorted(end, side="right"))
        if _same_bytes(tail.ids, at, known.ids, seam) and _same_bytes(ends, at, known.ends, seam):
            ids = np.concatenate([known.ids[:seam], tail.ids[at:]])
            return EncodedText(text, ids, np.concatenate([known.ends[:seam], ends[at:]]), in_order=True)
    return None


def _same_bytes(left: NDArray[Any], at: int, right: NDArray[Any], seam: int) -> bool:
    """Whether the tokens after the seam match. For so few, this takes a tenth of the time of ``array_equal``."""
    return left[at : at + _MATCHING_TOKENS].tobytes() == right[seam : seam + _MATCHING_TOKENS].tobytes()


def first_after(encoded: EncodedText, place: int) -> int:
    """Return the index of the first token that ends after a place of the text; if none does, the number of tokens."""
    if encoded.in_order:
        return int(encoded.ends.searchsorted(place, side="right"))
    return int(np.append(encoded.ends > place, True).argmax())


_TRIAL_TEXT = "A trial,  of\nthings: naïve 日本 🙂"
"""Words, runs of spaces, a line end and characters of several bytes: two encoders would disagree on these first."""
_CONTEXT_TOKENS = 8
"""Tokens before the new text that are decoded along with it: without them sentencepiece drops its first space."""
_MAX_TAG_TOKENS = 16
"""The most tokens of a think tag at the end of a prompt, and of the white space behind it."""
_CHEAP_CHARACTERS = 400
"""Encoding this many characters again costs less than looking for a better known text."""

_SECOND = itemgetter(1)


@dataclass(frozen=True, slots=True, eq=False)
class TokenSpan:
    """A whole sequence, and the index of the first token whose probability is wanted."""

    ids: IdArray
    start: int

    def cut(self, length: int) -> TokenSpan:
        """Return the last tokens of the sequence, at most ``length``: the span itself if it is no longer.

        The wanted tokens must be among them, and one before these.
        """
        dropped = max(len(self.ids) - length, 0)
        return TokenSpan(self.ids[dropped:], self.start - dropped) if dropped else self

    @property
    def tokens(self) -> tuple[int, ...]:
        """The sequence as plain numbers."""
        return tuple(self.ids.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenSpan) and (self.tokens, self.start) == (other.tokens, other.start)

    def __hash__(self) -> int:
        return hash((self.tokens, self.start))


class TokenizedLoglik(ScoredSpans[TokenSpan]):
    """A Loglik request and the token spans of its continuations."""

    __slots__ = ()

    @property
    def longest(self) -> int:
        """The number of tokens of the longest continuation with its prompt."""
        return max(len(span.ids) for span in self.spans)

    @property
    def sequences(self) -> list[TokenSequence]:
        """What the model must read: a span's last token is predicted and never read."""
        return [TokenSequence(span.ids[:-1], span.start - 1) for span in self.spans]


class PromptTokenizer:
    """A Hugging Face tokenizer together with the BOS setting and the chat template that are in force.

    ``leading_ids`` are the tokens that go before every text. ``reuse``: what a prompt has in common with an earlier
    one is not encoded again.
    """

    def __init__(
        self, tokenizer: Any, name: str, *, chat_template: str | None, add_bos: bool | None, reuse: bool = True
    ) -> None:
        self.tokenizer, self.name = tokenizer, name
        self._bos_forced = add_bos is True
        self.leading_ids = self._find_leading_ids(add_bos=add_bos)
        self.chat_template = tokenizer.chat_template if chat_template is None else chat_template
        self._render = chosen_renderer(chat_template, tokenizer, tokenizer)
        self._backend = self._fast_backend()
        self._added_vocabulary = tokenizer.get_added_vocab()
        self._think_tags = {
            number: text
            for text, number in self._added_vocabulary.items()
            if is_think_tag(text) and not tokenizer.decode([number], skip_special_tokens=True)
        }
        self._encoder = IncrementalEncoder(self._encode_batch, reuse=reuse)
        self._last_prompt = EncodedText.of("", np.zeros(0, np.int32), np.zeros(0, np.int64))

    # ---- to tokens ----

    def encode(self, text: str) -> tuple[int, ...]:
        """Encode a text, and add nothing to it."""
        if self._backend is not None:
            return tuple(self._backend.encode(text, add_special_tokens=False).ids)
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def _encode_batch(self, texts: Sequence[str]) -> list[EncodedText]:
        found = self._backend.encode_batch(list(texts), add_special_tokens=False)
        # numpy converts flat ids and ends in one step; it would go through pairs one by one.
        return [
            EncodedText.of(
                text,
                np.array(encoding.ids, np.int32),
                np.fromiter(map(_SECOND, encoding.offsets), np.int64, len(encoding)),
            )
            for text, encoding in zip(texts, found, strict=True)
        ]

    def _without_ends(self, text: str) -> EncodedText:
        return EncodedText.of(text, np.array(self.encode(text), np.int32), np.zeros(0, np.int64))

    def _encode_prompts(self, texts: Sequence[str]) -> list[EncodedText]:
        """Encode prompts. What they have in common with earlier prompts is not encoded again."""
        if self._backend is None:
            return list(map(self._without_ends, texts))
        found: list[EncodedText] = []
        while len(found) < len(texts):
            # The last known text serves for all following prompts that share no more with each other than with it.
            known, stop = self._last_prompt, len(found) + 1
            while stop < len(texts) and _shares_as_much(known.text, texts[stop - 1], texts[stop]):
                stop += 1
            found += self._encoder.encode([(known, text) for text in texts[len(found) : stop]])
            self._last_prompt = found[-1]
        return found

    def encode_prompt(self, prompt: Prompt) -> tuple[int, ...]:
        """Encode a prompt to continue, with BOS. An empty prompt is BOS alone, if the tokenizer has one."""
        encoded = self._encode_prompts([self._prompt_text(prompt)])[0]
        tokens = self._with_leading_ids(encoded.ids, prompt)
        if len(tokens):
            return tuple(tokens.tolist())
        if self.tokenizer.bos_token_id is None:
            raise BackendError("the prompt is empty and the tokenizer has no BOS token to begin with", where=self.name)
        return (self.tokenizer.bos_token_id,)

    def spans(self, prompt: Prompt, continuations: Sequence[str]) -> list[TokenSpan]:
        """Return one span for each continuation of a prompt."""
        return self.spans_of_all([Loglik(prompt, tuple(continuations))])[0]

    def spans_of_all(self, requests: Sequence[Loglik]) -> list[list[TokenSpan]]:
        """Return the spans of many requests. A token across the boundary belongs to the continuation.

        By lm-eval's rules it begins after as many tokens of both as the prompt has when encoded alone.
        A span is empty if its continuation has no token that the model predicts.
        """
        parts = [scored_parts(request, self._prompt_text(request.prompt)) for request in requests]
        contexts = self._encode_prompts([context for context, _ in parts])
        pairs = [
            (context, replace_surrogates(text))
            for context, (_, texts) in zip(contexts, parts, strict=True)
            for text in texts
        ]
        wholes = iter(self._encode_continuations(pairs))
        return [
            [self._span(request.prompt, context, whole) for whole in islice(wholes, len(request.continuations))]
            for request, context in zip(requests, contexts, strict=True)
        ]

    def rolling_spans(self, text: str, start: RollingStart, limit: int | None) -> list[TokenSpan]:
        """Return the windows of a document; none if it has no token to score. ``limit``: tokens that a window reads."""
        special = self.tokenizer
        first = start_token(start, special.bos_token_id, special.eos_token_id)
        if first is None and start != "none":
            what = f"no {start.upper()} token" if start in {"bos", "eos"} else "neither a BOS nor an EOS token"
            hint = "Use --rolling-start none, or another token."
            raise BackendError(f"the tokenizer has {what} to begin a document with", where=self.name, hint=hint)
        own = self.leading_ids if start == "lm-eval" else ()
        windows = rolling_windows((*own, *self.encode(replace_surrogates(text))), first, limit)
        return [TokenSpan(np.array(tokens, np.int32), begin) for tokens, begin in windows]

    def encoded_with_ends(self, request: Loglik) -> tuple[int, list[EncodedText]] | None:
        """Encode the texts of a request after its context; return its length too. None: the ends of tokens are unknown.

        BOS is not among the tokens.
        """
        if self._backend is None:
            return None
        if request.rolling:
            return 0, self._encode_batch([replace_surrogates(text) for text in request.continuations])
        shown, texts = scored_parts(request, self._prompt_text(request.prompt))
        context = self._encode_prompts([shown])[0]
        return len(shown), self._encode_continuations([(context, replace_surrogates(text)) for text in texts])

    def _span(self, prompt: Prompt, context: EncodedText, whole: EncodedText) -> TokenSpan:
        body = whole.ids
        if prompt.rules == "lm-eval":
            start = len(context.ids)
            body = np.concatenate([context.ids, body[start:]])  # the whole may begin with other tokens
        elif not context.text:
            start = 0
        elif self._backend is None:
            start = common_prefix_length(body, context.ids)
        else:
            start = first_after(whole, len(context.text))
        tokens = self._with_leading_ids(body, prompt)
        # The first token of a sequence is given, not predicted: it has no probability.
        return TokenSpan(tokens, max(start + len(tokens) - len(body), 1))

    def _encode_continuations(self, pairs: Sequence[tuple[EncodedText, str]]) -> list[EncodedText]:
        """Encode each context together with its continuation."""
        wholes = [context.text + text for context, text in pairs]
        if self._backend is None:
            return list(map(self._without_ends, wholes))
        return self._encoder.encode([(context, whole) for (context, _), whole in zip(pairs, wholes, strict=True)])

    def _with_leading_ids(self, tokens: IdArray, prompt: Prompt) -> IdArray:
        """Put BOS in front, once. A chat template writes its own, so a chat gets BOS only with ``add_bos=True``.

        By lm-eval's rules a chat is text like any other.
        """
        chat = prompt.messages and prompt.rules == "kshot"
        if (chat and not self._bos_forced) or tuple(tokens[: len(self.leading_ids)].tolist()) == self.leading_ids:
            return tokens
        return np.concatenate([np.array(self.leading_ids, np.int32), tokens])

    def _find_leading_ids(self, *, add_bos: bool | None) -> tuple[int, ...]:
        """Find what the tokenizer itself puts before a text (what it puts behind, EOS or SEP, is left off)."""
        if add_bos is False:
            return ()
        plain = list(self.tokenizer.encode(_TRIAL_TEXT, add_special_tokens=False))
        full = list(self.tokenizer.encode(_TRIAL_TEXT, add_special_tokens=True))
        extra = len(full) - len(plain)
        leading = next((tuple(full[:n]) for n in range(extra + 1) if full[n : n + len(plain)] == plain), ())
        if leading or add_bos is None:
            return leading
        if self.tokenizer.bos_token_id is None:
            raise BackendError("the tokenizer has no BOS token to add", where=self.name, hint="Leave add_bos out.")
        return (self.tokenizer.bos_token_id,)

    def _fast_backend(self) -> Any:
        """Return a fast tokenizer's core without its post-processor: BOS is added here, and some trim the offsets."""
        if not getattr(self.tokenizer, "is_fast", False):  # tokenizers of remote code may lack it
            return None
        from tokenizers.processors import TemplateProcessing

        backend = self.tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        backend.post_processor = TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
        ids = backend.encode(_TRIAL_TEXT, add_special_tokens=False).ids
        return backend if ids == list(self.tokenizer.encode(_TRIAL_TEXT, add_special_tokens=False)) else None

    # ---- chat ----

    def _prompt_text(self, prompt: Prompt) -> str:
        if not prompt.messages:
            return replace_surrogates(prompt.text)
        if self._render is None:
            raise BackendError(
                "the model has no chat template, and the prompt is a conversation",
                where=self.name,
                hint="Give a template with --chat-template FILE, or treat it as a base model: --model-type base.",
            )
        messages = [valid_message(message) for message in prompt.messages]
        return opened_text(prompt, messages, self._render)

    # ---- and back ----

    def decode_after(self, before: Sequence[int], new: Sequence[int]) -> str:
        """Return the text that new tokens add after others: with its leading space, without special tokens."""
        context = list(before[-_CONTEXT_TOKENS:])
        head, whole = self._decode(context), self._decode([*context, *new])
        return whole[len(head) :] if whole.startswith(head) else self._decode(list(new))

    def _decode(self, tokens: list[int]) -> str:
        """Decode tokens without special ones, except for think tags: some tokenizers count these among them."""
        for at, token in enumerate(tokens if self._think_tags else ()):
            if token in self._think_tags:
                tag: str = self._think_tags[token]
                return f"{self._decode(tokens[:at])}{tag}{self._decode(tokens[at + 1 :])}"
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def opens_thoughts(self, prompt: Sequence[int]) -> bool:
        """Whether a prompt ends with an open think tag: the reply then begins with thoughts."""
        return opens_thoughts(str(self.tokenizer.decode(list(prompt[-_MAX_TAG_TOKENS:]), skip_special_tokens=False)))

    def stop_ids(self, stop: Sequence[str]) -> frozenset[int]:
        """Return the ids of stop strings that are special tokens: decoding leaves these out, so they stop by id."""
        return frozenset(self._added_vocabulary[text] for text in stop if text in self._added_vocabulary)


def chosen_renderer(
    given: str | None, tokenizer: Any, owner: Any, shown: Callable[[Message], Message] = lambda message: message
) -> Renderer | None:
    """Return what writes messages out: by the user's chat template, or that of a tokenizer or processor; else None."""
    if given is not None:
        return renderer(given, tokenizer.bos_token or "", tokenizer.eos_token or "")
    if not owner.chat_template:
        return None

    def render(messages: Sequence[Message], add_generation_prompt: bool = True) -> str:  # noqa: FBT001, FBT002 - as transformers has it
        dicts = as_dicts([shown(message) for message in messages])
        try:
            return str(owner.apply_chat_template(dicts, add_generation_prompt=add_generation_prompt, tokenize=False))
        except TEMPLATE_FAULTS as error:
            raise template_fault(error) from None

    return render


def _shares_as_much(known: str, previous: str, text: str) -> bool:
    """Whether a text has about as much in common with a known text as with the previous one."""
    shared = common_length(previous, text)
    return shared < _CHEAP_CHARACTERS or common_length(known, text) >= shared - _CHEAP_CHARACTERS


# ---- what fits into a model's context window ----

TokenIds: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """The window of the model ``name``.

    ``limit``: the tokens of a text, those that are written included (None: no limit). ``readable``: the tokens that
    the model can read in order to score the next one. ``cuts``: prompts that are too long are cut from the left.
    """

    name: str
    limit: int | None
    readable: int | None
    cuts: bool = False

    def tokenized(
        self, requests: Sequence[Loglik], tokenizer: PromptTokenizer
    ) -> Iterator[tuple[Loglik, TokenizedLoglik | Scored | Failed]]:
        """Return each request as tokens, or its response if the model need not be asked."""
        yield from ((request, Scored(())) for request in requests if not request.continuations)
        requests = [request for request in requests if request.continuations]
        whole = [request for request in requests if request.rolling is None]
        spans = tokenizer.spans_of_all(whole)
        for request, own in zip(whole, spans, strict=True):
            fitting = self._fit(request, own)
            if request.token_logprobs and isinstance(fitting, TokenizedLoglik):
                fitting.pieces = span_pieces(request, [[span] for span in own], tokenizer)
            yield request, fitting
        for request in requests:
            if request.rolling is not None:
                yield request, self._windows(request, tokenizer)

    def _fit(self, request: Loglik, spans: Sequence[TokenSpan]) -> TokenizedLoglik | Failed:
        for text, span in zip(request.continuations, spans, strict=True):
            if span.start >= len(span.ids):  # no probability is wanted
                return unscorable(text, request.prompt.text)
        longest = max(len(span.ids) for span in spans)
        if self.limit is None or self.readable is None or longest <= self.limit:
            return TokenizedLoglik(request, spans)
        if not self.cuts:
            return self._too_long(longest, "the prompt with its continuation")
        most = self.readable + 1  # the last token is predicted and never read
        if (needed := max(len(span.ids) - span.start for span in spans)) >= most:
            return self._too_long(needed, "the continuation")
        return TokenizedLoglik(request, [span.cut(most) for span in spans], cut_tokens=max(longest - most, 0))

    def _windows(self, request: Loglik, tokenizer: PromptTokenizer) -> TokenizedLoglik | Failed:
        if request.rolling is None or request.prompt.text or request.prompt.messages:
            raise BackendError("a document has no prompt before it", where=self.name)
        windows = [tokenizer.rolling_spans(text, request.rolling, self.readable) for text in request.continuations]
        if not all(windows):
            return Failed("no_tokens", "the document has no token that can be scored")
        pieces = span_pieces(request, windows, tokenizer) if request.token_logprobs else ()
        spans = [span for some in windows for span in some]
        return TokenizedLoglik(request, spans, [len(some) for some in windows], pieces=pieces)

    def fit_prompt(self, request: Generate, prompt: TokenIds) -> TextInProgress | Generated | Failed:
        """Return the text to write after the prompt as the model reads it, or the response if it need not be asked.

        A prompt that is cut leaves room for the whole reply.
        """
        kept, room = prompt, request.max_tokens
        if self.limit is not None:
            if self.cuts:
                left = self.limit - request.max_tokens
                if left < 1:
                    return self._too_long(request.max_tokens, "the longest reply")
                kept = prompt[-left:]
            if len(kept) >= self.limit:
                return self._too_long(len(kept), "the prompt")
            room = min(request.max_tokens, self.limit - len(kept))
        if request.max_tokens < 1:
            return Generated("", "length", Usage(len(kept), 0))
        return TextInProgress(request, kept, room, len(prompt) - len(kept))

    def _too_long(self, count: int, what: str) -> Failed:
        return Failed("too_long", f"{what} has {count} tokens; {self.name} takes {self.limit}")


def span_pieces(request: Loglik, groups: Sequence[Sequence[TokenSpan]], tokenizer: PromptTokenizer) -> list[Pieces]:
    """Return the texts of the scored tokens of each continuation, or of each document with its windows.

    A token across the seam shows only the part that belongs to the continuation.
    """
    encoded = tokenizer.encoded_with_ends(request)
    if encoded is None:
        return [_decoded(spans, tokenizer) for spans in groups]
    start, wholes = encoded
    scored = [sum(len(span.ids) - span.start for span in spans) for spans in groups]
    return [
        scored_pieces(whole.text, whole.ends.tolist(), count, start)
        for whole, count in zip(wholes, scored, strict=True)
    ]


def _decoded(spans: Sequence[TokenSpan], tokenizer: PromptTokenizer) -> Pieces:
    """Return the texts of scored tokens as they are decoded: what the tokenizer has changed stays changed."""
    scored = [token for span in spans for token in span.tokens[span.start :]]
    return written_pieces(tokenizer.decode_after, spans[0].tokens[: spans[0].start], scored)
