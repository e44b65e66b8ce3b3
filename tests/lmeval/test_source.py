"""``-d lmeval:…`` as a user sees it: names, examples, rows of one's own, faults, figures of groups."""

import json
import shutil
from pathlib import Path

import pytest

import kshot as package
from kshot.core.errors import DataError, KshotError, UsageError
from kshot.lmeval.source import LmevalSource
from kshot.settings import settings_from
from tests.commands import kshot

pytestmark = [pytest.mark.needs("pyyaml"), pytest.mark.needs("datasets")]
EXAMPLES = Path(__file__).parents[2] / "examples" / "lmeval"
CHOICE = "lmeval:planets_choice"


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    """The example task files in the folder of a user."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXAMPLES, "tasks", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "tasks"


def right(prompt):
    """A model that answers with the options it knows: it writes Jupiter, whatever it is asked."""
    return " Jupiter is it"


def prompts(dataset, **options):
    found = package.preview(dataset, lmeval_root="tasks", **options)
    return [request.prompt.text for shown in found for request in shown.requests]


def figures(result):
    return {(row["task"], row["metric"]): (round(row["value"], 4), row["n"]) for row in result.results}


def test_a_run_goes_on_where_it_ended(tasks, capsys):
    command = ("run", "-m", "embedded", "-d", CHOICE, "--lmeval-root", "tasks", "--out", "run")
    assert kshot(capsys, *command, "--max-requests", "3").code == 4
    done = kshot(capsys, *command)
    assert done.code == 0
    assert json.loads(Path("run/spec.json").read_text())["spent"]["model"]["requests"] == 6
    assert "planets_choice  acc       6" in done.out


def test_a_group_runs_from_the_command_line(tasks, capsys):
    done = kshot(capsys, "run", "-m", "embedded", "-d", "lmeval:planets", "--lmeval-root", "tasks", "--out", "run")
    assert done.code == 0, done.err
    rows = json.loads(Path("run/summary.json").read_text())["results"]
    assert [(row["task"], row["metric"], row["n"]) for row in rows] == [
        ("planets_choice", "acc", 6),
        ("planets_choice", "acc_norm", 6),
        ("planets_write", "exact_match,first-word", 5),  # process_docs drops a long question
        ("planets_write", "exact_match,whole", 5),
        ("planets_mention", "mentions", 6),
        ("planets", "acc", 6),
        ("planets", "exact_match", 5),
    ]
    assert f"functions of the task files in {tasks} run confined" in done.err
    facts = json.loads(Path("run/spec.json").read_text())["tasks"]["embedded"]["planets_write"]
    assert set(facts["files"]) == {"planets_write.yaml", "_planets.yaml", "utils.py"}
    assert (facts["version"], facts["num_fewshot"], facts["split"]) == (1.0, 0, "test")
    (tasks / "utils.py").write_text((tasks / "utils.py").read_text() + "# more\n")
    scored = kshot(capsys, "score", "run")
    assert scored.code == 0
    assert scored.out == done.out
    assert "planets_write: utils.py changed since the run" in scored.err
    assert "planets_choice: utils.py" not in scored.err


def test_a_function_is_a_model_and_figures_follow_its_replies(tasks):
    result = package.evaluate(right, "lmeval:planets_write", lmeval_root="tasks")
    assert figures(result) == {
        ("planets_write", "exact_match,first-word"): (20.0, 5),  # one of five answers is Jupiter
        ("planets_write", "exact_match,whole"): (0.0, 5),
    }
    mention = package.evaluate(right, "lmeval:planets_mention", lmeval_root="tasks")
    assert figures(mention) == {("planets_mention", "mentions"): (0.1667, 6)}  # a function's own scale


def test_the_number_of_examples(tasks):
    own = prompts(CHOICE, limit=1)[0]
    assert own.startswith("These questions are about planets.\n\nQuestion: ")
    assert own.count("Question: ") == 3  # two examples, as the file says, and the question
    assert prompts(CHOICE, limit=1, num_shots=1)[0].count("Question: ") == 2
    assert prompts(CHOICE, limit=1, num_shots=0)[0].count("Question: ") == 1  # -k 0 is not "as the file says"
    assert prompts(f"{CHOICE},num_fewshot=0", limit=1)[0].count("Question: ") == 1
    assert prompts(f"{CHOICE},num_shots=3", limit=1)[0].count("Question: ") == 4
    assert prompts(f"{CHOICE},num_shots=3", limit=1, num_fewshot=1)[0].count("Question: ") == 4  # its own goes first
    assert prompts(f"{CHOICE},num_shots=3", limit=1, num_shots=[0, 1])[0].count("Question: ") == 4
    assert prompts(f"{CHOICE},num_shots=0", limit=1)[0].count("Question: ") == 1  # nor is this one
    with pytest.raises(UsageError, match="num_shots=0 and num_fewshot=1 both say how many examples it shows"):
        prompts(f"{CHOICE},num_fewshot=1,num_shots=0")
    (tasks / "planets_choice.yaml").write_text((tasks / "planets_choice.yaml").read_text() + "num_fewshot: 0\n")
    assert prompts(CHOICE, limit=1, num_shots=2)[0].count("Question: ") == 1  # a file that says 0 keeps it


def test_runs_are_compared_by_a_group_as_it_is_weighted(tasks):
    group = "group: pair\ntask: [planets_choice, few]\naggregate_metric_list: [{metric: acc}]\n"
    (tasks / "pair.yaml").write_text(group)
    (tasks / "few.yaml").write_text(
        (tasks / "planets_choice.yaml").read_text().replace("task: planets_choice", "task: few") + "dataset_path: few\n"
    )
    (tasks / "few").mkdir()
    for split in ("test", "train"):
        rows = (tasks / "data" / f"{split}.jsonl").read_text().splitlines(keepends=True)
        (tasks / "few" / f"{split}.jsonl").write_text("".join(rows[1:3] if split == "test" else rows))
    found = [package.evaluate("embedded", "lmeval:pair", lmeval_root="tasks", num_shots=k, out=f"k{k}") for k in (1, 2)]
    values = [next(row["value"] for row in each.results if row["task"] == "pair") for each in found]
    (row,) = [row for row in package.compare("k1", "k2").rows if row["task"] == "pair"]
    assert (row["baseline_value"], row["run_value"]) == pytest.approx(tuple(values))
    assert (row["average"], row["n"]) == ("weighted", 8)


def test_a_file_that_says_0_is_no_point_of_a_curve(tasks, capsys):
    path = tasks / "planets_choice.yaml"
    (tasks / "none.yaml").write_text(
        path.read_text().replace("task: planets_choice", "task: none") + "num_fewshot: 0\n"
    )
    result = package.evaluate("embedded", ["lmeval:none", CHOICE], lmeval_root="tasks", num_shots=[0, 2], limit=1)
    assert [row["task"] for row in result.results if row["metric"] == "acc"] == [
        "none", "planets_choice,num_shots=0", "planets_choice,num_shots=2"
    ]  # fmt: skip
    run = ("run", "-m", "embedded", "-d", "lmeval:none", "--lmeval-root", "tasks", "--limit", "1", "--out", "run")
    told = kshot(capsys, *run, "-k", "2")
    assert told.code == 0
    assert "none: its file says num_fewshot 0, which stays, as in lm-eval" in told.err
    swept = kshot(capsys, *run, "-k", "1,2")
    assert swept.code == 2
    assert "--num-shots has several values (1, 2), and it has no effect on lmeval:none" in swept.err


def test_a_group_has_figures_at_each_value_of_a_sweep(tasks):
    found = package.evaluate("embedded", "lmeval:planets", lmeval_root="tasks", num_shots=[0, 2]).results
    groups = [row for row in found if "average" in row]
    assert [(row["task"], row["metric"], row["swept"], row["sweep"], row["tasks"]) for row in groups] == [
        (f"planets,num_shots={k}", metric, "planets", {"num_shots": k}, [f"{task},num_shots={k}"])
        for k in (0, 2)
        for metric, task in (("acc", "planets_choice"), ("exact_match", "planets_write"))
    ]
    by_name = {(row["task"], row["metric"]): row["value"] for row in found}
    assert by_name["planets,num_shots=2", "acc"] == by_name["planets_choice,num_shots=2", "acc"]


def test_a_task_is_compared_with_each_of_its_own_points(tasks):
    """Tasks on the same rows ask the same questions: only their names tell which points are whose."""
    names = ["lmeval:planets_write", "lmeval:planets_mention"]
    package.evaluate("embedded", names, lmeval_root="tasks", out="plain")
    package.evaluate("embedded", names, lmeval_root="tasks", num_shots=[0, 2], out="swept")
    pairs = {(row["task"], row["run_task"]) for row in package.compare("plain", "swept").rows}
    assert pairs == {(name[7:], f"{name[7:]},num_shots={k}") for name in names for k in (0, 2)}


def test_a_limit_does_not_change_the_examples(tasks):
    assert prompts(CHOICE, limit=2) == prompts(CHOICE)[:2]


def test_the_python_surface_and_a_run_ask_the_same(tasks):
    rows = {name: [json.loads(line) for line in (tasks / f"data/{name}.jsonl").open()] for name in ("test", "train")}
    with package.lmeval.load(tasks / "planets_choice.yaml") as task:
        asked = [(each["context"], each["continuation"]) for each in task.requests(rows)]
    shown = [
        (request.prompt.text, text)
        for each in package.preview(CHOICE, lmeval_root="tasks")
        for request in each.requests
        for text in request.continuations
    ]
    assert shown == asked


def test_chat_models_get_turns_or_one_message(tasks):
    (shown, *_) = package.preview(CHOICE, lmeval_root="tasks", model_type="chat", system_prompt="Be brief.")
    roles = [message.role for message in shown.requests[0].prompt.messages]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    assert shown.requests[0].prompt.messages[0].text.startswith("Be brief.")
    assert "These questions are about planets." in shown.requests[0].prompt.messages[0].text
    (shown, *_) = package.preview(CHOICE, lmeval_root="tasks", model_type="chat", examples_as="text")
    assert [message.role for message in shown.requests[0].prompt.messages] == ["system", "user"]
    assert shown.requests[0].prompt.messages[1].text.count("Question: ") == 3


# ---- rows ----


def test_rows_of_ones_own(tasks, tmp_path):
    row = {"question": "Which one is it?", "options": ["Mars", "Venus"], "answer": "Venus"}
    Path("splits.json").write_text(json.dumps({"test": [row], "train": [row | {"question": f"No {n}?"} for n in "12"]}))
    Path("mine/planets_choice").mkdir(parents=True)
    for split in ("test", "train"):
        Path(f"mine/planets_choice/{split}.jsonl").write_text(f"{json.dumps(row)}\n" * 3)
    Path("lines.jsonl").write_text(json.dumps(row) + "\n")
    (tasks / "planets_write.yaml").unlink()
    (tasks / "other.yaml").write_text("include: planets_choice.yaml\ntask: other\n")
    by_name = prompts("lmeval:planets_quick", data=["planets_choice=splits.json"])
    assert sum("Which one is it?" in text for text in by_name) == 1
    assert len(by_name) == 1 + 6  # the other task keeps its own rows
    assert len(prompts("lmeval:planets_quick", data=["planets_quick=splits.json"])) == 2
    assert len(prompts("lmeval:planets_quick", data=["data=splits.json"])) == 2  # by the dataset that the files name
    assert len(prompts("lmeval:planets_quick", dataset_path="splits.json")) == 2
    assert len(prompts(f"{CHOICE},dataset_path=mine")) == 3
    assert len(prompts(f"{CHOICE},num_fewshot=0", data=["lines.jsonl"])) == 1
    with pytest.raises(DataError, match="it has no splits, so it cannot be both 'test' and 'train'"):
        prompts(CHOICE, data=["lines.jsonl"])


def test_data_that_belongs_to_no_task(tasks, capsys):
    done = kshot(capsys, "run", "-m", "embedded", "-d", CHOICE, "--lmeval-root", "tasks", "--data", "planet=x")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "--data planet=x: no entry is called planet. There are: planets_choice, data." in done.err


def write(folder, **keys):
    """Write a task file with a question and an answer, and these keys."""
    base = {"task": "own", "test_split": "test", "doc_to_text": "q", "doc_to_target": "a", **keys}
    path = folder / "own.yaml"
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in base.items() if value is not None))
    return f"lmeval:{path}"


@pytest.mark.parametrize(
    ("keys", "count"),
    [
        ({"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}}}, 2),
        ({"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": ["rows.jsonl", "rows.jsonl"]}}}, 4),
        ({"dataset_path": "json", "dataset_kwargs": {"data_files": "rows.jsonl"}, "test_split": "train"}, 2),
        ({"dataset_path": "rows.jsonl"}, 2),
        ({"dataset_path": ".", "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}}}, 2),
        ({"dataset_path": "folder", "dataset_name": "small"}, 1),
    ],
)
def test_rows_beside_the_task_file(tmp_path, keys, count):
    (tmp_path / "rows.jsonl").write_text('{"q": "One?", "a": "1"}\n{"q": "Two?", "a": "2"}\n')
    (tmp_path / "folder/small").mkdir(parents=True)
    (tmp_path / "folder/small/test.jsonl").write_text('{"q": "Three?", "a": "3"}\n')
    assert len(package.preview(write(tmp_path, **keys))) == count


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"dataset_path": "../secret.jsonl"}, "outside its own tree. If they may be read: --data own="),
        (
            {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "../secret.jsonl"}}},
            "outside its own tree",
        ),
        ({"dataset_path": "link.jsonl"}, "outside its own tree"),
        ({"dataset_path": "linked"}, "outside its own tree"),
        ({"dataset_path": "../{split}.jsonl", "test_split": "secret"}, "outside its own tree"),
        ({"dataset_path": "{split}/../../secret.jsonl", "test_split": "linked"}, "outside its own tree"),
        ({"dataset_path": "~/secret.jsonl"}, "outside its own tree"),
        ({"dataset_path": "~/{split}.jsonl", "test_split": "secret"}, "outside its own tree"),
        ({"dataset_path": "linked", "dataset_kwargs": {"data_files": {"test": "a\0b"}}}, "which is no path"),
        ({"dataset_path": "o/n", "dataset_kwargs": {"data_files": "/etc/*"}}, "names '/etc/*', outside the dataset"),
        ({"dataset_path": "o/n", "dataset_kwargs": {"data_dir": "~/x"}}, "names '~/x', outside the dataset"),
        ({"dataset_path": "o/n", "dataset_kwargs": {"cache_dir": "x"}}, "cache_dir, which a task may not choose"),
        ({"dataset_path": ".", "dataset_kwargs": {"data_files": {"test": "../secret.jsonl"}}}, "outside its own tree"),
        ({"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "gone.jsonl"}}}, "which is not here"),
        (
            {"dataset_path": "json", "dataset_kwargs": {"data_files": {"dev": "x.jsonl"}}},
            "no file for the split 'test'",
        ),
        ({"dataset_path": "json"}, "data_files lists no file for the split 'test'"),
        ({}, "the task does not say where its rows are (dataset_path)"),
        ({"dataset_path": "rows.jsonl", "test_split": None}, "neither a test_split nor a validation_split"),
    ],
)
def test_rows_that_a_task_may_not_or_cannot_have(tmp_path, keys, said, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    inner = tmp_path / "tree"
    (inner / "linked").mkdir(parents=True)
    monkeypatch.chdir(inner)
    (inner / "linked/test.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (tmp_path / "secret.jsonl").write_text('{"q": "key", "a": "word"}\n')
    (inner / "rows.jsonl").write_text('{"q": "One?", "a": "1"}\n')
    (inner / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    with pytest.raises(KshotError) as caught:
        package.preview(write(inner, **keys))
    assert said in str(caught.value)


def test_a_custom_dataset_makes_its_rows_and_given_rows_replace_it(tmp_path):
    (tmp_path / "maker.py").write_text(
        "import datasets\n\n\ndef make(size, word, **more):\n"
        "    rows = [{'q': f'{word} {n}?', 'a': str(n)} for n in range(size)]\n"
        "    return {'test': datasets.Dataset.from_list(rows)}\n"
    )
    spec = write(tmp_path, dataset_kwargs={"size": 3}, metadata={"word": "No", "version": 1})
    path = tmp_path / "own.yaml"
    path.write_text(path.read_text() + "custom_dataset: !function maker.make\n")
    assert [each.requests[0].prompt.text for each in package.preview(spec)] == ["No 0?", "No 1?", "No 2?"]
    (tmp_path / "given.jsonl").write_text('{"q": "Mine?", "a": "1"}\n')
    assert [each.requests[0].prompt.text for each in package.preview(spec, data=[str(tmp_path / "given.jsonl")])] == [
        "Mine?"
    ]


# ---- faults ----


def test_one_message_for_each_fault_and_exit_code_2(tasks, capsys):
    def fault(*more):
        done = kshot(capsys, "run", "-m", "embedded", "--lmeval-root", "tasks", *more)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("kshot: ")
        assert "Traceback" not in done.err
        return done.err

    assert "no task, group or tag is called 'planet_choice'. Did you mean planets_choice" in fault(
        "-d", "lmeval:planet_choice"
    )
    assert "it names no task. Write lmeval:NAME" in fault("-d", "lmeval:")
    assert "a task file has no option 'shots'" in fault("-d", f"{CHOICE},shots=2")
    assert "--num-fewshot is -1; it must be 0 or more" in fault("-d", CHOICE, "--num-fewshot", "-1")
    assert "two datasets of the run are called 'planets_choice'" in fault("-d", CHOICE, "-d", "lmeval:planets")
    (tasks / "planets_write.yaml").write_text(
        "include: _planets.yaml\ntask: planets_write\ndoc_to_text: '{{questoin}}'\n"
    )
    assert "planets_write.yaml" in fault("-d", "lmeval:planets_write")
    (tasks / "planets_write.yaml").write_text("include: _planets.yaml\ntask: planets_write\nprompt: x\n")
    assert "planets_write.yaml:3:1: a task has no key 'prompt'" in fault("-d", "lmeval:planets_write")


def test_more_examples_than_the_pool_has(tasks):
    with pytest.raises(KshotError, match="4"):
        prompts(CHOICE, num_shots=9)


def test_options_that_change_nothing_are_told(tasks, capsys):
    done = kshot(
        capsys, "run", "-m", "embedded", "-d", f"{CHOICE},limit=1", "--lmeval-root", "tasks", "--retriever", "bm25",
        "--instruction", "x",
    )  # fmt: skip
    assert done.code == 0
    assert f"--retriever has no effect on {CHOICE},limit=1" in done.err
    assert "--instruction has no effect" in done.err


def test_a_source_names_the_packages_that_it_needs(tasks):
    source = LmevalSource(CHOICE, "tasks")
    assert source.packages(settings_from({})) == {"a task file of lm-eval": ("pyyaml",)}
    assert LmevalSource("lmeval:planets_write", "tasks").packages(settings_from({})) == {
        "a task file of lm-eval": ("pyyaml", "datasets")
    }


def test_an_option_of_its_own_that_a_task_file_does_not_read_is_refused(tasks, capsys):
    for option in ("retriever=bm25", "max_tokens=3", "instruction=x"):
        done = kshot(capsys, "run", "-m", "embedded", "-d", f"{CHOICE},{option}", "--lmeval-root", "tasks")
        assert done.code == 2
        assert f"{CHOICE},{option}: its option {option.partition('=')[0]} has no effect" in done.err


# ---- check and list ----


def test_check_says_what_would_run(tasks, capsys):
    (tasks / "broken.yaml").write_text(
        "task: broken\ntest_split: test\nprocess_docs: !function utils.gone\ndataset_path: org/rows\n"
    )
    (tasks / "python.yaml").write_text("task: python\nclass: !function utils.Task\n")
    (tasks / "picture.yaml").write_text("task: picture\ndoc_to_image: image\n")
    done = kshot(capsys, "check", "--json", "lmeval:tasks")
    found = {check["entry"]: check for check in map(json.loads, done.out.splitlines())}
    assert done.code == 1
    assert found["planets_choice"] | {"config": ""} == {
        "config": "", "entry": "planets_choice", "prompts": "compares choices, 2 examples", "data": "6 documents",
        "evaluation": "acc, acc_norm", "judge": "", "missing": [], "notes": [],
    }  # fmt: skip
    assert found["broken"]["data"] == "hub: org/rows"
    assert "utils.gone" in found["broken"]["missing"][0]
    assert "written as a Python class" in found["python"]["missing"][0]
    assert "needs image input" in found["picture"]["missing"][0]
    shown = kshot(capsys, "check", "lmeval:planets_write", "--lmeval-root", "tasks")
    assert shown.code == 0
    assert "lmeval:planets_write: 1 of 1 entries would run" in shown.out


def test_list_shows_the_names_of_a_tree(tasks, capsys):
    done = kshot(capsys, "list", "lmeval", "--lmeval-root", "tasks")
    assert done.out.splitlines()[0].split() == ["lmeval:planets", "group", "in", "planets.yaml"]
    assert "lmeval:planets_quick    tag of 2 tasks" in done.out


def test_a_path_that_is_not_there_is_told_with_its_name_and_the_line_of_a_run_file(tasks, capsys):
    for path in ("tasks/nothing.yaml", "./nothing", "tasks/*.yml"):
        done = kshot(capsys, "run", "-m", "embedded", "-d", f"lmeval:{path}")
        assert (done.code, f"kshot: {path}: there is no such task file or folder" in done.err) == (2, True), done.err
    Path("suite.toml").write_text('models = ["embedded"]\n[[datasets]]\nname = "lmeval:tasks/nothing.yaml"\n')
    done = kshot(capsys, "run", "suite.toml")
    assert done.err.startswith("kshot: suite.toml:2: tasks/nothing.yaml: there is no such task file or folder")
