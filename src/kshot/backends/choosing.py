"""Which models a run evaluates, and whether they suit its datasets and take the options that the user has set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from kshot.backends.making import names_search_engine, options_taken
from kshot.core.errors import UsageError
from kshot.core.options import Options, flag
from kshot.core.protocols import Model, Source

SettingsT = TypeVar("SettingsT", bound=Options)


def models_in(sources: Sequence[Source[SettingsT]], settings: SettingsT) -> list[str | Model]:
    """Return the models to run if the user names none: those of a config, else built-in ones that fit."""
    found: list[str | Model] = [spec for source in sources for spec in source.models]
    if found:
        return list(dict.fromkeys(found))
    for source in sources:
        usual = source.default_model(settings)
        if usual is None:
            raise UsageError(
                "it needs a model, and none is named",
                where=source.label,
                hint="Add -m MODEL, such as -m hf:PATH (kshot list models).",
            )
        found.append(usual)
    return list(dict.fromkeys(found))


def check_pairs(models: Sequence[str | Model], sources: Sequence[Source[SettingsT]], settings: SettingsT) -> None:
    """Refuse a dataset that fits none of the models, before anything is loaded."""
    kinds = {names_search_engine(spec) if isinstance(spec, str) else None for spec in models}
    for source in sources:
        searching = source.searches(settings)
        if None not in kinds and searching not in kinds:
            named = ", ".join(str(spec) for spec in models)
            who = "search engines" if searching else "language models"
            raise UsageError(
                f"{source.label} needs {who}, and there are none among: {named}",
                hint="Add -m fts5 (kshot list search-engines), or --method rag." if searching else "Add -m MODEL.",
            )


def not_taken(changed: Iterable[str], models: Sequence[str | Model]) -> Iterator[str]:
    """Name the options that the user has changed and that none of the models takes; one that is open takes none."""
    names = list(changed)
    taken = [options_taken(spec) for spec in models if isinstance(spec, str)] if names else []
    for name in names:
        if all(known is not None and name not in known for known in taken):
            named = ", ".join(spec if isinstance(spec, str) else spec.name for spec in models)
            yield f"{flag(name)} has no effect on {named}"
