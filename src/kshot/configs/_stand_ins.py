"""What stands in a config for things of other packages: names that can be mentioned anywhere and fail when used."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any, Protocol

from kshot.cleanups.replies import CLEANUP_FUNCTIONS

HOMES = ("ais_bench", "opencompass")
NAMED = (*HOMES, "mmengine", "kshot")
# What the homes themselves depend on: a file may mention it, whether or not it is installed here.
DEPENDED = frozenset((
    *("torch", "transformers", "datasets", "accelerate", "lagent", "vllm", "lmdeploy", "openai", "tiktoken", "numpy"),
    *("pandas", "scipy", "sklearn", "nltk", "jieba", "rouge", "rouge_chinese", "rouge_score", "sacrebleu", "evaluate"),
    *("rich", "tqdm", "requests", "tabulate", "prettytable", "mmengine_lite", "modelscope", "huggingface_hub", "sympy"),
    *("latex2sympy2", "math_verify", "peft", "anthropic", "zhipuai", "dashscope", "volcengine", "fuzzywuzzy", "mmcv"),
))  # fmt: skip


class Resolver(Protocol):
    """Who knows what a name stands for."""

    reading: int

    def named(self, called: str, at: str) -> Any:
        """Give what a name stands for."""

    def registering(self, *args: Any, **kwargs: Any) -> Any:
        """Keep what is registered."""


class ConfigFault(Exception):  # noqa: N818 - raised inside a config, reported outside
    """Something wrong with a config that the file itself did not raise."""


class NotHere(Exception):  # noqa: N818
    """A name without an equivalent here was used."""


class Settable(dict[str, Any]):
    """A dict whose items are attributes too, as what ``read_base`` imports is; so are the dicts put into it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _settable(value))

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        self.pop(name)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Put a default in as any other value."""
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Put values in; a dict is added to the one that is there, and does not replace it."""
        for name, value in dict(*args, **kwargs).items():
            if isinstance(value, dict) and isinstance(self.get(name), dict):
                self[name].update(value)
            else:
                self[name] = value

    def copy(self) -> Settable:
        """Copy it as what it is."""
        return Settable(self)

    def deepcopy(self) -> Settable:
        """Copy it and all that it holds."""
        return copy.deepcopy(self)


def _settable(value: Any) -> Any:
    if type(value) in (dict, OrderedDict):
        return Settable(value)
    return type(value)(map(_settable, value)) if type(value) in (list, tuple) else value


class Name:
    """Stands for something of another package; it can be mentioned anywhere, and fails when it is used."""

    __slots__ = ("_at", "_called", "_interpreter")

    def __init__(self, called: str, at: str, interpreter: Resolver) -> None:
        self._called, self._at, self._interpreter = called, at, interpreter

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._interpreter.named(f"{self._called}.{name}", self._at)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        last = self._called.rpartition(".")[2]
        if last == "register_module":
            return self._interpreter.registering(*args, **kwargs)
        known = CLEANUP_FUNCTIONS.get(last)
        if known is None:
            raise NotHere(f"{self._called} (imported at {self._at}) is called, and kshot has no equivalent of it here")
        return known(*args, **kwargs)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (type(self._called.rpartition(".")[2], (Stub,), {"_stands_for": self._called}),)

    def __copy__(self) -> Name:
        return self

    def __deepcopy__(self, memo: Any) -> Name:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Name) and other._called == self._called

    def __hash__(self) -> int:
        return hash(self._called)

    def __repr__(self) -> str:
        return self._called

    @staticmethod
    def describe(name: Name) -> tuple[str, str]:
        """What it is called, and where it was imported."""
        return name._called, name._at


class Stub:
    """What a class of a config inherits from where the parent is only a name."""

    _stands_for = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotHere(f"{self._stands_for}.{name} is used by a subclass, and kshot has no equivalent of it here")


class ReadBase:
    """``with read_base():`` - imports in it are config files."""

    def __init__(self, interpreter: Resolver) -> None:
        self._interpreter = interpreter

    def __call__(self) -> ReadBase:
        return self

    def __enter__(self) -> None:
        self._interpreter.reading += 1

    def __exit__(self, *_: object) -> None:
        self._interpreter.reading -= 1


def copied(value: Any) -> Any:
    """Copy dicts and lists, to any depth; what two places shared, each has to itself then, as in the originals."""
    if isinstance(value, dict):
        return Settable({name: copied(each) for name, each in value.items()})
    return type(value)(map(copied, value)) if type(value) in (list, tuple, set) else value
