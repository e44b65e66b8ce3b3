"""Every config file of a home, read by mmengine as the home itself reads it; some entries of each."""

import json
from pathlib import Path

KINDS = {"opencompass": "opencompass/configs/datasets", "ais_bench": "ais_bench/benchmark/configs/datasets"}

LOOKED_AT = 150  # some files have thousands of entries that differ in a length and a depth


def files_of(home, framework):
    """The files that hold entries, by their path from the folder of the package."""
    root = Path(home)
    return sorted(
        path.relative_to(root) for path in (root / KINDS[framework]).rglob("*.py") if path.name != "__init__.py"
    )


def datasets_of(path):
    """The variables of a file that end in ``datasets``: plain dicts whose types are dotted names."""
    from mmengine.config import Config

    held = Config.fromfile(str(path), format_python_code=False).to_dict()
    return {
        name: value
        for name, value in held.items()
        if name.endswith("datasets") and isinstance(value, list) and all(isinstance(one, dict) for one in value)
    }


def sampled(variables, most):
    """At most so many entries of a file: those that differ in shape first; then evenly spread ones.

    Returns (variable, index, entry).
    """
    every = [(name, index, entry) for name, value in variables.items() for index, entry in enumerate(value)]
    every = every[:: len(every) // LOOKED_AT + 1]
    by_shape, rest = {}, []
    for one in every:
        shape = _shape(one[2])
        if shape in by_shape:
            rest.append(one)
        else:
            by_shape[shape] = one
    chosen = list(by_shape.values())
    if len(chosen) > most:
        step = len(chosen) / most
        chosen = [chosen[int(number * step)] for number in range(most)]
    room = min(most, 2) - len(chosen)
    return chosen + (rest[-room:] if room > 0 else [])


def _shape(entry):
    """What makes two entries alike: their keys and types, not their texts."""
    return json.dumps(
        [_outline(entry.get(part)) for part in ("type", "reader_cfg", "infer_cfg", "eval_cfg")], sort_keys=True
    )


def _outline(value, key=""):
    if isinstance(value, dict):
        return {str(name): _outline(held, name) for name, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_outline(held, key) for held in value[:6]]
    if key in {"type", "role", "ice_token"} or not isinstance(value, str):
        return str(value)
    return ["</E>" in value, value.strip() == "", "{" in value, value.count("\n") > 3]
