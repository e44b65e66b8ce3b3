"""What the clean-ups that a home's files name make of many replies, by the home's own functions."""

import copy
import importlib
import json

from limits import limited
from made_up_texts import texts

COUNT, SECONDS = 300, 20
PLACES = ("pred_postprocessor", "dataset_postprocessor")


class Cleanups:
    """The distinct clean-ups of a home's entries, with their options."""

    def __init__(self, package):
        self.registry = importlib.import_module(f"{package}.registry").TEXT_POSTPROCESSORS
        self.found = {}

    def collect(self, entry):
        evaluation = entry.get("eval_cfg") or {}
        for holder in (evaluation, evaluation.get("evaluator") or {}):
            for place in PLACES:
                config = holder.get(place)
                if isinstance(config, dict) and config.get("type"):
                    self.found.setdefault(json.dumps(config, sort_keys=True, default=str), config)

    def lines(self):
        """One dict for each: the config, and the outputs or the types of errors."""
        given = texts(COUNT)
        return [self.line(config, given) for config in self.found.values()]

    def line(self, config, given):
        try:
            function = self.registry.get(str(config["type"]))
        except Exception as exc:
            return {"config": config, "error": f"{type(exc).__name__}: {exc}"[:200]}
        options = {name: value for name, value in config.items() if name != "type"}
        return {"config": config, "outputs": [self.one(function, text, options) for text in given]}

    @staticmethod
    def one(function, text, options):
        try:
            with limited(SECONDS):
                return {"value": json.loads(json.dumps(function(text, **copy.deepcopy(options))))}
        except Exception as exc:
            return {"error": type(exc).__name__}
