"""What is noted about a server: another model than was asked for."""

import pytest

from kshot.backends.server.replies import names_other_model


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("m", "m"),
        ("gpt-4o", "gpt-4o-2024-08-06"),
        ("gpt-4", "gpt-4-0613"),
        ("openai/gpt-4o", "gpt-4o"),
        ("Qwen/Qwen3-8B", "qwen3-8b"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
        ("claude-3-5-sonnet", "claude-3-5-sonnet@20240620"),
        ("llama3", "llama3:latest"),
        ("llama-3-8b", "/srv/models/llama-3-8b.gguf"),
        ("/srv/models/llama-3-8b/", "llama-3-8b"),
        ("gemini-1.5-pro", "models/gemini-1.5-pro-002"),
        ("m", ""),
        ("m", "  "),
    ],
)
def test_other_ways_to_write_the_same_model(asked, said):
    assert not names_other_model(asked, said)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("m", "n"),
        ("gpt-4o", "gpt-4o-mini"),
        ("gpt-4o", "gpt-4o-mini-2024-07-18"),
        ("gpt-4", "gpt-3.5-turbo"),
        ("gpt-4", "gpt-4.1"),
        ("gpt-4", "gpt-4o"),
        ("qwen3-8b", "qwen3-80b"),
        ("llama-3", "llama-3-70b"),
        ("m", "/srv/models/other.gguf"),
        ("gpt-4o-2024-08-06", "gpt-4o-2024-11-20"),
    ],
)
def test_other_models(asked, said):
    assert names_other_model(asked, said)
