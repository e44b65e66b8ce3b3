"""``models = [dict(type=…, path=…)]`` of a config, as models that kshot can open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kshot.configs.names import ImportedName, short
from kshot.core.errors import DataError
from kshot.core.specs import parse_spec, split_options

_BASE = ("HuggingFace", "HuggingFaceCausalLM", "HuggingFaceBaseModel", "HuggingFaceCausalLLM")
_CHAT = ("HuggingFacewithChatTemplate", "HuggingFaceChatGLM3", "HuggingFaceChatModel")


@dataclass(frozen=True)
class ModelEntry:
    """A model as a config writes it; ``spec`` is how ``-m`` would name it."""

    body: Mapping[str, Any]
    where: str = ""

    @property
    def abbr(self) -> str:
        """Its name in tables."""
        return str(self.body.get("abbr") or Path(str(self.body.get("path", "model"))).name)

    @property
    def kind(self) -> str:
        """The name of its class."""
        return short(self.body.get("type", "?"))

    @property
    def spec(self) -> str:
        """``hf:PATH``; a kind of model that kshot does not have is an error."""
        if self.kind not in (*_BASE, *_CHAT):
            kind = self.body.get("type")
            at = f" (imported at {kind.at})" if isinstance(kind, ImportedName) and kind.at else ""
            raise DataError(
                f"models has {self.abbr!r} of the kind {self.kind}{at}, which kshot cannot open",
                where=self.where,
                hint=f"It can open: {', '.join((*_BASE, *_CHAT))}. Or name a model yourself: -m MODEL.",
            )
        path = self.body.get("path")
        if not isinstance(path, str) or not path:
            raise DataError(f"the model {self.abbr!r} has no path", where=self.where)
        if split_options(path)[1]:  # a config must not say how a model is opened: trust_remote_code=yes runs its code
            hint = "Name the model yourself: -m hf:PATH,option=value."
            raise DataError(f"the path of the model {self.abbr!r} holds options of kshot", where=self.where, hint=hint)
        spec = f"hf:{path}"
        if parse_spec(spec).file is not None:  # hf:evil.py:Class would be a plug-in of the user in a file "hf:evil.py"
            raise DataError(f"the path of the model {self.abbr!r} is a Python file", where=self.where)
        return spec

    @property
    def model_type(self) -> Literal["base", "chat"]:
        """Whether its prompts are text or messages."""
        return "chat" if self.kind in _CHAT else "base"

    def is_called(self, name: str) -> bool:
        """Whether a model of this name is this entry."""
        path = str(self.body.get("path", ""))
        name, _ = split_options(name)  # as in hf:PATH,dtype=float16
        return name in {self.abbr, path, f"hf:{path}", Path(path).name}
