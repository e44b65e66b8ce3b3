"""What kshot does not know runs by the code of the config's home, confined."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kshot
from kshot.cli.main import main
from kshot.configs import load, splits_of
from kshot.configs.home import Home, find_homes, plain_options
from kshot.configs.names import ImportedName
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Gold, Sample
from kshot.sandbox.guest import GuestFault
from tests.configs.homes import CONFIG, evaluator_home, write_home
from tests.measures import measure

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the confinement of homes is Linux's")

OWN = """
    import torch
    import a_package_that_nobody_has
    from a_package_that_nobody_has import Parent, decorated
    from datasets import Dataset, DatasetDict
    from opencompass.openicl.icl_evaluator import BaseEvaluator
    from opencompass.registry import DICT_POSTPROCESSORS, ICL_EVALUATORS, ICL_RETRIEVERS, LOAD_DATASET, TEXT_POSTPROCESSORS

    LIMIT = a_package_that_nobody_has.limit(3)

    @TEXT_POSTPROCESSORS.register_module('shout')
    def shout_postprocess(text: str, mark: str = '!') -> str:
        if not text:
            raise ValueError('nothing to shout')
        return text.upper() + mark

    @TEXT_POSTPROCESSORS.register_module()
    def wants_package(text: str) -> str:
        return a_package_that_nobody_has.clean(text)

    @TEXT_POSTPROCESSORS.register_module()
    def wants_torch(text: str) -> str:
        return text + str(torch.tensor([1.5]).sum().item())

    @decorated(times=2)
    def never_called():
        return LIMIT

    class Child(Parent):
        pass

    @ICL_EVALUATORS.register_module()
    class OwnEvaluator(BaseEvaluator):
        def __init__(self, bonus: float = 0.0, tag: str = '') -> None:
            super().__init__()
            self.bonus = bonus

        def score(self, predictions, references, test_set):
            assert isinstance(test_set, Dataset)
            details = [{'correct': p == r} for p, r in zip(predictions, references)]
            by_kind = {}
            for row, detail in zip(test_set, details):
                by_kind.setdefault(row['kind'], []).append(detail['correct'])
            right = sum(d['correct'] for d in details)
            return {
                'accuracy': 100 * right / len(details) + self.bonus,
                'longest': max(len(p) for p in predictions),
                'kinds': {kind: 100 * sum(of) / len(of) for kind, of in by_kind.items()},
                'columns': sorted(test_set.column_names),
                'details': details,
            }

    @LOAD_DATASET.register_module()
    class OwnDataset:
        @staticmethod
        def load(path, name):
            rows = [json_line(line) for line in open(path + '/' + name + '.txt')]
            return {'train': rows[:1], 'test': rows}

    def json_line(line):
        question, answer = line.strip().split('|')
        return {'question': question, 'answer': answer, 'kind': 'sum'}

    class MethodDataset:
        def __init__(self):
            raise RuntimeError('the home makes it in another way')

        def load(self, path):
            self.logger.info('loading %s', self.abbr)
            return [json_line(line) for line in open(path + '/easy.txt')]

    class ModesDataset:
        def load(self, path, mode='Insertion', *, meta='', infer_order='random', judge_cfg=None):
            return [{'question': f'{mode} {meta} {infer_order} {judge_cfg}', 'answer': '2', 'kind': 'sum'}]

    class EverythingDataset:
        @staticmethod
        def load(path, **kwargs):
            return [{'question': ' '.join(kwargs), 'answer': '2', 'kind': 'sum'}]

    class BaseDataset:
        def __init__(self, reader_cfg={}, k=1, n=1, **kwargs):
            self.abbr = kwargs.pop('abbr', 'dataset')
            self.dataset = self.load(kwargs.pop('path'), **kwargs)

    class SubsetsDataset(BaseDataset):
        def __init__(self, subset, *, keys=(), **kwargs):
            self.subset, self.keys = subset, keys
            super().__init__(**kwargs)

        def load(self, path, mode='Insertion', *args):
            return [{'question': f'{self.subset} {self.keys} {mode}', 'answer': '2', 'kind': 'sum'}]

    class FixedSubsetDataset(SubsetsDataset):
        def __init__(self, **kwargs):
            super().__init__(subset='sst2', **kwargs)

    class PathlessDataset:
        @staticmethod
        def load(mode='Insertion'):
            return [{'question': mode, 'answer': '2', 'kind': 'sum'}]

    @ICL_RETRIEVERS.register_module()
    class LastRetriever:
        def __init__(self, dataset, ice_num=1, ice_separator='', ice_eos_token=''):
            self.dataset, self.ice_num = dataset, ice_num

        def retrieve(self):
            return [[len(self.dataset.train) - 1] * self.ice_num for _ in self.dataset.test]

    class OwnTemplate:
        prompt_type, ice_token, sep_token = 'origin', None, None

        def __init__(self, head='Q'):
            self.head = head

        def generate_item(self, entry, *args, **kwargs):
            return f"{self.head}: {entry['question']}\\nA:"

    class ChatTemplate:
        prompt_type, ice_token, sep_token = 'raw_messages', None, None

        def generate_item(self, entry, **kwargs):
            return [{'role': 'system', 'content': 'Add.'}, {'role': 'user', 'content': entry['question']}]

    @ICL_EVALUATORS.register_module()
    class PooledEvaluator(BaseEvaluator):
        def score(self, predictions, references):
            import multiprocessing
            from concurrent.futures import ProcessPoolExecutor, as_completed
            with ProcessPoolExecutor(4) as pool:
                futures = [pool.submit(str.__eq__, p, r) for p, r in zip(predictions, references)]
                right = sum(future.result() for future in as_completed(futures))
            with multiprocessing.Pool(2) as pool:
                longest = max(pool.map(len, predictions))
            found = multiprocessing.Manager().list()
            process = multiprocessing.Process(target=found.append, args=(1.0,))
            process.start()
            process.join(timeout=1)
            return {'accuracy': 100 * right / len(predictions), 'longest': longest, 'process': found[0]}

    @DICT_POSTPROCESSORS.register_module('counted')
    def counted_postprocess(output: dict, output_path: str, word: str = 'yes') -> dict:
        said = [word in each['prediction'] for each in output.values()]
        return {'share': 100 * sum(said) / len(said)}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = write_home(tmp_path_factory.mktemp("home"), {"datasets/own.py": OWN})
    found = Home("opencompass", folder / "opencompass", "--home")
    yield found
    found.close()


def test_clean_ups(home):
    whole = "opencompass.datasets.shout_postprocess"
    assert home.clean(whole, {}, "hey") == "HEY!"
    assert home.clean("shout", {"mark": "?"}, "hey") == "HEY?"
    with pytest.raises(GuestFault, match=r"fails on ''.*nothing to shout"):
        home.clean(whole, {}, "")


def test_heavy_packages_are_imported_when_they_are_used(home):
    assert home.clean("wants_torch", {}, "x") == "x1.5"


def test_a_missing_package_is_one_message_with_its_install_command(home):
    with pytest.raises(GuestFault, match=r"OpenCompass needs the package 'a_package_that_nobody_has'") as caught:
        home.clean("opencompass.datasets.wants_package", {}, "x")
    assert caught.value.hint == "pip install a_package_that_nobody_has"
    assert caught.value.where.endswith("own.py:19")


def test_evaluators(home):
    rows = [{"kind": "sum"}, {"kind": "sum"}, {"kind": "product"}]
    given = {"predictions": ["2", "3", "9"], "references": ["2", "4", "9"], "rows": rows}
    found = home.evaluate("OwnEvaluator", {"bonus": 1.0, "tag": ImportedName("opencompass.x.Y")}, **given)
    assert found["accuracy"] == pytest.approx(200 / 3 + 1)
    assert found["kinds"] == {"sum": 50.0, "product": 100.0}
    assert found["columns"] == ["kind"]


def test_what_there_is(home):
    assert home.has("evaluator", "opencompass.datasets.OwnEvaluator")
    assert home.has("evaluator", "OwnEvaluator")
    assert home.has("clean-up", "shout")
    assert not home.has("clean-up", "whisper")
    assert not home.has("evaluator", "opencompass.datasets.TheirEvaluator")
    assert not home.has("loader", "opencompass.nowhere.OwnDataset")


def test_rows_retrievers_and_judges(home, tmp_path):
    (tmp_path / "sums.txt").write_text("1+1|2\n2+2|4\n")
    given = {"path": str(tmp_path), "name": "sums", "guide": True}
    rows, not_taken = home.rows("opencompass.datasets.OwnDataset", given, [tmp_path])
    assert not_taken == ["guide"]
    assert rows["test"][1] == {"question": "2+2", "answer": "4", "kind": "sum"}
    assert {split: len(found) for split, found in rows.items()} == {"train": 1, "test": 2}
    chosen = home.examples(
        "LastRetriever", {"ice_num": 2}, train=rows["test"], test=rows["test"], columns=["question"], output="answer"
    )
    assert chosen == [[1, 1], [1, 1]]
    replies = [{"prediction": text, "gold": "", "origin_prompt": ""} for text in ("yes", "no", "oh yes", "?")]
    assert home.judged("counted", {}, replies, [{}] * 4) == {"share": 50.0}


def test_a_loader_whose_load_is_a_method(home, tmp_path):
    (tmp_path / "easy.txt").write_text("1+1|2\n")
    rows, _ = home.rows("opencompass.datasets.MethodDataset", {"path": str(tmp_path)}, [tmp_path])
    assert rows == [{"question": "1+1", "answer": "2", "kind": "sum"}]


def test_a_loader_reads_no_other_folder(home, tmp_path):
    (tmp_path / "sums.txt").write_text("1+1|2\n")
    other = Home("opencompass", home.folder, "--home")
    with pytest.raises(GuestFault, match=r"No such file|Permission"):
        other.rows("opencompass.datasets.OwnDataset", {"path": str(tmp_path), "name": "sums"})
    other.close()


def test_the_digest_is_that_of_the_code(tmp_path):
    first, second = (evaluator_home(tmp_path / name, "return {'accuracy': 1.0}") for name in ("a", "b"))
    digests = [Home("opencompass", folder / "opencompass", "").digest for folder in (first, second)]
    assert digests[0] == digests[1]
    (second / "opencompass" / ".#lock.py").symlink_to("nobody@nowhere")
    os.mkfifo(second / "opencompass" / "pipe.py")
    assert Home("opencompass", second / "opencompass", "").digest == digests[0]
    (second / "opencompass" / "new.py").write_text("x = 1")
    assert Home("opencompass", second / "opencompass", "").digest != digests[0]


def test_where_a_home_is_looked_for(tmp_path):
    folder = evaluator_home(tmp_path / "clone", "return {'accuracy': 1.0}")
    package = folder / "opencompass"
    inside = package / "configs" / "x.py"
    for config, given in (
        (inside, None),
        (folder / "eval.py", None),
        (tmp_path / "x.py", folder),
        (tmp_path / "x.py", package),
    ):
        assert find_homes(config, given)["opencompass"].folder == package
    (tmp_path / "empty" / "opencompass" / "configs").mkdir(parents=True)
    (tmp_path / "empty" / "opencompass" / "__init__.py").touch()
    assert "opencompass" not in find_homes(tmp_path / "x.py", tmp_path / "empty")


def test_options_that_cannot_be_given_are_refused():
    assert plain_options({"type": ImportedName("opencompass.a.B"), "k": (1, 2)}) == {
        "type": "opencompass.a.B",
        "k": (1, 2),
    }


# ---- a whole run ----

ROWS = [{"question": f"{n}+{n}", "answer": str(2 * n), "kind": "even" if n % 2 else "odd"} for n in range(4)]


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_home(tmp_path / "clone", {"datasets/own.py": OWN})
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    Path("own.py").write_text(CONFIG.replace("type=OwnEvaluator", "type=OwnEvaluator, bonus=0.0"))
    Path("model.py").write_text("def answer(prompt):\n    return '2'\n")
    return tmp_path


def test_a_run_says_whose_code_scored_it(project, capsys):
    command = ["run", "own.py", "-m", "model.py:answer", "--home", "clone", "--data", "own=rows.jsonl", "--out", "run"]
    assert main(command) == 0
    shown = capsys.readouterr()
    assert "evaluator by OpenCompass" in shown.out
    assert "home: OpenCompass in" in shown.err
    result = kshot.load("run")
    figures = {row["metric"]: row for row in result.results}
    assert figures["accuracy"]["value"] == 25.0
    assert figures["kinds/even"]["value"] == 50.0
    assert figures["kinds/odd"]["value"] == 0.0
    assert figures["longest"]["value"] == 1.0
    assert figures["accuracy"]["ci95"] is not None
    assert figures["accuracy"]["code"] == "evaluator by OpenCompass"
    spec = json.loads(Path("run/spec.json").read_text())
    digest = Home("opencompass", project / "clone" / "opencompass", "").digest
    assert spec["code"][str(project / "clone" / "opencompass")] == digest
    assert json.dumps(spec).count(digest) == 2  # as code that ran, and as a fact of the task


def test_a_run_whose_home_has_changed_is_not_scored_again_by_itself(project, capsys):
    command = ["run", "own.py", "-m", "model.py:answer", "--home", "clone", "--data", "own=rows.jsonl", "--out", "run"]
    assert main(command) == 0
    assert main(["score", "run"]) == 0
    (project / "clone" / "opencompass" / "more.py").write_text("x = 1\n")
    capsys.readouterr()
    assert main(["score", "run"]) == 2
    assert "it has changed since the run" in capsys.readouterr().err


def test_without_the_home_the_evaluator_is_unknown(project, capsys):
    assert main(["run", "own.py", "-m", "model.py:answer", "--data", "own=rows.jsonl"]) == 2
    assert "kshot has no evaluator opencompass.datasets.OwnEvaluator" in capsys.readouterr().err


def test_check_says_what_would_run(project, capsys):
    assert main(["check", "own.py", "--home", "clone", "--data", "own=rows.jsonl", "--json"]) == 0
    (checked,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert checked == {
        "config": "own.py",
        "entry": "own",
        "prompts": "text",
        "data": "4 rows",
        "evaluation": "OwnEvaluator (OpenCompass)",
        "judge": "",
        "missing": [],
        "notes": [],
    }
    assert main(["check", "own.py"]) == 1
    shown = capsys.readouterr().out
    assert "own: evaluation: kshot has no evaluator opencompass.datasets.OwnEvaluator" in shown
    assert "0 of 1 entries would run" in shown


def test_names_of_a_home_stand_in_the_scope_of_an_entry(project):
    config = load("own.py", home="clone")
    scope = config.chosen[0].scope
    assert scope.name("opencompass.datasets.shout_postprocess") == Name(
        "shout_postprocess", "opencompass.datasets.shout_postprocess", "opencompass"
    )
    assert scope.home("clean-up", scope.name("opencompass.datasets.shout_postprocess")) is not None
    assert list(config.chosen[0].used) == [("clean-up", "shout_postprocess")]
    assert Scope().home("clean-up", Scope().name("shout")) is None
    config.close()


def test_an_evaluator_is_tried_before_a_model_is_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    evaluator_home(tmp_path / "clone", "return {'accuracy': 100.0 * len(test_set['missing'])}")
    Path("rows.jsonl").write_text('{"question": "1+1", "answer": "2"}\n')
    Path("own.py").write_text(CONFIG)
    Path("model.py").write_text("def answer(prompt):\n    open('asked', 'w')\n    return '2'\n")
    assert main(["run", "own.py", "-m", "model.py:answer", "--home", "clone", "--data", "own=rows.jsonl"]) == 2
    assert "Column missing not in the dataset" in capsys.readouterr().err
    assert not Path("asked").exists()


def test_the_value_of_a_sample_that_is_drawn_twice_counts_twice(home):
    from kshot.configs.evaluators.foreign import HomeEvaluator

    metric = HomeEvaluator(home, Name("OwnEvaluator", "OwnEvaluator", "opencompass"), {})
    samples = [Sample(str(i), row, Gold(row["answer"]), position=i, row=row) for i, row in enumerate(ROWS)]
    metric.see(samples)
    values = [metric.score(sample, "2")["accuracy"] for sample in samples]
    assert measure(metric, "accuracy").aggregate(values) == 25.0
    assert measure(metric, "accuracy").aggregate([values[1], values[1], values[0], values[0]]) == 50.0
    assert measure(metric, "kinds/even").aggregate(values) == 50.0


LOADED = CONFIG.replace("import OwnEvaluator", "import OwnDataset, OwnEvaluator").replace(
    'path="rows.jsonl"', 'type=OwnDataset, path="data/sums", name="easy"'
)


@pytest.mark.parametrize("data", [None, "elsewhere", "rows.jsonl"])
def test_rows_come_by_the_homes_loader(project, capsys, data):
    for place in ("data/sums", "elsewhere"):
        Path(place).mkdir(parents=True)
        Path(place, "easy.txt").write_text("1+1|2\n2+2|4\n")
    Path("own.py").write_text(LOADED)
    command = ["run", "own.py", "-m", "model.py:answer", "--home", "clone", "--out", "run", "--no-report"]
    assert main(command if data is None else [*command, "--data", f"own={data}"]) == 0
    figures = {row["metric"]: row for row in kshot.load("run").results}
    own_rows = data == "rows.jsonl"
    assert figures["accuracy"]["n"] == (4 if own_rows else 2)
    assert figures["accuracy"]["code"] == f"{'' if own_rows else 'loader, '}evaluator by OpenCompass"


KEYS = "mode='Completion', meta='m', infer_order='double', judge_cfg=dict(a=1), n=1, k=1, summarizer='s', guide=True"


@pytest.mark.parametrize(
    ("loader", "question", "ignored"),
    [
        ("ModesDataset", "Completion m double {'a': 1}", "ModesDataset of OpenCompass does not take summarizer, guide"),
        ("EverythingDataset", "mode meta infer_order judge_cfg summarizer guide", ""),
        (
            "SubsetsDataset, subset='qqp', keys=['a']",
            "qqp ['a'] Completion",
            "does not take meta, infer_order, judge_cfg",
        ),
        (
            "FixedSubsetDataset, keys='b'",
            "sst2 b Completion",
            "does not take meta, infer_order, judge_cfg, summarizer, guide",
        ),
        ("PathlessDataset", "Completion", "does not take path, meta, infer_order, judge_cfg, summarizer, guide"),
    ],
)
def test_a_loader_gets_every_key_that_it_takes(project, capsys, loader, question, ignored):
    """As the frameworks call it: without what they take out themselves. Keys that it does not take are noted."""
    Path("data/sums").mkdir(parents=True)
    body = CONFIG.replace("import OwnEvaluator", f"import {loader.partition(',')[0]}, OwnEvaluator")
    Path("own.py").write_text(body.replace('path="rows.jsonl"', f'type={loader}, path="data/sums", {KEYS}'))
    command = ["run", "own.py", "-m", "model.py:answer", "--home", "clone", "--out", "run", "--no-report"]
    assert main(command) == 0
    (row,) = map(json.loads, Path("run/samples.jsonl").read_text().splitlines())
    assert question in json.dumps(row).replace("\\", "")
    notes = [note for note in kshot.load("run").notes if "does not take" in note]
    assert len(notes) == bool(ignored)
    assert all(ignored in note for note in notes)
    capsys.readouterr()
    assert main(["check", "own.py", "--home", "clone", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert checked["notes"] == notes


REAL = Path(__file__).parents[2] / "benchmarks/.peers/config-homes/opencompass"
DS1000 = "opencompass/configs/datasets/ds1000"


@pytest.mark.skipif(not REAL.is_dir(), reason="`make configs-check` has not installed OpenCompass")
@pytest.mark.parametrize(
    ("config", "mode"),
    [
        ("ds1000_compl_gen_cbc84f.py", "Completion"),
        ("ds1000_compl_service_eval_gen_cbc84f.py", "Completion"),
        ("ds1000_gen_cbc84f.py", "Insertion"),
        ("ds1000_service_eval_gen_cbc84f.py", "Insertion"),
    ],
)
def test_the_prompts_of_ds1000_are_those_of_the_mode(config, mode, tmp_path, monkeypatch):
    """By OpenCompass's own code, on files in its layout: ``mode`` is what tells its Completion configs from the others."""
    for library in ("Pandas", "Numpy", "Tensorflow", "Scipy", "Sklearn", "Pytorch", "Matplotlib"):
        for kind in ("Completion", "Insertion"):
            place = tmp_path / "data/ds1000_data" / library / kind / "q0"
            place.mkdir(parents=True)
            for name in ("reference_code.txt", "test_code.py", "code_context.txt", "test_generate_pickle.py"):
                (place / name).touch()
            (place / "prompt.txt").write_text(f"{kind} of {library}")
            origin = "perturbation_type = Origin\nperturbation_origin_id = 0"
            tests = "test_type = 1\ntest_case_cnt = 1"
            (place / ".cfg").write_text(f"[library]\nlib = {library}\n[test]\n{tests}\n[perturbation]\n{origin}\n")
    monkeypatch.chdir(tmp_path)
    found = load(REAL / DS1000 / config, home=REAL)
    try:
        for entry in found.chosen:
            assert [
                f"{mode} of {entry['libs']}" in str(prompt) for prompt in entry.prompts(splits_of(entry), "chat")
            ] == [True]
            assert not entry.notes
    finally:
        found.close()


def test_a_place_for_a_loader_that_takes_none_is_refused(project, capsys):
    Path("elsewhere").mkdir()
    Path("own.py").write_text(LOADED.replace("OwnDataset", "PathlessDataset"))
    command = ["run", "own.py", "-m", "model.py:answer", "--home", "clone", "--data", "own=elsewhere"]
    assert main(command) == 2
    assert "PathlessDataset of OpenCompass gives no rows: it takes no path" in capsys.readouterr().err


def test_a_loader_gets_the_place_of_an_id(project, monkeypatch):
    cache = project / "cache"
    (cache / "data" / "gsm8k").mkdir(parents=True)
    (cache / "data" / "gsm8k" / "easy.txt").write_text("1+1|2\n")
    monkeypatch.setenv("COMPASS_DATA_CACHE", str(cache))
    Path("own.py").write_text(LOADED.replace("data/sums", "opencompass/gsm8k"))
    command = ["run", "own.py", "-m", "model.py:answer", "--home", "clone", "--out", "run", "--no-report"]
    assert main(command) == 0
    assert kshot.load("run").results[0]["n"] == 1


def test_a_loader_without_its_data_says_how_to_give_rows(project, capsys):
    Path("own.py").write_text(LOADED)
    assert main(["run", "own.py", "-m", "model.py:answer", "--home", "clone"]) == 2
    shown = capsys.readouterr().err
    assert "OwnDataset of OpenCompass gives no rows" in shown
    assert "--data own=FILE_OR_FOLDER" in shown
    assert "It runs confined" in shown


def test_pools_and_processes_run_in_the_worker_itself(home):
    given = {"predictions": ["2", "33"], "references": ["2", "4"], "rows": [{}, {}]}
    found = home.evaluate("PooledEvaluator", {}, **given)
    assert found == {"accuracy": 50.0, "longest": 2, "process": 1.0}


@pytest.mark.parametrize(
    ("template", "kind", "first"),
    [
        ("dict(type=OwnTemplate, head='Sum')", "text", "Sum: 0+0\nA:"),
        (
            "dict(type=ChatTemplate)",
            "chat",
            [{"role": "system", "content": "Add."}, {"role": "user", "content": "0+0"}],
        ),
    ],
)
def test_templates_of_a_home(project, template, kind, first):
    text = CONFIG.replace("import OwnEvaluator", "import ChatTemplate, OwnEvaluator, OwnTemplate")
    Path("own.py").write_text(text.replace('dict(type="PromptTemplate", template="{question}")', template))
    config = load("own.py", home="clone")
    (entry,) = config.chosen
    assert entry.prompts(ROWS, kind)[0] == first
    assert list(entry.used) == [("template", template[10:].split(",")[0].rstrip(")"))]
    config.close()


def test_a_file_of_a_home_that_is_too_large_is_named(tmp_path):
    folder = evaluator_home(tmp_path, "return {'accuracy': 1.0}")
    with (folder / "opencompass" / "huge.py").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DataError, match="more than 16 MB"):
        assert Home("opencompass", folder / "opencompass", "").digest


FAULTY = """
    import os
    from opencompass.openicl.icl_evaluator import BaseEvaluator
    from opencompass.registry import DICT_POSTPROCESSORS, ICL_EVALUATORS, ICL_RETRIEVERS, LOAD_DATASET

    def half_clean(text):
        if text == '2':
            raise ValueError('two is too much')
        return text

    def hanging_clean(text):
        while text == '2':
            pass
        return text

    class ByReply(BaseEvaluator):
        def score(self, predictions, references):
            right = [p == r for p, r in zip(predictions, references)]
            found = {'accuracy': 100 * sum(right) / len(right), 'sub': {'half': 50.0}}
            return {**found, 'perfect': 1.0} if all(right) else {**found, 'mistakes': float(right.count(False))}

    def as_pair(text):
        return text, 'en'

    class Pairs(BaseEvaluator):
        def score(self, predictions, references):
            return {'accuracy': 100 * sum(text == r for (text, _), r in zip(predictions, references)) / len(references)}

    def only_words(text):
        return text if text.isalpha() else ''

    class Picky(BaseEvaluator):
        def score(self, predictions, references):
            read = [p for p in predictions if p]
            if not read:
                raise ValueError('nothing can be read')
            return {'letters': 1.0 * sum(map(len, read)) / len(read)}

    class Reader(BaseEvaluator):
        def score(self, predictions, references, origin_prompt):
            return {'letters': float(sum(map(len, origin_prompt)))}

    class Many(BaseEvaluator):
        def score(self, predictions, references):
            return {str(n): 1.0 for n in range(100_000)}

    class Huge(BaseEvaluator):
        def score(self, predictions, references):
            return {'huge': 10 ** 400, 'accuracy': 1.0, 'details': [{'correct': 10 ** 400} for _ in predictions]}

    class Chosen:
        def __init__(self, dataset, found=None, **_):
            self.found = found

        def retrieve(self):
            return self.found

    class Endless:
        @staticmethod
        def load(path):
            class Rows:
                def __len__(self):
                    return 10 ** 9
            return {'test': Rows()}

    class Odd:
        @staticmethod
        def load(path):
            return {'test': [{'question': object(), 'answer': '2'}]}

    def judged_by_kind(output, output_path):
        found = {f"score {each['prediction'][:1]}": 1.0 for each in output.values()}
        return {'all': float(len(output)), **found}
"""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    folder = write_home(
        tmp_path_factory.mktemp("faulty"),
        {
            "datasets/own.py": FAULTY,
            "datasets/broken.py": "import os\nPLACE = os.environ['NO_SUCH_PLACE']\n\nclass Broken:\n    pass\n",
            "datasets/unreadable.py": "def (:\n    class Unreadable\n",
            "datasets/__init__.py": "from .own import *\nfrom .broken import Broken\nfrom .unreadable import Unreadable\n",
        },
    )
    found = Home("opencompass", folder / "opencompass", "--home")
    yield found
    found.close()


@pytest.mark.parametrize(
    ("name", "said"),
    [("Broken", r"broken.py:2.*KeyError.*NO_SUCH_PLACE"), ("Unreadable", r"SyntaxError|invalid syntax")],
)
def test_code_that_cannot_be_loaded_says_why(faulty, name, said):
    with pytest.raises(GuestFault, match=said):
        faulty.has("evaluator", f"opencompass.datasets.{name}")


def run_faulty(faulty, evaluator, more="", n=1):
    text = CONFIG.replace("import OwnEvaluator", "import *").replace(
        "dict(type=OwnEvaluator)", f"dict(type='opencompass.datasets.{evaluator}')"
    )
    text = text.replace("eval_cfg=dict(", f"n={n}, eval_cfg=dict({more}")
    Path("own.py").write_text(text.replace("from opencompass.datasets import *", "import opencompass"))
    command = ["run", "own.py", "-m", "model.py:answer", "--home", str(faulty.folder), "--data", "own=rows.jsonl"]
    code = main([*command, "--out", "run", "--no-report"])
    return code, {row["metric"]: row for row in kshot.load("run").results} if code == 0 else {}


@pytest.mark.parametrize("clean", ["half_clean", "hanging_clean"])
def test_a_clean_up_that_fails_on_a_reply_is_a_failed_sample(project, faulty, clean, monkeypatch):
    monkeypatch.setattr("kshot.configs.home.CLEAN_SECONDS", 2.0)
    Path("model.py").write_text("def answer(prompt):\n    return '2' if '1+1' in prompt else '0'\n")
    more = f"pred_postprocessor=dict(type='opencompass.datasets.{clean}'), "
    code, figures = run_faulty(faulty, "ByReply", more)
    assert code == 0
    assert (figures["accuracy"]["n"], figures["accuracy"]["failed"]) == (3, 1)


@pytest.mark.parametrize("n", [1, 2])
def test_figures_that_depend_on_the_replies(project, faulty, n):
    code, figures = run_faulty(faulty, "ByReply", n=n)
    assert code == 0
    suffix = "" if n == 1 else " (2 runs average)"
    assert figures[f"accuracy{suffix}"]["value"] == 25.0
    assert figures[f"mistakes{suffix}"]["value"] == 3.0
    assert figures[f"sub/half{suffix}"]["value"] == 50.0
    assert f"perfect{suffix}" not in figures


def test_an_evaluator_is_tried_out_with_answers_of_the_form_that_it_gets(project, faulty):
    more = "pred_postprocessor=dict(type='opencompass.datasets.as_pair'), "
    code, figures = run_faulty(faulty, "Pairs", more)
    assert code == 0
    assert figures["accuracy"]["value"] == 25.0


def test_an_evaluator_that_wants_one_reply_that_it_can_read(project, faulty):
    """References are no words, and some resamples have none: neither ends the run."""
    Path("model.py").write_text("def answer(prompt):\n    return 'two' if '1+1' in prompt else '0'\n")
    more = "pred_postprocessor=dict(type='opencompass.datasets.only_words'), "
    code, figures = run_faulty(faulty, "Picky", more)
    assert code == 0
    assert figures["letters"]["value"] == 3.0


def test_an_evaluator_sees_the_prompts_that_it_wants(project, faulty):
    assert run_faulty(faulty, "Reader")[1]["letters"]["value"] == 12.0  # four prompts of three letters


def test_figures_that_are_too_many_or_too_large(project, faulty, capsys):
    assert run_faulty(faulty, "Huge")[1]["accuracy"]["value"] == 1.0
    assert run_faulty(faulty, "Many")[0] == 2
    assert "returned 100,000 figures" in capsys.readouterr().err


@pytest.mark.parametrize(
    "found", [None, "ab", [["x"]], [[0.7], [0]], [0, 1], {"0": [0], "1": [1]}, [[True], [0]], [[5], [0]]]
)
def test_a_retriever_that_chooses_no_rows(faulty, found):
    rows = [{"question": "a"}, {"question": "b"}]
    with pytest.raises(DataError, match="did not choose rows that there are"):
        faulty.examples("Chosen", {"found": found}, train=rows, test=rows, columns=["question"], output=None)


def test_loaders_that_give_too_much_or_no_plain_rows(faulty):
    with pytest.raises(DataError, match="more than 5,000,000 rows"):
        faulty.rows("opencompass.datasets.Endless", {"path": "x"})
    with pytest.raises(DataError, match=r"test row 0: .*value of the class object in the column 'question'"):
        faulty.rows("opencompass.datasets.Odd", {"path": "x"})


def test_a_line_that_cannot_be_read_is_named_beside_the_loaders_error(project, capsys):
    Path("own.py").write_text(LOADED)
    Path("bad.jsonl").write_text('{"question": "1+1", "answer": "2", "kind": "sum"}\n{"question": \n')
    assert main(["run", "own.py", "-m", "model.py:answer", "--home", "clone", "--data", "own=bad.jsonl"]) == 2
    assert "bad.jsonl" in capsys.readouterr().err


def test_a_link_in_the_data_folder_does_not_lead_out(project, capsys):
    (project / "private").mkdir()
    (project / "private" / "easy.txt").write_text("secret|2\n")
    (project / "work").mkdir()
    os.chdir("work")
    for top in (Path(), project / "clone"):
        (top / "data").symlink_to(project / "private")
    Path("own.py").write_text(LOADED.replace("data/sums", "data"))
    assert main(["run", "own.py", "-m", "../model.py:answer", "--home", "../clone"]) == 2
    assert "secret" not in capsys.readouterr().err


def test_a_foreign_run_does_not_run_a_home_before_it_is_refused(project, capsys, monkeypatch, tmp_path):
    command = ["run", "own.py", "-m", "model.py:answer", "--home", "clone", "--data", "own=rows.jsonl", "--out", "run"]
    assert main([*command, "--allow-download", "--no-report"]) == 0
    own = project / "clone" / "opencompass" / "datasets" / "own.py"
    own.write_text(own.read_text() + "\nraise RuntimeError('the home ran')\n")
    capsys.readouterr()
    assert main(["score", "run"]) == 2
    shown = capsys.readouterr().err
    assert "it has changed since the run" in shown
    assert "the home ran" not in shown
    assert f"--trust {project / 'clone' / 'opencompass'}" in shown


def workers() -> list[str]:
    """Return the workers of homes that this process has started and that still run."""
    command = ["ps", "--ppid", str(os.getpid()), "-o", "args="]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [line for line in shown.splitlines() if "_guest_worker" in line]


def test_no_worker_outlives_its_run(project, home):
    before = workers()
    options = {"home": "clone", "data": ["own=rows.jsonl"]}
    kept = kshot.evaluate(lambda prompt: "2", "own.py", **options)
    assert workers() == before
    assert kept.results[0]["value"] == 25.0
    shown = kshot.preview("own.py", **options)
    assert len(shown) == 4
    assert workers() == before


TWICE = """
    from opencompass.registry import ICL_EVALUATORS, ICL_RETRIEVERS, LOAD_DATASET, TEXT_POSTPROCESSORS

    {mark}class TwiceEvaluator:
        def score(self, predictions, references):
            return {{"accuracy": {figure}}}

    @LOAD_DATASET.register_module()
    class TwiceDataset:
        @staticmethod
        def load(path):
            return [{{"question": "1+1", "answer": "2"}}]

    @ICL_RETRIEVERS.register_module("once_{figure}")
    class TwiceRetriever:
        pass

    @TEXT_POSTPROCESSORS.register_module("twice")
    def twice_{figure}(text):
        return text

    def noted(text):
        return text

    TEXT_POSTPROCESSORS.register_module(name="called", module=noted)
"""


@pytest.mark.parametrize("mark", ["", "@ICL_EVALUATORS.register_module()\n    "])
def test_a_name_that_several_modules_have_is_refused_with_their_names(tmp_path, mark):
    """Whether they register it or only define it; the whole name says which is meant."""
    files = {f"datasets/{name}.py": TWICE.format(mark=mark, figure=at) for at, name in enumerate(("first", "second"))}
    folder = write_home(tmp_path / "clone", {"datasets/own.py": "", **files})
    home = Home("opencompass", folder / "opencompass", "--home")
    for part, name in (("evaluator", "TwiceEvaluator"), ("loader", "TwiceDataset"), ("retriever", "TwiceRetriever")):
        with pytest.raises(DataError, match=f"{name} is the name of more than one {part}") as caught:
            home.has(part, name)
        assert caught.value.hint == (
            f"Write the whole name: opencompass.datasets.first.{name} or opencompass.datasets.second.{name}."
        )
    for name in ("twice", "called", "opencompass.datasets.TwiceEvaluator"):
        part = "evaluator" if "." in name else "clean-up"
        with pytest.raises(DataError, match=r"Write the whole name: opencompass\.datasets\.first\.\w+ or ") as caught:
            home.has(part, name)
    given = {"predictions": ["2"], "references": ["2"], "rows": [{}]}
    found = [
        home.evaluate(f"opencompass.datasets.{module}.TwiceEvaluator", {}, **given) for module in ("first", "second")
    ]
    assert found == [{"accuracy": 0}, {"accuracy": 1}]
    assert home.has("retriever", "once_1")
    home.close()


def test_a_name_that_a_module_takes_from_the_package_that_takes_all_of_it(tmp_path):
    """As AISBench's MMMU-Pro does: of the modules that have the name, the package imports one before it."""
    files = {
        "datasets/__init__.py": "from .second import *\nfrom .user import *\n",
        "datasets/first.py": "def shown():\n    return 'first'\n",
        "datasets/second.py": "def shown():\n    return 'second'\n",
        "datasets/user.py": """
            from opencompass.datasets import shown
            class UserDataset:
                @staticmethod
                def load(path):
                    return [{'question': shown()}]
        """,
    }
    home = Home("opencompass", write_home(tmp_path, files) / "opencompass", "--home")
    assert home.rows("opencompass.datasets.UserDataset", {"path": "x"})[0] == [{"question": "second"}]
    home.close()
