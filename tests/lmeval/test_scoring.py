"""Scores of task files: filters, metrics of each kind of output, functions, and what is refused."""

import math

import pytest

from kshot.core.errors import DataError
from kshot.lmeval.pipelines import FILTERED, WITHOUT
from tests.lmeval.tasks import ref, task, write

ROWS = {
    "test": [
        {"q": "Which bird sings?", "a": "wren", "right": 1, "options": ["owl", "wren"]},
        {"q": "Which bird hunts at night?", "a": "owl", "right": 0, "options": ["owl", "tit"]},
    ],
}
CHOICE = {"output_type": "multiple_choice", "doc_to_choice": "options", "doc_to_target": "right"}


def score(tmp_path, keys, responses, rows=ROWS):
    with task(tmp_path, keys) as made:
        return made.score(rows, responses)


def metrics(*names, **options):
    return {"metric_list": [{"metric": name, **options} for name in names]}


# ---- options ----


def test_the_likeliest_option_is_right_by_itself_and_by_its_length(tmp_path):
    lls = [[-3.0, False], [-3.5, True], [-2.0, True], [-2.5, False]]
    found = score(tmp_path, {**CHOICE, **metrics("acc", "acc_norm", "acc_bytes", "exact_match")}, lls)
    assert found["docs"][0] == {"acc,none": 0.0, "acc_norm,none": 1.0, "acc_bytes,none": 1.0, "exact_match,none": 1}
    assert found["metrics"] == {"acc,none": 0.5, "acc_norm,none": 1.0, "acc_bytes,none": 1.0, "exact_match,none": 1.0}


@pytest.mark.parametrize(
    ("keys", "responses", "said"),
    [
        (CHOICE, [[-1.0, True]] * 3 + ["wren"], r"response 3 is 'wren'. Give \[log-probability, is greedy\]"),
        (CHOICE, [[-1.0, True]] * 3 + [["-1", True]], r"response 3 is \['-1', True\]"),
        ({"doc_to_target": "a"}, ["wren", None], "response 1 is None. Give a text for each request"),
    ],
)
def test_a_response_of_another_kind_is_named(tmp_path, keys, responses, said):
    with pytest.raises(DataError, match=said):
        score(tmp_path, keys, responses)


def test_a_tie_goes_to_the_first_option(tmp_path):
    found = score(tmp_path, {**CHOICE, **metrics("acc")}, [[-1.0, False]] * 4)
    assert [doc["acc,none"] for doc in found["docs"]] == [0.0, 1.0]


def test_without_metrics_the_defaults_are_scored(tmp_path):
    assert set(score(tmp_path, CHOICE, [[-1.0, False]] * 4)["metrics"]) == {"acc,none", "acc_norm,none"}


def test_pairs_and_probabilities_are_kept_for_the_aggregation(tmp_path):
    lls = [[math.log(0.25), False], [math.log(0.75), False], [math.log(0.5), False], [math.log(0.5), False]]
    found = score(tmp_path, {**CHOICE, **metrics("f1", "mcc", "brier_score")}, lls)
    assert found["docs"][0]["f1,none"] == (1, 1)
    assert found["metrics"]["f1,none"] == 1.0
    assert found["metrics"]["mcc,none"] == 1.0
    assert found["metrics"]["brier_score,none"] == pytest.approx((2 * 0.25**2 + 2 * 0.5**2) / 2)


def test_mutual_information_takes_what_options_have_by_themselves(tmp_path):
    lls = [[-3.0, False], [-4.0, False], [-1.0, False], [-6.0, False]] * 2
    found = score(tmp_path, {**CHOICE, **metrics("acc", "acc_mutual_info")}, lls)
    assert found["docs"][0] == {"acc,none": 0.0, "acc_mutual_info,none": 1.0}


@pytest.mark.parametrize(("gold", "right"), [("wren", 1.0), (7, 0.0), ("heron", 0.0)])
def test_the_gold_may_be_a_text_and_one_that_is_no_option_is_wrong(tmp_path, gold, right):
    rows = {"test": [{**ROWS["test"][0], "right": gold}]}
    found = score(tmp_path, {**CHOICE, **metrics("acc")}, [[-2.0, False], [-1.0, False]], rows)
    assert found["metrics"]["acc,none"] == right


def test_one_of_several_golds_is_enough(tmp_path):
    rows = {"test": [{**ROWS["test"][0], "right": [0, 1]}]}
    found = score(tmp_path, {**CHOICE, **metrics("acc", "exact_match")}, [[-2.0, True], [-1.0, False]], rows)
    assert found["metrics"] == {"acc,none": 1.0, "exact_match,none": 1.0}


def test_a_gold_that_is_neither_is_an_error(tmp_path):
    rows = {"test": [{**ROWS["test"][0], "right": 0.5}]}
    with pytest.raises(DataError, match=r"document 0.*the right option is 0.5"):
        score(tmp_path, {**CHOICE, **metrics("acc")}, [[-2.0, True], [-1.0, False]], rows)


# ---- texts ----


def test_a_target_has_its_likelihood_and_whether_it_is_greedy(tmp_path):
    found = score(tmp_path, {"output_type": "loglikelihood"}, [[-1.0, True], [-3.0, False]])
    assert found["docs"] == [{"perplexity,none": -1.0, "acc,none": 1}, {"perplexity,none": -3.0, "acc,none": 0}]
    assert found["metrics"] == {"perplexity,none": pytest.approx(math.exp(2)), "acc,none": 0.5}


def test_a_document_counts_its_words_and_bytes(tmp_path):
    rows = {"test": [{"q": "", "a": " naïve  bird\n"}]}
    found = score(tmp_path, {"output_type": "loglikelihood_rolling"}, [[-8.0, False]], rows)
    assert found["docs"][0]["word_perplexity,none"] == (-8.0, 4)  # what stands before and after white space counts
    assert found["metrics"]["bits_per_byte,none"] == pytest.approx(8 / 14 / math.log(2))


# ---- replies ----


def test_replies_are_compared_as_they_are_unless_options_say_otherwise(tmp_path):
    assert score(tmp_path, {}, ["wren", "Owl."])["metrics"] == {"exact_match,none": 0.5}
    keys = metrics("exact_match", ignore_case=True, ignore_punctuation=True)
    assert score(tmp_path, keys, ["wren", "Owl."])["metrics"] == {"exact_match,none": 1.0}
    keys = metrics("exact_match", regexes_to_ignore=["the ", r"\d"])
    assert score(tmp_path, keys, ["the wren1", "owl"])["metrics"] == {"exact_match,none": 1.0}
    keys = metrics("exact_match", ignore_numbers=True)
    assert score(tmp_path, keys, ["wren7", "owl"])["metrics"] == {"exact_match,none": 1.0}


def test_a_pattern_that_does_not_finish_fails_its_document(tmp_path, monkeypatch):
    for function in (FILTERED, WITHOUT):
        monkeypatch.setattr(function, "seconds", 0.2)
    endless = "(x+x+)+y"
    keys = metrics("exact_match", regexes_to_ignore=[endless])
    filters = [{"name": "f", "filter": [{"function": "regex", "regex_pattern": endless}, {"function": "take_first"}]}]
    for slow in (keys, {"filter_list": filters}):
        with pytest.raises(DataError, match=r"document 1: .*\(x\+x\+\)\+y.* does not finish within 0.2 s"):
            score(tmp_path, slow, ["wren", "x" * 40])


def test_each_pipeline_starts_from_the_raw_replies(tmp_path):
    filters = [
        {"name": "first", "filter": [{"function": "regex", "regex_pattern": "(\\w+)"}, {"function": "take_first"}]},
        {"name": "last", "filter": [{"function": "lowercase"}, {"function": "take_first"}]},
    ]
    found = score(tmp_path, {"filter_list": filters}, ["wren it is", "OWL"])
    assert found["metrics"] == {"exact_match,first": 0.5, "exact_match,last": 0.5}
    assert found["docs"][0] == {"exact_match,first": 1.0, "exact_match,last": 0.0}


def test_without_a_closing_filter_every_repeat_is_compared(tmp_path):
    keys = {"repeats": 2, "filter_list": [{"name": "all", "filter": [{"function": "lowercase"}]}]}
    found = score(tmp_path, keys, ["Wren", "owl", "owl", "owl"])
    assert found["docs"] == [{"exact_match,all": 0.5}, {"exact_match,all": 1.0}]


def test_any_of_several_targets_is_right(tmp_path):
    rows = {"test": [{"q": "q", "a": ["wren", "tit"]}, {"q": "q", "a": ["owl"]}]}
    keys = {"doc_to_target": "a", **metrics("exact_match")}
    assert score(tmp_path, keys, ["tit", "tit"], rows)["docs"] == [{"exact_match,none": 1.0}, {"exact_match,none": 0.0}]


def test_a_number_is_compared_as_text_and_a_choice_by_its_text(tmp_path):
    rows = {"test": [{"q": "q", "a": 7}]}
    assert score(tmp_path, {"doc_to_target": "a"}, ["7"], rows)["metrics"] == {"exact_match,none": 1.0}
    keys = {"doc_to_target": "right", "doc_to_choice": "options"}
    assert score(tmp_path, keys, ["wren", "owl"])["metrics"] == {"exact_match,none": 1.0}


def test_translations_keep_the_pair(tmp_path):
    found = score(tmp_path, metrics("bleu", "ter"), ["wren", "owl"])
    assert found["docs"][0]["bleu,none"] == ["wren", "wren"]
    assert found["metrics"]["ter,none"] == 0


def test_a_metric_of_the_hub_is_refused(tmp_path):
    with pytest.raises(DataError, match="the metric 'rouge' is none of lm-eval's own"):
        score(tmp_path, metrics("rouge", hf_evaluate=True), ["wren", "owl"])
    with pytest.raises(DataError, match="exact_match has no option 'ignore_everything'"):
        score(tmp_path, metrics("exact_match", ignore_everything=True), ["wren", "owl"])


def test_a_filter_that_there_is_not(tmp_path):
    keys = {"filter_list": [{"name": "x", "filter": [{"function": "take_frist"}]}]}
    with pytest.raises(DataError, match="there is no filter 'take_frist'") as raised:
        score(tmp_path, keys, ["wren", "owl"])
    assert "take_first" in raised.value.hint


# ---- functions ----

FUNCTIONS = """
from functools import partial


def results(doc, results):
    if doc["a"] == "owl" and results[0] == "stop":
        raise ValueError("no such bird")
    return {"hit": results[0] == doc["a"], "letters": (len(results[0]), doc["a"])}


def spread(items):
    return max(n for n, _ in items) - min(n for n, _ in items)


def ratio(predictions, references, power=1):
    return {"ratio@1": (len(predictions[0]) / len(references[0])) ** power}


def pairs(items):
    gold, reply = items
    return float(gold == reply)


def biggest(items):
    return max(items)


class Upper:
    def __init__(self, suffix=""):
        self.suffix = suffix

    def apply(self, resps, docs):
        return [[text.upper() + self.suffix for text in each] for each in resps]


def first_words(resps, docs):
    return (reply[0].split()[0] for reply in resps)
"""


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path, utils_py=FUNCTIONS)


def test_process_results_decides_everything(folder):
    keys = {
        "process_results": ref(folder, "results"),
        "metric_list": [{"metric": "letters", "aggregation": ref(folder, "spread")}],
    }
    found = score(folder, keys, ["wren", "eagle owl"])
    assert found["metrics"] == {"hit,none": 0.5, "letters,none": 5}
    assert found["docs"][1] == {"hit,none": False, "letters,none": (9, "owl")}


def test_a_function_that_fails_names_the_document(folder):
    with pytest.raises(DataError, match=r"document 1.*no such bird"):
        score(folder, {"process_results": ref(folder, "results")}, ["wren", "stop"])


def test_a_metric_may_be_a_function_that_gives_several_values(folder):
    keys = {"metric_list": [{"metric": ref(folder, "ratio"), "power": 2, "aggregation": ref(folder, "biggest")}]}
    found = score(folder, keys, ["wrenwren", "owl"])
    assert found["metrics"] == {"ratio@1,none": 4.0}


def test_a_metric_that_takes_no_keywords_gets_the_pair(folder):
    keys = {"metric_list": [{"metric": ref(folder, "pairs"), "aggregation": "mean"}]}
    assert score(folder, keys, ["wren", "tit"])["metrics"] == {"pairs,none": 0.5}


def test_filters_may_be_classes_and_functions(folder):
    filters = [
        {"name": "loud", "filter": [{"function": ref(folder, "Upper"), "suffix": "!"}, {"function": "take_first"}]},
        {"name": "word", "filter": [{"function": "custom", "filter_fn": ref(folder, "first_words")}]},
    ]
    found = score(folder, {"filter_list": filters, "doc_to_target": "{{a|upper}}!"}, ["wren", "owl bird"])
    assert found["metrics"] == {"exact_match,loud": 0.5, "exact_match,word": 0.0}
