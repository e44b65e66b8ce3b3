"""Recorded task files of lm-eval and dataset files of LLMBox: prompts, samples and figures on their recorded rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.frozen.cases import Cases
from tests.frozen.commands import Caller, streams
from tests.frozen.materials import MADE_UP, write_rows
from tests.frozen.world import SHARED

MODEL = ("-m", "made_up.py:Model")
OUT = {
    "score/agi_eval/prompt_robustness_agieval_sat_en.yaml",
    "score/agi_eval/option_order_robustness_agieval_sat_en.yaml",
    "squad",
}
"""Two files whose functions read what only lm-eval itself has; and one that makes a set of its references, in any order."""


def make(cases: Cases) -> None:
    """Add the cases."""
    golden = SHARED / "golden"
    if not golden.exists():
        cases.skip("", f"{golden} is not here")
        return
    Path("made_up.py").write_text(MADE_UP, encoding="utf-8")
    with streams() as printed:
        caller = Caller(cases, printed)
        recorded = [json.loads(path.read_text("utf-8")) for path in sorted((golden / "lmeval").glob("*.json"))]
        _task_files(caller, [each for each in recorded if each["path"] not in OUT])
        _llmbox(caller, json.loads((golden / "llmbox_classes.json").read_text("utf-8")))


def _task_files(caller: Caller, recorded: list[Mapping[str, Any]]) -> None:
    for each in recorded:
        for name, text in each["files"].items():
            path = Path("tasks") / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for each in recorded:
        name = each["path"].removesuffix(".yaml").replace("/", "-")
        for split, rows in each["rows"].items():
            write_rows(Path("rows") / name / f"{split}.jsonl", rows)
        given = ("-d", f"lmeval:tasks/{each['path']}", "--lmeval-root", "tasks", "--dataset-path", f"rows/{name}")
        caller.screen(f"lm-eval/{name}/chat", "preview", *given, "--json", "--limit", "1", "--model-type", "chat")
        caller.run(f"lm-eval/{name}", "run", *MODEL, *given, "--no-report")


def _llmbox(caller: Caller, whole: Mapping[str, Any]) -> None:
    for name, text in whole["helpers"].items():
        _write(name, text)
    for each in (each for each in whole["cases"] if each["name"] not in OUT):
        _write(each["file"], each["source"])
        for split, rows in each["rows"].items():
            write_rows(Path("rows") / each["name"] / f"{split}.jsonl", rows)
        subset = f":{each['subset']}" if each["subset"] else ""
        given = ("-d", f"{each['file']}:{each['cls']}{subset}", "--dataset-path", f"rows/{each['name']}")
        judge = ("--judge", "made_up.py:Judge") if each["name"] == "mt_bench" else ()
        for case in each["cases"]:
            ranking = ("--ranking-type", case["ranking_type"]) if case["ranking_type"] else ()
            name = f"llmbox/{each['name']}-{case['shots']}-{case['ranking_type'] or 'generation'}"
            caller.run(name, "run", *MODEL, *given, *ranking, *judge, "-k", str(case["shots"]), "--no-report")


def _write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
