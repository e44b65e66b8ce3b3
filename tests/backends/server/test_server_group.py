"""Several servers of one model: the load goes to those that answer, none gets what is not for it, and nothing is lost."""

import asyncio
import json
from contextlib import ExitStack

import pytest

import kshot
from kshot.backends import open_model
from kshot.core.errors import BackendError, UsageError
from kshot.core.records import Failed, Generated, Loglik, Prompt, Scored
from tests.backends.server.clients import chat_requests
from tests.commands import kshot as kshot_command
from tests.datasets.fakes import choice, generation
from tests.fake_server import FakeServer, Reply, chat, echo, error, expected, with_logprobs
from tests.tiny_models import ask_all


def connect(*servers, **options):
    """Open a client of several fake servers."""
    return open_model("openai:m", {"base_url": [server.url for server in servers], **options})


def texts(found):
    """Return the texts of answers; a failure is shown whole."""
    return [each.text if isinstance(each, Generated) else each for each in found]


def nobody():
    """Return an address where no server listens."""
    with FakeServer(echo) as server:
        return server


def answered(model):
    """Return how many requests each server answered, as the notes tell it."""
    (told,) = [note for note in model.notes if note.startswith("requests answered: ")]
    return [
        int(part.rpartition(" ")[2].replace(",", "")) for part in told.removeprefix("requests answered: ").split(", ")
    ]


# ---- who answers ----


def test_one_of_three_dies_and_comes_back_and_nothing_is_lost():
    """It dies with requests under way; the others go on alone, and the last requests wait until it answers again."""
    count, revived, back = 600, [], []

    def dying(call):
        if call.number == 30:
            dies.die()
        elif revived and not back:  # it may still read what came before it died
            back.append(call.prompt)
            for server in (first, last):
                server.call_soon(server.again.set)
        return echo(call)

    async def living(call):
        first_done, last_done = len(first.calls), len(last.calls)
        if first_done + last_done >= 200 and not revived:
            revived.append(call.prompt)
            dies.revive()
        if first_done + last_done > 350:  # those before it were answered by two servers alone
            await (first if call in first.calls else last).again.wait()
        return echo(call)

    with ExitStack() as stack:
        first, dies, last = (stack.enter_context(FakeServer(each)) for each in (living, dying, living))
        for server in (first, last):
            server.again = asyncio.Event()
        model = connect(first, dies, last, max_concurrency=20, patience=10.0)
        found = ask_all(model, chat_requests(count))
        by_server = answered(model)
    assert texts(found) == [f"<{number}>" for number in range(count)]
    assert sum(by_server) == count
    assert back, "the server that died was tried again"
    assert by_server[0] + by_server[2] > 300
    (told,) = [note for note in model.notes if "left out" in note]
    assert told.startswith(f"{dies.url}/v1 was left out at ")
    assert ", back at " in told


def test_the_faster_server_gets_more():
    """One answers at once; the other keeps each request until ten more are answered, or no other is left."""
    turns, held = [], []

    def release():
        for due, event in held:
            if len(turns) >= due or len(turns) + slow_server.running >= 100:
                event.set()

    async def slow(call):
        held.append((len(turns) + 10, asyncio.Event()))
        release()
        await held[-1][1].wait()
        turns.append("slow")
        return echo(call)

    def fast(call):
        turns.append("fast")
        slow_server.call_soon(release)
        return echo(call)

    with FakeServer(slow) as slow_server, FakeServer(fast) as fast_server:
        model = connect(slow_server, fast_server, max_concurrency=2)
        found = ask_all(model, chat_requests(100))
        by_server = answered(model)
    assert texts(found) == [f"<{number}>" for number in range(100)]
    assert by_server[1] > 3 * by_server[0] > 0


def test_each_server_takes_as_many_requests_at_one_time_as_are_allowed():
    """Each answers only when it has three requests: one that got fewer or more would never answer, or show it."""

    class Filled(FakeServer):
        def __init__(self):
            super().__init__(self.held)
            self.full = asyncio.Event()

        async def held(self, call):
            if self.running == 3:
                self.full.set()
            await self.full.wait()
            return echo(call)

    with Filled() as one, Filled() as two:
        found = ask_all(connect(one, two, max_concurrency=3), chat_requests(30))
    assert texts(found) == [f"<{number}>" for number in range(30)]
    assert [server.max_running for server in (one, two)] == [3, 3]


def test_a_server_that_asks_to_wait_is_left_alone_and_the_others_go_on():
    with FakeServer(lambda _: error(429, "later", {"Retry-After": "86400"})) as full, FakeServer(echo) as other:
        model = connect(full, other, max_concurrency=4)
        found = ask_all(model, chat_requests(50))
    assert texts(found) == [f"<{number}>" for number in range(50)]
    assert len(full.calls) <= 4  # those that ran before the first reply
    assert len(other.calls) == 50
    assert any("429" in note and "it has not answered since" in note for note in model.notes)


@pytest.mark.parametrize("wrong", [error(401, "expired"), Reply({"choices": []}), Reply("", cut_after=0)])
def test_a_server_that_answers_and_then_refuses_or_answers_nonsense_is_left_out(wrong):
    """It is quick, and would get most requests and fail them all."""

    def turning(call):
        return echo(call) if call.number < 5 else wrong

    with FakeServer(turning) as bad, FakeServer(echo, latency=0.002) as good:
        model = connect(bad, good, max_concurrency=2)
        found = ask_all(model, chat_requests(200))
    assert texts(found) == [f"<{number}>" for number in range(200)]
    assert answered(model) == [5, 195]
    assert any(note.startswith(f"{bad.url}/v1 was left out at ") for note in model.notes)


def test_a_request_that_every_server_refuses_fails_alone():
    def answer(call):
        return error(500, "it crashes the model") if call.prompt == "7" else echo(call)

    with FakeServer(answer) as one, FakeServer(answer) as two:
        found = ask_all(connect(one, two, max_concurrency=2, patience=8.0), chat_requests(400))
    assert [at for at, each in enumerate(found) if isinstance(each, Failed)] == [7]
    assert found[7].kind == "unanswered"


# ---- servers that are not there ----


def test_a_server_that_is_not_there_at_the_start_is_left_out():
    with FakeServer(echo) as there:
        model = connect(nobody(), there)
        assert texts(ask_all(model, chat_requests(40))) == [f"<{number}>" for number in range(40)]
        assert answered(model) == [0, 40]
        assert any("cannot be reached" in note and "it has not answered since" in note for note in model.notes)


def test_if_no_server_is_there_the_run_stops_at_once():
    with pytest.raises(BackendError, match="cannot be reached"):
        ask_all(connect(nobody(), nobody()), chat_requests(10))


def test_if_all_servers_die_the_patience_ends_the_run():
    def dies(call):
        return echo(call) if call.number < 10 else Reply("no", 503)

    with FakeServer(dies) as one, FakeServer(dies) as two, pytest.raises(BackendError, match="no answer for"):
        ask_all(connect(one, two, patience=0.5), chat_requests(100))


def test_a_server_without_the_model_stops_the_run():
    with (
        FakeServer(echo) as one,
        FakeServer(lambda _: error(404, "no model m")) as two,
        pytest.raises(BackendError, match="no model m") as stopped,
    ):
        ask_all(connect(one, two), chat_requests(10))
    assert stopped.value.where == f"openai:m at {two.url}/v1"


def test_replies_that_name_other_models_are_told_of_each_server():
    def naming(name):
        return lambda call: echo(call) | {"model": name}

    with FakeServer(naming("m")) as one, FakeServer(naming("m-quantised")) as two:
        model = connect(one, two, max_concurrency=2)
        ask_all(model, chat_requests(20))
    (told,) = [note for note in model.notes if "another model" in note]
    assert told == f"{two.url}/v1: the replies name another model than was asked for: 'm-quantised' instead of 'm'"


# ---- log-probabilities ----

PARIS = [Loglik(Prompt(f"The capital of land {number} is"), (" Paris", " Rome")) for number in range(20)]


def test_log_probabilities_come_from_all_servers():
    with FakeServer(with_logprobs()) as one, FakeServer(with_logprobs()) as two:
        model = connect(one, two, max_concurrency=2)
        found = ask_all(model, PARIS)
        assert all(isinstance(each, Scored) for each in found)
        assert found[0].likelihoods[0].logprob == pytest.approx(expected("The capital of land 0 is", " Paris")[0])
        assert min(answered(model)) > 1


@pytest.mark.parametrize(
    "other",
    [with_logprobs(apis=()), with_logprobs(apis=("prompt_logprobs",)), with_logprobs(eos=True)],
    ids=["none", "another way", "another form"],
)
def test_servers_that_disagree_on_log_probabilities_are_refused(other):
    with (
        FakeServer(with_logprobs(apis=("echo",))) as one,
        FakeServer(other) as two,
        pytest.raises(BackendError, match="the servers differ: it does not give log-probabilities") as stopped,
    ):
        ask_all(connect(one, two, max_concurrency=2), PARIS)
    assert stopped.value.where == f"openai:m at {two.url}/v1"
    assert f"as {one.url}/v1 does" in str(stopped.value)


def test_servers_that_disagree_on_likely_tokens_are_refused():
    listed = [Loglik(each.prompt, each.continuations, listed=True) for each in PARIS]
    with (
        FakeServer(with_logprobs(apis=("top",))) as one,
        FakeServer(with_logprobs(apis=())) as two,
        pytest.raises(BackendError, match="does not give the likeliest first tokens"),
    ):
        ask_all(connect(one, two, max_concurrency=2), listed)


def test_a_server_that_is_not_there_does_not_say_what_the_others_offer():
    rows = [{"q": str(i), "options": ["a", "b"], "target_idx": 0} for i in range(8)]
    with FakeServer(with_logprobs()) as one:
        options = dict(base_url=[nobody().url, one.url], ranking_type="auto")
        result = kshot.evaluate("openai:m", choice(rows), **options)
    assert result.results[0]["ranking_type"] == "ppl_no_option"


# ---- how they are named, and what they are asked with ----


def test_the_ways_to_name_several_servers():
    with FakeServer(echo) as one, FakeServer(echo) as two:
        urls = f"{one.url}+{two.url}"
        models = [
            open_model(f"openai:m@{urls}"),
            open_model(f"openai:m,base_url={urls}"),
            open_model("openai:m", {"base_url": (one.url, two.url)}),
        ]
        for model in models:
            assert len(ask_all(model, chat_requests(10))) == 10
        assert len({model.fingerprint for model in models}) == 1
        assert models[0].fingerprint == open_model(f"openai:m@{one.url}").fingerprint
        assert models[0].fingerprint != open_model(f"openai:m@{two.url}").fingerprint
    assert min(len(one.calls), len(two.calls)) >= 3


def test_several_servers_on_the_command_line_and_in_a_run_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quiz.csv").write_text("q,a\n" + "".join(f"{i},{i}\n" for i in range(12)))
    with FakeServer(echo) as one, FakeServer(echo) as two:
        rows = ("-d", "quiz.csv", "--question", "q", "--target", "a", "--model-type", "chat", "--max-concurrency", "2")
        named = ("--base-url", one.url, "--base-url", two.url)
        done = kshot_command(capsys, "run", "-m", "openai:m", *rows, *named, "--out", "flags")
        assert done.code == 0, done.err
        assert f"requests answered: {one.url}/v1 " in done.err.replace("\n", " ")
        counts = len(one.calls), len(two.calls)
        assert sum(counts) == 12
        assert min(counts) >= 2
        settings = f'base_url = ["{one.url}", "{two.url}"]\nquestion = "q"\ntarget = "a"\nmodel_type = "chat"'
        lines = ['models = ["openai:m"]', 'datasets = ["quiz.csv"]', "[settings]", settings, "max_concurrency = 2"]
        (tmp_path / "run.toml").write_text("\n".join(lines) + "\n")
        done = kshot_command(capsys, "run", "run.toml", "--out", "file")
        assert done.code == 0, done.err
        assert min(len(one.calls) - counts[0], len(two.calls) - counts[1]) >= 2


def test_a_plus_in_an_address_is_no_separator():
    (address,) = open_model("openai:m@http://a/x+y")._addresses
    assert address.url == "http://a/x+y"


@pytest.mark.parametrize("spec", ["openai:m@http://a+http://A/v1", "openai:m,base_url=http://a+http://a/v1/"])
def test_a_server_that_is_named_twice_is_refused(spec):
    with pytest.raises(UsageError, match=r"--base-url names http://a/v1 twice"):
        open_model(spec)


def test_a_password_in_the_second_address_is_not_shown():
    with pytest.raises(UsageError) as refused:
        open_model("openai:m@http://a+http://user:hunter22@b")
    assert "hunter22" not in str(refused.value)


def test_a_key_goes_to_the_servers_that_are_named_and_to_no_other(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-1234567890")
    monkeypatch.setenv("MY_KEY", "sk-mine-0987654321")
    with FakeServer(echo) as one, FakeServer(echo) as two, FakeServer(lambda _: chat("[[7]]")) as judge:
        options = dict(base_url=[one.url, two.url], model_type="chat", judge=f"openai:j@{judge.url}", metric="GPTEval")
        rows = [{"q": str(i), "target": "x"} for i in range(12)]
        kshot.evaluate("openai:m", generation(rows), **options)
        assert not any("authorization" in call.headers for server in (one, two, judge) for call in server.calls)
        before = len(one.calls), len(two.calls), len(judge.calls)
        kshot.evaluate("openai:m", generation(rows), api_key_env="MY_KEY", **options)
        for server, count in zip((one, two), before, strict=False):
            sent = {call.headers.get("authorization") for call in server.calls[count:]}
            assert sent == {"Bearer sk-mine-0987654321"}
        assert not any("authorization" in call.headers for call in judge.calls)


def test_a_run_goes_on_with_more_servers_and_asks_nothing_again(tmp_path):
    rows = [{"q": str(i), "target": f"<{i}:>"} for i in range(60)]

    def half(call):
        return echo(call) if call.number < 30 else Reply("no", 503)

    with FakeServer(half) as one, FakeServer(echo) as two:
        options = dict(model_type="chat", out=tmp_path / "run", patience=0.5, max_concurrency=4)
        with pytest.raises(BackendError):
            kshot.evaluate("openai:m", generation(rows), base_url=one.url, **options)
        result = kshot.evaluate("openai:m", generation(rows), base_url=[one.url, two.url], **options)
    assert (result.results[0]["n"], result.results[0]["value"]) == (60, 100.0)
    answered_before = {call.prompt for call in one.calls[:30]}
    assert {call.prompt for call in two.calls} == {f"{number}:" for number in range(60)} - answered_before
    identity = json.loads((tmp_path / "run" / "spec.json").read_text())["identity"]
    assert identity["base_url"] == one.url
