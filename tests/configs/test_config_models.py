"""The models that an evaluation file lists: their class says what they get, their abbr what results call them."""

import json

import pytest

import kshot
from kshot.core.errors import KshotError
from tests.fake_server import FakeServer, chat, completion

_CONFIG = """
datasets = [
    dict(
        abbr="quiz",
        path="quiz",
        reader_cfg=dict(input_columns=["q"], output_column="a"),
        infer_cfg=dict(
            prompt_template=dict(type="PromptTemplate", template="{q}"),
            retriever=dict(type="ZeroRetriever"),
            inferencer=dict(type="GenInferencer", max_out_len=8),
        ),
        eval_cfg=dict(evaluator=dict(type="EMEvaluator")),
    )
]
models = [dict(type="KIND", ABBR path="gpt-x", openai_api_base="SERVER", url="SERVER")]
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    (tmp_path / "rows.jsonl").write_text('{"q": "one", "a": "1"}\n', encoding="utf-8")

    def run_config(kind, abbr="abbr='mine',", again=1, **options):
        answer = lambda call: chat("1") if "messages" in call.body else completion("1")  # noqa: E731
        with FakeServer(answer) as server:
            text = _CONFIG.replace("KIND", kind).replace("ABBR", abbr).replace("SERVER", f"{server.url}/v1")
            (tmp_path / "eval.py").write_text(text, encoding="utf-8")
            data = ("quiz=rows.jsonl",)
            for _ in range(again):
                result = kshot.evaluate(None, "eval.py", data=data, **options)
        return result, [call for call in server.calls if call.body]

    return run_config


@pytest.mark.parametrize(
    ("kind", "options", "path"),
    [
        ("OpenAI", {}, "/v1/chat/completions"),
        ("OpenAISDK", {}, "/v1/chat/completions"),
        ("OpenAI", {"model_type": "base"}, "/v1/completions"),
        ("VLLMCustomAPI", {}, "/v1/completions"),
        ("VLLMCustomAPI", {"model_type": "chat"}, "/v1/chat/completions"),
        ("MindieStreamApi", {}, "/v1/completions"),
        ("VLLMCustomAPIOld", {}, "/v1/completions"),
        ("LiteLLMChat", {}, "/v1/chat/completions"),
        ("LiteLLMAPI", {}, "/v1/chat/completions"),
    ],
)
def test_the_class_says_whether_prompts_are_messages(run, kind, options, path):
    result, calls = run(kind, **options)
    assert [call.path for call in calls] == [path]
    assert [row["value"] for row in result.results] == [100]


def test_results_have_the_name_that_the_config_gives(run, tmp_path):
    result, calls = run("OpenAI", again=2, out="o")
    assert len(calls) == 1  # the second run finds the answer in the journal
    assert {row["model"] for row in result.results} == {"mine"}
    assert [each["name"] for each in json.loads((tmp_path / "o/spec.json").read_text())["models"]] == ["mine"]
    assert kshot.score("o").results == result.results


def test_a_model_without_an_abbr_keeps_its_name(run):
    result, _ = run("OpenAI", abbr="")
    assert all(row["model"].startswith("openai:gpt-x@") for row in result.results)


def test_advice_for_a_model_without_log_probabilities(run, tmp_path):
    (tmp_path / "quiz_gen.py").write_text("", encoding="utf-8")
    text = _CONFIG.replace("{q}", "X").replace('template="X"', 'template={0: "{q} yes", 1: "{q} no"}')
    (tmp_path / "ppl.py").write_text(
        text.replace("GenInferencer", "PPLInferencer").replace("ABBR", ""), encoding="utf-8"
    )
    with pytest.raises(
        KshotError, match=r"Run a config that generates, such as quiz_gen\.py, or a model with log-prob"
    ):
        kshot.evaluate(lambda prompt: prompt, "ppl.py", data=("quiz=rows.jsonl",))


def test_a_model_says_how_it_writes(run):
    given = "abbr='m', temperature=0.5, system_prompt='Be brief.', generation_kwargs=dict(top_p=0.9),"
    _, (call,) = run("LiteLLMAPI", abbr=given)
    assert (call.body["temperature"], call.body["top_p"]) == (0.5, 0.9)
    assert call.body["messages"][0] == {"role": "system", "content": "Be brief."}
    _, (call,) = run("LiteLLMAPI", abbr=given, temperature=0.25, system_prompt="Be kind.")
    assert (call.body["temperature"], call.body["messages"][0]["content"]) == (0.25, "Be kind.")
