"""``kshot check``: what of each entry of a config would run, and what is missing."""

import json
from pathlib import Path

import pytest

from tests.commands import kshot
from tests.configs.homes import evaluator_home, write_home
from tests.screens import assert_screen

ENTRIES = """
def entry(abbr, **more):
    return dict(
        abbr=abbr,
        reader_cfg=dict(input_columns=["question"], output_column="answer"),
        infer_cfg=dict(
            prompt_template=dict(type="PromptTemplate", template="{question}"),
            retriever=dict(type="ZeroRetriever"),
            inferencer=dict(type="GenInferencer", max_out_len=8),
        ),
        **{"eval_cfg": dict(evaluator=dict(type="opencompass.openicl.icl_evaluator.AccEvaluator")), **more},
    )
"""

JUDGED = """
judged = dict(
    evaluator=dict(
        type="opencompass.evaluator.GenericLLMEvaluator",
        prompt_template=dict(type="PromptTemplate", template="{question} {prediction} A or B?"),
        dict_postprocessor=dict(type="opencompass.datasets.generic_llmjudge_postprocess"),
        judge_cfg=JUDGE,
    )
)
judged_datasets = [entry("judged", path="rows.jsonl", eval_cfg=judged)]
"""

HUB = """
hub_datasets = [
    entry("gsm8k", type="opencompass.datasets.GSM8KDataset", path="opencompass/gsm8k"),
    entry("own", type="HFDataset", path="somebody/something"),
]
"""

LACKING = """
lacking_datasets = [
    entry("a", type="opencompass.datasets.NobodysDataset", path="a/path"),
    entry("path", type="opencompass.datasets.NobodysDataset", path="a/path"),
    entry("third", type="opencompass.datasets.NobodysDataset", path="a/path"),
    entry("fourth", type="opencompass.datasets.NobodysDataset", path="a/path"),
    entry("scored", path="rows.jsonl", eval_cfg=dict(evaluator=dict(type="opencompass.datasets.OwnEvaluator"))),
    entry("scored", path="rows.jsonl"),
]
"""

MODELS = """
from opencompass.models import OpenAI, VLLM

models_datasets = [entry("own", path="rows.jsonl")]
models = [
    dict(type=OpenAI, abbr="gpt-small", path="gpt-small", openai_api_base="http://localhost:8000/v1"),
    dict(type=OpenAI, abbr="elsewhere", path="gpt-small", openai_api_base="http://example.com/v1"),
    dict(type="opencompass.models.Nobodys", abbr="unknown", path="x"),
]
"""


SHOWN = """
gsm8k_datasets = [entry("gsm8k", type="opencompass.datasets.GSM8KDataset", path="opencompass/gsm8k")]
"""
JUDGED_SHOWN = """
models = [dict(type="opencompass.models.OpenAISDK", abbr="local", path="gpt", openai_api_base="http://localhost:8000/v1")]
"""

GIVEN = ("--judge", "model.py:judge", "--data", "judged=rows.jsonl")


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("COMPASS_DATA_CACHE", "AIS_BENCH_DATASETS_CACHE"):
        monkeypatch.delenv(name, raising=False)
    rows = [{"question": f"What is {n}+{n}?", "answer": str(2 * n)} for n in range(4)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("model.py").write_text("def judge(prompt: str) -> str:\n    return 'A'\n")


def write(name, *parts):
    Path(name).write_text("".join((ENTRIES, *parts)))
    return name


def objects(capsys, *arguments):
    done = kshot(capsys, "check", *arguments, "--json")
    return done.code, [json.loads(line) for line in done.out.splitlines()]


def test_rows_on_the_hub_are_not_missing(capsys):
    code, (gsm8k, own) = objects(capsys, write("hub.py", HUB))
    assert code == 0
    assert (gsm8k["data"], gsm8k["missing"]) == ("hub: openai/gsm8k", [])
    assert (own["data"], own["missing"]) == ("hub: somebody/something", [])


def test_rows_on_the_hub_need_the_package_that_loads_them(capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    code, (gsm8k, _) = objects(capsys, write("hub.py", HUB))
    assert code == 1
    assert "pip install 'kshot[datasets]'" in gsm8k["missing"][0]


def test_an_entry_that_asks_a_judge_needs_one(capsys):
    config = write("judged.py", JUDGED.replace("JUDGE", "dict()"))
    code, (judged,) = objects(capsys, config)
    assert code == 1
    assert judged["missing"] == [
        "judge: its metrics ask a judge, and none is named. Name the judging model: --judge MODEL."
    ]
    code, (judged,) = objects(capsys, config, "--judge", "model.py:judge")
    assert code == 0
    assert judged["judge"] == "model.py:judge"
    code, (judged,) = objects(capsys, config, "--judge", "model.py:nobody")
    assert code == 1
    assert "nobody" in judged["missing"][0]


def test_the_judge_of_a_config_is_named_if_it_can_be_opened(capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    kind = "opencompass.models.OpenAISDK"
    config = write("judged.py", JUDGED.replace("JUDGE", f"dict(type='{kind}', path='gpt-4o')"))
    code, (judged,) = objects(capsys, config)
    assert (code, judged["judge"], judged["missing"]) == (0, "openai:gpt-4o", [])
    far = f"dict(type='{kind}', path='gpt-4o', openai_api_base='http://example.com/v1')"
    code, (judged,) = objects(capsys, write("far.py", JUDGED.replace("JUDGE", far)))
    assert (code, judged["judge"]) == (1, "")
    assert judged["missing"][0].startswith("judge: the model 'gpt-4o' is asked at http://example.com/v1")


def test_entries_that_lack_the_same_share_a_line_and_keep_their_words(capsys, tmp_path):
    done = kshot(capsys, "check", write("lacking.py", LACKING))
    assert done.code == 1
    assert_screen("check_lacking", done.out.replace(str(tmp_path), "DIR"))


def test_a_home_that_is_given_is_not_asked_for(capsys, tmp_path):
    """Whether it lacks the name, or is the source of something else."""
    evaluator_home(Path("clone"), "return {'accuracy': 1.0}")
    Path("other/ais_bench").mkdir(parents=True)
    config = write("lacking.py", LACKING.replace("OwnEvaluator", "TheirEvaluator"))
    for home, said in (
        ("clone", f"Nor has the source of OpenCompass in {tmp_path}/work/clone/opencompass."),
        ("other", f"{tmp_path}/work/other holds no source of OpenCompass."),
    ):
        done = kshot(capsys, "check", config, "--home", home)
        assert f"kshot has no evaluator opencompass.datasets.TheirEvaluator. {said}" in done.out
        assert "--home" not in done.out + done.err
    assert "may have it: --home DIR" in kshot(capsys, "check", config).out


def test_the_models_of_a_config_are_listed_with_what_opens_them(capsys):
    done = kshot(capsys, "check", write("models.py", MODELS))
    assert done.code == 1  # two of them cannot be opened
    assert_screen("check_models", done.out)
    plain = done.out
    done = kshot(capsys, "check", "models.py", "--json")
    entry, *models = map(json.loads, done.out.splitlines())
    assert entry["entry"] == "own"
    for model in models:
        assert list(model) == ["config", "model", "class", "prompts", "opened_as", "missing"]
        assert all(part in plain for part in [*model.values()][1:5])
        assert bool(model["opened_as"]) != bool(model["missing"])
    assert [bool(model["missing"]) for model in models].count(True) == 2
    assert "http://example.com/v1" in done.err
    assert "of the kind Nobodys" in done.err


def test_json_has_an_entry_of_a_file_that_cannot_be_loaded(capsys):
    write("broken.py", "raise ValueError('not today')\n")
    write("empty.py", "datasets = []\nmodels = [dict(type='Nobodys', abbr='n')]\n")
    code, (broken, empty, model, gone, *rows) = objects(
        capsys, "broken.py", "empty.py", "gone.py", write("hub.py", HUB)
    )
    assert code == 1
    for entry, name, why in (
        (broken, "broken.py", "not today"),
        (empty, "empty.py", "no datasets"),
        (gone, "gone.py", "no such"),
    ):
        assert (entry["config"], entry["entry"]) == (name, "")
        assert why in entry["error"]
        assert entry["missing"] == [f"file: {entry['error']}"]
        assert {*rows[0]} <= {*entry}
    assert (model["config"], model["model"]) == ("empty.py", "n")
    assert len(rows) == 2
    done = kshot(capsys, "check", "gsm8k", "--json")
    assert done.code == 2
    assert "kshot check takes CONFIG.py files" in json.loads(done.out)["error"]


def test_several_files_are_checked_whatever_one_of_them_is(capsys):
    long = Path("configs_of_a_project_with_a_name_that_is_long", "datasets_of_a_project_with_a_name_that_is_long")
    long.mkdir(parents=True)
    deep = write(long / "one.py", JUDGED.replace("JUDGE", "dict()"))
    write("broken.py", "raise ValueError('not today')\n")
    done = kshot(capsys, "check", write("hub.py", HUB), "broken.py", deep, "gone.py", *GIVEN)
    assert done.code == 1
    assert_screen("check_files", done.out)
    assert f"\n{deep}: 1 of 1 entries would run\n" in done.out
    assert sum("broken.py" in line and "not today" in line for line in done.err.splitlines()) == 1
    assert sum("gone.py: there is no such file" in line for line in done.err.splitlines()) == 1


ENCODED = """
encoded = entry("encoded", path="rows.jsonl")
encoded["reader_cfg"].update(train_split="test", test_split="test")
encoded["infer_cfg"].update(
    ice_template=dict(type="PromptTemplate", template="{question} {answer}"),
    prompt_template=dict(type="PromptTemplate", template="</E>{question}", ice_token="</E>"),
    retriever=dict(type="TopkRetriever", ice_num=1, sentence_transformers_model_name="nobodys/encoder"),
)
encoded_datasets = [encoded]
"""


@pytest.mark.needs("torch", "transformers", "sentence-transformers")
def test_an_encoder_that_is_not_here_is_missing(capsys, monkeypatch):
    """The files after it are checked; a run refuses it in one line."""
    monkeypatch.setattr("kshot.core.hub.hub_is_unreachable", lambda: True)
    files = [write("encoded.py", ENCODED), write("hub.py", HUB)]
    code, (encoded, *after) = objects(capsys, *files)
    assert (code, len(after)) == (1, 2)
    assert encoded["missing"][0].startswith("prompts: nobodys/encoder: there is no such folder, and its model could")
    done = kshot(capsys, "run", "encoded.py", "-m", "model.py:judge")
    assert (done.code, done.out) == (2, "")
    (said,) = [line for line in done.err.splitlines() if "nobodys/encoder" in line]
    assert "encoded.py, encoded: nobodys/encoder: " in said
    assert "fault in kshot" not in done.err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            'type="TopkRetriever", sentence_transformers_model_name=7',
            "the encoder is 7; it must be the name or the folder",
        ),
        ('type="VotekRetriever", sentence_transformers_model_name=["a"]', "the encoder is ['a']; it must be"),
        ('type="BM25Retriever", columns=5', "columns is 5; it must be the name of a column, or a list"),
        ('type="XiezhiRetriever", labels_column=["a"]', "labels_column is ['a']; it must be the name of a column"),
        ('type="XiezhiRetriever", labels_column="answer"', "no list of labels in the column 'answer'"),
    ],
)
def test_options_of_a_retriever_that_are_no_names_are_one_message(capsys, option, said):
    named = 'type="TopkRetriever", ice_num=1, sentence_transformers_model_name="nobodys/encoder"'
    done = kshot(capsys, "check", write("named.py", ENCODED.replace(named, f"ice_num=1, {option}")))
    assert done.code == 1
    assert said in done.out + done.err
    assert "fault in kshot" not in done.out + done.err


def test_a_file_at_which_kshot_fails_is_not_the_last(capsys, monkeypatch):
    def fail(self):
        raise OSError(f"no {self.path}")

    monkeypatch.setattr("kshot.configs.source.ConfigSource.announcements", fail)
    done = kshot(capsys, "check", write("hub.py", HUB), write("more.py", HUB))
    assert done.code == 1
    for name in ("hub.py", "more.py"):
        assert f"{name}: OSError: no {name}. This is a fault in kshot" in done.err
    monkeypatch.setenv("KSHOT_DEBUG", "1")
    done = kshot(capsys, "check", "hub.py", "more.py")
    assert done.code == 2
    assert "Traceback" in done.err


def test_what_files_have_in_common_is_announced_once(capsys):
    evaluator_home(Path("clone"), "return {'accuracy': 1.0}")
    files = [write(f"{name}.py", f"{name}_datasets = [entry('{name}', path='rows.jsonl')]\n") for name in "xy"]
    done = kshot(capsys, "check", *files, "--home", "clone")
    assert done.code == 0, done.err
    assert done.err.count("config root: ") == 1
    assert done.err.count("home: OpenCompass") == 1
    assert done.out.endswith("\n2 files: 2 of 2 entries would run\n")


def test_an_option_that_cannot_be_used_ends_the_command(capsys):
    hub = write("hub.py", HUB)
    done = kshot(capsys, "check", hub, write("more.py", HUB), "--data", "=place")
    assert done.code == 2
    assert done.err.count("--data '=place' cannot be read") == 1
    done = kshot(capsys, "check", hub, "gsm8k")
    assert done.code == 2
    assert "kshot check takes CONFIG.py files" in done.err


def test_the_docs_show_what_it_prints(capsys):
    page = (Path(__file__).parents[2] / "docs" / "configs.md").read_text(encoding="utf-8")
    write("eval_demo.py", JUDGED.replace("JUDGE", "dict()"), SHOWN, JUDGED_SHOWN)
    done = kshot(capsys, "check", "eval_demo.py")
    assert done.code == 1
    assert f"```text\n{done.out}```" in page, done.out


LABELLED = """
labelled = entry("labelled", type="opencompass.datasets.GSM8KDataset", path="opencompass/gsm8k")
labelled["infer_cfg"] = dict(
    ice_template=dict(type="PromptTemplate", template={"A": "</E>{question} A", "B": "</E>{question} B"}, ice_token="</E>"),
    retriever=dict(type="FixKRetriever", fix_id_list=[0, 30]),
    inferencer=dict(type="PPLInferencer"),
)
labelled_datasets = [labelled]
"""


def test_rows_that_are_not_here_have_the_labels_and_the_number_that_examples_need(capsys):
    write("labelled.py", LABELLED)
    code, (found,) = objects(capsys, "labelled.py")
    assert (code, found["missing"]) == (0, [])
    assert found["prompts"] == "text of 2 labels"
    assert found["evaluation"] == "AccEvaluator (kshot)"


@pytest.mark.parametrize("column", ["", ', labels_column="topics"'])
def test_rows_that_are_not_here_have_the_lists_that_a_retriever_compares(capsys, column):
    """Xiezhi's retriever was told that made-up rows have no labels; rows of the entry's own must have them."""
    text = LABELLED.replace('"FixKRetriever", fix_id_list=[0, 30]', f'"XiezhiRetriever", ice_num=3{column}')
    code, (found,) = objects(capsys, write("labelled.py", text))
    assert (code, found["missing"], found["prompts"]) == (0, [], "text of 2 labels")
    code, (found,) = objects(capsys, "labelled.py", "--data", "labelled=rows.jsonl")
    assert code == 1
    assert "no list of labels" in found["missing"][0]


TEMPLATE = """
    class PickyTemplate:
        def __init__(self, template):
            pass
        def generate_item(self, entry, **more):
            return {"plain": "Add."}[entry["question"]]
"""


def test_a_template_of_a_home_that_fails_on_made_up_rows_lacks_nothing(capsys):
    write_home(Path("home"), {"datasets/own.py": TEMPLATE})
    own = HUB.replace("hub_datasets", "own_datasets")
    text = (ENTRIES + own).replace('type="PromptTemplate"', 'type="opencompass.datasets.PickyTemplate"')
    Path("own.py").write_text(text)
    code, found = objects(capsys, "own.py", "--home", "home")
    assert code == 0
    assert [(each["prompts"], each["evaluation"]) for each in found] == [("", "AccEvaluator (kshot)")] * 2
    rows = objects(capsys, "own.py", "--home", "home", "--data", "gsm8k=rows.jsonl")
    assert "KeyError" in rows[1][0]["missing"][0]


@pytest.mark.parametrize("columns", [70, 78, 80, 81, 90])
def test_a_narrow_table_cuts_nothing(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    scored = 'dict(type="opencompass.datasets.needlebench.origin.NeedleBenchOriginEvaluator")'
    cleaned = 'pred_postprocessor=dict(type="opencompass.datasets.needlebench.origin.needlebench_postprocess")'
    body = f"eval_cfg=dict(evaluator={scored}, {cleaned})"
    names = ["Length32000Depth0_origin_en_32000", "n" * 50]
    write("wide.py", f"wide_datasets = [entry(abbr, path='rows.jsonl', {body}) for abbr in {names!r}]")
    shown = kshot(capsys, "check", "wide.py").out.partition("wide.py:")[0]
    assert max(map(len, shown.splitlines())) <= columns
    letters = "".join(shown.split())
    for name in ("NeedleBenchOriginEvaluator", "needlebench_postprocess", names[0]):
        assert letters.count(name) >= 1
    assert letters.count("n" * 40) == 1
