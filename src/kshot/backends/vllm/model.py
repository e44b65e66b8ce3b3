"""A Hugging Face model run by vLLM in this process: ``vllm:PATH_OR_ID``."""

from __future__ import annotations

import gc
import json
import math
import os
import sys
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kshot.backends.hf import loading
from kshot.backends.hf.loading import ModelFiles, choose_dtype, invalid_logits
from kshot.backends.hf.sampling import drawn_seed, generated_response
from kshot.backends.hf.tokens import ContextWindow, PromptTokenizer, TokenIds, TokenizedLoglik, TokenSpan
from kshot.backends.texts import TextInProgress, cuts_left, replace_surrogates
from kshot.core import hub
from kshot.core.errors import BackendError, UsageError
from kshot.core.extras import require
from kshot.core.hub import quote_error
from kshot.core.protocols import Abilities, RequestQueue
from kshot.core.records import Failed, Generate, Likelihood, Loglik, Request, Response

# ---- which sequences vLLM reads, and what it is asked about each of them ----

# vLLM gives the probabilities of given tokens after a sequence, which may come from its prefix cache, and those of a
# sequence's own tokens (prompt logprobs: only for tokens that do not come from the cache). So a continuation of one
# token needs its context alone, which all such continuations share. For a longer continuation, the context is read
# first. It is then in the cache, so that prompt logprobs are computed for little more than the continuation's tokens.

MIN_CONTEXT_TOKENS = 32
"""Contexts from this many tokens on are read by themselves first; shorter ones hardly fill a block of the cache."""


@dataclass(slots=True)
class LogprobQuery:
    """One sequence to read, the log-probabilities that are wanted of it, and those that were found.

    ``next_tokens`` are the tokens that may come next, with their log-probabilities (NaN until found); ``likeliest`` is
    the token that vLLM would write. ``own_from`` is the index of the first of its own tokens whose log-probability is
    wanted, None if none is; ``own`` has those found, and ``greedy`` the indices of those that are the likeliest there.
    """

    tokens: TokenIds
    next_tokens: dict[int, float] = field(default_factory=dict)
    likeliest: int | None = None
    own_from: int | None = None
    own: dict[int, float] = field(default_factory=dict)
    greedy: set[int] = field(default_factory=set)


def plan_queries(spans: Iterable[TokenSpan], *, cached: bool) -> dict[TokenIds, LogprobQuery]:
    """Return the queries that answer all spans, in order: sequences that begin alike are neighbours, shortest first."""
    queries: dict[TokenIds, LogprobQuery] = {}
    for span in spans:
        tokens, first = span.tokens, span.start
        last = len(tokens) - 1
        if cached and MIN_CONTEXT_TOKENS <= first < last:
            _query(queries, tokens[:first], tokens[first])
            first += 1
        whole = _query(queries, tokens[:last], tokens[last])
        if first < last:
            whole.own_from = first if whole.own_from is None else min(first, whole.own_from)
    return {tokens: queries[tokens] for tokens in sorted(queries)}


def _query(queries: dict[TokenIds, LogprobQuery], tokens: TokenIds, next_token: int) -> LogprobQuery:
    query = queries.setdefault(tokens, LogprobQuery(tokens))
    query.next_tokens[next_token] = math.nan
    return query


def span_logprobs(span: TokenSpan, queries: Mapping[TokenIds, LogprobQuery]) -> tuple[list[float], bool]:
    """Return log p(token | those before it) of each token of the span, and whether each is the likeliest there."""
    tokens, last = span.tokens, len(span.tokens) - 1
    whole, context = queries[tokens[:last]], queries.get(tokens[: span.start])
    found: list[float] = []
    greedy = whole.likeliest == tokens[last]
    for index in range(span.start, last):
        if index == span.start and context is not None and tokens[index] in context.next_tokens:
            found.append(context.next_tokens[tokens[index]])
            greedy &= context.likeliest == tokens[index]
        else:
            found.append(whole.own[index])
            greedy &= index in whole.greedy
    return [*found, whole.next_tokens[tokens[last]]], greedy


_QUIET_ENVIRONMENT = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    # A scheduler in this process sees all requests before it begins: batches, and roundings, are the same each time.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}
_SET_ELSEWHERE = {
    "model": "the model's spec",
    "tokenizer": "the model's own tokenizer",
    "dtype": "--dtype",
    "revision": "--revision",
    "tokenizer_revision": "--revision",
    "trust_remote_code": "--trust-remote-code",
    "chat_template": "--chat-template",
    "logprobs_mode": "kshot itself",
    "skip_tokenizer_init": "kshot itself",
}
"""Engine options that cannot be given, and what sets them."""
_MAX_NEXT_TOKENS = 128
"""vLLM gives the probabilities of at most this many tokens after one sequence (its MAX_LOGPROB_TOKEN_IDS)."""
_PYTHON_WORDS = {"True": True, "False": False, "None": None}
"""Users write these three in Python's spelling as often as in JSON's."""


def parse_engine_options(given: Sequence[str]) -> dict[str, Any]:
    """Read ``NAME=VALUE`` texts. A value is read as JSON if possible, and is a text otherwise."""
    found: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        name = name.strip().removeprefix("--").replace("-", "_")
        if not sign or not name.isidentifier():
            raise UsageError(f"--engine-option is {text!r}", hint="Write NAME=VALUE, such as tensor_parallel_size=2.")
        if name in _SET_ELSEWHERE:
            raise UsageError(f"the engine option {name} is set by {_SET_ELSEWHERE[name]}")
        if name in found:
            raise UsageError(f"the engine option {name} is given twice")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = _PYTHON_WORDS.get(value, value)
    copies = found.get("data_parallel_size", 1)
    if copies != 1 and found.get("distributed_executor_backend") != "external_launcher":
        raise UsageError(
            f"data_parallel_size is {copies}, and vLLM runs one copy of a model in a process",
            hint="Start vllm serve --data-parallel-size N, and ask it as openai:MODEL. For a model that one GPU cannot "
            "hold, use tensor_parallel_size.",
        )
    return found


def prepare_environment() -> None:
    """Check that vLLM is installed, and make it quiet. It takes long to import, so that happens later."""
    require("running a model with vLLM", "vllm")
    for variable, value in _QUIET_ENVIRONMENT.items():
        os.environ.setdefault(variable, value)


class VllmRuntime:
    """A started vLLM: its limits, and its answers to sequences of tokens."""

    def __init__(self, path: str, name: str, **options: Any) -> None:
        """Start vLLM; ``name`` is the model's name in error messages."""
        with _stdout_to_stderr():
            try:
                import vllm
            except ImportError as error:
                what = f"vLLM cannot be imported ({quote_error(error)})"
                raise BackendError(what, where=name, hint="Install it anew, in an environment of its own.") from error
            self._llm = _start(vllm, path, name, {"use_tqdm_on_load": False, "disable_log_stats": True, **options})
        self._name, self._params = name, vllm.SamplingParams
        # The error for a request that vLLM does not accept: one of its own, or a ValueError, depending on the version.
        self._request_errors = (ValueError, getattr(vllm.exceptions, "VLLMClientError", ValueError))
        config = self._llm.llm_engine.vllm_config
        self.max_length: int = config.model_config.max_model_len
        self.caches_prefixes = bool(config.cache_config.enable_prefix_caching)
        self.stop = weakref.finalize(self, _stop, self._llm)

    def sampling_params(self, **fields: Any) -> Any:
        """Return vLLM's SamplingParams. Values that vLLM does not accept are an error."""
        try:
            return self._params(**fields)
        except self._request_errors as error:
            raise self._refused(error) from error

    def run(self, prompts: Sequence[Sequence[int]], sampling: Sequence[Any]) -> list[Any]:
        """Run everything in one call; the outputs come back in the same order."""
        requests = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        try:
            return list(self._llm.generate(requests, list(sampling), use_tqdm=False)) if requests else []
        except self._request_errors as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> BackendError:
        return BackendError(f"vLLM refused a request ({quote_error(error)})", where=self._name)

    # ---- log-probabilities ----

    def query_params(self, query: LogprobQuery, *, skip_cache: bool = False) -> list[Any]:
        """Return the SamplingParams for a query: one, or more if many tokens may come next."""
        tokens = list(query.next_tokens)
        parts = [tokens[at : at + _MAX_NEXT_TOKENS] for at in range(0, len(tokens), _MAX_NEXT_TOKENS)]
        return [
            self.sampling_params(
                max_tokens=1,
                temperature=0.0,
                detokenize=False,
                flat_logprobs=True,
                logprob_token_ids=part,
                # 0: no tokens beside the prompt's own. By default vLLM then reads the whole prompt anew. Only the last
                # tokens are needed here, and ``record`` checks that these did not come from the cache.
                prompt_logprobs=0 if query.own_from is not None and index == 0 else None,
                skip_reading_prefix_cache=skip_cache,
            )
            for index, part in enumerate(parts)
        ]

    def record(self, query: LogprobQuery, outputs: Sequence[Any]) -> bool:
        """Store what was found. False: some tokens came from the prefix cache, so the query must skip the cache."""
        for output in outputs:
            after = output.outputs[0].logprobs[0]
            for token in query.next_tokens.keys() & after.keys():
                query.next_tokens[token] = after[token].logprob
            query.likeliest = output.outputs[0].token_ids[0]  # at temperature 0
        if any(math.isnan(value) for value in query.next_tokens.values()):
            raise invalid_logits(self._name)
        if query.own_from is None:
            return True
        size, rows = len(query.tokens), outputs[0].prompt_logprobs
        # The row of a token is computed at the place before it. Rows from the cache are missing at the front of the
        # list, or they are there without values, depending on vLLM's model runner: count from the end.
        if (outputs[0].num_cached_tokens or 0) >= query.own_from or len(rows) - 1 < size - query.own_from:
            return False
        for index in range(query.own_from, size):
            found = rows[index - size][query.tokens[index]]
            query.own[index] = found.logprob
            if found.rank == 1:
                query.greedy.add(index)
        return True


def _start(vllm: Any, path: str, name: str, options: dict[str, Any]) -> Any:
    try:
        return vllm.LLM(path, **options)
    except TypeError as error:
        raise UsageError(f"vLLM does not take these engine options ({quote_error(error)})") from error
    except Exception as error:  # a full GPU, an unknown model, a wrong option: vLLM raises many types
        hint = "VLLM_LOGGING_LEVEL=INFO shows what it did; --engine-option NAME=VALUE sets it up."
        raise BackendError(f"vLLM could not start ({quote_error(error)})", where=name, hint=hint) from error


def _stop(llm: Any) -> None:
    """Give the memory back: another model may come after this one."""
    with suppress(AttributeError):
        llm.llm_engine.engine_core.shutdown()
    del llm
    gc.collect()


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Send what libraries print while they start, some of it from C++, to stderr: stdout is for results."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        with warnings.catch_warnings(), redirect_stdout(sys.stderr):
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)


def check_model(path: str, *, engine_option: Sequence[str] = (), **options: Any) -> None:
    """Refuse options that cannot work, a folder that is not a whole model, and a hub name that cannot be fetched."""
    parse_engine_options(engine_option)
    loading.check_model(path, **options)


# ---- the model ----

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
