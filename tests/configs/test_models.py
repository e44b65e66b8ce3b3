"""The models of a config, as ``-m`` names them."""

import pytest

from kshot.configs.models import ModelEntry
from kshot.core.errors import DataError


def test_a_model_with_options_is_still_that_of_the_config():
    entry = ModelEntry({"type": "HuggingFaceBaseModel", "path": "models/llama", "abbr": "mine"})
    assert entry.spec == "hf:models/llama"
    for name in ("mine", "hf:models/llama", "hf:models/llama,dtype=float16,batch_size=2", "llama"):
        assert entry.is_called(name)
    assert not entry.is_called("hf:models/other")


@pytest.mark.parametrize(
    ("body", "spec", "model_type"),
    [
        ({"type": "HuggingFacewithChatTemplate", "path": "a/b"}, "hf:a/b", "chat"),
        ({"type": "TurboMindModel", "path": "a/b"}, "hf:a/b", "base"),
        ({"type": "VLLMwithChatTemplate", "path": "a/b"}, "vllm:a/b", "chat"),
        ({"type": "OpenAI", "path": "gpt-4o", "key": "ENV"}, "openai:gpt-4o", "chat"),
        (
            {"type": "OpenAISDK", "path": "m", "openai_api_base": "http://127.0.0.1:8000/v1"},
            "openai:m@http://127.0.0.1:8000/v1",
            "chat",
        ),
        ({"type": "VLLMCustomAPIChat", "model": "m", "host_port": 9}, "openai:m@http://localhost:9/v1", "chat"),
        ({"type": "VLLMCustomAPI", "path": "", "model": "m"}, "openai:m@http://localhost:8080/v1", "base"),
        ({"type": "Claude", "path": "claude-2"}, "anthropic:claude-2", "chat"),
    ],
)
def test_models_of_the_homes(body, spec, model_type):
    entry = ModelEntry(body)
    assert (entry.spec, entry.model_type) == (spec, model_type)
    assert entry.is_called(spec)


@pytest.mark.parametrize(
    "body",
    [
        {"type": "OpenAI", "path": "m", "openai_api_base": "https://evil.example/v1"},
        {"type": "OpenAISDK", "path": "m", "openai_api_base": ["http://localhost.evil.example/v1"]},
        {"type": "VLLMCustomAPIChat", "model": "m", "host_ip": "10.0.0.1"},
        {"type": "VLLMCustomAPIChat", "model": "m", "url": "http://localhost@evil.example/v1"},
        {"type": "OpenAI", "path": "m", "openai_api_base": "http://[::1/v1"},
        {"type": "OpenAI", "path": "m", "openai_api_base": "https://api.openai.com.evil.example/v1"},
    ],
)
def test_a_config_does_not_choose_where_prompts_and_keys_go(body):
    with pytest.raises(DataError, match=r"does not choose where prompts and keys go.*If you trust it: -m openai:m@"):
        assert ModelEntry(body).spec


def test_a_server_without_a_model_says_how_to_name_it():
    with pytest.raises(DataError, match=r"-m openai:MODEL@http://localhost:8080/v1"):
        assert ModelEntry({"type": "VLLMCustomAPIChat", "model": "", "path": ""}).spec
