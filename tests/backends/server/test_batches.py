"""The batch APIs of OpenAI and Anthropic: submit, come back, collect; killed, partly failed, expired, refused."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

import kshot
from kshot.backends.server.batch_apis import OpenAIBatches
from kshot.core.budget import LimitReached
from kshot.core.errors import BackendError, KshotError
from tests.backends.server.batch_runs import KEY, MODELS, Runs, answer, same_files
from tests.batch_server import BatchServer
from tests.cases import some
from tests.chaos.scenarios import DATA
from tests.commands import kshot as command, kshot_process
from tests.fake_server import chat

pytestmark = pytest.mark.needs("aiohttp")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THE_KEY", KEY)
    Path("data.py").write_text(DATA)
    return tmp_path


@pytest.fixture
def server():
    with BatchServer(answer) as running:
        yield running


@pytest.mark.parametrize("model", MODELS)
def test_submit_come_back_collect(server, model):
    runs = Runs(server, model)
    plain = runs.plain()
    assert runs.call() is None
    assert runs.call() is None  # nothing is ready, and nothing is submitted twice
    assert not Path("run/summary.json").exists()
    assert len(server.batches) == 1
    server.end()
    found = runs.call()
    assert found.results == plain.results
    assert same_files("run", "plain")
    journals = [Path(run, "journal.jsonl").read_text().splitlines() for run in ("run", "plain")]
    assert sorted(journals[0]) == sorted(journals[1])  # a plain run could go on from here
    assert sorted(server.submitted) == sorted(json.loads(line)["key"] for line in journals[0])


@pytest.mark.parametrize("model", MODELS)
def test_turns_judges_and_several_datasets_go_on_in_rounds(server, model):
    runs = Runs(
        server, model, ["data.py:Talks", "data.py:Judged", "data.py:Cities"], judge="openai:judge", dataset_path="5"
    )
    runs.plain()
    assert runs.to_the_end() == 4  # three turns and a rating
    assert same_files("run", "plain")
    assert max(Counter(server.submitted).values()) == 1
    first = next(iter(server.batches.values()))
    assert len(first["lines"]) == 10  # of all datasets: the two of cities ask the same


def test_a_model_that_judges_itself_and_has_options_of_its_own(server):
    runs = Runs(server, "openai:judge,rpm=6000", ["data.py:Judged"], judge="openai:judge")
    runs.plain()
    assert runs.to_the_end() == 2
    assert same_files("run", "plain")
    assert max(Counter(server.submitted).values()) == 1


def test_shards_submit_batches_of_their_own(server):
    runs = Runs(server, datasets=["data.py:Talks"], judge="openai:judge")
    runs.plain()
    folders = [f"shard {number}" for number in (1, 2)]
    for _ in range(4):
        assert [runs.call(out, shard=f"{out[-1]}/2") for out in folders] == [None, None]
        server.end()
    assert all(runs.call(out, shard=f"{out[-1]}/2") is not None for out in folders)
    kshot.merge(folders, "merged")
    assert same_files("merged", "plain")
    assert max(Counter(server.submitted).values()) == 1


def test_texts_and_conversations_go_to_their_own_paths(server):
    runs = Runs(server, model_type="base")
    runs.plain()
    assert runs.to_the_end() == 1
    assert same_files("run", "plain")
    assert [batch["path"] for batch in server.batches.values()] == ["/completions"]


def test_a_command_says_how_to_collect(server, capsys):
    words = ["run", "-m", "openai:gpt", "--base-url", server.url, "--model-type", "chat", "-d", "data.py:Cities"]
    words += ["--dataset-path", "3", "--batch-api", "--out", "run", "--no-report"]
    done = command(capsys, *words)
    assert done.code == 5
    assert "3 requests wait in batches. The same command collects the answers" in done.err
    listed = command(capsys, "runs", ".").out
    assert re.search(r"stopped +0 % of 3\b", listed)
    server.end()
    assert command(capsys, *words).code == 0


def test_a_command_may_wait(server, capsys, monkeypatch):
    shown, looks = server.shown, []

    def ending(name):
        looks.append(name)
        if len(looks) == 4:
            server.end()
        return shown(name)

    monkeypatch.setattr(server, "shown", ending)
    words = ["run", "-m", "openai:gpt", "--base-url", server.url, "--model-type", "chat", "-d", "data.py:Cities"]
    words += ["--dataset-path", "3", "--batch-api", "--out", "run", "--no-report", "--batch-wait"]
    assert "--batch-wait is 0.0; it must be above 0" in command(capsys, *words, "0").err
    done = command(capsys, *words, "0.01")
    assert (done.code, len(looks)) == (0, 4), done.err
    assert "3 requests wait in batches; the next look is in 0.01 s" in done.err


# ---- killed ----

POINTS = ["export.written 1", "export.replaced 1", "export.replaced 2", "server.before_request 1", "server.before_request 2",
          "server.reply_read 1", "server.reply_read 2", "export.written 3", "export.replaced 3"]  # fmt: skip


@pytest.mark.parametrize(
    ("point", "model"), some([(point, model) for point in POINTS for model in MODELS], 3, kind=lambda case: case[1])
)
def test_killed_while_it_submits_nothing_is_lost_or_paid_twice(server, here, monkeypatch, model, point):
    words = ["run", "-m", model, "--base-url", server.url, "--model-type", "chat", "-d", "data.py:Cities"]
    words += ["--dataset-path", "6", "--batch-api", "--out", "run", "--no-report", "--api-key-env", "THE_KEY"]
    monkeypatch.setenv("KSHOT_KILL_POINT", point)
    killed = kshot_process(*words, cwd=here).code
    monkeypatch.delenv("KSHOT_KILL_POINT")
    assert killed in {-9, 5}  # Anthropic's API needs fewer calls
    runs = Runs(server, model, dataset_path="6")
    runs.plain()
    assert runs.call() is None
    assert runs.call() is None
    server.end()
    assert runs.call() is not None
    assert same_files("run", "plain")
    assert Counter(server.submitted) == Counter(set(server.submitted))
    assert len(server.submitted) == 6


@pytest.mark.parametrize("model", MODELS)
def test_a_connection_that_breaks_after_the_batch_was_made(server, model):
    server.broken = 1
    runs = Runs(server, model)
    assert runs.call() is None
    server.end()
    assert runs.call() is not None
    assert len(server.batches) == 1


def test_a_batch_of_another_run_is_not_taken_for_the_lost_one(server):
    other = Runs(server, "anthropic:claude", temperature=0.5)
    assert other.call("other") is None
    runs = Runs(server, "anthropic:claude")
    assert runs.call() is None
    state = json.loads(Path("run/batches.json").read_text())
    (own,) = state.values()
    own["batches"][0]["id"] = None
    server.batches.popitem()  # it never arrived
    Path("run/batches.json").write_text(json.dumps(state))
    assert runs.call() is None  # the other run's batch looks like it
    server.end()
    assert runs.call() is None  # its results do not
    server.end()
    runs.plain()
    assert runs.call() is not None
    assert same_files("run", "plain")


# ---- what does not go well ----


@pytest.mark.parametrize("model", MODELS)
def test_a_part_fails_a_part_expires_and_a_part_is_lost(server, model):
    def become(number, body):
        return {
            0: (400, {"message": "this prompt is not allowed here"}),
            1: (500, {"message": "sorry"}),
            2: "expired" if model == MODELS[1] else "batch_expired",
            3: "missing",
        }.get(number)

    runs = Runs(server, model)
    assert runs.to_the_end(become) == 2
    (first, second) = server.batches.values()
    assert (len(first["lines"]), len(second["lines"])) == (12, 3)
    failed = [row for row in kshot.load("run").samples if "failed" in row]
    assert [re.search("this prompt is not allowed here", row["failed"]) is not None for row in failed] == [True]
    assert runs.call() is None  # the run was complete: its failures are asked again, as always
    assert [len(batch["lines"]) for batch in server.open] == [1]


@pytest.mark.parametrize("state", ["expired", "cancelled"])
def test_a_batch_that_ends_early_keeps_its_answers_and_the_rest_is_submitted_again(server, state):
    runs = Runs(server)
    assert runs.call() is None
    server.end(lambda number, body: None if number < 5 else "missing", state)
    assert runs.call() is None
    assert [len(batch["lines"]) for batch in server.open] == [7]
    server.end()
    runs.plain()
    assert runs.call() is not None
    assert same_files("run", "plain")


def test_a_batch_that_fails_validation(server):
    runs = Runs(server)
    assert runs.call() is None
    server.refuse({"code": "invalid_request", "message": "line 3 is too long", "line": 3})
    assert runs.call() is None
    assert [len(batch["lines"]) for batch in server.open] == [11]
    server.refuse({"code": "token_limit_exceeded", "message": "Enqueued token limit reached"})
    assert runs.call() is None
    assert [len(batch["lines"]) for batch in server.open] == [11]
    server.end()
    found = runs.call()
    assert [row["failed"] for row in found.samples if "failed" in row] == [
        "http_400: the server says 400: line 3 is too long"
    ]


def test_a_request_that_never_works_fails_in_the_end(server):
    runs = Runs(server, dataset_path="2")
    for _ in range(5):
        assert runs.call() is None
        server.end(lambda number, body: "batch_expired")
    found = runs.call()
    assert "submitted 5 times" in found.samples[0]["failed"]


REVOKED = (401, {"message": "the key was revoked"})
NO_CREDIT = (429, {"message": "you have spent all", "code": "insufficient_quota"})


@pytest.mark.parametrize(("model", "become"), [*((model, REVOKED) for model in MODELS), (MODELS[0], NO_CREDIT)])
def test_what_stops_a_run_stops_it_once_and_is_submitted_again_when_it_is_mended(server, model, become):
    runs = Runs(server, model)
    assert runs.call() is None
    server.end(lambda number, body: become if number > 3 else None)
    with pytest.raises(BackendError, match=rf"{become[1]['message']}.* submits it again"):
        runs.call()
    assert runs.call() is None
    assert [len(batch["lines"]) for batch in server.open] == [8]
    server.end()
    runs.plain()
    assert runs.call() is not None
    assert same_files("run", "plain")


def test_a_parameter_that_the_model_does_not_know_is_sent_otherwise(server):
    runs = Runs(server, max_tokens=7)
    wrong = {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "code": "unsupported_parameter", "param": "max_tokens"}  # fmt: skip
    assert runs.to_the_end(lambda number, body: (400, wrong)) == 2
    bodies = [batch["lines"][0]["body"] for batch in server.batches.values()]
    assert [("max_tokens" in body, body.get("max_completion_tokens")) for body in bodies] == [(True, None), (False, 7)]
    state = json.loads(Path("run/batches.json").read_text())
    assert next(iter(state.values()))["changes"]["renamed"] == {"max_tokens": "max_completion_tokens"}


def test_large_runs_are_split(server, monkeypatch):
    monkeypatch.setattr(OpenAIBatches, "most_requests", 5)
    runs = Runs(server)
    assert runs.call() is None
    assert [len(batch["lines"]) for batch in server.batches.values()] == [5, 5, 2]
    server.end()
    monkeypatch.setattr(OpenAIBatches, "most_requests", 50_000)
    size = 600
    monkeypatch.setattr(OpenAIBatches, "most_bytes", size)
    assert runs.call() is not None
    assert Runs(server).call("other") is None
    assert all(sum(len(json.dumps(line)) for line in batch["lines"]) <= size for batch in server.open)
    assert len(server.open) > 3


# ---- limits, keys, and what is refused ----


def test_max_requests_holds(server):
    runs = Runs(server, max_requests=5)
    assert runs.call() is None
    assert len(server.submitted) == 5
    assert runs.call() is None
    assert len(server.submitted) == 5
    server.end()
    with pytest.raises(LimitReached, match="--max-requests 5 is reached"):
        runs.call()
    assert runs.call(max_requests=12) is None
    assert len(server.submitted) == 12
    server.end()
    assert runs.call(max_requests=12) is not None


def test_max_cost_holds(server):
    price = 1e6 / 12  # an answer costs 1 USD
    runs = Runs(server, price_in=price, price_out=price, max_cost=4.5)
    assert runs.call() is None
    assert len(server.submitted) == 1  # the first answer tells what the others cost
    server.end()
    assert runs.call() is None
    assert len(server.submitted) == 4
    server.end()
    with pytest.raises(LimitReached, match=r"--max-cost 4\.5 is reached"):
        runs.call()


def test_the_key_goes_to_the_server_and_nowhere_else():
    with BatchServer(lambda path, body: chat(f"Your key is {KEY}")) as server:
        runs = Runs(server)
        assert runs.to_the_end() == 1
        assert all(headers["Authorization"] == f"Bearer {KEY}" for _, headers in server.calls)
    written = [path.read_text() for path in Path("run").rglob("*") if path.is_file()]
    assert not any(KEY in text for text in written)


def test_a_wrong_key_stops_the_run_and_nothing_is_noted_as_submitted(server, monkeypatch):
    runs = Runs(server)
    with monkeypatch.context() as refusing:
        refusing.setattr(server, "post", lambda path, raw, headers: (401, {"error": {"message": "wrong key"}}))
        with pytest.raises(BackendError, match="401: wrong key"):
            runs.call()
    assert runs.call() is None
    assert [len(batch["lines"]) for batch in server.batches.values()] == [12]


def test_results_that_name_another_host_are_read_from_the_server_itself(server):
    runs = Runs(server, "anthropic:claude")
    runs.call()
    server.end()
    assert runs.call() is not None
    assert any(path.endswith("/results") for path, _ in server.calls)


def test_a_batch_that_the_server_has_forgotten_is_named(server):
    runs = Runs(server)
    runs.call()
    server.batches.clear()
    with pytest.raises(BackendError, match=r"does not know batch batch_0.*delete batches\.json"):
        runs.call()


def test_a_damaged_state_is_named(server):
    runs = Runs(server)
    runs.call()
    for text in ("{", '{"%s": {"batches": [7]}}'):
        label = next(iter(json.loads(Path("run/batches.json").read_text())))
        shutil.copytree("run", "copy", dirs_exist_ok=True)
        Path("copy/batches.json").write_text(text.replace("%s", label))
        with pytest.raises(KshotError, match=r"batches\.json"):
            runs.call("copy")


def test_what_cannot_be_batched_is_refused(server):
    with pytest.raises(KshotError, match="--batch-api needs a run folder"):
        Runs(server).call(None)
    with pytest.raises(KshotError, match="--batch-api needs one server"):
        Runs(server).call(base_url=[server.url, server.url.replace("127.0.0.1", "localhost")])
    with pytest.raises(KshotError, match="Loglik"):
        Runs(server, datasets=["data.py:Choices"], model_type="base", ranking_type="ppl").call()
