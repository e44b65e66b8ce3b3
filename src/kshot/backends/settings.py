"""The settings of a model that runs in this process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kshot.core.options import option
from kshot.prompts.settings import TemplateSettings

_option = partial(option, group="model")


@dataclass(frozen=True, kw_only=True)
class ModelSettings(TemplateSettings):
    """How a model is loaded and run."""

    dtype: str | None = _option(None, "number format of the weights: float32, bfloat16, float16, auto")
    revision: str | None = _option(None, "branch, tag or commit of a model on the hub")
    trust_remote_code: bool | None = _option(None, "allow Python code that comes with a model to run", kind=bool)
    add_bos: bool | None = _option(
        None, "put the beginning-of-text token first, whatever the tokenizer does", kind=bool
    )
    max_length: int | None = _option(
        None, "tokens of the context window, if not as many as the model has (for hf:)", kind=int, least=1
    )
    truncate: str | None = _option(
        None,
        "cut prompts that do not fit into the context window from the left (default: they fail)",
        choices=("left",),
    )
    device: str | None = _option(None, "where the model runs: cpu, cuda, cuda:1", identity=False)
    device_map: str | None = _option(
        None,
        "split a model that one device cannot hold: auto, balanced, balanced_low_0, sequential, or a JSON file with a "
        "device for each part (for hf:; extra: split)",
        metavar="MAP",
        identity=False,
    )
    batch_size: int | None = _option(
        None,
        "sequences computed together (default: 16, on a GPU 128; no effect with vllm:)",
        kind=int,
        least=1,
        identity=False,
    )
    deterministic: bool = _option(
        False,  # noqa: FBT003 - the default of the option
        "compute each request by itself, so that its numbers are the same bytes at any batch size and after any crash "
        "(for hf: and embedded; slower)",
        kind=bool,
    )
    engine_option: tuple[str, ...] | None = _option(
        None,
        "option of vLLM, such as tensor_parallel_size=2 (for vllm:; repeatable)",
        repeat=True,
        metavar="NAME=VALUE",
    )
