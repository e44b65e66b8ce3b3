"""The models of a config, as ``-m`` names them."""

from kshot.configs.models import ModelEntry


def test_a_model_with_options_is_still_that_of_the_config():
    entry = ModelEntry({"type": "HuggingFaceBaseModel", "path": "models/llama", "abbr": "mine"})
    assert entry.spec == "hf:models/llama"
    for name in ("mine", "hf:models/llama", "hf:models/llama,dtype=float16,batch_size=2", "llama"):
        assert entry.is_called(name)
    assert not entry.is_called("hf:models/other")
