"""What differs between the settings of several runs, from their ``spec.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kshot.core.shareable import shareable
from kshot.runs.code import KEY as CODE
from kshot.runs.folder import without_defaults
from kshot.runs.spec_file import recorded_versions
from kshot.settings import Settings

_FACTS = {
    "shots": ("shots in prompts", "num_shots"),
    "kept": ("samples with fewer shots", ""),
    "ranking_type": ("ranking_type in use", "ranking_type"),
    "within": ("within in use", "within"),
    "corpus": ("corpus", ""),
}
"""What a run notes of a task: its name, and the option (if any) that says the same unless a dataset has its own."""


def setting_differences(specs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the settings in which runs differ: ``{"setting": name, "values": [one for each run]}``.

    The specs are those of ``read_spec``. For an option, None stands for its ``default``, which is then given too.
    Elsewhere None means that a run has no such thing. Versions, files of code, data and fingerprints are named where
    several runs have them and they are not the same.
    """
    options = list(_option_differences(specs))
    return [
        *options,
        *_fact_differences(specs, options),
        *_changed("fingerprint of", [_fingerprints(spec) for spec in specs]),
        *_changed("code in", [_texts(spec.get(CODE)) for spec in specs]),
        *_changed("data of", [_data(spec) for spec in specs]),
        *_changed("version of", [recorded_versions(spec) for spec in specs]),
    ]


def shared_settings(specs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the settings that are not at their defaults, and the same in all runs; rows as those of differences."""
    declared = Settings.declared()
    identities = [without_defaults(spec.get("identity", {})) for spec in specs]
    names = dict.fromkeys(("models", "datasets", *declared, *(name for each in identities for name in each)))
    rows = []
    for name in names:
        values = [identity.get(name) for identity in identities]
        if values[0] is not None and _all_equal(values):
            default = {"default": declared[name].default} if name in declared else {}
            rows.append({"setting": name, "values": [shareable(value, name) for value in values], **default})
    return rows


def unchanging_settings(specs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the options that are not at their defaults in some run, and change no figure: prices, speed, records."""
    declared = Settings.declared()
    known = {name for spec in specs for name in without_defaults(spec.get("identity", {}))}
    options = [without_defaults(spec.get("options", {})) for spec in specs]
    rows = []
    for name, option in declared.items():
        values = [each.get(name) for each in options]
        if name not in known and any(value is not None for value in values):
            shown = [shareable(value, name) for value in values]
            rows.append({"setting": name, "values": shown, "default": option.default})
    return rows


def _option_differences(specs: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield models, datasets, and the options in the order of ``kshot run --help``."""
    declared = Settings.declared()
    identities = [without_defaults(spec["identity"]) for spec in specs]
    first = ("models", "datasets", *declared)
    others = (name for identity in identities for name in identity)  # an option that this version does not have
    for name in dict.fromkeys((*first, *others)):
        values = [identity.get(name) for identity in identities]
        if name == "models" and _all_equal(values):  # a config names them; then each run knows what it asked
            values = [_model_names(spec) or value for spec, value in zip(specs, values, strict=True)]
        if not _all_equal(values):
            default = {"default": declared[name].default} if name in declared else {}
            yield {"setting": name, "values": [shareable(value, name) for value in values], **default}


def _fact_differences(
    specs: Sequence[Mapping[str, Any]], options: Iterable[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield how tasks were really put, where the options do not say it: the shots that a dataset sets for itself."""
    said = {
        row["setting"]: [row.get("default") if value is None else value for value in row["values"]] for row in options
    }
    for fact, (name, option) in _FACTS.items():
        found = _by_task([_task_facts(spec, fact) for spec in specs])
        kinds: dict[str, tuple[list[Any], list[str]]] = {}
        for task, values in found.items():
            kinds.setdefault(_text(values), (values, []))[1].append(task)
        for values, tasks in kinds.values():
            if _tells_more(values, said.get(option)):
                yield {"setting": f"{name}{_of_tasks(tasks, len(found))}", "values": values}


def _tells_more(values: Sequence[Any], said: Sequence[Any] | None) -> bool:
    """Whether these values differ from what options say; without options that differ, from each other."""
    if said is None:
        return not _all_equal(value for value in values if value is not None)
    return any(value is not None and value != told for value, told in zip(values, said, strict=True))


def _of_tasks(tasks: Sequence[str], among: int) -> str:
    """Name the tasks that something holds for, unless it holds for all."""
    if len(tasks) == among:
        return ""
    more = f" and {len(tasks) - 1} more" if len(tasks) > 1 else ""
    return f" of {tasks[0]}{more}"


def _by_task(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of all runs for each task that several have; where each has one task, its name may differ."""
    if all(len(tasks) == 1 for tasks in runs):
        return {next(iter(runs[0])): [next(iter(tasks.values())) for tasks in runs]} if runs else {}
    names = dict.fromkeys(name for tasks in runs for name in tasks)
    return {name: [tasks.get(name) for tasks in runs] for name in names if sum(name in tasks for tasks in runs) > 1}


def _changed(what: str, runs: Sequence[Mapping[str, str]]) -> Iterator[dict[str, Any]]:
    """Yield what several runs have under one name and is not the same."""
    for name in dict.fromkeys(name for each in runs for name in each):
        values = [each.get(name) for each in runs]
        if len({value for value in values if value is not None}) > 1:
            yield {"setting": f"{what} {name}", "values": values}


# ---- what a spec says; a stranger may have written it ----


def _model_names(spec: Mapping[str, Any]) -> list[str]:
    return [each["name"] for each in spec.get("models", ()) if each["role"] in {"model", "search_engine"}]


def _fingerprints(spec: Mapping[str, Any]) -> dict[str, str]:
    return {
        each["name"] if each["role"] in {"model", "search_engine"} else f"{each['role']} {each['name']}": each[
            "fingerprint"
        ]
        for each in spec.get("models", ())
    }


def _task_facts(spec: Mapping[str, Any], fact: str) -> dict[str, Any]:
    """Return a fact of each task; where models of one run differ in it, the values of all of them."""
    found: dict[str, list[Any]] = {}
    for tasks in spec.get("tasks", {}).values():
        for task, facts in tasks.items() if isinstance(tasks, dict) else ():
            if isinstance(facts, dict) and fact in facts:
                value = facts[fact]
                found.setdefault(task, []).append(len(value) if isinstance(value, dict) else value)
    return {task: values[0] if _all_equal(values) else values for task, values in found.items()}


def _data(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the number of samples of each task, and their digest."""
    found = spec.get("data", {})
    return {
        task: f"{each['samples']} {'sample' if each['samples'] == 1 else 'samples'}, {each['digest'][:12]}"
        for task, each in found.items()
        if isinstance(each, dict) and type(each.get("samples")) is int and isinstance(each.get("digest"), str)
    }


def _texts(found: Any) -> dict[str, str]:
    return {name: text for name, text in found.items() if isinstance(text, str)} if isinstance(found, dict) else {}


# ---- equality ----


def _all_equal(values: Iterable[Any]) -> bool:
    return len({_text(value) for value in values}) <= 1


def _text(value: Any) -> str:
    """Return a value as text: ``True`` is not 1 here."""
    return json.dumps(value, sort_keys=True, default=str)
