"""``--max-requests`` and ``--max-cost``: the run stops, keeps every answer, and goes on under a higher limit."""

import json
from pathlib import Path

import pytest

import kshot
from tests.commands import CAPITALS, kshot as command
from tests.fake_server import FakeServer, chat, completion, error, with_logprobs
from tests.runs.test_runner import digits

pytestmark = pytest.mark.needs("aiohttp")

SIZE = 40
PRICED = ("--price-in", "10", "--price-out", "50")  # of 10 tokens read and 2 written: 0.0002 USD


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    Path("capitals.py").write_text(CAPITALS)
    Path("rated.py").write_text(
        CAPITALS + "\nfrom kshot import GPTEval\nclass Rated(Cities):\n    metrics = [GPTEval()]\n"
    )
    return tmp_path


def run(capsys, server, *more, dataset="capitals.py:Cities", size=SIZE):
    return command(
        capsys, "run", "-m", "openai:m", "--base-url", server.url, "-d", dataset, "--dataset-path", size,
        "--out", "run", "--json", *more,
    )  # fmt: skip


def answered():
    return [line for line in Path("run/journal.jsonl").read_text().splitlines() if '"failed"' not in line]


def test_requests_stop_at_the_limit_and_go_on_under_a_higher_one(here, capsys):
    with FakeServer(lambda call: completion(" Paris")) as server:
        done = run(capsys, server, "--max-requests", "7")
        assert done.code == 4, done
        assert "--max-requests 7 is reached" in done.err
        assert "the same command with a higher limit goes on" in done.err
        assert len(server.calls) == len(answered()) == 7  # what was under way was stored
        assert not Path("run/summary.json").exists()
        assert run(capsys, server, "--max-requests", "7").code == 4
        assert len(server.calls) == 7  # nothing more was asked
        assert run(capsys, server, "--max-requests", "12").code == 4
        assert len(server.calls) == 12
        done = run(capsys, server, "--max-requests", SIZE)  # as many as are needed
        assert done.code == 0
        assert len(server.calls) == len(answered()) == SIZE  # none was asked twice
    assert json.loads(done.out)["results"][0]["n"] == SIZE
    assert json.loads(Path("run/spec.json").read_text())["spent"]["model"]["requests"] == SIZE


def test_limits_do_not_identify_a_run(here, capsys):
    with FakeServer(lambda call: completion(" Paris")) as server:
        assert run(capsys, server).code == 0
        assert run(capsys, server, "--max-requests", "1", "--max-cost", "0", *PRICED).code == 0  # it asks nothing more
    assert len(server.calls) == SIZE


def test_further_tries_count(here, capsys):
    """Two calls fail, and are tried again; no call above the limit reaches the server."""
    with FakeServer(lambda call: error(500, "busy") if call.number in {1, 3} else completion(" Paris")) as server:
        done = run(capsys, server, "--max-requests", "9")
        assert done.code == 4
        assert len(server.calls) <= 9
        first = len(answered())
        assert first < 9
        done = run(capsys, server, "--max-requests", 10 * SIZE)
        assert done.code == 0, done
    assert len(answered()) == SIZE


def test_a_try_that_the_limit_forbids_ends_the_run_even_if_nothing_waits(here, capsys):
    with FakeServer(lambda call: error(500, "busy")) as server:
        done = run(capsys, server, "--max-requests", "1", size=1)
        assert done.code == 4
        assert len(server.calls) == 1


def test_what_a_server_asks_to_learn_what_it_offers_counts(here, capsys):
    with FakeServer(with_logprobs()) as server:
        done = run(capsys, server, "--max-requests", "3", "--ranking-type", "auto", dataset="capitals.py:Capitals")
        assert done.code == 4, done
        assert len(server.calls) <= 3
        assert "Traceback" not in done.err


def test_the_cost_stops_before_the_limit_is_passed(here, capsys):
    with FakeServer(lambda call: completion(" Paris"), latency=0.005) as server:
        done = run(capsys, server, "--max-cost", "0.001", *PRICED)
        assert done.code == 4, done
        assert "--max-cost 0.001 is reached: the answers so far cost 0.001 USD" in done.err
        assert len(server.calls) == len(answered()) == 5
        assert run(capsys, server, "--max-cost", "0.001", *PRICED).code == 4
        assert len(server.calls) == 5
        done = run(capsys, server, "--max-cost", "100", *PRICED)
        assert done.code == 0
        assert len(server.calls) == SIZE
    (usage,) = json.loads(done.out)["usage"]
    assert usage["cost_usd"] == pytest.approx(SIZE * 0.0002)


def test_the_judge_counts_too_and_needs_its_own_price(here, capsys):
    with FakeServer(lambda call: chat("Paris")) as server, FakeServer(lambda call: chat("[[7]]")) as judge:
        options = ("--model-type", "chat", "--judge", f"openai:j@{judge.url}", "--max-cost", "0.002", *PRICED)
        done = run(capsys, server, *options, dataset="rated.py:Rated")
        assert done.code == 2
        assert "--max-cost needs --judge-price-in: the judge is behind a server" in done.err
        assert not server.calls
        prices = ("--judge-price-in", "10", "--judge-price-out", "50")
        done = run(capsys, server, *options, *prices, dataset="rated.py:Rated")
        assert done.code == 4
        assert 8 <= len(server.calls) + len(judge.calls) <= 11  # what the first judgement costs shows late
        done = run(capsys, server, *options, *prices, "--max-requests", "3", dataset="rated.py:Rated")
        assert done.code == 4
        before = len(server.calls), len(judge.calls)
        higher = [*options[:-5], "1", *PRICED, *prices]
        assert run(capsys, server, *higher, dataset="rated.py:Rated").code == 0
        assert before != (SIZE, SIZE) == (len(server.calls), len(judge.calls))


@pytest.mark.parametrize("missing", ["--price-in", "--price-out"])
def test_a_cost_needs_prices(here, capsys, missing):
    given = [
        part for name, value in zip(PRICED[::2], PRICED[1::2], strict=True) if name != missing for part in (name, value)
    ]
    with FakeServer(lambda call: completion(" Paris")) as server:
        done = run(capsys, server, "--max-cost", "1", *given)
        assert done.code == 2
        assert f"--max-cost needs {missing}" in done.err
        assert not server.calls
        assert not Path("run").exists()


def test_a_reply_without_usage_counts_with_the_most_that_it_can_cost(here, capsys):
    def answer(call):
        return {name: value for name, value in completion(" Paris").items() if name != "usage"}

    with FakeServer(answer) as server:
        done = run(capsys, server, "--max-tokens", "100", "--max-cost", "0.02", *PRICED)
        assert done.code == 4, done
        assert 1 <= len(server.calls) <= 4  # 100 tokens written cost 0.005 USD


def test_a_model_in_this_process_is_limited_too(here, capsys):
    done = command(capsys, "run", "-m", "embedded", "-d", "capitals.py:Cities", "--max-requests", "2", "--out", "run")
    assert done.code == 4
    assert len(answered()) == 2


def one(prompt):
    return "1"


def test_python_code_gets_an_exception(tmp_path):
    with pytest.raises(kshot.LimitReached, match="Nothing is kept without a run folder"):
        kshot.evaluate(one, digits(), max_requests=1)
    with pytest.raises(kshot.LimitReached, match="goes on"):
        kshot.evaluate(one, digits(), max_requests=1, out=tmp_path / "run")
    result = kshot.evaluate(one, digits(), max_requests=1000, out=tmp_path / "run")
    assert len(result.samples) == len((tmp_path / "run/journal.jsonl").read_text().splitlines()) == 6


def test_what_a_folder_has_spent_must_be_readable(here, capsys):
    with FakeServer(lambda call: completion(" Paris")) as server:
        run(capsys, server, size=5)
        for damaged in ({"model": {"requests": -1}}, {"model": 7}, [1], {"model": {"requests": "many"}}):
            spec = json.loads(Path("run/spec.json").read_text())
            Path("run/spec.json").write_text(json.dumps(spec | {"spent": damaged}))
            done = run(capsys, server, size=5)
            assert done.code == 2
            assert "run: spec.json is damaged" in done.err
            assert "Traceback" not in done.err


@pytest.mark.parametrize("limit", [("--max-requests", "7"), ("--max-cost", "0.001")])
@pytest.mark.parametrize("judged", [False, True])
def test_a_run_that_stopped_at_a_limit_can_be_scored(here, capsys, limit, judged):
    """Scoring asks nothing, so nothing limits it, and what was spent stays as it was."""
    with FakeServer(lambda call: chat("Paris")) as server, FakeServer(lambda call: chat("[[7]]")) as judge:
        options = ["--model-type", "chat", *PRICED, *limit]
        if judged:
            options += ["--judge", f"openai:j@{judge.url}", "--judge-price-in", "10", "--judge-price-out", "50"]
        dataset = "rated.py:Rated" if judged else "capitals.py:Cities"
        assert run(capsys, server, *options, dataset=dataset).code == 4
        spent = json.loads(Path("run/spec.json").read_text())["spent"]
        done = command(capsys, "score", "run", "--json")
    row = json.loads(done.out)["results"][0]
    assert done.code == (0 if row["n"] else 1), done  # perhaps nothing was judged before the limit
    assert (row["n"] < SIZE, row["n"] + row["failed"]) == (True, SIZE)
    assert judged or row["n"] > 0
    assert json.loads(Path("run/spec.json").read_text())["spent"] == spent


def test_a_server_that_refuses_everything_is_not_asked_again_under_the_same_limit(here, capsys):
    with FakeServer(lambda call: error(401, "no")) as server:
        codes, calls = [], []
        for _ in range(4):
            codes.append(run(capsys, server, "--max-requests", "3", "--max-concurrency", "1").code)
            calls.append(len(server.calls))
    assert not Path("run/journal.jsonl").read_bytes()  # nothing was answered
    assert max(calls) == 3
    assert codes[-1] == 4
    assert json.loads(Path("run/spec.json").read_text())["spent"]["model"]["requests"] == 3
