"""A stand-in for vLLM: its calls and outputs, its prefix cache and its limits, over a torch model.

It follows vLLM 0.32. tests/real_vllm/test_vllm.py asks the real one the same questions.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

BLOCK = 16


class VLLMClientError(Exception):
    """What vLLM raises for a request that it does not accept."""


@dataclass
class SamplingParams:
    max_tokens: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: list[str] = field(default_factory=list)
    stop_token_ids: list[int] = field(default_factory=list)
    detokenize: bool = True
    flat_logprobs: bool = False
    logprob_token_ids: list[int] | None = None
    prompt_logprobs: int | None = None
    logprobs: int | None = None
    skip_reading_prefix_cache: bool | None = None

    def __post_init__(self):
        if self.temperature > 2:
            raise VLLMClientError("temperature must be in [0, 2]")
        if "" in self.stop or (self.stop and not self.detokenize) or len(self.logprob_token_ids or ()) > 128:
            raise VLLMClientError("not accepted")
        if self.skip_reading_prefix_cache is None:
            self.skip_reading_prefix_cache = self.prompt_logprobs is not None


def _logprobs(row):
    values = row.log_softmax(-1)
    ranks = (values[:, None] <= values).sum(-1).tolist()  # as vLLM counts: tokens that are at least as likely
    return {token: SimpleNamespace(logprob=p, rank=ranks[token]) for token, p in enumerate(values.tolist())}


class LLM:
    """Runs one sequence after the other; ``calls`` has, for each call of generate, (length, tokens from the cache)."""

    short_rows = False
    """Rows of cached tokens have invalid values (False, model runner V1), or are left out (True, V2)."""

    def __init__(self, model: str, *, dtype: str, revision: str | None, trust_remote_code: bool, **options: Any):
        import torch
        import transformers

        known = {
            "enable_prefix_caching",
            "use_tqdm_on_load",
            "disable_log_stats",
            "max_model_len",
            "gpu_memory_utilization",
            "tensor_parallel_size",
            "pipeline_parallel_size",
        }
        if unknown := sorted(set(options) - known):
            raise TypeError(f"EngineArgs.__init__() got an unexpected keyword argument {unknown[0]!r}")
        if options.get("gpu_memory_utilization", 0) > 1:
            raise RuntimeError("no memory")
        print("noise of a library")  # noqa: T201 - the test looks for it on stdout
        os.write(1, b"noise from C++")
        self.torch, self.options, self.calls = torch, options, []
        self.model = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype)).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        self.limit = options.get("max_model_len", self.model.config.max_position_embeddings)
        self.cached_blocks: set[tuple[int, ...]] = set()
        self.stopped = False
        self.llm_engine = SimpleNamespace(
            vllm_config=SimpleNamespace(
                model_config=SimpleNamespace(max_model_len=self.limit),
                cache_config=SimpleNamespace(enable_prefix_caching=options["enable_prefix_caching"]),
            ),
            engine_core=SimpleNamespace(shutdown=lambda: setattr(self, "stopped", True)),
        )

    def generate(self, prompts, sampling, *, use_tqdm):
        assert not use_tqdm
        outputs = [self._run(prompt["prompt_token_ids"], one) for prompt, one in zip(prompts, sampling, strict=True)]
        self.calls.append(
            [(len(p["prompt_token_ids"]), o.num_cached_tokens) for p, o in zip(prompts, outputs, strict=True)]
        )
        return outputs

    def _logits(self, tokens):
        with self.torch.inference_mode():
            return self.model(self.torch.tensor([tokens])).logits[0].float()

    def _run(self, tokens, params):
        if not 0 < len(tokens) < self.limit:
            raise ValueError(f"The decoder prompt has {len(tokens)} tokens")
        cached = self._cached_tokens(tokens, params)
        logits = self._logits(tokens)
        rows = None
        if params.prompt_logprobs is not None:
            own = [{token: _logprobs(logits[at])[token]} for at, token in enumerate(tokens[1:])]
            invalid = [] if self.short_rows else [{-1: SimpleNamespace(logprob=7.0, rank=1)}] * cached
            rows = [None, *invalid, *own[cached:]]
        after = _logprobs(logits[-1])
        wanted = {token: after[token] for token in params.logprob_token_ids or ()}
        new, stop_reason, finish_reason = self._write(tokens, params)
        rows_of_new = [wanted]
        if params.logprobs is not None:  # those of the written tokens, before anything adjusts the logits
            all_logits = self._logits([*tokens, *new])
            rows_of_new = [{token: _logprobs(all_logits[len(tokens) - 1 + at])[token]} for at, token in enumerate(new)]
        text = SimpleNamespace(
            token_ids=new, logprobs=rows_of_new, finish_reason=finish_reason, stop_reason=stop_reason
        )
        return SimpleNamespace(outputs=[text], prompt_logprobs=rows, num_cached_tokens=cached)

    def _cached_tokens(self, tokens, params):
        blocks = [tuple(tokens[:end]) for end in range(BLOCK, len(tokens), BLOCK)]
        count = 0
        if self.options["enable_prefix_caching"] and not params.skip_reading_prefix_cache:
            while count < len(blocks) and blocks[count] in self.cached_blocks:
                count += 1
        self.cached_blocks.update(tuple(tokens[:end]) for end in range(BLOCK, len(tokens) + 1, BLOCK))
        return count * BLOCK

    def _write(self, tokens, params):
        new: list[int] = []
        while len(new) < params.max_tokens:
            new.append(int(self._logits([*tokens, *new])[-1].argmax()))
            text = self.tokenizer.decode(new, skip_special_tokens=True)
            if new[-1] == self.tokenizer.eos_token_id:
                return new, None, "stop"
            if new[-1] in params.stop_token_ids:
                return new, new[-1], "stop"
            if found := next((string for string in params.stop if string in text), None):
                return new, found, "stop"
        return new, None, "length"


def install(monkeypatch) -> None:
    """Make ``import vllm`` find this module, for one test or one fixture."""
    module: Any = ModuleType("vllm")
    module.__spec__ = importlib.machinery.ModuleSpec("vllm", None)
    module.LLM, module.SamplingParams = LLM, SamplingParams
    module.exceptions = SimpleNamespace(VLLMClientError=VLLMClientError)
    monkeypatch.setitem(sys.modules, "vllm", module)
