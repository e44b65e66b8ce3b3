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
    device: str | None = _option(None, "where the model runs: cpu, cuda, cuda:1", identity=False)
    batch_size: int | None = _option(
        None,
        "sequences computed together (default: 16, on a GPU 128; no effect with vllm:)",
        kind=int,
        least=1,
        identity=False,
    )
    engine_option: tuple[str, ...] | None = _option(
        None,
        "option of vLLM, such as tensor_parallel_size=2 (for vllm:; repeatable)",
        repeat=True,
        metavar="NAME=VALUE",
    )
