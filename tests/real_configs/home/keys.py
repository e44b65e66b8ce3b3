"""Run in the reference environment: the keys that a home gives the loaders of its entries, one line a kind of entry.

    python keys.py opencompass|ais_bench HOME OUT.jsonl

Entries are of one kind if they have the same type and the same keys. The home's own code builds each dataset, with a
``load`` that stops and says what it is given.
"""

import importlib
import inspect
import json
import logging
import sys
import warnings
from pathlib import Path

import stand_ins
from record import without_network

BUILDERS = {"opencompass": "opencompass.utils.build", "ais_bench": "ais_bench.benchmark.utils.config.build"}
SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class ReachedError(BaseException):
    """Ends the making of a dataset where its rows would be loaded."""


def main(framework, home, out):
    without_network()
    sys.path.insert(0, home)
    stand_ins.install("opencompass", "ais_bench")
    warnings.simplefilter("ignore")
    from loading import datasets_of, files_of
    from prompts import found

    build = importlib.import_module(BUILDERS[framework]).build_dataset_from_cfg
    logging.disable(logging.ERROR)
    kinds = {}
    for path in files_of(home, framework):
        try:
            variables = datasets_of(Path(home) / path)
        except Exception:
            continue
        for variable, entries in variables.items():
            for index, entry in enumerate(entries):
                kind = (str(entry.get("type")), *sorted(entry))
                if kind not in kinds:
                    kinds[kind] = {"file": str(path), "variable": variable, "index": index, "type": kind[0], "count": 0}
                    kinds[kind]["abbr"] = entry.get("abbr")
                    kinds[kind] |= {"keys": sorted(entry), **given(build, found, entry)}
                kinds[kind]["count"] += 1
    lines = [json.dumps(line, ensure_ascii=False, default=str) for line in kinds.values()]
    Path(out).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def given(build, found, entry):
    """What ``load`` is given, by key, and which of the keys it does not take; or why the home makes no such dataset."""
    try:
        loader = found(entry["type"])
        taken = inspect.signature(loader.load).parameters.values()
        reached = reached_by(build, loader, entry)
    except (Exception, SystemExit) as exc:
        return {"error": f"{type(exc).__name__}: {exc}"[:200]}
    lacking = [each.name for each in taken if each.default is each.empty and each.kind not in SEVERAL]
    if absent := [name for name in lacking if name not in reached and name != "self"]:
        return {"error": f"its load wants {', '.join(absent)} too"}
    everything = any(each.kind is each.VAR_KEYWORD for each in taken)
    return {"given": reached, "refused": [] if everything else sorted(set(reached) - {each.name for each in taken})}


def reached_by(build, loader, entry):
    """What reaches a loader's ``load`` while the home makes its dataset."""

    def load(*_, **options):
        raise ReachedError(options)

    own, loader.load = inspect.getattr_static(loader, "load"), staticmethod(load)
    try:
        build(entry)
    except ReachedError as reached:
        return reached.args[0]
    finally:
        loader.load = own
    raise RuntimeError("its rows are not loaded")


if __name__ == "__main__":
    main(*sys.argv[1:])
