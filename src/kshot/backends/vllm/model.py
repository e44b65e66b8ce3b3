"""A Hugging Face model run by vLLM in this process: ``vllm:PATH_OR_ID``."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kshot.backends.hf.context_window import ContextWindow, TokenIds, cuts_left
from kshot.backends.hf.loading import ModelFiles, choose_dtype
from kshot.backends.hf.sampling import drawn_seed, generated_response
from kshot.backends.hf.scoring import TokenizedLoglik
from kshot.backends.hf.tokens import PromptTokenizer
from kshot.backends.texts import TextInProgress, replace_surrogates
from kshot.backends.vllm.runtime import (
    LogprobQuery,
    VllmRuntime,
    parse_engine_options,
    plan_queries,
    prepare_environment,
    span_logprobs,
)
from kshot.core import hub
from kshot.core.errors import BackendError, UsageError
from kshot.core.protocols import Abilities, RequestQueue
from kshot.core.records import Failed, Generate, Likelihood, Loglik, Request, Response

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
        texts: list[TextInProgress] = []
        some = [request for request in requests if isinstance(request, Loglik)]
        for request, tokenized in window.tokenized(some, self._tokenizer):
            if isinstance(tokenized, TokenizedLoglik):
                logliks.append(tokenized)
            else:
                yield request, tokenized
        for each in (request for request in requests if isinstance(request, Generate)):
            fitting = window.fit_prompt(each, self._tokenizer.encode_prompt(each.prompt))
            if isinstance(fitting, TextInProgress):
                texts.append(fitting)
            else:
                yield each, fitting
        yield from self._answer_together(logliks, texts)

    def _answer_together(
        self, logliks: Sequence[TokenizedLoglik], texts: Sequence[TextInProgress]
    ) -> Iterator[tuple[Request, Response]]:
        spans = (span for tokenized in logliks for span in tokenized.spans)
        queries = plan_queries(spans, cached=self._runtime.caches_prefixes)
        # Prompts that begin alike are neighbours, so that the beginning is in the cache for the second.
        ordered = sorted(texts, key=lambda text: tuple(text.prompt))
        outputs = self._run(list(queries.values()), ordered)
        for tokenized in logliks:
            for number, span in enumerate(tokenized.spans):
                values, greedy = span_logprobs(span, queries)
                likelihood = Likelihood(math.fsum(values), len(values), greedy)
                if (scored := tokenized.add(number, likelihood, values)) is not None:
                    yield tokenized.request, scored
        for text, output in zip(ordered, outputs, strict=True):
            yield text.request, self._generated(text, output)

    def _run(self, queries: Sequence[LogprobQuery], texts: Sequence[TextInProgress]) -> list[Any]:
        """Run queries and texts together; store what the queries found, and return the outputs of the texts."""
        runtime = self._runtime
        asked = [(query, params) for query in queries for params in runtime.query_params(query)]
        prompts = [query.tokens for query, _ in asked] + [text.prompt for text in texts]
        sampling = [params for _, params in asked]
        sampling += [self._sampling_params(text.request, text.max_new_tokens) for text in texts]
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
            seed=drawn_seed(request) if request.temperature > 0 else None,
            stop=stop,
            stop_token_ids=sorted(self._tokenizer.stop_ids(stop)),
            # vLLM needs its text to find stop strings; the text of the answer is decoded as with hf:.
            detokenize=bool(stop),
            # 0: that of each written token and no others, before temperature and penalties.
            **({"logprobs": 0} if request.token_logprobs else {}),
        )

    def _generated(self, text: TextInProgress, output: Any) -> Response:
        completion = output.outputs[0]
        text.new_tokens, reason = list(completion.token_ids), completion.finish_reason
        if reason not in ("stop", "length"):
            return Failed("engine", f"vLLM ended the text with {reason!r}", retryable=True)
        text.stop_reason = reason if reason == "stop" else text.length_reason
        # A token that stopped the text, EOS or a requested one, is no part of it. vLLM's stop_reason is then no text.
        if reason == "stop" and not isinstance(completion.stop_reason, str):
            text.stop_ids = frozenset(text.new_tokens[-1:])
        if text.request.token_logprobs:
            pairs = zip(completion.logprobs, text.new_tokens, strict=False)
            text.logprobs = [found[token].logprob for found, token in pairs]
        return generated_response(text, self._tokenizer)


def _check_device(device: str | None, torch: Any) -> Any:
    """Return the type of device that vLLM will use; kshot cannot choose one of several."""
    found = hub.choose_device(None, torch)
    if device not in (None, "auto"):
        wanted = hub.choose_device(device, torch)
        if wanted.index is not None or wanted.type != found.type:
            hint = "Leave --device out; CUDA_VISIBLE_DEVICES says which GPUs it sees."
            raise UsageError(f"vLLM cannot be put on {device}: it takes {found.type}", hint=hint)
    return found
