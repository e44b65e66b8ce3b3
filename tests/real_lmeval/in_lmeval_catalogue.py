"""Run in lm-eval's own environment: what its tasks ask about the rows of the catalogue's entries, as JSON.

    python in_lmeval_catalogue.py FACTS.json OUT.json

FACTS has, for each entry, the task of lm-eval and its rows; OUT gets the same with what lm-eval asks and reports.
"""

import json
import logging
import os
import sys
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TQDM_DISABLE="1")


class NoSandbox:
    """HumanEval's task loads this when it is imported; nothing runs here."""

    def compute(self, **_):
        return ({}, {})


def main(facts: Path, out: Path) -> None:
    import datasets
    import evaluate

    logging.disable(logging.WARNING)
    evaluate.load = lambda *_, **__: NoSandbox()
    entries = json.loads(facts.read_text(encoding="utf-8"))
    for entry in entries.values():
        if entry["task"]:
            evaluated, example = (datasets.Dataset.from_list([row]) for row in entry["lmeval_rows"] or entry["rows"])
            splits = dict.fromkeys(("validation", "test"), evaluated)
            splits |= dict.fromkeys(("train", "dev"), datasets.concatenate_datasets([example, example]))
            splits |= {"validation": example} if entry["task"].startswith("wmt") else {}
            datasets.load_dataset = lambda *_, splits=splits, **__: datasets.DatasetDict(splits)
            entry.update(asked_by(entry["task"], entry["folder"]))
    out.write_text(json.dumps(entries, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def asked_by(name: str, folder: str) -> dict:
    """The metrics of a task, and its requests without an example and after one."""
    import lm_eval.tasks

    path = Path(lm_eval.tasks.__file__).parent / folder
    manager = lm_eval.tasks.TaskManager(include_path=str(path), include_defaults=False)  # all would take minutes
    found = {}
    for shots in (0, 1):
        task = manager.load([name])["tasks"][name]
        task.config.num_fewshot = shots
        task.set_fewshot_seed(1234)
        task.build_all_requests(rank=0, world_size=1)
        found[f"asked_after_{shots}"] = [list(instance.args) for instance in task.instances]
        found["metrics"] = sorted(task._metric_fn_list)
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
