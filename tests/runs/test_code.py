"""A run folder is data: reading it again imports nothing from it, and nothing that it alone chooses."""

import hashlib
import json
import py_compile
import shutil
import sys
from pathlib import Path

import pytest

import kshot
from kshot.runs.folder import read_spec
from tests.commands import kshot as command

QUIZ = """
from pathlib import Path
from kshot import GenerationDataset, Em
Path({marker!r}).touch()


class Quiz(GenerationDataset):
    instruction = "{{q}}="
    extra_model_args = {{"max_tokens": 4}}
    metrics = [Em()]

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = [{{"q": str(n), "a": str(n)}} for n in range(3)]
        self.example_data = self.evaluation_data

    def format_instance(self, row):
        return {{"q": row["q"], "target": row["a"]}}


def clean(reply):
    return reply.strip()
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "code-has-run"


@pytest.fixture
def finished(capsys, marker):
    """A finished run of ``quiz.py``; the marker is gone, so that it shows whether the file is imported again."""
    Path("quiz.py").write_text(QUIZ.format(marker=str(marker)))
    assert command(capsys, "run", "-m", "embedded", "-d", "quiz.py:Quiz", "--out", "run").code == 0
    marker.unlink()
    forget()
    return Path("run")


def forget():
    """Forget what this process has imported: each command is a process of its own."""
    for name in [name for name in sys.modules if name.startswith("kshot_plugin_")]:
        del sys.modules[name]


def change_spec(run, change):
    spec = json.loads((run / "spec.json").read_text())
    change(spec)
    (run / "spec.json").write_text(json.dumps(spec))


def test_a_file_that_is_as_recorded_is_used(finished, marker, capsys):
    assert list(read_spec(finished)["code"]) == ["quiz.py"]
    assert command(capsys, "score", "run").code == 0
    assert marker.exists()


def test_a_file_that_has_changed_is_used_when_the_user_names_it(finished, marker, capsys):
    with Path("quiz.py").open("a") as file:
        file.write("# changed\n")
    refused = command(capsys, "score", "run")
    assert refused.code == 2
    assert "quiz.py: kshot does not run this file: it has changed since the run" in refused.err
    assert "-d quiz.py:CLASS" in refused.err
    assert not marker.exists()
    assert command(capsys, "score", "run", "-d", "quiz.py:Quiz").code == 0
    assert marker.exists()
    assert command(capsys, "score", "run").code == 0, "what the user has named is recorded"


def test_a_folder_without_digests_is_scored_when_the_user_names_the_file(finished, marker, capsys):
    change_spec(finished, lambda spec: spec.pop("code"))
    refused = command(capsys, "score", "run")
    assert (refused.code, marker.exists()) == (2, False)
    assert "the run recorded no digest of it" in refused.err
    assert command(capsys, "score", "run", "-d", "quiz.py").code == 0


@pytest.mark.parametrize(
    "digests", [None, [], "x", {"quiz.py": None}, {"quiz.py": ""}, {"quiz.py": ["x"]}, {"./quiz.py": 1}]
)
def test_damaged_digests_admit_nothing(digests, finished, marker, capsys):
    change_spec(finished, lambda spec: spec.update(code=digests))
    refused = command(capsys, "score", "run")
    assert (refused.code, marker.exists()) == (2, False)
    assert refused.err.startswith("kshot: ")


@pytest.mark.parametrize("way", ["plain", "dots", "absolute", "symlink to the file", "symlink to the folder", "named"])
def test_nothing_in_the_run_folder_is_imported(way, finished, marker, capsys, tmp_path):
    """Not even a file whose digest the folder itself records, and not when the user names it."""
    shutil.copy("quiz.py", "run/quiz.py")
    Path("link.py").symlink_to("run/quiz.py")
    Path("folder").symlink_to("run", target_is_directory=True)
    Path("run/sub").mkdir()
    file = {
        "plain": "run/quiz.py",
        "dots": "run/sub/../quiz.py",
        "absolute": str(Path("run/quiz.py").resolve()),
        "symlink to the file": "link.py",
        "symlink to the folder": "folder/quiz.py",
        "named": "run/quiz.py",
    }[way]
    digest = read_spec(finished)["code"]["quiz.py"]

    def use(spec):
        spec["identity"]["datasets"] = [f"{file}:Quiz"]
        spec["code"] = {file: digest}

    change_spec(finished, use)
    named = ("-d", f"{file}:Quiz", "--trust", file) if way == "named" else ()
    refused = command(capsys, "score", "run", *named)
    assert (refused.code, marker.exists()) == (2, False)
    assert "lies in a run folder, and kshot runs no code from there" in refused.err


@pytest.mark.parametrize("at", ["run", "run/../run", "link"])
def test_the_folder_may_be_named_in_any_way(at, finished, marker, capsys):
    shutil.copy("quiz.py", "run/quiz.py")
    Path("link").symlink_to("run", target_is_directory=True)
    change_spec(finished, lambda spec: spec["identity"].update(datasets=["run/quiz.py:Quiz"]))
    assert command(capsys, "score", at).code == 2
    assert not marker.exists()


def test_a_config_in_the_run_folder_is_not_read(finished, capsys):
    Path("run/config.py").write_text("datasets = []\n")
    change_spec(finished, lambda spec: spec["identity"].update(datasets=["run/config.py"]))
    refused = command(capsys, "score", "run")
    assert refused.code == 2
    assert "lies in a run folder" in refused.err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("cleanup", "evil.py:clean"),
        ("cleanup", "./evil.py:clean"),
        ("retriever", "evil.py:Retriever"),
        ("metric", ["evil.py:Metric"]),
        ("judge", "evil.py:Judge"),
        ("rewrite", "evil.py:Model"),
        ("templates", "evil.py"),
    ],
)
def test_no_option_of_the_folder_imports_a_file(option, value, finished, marker, capsys):
    Path("evil.py").write_text("open('evil-has-run', 'w')\nclean = Retriever = Metric = Judge = Model = str\n")
    change_spec(finished, lambda spec: spec["options"].update({option: value, "num_shots": 1}))
    done = command(capsys, "score", "run")
    assert not Path("evil-has-run").exists(), done
    if option in {"cleanup", "retriever", "metric"}:
        assert done.code == 2
        assert "evil.py: kshot does not run this file: the run recorded no digest of it" in done.err


def test_another_file_is_used_when_the_user_trusts_it(finished, marker, capsys):
    Path("clean.py").write_text("def clean(reply):\n    return reply.strip()\n")
    run = ("run", "-m", "embedded", "-d", "quiz.py:Quiz", "--cleanup", "clean.py:clean", "--out", "other")
    assert command(capsys, *run).code == 0
    assert set(read_spec("other")["code"]) == {"quiz.py", "clean.py"}
    Path("clean.py").write_text("def clean(reply):\n    return 'never'\n")
    refused = command(capsys, "score", "other")
    assert refused.code == 2
    assert "clean.py: kshot does not run this file" in refused.err
    assert "--trust clean.py" in refused.err
    assert command(capsys, "score", "other", "--trust", "clean.py").code == 0
    absent = command(capsys, "score", "other", "--trust", "absent.py")
    assert (absent.code, "absent.py: there is no such file" in absent.err) == (2, True)


def test_the_digest_is_that_of_the_code_that_runs(finished, marker, capsys, tmp_path):
    """A compiled copy beside the file is not used: its content is another thing than the file's."""
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(tmp_path / 'compiled')!r}, 'w')\n")
    cached = Path("__pycache__") / f"quiz.{sys.implementation.cache_tag}.pyc"
    cached.parent.mkdir(exist_ok=True)
    py_compile.compile(str(evil), str(cached), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert command(capsys, "score", "run").code == 0
    assert marker.exists()
    assert not (tmp_path / "compiled").exists()


def test_a_file_that_has_moved_is_named_by_its_class(finished, marker, capsys):
    Path("new").mkdir()
    Path("quiz.py").rename("new/quizzes.py")
    absent = command(capsys, "score", "run")
    assert absent.code == 2
    assert "the file of this dataset is not there" in absent.err
    assert "-d path/to/quiz.py:CLASS" in absent.err
    assert command(capsys, "score", "run", "-d", "new/quizzes.py:Quiz").code == 0
    assert command(capsys, "score", "run").code == 0, "once is enough"
    other = command(capsys, "score", "run", "-d", "new/quizzes.py:Other")
    assert (other.code, marker.exists()) == (2, True)


def test_the_subsets_and_options_of_the_run_stay(capsys, marker):
    Path("quiz.py").write_text(QUIZ.format(marker=str(marker)))
    label = "quiz.py:Quiz,limit=2"
    both = ("-d", label, "-d", "lookup:UR", "--samples", "2", "--length", "10", "--model-type", "base")
    assert command(capsys, "run", "-m", "embedded", *both, "--out", "run").code == 0
    before = Path("run/summary.json").read_bytes()
    Path("quiz.py").rename("moved.py")
    assert command(capsys, "score", "run", "-d", "moved.py:Quiz").code == 0
    assert Path("run/summary.json").read_bytes() == before
    unknown = command(capsys, "score", "run", "-d", "arc")
    assert unknown.code == 2
    assert f"it is no dataset of this run. The run has: {label}, lookup:UR" in unknown.err
    twice = command(capsys, "score", "run", "-d", "moved.py:Quiz", "-d", "moved.py")
    assert twice.code == 2


def test_a_folder_cannot_choose_code_that_everybody_has(capsys, finished):
    """It can know the digest of a file of Python's own; what it calls there was never used by this user."""
    import subprocess

    file = Path(subprocess.__file__)
    digest = hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
    command_line = "touch evil-has-run"
    for option, value in {"metric": [f"{file}:Popen:{command_line},shell=yes"], "cleanup": f"{file}:getoutput"}.items():

        def use(spec, option=option, value=value):
            spec["options"][option] = value
            spec["code"][str(file)] = digest

        change_spec(finished, use)
        refused = command(capsys, "score", "run")
        assert refused.code == 2
        assert "you have not used" in refused.err
        assert not Path("evil-has-run").exists()
        change_spec(finished, lambda spec, option=option: spec["options"].pop(option))


def test_another_name_of_a_file_is_another_use(capsys, finished):
    change_spec(finished, lambda spec: spec["options"].update(cleanup="quiz.py:Path"))
    refused = command(capsys, "score", "run")
    assert refused.code == 2
    assert "you have not used Path on this machine before in this file" in refused.err


def test_a_folder_from_another_machine_needs_the_name_once(capsys, finished, marker, monkeypatch, tmp_path):
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "another machine"))
    refused = command(capsys, "score", "run")
    assert (refused.code, marker.exists()) == (2, False)
    assert "you have not used Quiz on this machine before" in refused.err
    assert command(capsys, "score", "run", "-d", "quiz.py:Quiz").code == 0
    assert command(capsys, "score", "run").code == 0


def test_another_run_folder_is_data_too(capsys, finished, marker):
    shutil.copytree("run", "other")
    shutil.copy("quiz.py", "other/quiz.py")
    digest = read_spec(finished)["code"]["quiz.py"]

    def use(spec):
        spec["identity"]["datasets"] = ["other/quiz.py:Quiz"]
        spec["code"] = {"other/quiz.py": digest}

    change_spec(finished, use)
    refused = command(capsys, "score", "run")
    assert (refused.code, marker.exists()) == (2, False)
    assert "lies in a run folder" in refused.err


CONFIG = """
d = dict(abbr='a', reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q}='), retriever=dict(type='ZeroRetriever'),
                   inferencer=dict(type='GenInferencer', max_out_len=4)),
    eval_cfg=dict(evaluator=dict(type='AccEvaluator')), path='rows.jsonl')
datasets = [d]
"""


def test_a_config_is_read_again_only_as_it_was(capsys):
    Path("rows.jsonl").write_text('{"q": "1", "a": "1"}\n')
    Path("c.py").write_text(CONFIG)
    done = command(capsys, "run", "c.py", "-m", "embedded", "--out", "run")
    assert done.code == 0, done.err
    again = command(capsys, "score", "run")
    assert again.code == 0, again.err
    assert "config root" in again.err
    with Path("c.py").open("a") as file:
        file.write("# changed\n")
    refused = command(capsys, "score", "run")
    assert refused.code == 2
    assert "c.py: kshot does not run this file: it has changed since the run" in refused.err
    assert command(capsys, "score", "run", "-d", "c.py").code == 0


def test_another_class_is_no_dataset_of_the_run(capsys, finished):
    before = (finished / "summary.json").read_bytes()
    with Path("quiz.py").open("a") as file:
        file.write("class Other(Quiz):\n    pass\n")
    refused = command(capsys, "score", "run", "-d", "quiz.py:Other")
    assert refused.code == 2
    assert "it is no dataset of this run. The run has: quiz.py:Quiz" in refused.err
    assert (finished / "summary.json").read_bytes() == before


def test_rows_that_lie_elsewhere_now(capsys):
    text = QUIZ.format(marker="unused").replace("for n in range(3)]", "for n in open(dataset_path).read().split()]")
    Path("quiz.py").write_text(text.replace('"q": str(n), "a": str(n)', '"q": n, "a": n'))
    Path("rows.txt").write_text("1 2 3")
    run = ("run", "-m", "embedded", "-d", "quiz.py:Quiz", "--dataset-path", "rows.txt", "--out", "run")
    assert command(capsys, *run).code == 0
    Path("rows.txt").rename("elsewhere.txt")
    assert command(capsys, "score", "run").code == 2
    assert command(capsys, "score", "run", "--dataset-path", "elsewhere.txt").code == 0


def test_python_users_name_a_class(tmp_path):
    class Quiz(kshot.GenerationDataset):
        instruction = "{q}="
        metrics = (kshot.Em(),)

        def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
            self.evaluation_data = [{"q": "1", "a": "1"}]

        def format_instance(self, row):
            return {"q": row["q"], "target": row["a"]}

    first = kshot.evaluate(lambda prompt: "1", Quiz, out="run")
    assert kshot.score("run", Quiz).results == first.results


def test_a_chunker_is_used_when_it_is_as_recorded(capsys, marker):
    Path("halves.py").write_text(
        f"from pathlib import Path\nPath({str(marker)!r}).touch()\n"
        "def halves(text):\n    middle = len(text) // 2\n    return [text[:middle], text[middle:]]\n"
    )
    run = ("run", "-d", "handbook", "-m", "fts5", "--chunker", "halves.py:halves", "--limit", "2", "--out", "run")
    done = command(capsys, *run)
    assert done.code == 0, done.err
    marker.unlink()
    forget()
    with Path("halves.py").open("a") as file:
        file.write("# changed\n")
    refused = command(capsys, "passages", "export", "run", "out")
    assert (refused.code, marker.exists()) == (2, False)
    assert "halves.py: kshot does not run this file" in refused.err
    assert command(capsys, "passages", "export", "run", "out", "--trust", "halves.py").code == 0


def test_a_folder_without_datasets_says_so(finished, capsys):
    for change in (lambda spec: spec["identity"].pop("datasets"), lambda spec: spec["identity"].update(datasets=[])):
        change_spec(finished, change)
        refused = command(capsys, "score", "run")
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "spec.json lists no dataset of this run" in refused.err
