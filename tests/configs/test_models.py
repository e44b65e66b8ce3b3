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
        ({"type": "MindieStreamApi", "path": "m"}, "openai:m@http://localhost:8080/v1", "base"),
        (
            {"type": "MindieStreamApi", "path": "m", "host_ip": "127.0.0.1", "host_port": 9, "enable_ssl": True},
            "openai:m@https://127.0.0.1:9/v1",
            "base",
        ),
        (
            {"type": "VLLMCustomAPIOld", "path": "a/b", "url": "http://localhost:9/v1"},
            "openai:a/b@http://localhost:9/v1",
            "base",
        ),
        (
            {
                "type": "LiteLLMChat",
                "model": "hosted_vllm/qwen3",
                "url": "http://127.0.0.1:8000/v1",
                "api_key": "EMPTY",
            },
            "openai:qwen3@http://127.0.0.1:8000/v1",
            "chat",
        ),
        (
            {"type": "LiteLLMChat", "model": "Qwen/Qwen3-8B", "api_base": "http://localhost:8000/v1"},
            "openai:Qwen/Qwen3-8B@http://localhost:8000/v1",
            "chat",
        ),
        ({"type": "LiteLLMAPI", "path": "openai/gpt-4o", "key": "ENV"}, "openai:gpt-4o", "chat"),
        ({"type": "LiteLLMAPI", "path": "gpt-4o"}, "openai:gpt-4o", "chat"),
        ({"type": "LiteLLMAPI", "path": "anthropic/claude-3"}, "anthropic:claude-3", "chat"),
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
        {"type": "MindieStreamApi", "path": "m", "host_ip": "10.0.0.1"},
        {"type": "VLLMCustomAPIOld", "path": "m", "url": "https://evil.example"},
        {"type": "LiteLLMChat", "model": "openai/m", "url": "http://10.0.0.1:8000/v1"},
        {"type": "LiteLLMAPI", "path": "m", "api_base": "http://evil.example/v1"},
        {"type": "OpenAI", "path": "m", "openai_api_base": "http://[::1/v1"},
        {"type": "OpenAI", "path": "m", "openai_api_base": "https://api.openai.com.evil.example/v1"},
        {"type": "OpenAI", "path": "m", "openai_api_base": "evil.example/v1"},
        {"type": "OpenAI", "path": "m@http://evil.example/v1"},
        {"type": "Claude", "path": "m@HTTPS://evil.example"},
        {"type": "LiteLLMAPI", "path": "openai/m@http://evil.example/v1"},
        {"type": "LiteLLMAPI", "path": "m@http://evil.example/v1", "url": "http://localhost:1/v1"},
        {"type": "VLLMCustomAPI", "path": "m", "url": "http://localhost:1/v1+http://evil.example/v1"},
        {"type": "VLLMCustomAPI", "path": "m@http://localhost:1/v1+https://evil.example"},
    ],
)
def test_a_config_does_not_choose_where_prompts_and_keys_go(body):
    with pytest.raises(DataError, match=r"does not choose where prompts and keys go.*If you trust it: -m \w+:m@"):
        assert ModelEntry(body).spec


def test_the_address_of_a_model_holds_no_options_of_kshot():
    body = {"type": "VLLMCustomAPI", "path": "m", "url": "http://localhost:1/v1,api_key_env=SECRET"}
    with pytest.raises(DataError, match="holds options of kshot"):
        assert ModelEntry(body).spec


@pytest.mark.parametrize("kind", ["VLLMCustomAPIChat", "VLLMCustomAPIOld", "MindieStreamApi", "LiteLLMChat"])
def test_a_server_without_a_model_says_how_to_name_it(kind):
    address = {"url": "http://localhost:8080/v1"} if kind == "LiteLLMChat" else {}
    with pytest.raises(DataError, match=r"-m openai:MODEL@http://localhost:8080/v1"):
        assert ModelEntry({"type": kind, "model": "", "path": "", **address}).spec


@pytest.mark.parametrize("path", ["azure/gpt-4o", "bedrock/anthropic.claude", "hosted_vllm/m"])
def test_a_provider_of_litellm_without_an_address_is_named(path):
    with pytest.raises(DataError, match=f"LiteLLM would ask {path.partition('/')[0]} .*Name it: -m openai:MODEL@"):
        assert ModelEntry({"type": "LiteLLMAPI", "path": path}).spec
