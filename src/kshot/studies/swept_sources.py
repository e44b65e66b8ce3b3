"""The sweep of a dataset: which options have several values for it, and what a value means for each front end."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kshot.core.errors import UsageError, naming
from kshot.core.options import SweptValues, flag, options_from
from kshot.core.protocols import Source
from kshot.core.specs import option_text, parse_spec, split_options, split_values
from kshot.settings import Settings
from kshot.studies.sweep import Sweep, SweepPlace, value_text

_WHOLE_TEXTS = ("instruction",)
"""Options whose values may contain ``+``: after the name of a dataset they have one value."""

_OWN_NUMBERS = {"lookup": "shots", "lmeval": "num_fewshot"}
"""The option of a front end that says how many examples there are, if not ``-k``."""

_SEVERAL = 2
_MAX_POINTS = 1000
"""Every point is a task of its own, with its rows, its table and its place in the report."""


def own_values(text: str) -> dict[str, list[str]]:
    """Return the options after the name of a dataset that have several values: ``quiz,num_shots=0+5``."""
    declared = Settings.declared()
    given = {
        name: _named(split_values(value)) if name == "retriever" else split_values(value)
        for name, value in split_options(text)[1].items()
        if name in declared and declared[name].sweeps and name not in _WHOLE_TEXTS
    }
    return {name: values for name, values in given.items() if len(values) >= _SEVERAL and all(values)}


def _named(values: Sequence[str]) -> list[str]:
    """Return the retrievers among values: none begins with a digit, which belongs to a list of the one before it."""
    found = list(values[:1])
    for value in values[1:]:
        if value[:1].isdigit():
            found[-1] += f"+{value}"  # fixk,fix_id_list=0+2
        else:
            found.append(value)
    return found


def sweep_of(spec: Any, settings: Settings, source_of: Callable[[Any, Settings], Source[Settings]]) -> Sweep:
    """Return the sweep of what a user named as a dataset; ``source_of`` makes its source for settings without one."""
    own: SweptValues = ()
    base = spec
    if isinstance(spec, str):
        head, options = split_options(spec)
        several = own_values(spec)
        base = head + option_text({name: value for name, value in options.items() if name not in several})
        own = _read(several, spec)
    swept = {**dict(settings.sweep), **dict(own)}
    count = math.prod(map(len, swept.values()))
    if count > _MAX_POINTS:
        named = " × ".join(f"{len(values):,} of {flag(name)}" for name, values in swept.items())
        what = f"the sweep has {count:,} points ({named}), and one may have {_MAX_POINTS:,}"
        raise UsageError(what, where=f"{spec:.100}" if isinstance(spec, str) else "", hint="Give fewer values.")

    def placed(whole: Settings, values: Mapping[str, Any]) -> SweepPlace:
        return place_of(base, whole, values)

    first = placed(settings, {name: values[0] for name, values in swept.items()})
    whole = source_of(base, first.settings)
    return Sweep(spec if isinstance(spec, str) else whole.label, whole, own, placed, lambda at: source_of(base, at))


def _read(several: Mapping[str, Sequence[str]], where: str) -> SweptValues:
    """Read the values after a name as the options of the run are read."""
    declared = Settings.declared()
    given: dict[str, list[Any]] = {}
    for name, texts in several.items():
        kind = declared[name].kind
        try:
            given[name] = [kind(text) for text in texts]
        except ValueError:
            what = f"{name} is {'+'.join(texts)!r}; each value must be {kind.__name__}"
            raise UsageError(what, where=where) from None
    return options_from(Settings, given).sweep


def place_of(spec: Any, whole: Settings, values: Mapping[str, Any]) -> SweepPlace:
    """Return the settings at one point of a sweep, and the values that may matter there.

    None stands for the default. Without examples there is nothing to retrieve: 0 is one point for all retrievers.
    """
    at = whole.with_values(sweep=(), **{name: value for name, value in values.items() if value is not None})
    if "num_shots" not in values:
        return SweepPlace(at, values)
    named = parse_spec(spec) if isinstance(spec, str) else None
    if named is not None and named.name in _OWN_NUMBERS:
        own = _OWN_NUMBERS[named.name]
        if at.values()[own] is not None or own in named.options:  # which goes before -k
            return SweepPlace(at, {name: value for name, value in values.items() if name != "num_shots"})
        # 0 is 0, and not as many as it shows by itself
        return SweepPlace(at.with_values(**{own: at.num_shots}), values, {own: "num_shots"})
    if at.num_shots:
        return SweepPlace(at, values)
    of_config = named is not None and named.file is not None and not named.argument
    chooses_none = "zero" if of_config and at.retriever is not None else None  # else the config's own would choose
    at = at.with_values(retriever=chooses_none, retriever_seeds=None)
    return SweepPlace(at, {name: value for name, value in values.items() if name != "retriever"})


def check_sweeps(settings: Settings, sources: Sequence[Source[Settings]], reads: Collection[str]) -> None:
    """Refuse several values of an option that no dataset has read: all would have the same figures."""
    for name, values in settings.sweep:
        if name not in reads:
            shown = ", ".join(map(value_text, values))
            labels = ", ".join(source.label for source in sources)
            what = f"{flag(name)} has several values ({shown:.80}), and it has no effect on {labels:.200}"
            with naming("setting", name):
                raise UsageError(what, hint="Give one value, or leave it out.")
