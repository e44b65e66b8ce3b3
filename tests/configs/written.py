"""Config files as people write them, in the manner of AISBench and OpenCompass."""

RACE = """
from ais_bench.benchmark.openicl.icl_prompt_template import PromptTemplate
from ais_bench.benchmark.openicl.icl_retriever import FixKRetriever
from ais_bench.benchmark.openicl.icl_inferencer import GenInferencer
from ais_bench.benchmark.openicl.icl_evaluator import AccEvaluator
from ais_bench.benchmark.datasets import RaceDataset
from ais_bench.benchmark.utils.text_postprocessors import first_capital_postprocess

reader = dict(input_columns=['article', 'question', 'A', 'B', 'C', 'D'], output_column='answer',
              train_split='validation', test_split='test')
asked = 'Read, then reply with a letter.\\n\\n{article}\\n\\nQ: {question}\\nA. {A}\\nB. {B}\\nC. {C}\\nD. {D}\\nAnswer:'
race_datasets = []
for level in ('middle', 'high'):
    race_datasets.append(dict(
        abbr=f'race-{level}', type=RaceDataset, path='no/such/race', name=level, reader_cfg=reader,
        infer_cfg=dict(
            ice_template=dict(
                type=PromptTemplate,
                template=dict(begin='</E>', round=[dict(role='HUMAN', prompt=asked), dict(role='BOT', prompt='{answer}')]),
                ice_token='</E>'),
            retriever=dict(type=FixKRetriever, fix_id_list=[0, 1]),
            inferencer=dict(type=GenInferencer, max_out_len=5)),
        eval_cfg=dict(evaluator=dict(type=AccEvaluator), pred_role='BOT',
                      pred_postprocessor=dict(type=first_capital_postprocess))))
"""

ARC = """
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.openicl.icl_retriever import ZeroRetriever
from opencompass.openicl.icl_inferencer import PPLInferencer
from opencompass.openicl.icl_evaluator import AccEvaluator
from opencompass.datasets import ARCDataset

labels = 'ABCD'
arc_datasets = [dict(
    abbr='ARC-c', type=ARCDataset, path='opencompass/ai2_arc-dev', name='ARC-Challenge',
    reader_cfg=dict(input_columns=['question', 'textA', 'textB', 'textC', 'textD'], output_column='answerKey'),
    infer_cfg=dict(
        prompt_template=dict(
            type=PromptTemplate,
            template={x: dict(round=[dict(role='HUMAN', prompt='Question: {question}\\nAnswer: '),
                                     dict(role='BOT', prompt='{text' + x + '}')]) for x in labels}),
        retriever=dict(type=ZeroRetriever),
        inferencer=dict(type=PPLInferencer)),
    eval_cfg=dict(evaluator=dict(type=AccEvaluator)))]
del labels
"""

GSM8K = """
from mmengine.config import read_base
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.openicl.icl_retriever import ZeroRetriever
from opencompass.openicl.icl_inferencer import GenInferencer
from opencompass.datasets import GSM8KDataset, gsm8k_postprocess, gsm8k_dataset_postprocess, Gsm8kEvaluator

gsm8k_datasets = [dict(
    abbr='gsm8k', type=GSM8KDataset, path='opencompass/gsm8k',
    reader_cfg=dict(input_columns=['question'], output_column='answer'),
    infer_cfg=dict(
        prompt_template=dict(type=PromptTemplate, template=dict(round=[
            dict(role='HUMAN', prompt='Question: What is 1 + 2?\\nAnswer:'), dict(role='BOT', prompt='It is 3.\\n'),
            dict(role='HUMAN', prompt='Question: {question}\\nAnswer:')])),
        retriever=dict(type=ZeroRetriever),
        inferencer=dict(type=GenInferencer, max_out_len=64, stopping_criteria=['Question:'])),
    eval_cfg=dict(evaluator=dict(type=Gsm8kEvaluator), pred_role='BOT',
                  pred_postprocessor=dict(type=gsm8k_postprocess),
                  dataset_postprocessor=dict(type=gsm8k_dataset_postprocess)))]
"""

SUBJECTS = "mmlu_all_sets = ['anatomy', 'virology', 'world_religions']\n"

MMLU = """
from mmengine.config import read_base
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.openicl.icl_retriever import FixKRetriever
from opencompass.openicl.icl_inferencer import GenInferencer
from opencompass.openicl.icl_evaluator import AccwithDetailsEvaluator
from opencompass.datasets import MMLUDataset
from opencompass.utils.text_postprocessors import first_option_postprocess

with read_base():
    from .mmlu_all_sets import mmlu_all_sets

mmlu_datasets = []
for _name in mmlu_all_sets:
    _hint = f'There is a single choice question about {_name.replace("_", " ")}.'
    mmlu_infer_cfg = dict(
        ice_template=dict(type=PromptTemplate, template=f'{_hint}\\n{{input}}\\nAnswer: {{target}}\\n'),
        prompt_template=dict(type=PromptTemplate, template=f'</E>{_hint}\\n{{input}}\\nAnswer:', ice_token='</E>'),
        retriever=dict(type=FixKRetriever, fix_id_list=list(range(2))),
        inferencer=dict(type=GenInferencer))
    mmlu_datasets.append(dict(
        abbr=f'mmlu_{_name}', type=MMLUDataset, path='opencompass/mmlu', name=_name,
        reader_cfg=dict(input_columns=['input'], output_column='target', train_split='dev'),
        infer_cfg=mmlu_infer_cfg.copy(),
        eval_cfg=dict(evaluator=dict(type=AccwithDetailsEvaluator),
                      pred_postprocessor=dict(type=first_option_postprocess, options='ABCD'))))
del _name, _hint
"""

ALL = """
import os.path as osp
from copy import deepcopy
from mmengine.config import read_base
from opencompass.models import HuggingFaceCausalLM, OpenAI

with read_base():
    from .datasets.mmlu.mmlu_gen import mmlu_datasets
    from opencompass.configs.datasets.gsm8k.gsm8k_gen import gsm8k_datasets

datasets = sum([v for k, v in locals().items() if k.endswith('_datasets')], [])
for d in datasets:
    d['infer_cfg']['inferencer']['max_out_len'] = 9
gsm8k_datasets[0].infer_cfg.inferencer.max_out_len = 11
models = [dict(type=HuggingFaceCausalLM, abbr='tiny', path='some/model', max_out_len=7, batch_size=2,
               meta_template=dict(round=[dict(role='HUMAN', begin='H: ', end='\\n'),
                                         dict(role='BOT', begin='B: ', end='\\n', generate=True)])),
          dict(type=OpenAI, abbr='far', path='gpt')]
work_dir = osp.join('outputs', 'here')
"""

RAW = """
from opencompass.openicl.icl_raw_prompt_template import RawPromptTemplate
from opencompass.openicl.icl_retriever import ZeroRetriever
from opencompass.openicl.icl_inferencer import ChatInferencer, GenInferencer
from opencompass.evaluator import GenericLLMEvaluator
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.datasets import CustomDataset, generic_llmjudge_postprocess

GRADER = 'Is it right? Reply A for right, B for wrong.\\nQ: {question}\\nGold: {answer}\\nSaid: {prediction}'
raw_datasets = [dict(
    abbr='raw', type=CustomDataset, path='nowhere',
    reader_cfg=dict(input_columns=['question'], output_column='answer'),
    infer_cfg=dict(
        prompt_template=dict(type=RawPromptTemplate, messages=[
            {'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Say: {question}'}]),
        retriever=dict(type=ZeroRetriever), inferencer=dict(type=GenInferencer, max_out_len=8)),
    eval_cfg=dict(evaluator=dict(
        type=GenericLLMEvaluator,
        prompt_template=dict(type=PromptTemplate, template=dict(
            begin=[dict(role='SYSTEM', fallback_role='HUMAN', prompt='You judge.')],
            round=[dict(role='HUMAN', prompt=GRADER)])),
        dataset_cfg=dict(type=CustomDataset), judge_cfg=dict(),
        dict_postprocessor=dict(type=generic_llmjudge_postprocess))))]
"""

OWN = """
import re
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.openicl.icl_retriever import ZeroRetriever
from opencompass.openicl.icl_inferencer import GenInferencer
from opencompass.openicl.icl_evaluator import BaseEvaluator
from opencompass.registry import TEXT_POSTPROCESSORS, ICL_EVALUATORS
from opencompass.utils.text_postprocessors import general_postprocess


@TEXT_POSTPROCESSORS.register_module('shout')
def shout(text, mark='!'):
    return general_postprocess(text).upper() + mark


def loops(text):
    while True:
        pass


def writes(text):
    open(__file__[:-9] + 'was_here', 'w').write(text)


@ICL_EVALUATORS.register_module()
class LengthEvaluator(BaseEvaluator):
    def __init__(self, scale=1):
        super().__init__()
        self.scale = scale

    def score(self, predictions, references):
        if len(predictions) != len(references):
            return {'error': 'lengths differ'}
        spread = max(map(len, predictions)) - min(map(len, predictions))
        return {'spread': spread * self.scale, 'kept': 100.0, 'details': [{'p': p} for p in predictions]}


own_datasets = [dict(
    abbr='own', type='Rows', path='nowhere',
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type=PromptTemplate, template='{q}'), retriever=dict(type=ZeroRetriever),
                   inferencer=dict(type=GenInferencer, max_out_len=4)),
    eval_cfg=dict(evaluator=dict(type=LengthEvaluator, scale=2), pred_postprocessor=dict(type='shout', mark='?'),
                  extra=[loops, writes, lambda text: text[::-1]]))]
"""


def tree(folder):
    """Write a checkout as users of OpenCompass have it: its package, and configs that read others."""
    configs = folder / "opencompass" / "configs"
    for name, text in {
        "datasets/mmlu/mmlu_all_sets.py": SUBJECTS,
        "datasets/mmlu/mmlu_gen.py": MMLU,
        "datasets/gsm8k/gsm8k_gen.py": GSM8K,
        "eval_all.py": ALL,
    }.items():
        (configs / name).parent.mkdir(parents=True, exist_ok=True)
        (configs / name).write_text(text)
    return configs


def write(folder, text, name="config.py"):
    path = folder / name
    path.write_text(text)
    return path
