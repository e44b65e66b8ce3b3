"""Config files: prompts of recorded templates, rows of every loader, answers of clean-ups, figures of evaluators."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.configs.homes import CONFIG, evaluator_home
from tests.configs.loader_cases import CASES
from tests.frozen.cases import Cases
from tests.frozen.commands import Caller, streams
from tests.frozen.materials import write_rows
from tests.frozen.world import ROOT, SHARED

DATA = ROOT / "tests" / "data"
NUMBERED = '''
"""Models that reply what a file has for the number in which a prompt ends."""

import json
from pathlib import Path

from kshot import Generate, Generated


class Model:
    answers, key = (Generate,), "replies"

    def __init__(self) -> None:
        self.name = self.fingerprint = self.key
        self.replies = json.loads(Path("replies.json").read_text())

    def serve(self, queue):
        for request in queue:
            entry, _, number = request.prompt.text.split()[-1].partition("#")
            yield request, Generated(str(self.replies[entry][self.key][int(number)]))


class Judge(Model):
    key = "judge"
'''
FRAMEWORKS = {"opencompass": "opencompass", "aisbench": "ais_bench", "both": "opencompass"}
SETS = 4
"""Recorded sets of an evaluator, and six times as many replies of a clean-up, that are run: the tests of parity run all."""


def make(cases: Cases) -> None:
    """Add the cases."""
    Path("numbered.py").write_text(NUMBERED, encoding="utf-8")
    with streams() as printed:
        caller = Caller(cases, printed)
        _templates(caller, "templates", _golden("golden_templates.json")["cases"])
        if SHARED.exists():
            _templates(
                caller, "real", json.loads((SHARED / "golden" / "real_configs.json").read_text("utf-8"))["cases"]
            )
        else:
            cases.skip("real/", f"{SHARED} is not here")
        _loaders(caller)
        _cleanups(caller)
        _evaluators(caller)
        _home(caller)


def _golden(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def _write_config(entries: Sequence[Mapping[str, Any]], framework: str = "opencompass", **more: Any) -> None:
    """Write ``config.py``: a config of a framework, with these entries."""
    lines = [f"from {framework}.datasets import Anything", f"datasets = {list(entries)!r}"]
    Path("config.py").write_text("\n".join([*lines, *(f"{name} = {value!r}" for name, value in more.items())]) + "\n")


def _templates(caller: Caller, family: str, cases: Sequence[Mapping[str, Any]]) -> None:
    """Show the prompts of recorded templates, as text and as messages."""
    for case in cases:
        infer = json.loads(json.dumps(case["infer_cfg"]))
        for template in (infer.get(name) for name in ("ice_template", "prompt_template") if case.get("int_keys")):
            if template:
                template["template"] = {int(label): text for label, text in template["template"].items()}
        name = case.get("abbr", "case")
        scored = {"evaluator": {"type": "AccEvaluator"}}
        _write_config(
            [{"abbr": name, "type": "Rows", "reader_cfg": case["reader_cfg"], "infer_cfg": infer, "eval_cfg": scored}]
        )
        folder = Path("rows") / family / case["name"]
        for split, rows in (case.get("splits") or {"train": case["rows_train"], "test": case["rows_test"]}).items():
            write_rows(folder / f"{split}.jsonl", rows)
        given = ("preview", "config.py", "--data", f"{name}={folder}", "--json")
        caller.screen(f"{family}/{case['name']}/text", *given)
        caller.screen(f"{family}/{case['name']}/messages", *given, "--model-type", "chat")


def _loaders(caller: Caller) -> None:
    """Show the rows that each loader makes of its small data folder, through a template of all columns."""
    home, golden = Path.cwd(), _golden("loader_rows.json")
    for case in CASES:
        rows = golden[case.name]
        rows = [row for split in rows.values() for row in split] if isinstance(rows, dict) else rows
        columns = list(dict.fromkeys(name for row in rows for name in row))
        train, test = case.splits
        template = "\n".join(f"{name}: {{{name}}}" for name in columns)
        folder = home / "loaders" / case.name
        folder.mkdir(parents=True)
        os.chdir(folder)
        case.write(folder)
        entry = _entry("made-up", columns, template, {"type": "AccEvaluator"}, type=case.loader, **case.options)
        entry["reader_cfg"] |= {"train_split": train, "test_split": test}
        _write_config([entry], case.framework)
        caller.screen(f"loaders/{case.name}", "preview", "config.py", "--json")
        os.chdir(home)


def _entry(abbr: str, columns: list[str], template: str, evaluator: Any, **more: Any) -> dict[str, Any]:
    return {
        "abbr": abbr,
        "type": "Rows",
        "path": f"rows/{abbr}.jsonl",
        "reader_cfg": {"input_columns": columns, "output_column": None},
        "infer_cfg": {
            "prompt_template": {"type": "PromptTemplate", "template": template},
            "retriever": {"type": "ZeroRetriever"},
            "inferencer": {"type": "GenInferencer", "max_out_len": 8},
        },
        "eval_cfg": {"evaluator": evaluator},
        **more,
    }


def _cleanups(caller: Caller) -> None:
    """Run each clean-up on recorded replies."""
    entries, replies = [], {}
    for number, golden in enumerate(_golden("golden_cleanups.json")["entries"]):
        name = f"{number}-{golden['name']}"
        given = [text for text, _ in golden["cases"][: 6 * SETS]]
        entry = _entry(name, ["number", "gold"], "{number}", {"type": "EMEvaluator"})
        entry["reader_cfg"] = {"input_columns": ["number"], "output_column": "gold"}
        entry["eval_cfg"]["pred_postprocessor"] = {"type": golden["name"], **golden["kwargs"]}
        entries.append(entry)
        write_rows(Path(f"rows/{name}.jsonl"), [{"number": f"{name}#{at}", "gold": "B"} for at in range(len(given))])
        replies[name] = {"replies": given}
    Path("replies.json").write_text(json.dumps(replies))
    _write_config(entries)
    _run(caller, "cleanups")


def _evaluators(caller: Caller) -> None:
    """Run each evaluator on recorded predictions."""
    for number, golden in enumerate(_golden("golden_evaluators.json")["entries"]):
        entries, replies = [], {}
        for at, case in enumerate(_texts(golden["sets"])[:SETS]):
            name = f"{number}-{at}"
            entry = _entry(name, ["number"], "{number}", _evaluator(golden, case))
            entry["reader_cfg"]["output_column"] = "gold"
            entries.append(entry)
            rows = case.get("rows") or [{}] * len(case["references"])
            write_rows(
                Path(f"rows/{name}.jsonl"),
                [
                    {**row, "number": f"{name}#{n}", "gold": gold}
                    for n, (row, gold) in enumerate(zip(rows, case["references"], strict=True))
                ],
            )
            replies[name] = {"replies": case["predictions"], "judge": case.get("judge")}
        if entries:
            Path("replies.json").write_text(json.dumps(replies))
            _write_config(entries, FRAMEWORKS[golden["home"]])
            judge = ["--judge", "numbered.py:Judge"] if "judge" in golden["sets"][0] else []
            _run(caller, f"evaluators/{number}-{golden['name']}", *judge)


def _home(caller: Caller) -> None:
    """Run an evaluator that only the framework's own code has."""
    found = "len([p for p, r in zip(predictions, references) if r in p])"
    evaluator_home(
        Path("framework"), f"return {{'found': {found} / 2, 'details': [{{'said': p}} for p in predictions]}}"
    )
    Path("config.py").write_text(CONFIG, encoding="utf-8")
    write_rows(Path("rows.jsonl"), [{"question": f"0-0#{n}", "answer": gold} for n, gold in enumerate(("a", "b", "c"))])
    Path("replies.json").write_text(json.dumps({"0-0": {"replies": ["a b", "c", "so c"]}}))
    caller.screen("home/check", "check", "config.py", "--home", "framework")
    _run(caller, "home", "--home", "framework")


def _texts(sets: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [case for case in sets if all(isinstance(text, str) for text in case["predictions"])]


def _evaluator(golden: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
    body = {"type": golden["types"][0], **golden["kwargs"]}
    if "judge" not in case:
        return body
    asked = {"prompt_template": {"type": "PromptTemplate", "template": "{prediction} or {gold}? {number}"}}
    return body | ({"llm_evaluator": {"type": "GenericLLMEvaluator", **asked}} if "rule_evaluator" in body else asked)


def _run(caller: Caller, name: str, *more: str) -> None:
    caller.run(name, "run", "config.py", "-m", "numbered.py:Model", "--no-report", *more)
