"""Scoring options in vLLM: kshot's ``vllm:`` against vLLM asked directly, on the same work, in one process each.

    make vllm-env && .vllm/bin/python benchmarks/in_vllm.py [--questions N]

Directly means what one would write: every prompt with each option in one ``generate``, prompt_logprobs on, the prefix
cache on. Seconds are the wall clock's, from the first token id to the last log-probability; vLLM is up before.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]
QUIET = {
    "VLLM_CPU_KVCACHE_SPACE": "2",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "HF_HUB_OFFLINE": "1",
}

from workloads import SHAPES, requests, small_model  # noqa: E402


def directly(folder: str, asked) -> dict:
    """VLLM itself."""
    import transformers
    from vllm import LLM, SamplingParams

    words = transformers.AutoTokenizer.from_pretrained(folder)
    engine = LLM(folder, dtype="float32", enforce_eager=True, enable_prefix_caching=True)
    sampling = SamplingParams(max_tokens=1, temperature=0, prompt_logprobs=0, detokenize=False)
    engine.generate([{"prompt_token_ids": [5, 6, 7]}], sampling, use_tqdm=False)
    began = time.perf_counter()
    heads = [words.encode(prompt) for prompt, _ in asked]
    tails = [[words.encode(option) for option in options] for _, options in asked]
    prompts = [{"prompt_token_ids": head + tail} for head, own in zip(heads, tails, strict=True) for tail in own]
    outputs = iter(engine.generate(prompts, sampling, use_tqdm=False))
    told = []
    for head, own in zip(heads, tails, strict=True):
        told.append([])
        for tail in own:
            found = next(outputs).prompt_logprobs[len(head) :]
            told[-1].append(sum(each[token].logprob for each, token in zip(found, tail, strict=True)))
    return {"seconds": time.perf_counter() - began, "told": told}


def kshot(folder: str, asked) -> dict:
    """Kshot's backend, which asks vLLM in its own way."""
    from kshot.backends.vllm.model import Vllm
    from kshot.core.records import Loglik, Prompt

    class Waiting(list):
        def take(self, _at_most=None):
            taken = self[:1024]
            del self[:1024]
            return taken

    backend = Vllm(folder, dtype="float32", engine_option=("enforce_eager=true",))
    list(backend.serve(Waiting([Loglik(Prompt("w1 w2"), (" w3",))])))
    questions = [Loglik(Prompt(prompt), tuple(options)) for prompt, options in asked]
    began = time.perf_counter()
    found = dict(backend.serve(Waiting(questions)))
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "told": [[e.logprob for e in found[one].likelihoods] for one in questions]}


SYSTEMS = {"vLLM directly": directly, "kshot vllm:": kshot}


def measured(name: str, folder: str, shape: str, count: int) -> dict:
    """One system in a process of its own."""
    command = [sys.executable, __file__, "--one", name, folder, shape, str(count)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **QUIET})
    lines = [line for line in ran.stdout.splitlines() if line.startswith('{"seconds"')]
    return json.loads(lines[-1]) if lines else {"error": (ran.stderr.strip().splitlines() or ["?"])[-1]}


def main() -> None:
    """Measure text and letters."""
    if sys.argv[1:2] == ["--one"]:
        name, folder, shape, count = sys.argv[2:]
        print("\n" + json.dumps(SYSTEMS[name](folder, requests(SHAPES[shape], count=int(count)))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = str(small_model(Path(place) / "model"))
        for shape in ("text", "letters"):
            found = {name: measured(name, folder, shape, given.questions) for name in SYSTEMS}
            if any("error" in one for one in found.values()):
                print(shape, {name: one.get("error", "fine") for name, one in found.items()})
                continue
            direct, ours = found.values()
            pairs = zip(direct["told"], ours["told"], strict=True)
            apart = max(abs(a - b) for x, y in pairs for a, b in zip(x, y, strict=True))
            print(
                f"{shape:<8} {given.questions} questions  vLLM directly {direct['seconds']:.1f} s  kshot vllm: "
                f"{ours['seconds']:.1f} s = {direct['seconds'] / ours['seconds']:.1f} ×  differ by {apart:.0e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
