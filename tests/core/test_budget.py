"""What a run was asked and paid for: it is what the servers have seen, wherever kshot counts it."""

import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

import kshot
from kshot.backends.server.replies import usage_from
from kshot.core.budget import Budget, Tries
from kshot.core.records import Failed, Generate, Generated, Prompt, Usage
from kshot.core.serialization import response_from_json, response_to_json
from kshot.loggers.run_logger import FigureNames, usage_of
from kshot.report.table import spending
from tests.commands import CAPITALS, kshot as command
from tests.fake_server import FakeServer, Reply, chat, completion, error, with_logprobs

PRICES = {"price_in": 10.0, "price_out": 50.0}


class Metered(FakeServer):
    """A server that bills each reply by its number: no two cost the same."""

    def __init__(self, answer, **options):
        self.billed = Counter()
        super().__init__(lambda call: self._billed(call, answer(call)), **options)

    def _billed(self, call, reply):
        body = reply.body if isinstance(reply, Reply) else reply
        if isinstance(body, dict) and "usage" in body:
            counts = {"prompt_tokens": 100 + call.number, "completion_tokens": 1 + call.number % 7}
            body["usage"] = counts
            self.billed.update(counts)
        return reply


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("capitals.py").write_text(CAPITALS)
    return tmp_path


def run(*servers, dataset="Capitals", size=9, out="run", **options):
    urls = [server.url for server in servers]
    return kshot.evaluate(
        "openai:m", f"capitals.py:{dataset}", base_url=urls, dataset_path=str(size), out=out, **PRICES, **options
    )


def spent(folder="run", role="model"):
    return json.loads((Path(folder) / "spec.json").read_text())["spent"][role]


def billed(*servers):
    """The requests and tokens of all servers, and their price."""
    sums = sum((server.billed for server in servers), Counter())
    read, wrote = sums["prompt_tokens"], sums["completion_tokens"]
    return sum(len(server.calls) for server in servers), read, wrote, (10 * read + 50 * wrote) / 1e6


def adds_up(*servers, result, folder="run"):
    """Check every place that shows or stores what was asked and paid for."""
    requests, read, wrote, cost = billed(*servers)
    found = spent(folder)
    kinds = [found[name] for name in ("answered", "failed", "probes", "unanswered")]
    assert (found["requests"], sum(kinds)) == (requests, requests)
    assert (found["prompt_tokens"], found["completion_tokens"]) == (read, wrote)
    for rows in (result.usage, json.loads((Path(folder) / "summary.json").read_text())["usage"]):
        assert [sum(row[name] for row in rows) for name in ("prompt_tokens", "completion_tokens")] == [read, wrote]
        assert sum(row["cost_usd"] for row in rows) == pytest.approx(cost, abs=1e-6)
    probes = sum(row.get("requests", 0) for row in result.usage if row["role"] == "probe")
    assert probes == found["probes"]
    logged = usage_of(result.usage, FigureNames())
    assert logged["usage/cost_usd"] == pytest.approx(cost, abs=1e-6)
    assert len(spending(result.usage)) == len(result.usage)
    return found


needs_http = pytest.mark.needs("aiohttp")


@needs_http
@pytest.mark.parametrize(
    ("apis", "model_type", "ranking", "probes"),
    [
        (("echo",), "base", "ppl_no_option", 1),
        (("prompt_logprobs",), "base", "ppl_no_option", 3),
        (("top",), "base", "first_token", 4),
        (("top",), "chat", "first_token", 1),
        ((), "base", "generation", 5),
        ((), "chat", "generation", 2),
    ],
)
def test_auto_counts_its_probes_with_their_tokens_and_cost(here, apis, model_type, ranking, probes):
    with Metered(with_logprobs(apis=apis)) as server:
        result = run(server, ranking_type="auto", model_type=model_type)
        assert adds_up(server, result=result)["probes"] == probes
    assert result.results[0]["ranking_type"] == ranking


@needs_http
@pytest.mark.parametrize("ranking", ["ppl", "ppl_no_option", "first_token", "prob", "generation"])
def test_every_ranking_type_adds_up(here, ranking):
    answer = with_logprobs(zero=False, bos=True, ranked=True)
    with Metered(answer) as server:
        adds_up(server, result=run(server, ranking_type=ranking, model_type="base"))


@needs_http
@pytest.mark.parametrize("model_type", ["base", "chat"])
def test_generation_has_no_probes_and_no_further_rows(here, model_type):
    with Metered(lambda call: chat("Paris") if "messages" in call.body else completion(" Paris")) as server:
        result = run(server, dataset="Cities", model_type=model_type)
        assert adds_up(server, result=result)["probes"] == 0
    assert [row["role"] for row in result.usage] == ["model"]
    assert "requests" not in result.usage[0]


@needs_http
def test_sessions_add_up(here):
    """Each session asks what the server offers; what it does not ask again costs nothing."""
    with Metered(with_logprobs()) as server:
        first = run(server, ranking_type="auto")
        second = run(server, ranking_type="auto")
        assert adds_up(server, result=second)["probes"] == 2
    assert first.usage[0] == second.usage[0]
    assert [row["requests"] for row in (first.usage[1], second.usage[1])] == [1, 2]
    assert kshot.score("run").usage == second.usage
    assert adds_up(server, result=second)["requests"] == len(server.calls)


@needs_http
def test_a_run_that_stops_at_a_limit_and_goes_on_adds_up(here):
    with Metered(with_logprobs()) as server:
        for limit in (3, 20):
            with pytest.raises(kshot.LimitReached):
                run(server, ranking_type="auto", max_requests=limit)
            assert len(server.calls) == spent()["requests"] <= limit
        adds_up(server, result=run(server, ranking_type="auto"))


@needs_http
def test_failures_and_further_tries_add_up(here):
    """Errors cost nothing; a reply that cannot be used, or that is withheld, was paid for."""

    def answer(call):
        match call.number % 6:
            case 0:
                return error(503, "busy")
            case 2:
                return completion("", "content_filter")
            case 4 if call.number < 20:
                return {"usage": {}, "choices": []}
        return completion(" Paris")

    with Metered(answer) as server:
        result = run(server, dataset="Cities", size=30)
        found = adds_up(server, result=result)
    assert found["failed"] > 10
    assert found["given_up"] == sum(row["failed"] for row in result.results[:1]) > 0
    (unused,) = (row for row in result.usage if row["role"] == "unused")
    assert unused["prompt_tokens"] > 0


@needs_http
def test_parts_of_an_answer_that_fails_are_paid_for(here):
    """Of the options of a question some were answered, and then one cannot be used."""
    plain = with_logprobs()

    def answer(call):
        reply = plain(call)
        if " Oslo" in call.body["prompt"]:
            reply["choices"][0]["logprobs"]["token_logprobs"] = ["x"]
        return reply

    with Metered(answer) as server:
        found = adds_up(server, result=run(server, ranking_type="ppl_no_option"))
    assert found["given_up"] > 0
    assert found["answered"] > 0


@needs_http
def test_a_parameter_that_is_refused_is_a_failed_request(here):
    def answer(call):
        return error(400, "unsupported parameter: temperature") if "temperature" in call.body else completion(" Paris")

    with Metered(answer) as server:
        found = adds_up(server, result=run(server, dataset="Cities", max_concurrency=1))
    assert (found["requests"], found["answered"], found["failed"]) == (10, 9, 1)


@needs_http
def test_servers_side_by_side_are_probed_each_and_add_up(here):
    with ExitStack() as stack:
        servers = [stack.enter_context(Metered(with_logprobs(), latency=0.002)) for _ in range(3)]
        result = run(*servers, ranking_type="auto", size=40, max_concurrency=2)
        assert adds_up(*servers, result=result)["probes"] == 3


@needs_http
def test_each_model_has_its_own_probes(here):
    with Metered(with_logprobs()) as server:
        result = kshot.evaluate(
            ["openai:a", "openai:b"], "capitals.py:Capitals",
            base_url=server.url, ranking_type="auto", out="run", report=False, **PRICES,
        )  # fmt: skip
        adds_up(server, result=result)
    assert [(row["model"], row["role"]) for row in result.usage] == [
        ("openai:a", "model"),
        ("openai:b", "model"),
        ("openai:a", "probe"),
        ("openai:b", "probe"),
    ]


@needs_http
def test_shards_that_are_merged_add_up(here):
    with Metered(with_logprobs()) as server:
        for shard in ("1/2", "2/2"):
            run(server, ranking_type="auto", shard=shard, out=shard[0])
        result = kshot.merge(["1", "2"], out="run")
        assert adds_up(server, result=result)["probes"] == 2


@needs_http
def test_a_probe_that_ends_the_run_is_recorded(here):
    with Metered(lambda call: error(401, "no")) as server, pytest.raises(kshot.KshotError):
        run(server, ranking_type="auto")
    assert spent()["requests"] == spent()["probes"] == len(server.calls) > 0


@needs_http
def test_the_screen_the_pages_and_the_list_show_probes(here, capsys):
    with Metered(with_logprobs()) as server:
        done = command(
            capsys, "run", "-m", "openai:m", "-d", "capitals.py:Capitals", "--base-url", server.url, "--out", "run",
            "--ranking-type", "auto", "--price-in", "10", "--price-out", "50",
        )  # fmt: skip
        requests, read, wrote, cost = billed(server)
    assert "openai:m (probe, 1 request): 100 tokens read, 1 written" in done.out
    shown = command(capsys, "runs", "run").out
    assert f"{requests} requests, {requests - 1} answered, 1 probes" in shown
    page = Path("run/report.html").read_text()
    assert f"{requests} requests, {requests - 1} answered, 1 probes" in page
    assert "probe, 1 request" in page
    (listed,) = json.loads(command(capsys, "runs", ".", "--json").out)
    assert listed["cost_usd"] == pytest.approx(cost, abs=1e-6)
    assert (listed.get("failed"), read > wrote) == (0, True)


# ---- tokens in the cache of a server ----


def with_cache(usage, **cached):
    return {**chat(" Paris"), "usage": {**usage, **cached}}


CACHED_PRICES = {"price_in": 10.0, "price_out": 50.0, "price_cached": 1.0}


@needs_http
@pytest.mark.parametrize(
    "cached",
    [
        {"prompt_tokens_details": {"cached_tokens": 60}},
        {"prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40},
        {"prompt_tokens_details": {"cached_tokens": 60}, "cache_read_input_tokens": 60},
    ],
)
def test_cached_tokens_are_counted_shown_and_charged_at_their_price(here, cached):
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    with FakeServer(lambda call: with_cache(usage, **cached)) as server:
        options = dict(base_url=server.url, model_type="chat", dataset_path="5", **CACHED_PRICES)
        result = kshot.evaluate("openai:m", "capitals.py:Cities", out="run", **options)
    (row,) = result.usage
    cost = 5 * (40 * 10 + 60 * 1 + 10 * 50) / 1e6
    assert (row["prompt_tokens"], row["cached_tokens"], row["cost_usd"]) == (500, 300, pytest.approx(cost))
    assert spent()["cached_tokens"] == 300
    assert spending(result.usage) == ["openai:m: 500 tokens read (300 cached), 50 written, 0.0048 USD"]
    assert usage_of(result.usage, FigureNames())["usage/openai:m_cached_tokens"] == 300
    assert "of them cached" in Path("run/report.html").read_text()
    assert kshot.score("run").usage == result.usage
    (listed,) = kshot.list_runs(".")
    assert listed["cost_usd"] == pytest.approx(cost)


@needs_http
def test_cached_tokens_cost_as_others_without_a_price_of_their_own(here):
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 60}}
    with FakeServer(lambda call: with_cache(usage)) as server:
        options = dict(base_url=server.url, model_type="chat", dataset_path="5", **PRICES)
        (row,) = kshot.evaluate("openai:m", "capitals.py:Cities", **options).usage
    assert (row["cached_tokens"], row["cost_usd"]) == (300, pytest.approx(5 * (100 * 10 + 10 * 50) / 1e6))


@needs_http
def test_a_limit_of_cost_counts_cached_tokens_at_their_price(here, capsys):
    usage = {"prompt_tokens": 100, "completion_tokens": 0, "prompt_cache_hit_tokens": 100}
    with FakeServer(lambda call: with_cache(usage)) as server:
        done = command(
            capsys, "run", "-m", "openai:m", "-d", "capitals.py:Cities", "--dataset-path", "30", "--base-url", server.url,
            "--model-type", "chat", "--price-in", "10", "--price-out", "50", "--price-cached", "1",
            "--max-cost", "0.001", "--out", "run",
        )  # fmt: skip
        assert (done.code, len(server.calls)) == (4, 10)


@pytest.mark.parametrize(
    ("fields", "given", "usage"),
    [
        ((), {"prompt_tokens": 9, "completion_tokens": 1}, (9, 1, 0)),
        ((), {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": None}, (9, 1, 0)),
        ((), {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": None}}, (9, 1, 0)),
        ((), {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 99}}, (9, 1, 9)),
        ((), {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": -1}}, None),
        ((), {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": "4"}, None),
        (("input_tokens", "output_tokens"), {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 100,
         "cache_creation_input_tokens": 20}, (127, 3, 100)),
    ],
)  # fmt: skip
def test_what_servers_say_of_their_cache(fields, given, usage):
    found = usage_from({"usage": given}, *fields)
    assert (found and (found.prompt_tokens, found.completion_tokens, found.cached_tokens)) == usage


@pytest.mark.parametrize("usage", [Usage(5, 2), Usage(5, 2, 3)])
def test_a_journal_keeps_cached_tokens_and_earlier_ones_are_read(usage):
    body = response_to_json(Generated("x", usage=usage))
    assert len(body["usage"]) == (3 if usage.cached_tokens else 2)
    assert response_from_json(body).usage.cached_tokens == usage.cached_tokens


@pytest.mark.parametrize("usage", [[5], [5, 2, -1], [5, 2, "x"], [5, 2, 1, 1], []])
def test_counts_that_no_response_has_are_damage(usage):
    with pytest.raises(ValueError, match=r"values|unpack"):
        response_from_json({"text": "x", "stop_reason": "stop", "usage": usage})


# ---- the account itself ----


def test_a_model_in_this_process_counts_what_it_answers(here):
    result = kshot.evaluate("embedded", "capitals.py:Cities", dataset_path="6", out="run", max_tokens=2)
    found = spent()
    assert (found["requests"], found["answered"], found["failed"], found["probes"]) == (6, 6, 0, 0)
    (row,) = result.usage
    assert [found[name] for name in ("prompt_tokens", "completion_tokens")] == [
        row["prompt_tokens"],
        row["completion_tokens"],
    ]


def test_an_account_of_an_earlier_version_goes_on(here):
    earlier = {
        "requests": 78,
        "answered": 19,
        "failed": 1,
        "unanswered": 2,
        "prompt_tokens": 50,
        "completion_tokens": 5,
    }
    records = []
    budget = Budget(earlier={"model": earlier}, record=records.append)
    budget.start("model", 1)
    budget.answered("model", Generate(Prompt("x")), Generated("y", usage=Usage(1, 1)), "m")
    budget.record()
    found = records[-1]["model"]
    assert found["requests"] == 79 == sum(found[name] for name in ("answered", "failed", "probes", "unanswered"))
    assert (found["finished"], found["given_up"], found["prompt_tokens"]) == (20, 1, 51)


@pytest.mark.parametrize("aside", [7, {"m": 7}, {"m": {"probe": {"requests": -1}}}, {"m": {"probe": {"cost": 1}}}])
def test_a_damaged_account_is_one_message(aside):
    with pytest.raises(kshot.KshotError, match=r"spec\.json is damaged"):
        Budget(earlier={"model": {"requests": 1, "probes": 0, "aside": aside}})


def test_the_cost_shown_is_that_of_the_tokens_and_the_limit_counts_failures_too():
    budget, tries = Budget(max_cost=2.5, prices={"model": (1.0, 0.0)}), Tries()
    budget.follow("model", "m", tries)
    for response in (Generated("x", usage=Usage(10**6, 0)), Failed("down", "")):
        budget.start("model", 1, sent=False)
        budget.sent("model")
        failed = isinstance(response, Failed)
        tries.ended(None if failed else response.usage, "failed" if failed else "answered")
        budget.answered("model", Generate(Prompt("x")), response, "m")
    assert budget.tokens()[2] == pytest.approx(1.0)
    assert not budget.may_start("model")  # the failure may have cost as much
