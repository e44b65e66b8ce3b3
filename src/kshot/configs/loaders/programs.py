"""Programs: HumanEval, MBPP, LCBench, BigCodeBench, HumanEval-X."""

from __future__ import annotations

from functools import partial

from kshot.configs.loaders.reading import Change, DataPlace, Loader, changed, without
from kshot.configs.rows import Splits
from kshot.core.errors import DataError
from kshot.core.records import Row

_X_LANGUAGES = ("python", "cpp", "go", "java", "js", "rust")


def _humaneval(place: DataPlace) -> Splits:
    return place.repeated(place.json_lines(place.only_file("human-eval-v2-20210705.jsonl")))


def _tested(row: Row, *, case: bool = True, plain: bool, task: str = "") -> Row:
    """Join the tests of a row; ``plain`` keeps them in ``test_list_2``, ``task`` names the column of its name."""
    tests = "\n".join(row["test_list"])
    made = {**row, **({"test_case": row["test_list"]} if case else {}), "test_list": tests}
    if plain:
        made["test_list_2"] = tests
    if task:
        made["test_column"] = {"test_list_2": tests, "task_id": row[task]}
    return made


def _sanitized_row(row: Row) -> Row:
    return _tested({**without(row, "prompt"), "text": row["prompt"]}, case=False, plain=True, task="task_id")


_MBPP = partial(_tested, plain=True)
_MBPP_V2 = partial(_tested, plain=False, task="task_id")
_MBPP_PLUS = partial(_tested, plain=True, task="task_id")
_LC = partial(_tested, plain=False, task="Contest id")


def _has_test_list(row: Row) -> bool:
    """Whether a row is raw: a final one has its tests as one text."""
    return isinstance(row.get("test_list"), list)


def _parted(name: str, change: Change, first: int, last: int) -> Loader:
    """Return a loader of one file: the first rows are examples, those up to ``last`` are asked."""

    def read(place: DataPlace) -> Splits:
        path = place.only_file(name)
        rows = place.json_lines(path)
        test = changed(rows[first:last], change, str(path))
        return {"train": changed(rows[:first], change, str(path)), "test": test * place.number("num_repeats", 1)}

    return Loader(read, change, _has_test_list)


def _mbpp_plus(place: DataPlace) -> Splits:
    return place.repeated(place.json_lines(place.only_file("mbpp_plus.jsonl"), _MBPP_PLUS))


def _lcbench(place: DataPlace) -> Splits:
    difficulty = place.options.get("difficulty", "ALL")
    rows = place.json_lines(place.only_file())
    parts = {"train": rows[:5], "test": rows[5:]}
    kept = {
        split: [row for row in part if difficulty == "ALL" or row.get("Difficulty") == difficulty]
        for split, part in parts.items()
    }
    made = {split: changed(part, _LC, str(place.root)) for split, part in kept.items()}
    return {**made, "test": made["test"] * place.number("num_repeats", 1)}


def _bigcodebench(place: DataPlace) -> Splits:
    kinds = {"full": "BigCodeBench", "hard": "BigCodeBench-Hard"}
    kind, version = place.text("dataset_version", "full"), place.text("release_version", "v0.1.2")
    if kind not in kinds:
        raise DataError(f"its dataset_version is {kind!r}", where=place.where, hint="It is 'full' or 'hard'.")
    rows = place.json_lines(place.file(f"{kinds[kind]}-{version}.jsonl"))
    return {"train": rows, "test": rows}


def _humaneval_x(place: DataPlace) -> Splits:
    language = place.text("language")
    if language not in _X_LANGUAGES:
        known = ", ".join(_X_LANGUAGES)
        raise DataError(f"its language is {language!r}", where=place.where, hint=f"There is {known}.")
    name = f"humanevalx_{language}.jsonl"
    plain = place.root / name
    return place.json_lines(place.file(name if plain.is_file() else f"{name}.gz"))


LOADERS = {
    "HumanevalDataset": Loader(_humaneval),
    "MBPPDataset": _parted("mbpp.jsonl", _MBPP, 10, 510),
    "MBPPDatasetV2": _parted("mbpp.jsonl", _MBPP_V2, 10, 510),
    "SanitizedMBPPDataset": _parted("sanitized-mbpp.jsonl", _sanitized_row, 7, 264),
    "MBPPPlusDataset": Loader(_mbpp_plus, _MBPP_PLUS, _has_test_list),
    "LCDataset": Loader(_lcbench, _LC, _has_test_list),
    "BigCodeBenchDataset": Loader(_bigcodebench),
    "HumanevalXDataset": Loader(_humaneval_x),
}
