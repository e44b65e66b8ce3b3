"""Clean-ups of single datasets: what each takes from a reply, beyond the golden cases."""

import pytest

from kshot.cleanups import formulas
from kshot.cleanups.config_names import CLEANUP_FUNCTIONS, cleanup_function
from kshot.cleanups.formulas import NotABox
from tests.fuzz.harness import watched


@pytest.mark.parametrize(
    ("name", "text", "options", "answer"),
    [
        ("dapo_math_postprocess", "Answer: 3\nAnswer: x = $1,200 ft$ so", {}, "1,200ft"),
        ("dapo_math_postprocess_v2", r"\boxed{1} then \boxed{\frac{1}{2}}", {}, r"\frac{1}{2}"),
        ("dapo_math_postprocess_v2", r"\boxed{1}" + " " * 100, {}, ""),
        ("math_intern_postprocess", "The final answer is $12$. Well", {}, "12"),
        ("math_intern_postprocess", "no answer", {}, None),
        ("math_intern_postprocess", "So The answer is 5\n\nQuestion: next", {}, "5"),
        ("math_intern_postprocess", r"so \boxed{\frac{1}{2}} is", {}, r"\frac{1}{2}"),
        ("compassbench_objective_v1_3_postprocess", "The answer is 1,200 or 7", {"name": "en"}, "1200"),
        ("get_a_or_b", "it is A", {}, "A"),
        ("get_a_or_b", "A or C", {}, "B"),
        ("get_lmm_point_list", "so [1, 20] and [3]", {}, "[1, 20]"),
        ("get_lmm_point_list", "none", {}, "[]"),
        ("bbeh_mcq_postprocess", "The answer is (B)\nor C", {}, "b)"),
        ("bbeh_freeform_postprocess", r"The final answer is: **\text{Blue}**.", {}, "blue."),
        ("arxivrollbench_selection_postprocess", "I take selection 3, not 4", {}, "Selection 3"),
        ("arxivrollbench_choice_postprocess", "it is (c)", {}, "C"),
        ("smolinstruct_acc_postprocess", "Yes, no", {}, "<BOOLEAN> Yes </BOOLEAN>"),
        ("smolinstruct_acc_postprocess", "maybe", {}, None),
        ("smolinstruct_acc_0shot_postprocess", "<think>yes</think>The answer is: no", {}, "<BOOLEAN> No </BOOLEAN>"),
        ("olympiadbench_postprocess_v2", "所以最终答案是 5\n好", {"is_chinese": True}, "5"),
        ("crowspairs_postprocess", "I say B.", {}, "B"),
        ("crowspairs_postprocess", "Both A and B", {}, "invalid"),
        ("game24_postprocess", "Steps\nAnswer: (1+2)*8 = 24", {}, "(1+2)*8 "),
        ("mydataset_postprocess", "`y = 2×x^2`; as\nseen", {}, "y = 2*x**2 as"),
        ("ds1000_matplotlib_postprocess", "<code>\nplt.plot(x)\nplt.show()\n</code>", {}, "\nplt.plot(x)\n"),
        ("ds1000_completion_postprocess", "a = 1\n</code>\nend", {}, "a = 1\n"),
        ("cruxeval_o_postprocess", " [1]\nx # done y", {}, "[1]"),
        ("chinese_simpleqa_preprocess", "北京 问题：下一个", {}, "北京"),
        ("clbench_pred_postprocess", "abc ", {"max_chars": 2}, "ab"),
        ("PEER_postprocess", "It will dissolve", {}, "Yes"),
        ("PEER_postprocess", "It is impossible", {}, "No"),
        ("GUE_postprocessor", "<think>not</think>It was found.", {}, "positive"),
        ("opi_postprocess", " GO<|im_end|>", {"task": "GO"}, "GO"),
        ("LLM4Mat_postprocessor", '```json\n{"bandgap": 1}\n```', {"property": "bandgap"}, 1.0),
        ("LLM4Mat_postprocessor", "{is_stable : Yes}", {"property": "is_stable"}, "True"),
        ("LLM4Mat_postprocessor", "{Direct_or_indirect: 'direct'}", {"property": "Direct_or_indirect"}, "Direct"),
        ("LLM4Chem_postprocess", "so H2O or Ca(OH)2", {"task": "name_conversion-s2f"}, "Ca(OH)2"),
        ("LLM4Chem_postprocess", "<SMILES>C;O</SMILES>", {"task": "retrosynthesis"}, "C.O"),
        ("LLM4Chem_postprocess", "not true, I say", {"task": "property_prediction-hiv"}, "Yes"),
        ("Mol_Instructions_postprocess_Mol", "</think> it is - 1 . 5", {"task": "property_prediction_str"}, "1"),
        ("atlas_pred_postprocess", "none", {}, {"extract_error": True, "answers": '{"answers": []}'}),
        ("atlas_pred_postprocess", "```json\n[\\a]\n```", {}, {"extract_error": False, "answers": "[\\\\a]"}),
    ],
)
def test_what_a_clean_up_takes(name, text, options, answer):
    assert CLEANUP_FUNCTIONS[name](text, **options) == answer


@pytest.mark.parametrize(
    ("name", "text", "opencompass", "ais_bench"),
    [
        ("humaneval_postprocess_v2", "```\n    x\n```", "x\n", "    x\n"),
        ("humaneval_postprocess_v3", "```\na\n``````\n b\n```", "b\n", " b\n"),
        ("bbh_freeform_postprocess", "answer is a, b. The answer is **c, d**", "c d", "a, b. The"),
        ("math_postprocess_v2", r"\fbox{3}", r"\fbox{3}", NotABox),
        ("needlebench_atc_postprocess_v2", r"\fbox{Ann}", "None", NotABox),
        ("gsm8k_dataset_postprocess", "12", IndexError, IndexError),
    ],
)
def test_where_the_projects_differ_each_has_its_own(name, text, opencompass, ais_bench):
    for framework, answer in (("opencompass", opencompass), ("ais_bench", ais_bench)):
        function = cleanup_function(name, framework)
        if isinstance(answer, str):
            assert function(text) == answer
        else:
            with pytest.raises(answer):
                function(text)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"The answer is $\frac{3}{4}$.", "0.75"),
        ("the answer is 50%", "0.5"),
        ("The answer is 12 apples", "12"),
        ("The answer is (b)", "(b)"),
        ("The answer is surely true", "True"),
        ("we have 3 and 4.5", "4.5"),
        ("The answer is 1\n\nThe answer is 2", "1"),
    ],
)
def test_theorems_are_computed(text, answer):
    pytest.importorskip("latex2sympy2_extended")
    assert formulas.TheoremQA_postprocess_v3(text) == answer


UNITS = (
    *("答案是", "The correct answer is ", "\\boxed{", "\\text{(", "$", "<think>", "</think>", "```\n", "<code>"),
    *("答案是x ", "answer is", "1,", "**", "<protein>", "<SMILES>", " ,"),
)
OPTIONS = {
    "first_option_postprocess": {"options": "ABCD"},
    "mgsm_postprocess": {"lang": "en"},
    "Mol_Instructions_postprocess_BioText": {"task": "open_question"},
}


@watched
@pytest.mark.parametrize("unit", UNITS)
def test_a_reply_that_repeats_itself_takes_no_quadratic_time(unit):
    reply = unit * 20_000 + " "
    for name in (
        *("first_option_postprocess", "math_postprocess_v2", "normalize_final_answer", "mgsm_postprocess"),
        *("humaneval_postprocess_v2", "humaneval_internal_v1_postprocess", "ds1000_postprocess", "UPG_postprocess"),
        *(
            "Mol_Instructions_postprocess_BioText",
            "PEER_postprocess",
            "Retrosynthesis_postprocess",
            "gsm8k_postprocess",
        ),
        *("dapo_math_postprocess", "bbh_freeform_postprocess", "mathbench_postprocess", "teval_postprocess"),
    ):
        CLEANUP_FUNCTIONS[name](reply, **OPTIONS.get(name, {}))
