"""docs/metrics.md names everything that a built-in metric reports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kshot.configs.evaluators.making import EVALUATORS, evaluator
from kshot.configs.evaluators.repeats import repeated
from kshot.configs.scope import Scope
from kshot.core.metric import measure_names
from kshot.lookup.scoring import LookupAccuracy, rules_for
from kshot.methods.likelihood import RULES
from kshot.metrics import METRICS, Accuracy, Chrf, make_metric
from kshot.metrics.ranking import _KNOWN, AnswerComponents, Relevance
from tests.configs.test_evaluators import WHOLE
from tests.datasets.test_catalogue_lmeval import AS_LM_EVAL

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
QUOTED = {name for span in re.findall(r"`([^`\n]+)`", PAGE) for name in (span, span.partition("@")[0])}


def names_of(metric):
    return [name.partition("@")[0] for name in measure_names([metric])]


@pytest.mark.parametrize("entry", METRICS.entries(), ids=lambda entry: entry.name)
def test_every_metric_and_every_name_that_it_reports(entry):
    assert entry.name in QUOTED
    assert set(names_of(make_metric(entry.name))) <= QUOTED


def test_other_rules_options_and_measures():
    assert {metric.name for metric in Accuracy.by(RULES, "acc")} <= QUOTED
    assert set(RULES) <= QUOTED
    assert Chrf(2).name in QUOTED
    assert set(_KNOWN) <= QUOTED
    for metric in (AnswerComponents(), Relevance()):
        assert set(names_of(metric)) <= QUOTED


def test_names_of_lookup_and_of_config_files():
    for rules in (("first_character", "first_word"), rules_for("instruct")):
        assert set(measure_names([LookupAccuracy("UR", rules)])) <= QUOTED
    options = {
        "GaokaoBenchEvaluator": {"question_type": "single_choice"},
        **{f"BFCL{kind}Evaluator": {"category": "simple"} for kind in ("SingleTurn", "MultiTurn", "Relevance")},
    }
    names = [name for name in EVALUATORS if "Jieba" not in name and "LM" not in name]
    plain = [evaluator({"type": WHOLE.get(name, name), **options.get(name, {})}, Scope()) for name in names]
    assert {name for metric in plain for name in names_of(metric)} <= QUOTED
    assert set(names_of(repeated(make_metric("accuracy"), 4, (2,)))) <= QUOTED


@pytest.mark.parametrize("name", [name for name, settings in AS_LM_EVAL.items() if settings])
def test_the_settings_of_lm_evals_prompts_are_those_that_are_tested(name):
    (line,) = (line for line in PAGE.splitlines() if re.match(rf"\| `{name}[:`]", line))
    for setting, value in AS_LM_EVAL[name].items():
        flag = f"--{setting.replace('_', '-')}"
        assert re.search(rf"{flag} (['\"]?){re.escape(value)}\1", line), (flag, line)
