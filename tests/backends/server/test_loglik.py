"""The log-probabilities that servers offer, and what ``--ranking-type auto`` chooses."""

import math
from dataclasses import replace

import pytest

import kshot
from kshot.core.errors import BackendError
from kshot.core.records import Failed, Likelihood, Loglik, Message, Prompt, Scored
from tests.backends.server.clients import connect
from tests.commands import kshot as command
from tests.datasets.fakes import choice, prefers, says
from tests.fake_server import FakeServer, chat, completion, error, expected, logprob, tokenised, with_logprobs
from tests.tiny_models import ask_all

TEXTS = (" red", " dark blue", " green.")
REQUEST = Loglik(Prompt("The sky is"), TEXTS)
CHAT = Prompt(messages=(Message("user", "Which?"),))


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("api", ["echo", "prompt_logprobs"])
def test_each_api_sums_the_tokens_of_the_continuation(api, zero, bos):
    with FakeServer(with_logprobs(apis=(api,), zero=zero, bos=bos, eos=bos)) as server:
        backend = connect(server)
        (found,) = ask_all(backend, [REQUEST])
        again = ask_all(backend, [Loglik(Prompt("Now"), (" then",))])
    for text, got in zip(TEXTS, found.likelihoods, strict=True):
        assert (got.logprob, got.tokens) == (
            pytest.approx(expected("The sky is", text, bos=bos)[0]),
            len(text.split()) + text.count("."),
        )
    assert again[0].likelihoods[0].tokens == 1
    probes = len(server.calls) - 4
    assert probes == (1 if api == "echo" and zero else 2 if api == "echo" else 3)


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("api", ["echo", "prompt_logprobs"])
def test_a_continuation_is_greedy_where_the_server_shows_it(api, bos):
    texts = (" red", " blues", " red blues", " blues red")
    with FakeServer(with_logprobs(apis=(api,), ranked=True, bos=bos)) as server:
        (shown,) = ask_all(connect(server), [Loglik(Prompt("The sky is"), texts)])
    assert [each.greedy for each in shown.likelihoods] == [True, True, True, True]
    with FakeServer(with_logprobs(apis=(api,), ranked=True, bos=bos)) as server:
        (shown,) = ask_all(connect(server), [Loglik(Prompt("The sky is"), (" blue", " red blue", " blue red", "."))])
    assert [each.greedy for each in shown.likelihoods] == [False, False, False, False]
    with FakeServer(with_logprobs(apis=(api,), bos=bos)) as server:
        (hidden,) = ask_all(connect(server), [Loglik(Prompt("The sky is"), texts)])
    assert [each.greedy for each in hidden.likelihoods] == [None] * 4


@pytest.mark.parametrize("api", ["echo", "prompt_logprobs"])
def test_documents_are_scored_where_the_server_reads_them_whole(api):
    text = "The sky is blue. The sun is hot."
    starts = ("auto", "bos", "none", "eos", "lm-eval")
    asked = [Loglik(Prompt(), (text,), rolling=start) for start in starts]
    tokens = tokenised(text)
    with FakeServer(with_logprobs(apis=(api,), bos=True, ranked=True)) as server:
        with_bos = dict(zip(starts, ask_all(connect(server), asked), strict=True))
    with FakeServer(with_logprobs(apis=(api,))) as server:
        without = dict(zip(starts, ask_all(connect(server), asked), strict=True))
    every = math.fsum(logprob(token, at) for at, token in enumerate(tokens, 1))
    assert with_bos["auto"] == with_bos["bos"]
    assert with_bos["auto"].likelihoods == (Likelihood(pytest.approx(every), len(tokens), greedy=False),)
    rest = every - logprob(tokens[0], 1)
    assert with_bos["none"].likelihoods == (Likelihood(pytest.approx(rest), len(tokens) - 1, greedy=False),)
    rest = math.fsum(logprob(token, at) for at, token in enumerate(tokens) if at)
    assert without["none"].likelihoods == (Likelihood(pytest.approx(rest), len(tokens) - 1),)
    for failed in (with_bos["eos"], with_bos["lm-eval"], without["eos"], without["auto"], without["bos"]):
        assert failed.kind == "unsupported"
    # an empty baseline of mutual-info fails in the same way, and that option cannot help there
    assert "for documents, --rolling-start none" in without["auto"].message
    assert "a baseline must not be empty" in without["auto"].message


def test_documents_need_log_probabilities_of_a_prompt():
    with FakeServer(with_logprobs(apis=("top",))) as server, pytest.raises(BackendError) as refused:
        ask_all(connect(server), [Loglik(Prompt(), ("one two three",), rolling="auto")])
    assert "gives no log-probabilities of a prompt" in str(refused.value)
    assert refused.value.hint == "Measure documents with hf: or vllm: models."


def test_a_document_that_the_server_cannot_read_or_score_is_one_failure():
    with FakeServer(with_logprobs(bos=True, window=12)) as server:
        asked = [Loglik(Prompt(), (text,), rolling="none") for text in ("one two three", "one " * 30, "one")]
        fine, long, short = ask_all(connect(server), asked)
    assert isinstance(fine, Scored)
    assert (long.kind, "maximum context length" in long.message) == ("http_400", True)
    assert (short.kind, short.message) == ("no_tokens", "the document has no token that can be scored")


def test_a_token_that_straddles_the_boundary_belongs_to_the_continuation():
    with FakeServer(with_logprobs()) as server:
        (found,) = ask_all(connect(server), [Loglik(Prompt("The sk"), ("y is",))])
    logprob, tokens = expected("The sk", "y is")
    assert found.likelihoods == (Likelihood(pytest.approx(logprob), tokens),)
    assert tokens == 2


def test_white_space_at_the_end_of_a_prompt_may_be_scored_with_the_text():
    with FakeServer(with_logprobs()) as server:
        (found,) = ask_all(connect(server), [Loglik(Prompt("The sky \n"), ("is",), spaced=True)])
    logprob, tokens = expected("The sky", " \nis")
    assert found.likelihoods == (Likelihood(pytest.approx(logprob), tokens),)


def test_by_lm_evals_rule_as_many_tokens_are_left_out_as_the_prompt_has_alone():
    context = Prompt("The sk", rules="lm-eval")  # two tokens: so is all of "The sky"
    with FakeServer(with_logprobs()) as server:
        found, failed, moved, clean = ask_all(
            connect(server),
            [
                Loglik(context, ("y is",)),
                Loglik(context, ("y",)),
                Loglik(Prompt("The sky \n", rules="lm-eval"), ("is",)),
                Loglik(Prompt("The sky", rules="lm-eval"), (" is blue",)),
            ],
        )
    assert found.likelihoods == (Likelihood(pytest.approx(logprob(" is", 2)), 1),)
    assert failed.kind == "bad_logprobs"  # nothing is left to score, of which lm-eval makes an error
    assert moved.likelihoods == (Likelihood(pytest.approx(expected("The sky", " \nis")[0]), 3),)
    assert clean.likelihoods == (Likelihood(pytest.approx(expected("The sky", " is blue")[0]), 2),)
    asked = [call.prompt for call in server.calls]
    assert asked.count("The sk") == 2  # only where a token lies across the seam
    assert asked.count("The sky") == 1  # "The sk" with "y"


def test_an_empty_prompt_and_a_continuation_without_scored_tokens():
    with FakeServer(with_logprobs()) as server:
        (found,) = ask_all(connect(server), [Loglik(Prompt(""), ("The sky",))])
        assert found.likelihoods[0].tokens == 1  # the first token has no log-probability
        asked = [Loglik(Prompt(""), ("The",)), Loglik(Prompt("The"), (" sky", "")), Loglik(Prompt("The"), (" sky",))]
        failed, empty, scored = ask_all(connect(server), asked)
    assert (failed.kind, empty.kind) == ("no_tokens", "no_tokens")
    assert scored.likelihoods[0].tokens == 1


def test_characters_spread_over_tokens_are_found_by_the_tokens_in_common():
    def spread(call):
        tokens = {"a": ["a"], "a é": ["a", " ", "bytes:\\xc3", "bytes:\\xa9"]}.get(call.prompt)
        if tokens is None:
            return with_logprobs(eos=True)(call)
        tokens = [*tokens, "</s>"]  # some tokenizers add it to every text
        return completion("", logprobs={"tokens": tokens, "token_logprobs": [None, *[-1.0] * (len(tokens) - 1)]})

    with FakeServer(spread) as server:
        (found,) = ask_all(connect(server), [Loglik(Prompt("a"), (" é",))])
    assert found.likelihoods == (Likelihood(-3.0, 3),)


BAD = {
    "positive": lambda t, p: (t, [None, *[5.0] * (len(t) - 1)]),
    "a boolean": lambda t, p: (t, [None, *[False] * (len(t) - 1)]),
    "a text": lambda t, p: (t, [None, *["-1"] * (len(t) - 1)]),
    "not a number": lambda t, p: (t, [None, *[float("nan")] * (len(t) - 1)]),
    "infinite": lambda t, p: (t, [*p[:-1], float("-inf")]),
    "too large for a float": lambda t, p: (t, [*p[:-1], -(10**400)]),
    "one left out": lambda t, p: (t, [*p[:-1], None]),
    "first positive": lambda t, p: (t, [5.0, *p[1:]]),
    "all left out": lambda t, p: (t, [None] * len(t)),
    "the first half": lambda t, p: (t[: len(t) // 2], p[: len(t) // 2]),
    "the last three": lambda t, p: (t[-3:], [None, *p[-2:]]),
    "another text": lambda t, p: (["x" for _ in t], p),
    "fewer numbers": lambda t, p: (t, p[:-2]),
    "more numbers": lambda t, p: (t, [*p, -9.0]),
    "numbers for tokens": lambda t, p: ([1] * len(t), p),
    "no tokens": lambda t, p: (None, p),
    "one token": lambda t, p: (["".join(t)], [None]),
}


def corrupted(corrupt, api="echo", only="blue"):
    """Return an answer function whose log-probabilities are wrong if the prompt contains this word."""

    def answer(call):
        reply = with_logprobs(apis=(api,))(call)
        choice = reply["choices"][0]
        if only not in call.prompt:
            return reply
        if api == "echo":
            given = choice["logprobs"]
            given["tokens"], given["token_logprobs"] = corrupt(given["tokens"], given["token_logprobs"])
        elif "prompt_logprobs" in choice:
            own = [next(iter(each.values())) if each else {} for each in choice["prompt_logprobs"]]
            tokens, values = corrupt([each.get("decoded_token", "") for each in own], [e.get("logprob") for e in own])
            pairs = zip(tokens, values, strict=True)
            choice["prompt_logprobs"] = [
                None if p is None else {"1": {"logprob": p, "decoded_token": t}} for t, p in pairs
            ]
        return reply

    return answer


UNEVEN = {"fewer numbers", "more numbers", "no tokens"}


@pytest.mark.parametrize(
    ("api", "how"), [("echo", each) for each in BAD] + [("prompt_logprobs", each) for each in BAD if each not in UNEVEN]
)
def test_impossible_log_probabilities_are_the_failure_of_one_sample(api, how):
    asked = [
        Loglik(Prompt("The sky of the evening in the far and wide north is"), (f" {each}",)) for each in ("red", "blue")
    ]
    with FakeServer(corrupted(BAD[how], api)) as server:
        red, blue = ask_all(connect(server), asked)
    assert isinstance(red, Scored)
    assert (type(blue), blue.kind) == (Failed, "bad_logprobs")
    assert sum("blue" in call.prompt for call in server.calls) == 1
    with (
        FakeServer(corrupted(BAD[how], api, only="")) as server,
        pytest.raises(BackendError, match="gives no log-prob"),
    ):
        ask_all(connect(server), asked)


def test_a_rounding_error_above_0_counts_as_0():
    with FakeServer(corrupted(lambda t, p: (t, [None, *[1e-6] * (len(t) - 1)]))) as server:
        (found,) = ask_all(connect(server), [Loglik(Prompt("The sky is"), (" blue",))])
    assert found.likelihoods == (Likelihood(0.0, 1),)


@pytest.mark.parametrize("spelt", ["�", "<0xE4>", "bytes:\\xe4"])
def test_half_of_a_text_with_characters_spread_over_tokens_is_not_the_whole_text(spelt):
    def spread(tokens):
        def answer(call):
            if "天" not in call.prompt:
                return with_logprobs()(call)
            own = tokens if "蓝" in call.prompt else whole[:4]
            return completion("", logprobs={"tokens": own, "token_logprobs": [None, *[-1.0] * (len(own) - 1)]})

        return answer

    asked = Loglik(Prompt("天空 is"), (" 蓝天",))
    whole = [spelt, spelt, "空", " is", " ", spelt, spelt, "天"]
    with FakeServer(spread(whole)) as server:
        assert ask_all(connect(server), [asked])[0].likelihoods == (Likelihood(-4.0, 4),)
    for part in (whole[:4], whole[:6], whole[3:]):
        with FakeServer(spread(part)) as server:
            assert ask_all(connect(server), [asked])[0].kind == "bad_logprobs"


@pytest.mark.parametrize(
    "answer",
    [with_logprobs(apis=()), lambda call: error(404, "no such path"), lambda call: error(500, "what is echo?")],
)
def test_the_error_for_a_server_without_log_probabilities(answer):
    with (
        FakeServer(answer) as server,
        pytest.raises(BackendError, match=r"gives no log-probabilities of a prompt\. Use --rank"),
    ):
        ask_all(connect(server), [REQUEST])
    with (
        FakeServer(with_logprobs()) as server,
        pytest.raises(BackendError, match="log-probabilities of a conversation"),
    ):
        ask_all(connect(server), [Loglik(CHAT, ("A",))])


def test_a_chat_template_turns_a_conversation_into_a_text(tmp_path):
    with FakeServer(with_logprobs()) as server:
        (tmp_path / "own.jinja").write_text("{{ messages[0].content }} Answer:")
        backend = connect(server, chat_template=str(tmp_path / "own.jinja"))
        (found,) = ask_all(backend, [Loglik(CHAT, (" A",))])
    assert found.likelihoods == (Likelihood(pytest.approx(expected("Which? Answer:", " A")[0]), 1),)


def test_in_lm_evals_chats_white_space_at_the_end_of_the_template_is_scored(tmp_path):
    with FakeServer(with_logprobs()) as server:
        (tmp_path / "own.jinja").write_text("{{ messages[0].content }} Answer:{{ '\\n' }}")
        backend = connect(server, chat_template=str(tmp_path / "own.jinja"))
        (found,) = ask_all(backend, [Loglik(replace(CHAT, rules="lm-eval"), ("A",))])
    assert found.likelihoods == (Likelihood(pytest.approx(expected("Which? Answer:", "\nA")[0]), 2),)


def test_letters_that_are_not_listed_get_a_bound():
    asked = Loglik(CHAT, (" A", " B", "A", "B"), listed=True)
    with FakeServer(with_logprobs()) as server:
        (found,) = ask_all(connect(server), [asked])
        (text,) = ask_all(connect(server), [Loglik(Prompt("x"), (" A", "B"), listed=True)])
    assert [each.logprob for each in found.likelihoods] == [-0.5, -3.5, -3.5, -1.5]
    assert [each.logprob for each in text.likelihoods] == [-0.5, -1.5]
    assert server.calls[1].body["top_logprobs"] == 20
    assert server.calls[1].body["max_tokens"] == 1


def listing(*pairs):
    reply = chat("A")
    shown = [{"token": token, "logprob": logprob} for token, logprob in pairs]
    reply["choices"][0]["logprobs"] = {"content": [{"token": "A", "top_logprobs": shown}]}
    return reply


def test_the_probabilities_of_tokens_with_the_same_text_are_added():
    pairs = [("A", -1.0), ("B", -3.0), ("A", -1.0), ("�", -9999.0), ("�", -9999.0), ("C", float("-inf"))]
    with FakeServer(lambda _: listing(*pairs)) as server:
        (found,) = ask_all(connect(server), [Loglik(CHAT, ("A", "B", "�"), listed=True)])
    assert [each.logprob for each in found.likelihoods] == pytest.approx([-1 + math.log(2), -3, -9999 + math.log(2)])


@pytest.mark.parametrize("bad", [1000.0, 0.5, True, "-1", float("nan"), float("inf"), None])
def test_a_list_with_impossible_log_probabilities(bad):
    asked = Loglik(CHAT, ("A", "B"), listed=True)
    with FakeServer(lambda call: listing(("A", -1.0), ("B", bad if call.prompt == "Which?" else -2.0))) as server:
        (found,) = ask_all(connect(server), [asked])
    assert (type(found), found.kind) == (Failed, "bad_logprobs")
    with FakeServer(lambda _: listing(("A", bad))) as server:
        assert connect(server).abilities.best_ranking(True) == "generation"


def test_a_server_with_a_short_list():
    def five(call):
        short = call.body.get("top_logprobs") == 5
        return with_logprobs()(call) if short else error(400, "top_logprobs must be at most 5")

    with FakeServer(five) as server:
        backend = connect(server)
        assert backend.abilities.best_ranking(True) == "first_token"
        ask_all(backend, [Loglik(CHAT, ("A",), listed=True)])
    assert [call.body["top_logprobs"] for call in server.calls] == [20, 5, 5]


# ---- auto ----

ROWS = [{"q": f"{i}?", "options": ["red", "blue"], "target_idx": 1} for i in range(4)]


@pytest.mark.parametrize(
    ("apis", "model_type", "ranking_type"),
    [
        (("echo", "top"), "base", "ppl_no_option"),
        (("prompt_logprobs",), "base", "ppl_no_option"),
        (("top",), "base", "first_token"),
        (("echo", "top"), "chat", "first_token"),
        ((), "base", "generation"),
        ((), "chat", "generation"),
    ],
)
def test_auto_chooses_the_best_ranking_type_that_the_server_offers(apis, model_type, ranking_type, tmp_path):
    with FakeServer(with_logprobs(apis=apis, tops={"B": -0.5, "A": -2.0})) as server:
        options = dict(base_url=server.url, ranking_type="auto", model_type=model_type)
        result = kshot.evaluate("openai:m", choice(ROWS), out=tmp_path / "run", **options)
    (row,) = [row for row in result.results if row["metric"] == "Accuracy"]
    assert row["ranking_type"] == ranking_type
    assert row["failed"] == 0
    assert any(f"auto decides by {ranking_type}" in note for note in result.notes)
    assert not any("the last option letter" in note for note in result.notes)  # the rules of the clean-up are ordered
    if ranking_type != "ppl_no_option":
        assert row["value"] == 100.0


def test_a_question_without_any_listed_letter_is_unanswered():
    with FakeServer(with_logprobs(apis=("top",), tops={"Hm": -0.1})) as server:
        result = kshot.evaluate("openai:m", choice(ROWS), ranking_type="auto", model_type="chat", base_url=server.url)
    assert result.results[0]["unanswered"] == 4


def as_llama_cpp(call):
    """Answer as llama.cpp's server does: echo is ignored, and completions have the log-probabilities of chats."""
    listed = [{"id": 1, "token": t, "bytes": [], "logprob": p} for t, p in (("A", -0.5), ("B", -1.5))]
    content = {"content": [{**listed[0], "top_logprobs": listed}]} if call.body.get("logprobs") else None
    reply = chat("A", "length") if "messages" in call.body else completion("A", "length")
    reply["choices"][0]["logprobs"] = content
    return reply


@pytest.mark.parametrize(("model_type", "ranking"), [("base", "generation"), ("chat", "first_token")])
def test_what_llama_cpp_offers(model_type, ranking):
    with FakeServer(as_llama_cpp) as server:
        options = dict(base_url=server.url, model_type=model_type)
        result = kshot.evaluate("openai:m", choice(), ranking_type="auto", **options)
        assert result.results[0]["ranking_type"] == ranking
        with pytest.raises(BackendError, match="gives no log-probabilities"):
            kshot.evaluate("openai:m", choice(), ranking_type="ppl_no_option", **options)


def test_other_ranking_types_do_not_fall_back():
    with FakeServer(with_logprobs(apis=("top",))) as server, pytest.raises(BackendError, match="--ranking-type auto"):
        kshot.evaluate("openai:m", choice(ROWS), ranking_type="prob", base_url=server.url)


def test_auto_with_models_in_this_process_and_in_a_preview():
    assert (
        kshot.evaluate(prefers("blue"), choice(ROWS), ranking_type="auto").results[0]["ranking_type"] == "ppl_no_option"
    )
    without_loglik = says("B")
    without_loglik.answers = (kshot.Generate,)
    assert kshot.evaluate(without_loglik, choice(ROWS), ranking_type="auto").results[0]["ranking_type"] == "generation"
    assert kshot.preview(choice(ROWS), ranking_type="auto")[0].requests == kshot.preview(choice(ROWS))[0].requests


def test_the_table_names_the_ranking_type_and_scoring_again_uses_the_same(tmp_path, monkeypatch, capsys):
    from tests.commands import CAPITALS

    monkeypatch.chdir(tmp_path)
    (tmp_path / "capitals.py").write_text(CAPITALS)
    with FakeServer(lambda call: chat("B")) as server:
        done = command(
            capsys, "run", "-m", "openai:m", "-d", "capitals.py:Capitals", "--base-url", server.url,
            "--model-type", "chat", "--ranking-type", "auto", "--price-in", "1000", "--out", "run",
        )  # fmt: skip
    assert done.code == 0, done.err
    assert "generation" in done.out
    assert "20.00" in done.out
    assert "openai:m: 50 tokens read, 10 written, 0.05 USD" in done.out
    again = command(capsys, "score", "run")
    assert again.code == 0, again.err
    assert "generation" in again.out
    assert "20.00" in again.out
