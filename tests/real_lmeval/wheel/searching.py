"""Rows with which lm-eval can make requests of a task: kinds of values are tried until it can."""

import re
import signal
import time
import traceback
from contextlib import contextmanager

import home
from plan import Plan

SECONDS_EACH = 15


@contextmanager
def limited(seconds):
    """Raise TimeoutError after so many seconds."""

    def stop(number, frame):
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class FailedError(Exception):
    """Where and why lm-eval could not go on."""

    def __init__(self, stage, error):
        super().__init__(f"{stage}: {type(error).__name__}: {error}")
        self.stage, self.error = stage, error
        frames = traceback.extract_tb(error.__traceback__)
        tasks = [frame for frame in frames if "/lm_eval/tasks/" in frame.filename]
        later = [100_000 + frame.lineno for frame in frames if frame.filename.endswith("lm_eval/api/task.py")]
        self.line = tasks[-1].lineno if tasks else max(later, default=0)
        self.source = " ".join(frame.line or "" for frame in tasks[-3:])
        self.in_template = any("jinja2" in frame.filename for frame in frames)


TASK = "task object"
STAGES = ("load", "requests", "scores", "gold", "shots")


def attempt(path, name, plan):
    """Everything that is recorded of a task, as far as it goes, and what stopped it (None: nothing)."""
    found, stage = {}, "load"
    try:
        with limited(SECONDS_EACH):
            rows = plan.rows()
            task = home.built(path, rows)
            original = task.get_config("num_fewshot")
            found |= {
                "rows": rows,
                "multiple_inputs": bool(task.multiple_input),
                "multiple_targets": bool(task.multiple_target),
            }
            stage = "requests"
            home.with_shots(task, None, original)
            found["cases"] = [{"num_fewshot": None, "requests": home.requests(task)}]
            found["draws"] = home.draws()
            found[TASK] = task
            stage = "scores"
            if not plan.config.get("unsafe_code"):  # the processes that run code outlive the limit on time
                found["scores"] = [home.scores(task, name, 0)]
            stage = "gold"
            _gold_is_a_choice(task)
            stage = "shots"
            if original != 0:
                home.with_shots(task, home.SHOTS, original)
                found["cases"].append({"num_fewshot": home.SHOTS, "requests": home.requests(task)})
    except Exception as error:  # whatever a task's code raises
        return found, FailedError(stage, error)
    return found, None


def _gold_is_a_choice(task):
    if task.OUTPUT_TYPE != "multiple_choice" or task.config.process_results is not None or task.multiple_input:
        return
    golds = []
    for _, doc in task.doc_iterator():
        choices, gold = task.doc_to_choice(doc), task.doc_to_target(doc)
        gold = choices.index(gold) if isinstance(gold, str) and gold in choices else gold
        golds.append(gold if not isinstance(gold, list) else tuple(gold))
        if not isinstance(gold, list) and not (isinstance(gold, int) and 0 <= gold < len(choices)):
            raise ValueError(f"gold {gold!r} is no choice of {len(choices)}")


def rank(failed):
    """How far an attempt came."""
    return (len(STAGES), 0) if failed is None else (STAGES.index(failed.stage), failed.line)


def search(path, name, config, memory, added, seconds):
    """The best attempt within a time, with its plan."""
    plan = Plan(config, memory, added)
    start = time.monotonic()
    found, failed = attempt(path, name, plan)
    best = (rank(failed), found, failed)
    tried = set()
    while best[2] is not None and time.monotonic() - start < seconds:
        late = best[2].stage not in STAGES[:2]  # the requests are there: less time for the rest
        better = _step(path, name, plan, best, tried, start + (seconds / 3 if late else seconds))
        if better is None:
            break
        best = better
    return best[1], best[2], plan


def _step(path, name, plan, best, tried, deadline):
    """One improvement of the plan, or None."""
    if _add_missing(plan, best[2]):
        found, failed = attempt(path, name, plan)
        return rank(failed), found, failed
    for leaf, kind in _changes(plan, best[2]):
        if time.monotonic() > deadline:
            return None
        key = (leaf, kind, str(best[2])[:200])
        if key in tried:
            continue
        tried.add(key)
        before = dict(plan.kinds)
        plan.kinds = {held: one for held, one in before.items() if held[: len(leaf)] != leaf} | {leaf: kind}
        found, failed = attempt(path, name, plan)
        if rank(failed) > best[0]:
            plan.refresh()
            return rank(failed), found, failed
        plan.kinds = before
    return None


def _added(plan, path):
    plan.added.append(path)
    plan.shape.at(path)
    plan.refresh()
    return True


def _add_missing(plan, failed):
    """Add a column or more rows where the error says so."""
    error, said = failed.error, str(failed.error)
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        column = error.args[0]
        match = re.search(r"[Cc]olumn (?:name )?'?([\w ]+)'? not in", column)
        column = match.group(1) if match else column
        if len(column) < 50 and column not in plan.shape.keys and "not in the dataset" not in column:
            nested = [held for held in plan.shape.keys.values() if column in held.keys]
            if not nested:
                return _added(plan, (column,))
        if len(column) < 50 and column in plan.shape.keys:  # it may be a key of a dict instead
            for name, held in plan.shape.keys.items():
                if held.keys and column not in held.keys:
                    return _added(plan, (name, column))
    match = re.match(r"'([\w ]+)' is undefined", said)
    if match and match.group(1) not in plan.shape.keys:
        return _added(plan, (match.group(1),))
    few = (
        "larger than population" in said
        or "exceeds the" in said
        or "out of range" in said
        or "fewshot samples returned" in said
        or "did not find any docs" in said
    )
    if few and plan.factor == 1:
        plan.factor = 4
        return True
    return False


def _changes(plan, failed):
    """Leaves and kinds to try, the most suspicious leaves first."""
    leaves = plan.shape.leaves()
    tops = [(name,) for name, held in plan.shape.keys.items() if held.keys or held.items is not None]
    spoken = failed.source or ""
    target = str(plan.config.get("doc_to_target")) + str(plan.config.get("doc_to_choice"))

    def suspicion(path):
        name = str(next((step for step in reversed(path) if step != "*"), ""))
        return (-(name in spoken) * 2 - (failed.stage in ("gold", "scores") and name in target), len(path))

    every = sorted(dict.fromkeys([*leaves, *tops]), key=suspicion)
    firsts = [(leaf, kind) for leaf in every for kind in plan.options(leaf)[:4]]
    rest = [(leaf, kind) for leaf in every for kind in plan.options(leaf)[4:]]
    spoken_rest = [one for one in rest if suspicion(one[0])[0] < 0]
    return [*firsts, *spoken_rest, *rest]
