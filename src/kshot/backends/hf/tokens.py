"""Between text and tokens for a Hugging Face tokenizer: BOS, chat, the span of a continuation, and back."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from kshot.backends.hf.encoding import Encoded, Encoder, Ids, alike
from kshot.backends.hf.trie import common
from kshot.backends.texts import replace_surrogates
from kshot.core.errors import BackendError
from kshot.core.records import Message, Prompt
from kshot.prompts.chat import TEMPLATE_FAULTS, Renderer, as_dicts, fold_system, renderer, template_fault

if TYPE_CHECKING:
    from collections.abc import Sequence

# Words, runs of spaces, a line end and characters of several bytes: what two encoders would disagree on first.
_TRIAL = "A trial,  of\nthings: naïve 日本 🙂"
# Tokens before the new text that are decoded along with it, so that its first space survives sentencepiece.
_ANCHOR = 8
# Characters that are encoded again rather than looked for.
_LITTLE = 400


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """A whole sequence, and where the tokens begin whose probability is asked."""

    ids: Ids
    start: int

    @property
    def tokens(self) -> tuple[int, ...]:
        """The sequence as plain numbers."""
        return tuple(self.ids.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Span) and (self.tokens, self.start) == (other.tokens, other.start)

    def __hash__(self) -> int:
        return hash((self.tokens, self.start))


class Tokens:
    """A tokenizer with its BOS and chat template settled."""

    def __init__(self, tokenizer: Any, name: str, *, chat_template: str | None, add_bos: bool | None) -> None:
        self.tokenizer, self.name = tokenizer, name
        self.forced = add_bos is True
        self.lead = self._lead(add_bos=add_bos)
        self.chat_source = tokenizer.chat_template if chat_template is None else chat_template
        self._render = self._renderer(chat_template)
        self._bare = self._bare_encoder()
        self._special = tokenizer.get_added_vocab()
        self._encoder = Encoder(self._whole)
        self._last = Encoded("", np.zeros(0, np.int32), np.zeros(0, np.int64))

    # ---- to tokens ----

    def encode(self, text: str) -> tuple[int, ...]:
        """Encode a text and nothing else."""
        if self._bare is not None:
            return tuple(self._bare.encode(text, add_special_tokens=False).ids)
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def _whole(self, texts: Sequence[str]) -> list[Encoded]:
        found = self._bare.encode_batch(list(texts), add_special_tokens=False)
        # From the flat ids and ends numpy makes arrays at once; from pairs it would go through every one of them.
        return [
            Encoded(text, np.array(one.ids, np.int32), np.fromiter((end for _, end in one.offsets), np.int64, len(one)))
            for text, one in zip(texts, found, strict=True)
        ]

    def _prompts(self, texts: Sequence[str]) -> list[Encoded]:
        """Encode prompts; what they have in common with those before them is not encoded again."""
        if self._bare is None:
            return [Encoded(text, np.array(self.encode(text), np.int32), np.zeros(0, np.int64)) for text in texts]
        found: list[Encoded] = []
        while len(found) < len(texts):
            # As long as a prompt has no more in common with the one before it, the one before them all will do.
            known, stop = self._last, len(found) + 1
            while stop < len(texts) and _as_well(known.text, texts[stop - 1], texts[stop]):
                stop += 1
            found += self._encoder.extended([(known, text) for text in texts[len(found) : stop]])
            self._last = found[-1]
        return found

    def read(self, prompt: Prompt) -> tuple[int, ...]:
        """Encode what a model is to continue, BOS included; an empty prompt is BOS alone, where there is one."""
        tokens = self._led(self._prompts([self._text(prompt)])[0].ids, chat=bool(prompt.messages))
        if len(tokens):
            return tuple(tokens.tolist())
        if self.tokenizer.bos_token_id is None:
            raise BackendError("the prompt is empty and the tokenizer has no BOS token to begin with", where=self.name)
        return (self.tokenizer.bos_token_id,)

    def spans(self, prompt: Prompt, continuations: Sequence[str]) -> list[Span]:
        """One span per continuation."""
        return self.all_spans([(prompt, continuations)])[0]

    def all_spans(self, asked: Sequence[tuple[Prompt, Sequence[str]]]) -> list[list[Span]]:
        """One span per continuation of each prompt. A token that straddles the boundary belongs to the continuation."""
        contexts = self._prompts([self._text(prompt) for prompt, _ in asked])
        pairs = [
            (context, replace_surrogates(text))
            for context, (_, texts) in zip(contexts, asked, strict=True)
            for text in texts
        ]
        if not all(text for _, text in pairs):
            raise BackendError("an empty continuation has no probability", where=self.name)
        wholes = iter(zip(pairs, self._wholes(pairs), strict=True))
        return [
            [self._span(*pair, whole, chat=bool(prompt.messages)) for pair, whole in islice(wholes, len(texts))]
            for prompt, texts in asked
        ]

    def _span(self, context: Encoded, continuation: str, whole: tuple[Ids, int], *, chat: bool) -> Span:
        body, start = whole
        tokens = self._led(body, chat=chat)
        # The very first token of a sequence is given, not predicted: it cannot be scored.
        start = max(start + len(tokens) - len(body), 1)
        if start >= len(tokens):
            short = f"{continuation[:60]!r} after {context.text[-60:]!r}"
            hint = "Give a prompt, or a BOS token to begin with (add_bos)."
            raise BackendError(f"no token of the continuation can be scored: {short}", where=self.name, hint=hint)
        return Span(tokens, start)

    def _wholes(self, pairs: Sequence[tuple[Encoded, str]]) -> list[tuple[Ids, int]]:
        """Tokens of each whole, and the index of the first that reaches into the continuation."""
        if self._bare is None:
            ids = [np.array(self.encode(context.text + text), np.int32) for context, text in pairs]
            known = [context for context, _ in pairs]
            return [(one, common(one, c.ids) if c.text else 0) for one, c in zip(ids, known, strict=True)]
        found = self._encoder.extended([(context, context.text + text) for context, text in pairs])
        starts = [
            int(np.append(one.ends > len(context.text), True).argmax()) if context.text else 0
            for one, (context, _) in zip(found, pairs, strict=True)
        ]
        return [(one.ids, start) for one, start in zip(found, starts, strict=True)]

    def _led(self, tokens: Ids, *, chat: bool) -> Ids:
        """Put BOS in front, once: a chat template writes its own, so there only if it was asked for by name."""
        if (chat and not self.forced) or tuple(tokens[: len(self.lead)].tolist()) == self.lead:
            return tokens
        return np.concatenate([np.array(self.lead, np.int32), tokens])

    def _lead(self, *, add_bos: bool | None) -> tuple[int, ...]:
        """Learn what the tokenizer puts before a text of itself (what it puts after, EOS or SEP, is left off)."""
        if add_bos is False:
            return ()
        plain = list(self.tokenizer.encode(_TRIAL, add_special_tokens=False))
        full = list(self.tokenizer.encode(_TRIAL, add_special_tokens=True))
        extra = len(full) - len(plain)
        lead = next((tuple(full[:n]) for n in range(extra + 1) if full[n : n + len(plain)] == plain), ())
        if lead or add_bos is None:
            return lead
        if self.tokenizer.bos_token_id is None:
            raise BackendError("the tokenizer has no BOS token to add", where=self.name, hint="Leave add_bos out.")
        return (self.tokenizer.bos_token_id,)

    def _bare_encoder(self) -> Any:
        """Take a fast tokenizer's core, its post-processor off: BOS is settled, and some trim the offsets."""
        if not getattr(self.tokenizer, "is_fast", False):
            return None
        from tokenizers.processors import TemplateProcessing

        bare = self.tokenizer.backend_tokenizer
        bare.no_truncation()
        bare.no_padding()
        bare.post_processor = TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
        same = bare.encode(_TRIAL, add_special_tokens=False).ids
        return bare if same == list(self.tokenizer.encode(_TRIAL, add_special_tokens=False)) else None

    # ---- chat ----

    def _text(self, prompt: Prompt) -> str:
        if not prompt.messages:
            return replace_surrogates(prompt.text)
        if self._render is None:
            raise BackendError(
                "the model has no chat template, and the prompt is a conversation",
                where=self.name,
                hint="Give a template with --chat-template FILE, or treat it as a base model: --model-type base.",
            )
        messages = [Message(message.role, replace_surrogates(message.content)) for message in prompt.messages]
        render = self._render
        return render(fold_system(messages, lambda some: render(some, True)), True)  # noqa: FBT003

    def _renderer(self, given: str | None) -> Renderer | None:
        if given is not None:
            return renderer(given, self.tokenizer.bos_token or "", self.tokenizer.eos_token or "")
        if not self.tokenizer.chat_template:
            return None

        def own(messages: Sequence[Message], add_generation_prompt: bool) -> str:  # noqa: FBT001
            try:
                return str(
                    self.tokenizer.apply_chat_template(
                        as_dicts(messages), add_generation_prompt=add_generation_prompt, tokenize=False
                    )
                )
            except TEMPLATE_FAULTS as error:
                raise template_fault(error) from None

        return own

    # ---- and back ----

    def write(self, before: Sequence[int], new: Sequence[int]) -> str:
        """Decode what new tokens add after others, its leading space kept, special tokens left out."""
        anchor = list(before[-_ANCHOR:])
        head, whole = self._decode(anchor), self._decode([*anchor, *new])
        return whole[len(head) :] if whole.startswith(head) else self._decode(list(new))

    def _decode(self, tokens: list[int]) -> str:
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def ends(self, stop: Sequence[str]) -> frozenset[int]:
        """Stop strings that are special tokens, which decoding leaves out: these stop by their number."""
        return frozenset(self._special[text] for text in stop if text in self._special)


def _as_well(known: str, before: str, text: str) -> bool:
    """Whether a text has about as much in common with a known one as with the one before it."""
    shared = alike(before, text)
    return shared < _LITTLE or alike(known, text) >= shared - _LITTLE
