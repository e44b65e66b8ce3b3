"""Evaluations of config entries: the same as those of a class, whole files, inferencers and repeats."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kshot import GenerationDataset, MultipleChoiceDataset, score
from kshot.api import evaluate
from kshot.backends import open_model
from kshot.backends.adapters import as_model
from kshot.configs import ConfigSource, entry, load, splits_of, task_of
from kshot.configs.data import read_data
from kshot.core.errors import DataError, UsageError
from kshot.core.memo import MemoryMemo
from kshot.core.protocols import Source
from kshot.core.records import Generate, Generated, Likelihood, Loglik, Scored
from kshot.index.store import Store
from kshot.metrics import Accuracy
from kshot.runs.runner import Run
from kshot.settings import Settings
from tests.configs.written import ARC, GSM8K, OWN, RAW, tree, write
from tests.measures import measure

CAPITALS = [("France", "Paris"), ("Germany", "Berlin"), ("Italy", "Rome"), ("Peru", "Lima"), ("Cuba", "Havana")]
ROWS = [{"country": country, "city": city, "n": str(i)} for i, (country, city) in enumerate(CAPITALS)]


class Speaker:
    """Answers generation by a function, likelihood by length; keeps the requests."""

    name = fingerprint = "speaker"
    answers = (Generate, Loglik)

    def __init__(self, say=lambda text: "B."):
        self.say, self.asked = say, []

    def serve(self, queue):
        for request in queue:
            self.asked.append(request)
            if isinstance(request, Generate):
                yield request, Generated(self.say(request.prompt.text))
            else:
                yield (
                    request,
                    Scored(tuple(Likelihood(-float(len(t)) / 7 - t.count("o"), len(t)) for t in request.continuations)),
                )


def run(source, backend, judge=None, **options):
    helpers = {"judge": as_model(judge)} if judge else {}
    return Run(Settings(**options), MemoryMemo(), store=Store(), helpers=helpers).all([as_model(backend)], [source])


def values(result):
    return {(row["task"], row["metric"]): row["value"] for row in result.results}


def gen_entry(**more):
    return {
        "abbr": "cities",
        "reader_cfg": {"input_columns": ["country"], "output_column": "city"},
        "infer_cfg": {
            "prompt_template": {"type": "PromptTemplate", "template": "The capital of {country} is"},
            "retriever": {"type": "ZeroRetriever"},
            "inferencer": {"type": "GenInferencer", "max_out_len": 6},
        },
        "eval_cfg": {"evaluator": {"type": "AccEvaluator"}},
        **more,
    }


# ---- the same evaluation as a class ----


class Cities(GenerationDataset):
    """The same in free text, right if its first capital letter is."""

    instruction = "The capital of {country} is"
    metrics = (Accuracy(),)
    extra_model_args = {"max_tokens": 6}

    def load_raw_dataset(self, *_):
        self.evaluation_data = ROWS

    def format_instance(self, row):
        return {"country": row["country"]}

    def post_processing(self, predictions):
        return [next((c for c in text if c.isupper()), "") for text in predictions]

    @property
    def references(self):
        return [[row["city"][0]] for row in ROWS]


def test_generation_equals_the_class(tiny_llama):
    rows = [{**row, "city": row["city"][0]} for row in ROWS]
    made = gen_entry(
        eval_cfg={"evaluator": {"type": "AccEvaluator"}, "pred_postprocessor": {"type": "first_capital_postprocess"}}
    )
    backend = open_model(f"hf:{tiny_llama}")
    ours = evaluate(backend, task_of(entry(made), {"test": rows}))
    theirs = evaluate(backend, Cities)
    for mine, other in zip(ours.samples, theirs.samples, strict=True):
        assert (mine["prompt"], mine["response"], mine["answer"]) == (
            other["prompt"],
            other["response"],
            other["answer"],
        )
        assert mine["scores"] == other["scores"]
    assert ours.results[0]["value"] == theirs.results[0]["value"]
    assert ours.results[0]["ci95"] == theirs.results[0]["ci95"]


class Choices(MultipleChoiceDataset):
    """Which whole sentence is least surprising."""

    instruction = ""

    def load_raw_dataset(self, *_):
        self.evaluation_data = ROWS

    def format_instance(self, row):
        return {"options": [f"{row['country']}: {city}" for _, city in CAPITALS], "target_idx": int(row["n"])}


@pytest.mark.parametrize("framework", ["ais_bench", "opencompass", ""])
def test_perplexity_equals_the_class(tiny_llama, framework):
    made = gen_entry(reader_cfg={"input_columns": ["country"], "output_column": "n"})
    made["infer_cfg"] = {
        "prompt_template": {
            "type": "PromptTemplate",
            "template": {str(i): f"{{country}}: {city}" for i, (_, city) in enumerate(CAPITALS)},
        },
        "retriever": {"type": "ZeroRetriever"},
        "inferencer": {"type": "PPLInferencer"},
    }
    one = entry(made)
    one.framework = framework
    backend = open_model(f"hf:{tiny_llama}")
    ours = evaluate(backend, task_of(one, {"test": ROWS}))
    assert len(ours.samples) == 5
    if framework == "opencompass":  # its losses are divided by one token more
        for sample in ours.samples:
            losses = [-each["logprob"] / (each["tokens"] + 1) for each in sample["response"]]
            assert sample["answer"] == str(losses.index(min(losses)))
        return
    theirs = evaluate(backend, Choices)
    assert [int(sample["answer"]) for sample in ours.samples] == [sample["answer"] for sample in theirs.samples]
    name = "accuracy" if framework else "Accuracy"
    mine, other = [s["scores"][name] for s in ours.samples], [s["scores"]["Accuracy"] for s in theirs.samples]
    assert mine == other
    assert ours.results[0]["value"] == theirs.results[0]["value"]


# ---- whole files ----


@pytest.fixture
def gsm8k_rows(tmp_path):
    folder = tmp_path / "gsm"
    folder.mkdir()
    rows = [{"question": f"What is {i} + 1?", "answer": f"So\n#### {i + 1}"} for i in range(4)]
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_a_config_file_runs(tmp_path, gsm8k_rows):
    source = ConfigSource(write(tmp_path, GSM8K), data={"gsm8k": str(gsm8k_rows)})
    backend = Speaker(lambda text: f"It is {int(text.rsplit('What is ')[-1][0]) // 2 + 1}.0, Question: 99")
    result = run(source, backend)
    assert values(result) == {("gsm8k", "accuracy"): 25.0}
    assert [sample["target"] for sample in result.samples] == ["1", "2", "3", "4"]
    assert backend.asked[0] == Generate(backend.asked[0].prompt, max_tokens=64, stop=("Question:",))
    assert backend.asked[0].prompt.text.endswith("It is 3.\n\nQuestion: What is 0 + 1?\nAnswer:")


def test_the_user_wins_over_the_file(tmp_path, gsm8k_rows):
    source = ConfigSource(write(tmp_path, GSM8K))
    backend = Speaker()
    run(
        source,
        backend,
        max_tokens=3,
        temperature=0.5,
        limit=2,
        model_type="chat",
        system_prompt="Hm",
        data=(f"gsm8k={gsm8k_rows}",),
    )
    assert len(backend.asked) == 2
    asked = backend.asked[0]
    assert (asked.max_tokens, asked.temperature, asked.seed) == (3, 0.5, 2023)
    assert [message.role for message in asked.prompt.messages] == ["system", "user", "assistant", "user"]


def test_a_base_model_reads_the_system_prompt_first(tmp_path, gsm8k_rows):
    source = ConfigSource(write(tmp_path, GSM8K))
    plainly, asked = Speaker(), Speaker()
    run(source, plainly, limit=1, data=(f"gsm8k={gsm8k_rows}",))
    run(source, asked, limit=1, system_prompt="Hm", data=(f"gsm8k={gsm8k_rows}",))
    assert asked.asked[0].prompt.text == f"Hm\n\n{plainly.asked[0].prompt.text}"


def test_models_bring_their_meta_template(tmp_path, gsm8k_rows):
    configs = tree(tmp_path)
    source = ConfigSource(configs / "eval_all.py", data={"gsm8k": str(gsm8k_rows)}, only=["gsm8k"])
    backend = Speaker(lambda text: "B: 1\nH: 2")
    backend.name = "tiny"
    result = run(source, backend, limit=1)
    assert backend.asked[0].prompt.text.startswith("H: Question: What is 1 + 2?\nAnswer:\nB: It is 3.\n\nH: Question:")
    assert backend.asked[0].prompt.text.endswith("Answer:\nB: ")
    assert backend.asked[0].max_tokens == 11
    assert result.samples[0]["answer"] == "1"  # BOT's part alone
    with pytest.raises(DataError, match=r"no entry other.*mmlu_anatomy"):
        list(ConfigSource(configs / "eval_all.py", only=["other"]).tasks(Settings()))


def test_averages_over_the_entries_of_a_variable(tmp_path):
    rows = tmp_path / "mmlu"
    for name in ("anatomy", "virology", "world_religions"):
        (rows / name).mkdir(parents=True)
        for split in ("dev", "test"):
            lines = [{"question": f"{name} {split} {i}", "choices": list("wxyz"), "answer": i % 2} for i in range(3)]
            (rows / name / f"{split}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    configs = tree(tmp_path)
    source = ConfigSource(configs / "datasets/mmlu/mmlu_gen.py", data={"MMLUDataset": str(rows)})
    result = run(source, Speaker(lambda text: "The answer is B" if "anatomy test" in text else "A"))
    assert values(result)["mmlu_anatomy", "accuracy"] == pytest.approx(100 / 3)
    assert values(result)["mmlu_virology", "accuracy"] == pytest.approx(200 / 3)
    assert values(result)["mmlu_datasets[Macro Average]", "accuracy"] == pytest.approx(500 / 9)


def test_rows_of_the_hub_get_the_columns_of_the_original(tmp_path):
    arc = load(write(tmp_path, ARC)).datasets["arc_datasets"][0]
    row = {"question": "Q?", "choices": {"text": ["a", "b", "c", "d"], "label": ["1", "2", "3", "4"]}, "answerKey": "2"}
    (tmp_path / "arc.jsonl").write_text(json.dumps(row))
    (found,) = splits_of(arc, {"ARC-c": str(tmp_path / "arc.jsonl")})
    assert found == {"question": "Q?", "textA": "a", "textB": "b", "textC": "c", "textD": "d", "answerKey": "B"}


def test_a_judge(tmp_path):
    made = load(write(tmp_path, RAW)).datasets["raw_datasets"][0]
    task = task_of(
        made,
        {"test": [{"question": "2+2", "answer": "4"}, {"question": "3+3", "answer": "6"}]},
        Settings(model_type="chat"),
    )
    judge = Speaker(lambda text: "A" if "Said: 4" in text and "Gold: 4" in text else "B")
    judge.name = "judge"

    class OneTask(Source):
        label = "raw"

        def tasks(self, *_):
            yield task

    result = run(OneTask(), Speaker(lambda text: "4"), judge)
    assert values(result)["raw", "accuracy"] == 50.0
    assert values(result)["raw", "f1"] == 0.5
    assert judge.asked[0].role == "judge"
    assert judge.asked[0].prompt.messages[0].content == "You judge."


def test_functions_and_evaluators_of_the_config(tmp_path):
    config = load(write(tmp_path, OWN))
    made = config.datasets["own_datasets"][0]
    rows = [{"q": "x" * i, "a": "y"} for i in range(1, 4)]
    result = evaluate(Speaker(lambda text: f"the {text}, and"), task_of(made, {"test": rows}))
    assert [sample["answer"] for sample in result.samples] == ["X?", "XX?", "XXX?"]
    found = values(result)
    assert found["own", "spread"] == 4
    assert found["own", "kept"] == 100
    config.close()


# ---- inferencers and repeats ----


def test_repeats_give_avg_pass_and_cons():
    replies = iter(["Paris", "Rome", "Paris", "Oslo"] * 2)
    made = gen_entry(n=4, k=[1, 2])
    backend = Speaker(lambda text: next(replies))
    result = evaluate(backend, task_of(entry(made), {"test": ROWS[:2]}))
    assert {row["metric"]: row["value"] for row in result.results} == pytest.approx(
        {"avg@4": 25.0, "pass@1": 25.0, "cons@1": 50.0, "pass@2": 100 * (1 - 1 / 6) / 2, "cons@2": 50.0}
    )
    assert sorted(request.replica for request in backend.asked) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert "temperature 0 becomes 1" in result.notes[0]


def test_option_probability():
    made = gen_entry(reader_cfg={"input_columns": ["country"], "output_column": "city"})
    made["infer_cfg"]["inferencer"] = {"type": "CLPInferencer"}
    rows = [{**row, "choices": ["Oslo o", row["city"]]} for row in ROWS]
    result = evaluate(Speaker(), task_of(entry(made), {"test": rows}))
    assert result.results[0]["value"] == 100
    made["eval_cfg"] = {"evaluator": {"type": "AUCROCEvaluator"}}
    rows = [{**row, "city": i % 2, "choices": ["o", "oo" if i % 2 == 0 else ""]} for i, row in enumerate(ROWS)]
    result = evaluate(Speaker(), task_of(entry(made), {"test": rows}))
    assert {row["metric"]: row["value"] for row in result.results} == {"AUC": 100.0, "Accuracy": 100.0}
    with pytest.raises(DataError, match="finds no options"):
        evaluate(Speaker(), task_of(entry(made), {"test": [{"country": "x", "city": 1}]}))


def test_likelihood_of_the_answer_alone():
    made = gen_entry()
    made["infer_cfg"] = {
        "prompt_template": {
            "type": "PromptTemplate",
            "template": {"Paris": "{country}:</S> Paris", "Oslo": "{country}:</S> Oslo o"},
            "sep_token": "</S>",
        },
        "retriever": {"type": "ZeroRetriever"},
        "inferencer": {"type": "LLInferencer"},
    }
    backend = Speaker()
    result = evaluate(backend, task_of(entry(made), {"test": ROWS[:1]}))
    assert [(r.prompt.text, r.continuations) for r in backend.asked] == [("France:", (" Paris", " Oslo o"))]
    assert result.results[0]["value"] == 100
    del made["infer_cfg"]["prompt_template"]["sep_token"]
    with pytest.raises(DataError, match="no separator"):
        evaluate(backend, task_of(entry(made), {"test": ROWS[:1]}))


def test_self_consistency_takes_the_majority():
    replies = iter(["Paris", "Rome", "Rome"])
    made = gen_entry()
    made["infer_cfg"]["inferencer"] = {
        "type": "SCInferencer",
        "sc_size": 3,
        "generation_kwargs": {"do_sample": True, "temperature": 0.7, "top_k": 40},
    }
    backend = Speaker(lambda text: next(replies))
    result = evaluate(backend, task_of(entry(made), {"test": ROWS[2:3]}))
    assert result.samples[0]["answer"] == "Rome"
    assert {(r.temperature, r.top_k) for r in backend.asked} == {(0.7, 40)}


@pytest.mark.parametrize(
    ("mode", "asked", "answer"),
    [
        ("every", ["one", "one\nR1\ntwo"], ["R1", "R2"]),
        ("every_with_gt", ["one", "one\n1\ntwo"], ["R1", "R2"]),
        ("last", ["one\n1\ntwo"], ["R1"]),
    ],
)
def test_conversations(mode, asked, answer):
    made = gen_entry(reader_cfg={"input_columns": ["q"], "output_column": "a"})
    made["infer_cfg"] = {
        "prompt_template": {
            "type": "MultiTurnPromptTemplate",
            "template": {"round": [{"role": "HUMAN", "prompt": "{q}"}, {"role": "BOT", "prompt": "{a}"}]},
        },
        "retriever": {"type": "ZeroRetriever"},
        "inferencer": {"type": "MultiTurnGenInferencer", "infer_mode": mode},
    }
    replies = iter(["R1", "R2"])
    backend = Speaker(lambda text: next(replies))
    task = task_of(entry(made), {"test": [{"q": ["one", "two"], "a": ["1", "2"]}]})
    result = evaluate(backend, task)
    assert [request.prompt.text for request in backend.asked] == asked
    assert list(result.samples[0]["answer"]) == answer
    assert not measure(task.metrics[0]).binary  # the turns are averaged


def asked_by(**options):
    infer = gen_entry()["infer_cfg"]
    return {"infer_cfg": {**infer, "inferencer": {**infer["inferencer"], **options}}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eval_cfg": {}}, "no evaluator"),
        (
            {"eval_cfg": {"evaluator": {"type": "DreamEvaluator"}}},
            "kshot has no evaluator DreamEvaluator",
        ),
        (
            {"eval_cfg": {"evaluator": {"type": "AccEvaluator"}, "pred_postprocessor": {"type": "dreamt"}}},
            "kshot has no clean-up dreamt",
        ),
        ({"n": 2, "k": "x"}, "k is 'x'"),
        ({"n": 2, "k": 3}, "asked 2 times"),
        ({"k": 1.5}, "k is 1.5; it must be a whole number or a list"),
        ({"n": 10**30}, "n is 1000.*; it must be a whole number from 1 to 10,000"),
        ({"n": 10**5000}, "n is a number of thousands of digits"),
        ({"num_repeats": 10**9}, "num_repeats is 1000000000; it must be"),
        ({"reader_cfg": {"input_columns": ["q"], "output_column": "a", "test_split": ["a"]}}, r"test_split is \['a'\]"),
        (asked_by(max_out_len="abc"), "max_out_len is 'abc'; it must be a number of tokens"),
        (asked_by(max_out_len=float("inf")), "max_out_len is inf"),
        (asked_by(stopping_criteria=5), "stopping_criteria is 5; it must be a list of texts"),
        (asked_by(sc_size=[{}]), "sc_size is .*; it must be a whole number"),
        (asked_by(sc_size=float("nan")), "sc_size is nan"),
        ({"n": 2, "eval_cfg": {"evaluator": {"type": "MccEvaluator"}}}, "whole corpus"),
    ],
)
def test_what_cannot_be_compiled(change, message):
    with pytest.raises(DataError, match=message):
        task_of(entry(gen_entry(**change)), {"test": ROWS})


def test_rows_that_are_nowhere(tmp_path):
    made = entry(gen_entry(type="DreamDataset", path="no/where"))
    with pytest.raises(DataError, match=r"no loader DreamDataset.*--data cities=FILE_OR_FOLDER"):
        splits_of(made)
    with pytest.raises(DataError, match="no such file or folder"):
        splits_of(made, {"cities": str(tmp_path / "none")})
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="folder with train and test files"):
        splits_of(made, {"cities": str(tmp_path / "empty")})
    with pytest.raises(UsageError, match="--data NAME=FILE_OR_FOLDER"):
        read_data(["x"])


@pytest.mark.parametrize("given", [True, False])
def test_raw_rows_need_the_loader_that_makes_their_columns(given, tmp_path):
    place = tmp_path / "rows.jsonl"
    made = entry(gen_entry(type="opencompass.datasets.DreamDataset", path=str(place)))
    lacking = (
        r"rows\.jsonl: kshot has no loader DreamDataset, and the rows have no column 'city'\. The source of OpenCompass"
    )
    place.write_text('{"country": "France", "capital": "Paris"}\n')
    with pytest.raises(
        DataError, match=rf"{lacking} may have it: --home DIR\. Or give .* final columns: --data cities="
    ):
        splits_of(made, {"cities": str(place)} if given else {})
    place.write_text('{"country": "France", "city": "Paris"}\n')
    assert splits_of(made, {"cities": str(place)} if given else {}) == [{"country": "France", "city": "Paris"}]


def test_rows_of_listed_files(tmp_path):
    (tmp_path / "dev.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    body = gen_entry(type="HFDataset", path="json", data_files=str(tmp_path / "dev.jsonl"), split="train")
    assert splits_of(entry(body)) == ROWS  # with a split of its own it is both train and test
    assert list(splits_of(entry({**body, "split": None}))) == ["train"]
    body["data_files"] = {"test": [str(tmp_path / "dev.jsonl")] * 2}
    assert len(splits_of(entry(body))["test"]) == 10
    body["data_files"] = "gone.jsonl"
    with pytest.raises(DataError, match=r"no such file.*--data cities="):
        splits_of(entry(body))


@pytest.mark.parametrize(
    "files", [5, 1.5, True, object, [5], ["a", None], {"test": 5}, {"test": [["a"]]}, {"test": None}]
)
def test_listed_files_that_are_no_names_are_one_message(files):
    with pytest.raises(DataError, match=r"data_files must name a file, several, or some for each split"):
        splits_of(entry(gen_entry(type="HFDataset", path="json", data_files=files)))


@pytest.mark.parametrize("path", ["~nobody-here/rows", ["json"], {}])
def test_paths_that_are_none_are_one_message(path):
    for body in (
        gen_entry(type="DreamDataset", path=path),
        gen_entry(type="X", path=path, data_files="~nobody-here/x"),
    ):
        with pytest.raises(DataError, match=r"no loader"):
            splits_of(entry(body))
    with pytest.raises(DataError, match="no such file"):
        splits_of(entry(gen_entry(type="HFDataset", path="json", data_files="~nobody-here/x")))


def test_rows_by_path(tmp_path):
    (tmp_path / "train.jsonl").write_text(json.dumps(ROWS[0]))
    (tmp_path / "test.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    made = entry(gen_entry(type="DreamDataset", path=str(tmp_path)))
    assert {name: len(rows) for name, rows in splits_of(made).items()} == {"train": 1, "test": 5}
    assert Path(made["path"]).is_dir()


def test_prompts_can_be_seen_whatever_the_evaluator(tmp_path, gsm8k_rows):
    text = GSM8K.replace("Gsm8kEvaluator", "DreamEvaluator").replace("gsm8k_postprocess", "dreamt")
    source = ConfigSource(write(tmp_path, text), data={"gsm8k": str(gsm8k_rows)})
    (task,) = source.previews(Settings(limit=2))
    first, _ = task.samples
    (request,) = next(task.ask(first))
    assert request.prompt.text.endswith("Question: What is 0 + 1?\nAnswer:")
    with pytest.raises(DataError, match=r"kshot has no evaluator opencompass.datasets.DreamEvaluator"):
        list(source.tasks(Settings()))


@pytest.mark.parametrize("option", ["metric", "cleanup"])
def test_options_that_a_config_has_no_use_for(tmp_path, option):
    source = ConfigSource(write(tmp_path, GSM8K))
    with pytest.raises(UsageError, match=rf"config.py: --{option} has no effect on a config file"):
        source.tasks(Settings(**{option: ("em",) if option == "metric" else "strip"}))


def test_samples_are_found_by_position():
    task = task_of(entry(gen_entry(n=2)), {"test": ROWS})
    assert [(sample.id, sample.position) for sample in task.samples] == [(str(i), i) for i in range(5)]
    third = replace(task.samples[2], id="named otherwise")
    (request, _) = next(task.ask(third))
    assert request.prompt.text == "The capital of Italy is"


# ---- thoughts in replies ----

THOUGHTFUL = {
    "first_capital_postprocess": ("<think>Well, A.</think>\nC", "C", "W"),
    "last_capital_postprocess": ("<think>A? B?", "", "B"),
    "gsm8k_postprocess": ("Question: three?\n</think>\n\nIt is 7.", "7", "NULL"),
    "extract_non_reasoning_content": ("<think>\nA?\n</think>\n\nC", "C", "C"),
}
"""By clean-up: a reply, and what OpenCompass 0.5.4 makes of it without its thoughts and with them."""


@pytest.mark.parametrize("name", THOUGHTFUL)
def test_thoughts_are_kept_for_clean_ups_if_that_is_wanted(name, tmp_path):
    reply, without, whole = THOUGHTFUL[name]
    made = entry(
        gen_entry(
            eval_cfg={"evaluator": {"type": "AccEvaluator"}, "pred_postprocessor": {"type": name}},
            type="opencompass.datasets.CustomDataset",
        )
    )
    rows = {"test": ROWS[:1]}
    for keeps, answer in ((False, without), (True, whole)):
        folder = tmp_path / str(keeps)
        source = task_of(made, rows, Settings(keep_thoughts=keeps))
        row = evaluate(Speaker(lambda _: reply), source, out=folder).samples[0]
        assert row["answer"] == answer
        assert (row["response"] == reply, "reasoning" in row) == (keeps, not keeps)
        again = evaluate(f"replay:{folder / 'journal.jsonl'}", source).samples[0]
        assert (again["answer"], again["response"]) == (answer, row["response"])


def test_a_run_with_thoughts_is_scored_again_with_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    body = gen_entry(
        eval_cfg={"evaluator": {"type": "AccEvaluator"}, "pred_postprocessor": {"type": "first_capital_postprocess"}},
        path="cities",
    )
    Path("config.py").write_text(f"datasets = [{body!r}]\n", encoding="utf-8")
    Path("rows.jsonl").write_text(json.dumps({"country": "Peru", "city": "L"}) + "\n", encoding="utf-8")
    options = {"data": "cities=rows.jsonl"}

    def says(_):
        return "<think>Berlin? No.</think>Lima"

    assert evaluate(says, "config.py", out="without", **options).results[0]["value"] == 100
    first = evaluate(says, "config.py", out="with", keep_thoughts=True, **options)
    again = score("with")
    assert first.results[0]["value"] == again.results[0]["value"] == 0
    assert again.samples == first.samples
    for result in (first, again):
        assert [note for note in result.notes if "--keep-thoughts" in note]
    assert score("without").results[0]["value"] == 100
    # The answers are in the journal of the run without: the other figure needs no model.
    asked_again = evaluate("replay:without/journal.jsonl", "config.py", keep_thoughts=True, **options)
    assert asked_again.results[0]["value"] == 0


def test_thoughts_that_a_server_returns_apart_stand_first_as_the_frameworks_join_them():
    made = entry(gen_entry(eval_cfg={"evaluator": {"type": "AccEvaluator"}}))
    thoughtful = [("C", "A? C?", "A? C?</think>C"), ("", "A?", "A?"), ("C", "", "C")]
    for text, thoughts, whole in thoughtful:

        def say(_, reply=Generated(text, reasoning=thoughts)):  # noqa: B008 - a value
            return reply

        task = task_of(made, {"test": ROWS[:1]}, Settings(keep_thoughts=True))
        assert evaluate(say, task).samples[0]["answer"] == whole


def test_the_next_turn_of_a_conversation_sees_kept_thoughts():
    body = gen_entry(
        reader_cfg={"input_columns": ["dialogue"], "output_column": "city"},
        infer_cfg={
            "prompt_template": {"type": "PromptTemplate", "template": "{dialogue}"},
            "retriever": {"type": "ZeroRetriever"},
            "inferencer": {"type": "ChatInferencer", "infer_mode": "every", "max_out_len": 6},
        },
    )
    said = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "x"}]
    rows = [{"dialogue": [*said, {"role": "user", "content": "two"}, said[1]], "city": "x"}]
    for keeps in (False, True):
        prompts = []

        def say(prompt, prompts=prompts):
            prompts.append(prompt)
            return "<think>hm</think>1"

        task = task_of(entry(body), {"test": rows}, Settings(keep_thoughts=keeps, model_type="chat"))
        evaluate(say, task)
        assert ("hm" in prompts[-1]) == keeps


def test_options_are_measured_without_thoughts():
    made = gen_entry(reader_cfg={"input_columns": ["country"], "output_column": "n"})
    labels = {str(i): f"{{country}}: {city}" for i, (_, city) in enumerate(CAPITALS)}
    made["infer_cfg"] = {
        "prompt_template": {"type": "PromptTemplate", "template": labels},
        "retriever": {"type": "ZeroRetriever"},
        "inferencer": {"type": "PPLInferencer"},
    }
    assert not task_of(entry(made), {"test": ROWS}, Settings(keep_thoughts=True)).keep_thoughts
