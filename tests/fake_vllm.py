"""A stand-in for vLLM where it cannot run: its calls and outputs, its prefix cache and its limits, over a torch model.

Written after vLLM 0.32. tests/real_vllm/test_vllm.py asks the real one the same questions.
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
    """What vLLM raises for a request that it does not take."""


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
    skip_reading_prefix_cache: bool | None = None

    def __post_init__(self):
        if self.temperature > 2:
            raise VLLMClientError("temperature must be in [0, 2]")
        if "" in self.stop or (self.stop and not self.detokenize) or len(self.logprob_token_ids or ()) > 128:
            raise VLLMClientError("not taken")
        if self.skip_reading_prefix_cache is None:
            self.skip_reading_prefix_cache = self.prompt_logprobs is not None


def _chances(row):
    return {token: SimpleNamespace(logprob=value) for token, value in enumerate(row.log_softmax(-1).tolist())}


class LLM:
    """Reads one sequence after the other; ``calls`` holds, per call of generate, (length, tokens from the cache)."""

    short_rows = False
    """How rows of cached tokens look: filled with nonsense (model runner V1), or left out (V2)."""

    def __init__(self, model: str, *, dtype: str, revision: str | None, trust_remote_code: bool, **options: Any):
        import torch
        import transformers

        known = {
            "enable_prefix_caching",
            "use_tqdm_on_load",
            "disable_log_stats",
            "max_model_len",
            "gpu_memory_utilization",
        }
        if unknown := sorted(set(options) - known):
            raise TypeError(f"EngineArgs.__init__() got an unexpected keyword argument {unknown[0]!r}")
        if options.get("gpu_memory_utilization", 0) > 1:
            raise RuntimeError("no memory")
        print("noise of a library")  # noqa: T201
        os.write(1, b"noise from C++")
        self.torch, self.options, self.calls = torch, options, []
        self.model = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype)).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        self.limit = options.get("max_model_len", self.model.config.max_position_embeddings)
        self.held: set[tuple[int, ...]] = set()
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
        outputs = [self._one(prompt["prompt_token_ids"], one) for prompt, one in zip(prompts, sampling, strict=True)]
        self.calls.append(
            [(len(p["prompt_token_ids"]), o.num_cached_tokens) for p, o in zip(prompts, outputs, strict=True)]
        )
        return outputs

    def _logits(self, tokens):
        with self.torch.inference_mode():
            return self.model(self.torch.tensor([tokens])).logits[0].float()

    def _one(self, tokens, asked):
        if not 0 < len(tokens) < self.limit:
            raise ValueError(f"The decoder prompt has {len(tokens)} tokens")
        cached = self._cached(tokens, asked)
        logits = self._logits(tokens)
        rows = None
        if asked.prompt_logprobs is not None:
            own = [{token: _chances(logits[at])[token]} for at, token in enumerate(tokens[1:])]
            nonsense = [] if self.short_rows else [{-1: SimpleNamespace(logprob=7.0)}] * cached
            rows = [None, *nonsense, *own[cached:]]
        after = _chances(logits[-1])
        wanted = {token: after[token] for token in asked.logprob_token_ids or ()}
        told, reason, finish = self._write(tokens, asked)
        text = SimpleNamespace(token_ids=told, logprobs=[wanted], finish_reason=finish, stop_reason=reason)
        return SimpleNamespace(outputs=[text], prompt_logprobs=rows, num_cached_tokens=cached)

    def _cached(self, tokens, asked):
        blocks = [tuple(tokens[:end]) for end in range(BLOCK, len(tokens), BLOCK)]
        count = 0
        if self.options["enable_prefix_caching"] and not asked.skip_reading_prefix_cache:
            while count < len(blocks) and blocks[count] in self.held:
                count += 1
        self.held.update(tuple(tokens[:end]) for end in range(BLOCK, len(tokens) + 1, BLOCK))
        return count * BLOCK

    def _write(self, tokens, asked):
        told: list[int] = []
        while len(told) < asked.max_tokens:
            told.append(int(self._logits([*tokens, *told])[-1].argmax()))
            text = self.tokenizer.decode(told, skip_special_tokens=True)
            if told[-1] == self.tokenizer.eos_token_id:
                return told, None, "stop"
            if told[-1] in asked.stop_token_ids:
                return told, told[-1], "stop"
            if found := next((string for string in asked.stop if string in text), None):
                return told, found, "stop"
        return told, None, "length"


def install(monkeypatch) -> None:
    """Make ``import vllm`` find this, for one test or one fixture."""
    module: Any = ModuleType("vllm")
    module.__spec__ = importlib.machinery.ModuleSpec("vllm", None)
    module.LLM, module.SamplingParams = LLM, SamplingParams
    module.exceptions = SimpleNamespace(VLLMClientError=VLLMClientError)
    monkeypatch.setitem(sys.modules, "vllm", module)
