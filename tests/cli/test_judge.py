"""A judge as a user sets it: rubric, scale, prompt and prices; and its prompt in a preview."""

import hashlib
import json
from pathlib import Path

import pytest

import kshot as package
from kshot.core.errors import UsageError
from kshot.metrics import GPTEval
from tests.commands import kshot
from tests.configs.written import RAW
from tests.datasets.fakes import generation
from tests.fake_server import FakeServer, chat

QUIZ = """
from kshot import GenerationDataset, GPTEval


class Quiz(GenerationDataset):
    instruction, metrics = "{q}", [GPTEval()]

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = [dict(q="Why is the sky blue?", target="Air scatters blue light.")]
        self.example_data = []

    def format_instance(self, row):
        return row


class Turns(Quiz):
    instruction, multi_turn = "{{source[turn_idx]}}", True
    metrics = [GPTEval(multi_turn=True)]

    def format_instance(self, row):
        return dict(source=["Why is it blue?", "And red?"], target=["a", "b"])


class Pair(Quiz):
    metrics = [GPTEval(pairwise=True)]


class Plain(Quiz):
    metrics = ["em"]
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("quiz.py").write_text(QUIZ)
    return tmp_path


def shown(capsys, *options, dataset="Quiz"):
    done = kshot(capsys, "preview", "-d", f"quiz.py:{dataset}", "--json", *options)
    assert done.code == 0, done.err
    return json.loads(done.out)


def refused(capsys, *options, dataset="Quiz", command="preview"):
    model = ("-m", "embedded") if command == "run" else ()
    done = kshot(capsys, command, "-d", f"quiz.py:{dataset}", *model, *options)
    assert done.code == 2
    return done.err


def test_the_default_prompts_stay_as_they_were():
    sample = package.preview(generation([{"q": "Why?", "target": "So."}], metrics=[GPTEval()]), judge="x")[0]
    pair = package.preview(generation([{"q": "Why?", "target": "So."}], metrics=[GPTEval(pairwise=True)]), judge="x")[0]
    texts = [message.content for request in (*sample.judge, *pair.judge) for message in request.prompt.messages]
    digests = [hashlib.sha256(text.encode()).hexdigest()[:12] for text in texts]
    assert digests == DIGESTS


DIGESTS = ["7fcf2c3ae6f4", "e542f97d2446", "e5c2ff06e7a4", "8e895a69f5b7", "e5c2ff06e7a4", "6659e8c5ee3f"]
"""Of the prompts before rubrics, for this sample: system and user, and those of both orders."""


def test_a_preview_shows_what_the_judge_is_asked(here, capsys):
    assert "judge" not in shown(capsys)
    (request,) = shown(capsys, "--judge", "openai:m")["judge"]
    system, user = (message["content"] for message in request["messages"])
    assert "a whole number from 1 (useless) to 10" in system
    assert "Why is the sky blue?" in user
    assert "(the model's reply)" in user
    text = kshot(capsys, "preview", "-d", "quiz.py:Quiz", "--judge", "openai:m").out
    assert "── judge ──" in text
    assert user in text
    assert len(shown(capsys, "--judge", "x", dataset="Pair")["judge"]) == 2
    both = shown(capsys, "--metric", "gpteval,pairwise=yes", "--judge", "embedded")["judge"]
    assert ["<Assistant A>\n(the model's reply)" in each["messages"][1]["content"] for each in both] == [True, False]
    text = kshot(capsys, "preview", "-d", "quiz.py:Plain", "--metric", "gpteval,pairwise=yes", "--judge", "x").out
    assert text.count("── judge ──") == 2
    (request,) = shown(capsys, "--judge", "x", dataset="Turns")["judge"]
    assert request["messages"][1]["content"].count("(the model's reply)") == 2


def test_a_rubric_and_a_scale(here, capsys):
    Path("rubric.md").write_text("5: cites a source.\n")
    for rubric in ("5: cites a source.", "rubric.md"):
        (request,) = shown(capsys, "--judge-rubric", rubric, "--judge-scale", "1-5")["judge"]
        system = request["messages"][0]["content"]
        assert "Judge by this rubric:\n<Rubric>\n5: cites a source.\n</Rubric>" in system
        assert "from 1 (useless) to 5 (could hardly be better)" in system
        assert system.endswith("Rating: [[3]]")
    (one, other) = shown(capsys, "--judge-rubric", "Brevity.", dataset="Pair")["judge"]
    assert "by this rubric:\n<Rubric>\nBrevity." in one["messages"][0]["content"]
    assert other["messages"][0] == one["messages"][0]


def test_a_prompt_of_ones_own(here, capsys):
    Path("judge.jinja").write_text(
        "{{ rubric }}|{{ scale }}|{{ lowest }}|{{ highest }}|{{ question }}|{{ answer }}|{{ reference }}"
        "{% for each in references %}|{{ each }}{% endfor %}"
    )
    options = ("--judge-prompt", "judge.jinja", "--judge-scale", "0-3", "--judge-rubric", "Be strict.")
    (request,) = shown(capsys, *options)["judge"]
    gold = "Air scatters blue light."
    assert request["messages"] == [
        {"role": "user", "content": f"Be strict.|0 to 3|0|3|Why is the sky blue?|(the model's reply)|{gold}|{gold}"}
    ]
    Path("quiz.py").write_text(QUIZ.replace('target="Air scatters blue light."', 'target=["Air.", "Light."]'))
    Path("several.jinja").write_text(
        "{{ answer }}|{{ reference }}|{{ references }}|{% for each in references %}{{ loop.index }}. {{ each }} {% endfor %}"
    )
    (request,) = shown(capsys, "--judge-prompt", "several.jinja")["judge"]
    assert request["messages"][0]["content"] == ("(the model's reply)|Air.\n\nLight.|Air.\n\nLight.|1. Air. 2. Light. ")
    Path("quiz.py").write_text(QUIZ)
    Path("pair.jinja").write_text("{{ question }}: {{ answer_a }} / {{ answer_b }}")
    one, other = shown(capsys, "--judge-prompt", "pair.jinja", dataset="Pair")["judge"]
    assert one["messages"][0]["content"] == f"Why is the sky blue?: (the model's reply) / {gold}"
    assert other["messages"][0]["content"] == f"Why is the sky blue?: {gold} / (the model's reply)"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ question }} {{ anser }}", "judge.jinja: it uses 'anser'. Known names: question, answer, reference"),
        ("{{ question }}", "it never uses 'answer'"),
        ("Rate it!", "it never uses 'answer'"),
        ("{{ answer", "the template cannot be read"),
        ("{% if %}{{ answer }}", "the template cannot be read"),
    ],
)
def test_a_faulty_prompt_is_an_error_before_any_model_is_asked(here, capsys, template, message):
    Path("judge.jinja").write_text(template)
    for command in ("preview", "run"):
        options = ("--judge", "embedded", "--judge-prompt", "judge.jinja")
        assert message in refused(capsys, *options, command=command)


def test_options_that_mean_nothing_are_refused(here, capsys):
    assert "--judge-prompt cannot be read" in refused(capsys, "--judge-prompt", "missing.jinja")
    assert "--judge-rubric cannot be read" in refused(capsys, "--judge-rubric", "missing.md")
    assert "--judge-rubric is empty" in refused(capsys, "--judge-rubric", " ")
    for scale in ("5", "5-1", "1-1", "a-b", "1-2-3", "0.5-1"):
        assert f"--judge-scale is {scale!r}" in refused(capsys, "--judge-scale", scale)
    assert "which gives no ratings" in refused(capsys, "--judge-scale", "1-5", dataset="Pair")
    assert "needs a metric that asks a judge" in refused(capsys, "--judge-scale", "1-5", dataset="Plain")
    Path("judge.jinja").write_text("{{ answer }}")
    options = ("--judge-prompt", "judge.jinja", "--judge-rubric", "Be strict.")
    assert "the rubric has no effect" in refused(capsys, *options)
    for option in ("--judge-scale", "--judge-rubric", "--judge-price-in"):
        message = refused(capsys, option, "1-5" if option == "--judge-scale" else "1", command="run")
        assert f"{option} needs a judge" in message
    done = kshot(capsys, "run", "-d", "lookup", "--judge", "embedded", "--judge-scale", "1-5")
    assert "--judge-scale has no effect on token lookup" in done.err


def test_the_figure_follows_the_scale(here, capsys):
    with FakeServer(lambda _: chat("Because.")) as server, FakeServer(lambda _: chat("Good: [[4]]/[[5]]")) as second:
        options = (
            *("-m", f"openai:m@{server.url}", "--judge", f"openai:judge@{second.url}", "--model-type", "chat"),
            *("--judge-scale", "1-5", "--out", "run", "--json"),
        )
        done = kshot(capsys, "run", "-d", "quiz.py:Quiz", *options)
        (row,) = json.loads(done.out)["results"]
        assert (row["value"], row["n"], row["failed"]) == (4.0, 1, 0)
        out_of = kshot(capsys, "run", "-d", "quiz.py:Quiz", *options[:6], "--judge-scale", "1-3", "--out", "other")
    assert out_of.code == 1
    assert "no rating from 1 to 3 in the judge's reply" in out_of.err
    assert GPTEval(scale=(1, 5)).bounds == (1.0, 5.0)


def test_the_judges_tokens_are_priced(here, capsys):
    def model(_):
        return chat("Because.", usage=(1000, 100))

    def judge(_):
        return chat("[[7]]", usage=(3000, 200))

    with FakeServer(model) as server, FakeServer(judge) as second:
        prices = ("--price-in", "2", "--price-out", "10", "--judge-price-in", "1", "--judge-price-out", "5")
        done = kshot(
            capsys, "run", "-d", "quiz.py:Quiz", "-m", f"openai:m@{server.url}", "--judge", f"openai:j@{second.url}",
            "--model-type", "chat", "--out", "run", *prices,
        )  # fmt: skip
    usage = {row["role"]: row for row in json.loads(Path("run/summary.json").read_text())["usage"]}
    assert usage["model"]["cost_usd"] == 0.003
    assert usage["judge"]["cost_usd"] == 0.004
    assert (usage["judge"]["prompt_tokens"], usage["judge"]["completion_tokens"]) == (3000, 200)
    assert "(judge): 3,000 tokens read, 200 written, 0.004 USD" in done.out


def test_settings_of_the_judge_from_python():
    metric = GPTEval(rubric="Be strict.", scale=(1, 5), prompt="{{ rubric }} {{ answer }} {{ scale }}")
    assert repr(metric.with_options(scale=(1, 7))) == repr(
        GPTEval(rubric="Be strict.", scale=(1, 7), prompt="{{ rubric }} {{ answer }} {{ scale }}")
    )
    for scale in ((1,), (5, 1), (0.5, 1), (1, 2, 3)):
        with pytest.raises(UsageError, match="the scale of GPTEval"):
            GPTEval(scale=scale)
    with pytest.raises(UsageError, match="gives no ratings"):
        GPTEval(pairwise=True, scale=(1, 5))


def test_new_options_leave_the_identity_of_old_runs_alone():
    from kshot.settings import settings_from

    assert settings_from({"judge": "x"}).identity() == {"judge": "x"}
    assert settings_from({"judge_price_in": 1, "judge_price_out": 2}).identity() == {}
    assert settings_from({"judge_scale": "1-5"}).identity() == {"judge_scale": "1-5"}


def test_a_preview_shows_the_judges_of_configs_and_of_grounded_answers(here):
    Path("raw.py").write_text(RAW)
    Path("rows.jsonl").write_text('{"question": "1+1?", "answer": "2"}\n')
    (shown_row,) = package.preview("raw.py", judge="x", data=("raw=rows.jsonl",))
    (request,) = shown_row.judge
    assert request.prompt.messages[-1].content.endswith("Q: 1+1?\nGold: 2\nSaid: (the model's reply)")
    with pytest.raises(UsageError, match="--judge-scale has no effect"):
        package.evaluate("embedded", "raw.py", judge="embedded", judge_scale="1-5", data=("raw=rows.jsonl",))
    (row,) = package.preview("handbook", method="rag", judge="x", judge_scale="1-5", limit=1)
    assert "from 1 (useless) to 5" in row.judge[0].prompt.messages[0].content
    with pytest.raises(UsageError, match="--judge-scale has no effect on a passage benchmark"):
        package.preview("handbook", judge_scale="1-5", limit=1)
