"""Clean-ups by the names that config files use. Standard library only.

The confined process of a config loads this module too, so that the config's own functions may call these.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from kshot.cleanups import first_option, formulas, patterns, phrases, programs, sequences
from kshot.cleanups.literals import cleaned_as_text, cleaned_value
from kshot.cleanups.programs import humaneval_postprocess


def general_eval_wrapper_postprocess(text: str, postprocess: Any = None, **kwargs: Any) -> str:
    """Read a reply that was written as a Python literal, then clean it up by another function."""
    return cleaned_as_text(text, CLEANUP_FUNCTIONS.__getitem__, postprocess, kwargs)


_NAMES: dict[Callable[..., Any], tuple[str, ...]] = {
    # Those that serve many datasets.
    patterns.general_postprocess: ("general_postprocess", "general"),
    patterns.general_cn_postprocess: ("general_cn_postprocess", "general_cn"),
    general_eval_wrapper_postprocess: ("general_eval_wrapper_postprocess", "general_eval_wrapper"),
    patterns.extract_non_reasoning_content: ("extract_non_reasoning_content", "extract-non-reasoning-content"),
    patterns.think_pred_postprocess: ("think_pred_postprocess", "think_pred"),
    patterns.match_answer_pattern: ("match_answer_pattern",),
    patterns.xml_tag_postprocessor: ("xml_tag_postprocessor", "specific-xml-tag"),
    patterns.first_line: ("TriviaQA",),
    patterns.strip: ("strip",),
    patterns.first_number_postprocess: ("first_number_postprocess",),
    first_option.first_capital_postprocess: ("first_capital_postprocess", "first-capital"),
    first_option.last_capital_postprocess: ("last_capital_postprocess", "last-capital"),
    first_option.multiple_select_postprocess: ("multiple_select_postprocess", "multiple-select"),
    first_option.first_capital_postprocess_multi: ("first_capital_postprocess_multi", "first-capital-multi"),
    first_option.first_option_postprocess: ("first_option_postprocess", "first-option"),
    first_option.first_option_postprocess_v1: ("first_option_postprocess_v1",),
    first_option.last_option_postprocess: ("last_option_postprocess", "last-option"),
    # Those of single datasets.
    first_option.bbh_mcq_postprocess: ("bbh_mcq_postprocess", "bbh-mcq", "charm_reason_postprocess", "charm-reason"),
    patterns.bbh_freeform_postprocess: ("bbh_freeform_postprocess", "bbh-freeform"),
    phrases.bbeh_freeform_postprocess: ("bbeh_freeform_postprocess", "bbeh_freeform"),
    phrases.bbeh_mcq_postprocess: ("bbeh_mcq_postprocess", "bbeh_mcq"),
    patterns.gsm8k_postprocess: ("gsm8k_postprocess", "gsm8k"),
    patterns.gsm8k_dataset_postprocess: ("gsm8k_dataset_postprocess", "gsm8k_dataset"),
    patterns.gsm100_postprocess: ("gsm100_postprocess", "gsm100"),
    patterns.without_commas: ("gsm100_dataset_postprocess", "gsm100_dataset"),
    patterns.mgsm_postprocess: ("mgsm_postprocess",),
    patterns.mathbench_postprocess: ("mathbench_postprocess", "compassbench_objective_v1_3_postprocess"),
    patterns.scibench_postprocess: ("scibench_postprocess", "scibench"),
    patterns.InfiniteBench_first_number_postprocess: ("InfiniteBench_first_number_postprocess",),
    patterns.refcoco_bbox_postprocess: ("refcoco_bbox_postprocess", "refcoco_bbox_1000"),
    patterns.get_lmm_point_list: ("get_lmm_point_list",),
    formulas.math_postprocess: ("math_postprocess",),
    formulas.math_postprocess_v2: ("math_postprocess_v2", "math_postprocess_v3"),
    formulas.math_intern_postprocess: ("math_intern_postprocess",),
    formulas.math_judement_preprocess: ("math_judement_preprocess",),
    formulas.normalize_final_answer: ("normalize_final_answer",),
    formulas.dapo_math_postprocess: ("dapo_math_postprocess",),
    formulas.dapo_math_postprocess_v2: ("dapo_math_postprocess_v2",),
    formulas.needlebench_atc_postprocess_v2: ("needlebench_atc_postprocess_v2",),
    phrases.unchanged: (
        *("needlebench_postprocess", "needlebench_dataset_postprocess", "needlebench", "needlebench_dataset"),
    ),
    formulas.TheoremQA_postprocess: ("TheoremQA_postprocess", "TheoremQA"),
    formulas.TheoremQA_postprocess_v2: ("TheoremQA_postprocess_v2",),
    formulas.TheoremQA_postprocess_v3: ("TheoremQA_postprocess_v3",),
    formulas.TheoremQA_postprocess_v4: ("TheoremQA_postprocess_v4",),
    phrases.olympiadbench_postprocess_v2: ("olympiadbench_postprocess_v2",),
    humaneval_postprocess: ("humaneval_postprocess", "humaneval", "mbpp_postprocess"),
    programs.humaneval_postprocess_v2: ("humaneval_postprocess_v2",),
    programs.humaneval_postprocess_v3: ("humaneval_postprocess_v3",),
    programs.humaneval_internal_v1_postprocess: ("humaneval_internal_v1_postprocess",),
    programs.humaneval_internal_v2_postprocess: ("humaneval_internal_v2_postprocess",),
    programs.ds1000_postprocess: ("ds1000_postprocess", "ds1000"),
    programs.ds1000_completion_postprocess: ("ds1000_completion_postprocess", "ds1000_completion"),
    programs.ds1000_matplotlib_postprocess: ("ds1000_matplotlib_postprocess", "ds1000_matplotlib"),
    programs.cruxeval_o_postprocess: ("cruxeval_o_postprocess",),
    phrases.first_line_of: ("samsum_postprocess", "trec_postprocess", "lsht_postprocess", "triviaqa_postprocess"),
    phrases.Xsum_postprocess: ("Xsum_postprocess", "Xsum"),
    phrases.flores_postprocess: ("flores_postprocess", "flores"),
    phrases.flores_postprocess_chinese: ("flores_postprocess_chinese", "flores-chinese"),
    phrases.ReCoRD_postprocess: ("ReCoRD_postprocess", "ReCoRD"),
    phrases.lcsts_postprocess: ("lcsts_postprocess", "lcsts"),
    phrases.after_answer_is_chinese: ("cmrc_postprocess", "cmrc", "drcd_postprocess", "drcd"),
    phrases.chinese_simpleqa_preprocess: ("chinese_simpleqa_preprocess",),
    phrases.strategyqa_pred_postprocess: ("strategyqa_pred_postprocess", "strategyqa"),
    phrases.strategyqa_dataset_postprocess: ("strategyqa_dataset_postprocess", "strategyqa_dataset"),
    phrases.teval_postprocess: ("teval_postprocess", "teval"),
    phrases.GPQA_Simple_Eval_postprocess: ("GPQA_Simple_Eval_postprocess",),
    phrases.my_multiple_select_postprocess: ("my_multiple_select_postprocess",),
    phrases.crowspairs_postprocess: ("crowspairs_postprocess",),
    phrases.game24_postprocess: ("game24_postprocess",),
    phrases.mydataset_postprocess: ("mydataset_postprocess",),
    phrases.smolinstruct_acc_postprocess: ("smolinstruct_acc_postprocess", "smolinstruct-acc"),
    phrases.smolinstruct_acc_0shot_postprocess: ("smolinstruct_acc_0shot_postprocess", "smolinstruct-acc-0shot"),
    phrases.arxivrollbench_selection_postprocess: ("arxivrollbench_selection_postprocess",),
    phrases.arxivrollbench_choice_postprocess: ("arxivrollbench_choice_postprocess",),
    phrases.get_a_or_b: ("get_a_or_b",),
    phrases.clbench_pred_postprocess: ("clbench_pred_postprocess",),
    phrases.atlas_pred_postprocess: ("atlas_pred_postprocess",),
    phrases.with_language: tuple(
        name
        for dataset in ("mhellaswag", "mifeval", "mlogiqa", "mmmlu", "xnli")
        for name in (f"pmmeval_{dataset}_postprocess", f"pmmeval_{dataset}")
    ),
    phrases.with_language_name: ("pmmeval_flores_postprocess", "pmmeval_flores"),
    sequences.Mol_Instructions_postprocess_Mol: ("Mol_Instructions_postprocess_Mol",),
    sequences.Mol_Instructions_postprocess_BioText: ("Mol_Instructions_postprocess_BioText",),
    sequences.Mol_Instructions_postprocess_Protein: ("Mol_Instructions_postprocess_Protein",),
    sequences.Mol_Instructions_postprocess_Protein_Design: ("Mol_Instructions_postprocess_Protein_Design",),
    sequences.PEER_postprocess: ("PEER_postprocess",),
    sequences.PEER_postprocess_default: ("PEER_postprocess_default",),
    sequences.PEER_postprocess_float_compare: ("PEER_postprocess_float_compare",),
    sequences.opi_postprocess: ("opi_postprocess",),
    sequences.GUE_postprocessor: ("GUE_postprocessor",),
    sequences.RNA_postprocessor: ("RNA_postprocessor",),
    sequences.UPG_postprocess: ("UPG_postprocess",),
    sequences.material_postprocessor: ("material_postprocessor",),
    sequences.Retrosynthesis_postprocess: ("Retrosynthesis_postprocess",),
    sequences.LLM4Mat_postprocessor: ("LLM4Mat_postprocessor",),
    sequences.LLM4Chem_postprocess: ("LLM4Chem_postprocess",),
}


def _table() -> dict[str, Callable[..., Any]]:
    """Return the functions by name; a name that is given twice is an error."""
    table: dict[str, Callable[..., Any]] = {}
    for function, names in _NAMES.items():
        for name in names:
            if name in table:
                raise ValueError(f"two clean-ups are called {name!r}: {table[name].__name__} and {function.__name__}")
            table[name] = function
    return table


CLEANUP_FUNCTIONS = _table()
FIRST_NAMES = {function: names[0] for function, names in _NAMES.items()}
"""The name of each clean-up that ``kshot list`` shows first."""


def _of_framework(framework: str, name: str) -> Callable[..., Any]:
    return FRAMEWORK_FUNCTIONS[framework].get(name) or CLEANUP_FUNCTIONS[name]


def _wrappers(framework: str) -> dict[str, Callable[..., Any]]:
    wrapper = partial(cleaned_value, framework, partial(_of_framework, framework))
    return dict.fromkeys(_NAMES[general_eval_wrapper_postprocess], wrapper)


_STRICT_GSM8K = dict.fromkeys(("gsm8k_dataset_postprocess", "gsm8k_dataset"), patterns.gsm8k_dataset_strict)

FRAMEWORK_FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "opencompass": {**_STRICT_GSM8K, **_wrappers("opencompass")},
    "ais_bench": {
        **_STRICT_GSM8K,
        **_wrappers("ais_bench"),
        **dict.fromkeys(("bbh_freeform_postprocess", "bbh-freeform"), patterns.bbh_freeform_ais_bench),
        "humaneval_internal_v1_postprocess": programs.humaneval_internal_v1_ais_bench,
        "humaneval_postprocess_v2": programs.humaneval_v2_ais_bench,
        "humaneval_postprocess_v3": programs.humaneval_v3_ais_bench,
        "math_postprocess_v2": formulas.math_postprocess_v2_ais_bench,
        "needlebench_atc_postprocess_v2": formulas.needlebench_atc_ais_bench,
    },
}
"""Clean-ups of the same name that differ between the projects, by project."""


def cleanup_function(name: str, framework: str = "") -> Callable[..., Any] | None:
    """Return the clean-up that a config of this framework means by a name; None where kshot has none."""
    return FRAMEWORK_FUNCTIONS.get(framework, {}).get(name) or CLEANUP_FUNCTIONS.get(name)


def cleaned(name: str, framework: str, text: Any, options: dict[str, Any]) -> Any:
    """Return what a clean-up makes of a text. Called in a confined process; see ``prepare``."""
    function = cleanup_function(name, framework)
    assert function is not None  # noqa: S101 - the caller knows that there is one
    return function(text, **options)


def prepare(job: dict[str, Any]) -> None:
    """Import the package that a clean-up uses, before its time counts."""
    if "package" in job:
        importlib.import_module(job["package"])


TAKE_NO_PATTERNS = frozenset(
    (
        *(first_option.first_option_postprocess, first_option.first_option_postprocess_v1),
        *(first_option.last_option_postprocess, patterns.xml_tag_postprocessor, patterns.extract_non_reasoning_content),
        *(patterns.mgsm_postprocess, patterns.mathbench_postprocess, phrases.olympiadbench_postprocess_v2),
        *(phrases.with_language, phrases.with_language_name, phrases.clbench_pred_postprocess),
        *(phrases.atlas_pred_postprocess, sequences.Mol_Instructions_postprocess_BioText),
        *(sequences.Mol_Instructions_postprocess_Mol, sequences.PEER_postprocess_float_compare),
        sequences.opi_postprocess,
    )
)
"""Clean-ups whose options are never regular expressions. Others run in a process of their own if a config gives any."""

SLOW_IMPORTS: dict[Callable[..., Any], str] = dict.fromkeys(
    (formulas.TheoremQA_postprocess_v3, formulas.TheoremQA_postprocess_v4), "latex2sympy2_extended"
)
"""Clean-ups that always run in a process of their own, and the module that it imports before the time counts.

What they compute may take without end: a reply may be a formula whose value has more digits than fit into memory.
"""
