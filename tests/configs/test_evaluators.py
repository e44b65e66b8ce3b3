"""Evaluators and clean-ups as configs name them."""

import math
import random
import sys
from functools import partial
from types import ModuleType
from urllib.error import URLError

import numpy as np
import pytest

from kshot.configs.answers import cleaner, role_part
from kshot.configs.evaluators.making import EVALUATORS, evaluator
from kshot.configs.evaluators.repeats import repeated
from kshot.configs.evaluators.row_groups import AucRoc, Mcc
from kshot.configs.names import merged
from kshot.configs.scope import Scope
from kshot.core.errors import BackendError, DataError, MissingExtra
from kshot.core.metric import Metric as AnyMetric
from kshot.core.records import Gold, Sample
from kshot.core.registry import Entry, Registry
from kshot.metrics import Metric
from kshot.metrics.words import edit_distance
from kshot.statistics import interval, paired
from tests.lacking import lack
from tests.measures import measure


def test_a_clean_up_that_fails_says_on_what():
    with pytest.raises(DataError, match=r"first_option_postprocess.*options"):
        cleaner({"type": "first_option_postprocess"}, Scope("here"))("x")
    with pytest.raises(DataError, match=r"kshot has no clean-up opencompass\.utils\.dreamt"):
        cleaner({"type": "opencompass.utils.dreamt"}, Scope("here"))
    assert cleaner({"type": "mine"}, Scope("", registered={"mine": str.upper}))("a") == "A"
    assert cleaner(str.upper, Scope(""))("a") == "A"


def test_a_clean_up_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)  # as if it were not installed
    with pytest.raises(MissingExtra, match=r"general_cn_postprocess needs the package 'jieba'.*kshot\[chinese\]"):
        cleaner({"type": "general_cn_postprocess"}, Scope("here"))("x")


class Shout:
    """A clean-up of an installed package, as a class."""

    def __init__(self, mark="!"):
        self.mark = mark

    def __call__(self, text):
        return text.upper() + self.mark


def whisper(text, mark="."):
    return text.lower() + mark


def test_clean_ups_of_installed_packages(monkeypatch):
    entries = [
        Entry("shout", f"{__name__}:Shout", origin="loud 1.0"),
        Entry("whisper", f"{__name__}:whisper", origin="loud 1.0"),
        Entry("strip", f"{__name__}:Shout", origin="loud 1.0"),
    ]
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Shout.__module__])
    monkeypatch.setattr("kshot.configs.answers.CLEANUPS", Registry("cleanups", "clean-up", entries))
    assert cleaner({"type": "shout", "mark": "?"}, Scope(""))("a") == "A?"
    assert cleaner({"type": "loud.whisper", "mark": "?"}, Scope(""))("A") == "a?"
    assert (
        cleaner({"type": "whisper"}, Scope(registered={"whisper": str.upper}))("a") == "A"
    )  # the config's own goes first
    assert cleaner({"type": "strip"}, Scope(""))(" a ") == "a"  # and kshot's before a package's
    with pytest.raises(DataError, match=r"no clean-up cry.*It has: .*shout"):
        cleaner({"type": "cry"}, Scope(""))


def test_a_config_names_no_file_to_import(tmp_path):
    (tmp_path / "mine.py").write_text("raise SystemExit('it was run')")
    with pytest.raises(DataError, match="kshot has no clean-up"):
        cleaner({"type": f"{tmp_path}/mine.py:clean"}, Scope("here"))


def test_a_role_part():
    meta = {"round": [{"role": "BOT", "begin": "<b>", "end": "</b>"}]}
    assert role_part("x<b>yes</b>no", "BOT", meta) == "yes"
    assert role_part("plain", "BOT", meta) == "plain"
    assert role_part("x", "BOT", None) == "x"


def rate(name, prediction, reference, **options):
    return evaluator({"type": name, **options}, Scope("here")).rate(prediction, reference)


@pytest.mark.parametrize(
    ("name", "prediction", "reference", "value"),
    [
        ("AccEvaluator", "A", "A", 100),
        ("AccEvaluator", "1", 1, 100),
        ("AccEvaluator", "A ", "A", 0),
        ("AccwithDetailsEvaluator", "B", "A", 0),
        ("AccEvaluator", ("A", "B"), ["A", "C"], 50),
        ("EMEvaluator", "the cat", ["A cat.", "dog"], 100),
        ("EMEvaluator", "cow", "cat", 0),
        ("TriviaQAEvaluator", "Well, the answer is Paris.\nReally", ["paris", "City of Light"], 100),
        ("NQEvaluator", "rome", ["Paris"], 0),
        ("Gsm8kEvaluator", "7.0", "7", 100),
        ("Gsm8kEvaluator", "NULL", "7", 0),
        ("MATHEvaluator", r"\frac12", r"\frac{1}{2}", 100),
        ("MATHEvaluator", r"so \boxed{12}", r"\text{12}", 100),
        ("MATHEvaluator", "1", "2", 0),
        ("BBHEvaluator", "Left", "left", 100),
        ("EDAccEvaluator", "the blue on", {"candidates": [["red"], "the blue one"], "label": 1}, 100),
        ("SquadEvaluator", "the quick fox\nmore", ["a quick dog"], 50),
        ("SquadEvaluator", "", "", 100),
    ],
)
def test_evaluators(name, prediction, reference, value):
    assert rate(name, prediction, reference) == pytest.approx(value)


def test_rouge_and_bleu():
    assert rate("RougeEvaluator", "a b c", "a b c")["ROUGE-1"] == pytest.approx(100)
    metric = evaluator({"type": "BleuEvaluator"}, Scope(""))
    import sacrebleu

    predicted, gold = ["the cat sat on the mat today", "a dog"], ["the cat sat on a mat today", "the dog"]
    assert metric(predicted, gold)["BLEU"] == pytest.approx(sacrebleu.corpus_bleu(predicted, [gold]).score, abs=1e-6)


def test_bleu_of_flores_says_what_it_lacks(monkeypatch):
    flores = partial(evaluator, {"type": "opencompass.openicl.BleuFloresEvaluator"}, Scope(""))
    lack(monkeypatch, "sentencepiece")
    with pytest.raises(MissingExtra, match=r"BleuFloresEvaluator needs the package 'sentencepiece'.*kshot\[configs\]"):
        flores()

    def without_network(**options):
        raise URLError("no network")

    monkeypatch.setitem(sys.modules, "sentencepiece", ModuleType("sentencepiece"))
    monkeypatch.setattr("sacrebleu.metrics.bleu.BLEU", without_network)
    with pytest.raises(
        BackendError, match=r"flores200 of sacrebleu, which cannot be fetched or read.*no network.*models"
    ):
        flores()


def test_correlation_of_labels():
    predicted, gold = list("aabbc"), list("abbbc")
    assert Mcc()(predicted, gold)["MCC"] == pytest.approx(_mcc(predicted, gold))
    assert Mcc()(["a", "a"], ["a", "a"])["MCC"] == 0


def _mcc(predicted, gold):
    """By covariances of indicator columns."""
    labels, n = sorted({*predicted, *gold}), len(predicted)

    def covariance(left, right):
        total = 0.0
        for label in labels:
            x, y = [a == label for a in left], [b == label for b in right]
            total += sum((i - sum(x) / n) * (j - sum(y) / n) for i, j in zip(x, y, strict=True))
        return total

    return 100 * covariance(predicted, gold) / math.sqrt(covariance(predicted, predicted) * covariance(gold, gold))


def test_area_under_the_curve():
    metric = AucRoc()([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.8, 0.2]], [0, 1, 0, 1])
    assert metric == {"AUC": pytest.approx(50.0), "Accuracy": 50.0}
    with pytest.raises(DataError, match="CLPInferencer"):
        AucRoc()(["A"], [1])


def test_area_under_the_curve_counts_equal_probabilities_as_half():
    draw = random.Random(3)
    given = [(draw.randint(0, 9) / 10, draw.random() < 0.4) for _ in range(200)]
    above, below = ([p for p, label in given if label is kind] for kind in (True, False))
    counted = sum((x > y) + (x == y) / 2 for x in above for y in below)
    metric = AucRoc()([[1 - p, p] for p, _ in given], [int(label) for _, label in given])
    assert metric["AUC"] == pytest.approx(100 * counted / len(above) / len(below))


def test_rows_of_one_label_have_no_area_under_the_curve():
    assert "AUC" not in AucRoc()([[0.9, 0.1], [0.4, 0.6]], [0, 0])


def test_corpus_values_cannot_be_summed():
    metric = Mcc()
    values = [metric.rate("a", "a")["MCC"], metric.rate("b", "b")["MCC"]]
    assert measure(metric).aggregate(values) == 100


def test_humaneval_runs_programs():
    metric = evaluator({"type": "HumanEvalEvaluator", "k": [1, 10]}, Scope("")).with_k([1, 2])
    row = {"prompt": "def f(x):\n", "test": "def check(c):\n    assert c(1) == 2", "entry_point": "f"}
    scores = metric.score(Sample("0", row, Gold("f")), ("    return x + 1", "    return x"))
    assert scores == {"pass@1": 50.0, "pass@2": 100.0}
    with pytest.raises(DataError, match="no column 'test'"):
        metric.score(Sample("0", {"prompt": ""}, None), ("x",))


JUDGED = {"prompt_template": {"type": "PromptTemplate", "template": "{prediction}"}}
NEEDED = {
    **dict.fromkeys(("GenericLLMEvaluator", "LMEvaluator"), JUDGED),
    "GaokaoBenchEvaluator": {"question_type": "single_choice"},
    **{f"BFCL{kind}Evaluator": {"category": "simple"} for kind in ("SingleTurn", "MultiTurn", "Relevance")},
}


WHOLE = {"NeedleBenchOriginEvaluator": "opencompass.datasets.needlebench.origin.NeedleBenchOriginEvaluator"}
"""The whole name, where the last part stands for several evaluators."""


def test_every_evaluator_is_a_scorer():
    for name in EVALUATORS:
        metric = evaluator({"type": WHOLE.get(name, name), **NEEDED.get(name, {})}, Scope())
        assert isinstance(metric, AnyMetric)
        assert not any(each.token_budget for each in metric.measures)
        assert not metric.measures or not all(each.detail for each in metric.measures)
    assert isinstance(repeated(evaluator({"type": "AccEvaluator"}, Scope("")), 2), AnyMetric)


def test_edit_distance():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("", "ab") == 2


def test_names_that_kshot_does_not_have():
    with pytest.raises(DataError, match=r"here: kshot has no evaluator opencompass.x.Dream|no evaluator Dream"):
        evaluator({"type": "opencompass.x.Dream"}, Scope("here"))
    with pytest.raises(DataError, match="the judge has no prompt_template"):
        evaluator({"type": "LMEvaluator"}, Scope("here"))

    class Own(Metric):
        name = "Own"

    assert isinstance(evaluator({"type": Own}, Scope("")), Own)
    assert len(EVALUATORS) > 20


def test_two_systems_are_compared_by_the_pairs_of_both():
    """Each has a metric of its own, and each value says which pair it stands for."""
    gold = ["a", "b"] * 15
    good, bad = Mcc(), Mcc()
    right = [good.rate(label, label)["MCC"] for label in gold]
    wrong = [bad.rate("a" if i % 3 else "b", label)["MCC"] for i, label in enumerate(gold)]
    found = paired(right, wrong, measure(good).aggregate)
    assert found.difference == pytest.approx(100 - measure(bad).aggregate(wrong))
    assert found.decided


@pytest.mark.parametrize("name", ["AccEvaluator", "EMEvaluator", "SquadEvaluator", "BleuEvaluator", "RougeEvaluator"])
def test_evaluators_know_their_scale(name):
    """Intervals of scores need it: without it they take the scores' own spread for all that there is."""
    metric = evaluator({"type": name}, Scope("here"))
    assert measure(metric).bounds == measure(repeated(metric, 3)).bounds == (0.0, 100.0)


def test_neither_the_order_of_samples_nor_that_of_systems_changes_an_interval_or_a_comparison():
    rng = np.random.default_rng(3)
    gold, one, other = (["ab"[i] for i in rng.integers(0, 2, 40)] for _ in range(3))
    orders = (range(40), reversed(range(40)), rng.permutation(40))

    def found(order, *, turned):
        first, second = Mcc(), Mcc()
        order = [int(i) for i in order]
        a, b = ([m.rate(p[i], gold[i])["MCC"] for i in order] for m, p in ((first, one), (second, other)))
        reduce = measure(first).aggregate
        compared = paired(*((b, a) if turned else (a, b)), reduce)
        return interval(a, reduce), compared.p, tuple(sorted(round(abs(end), 9) for end in compared.interval))

    assert len({found(order, turned=turned) for turned, order in zip((False, True, False), orders, strict=True)}) == 1


def test_equal_pairs_are_one_and_pairs_go_with_their_metrics():
    metric = Mcc()
    assert metric.rate("a", "b") == metric.rate("a", "b") == Mcc().rate("a", "b") != metric.rate("b", "a")
    assert measure(metric).aggregate([metric.rate("a", "b")["MCC"]] * 3) == 0.0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("AccEvaluators", r"no evaluator AccEvaluators. It has AccEvaluator( and \w+)*, which (is|are) close.$"),
        ("opencompass.datasets.AccEvaluators", r"close. The source of OpenCompass may have it: --home DIR.$"),
        ("Dream", r"no evaluator Dream$"),
    ],
)
def test_an_unknown_name_comes_with_those_that_are_close_and_not_with_all(name, said):
    with pytest.raises(DataError, match=said):
        evaluator({"type": name}, Scope(where="here"))


def test_tables_do_not_overwrite_each_other():
    assert merged({"a": 1}, {"b": 2}) == {"a": 1, "b": 2}
    with pytest.raises(ValueError, match="the same names: a, b"):
        merged({"a": 1, "b": 1, "c": 1}, {"b": 2, "a": 2})
