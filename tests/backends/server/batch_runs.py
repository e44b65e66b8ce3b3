"""Calls of one command with ``--batch-api`` against a ``BatchServer``, and what the server answers."""

import json
from hashlib import sha256
from pathlib import Path

from kshot.api import evaluate
from kshot.core.postponed import BatchesOpen
from tests.chaos.scenarios import CITIES
from tests.fake_server import chat, completion

KEY = "a-secret-key-of-26-letters"
MODELS = ["openai:gpt", "anthropic:claude"]


def answer(path, body):
    """Answer by the digest of the prompt, in the form of the API."""
    said = json.dumps(body.get("messages") or body["prompt"], sort_keys=True)
    mark = sha256(said.encode()).digest()
    text = f"I see. Rating: [[{mark[0] % 10 + 1}]]" if body["model"].startswith("judge") else CITIES[mark[0] % 5]
    if path == "/messages":
        usage = {"input_tokens": 10, "output_tokens": 2}
        return {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "usage": usage}
    return (completion if path == "/completions" else chat)(text)


class Runs:
    """Calls of one command against a server."""

    def __init__(self, server, model="openai:gpt", datasets=("data.py:Cities",), **options):
        self.server, self.model, self.datasets = server, model, list(datasets)
        account = {"base_url": server.url, "api_key_env": "THE_KEY"}
        self.options = {"model_type": "chat", "dataset_path": "12", "report": False, **account, **options}

    def plain(self):
        return evaluate(self.model, self.datasets, out="plain", **self.options)

    def call(self, out="run", **more):
        """Return the result, or None if the run waits for batches."""
        try:
            return evaluate(self.model, self.datasets, out=out, batch_api=True, **{**self.options, **more})
        except BatchesOpen:
            return None

    def to_the_end(self, become=lambda number, body: None):
        """Call, and end the batches, until the run is done; return how often batches were submitted."""
        for rounds in range(20):
            if self.call() is not None:
                return rounds
            self.server.end(become)
            become = lambda number, body: None  # noqa: E731 - whatever went wrong goes wrong once
        raise AssertionError("the run does not end")


def same_files(one, other):
    return all(
        Path(one, name).read_bytes() == Path(other, name).read_bytes() for name in ("samples.jsonl", "summary.json")
    )
