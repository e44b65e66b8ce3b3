"""vLLM itself: started quietly in this process with the user's engine options, and asked in tokens."""

from __future__ import annotations

import gc
import json
import math
import os
import sys
import warnings
import weakref
from collections.abc import Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kshot.backends.hf import checking
from kshot.backends.hf.loading import invalid_logits
from kshot.core.errors import BackendError, UsageError
from kshot.core.extras import require
from kshot.core.hub import quote_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kshot.backends.hf.context_window import TokenIds
    from kshot.backends.hf.tokens import TokenSpan


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
    checking.check_model(path, **options)
