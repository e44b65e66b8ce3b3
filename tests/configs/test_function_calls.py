"""Function calling as BFCL asks for it."""

import json

import pytest

import kshot
from kshot.configs import entry, task_of
from kshot.configs.evaluators import bfcl_calls
from kshot.configs.function_calls import function_turns
from kshot.core.errors import DataError
from tests.configs.bfcl_package import small_package

FUNCTION = [{"name": "add", "parameters": {"type": "dict"}}]
ASK = {"role": "user", "content": "1 + 2?"}


def made(evaluator="AccEvaluator"):
    package = "ais_bench.benchmark.openicl"
    return entry(
        {
            "abbr": "BFCL-v3-simple",
            "reader_cfg": {"input_columns": ["id", "question", "function"], "output_column": "ground_truth"},
            "infer_cfg": {
                "prompt_template": {"type": f"{package}.PromptTemplate", "template": "{question}"},
                "retriever": {"type": "ZeroRetriever"},
                "inferencer": {"type": f"{package}.icl_inferencer.BFCLV3FunctionCallInferencer"},
            },
            "eval_cfg": {"evaluator": {"type": evaluator}},
        }
    )


def test_functions_stand_in_the_system_message():
    row = {"question": json.dumps([[ASK]]), "function": json.dumps(FUNCTION)}
    ((system, asked),) = function_turns(row, "here")
    assert asked == ASK
    assert system["role"] == "system"
    assert system["content"].endswith(json.dumps(FUNCTION, indent=2))
    own = {"role": "system", "content": "Be brief."}
    ((both, _),) = function_turns({"question": [[own, ASK]], "function": FUNCTION}, "here")
    assert both["content"] == f"{system['content']}\n\nBe brief."


@pytest.mark.parametrize("question", ["1 + 2?", [ASK], [[ASK]], json.dumps([ASK])])
def test_forms_of_a_question(question):
    (turn,) = function_turns({"question": question, "function": "add(a, b)"}, "here")
    assert turn[-1] == ASK


def test_functions_of_a_later_turn():
    row = {"question": [[ASK], []], "function": FUNCTION, "missed_function": '{"1": [{"name": "sub"}]}'}
    row["question"][1] = [{"role": "user", "content": ""}]
    second = function_turns(row, "here")[1]
    assert [message["role"] for message in second] == ["user"]
    assert '"name": "sub"' in second[0]["content"]


@pytest.mark.parametrize(
    "row", [{"question": "x"}, {"question": [[]], "function": []}, {"question": [[1]], "function": []}]
)
def test_rows_that_cannot_be_asked(row):
    with pytest.raises(DataError, match=r"^here: "):
        function_turns(row, "here")


def test_single_turns_and_conversations_run():
    talk = [[ASK], [{"role": "user", "content": "and 3?"}]]
    rows = [
        {"id": "simple_0", "question": [[ASK]], "function": FUNCTION, "ground_truth": "[add(a=1, b=2)]"},
        {"id": "multi_turn_base_0", "question": talk, "function": FUNCTION, "ground_truth": [["x"], ["y"]]},
    ]
    heard = []

    def model(text: str) -> str:
        heard.append(text)
        return "[add(a=1, b=2)]"

    task = task_of(made(), {"test": rows})
    assert task.notes == ("BFCL-v3-simple: functions are offered in kshot's own words",)
    result = kshot.evaluate(model, task)
    answers = [sample["answer"] for sample in result.samples]
    assert answers == ["[add(a=1, b=2)]", [["[add(a=1, b=2)]"], ["[add(a=1, b=2)]"]]]
    assert heard[0].endswith("1 + 2?\n\n")
    assert heard[-1].endswith("1 + 2?\n\n[add(a=1, b=2)]\n\nand 3?\n\n")
    assert made().prompts(rows={"test": rows[:1]}) == [str([[ASK]])]


def test_dots_in_names_are_underscores():
    functions = [{"name": "math.add"}, {"other": 1}, "text"]
    ((system, _),) = function_turns({"question": [[ASK]], "function": functions}, "here")
    assert system["content"].endswith(json.dumps([{"name": "math_add"}, *functions[1:]], indent=2))


@pytest.fixture
def package(tmp_path):
    with small_package(tmp_path):
        yield


def talk(model):
    row = {
        "id": "multi_turn_base_0",
        "question": [[ASK], [{"role": "user", "content": "And now?"}]],
        "function": FUNCTION,
        "involved_classes": '["TicketAPI"]',
        "initial_config": "{}",
        "ground_truth": "[]",
    }
    (sample,) = kshot.evaluate(model, task_of(made(), {"test": [row]})).samples
    return sample["answer"]


def test_a_conversation_is_told_what_its_calls_return(package):
    replies = iter(["add(name='a')", "[add(name='b'), count()]", "Two.", "count()", "Still two."])
    heard = []

    def model(text: str) -> str:
        heard.append(text)
        return next(replies)

    assert talk(model) == [["add(name='a')", "[add(name='b'), count()]", "Two."], ["count()", "Still two."]]
    assert heard[1].endswith("add(name='a')\n\nThe calls return:\nadd(name='a'): {\"id\": 1}\n\n")
    assert heard[2].endswith("The calls return:\nadd(name='b'): {\"id\": 2}\ncount(): 2\n\n")
    assert heard[4].endswith("And now?\n\ncount()\n\nThe calls return:\ncount(): 2\n\n")


def test_a_conversation_that_never_stops_calling_is_ended(package):
    assert talk(lambda _: "count()") == [["count()"] * 21]


def test_no_call_is_executed_without_the_package(monkeypatch):
    monkeypatch.setattr(bfcl_calls, "find_spec", lambda _: None)
    assert talk(lambda _: "count()") == [["count()"], ["count()"]]
