"""Runs of task files: requests, figures on kshot's scale, functions over all documents, failures."""

import math

import pytest

from kshot.api import evaluate
from kshot.core.errors import DataError
from kshot.core.records import AnyOption, Failed, Generate, Generated, Likelihood, Loglik, Option, Scored
from kshot.lmeval.compiling import prompt_of
from tests.lmeval.replayed import Replayed, compiled_task, lmeval_figures, ran
from tests.lmeval.tasks import ref, task, write

ROWS = {
    "test": [
        {"q": "Which bird sings?", "a": "wren", "right": 1, "options": ["owl", "wren"]},
        {"q": "Which bird hunts at night?", "a": "owl", "right": 0, "options": ["owl", "tit"]},
    ],
}
CHOICE = {"output_type": "multiple_choice", "doc_to_choice": "options", "doc_to_target": "right"}
SAMPLED = {"generation_kwargs": {"do_sample": True, "temperature": 0.7, "top_p": 0.9, "max_gen_toks": 5}}


def figures(result):
    return {row["metric"]: row["value"] for row in result.results}


def by_name(result, name):
    return next(row for row in result.results if row["metric"] == name)


def asked(tmp_path, keys, responses, **options):
    """Run a task, and return what was asked."""
    made = task(tmp_path, keys)
    model = Replayed(made.requests(ROWS), responses)
    evaluate(model, compiled_task(made, ROWS, **options))
    return model.asked


# ---- options ----


def test_options_after_one_context_are_one_request(tmp_path):
    requests = asked(tmp_path, CHOICE, [[-1.0, False]] * 4)
    assert [request.continuations for request in requests] == [(" owl", " wren"), (" owl", " tit")]
    assert all(request.rolling is None and request.prompt.rules == "lm-eval" for request in requests)


def test_without_a_context_the_first_token_follows_bos(tmp_path):
    requests = asked(tmp_path, {**CHOICE, "doc_to_text": ""}, [[-1.0, False]] * 4)
    assert {request.rolling for request in requests} == {"auto"}


def test_shares_are_percentages_with_the_intervals_of_shares(tmp_path):
    result = ran(task(tmp_path, CHOICE), ROWS, [[-3.0, False], [-3.5, False], [-2.0, False], [-2.5, False]])
    row = by_name(result, "acc")
    assert (row["value"], row["n"], row["bounds"], row["binary"]) == (50.0, 2, [0.0, 100.0], True)
    assert (row["lmeval_metric"], row["filter"], row["scale"]) == ("acc", "none", 100.0)
    assert row["ci95"] is not None
    (first, _) = result.samples
    assert (first["answer"], first["answers"], first["target"]) == (0, {"acc": 0, "acc_norm": 1}, 1)


def test_ties_go_to_the_first_option_and_are_counted(tmp_path):
    result = ran(task(tmp_path, CHOICE), ROWS, [[-1.0, False]] * 4)
    assert by_name(result, "acc")["ties"] == 2
    assert [row["answer"] for row in result.samples] == [0, 0]


def test_targets_are_options_and_a_target_that_is_none_is_noted(tmp_path):
    rows = {"test": [{**ROWS["test"][0], "right": [0, 1]}]}
    (sample,) = compiled_task(task(tmp_path, CHOICE), rows).samples
    assert sample.target == AnyOption((0, 1))
    rows = {"test": [{**ROWS["test"][0], "right": 9}, ROWS["test"][1]]}
    made = compiled_task(task(tmp_path, CHOICE), rows)
    assert [sample.target for sample in made.samples] == [None, Option(0)]
    assert made.notes == ("birds: 1 documents name none of their options as right, and count as wrong (0)",)


def test_a_server_that_does_not_tell_greedy_tokens_gives_no_share_of_them(tmp_path):
    result = ran(task(tmp_path, {"output_type": "loglikelihood"}), ROWS, [[-1.0, None], [-3.0, None]])
    assert figures(result) == {"perplexity": pytest.approx(math.exp(2))}
    assert any("acc" in note and "likeliest" in note for note in result.notes)


# ---- documents ----


def test_documents_roll_as_lm_eval_starts_them(tmp_path):
    keys = {"output_type": "loglikelihood_rolling"}
    requests = asked(tmp_path, keys, [[-8.0, False], [-4.0, False]])
    assert {(request.prompt.text, request.rolling) for request in requests} == {("", "lm-eval")}
    result = ran(task(tmp_path, keys), ROWS, [[-8.0, False], [-4.0, False]])
    assert by_name(result, "bits_per_byte")["value"] == pytest.approx(12 / 7 / math.log(2))
    assert by_name(result, "word_perplexity")["higher_is_better"] is False


def test_a_perplexity_that_is_no_number_of_one_text_has_no_figure_there(tmp_path):
    result = ran(task(tmp_path, {"output_type": "loglikelihood"}), ROWS, [[-2000.0, True], [-1.0, True]])
    assert "perplexity" not in result.samples[0]["scores"]
    assert figures(result)["acc"] == 100


# ---- replies ----


def test_replies_are_asked_as_the_file_says(tmp_path):
    keys = {"generation_kwargs": {"until": ["\n", "Q:"], "max_gen_toks": 9}}
    (first, _) = asked(tmp_path, keys, ["wren", "owl"])
    assert (first.stop, first.max_tokens, first.temperature, first.seed) == (("\n", "Q:"), 9, 0.0, None)
    (first, _) = asked(tmp_path, {}, ["wren", "owl"])
    assert (first.stop, first.max_tokens) == (("\n\n",), 256)


def test_the_users_options_go_before_those_of_the_file(tmp_path):
    (first, _) = asked(tmp_path, SAMPLED, ["wren", "owl"], max_tokens=3, temperature=0.0, stop=("!",))
    assert (first.max_tokens, first.temperature, first.stop, first.top_p) == (3, 0.0, ("!",), 0.9)


def test_repeats_are_sampled_one_by_one_and_asked_once_without_sampling(tmp_path):
    replies = ["wren", "tit", "tit", "owl", "owl", "owl"]
    vote = {"name": "vote", "filter": [{"function": "majority_vote"}, {"function": "take_first"}]}
    keys = {**SAMPLED, "repeats": 3, "filter_list": [vote]}
    assert [request.replica for request in asked(tmp_path, keys, replies)] == [0, 1, 2, 0, 1, 2]
    assert figures(ran(task(tmp_path, keys), ROWS, replies)) == {"exact_match": 50.0}
    greedy = {"repeats": 3, "filter_list": [vote]}
    assert [request.replica for request in asked(tmp_path, greedy, ["wren"] * 3 + ["owl"] * 3)] == [0, 0]


def test_with_several_filters_figures_have_lm_evals_own_names(tmp_path):
    first = {"name": "first", "filter": [{"function": "regex", "regex_pattern": "(\\w+)"}, {"function": "take_first"}]}
    keys = {"filter_list": [first, {"name": "raw", "filter": [{"function": "take_first"}]}]}
    result = ran(task(tmp_path, keys), ROWS, ["wren it is", "owl"])
    assert figures(result) == {"exact_match,first": 100.0, "exact_match,raw": 50.0}
    assert lmeval_figures(result) == {"exact_match,first": 1.0, "exact_match,raw": 0.5}
    assert result.samples[0]["answers"] == {"exact_match,first": "wren", "exact_match,raw": "wren it is"}


def test_a_failed_reply_fails_its_sample_alone(tmp_path):
    made = task(tmp_path, {})
    model = Replayed(made.requests(ROWS), ["wren", "owl"])
    told = model.serve

    def serve(queue):
        for request, response in told(queue):
            hunts = "night" in request.prompt.text
            yield request, Failed("lost", "no answer") if hunts else response

    model.serve = serve
    result = evaluate(model, compiled_task(made, ROWS))
    assert (by_name(result, "exact_match")["value"], by_name(result, "exact_match")["failed"]) == (100.0, 1)


def test_a_chat_model_goes_on_after_a_prefix():
    turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "It is"}]
    prompt = prompt_of(turns)
    assert (prompt.messages[-1].content, prompt.opened, prompt.rules) == ("It is", True, "lm-eval")
    assert not prompt_of(turns[:1]).opened


def test_a_metric_that_kshot_lacks_is_refused_before_a_model_is_asked(tmp_path):
    with pytest.raises(DataError, match="the metric 'rouge' is none of lm-eval's own"):
        compiled_task(task(tmp_path, {"metric_list": [{"metric": "rouge"}]}), ROWS)


# ---- functions ----

FUNCTIONS = """
def results(doc, results):
    if results[0] == "stop":
        raise ValueError("no such bird")
    found = {"exact_match": float(results[0] == doc["a"]), "size": len(results[0]), "pair": (doc["a"], results[0])}
    return found if doc["a"] == "wren" else {**found, "night": 3}


def same(items):
    return sum(a == b for a, b in items) / len(items)


def both(items):
    if len(items) < 2:
        raise ValueError("too few")
    return len(items)
"""


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path, utils_py=FUNCTIONS)


def by_functions(folder, aggregation="same"):
    return {
        "process_results": ref(folder, "results"),
        "metric_list": [
            {"metric": "exact_match"},
            {"metric": "pair", "aggregation": ref(folder, aggregation)},
            {"metric": "never"},
        ],
    }


def test_functions_get_all_documents_at_once(folder):
    with task(folder, by_functions(folder)) as made:
        assert compiled_task(made, ROWS).finish is not None
        result = ran(made, ROWS, ["wren", "eagle"])
    assert figures(result) == {"exact_match": 50.0, "pair": 0.5, "size": 4.5, "night": 3.0}
    assert {row["metric"]: row["scale"] for row in result.results}["size"] == 1.0
    assert by_name(result, "pair")["aggregate"] == "own"
    assert result.samples[0]["scores"] == {"exact_match": 100.0, "pair": 1.0, "size": 4.0}


def test_a_function_that_fails_on_one_document_fails_that_sample(folder):
    with task(folder, by_functions(folder)) as made:
        result = ran(made, ROWS, ["wren", "stop"])
    row = by_name(result, "exact_match")
    assert (row["value"], row["n"], row["failed"]) == (100.0, 1, 1)
    assert "no such bird" in result.samples[1]["failed"]


def test_an_aggregation_may_have_no_figure_of_one_document(folder):
    with task(folder, by_functions(folder, "both")) as made:
        result = ran(made, ROWS, ["wren", "eagle"])
        assert figures(result)["pair"] == 2
        assert "pair" not in result.samples[0]["scores"]
        with pytest.raises(DataError, match="too few"):
            ran(made, ROWS, ["wren", "stop"])


def test_two_models_do_not_share_what_their_figures_found(folder):
    with task(folder, by_functions(folder)) as made:
        right, wrong = compiled_task(made, ROWS), compiled_task(made, ROWS)
        requests = made.requests(ROWS)
        assert figures(evaluate(Replayed(requests, ["wren", "owl"]), right))["pair"] == 1.0
        assert figures(evaluate(Replayed(requests, ["x", "y"]), wrong))["pair"] == 0.0


# ---- a whole corpus ----


def test_a_run_asks_no_more_than_lm_eval(tmp_path):
    class Counting:
        name = fingerprint = "counting"
        answers = (Generate, Loglik)
        asked = 0

        def serve(self, queue):
            for request in queue:
                self.asked += 1
                if isinstance(request, Generate):
                    yield request, Generated("wren")
                else:
                    yield request, Scored(tuple(Likelihood(-1.0, 1) for _ in request.continuations))

    rows = {"test": [{**ROWS["test"][0], "q": f"Which bird sings at {n}?"} for n in range(30)]}
    model = Counting()
    evaluate(model, compiled_task(task(tmp_path, CHOICE), rows))
    assert model.asked == 30
