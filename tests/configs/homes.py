"""Small homes for tests: a package ``opencompass`` with the files that a test gives."""

from pathlib import Path
from textwrap import dedent

EVALUATOR = """
    from opencompass.openicl.icl_evaluator import BaseEvaluator
    from opencompass.registry import ICL_EVALUATORS, LOAD_DATASET, TEXT_POSTPROCESSORS

    @ICL_EVALUATORS.register_module()
    class OwnEvaluator(BaseEvaluator):
        def score(self, predictions, references, test_set=None):
{body}
"""

_FILES = {
    "__init__.py": "__version__ = '0'\n",
    "registry.py": """
        from mmengine.registry import Registry
        ICL_EVALUATORS = Registry('icl_evaluators')
        ICL_RETRIEVERS = Registry('icl_retrievers')
        LOAD_DATASET = Registry('load_dataset')
        TEXT_POSTPROCESSORS = Registry('text_postprocessors')
        DICT_POSTPROCESSORS = Registry('dict_postprocessors')
    """,
    "openicl/__init__.py": "from .icl_evaluator import *\n",
    "openicl/icl_evaluator/__init__.py": "from .base import BaseEvaluator\n",
    "openicl/icl_evaluator/base.py": """
        class BaseEvaluator:
            def __init__(self, pred_postprocessor=None):
                self.pred_postprocessor = pred_postprocessor
    """,
    "datasets/__init__.py": "from .own import *\n",
}

CONFIG = """
from opencompass.datasets import OwnEvaluator

own_datasets = [
    dict(
        abbr="own",
        path="rows.jsonl",
        reader_cfg=dict(input_columns=["question"], output_column="answer"),
        infer_cfg=dict(
            prompt_template=dict(type="PromptTemplate", template="{question}"),
            retriever=dict(type="ZeroRetriever"),
            inferencer=dict(type="GenInferencer", max_out_len=8),
        ),
        eval_cfg=dict(evaluator=dict(type=OwnEvaluator)),
    )
]
"""


def write_home(folder: Path, files: dict[str, str]) -> Path:
    """Write a home below a folder; the keys of ``files`` are paths in its package."""
    for name, text in {**_FILES, **files}.items():
        path = folder / "opencompass" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return folder


def evaluator_home(folder: Path, body: str) -> Path:
    """Write a home with one evaluator, ``opencompass.datasets.OwnEvaluator``, whose ``score`` has this body."""
    lines = "\n".join(" " * 12 + line for line in dedent(body).strip().splitlines())
    return write_home(folder, {"datasets/own.py": EVALUATOR.format(body=lines)})
