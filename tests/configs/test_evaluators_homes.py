"""Evaluators as OpenCompass and AISBench compute them, where the two differ or kshot's own rule is another."""

import numpy as np
import pytest
from rouge_score.rouge_scorer import RougeScorer

from kshot.configs.evaluators.making import evaluator
from kshot.configs.evaluators.math import SAME_VALUE, same_value
from kshot.configs.evaluators.summaries import resampled_rouge
from kshot.configs.scope import Scope
from kshot.core.errors import DataError
from kshot.core.records import AskFailed
from kshot.sandbox.calls import Refused, TooSlow
from tests.configs.scored import figures
from tests.measures import names as names_of


def rate(kind, prediction, reference, **options):
    return evaluator({"type": kind, **options}, Scope("here")).rate(prediction, reference)


@pytest.mark.parametrize(
    ("prediction", "reference", "v1", "v2"),
    [
        ("12.00", "12", 0, 100),
        ("x = 442", "442", 100, 100),
        ("x=442", "442", 100, 100),
        (r"\frac12", "1/2", 100, 100),
        ("0.5", r"\frac{1}{2}", 100, 0),
        (r"3\text{ cm}", "3", 100, 100),
        (r"3\text{bar}", "3", 0, 100),
        ("4j", "4i", 0, 100),
        ("50%", "50", 0, 100),
        (r"\sqrt12", r"\sqrt{12}", 0, 100),
        (r"\sqrt{12", r"\sqrt{12}", 0, 0),
        ("1,000", "1000", 100, 100),
    ],
)
def test_two_versions_of_math(prediction, reference, v1, v2):
    kind = "opencompass.datasets.MATHEvaluator"
    assert rate(kind, prediction, reference) == v1
    assert rate(kind, prediction, reference, version="v2") == v2


def test_the_homes_differ_in_a_slash():
    """To one of them it is an error of the rewriting, after which only the next one is tried."""
    pair = (r"a/\left b", "a/b")
    assert rate("opencompass.datasets.MATHEvaluator", *pair) == 0
    assert rate("ais_bench.benchmark.datasets.MATHEvaluator", *pair) == 100
    with pytest.raises(DataError, match="version='v3'"):
        rate("opencompass.datasets.MATHEvaluator", *pair, version="v3")


def test_values_of_formulas():
    kind = "opencompass.evaluator.MATHVerifyEvaluator"
    assert rate(kind, r"so \boxed{\frac{2}{4}}", "0.5") == 100
    assert rate(kind, "so 0.5", "0.5") == 0  # nothing is boxed
    assert rate(kind, r"\boxed{1}", "no formula at all") == 0
    found = figures({"type": "ais_bench.benchmark.openicl.icl_evaluator.MATHEvaluator"}, [r"\boxed{2}"], ["4/2"])
    assert found == {"accuracy": 100}


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (TooSlow("it was killed"), "it was killed"),
        (TooSlow("", "TooSlow", "10 s"), "it takes more than 10 s"),
        (TooSlow("", "MemoryError", "1024 MB"), "it takes more than 1024 MB"),
        (Refused("ValueError", "no limit"), "ValueError: no limit"),
    ],
)
def test_a_formula_that_cannot_be_compared_is_a_failed_sample(monkeypatch, result, said):
    monkeypatch.setattr("kshot.configs.evaluators.math.SAME_VALUE", lambda *_: result)
    with pytest.raises(AskFailed, match=rf"'9\^9' cannot be compared with '\$1\$': {said}"):
        same_value("9^9", "1")


def test_a_process_that_cannot_start_is_an_error_of_the_run(monkeypatch):
    def broken(*_, **__):
        raise OSError("no more processes")

    SAME_VALUE.close()
    monkeypatch.setattr("kshot.sandbox.calls.RequestProcess", broken)
    with pytest.raises(DataError, match="compares formulas cannot start: no more processes"):
        same_value("1", "1")


def bootstrapped(pairs):
    """The figures, by drawing one sample after the other."""
    kinds = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    scorer = RougeScorer(kinds)
    scores = [scorer.score(gold, text) for text, gold in pairs]
    generator, found = np.random.RandomState(0), {}
    for kind in kinds:
        values = np.array([score[kind].fmeasure for score in scores])
        means = [values[generator.choice(np.arange(len(pairs)), size=len(pairs))].mean() for _ in range(1000)]
        found[kind] = 100 * np.percentile(means, 50)
    return found


@pytest.mark.parametrize("kept", [2000, 3])
def test_rouge_is_the_median_of_resamples(monkeypatch, kept):
    """Whether the draws are kept, or drawn anew because there are many samples."""
    monkeypatch.setattr("kshot.configs.evaluators.summaries._MOST_KEPT", kept)
    pairs = [("the cat sat", "the cat sat down"), ("a b c", "c b a"), ("x", "y"), ("one two", "one two"), ("", "z q")]
    found = resampled_rouge()([text for text, _ in pairs], [gold for _, gold in pairs])
    assert found == pytest.approx(bootstrapped(pairs))
    assert resampled_rouge()(["a b"], [["x", "a b"]])["rouge2"] == 100


def test_of_two_math_evaluators_of_ais_bench_one_must_be_named():
    with pytest.raises(DataError, match="MATHEvaluator is the name of more than one evaluator") as caught:
        figures({"type": "MATHEvaluator"}, ["4"], ["4"], framework="ais_bench")
    for module in ("openicl.icl_evaluator", "datasets"):
        assert f"ais_bench.benchmark.{module}.MATHEvaluator" in caught.value.hint
    assert figures({"type": "MATHEvaluator"}, ["4"], ["4"], framework="opencompass") == {"accuracy": 100}


@pytest.mark.parametrize(
    "kind", ["datasets.circular.Circular", "openicl.icl_evaluator.icl_korbench_evaluator.korbench"]
)
def test_another_evaluator_of_the_same_name_is_not_kshots(kind):
    with pytest.raises(DataError, match=rf"kshot has no evaluator opencompass\.{kind}Evaluator"):
        figures({"type": f"opencompass.{kind}Evaluator"}, ["A"], ["A"])


def test_chinese_rouge_has_one_rule_whoever_names_it():
    pair = "，他去杭州", "他去了杭州参加会议"
    expected = rate("opencompass.openicl.icl_evaluator.JiebaRougeEvaluator", *pair)
    assert 0 < expected["rouge1"] < 100
    for framework in ("", "ais_bench", "opencompass"):
        found = figures({"type": "JiebaRougeEvaluator"}, *([each] for each in pair), framework=framework)
        assert found == pytest.approx(expected)


def test_chinese_rouge_of_nothing():
    found = rate("opencompass.x.JiebaRougeEvaluator", "", "")
    assert found == {"rouge1": 0, "rouge2": 0, "rougeL": 0}
    same = rate("opencompass.x.JiebaRougeEvaluator", "他去了杭州参加会议", "他去了杭州参加会议")
    assert same["rougeL"] == pytest.approx(100)


def test_a_drop_needs_both_halves():
    kind = {"type": "opencompass.datasets.AccDropEvaluator"}
    found = figures(kind, ["a", "b", "a", "a"], ["a"] * 4)
    assert found == {"acc_drop": 0.5, "acc_after": 50, "acc_before": 100}
    with pytest.raises(DataError, match=r"3 rows: the first half.*--limit"):
        figures(kind, ["a"] * 3, ["a"] * 3)
    with pytest.raises(DataError, match="no answer to a question without an attack is right"):
        figures(kind, ["a", "b"], ["a", "a"])


def test_contaminated_rows_need_their_column():
    kind = {"type": "opencompass.openicl.icl_evaluator.AccContaminationEvaluator"}
    rows = [{"is_clean": "clean"}, {"is_clean": "input contamination"}]
    found = figures(kind, ["a", "b"], ["a", "a"], rows=rows)
    assert (found["accuracy - clean"], found["accuracy - input contaminated"]) == (100, 0)
    with pytest.raises(DataError, match="no column 'is_clean'"):
        figures(kind, ["a"], ["a"])


def test_circular_references_have_three_parts():
    with pytest.raises(DataError, match="id--letter--order"):
        figures({"type": "opencompass.x.CircularEvaluator"}, ["A"], ["A"])


def test_an_evaluators_own_clean_up():
    given = {"type": "opencompass.openicl.AccEvaluator", "pred_postprocessor": {"type": "first_capital_postprocess"}}
    assert figures(given, ["it is B", "c"], ["B", "C"]) == {"accuracy": 50}


def test_free_form_by_home():
    assert rate("opencompass.datasets.BBHEvaluator", "the answer is **YES**.", "yes, indeed") == 100
    assert rate("ais_bench.benchmark.datasets.BBHEvaluator", "the answer is **Yes**.", "yes") == 0
    assert rate("ais_bench.benchmark.datasets.BBHEvaluator", "the answer is **Yes**.", "Yes") == 100


def test_names_of_figures_are_the_homes():
    scopes = {framework: Scope("here", framework) for framework in ("", "opencompass", "ais_bench")}
    names = {framework: names_of(evaluator({"type": "Gsm8kEvaluator"}, scope)) for framework, scope in scopes.items()}
    assert names == {"": ("Accuracy",), "opencompass": ("accuracy",), "ais_bench": ("accuracy",)}
    assert names_of(evaluator({"type": "EMEvaluator"}, scopes["opencompass"])) == ("score",)
    assert names_of(evaluator({"type": "EMEvaluator"}, scopes[""])) == ("EM",)
