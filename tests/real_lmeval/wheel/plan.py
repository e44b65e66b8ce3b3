"""The rows of a task as planned: the columns that it reads, and a kind of value for each."""

import re

import home
import jinja_columns
import python_columns
import values
from shape import Shape

TEXTS = ("doc_to_text", "doc_to_target", "doc_to_choice", "description", "gen_prefix")
EVALUATED, EXAMPLES = 4, 6


class Plan:
    """The shape of a task's rows, the kinds that its leaves may have, and those that were chosen."""

    def __init__(self, config, memory, added=()):
        self.config, self.memory, self.added = config, memory, list(added)
        self.shape, self.words, self.sizes = Shape(), [], {}
        self.kinds, self.factor = {}, 1
        self._read()
        for path in self.added:
            self.shape.at(path)
        self._languages()
        self.refresh()

    def _languages(self):
        """Texts in two languages stand in one column, by their codes, which the name of the dataset says."""
        parts = re.split(r"[-_]", str(self.config.get("dataset_name") or ""))
        for held in self.shape.keys.values():
            if {"en", "fr"} & set(held.keys) or (("dict",) in held.hints and not held.keys and len(parts) == 2):
                for part in parts:
                    held.at((part,))

    def _read(self):
        config, few = self.config, self.config.get("fewshot_config") or {}
        for source in (config, few):
            for key in TEXTS:
                held = source.get(key)
                if isinstance(held, str):
                    self._text(key, held)
                for one in held if isinstance(held, list) else []:
                    if isinstance(one, str) and "{{" in one:
                        self._text(key, one)
        functions = [held for source in (config, few) for held in source.values() if callable(held)]
        functions += [held for metric in config.get("metric_list") or [] for held in metric.values() if callable(held)]
        functions += [
            step["function"]
            for one in config.get("filter_list") or []
            for step in one["filter"]
            if callable(step.get("function"))
        ]
        functions += [
            step["filter_fn"]
            for one in config.get("filter_list") or []
            for step in one["filter"]
            if callable(step.get("filter_fn"))
        ]
        for function in functions:
            found, words = python_columns.columns_of(function)
            self.shape.merge(found)
            self.words += [one for one in words if one not in self.words]
        for metric in [step["function"] for one in config.get("filter_list") or [] for step in one["filter"]]:
            if metric == "multi_choice_regex":
                self.shape.at(("choices", "*"))
        self._gold()

    def _text(self, key, held):
        if "{{" in held or "{%" in held:
            self.shape.merge(jinja_columns.columns_of(held))
        elif key in TEXTS[:3] and held.strip() and "\n" not in held and len(held) < 40:
            self.shape.at((held,))

    def _gold(self):
        """How many choices an answer may name, where the file lists them."""
        choices = self.config.get("doc_to_choice")
        target = self.config.get("doc_to_target")
        if isinstance(target, str) and target in self.shape.keys:
            count = len(choices) if isinstance(choices, (list, dict)) else 0
            if self.config.get("output_type") == "multiple_choice" or choices is not None:
                self.shape.hint((target,), ("index", count))
                if isinstance(choices, list):
                    self.shape.hint((target,), ("oneof", tuple(choices)))
                if isinstance(choices, str) and choices in self.shape.keys:
                    self.shape.hint((target,), ("same", (choices,)))
        if isinstance(choices, str) and choices in self.shape.keys:
            self.shape.at((choices, "*"))

    def refresh(self):
        """Choose the first kind of every leaf that has none: what worked in the folder, else the likeliest."""
        for path in self.shape.leaves():
            if path not in self.kinds:
                known, first = self.memory.get(path), self.options(path)[0]
                known = None if known is not None and not self._fits(path, known, first) else known
                self.kinds[path] = first if known is None else known[0]

    def _fits(self, path, known, first):
        """Whether a kind that worked elsewhere may work here: in the same folder mostly, else where nothing is known."""
        kind, here = known
        if isinstance(first, tuple) and first[0] == "const":
            return False
        return here or not (self.shape.at(path).hints or isinstance(kind, tuple))

    def options(self, path):
        """The kinds of a leaf, the likeliest first."""
        shape = self.shape.at(path)
        found = values.kinds_for(path, shape)
        words = [("oneof", held) for held in self.words]
        lists = [
            ("same", (name,)) for name, held in self.shape.keys.items() if held.items is not None and (name,) != path
        ]
        fixed = self.config.get("doc_to_choice")
        fixed = [("oneof", tuple(fixed))] if isinstance(fixed, list) and fixed else []
        given = [("const", held[0]) for held in self.words if len(held) == 1] if ("named",) in shape.hints else []
        return list(dict.fromkeys([*given, *found[:3], *fixed, *lists, *words[:12], *found[3:]]))

    def rows(self):
        """Rows of every split that the task names."""
        config, few = self.config, self.config.get("fewshot_config") or {}
        named = [config.get(key) for key in ("training_split", "validation_split", "fewshot_split")] + [
            few.get("split")
        ]
        evaluated = config.get("test_split") or config.get("validation_split")
        shots = max(config.get("num_fewshot") or 0, home.SHOTS) + 2
        examples = max(EXAMPLES, shots) * self.factor
        counts = {split: examples for split in named if split}
        pool = [
            few.get("split")
            or config.get("fewshot_split")
            or config.get("training_split")
            or config.get("validation_split")
            or evaluated
        ]
        counts[evaluated] = examples if evaluated in pool else EVALUATED * self.factor
        start, made = 0, {}
        for split, count in counts.items():
            made[split] = [
                values.made(self.shape, self.kinds, row, sizes=self.sizes) for row in range(start, start + count)
            ]
            start += count
        return {split: rows for split, rows in made.items() if split}
