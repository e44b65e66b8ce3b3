"""Inferencers that score texts: labels, continuations, whole texts, spans."""

import pytest

from kshot import evaluate
from kshot.configs import entry, task_of
from kshot.core.errors import KshotError
from kshot.core.records import Likelihood, Loglik, Scored


class Letters:
    """A token is a letter; a letter costs 1 nat, an ``x`` costs 3."""

    name = fingerprint = "letters"
    answers = (Loglik,)

    def __init__(self):
        self.asked = []

    def serve(self, queue):
        for request in queue:
            self.asked.append(request)
            yield request, Scored(tuple(Likelihood(-_cost(text), len(text)) for text in request.continuations))


def _cost(text):
    return float(len(text) + 2 * text.count("x"))


def scored(inferencer, template, rows, evaluator="AccEvaluator", output="answer", **inferencer_options):
    package = "opencompass.openicl"
    made = entry(
        {
            "abbr": "texts",
            "reader_cfg": {"input_columns": ["a"], "output_column": output},
            "infer_cfg": {
                "prompt_template": {"type": f"{package}.PromptTemplate", **template},
                "retriever": {"type": "ZeroRetriever"},
                "inferencer": {"type": f"{package}.{inferencer}", **inferencer_options},
            },
            "eval_cfg": {"evaluator": {"type": f"{package}.{evaluator}"}},
        }
    )
    model = Letters()
    result = evaluate(model, task_of(made, {"test": rows}))
    return {row["metric"]: row["value"] for row in result.results}, model.asked, result


ROW = {"a": "abx", "b": "abc", "answer": 2, "cont": " end"}


def test_the_continuation_of_a_row_decides():
    """Each label has the continuation after another text; only the tokens after the context count."""
    template = {"template": {1: "{a} end", 2: "{b}x end"}}
    figures, asked, result = scored("LLInferencer", template, [ROW])
    assert [(request.prompt.text, request.continuations) for request in asked] == [
        ("abx", (" end",)),
        ("abcx", (" end",)),
    ]
    assert result.samples[0]["answer"] == 1  # both continuations cost the same, and the first wins
    assert list(figures.values()) == [0.0]


def test_every_copy_of_the_continuation_is_taken_out_of_the_context():
    template = {"template": {1: "{a} end and end", 2: "{b} end"}}
    _, asked, _ = scored("LLInferencer", template, [ROW])
    assert asked[0].prompt.text + asked[0].continuations[0] == "abx end and end"
    assert len(asked[0].prompt.text) == len("abx and")


def test_a_continuation_that_is_not_in_the_prompt():
    template = {"template": {1: "{a} end", 2: "{b}"}}
    with pytest.raises(KshotError, match=r"row 0: LLInferencer scores the column 'cont'; its text ' end' is not in"):
        scored("LLInferencer", template, [ROW])


def test_labels_against_a_baseline():
    """The gain by the context decides: the second label costs as much after the baseline as after its context."""
    template = {"template": {1: "{a}<S>x", 2: "{b}<S>c"}, "sep_token": "<S>"}
    figures, asked, _ = scored("PPLInferencer", template, [ROW], normalizing_str="Answer:")
    assert {request.prompt.text for request in asked} == {"abx", "abc", "Answer:"}
    assert list(figures.values()) == [0.0]  # no gain for either, and the first label wins


def test_the_loss_of_whole_texts_is_averaged():
    """OpenCompass divides by all tokens, of which the first is never scored: one more than the model counts."""
    rows = [{"a": "abc"}, {"a": "abx"}]
    figures, asked, _ = scored("PPLOnlyInferencer", {"template": "{a}"}, rows, "AveragePPLEvaluator", output=None)
    assert [(request.prompt.text, request.continuations) for request in asked] == [("", ("abc",)), ("", ("abx",))]
    assert figures == {"average_ppl": pytest.approx((3 / 4 + 5 / 4) / 2)}


def test_the_loss_of_spans_is_divided_by_all_their_tokens():
    rows = [{"a": "abx def", "label": [[0, 3, 1], [4, 7, 1]]}, {"a": "ab", "label": [[1, 2, 1]]}]
    inferencer, evaluator = "InferencePPLOnlyInferencer", "AverageInferencePPLEvaluator"
    figures, asked, _ = scored(inferencer, {"template": "{a}"}, rows, evaluator, output=None)
    assert ("abx ", ("def",)) in [(request.prompt.text, request.continuations) for request in asked]
    assert figures == {"average_ppl": pytest.approx((5 + 3 + 1) / (3 + 3 + 1))}
    with pytest.raises(KshotError, match=r"row 0: .* finds no spans in the column 'label': \[\[2, 9\]\]"):
        scored(inferencer, {"template": "{a}"}, [{"a": "abc", "label": [[2, 9]]}], evaluator, output=None)
