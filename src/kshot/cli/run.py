"""``kshot run``: evaluate models on datasets. A command without ``--out`` finds its run folder again by its name."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kshot.cli.gate import add_gates, finish, gating
from kshot.cli.parser import add_datasets, add_settings, options_of
from kshot.cli.score import add_log
from kshot.core.errors import UsageError
from kshot.core.options import OptionField, Options, flag, settings_names
from kshot.core.specs import without_options
from kshot.settings import settings_from

if TYPE_CHECKING:
    import argparse

STARTER = {
    "length": (10, 20, 40, 80, 120),
    "variant": ("sep|small|bare", "sep|small|simple_rule"),
    "samples": 50,
}
"""The options of ``kshot run`` without arguments: all six lookup tasks, bare and with the rule, and passage search."""

_STARTERS = ["lookup", "handbook"]


def add(run: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    run.description = "Evaluate models on datasets. Without -d, run a starter suite of token lookup and passage search."
    run.add_argument(
        "config",
        nargs="*",
        metavar="FILE",
        help="a run file (suite.toml), or config files of AISBench or OpenCompass (CONFIG.py), or in their form",
    )
    add_datasets(run)
    run.add_argument(
        "-m",
        "--model",
        action="append",
        metavar="MODEL",
        help="embedded, hf:PATH_OR_ID, vllm:PATH_OR_ID, openai:MODEL, anthropic:MODEL, replay:FILE, file.py:Class, "
        "or a search engine; options may follow, as in hf:PATH,dtype=float16 (kshot list models, "
        "kshot list search-engines; repeatable; default: embedded, or fts5 for passages)",
    )
    run.add_argument(
        "--out",
        metavar="DIR",
        help="run folder (default: one under runs/, named after the command, so that the same command continues it)",
    )
    run.add_argument(
        "--reuse",
        action="append",
        metavar="RUN",
        help="reuse the answers of another run wherever the request is the same (repeatable)",
    )
    add_log(run)
    run.add_argument("--json", action="store_true", help="print the results as JSON")
    run.add_argument(
        "--save-run-file",
        metavar="FILE.toml",
        help="write a run file that asks for the same as this command, and run it",
    )
    add_gates(run)
    add_settings(run)


def execute(parsed: argparse.Namespace) -> int:
    """Evaluate, show the figures, and check the gates."""
    from kshot.api import evaluate
    from kshot.cli.merge import finish_shard, shard_folder
    from kshot.cli.progress import Progress
    from kshot.cli.run_file import RunFileWriter
    from kshot.cli.streams import results_apart
    from kshot.passages import is_passages

    options = options_of(parsed)
    models, datasets = parsed.model, [*parsed.config, *(parsed.dataset or ())]
    if not datasets:
        _refuse_dataset_options(options)
        datasets, options = _STARTERS, STARTER | options
    usual = "config" if parsed.config else "fts5" if is_passages(datasets[0]) else "embedded"
    if parsed.out == "":
        raise UsageError("--out is empty", hint="Name a folder, or leave it out.")
    if "\0" in (parsed.out or ""):
        raise UsageError("--out has a zero byte, and no folder can be called so")
    settings = settings_from(options, datasets)
    whole = replace(settings, shard=None)
    out = parsed.out or default_folder(models or [usual], datasets, whole, _work_folder(parsed))
    if settings.shard is not None and not parsed.out:
        out = shard_folder(out, settings.shard)
    if (folder := vars(parsed).get("moved_to")) is not None:  # that of a run file elsewhere: the user can find it so
        out = str(Path(folder, Path(out).expanduser()))
    wanted = gating(parsed)
    if settings.shard is not None and (wanted.gates or wanted.junit or wanted.summary):
        hint = "Give the gates to kshot merge."
        raise UsageError("a shard has no figures, so gates cannot check it", hint=hint)
    saving = [] if parsed.save_run_file is None else [RunFileWriter(parsed, parsed.save_run_file)]
    with wanted.telling(out):
        if wanted.gates.baselines:
            wanted.gates.check_baselines(out)
        with results_apart(), Progress() as progress:
            watchers = [progress, *wanted.watchers(), *saving]
            more = {"reuse": parsed.reuse, "log": parsed.log, "watcher": watchers}
            result = evaluate(models, datasets, out=out, **more, **options)
    if settings.shard is not None:
        return finish_shard(result, settings.shard, as_json=parsed.json)
    return finish(result, wanted, as_json=parsed.json)


def _refuse_dataset_options(options: Iterable[str]) -> None:
    """Refuse options that dataset classes alone have: no dataset is named."""
    from kshot.datasets.settings import DatasetSettings
    from kshot.lookup.settings import LookupSettings
    from kshot.passages.settings import PassageSettings
    from kshot.prompts.settings import TemplateSettings

    theirs = settings_names(DatasetSettings) - settings_names(LookupSettings, PassageSettings, TemplateSettings)
    for name in options:
        if name in theirs:
            raise UsageError(f"{flag(name)} needs a dataset, and none is named", hint="Add -d NAME.")


def _work_folder(parsed: argparse.Namespace) -> str | None:
    """Return the folder that the only config names for its results."""
    if len(parsed.config) != 1 or parsed.dataset:
        return None
    from kshot.configs.loader import work_folder

    return work_folder(Path(parsed.config[0]), parsed.home, parsed.config_root)


# ---- the run folder ----


def default_folder(models: Sequence[str], datasets: Sequence[str], settings: Options, below: str | None = None) -> str:
    """Return the folder of a command; a folder that an earlier kshot made for the same command is found again.

    It lies below ``runs``, or below the folder that a config names.
    """
    bare = [without_options(text) for text in datasets]  # settings would only make the name long
    titles = dict.fromkeys((_title(models, bare), _title(models, datasets)))
    identities = [json.dumps([models, datasets, settings.identity()], sort_keys=True)]
    if below is None and (earlier := _earlier_identity(settings)) is not None:
        identities.append(json.dumps([models, datasets, earlier]))
    digests = [hashlib.blake2b(identity.encode(), digest_size=4).hexdigest() for identity in identities]
    names = [f"{below or 'runs'}/{title}-{digest}" for digest in digests for title in titles]
    return next((name for name in names if Path(name).exists()), names[0])


def _title(models: Sequence[str], datasets: Sequence[str]) -> str:
    """Return what a reader recognises: the first dataset and the first model."""
    named = [text.partition("@http")[0] for text in (datasets[0], models[0])]
    words = [re.split(r"[/:]", text.rstrip("/"))[-1] or text for text in named]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(words)).strip("-.")[:60]


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
