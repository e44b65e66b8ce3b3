"""Metrics by spec: by name in any case, with options, in a file; and what cannot be one."""

from __future__ import annotations

import pytest

from kshot import metrics
from kshot.core.errors import UsageError
from kshot.core.metric import Measure, Metric as AnyMetric
from kshot.core.records import Gold, Sample
from kshot.core.registry import Entry, described
from tests.measures import names

PLUG_IN = """
from kshot import Metric

class Contains(Metric):
    name = "Contains"
    bounds = (0.0, 100.0)

    def __init__(self, ignore_case: bool = False, words: list[str] | None = None, weights: dict[str, float] | None = None):
        self.ignore_case, self.words, self.weights = ignore_case, words, weights

    def rate(self, prediction, reference, /):
        if self.ignore_case:
            prediction, reference = prediction.lower(), reference.lower()
        return 100.0 * (reference in prediction)

class NoMetric:
    pass

def alone(reply):
    return 0

def brevity(prediction, reference, words=10):
    return 100 * (len(prediction.split()) <= words)
"""


@pytest.fixture
def plug_in(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(PLUG_IN)
    return file


@pytest.mark.parametrize("name", ["F1", "f1", "em", "EM", "accuracy", "passatk", "gpteval", "rouge"])
def test_names_are_found_in_any_case(name):
    metric = metrics.make_metric(name)
    assert isinstance(metric, AnyMetric)
    assert type(metric).__name__.lower() == name.lower()


@pytest.mark.parametrize("entry", metrics.METRICS.entries(), ids=lambda entry: entry.name)
def test_every_metric_is_made_by_its_name_and_described(entry):
    metric = metrics.make_metric(entry.name)
    assert isinstance(metric, AnyMetric)
    assert metric.measures
    assert len(described(entry).text) > 20


@pytest.mark.parametrize(
    ("spec", "made"),
    [
        ("em,multiref_strategy=leave_one_out", metrics.Em("leave_one_out")),
        ("accuracy,name=Norm", metrics.Accuracy("Norm")),
        ("accuracy,name=none", metrics.Accuracy()),
        (
            "f1,word_tokenize=split,align_bag=set,force_number_match=yes",
            metrics.F1("split", "set", force_number_match=True),
        ),
        ("PassAtK,k=10", metrics.PassAtK(10)),
        ("bleu,tokenize=13a", metrics.Bleu("13a")),
        ("chrf,word_order=2", metrics.Chrf(2)),
        ("ter,case_sensitive=yes", metrics.Ter(case_sensitive=True)),
        ("rouge,stemmer=no", metrics.Rouge(stemmer=False)),
        ("rougelsum,sentences=periods", metrics.RougeLsum("periods")),
        ("squadf1,version=2.0", metrics.SquadF1("2.0")),
        (
            r"exactmatch,ignore_case=yes,regexes_to_ignore=\,+\$+(?s).*#### +\.$",
            metrics.ExactMatch(ignore_case=True, regexes_to_ignore=[",", r"\$", "(?s).*#### ", r"\.$"]),
        ),
        ("PassAtK,k=1+10,timeout=2.5,memory_mb=300", metrics.PassAtK((1, 10), 2.5, 300)),
        (
            "GPTEval,pairwise=on,multi_turn=true,role=rater",
            metrics.GPTEval(pairwise=True, multi_turn=True, role="rater"),
        ),
        ("GPTEval,max_tokens=9,temperature=0.5", metrics.GPTEval(max_tokens=9, temperature=0.5)),
    ],
)
def test_options_are_read(spec, made):
    assert repr(metrics.make_metric(spec)) == repr(made)


def test_a_metric_in_a_file(plug_in):
    metric = metrics.make_metric(f"{plug_in}:Contains,ignore_case=yes,words=a+b")
    assert (metric.ignore_case, metric.words) == (True, ("a", "b"))
    assert metric(["In PARIS"], ["paris"]) == {"Contains": 100.0}
    assert names(metrics.make_metric(str(plug_in))) == ("Contains",)  # the only metric of the file needs no name


def test_a_function_is_a_metric(plug_in):
    metric = metrics.make_metric(f"{plug_in}:brevity,words=2")
    assert metric.measures == (Measure("brevity"),)
    assert metric.score(Sample("s", {}, Gold("x")), "one two") == {"brevity": 100.0}
    assert repr(metric) == "FunctionMetric(brevity)"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("bleau", r"there is no metric 'bleau'. Did you mean 'Bleu'\? See kshot list metrics"),
        ("nothing.like.it", "there is no metric 'nothing.like.it'. See kshot list metrics"),
        ("em,strategy=max", "there is no option 'strategy'. It knows: multiref_strategy"),
        ("bleu,order=3", "there is no option 'order'. It knows: tokenize, lowercase"),
        ("bleu,tokenize=moses", "tokenize='moses' is not known. Use one of: intl, 13a"),
        ("chrf,word_order=-1", "chrF got word_order=-1"),
        ("squadem,version=3", "version='3' is not known. Use one of: 1.1, 2.0"),
        ("rougelsum,sentences=words", "sentences='words' is not known. Use one of: lines, periods, nltk"),
        ("exactmatch,regexes_to_ignore=(", r"'\(' is no regular expression"),
        ("em,multiref_strategy=min", "multiref_strategy='min' is not known. Use one of: max, leave_one_out"),
        ("passatk,k=1+many", "the option 'k' is 'many'; it must be a whole number"),
        ("passatk,k=0", "pass@k got k=0. Give one or more whole numbers from 1 up"),
        ("gpteval,pairwise=maybe", "the option 'pairwise' is 'maybe'; it must be yes or no"),
    ],
)
def test_wrong_specs_say_what_is_wrong(spec, message):
    with pytest.raises(UsageError, match=message):
        metrics.make_metric(spec)


def test_what_is_in_a_file_and_no_metric(plug_in):
    with pytest.raises(UsageError, match=r"it is not a metric. Subclass kshot.Metric"):
        metrics.make_metric(f"{plug_in}:NoMetric")
    with pytest.raises(
        UsageError, match=r"it is not a metric. Subclass kshot.Metric, or write a function of a prediction"
    ):
        metrics.make_metric(f"{plug_in}:alone")
    with pytest.raises(UsageError, match="the option 'weights' is a dict, which cannot be written as text"):
        metrics.make_metric(f"{plug_in}:Contains,weights=1")


def test_what_a_package_calls_a_metric_must_be_one(monkeypatch):
    monkeypatch.setitem(
        vars(metrics.METRICS), "_installed", [Entry("odd", "collections:OrderedDict", origin="odd 1.0")]
    )
    with pytest.raises(UsageError, match=r"odd: it is not a metric. Subclass kshot.Metric"):
        metrics.make_metric("odd")
