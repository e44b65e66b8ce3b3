"""A run is checked as a whole before its first model is opened: whatever is wrong with the last part is told at once."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import kshot
from kshot.backends.checking import check_answers
from kshot.core.errors import KshotError
from kshot.core.records import Search
from kshot.tables import files
from tests.commands import CAPITALS, kshot as command
from tests.datasets.fakes import says
from tests.runs.test_runner import digits

MODEL = """
from pathlib import Path
from kshot import Generate, Generated
class Costly:
    name, answers = "costly", (Generate,)
    def __init__(self, key: int = 1):
        Path("opened").touch()
        self.fingerprint = "costly"
    def serve(self, queue):
        for request in queue:
            Path("asked").touch()
            yield request, Generated("Paris")
"""

MORE = """
from kshot import GPTEval, Retriever
class Columns(Cities):
    def format_instance(self, row):
        return {"country": row["nation"], "target": "x"}
class Template(Cities):
    instruction = "{% if country %}"
class Rated(Cities):
    metrics = [GPTEval()]
class Late(Cities):
    def format_instance(self, row):
        return {"country": row["country"], "target": 1 / 0 if row["country"] == "Cuba0" else "x"}
class Twice(Cities):
    metrics = [Em(), Em()]
class Wrong(Retriever):
    def ranked(self):
        for _ in self.test:
            yield [99]
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    Path("costly.py").write_text(MODEL)
    Path("capitals.py").write_text(CAPITALS + MORE)
    Path("rows.jsonl").write_text('{"a": 1}\n')
    Path("empty").mkdir()
    Path("config.py").write_text("datasets = [dict(abbr='x', type='Nothing')]\n")
    Path("broken.py").write_text("datasets = [\n")
    return tmp_path


GOOD = ("-m", "costly.py:Costly", "-d", "capitals.py:Cities")
FAULTS = {
    "a second model that does not exist": (["-m", "hf:./nowhere"], "./nowhere"),
    "a second model of no kind": (["-m", "gpt9"], "gpt9"),
    "a second model without a key": (["-m", "openai:gpt-4o"], "OPENAI_API_KEY"),
    "a second model that has another option": (["-m", "embedded,size=3"], "size"),
    "a second model with a wrong value": (["-m", "costly.py:Costly,key=many"], "key"),
    "a second model that is not in its file": (["-m", "costly.py:Cheap"], "Cheap"),
    "a recording that is not there": (["-m", "replay:nothing.jsonl"], "nothing.jsonl"),
    "a model folder without a model": (["-m", "hf:./empty"], "empty"),
    "a hub name that is not cached": (["-m", "hf:nobody/nothing"], "nobody/nothing"),
    "a server at no address": (["-m", "openai:x@http://"], "http"),
    "a judge that does not exist": (["--judge", "hf:./nowhere"], "./nowhere"),
    "a second dataset that does not exist": (["-d", "boolqq"], "boolqq"),
    "a second dataset without its file": (["-d", "boolq,dataset_path=nowhere.jsonl"], "nowhere.jsonl"),
    "a second dataset with other columns": (["-d", "boolq,dataset_path=rows.jsonl"], "passage"),
    "a class that wants other columns": (["-d", "capitals.py:Columns"], "nation"),
    "a template that cannot be read": (["-d", "capitals.py:Template"], "template"),
    "a row that cannot be formatted": (["-d", "capitals.py:Late"], "row 4"),
    "metrics of one name": (["-d", "capitals.py:Twice"], "'EM'"),
    "a metric that asks a judge": (["-d", "capitals.py:Rated"], "--judge"),
    "a dataset that the model cannot answer": (["-d", "capitals.py:Capitals"], "Loglik"),
    "a retriever that does not exist": (["-d", "capitals.py:Cities,retriever=nearest,num_shots=1"], "nearest"),
    "a retriever that has another option": (["-d", "capitals.py:Cities,retriever=bm25\\,k9=1,num_shots=1"], "k9"),
    "a retriever that chooses other rows": (["-d", "capitals.py:Cities,retriever=capitals.py:Wrong,num_shots=1"], "99"),
    "a retriever for more rows than there are": (["-d", "capitals.py:Cities,retriever=topk,num_shots=9"], "9"),
    "a metric that does not exist": (["-d", "capitals.py:Cities,metric=bleuu"], "bleuu"),
    "a clean-up that does not exist": (["-d", "capitals.py:Cities,cleanup=tidy"], "tidy"),
    "a config that cannot be read": (["-d", "broken.py"], "broken.py"),
    "a config with a dataset of no kind": (["-d", "config.py"], "config.py"),
    "lookup of no task": (["-d", "lookup:XX"], "XX"),
    "a passage benchmark without its data": (["-d", "beir", "-m", "fts5"], "--data"),
    "a search engine with an unknown part": (["-d", "handbook", "-m", "hybrid:bm25+dnse"], "dnse"),
    "a run to reuse that is not there": (["--reuse", "nowhere"], "nowhere"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_no_model_is_opened_before_everything_is_checked(kind, here, capsys):
    more, named = FAULTS[kind]
    done = command(capsys, "run", *GOOD, *more, "--out", "run")
    assert done.code == 2, done
    assert named in done.err
    assert "Traceback" not in done.err
    assert not Path("opened").exists()
    assert not Path("asked").exists()


@pytest.mark.parametrize("option", ["--api-key-env A_KEY", "--header X-Team=a", "--price-in 1 --price-out 1"])
def test_a_server_with_a_fault_makes_no_second_fault_of_an_option_that_is_for_it(here, capsys, option, monkeypatch):
    monkeypatch.setenv("A_KEY", "sk-1234567890")
    monkeypatch.setenv("HTTPS_PROXY", "socks5://user:hunter22@127.0.0.1:9")
    given = ("-m", "openai:m", "--base-url", "https://nowhere.invalid", "-d", "capitals.py:Cities", *option.split())
    (line,) = command(capsys, "run", *given, "--model-type", "chat", "--out", "run").err.splitlines()
    assert line.startswith("kshot: HTTPS_PROXY is not the address of an HTTP proxy")
    assert "hunter22" not in line


def test_the_same_without_a_fault_runs(here, capsys):
    assert command(capsys, "run", *GOOD, "--out", "run").code == 0
    assert Path("asked").exists()


def test_all_faults_stand_in_one_message(here, capsys):
    done = command(capsys, "run", *GOOD, "-m", "gpt9", "-m", "hf:./nowhere", "-d", "boolqq", "--out", "run")
    (line,) = done.err.splitlines()
    assert "3 faults" in line
    assert all(name in line for name in ("gpt9", "./nowhere", "boolqq"))
    with pytest.raises(KshotError, match=r"2 faults: .*nation.*template"):
        kshot.evaluate("costly.py:Costly", ["capitals.py:Columns", "capitals.py:Template"])


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("--metric ff1 --judge foo:bar --cleanup zzz", "'ff1' 'foo:bar' 'zzz'"),
        ("--metric ff1,em,gg --cleanup zzz", "'ff1' 'gg' 'zzz'"),
        ("-m bm52 --metric ff1", "'bm52' 'ff1'"),
        ("-d capitals.py:None --metric ff1", "'None' 'ff1'"),
        ("-d capitals.py:Columns -d boolqq -m gpt9 --rewrite foo:bar", "'nation' 'boolqq' 'gpt9' 'foo:bar'"),
        ("-m openai:m@http://127.0.0.1:9 --max-cost 1 --metric ff1 --search bm25", "--price-in 'ff1' --search"),
        ("--answer-pattern ( -m gpt9 --rewrite-price-in 1", "--answer-pattern 'gpt9' --rewrite-price-in"),
    ],
)
def test_a_fault_in_one_part_hides_none_in_another(here, capsys, more, named):
    (line,) = command(capsys, "run", *GOOD, *more.split(), "--out", "run").err.splitlines()
    assert all(name in line for name in named.split()), line
    assert f"{len(named.split())} faults" in line
    assert not Path("opened").exists()


def test_a_judge_that_nothing_asks_is_noted(here, capsys):
    said = "--judge has no effect: no metric of this run asks a judge"
    judge = ("--judge", "costly.py:Costly", "--out", "run")
    assert said in command(capsys, "run", *GOOD, *judge).err
    assert said not in command(capsys, "run", *GOOD, "-d", "capitals.py:Rated", *judge[:2], "--out", "rated").err


def test_a_check_leaves_nothing_behind(here, capsys):
    before = {path.name for path in here.iterdir()} | {"__pycache__"}
    command(capsys, "run", *GOOD, "-d", "capitals.py:Columns", "--out", "run")
    command(capsys, "run", *GOOD, "-m", "gpt9")
    assert {path.name for path in here.iterdir()} <= before


def test_samples_that_can_be_read_once_are_not_used_up():
    from tests.runs.test_runner import digits

    task = digits()
    result = kshot.evaluate(lambda prompt: "1", digits(samples=iter(task.samples)))
    assert len(result.samples) == 6


def test_checking_imports_no_torch(here, tiny_llama):
    """The model folder is whole, and the fault is in another part."""
    program = (
        "import sys\nfrom kshot.cli import main\n"
        f"code = main(['run', '-m', 'hf:{tiny_llama}', '-m', 'gpt9', '-d', 'capitals.py:Cities', '--out', 'run'])\n"
        "print(code, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.strip() == "2 False", done


def test_a_retriever_that_compares_rows_is_not_run_for_a_check(here, monkeypatch):
    from kshot.retrievers.bm25 import BM25Retriever

    ranked = []
    real = BM25Retriever.ranked
    monkeypatch.setattr(BM25Retriever, "ranked", lambda self: ranked.append(1) or real(self))
    kshot.evaluate(lambda prompt: "Paris", "capitals.py:Cities", num_shots=2, retriever="bm25")
    assert len(ranked) == 1


def test_prices_are_checked_before_a_server_is_asked(here, capsys):
    done = command(capsys, "run", *GOOD, "-m", "openai:m@http://127.0.0.1:9", "--max-cost", "1", "--out", "run")
    assert done.code == 2
    assert "--price-in" in done.err
    assert not Path("opened").exists()
    assert not Path("run").exists()


@pytest.mark.parametrize(
    "body",
    [
        "self.answers = (Generate, Loglik)",
        "setattr(self, 'answers', (Generate, Loglik))",
        "(lambda: self.__dict__.update(answers=(Generate, Loglik)))()",
    ],
)
def test_a_model_may_say_what_it_answers_when_it_is_opened(here, capsys, body):
    Path("able.py").write_text(
        "from costly import Costly\n"
        "from kshot.core.records import Generate, Likelihood, Loglik, Scored\n"
        "class Able(Costly):\n"
        f"    def __init__(self):\n        super().__init__()\n        {body}\n"
        "    def serve(self, queue):\n"
        "        for request in queue:\n"
        "            yield request, Scored(tuple(Likelihood(-1.0, 1) for _ in request.continuations))\n"
    )
    done = command(capsys, "run", "-m", "able.py:Able", "-d", "capitals.py:Capitals", "--out", "run")
    assert done.code == 0, done


@pytest.mark.parametrize("spec", ["openai:m", "anthropic:m", "embedded"])
def test_kshot_knows_what_its_own_models_answer(spec):
    with pytest.raises(KshotError, match="cannot answer Search requests"):
        check_answers(spec, {Search})


@pytest.mark.parametrize("limit", [None, 3])
def test_samples_that_can_be_read_once_are_all_asked(limit):
    """Neither the check before the run nor another model takes the first ones away."""
    result = kshot.evaluate(says("1"), digits(samples=iter(digits().samples)), limit=limit)
    assert [row["id"] for row in result.samples] == [str(number) for number in range(limit or 6)]

    def one(prompt):
        return "1"

    def two(prompt):
        return "1"

    task = digits(samples=iter(digits().samples))
    if limit is None:
        with pytest.raises(KshotError, match="read once only, and the run has 2 models"):
            kshot.evaluate([one, two], task)
        return
    rows = kshot.evaluate([one, two], task, limit=limit).samples
    assert [row["id"] for row in rows] == [*"012"] * 2


def test_what_is_given_twice_runs_once(tmp_path):
    options = {"length": (10,), "limit": 2, "out": tmp_path / "run"}
    twice = kshot.evaluate(["embedded", "embedded"], ["lookup:UR", "lookup:UR"], **options)
    assert len(twice.samples) == 2 * len({row["task"] for row in twice.samples})
    assert kshot.score(tmp_path / "run").results == twice.results


# ---- the tasks of a run, before it starts ----


def planned_tasks(models, datasets, **options):
    tasks = kshot.planning.planned(models, datasets, kshot.settings.settings_from(options)).tasks
    return None if tasks is None else [(each.model, each.task, each.total) for each in tasks]


def test_all_tasks_of_all_models_are_known_with_their_sizes():
    tasks = planned_tasks(["embedded", "fts5"], ["lookup", "handbook"], length=(10, 20), samples=7)
    assert [(model, total) for model, _, total in tasks[:12]] == [("embedded", 7)] * 12
    ((model, task, total),) = tasks[12:]  # a search engine has the passages alone
    assert (model, task.partition(":")[0]) == ("fts5", "handbook")
    assert total > 7


def test_samples_that_can_be_read_once_have_no_size_before_the_run():
    once = replace(digits(), samples=iter(digits().samples))
    assert planned_tasks([says("1")], [once]) == [(says("1").name, "digits", None)]


def test_every_draw_of_examples_is_a_task_of_the_plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("cities.py").write_text(CAPITALS)
    whole = planned_tasks([says("1")], ["cities.py:Cities"], num_shots=1)
    drawn = planned_tasks([says("1")], ["cities.py:Cities"], num_shots=1, retriever_seeds="0..2")
    assert drawn == [(model, f"{task}@{seed}", total) for seed in range(3) for model, task, total in whole]


# ---- what was tried out is what is asked ----

COUNTED = """
from kshot import MultipleChoiceDataset
class Counted(MultipleChoiceDataset):
    instruction = "{{q}}{{'\\n' + options if options}}"
    evaluation_set, example_set = "test", "train"
    loads = 0
    def load_raw_dataset(self, *place):
        type(self).loads += 1
        super().load_raw_dataset(*place)
    def format_instance(self, row):
        return {"q": row["q"], "options": [row["a"], row["b"]], "target_idx": 0}
"""
CONFIG = """
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.openicl.icl_retriever import FixKRetriever
from opencompass.openicl.icl_inferencer import GenInferencer
from opencompass.openicl.icl_evaluator import AccEvaluator
datasets = [dict(
    abbr="rows", type="HFDataset", path="json", data_files=dict(train="rows.jsonl", test="rows.jsonl"),
    reader_cfg=dict(input_columns=["q"], output_column="a"),
    infer_cfg=dict(
        ice_template=dict(type=PromptTemplate, template="{q} {a}"),
        prompt_template=dict(type=PromptTemplate, template="</E>{q}", ice_token="</E>"),
        retriever=dict(type=FixKRetriever, fix_id_list=[3]), inferencer=dict(type=GenInferencer)),
    eval_cfg=dict(evaluator=dict(type=AccEvaluator)))]
"""
TASK_FILE = """
task: rows
dataset_path: json
dataset_kwargs: {data_files: {train: rows.jsonl, test: rows.jsonl}}
test_split: test
fewshot_split: train
num_fewshot: 1
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
metric_list: [{metric: exact_match}]
"""


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Rows in three kinds of file, and what reads them; returns the files that were read, in order."""
    monkeypatch.chdir(tmp_path)
    made = [{"q": f"question {n}", "a": f"yes {n}", "b": f"no {n}", "answer": "AB"[n % 2]} for n in range(20)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
    Path("rows.csv").write_text("\n".join(",".join(row) for row in [list(made[0]), *(row.values() for row in made)]))
    for name, text in {"counted.py": COUNTED, "config.py": CONFIG, "rows.yaml": TASK_FILE, "echo.py": ECHO}.items():
        Path(name).write_text(text)
    read, plain = [], files._parsed_file
    monkeypatch.setattr(files, "_parsed_file", lambda path, **how: read.append(path.name) or plain(path, **how))
    return read


ECHO = """
def answer(prompt):
    return "A"
def again(prompt):
    return "B"
"""
FLAGS = {"question": "q", "options": ("a", "b"), "answer": "answer"}


@pytest.mark.parametrize(
    ("dataset", "options"),
    [
        ("rows.csv", FLAGS),
        ("rows.csv", {**FLAGS, "num_shots": 2}),
        ("rows.csv", {**FLAGS, "num_shots": (0, 1, 2)}),
        ("rows.csv", {**FLAGS, "num_shots": 2, "retriever": "bm25"}),
        ("rows.csv", {**FLAGS, "num_shots": 2, "max_example_tokens": 8}),
        ("rows.csv", {**FLAGS, "num_shots": 2, "retriever": "random", "retriever_seeds": "0..2"}),
        ("counted.py:Counted", {"dataset_path": "rows.jsonl", "ranking_type": "generation"}),
        ("config.py", {}),
        ("lmeval:rows.yaml", {}),
    ],
)
@pytest.mark.parametrize("models", [1, 2])
def test_a_run_reads_each_file_of_rows_once(dataset, options, models, rows):
    kshot.evaluate(["echo.py:answer", "echo.py:again"][:models], dataset, limit=1, **options)
    assert len(rows) == 1


@pytest.mark.parametrize("models", [1, 2])
def test_the_first_model_is_asked_the_tasks_that_were_tried_out(models, rows):
    (cls,) = {kshot.sources.source_of("counted.py:Counted", kshot.settings.settings_from({})).dataset}
    kshot.evaluate(
        ["echo.py:answer", "echo.py:again"][:models], cls, dataset_path="rows.jsonl", ranking_type="generation"
    )
    assert cls.loads == models  # a class may change as its rows are asked, so each further model gets a new one


def test_a_file_that_changes_during_a_run_is_read_again(rows):
    with files.files_read_once():
        first = files.read_file("rows.csv")
        first[0]["q"] = "changed by its reader"
        assert files.read_file("rows.csv")[0]["q"] == "question 0"
        Path("rows.csv").write_text("q,a\nanother,row\n")
        assert files.read_file("rows.csv") == [{"q": "another", "a": "row"}]
    assert rows == ["rows.csv"] * 2
