"""A Hugging Face model run by vLLM in this process: ``vllm:PATH_OR_ID``."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kshot.backends.hf import loading
from kshot.backends.hf.sampling import cut
from kshot.backends.hf.tokens import Span, Tokens
from kshot.backends.texts import replace_surrogates
from kshot.backends.vllm.logprobs import Ids, Reading, logprob, plan
from kshot.backends.vllm.runtime import Engine, engine_options, prepare
from kshot.core import hub
from kshot.core.errors import BackendError, UsageError
from kshot.core.protocols import Abilities, RequestQueue
from kshot.core.records import (
    Failed,
    Generate,
    Generated,
    Likelihood,
    Loglik,
    Request,
    Response,
    Scored,
    Usage,
    digest,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_HARMLESS = frozenset(
    {
        "block_size", "data_parallel_size", "disable_custom_all_reduce", "disable_log_stats",
        "distributed_executor_backend", "download_dir", "enable_chunked_prefill", "enable_expert_parallel",
        "enable_prefix_caching", "enforce_eager", "gpu_memory_utilization", "kv_cache_memory_bytes",
        "max_num_batched_tokens", "max_num_seqs", "max_parallel_loading_workers", "pipeline_parallel_size",
        "tensor_parallel_size", "use_tqdm_on_load",
    }
)  # fmt: skip
"""Engine options that are about memory and speed: an answer is the same answer with another of them."""


class Vllm:
    """A causal language model, run by vLLM with its prefix cache on.

    Text becomes tokens, and tokens text, just as for ``hf:``, so both answer the same questions. The tokenizer opens at
    once; vLLM starts when the first request comes. ``engine_option``: texts such as ``tensor_parallel_size=2``.
    """

    notes = ()

    def __init__(
        self,
        path: str,
        *,
        device: str | None = None,
        dtype: Any = None,
        chat_template: str | None = None,
        add_bos: bool | None = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
        engine_option: Sequence[str] = (),
    ) -> None:
        prepare()
        self._own_options = engine_options(engine_option)
        torch, library = hub.import_transformers()
        self._path, self._add_bos = str(path), add_bos
        self._folder = hub.find_model_folder(self._path)
        if self._folder is not None:
            self._path = str(self._folder)
        self._revision, self._trust = revision or "main", trust_remote_code
        options = {
            "revision": self._revision,
            "trust_remote_code": trust_remote_code,
            "local_files_only": self._folder is not None or hub.hub_is_unreachable(),
        }
        self._config = hub.open_pretrained("configuration", self._path, library.AutoConfig.from_pretrained, **options)
        tokenizer = hub.open_pretrained("tokenizer", self._path, library.AutoTokenizer.from_pretrained, **options)
        place = _place(device, torch)
        self._dtype = str(loading.choose_dtype(dtype, place, self._config, torch)).removeprefix("torch.")
        self._tokens = Tokens(tokenizer, self.name, chat_template=chat_template, add_bos=add_bos)

    # ---- what it is ----

    @property
    def name(self) -> str:
        """The spec that opens this model."""
        return f"vllm:{self._path}"

    @property
    def answers(self) -> tuple[type, ...]:
        """It writes and it weighs."""
        return (Generate, Loglik)

    @property
    def abilities(self) -> Abilities:
        """It can count tokens, and may bring a chat template."""
        return Abilities(chat_template=bool(self._tokens.chat_source), count_tokens=self.count_tokens)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of weights, configuration, vocabulary, dtype, chat template, BOS, and engine options that matter."""
        origin = (self._path, self._folder, self._revision, self._config)
        engine = {name: value for name, value in self._own_options.items() if name not in _HARMLESS}
        settled = (self._dtype, self._tokens.chat_source, self._add_bos, self._tokens.lead, engine)
        return loading.model_fingerprint("vllm", origin, *settled)

    def count_tokens(self, text: str) -> int:
        """Tokens of the text itself, BOS not counted."""
        return len(self._tokens.encode(replace_surrogates(text)))

    @cached_property
    def _engine(self) -> Engine:
        options = {
            "dtype": self._dtype,
            # The commit whose tokenizer is open already: a branch may move in between.
            "revision": None if self._folder else getattr(self._config, "_commit_hash", None) or self._revision,
            "trust_remote_code": self._trust,
            "enable_prefix_caching": True,
            **self._own_options,
        }
        return Engine(self._path, self.name, **options)

    def close(self) -> None:
        """Stop vLLM; what is asked after this starts it again."""
        if (engine := vars(self).pop("_engine", None)) is not None:
            engine.stop()

    # ---- serving ----

    def serve(self, waiting: RequestQueue, /) -> Iterator[tuple[Request, Response]]:
        """Answer everything that waits in one call of vLLM, which batches it by itself."""
        while taken := waiting.take():
            for request in taken:
                if not isinstance(request, self.answers):
                    raise BackendError(f"cannot answer a {type(request).__name__}", where=self.name)
            yield from self._answer(taken)

    def _answer(self, taken: Sequence[Request]) -> Iterator[tuple[Request, Response]]:
        weighed: list[tuple[Loglik, list[Span]]] = []
        written: list[tuple[Generate, Ids]] = []
        for request in taken:
            match request:
                case Loglik():
                    spans = self._tokens.spans(request.prompt, request.continuations)
                    longest = max((len(span.tokens) for span in spans), default=0)
                    if longest > self._engine.limit:
                        yield request, self._too_long(longest, "the prompt with its continuation")
                    else:
                        weighed.append((request, spans))
                case Generate():
                    prompt = self._tokens.read(request.prompt)
                    if len(prompt) + 1 > self._engine.limit:
                        yield request, self._too_long(len(prompt), "the prompt")
                    elif request.max_tokens < 1:
                        yield request, Generated("", "length", Usage(len(prompt), 0))
                    else:
                        written.append((request, prompt))
        yield from self._together(weighed, written)

    def _too_long(self, count: int, what: str) -> Failed:
        return Failed("too_long", f"{what} has {count} tokens; {self.name} takes {self._engine.limit}")

    def _together(
        self, weighed: Sequence[tuple[Loglik, list[Span]]], written: Sequence[tuple[Generate, Ids]]
    ) -> Iterator[tuple[Request, Response]]:
        readings = plan((span for _, spans in weighed for span in spans), cached=self._engine.cached)
        # Prompts with a common beginning stand next to each other, so that it is in the cache for the second.
        ordered = sorted(written, key=lambda pair: pair[1])
        replies = self._read(list(readings.values()), ordered)
        for request, spans in weighed:
            found = (Likelihood(logprob(span, readings), len(span.tokens) - span.start) for span in spans)
            yield request, Scored(tuple(found))
        for (asked, prompt), output in zip(ordered, replies, strict=True):
            yield asked, self._reply(asked, prompt, output)

    def _read(self, readings: Sequence[Reading], written: Sequence[tuple[Generate, Ids]] = ()) -> list[Any]:
        """Run readings and texts together; note what the readings found, and give the outputs of the texts."""
        asked = [(reading, one) for reading in readings for one in self._engine.asking(reading)]
        prompts = [reading.tokens for reading, _ in asked] + [prompt for _, prompt in written]
        sampling = [one for _, one in asked] + [self._sampling(request, len(prompt)) for request, prompt in written]
        outputs = self._engine.run(prompts, sampling)
        again = self._note([reading for reading, _ in asked], outputs[: len(asked)])
        afresh = [(reading, one) for reading in again for one in self._engine.asking(reading, fresh=True)]
        found = self._engine.run([reading.tokens for reading, _ in afresh], [one for _, one in afresh])
        if self._note([reading for reading, _ in afresh], found):
            raise BackendError("vLLM gave no log-probabilities for some tokens of a prompt", where=self.name)
        return outputs[len(asked) :]

    def _note(self, readings: Sequence[Reading], outputs: Sequence[Any]) -> list[Reading]:
        """Note what was found, and give the readings that must be asked afresh."""
        grouped: dict[Ids, tuple[Reading, list[Any]]] = {}
        for reading, output in zip(readings, outputs, strict=True):
            grouped.setdefault(reading.tokens, (reading, []))[1].append(output)
        return [reading for reading, some in grouped.values() if not self._engine.noted(reading, some)]

    # ---- Generate ----

    def _sampling(self, request: Generate, length: int) -> Any:
        if request.no_repeat_ngram_size:
            hint = "Leave it out, or run the model with hf:."
            raise BackendError("vLLM cannot do no_repeat_ngram_size", where=self.name, hint=hint)
        stop = [text for text in request.stop if text]
        return self._engine.sampling(
            max_tokens=min(request.max_tokens, self._engine.limit - length),
            temperature=request.temperature,
            top_p=1.0 if request.top_p is None else request.top_p,
            top_k=request.top_k or 0,
            repetition_penalty=request.repetition_penalty or 1.0,
            seed=_seed(request) if request.temperature > 0 else None,
            stop=stop,
            stop_token_ids=sorted(self._tokens.ends(stop)),
            # Its text is needed to find stop strings; what is kept is decoded as for hf:.
            detokenize=bool(stop),
        )

    def _reply(self, request: Generate, prompt: Ids, output: Any) -> Response:
        told = output.outputs[0]
        new, finish = list(told.token_ids), told.finish_reason
        if finish not in ("stop", "length"):
            return Failed("engine", f"vLLM ended the text with {finish!r}", retryable=True)
        # Stopped by a token, EOS or one that was asked for: it is no part of the text.
        kept = new[:-1] if finish == "stop" and not isinstance(told.stop_reason, str) else new
        text = self._tokens.write(prompt, kept)
        short = cut(text, request.stop)
        usage = Usage(len(prompt), len(new))
        return Generated(text, finish, usage) if short is None else Generated(short, "stop", usage)


def _seed(request: Generate) -> int:
    """A seed of the request's own, so that replicas differ and a text does not depend on those beside it."""
    mixed = hashlib.blake2b(f"{request.seed}\0{digest(request)}".encode(), digest_size=8).digest()
    return int.from_bytes(mixed, "big") >> 1


def _place(device: str | None, torch: Any) -> Any:
    """The kind of device vLLM will take; which one of several is not kshot's to say."""
    found = hub.choose_device(None, torch)
    if device not in (None, "auto"):
        asked = hub.choose_device(device, torch)
        if asked.index is not None or asked.type != found.type:
            hint = "Leave --device out; CUDA_VISIBLE_DEVICES says which GPUs it sees."
            raise UsageError(f"vLLM cannot be put on {device}: it takes {found.type}", hint=hint)
    return found
