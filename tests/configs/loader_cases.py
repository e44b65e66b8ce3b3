"""Small data folders in the layouts of AISBench and OpenCompass, with made-up rows, one for each loader."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any

from tests.configs.loader_case import Case, Content, lines, parquet
from tests.configs.more_loader_cases import MORE_CASES

# ---- exams ----

_MMLU = {
    "dev/anatomy_dev.csv": '"How many bones, in all?",two,206,"many, many",none,B\nWhere?,here,there,up,down,A\n',
    "test/anatomy_test.csv": '"A ""quoted"" word\nover two lines",a,b,c,d,D\nq2,1,2,3,4,C\n',
}
_CEVAL = {
    "dev/law_dev.csv": "id,question,A,B,C,D,answer,explanation\n0,问题一,甲,乙,丙,丁,B,因为乙\n",
    "val/law_val.csv": "id,question,A,B,C,D,answer\n0,问题二,甲,乙,丙,丁,A\n1,问题三,a,b,c,d,C\n",
    "test/law_test.csv": 'id,question,A,B,C,D\n0,"问,题",甲,乙,丙,丁\n',
}
_CMMLU = {
    "dev/art.csv": ",Question,A,B,C,D,Answer\n0,问题,甲,乙,丙,丁,B\n",
    "test/art.csv": ",Question,A,B,C,D,Answer\n0,谁,他,她,它,我,D\n1,何,a,b,c,d,A\n",
}
_PRO = [
    {
        "question_id": number,
        "question": f"Which {number}?",
        "options": ["red", "N/A", "blue", "green"],
        "answer": answer,
        "answer_index": "ABCD".index(answer),
        "cot_content": f"A: Let's think step by step. It is {answer}. ",
        "category": category,
        "src": "made up",
    }
    for number, (answer, category) in enumerate([("A", "law"), ("C", "law"), ("B", "law"), ("D", "math")])
]
_RACE = {
    "article": "A long day.",
    "question": "What was it?",
    "options": ["a", "b", "c", "d"],
    "answer": "C",
    "id": "1",
}
_AGI = [
    {"passage": "Read. ", "question": "Q1", "options": ["(A)a", "(B)b"], "label": "B", "answer": None},
    {"passage": None, "question": "Q2", "options": ["(A)a", "(B)b"], "label": ["A", "B"], "answer": None},
    {"passage": None, "question": "Q3", "options": None, "label": None, "answer": "12"},
]


def _below(folder: str, files: Mapping[str, Content]) -> dict[str, Content]:
    return {f"{folder}/{name}": content for name, content in files.items()}


EXAMS = [
    Case(
        "MMLUDataset",
        _below("data/mmlu", _MMLU),
        {"path": "opencompass/mmlu", "name": "anatomy"},
        splits=("dev", "test"),
    ),
    Case(
        "MMLUDataset",
        _below("ais_bench/datasets/mmlu", _MMLU),
        {"path": "ais_bench/datasets/mmlu", "name": "anatomy"},
        "ais_bench",
        ("dev", "test"),
    ),
    Case(
        "MMLUArabicDataset",
        _below("data/MMLUArabic", _MMLU),
        {"path": "./data/MMLUArabic/", "name": "anatomy"},
        splits=("dev", "test"),
    ),
    Case(
        "CEvalDataset",
        _below("data/ceval/formal_ceval", _CEVAL),
        {"path": "opencompass/ceval-exam", "name": "law"},
        splits=("dev", "val"),
    ),
    Case(
        "CEvalDataset",
        _below("data/ceval", _CEVAL),
        {"path": "data/ceval", "name": "law", "local_mode": True},
        splits=("val", "test"),
    ),
    Case(
        "CMMLUDataset",
        _below("data/cmmlu", _CMMLU),
        {"path": "opencompass/cmmlu", "name": "art"},
        splits=("dev", "test"),
    ),
    Case(
        "MMLUProDataset",
        {
            "data/mmlu_pro/data/test-00000-of-00001.parquet": parquet(*_PRO),
            "data/mmlu_pro/data/validation-00000-of-00001.parquet": parquet(*_PRO[:1]),
        },
        {"path": "opencompass/mmlu_pro", "category": "law"},
        splits=("validation", "test"),
    ),
    Case(
        "RaceDataset",
        {
            "data/race/validation/high.jsonl": lines(_RACE),
            "data/race/test/high.jsonl": lines(_RACE, {**_RACE, "answer": "A"}),
        },
        {"path": "opencompass/race", "name": "high"},
        splits=("validation", "test"),
    ),
    *(
        Case(
            "AGIEvalDataset_v2",
            {f"{folder}/lsat-ar.jsonl": lines(*rows)},
            {"path": path, "name": "lsat-ar", "setting_name": "zero-shot"},
            framework,
        )
        for framework, path, folder, rows in (
            ("opencompass", "opencompass/agieval", "data/AGIEval/data/v1", [*_AGI[:2], {**_AGI[2], "answer": 12}]),
            ("ais_bench", "ais_bench/datasets/agieval", "ais_bench/datasets/agieval", _AGI),
        )
    ),
    Case(
        "GaokaoBenchDataset",
        {
            "data/GAOKAO-BENCH/data/Multiple/2010_MCQs.json": json.dumps(
                {
                    "keywords": "x",
                    "example": [{"question": "问", "answer": ["A"], "analysis": "析", "index": 0, "score": 5}],
                }
            )
        },
        {"path": "opencompass/GAOKAO-BENCH", "filename": "/Multiple/2010_MCQs.json", "name": "2010_MCQs"},
    ),
    *(
        Case(
            loader,
            {f"{folder}/sports.json": json.dumps({"canary": "-", "examples": [{"input": "I", "target": "no"}]})},
            {"path": path, "name": "sports"},
        )
        for loader, folder, path in (
            ("BBHDataset", "data/BBH/data", "opencompass/bbh"),
            ("CharmDataset", "data/CHARM/reasoning", "data/CHARM/reasoning"),
        )
    ),
]

# ---- options ----


def _asked(number: int, texts: str, answer: str, labels: str = "ABCDE", **more: Any) -> dict[str, Any]:
    choices = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=False)]
    return {"id": f"q{number}", "question": {"stem": f"Stem {number}", "choices": choices}, "answerKey": answer, **more}


_ARC = lines(_asked(0, "wxyz", "C"), _asked(1, "wxyz", "2", "1234"), _asked(2, "xyz", "A"))
_SWAG = [
    {"query": f"Sport: Running: one: two {number}", "choices": ["a", "b", "c", "d"], "gold": number}
    for number in range(3)
]
_GPQA_HEAD = ",".join(
    ["x"] * 7 + ["Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3", "Y"]
)
_GPQA = _GPQA_HEAD + "\n" + "".join(f'1,2,3,4,5,6,7,"Q, {n}?",right {n},w1,w2,w3,z\n' for n in range(5))
_WIKI = [
    {"question": " Who? ", "options": ["p", "q", "r", "s"], "answer": "B"},
    {"question": "When?", "options": ["1", "2", "3", "4"], "answer": "D"},
]

OPTIONS = [
    Case(
        "ARCDataset",
        {"data/ARC/ARC-c/ARC-Challenge-Dev.jsonl": _ARC},
        {"path": "opencompass/ai2_arc-dev", "name": "ARC-Challenge"},
    ),
    Case(
        "ARCDataset",
        {f"ais_bench/datasets/ARC/ARC-c/ARC-Challenge-{split}.jsonl": _ARC for split in ("Dev", "Test")},
        {"path": "ais_bench/datasets/ARC/ARC-c", "name": "ARC-Challenge"},
        "ais_bench",
        ("Dev", "Test"),
    ),
    Case("GPQADataset", {"data/gpqa/gpqa_diamond.csv": _GPQA}, {"path": "./data/gpqa/", "name": "gpqa_diamond.csv"}),
    Case(
        "OBQADataset",
        {"data/openbookqa/Main/test.jsonl": lines(_asked(0, "wxyz", "A"))},
        {"path": "opencompass/openbookqa_test", "name": "main"},
    ),
    Case(
        "commonsenseqaDataset",
        {
            "data/commonsenseqa/train_rand_split.jsonl": lines(_asked(0, "vwxyz", "E")),
            "data/commonsenseqa/dev_rand_split.jsonl": lines(_asked(1, "vwxyz", "A")),
        },
        {"path": "opencompass/commonsense_qa"},
        splits=("train", "validation"),
    ),
    *(
        Case(loader, {"data/hellaswag/hellaswag.jsonl": lines(*_SWAG)}, {"path": "opencompass/hellaswag"})
        for loader in ("HellaswagDataset", "HellaswagDataset_V2")
    ),
    Case(
        "HellaswagDatasetwithICE",
        {
            "data/hellaswag/hellaswag.jsonl": lines(*_SWAG),
            "data/hellaswag/hellaswag_train_sampled25.jsonl": lines(_SWAG[0]),
        },
        {"path": "opencompass/hellaswag_ice"},
        splits=("train", "val"),
    ),
    *(
        Case(
            "WikiBenchDataset",
            {"data/WikiBench/wiki.jsonl": lines(*_WIKI)},
            {"path": "./data/WikiBench/", "filename": "wiki.jsonl", "name": name},
        )
        for name in ("single_circular", "single", "cloze")
    ),
]

# ---- mathematics ----

_MATH = {
    "a": {"problem": "P1", "level": "1", "solution": "So \\boxed{\\frac{1}{2}} or \\boxed{ 3 }."},
    "b": {"problem": "P2", "solution": "It is \\fbox{4}"},
    "c": {"problem": "P3", "solution": "\\boxed{1} and \\boxed 5"},
    "d": {"problem": "P4", "solution": "\\boxed{{x}{y"},
}
_THEOREMS = [
    {"Question": "Q", "Answer": 3.5, "Answer_type": "float", "Picture": None},
    {"Question": "R", "Answer": [1, 2], "Answer_type": "list"},
]

MATHS = [
    Case("MATHDataset", {"data/math/math.json": json.dumps(_MATH)}, {"path": "opencompass/math"}),
    Case("MATHDataset", {"data/math/prm.json": json.dumps(_MATH)}, {"path": "./data/math", "file_name": "prm.json"}),
    Case(
        "GSM8KDataset",
        {
            "data/gsm8k/train.jsonl": lines({"question": "1+1", "answer": "#### 2"}),
            "data/gsm8k/test.jsonl": lines({"question": "2+2", "answer": "#### 4"}),
        },
        {"path": "opencompass/gsm8k"},
    ),
    Case(
        "Aime2024Dataset",
        {"data/aime.jsonl": lines({"origin_prompt": "Find x.", "gold_answer": "42"})},
        {"path": "opencompass/aime2024"},
    ),
    Case(
        "Aime2025Dataset",
        {"ais_bench/datasets/aime2025/aime2025.jsonl": lines({"question": "Find y.", "answer": "7"})},
        {"path": "ais_bench/datasets/aime2025/aime2025.jsonl"},
        "ais_bench",
    ),
    *(
        Case(
            "MathBenchDataset",
            {f"data/mathbench_v1/high/{name}.jsonl": lines(*_WIKI)},
            {"path": "data/mathbench_v1/high", "name": name, **more},
        )
        for name, more in (("single_choice_en", {}), ("single_choice_cn", {"with_circular": False}), ("cloze_en", {}))
    ),
    Case("MGSMSDataset", {"data/mgsm/mgsm_de.tsv": "Wie viele?\t12\nUnd nun?\t3\n"}, {"path": "data/mgsm/mgsm_de.tsv"}),
    Case(
        "TheoremQADataset",
        {
            "data/TheoremQA/test.csv": 'Question,Answer,Answer_type,id\n"Is, it?",True,bool,1\nHow?,3.50,float,2\nWhich?,,option,\n'
        },
        {"path": "./data/TheoremQA/test.csv"},
    ),
    Case("TheoremQADatasetV3", {"data/TheoremQA/t.json": json.dumps(_THEOREMS)}, {"path": "data/TheoremQA/t.json"}),
]

# ---- programs ----

_HUMAN = [
    {
        "task_id": f"HumanEval/{n}",
        "prompt": "def f():\n",
        "entry_point": "f",
        "canonical_solution": " pass",
        "test": "t",
    }
    for n in range(2)
]
_MBPP = [
    {"task_id": n, "text": f"Write {n}", "code": "c", "test_list": ["assert a", "assert b"], "test_setup_code": ""}
    for n in range(515)
]
_SANITIZED = [
    {"task_id": n, "prompt": f"Write {n}", "code": "c", "test_imports": [], "test_list": ["assert a"]} for n in range(9)
]
_LC = [
    {"Contest id": n, "text": f"T{n}", "test_list": ["assert x", "assert y"], "Difficulty": "easy" if n % 2 else "hard"}
    for n in range(9)
]

PROGRAMS = [
    Case(
        "HumanevalDataset",
        {"data/humaneval/human-eval-v2-20210705.jsonl": lines(*_HUMAN)},
        {"path": "opencompass/humaneval", "num_repeats": 2},
    ),
    Case("MBPPDataset", {"data/mbpp/mbpp.jsonl": lines(*_MBPP[:12])}, {"path": "opencompass/mbpp"}),
    Case("MBPPDatasetV2", {"data/mbpp/mbpp.jsonl": lines(*_MBPP[:12])}, {"path": "opencompass/mbpp", "num_repeats": 2}),
    Case(
        "SanitizedMBPPDataset",
        {"data/mbpp/sanitized-mbpp.jsonl": lines(*_SANITIZED)},
        {"path": "opencompass/sanitized_mbpp"},
    ),
    Case(
        "MBPPPlusDataset",
        {"data/mbpp_plus/mbpp_plus.jsonl": lines(*_MBPP[:2])},
        {"path": "opencompass/mbpp_plus", "num_repeats": 2},
    ),
    Case(
        "LCDataset",
        {"data/LCBench2023/LCBench.jsonl": lines(*_LC)},
        {"path": "./data/LCBench2023/LCBench.jsonl", "difficulty": "easy"},
    ),
    Case("LCDataset", {"data/LCBench2023/LCBench.jsonl": lines(*_LC)}, {"path": "./data/LCBench2023/LCBench.jsonl"}),
    Case(
        "BigCodeBenchDataset",
        {"data/bigcodebench/BigCodeBench-v0.1.2.jsonl": lines({"task_id": "b/0", "instruct_prompt": "I", "test": "t"})},
        {"path": "opencompass/bigcodebench"},
    ),
    Case(
        "BigCodeBenchDataset",
        {
            "data/bigcodebench/BigCodeBench-Hard-v0.2.jsonl": lines(
                {"task_id": "b/1", "complete_prompt": "C", "test": "t"}
            )
        },
        {"path": "opencompass/bigcodebench", "dataset_version": "hard", "release_version": "v0.2"},
    ),
    Case(
        "HumanevalXDataset",
        {"data/humanevalx/humanevalx_go.jsonl.gz": gzip.compress(lines(*_HUMAN).encode())},
        {"path": "./data/humanevalx", "language": "go"},
    ),
]

# ---- common sense ----

_GRANDE = [
    {"qID": "1", "sentence": "Ann met Sue and _ was glad.", "option1": "Ann", "option2": "Sue", "answer": "2"},
    {"qID": "2", "sentence": "It is _ .", "option1": "a", "option2": "b", "answer": ""},
]
_PIQA = [
    {"id": "0", "goal": "open it", "sol1": "Push", "sol2": "pull"},
    {"id": "1", "goal": "why?", "sol1": "so", "sol2": "Not"},
]
_SIQA = [{"context": "C", "question": "Q", "answerA": "a", "answerB": "b", "answerC": "c"}] * 2
_BOOL = [
    {"question": "is it", "passage": "Title -- text -- more", "label": "true", "idx": 0},
    {"question": "was it", "passage": "T -- no", "label": "false", "idx": 1},
]


def _pairs(folder: str, rows: list[dict[str, Any]], labels: str) -> dict[str, Content]:
    return {
        f"{folder}/{split}{suffix}": text
        for split in ("train", "dev")
        for suffix, text in ((".jsonl", lines(*rows)), ("-labels.lst", labels))
    }


COMMONSENSE = [
    *(
        Case(loader, {"data/winogrande/dev.jsonl": lines(*_GRANDE)}, {"path": "opencompass/winogrande"})
        for loader in ("WinograndeDataset", "WinograndeDatasetV2")
    ),
    Case(
        "WinograndeDatasetV3",
        {"data/winogrande/dev.jsonl": lines(*_GRANDE), "data/winogrande/train_xs.jsonl": lines(_GRANDE[0])},
        {"path": "opencompass/winogrande"},
        splits=("train_xs", "dev"),
    ),
    Case(
        "PIQADataset",
        _pairs("data/piqa", _PIQA, "1\n0\n"),
        {"path": "opencompass/piqa"},
        splits=("train", "validation"),
    ),
    Case(
        "PIQADatasetV2",
        _pairs("data/piqa", _PIQA, "1\n-1\n"),
        {"path": "opencompass/piqa"},
        splits=("train", "validation"),
    ),
    *(
        Case(loader, _pairs("data/siqa", _SIQA, "1\n3\n"), {"path": "opencompass/siqa"}, splits=("train", "validation"))
        for loader in ("siqaDataset", "siqaDataset_V2")
    ),
    Case(
        "BoolQDataset",
        {"data/SuperGLUE/BoolQ/val.jsonl": lines(*_BOOL)},
        {"path": "json", "data_files": "./data/SuperGLUE/BoolQ/val.jsonl", "split": "train"},
    ),
    Case("BoolQDatasetV2", {"data/SuperGLUE/BoolQ/val.jsonl": lines(*_BOOL)}, {"path": "opencompass/boolq"}),
    Case(
        "BoolQDatasetV3", {"data/SuperGLUE/BoolQ/val.jsonl": lines(*_BOOL)}, {"path": "data/SuperGLUE/BoolQ/val.jsonl"}
    ),
    Case(
        "WiCDataset",
        {"data/SuperGLUE/WiC/val.jsonl": lines({"word": "w", "label": "false"}, {"word": "v", "label": "true"})},
        {"path": "json", "data_files": "./data/SuperGLUE/WiC/val.jsonl", "split": "train"},
    ),
    Case(
        "WiCDatasetV2",
        {"data/SuperGLUE/WiC/val.jsonl": lines({"word": "w", "label": "false"})},
        {"path": "./data/SuperGLUE/WiC/val.jsonl"},
    ),
]

# ---- CLUE, FewCLUE, SuperGLUE ----

_PAIRS = [
    {"sentence1": "一", "sentence2": "二", "label": label} for label in ("entailment", "-", "neutral", "contradiction")
]
_WSC = [
    {
        "target": {"span2_index": 3, "span1_index": 0, "span1_text": "小明", "span2_text": "他"},
        "idx": 0,
        "label": label,
        "text": "小明说他来",
    }
    for label in ("true", "false")
]
_CHID = [
    {
        "id": 0,
        "candidates": ["一二", "三四", "五六", "七八", "九十", "十一", "十二"],
        "content": "前#idiom#后#idiom#",
        "answer": 4,
    }
]
_NEWS = [
    {"label": "102", "label_desc": label, "sentence": "新闻", "keywords": "", "id": 0}
    for label in ("news_car", "news_stock")
]
_CSL = [{"id": 1, "abst": "摘要", "keyword": ["甲", "乙"], "label": label} for label in ("1", "0")]


def _listed(loader: str, file: str, *rows: dict[str, Any]) -> Case:
    return Case(loader, {file: lines(*rows)}, {"path": "json", "data_files": f"./{file}", "split": "train"})


def _alone(loader: str, file: str, *rows: dict[str, Any], path: str = "") -> Case:
    return Case(loader, {file: lines(*rows)}, {"path": path or f"./{file}"})


CHINESE = [
    _alone("CMNLIDataset", "data/CLUE/cmnli/cmnli_public/dev.json", *_PAIRS, path="opencompass/cmnli-dev"),
    _alone("CMNLIDatasetV2", "data/CLUE/OCNLI/dev.json", *_PAIRS, path="opencompass/OCNLI-dev"),
    _alone(
        "AFQMCDatasetV2",
        "data/CLUE/AFQMC/dev.json",
        {"sentence1": "一", "sentence2": "二", "label": "1"},
        path="opencompass/afqmc-dev",
    ),
    _alone(
        "AXDatasetV2",
        "data/SuperGLUE/AX-b/AX-b.jsonl",
        {"sentence1": "a", "label": "not_entailment"},
        {"sentence1": "b", "label": "entailment"},
    ),
    _listed("CluewscDataset", "data/FewCLUE/cluewsc/dev_few_all.json", *_WSC),
    _listed("CHIDDataset", "data/FewCLUE/chid/dev_few_all.json", *_CHID),
    _listed("TNewsDataset", "data/FewCLUE/tnews/dev_few_all.json", *_NEWS),
    _listed("CslDataset", "data/FewCLUE/csl/dev_few_all.json", *_CSL),
    _alone(
        "EprstmtDatasetV2", "data/FewCLUE/eprstmt/test_public.json", {"id": 0, "sentence": "好", "label": "Positive"}
    ),
]

# ---- texts ----

_SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": "文",
                    "qas": [
                        {"question": "问", "answers": [{"text": "答"}, {"text": "答"}]},
                        {"question": "二", "answers": [{"text": "三"}]},
                    ],
                }
            ]
        }
    ]
}
_LONG = [
    {
        "input": "I",
        "context": "C",
        "answers": ["a", "b"],
        "length": 5,
        "dataset": "d",
        "language": "en",
        "all_classes": ["x", "y"],
        "_id": "1",
    }
]
_NQ = "who is it\t[\"Ann\", 'B\"b']\nwhen\t['1']\n"

TEXTS = [
    Case(
        "NaturalQuestionDataset",
        {f"data/nq/nq-{split}.qa.csv": _NQ.replace('"', "'").replace("B'b", "Bb") for split in ("dev", "test")},
        {"path": "opencompass/natural_question"},
        splits=("dev", "test"),
    ),
    Case(
        "TriviaQADataset",
        {f"data/triviaqa/trivia-{split}.qa.csv": _NQ for split in ("dev", "test")},
        {"path": "opencompass/trivia_qa"},
        splits=("test", "dev"),
    ),
    Case(
        "NQOpenDataset",
        {
            f"data/nq-open/nq-open-{split}.jsonl": lines({"question": "q", "answer": ["a", "b"]})
            for split in ("validation", "train")
        },
        {"path": "opencompass/nq_open"},
        splits=("train", "validation"),
    ),
    Case(
        "TriviaQADatasetV2",
        {
            f"data/triviaqa/triviaqa-{split}.jsonl": lines({"question": "q", "answer": ["a", "b"]})
            for split in ("validation", "train")
        },
        {"path": "opencompass/trivia_qa"},
        splits=("train", "validation"),
    ),
    _alone("TriviaQADatasetV3", "data/triviaqa/one.jsonl", {"question": "q", "answer": ["a"]}),
    _alone("JsonlDataset", "data/mine.jsonl", {"a": 1, "b": "x"}, {"a": 2, "b": None}),
    *(
        Case(loader, {f"data/CLUE/{name}/dev.json": json.dumps(_SQUAD)}, {"path": f"opencompass/{name.lower()}_dev"})
        for loader, name in (("CMRCDataset", "CMRC"), ("DRCDDataset", "DRCD"))
    ),
    Case(
        "DropOpenAIDataset",
        {"data/drop_simple_eval/dev.jsonl": lines({"context": "C", "ref_text": "a|b", "completion": "x"})},
        {"path": "data/drop_simple_eval/dev.jsonl"},
        splits=("validation", "validation"),
    ),
    Case(
        "lambadaDataset",
        {"data/lambada/test.jsonl": lines({"prompt": "P", "label": "L"})},
        {"path": "opencompass/lambada"},
        splits=("test", "test"),
    ),
    Case(
        "lambadaDataset",
        {"ais_bench/datasets/lambada/test.jsonl": lines({"prompt": "P", "label": "L"})},
        {"path": "ais_bench/datasets/lambada"},
        "ais_bench",
        ("test", "test"),
    ),
    _alone(
        "IFEvalDataset",
        "data/ifeval/input_data.jsonl",
        {"key": 1, "prompt": "P", "instruction_id_list": ["i"], "kwargs": [{"n": 2}]},
        path="opencompass/IFEval",
    ),
    _alone(
        "XsumDataset",
        "data/Xsum/dev.jsonl",
        {"dialogue": "D", "summary": "S", "id": 1},
        {"dialogue": float("nan"), "summary": "S"},
        path="opencompass/xsum",
    ),
    Case(
        "XsumDataset",
        {"ais_bench/datasets/Xsum/dev.jsonl": lines({"dialogue": "D", "summary": "S"})},
        {"path": "ais_bench/datasets/Xsum"},
        "ais_bench",
    ),
    Case(
        "LCSTSDataset",
        {"data/LCSTS/test.src.txt": " 文一\n文二 \n", "data/LCSTS/test.tgt.txt": "摘一\n摘二\n"},
        {"path": "opencompass/LCSTS"},
    ),
    *(
        Case(
            f"LongBench{task}Dataset",
            {f"data/Longbench/data/{name}.jsonl": lines(*_LONG)},
            {"path": "opencompass/Longbench", "name": name},
            splits=("test", "test"),
        )
        for task, name in (
            ("2wikimqa", "2wikimqa"),
            ("gov_report", "gov_report"),
            ("trec", "trec"),
            ("repobench", "repobench-p"),
        )
    ),
    Case(
        "LongBenchv2Dataset",
        {
            "data/longbenchv2/data.json": json.dumps(
                [
                    {
                        "_id": "1",
                        **{
                            name: name
                            for name in (
                                "domain",
                                "difficulty",
                                "length",
                                "question",
                                "choice_A",
                                "choice_B",
                                "choice_C",
                                "choice_D",
                                "answer",
                                "context",
                            )
                        },
                    }
                ]
            )
        },
        {"path": "opencompass/longbenchv2"},
    ),
]

# ---- science and functions ----

_MOL = [{"input": f"i{n}", "output": f"o{n}", "instruction": "x"} for n in range(160)]
_SMOL = [{"input": f"i{n}", "output": "o", "task": "name" if n % 2 else "other"} for n in range(6)]
_CALLS = [
    {"id": f"simple_{n}", "question": [[{"role": "user", "content": "c"}]], "function": [{"name": "f"}]}
    for n in range(2)
]

SCIENCE = [
    *(
        Case(
            loader,
            {
                "data/SciReasoner/Mol-Instructions-test/T/dev/data.json": json.dumps(_MOL[:7]),
                "data/SciReasoner/Mol-Instructions-test/T/test/data.json": json.dumps(_MOL),
            },
            {"path": "opencompass/SciReasoner-Mol_Instructions", "task": "T", **more},
        )
        for loader, more in (
            ("Mol_Instructions_Dataset", {"mini_set": True}),
            ("LLM4ChemDataset", {"max_cut": 3}),
            ("Mol_Instructions_Dataset_BioText", {"mini_set": True, "max_cut": 5}),
        )
    ),
    Case(
        "SmolInstructDataset",
        {f"data/smol/{split}.jsonl": lines(*_SMOL) for split in ("train", "validation", "test")},
        {"path": "data/smol", "name": "name"},
        splits=("validation", "test"),
    ),
    Case(
        "MRCRDataset",
        {
            "data/mrcr/2needle_in_8/test.jsonl": lines(
                {"context": "C", "question": "Prepend xY7 to the poem", "answers": ["xY7 poem"]},
                {"context": "C", "question": "Q", "answers": ["a"]},
            )
        },
        {"path": "data/mrcr", "subset": "2needle_in_8"},
    ),
    Case(
        "HLEDataset",
        {
            "data/hle/test.jsonl": lines(
                {"question": "Q", "image": "", "answer": "a", "category": "Math"},
                {"question": "R", "image": "data:", "answer": "b", "category": "Math"},
                {"question": "S", "image": "", "answer": "c", "category": "Law"},
            )
        },
        {"path": "data/hle", "category": "Math"},
    ),
    Case(
        "MedmcqaDataset",
        {
            "data/medmcqa/validation.jsonl": lines(
                {"question": "Q", "opa": "a", "opb": "b", "opc": "c", "opd": "d", "cop": 2, "subject_name": "Gen_Med"}
            )
        },
        {"path": "data/medmcqa", "prompt_mode": "zero-shot"},
    ),
    *(
        Case(
            "BFCLDataset",
            {
                f"ais_bench/datasets/bfcl/BFCL_v3_{name}.json": lines(*_CALLS),
                f"ais_bench/datasets/bfcl/possible_answer/BFCL_v3_{name}.json": lines(
                    *({"id": row["id"], "ground_truth": [{"f": {}}]} for row in _CALLS)
                ),
            },
            {"path": "ais_bench/datasets/bfcl", "category": name, **more},
            "ais_bench",
        )
        for name, more in (("simple", {}), ("irrelevance", {"test_ids": ["simple_1"]}))
    ),
]

CUSTOM = [
    Case(
        "CustomDataset",
        {"data/mine/x.csv": '\ufeffquestion,A,answer\n"Q, 1",a,A\nR,b,B\n'},
        {"path": "data/mine", "file_name": "x.csv"},
    ),
    Case(
        "CustomDataset",
        {"data/mine/x.jsonl": lines({"question": "Q", "max_tokens": 5}, {"question": "R"})},
        {"path": "data/mine/x.jsonl"},
        "ais_bench",
    ),
    Case(
        "CodeCustomDataset",
        {"data/mine/x.jsonl": lines({"question": "Q"})},
        {"path": "data/mine/x.jsonl", "num_repeats": 3},
    ),
    Case(
        "HFDataset",
        {"data/t/a.csv": "q,n,f,w,e\nx,1,1.5,True,\ny,2,2,False,3\n"},
        {"path": "csv", "data_files": "./data/t/a.csv", "split": "train"},
    ),
]

CASES = [*EXAMS, *OPTIONS, *MATHS, *PROGRAMS, *COMMONSENSE, *CHINESE, *TEXTS, *SCIENCE, *CUSTOM, *MORE_CASES]
