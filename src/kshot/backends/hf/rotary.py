"""Rotary embeddings that remember the longest sequence so far: no sequence may depend on those before it."""

from __future__ import annotations

from typing import Any


class RotaryStates:
    """The first states of a model's "dynamic" rotary embeddings, which turn by other angles after a long sequence."""

    def __init__(self, model: Any) -> None:
        self._saved = [
            (module, _plain_attributes(module), dict(module._buffers))  # noqa: SLF001 - a module has no public name for them
            for module in model.modules()
            if _is_dynamic(getattr(module, "rope_type", None))  # only rotary embeddings have one
        ]

    def restore(self) -> None:
        """Forget all sequences."""
        for module, attributes, buffers in self._saved:
            for name in _plain_attributes(module).keys() - attributes.keys():
                delattr(module, name)
            vars(module).update(attributes)
            module._buffers.update(buffers)  # noqa: SLF001 - see above


def _is_dynamic(kinds: Any) -> bool:
    """Whether a kind of rotary embedding, or that of a type of layers, is dynamic."""
    return "dynamic" in (kinds.values() if isinstance(kinds, dict) else (kinds,))


def _plain_attributes(module: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}
