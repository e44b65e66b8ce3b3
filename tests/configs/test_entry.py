import json
from pathlib import Path

import pytest

from kshot.configs import entry, load, task_of
from kshot.configs.settings import ConfigSettings
from kshot.core.errors import DataError, KshotError
from kshot.retrievers import RandomRetriever
from tests.configs.written import ARC, MMLU, RACE, RAW, SUBJECTS, write

GOLDEN = Path(__file__).parents[3] / "shared" / "data" / "golden" / "real_configs.json"
COLUMNS = ("article", "question", "A", "B", "C", "D", "answer")
ROWS = {split: [{name: f"{split}{i}.{name}" for name in COLUMNS} for i in range(3)] for split in ("validation", "test")}
META = {
    "begin": "S\n",
    "round": [
        {"role": "HUMAN", "begin": "H:", "end": "\n"},
        {"role": "BOT", "begin": "B:", "end": "\n", "generate": True},
    ],
}


def simple(**more):
    return {
        "abbr": "s",
        "reader_cfg": {"input_columns": ["q"], "output_column": "a"},
        "infer_cfg": {
            "prompt_template": {"type": "PromptTemplate", "template": "Q: {q}\nA: {a}"},
            "retriever": {"type": "ZeroRetriever"},
            "inferencer": {"type": "GenInferencer"},
        },
        **more,
    }


def test_race_shows_two_examples(tmp_path):
    race = load(write(tmp_path, RACE)).datasets["race_datasets"][0]
    (first, *_) = race.prompts(rows=ROWS)
    asked = "Read, then reply with a letter.\n\n{0}.article\n\nQ: {0}.question\nA. {0}.A\nB. {0}.B\nC. {0}.C\nD. {0}.D\nAnswer:"
    shown = [f"{asked.format(f'validation{i}')}\nvalidation{i}.answer" for i in range(2)]
    assert first == "\n".join([*shown, asked.format("test0")])
    chat = race.prompts(rows=ROWS, kind="chat")[0]
    assert [message["role"] for message in chat] == ["user", "assistant", "user", "assistant", "user"]
    assert chat[-1] == {"role": "user", "content": asked.format("test0")}
    meta = race.prompts(rows=ROWS, meta=META)[0]
    assert meta.startswith("S\nH:Read")
    assert meta.endswith("Answer:\nB:")
    assert "test0.answer" not in first + meta + json.dumps(chat)


def test_perplexity_gives_a_prompt_per_label(tmp_path):
    arc = load(write(tmp_path, ARC)).datasets["arc_datasets"][0]
    row = {"question": "Q?", "textA": "a", "textB": "b", "textC": "c", "textD": "d", "answerKey": "B"}
    assert arc.prompts(rows={"test": [row]}) == [[f"Question: Q?\nAnswer: \n{x}" for x in "abcd"]]
    (messages,) = arc.prompts(rows={"test": [row]}, kind="chat")
    assert messages[1] == [{"role": "user", "content": "Question: Q?\nAnswer: "}, {"role": "assistant", "content": "b"}]


def test_strings_with_examples_and_raw_messages(tmp_path):
    write(tmp_path, SUBJECTS, "mmlu_all_sets.py")
    mmlu = load(write(tmp_path, MMLU)).datasets["mmlu_datasets"][0]
    rows = {"dev": [{"input": f"i{n}", "target": "AB"[n]} for n in range(2)], "test": [{"input": "T", "target": "C"}]}
    hint = "There is a single choice question about anatomy."
    shown = "".join(f"{hint}\ni{n}\nAnswer: {'AB'[n]}\n\n" for n in range(2))
    assert mmlu.prompts(rows=rows) == [f"{shown}{hint}\nT\nAnswer:"]
    raw = load(write(tmp_path, RAW)).datasets["raw_datasets"][0]
    prompts = raw.prompts(rows={"test": [{"question": "hi", "answer": "yo"}]}, kind="chat")
    assert prompts == [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say: hi"}]]


def test_the_random_draw_is_that_of_the_frameworks():
    rows = [{"q": f"q{i}", "a": f"a{i}"} for i in range(6)]
    body = simple()
    body["infer_cfg"] = {
        "ice_template": {"type": "PromptTemplate", "template": "</E>{q}={a}", "ice_token": "</E>"},
        "retriever": {"type": RandomRetriever, "ice_num": 3, "seed": 123},
        "inferencer": {"type": "GenInferencer"},
    }
    first, second = entry(body).prompts(rows={"train": rows, "test": [{"q": "x", "a": "?"}, {"q": "y", "a": "?"}]})
    assert first == "q1=a1\nq3=a3\nq4=a4\nx="
    assert second == "q4=a4\nq0=a0\nq5=a5\ny="


def test_out_of_range_ids_are_a_value_error():
    body = simple()
    body["infer_cfg"]["ice_template"] = {"type": "PromptTemplate", "template": "</E>{q}", "ice_token": "</E>"}
    body["infer_cfg"]["prompt_template"] = {"type": "PromptTemplate", "template": "</E>{q}", "ice_token": "</E>"}
    body["infer_cfg"]["retriever"] = {"type": "FixKRetriever", "fix_id_list": [0, 7]}
    with pytest.raises(ValueError, match="7") as caught:
        entry(body).prompts(rows={"train": [{"q": "x", "a": "y"}], "test": [{"q": "x", "a": "y"}]})
    assert isinstance(caught.value, KshotError)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"infer_cfg": {}}, "no inferencer"),
        (
            {"infer_cfg": {"inferencer": {"type": "AgentInferencer"}}},
            "kshot has no inferencer AgentInferencer.*GenInferencer",
        ),
        (
            {"infer_cfg": {"inferencer": {"type": "GenInferencer"}, "retriever": {"type": "OracleRetriever"}}},
            "no retriever OracleRetriever",
        ),
        (
            {"infer_cfg": {"inferencer": {"type": "GenInferencer"}, "retriever": {"type": "ZeroRetriever"}}},
            "there is no template",
        ),
        (
            {"infer_cfg": {"inferencer": {"type": "GenInferencer"}, "retriever": {"type": "RandomRetriever", "k": 3}}},
            "cannot be made",
        ),
        ({"n": 0}, None),
        ({"n": -1}, "whole number"),
        ({"reader_cfg": 3}, "not a dict"),
    ],
)
def test_entries_that_cannot_be_used(change, message):
    made = entry({**simple(), **change})
    rows = {"train": [], "test": [{"q": "x", "a": "y"}]}
    if message is None:
        assert made.prompts(rows=rows) == ["Q: x\nA: "]
        return
    with pytest.raises(DataError, match=message):
        made.prompts(rows=rows)


def test_an_entry_that_names_a_framework_is_not_strict():
    assert entry(simple()).strict
    body = simple(type="opencompass.datasets.GSM8KDataset")
    assert not entry(body).strict
    assert entry(body, strict=True).strict
    assert entry({"path": "a/b", "name": "c"}).abbr == "a_b_c"
    assert "abbr" in entry(simple())
    assert entry(simple()).get("nothing", 3) == 3
    assert "entry s" in repr(entry(simple()))


@pytest.mark.parametrize(
    ("asks", "expected"),
    [("SWCELossInferencer", "Q: x\nA: "), ("ToTInferencer", "Q: x\nA: ")],
)
def test_prompts_of_an_inferencer_that_only_the_framework_has(asks, expected):
    body = simple()
    body["infer_cfg"]["inferencer"] = {"type": f"opencompass.openicl.icl_inferencer.{asks}"}
    rows = {"test": [{"q": "x", "a": "y"}]}
    assert entry(body).prompts(rows=rows) == [expected]
    assert entry(body).prompts(rows=rows, kind="chat")
    with pytest.raises(DataError, match=f"it is for {asks}, .*; kshot does not run it"):
        task_of(entry({**body, "eval_cfg": {"evaluator": {"type": "AccEvaluator"}}}), rows)


@pytest.mark.parametrize("asks", ["AgentInferencer", "AttackInferencer"])
def test_inferencers_that_run_without_what_they_add_say_so(asks):
    body = simple(eval_cfg={"evaluator": {"type": "AccEvaluator"}})
    body["infer_cfg"]["inferencer"] = {
        "type": f"opencompass.openicl.icl_inferencer.{asks}",
        "adv_key": "how",
        "original_prompt_list": ["Say it:", "Tell:"],
    }
    body["infer_cfg"]["prompt_template"]["template"] = "{how} {q}"
    rows = {"test": [{"q": "x", "a": "y"}]}
    assert entry(body).prompts(rows=rows) == ["{how} x"]
    task = task_of(entry(body), rows)
    (note,) = task.notes
    assert note.startswith(f"s: {asks}")
    shown = task.template(task.samples[0], ()).text
    assert shown == ("Say it: x" if asks == "AttackInferencer" else "{how} x")
    with pytest.raises(DataError, match=f"kshot has no inferencer opencompass.*{asks}"):
        task_of(entry(body, strict=True), rows)


def test_rows_may_limit_their_replies():
    """AISBench's custom datasets have a column for it; it must be one of the input columns, and the user goes first."""
    body = simple(type="ais_bench.CustomDataset", eval_cfg={"evaluator": {"type": "AccEvaluator"}})
    body["infer_cfg"]["inferencer"]["max_out_len"] = 9
    rows = {"test": [{"q": "x", "a": "y", "max_out_len": 3}, {"q": "x", "a": "y", "max_out_len": None}]}

    def limits(columns, **settings):
        body["reader_cfg"] = {"input_columns": columns, "output_column": "a"}
        task = task_of(entry(body), rows, ConfigSettings(**settings))
        asked = [next(task.method(sample, task.template(sample, ()))) for sample in task.samples]
        return [request.max_tokens for (request,) in asked]

    assert limits(["q", "max_out_len"]) == [3, 9]
    assert limits(["q"]) == [9, 9]
    assert limits(["q", "max_out_len"], max_tokens=5) == [5, 5]
    rows["test"][0]["max_out_len"] = "many"
    with pytest.raises(DataError, match="row 0: max_out_len is 'many'"):
        limits(["q", "max_out_len"])


@pytest.mark.skipif(not GOLDEN.exists(), reason="the shared goldens are not here")
@pytest.mark.parametrize("strict", [True, False])
def test_real_configs(strict):
    for case in json.loads(GOLDEN.read_text())["cases"]:
        made = entry({name: case[name] for name in ("abbr", "reader_cfg", "infer_cfg", "eval_cfg")}, strict=strict)
        if case["int_keys"]:
            template = made.body["infer_cfg"]["prompt_template"]
            template["template"] = {int(key): value for key, value in template["template"].items()}
        assert made.prompts(rows=case["splits"]) == case["lm_nometa"], case["name"]
        if "messages" in case:
            assert made.prompts(rows=case["splits"], kind="chat") == case["messages"], case["name"]
