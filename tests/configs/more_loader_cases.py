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
_MULTIRC = {
    "passage": {
        "text": "T",
        "questions": [{"question": "Q", "answers": [{"text": "a", "label": 1}, {"text": "b", "label": 0}]}],
    }
}
_RECORD = {
    "passage": {"text": "A\n\n@highlight\nB", "entities": []},
    "qas": [{"query": "Is @placeholder it", "answers": [{"text": "x"}, {"text": "y"}]}],
}


def _alone(loader: str, file: str, *rows: Any, path: str = "", **options: Any) -> Case:
    return Case(loader, {file: lines(*rows)}, {"path": path or f"./{file}", **options})


SUPERGLUE = [
    Case(
        "WSCDataset",
        {"data/SuperGLUE/WSC/val.jsonl": lines(*_WSC)},
        {"path": "json", "data_files": "./data/SuperGLUE/WSC/val.jsonl", "split": "train"},
    ),
    _alone("WSCDatasetV2", "data/SuperGLUE/WSC/val.jsonl", *_WSC),
    _alone("WSCDatasetV3", "data/SuperGLUE/WSC/val.jsonl", *_WSC),
    _alone(
        "COPADatasetV2", "data/SuperGLUE/COPA/val.jsonl", {"premise": "p", "label": 1}, {"premise": "q", "label": 0}
    ),
    _alone("CBDatasetV2", "data/SuperGLUE/CB/val.jsonl", {"premise": "p", "label": "entailment"}),
    _alone("AnliDataset", "data/anli/anli_v1.0/R1/dev.jsonl", {"context": "c", "label": "n"}),
    _alone(
        "SummeditsDataset_V2", "data/summedits/summedits.jsonl", {"doc": "d", "label": 1}, path="opencompass/summedits"
    ),
    _alone("MultiRCDataset", "data/SuperGLUE/MultiRC/val.jsonl", _MULTIRC),
    _alone("MultiRCDatasetV2", "data/SuperGLUE/MultiRC/val.jsonl", _MULTIRC),
    _alone("ReCoRDDataset", "data/SuperGLUE/ReCoRD/val.jsonl", _RECORD),
    _alone("ReCoRDDatasetV2", "data/SuperGLUE/ReCoRD/val.jsonl", _RECORD),
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
_INFINITE = {
    "context": "C",
    "input": "What does func_12(-3) give?",
    "answer": ["two"],
    "options": ["one", "two", "three", "four"],
    "id": 0,
}
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
_WEB = {
    "Data": [
        {
            "Answer": {"Aliases": ["a", "b"], "HumanAnswers": ["c"]},
            "Question": "Q",
            "SearchResults": [{"Filename": "1.txt"}],
            "EntityPages": [],
        }
    ]
}
_REPORT = {
    "title": "T",
    "reports": {
        "subsections": [{"section_title": None, "paragraphs": ["p1", "p2"]}, {"section_title": "S", "paragraphs": []}]
    },
    "summary": ["one", "two"],
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
    *(
        _alone(f"InfiniteBench{task}Dataset", f"data/InfiniteBench/{task}.jsonl", _INFINITE)
        for task in ("enqa", "retrievekv", "ensum", "enmc", "coderun")
    ),
    *(
        Case(
            loader,
            {"data/QASPER/qasper-dev-v0.3.json": json.dumps(_QASPER)},
            {"path": "./data/QASPER/"},
            splits=("dev", "dev"),
        )
        for loader in ("QASPERDataset", "QASPERCUTDataset")
    ),
    Case(
        "NarrativeQADataset",
        {
            "data/narrativeqa/qaps.csv": "document_id,set,question,answer1,answer2,q,a,b\n"
            'd1,valid,"Q, 1",a1,a2,x,y,z\nd1,test,Q2,b1,b2,x,y,z\nd2,test,Q3,c1,c2,x,y,z\n',
            "data/narrativeqa/tmp/d1.content": "A story.\r\nThe end.",
        },
        {"path": "./data/narrativeqa/"},
        splits=("valid", "test"),
    ),
    Case(
        "TriviaQArcDataset",
        {
            "data/triviaqa-rc/qa/verified-web-dev.json": json.dumps(_WEB),
            "data/triviaqa-rc/qa/verified-wikipedia-dev.json": json.dumps(_WEB),
            "data/triviaqa-rc/evidence/web/1.txt": "page",
        },
        {"path": "./data/triviaqa-rc/"},
        splits=("dev", "dev"),
    ),
    Case(
        "GovRepcrsDataset",
        {
            **{f"data/govrep/gov-report/split_ids/crs_{split}.ids": "R1\n" for split in ("train", "valid", "test")},
            "data/govrep/gov-report/crs/R1.json": json.dumps(_REPORT),
        },
        {"path": "./data/govrep/"},
    ),
]

# ---- knowledge ----

_SQUAD2 = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": "C",
                    "qas": [
                        {"question": "Q1", "is_impossible": False, "answers": [{"text": "a"}, {"text": "a"}]},
                        {"question": "Q2", "is_impossible": True, "answers": [], "plausible_answers": [{"text": "p"}]},
                    ],
                }
            ]
        }
    ]
}
_NO_DATE = {"day": "", "month": "", "year": ""}
_DROP = {
    "p1": {
        "passage": "P",
        "qa_pairs": [
            {"question": "Q1", "validated_answers": [{"number": "3", "date": _NO_DATE, "spans": []}]},
            {
                "question": "Q2",
                "validated_answers": [{"number": "", "date": {**_NO_DATE, "year": "1990"}, "spans": []}],
            },
            {"question": "Q3", "validated_answers": [{"number": "", "date": _NO_DATE, "spans": ["only"]}]},
        ],
    }
}
_STORY = {**{f"input_sentence_{n}": f"S{n}." for n in range(1, 5)}, "sentence_quiz1": "a", "answer_right_ending": 2}
_C3 = [[["一。", "二。"], [{"question": "问", "choice": ["甲", "乙", "丙"], "answer": "乙"}], "id"]]
_XIEZHI = [
    {"question": "Q", "options": 'a\nb\nc\nd"\n', "answer": "c", "labels": ["x", "long"], "label": ["x", "long"]},
    {"question": "R", "options": "a\nb", "answer": "a", "labels": ["x"], "label": ["x"]},
]
_CHEM = [{"question": "Q", "A": "a", "B": "b", "C": "c", "D": "d", "answer": "B", "more": 1}]
_FLORES = {f"data/flores_first100/{split}/{language}.{split}": f"{language} one\n{language} two \n" for split in ("dev", "devtest") for language in ("eng", "deu")}  # fmt: skip

KNOWLEDGE = [
    Case(
        "SQuAD20Dataset",
        {"data/SQuAD2.0/dev-v2.0.json": json.dumps(_SQUAD2)},
        {"path": "./data/SQuAD2.0/dev-v2.0.json"},
    ),
    Case(
        "TydiQADataset",
        {"data/tydiqa/dev/finnish-dev.jsonl": lines({"question": "q", "answers": [{"text": "a"}, {"text": "a"}]})},
        {"path": "opencompass/tydiqa", "lang": "finnish"},
    ),
    *(
        Case(
            "dropDataset",
            {"data/drop/drop_dataset_dev.json": json.dumps(_DROP)},
            {"path": "./data/drop/drop_dataset_dev.json", **more},
            splits=("validation", "validation"),
        )
        for more in ({}, {"only_number": False})
    ),
    *(
        Case(
            loader,
            {f"data/xstory_cloze/en_{split}.jsonl": lines(_STORY) for split in ("train", "eval")},
            {"path": "opencompass/xstory_cloze", "lang": "en"},
            splits=("test", "test"),
        )
        for loader in ("StoryClozeDataset", "StoryClozeDatasetV2")
    ),
    *(
        Case(loader, {"data/CLUE/C3/dev_0.json": json.dumps(_C3)}, {"path": "./data/CLUE/C3/dev_0.json"})
        for loader in ("C3Dataset", "C3Dataset_V2")
    ),
    *(
        Case(
            "XiezhiDataset",
            {f"data/xiezhi/{folder}/xiezhi.v1.json": lines(*_XIEZHI) for folder in (name, train)},
            {"path": "./data/xiezhi/", "name": name},
        )
        for name, train in (("xiezhi_inter_chn", "xiezhi_train_chn"), ("xiezhi_spec_eng", "xiezhi_train_eng"))
    ),
    Case(
        "ChemBenchDataset",
        {f"data/ChemBench/{split}/Name_benchmark.json": json.dumps(_CHEM) for split in ("dev", "test")},
        {"path": "opencompass/ChemBench", "name": "Name"},
        splits=("dev", "test"),
    ),
    Case(
        "StrategyQADataset",
        {"data/strategyqa/strategyQA_train.json": json.dumps([{"question": "q", "answer": True}])},
        {"path": "opencompass/strategy_qa"},
    ),
    Case(
        "LawBenchDataset",
        {"data/lawbench/zero_shot/1-1.json": json.dumps([{"instruction": "i", "question": "q", "answer": "a"}])},
        {"path": "./data/lawbench/zero_shot", "index": "1-1"},
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
        "HumanevalevalProDataset",
        {"data/humaneval_pro/humaneval_pro.json": json.dumps([{"id": 0, "raw_problem": "p"}])},
        {"path": "opencompass/humaneval_pro"},
    ),
    _alone("MBPPProDataset", "data/mbpp_pro/mbpp_pro.json", {"id": 0}, {"id": 1}, path="opencompass/mbpp_pro"),
    Case(
        "FloresFirst100Dataset", _FLORES, {"path": "opencompass/flores", "name": "eng-deu"}, splits=("dev", "devtest")
    ),
    *(
        Case(
            f"PMMEval{task}Dataset", {f"data/P-MMEval/{folder}.jsonl": lines({"a": 1})}, {"path": "P-MMEval", **options}
        )
        for task, folder, options in (
            ("Flores", "flores/test/German", {"lang_fullname": "German"}),
            *(
                (task, f"{task.lower()}/test/de", {"lang": "de"})
                for task in ("MGSM", "MHellaswag", "MIFEval", "MLogiQA", "XNLI")
            ),
            ("HumanEvalXL", "humaneval-xl/test/python/de", {"lang": "de", "program_lang": "python"}),
            ("MMMLU", "mmmlu/hard/test/mmlu_de", {"lang": "de", "difficulty": "hard"}),
        )
    ),
    Case(
        "MMMLULiteDataset",
        {"data/mmmlu_lite/DE-DE/test.jsonl": lines({"Question": "q"})},
        {"path": "opencompass/mmmlu_lite", "name": "openai_mmmlu_lite_DE-DE"},
        splits=("test", "test"),
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
    _alone(
        "SVAMPDataset",
        "data/svamp/SVAMP.jsonl",
        {"Body": "B.", "Question": "Q?", "Answer": 3.0},
        path="opencompass/SVAMP",
    ),
    _alone(
        "GSMHardDataset", "data/gsm-hard/test.jsonl", {"input": "i", "target": 2.5}, path="./data/gsm-hard/test.jsonl"
    ),
    Case(
        "ScibenchDataset",
        {"data/scibench/atkins.json": json.dumps([{"problem_text": " P ", "answer_number": " 1 "}])},
        {"path": "./data/scibench", "name": "atkins"},
    ),
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
_CHOICES = {"text": list("vwxyz"), "label": list("ABCDE")}
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
    _alone("CrowspairsDatasetCN", "data/crowspairs_cn/test.jsonl", _PAIR),
    Case(
        "CommonsenseQADataset_CN",
        {
            "data/cn.jsonl": lines(
                {"id": 1, "question": "q", "question_concept": "c", "choices": _CHOICES, "answerKey": "A"}
            )
        },
        {"path": "./data/cn.jsonl"},
        splits=("train", "validation"),
    ),
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
        "PhyBenchDataset",
        {"data/phybench/PHYBench-fullques_v1.json": json.dumps([{"id": 1, "content": "c", "answer": "a"}])},
        {"path": "opencompass/PHYBench"},
    ),
    Case(
        "MatbenchDataset",
        {"data/Matbench/matbench_base_fold_0_glass_test.json": json.dumps([{"problem": "p", "answer": 1, "x": 2}])},
        {"path": "opencompass/Matbench", "task": "glass"},
    ),
    Case(
        "MastermathDatasetv1",
        {"data/mm/m.csv": "id,question,A,B,C,D,answer\n1,q,a,b,c,d,B\n"},
        {"path": "data/mm", "name": "m.csv"},
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
