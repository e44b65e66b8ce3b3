"""A Hugging Face model run by vLLM in this process: ``vllm:PATH_OR_ID``."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kshot.backends.hf.context_window import ContextWindow, FittingPrompt, TokenIds, cuts_left
from kshot.backends.hf.loading import ModelFiles, choose_dtype
from kshot.backends.hf.sampling import token_logprobs
from kshot.backends.hf.scoring import TokenizedLoglik
from kshot.backends.hf.tokens import PromptTokenizer
from kshot.backends.texts import cut_at_stop, replace_surrogates
from kshot.backends.vllm.runtime import (
    LogprobQuery,
    VllmRuntime,
    parse_engine_options,
    plan_queries,
    prepare_environment,
    span_likelihood,
    span_logprobs,
)
from kshot.core import hub
from kshot.core.errors import BackendError, UsageError
from kshot.core.protocols import Abilities, RequestQueue
from kshot.core.reasoning import without_thoughts
from kshot.core.records import Failed, Generate, Generated, Loglik, Request, Response, Usage
from kshot.core.serialization import sampling_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_PERFORMANCE_OPTIONS = frozenset(
    {
        "block_size", "data_parallel_size", "disable_custom_all_reduce", "disable_log_stats",
        "distributed_executor_backend", "download_dir", "enable_chunked_prefill", "enable_expert_parallel",
        "enable_prefix_caching", "enforce_eager", "gpu_memory_utilization", "kv_cache_memory_bytes",
        "max_num_batched_tokens", "max_num_seqs", "max_parallel_loading_workers", "pipeline_parallel_size",
        "tensor_parallel_size", "use_tqdm_on_load",
    }
)  # fmt: skip
"""Engine options that concern memory and speed, and do not change the answers."""


class Vllm:
    """A causal language model, run by vLLM with its prefix cache on.

    Texts become tokens, and tokens texts, exactly as with ``hf:``, so both answer the same questions. The tokenizer
    opens at once; vLLM starts with the first request. ``engine_option``: texts such as ``tensor_parallel_size=2``.
    """

    answers = (Generate, Loglik)
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
        truncate: str | None = None,
        engine_option: Sequence[str] = (),
    ) -> None:
        prepare_environment()
        self._cuts_prompts = cuts_left(truncate)
        self._engine_options = parse_engine_options(engine_option)
        torch, library = hub.import_transformers()
        self._add_bos = add_bos
        self._files = ModelFiles(path, revision=revision, trust_remote_code=trust_remote_code)
        self.name = f"vllm:{self._files.path}"
        self._config = self._files.open("configuration", library.AutoConfig)
        tokenizer = self._files.open("tokenizer", library.AutoTokenizer)
        vllm_device = _check_device(device, torch)
        self._dtype = str(choose_dtype(dtype, vllm_device, self._config, torch)).removeprefix("torch.")
        self._tokenizer = PromptTokenizer(tokenizer, self.name, chat_template=chat_template, add_bos=add_bos)

    # ---- what it is ----

    @property
    def abilities(self) -> Abilities:
        """It can count tokens, and may have a chat template."""
        return Abilities(
            chat_template=bool(self._tokenizer.chat_template),
            count_tokens=self.count_tokens,
            cuts_prompts=self._cuts_prompts,
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of weights, configuration, vocabulary, dtype, chat template, BOS, and engine options that matter."""
        options = {name: value for name, value in self._engine_options.items() if name not in _PERFORMANCE_OPTIONS}
        tokenizer = self._tokenizer
        settings = (self._dtype, tokenizer.chat_template, self._add_bos, tokenizer.leading_ids, options)
        cut = ["truncate left"] if self._cuts_prompts else []
        return self._files.fingerprint("vllm", self._config, *settings, *cut)

    def count_tokens(self, text: str) -> int:
        """Count the tokens of the text itself, without BOS."""
        return len(self._tokenizer.encode(replace_surrogates(text)))

    @cached_property
    def _runtime(self) -> VllmRuntime:
        # The commit whose tokenizer is open already: a branch may move meanwhile. Only hub configurations know it.
        commit = getattr(self._config, "_commit_hash", None)
        options = {
            "dtype": self._dtype,
            "revision": None if self._files.folder else commit or self._files.options["revision"],
            "trust_remote_code": self._files.options["trust_remote_code"],
            "enable_prefix_caching": True,
            **self._engine_options,
        }
        return VllmRuntime(self._files.path, self.name, **options)

    def close(self) -> None:
        """Stop vLLM; a later request starts it again."""
        if (runtime := vars(self).pop("_runtime", None)) is not None:
            runtime.stop()

    # ---- serving ----

    def serve(self, queue: RequestQueue, /) -> Iterator[tuple[Request, Response]]:
        """Answer all waiting requests in one call of vLLM, which makes the batches."""
        while requests := queue.take():
            yield from self._answer(requests)

    def _answer(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Response]]:
        limit = self._runtime.max_length
        window = ContextWindow(self.name, limit, limit - 1, self._cuts_prompts)  # it writes a token after what it reads
        logliks: list[TokenizedLoglik] = []
        generates: list[tuple[Generate, FittingPrompt]] = []
        some = [request for request in requests if isinstance(request, Loglik)]
        for request, tokenized in window.tokenized(some, self._tokenizer):
            if isinstance(tokenized, TokenizedLoglik):
                logliks.append(tokenized)
            else:
                yield request, tokenized
        for each in (request for request in requests if isinstance(request, Generate)):
            prompt = window.fit_prompt(each, self._tokenizer.encode_prompt(each.prompt))
            if isinstance(prompt, FittingPrompt):
                generates.append((each, prompt))
            else:
                yield each, prompt
        yield from self._answer_together(logliks, generates)

    def _answer_together(
        self, logliks: Sequence[TokenizedLoglik], generates: Sequence[tuple[Generate, FittingPrompt]]
    ) -> Iterator[tuple[Request, Response]]:
        spans = (span for tokenized in logliks for span in tokenized.spans)
        queries = plan_queries(spans, cached=self._runtime.caches_prefixes)
        # Prompts that begin alike are neighbours, so that the beginning is in the cache for the second.
        ordered = sorted(generates, key=lambda pair: pair[1].tokens)
        outputs = self._run(list(queries.values()), ordered)
        for tokenized in logliks:
            found = [span_likelihood(span, queries) for span in tokenized.spans]
            values = [span_logprobs(span, queries) for span in (tokenized.spans if tokenized.pieces else ())]
            yield tokenized.request, tokenized.scored(found, values)
        for (generate, prompt), output in zip(ordered, outputs, strict=True):
            yield generate, self._generated(generate, prompt, output)

    def _run(self, queries: Sequence[LogprobQuery], generates: Sequence[tuple[Generate, FittingPrompt]]) -> list[Any]:
        """Run queries and texts together; store what the queries found, and return the outputs of the texts."""
        runtime = self._runtime
        asked = [(query, params) for query in queries for params in runtime.query_params(query)]
        prompts = [query.tokens for query, _ in asked] + [prompt.tokens for _, prompt in generates]
        sampling = [params for _, params in asked]
        sampling += [self._sampling_params(request, prompt.max_new_tokens) for request, prompt in generates]
        outputs = runtime.run(prompts, sampling)
        incomplete = self._record([query for query, _ in asked], outputs[: len(asked)])
        again = [(query, params) for query in incomplete for params in runtime.query_params(query, skip_cache=True)]
        found = runtime.run([query.tokens for query, _ in again], [params for _, params in again])
        if self._record([query for query, _ in again], found):
            raise BackendError("vLLM gave no log-probabilities for some tokens of a prompt", where=self.name)
        return outputs[len(asked) :]

    def _record(self, queries: Sequence[LogprobQuery], outputs: Sequence[Any]) -> list[LogprobQuery]:
        """Store what was found, and return the queries that must skip the prefix cache."""
        grouped: dict[TokenIds, tuple[LogprobQuery, list[Any]]] = {}
        for query, output in zip(queries, outputs, strict=True):
            grouped.setdefault(query.tokens, (query, []))[1].append(output)
        return [query for query, some in grouped.values() if not self._runtime.record(query, some)]

    # ---- Generate ----

    def _sampling_params(self, request: Generate, max_new_tokens: int) -> Any:
        if request.no_repeat_ngram_size:
            hint = "Leave it out, or run the model with hf:."
            raise BackendError("vLLM cannot do no_repeat_ngram_size", where=self.name, hint=hint)
        stop = list(request.stop)
        return self._runtime.sampling_params(
            max_tokens=max_new_tokens,
            temperature=request.temperature,
            top_p=1.0 if request.top_p is None else request.top_p,
            top_k=request.top_k or 0,
            repetition_penalty=request.repetition_penalty or 1.0,
            seed=_seed(request) if request.temperature > 0 else None,
            stop=stop,
            stop_token_ids=sorted(self._tokenizer.stop_ids(stop)),
            # vLLM needs its text to find stop strings; the text of the answer is decoded as with hf:.
            detokenize=bool(stop),
            # 0: that of each written token and no others, before temperature and penalties.
            **({"logprobs": 0} if request.token_logprobs else {}),
        )

    def _generated(self, request: Generate, prompt: FittingPrompt, output: Any) -> Response:
        completion = output.outputs[0]
        new, reason = list(completion.token_ids), completion.finish_reason
        if reason not in ("stop", "length"):
            return Failed("engine", f"vLLM ended the text with {reason!r}", retryable=True)
        # A token that stopped the text, EOS or a requested one, is no part of it. vLLM's stop_reason is then no text.
        kept = new[:-1] if reason == "stop" and not isinstance(completion.stop_reason, str) else new
        text = self._tokenizer.decode_after(prompt.tokens, kept)
        short = cut_at_stop(text, request.stop)
        usage = Usage(len(prompt.tokens), len(new))
        if short is not None:
            text, reason = short, "stop"
        elif reason == "length" and prompt.max_new_tokens < request.max_tokens:
            reason = "window"
        tokens = None
        if request.token_logprobs:
            values = [found[token].logprob for found, token in zip(completion.logprobs, kept, strict=False)]
            tokens = token_logprobs(prompt.tokens, kept, values, text, self._tokenizer)
        opened = self._tokenizer.opens_thoughts(prompt.tokens)
        return without_thoughts(Generated(text, reason, usage, "", prompt.cut_tokens, tokens), opened=opened)


def _seed(request: Generate) -> int:
    """Return a seed of the request's own, so that replicas differ and a text does not depend on its batch."""
    mixed = hashlib.blake2b(f"{request.seed}\0{sampling_digest(request)}".encode(), digest_size=8).digest()
    return int.from_bytes(mixed, "big") >> 1


def _check_device(device: str | None, torch: Any) -> Any:
    """Return the type of device that vLLM will use; kshot cannot choose one of several."""
    found = hub.choose_device(None, torch)
    if device not in (None, "auto"):
        wanted = hub.choose_device(device, torch)
        if wanted.index is not None or wanted.type != found.type:
            hint = "Leave --device out; CUDA_VISIBLE_DEVICES says which GPUs it sees."
            raise UsageError(f"vLLM cannot be put on {device}: it takes {found.type}", hint=hint)
    return found
