"""Templates of a home, which fill prompts in its confined worker, and retrievers, which choose examples there."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from kshot.configs.home import Home
from kshot.configs.rendering import TEMPLATES
from kshot.configs.rows import SelectedRows
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.prompts.dialogue import Filled, Messages, PromptList
from kshot.prompts.templates import PromptTemplate

_PARTS = ("prompt_template", "ice_template")


def _by_home(name: str) -> Callable[..., Any]:
    """Return a method of ``ForeignTemplate`` that the home's code carries out; it takes what kshot's own takes."""
    signature = inspect.signature(getattr(PromptTemplate, name))

    def method(self: ForeignTemplate, *args: Any, **named: Any) -> Filled:
        bound = signature.bind(self, *args, **named)
        bound.apply_defaults()
        given = {key: value for key, value in bound.arguments.items() if key not in ("self", "without")}
        return self._made(name, **given)

    return method


class ForeignTemplate(PromptTemplate):
    """Fills prompts by the code of a home."""

    def __init__(self, home: Home, name: Name, options: Mapping[str, Any]) -> None:
        """Make it in the worker, which tells its tokens."""
        super().__init__("", strict=False)
        self._home, self._name, self._options = home, name, dict(options)
        facts = home.template(name.whole, self._options, "", {})
        self.ice_token, self.sep_token = facts.get("ice_token"), facts.get("sep_token")
        self.prompt_type = str(facts.get("prompt_type") or "origin")

    def _made(self, method: str, **given: Any) -> Filled:
        made = self._home.template(self._name.whole, self._options, method, given)["made"]
        if isinstance(made, str):
            return made
        if not isinstance(made, list) or not all(isinstance(item, (str, dict)) for item in made):
            raise DataError(f"{self._name.last} of {self._home.title} gave {made!r:.80}, which is no prompt")
        if any(isinstance(item, dict) and "content" in item for item in made):
            return Messages(item for item in made if isinstance(item, dict))
        return PromptList(made)

    generate_ice_item = _by_home("generate_ice_item")
    generate_item = _by_home("generate_item")
    generate_label_prompt_item = _by_home("generate_label_prompt_item")


def with_foreign_templates(infer_cfg: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """Return an ``infer_cfg`` whose templates are objects where kshot lacks their class and a home has it."""
    found = dict(infer_cfg)
    for part in _PARTS:
        config = found.get(part)
        if not isinstance(config, Mapping):
            continue
        kind = config.get("type")
        if kind is None or isinstance(kind, type) or scope.name(kind).last in TEMPLATES:
            continue
        name = scope.name(kind)
        home = scope.home("template", name)
        if home is not None:
            found[part] = ForeignTemplate(home, name, {key: value for key, value in config.items() if key != "type"})
    return found


# ---- retrievers ----


class ForeignRetriever:
    """Chooses examples by the code of a home."""

    def __init__(self, home: Home, name: Name, options: Mapping[str, Any], rows: SelectedRows) -> None:
        """``rows`` are those to choose from and to choose for."""
        self._home, self._name, self._options, self._rows = home, name, dict(options), rows

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records about the choice."""
        return {"retriever": self._name.whole, "home": self._home.digest}

    def retrieve(self) -> list[list[int]]:
        """Return the numbers of the training rows to show before each test row."""
        rows = self._rows
        return self._home.examples(
            self._name.whole,
            self._options,
            train=rows.train,
            test=rows.test,
            columns=rows.input_columns,
            output=rows.output_column,
        )
