"""What lm-eval itself makes of its task files on made-up rows, one JSON line a file.

    python record.py FOLDER [--parts N] [--part K …] [--seconds S] [--files PATTERN] [--older DIR] [--odd SHARE]

It runs in lm-eval's own environment. FOLDER gets part0.jsonl, part1.jsonl, …; each has a share of all files, spread over the
package. A line of a text task has path, task, output_type, rows, cases, chat and scores; or ``error`` where lm-eval made no
requests. Files that are in FOLDER already are left out.
"""

import argparse
import contextlib
import hashlib
import io
import json
import logging
import os
import socket
import sys
import time
import warnings
from fnmatch import fnmatch
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_EVALUATE_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TQDM_DISABLE="1", OMP_NUM_THREADS="1", HF_ALLOW_CODE_EVAL="1")  # fmt: skip
sys.path[:0] = [str(Path(__file__).resolve().parent)]

CHAT_SHARE = 3
PATIENCE = 3


def no_network(*_, **__):
    """Nothing here may ask the network: most of it would wait for minutes."""
    raise OSError("no network")


def restore_squad_metrics(place):
    """Give transformers a module again that its newer versions have dropped, and that 30 task files import."""
    import importlib.util

    import transformers

    name = "transformers.data.metrics.squad_metrics"
    file = place / "transformers" / "data" / "metrics" / "squad_metrics.py"
    if importlib.util.find_spec("transformers.data.metrics") is None and file.exists():
        package = type(sys)("transformers.data.metrics")
        package.__path__ = []
        sys.modules[package.__name__] = transformers.data.metrics = package
        spec = importlib.util.spec_from_file_location(name, file)
        sys.modules[name] = package.squad_metrics = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(package.squad_metrics)


def main():
    """Record the files that the options name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--parts", type=int, default=25)
    parser.add_argument("--part", type=int, nargs="*")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--files", default="*")
    parser.add_argument("--older", type=Path, help="folder with an older transformers, of which one module is taken")
    parser.add_argument(
        "--odd", type=float, default=0.0, help="share of texts that look like numbers, lists, templates"
    )
    options = parser.parse_args()
    socket.socket.connect = no_network
    socket.getaddrinfo = no_network
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    if options.older is not None:
        restore_squad_metrics(options.older)
    import home
    import lm_eval
    import values

    values.odd["share"] = options.odd
    root = Path(lm_eval.__file__).parent / "tasks"
    files = sorted(path for path in root.rglob("*.yaml") if fnmatch(path.relative_to(root).as_posix(), options.files))
    chosen = set(range(options.parts) if options.part is None else options.part)
    spread = sorted((number(path, options.parts), path) for path in files)
    done = {
        json.loads(line)["path"] for file in options.out.glob("part*.jsonl") for line in file.open(encoding="utf-8")
    }
    memory = Memory()
    for part, path in spread:
        if part in chosen and home.relative(path) not in done:
            line = json.dumps(recorded(path, memory, options.seconds), ensure_ascii=False, default=str)
            with (options.out / f"part{part}.jsonl").open("a", encoding="utf-8") as out:
                out.write(line + "\n")


def number(path, parts):
    """The part of a file: neighbours are alike, so they are spread."""
    import home

    return int(hashlib.sha256(home.relative(path).encode()).hexdigest()[:8], 16) % parts


class Memory:
    """The kinds that worked in a folder, and how often its tasks failed in a row for one reason."""

    def __init__(self):
        self.kinds, self.added, self.faults = {}, {}, {}

    def of(self, path):
        """What worked nearest to a file."""
        found = {}
        for folder in reversed(list(path.parents)[:3]):
            if folder.name != "tasks":
                found |= {leaf: (kind, folder == path.parent) for leaf, kind in self.kinds.get(folder, {}).items()}
        return found

    def learn(self, path, plan, failed):
        """Keep what worked in the folder and those above; count what did not."""
        if failed is None:
            for folder in list(path.parents)[:3]:
                own = {
                    leaf: kind
                    for leaf, kind in plan.kinds.items()
                    if not (isinstance(kind, tuple) and kind[0] == "const")
                }
                self.kinds.setdefault(folder, {}).update(own)
            self.added.setdefault(path.parent, {}).update(dict.fromkeys(plan.added))
            self.faults.pop(path.parent, None)
        else:
            self.faults[path.parent] = self.faults.get(path.parent, 0) + 1

    def patience(self, path, seconds):
        """Less time for a folder whose tasks fail again and again."""
        return seconds if self.faults.get(path.parent, 0) < PATIENCE else 0.5


def recorded(path, memory, seconds):
    """One line."""
    import home
    import searching

    name, start = home.relative(path), time.monotonic()
    line = {"path": name}
    noise = io.StringIO()
    with contextlib.redirect_stdout(noise), contextlib.redirect_stderr(noise):
        try:
            with searching.limited(30):
                line["kind"] = home.kind_of(path)
                if line["kind"] != "text":
                    return line
                config = home.config_of(path)
        except (Exception, SystemExit) as error:
            return line | {
                "kind": line.get("kind", "unreadable"),
                "error": f"read: {type(error).__name__}: {error}"[:500],
            }
        line |= {"task": config.get("task"), "output_type": config.get("output_type", "generate_until")}
        found, failed, plan = searching.search(
            path, name, config, memory.of(path), memory.added.get(path.parent, ()), memory.patience(path, seconds)
        )
        if failed is None or failed.stage not in ("load", "requests"):
            more(name, found, plan)
        found.pop(searching.TASK, None)
        memory.learn(path, plan, failed)
    line |= found
    if failed is not None:
        line["error"] = str(failed)[:500]
    line["seconds"] = round(time.monotonic() - start, 2)
    return line


def more(name, found, plan):
    """Add the other rounds of scores, and the chat form."""
    import home
    import replies
    import searching

    task, original = found.pop(searching.TASK), plan.config.get("num_fewshot")
    try:
        with searching.limited(searching.SECONDS_EACH):
            home.with_shots(task, None, original)
            home.requests(task)
            if "scores" in found:
                for turn in range(1, replies.rounds_of(task.OUTPUT_TYPE)):
                    with contextlib.suppress(Exception):
                        found["scores"].append(home.scores(task, name, turn))
            if int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % CHAT_SHARE == 0:
                shots = found["cases"][-1]["num_fewshot"]
                home.with_shots(task, shots, original)
                found["chat"] = {"num_fewshot": shots, "requests": home.requests(task, chat=True)}
    except Exception as error:
        found["more_error"] = f"{type(error).__name__}: {error}"[:300]


if __name__ == "__main__":
    main()
