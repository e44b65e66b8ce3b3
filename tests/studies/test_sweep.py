"""Sweeps: several values of an option in one run."""

import json
import statistics
from pathlib import Path

import pytest

import kshot
from kshot import Em, GenerationDataset, MultipleChoiceDataset, Task
from kshot.core.errors import UsageError
from kshot.core.protocols import Abilities
from kshot.core.records import Generated
from kshot.report.gates import step_summary
from kshot.report.sweeps import sweep_verdicts
from kshot.runs.swept_rows import swept_figures
from kshot.settings import Settings, settings_from
from kshot.sources import source_of
from kshot.studies.sweep import own_values
from tests.configs.written import RACE
from tests.datasets.fakes import Fake

COLOURS = ["red", "green", "blue", "grey"]
OWN = "{question}\nAnswer:"


class Colours(MultipleChoiceDataset):
    """Twelve questions about colours; the answers follow no rule."""

    instruction = OWN

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = [{"question": f"Thing {at}?", "answer": at % 4} for at in range(12)]
        self.example_data = [{"question": f"Case {at}?", "answer": at % 3} for at in range(8)]

    def format_instance(self, row):
        return {"question": row["question"], "options": COLOURS, "target_idx": row["answer"]}


class Names(GenerationDataset):
    """The same things, asked for in words."""

    instruction = "{question}\nName:"
    metrics = [Em()]
    extra_model_args = {"max_tokens": 4}
    load_raw_dataset = Colours.load_raw_dataset

    def format_instance(self, row):
        return {"question": row["question"], "target": COLOURS[row["answer"]]}


class Parts(Colours):
    """The same in two subsets."""

    categorized_subsets = {"all": ["warm", "cold"]}


class Counting:
    """Names the right option if there are examples enough, and remembers every prompt."""

    def __init__(self):
        self.prompts = []

    def __call__(self, prompt):
        text = str(prompt)
        self.prompts.append(text)
        number = int(text.rpartition("Thing ")[2].partition("?")[0])
        right = number < 2 + 2 * text.count("Case")
        return "ABCD"[(number if right else number + 1) % 4]


def swept(dataset=Colours, **options):
    """Run a sweep; return the result and the prompts that the model got."""
    model = Counting()
    defaults = {} if dataset is Names else {"ranking_type": "generation"}
    return kshot.evaluate(model, dataset, **{**defaults, **options}), model.prompts


def figures(result, metric="Accuracy"):
    return {row["task"]: row["value"] for row in result.results if row["metric"] == metric and not row.get("detail")}


def test_each_value_has_the_figure_that_it_has_alone():
    result, prompts = swept(num_shots=[0, 1, 4])
    alone = {f"colours,num_shots={k}": figures(swept(num_shots=k)[0])["colours"] for k in (0, 1, 4)}
    assert figures(result) == alone
    assert len(set(alone.values())) == 3
    assert len(prompts) == 36


def test_rows_have_the_values_as_labels():
    result, _ = swept(num_shots=(0, 2), retriever=["random", "bm25,k1=1.2"])
    rows = {row["task"]: row for row in result.results}
    assert rows["colours,num_shots=2,retriever=bm25\\,k1=1.2"]["sweep"] == {"num_shots": 2, "retriever": "bm25,k1=1.2"}
    assert {row["swept"] for row in rows.values()} == {"colours"}
    assert next(iter(rows)) == "colours,num_shots=0"  # one point for both retrievers
    assert len(rows) == 3


def test_equal_requests_are_asked_once():
    result, prompts = swept(instruction=[None, OWN, "Say: {question}\nAnswer:"])  # the first two are the same
    assert len(prompts) == 24
    assert figures(result).keys() == {f"colours,instruction={number}" for number in (1, 2, 3)}
    assert [row["sweep"]["instruction"] for row in result.results][:2] == [None, OWN]


def test_a_value_that_changes_nothing_is_no_point():
    result, _ = swept(ranking_type=["generation"], num_shots=[0, 2], temperature=[0, 0.5])
    assert {tuple(row["sweep"]) for row in result.results} == {("num_shots", "temperature")}
    both = kshot.evaluate(Counting(), [Colours, Names], num_shots=1, ranking_type="generation", instruction=[None, OWN])
    assert {row["task"] for row in both.results} == {
        *("colours,instruction=1", "colours,instruction=2"),
        *("names,instruction=1", "names,instruction=2"),
    }
    mixed = kshot.evaluate(Counting(), [Colours, Names], ranking_type=["generation", "auto"])
    assert [row["task"] for row in mixed.results if row["task"].startswith("names")] == ["names"]


def test_one_value_in_a_list_is_no_sweep():
    result, _ = swept(num_shots=[2])
    assert figures(result).keys() == {"colours"}
    assert not any("sweep" in row for row in result.results)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"temperature": [0, 1], "ranking_type": "ppl"},
            r"--temperature has several values \(0, 1\), and it has no effect",
        ),
        ({"shots": [0, 1]}, "--shots has several values"),
        ({"num_shots": []}, "num_shots is an empty list"),
        ({"num_shots": [0, -1]}, "--num-shots is -1; it must be 0 or more"),
        ({"num_shots": [0, "x"]}, "num_shots is 'x'; it must be int"),
        ({"ranking_type": ["ppl", "best"]}, "--ranking-type is 'best'; it must be one of ppl_no_option"),
        ({"num_shots": [1, 2], "retriever": ["random", "nothing"]}, "no retriever"),
    ],
)
def test_what_cannot_be_swept(options, told):
    with pytest.raises(UsageError, match=told):
        kshot.evaluate(Counting(), Colours, **{"ranking_type": "generation", **options})


def test_passages_and_tasks_take_one_value():
    with pytest.raises(UsageError, match="handbook: --num-shots has several values, and passages take one"):
        kshot.evaluate(None, "handbook", num_shots=[0, 1])
    task = Task("mine", [], lambda sample, _: sample, lambda sample, _: iter(()), (Em(),))
    with pytest.raises(UsageError, match="it has no effect on mine"):
        kshot.evaluate(Counting(), task, num_shots=[0, 1])


FILE = f"{Path(__file__)}:Colours"


def test_values_after_a_name_are_a_sweep_of_that_dataset():
    result, _ = swept([f"{FILE},num_shots=0+2", f"{Path(__file__)}:Names,num_shots=1"], num_shots=3)
    assert set(figures(result)) == {"colours,num_shots=0", "colours,num_shots=2"}
    assert set(figures(result, "EM")) == {"names,num_shots=1"}
    with pytest.raises(UsageError, match=r"Colours,num_shots=0\+x: num_shots is '0\+x'; each value must be int"):
        kshot.evaluate(Counting(), f"{FILE},num_shots=0+x")
    assert not source_of(f"{FILE},instruction={{question}}1+1=", Settings()).label.endswith("1")  # one text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("quiz,num_shots=0+5", {"num_shots": ["0", "5"]}),
        ("quiz,num_shots=5", {}),
        ("lmeval:arc_easy,num_fewshot=0+25", {"num_fewshot": ["0", "25"]}),
        ("quiz,seed=3,retriever=random+bm25\\,k1=1.2", {"retriever": ["random", "bm25,k1=1.2"]}),
        ("quiz,retriever=fixk\\,fix_id_list=0+2", {}),
        ("quiz,retriever=fixk\\,fix_id_list=0+2+zero", {"retriever": ["fixk,fix_id_list=0+2", "zero"]}),
        ("quiz,instruction={a}+{b}", {}),
        ("quiz,stop=a+b", {}),
    ],
)
def test_which_options_after_a_name_have_several_values(text, found):
    assert own_values(text) == found


def test_subsets_have_an_average_at_each_value():
    result, _ = swept(Parts, num_shots=[0, 2])
    averages = [row for row in result.results if "tasks" in row]
    assert [row["task"] for row in averages] == ["parts,num_shots=0[Macro Average]", "parts,num_shots=2[Macro Average]"]
    assert averages[1]["tasks"] == ["parts:warm,num_shots=2", "parts:cold,num_shots=2"]
    assert {row["dataset"] for row in result.results} == {"parts,num_shots=0", "parts,num_shots=2"}
    (compared,) = [row for row in result.comparisons if row["metric"] == "Accuracy"]
    assert (compared["task"], compared["a_value"], compared["b_value"], compared["n"]) == (
        "parts[Macro Average]",
        0,
        2,
        24,
    )


def test_draws_of_examples_at_each_value():
    result, _ = swept(num_shots=[0, 2], retriever_seeds="0..2")
    spread = [row for row in result.results if "sd" in row and not row.get("detail")]
    assert [row["task"] for row in spread] == ["colours,num_shots=2[3 draws of examples]"]
    assert spread[0]["swept"] == "colours[3 draws of examples]"
    assert "colours,num_shots=0" in figures(result)


def test_zero_examples_of_token_lookup_are_none():
    shown = kshot.preview("lookup:UR", num_shots=[0, 2], length=10, variant="sep|small|bare", limit=1)
    prompts = {each.task: each.requests[0].prompt.text for each in shown}
    assert list(prompts) == ["lookup:UR:10:sep|small|bare,num_shots=0", "lookup:UR:10:sep|small|bare,num_shots=2"]
    few, more = (prompt.count("\n") for prompt in prompts.values())
    assert few < more


def test_a_folder_continues_and_is_scored_again(tmp_path):
    options = {"num_shots": [0, 2], "out": tmp_path / "run", "dataset": FILE}
    _, first = swept(**options)
    before = json.loads((tmp_path / "run/summary.json").read_text())
    _, again = swept(**options)
    assert len(first) == 24
    assert again == []
    kshot.score(tmp_path / "run")
    assert json.loads((tmp_path / "run/summary.json").read_text()) == before
    spec = json.loads((tmp_path / "run/spec.json").read_text())
    assert spec["identity"]["num_shots"] == [0, 2]
    assert settings_from(spec["options"]).sweep == (("num_shots", (0, 2)),)


def test_the_shots_of_a_retriever_are_recorded_at_each_value(tmp_path):
    swept(FILE, num_shots=[0, 2], retriever="bm25", out=tmp_path)
    (facts,) = json.loads((tmp_path / "spec.json").read_text())["tasks"].values()
    assert {name: each["shots"] for name, each in facts.items()} == {"colours,num_shots=0": 0, "colours,num_shots=2": 2}


def test_a_config_sweeps_the_retriever_of_the_user(tmp_path):
    rows = [{**dict.fromkeys(("article", "question", *"ABCD"), f"text {at}"), "answer": "A"} for at in range(4)]
    for split in ("test", "validation"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "race.py").write_text(RACE)
    options = {"only": "race-middle", "data": f"race-middle={tmp_path}", "limit": 1}
    with pytest.raises(UsageError, match="--num-shots has several values"):  # its own retriever chooses its own number
        kshot.evaluate(Counting(), str(tmp_path / "race.py"), num_shots=[0, 1], **options)
    shown = kshot.preview(str(tmp_path / "race.py"), num_shots=[0, 1, 3], retriever="random", **options)
    counts = {each.task: each.requests[0].prompt.text.count("Read, then reply") - 1 for each in shown}
    assert counts == {f"race-middle,num_shots={k}": k for k in (0, 1, 3)}


def test_entries_of_a_config_have_an_average_at_each_value(tmp_path):
    rows = [{**dict.fromkeys(("article", "question", *"ABCD"), f"text {at}"), "answer": "A"} for at in range(4)]
    for split in ("test", "validation"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "race.py").write_text(RACE)
    data = [f"race-{level}={tmp_path}" for level in ("middle", "high")]
    result = kshot.evaluate(
        lambda prompt: "A", str(tmp_path / "race.py"), data=data, num_shots=[0, 1], retriever="random"
    )
    averages = [(row["task"], row["swept"], row["tasks"]) for row in result.results if "tasks" in row]
    assert averages == [
        (f"race_datasets,num_shots={k}[Macro Average]", "race_datasets[Macro Average]",
         [f"race-{level},num_shots={k}" for level in ("middle", "high")])
        for k in (0, 1)
    ]  # fmt: skip


class Tokens(Fake):
    """Says "A", and counts a token for each character."""

    abilities = Abilities(count_tokens=len)


class Lengthening(Colours):
    """Examples of which each is longer than the one before."""

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        super().load_raw_dataset(dataset_path, subset_name, evaluation_set, example_set)
        self.example_data = [{"question": f"Case {'x' * at}?", "answer": at % 3} for at in range(40)]


class LengtheningParts(Lengthening):
    """The same in two subsets."""

    categorized_subsets = {"all": ["warm", "cold"]}


def shown_counts(result):
    """The examples in the prompts of each task."""
    counts = {}
    for sample in result.samples:
        counts.setdefault(sample["task"], []).append(str(sample["prompt"]).count("Case"))
    return counts


def test_without_a_budget_every_example_is_shown():
    model = Tokens(lambda _: Generated("A"))
    result = kshot.evaluate(model, Lengthening, num_shots=[10, 30], ranking_type="generation")
    assert shown_counts(result) == {f"lengthening,num_shots={k}": [k] * 12 for k in (10, 30)}
    assert [row["shots_shown"] for row in result.results if row["metric"] == "Accuracy"] == [10, 30]


def test_points_that_show_the_same_examples_are_asked_drawn_and_tested_once():
    asked = []
    model = Tokens(lambda request: asked.append(request) or Generated("A"))
    options = {"num_shots": [2, 20, 30], "ranking_type": "generation", "max_example_tokens": 300}
    result = kshot.evaluate(model, Lengthening, **options)
    (few, many, more) = shown_counts(result).values()
    assert few == [2] * 12
    assert many == more
    assert 2 < many[0] < 20
    assert len(asked) == 24
    (drawn,) = swept_figures(result.results)
    assert (drawn.steps, drawn.labels) == ((2, many[0]), ("2", str(many[0])))
    (tested,) = result.comparisons
    assert (tested["a_shots_shown"], tested["b_shots_shown"]) == (2, many[0])
    (sentence,) = sweep_verdicts([tested])
    assert f"k = 2 and {many[0]}" in sentence
    (row,) = [row for row in result.results if row["task"] == "lengthening,num_shots=30" and not row.get("detail")]
    assert row["same_prompts"] == "lengthening,num_shots=20"
    assert "lengthening,num_shots=30: its prompts are those of lengthening,num_shots=20" in " ".join(result.notes)


def test_tables_and_comparisons_of_runs_say_what_is_shown_and_have_it_once(tmp_path):
    options = {"num_shots": [2, 20, 30], "ranking_type": "generation", "max_example_tokens": 300}
    runs = [tmp_path / word for word in ("one", "two")]
    results = [
        kshot.evaluate(Tokens(lambda _, word=word: Generated(word)), Lengthening, out=run, **options)
        for run, word in zip(runs, "AB", strict=True)
    ]
    kshot.export(runs[0], to="markdown", out=tmp_path / "table.md")
    for table in ((tmp_path / "table.md").read_text(), results[0]._repr_html_(), step_summary(results[0], [])):
        assert "lengthening,num_shots=20 [7 shown]" in table.replace("\\", "")
        assert "num_shots=30" not in table
    pairs = {row["task"] for row in kshot.compare(*runs).rows}
    assert pairs == {"lengthening,num_shots=2", "lengthening,num_shots=20"}


def test_more_examples_than_there_are_is_the_point_with_all_of_them():
    result, prompts = swept(num_shots=[3, 8, 20, 100])
    (drawn,) = swept_figures(result.results)
    assert drawn.labels == ("3", "8")
    assert len(prompts) == 24
    assert len(result.comparisons) == 1


def test_numbers_of_examples_that_vary_are_a_median_and_a_range(tmp_path):
    options = {"num_shots": [1, 5, 8], "retriever": "random", "max_example_tokens": 150, "out": tmp_path / "run"}
    model, data = Tokens(lambda _: Generated("A")), f"{Path(__file__)}:Lengthening"
    result = kshot.evaluate(model, data, ranking_type="generation", **options)
    whole = shown_counts(result)["lengthening,num_shots=8"]
    (row,) = [row for row in result.results if row["sweep"]["num_shots"] == 8 and not row.get("detail")]
    assert len(set(whole)) > 1
    assert (row["shots_shown"], row["shots_range"]) == (statistics.median(whole), [min(whole), max(whole)])
    (drawn,) = swept_figures(result.results)
    assert f"{statistics.median(whole):g} ({min(whole)}–{max(whole)})" in drawn.labels
    assert kshot.score(tmp_path / "run").results == result.results


def test_an_average_over_subsets_shows_what_its_subsets_show():
    model = Tokens(lambda _: Generated("A"))
    options = {"num_shots": [2, 20, 30], "ranking_type": "generation", "max_example_tokens": 300}
    result = kshot.evaluate(model, LengtheningParts, **options)
    drawn = swept_figures(result.results)
    assert {(each.labels[0], len(each.labels)) for each in drawn} == {("2", 2)}
    assert {row["b_value"] for row in result.comparisons} == {20}


def test_a_class_that_constructs_its_examples_is_drawn_by_what_was_asked():
    class Own(Colours):
        def construct_examples(self, instance=None):
            return "Case A\n\n" * (2 * self.num_shots)

    result, _ = swept(Own, num_shots=[1, 2])
    (drawn,) = swept_figures(result.results)
    assert drawn.labels == ("1", "2")


TASK_FILE = """
task: things
dataset_path: json
test_split: test
fewshot_split: train
output_type: multiple_choice
doc_to_text: "{{question}}\\nAnswer:"
doc_to_choice: ["red", "green"]
doc_to_target: answer
num_fewshot: 3
metric_list: [{metric: acc}]
"""


@pytest.mark.needs("pyyaml")
@pytest.mark.parametrize(
    ("option", "values", "after"),
    [("num_shots", [0, 2], ""), ("num_fewshot", [0, 2], ""), ("num_fewshot", None, ",num_fewshot=0+2")],
)
def test_a_task_file_of_lm_eval_shows_as_many_examples_as_the_sweep_says(option, values, after, tmp_path):
    for split, word in (("test", "Thing"), ("train", "Case")):
        rows = [{"question": f"{word} {at}?", "answer": at % 2} for at in range(6)]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "things.yaml").write_text(TASK_FILE)
    named = f"lmeval:{tmp_path / 'things.yaml'}{after}"
    shown = kshot.preview(named, limit=1, data=f"things={tmp_path}", **({} if values is None else {option: values}))
    counts = {each.task: each.requests[0].prompt.text.count("Case") for each in shown}
    assert counts == {f"things,{option}=0": 0, f"things,{option}=2": 2}
