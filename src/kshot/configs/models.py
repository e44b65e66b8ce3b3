"""``models = [dict(type=…, path=…)]`` of a config, as models that kshot can open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from kshot.configs.names import ImportedName, short
from kshot.core.errors import DataError
from kshot.core.specs import own_urls, parse_spec, split_options

_BASE = (
    *("HuggingFace", "HuggingFaceCausalLM", "HuggingFaceBaseModel", "HuggingFaceCausalLLM", "ModelScopeCausalLM"),
    *("TurboMindModel", "LmdeployPytorchModel", "VLLM", "VLLMCustomAPI", "VLLMCustomAPIStream", "VLLMCustomAPIOld"),
    "MindieStreamApi",
)
_CHAT = (
    *("HuggingFacewithChatTemplate", "HuggingFaceChatGLM3", "HuggingFaceChatModel", "TurboMindModelwithChatTemplate"),
    "HuggingFaceQwen2VLwithChatTemplate",
    *("VLLMwithChatTemplate", "VLLMCustomAPIChat", "VLLMCustomAPIChatStream", "OpenAI", "OpenAISDK"),
    *("OpenAISDKStreaming", "OpenAISDKRollout", "Claude", "ClaudeSDK", "LiteLLMChat", "LiteLLMAPI"),
)
_SERVERS = (
    *("VLLMCustomAPI", "VLLMCustomAPIStream", "VLLMCustomAPIOld", "VLLMCustomAPIChat", "VLLMCustomAPIChatStream"),
    "MindieStreamApi",
)
"""Classes of AISBench, whose default is a server on this machine."""
_LITELLM = ("LiteLLMChat", "LiteLLMAPI")
_LITELLM_PREFIXES = {"openai": "openai", "anthropic": "anthropic", "hosted_vllm": "", "litellm_proxy": ""}
"""kshot's backend for each prefix of LiteLLM's model names; "": a server whose address must be given."""
_ADDRESSES = ("openai_api_base", "base_url", "api_base")
_BACKENDS = {
    **dict.fromkeys(("VLLM", "VLLMwithChatTemplate"), "vllm"),
    **dict.fromkeys(("OpenAI", "OpenAISDK", "OpenAISDKStreaming", "OpenAISDKRollout", *_SERVERS, *_LITELLM), "openai"),
    **dict.fromkeys(("Claude", "ClaudeSDK"), "anthropic"),
}
"""The backend of a kind of model; ``hf`` where it is not named. LMDeploy's kinds are opened by ``hf``, too."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")
_OPENAI = "https://api.openai.com/"


@dataclass(frozen=True)
class ModelEntry:
    """A model as a config writes it; ``spec`` is how ``-m`` would name it."""

    body: Mapping[str, Any]
    where: str = ""
    flag: str = "-m"
    """The option by which the user names another."""

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
        """``hf:PATH``, ``vllm:PATH`` or ``openai:MODEL``; a kind of model that kshot does not have is an error.

        A config must not choose to whom the user's prompts and keys go: a server elsewhere must be named by the user.
        """
        if self.kind not in (*_BASE, *_CHAT):
            kind = self.body.get("type")
            at = f" (imported at {kind.at})" if isinstance(kind, ImportedName) and kind.at else ""
            raise DataError(
                f"models has {self.abbr!r} of the kind {self.kind}{at}, which kshot cannot open",
                where=self.where,
                hint=f"It can open: {', '.join((*_BASE, *_CHAT))}. Or name a model yourself: {self.flag} MODEL.",
            )
        path = self._path
        if not isinstance(path, str) or not path:
            server = self._server() if self.kind in (*_SERVERS, *_LITELLM) else ""
            hint = f"Name it: {self.flag} openai:MODEL@{server}." if server else ""
            raise DataError(f"the model {self.abbr!r} has no path", where=self.where, hint=hint)
        address = self._address()
        text = f"{self._backend}:{path}{address}"
        spec = parse_spec(text)
        if spec.options:  # a config must not say how a model is opened: trust_remote_code=yes runs its code
            hint = f"Name the model yourself: {self.flag} hf:PATH,option=value."
            raise DataError(f"the path of the model {self.abbr!r} holds options of kshot", where=self.where, hint=hint)
        if spec.file is not None:  # hf:evil.py:Class would be a plug-in of the user in a file "hf:evil.py"
            raise DataError(f"the path of the model {self.abbr!r} is a Python file", where=self.where)
        for url in own_urls(spec) or filter(None, [address[1:]]):  # also those in the path of the model
            if not _is_local(url):
                what = f"the model {self.abbr!r} is asked at {url}"
                what += ", and a config does not choose where prompts and keys go"
                raise DataError(what, where=self.where, hint=f"If you trust it: {self.flag} {text}.")
        return text

    @property
    def _path(self) -> Any:
        """The config's name of the model, without the prefix that tells LiteLLM the provider."""
        path = self.body.get("model") or self.body.get("path")
        if self.kind not in _LITELLM or not isinstance(path, str):
            return path
        prefix, _, name = path.partition("/")
        return name if name and prefix in _LITELLM_PREFIXES else path

    @property
    def _backend(self) -> str:
        """The backend that opens the model. LiteLLM goes by the prefix of the name unless there is an address."""
        backend = _BACKENDS.get(self.kind, "hf")
        if self.kind not in _LITELLM or self._server():
            return backend
        path = str(self.body.get("model") or self.body.get("path"))
        provider = path.partition("/")[0] if "/" in path else backend
        known = _LITELLM_PREFIXES.get(provider)
        if not known:
            what = f"LiteLLM would ask {provider} for the model {self.abbr!r}, and kshot does not know its address"
            raise DataError(what, where=self.where, hint=f"Name it: {self.flag} openai:MODEL@ADDRESS.")
        return known

    def _server(self) -> str:
        """Return the address of the server that the config names; an empty text where it names none."""
        if self.kind in _SERVERS:
            host, port = self.body.get("host_ip") or "localhost", self.body.get("host_port") or 8080
            secure = "s" if self.body.get("enable_ssl") else ""
            return str(self.body.get("url") or f"http{secure}://{host}:{port}/v1")
        names = (*_ADDRESSES, "url") if self.kind in _LITELLM else _ADDRESSES
        given = next((found for name in names if (found := self.body.get(name))), "")
        return str(given[0] if isinstance(given, (list, tuple)) and given else given)

    def _address(self) -> str:
        server = self._server() if self.kind in _BACKENDS else ""
        return f"@{server}" if server and not server.startswith(_OPENAI) else ""

    @property
    def model_type(self) -> Literal["base", "chat"]:
        """Whether its prompts are text or messages."""
        return "chat" if self.kind in _CHAT else "base"

    def is_called(self, name: str) -> bool:
        """Whether a model of this name is this entry."""
        path = str(self._path or "")
        name, _ = split_options(name)  # as in hf:PATH,dtype=float16
        named = {self.abbr, path, Path(path).name, *(f"{backend}:{path}" for backend in {"hf", *_BACKENDS.values()})}
        return name in named or name.partition("@http")[0] in named


def _is_local(url: str) -> bool:
    try:
        return urlsplit(url).hostname in _LOOPBACK
    except ValueError:
        return False
