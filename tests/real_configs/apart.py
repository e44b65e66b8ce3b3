"""Files that nobody can score on this machine, and why: they are counted, and named apart."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatch
from typing import Any

SERVICE = "the home's evaluator sends everything to a service"
JUDGE = "the home's evaluator asks a model behind an API itself"
MODEL = "the home's evaluator downloads a model"
DATA = "the home's evaluator downloads data or code of a metric"
PACKAGE = "the home's evaluator needs a package that PyPI has not"
BROKEN = "the home's own code cannot score it"
PROCESSES = "the home's evaluator starts programs as processes, which its confined worker may not"
AGENT = "it wants the steps of an agent, or a search over thoughts"

APART = {
    "*/humanevalx/*": SERVICE,
    "*/PMMEval/humanevalxl*": SERVICE,
    "*/PMMEval/pmmeval_gen.py": SERVICE,
    "*/multipl_e/*": SERVICE,
    "*/humaneval_multi/*": SERVICE,
    "*/ds1000/*service*": SERVICE,
    "*/livecodebench_pro/*": SERVICE,
    "*/realtoxicprompts/*": SERVICE,
    "*/safety/*": SERVICE,
    "*/HealthBench/*": JUDGE,
    "*/atlas/*": JUDGE,
    "*/gaokao_math/*": JUDGE,
    "*/math/math_0shot_llm_judge_*": JUDGE,
    "*/livemathbench/livemathbench_gen_6eb711.py": JUDGE,
    "*/fake_alignment/*": JUDGE,
    "*/omni_math/*": MODEL,
    "*/truthfulqa/*": DATA,
    "*/codecompass/*": DATA,
    "*/*vlmevalkit_gen.py": DATA,
    "*/scicode/*": PROCESSES,
    "*/ds1000/ds1000_compl_gen_cbc84f.py": PROCESSES,
    "*/ds1000/ds1000_gen_cbc84f.py": PROCESSES,
    "*/srbench/*": DATA,
    "*/molculariq/*": PACKAGE,
    "*/perspectivegap/*": PACKAGE,
    "*/internsandbox/*": PACKAGE,
    "*cibench*": BROKEN,  # it sets a property that has no setter
    "*/CIBench/*": BROKEN,
    "*/MedBench/*": BROKEN,  # the package lacks a file that it opens: entity_list.jsonl
    "*bradleyterry*": BROKEN,  # it gives matches and no figure: ratings come of the summarizer, over several models
    "*pairwise_bt_judge*": BROKEN,
    "*/qabench/*": BROKEN,  # there is no evaluator
    "*/ojbench/*": BROKEN,
    "*/hungarian_exam/*": BROKEN,  # there is no reference
    "*/game24/*": AGENT,
    "*/ds1000/ds1000_gen_5c4bec.py": AGENT,
    "*/mooncake_trace/*": BROKEN,  # its evaluator has no score()
}


def why(file: str) -> str:
    """Why nobody can score a file here; an empty text: there is no such reason."""
    return next((reason for pattern, reason in APART.items() if fnmatch(file, pattern)), "")


def counted(results: list[dict[str, Any]]) -> Counter[str]:
    """How many files have no score for a reason of these, by reason."""
    lost = [one for one in results if one["entries"] and any("error" in each for each in one["entries"])]
    return Counter(reason for one in lost if (reason := why(one["file"])))
