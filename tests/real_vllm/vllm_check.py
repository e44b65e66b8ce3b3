"""vLLM's OpenAI server on CPU against ``hf:``: log-probabilities within 1e-3, the same greedy text. ``make vllm-check``.

``make vllm-env`` makes the environment that has vLLM. The test suite does not include this script.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]
VLLM_ENVIRONMENT = ROOT / ".vllm"
VLLM_VARIABLES = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
TOLERANCE = 1e-3


def python_with_vllm() -> Path:
    """Return the Python of the environment that has vLLM."""
    if not (VLLM_ENVIRONMENT / ".ready").exists():
        sys.exit("vLLM is not installed; make vllm-env installs it (3.5 GB, about 8 minutes)")
    return VLLM_ENVIRONMENT / "bin" / "python"


def save_model(folder: Path) -> Path:
    """Save a tiny random model with heads as wide as vLLM's CPU kernels need."""
    import torch
    import transformers

    from tests.tiny_models import CHAT, tokenizer_of

    tokenizer = tokenizer_of(bos=True)
    tokenizer.chat_template = CHAT
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=512, initializer_range=0.2, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def start_server(python: Path, folder: Path) -> tuple[subprocess.Popen, str]:
    """Start vLLM's server; return the process and the URL."""
    with socket.socket() as free_port:
        free_port.bind(("127.0.0.1", 0))
        port = free_port.getsockname()[1]
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), "--port", str(port)]
    command += ["--host", "127.0.0.1", "--dtype", "float32", "--enforce-eager", "--max-model-len", "512"]
    process = subprocess.Popen(command, env={**os.environ, **VLLM_VARIABLES})
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).read()
        except OSError:  # noqa: PERF203 - the server does not listen yet
            time.sleep(1)
        else:
            return process, f"http://127.0.0.1:{port}"
    process.kill()
    raise SystemExit("vLLM's server did not start")


def check(url: str, folder: Path) -> None:
    """Compare the server with ``hf:``."""
    from kshot.backends import open_model
    from kshot.backends.server import loglik
    from kshot.core.records import Generate, Loglik, Message, Prompt, Scored
    from tests.tiny_models import ask_all

    prompts = [
        "The capital of France is",
        "Question: what is the answer?\nAnswer:",
        "naïve café in Zürich, 日本",
        "hel",
    ]
    texts = (" Paris", " the answer is B.", "lo there", " 日本語", " é", "é", "日")
    requests = [Loglik(Prompt(prompt), texts) for prompt in prompts]
    expected = ask_all(open_model(f"hf:{folder}", {"dtype": "float32"}), requests)
    all_apis = loglik.LOGPROB_APIS
    for api in all_apis:
        loglik.LOGPROB_APIS = (api,)  # the client tries no other
        backend = open_model(f"openai:{folder}", {"base_url": url})
        responses = ask_all(backend, requests)
        assert not (failed := [each for each in responses if not isinstance(each, Scored)]), (api.name, failed)
        difference = 0.0
        for one, other in zip(expected, responses, strict=True):
            for a, b in zip(one.likelihoods, other.likelihoods, strict=True):
                assert a.tokens == b.tokens, (api.name, one, other)
                difference = max(difference, abs(a.logprob - b.logprob))
        print(f"{api.name}: {len(requests) * len(texts)} continuations, largest difference {difference:.2e}")
        assert difference < TOLERANCE
    loglik.LOGPROB_APIS = all_apis
    backend = open_model(f"openai:{folder}", {"base_url": url})
    assert backend.abilities.best_ranking(False) == "ppl_no_option"
    assert backend.abilities.best_ranking(True) == "first_token"
    requests = [Generate(Prompt(messages=(Message("user", text),)), max_tokens=12) for text in ("hello", "What is it?")]
    expected = ask_all(open_model(f"hf:{folder}", {"dtype": "float32"}), requests)
    for one, other in zip(expected, ask_all(backend, requests), strict=True):
        # vLLM leaves out half a character at the end of a reply; hf: shows it as U+FFFD
        assert one.text.rstrip("\ufffd") == other.text.rstrip("\ufffd"), (one, other)
        assert one.usage == other.usage
    print("both generate the same text")


def main() -> None:
    """Run the check in a temporary folder."""
    sys.path.insert(0, str(ROOT))
    folder = Path(tempfile.mkdtemp())
    python = python_with_vllm()
    process, url = start_server(python, save_model(folder))
    try:
        check(url, folder)
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
