"""lm-eval's own code over one task file, with made-up rows in place of its dataset."""

import functools
import json
import math
import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import replies
from datasets import Dataset, DatasetDict, arrow_dataset, disable_caching, disable_progress_bars, fingerprint
from lm_eval import utils as lm_utils
from lm_eval.api import metrics as lm_metrics, task as lm_task
from lm_eval.tasks._factory import TaskFactory
from lm_eval.tasks._index import Entry, Kind
from lm_eval.tasks._yaml_loader import load_yaml

SEED, SHOTS = 1234, 2
disable_caching()
disable_progress_bars()


def _get_metric(name, hf_evaluate_metric=False):
    """lm-eval's own, and None for one that only the hub has: lm-eval goes on without it until it is called."""
    if hf_evaluate_metric and name == "exact_match":  # the hub's metric has the same rule
        return lm_metrics.exact_match_fn
    return ORIGINAL_GET_METRIC(name, hf_evaluate_metric)


ORIGINAL_GET_METRIC = lm_task.get_metric
lm_task.get_metric = _get_metric
lm_task.tqdm = lambda docs, **_: docs
# Without caching nothing reads the fingerprints of datasets, and their making takes half of the time.
fingerprint.update_fingerprint = lambda *_, **__: fingerprint.generate_random_fingerprint()
fingerprint.generate_fingerprint = arrow_dataset.generate_fingerprint = lambda *_, **__: (
    fingerprint.generate_random_fingerprint()
)
arrow_dataset.update_fingerprint = fingerprint.update_fingerprint
arrow_dataset.generate_fingerprint = fingerprint.generate_fingerprint
lm_utils.env.from_string = functools.lru_cache(maxsize=64)(lm_utils.env.from_string)


def kind_of(path):
    """What a file is: a text task, or why it is left out."""
    body = load_yaml(path, resolve_func=False)
    if "class" in body:
        return "python class"
    if "group" in body:
        return "group"
    if "task" not in body:
        return "template"
    if isinstance(body["task"], list):
        return "group"
    if body.get("doc_to_image") is not None or body.get("doc_to_audio") is not None:
        return "multimodal"
    return "text"


def config_of(path):
    """The file with its includes and functions."""
    body = load_yaml(path, resolve_func=True)
    return {key: held for key, held in body.items() if key not in {"tag", "group", "task_list"}}


class RowsTask(lm_task.ConfigurableTask):
    """The task with rows held in memory."""

    rows = None

    def download(self, dataset_kwargs=None, **kwargs):
        """Give the rows."""
        self.dataset = DatasetDict({split: Dataset.from_list(rows) for split, rows in self.rows.items()})


def built(path, rows):
    """The task object."""
    random.seed(0)
    np.random.seed(SEED)
    entry = Entry(name=path.stem, kind=Kind.TASK, yaml_path=path)
    config = TaskFactory()._load_full_config(entry)
    for key in ("tag", "group", "task_list"):
        config.pop(key, None)
    made = type("Rows", (RowsTask,), {"rows": rows})
    return made(config=config)


def draws():
    """Whether the task's code drew from the global generator since the task was built."""
    now = random.getstate()
    random.seed(0)
    return random.getstate() != now


def with_shots(task, shots, original):
    """lm-eval's rule for a number of examples that the caller gives."""
    wanted = original if shots is None or original == 0 else shots
    task.set_config("num_fewshot", wanted or 0)
    task.set_fewshot_seed(SEED)


def template(messages, add_generation_prompt=True):
    """The chat template of the goldens."""
    said = "".join(f"<|{one['role']}|>\n{one['content']}<|end|>\n" for one in messages)
    return f"{said}<|assistant|>\n" if add_generation_prompt else said.removesuffix("<|end|>\n")


def requests(task, chat=False):
    """What lm-eval asks, in the form of lmeval.md."""
    given = {"apply_chat_template": True, "fewshot_as_multiturn": True, "chat_template": template} if chat else {}
    task.build_all_requests(**given)
    return [form for instance in task.instances for form in [_form(instance)] * instance.repeats]


def _form(instance):
    if instance.request_type == "loglikelihood":
        return {"type": "loglikelihood", "context": instance.args[0], "continuation": instance.args[1]}
    if instance.request_type == "loglikelihood_rolling":
        return {"type": "loglikelihood_rolling", "context": "", "continuation": instance.args[0]}
    context, given = instance.args[:2]
    until = given.get("until") or []
    most = next(
        (
            given[key]
            for key in ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
            if given.get(key) is not None
        ),
        None,
    )
    temperature = given.get("temperature", 0.0) or 0.0
    sampled = given.get("do_sample")
    sampled = temperature > 0 if sampled is None else bool(sampled)
    return {
        "type": "generate_until",
        "context": context,
        "until": [until] if isinstance(until, str) else list(until),
        "max_gen_toks": most,
        "do_sample": sampled,
        "temperature": float(temperature) if sampled else 0.0,
    }


def patterns_of(task):
    """The patterns of the task's filters."""
    return [
        step.get("regex_pattern")
        for pipeline in task.config.filter_list or []
        for step in pipeline["filter"]
        if isinstance(step, dict)
    ]


def gold_text(task, doc):
    """The gold answer as text."""
    try:
        gold = task.doc_to_target(doc)
        if task.config.doc_to_choice is not None and isinstance(gold, int):
            gold = task.doc_to_choice(doc)[gold]
    except Exception:
        return "42"
    while isinstance(gold, (list, tuple)):
        gold = gold[0] if gold else ""
    return str(gold)


def scores(task, path, turn):
    """One round of answers, scored by lm-eval; the requests of the file's own number of examples must be built."""
    given = []
    patterns = patterns_of(task)
    for instance in task.instances:
        instance.resps = []
        instance.filtered_resps = {}
        for _ in range(instance.repeats):
            if instance.request_type == "generate_until":
                answer = replies.reply(path, turn, len(given), gold_text(task, instance.doc), patterns)
            else:
                answer = replies.logprob(path, turn, len(given))
            given.append(answer)
            instance.resps.append(
                answer[0]
                if instance.request_type == "loglikelihood_rolling"
                else tuple(answer)
                if isinstance(answer, list)
                else answer
            )
    task.apply_filters()
    by_doc = defaultdict(list)
    for instance in task.instances:
        by_doc[instance.doc_id].append(instance)
    raw, docs = defaultdict(list), defaultdict(dict)
    for name in task.instances[0].filtered_resps:
        for number, doc in task.doc_iterator():
            held = sorted(by_doc[number], key=lambda one: one.idx)
            for metric, found in task.process_results(doc, [one.filtered_resps[name] for one in held]).items():
                raw[metric, name].append(found)
                docs[number][f"{metric},{name}"] = plain(found)
    totals = {}
    for (metric, name), found in raw.items():
        total = task.aggregation().get(metric, lm_metrics.mean)(found)
        totals[f"{metric},{name}"] = plain(total)
    return {"responses": given, "metrics": totals, "docs": [docs[number] for number in sorted(docs)]}


def plain(value):
    """A value as the goldens hold it: 9 digits, NaN as text."""
    if isinstance(value, dict):
        return {str(key): plain(held) for key, held in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(held) for held in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        value = float(value)
        return "nan" if math.isnan(value) else str(value) if math.isinf(value) else round(value, 9)
    return value if value is None or isinstance(value, str) else json.loads(json.dumps(value, default=str))


def relative(path):
    """The path below lm_eval/tasks."""
    return Path(str(path).split("/lm_eval/tasks/", 1)[1]).as_posix()
