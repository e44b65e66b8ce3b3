"""Run in lm-eval's own environment: the tasks of a folder on the models of a folder, written down as JSON.

    python in_lmeval.py FOLDER SHOTS …

FOLDER has tasks/*.yaml, the rows, and models/0, models/1, …; it gets lmeval.json. With templates/*.jinja there, the tasks
run as chats, too.
"""

import json
import logging
import os
import sys
from itertools import product
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TQDM_DISABLE="1")


def main(folder: Path, numbers_of_shots: list[int]) -> None:
    os.environ["HF_DATASETS_CACHE"] = str(folder / "cache")  # datasets reads it when it is imported
    import torch
    from datasets import disable_progress_bars
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    torch.set_num_threads(1)
    disable_progress_bars()
    logging.disable(logging.WARNING)
    os.chdir(folder)  # the tasks name their rows relative to it
    names = sorted(path.stem for path in (folder / "tasks").glob("*.yaml"))
    manager = TaskManager(include_path=str(folder / "tasks"), include_defaults=False)
    templates = [None, *sorted((folder / "templates").glob("*.jinja"))]
    found = {}
    for model_folder in sorted((folder / "models").iterdir()):
        model = HFLM(pretrained=str(model_folder), device="cpu", dtype="float32", batch_size=1)
        for template, shots in product(templates, numbers_of_shots):
            if template:
                model.tokenizer.chat_template = template.read_text(encoding="utf-8")
            ran = simple_evaluate(
                model=model,
                tasks=names,
                num_fewshot=shots,
                apply_chat_template=template is not None,
                fewshot_as_multiturn=template is not None,
                task_manager=manager,
                log_samples=True,
                bootstrap_iters=0,
                verbosity="ERROR",
            )
            for name in names:
                run = f"{model_folder.name} {name} {shots}" + (f" {template.stem}" if template else "")
                found[run] = {
                    "metrics": {
                        key: value
                        for key, value in ran["results"][name].items()
                        if "," in key and not key.split(",")[0].endswith("_stderr")
                    },
                    "samples": [sample_facts(sample) for sample in ran["samples"][name]],
                }
    (folder / "lmeval.json").write_text(json.dumps(found, ensure_ascii=False, indent=1, default=str), encoding="utf-8")


def sample_facts(sample: dict) -> dict:
    """What was asked and answered for one document; a document stands once for each filter."""
    facts = {key: sample[key] for key in ("doc_id", "arguments", "resps", "filtered_resps", "filter", "target")}
    return facts | {name: sample[name] for name in sample["metrics"]}


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), [int(shots) for shots in sys.argv[2:]])
