"""A real server: ``transformers serve`` on a tiny model. What it writes is what ``hf:`` writes."""

import os
import re
import subprocess
import sys
import time

import pytest

import kshot
from kshot.backends import open_model
from kshot.core.errors import BackendError
from kshot.core.records import Generate, Generated, Loglik, Message, Prompt
from tests.datasets.fakes import choice
from tests.tiny_models import ask_all

pytest.importorskip("accelerate")
pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def served(tiny_chat, tmp_path_factory):
    """The address of the server, and the folder of its model."""
    log = tmp_path_factory.mktemp("serve") / "log"
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(tiny_chat)]
    command += ["--host", "127.0.0.1", "--port", "0", "--device", "cpu", "--dtype", "float32"]
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    try:
        yield address_in(log, process), tiny_chat
    finally:
        process.kill()
        process.wait()


def address_in(log, process):
    """Wait for the server, and return its address: it takes a free port and logs which."""
    until = time.monotonic() + 600
    while not (found := re.search(r"running on (http://\S+)", log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until, "transformers serve did not come up"
        time.sleep(0.1)
    return found[1]


def test_it_writes_what_the_model_in_this_process_writes(served):
    url, folder = served
    talks = [Prompt(messages=(Message("user", text),)) for text in ("hello there", "What is the answer?", "Paris")]
    requests = [Generate(prompt, max_tokens=12) for prompt in talks]
    here = ask_all(open_model(f"hf:{folder}", {"dtype": "float32"}), requests)
    there = ask_all(open_model(f"openai:{folder}", {"base_url": url}), requests)
    assert all(isinstance(each, Generated) for each in there)
    assert [each.text.strip() for each in there] == [each.text.strip() for each in here]
    assert there[0].usage.completion_tokens > 0


def test_texts_go_to_its_completions(served):
    url, folder = served
    (found,) = ask_all(
        open_model(f"openai:{folder}", {"base_url": url}), [Generate(Prompt("The capital of"), max_tokens=4)]
    )
    assert isinstance(found, Generated)


def test_it_has_no_log_probabilities_and_auto_knows(served):
    url, folder = served
    backend = open_model(f"openai:{folder}", {"base_url": url})
    with pytest.raises(BackendError, match="gives no log-probabilities of a prompt"):
        ask_all(backend, [Loglik(Prompt("The capital of"), (" France",))])
    options = dict(model_type="chat", ranking_type="auto", max_tokens=4, base_url=url)
    result = kshot.evaluate(f"openai:{folder}", choice(), **options)
    assert result.results[0]["ranking_type"] == "generation"
    assert result.results[0]["failed"] == 0
