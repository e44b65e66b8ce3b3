"""Loaders of configs: the frameworks' data folders as they lie on disk.

``loader_rows.json`` holds what the loaders of OpenCompass 0.5.4 and AISBench themselves gave for the folders of
``loader_cases``.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from kshot.configs import load, splits_of
from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.loaders import reading
from kshot.configs.loaders.finding import LOADERS, loader_of
from kshot.configs.loaders.places import IDS, RowsNotAllowed, local_path
from kshot.configs.loaders.reading import typed
from kshot.configs.project import Project
from kshot.core.errors import DataError
from tests.configs.loader_case import Case, zipped
from tests.configs.loader_cases import CASES

GOLDEN = json.loads((Path(__file__).parents[1] / "data/loader_rows.json").read_text(encoding="utf-8"))
each_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def made(case: Case, columns: list[str] | None = None, output: str | None = None, **options: Any) -> DatasetEntry:
    """Return an entry of a config, as the home's dict has it."""
    train, test = case.splits
    reader = {"input_columns": columns or ["?"], "output_column": output, "train_split": train, "test_split": test}
    body = {"abbr": "made-up", "type": case.loader, "reader_cfg": reader, **case.options, **options}
    return DatasetEntry(body, strict=False, framework=case.framework)


def plain(splits: Any) -> Any:
    """Return rows as JSON has them."""
    found = {name: list(rows) for name, rows in splits.items()} if isinstance(splits, dict) else list(splits)
    return json.loads(json.dumps(found))


def expected(case: Case) -> Any:
    """Return what the home gave: of its splits, those that the entry reads."""
    found = GOLDEN[case.name]
    return (
        {name: found[name] for name in dict.fromkeys(case.splits) if name in found}
        if isinstance(found, dict)
        else found
    )


def asked_rows(case: Case) -> list[dict[str, Any]]:
    found = expected(case)
    return found[case.splits[1]] if isinstance(found, dict) else found


def test_every_loader_has_a_case():
    tested = {case.loader for case in CASES}
    untested = {name for name in LOADERS if name not in tested and name not in ("MMCustomDataset", "TEXTVQADataset")}
    assert all(
        name.startswith(("LongBench", "LEval", "LVEval", "Aime2026", "Mol_Instructions", "OmniMath"))
        for name in untested
    ), untested
    assert len(GOLDEN) == len(CASES) == len({case.name for case in CASES})


@each_case
def test_rows_are_those_of_the_home(case, tmp_path, monkeypatch):
    case.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert plain(splits_of(made(case))) == expected(case)


@each_case
def test_a_key_that_a_loader_does_not_read_is_noted(case, tmp_path, monkeypatch):
    case.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    entry = made(case, guide=True, n=1, local_mode=True, judge_infer_cfg={})
    splits_of(entry)
    kind = case.loader.rpartition(".")[2]
    assert list(entry.notes) == [f"{kind} of kshot does not take guide: no effect on the rows"]


@pytest.mark.parametrize(
    ("loader", "key", "value"),
    [("AGIEvalDataset_v2", "setting_name", "few-shot"), ("MedXpertQADataset", "prompt_mode", "few-shot")],
)
def test_a_setting_for_which_the_framework_has_no_rows(loader, key, value, tmp_path, monkeypatch):
    case = next(case for case in CASES if case.loader == loader)
    case.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=f"its {key} is '{value}'"):
        splits_of(made(case, **{key: value}))


@pytest.mark.parametrize(
    ("body", "ignored"),
    [
        ({"type": "HFDataset", "path": "rows", "data_dir": "x"}, "HFDataset of kshot does not take data_dir"),
        ({"path": "rows/test.jsonl", "guide": True}, "kshot does not take guide"),
        (
            {"type": "HFDataset", "path": "json", "data_files": "rows/test.jsonl", "split": "train", "field": "data"},
            "HFDataset of kshot does not take field",
        ),
    ],
)
def test_a_key_without_effect_on_rows_that_no_loader_changes(body, ignored, tmp_path, monkeypatch):
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "test.jsonl").write_text('{"question": "1+1"}\n')
    monkeypatch.chdir(tmp_path)
    entry = DatasetEntry({"reader_cfg": {"input_columns": ["question"], "output_column": None}, **body}, strict=False)
    splits_of(entry)
    assert list(entry.notes) == [f"{ignored}: no effect on the rows"]


@each_case
def test_the_home_s_folder_elsewhere(case, tmp_path):
    case.write(tmp_path / "disk")
    path = local_path(case.options.get("data_files") or case.options["path"])
    place = tmp_path / "disk" / path
    columns = list(asked_rows(case)[0])
    found = plain(splits_of(made(case, columns[:-1], columns[-1]), {case.loader: str(place)}))
    if case.loader == "HFDataset":  # the config says how to read its own CSV file; a user's is read as text
        assert [str(row["n"]) for row in found] == [str(row["n"]) for row in expected(case)]
        return
    assert of_columns(found, columns, case) == of_columns(expected(case), columns, case)


def of_columns(found: Any, columns: list[str], case: Case) -> list[dict[str, Any]]:
    """Return the asked rows with these columns alone: a user's rows may keep those that the loader drops."""
    rows = found[case.splits[1]] if isinstance(found, dict) else found
    return [{name: row[name] for name in columns} for row in rows]


@each_case
def test_final_columns_stay_as_they_are(case, tmp_path):
    rows = asked_rows(case)
    columns = list(rows[0])
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    entry = made(case, columns[:-1], columns[-1])
    found = plain(splits_of(entry, {"made-up": str(tmp_path / "rows.jsonl")}))
    found = found[case.splits[1]] if isinstance(found, dict) else found
    assert found == rows or _repeated(case, found, rows)


def _repeated(case: Case, found: list[Any], rows: list[Any]) -> bool:
    """Whether the entry says that rows are repeated or drawn, and they are: their columns are those of its files."""
    chosen = {"num_repeats", "num_examples", "n_repeats"} & case.options.keys()
    return bool(chosen) and bool(found) and all(row in rows for row in found)


@each_case
def test_a_folder_of_final_rows(case, tmp_path):
    rows = asked_rows(case)
    columns = list(rows[0])
    for split in case.splits:
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = plain(splits_of(made(case, columns[:-1], columns[-1]), {case.loader: str(tmp_path)}))
    found = found[case.splits[1]] if isinstance(found, dict) else found
    assert found == rows or _repeated(case, found, rows)


def test_a_label_of_the_user_s_own_stays(tmp_path):
    (case,) = [case for case in CASES if case.loader == "CrowspairsDatasetV2"]
    rows = [{**row, "label": "B"} for row in asked_rows(case)]  # the loader writes A
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    entry = made(case, ["sent_more", "sent_less"], "label")
    assert plain(splits_of(entry, {"made-up": str(tmp_path / "rows.jsonl")})) == rows


def test_ids_lie_below_the_data_folder():
    assert local_path("opencompass/gsm8k") == "data/gsm8k"
    assert local_path("./data/gsm8k") == "./data/gsm8k"
    assert not any(place.startswith(("/", ".", "data/")) or place.endswith("/") for place in IDS.values())


def test_a_class_that_gives_other_rows_in_one_framework():
    assert loader_of("HLEDataset", "opencompass") is not None
    assert loader_of("HLEDataset", "ais_bench") is not loader_of("HLEDataset", "opencompass")  # it shows images


# ---- places ----

GSM8K = next(case for case in CASES if case.loader == "GSM8KDataset")
MMLU = next(case for case in CASES if case.loader == "MMLUDataset")
AIS_MMLU = next(case for case in CASES if case.loader == "MMLUDataset" and case.framework == "ais_bench")


def in_a_file(case: Case, tmp_path: Path, **options: Any) -> DatasetEntry:
    """Return an entry of a config file, which may not name every place."""
    file = tmp_path / "project/configs/made_up.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("", encoding="utf-8")
    entry = made(case, **options)
    entry.project = Project(file)
    return entry


@pytest.mark.parametrize("variable", ["COMPASS_DATA_CACHE", "HOME"])
def test_the_cache_folders_of_opencompass(variable, tmp_path, monkeypatch):
    cache = tmp_path / "cache" / (".cache/opencompass" if variable == "HOME" else "")
    GSM8K.write(cache)
    monkeypatch.setenv(variable, str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert plain(splits_of(in_a_file(GSM8K, tmp_path))) == expected(GSM8K)
    assert plain(splits_of(in_a_file(GSM8K, tmp_path, path="./data/gsm8k"))) == expected(GSM8K)


def test_the_cache_folder_of_aisbench(tmp_path, monkeypatch):
    AIS_MMLU.write(tmp_path / "cache")
    monkeypatch.setenv("AIS_BENCH_DATASETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert plain(splits_of(in_a_file(AIS_MMLU, tmp_path))) == expected(AIS_MMLU)


def test_the_datasets_beside_the_package_of_aisbench(tmp_path, monkeypatch):
    AIS_MMLU.write(tmp_path / "site")
    file = tmp_path / "site/ais_bench/benchmark/configs/mmlu.py"
    file.parent.mkdir(parents=True)
    file.write_text("", encoding="utf-8")
    monkeypatch.chdir(file.parent)
    entry = made(AIS_MMLU)
    entry.project = Project(file)
    assert plain(splits_of(entry)) == expected(AIS_MMLU)


@pytest.mark.parametrize("root", ["opencompass", "configs"])
def test_the_data_beside_the_package_of_a_clone(tmp_path, monkeypatch, root):
    GSM8K.write(tmp_path / "clone")
    file = tmp_path / f"clone/{root}/gsm8k/gsm8k.py"
    file.parent.mkdir(parents=True)
    file.write_text("", encoding="utf-8")
    monkeypatch.chdir(file.parent)
    entry = made(GSM8K)
    entry.project = Project(file)
    assert plain(splits_of(entry)) == expected(GSM8K)
    (tmp_path / "clone/data").rename(tmp_path / "private")
    (tmp_path / "clone/data").symlink_to(tmp_path / "private")
    with pytest.raises(RowsNotAllowed, match="outside the project root"):
        splits_of(entry)


def test_the_data_beside_any_other_folder_are_not_the_config_s(tmp_path, monkeypatch):
    GSM8K.write(tmp_path / "home")
    file = tmp_path / "home/downloads/gsm8k.py"
    file.parent.mkdir(parents=True)
    file.write_text("", encoding="utf-8")
    monkeypatch.chdir(file.parent)
    monkeypatch.setattr("kshot.tables.loading.load_from_hub", lambda *_, **__: [])
    entry = made(GSM8K)
    entry.project = Project(file)
    assert not any(splits_of(entry).values())


def test_a_config_may_not_name_rows_elsewhere(tmp_path, monkeypatch):
    GSM8K.write(tmp_path / "private")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/data").symlink_to(tmp_path / "private/data")
    monkeypatch.setenv("COMPASS_DATA_CACHE", str(tmp_path / "cache"))
    for path in (str(tmp_path / "private/data/gsm8k"), "data/gsm8k"):
        with pytest.raises(RowsNotAllowed, match="--data made-up="):
            splits_of(in_a_file(GSM8K, tmp_path, path=path))


def test_names_do_not_leave_the_folder(tmp_path):
    MMLU.write(tmp_path)
    entry = made(MMLU, name="../../secret")
    with pytest.raises(DataError, match="would leave this folder"):
        splits_of(entry, {"MMLUDataset": str(tmp_path / "data/mmlu")})


def test_a_link_in_a_config_s_folder_leads_nowhere_else(tmp_path):
    GSM8K.write(tmp_path / "private")
    entry = in_a_file(GSM8K, tmp_path, path=str(tmp_path / "project/configs/rows"))
    (tmp_path / "project/configs/rows").mkdir()
    for split in ("train", "test"):
        link = tmp_path / f"project/configs/rows/{split}.jsonl"
        link.symlink_to(tmp_path / f"private/data/gsm8k/{split}.jsonl")
    with pytest.raises(RowsNotAllowed):
        splits_of(entry)


# ---- rows that the user gives ----


def test_a_pattern_with_split_and_subset(tmp_path):
    rows = {"dev": [{"input": "i", "A": 1, "target": "A"}], "test": [{"input": "j", "A": 2, "target": "B"}]}
    for split, listed in rows.items():
        (tmp_path / f"mine/{split}").mkdir(parents=True)
        (tmp_path / f"mine/{split}/anatomy.jsonl").write_text("\n".join(map(json.dumps, listed)), encoding="utf-8")
    entry = made(MMLU, ["input", "A"], "target")
    assert plain(splits_of(entry, {"anatomy": str(tmp_path / "mine/{split}/{subset}.jsonl")})) == rows
    with pytest.raises(DataError, match="no such file or folder"):
        splits_of(entry, {"anatomy": str(tmp_path / "mine/{split}/none.jsonl")})


def test_a_pattern_that_finds_nothing_says_what_it_looked_for(tmp_path):
    entry = made(MMLU, ["input", "A"], "target")
    with pytest.raises(
        DataError, match=r"pax/test/anatomy\.jsonl: there is no such file.*\{subset\} the name.*anatomy"
    ):
        splits_of(entry, {"anatomy": "pax/{split}/{subset}.jsonl"})
    with pytest.raises(DataError, match=r"the pattern has \{sub\}, and there is no.*There are \{split\}.*\{subset\}"):
        splits_of(entry, {"anatomy": "pax/{split}/{sub}.jsonl"})


def test_rows_that_are_nowhere_say_where_kshot_looked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COMPASS_DATA_CACHE", str(tmp_path / "cache"))

    def nothing(*_, **__):
        raise DataError("it cannot be reached", hint="Use a local copy with --dataset-path FILE_OR_FOLDER.")

    monkeypatch.setattr("kshot.tables.loading.load_from_hub", nothing)
    with pytest.raises(DataError) as caught:
        splits_of(made(MMLU, ["input", "A"], "target"))
    assert caught.value.where == "made-up"
    assert f"kshot looked for them at {tmp_path}/cache/data/mmlu, {tmp_path}/data/mmlu, " in caught.value.hint
    assert caught.value.hint.endswith(".cache/opencompass/data/mmlu. Give its rows: --data made-up=FILE_OR_FOLDER.")


def test_raw_rows_of_the_user_get_the_columns_of_the_loader(tmp_path):
    raw = {"article": "T", "question": "Q", "options": ["a", "b", "c", "d"], "answer": "C"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(raw), encoding="utf-8")
    case = Case("RaceDataset", {}, {"path": "opencompass/race", "name": "high"})
    entry = made(case, ["article", "question", "A", "B", "C", "D"], "answer")
    final = {"article": "T", "question": "Q", "A": "a", "B": "b", "C": "c", "D": "d", "answer": "C"}
    assert plain(splits_of(entry, {"high": str(tmp_path / "rows.jsonl")})) == [final]
    (tmp_path / "final.json").write_text(json.dumps([final]), encoding="utf-8")
    assert plain(splits_of(entry, {"high": str(tmp_path / "final.json")})) == [final]


def test_rows_without_the_column_of_a_filter_are_kept(tmp_path):
    rows = [{"input": "i", "output": "o"}, {"input": "j", "output": "o", "task": "other"}]
    for split in ("validation", "test"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    entry = made(
        Case("SmolInstructDataset", {}, {"path": "osunlp/SMolInstruct", "name": "forward"}), ["input"], "output"
    )
    found = plain(splits_of(entry, {"forward": str(tmp_path)}))
    assert [row["input"] for row in found["test"]] == ["i"]


def test_a_split_that_the_entry_does_not_need_may_be_missing(tmp_path, monkeypatch):
    GSM8K.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/gsm8k/train.jsonl").unlink()
    assert list(splits_of(made(GSM8K))) == ["test"]
    (tmp_path / "data/gsm8k/test.jsonl").unlink()
    with pytest.raises(DataError, match=r"folder that GSM8KDataset reads \(there is no such file: .*test.jsonl\)"):
        splits_of(made(GSM8K))


def test_the_archive_of_longbench(tmp_path):
    row = {"input": "I", "context": "C", "answers": ["a"], "all_classes": None}
    zipped("data/qasper.jsonl", json.dumps(row))(tmp_path / "data.zip")
    case = Case(
        "LongBenchqasperDataset", {}, {"path": "opencompass/Longbench", "name": "qasper"}, splits=("test", "test")
    )
    found = splits_of(made(case), {"qasper": str(tmp_path)})
    assert plain(found) == {"test": [{"input": "I", "context": "C", "answers": ["a"]}]}


# ---- what is wrong is named ----


@pytest.mark.parametrize(
    ("loader", "name", "text", "message"),
    [
        ("MMLUDataset", "data/mmlu/test/anatomy_test.csv", "a,b\n", ":1: this row has 2 fields instead of 6"),
        ("CMMLUDataset", "data/cmmlu/test/art.csv", "h\n1,2\n", ":2: this row has 2 fields instead of 7"),
        ("GSM8KDataset", "data/gsm8k/test.jsonl", '{"a": 1}\n[1]\n', ":2: a row must be an object"),
        ("ARCDataset", "data/ARC/ARC-c/ARC-Challenge-Dev.jsonl", '{"question": {"stem": "x"}}\n', ":1: .*no 'choices'"),
        ("BBHDataset", "data/BBH/data/sports.json", '{"rows": []}', ": it has no list of rows under 'examples'"),
        ("MATHDataset", "data/math/math.json", "[]", ": it must hold an object"),
        ("MATHDataset", "data/math/math.json", '{"a": {"problem": "p"}}', ", 'a': this row has no 'solution'"),
        ("MATHDataset", "data/math/math.json", "{\n1}", ":2: this is not JSON"),
        ("GPQADataset", "data/gpqa/gpqa_diamond.csv", "1,2\n", ":1: this row has 2 fields"),
        ("PIQADataset", "data/piqa/dev-labels.lst", "1\n", ": it has 1 labels for 2 rows of dev.jsonl"),
        ("TriviaQADataset", "data/triviaqa/trivia-dev.qa.csv", "q\t__import__('os')\n", ":1: the answers are no list"),
        ("MGSMSDataset", "data/mgsm/mgsm_de.tsv", "no tab\n", ":1: .* a tab and an answer"),
        (
            "CMNLIDatasetV2",
            "data/CLUE/OCNLI/dev.json",
            '{"label": "maybe"}\n',
            ":1: .*its label is 'maybe', not one of ent",
        ),
        ("CMRCDataset", "data/CLUE/CMRC/dev.json", "{}", ": it has no list of documents"),
        ("HumanevalXDataset", "data/humanevalx/humanevalx_go.jsonl.gz", "no gzip", ": the file cannot be read"),
        ("MRCRDataset", "data/mrcr/2needle_in_8/test.jsonl", '{"question": "q"}', "no 'answers'"),
        ("BBEHDataset", "data/bbeh/sarc/task.json", '{"examples": [{}, 7]}', ", row 1: a row must be an object"),
        ("BFCLDataset", "ais_bench/datasets/bfcl/BFCL_v3_simple.json", "{}\n", ":1: this row has no 'id'"),
        (
            "BFCLDataset",
            "ais_bench/datasets/bfcl/possible_answer/BFCL_v3_simple.json",
            '{"id": "simple_0"}\n',
            ":1: this row has no 'ground_truth'",
        ),
        ("LVEvallicDataset", "data/lveval/lic/test.jsonl", '{"input": 1, "context": 1, "answers": true}', "no 'conf"),
    ],
)
def test_faults_name_the_file_and_the_line(loader, name, text, message, tmp_path, monkeypatch):
    case = next(case for case in CASES if case.loader == loader and name in case.files)
    case.write(tmp_path)
    (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    elsewhere = ("MRCRDataset", "LVEvallicDataset")
    place = "" if loader in elsewhere else re.escape(name)  # of the hub's folders the folder is named
    with pytest.raises(DataError, match=f"^{place}{message}" if place else message):
        splits_of(made(case))


def test_a_loader_that_trips_names_the_file_that_it_read(tmp_path):
    (tmp_path / "rows.json").write_text("[1]", encoding="utf-8")

    def read(place):
        return [place.json(place.file("rows.json"))[3]["question"]]

    place = reading.DataPlace(tmp_path, {}, {}, "made-up", str)
    with pytest.raises(DataError, match=r"rows\.json: its rows cannot be read: list index out of range"):
        reading.Loader(read).rows(place)


@pytest.mark.parametrize("name", ["pipe", "x" * 300, "~nobody-has-this-name/x"])
def test_a_place_of_the_user_that_is_neither_file_nor_folder(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    what = "pipe or a device" if name == "pipe" else "no such file or folder"
    with pytest.raises(DataError, match=what):
        splits_of(made(GSM8K), {"made-up": name})
    entry = made(GSM8K, path=name)
    with pytest.raises(DataError, match=what if name == "pipe" else "not here"):
        splits_of(entry, online=False)


@pytest.mark.parametrize(
    ("loader", "options", "message"),
    [
        ("MMLUDataset", {"name": None}, "its name is None; it must be text"),
        ("HumanevalDataset", {"num_repeats": "2"}, "its num_repeats is '2'; it must be a whole number"),
        ("BigCodeBenchDataset", {"dataset_version": "odd"}, "'full' or 'hard'"),
        ("HumanevalXDataset", {"language": "basic"}, "There is python, cpp"),
        ("BFCLDataset", {"category": "multi_turn_base"}, "there is no such file"),
    ],
)
def test_options_that_are_wrong(loader, options, message, tmp_path, monkeypatch):
    case = next(case for case in CASES if case.loader == loader)
    case.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=message):
        splits_of(made(case, **options))


def test_a_known_loader_without_rows_says_so():
    case = Case("CharmDataset", {}, {"path": "data/nowhere", "name": "x"})
    with pytest.raises(DataError, match=r"^made-up: its path 'data/nowhere' is not here.*--data made-up="):
        splits_of(made(case))


# ---- values of CSV columns ----


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["1", "-2"], [1, -2]),
        (["1", ""], [1.0, None]),
        (["1", "2.5", "1e3", "inf"], [1.0, 2.5, 1000.0, float("inf")]),
        (["True", "false", "NA"], [True, False, None]),
        (["1", "x"], ["1", "x"]),
        (["3.50", "True"], ["3.50", "True"]),
        (["", "None"], [None, None]),
    ],
)
def test_columns_are_read_as_the_frameworks_read_them(texts, values):
    found = [row["a"] for row in typed([{"a": text, "b": "z"} for text in texts])]
    assert found == values
    assert [type(each) for each in found] == [type(each) for each in values]


def test_a_config_file_reads_the_home_s_folder(tmp_path, monkeypatch):
    case = next(case for case in CASES if case.loader == "ARCDataset" and case.framework == "opencompass")
    case.write(tmp_path)
    config = tmp_path / "arc.py"
    config.write_text(
        "from opencompass.datasets import ARCDataset\n"
        "arc_datasets = [dict(abbr='ARC-c', type=ARCDataset, path='opencompass/ai2_arc-dev', name='ARC-Challenge',\n"
        "    reader_cfg=dict(input_columns=['question', 'textA'], output_column='answerKey'))]\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    (arc,) = load(config).datasets["arc_datasets"]
    assert plain(splits_of(arc)) == expected(case)


# ---- the hub ----


def test_rows_of_the_hub_through_a_loader(monkeypatch):
    asked = []

    def load_from_hub(name, subset, split, where):
        asked.append((name, subset, split))
        if split == "train":
            raise DataError("there is no such split", where=where)
        return [{"problem": "p", "answer": split}]

    monkeypatch.setattr(reading, "load_from_hub", load_from_hub)
    case = Case("OlymMATHDataset", {}, {"path": "RUC-AIBOX/OlymMATH", "subset": "en-hard"})
    assert splits_of(made(case)) == {"test": [{"problem": "p", "answer": "test"}]}
    assert asked == [("RUC-AIBOX/OlymMATH", "en-hard", "train"), ("RUC-AIBOX/OlymMATH", "en-hard", "test")]
    case = Case("OlymMATHDataset", {}, {"path": "somewhere", "subset": "en-hard"}, splits=("train", "train"))
    with pytest.raises(DataError, match=r"no such split\. kshot looked .* Give its rows: --data made-up="):
        splits_of(made(case))
