"""More small data folders, for loaders that few configs name."""

from __future__ import annotations

import json
from typing import Any

from tests.configs.loader_case import Case, lines

_WSC = [
    {
        "target": {"span1_index": 0, "span1_text": "Old Ann", "span2_index": 5, "span2_text": "she"},
        "text": "Old Ann left Sue because she was tired .",
        "label": label,
        "idx": 0,
    }
    for label in ("true", "false")
]


def _alone(loader: str, file: str, *rows: Any, path: str = "", **options: Any) -> Case:
    return Case(loader, {file: lines(*rows)}, {"path": path or f"./{file}", **options})


SUPERGLUE = [
    Case(
        "WSCDataset",
        {"data/SuperGLUE/WSC/val.jsonl": lines(*_WSC)},
        {"path": "json", "data_files": "./data/SuperGLUE/WSC/val.jsonl", "split": "train"},
    ),
    _alone(
        "COPADatasetV2", "data/SuperGLUE/COPA/val.jsonl", {"premise": "p", "label": 1}, {"premise": "q", "label": 0}
    ),
    _alone("CBDatasetV2", "data/SuperGLUE/CB/val.jsonl", {"premise": "p", "label": "entailment"}),
    _alone("AnliDataset", "data/anli/anli_v1.0/R1/dev.jsonl", {"context": "c", "label": "n"}),
    _alone(
        "SummeditsDataset_V2", "data/summedits/summedits.jsonl", {"doc": "d", "label": 1}, path="opencompass/summedits"
    ),
]

# ---- long texts ----

_LEVAL = [{"instructions": ["q1", "q2"], "outputs": ["(B) two words", "(C) x"], "input": "text", "source": "s"}]
_LVEVAL = [
    {
        "input": "I",
        "context": "C",
        "answers": ["a"],
        "confusing_facts": ["f"],
        "answer_keywords": "k",
        "length": 3,
        "dataset": "d",
    }
]
_QASPER = {
    "1": {
        "full_text": [
            {"section_name": "Intro", "paragraphs": ["First.", "Second clue."]},
            {"section_name": None, "paragraphs": ["Third."]},
        ],
        "qas": [
            {
                "question": "Q1",
                "answers": [{"answer": {"extractive_spans": ["s1", "s2"], "evidence": ["Second clue."]}}],
            },
            {"question": "Q2", "answers": [{"answer": {"extractive_spans": [], "evidence": []}}]},
            {"question": "Q3", "answers": [{"answer": {"extractive_spans": ["z"], "evidence": ["nowhere"]}}]},
        ],
    }
}

LONG_TEXTS = [
    *(
        Case(
            f"LEval{task}Dataset",
            {f"data/leval/{name}/test.jsonl": lines(*_LEVAL)},
            {"path": "data/leval", "name": name},
            splits=("test", "test"),
        )
        for task, name in (("GSM100", "gsm100"), ("GovReportSumm", "gov_report_summ"), ("Quality", "quality"))
    ),
    *(
        Case(
            f"LVEval{task}Dataset",
            {f"data/lveval/{task}/test.jsonl": lines(*_LVEVAL)},
            {"path": "data/lveval", "name": task},
            splits=("test", "test"),
        )
        for task in ("cmrc", "dureader", "lic", "looglesd")
    ),
    Case(
        "QASPERDataset",
        {"data/QASPER/qasper-dev-v0.3.json": json.dumps(_QASPER)},
        {"path": "./data/QASPER/"},
        splits=("dev", "dev"),
    ),
]

# ---- knowledge ----

_CHEM = [{"question": "Q", "A": "a", "B": "b", "C": "c", "D": "d", "answer": "B", "more": 1}]

KNOWLEDGE = [
    Case(
        "ChemBenchDataset",
        {f"data/ChemBench/{split}/Name_benchmark.json": json.dumps(_CHEM) for split in ("dev", "test")},
        {"path": "opencompass/ChemBench", "name": "Name"},
        splits=("dev", "test"),
    ),
    Case(
        "FinanceIQDataset",
        {
            f"data/FinanceIQ/{split}/税.csv": ",Question,A,B,C,D,Answer\n0,问,甲,乙,丙,丁,B\n"
            for split in ("dev", "test")
        },
        {"path": "./data/FinanceIQ/", "name": "税"},
        splits=("dev", "test"),
    ),
    Case(
        "NaturalQuestionDatasetCN",
        {f"data/nq-cn/{split}.jsonl": lines({"question": "q", "answer": ["a", "b"]}) for split in ("dev", "test")},
        {"path": "./data/nq-cn"},
        splits=("dev", "test"),
    ),
]

# ---- contests ----

_OLYMPIAD = {
    "question": "Q", "final_answer": ["1", "2"], "language": "English", "subject": "Math", "question_type": "Open",
    "answer_type": "Numerical", "is_multiple_answer": False, "unit": None, "error": None, "id": 7,
}  # fmt: skip
_STEM = [{"question": "Q", "options": ["A. a", "B. b"], "answer": "A"}, {"question": "R", "options": [], "answer": "r"}]

CONTESTS = [
    _alone("CMOFibDataset", "data/cmo.jsonl", {"origin_prompt": "P", "gold_answer": "g"}, path="opencompass/cmo_fib"),
    _alone("KCLEDataset", "data/kcle_diamond.jsonl", {"input": "i", "target": "t", "x": 1}, path="opencompass/kcle"),
    Case(
        "GaoKaoMATHDataset",
        {"data/gaokao.json": json.dumps([{"extract_answer": 3, "q": "x"}])},
        {"path": "./data/gaokao.json"},
    ),
    Case(
        "OlympiadBenchDataset",
        {"data/OlympiadBench/OE.json": json.dumps([_OLYMPIAD])},
        {"path": "opencompass/OlympiadBench", "name": "OE"},
    ),
    Case(
        "BBEHDataset",
        {"data/bbeh/sarc/task.json": json.dumps({"examples": [{"input": "i", "target": "t"}]})},
        {"path": "opencompass/bbeh", "name": "sarc"},
    ),
    *(
        Case(
            "SimpleQADataset",
            {"data/simpleqa/simple_qa_test_set.csv": "metadata,problem,answer\nm,Q1,a\nm,Q2,b\nm,Q3,c\n"},
            {"path": "opencompass/simpleqa", **more},
        )
        for more in ({"num_examples": 2}, {"n_repeats": 3})
    ),
    Case(
        "LiveStemBenchDataset",
        {"data/livestembench/livestembench-20241227.json": json.dumps(_STEM)},
        {"path": "opencompass/livestembench"},
    ),
    Case(
        "LiveReasonBenchDataset",
        {"data/LiveReasonBench/v.json": json.dumps(_STEM)},
        {"path": "opencompass/LiveReasonBench", "version": "v"},
    ),
    Case(
        "CompassBenchObjectiveV1_3",
        {"data/compassbench/x.jsonl": lines({"question": " Q ", "options": ["a", "b", "c", "d"], "answer": "A"})},
        {"path": "data/compassbench/x.jsonl", "name": "single_circular"},
    ),
]

# ---- copies of the hub's datasets ----

_PAIR = {"sent_more": "m", "sent_less": "l"}
_MED = {"question": "Q", "options": {"A": "a", "B": "b"}, "answer": "a", "answer_idx": "A"}
_MMLU_CF = {"Question": "q", "A": "a", "B": "b", "C": "c", "D": "d", "Answer": "C"}
_CHEMISTRY = [
    {"id": 1, "question": "Q", "answer": "a", "qa_type": 1, "has_img": 0},
    {
        "id": 2,
        "question": "Q",
        "has_img": 1,
        "sub_question": [
            {"question": "one", "answer": "1", "qa_type": 2},
            {"question": "two", "sub_question": [{"question": "two a", "answer": "2a", "qa_type": 3}]},
        ],
    },
]


def _copied(loader: str, *rows: Any, files: str = "test", **options: Any) -> Case:
    folder = {f"data/copy/{files}.jsonl": lines(*rows)}
    return Case(loader, folder, {"path": "data/copy", **options}, splits=("test", "test"))


COPIES = [
    _copied("IWSLT2017Dataset", {"translation": {"en": "e", "de": "d"}}),
    _copied("CrowspairsDataset", _PAIR),
    _copied("CrowspairsDatasetV2", _PAIR),
    _copied("WinogradDataset", {"text": "t", "options": ["a", "b"], "source": "s", "pronoun": "p", "label": 1}),
    _copied("wnliDataset", {"sentence1": "a", "label": 1}, {"sentence1": "b", "label": 0}),
    _copied(
        "TruthfulQADataset",
        {"question": "q", "best_answer": "b", "correct_answers": ["c"], "incorrect_answers": ["i"]},
    ),
    _copied("OlymMATHDataset", {"problem": "p", "answer": "a"}, files="en-hard/test", subset="en-hard"),
    _copied("BeyondAIMEDataset", {"problem": "p", "answer": 3}),
    _copied("CRUXEvalDataset", {"code": "c", "input": "i", "output": "o"}),
    Case(
        "MMLUCFDataset",
        {f"data/copy/Math_{split}.jsonl": lines(_MMLU_CF) for split in ("dev", "val")},
        {"path": "data/copy", "name": "Math"},
        splits=("dev", "test"),
    ),
    _copied(
        "RBenchDataset",
        {"question": "q", **dict.fromkeys("ABCDEF", "x"), "answer": "F"},
        files="rbench-t_zh/test",
        subset="zh",
    ),
    _copied("MedQADataset", _MED, files="train"),
    _copied(
        "MedXpertQADataset",
        {"question": "q", "options": ["a", "b", "c"], "label": "C"},
        files="Text/test",
        prompt_mode="zero-shot",
    ),
    _copied("Earth_Silver_MCQDataset", {"question": "q", "answer": "A"}, files="multiple_choice"),
    Case(
        "MatbenchDataset",
        {"data/Matbench/matbench_base_fold_0_glass_test.json": json.dumps([{"problem": "p", "answer": 1, "x": 2}])},
        {"path": "opencompass/Matbench", "task": "glass"},
    ),
    _alone("ChemExamDataset", "data/test_set/icho.jsonl", *_CHEMISTRY, path="opencompass/Chem_exam_competition"),
    Case(
        "CValuesDataset",
        {"data/cvalues.jsonl": lines({"prompt": "回复1 或 回复2", "label": "回复2"})},
        {"path": "data/cvalues.jsonl"},
        splits=("train", "train"),
    ),
]

MORE_CASES = [*SUPERGLUE, *LONG_TEXTS, *KNOWLEDGE, *CONTESTS, *COPIES]
