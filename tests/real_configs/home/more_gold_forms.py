"""Right answers, columns, replies and judges' verdicts in the forms that further evaluators read: science, graphs, judges."""

import json

MOLECULES = ("CCO", "c1ccccc1", "CC(=O)O", "CCN")
WORDS = ("yes", "no")
ROUNDS = 3
SAID = ("BAS-", "CB-B", "CORR", "EAE")
"""Tasks of CaLM whose answers are yes and no."""


def yes_or_no(row, config):
    return WORDS[row % 2]


def number(row, config):
    return row + 0.5


def _molecule(row, config):
    if "property_prediction" in str(config.get("task")):
        return f"<BOOLEAN> {['Yes', 'No'][row % 2]} </BOOLEAN>"
    return f"<SMILES> {MOLECULES[row % 4]} </SMILES>"


def _box(row, config):
    return {"image_width": 640, "image_height": 480, "bbox": [64, 48, 320 + row, 240]}


def _graph(row, config):
    return "2####\np edge 3 2\ne 1 2\ne 2 3"


def _sorted_numbers(row, config):
    return f"2####\n{json.dumps({'array': [1, 3, 5, 7], 'target': 3})}"


def _counted_words(row, config):
    return {
        "key": row,
        "prompt": "Write between one and fifty words.",
        "instruction_id_list": ["count:word_count_range"],
        "kwargs": [{"min_words": 1, "max_words": 50}],
    }


def _rounds_of_instructions(row, config):
    told = {}
    for turn in range(1, ROUNDS + 1):
        told |= {
            f"turn_{turn}_instruction_id_list": ["punctuation:no_comma"],
            f"turn_{turn}_kwargs": [{}],
            f"turn_{turn}_prompt": "Write without commas.",
        }
    return told


def _tool_call(row, config):
    wanted = {"thought": "look it up", "name": "search", "args": {"query": f"river {row}"}}
    if "instruct" not in str(config.get("subset")):
        return json.dumps({"ground_truth": json.dumps(wanted)})
    parts = ("thought", "action", "args")
    template = {
        f"{part}_{end}": f"<{part}{'' if end == 'start' else '/'}>" for part in parts for end in ("start", "end")
    }
    wanted = {"action": "search", "args": {"query": f"river {row}"}}
    return json.dumps({"template": template, "ground_truth": wanted, "meta_data": {"response_format": "json"}})


def _molecule_task(row, config):
    told = {"task_family": "MolOpt", "subtask": "QED", "property_name": "QED", "source_molecule": MOLECULES[row % 4]}
    custom = {"task_family": "MolCustom", "subtask": "AtomNum", "constraints": {"carbon": 2, "oxygen": 1}}
    return {**told, "increase": True, "constraints": {}} if row % 2 else {**custom, "source_molecule": None}


def _crystal(row, config):
    return {
        "lattice": [[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 3.0]],
        "sites": [{"element": "Na", "fractional_coordinates": [0.0, 0.0, 0.0]}],
    }


def _judged_pair(row, config):
    return {
        "dataset_name": "judgerbench_A",
        "category": ["writing", "maps"][row % 2],
        "winner": ["model_a", "model_b"][row % 2],
    }


FORMS = {
    "BBoxIoUEvaluator": _box,
    "IFBenchEvaluator": _counted_words,
    "MultiIFEvaluator": _rounds_of_instructions,
    "HardGCPEvaluator": _graph,
    "CMP_GCP_D_Evaluator": _graph,
    "P_BSP_Evaluator": _sorted_numbers,
    "TEvalEvaluator": _tool_call,
    "BiodataMCCEvaluator": yes_or_no,
    "BiodataAccEvaluator": yes_or_no,
    "BiodataSpearmanEvaluator": number,
    "LLM4Chem_Evaluator": _molecule,
    "RetrosynthesisEvaluator": lambda row, config: MOLECULES[row % 4],
    "PEER_Evaluator": lambda row, config: str(row + 0.5),
    "bio_instruction_Evaluator": yes_or_no,
    "material_Evaluator": lambda row, config: f"<material> Na Cl <sg> <sg{220 + row}> </material>",
    "composition_Evaluator": lambda row, config: f"<material> Na Cl <sg> <sg{220 + row}> </material>",
    "S2TOMGBenchEvaluator": _molecule_task,
    "MP20Evaluator": _crystal,
    "SciReasoner15MaterialEvaluator": lambda row, config: json.dumps({"value": row + 0.5}),
    "SciReasoner15TMScoreEvaluator": lambda row, config: json.dumps({"value": 0.1 * (row + 1)}),
    "SciReasoner15GOEvaluator": lambda row, config: json.dumps({"value": [f"GO:000000{row}"]}),
    "MatbenchEvaluator_regression": number,
    "MatbenchEvaluator_classification_glass": lambda row, config: row % 2 == 0,
    "MedBenchEvaluator_DBMHG": lambda row, config: [{"name": f"river {row}"}],
    "CaLMEvaluator": lambda row, config: {
        "gt_answer": WORDS[row % 2] if str(config.get("task")).startswith(SAID) else row % 2,
        **{f"Answer{place}": f"river {place}" for place in range(1, 5)},
    },
    "JudgerBenchEvaluator": _judged_pair,
    "BabiLongEvaluator": lambda row, config: [["kitchen", "garden", "office", "hallway"][row % 4]],
    "MMLUProBaseEvaluator": lambda row, config: f"{'ABCD'[row % 4]}. choice {row}\n",
    "Math401Evaluator": lambda row, config: str(row + 1.5),
    "MedCalcOfficial_Evaluator": lambda row, config: str(row + 12),
    "BigCodeBenchEvaluator": lambda row, config: _unit_tests(row),
    "HumanevalProEvaluator": lambda row, config: "assert add(1, 2) == 3",
    "MBPPProEvaluator": lambda row, config: "assert add(1, 2) == 3",
    "CharmMemoryEvaluator": lambda row, config: [f"river {row}"] if row % 2 else f"[not]river {row}",
    **dict.fromkeys(
        ("LVEvalF1Evaluator", "LVEvalOPTF1Evaluator", "LVEvalOPTRougeEvaluator"),
        lambda row, config: [f"the river number {row}", f"river {row}"],
    ),
}


def _unit_tests(row):
    return (
        "import unittest\n\n\nclass TestCases(unittest.TestCase):\n"
        f"    def test_sum(self):\n        self.assertEqual(task_func({row}, 2), {row + 2})\n"
    )


def _property(row, entry):
    """What a material has, as the rows tell it: a label in braces."""
    called = (entry["eval_cfg"].get("dataset_postprocessor") or {}).get("property", "value")
    return f"{{{called}: {row + 0.5}}}"


ENTRY_FORMS = {"LLM4Mat_Evaluator": _property}
"""Forms that depend on more of an entry than its evaluator."""
COLUMNS = {
    "BigCodeBenchEvaluator": {
        "entry_point": lambda row: "task_func",
        "code_prompt": lambda row: "def task_func(a, b):\n",
        "test": _unit_tests,
    },
    "HumanevalProEvaluator": {"test_code": lambda row: "assert add(1, 2) == 3"},
    "MBPPProEvaluator": {"test_code": lambda row: "assert add(1, 2) == 3"},
    "SciKnowEvalEvaluator": {
        "prompt_mode": lambda row: "mcq",
        "choices": lambda row: {"label": list("ABCD"), "text": ["river", "stream", "lake", "sea"]},
    },
    "MedCalcOfficial_Evaluator": {
        "row_number": lambda row: row + 1,
        "calculator_id": lambda row: "2",
        "lower_limit": lambda row: str(row + 11),
        "upper_limit": lambda row: str(row + 13),
        "ground_truth_answer": lambda row: str(row + 12),
    },
    "PMMEvalMIFEvalEvaluator": {
        "instruction_id_list": lambda row: ["punctuation:no_comma"],
        "kwargs": lambda row: [{}],
    },
    "HumanevalMultiEvaluator": {"stop_tokens": lambda row: ["\n}"]},
    "InternSandboxEvaluator": {"data_source": lambda row: "aquarium"},
}
REPLIES = {
    "BBoxIoUEvaluator": (
        '```json\n[{"bbox_2d": [100, 100, 500, 500], "label": "cup"}]\n```',
        "[0, 0, 90, 90]",
        "It is at [110, 105, 490, 520].",
        "I see none.",
    ),
    "LLM4Chem_Evaluator": ("{gold}", "It is {gold}", "<BOOLEAN> No </BOOLEAN> <SMILES> CCC </SMILES>", "Yes: {gold}"),
    "LLM4Mat_Evaluator": ("{gold}", "```json\n{gold}\n```", "I cannot say.", "It is {gold}"),
    "PEER_Evaluator": ("yes", "no, 0.3", "1.7", "I think that it is 2.5"),
    "bio_instruction_Evaluator": ("Yes, they bind.", "No, they do not.", "It is positive.", "It is negative."),
    "MatbenchEvaluator_regression": ("\\boxed{{gold}}", "\\boxed{12}", "about {gold}", "\\boxed{7.5}"),
    "BiodataSpearmanEvaluator": ("\\boxed{{gold}}", "\\boxed{1.2}", "{gold}", "\\boxed{0.4}"),
    "SciReasoner15MaterialEvaluator": ("{gold}", "bandgap: 1.2", "The bandgap is 0.7 eV", "1.5"),
    "SciReasoner15TMScoreEvaluator": ("0.2", "0.5", "The score is 0.7", "0.1"),
    "BigCodeBenchEvaluator": (
        "```python\ndef task_func(a, b):\n    return a + b\n```",
        "    return a + b",
        "def task_func(a, b):\n    return a - b",
        "I do not know.",
    ),
}
RATED = [{"checklist_id": place, "reason": "well put", "evaluation_score": 0.5} for place in range(7)]
VERDICTS = {
    "hellobench_postprocess": json.dumps(RATED),
    "fofo_postprocess": json.dumps({"format_correctness": 1, "reasons": "as asked"}),
    "writingbench_postprocess": json.dumps({"score": 8, "reason": "well put"}),
    "followbench_postprocess": "It is met.\nYES",
    "elbench_safety_postprocess": "[[1]]",
    "compassarena_subjectiveeval_pointwise_postprocess": "[[4分]]",
    "mtbench_postprocess": "Rating: [[8]]",
    "alpacaeval_postprocess": "m",
    "wildbench_postprocess": json.dumps({"reason": "clearer", "choice": "A+"}),
    "compassarena_postprocess": "Choice: A",
}
