"""Which models may be asked to be deterministic."""

import pytest

import kshot
from kshot.backends import check_deterministic
from kshot.core.errors import UsageError
from tests import fake_vllm
from tests.commands import CAPITALS

PLUGINS = """
from kshot import Generate, Generated

class Plain:
    name, answers, fingerprint = "plain", (Generate,), "plain"

    def serve(self, queue):
        for request in queue:
            yield request, Generated("Paris")

class Careful(Plain):
    def __init__(self, deterministic: bool = False) -> None:
        self.fingerprint = f"careful {deterministic}"

def function(prompt):
    return "Paris"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugins.py").write_text(PLUGINS)
    (tmp_path / "capitals.py").write_text(CAPITALS)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "spec",
    [
        "embedded",
        "replay:runs/first",
        "fts5",
        "bm25,k1=1.2",
        "hybrid:bm25+fts5",
        "plugins.py:Careful",
        pytest.param("hf:model", marks=pytest.mark.needs("torch", "transformers")),
    ],
)
def test_these_promise_the_same_bytes(spec):
    check_deterministic(spec)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ("plugins.py:Plain", "plugins.py:Plain"),
        ("plugins.py:function", "plugins.py:function"),
        ("dense", "dense"),
        ("late:model", "late:model"),
        ("rerank:model@bm25", "rerank:model@bm25"),
        ("hybrid", "dense"),
        ("hybrid:bm25+late", "late"),
        pytest.param("openai:gpt", "openai:gpt", marks=pytest.mark.needs("aiohttp")),
        pytest.param("anthropic:claude", "anthropic:claude", marks=pytest.mark.needs("aiohttp")),
    ],
)
def test_these_are_refused(spec, named):
    with pytest.raises(UsageError, match="--deterministic cannot be promised") as raised:
        check_deterministic(spec)
    assert raised.value.where == named


@pytest.mark.needs("torch", "transformers")
def test_vllm_is_refused_too(monkeypatch):
    fake_vllm.install(monkeypatch)
    with pytest.raises(UsageError, match="--deterministic cannot be promised") as raised:
        check_deterministic("vllm:model")
    assert raised.value.where == "vllm:model"


def test_a_run_refuses_before_anything_is_opened_or_written(folder):
    for options in ({"model": ["embedded", "plugins.py:Plain"]}, {"model": "embedded", "judge": "plugins.py:Plain"}):
        with pytest.raises(UsageError, match="cannot be promised"):
            kshot.evaluate(dataset="capitals.py:Cities", deterministic=True, out=folder / "run", **options)
    with pytest.raises(UsageError, match="it was made before"):
        kshot.evaluate(lambda prompt: "Paris", "capitals.py:Cities", deterministic=True, out=folder / "run")
    assert not (folder / "run").exists()
    kshot.evaluate("plugins.py:Careful", "capitals.py:Cities", deterministic=True, out=folder / "run")
    assert '"careful True"' in (folder / "run" / "spec.json").read_text()
