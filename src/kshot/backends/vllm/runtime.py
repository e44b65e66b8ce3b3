"""vLLM itself: started quietly in this process, with the user's engine options, and asked in tokens."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import sys
import warnings
import weakref
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, Any

from kshot.backends.hf.sampling import broken
from kshot.core.errors import BackendError, MissingExtra, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kshot.backends.vllm.logprobs import Ids, Reading

_QUIET = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    # A scheduler in this process sees all requests before it begins: batches, and roundings, are the same each time.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}
_SETTLED = {
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
_MOST_FOLLOWING = 128
"""vLLM gives the probabilities of at most this many tokens after one sequence (its MAX_LOGPROB_TOKEN_IDS)."""

_QUOTED = 300


def engine_options(given: Sequence[str]) -> dict[str, Any]:
    """Read ``NAME=VALUE`` texts; a value is JSON where it can be read as such, else a text."""
    found: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        name = name.strip().removeprefix("--").replace("-", "_")
        if not sign or not name.isidentifier():
            raise UsageError(f"--engine-option is {text!r}", hint="Write NAME=VALUE, such as tensor_parallel_size=2.")
        if name in _SETTLED:
            raise UsageError(f"the engine option {name} is set by {_SETTLED[name]}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            # Python's spelling of the three words is as likely as JSON's.
            found[name] = {"True": True, "False": False, "None": None}.get(value, value)
    return found


def prepare() -> None:
    """Refuse to go on where there is no vLLM, and ask for quiet; importing it takes long, and is left for later."""
    if importlib.util.find_spec("vllm") is None:
        raise MissingExtra("vllm", "vllm", "running a model with vLLM")
    for variable, value in _QUIET.items():
        os.environ.setdefault(variable, value)


class Engine:
    """A started vLLM: its limits, and its answers to sequences of tokens."""

    def __init__(self, path: str, name: str, **options: Any) -> None:
        with _quiet():
            vllm = _imported(name)
            self._llm = _started(vllm, path, name, {"use_tqdm_on_load": False, "disable_log_stats": True, **options})
        self._name, self._params = name, vllm.SamplingParams
        # A request that vLLM does not take: an error of its own, a ValueError in some places and versions.
        self._refusals = (ValueError, getattr(vllm.exceptions, "VLLMClientError", ValueError))
        config = self._llm.llm_engine.vllm_config
        self.limit: int = config.model_config.max_model_len
        self.cached = bool(config.cache_config.enable_prefix_caching)
        self.stop = weakref.finalize(self, _stop, self._llm)

    def sampling(self, **fields: Any) -> Any:
        """Make a SamplingParams; what vLLM does not take is an error that says so."""
        try:
            return self._params(**fields)
        except self._refusals as error:
            raise self._refused(error) from error

    def run(self, prompts: Sequence[Ids], sampling: Sequence[Any]) -> list[Any]:
        """Ask everything in one call; outputs come back in the order asked."""
        asked = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        try:
            return list(self._llm.generate(asked, list(sampling), use_tqdm=False)) if asked else []
        except self._refusals as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> BackendError:
        return BackendError(f"vLLM refused a request ({_said(error)})", where=self._name)

    # ---- readings ----

    def asking(self, reading: Reading, *, fresh: bool = False) -> list[Any]:
        """What to ask for a reading: one SamplingParams, more if many tokens may follow; ``fresh``: past the cache."""
        following = list(reading.following)
        parts = [following[at : at + _MOST_FOLLOWING] for at in range(0, len(following), _MOST_FOLLOWING)]
        return [
            self.sampling(
                max_tokens=1,
                temperature=0.0,
                detokenize=False,
                flat_logprobs=True,
                logprob_token_ids=part,
                # 0 more than the prompt's own tokens. With it vLLM by default reads everything anew; what is needed
                # here are the last tokens only, and ``noted`` sees to it that these were not in the cache.
                prompt_logprobs=0 if reading.since is not None and index == 0 else None,
                skip_reading_prefix_cache=fresh,
            )
            for index, part in enumerate(parts)
        ]

    def noted(self, reading: Reading, outputs: Sequence[Any]) -> bool:
        """Note what was found in a reading; False if some of it lay in the prefix cache, so must be asked afresh."""
        for output in outputs:
            after = output.outputs[0].logprobs[0]
            for token in reading.following.keys() & after.keys():
                reading.following[token] = after[token].logprob
        if any(value != value for value in reading.following.values()):  # noqa: PLR0124 - NaN
            raise broken(self._name)
        if reading.since is None:
            return True
        size, rows = len(reading.tokens), outputs[0].prompt_logprobs
        # The row of a token is computed at the place before it. Rows from the cache are missing at the front of the
        # list, or stand there unfilled, after the kind of vLLM's model runner: count from the end.
        if (outputs[0].num_cached_tokens or 0) >= reading.since or len(rows) - 1 < size - reading.since:
            return False
        for place in range(reading.since, size):
            reading.own[place] = rows[place - size][reading.tokens[place]].logprob
        return True


def _imported(name: str) -> Any:
    try:
        import vllm
    except ModuleNotFoundError as error:
        raise MissingExtra("vllm", "vllm", "running a model with vLLM") from error
    except ImportError as error:
        what = f"vLLM cannot be imported ({_said(error)})"
        raise BackendError(what, where=name, hint="Install it anew, in an environment of its own.") from error
    return vllm


def _started(vllm: Any, path: str, name: str, options: dict[str, Any]) -> Any:
    try:
        return vllm.LLM(path, **options)
    except TypeError as error:
        raise UsageError(f"vLLM does not take these engine options ({_said(error)})") from error
    except Exception as error:  # a GPU that is full, a model it does not know, an option of a wrong kind: all differ
        hint = "VLLM_LOGGING_LEVEL=INFO shows what it did; --engine-option NAME=VALUE sets it up."
        raise BackendError(f"vLLM could not start ({_said(error)})", where=name, hint=hint) from error


def _stop(llm: Any) -> None:
    """Give the memory back: another model may come after this one."""
    with suppress(AttributeError):
        llm.llm_engine.engine_core.shutdown()
    del llm
    gc.collect()


@contextmanager
def _quiet() -> Iterator[None]:
    """Send what libraries print while they start, some of it from C++, to stderr: stdout is for results."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with warnings.catch_warnings(), redirect_stdout(sys.stderr):
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _said(error: Exception) -> str:
    said = " ".join(str(error).split()) or type(error).__name__
    return said if len(said) <= _QUOTED else f"{said[:_QUOTED]}…"
