"""Dataset files of LLMBox: importing one, and what ``import``, ``exec`` and ``eval`` mean in it.

Base classes, metrics and helpers are kshot's own. Data modules and other dataset files are read from the tree beside
the file. Nothing else of the package is run: it would need torch and more to import.

Files hand ``exec`` and ``eval`` programs that a model wrote. None of it runs here: ``exec`` notes a program; ``eval``
has the sandbox run it, and gives the value of an expression after it.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from kshot.cleanups.formulas import same_formula
from kshot.cleanups.literals import NO_VALUE, literal
from kshot.core.errors import DataError, KshotError
from kshot.core.extras import import_package
from kshot.core.registry import forget_plugin_file, load_plugin_file, objects_of
from kshot.datasets.dataset import Dataset, snake_case
from kshot.datasets.llmbox.classes import METRICS, LLMBoxDataset, LLMBoxGeneration, LLMBoxMultipleChoice
from kshot.sandbox import program as sandbox
from kshot.tables.files import LazyRows, Rows, load_raw_dataset_from_file
from kshot.tables.loading import get_raw_dataset_loader

_HINT = "kshot runs programs of a model apart: exec(TEXT), then eval(TEXT), which gives plain data."


class Refusals:
    """What kshot refused while code of a file ran."""

    def __init__(self) -> None:
        self.errors: list[KshotError] = []


class _Noted(threading.local):
    """The program that a thread gave ``exec`` last, and the file whose ``eval`` has not asked for a value of it."""

    program = ""
    waiting: Path | None = None


_NOTED = _Noted()
_OPEN: list[Refusals] = []
"""Those of all code that runs now: a file may start threads, so any of it may be the one that is refused."""


@contextmanager
def refusals_raised() -> Iterator[None]:
    """Raise at the end of a block what was refused within: a bare ``except`` of the file may have caught it."""
    kept, outside = Refusals(), (_NOTED.program, _NOTED.waiting)
    _NOTED.program, _NOTED.waiting = "", None
    _OPEN.append(kept)
    try:
        yield
        _refuse_waiting()
    except Exception:
        if not kept.errors:
            raise
    finally:
        _OPEN.remove(kept)
        _NOTED.program, _NOTED.waiting = outside
    if kept.errors:
        raise kept.errors[0]


def program_answers(file: Path) -> dict[str, Any]:
    """Return the ``exec`` and ``eval`` of a file."""

    def note(source: Any, /, *given: Any, **more: Any) -> None:
        """Note a program, in place of the one before it."""
        _refuse_waiting()
        _NOTED.program, _NOTED.waiting = _text(file, "exec", source, *given, *more.values()), file

    def value(expression: Any, /, *given: Any, **more: Any) -> Any:
        """Return the value of an expression after the noted program; a literal needs no process."""
        if _NOTED.waiting is None and isinstance(expression, str):
            try:
                return literal(expression)
            except NO_VALUE:
                pass  # it has to be run
        text, _NOTED.waiting = _text(file, "eval", expression, *given, *more.values()), None
        try:
            return sandbox.value_of(_NOTED.program, text, unsafe=sandbox.unsafe_allowed())
        except KshotError as error:
            raise _kept(error) from None

    return {"exec": note, "eval": value}


def _text(file: Path, name: str, source: Any, *given: Any) -> str:
    """Return what ``exec`` or ``eval`` is given, if it is a text and nothing else."""
    if any(each is not None for each in given):
        raise _refused(file, f"it calls {name} with variables of its own, which a program of a model must not reach")
    if not isinstance(source, str):
        raise _refused(file, f"it calls {name} with {type(source).__name__} in place of a text")
    return source


def _refuse_waiting() -> None:
    """Refuse a program whose value nothing asked for: whether it works would not be known."""
    file, _NOTED.waiting = _NOTED.waiting, None
    if file is not None:
        raise _refused(file, "it calls exec and then no eval, so the program would not run")


def _refused(file: Path, what: str) -> KshotError:
    return _kept(DataError(what, where=str(file), hint=_HINT))


def _kept(error: KshotError) -> KshotError:
    for each in _OPEN:
        each.errors.append(error)
    return error


Parts: TypeAlias = tuple[str, ...]
"""The name of a module below the package, part by part; () is the package itself."""

DATASETS: Parts = ("dataset",)
"""The folder of dataset files, whatever its name is in the tree."""

_LIGHT = frozenset({*sys.stdlib_module_names, "numpy"})
"""What a data module may import."""


class PackageImports:
    """The ``__import__`` of one file: relative names are answered here, all others by Python.

    ``folder`` has the dataset files, and lies in the folder of the package; ``inside`` is the part of the package that
    the file belongs to. ``neighbours`` are the files that were imported, by their paths.
    """

    def __init__(self, file: Path, folder: Path, inside: Parts) -> None:
        self._file, self.folder, self._inside = file, folder, inside
        self.neighbours: dict[Path, tuple[Parts, ModuleType]] = {}

    def __call__(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - Python's name
        locals: Mapping[str, Any] | None = None,  # noqa: A002 - Python's name
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import a module as the statement says."""
        if level == 0:
            stand_in = STAND_INS.get(name.partition(".")[0])
            found = stand_in() if stand_in is not None else None
            return found or builtins.__import__(name, globals, locals, fromlist or (), level)
        above = level - 1
        if above > len(self._inside):
            raise self._refused("." * level + name, "that is outside the package")
        parts = (*self._inside[: len(self._inside) - above], *(name.split(".") if name else ()))
        module = self._module(parts)
        for part in fromlist or ():
            if part != "*" and not hasattr(module, part):
                setattr(module, part, self._part(module, parts, part))
        return module

    def _module(self, parts: Parts) -> ModuleType:
        """Return a module of the package: kshot's answer, else a file of the tree."""
        if parts in {(), DATASETS}:
            return ModuleType(".".join(("package", *parts)))
        answer = ANSWERED.get(".".join(parts))
        if answer is None and parts[0] == "metric" and self._readable(parts) is None:
            answer = ANSWERED["metric"]  # one metric by itself
        return answer() if answer is not None else self._from_tree(parts)

    def _part(self, module: ModuleType, parts: Parts, name: str) -> Any:
        """Return what ``from module import name`` means where kshot's answer, or the package, has no such name."""
        if parts in {(), DATASETS} or ".".join((*parts, name)) in ANSWERED:
            return self._module((*parts, name))
        if parts and ".".join(parts) in ANSWERED and self._readable(parts) is not None:
            own = self._from_tree(parts)
            if hasattr(own, name):
                return getattr(own, name)
        known = ", ".join(sorted(key for key in vars(module) if not key.startswith("_")))
        raise self._refused(f"{name} of {'.'.join(parts)}", f"there is {known or 'nothing'}")

    def _place(self, parts: Parts) -> Path | None:
        """Return the file of a module of the tree."""
        if parts in {(), DATASETS}:
            return None
        below = self.folder if parts[:1] == DATASETS else self.folder.parent
        path = below.joinpath(*(parts[1:] if parts[:1] == DATASETS else parts))
        return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)

    def _readable(self, parts: Parts) -> Path | None:
        """Return the file of a module that is light enough to be run: it imports nothing but the standard library."""
        path = self._place(parts)
        return path if path is not None and not {*_imports_of(path)} - _LIGHT else None

    def _from_tree(self, parts: Parts) -> ModuleType:
        path = self._place(parts)
        if path is None:
            raise self._refused(".".join(parts), "there is no such file in the tree")
        if parts[:1] != DATASETS and (heavy := sorted({*_imports_of(path)} - _LIGHT)):
            why = f"{path.name} is no data module: it imports {', '.join(heavy)}, and kshot does not run it"
            raise self._refused(".".join(parts), why)
        inside = parts if path.name == "__init__.py" else parts[:-1]
        module = _neighbour(path, self.folder, inside)
        self.neighbours[path] = (inside, module)
        return module

    def _refused(self, what: str, why: str) -> KshotError:
        return DataError(
            f"it imports {what}; {why}",
            where=str(self._file),
            hint="kshot answers base classes, metrics and helpers, and reads data modules and dataset files beside it.",
        )


def _imports_of(path: Path) -> Iterator[str]:
    """Yield the packages that a file imports when it runs, outside its functions."""
    waiting: list[ast.AST] = [ast.parse(path.read_bytes())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module).partition(".")[0]
        waiting.extend(ast.iter_child_nodes(node))


_CODE_LETTERS = 2
_NAMES = """\
aa Afar, ab Abkhazian, ae Avestan, af Afrikaans, ak Akan, am Amharic, an Aragonese, ar Arabic, as Assamese,
av Avaric, ay Aymara, az Azerbaijani, ba Bashkir, be Belarusian, bg Bulgarian, bh Bihari languages, bi Bislama,
bm Bambara, bn Bangla, bo Tibetan, br Breton, bs Bosnian, ca Catalan, ce Chechen, ch Chamorro, co Corsican,
cr Cree, cs Czech, cu Church Slavic, cv Chuvash, cy Welsh, da Danish, de German, dv Divehi, dz Dzongkha,
ee Ewe, el Greek, en English, eo Esperanto, es Spanish, et Estonian, eu Basque, fa Persian, ff Fula,
fi Finnish, fj Fijian, fo Faroese, fr French, fy Western Frisian, ga Irish, gd Scottish Gaelic, gl Galician,
gn Guarani, gu Gujarati, gv Manx, ha Hausa, he Hebrew, hi Hindi, ho Hiri Motu, hr Croatian, ht Haitian Creole,
hu Hungarian, hy Armenian, hz Herero, ia Interlingua, id Indonesian, ie Interlingue, ig Igbo, ii Sichuan Yi,
ik Inupiaq, in Indonesian, io Ido, is Icelandic, it Italian, iu Inuktitut, iw Hebrew, ja Japanese, ji Yiddish,
jv Javanese, jw Javanese, ka Georgian, kg Kongo, ki Kikuyu, kj Kuanyama, kk Kazakh, kl Kalaallisut, km Khmer,
kn Kannada, ko Korean, kr Kanuri, ks Kashmiri, ku Kurdish, kv Komi, kw Cornish, ky Kyrgyz, la Latin,
lb Luxembourgish, lg Ganda, li Limburgish, ln Lingala, lo Lao, lt Lithuanian, lu Luba-Katanga, lv Latvian,
mg Malagasy, mh Marshallese, mi Māori, mk Macedonian, ml Malayalam, mn Mongolian, mo Moldavian, mr Marathi,
ms Malay, mt Maltese, my Burmese, na Nauru, nb Norwegian Bokmål, nd North Ndebele, ne Nepali, ng Ndonga,
nl Dutch, nn Norwegian Nynorsk, no Norwegian, nr South Ndebele, nv Navajo, ny Nyanja, oc Occitan, oj Ojibwa,
om Oromo, or Odia, os Ossetic, pa Punjabi, pi Pali, pl Polish, ps Pashto, pt Portuguese, qu Quechua,
rm Romansh, rn Rundi, ro Romanian, ru Russian, rw Kinyarwanda, sa Sanskrit, sc Sardinian, sd Sindhi,
se Northern Sami, sg Sango, sh Serbo-Croatian, si Sinhala, sk Slovak, sl Slovenian, sm Samoan, sn Shona,
so Somali, sq Albanian, sr Serbian, ss Swati, st Southern Sotho, su Sundanese, sv Swedish, sw Swahili,
ta Tamil, te Telugu, tg Tajik, th Thai, ti Tigrinya, tk Turkmen, tl Tagalog, tn Tswana, to Tongan, tr Turkish,
ts Tsonga, tt Tatar, tw Twi, ty Tahitian, ug Uyghur, uk Ukrainian, ur Urdu, uz Uzbek, ve Venda, vi Vietnamese,
vo Volapük, wa Walloon, wo Wolof, xh Xhosa, yi Yiddish, yo Yoruba, za Zhuang, zh Chinese, zu Zulu"""


class Language:
    """A language by its code, where the package ``langcodes`` is not installed; it knows the codes of two letters."""

    def __init__(self, language: str) -> None:
        self.language = language

    def language_name(self, language: str = "en") -> str:
        """Return its name in English; a code of two letters that no language has is named as ``langcodes`` does."""
        if language != "en" or len(self.language) != _CODE_LETTERS:
            raise DataError(
                f"the name of the language {self.language!r} in {language!r} needs the package 'langcodes'",
                hint="Install it: pip install langcodes language_data",
            )
        return _BY_CODE.get(self.language.lower(), f"Unknown language [{self.language}]")


_BY_CODE: dict[str, str] = dict(each.strip().split(" ", 1) for each in _NAMES.split(","))


_PURPOSE = "this dataset file"


class LazyLibrary(ModuleType):
    """Hugging Face ``datasets``, imported when a file uses more of it than ``DownloadConfig``."""

    def __getattr__(self, name: str) -> Any:
        """Return what the library has under this name."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "DownloadConfig":
            return partial(partial, _download_config)
        return getattr(import_package(_PURPOSE, "datasets"), name)


def _download_config(**options: Any) -> Any:
    """Make the settings of a download, once something is downloaded."""
    return import_package(_PURPOSE, "datasets").DownloadConfig(**options)


def get_answers(doc: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the answer of a row and those of its validators, each as a tuple of texts and each once."""
    names, columns = ("number", "date", "spans"), doc["validated_answers"]
    validated = zip(*(columns[name] for name in names), strict=True)
    found = [doc["answer"], *(dict(zip(names, values, strict=True)) for values in validated)]
    return list(dict.fromkeys(map(_parsed, found)))


def _parsed(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a number, else the spans, else a date as day, month and year."""
    if answer["number"] != "":
        return (str(answer["number"]),)
    if answer["spans"]:
        return tuple(answer["spans"])
    return (" ".join(str(answer["date"][part]) for part in ("day", "month", "year")).strip(),)


def equivalent(one: Any, other: Any, verbose: bool = False) -> bool:  # noqa: ARG001, FBT001, FBT002 - LLMBox's signature
    """Whether two answers are equal once both are written in one way; two that are missing are equal."""
    if one is None or other is None:
        return one is None and other is None
    return same_formula(str(one), str(other))


def raw_dataset_loader(
    dataset_name: str = "",
    dataset_path: str | None = None,
    subset_name: str | None = None,
    load_args: tuple[str, ...] | None = None,
    load_kwargs: Mapping[str, Any] | None = None,
    *,
    return_msg: bool = False,
) -> Any:
    """Return a function from split to rows; with ``return_msg`` also a text that says where they come from."""
    load = get_raw_dataset_loader(dataset_name, dataset_path, subset_name, load_args, load_kwargs=load_kwargs)

    def rows(split: str) -> Rows:
        if dataset_path is None:  # a file may ask the hub for examples that nothing shows
            return LazyRows(lambda: load(split))
        return [dict(row) for row in load(split)]

    place = dataset_path or "/".join(load_args or (dataset_name,))
    return (rows, f"{dataset_name} from {place}") if return_msg else rows


_BASES: Mapping[str, Any] = {
    "Dataset": LLMBoxDataset,
    "GenerationDataset": LLMBoxGeneration,
    "MultipleChoiceDataset": LLMBoxMultipleChoice,
}
_LOADING: Mapping[str, Any] = {
    "get_raw_dataset_loader": raw_dataset_loader,
    "load_raw_dataset_from_file": load_raw_dataset_from_file,
}


class CallableModule(ModuleType):
    """A module that can be called too: whether a file imports the module or its function, it gets the function."""

    def __call__(self, *given: Any, **options: Any) -> Any:
        """Call the function that has the name of the module."""
        return vars(self)[self.__name__](*given, **options)


def _module(name: str, contents: Mapping[str, Any], kind: type[ModuleType] = ModuleType) -> Callable[[], ModuleType]:
    @cache
    def made() -> ModuleType:
        module = kind(name)
        vars(module).update(contents)
        return module

    return made


_langcodes = _module("langcodes", {"Language": Language})


@cache
def language_codes() -> ModuleType | None:
    """Answer ``import langcodes`` where that package is missing; None: it is installed."""
    return None if all(map(importlib.util.find_spec, ("langcodes", "language_data"))) else _langcodes()


_math_equiv = _module("math_equiv", {"math_equiv": equivalent, "is_equiv": equivalent}, CallableModule)

ANSWERED: Mapping[str, Callable[[], ModuleType]] = {
    "dataset.dataset": _module("dataset", _BASES),
    "dataset.generation_dataset": _module("generation_dataset", _BASES),
    "dataset.multiple_choice_dataset": _module("multiple_choice_dataset", _BASES),
    "dataset.dataset_utils": _module("dataset_utils", _LOADING),
    "dataset.utils": _module("utils", _LOADING),
    "metric": _module("metric", METRICS),
    "metric.drop_utils": _module("drop_utils", {"get_answers": get_answers}),
    "utils": _module("utils", {"math_equiv": _math_equiv()}),
    "utils.math_equiv": _math_equiv,
}

STAND_INS: Mapping[str, Callable[[], ModuleType | None]] = {
    "datasets": _module("datasets", {}, LazyLibrary),
    "langcodes": language_codes,
}
"""What answers the import of a package that is not of LLMBox; None: the package itself."""


_IMPORTS = "__kshot_imports__"
"""Under this name a module keeps what its imports are answered by."""


def load_dataset_file(path: Path, name: str = "") -> ModuleType:
    """Import a file of dataset classes; one with relative imports gets the package that it lies in."""
    if not has_relative_imports(path):
        return load_plugin_file(path, name)
    prepare = partial(_prepare, folder=path.resolve().parent, inside=DATASETS)
    module = load_plugin_file(path, name, prepare)
    if not _neighbours_are_same(module):
        forget_plugin_file(path)
        module = load_plugin_file(path, name, prepare)
    return _name_classes(module)


def has_relative_imports(path: Path) -> bool:
    """Return whether the file uses relative imports (False if it is not valid Python)."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.ImportFrom) and node.level > 0 for node in ast.walk(tree))


def _prepare(module: ModuleType, folder: Path, inside: Parts) -> None:
    """Answer the imports of a module, and its exec and eval, those inside its functions too."""
    file = Path(str(module.__file__))
    imports = PackageImports(file, folder, inside)
    vars(module)[_IMPORTS] = imports
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": imports, **program_answers(file)}


def _neighbour(path: Path, folder: Path, inside: Parts) -> ModuleType:
    return _name_classes(load_plugin_file(path, "", partial(_prepare, folder=folder, inside=inside)))


def _neighbours_are_same(module: ModuleType) -> bool:
    """Use the neighbours of a module once more: a run records every file that it used, and one may have changed."""
    imports: PackageImports = vars(module)[_IMPORTS]
    return all(
        _neighbour(path, imports.folder, inside) is found and _neighbours_are_same(found)
        for path, (inside, found) in tuple(imports.neighbours.items())
    )


def _name_classes(module: ModuleType) -> ModuleType:
    """Give the datasets of a file the names that LLMBox knows them by: the file's name, if it has only one."""
    own = [each for each in objects_of(module).values() if isinstance(each, type) and issubclass(each, Dataset)]
    for each in own:
        if "name" not in vars(each):
            each.name = Path(str(module.__file__)).stem if len(own) == 1 else snake_case(each.__name__)
    return module
