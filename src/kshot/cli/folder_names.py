"""The run folder of a command without ``--out``: it is named after the command, so that the same command finds it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kshot.core.options import OptionField, Options
from kshot.core.specs import without_options


def default_folder(models: Sequence[str], datasets: Sequence[str], settings: Options, below: str | None = None) -> str:
    """Return the folder of a command; a folder that an earlier kshot made for the same command is found again.

    It lies below ``runs``, or below the folder that a config names.
    """
    bare = [without_options(text) for text in datasets]  # settings would only make the name long
    titles = dict.fromkeys((_title(models, bare), _title(models, datasets)))
    identities = [json.dumps([models, datasets, settings.identity()], sort_keys=True)]
    if below is None and (earlier := _earlier_identity(settings)) is not None:
        identities.append(json.dumps([models, datasets, earlier]))
    names = [_folder(title, identity, below or "runs") for identity in identities for title in titles]
    return next((name for name in names if Path(name).exists()), names[0])


def _title(models: Sequence[str], datasets: Sequence[str]) -> str:
    """Return what a reader recognises: the first dataset and the first model."""
    named = [text.partition("@http")[0] for text in (datasets[0], models[0])]
    words = [re.split(r"[/:]", text.rstrip("/"))[-1] or text for text in named]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(words)).strip("-.")[:60]


def _folder(title: str, identity: str, below: str) -> str:
    return f"{below}/{title}-{hashlib.blake2b(identity.encode(), digest_size=4).hexdigest()}"


# ---- folders of the earlier form ----

_EARLIER_OPTIONS = (
    *("num_shots", "retriever", "retriever_seeds", "max_example_tokens", "ranking_type", "seed", "limit"),
    *("instruction", "system_prompt", "model_type", "chat_template", "dataset_path", "evaluation_set", "example_set"),
    *("max_tokens", "temperature", "top_p", "top_k", "stop", "sample_num", "pass_at_k", "cot", "metric", "cleanup"),
    *("length", "variant", "shots", "samples", "data", "config_root", "templates", "reference"),
    *("chunker", "queries", "rewrite", "within", "components", "measures", "method", "search", "read", "judge"),
    *("dtype", "revision", "trust_remote_code", "add_bos", "engine_option", "base_url"),
)
"""The options that there were, in their order, when the name of a folder depended on every one. They never change."""

_ABSENT_IF_UNSET = ("metric", "cleanup")


def _earlier_identity(settings: Options) -> dict[str, Any] | None:
    """Return what a folder was named by when its name depended on every option; None if it cannot have been."""
    if not settings.identity().keys() <= set(_EARLIER_OPTIONS):
        return None  # an option is set that did not exist then
    declared = settings.declared()
    values = {
        name: _formerly_unset(declared[name]) if value is None else value for name, value in settings.values().items()
    }
    return {
        name: declared[name].identifying(value) if name in declared else value
        for name in _EARLIER_OPTIONS
        if (value := values.get(name)) is not None or name not in _ABSENT_IF_UNSET
    }


def _formerly_unset(declared: OptionField) -> Any:
    return declared.earlier_default if declared.former_default is None else declared.former_default
