"""Scoring options in vLLM: kshot's ``vllm:`` against vLLM used directly, on the same work, in one process each.

    make vllm-env && .vllm/bin/python benchmarks/in_vllm.py [--questions N]

Used directly, vLLM gets every prompt with each option in one ``generate``, prompt_logprobs and the prefix cache on.
Wall-clock seconds, from the first token id to the last log-probability; vLLM is started before.
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
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "2",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "HF_HUB_OFFLINE": "1",
}

from workloads import SHAPES, ChunkedQueue, requests, small_model  # noqa: E402


def vllm_scores(folder: str, questions) -> dict:
    """Score with vLLM itself."""
    import transformers
    from vllm import LLM, SamplingParams

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    llm = LLM(folder, dtype="float32", enforce_eager=True, enable_prefix_caching=True)
    sampling = SamplingParams(max_tokens=1, temperature=0, prompt_logprobs=0, detokenize=False)
    llm.generate([{"prompt_token_ids": [5, 6, 7]}], sampling, use_tqdm=False)
    began = time.perf_counter()
    heads = [tokenizer.encode(prompt) for prompt, _ in questions]
    tails = [[tokenizer.encode(option) for option in options] for _, options in questions]
    prompts = [{"prompt_token_ids": head + tail} for head, own in zip(heads, tails, strict=True) for tail in own]
    outputs = iter(llm.generate(prompts, sampling, use_tqdm=False))
    logprobs = []
    for head, own in zip(heads, tails, strict=True):
        logprobs.append([])
        for tail in own:
            found = next(outputs).prompt_logprobs[len(head) :]
            logprobs[-1].append(sum(each[token].logprob for each, token in zip(found, tail, strict=True)))
    return {"seconds": time.perf_counter() - began, "logprobs": logprobs}


def kshot_scores(folder: str, questions) -> dict:
    """Score with kshot, which runs vLLM in its own way."""
    from kshot.backends.vllm.model import Vllm
    from kshot.core.records import Loglik, Prompt

    model = Vllm(folder, dtype="float32", engine_option=("enforce_eager=true",))
    list(model.serve(ChunkedQueue([Loglik(Prompt("w1 w2"), (" w3",))])))
    logliks = [Loglik(Prompt(prompt), tuple(options)) for prompt, options in questions]
    began = time.perf_counter()
    found = dict(model.serve(ChunkedQueue(logliks)))
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "logprobs": [[e.logprob for e in found[loglik].likelihoods] for loglik in logliks]}


SYSTEMS = {"vLLM directly": vllm_scores, "kshot vllm:": kshot_scores}


def measure(name: str, folder: str, shape: str, count: int) -> dict:
    """Measure one system in a process of its own."""
    command = [sys.executable, __file__, "--one", name, folder, shape, str(count)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **ENVIRONMENT})
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
            found = {name: measure(name, folder, shape, given.questions) for name in SYSTEMS}
            if any("error" in figures for figures in found.values()):
                print(shape, {name: figures.get("error", "fine") for name, figures in found.items()})
                continue
            direct, ours = found.values()
            pairs = zip(direct["logprobs"], ours["logprobs"], strict=True)
            difference = max(abs(a - b) for x, y in pairs for a, b in zip(x, y, strict=True))
            print(
                f"{shape:<8} {given.questions} questions  vLLM directly {direct['seconds']:.1f} s  kshot vllm: "
                f"{ours['seconds']:.1f} s = {direct['seconds'] / ours['seconds']:.1f} ×  differ by {difference:.0e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
