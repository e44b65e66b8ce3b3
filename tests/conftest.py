"""What many tests share: tiny models, made once."""

import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory):
    """A folder with a random Llama of two layers and its tokenizer."""
    from tests.tiny_models import build

    return build("llama", tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(scope="session")
def tiny_chat(tmp_path_factory):
    """The same with a chat template."""
    from tests.tiny_models import build

    return build("llama", tmp_path_factory.mktemp("models") / "chat", chat=True)
