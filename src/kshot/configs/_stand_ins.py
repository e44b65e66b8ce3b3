"""Stand-ins for things of other packages: a config can mention them anywhere, and using one is an error.

Runs inside the confined process; standard library only.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

from kshot.cleanups.config_names import cleanup_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kshot.configs._language import Interpreter

FRAMEWORKS = ("ais_bench", "opencompass")
NAMED = (*FRAMEWORKS, "mmengine", "kshot")
# What the frameworks themselves depend on: a file may mention it, whether or not it is installed here.
DEPENDENCIES = frozenset((
    *("torch", "transformers", "datasets", "accelerate", "lagent", "vllm", "lmdeploy", "openai", "tiktoken", "numpy"),
    *("pandas", "scipy", "sklearn", "nltk", "jieba", "rouge", "rouge_chinese", "rouge_score", "sacrebleu", "evaluate"),
    *("rich", "tqdm", "requests", "tabulate", "prettytable", "mmengine_lite", "modelscope", "huggingface_hub", "sympy"),
    *("latex2sympy2", "math_verify", "peft", "anthropic", "zhipuai", "dashscope", "volcengine", "fuzzywuzzy", "mmcv"),
))  # fmt: skip


class ConfigFault(Exception):  # noqa: N818 - raised inside a config, reported outside
    """A config is wrong in a way that its own code did not raise."""


class NoConfig(Exception):  # noqa: N818 - as above
    """A config imports another config that does not exist."""


class NoEquivalent(Exception):  # noqa: N818 - as above
    """A name without an equivalent in kshot was used."""


class AttributeDict(dict[str, Any]):
    """A dict whose items are attributes too, as what ``read_base`` imports is; so are the dicts put into it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _with_attributes(value))

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
        """Put values in; a dict is added to the dict that is there and does not replace it."""
        for name, value in dict(*args, **kwargs).items():
            if isinstance(value, dict) and isinstance(self.get(name), dict):
                self[name].update(value)
            else:
                self[name] = value

    def copy(self) -> AttributeDict:
        """Return a copy of the same class."""
        return AttributeDict(self)

    def deepcopy(self) -> AttributeDict:
        """Return a copy of it and of everything in it."""
        return copy.deepcopy(self)


def _with_attributes(value: Any) -> Any:
    if type(value) in (dict, OrderedDict):
        return AttributeDict(value)
    return type(value)(map(_with_attributes, value)) if type(value) in (list, tuple) else value


class StandIn:
    """Stands for something of another package."""

    __slots__ = ("_at", "_called", "_resolver")

    def __init__(self, called: str, at: str, resolver: Interpreter) -> None:
        """``resolver`` knows what a name stands for, and keeps what a config registers."""
        self._called, self._at, self._resolver = called, at, resolver

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._resolver.named(f"{self._called}.{name}", self._at)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        owner, _, last = self._called.rpartition(".")
        if last == "register_module":
            return self._resolver.register(owner, *args, **kwargs)
        known = cleanup_function(last, owner.partition(".")[0])
        if known is None:
            raise NoEquivalent(
                f"{self._called} (imported at {self._at}) is called, and kshot has no equivalent of it here"
            )
        return known(*args, **kwargs)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (type(self._called.rpartition(".")[2], (StandInParent,), {"_stands_for": self._called}),)

    def __copy__(self) -> StandIn:
        return self

    def __deepcopy__(self, memo: Any) -> StandIn:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StandIn) and other._called == self._called

    def __hash__(self) -> int:
        return hash(self._called)

    def __repr__(self) -> str:
        return self._called

    @staticmethod
    def describe(stand_in: StandIn) -> tuple[str, str]:
        """Return what it is called and where it was imported; attributes would be names of the other package."""
        return stand_in._called, stand_in._at


class StandInParent:
    """What a class of a config inherits from where the parent is only a name."""

    _stands_for = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NoEquivalent(f"{self._stands_for}.{name} is used by a subclass, and kshot has no equivalent of it here")


class ReadBase:
    """``with read_base():`` - imports in it are config files."""

    def __init__(self, resolver: Interpreter) -> None:
        self._resolver = resolver

    def __call__(self) -> ReadBase:
        return self

    def __enter__(self) -> None:
        self._resolver.read_base_depth += 1

    def __exit__(self, *_: object) -> None:
        self._resolver.read_base_depth -= 1


def copied(value: Any) -> Any:
    """Copy dicts and lists, to any depth. What two places shared is then two copies, as in the frameworks."""
    if isinstance(value, dict):
        return AttributeDict({name: copied(each) for name, each in value.items()})
    return type(value)(map(copied, value)) if type(value) in (list, tuple, set) else value
