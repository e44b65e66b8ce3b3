"""What a command says and cannot mean is an error or a note: nothing is ignored in silence."""

import json
from pathlib import Path

import pytest

import kshot as package
from kshot.core.errors import UsageError
from tests.commands import CAPITALS, kshot
from tests.datasets.fakes import says

CITIES = ("-d", "capitals.py:Cities")
CAPITAL = ("-d", "capitals.py:Capitals")
BRIEFLY = (*CITIES, "--max-tokens", "4")
ECHO = ("-m", "echo.py:Echo")
PROMPTS = [f"The capital of {country}0 is" for country in ("France", "Italy", "Norway", "Peru", "Cuba")]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "cache"))
    Path("capitals.py").write_text(CAPITALS)
    Path("echo.py").write_text(
        "from kshot import Generate, Generated\n"
        "class Echo:\n"
        "    name = fingerprint = 'echo'\n"
        "    answers = (Generate,)\n"
        "    def serve(self, queue):\n"
        "        yield from ((request, Generated('x')) for request in queue)\n"
    )
    for name, asked in (("a", PROMPTS[:2]), ("b", PROMPTS[2:4]), ("all", PROMPTS)):
        lines = [json.dumps({"prompt": prompt, "response": f" {name}"}) + "\n" for prompt in asked]
        Path(f"{name}.jsonl").write_text("".join(lines))
    return tmp_path


# ---- no model is named ----


@pytest.mark.parametrize(
    "command",
    [
        CITIES,
        ("-d", "capitals.py:Capitals", "-k", "2"),
        ("-d", "lookup:UR", *CITIES),
        ("-d", "handbook", "--method", "rag"),
        ("-d", "arc"),
    ],
    ids=" ".join,
)
def test_a_dataset_needs_a_model(command, capsys):
    done = kshot(capsys, "run", *command, "--limit", "1", "--out", "run")
    assert done.code == 2
    assert "it needs a model, and none is named. Add -m MODEL" in done.err
    assert not Path("run").exists()


def test_a_task_needs_a_model():
    with pytest.raises(UsageError, match=r"capitals\.py:Cities: it needs a model"):
        package.evaluate(dataset="capitals.py:Cities")


def test_token_lookup_and_search_have_models_of_their_own(capsys):
    done = kshot(capsys, "run", "-d", "lookup:UR", "-d", "handbook", "--limit", "2", "--samples", "2", "--json")
    assert {row["model"] for row in json.loads(done.out)["results"]} == {"embedded", "fts5"}


# ---- examples ----


@pytest.mark.parametrize("command", ["run", "preview"])
@pytest.mark.parametrize("dataset", ["capitals.py:Cities", "capitals.py:Capitals,seed=3"])
def test_a_retriever_needs_examples(command, dataset, capsys):
    done = kshot(capsys, command, "-m", "embedded", "-d", dataset, "--retriever", "bm25,k1=1.2")
    assert done.code == 2
    assert f"{dataset}: --retriever bm25,k1=1.2 has no examples to choose: their number is 0. Add -k N." in done.err


def test_a_retriever_may_have_its_number_elsewhere(capsys):
    for more in (("-d", "capitals.py:Cities,num_shots=1", "--retriever", "bm25"), (*CITIES, "--retriever", "zero")):
        assert kshot(capsys, "preview", *more).code == 0


CONFIG = """
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.openicl.icl_retriever import FixKRetriever
from opencompass.openicl.icl_inferencer import GenInferencer
ice = dict(type=PromptTemplate, template="</E>{q} {answer}", ice_token="</E>")
mine_datasets = [dict(
    abbr="mine",
    reader_cfg=dict(input_columns=["q"], output_column="answer"),
    infer_cfg=dict(ice_template=ice, retriever=dict(type=FixKRetriever, fix_id_list=[0]), inferencer=dict(type=GenInferencer, max_out_len=4)),
    eval_cfg=dict(evaluator=dict(type="EMEvaluator")),
)]
"""


@pytest.fixture
def config():
    Path("mine.py").write_text(CONFIG)
    Path("rows").mkdir()
    for split in ("train", "test"):
        lines = [json.dumps({"q": f"{split} {i}", "answer": str(i)}) + "\n" for i in range(4)]
        Path("rows", f"{split}.jsonl").write_text("".join(lines))
    return ("mine.py", "--data", "mine=rows")


def test_configs_too(config, capsys):
    done = kshot(capsys, "preview", *config, "--retriever", "random")
    assert (done.code, "mine.py: --retriever RandomRetriever has no examples to choose" in done.err) == (2, True)
    done = kshot(capsys, "run", "-m", "embedded", *config, "-k", "2", "--retriever-seeds", "0..2")
    assert (done.code, "every seed chooses the same examples" in done.out + done.err) == (0, True)
    done = kshot(capsys, "run", "-m", "embedded", *config, "-k", "2", "--instruction", "x")
    assert "kshot: --num-shots has no effect on mine.py" in done.err
    assert "kshot: --instruction has no effect on mine.py" in done.err
    twice = kshot(capsys, "preview", *config, "--data", "mine=other")
    assert (twice.code, "--data mine=… is given twice, with different places" in twice.err) == (2, True)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("mnie=rows", "--data mnie=rows: no entry is called mnie. There are: mine"),
        ("rows", "--data rows: it names no entry: write --data NAME=FILE_OR_FOLDER. There are: mine"),
    ],
)
def test_data_for_no_entry_of_a_config_are_refused(config, capsys, data, said):
    """The run would score other rows than the user means."""
    run = ("run", "-m", "embedded", *config)
    assert "--data" not in kshot(capsys, *run, "--out", "plain").err
    done = kshot(capsys, *run, "--data", data, "--out", "more")
    assert (done.code, said in done.err, Path("more").exists()) == (2, True, False)


def test_data_for_an_entry_that_is_not_chosen_do_no_harm(config, capsys):
    Path("mine.py").write_text(CONFIG + "other_datasets = [{**mine_datasets[0], 'abbr': 'other'}]\n")
    done = kshot(capsys, "run", "-m", "embedded", *config, "--data", "other=rows", "--only", "mine", "--out", "o")
    assert (done.code, "--data" in done.err) == (0, False)


# ---- seeds of a choice that does not depend on them ----

SEEDS = ("run", "-m", "embedded", "-d", "capitals.py:Capitals", "--retriever-seeds", "0..2", "--json")


@pytest.mark.parametrize("retriever", ["bm25", "fixk", "window", "first_n", "mine.py:First"])
def test_seeds_that_draw_nothing_are_refused(retriever, capsys):
    Path("mine.py").write_text(
        "from kshot import Retriever\n"
        "class First(Retriever):\n"
        "    def ranked(self):\n"
        "        return ([0, 1] for _ in self.test)\n"
    )
    done = kshot(capsys, *SEEDS, "-k", "2", "--retriever", retriever, "--out", "run")
    assert done.code == 2
    assert "--retriever-seeds 0..2: every seed chooses the same examples, so there is no spread." in done.err


@pytest.mark.parametrize("retriever", ["random", "lm_eval", "bm25,order=random", "balanced,label=right", None])
def test_seeds_that_draw(retriever, capsys):
    chosen = () if retriever is None else ("--retriever", retriever)
    done = kshot(capsys, *SEEDS, "-k", "2", *chosen, "--out", "run")
    assert done.code == 0, done.err
    prompts = {}
    for line in Path("run/samples.jsonl").read_text().splitlines():
        row = json.loads(line)
        prompts.setdefault(row["id"], set()).add(row["prompt"])
    assert max(map(len, prompts.values())) > 1
    assert kshot(capsys, "score", "run").code == 0


@pytest.mark.parametrize(
    ("retriever", "of_run"),
    [
        ("random", ("--retriever", "bm25")),
        ("lm_eval", ()),
        ("lm_eval\\,order=nearest_last", ("--retriever", "bm25")),
        ("bm25\\,order=random", ()),
    ],
)
def test_seeds_reach_the_retriever_of_a_dataset(retriever, of_run, capsys):
    dataset = f"capitals.py:Capitals,retriever={retriever},num_shots=2"
    draws = ("-d", dataset, "--retriever-seeds", "0..2", "--json")
    done = kshot(capsys, "run", "-m", "embedded", *draws, *of_run, "--out", "run")
    assert done.code == 0, done.err
    assert "same examples" not in done.err
    prompts, tasks = {}, set()
    for line in Path("run/samples.jsonl").read_text().splitlines():
        row = json.loads(line)
        tasks.add(row["task"])
        prompts.setdefault(row["id"], []).append(row["prompt"])
    assert max(len(set(each)) for each in prompts.values()) > 1
    assert tasks == {f"capitals,retriever={retriever},num_shots=2@{seed}" for seed in range(3)}
    assert kshot(capsys, "score", "run").code == 0
    written = retriever.replace("\\,", ",")
    alone = ("--retriever", f"{written},seed=1" if written.startswith("lm_eval") else written, "--seed", "1", "-k", "2")
    assert kshot(capsys, "run", "-m", "embedded", "-d", "capitals.py:Capitals", *alone, "--out", "alone").code == 0
    rows = [json.loads(line) for line in Path("alone/samples.jsonl").read_text().splitlines()]
    assert [row["prompt"] for row in rows] == [each[1] for each in prompts.values()]


@pytest.mark.parametrize("retriever", ["bm25", "first_n"])
@pytest.mark.parametrize("of_run", [(), ("--retriever", "random")], ids=["", "run: random"])
def test_seeds_that_draw_nothing_for_a_dataset_are_refused(retriever, of_run, capsys):
    dataset = f"capitals.py:Capitals,retriever={retriever},num_shots=2"
    done = kshot(capsys, "run", "-m", "embedded", "-d", dataset, "--retriever-seeds", "0..2", *of_run)
    assert done.code == 2
    assert "every seed chooses the same examples, so there is no spread." in done.err


def test_all_examples_are_no_draw(capsys):
    done = kshot(capsys, *SEEDS, "-k", "5", "--out", "run")
    assert done.code == 0
    said = (
        "--retriever-seeds 0..2: every seed chooses the same examples: all that there are, or those that the dataset "
    )
    assert f"{said}fixes. The spread says nothing" in json.loads(done.out)["notes"]
    notes = json.loads(Path("run/summary.json").read_text())["notes"]
    assert kshot(capsys, "score", "run").code == 0
    assert json.loads(Path("run/summary.json").read_text())["notes"] == notes


def test_the_seed_of_the_draws_stands_in_one_place(capsys):
    done = kshot(capsys, *SEEDS, "-k", "2", "--retriever", "random,seed=4")
    assert (done.code, "--retriever-seeds sets the seed of each draw" in done.err) == (2, True)


# ---- options given twice ----


@pytest.mark.parametrize(
    "options",
    [
        ("--seed", "1", "--seed", "2"),
        ("-k", "1", "--num-shots", "2"),
        ("--limit", "1", "--limit", "2"),
        ("--out", "a", "--out", "b"),
        ("--trust-remote-code", "--no-trust-remote-code"),
        ("--length", "10", "--length", "20"),
        ("--pass-at-k", "1", "--pass-at-k", "2"),
    ],
    ids=" ".join,
)
def test_two_values_for_one_option(options, capsys):
    done = kshot(capsys, "run", "-d", "lookup", *options)
    assert done.code == 2
    assert "it is given twice, with different values" in done.err
    assert ("with commas between them" in done.err) == (options[0] in {"--length", "--pass-at-k"})


def test_the_same_value_twice_is_none_too_many(capsys):
    assert kshot(capsys, "preview", *CITIES, "--limit", "1", "--limit", "1").code == 0


def test_other_commands_too(capsys):
    for command in (
        ("preview", *CITIES, "--seed", "1", "--seed", "2"),
        ("passages", "ceiling", "-d", "handbook", "-d", "fastbook"),
        ("lookup", "generate", "--group", "unique", "--length", "10", "--seed", "1", "--seed", "2"),
    ):
        done = kshot(capsys, *command)
        assert (done.code, "given twice" in done.err) == (2, True)


# ---- reuse ----


def test_several_runs_are_reused(capsys):
    model = "lambda.py:Once"
    Path("lambda.py").write_text(
        "from kshot import Generate, Generated, Failed\n"
        "class Once:\n"
        "    name = fingerprint = 'once'\n"
        "    answers = (Generate,)\n"
        "    def serve(self, queue):\n"
        "        asked = open('asked', 'a')\n"
        "        for request in queue:\n"
        "            print(request.prompt.text, file=asked, flush=True)\n"
        "            yield request, Generated('x')\n"
    )
    run = ("run", "-m", model, *CITIES)
    assert kshot(capsys, *run, "--limit", "2", "--out", "first").code == 0
    assert kshot(capsys, *run, "--instruction", "{country}:", "--limit", "1", "--out", "second").code == 0
    Path("asked").unlink()
    Path("second/journal.jsonl").write_text(
        Path("second/journal.jsonl").read_text() + "".join(Path("first/journal.jsonl").read_text().splitlines(True)[:1])
    )
    Path("first/journal.jsonl").write_text("".join(Path("first/journal.jsonl").read_text().splitlines(True)[1:]))
    done = kshot(capsys, *run, "--limit", "2", "--out", "third", "--reuse", "first", "--reuse", "second")
    assert done.code == 0, done.err
    assert not Path("asked").exists() or not Path("asked").read_text()
    assert kshot(capsys, *run, "--limit", "2", "--out", "fourth", "--reuse", "first").code == 0
    assert Path("asked").read_text().splitlines() == PROMPTS[:1]


def test_runs_to_reuse_from_python(tmp_path):
    for name, limit in (("one", 2), ("two", 4)):
        package.evaluate(says("x"), "capitals.py:Cities", out=tmp_path / name, limit=limit)
    model = says("x")
    package.evaluate(
        model, "capitals.py:Cities", out=tmp_path / "three", reuse=[tmp_path / "one", str(tmp_path / "two")]
    )
    assert len(model.asked) == 1
    for wrong in (5, [5], {"run"}, [None]):
        with pytest.raises(UsageError, match="it must be a run folder, or a list of run folders"):
            package.evaluate(says("x"), "capitals.py:Cities", out=tmp_path / "four", reuse=wrong)
    package.evaluate(says("x"), "capitals.py:Cities", reuse=[])


# ---- options that change nothing ----


@pytest.mark.parametrize(
    ("command", "unread"),
    [
        (("-m", "embedded", *BRIEFLY, "--chunker", "whole", "--length", "10"), ("--length", "--chunker")),
        (("-m", "embedded", "-d", "lookup:UR", "--retriever", "bm25", "--samples", "1"), ("--retriever",)),
        (("-d", "handbook", "--max-tokens", "5", "--read", "3", "-k", "2"), ("--num-shots", "--max-tokens", "--read")),
        (("-m", "embedded", *BRIEFLY, "--rpm", "3", "--dtype", "float16"), ("--rpm", "--dtype")),
        (
            ("-m", "embedded", *BRIEFLY, "--rolling-start", "bos", "--average", "weighted"),
            ("--rolling-start", "--average"),
        ),
        (("-m", "embedded", *BRIEFLY, "--letters", "spaced", "--accuracy", "acc_norm"), ("--letters", "--accuracy")),
        (("-m", "embedded", *BRIEFLY, "--ranking-type", "prob", "--top-k", "5"), ("--ranking-type", "--top-k")),
        (("-m", "embedded", *BRIEFLY, "-k", "1", "--examples-as", "text"), ("--examples-as",)),
        ((*ECHO, *CITIES, "--examples-as", "text", "--model-type", "chat"), ("--examples-as",)),
        (
            ("-m", "embedded", *BRIEFLY, "--fewshot-delimiter", "|", "--max-example-tokens", "9"),
            ("--fewshot-delimiter", "--max-example-tokens"),
        ),
        (("-m", "embedded", *BRIEFLY, "--target-delimiter", "|"), ("--target-delimiter",)),
        (
            ("-m", "embedded", *CAPITAL, "--rolling-start", "bos", "--max-tokens", "3"),
            ("--rolling-start", "--max-tokens"),
        ),
        (("-m", "embedded", *CAPITAL, "--ranking-type", "prob", "--target-delimiter", "|"), ("--target-delimiter",)),
        (("-m", "embedded", "-d", "capitals.py:Cities,num_shots=1", "-k", "2", "--max-tokens", "4"), ("--num-shots",)),
        (
            ("-m", "embedded", *CITIES, "--metric", "perplexity", "--rolling", "--description", "x", "--stop", "y"),
            ("--description", "--stop"),
        ),
    ],
    ids=" ".join,
)
def test_options_without_effect_are_noted(command, unread, capsys):
    done = kshot(capsys, "run", *command, "--limit", "1")
    assert done.code == 0, done.err
    noted = [line.split()[1] for line in done.err.splitlines() if "has no effect on" in line]
    assert sorted(noted) == sorted(unread)


def test_options_with_effect_are_not_noted(capsys):
    done = kshot(
        capsys, "run", "-m", "embedded", "-m", "fts5", *CITIES, "-d", "lookup:UR", "-d", "handbook", "--samples", "1",
        "--chunker", "whole", "-k", "1", "--limit", "1", "--max-tokens", "4", "--seed", "3",
    )  # fmt: skip
    assert (done.code, "no effect" in done.err) == (0, False)


@pytest.mark.parametrize(
    "command",
    [
        (*CITIES, "--rolling", "--metric", "perplexity", "--rolling-start", "none"),
        (*BRIEFLY, "--temperature", "1", "--top-k", "5", "--description", "x", "--fewshot-delimiter", "|"),
        (*CITIES, "--metric", "perplexity", "--target-delimiter", "|"),
        (*ECHO, *CITIES, "--model-type", "chat", "-k", "1", "--examples-as", "text", "--target-delimiter", "|"),
        (*CAPITAL, "--ranking-type", "prob", "--letters", "spaced", "--target-delimiter", "|"),
        (*CAPITAL, "--ranking-type", "generation", "--max-tokens", "3"),
        (*CAPITAL, *CITIES, "--accuracy", "acc_norm", "--max-tokens", "3"),
        ("-d", "grouped.py:Grouped", "--average", "weighted"),
        ("-d", "curious.py:Curious", "--rolling-start", "none", "--letters", "spaced"),
    ],
    ids=" ".join,
)
def test_options_that_a_dataset_reads_are_not_noted(command, capsys):
    grouped = "from capitals import Cities\nclass Grouped(Cities):\n    categorized_subsets = {'x': ['a', 'b']}\n"
    Path("grouped.py").write_text(grouped)
    Path("curious.py").write_text(
        "from capitals import Cities\n"
        "class Curious(Cities):\n"
        "    def init_arguments(self):\n"
        "        self.rolling, self.metrics = True, ['perplexity']\n"
        "        assert self.args.letters == 'spaced'\n"
    )
    done = kshot(capsys, "run", *(() if "-m" in command else ("-m", "embedded")), *command, "--limit", "1")
    assert (done.code, "no effect" in done.err) == (0, False), done.err


def test_the_options_of_a_dataset_too(capsys):
    dataset = "capitals.py:Cities,rolling_start=bos,max_tokens=2,letters=spaced"
    done = kshot(capsys, "run", "-m", "embedded", "-d", dataset, *CAPITAL, "--limit", "1", "--json")
    assert json.loads(done.out)["notes"][:2] == [
        f"{dataset}: its option {name} has no effect" for name in ("rolling_start", "letters")
    ]


def test_lm_eval_has_its_own_rule_for_hidden_rows(capsys):
    done = kshot(capsys, "preview", *CAPITAL, "-k", "1", "--retriever", "lm_eval,exclude_self=no")
    assert (done.code, "LMEvalRetriever: exclude_self has no effect" in done.err) == (2, True)
