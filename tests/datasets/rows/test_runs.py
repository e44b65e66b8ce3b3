"""Whole runs of tables: with a server, scored again, after the table has moved, in a sweep."""

import json
from pathlib import Path

import pytest

import kshot
from tests.commands import kshot as command
from tests.datasets.rows.tables import FLAGS, HEADER, ROWS
from tests.fake_server import FakeServer, chat

WORDS = ("--question", "Q", "--options", "A,B,C,D", "--answer", "key")


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quiz.csv").write_text(HEADER + ROWS)
    return tmp_path / "quiz.csv"


@pytest.mark.needs("torch")
def test_a_table_with_letters_runs_with_hf(table, tiny_llama, capsys):
    done = command(capsys, "run", "-m", f"hf:{tiny_llama}", "-d", "quiz.csv", *WORDS, "--out", "run", "--json")
    assert done.code == 0, done.err
    (row,) = [row for row in json.loads(done.out)["results"] if row["metric"] == "Accuracy"]
    samples = [json.loads(line) for line in Path("run/samples.jsonl").read_text().splitlines()]
    assert [sample["target"] for sample in samples] == [0, 3]  # the letters A and D
    right = sum(sample["answer"] == sample["target"] for sample in samples)
    assert (row["n"], row["failed"], row["value"]) == (2, 0, 50.0 * right)


@pytest.mark.needs("aiohttp")
def test_a_chat_server_is_asked_by_generation(table):
    with FakeServer(lambda call: chat("The answer is D.")) as server:
        options = {"base_url": f"{server.url}/v1", "model_type": "chat"}
        result = kshot.evaluate("openai:x", "quiz.csv", **options, **FLAGS)
    (row,) = result.results
    assert (row["value"], row["n"], row["ranking_type"]) == (50.0, 2, "generation")


def test_a_model_with_logprobs_is_asked_by_perplexity(table, capsys):
    done = command(capsys, "run", "-m", "embedded", "-d", "quiz.csv", *WORDS, "--out", "run", "--json")
    row = json.loads(done.out)["results"][0]
    assert (row["task"], row["n"], "ranking_type" in row) == ("quiz", 2, False)
    assert "ranking-type" not in done.err


@pytest.mark.parametrize(
    ("more", "rule"), [((), "acc_norm"), (("--accuracy", "acc_token"), "acc_token"), (("--accuracy", "acc"), "acc")]
)
def test_accuracy_goes_by_characters_unless_another_rule_is_chosen(table, capsys, more, rule):
    done = command(capsys, "run", "-m", "embedded", "-d", "quiz.csv", *WORDS, "--out", "run", "--no-report", *more)
    assert f"Accuracy ({rule})" in done.out
    figures = {row["metric"]: row for row in kshot.load("run").results}
    assert (figures["Accuracy"]["rule"], figures["Accuracy"]["value"]) == (rule, figures[rule]["value"])


def test_a_run_is_scored_again_where_the_table_has_moved(table, capsys):
    first = command(capsys, "run", "-m", "embedded", "-d", "quiz.csv", *WORDS, "-k", "1", "--out", "run", "--json")
    again = command(capsys, "score", "run", "--json")
    assert (again.code, json.loads(again.out)) == (0, json.loads(first.out))
    table.rename("moved.csv")
    lost = command(capsys, "score", "run")
    assert (lost.code, "quiz.csv: there is no such file" in lost.err) == (2, True)
    moved = command(capsys, "score", "run", "--dataset-path", "moved.csv", "--json")
    assert (moved.code, json.loads(moved.out)) == (0, json.loads(first.out))


def test_other_columns_are_another_run(table, capsys):
    given = ("run", "-m", "embedded", "-d", "quiz.csv", "--question", "Q", "--max-tokens", "2", "--out", "run")
    assert command(capsys, *given, "--target", "A").code == 0
    done = command(capsys, *given, "--target", "B")
    assert (done.code, "target" in done.err) == (2, True)


def test_every_number_of_examples_asks_the_same_rows(table):
    result = kshot.evaluate(lambda prompt: "A", "quiz.csv", num_shots=[0, 1], ranking_type="generation", **FLAGS)
    assert [(row["sweep"], row["n"], row["value"]) for row in result.results] == [
        ({"num_shots": 0}, 2, 50.0),
        ({"num_shots": 1}, 2, 50.0),
    ]


@pytest.mark.needs("aiohttp")
def test_a_temperature_counts_where_the_server_decides(table, capsys):
    with FakeServer(lambda call: chat("The answer is D.")) as server:
        address = ("--base-url", f"{server.url}/v1", "--model-type", "chat", "--temperature", "0,0.5")
        done = command(capsys, "run", "-m", "openai:x", "-d", "quiz.csv", *WORDS, *address, "--out", "run")
    assert done.code == 0, done.err
    assert "no effect" not in done.err
    asked = [call.body["temperature"] for call in server.calls if "messages" in call.body]
    assert asked.count(0.5) == 2
    results = json.loads(Path("run/summary.json").read_text())["results"]
    assert [row["sweep"] for row in results] == [{"temperature": 0.0}, {"temperature": 0.5}]
