"""Whether the entries of a home's files run to a score by kshot's command line, and whether it is the home's score."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import shutil
import site
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.real_configs.home.limits import limited
from tests.real_configs.home.loading import KINDS

HERE = Path(__file__).resolve().parent
SECONDS = 300
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
"""A model that is missing is told at once: nothing waits for the network."""
NEAR = 1e-6
GENERATED = {"GenInferencer", "LMMGenInferencer"}
CHAT_ALONE = ("MMPromptTemplate", "RawPromptTemplate")


def without_code(home: Path, framework: str, folder: Path) -> Path:
    """A copy of a home that has the configs and nothing else: no name of its code can be taken from it."""
    configs = Path(KINDS[framework]).parent
    shutil.copytree(home / configs, folder / configs, dirs_exist_ok=True)
    return folder


def prepare(packages: str, variables: dict[str, str]) -> None:
    """Prepare a process of the pool; ``packages``: a folder of packages that it has, too."""
    os.environ.update({**OFFLINE, **variables})
    if packages:
        site.addsitedir(packages)


def run_file(job: tuple[str, dict[str, Any], bool]) -> dict[str, Any]:
    """Run some entries of a file; say whether each has a score, why not, and whether it is the home's.

    A file whose entries cannot run together is run entry by entry, so that each says what is missing.
    """
    home, line, with_code = job
    entries = [entry for entry in line.get("entries", ()) if _home_can(entry)]
    if not entries:
        return {"file": line["file"], "entries": []}
    with tempfile.TemporaryDirectory() as folder:
        alike = len({entry["abbr"] for entry in entries}) < len(entries)
        found = [] if alike else _run(Path(home), line, entries, Path(folder), with_code=with_code)
        if alike or (len(entries) > 1 and any("error" in one for one in found)):
            found = [
                told for one in entries for told in _run(Path(home), line, [one], Path(folder), with_code=with_code)
            ]
    return {"file": line["file"], "entries": found}


def _home_can(entry: dict[str, Any]) -> bool:
    """Whether the home itself asks a model about this entry: some entries of real files are broken."""
    if not entry.get("rows"):
        return False
    said = [entry["error"]] if "error" in entry else [_error(entry.get(kind)) for kind in ("text", "messages")]
    return any(not one or one.startswith("LookupError") for one in said)  # what the reference environment lacks


def _error(prompts: Any) -> str:
    return str(prompts["error"]) if isinstance(prompts, dict) else ""


def _run(home: Path, line: dict[str, Any], entries: list[dict[str, Any]], folder: Path, *, with_code: bool) -> Any:
    """One command; what it says of each entry."""
    from kshot.cli.main import main

    shutil.rmtree(folder, ignore_errors=True)
    command = ["run", str(home / line["file"]), "-m", f"{HERE}/made_up_model.py:Made", "--json", "--no-report"]
    command += ["--judge", f"{HERE}/made_up_model.py:Judge", "--fsync", "never", "--out", str(folder / "run")]
    command += ["--home", str(home)] if with_code else []
    command += ["--model-type", "chat" if any(_needs_chat(one) for one in entries) else "base"]
    replies: dict[str, Any] = {"verdicts": {str(entry["number"]): entry.get("verdict") for entry in entries}}
    for entry in entries:
        number = str(entry["number"])
        place = folder / "rows" / number
        place.mkdir(parents=True)
        for split, rows in entry["rows"].items():
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (place / f"{split}.jsonl").write_text(text, encoding="utf-8")
        replies[number] = entry.get("replies") or []
        for name, text in (entry.get("files") or {}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        alone = sum(one["abbr"] == entry["abbr"] for one in line["entries"]) == 1
        chosen = entry["abbr"] if alone else f"{entry['variable']}/{entry['abbr']}"
        command += ["--only", chosen, "--data", f"{entry['abbr']}={place}"]
    (folder / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
    os.environ["KSHOT_MADE_UP_REPLIES"] = str(folder / "replies.json")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(folder):
        try:
            with limited(SECONDS):
                code = main(command)
        except BaseException as exc:  # a traceback is the worst of answers, and is told
            return [_told(one, error=f"{type(exc).__name__}: {exc}"[:300]) for one in entries]
    if code not in (0, 1):
        return [_told(one, error=_message(err.getvalue())) for one in entries]
    return _scores(entries, json.loads(out.getvalue()))


def _needs_chat(entry: dict[str, Any]) -> bool:
    return isinstance(entry.get("text"), dict) or entry.get("template") in CHAT_ALONE


def _told(entry: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {name: entry.get(name) for name in ("abbr", "inferencer", "evaluator")} | more


def _message(said: str) -> str:
    """The message of an error, in one line."""
    lines = [line for line in said.splitlines() if line.strip()]
    start = next((at for at, line in enumerate(lines) if "error" in line.lower()), max(len(lines) - 1, 0))
    return " ".join(lines[start : start + 3])[:400]


def _scores(entries: list[dict[str, Any]], said: Any) -> list[dict[str, Any]]:
    rows = said["results"] if isinstance(said, dict) else said
    told = []
    for entry in entries:
        mine = [row for row in rows if row.get("task") == entry["abbr"]] or (rows if len(entries) == 1 else [])
        values = {row["metric"]: row["value"] for row in mine if isinstance(row.get("value"), (int, float))}
        if not values:
            failed = [str(row.get("failed") or row.get("note") or row)[:200] for row in mine]
            told.append(_told(entry, error=f"no figure: {failed[:1]}"))
        else:
            told.append(_told(entry, figures=values, against_home=_against(values, entry)))
    return told


def _against(ours: dict[str, float], entry: dict[str, Any]) -> str:
    """How our figures stand to the home's, where both have the same replies."""
    home = entry.get("figures")
    if not home or entry["inferencer"] not in GENERATED or _same_prompts(entry):
        return ""
    for name, value in home.items():
        if name in ours and not math.isclose(ours[name], value, rel_tol=NEAR, abs_tol=NEAR):
            return f"{name} is {ours[name]}, not {value}"
    shared = set(home) & set(ours)
    return "equal" if shared else f"named {sorted(ours)[:4]}, not {sorted(home)[:4]}"


def _same_prompts(entry: dict[str, Any]) -> bool:
    """Whether the home gives rows the same prompt: the model cannot know which reply is meant."""
    prompts = entry.get("messages" if _needs_chat(entry) else "text")
    return isinstance(prompts, list) and len({json.dumps(each) for each in prompts}) < len(prompts)


def reason(error: str) -> str:
    """An error without the file and the entry that it is about."""
    short = re.sub(r"/\S+", "…", error)
    return re.sub(r"…,? \S+: ", "", short)[:110]


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Files and entries that are scored, why others are not, and how the figures stand to the home's."""
    files = [one for one in results if one["entries"]]
    whole = sum(all("figures" in each for each in one["entries"]) for one in files)
    entries = [each for one in files for each in one["entries"]]
    lost = Counter(reason(each["error"]) for each in entries if "error" in each)
    against = Counter(each["against_home"] == "equal" for each in entries if each.get("against_home"))
    return {
        "files": (whole, len(files)),
        "entries": (sum("figures" in each for each in entries), len(entries)),
        "lost": lost.most_common(),
        "figures": (against[True], against[True] + against[False]),
    }
