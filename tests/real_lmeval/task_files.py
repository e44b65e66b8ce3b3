"""What kshot makes of lm-eval's task files, beside what lm-eval itself made of them (``wheel/record.py``).

python task_files.py TASKS OUT.jsonl RECORDED.jsonl …
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

EQUAL = "equal"
PARTS = ("requests", "chat", "scores")
NEAR = 1e-8
TASKS_A_WORKER = 200


def lines(*files: Path) -> Iterator[dict[str, Any]]:
    """Return the recorded text tasks of which lm-eval itself made requests, the same from every reader."""
    for file in files:
        with file.open(encoding="utf-8") as source:
            for text in source:
                line = json.loads(text)
                if line.get("cases") and not line.get("draws"):
                    yield line


def compare_files(root: Path, recorded: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Compare tasks; what each part is: ``equal`` or why not. Some hundred tasks share one worker for their functions."""
    from kshot.lmeval.functions import Functions

    recorded = iter(recorded)
    while some := list(islice(recorded, TASKS_A_WORKER)):
        functions = Functions(root, readable=[root])
        for line in some:
            yield {"path": line["path"], **_compared(root, line, functions)}
        functions.close()


def _compared(root: Path, line: dict[str, Any], functions: Any) -> dict[str, str]:
    from kshot.lmeval.files import read_body, task_config
    from kshot.lmeval.task_file import TaskFile

    path = root / line["path"]
    try:
        task = TaskFile(task_config(read_body(path, root), path), functions)
    except Exception as error:
        return dict.fromkeys(_parts_of(line), _told(error))
    found = {"requests": _requests(task, line)}
    if "chat" in line:
        found["chat"] = _chat(task, line)
    if "scores" in line:
        found["scores"] = _scores(task, line)
    return found


def _parts_of(line: dict[str, Any]) -> list[str]:
    return ["requests", *[part for part in ("chat", "scores") if part in line]]


def _requests(task: Any, line: dict[str, Any]) -> str:
    for case in line["cases"]:
        try:
            given = task.requests(line["rows"], num_fewshot=case["num_fewshot"])
        except Exception as error:
            return _told(error)
        if given != case["requests"]:
            return f"num_fewshot {case['num_fewshot']}: {difference(given, case['requests'])}"
    return EQUAL


def template(turns: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
    """The chat template of the recording."""
    said = "".join(f"<|{turn['role']}|>\n{turn['content']}<|end|>\n" for turn in turns)
    return f"{said}<|assistant|>\n" if add_generation_prompt else said.removesuffix("<|end|>\n")


def _chat(task: Any, line: dict[str, Any]) -> str:
    try:
        given = task.requests(line["rows"], num_fewshot=line["chat"]["num_fewshot"], chat_template=template)
    except Exception as error:
        return _told(error)
    return EQUAL if given == line["chat"]["requests"] else difference(given, line["chat"]["requests"])


def _scores(task: Any, line: dict[str, Any]) -> str:
    for number, turn in enumerate(line["scores"]):
        try:
            given = task.score(line["rows"], turn["responses"])
        except Exception as error:
            return _told(error)
        for part in ("metrics", "docs"):
            if not near(given[part], turn[part]):
                return f"round {number}, {part}: {difference(given[part], turn[part])}"
    return EQUAL


def near(ours: Any, wanted: Any) -> bool:
    """Whether two values are the same, numbers up to the digits that were recorded."""
    if isinstance(wanted, dict) and isinstance(ours, dict):
        named = {str(key): value for key, value in ours.items()}  # JSON has no other keys than texts
        return named.keys() == wanted.keys() and all(near(named[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return isinstance(ours, (list, tuple)) and len(ours) == len(wanted) and all(map(near, ours, wanted))
    if wanted == "nan" and isinstance(ours, float):
        return math.isnan(ours)
    if isinstance(wanted, (int, float)) and isinstance(ours, (int, float)):
        return math.isclose(ours, wanted, rel_tol=NEAR, abs_tol=NEAR)
    return bool(ours == wanted or str(ours) == wanted)


def difference(ours: Any, wanted: Any, place: str = "") -> str:
    """Where two values part for the first time."""
    if isinstance(ours, (list, tuple)) and isinstance(wanted, list):
        if len(ours) != len(wanted):
            return f"{place} has {len(ours)} parts, not {len(wanted)}"
        pairs = zip(ours, wanted, strict=True)
        return next((difference(*pair, f"{place}[{at}]") for at, pair in enumerate(pairs) if not near(*pair)), EQUAL)
    if isinstance(ours, dict) and isinstance(wanted, dict):
        ours = {str(key): value for key, value in ours.items()}
        if ours.keys() != wanted.keys():
            return f"{place} has the keys {sorted(ours)}, not {sorted(wanted)}"
        return next(
            (
                difference(ours[key], wanted[key], f"{place}.{key}")
                for key in wanted
                if not near(ours[key], wanted[key])
            ),
            EQUAL,
        )
    if isinstance(ours, str) and isinstance(wanted, str):
        at = next(
            (at for at, pair in enumerate(zip(ours, wanted, strict=False)) if pair[0] != pair[1]),
            min(len(ours), len(wanted)),
        )
        start = max(0, at - 20)
        return f"{place} at {at}: {ours[start : at + 40]!r}, not {wanted[start : at + 40]!r}"
    return f"{place}: {ours!r:.80}, not {wanted!r:.80}"


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def counted(results: Iterable[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """How many tasks are equal, of how many that were recorded, by part."""
    results = list(results)
    return {
        part: (sum(one.get(part) == EQUAL for one in results), sum(part in one for one in results)) for part in PARTS
    }


def reasons(results: Iterable[dict[str, Any]], part: str) -> list[tuple[str, int, str]]:
    """Why tasks differ in a part: a reason with numbers and texts left out, how often, and one path."""
    count: Counter[str] = Counter()
    example: dict[str, str] = {}
    for one in results:
        if one.get(part, EQUAL) != EQUAL:
            reason = re.sub(r"'[^']*'|\"[^\"]*\"|\d+|/\S+", "…", one[part])[:160]
            count[reason] += 1
            example.setdefault(reason, f"{one['path']}: {one[part]}")
    return [(reason, often, example[reason]) for reason, often in count.most_common()]


def kinds_of(*files: Path) -> Counter[str]:
    """How many files are text tasks, and of how many of these there are requests and scores."""
    count: Counter[str] = Counter()
    for file in files:
        with file.open(encoding="utf-8") as source:
            for text in source:
                line = json.loads(text)
                is_text = line["kind"] in {"text", "unreadable"}
                count["text" if is_text else line["kind"]] += 1
                count["requests"] += is_text and "cases" in line
                count["scores"] += is_text and "scores" in line
    return count


def main(tasks: Path, out: Path, recorded: list[Path]) -> None:
    """Write a line for each task."""
    found = sorted(lines(*recorded), key=lambda line: str(line["path"]))
    with out.open("w", encoding="utf-8") as file:
        for result in compare_files(tasks, found):
            file.write(json.dumps(result, ensure_ascii=False) + "\n")
            file.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
