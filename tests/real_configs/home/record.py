"""Run in the reference environment: write the prompts of a home's entries on made-up rows, one line a file.

    python record.py opencompass|ais_bench HOME OUT.jsonl [MOST [PATTERN …]]

MOST: how many entries of a file, 3 by default; entries that differ in shape come first. PATTERN: only such files.
"""

import json
import logging
import socket
import sys
import time
import warnings
from pathlib import Path

import stand_ins
from gold_forms import replies_for, verdict_for
from made_up_files import files_for


def without_network():
    """A home that asks the network is told at once that there is none, and waits for nothing."""

    def refuse(*args, **kwargs):
        raise OSError("the reference environment has no network")

    socket.getaddrinfo = socket.create_connection = refuse
    time.sleep = lambda seconds: None


def main(framework, home, out, most="3", *patterns):
    without_network()
    sys.path.insert(0, home)
    stand_ins.install("opencompass", "ais_bench")
    warnings.simplefilter("ignore")
    import datasets
    from cleaning import Cleanups
    from loading import datasets_of, files_of, sampled
    from made_up_rows import rows_for
    from prompts import HOMES

    datasets.disable_progress_bars()
    datasets.disable_caching()
    rendering = HOMES[framework]()
    cleanups = Cleanups(rendering.package)
    logging.disable(logging.ERROR)
    with Path(out).open("w", encoding="utf-8") as sink:
        for path in files_of(home, framework):
            if patterns and not any(path.match(each) for each in patterns):
                continue
            line = {"file": str(path)}
            try:
                variables = datasets_of(Path(home) / path)
            except Exception as exc:
                line["error"] = f"{type(exc).__name__}: {exc}"[:300]
            else:
                line["count"] = sum(map(len, variables.values()))
                for _, _, entry in (chosen := sampled(variables, int(most))):
                    cleanups.collect(entry)
                line["entries"] = [one_entry(rendering, rows_for, number, *one) for number, one in enumerate(chosen)]
            sink.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
    with Path(out).with_suffix(".cleanups").open("w", encoding="utf-8") as sink:
        for line in cleanups.lines():
            sink.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")


def called(entry):
    """The name of an entry: its own, or the folder and the name of its data."""
    path = str(entry.get("path") or str(entry.get("type", "")).rpartition(".")[2]).strip("/")
    parts = [part for part in (path, entry.get("name")) if part]
    return entry.get("abbr") or "_".join(str(part).replace("/", "_") for part in parts)


def one_entry(rendering, rows_for, number, variable, index, entry):
    infer = entry.get("infer_cfg") or {}
    inferencer = str((infer.get("inferencer") or {}).get("type", "")).rpartition(".")[2]
    line = {
        "number": number,
        "variable": variable,
        "index": index,
        "abbr": called(entry),
        "inferencer": inferencer,
    }
    line["template"] = str((infer.get("prompt_template") or {}).get("type", "")).rpartition(".")[2]
    line |= {"files": files_for(entry), "verdict": verdict_for(entry)}
    try:
        line["rows"] = rows_for(entry, number)
        dataset = rendering.dataset(entry, line["rows"])
        line |= rendering.rendered(entry, dataset)
    except Exception as exc:
        line["error"] = f"{type(exc).__name__}: {exc}"[:300]
        return line
    return line | figures(rendering, entry, dataset.test)


def figures(rendering, entry, test):
    """The home's figures on made-up replies, or why there are none."""
    from made_up_replies import replies_to
    from scoring import scored

    evaluator = str(((entry.get("eval_cfg") or {}).get("evaluator") or {}).get("type", "")).rpartition(".")[2]
    found = {"evaluator": evaluator}
    try:
        found["replies"] = replies_to(test, entry["reader_cfg"].get("output_column"), replies_for(entry))
        found["figures"] = scored(rendering.package, entry, test, found["replies"])
    except (Exception, SystemExit) as exc:
        found["not_scored"] = f"{type(exc).__name__}: {exc}"[:300]
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
