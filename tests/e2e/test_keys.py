"""Whole runs with a key for each role: which request carries which key, and that a run leaves none of them anywhere."""

import base64
import os
import subprocess
import sys
import traceback
from pathlib import Path
from urllib.parse import quote

import pytest

from kshot.cli import main
from kshot.core.errors import KshotError
from tests.fake_server import FakeServer, Reply, chat, error

MODEL, JUDGE, REWRITER = "sk-model-Zq7Xw9Lp2Vt4", "sk-judge-Bn3Km8Rf6Yc1", "sk-write-Hd5Js0Gt7Ue2"
HEADER, LITERAL = "token-Mx4Cv8Nb1Za6", "plain-Wk9Qe3Ty5Ui7"
SECRETS = (MODEL, JUDGE, REWRITER, HEADER, LITERAL)
KEYS = {
    "MODEL_KEY": MODEL,
    "JUDGE_KEY": JUDGE,
    "REWRITER_KEY": REWRITER,
    "TEAM_TOKEN": HEADER,
    "OPENAI_API_KEY": "sk-openai-Fp6Od2Sa8Xl3",
    "ANTHROPIC_API_KEY": "sk-ant-Ji1Ub7Wm4Qr9",
}

QUIZ = """
from kshot import GenerationDataset, GPTEval


class Quiz(GenerationDataset):
    instruction, metrics = "{q}", [GPTEval()]

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = [dict(q=f"Why is the sky blue, {i}?", target="It scatters.") for i in range(2)]
        self.example_data = []

    def format_instance(self, row):
        return row
"""


@pytest.fixture
def here(tmp_path):
    (tmp_path / "quiz.py").write_text(QUIZ)
    return tmp_path


def run(here, *arguments, **environment):
    """Run kshot as a process of its own, with tracebacks, and return what it prints."""
    names = [name for name in os.environ if name.lower().endswith("_proxy") or name.startswith("KSHOT")]
    own = {name: value for name, value in os.environ.items() if name not in names}
    home = {name: str(here / "home") for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
    own |= KEYS | home | {"KSHOT_DEBUG": "1", "PYTHONPATH": str(Path.cwd()), **environment}
    command = [sys.executable, "-m", "kshot", "run", *map(str, arguments)]
    return subprocess.run(command, cwd=here, env=own, capture_output=True, check=False, timeout=300)


@pytest.fixture
def run_here(here, monkeypatch, capsys):
    """Run kshot in this process, with the traceback that Python would print: quicker than a process of its own."""
    for name, value in {**KEYS, "KSHOT_DEBUG": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(here)

    def run_command(*arguments):
        command = ["run", *map(str, arguments)]
        try:
            code, printed = main(command), ""
        except KshotError as exc:
            code, printed = 2, "".join(traceback.format_exception(exc))
        said = capsys.readouterr()
        return subprocess.CompletedProcess(command, code, said.out.encode(), (said.err + printed).encode())

    return run_command


def spellings(secret):
    """Yield the secret, both halves of what is secret of it, and the forms in which it may be hidden."""
    body = secret.rpartition("-")[2]
    yield from (body, body[:6], body[6:], body[::-1], quote(secret, safe=""), secret.encode().hex())
    for before in ("", "Bearer ", "a:", "ab:"):
        encoded = base64.b64encode(f"{before}{secret}".encode()).decode()
        yield encoded.rstrip("=")[len(before) * 4 // 3 + 1 : -2]


def assert_no_key_is_left(here, done):
    left = {"stdout": done.stdout, "stderr": done.stderr}
    left |= {str(path): path.read_bytes() for path in here.rglob("*") if path.is_file() and path.name != "quiz.py"}
    left |= {f"the name {path}": os.fsencode(path) for path in here.rglob("*")}
    for name, content in left.items():
        for secret in (*SECRETS, *KEYS.values()):
            for spelling in spellings(secret):
                assert spelling.encode() not in content, f"{spelling} of {secret} is in {name}"


def authorizations(server):
    return {call.headers.get("authorization") for call in server.calls}


def answered(call):
    del call
    return chat("Because. [[7]]")


def test_each_role_gets_its_own_key_and_the_run_leaves_none(here):
    """The judge, the rewriter and the model each have a server; a fourth one, without a key, judges in the end."""
    with FakeServer(answered) as model, FakeServer(answered) as judge, FakeServer(answered) as rewriter:
        rag = ("-d", "handbook", "--method", "rag", "--limit", "2", "--model-type", "chat", "--out", "rag")
        done = run(
            here, *rag, "-m", "openai:m", "--base-url", model.url, "--api-key-env", "MODEL_KEY",
            "--header", "X-Team=env:TEAM_TOKEN", "--header", f"X-Auth={LITERAL}", "--request-option", "effort=high",
            "--judge", "openai:j", "--judge-base-url", judge.url, "--judge-api-key-env", "JUDGE_KEY",
            "--judge-head", f"X-Judge-Team={LITERAL}", "--judge-request-option", "effort=low",
            "--rewrite", f"openai:r@{rewriter.url},api_key_env=REWRITER_KEY",
            "--rewrite-price-in", "1", "--rewrite-price-out", "1",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        assert authorizations(model) == {f"Bearer {MODEL}"}
        assert authorizations(rewriter) == {f"Bearer {REWRITER}"}
        assert authorizations(judge) == {f"Bearer {JUDGE}"}
        assert {(c.headers["x-team"], c.headers["x-auth"], c.body["effort"]) for c in model.calls} == {
            (HEADER, LITERAL, "high")
        }
        assert {(c.headers["x-judge-team"], c.body["effort"]) for c in judge.calls} == {(LITERAL, "low")}
        for server in (judge, rewriter):
            assert all("x-team" not in call.headers and "x-auth" not in call.headers for call in server.calls)
        assert all("effort" not in call.body for call in rewriter.calls)
    assert_no_key_is_left(here, done)


def test_no_server_gets_a_key_that_was_not_named_for_it(here, run_here):
    """The keys of OpenAI and Anthropic are in the environment, and the model's key is named for its server."""
    with FakeServer(answered) as model, FakeServer(answered) as judge, FakeServer(answered) as second:
        quiz = ("-d", "quiz.py:Quiz", "--model-type", "chat", "--judge", f"openai:j@{judge.url}")
        bare = run_here(*quiz, "-m", f"openai:m@{model.url}", "--out", "bare")
        named = run_here(*quiz, "-m", "openai:m", "--base-url", model.url, "--api-key-env", "MODEL_KEY", "--out", "b")
        each = run_here(
            "-d", "quiz.py:Quiz", "--model-type", "chat", "--out", "d", "-m", f"openai:m@{model.url}",
            "--api-key-env", "MODEL_KEY", "--judge", f"openai:k@{second.url}", "--judge-api-key-env", "JUDGE_KEY",
        )  # fmt: skip
        shared = run_here(
            "-d", "quiz.py:Quiz", "--model-type", "chat", "--judge", "openai:j", "-m", "openai:m",
            "--base-url", model.url, "--api-key-env", "MODEL_KEY", "--out", "c",
        )  # fmt: skip
    for done in (bare, named, each, shared):
        assert done.returncode == 0, done.stderr.decode()
        assert_no_key_is_left(here, done)
    assert authorizations(judge) == {None}
    assert authorizations(second) == {f"Bearer {JUDGE}"}
    sent = [call.headers.get("authorization") for call in model.calls]
    assert sent == [None] * 2 + [f"Bearer {MODEL}"] * 8  # the judge without an address shares that of --base-url


QUOTED = f"{MODEL} {JUDGE} Bearer {HEADER} {LITERAL}"
FAULTS = {
    "refused key": error(401, f"Incorrect API key provided: {QUOTED}"),
    "refused body": error(400, f"Your request with {QUOTED} is bad", code=MODEL, param=MODEL),
    "no JSON": Reply(f"<html>{QUOTED}</html>"),
    "wrong JSON": {"choices": [{"message": {"content": 7, "key": QUOTED}}]},
    "redirect": Reply("", 302, {"location": f"http://127.0.0.1:9/{MODEL}?key={quote(LITERAL)}"}),
    "quoted in the answer": chat(QUOTED, reasoning_content=QUOTED) | {"model": QUOTED},
    "overload": Reply({"error": {"message": QUOTED}}, 503),
}
OF_MODEL = ("-m", "openai:m", "--api-key-env", "MODEL_KEY", "--header", "X-Team=env:TEAM_TOKEN", "--header")
OF_MODEL += (f"X-Auth={LITERAL}", "--header", "X-Judge=env:JUDGE_KEY", "--model-type", "chat", "--patience", "0.2")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_quotes_keys_has_them_written_nowhere(fault, here, run_here):
    with FakeServer(lambda _: FAULTS[fault]) as server, FakeServer(answered) as judge:
        roles = ("--base-url", server.url, "--judge", f"openai:j@{judge.url}")
        done = run_here("-d", "quiz.py:Quiz", *OF_MODEL, *roles, "--out", "run")
    assert server.calls
    assert (done.returncode == 0) == (fault == "quoted in the answer")
    assert_no_key_is_left(here, done)


def test_a_traceback_of_a_process_shows_no_key(here):
    with FakeServer(lambda _: FAULTS["refused key"]) as server:
        done = run(
            here, "-d", "quiz.py:Quiz", *OF_MODEL, "--base-url", server.url, "--judge", "openai:j", "--out", "run"
        )
    assert done.returncode == 2
    assert b"Traceback" in done.stderr
    assert b"--api-key-env" in done.stderr
    assert_no_key_is_left(here, done)


UNOPENED = {
    "refused connection": ("--base-url", "{gone}"),
    "slow server": ("--base-url", "{slow}", "--timeout", "0.2"),
    "bad header": ("--base-url", "{slow}", "--header", f"X-Other={LITERAL}\r\nEvil: 1"),
    "own header": ("--base-url", "{slow}", "--header", f"Host={LITERAL}"),
    "no header": ("--base-url", "{slow}", "--header", LITERAL),
    "header twice": ("--base-url", "{slow}", "--header", f"X-Auth={LITERAL}2"),
    "key for a variable": ("--base-url", "{slow}", "--judge", "openai:j", "--judge-api-key-env", LITERAL),
    "password": ("--base-url", f"http://me:{LITERAL}@127.0.0.1:9/v1"),
    "password of a judge": ("--base-url", "{slow}", "--judge", f"openai:j@http://me:{LITERAL}@127.0.0.1:9/v1"),
    "key in a query": ("--base-url", f"http://127.0.0.1:9/v1?key={LITERAL}"),
    "unknown option": ("--base-url", "{slow}", "--judge", f"openai:j,header=X={LITERAL},nonsense=1"),
    "two keys": ("--base-url", "{slow}", "--header", f"Authorization=Bearer {LITERAL}"),
}


@pytest.mark.parametrize("case", UNOPENED)
def test_an_error_before_the_first_answer_shows_no_key(case, here, run_here):
    with FakeServer(answered) as gone:
        pass
    with FakeServer(lambda _: Reply(chat("late"), delay=600)) as slow:
        given = [part.format(gone=gone.url, slow=slow.url) for part in UNOPENED[case]]
        done = run_here("-d", "quiz.py:Quiz", *OF_MODEL, *given, "--out", "run")
    assert done.returncode == 2
    assert b"kshot" in done.stderr
    assert_no_key_is_left(here, done)
