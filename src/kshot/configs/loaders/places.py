"""Where the data of a config lies: the places that the frameworks look at, and those that a config may name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kshot.configs._stand_ins import FRAMEWORKS
from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.home import DATA_FOLDERS
from kshot.configs.project import NotAllowed
from kshot.core.errors import DataError

_CACHE_VARIABLES = ("COMPASS_DATA_CACHE", "AIS_BENCH_DATASETS_CACHE")
_CACHE = "~/.cache/opencompass"

IDS = {
    **{
        f"opencompass/{name}": name
        for name in (
            *("bbeh", "bigcodebench", "cmmlu", "ChemBench", "code_generation_lite", "execution-v2", "gsm8k"),
            *("korbench", "LCSTS", "livestembench", "LiveReasonBench", "LiveMathBench", "Longbench", "math", "mgsm"),
            *("mmlu", "mmlu_pro", "mmmlu_lite", "OlympiadBench", "piqa", "race", "siqa", "test_generation", "tydiqa"),
            *("WikiBench", "winogrande", "xstory_cloze", "Matbench"),
        )
    },
    "opencompass/agieval": "AGIEval/data/v1",
    "opencompass/ai2_arc-test": "ARC/ARC-c/ARC-Challenge-Test.jsonl",
    "opencompass/ai2_arc-dev": "ARC/ARC-c/ARC-Challenge-Dev.jsonl",
    "opencompass/ai2_arc-easy-dev": "ARC/ARC-e/ARC-Easy-Dev.jsonl",
    "opencompass/aime2024": "aime.jsonl",
    "opencompass/aime2025": "aime2025/aime2025.jsonl",
    "opencompass/aime2026": "aime2026/aime2026.jsonl",
    "opencompass/hmmt2026": "hmmt2026/hmmt_feb_2026.jsonl",
    "opencompass/afqmc-dev": "CLUE/AFQMC/dev.json",
    "opencompass/bbh": "BBH/data",
    "opencompass/boolq": "SuperGLUE/BoolQ/val.jsonl",
    "opencompass/ceval-exam": "ceval/formal_ceval",
    "opencompass/cmnli-dev": "CLUE/cmnli/cmnli_public/dev.json",
    "opencompass/cmrc_dev": "CLUE/CMRC/dev.json",
    "opencompass/cmo_fib": "cmo.jsonl",
    "opencompass/commonsense_qa": "commonsenseqa",
    "opencompass/drcd_dev": "CLUE/DRCD/dev.json",
    "opencompass/flores": "flores_first100",
    "opencompass/GAOKAO-BENCH": "GAOKAO-BENCH/data",
    "opencompass/gsm_hard": "gsm-hard/test.jsonl",
    "opencompass/hellaswag": "hellaswag/hellaswag.jsonl",
    "opencompass/hellaswag_ice": "hellaswag",
    "opencompass/humaneval": "humaneval/human-eval-v2-20210705.jsonl",
    "opencompass/humaneval_cn": "humaneval_cn/human-eval-cn-v2-20210705.jsonl",
    "opencompass/IFEval": "ifeval/input_data.jsonl",
    "opencompass/kcle": "kcle_diamond.jsonl",
    "opencompass/kcle_fix": "kcle_diamond_fix_251029.jsonl",
    "opencompass/lambada": "lambada/test.jsonl",
    "opencompass/LiveMathBench202412": "LiveMathBench",
    "opencompass/longbenchv2": "longbenchv2/data.json",
    "opencompass/mbpp": "mbpp/mbpp.jsonl",
    "opencompass/mbpp_plus": "mbpp_plus/mbpp_plus.jsonl",
    "opencompass/natural_question": "nq",
    "opencompass/nq_open": "nq-open",
    "opencompass/OCNLI-dev": "CLUE/OCNLI/dev.json",
    "opencompass/openbookqa_fact": "openbookqa/Additional/test_complete.jsonl",
    "opencompass/openbookqa_test": "openbookqa/Main/test.jsonl",
    "opencompass/sanitized_mbpp": "mbpp/sanitized-mbpp.jsonl",
    "opencompass/SciReasoner-GUE": "SciReasoner/GUE-test",
    "opencompass/SciReasoner-LLM4Mat": "SciReasoner/LLM4Mat-test",
    "opencompass/SciReasoner-Mol_Instructions": "SciReasoner/Mol-Instructions-test",
    "opencompass/SciReasoner-OPI": "SciReasoner/OPI_test",
    "opencompass/SciReasoner-PEER": "SciReasoner/PEER-test",
    "opencompass/SciReasoner-bio_instruction": "SciReasoner/bio_instruction",
    "opencompass/SciReasoner-smol": "SciReasoner/smol-test",
    "opencompass/simpleqa": "simpleqa/simple_qa_test_set.csv",
    "opencompass/simpleqa-verified": "simpleqa/simpleqa_verified.csv",
    "opencompass/strategy_qa": "strategyqa/strategyQA_train.json",
    "opencompass/summedits": "summedits/summedits.jsonl",
    "opencompass/SVAMP": "svamp/SVAMP.jsonl",
    "opencompass/trivia_qa": "triviaqa",
    "opencompass/xsum": "Xsum/dev.jsonl",
    "opencompass/humaneval_pro": "humaneval_pro/humaneval_pro.json",
    "opencompass/mbpp_pro": "mbpp_pro/mbpp_pro.json",
    "opencompass/QASPER": "QASPER/qasper-dev-v0.3.json",
    "opencompass/Chem_exam_competition": "test_set/icho.jsonl",
    "opencompass/Chem_exam_gaokao": "test_set/gaokao.jsonl",
    "opencompass/PHYBench": "phybench",
    "P-MMEval": "P-MMEval",
}
"""What an id of OpenCompass stands for, below the folder ``data``."""


class RowsNotAllowed(DataError):  # noqa: N818 - it names what is wrong
    """Rows that a config may not name."""


def local_path(path: str) -> str:
    """Return the path that an id of OpenCompass stands for; any other path is returned as it is."""
    return f"data/{IDS[path]}" if path in IDS else path


def place_of(entry: DatasetEntry, path: str) -> Path:
    """Return the first place at which a path of a config exists, or else the path seen from the current folder.

    The places are those of the frameworks: the cache folder that the environment names, the current folder, the
    config's project, the folder above a package of a framework, and the cache in the user's home.
    """
    written = local_path(path)
    return next((place for place in candidates(entry, written) if os.path.exists(place)), Path(written))  # noqa: PTH110 - no name is too long for it


def looked_at(entry: DatasetEntry) -> str:
    """Return a sentence that says where kshot looked for the rows of an entry; empty where it names no path."""
    path = entry.get("path")
    if not isinstance(path, str) or not path:
        return ""
    places = dict.fromkeys(str(Path.cwd() / os.path.normpath(place)) for place in candidates(entry, local_path(path)))
    return f"kshot looked for them at {', '.join(places)}."


def candidates(entry: DatasetEntry, path: str) -> Iterator[Path]:
    """Yield the places at which a path of a config, or of its rows, may lie."""
    try:
        here = Path(path).expanduser()
    except RuntimeError:  # a ~ of somebody who is not known here
        here = Path(path)
    if here.is_absolute():
        yield here
        return
    yield from (cache / here for cache in _caches()[:-1])
    yield here
    if entry.project is not None:
        yield entry.project.root / here
    yield from (folder / here for folder in _beside(entry))
    yield _caches()[-1] / here


def _caches() -> list[Path]:
    """Return the cache folders that the environment names, and last the one of OpenCompass in the user's home."""
    named = [Path(os.environ[name]) for name in _CACHE_VARIABLES if os.environ.get(name)]
    return [*named, Path(os.path.expanduser(_CACHE))]  # noqa: PTH111 - pathlib raises where there is no home


def _beside(entry: DatasetEntry) -> list[Path]:
    """Return the folder around the package or the ``configs`` in which a config lies: a clone has its data there."""
    root = None if entry.project is None else entry.project.root
    return [root.parent] if root is not None and root.name in (*FRAMEWORKS, "configs") else []


def data_folders(entry: DatasetEntry) -> list[Path]:
    """Return the folders, outside its project, in which a config may name rows."""
    tops = map(os.path.realpath, (Path.cwd(), *_beside(entry), *_caches()))
    return [Path(top, folder) for top in tops for folder in DATA_FOLDERS]


def check_place(entry: DatasetEntry, place: Path) -> None:
    """Refuse a place that a config names and that is not its own; a dict of the user's own may name any."""
    if entry.project is None:
        return
    try:
        entry.project.check(place, also=data_folders(entry))
    except NotAllowed as exc:
        folders = " or ".join(f"./{folder}" for folder in DATA_FOLDERS)
        raise RowsNotAllowed(
            f"the config names rows at {exc}",
            where=entry.place,
            hint=f"It may name rows in its project or in {folders}. If these may be read: --data {entry.abbr}={place}.",
        ) from exc
