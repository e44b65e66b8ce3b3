"""The forms in which evaluators of the homes expect the right answers, and columns that they read beside it."""

import json

from more_gold_forms import COLUMNS as MORE_COLUMNS, ENTRY_FORMS, FORMS as MORE_FORMS, REPLIES, VERDICTS

PATTERNS = ("ABCD", "BCDA", "CDAB", "DABC")
FORMULAS = ("12", "\\frac{1}{2}", "3\\sqrt{2}", "x^2+1")
LETTERED = ("option", "capital", "mcq", "match_answer_pattern", "letter", "choice")
NUMBERED = ("gsm8k", "mgsm", "number", "gsm100")


def gold_for(entry):
    """A function from a row's number to the right answer that an entry's evaluator can read; None: any text will do."""
    evaluation = entry.get("eval_cfg") or {}
    config = evaluator_of(entry)
    evaluator, cleanup = _last(config), _last(evaluation.get("pred_postprocessor"))
    known = {**FORMS, **MORE_FORMS}
    if evaluator in ENTRY_FORMS:
        return lambda row: ENTRY_FORMS[evaluator](row, entry)
    if evaluator in known:
        return lambda row: known[evaluator](row, config)
    if "numerical" in _last(config.get("dict_postprocessor")):
        return lambda row: row + 0.5
    if (entry.get("reader_cfg") or {}).get("output_column") in ("judge", "judgement"):
        return _judged
    if "gsm8k" in _last(evaluation.get("dataset_postprocessor")):
        return _worked_number
    if any(word in cleanup for word in NUMBERED):
        return lambda row: str(12 + row)
    if "math" in cleanup.lower() or "MATH" in evaluator:
        return lambda row: FORMULAS[row % 4]
    if any(word in cleanup for word in LETTERED):
        return lambda row: PATTERNS[0][row % 4]
    return None


def columns_for(entry):
    """Columns that an evaluator reads from the rows without being named by the reader."""
    return {**COLUMNS, **MORE_COLUMNS}.get(_last(evaluator_of(entry)), {})


def evaluator_of(entry):
    """The config of an entry's evaluator; of a cascade, that of its rule."""
    config = (entry.get("eval_cfg") or {}).get("evaluator") or {}
    return config.get("rule_evaluator") or config if isinstance(config, dict) else {}


def replies_for(entry):
    """The forms of replies that an entry's evaluator reads, if it reads only such; None: any will do."""
    return REPLIES.get(_last(evaluator_of(entry)))


def verdict_for(entry):
    """What a judge says of an entry's replies, if its post-processor reads only such; None: any will do."""
    config = (entry.get("eval_cfg") or {}).get("evaluator") or {}
    return VERDICTS.get(_last(config.get("dict_postprocessor"))) if isinstance(config, dict) else None


def _last(config):
    kind = config.get("type", "") if isinstance(config, dict) else ""
    return str(kind).rpartition(".")[2]


def _worked_number(row, config=None):
    return f"2 and {10 + row} are {12 + row}.\n#### {12 + row}"


def _judged(row):
    """What subjective datasets group their figures by."""
    kinds = {name: ["writing", "maps"][row % 2] for name in ("category", "capability", "task", "format_type", "domain")}
    return {
        **kinds,
        "question": f"question {row}",
        "question_id": row,
        "lan": "en",
        "ref": f"river {row}",
        "multi_id": row,
        "difficulty": ["easy", "hard"][row % 2],
        "level": 1,
        "domain1": ["Law", "Finance"][row % 2],
        "num_checklist": 7,
        "subcategory": "travel",
        "primary_tag": "Math",
        "secondary_tag": ["Planning"],
    }


def _paragraph(row, config):
    return [f"段落{row + 1}" if config.get("language") == "zh" else f"Paragraph {row + 1}"]


def _circular(row, config):
    pattern = PATTERNS[row % 4]
    return f"{row // 4}--{'ABCD'[pattern.index('A')]}--{pattern}"


def _instructions(row, config):
    return {
        "key": row,
        "prompt": "Write without commas.",
        "instruction_id_list": ["punctuation:no_comma"],
        "kwargs": [{"num_words": None}],
    }


def _function_tests(row, config):
    return {"test_list_2": "assert add(1, 2) == 3", "task_id": row}


def _io_tests(row, config):
    return json.dumps({"inputs": ["1 2\n"], "outputs": ["3\n"], "fn_name": None})


def _function_call(row, config):
    return json.dumps([{"add": {"a": [row], "b": [2]}}])


def _shown_choices(row, config):
    return {
        "answer": "ABCD"[row % 4],
        "choices": json.dumps({"A": "river", "B": "stream", "C": "lake", "D": "sea"}),
        "category": ["nature", "maps"][row % 2],
    }


def _of_a_video(row, config):
    told = {
        "duration": ["short", "long"][row % 2],
        "domain": "Sports",
        "sub_category": "Football",
        "task_type": "Counting",
    }
    return {"answer": "ABCD"[row % 4], **told}


FORMS = {
    "BFCLSingleTurnEvaluator": _function_call,
    "BFCLMultiTurnEvaluator": lambda row, config: json.dumps([[f"add(a={row}, b=2)"]]),
    "MMStarEvaluator": _shown_choices,
    "MMMUProEvaluator": lambda row, config: json.dumps([{"A": "river", "B": "stream"}, "AB"[row % 2], "Art"]),
    "MMMUProCotEvaluator": lambda row, config: json.dumps([{"A": "river", "B": "stream"}, "AB"[row % 2], "Art"]),
    "TEXTEvaluator": lambda row, config: [{"answer": f"river {row}"}] * 5,
    "TEXTEvaluatorForGlm4v": lambda row, config: [{"answer": f"river {row}"}] * 5,
    "VideoBenchEvaluator": lambda row, config: {"answer": "ABCD"[row % 4]},
    "VideoMMEEvaluator": _of_a_video,
    "DocVQAEvaluator": lambda row, config: [f"river {row}"],
    "InfoVQAEvaluator": lambda row, config: [f"river {row}"],
    "Gsm8kEvaluator": _worked_number,
    "NeedleBenchOriginEvaluator": lambda row, config: f"The hidden word is word{row}.*word{row}",
    "NeedleBenchParallelEvaluator": lambda row, config: f"word{row}*name{row}#10*50",
    "NeedleBenchMultiEvaluator": lambda row, config: f"word{row}*word{row}",
    "LongBenchRetrievalEvaluator": _paragraph,
    "LongBenchClassificationEvaluator": lambda row, config: {
        "answers": [["sport", "music"][row % 2]],
        "all_classes": ["sport", "music", "law"],
    },
    "LongBenchCountEvaluator": lambda row, config: [str(row + 3)],
    "LongBenchF1Evaluator": lambda row, config: [f"the river number {row}"],
    "LongBenchRougeEvaluator": lambda row, config: [f"a long way to the river {row}"],
    "LongBenchCodeSimEvaluator": lambda row, config: [f"value = {row}"],
    "CircularEvaluator": _circular,
    "EMEvaluator": lambda row, config: [f"river {row}", f"stream {row}"],
    "SquadEvaluator": lambda row, config: [f"river {row}", f"stream {row}"],
    "TriviaQAEvaluator": lambda row, config: [f"river {row}", f"stream {row}"],
    "NQEvaluator": lambda row, config: [f"river {row}", f"stream {row}"],
    "AccDropEvaluator": lambda row, config: "AB"[row % 2],
    "AccContaminationEvaluator": lambda row, config: "ABCD"[row % 4],
    "NQEvaluatorCN": lambda row, config: [f"river {row}", f"stream {row}"],
    "SQuAD20Evaluator": lambda row, config: [f"river {row}", f"stream {row}"],
    "TabMWPEvaluator": lambda row, config: {"answer": str(row + 12), "unit": None, "choices": None},
    "JudgeEvaluator": lambda row, config: {"winner": "AB"[row % 2]},
    "ZebraLogicGridEvaluator": lambda row, config: {"header": ["House"], "rows": [[str(row)]]},
    "OpenSWIMSEEvaluator": lambda row, config: [row + 0.5, row + 1.5],
    "MatbenchEvaluator_classification": lambda row, config: row % 2 == 0,
    "SuperGPQAEvaluator": lambda row, config: "ABCD"[row % 4],
    "TydiQAEvaluator": lambda row, config: [f"river {row}", f"stream {row}"],
    "IFEvaluator": _instructions,
    "IFBenchEvaluator": _instructions,
    "LCBCodeExecutionEvaluator": lambda row, config: json.dumps(
        {"code": "def add(a, b):\n    return a + b", "input": "add(1, 2)", "output": "3"}
    ),
    "LCBTestOutputEvaluator": lambda row, config: json.dumps({"output": "3", "testtype": "functional"}),
    "PMMEvalMIFEvalEvaluator": lambda row, config: "punctuation:no_comma, {}",
    "DropOpenAIEvaluator": lambda row, config: f"river {row}|stream {row}",
    "MRCREvaluator": lambda row, config: json.dumps({"answer": f"p{row} a poem", "prefix": f"p{row} "}),
    "RMSEEvaluator": lambda row, config: f"<NUMBER> {row + 0.5} </NUMBER>",
    "MAEEvaluator": lambda row, config: str(row + 0.5),
    "ARCPrizeEvaluator": lambda row, config: [[1, row], [3, 4]],
    "PMMEvalMLogiQAEvaluator": lambda row, config: str(row % 4),
    "PMMEvalMHellaswagEvaluator": lambda row, config: str(row % 4),
    "MBPPEvaluator": lambda row, config: (
        f"Mbpp/{10 + row % 8}" if config.get("metric") == "MBPPPlus" else "assert add(1, 2) == 3"
    ),
    "MBPPPassKEvaluator": _function_tests,
    "LCPassKEvaluator": _function_tests,
    "LCBCodeGenerationEvaluator": lambda row, config: f"task {row}",
    "HumanEvalEvaluator": lambda row, config: f"HumanEval/{row}",
    "HumanEvalPlusEvaluator": lambda row, config: f"HumanEval/{10 + row % 8}",
    "RulerNiahEvaluator": lambda row, config: [f"word{row}", f"name{row}"],
    "RulerCweEvaluator": lambda row, config: [f"word{row}", f"name{row}"],
    "RulerVtEvaluator": lambda row, config: [f"word{row}", f"name{row}"],
    "RulerFweEvaluator": lambda row, config: [f"word{row}", f"name{row}"],
    "RulerQaEvaluator": lambda row, config: [f"word{row}", f"name{row}"],
    "AUCROCEvaluator": lambda row, config: row % 2,
    "MccEvaluator": lambda row, config: ["yes", "no"][row % 2],
    "EDAccEvaluator": lambda row, config: {"candidates": [["river"], ["stream"]], "label": row % 2},
}
CLEAN = ("clean", "input contamination", "input-and-label contamination")
FUNCTIONS = [{"name": "add", "description": "Add.", "parameters": {"type": "dict", "properties": {}, "required": []}}]
COLUMNS = {
    "BFCLSingleTurnEvaluator": {"function": lambda row: json.dumps(FUNCTIONS), "id": lambda row: f"simple_{row}"},
    "BFCLMultiTurnEvaluator": {
        "function": lambda row: json.dumps(FUNCTIONS),
        "id": lambda row: f"multi_turn_base_{row}",
    },
    "OptionSimAccEvaluator": {letter: lambda row, letter=letter: f"choice {letter} of {row}" for letter in "ABCD"},
    "AccContaminationEvaluator": {"is_clean": lambda row: CLEAN[row % 3]},
    "LCBCodeGenerationEvaluator": {"evaluation_sample": lambda row: _io_tests(row, None)},
    "HumanEvalEvaluator": {
        "test": lambda row: "def check(candidate):\n    assert candidate(1, 2) == 3\n",
        "entry_point": lambda row: "add",
        "prompt": lambda row: "def add(a, b):\n",
    },
    "TACOEvaluator": {"input_output": lambda row: _io_tests(row, None)},
    "APPSEvaluator": {"input_output": lambda row: _io_tests(row, None)},
    "SuperGPQAEvaluator": {
        "options": lambda row: ["river", "stream", "lake", "sea"],
        "prompt_mode": lambda row: "zero-shot",
        "difficulty": lambda row: ["easy", "middle", "hard"][row % 3],
        "answer_letter": lambda row: "ABCD"[row % 4],
    },
    "korbenchEvaluator": {
        "prompt_mode": lambda row: "0_shot",
        "category": lambda row: "logic",
        "rule_id": lambda row: str(row + 1),
    },
    "QuALITYEvaluator": {"difficult": lambda row: row % 2},
    "SciKnowEvalEvaluator": {"prompt_mode": lambda row: "mcq"},
    "LiveMathBenchEvaluator": {
        "subdivision": lambda row: "made_up",
        "question": lambda row: f"What is {row} and 2?",
        "idx": lambda row: row,
    },
    "LongBenchv2Evaluator": {
        "difficulty": lambda row: ["easy", "hard"][row % 2],
        "length": lambda row: ["short", "long"][row % 2],
    },
}
