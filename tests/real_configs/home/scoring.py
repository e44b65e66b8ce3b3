"""The figures of an entry by the home's own clean-ups and evaluator, on replies that are given."""

import contextlib
import copy
import importlib
import inspect
import io
import math
import tempfile

from limits import limited

SECONDS = 30
JUDGED = {"GenericLLMEvaluator", "LMEvaluator", "CascadeEvaluator"}


class NotScoredError(Exception):
    """Why the home itself gives no figure here."""


def cleaned(registry, config, texts):
    """The texts after a post-processor of the home."""
    if not config:
        return texts
    options = {name: value for name, value in config.items() if name != "type"}
    function = registry.get(str(config["type"]))
    return [function(text, **copy.deepcopy(options)) for text in texts]


def scored(package, entry, test_set, replies):
    """The home's figures: numbers by name."""
    registries = importlib.import_module(f"{package}.registry")
    evaluation, column = entry["eval_cfg"], entry["reader_cfg"].get("output_column")
    config = copy.deepcopy(evaluation.get("evaluator") or {})
    kind = str(config.pop("type", "")).rpartition(".")[2]
    if kind in JUDGED:
        raise NotScoredError("a judge's")
    processors = registries.TEXT_POSTPROCESSORS
    if column and evaluation.get("dataset_postprocessor"):
        gold = cleaned(processors, evaluation["dataset_postprocessor"], [row[column] for row in test_set])
        test_set = test_set.remove_columns([column]).add_column(column, gold)
    predictions = cleaned(processors, evaluation.get("pred_postprocessor"), list(replies))
    references = [row[column] for row in test_set] if column else None
    cls = registries.ICL_EVALUATORS.get(str(evaluation["evaluator"]["type"]))
    given = inspect.signature(cls).parameters
    if "predictions" in given and "references" in given:
        config |= {"predictions": predictions, "references": references}
    evaluator = cls(**config)
    with tempfile.TemporaryDirectory() as folder:
        evaluator._out_dir = f"{folder}/out"
        known = {"predictions": predictions, "references": references, "test_set": test_set}
        known["origin_prompt"] = [None] * len(predictions)
        known["prediction"], known["gold"] = list(replies), references
        wanted = {name: known[name] for name in inspect.signature(evaluator.score).parameters if name in known}
        with limited(SECONDS), contextlib.redirect_stdout(io.StringIO()):
            found = evaluator.evaluate(entry.get("k", 1), entry.get("n", 1), copy.deepcopy(test_set), **wanted)
    return _numbers(found)


def _numbers(found):
    if not isinstance(found, dict) or "error" in found:
        raise NotScoredError(f"the evaluator says {found!r:.150}")
    kept = {}
    for name, value in found.items():
        if isinstance(value, bool) or name == "details":
            continue
        number = value.item() if hasattr(value, "item") else value
        if isinstance(number, (int, float)) and math.isfinite(number):
            kept[str(name)] = float(number)
    return kept
