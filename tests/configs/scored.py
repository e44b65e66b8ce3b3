"""Scores of an evaluator that a config names, on replies that are given: through an entry, its task and a run."""

from kshot.backends.adapters import as_model
from kshot.configs import entry, task_of
from kshot.core.memo import MemoryMemo
from kshot.core.records import Generate, Generated
from kshot.index.store import Store
from kshot.runs.runner import Run
from kshot.settings import Settings
from kshot.sources import source_of

NUMBER, GOLD = "row_number", "row_gold"
"""The columns that the rows have beside those that an evaluator reads."""


class Numbered:
    """A model whose reply to a prompt that is a row's number is the text of that number."""

    answers = (Generate,)

    def __init__(self, name, replies):
        self.name = self.fingerprint = name
        self.replies, self.asked = replies, []

    def serve(self, queue):
        for request in queue:
            number = int(request.prompt.text.split()[-1])
            self.asked.append(number)
            yield request, Generated(self.replies(number, request.replica))


def judge_template():
    """A judge's template; the row's number stands last, so that a judge can tell which row it is about."""
    return {"type": "PromptTemplate", "template": f"{{prediction}} or {{{GOLD}}}? {{{NUMBER}}}"}


def scored_entry(evaluator, references, rows=None, framework="opencompass", *, clean=None, eval_cfg=None, **more):
    """Return an entry and its rows. ``clean`` makes predictions of replies; without it they are the replies."""
    made = entry(
        {
            "abbr": "scored",
            "reader_cfg": {"input_columns": [NUMBER], "output_column": GOLD},
            "infer_cfg": {
                "prompt_template": {"type": "PromptTemplate", "template": f"{{{NUMBER}}}"},
                "retriever": {"type": "ZeroRetriever"},
                "inferencer": {"type": "GenInferencer", "max_out_len": 8},
            },
            "eval_cfg": {
                "evaluator": evaluator,
                **({"pred_postprocessor": {"type": clean}} if clean else {}),
                **(eval_cfg or {}),
            },
            **more,
        }
    )
    made.framework, made.strict = framework, not framework
    given = rows or [{}] * len(references)
    return made, [
        {**row, NUMBER: str(i), GOLD: gold} for i, (row, gold) in enumerate(zip(given, references, strict=True))
    ]


def run_entry(made, rows, replies, judge=None):
    """Run an entry; ``replies`` and ``judge`` are functions from a row's number and the number of the repeat."""
    helpers = {"judge": as_model(judge if isinstance(judge, Numbered) else Numbered("judge", judge))} if judge else {}
    settings, model = Settings(), as_model(Numbered("model", replies))
    run = Run(settings, MemoryMemo(), store=Store(), helpers=helpers)
    return run.all([model], [source_of(task_of(made, {"test": rows}), settings)])


def figures(evaluator, predictions, references, *, rows=None, judge=None, framework="opencompass", **more):
    """Return the figures of predictions by name; a prediction may be anything that a clean-up returns."""
    made, test = scored_entry(
        evaluator, references, rows, framework, clean=lambda reply: predictions[int(reply)], **more
    )
    result = run_entry(made, test, lambda number, _: str(number), judge)
    failed = [sample["failed"] for sample in result.samples if "failed" in sample]
    assert not failed, failed
    return {row["metric"]: row["value"] for row in result.results}
