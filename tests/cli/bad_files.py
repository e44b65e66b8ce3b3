"""The files of the table of bad inputs: rows, classes, plug-ins, configs, recordings, models and run folders."""

import json

from tests.commands import CAPITALS

ROWS = [{"passage": f"p{i}", "question": f"q{i}", "answer": bool(i % 2)} for i in range(4)]


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


MODELS = """
from kshot import Generate, Generated
class Echo:
    name, fingerprint, answers = "echo", "echo", (Generate,)
    def __init__(self, words: int = 1): pass
    def serve(self, queue):
        for request in queue:
            yield request, Generated("Paris")
class NoServe:
    name, fingerprint, answers = "x", "x", (Generate,)
class BadName(Echo):
    name = 7
class NoName(Echo):
    name = ""
class BadFingerprint(Echo):
    fingerprint = None
class BadAnswers(Echo):
    answers = ("Generate",)
class Raises(Echo):
    def __init__(self): raise RuntimeError("no weights")
class Exits(Echo):
    def __init__(self): raise SystemExit(3)
class Needs(Echo):
    def __init__(self, key): pass
class Breaks(Echo):
    def serve(self, queue): raise OSError("unplugged")
class Leaves(Echo):
    def serve(self, queue):
        queue.take()
        return iter(())
class Other(Echo):
    def serve(self, queue):
        for request in queue:
            yield request, "Paris"
class Foreign(Echo):
    def serve(self, queue):
        queue.take()
        yield Generate(None), Generated("x")
class NotAnIterator(Echo):
    def serve(self, queue): return 7
async def slow(prompt): return "x"
def two(prompt, more): return "x"
def number(prompt): return 7
WORD = "no model"
"""

CLASSES = """
from kshot import Em, GenerationDataset, MultipleChoiceDataset, Dataset
class Good(GenerationDataset):
    instruction = "{q}"
    metrics = [Em()]
    def load_raw_dataset(self, *where):
        self.evaluation_data = [{"q": "a", "target": "b"}, {"q": "c", "target": "d"}]
        self.example_data = [{"q": "e", "target": "f"}]
    def format_instance(self, row): return row
class NoRows(Good):
    def load_raw_dataset(self, *where): self.evaluation_data = []
class RowsAreNone(Good):
    def load_raw_dataset(self, *where): self.evaluation_data = None
class RowsAreTexts(Good):
    def load_raw_dataset(self, *where): self.evaluation_data = ["a", "b"]
class RowsAreEndless(Good):
    def load_raw_dataset(self, *where):
        import itertools
        self.evaluation_data = ({"q": i} for i in itertools.count())
class LoadRaises(Good):
    def load_raw_dataset(self, *where): raise KeyError("disk")
class LoadExits(Good):
    def load_raw_dataset(self, *where): raise SystemExit("bye")
class NoInstruction(Good):
    instruction = None
class InstructionIsNumber(Good):
    instruction = 7
class BadTemplate(Good):
    instruction = "{% for %}"
class OpenBrace(Good):
    instruction = "{q"
class Unknown(Good):
    instruction = "{question}"
class NoMetrics(Good):
    metrics = []
class MetricIsClass(Good):
    metrics = [Em]
class MetricIsNumber(Good):
    metrics = [7]
class MetricsIsText(Good):
    metrics = "em"
class MetricUnknown(Good):
    metrics = ["emm"]
class MetricTwice(Good):
    metrics = [Em(), Em()]
class FormatRaises(Good):
    def format_instance(self, row): return 1 / 0
class FormatIsList(Good):
    def format_instance(self, row): return [row]
class NoTarget(Good):
    def format_instance(self, row): return {"q": "x"}
class BadArguments(Good):
    extra_model_args = dict(temprature=1)
class ArgumentsAreList(Good):
    extra_model_args = ["temperature"]
class Plain(Dataset):
    instruction = "{q}"
    load_raw_dataset, format_instance = Good.load_raw_dataset, Good.format_instance
class PostLoses(Good):
    def post_processing(self, answers): return answers[:1]
class References(Good):
    references = [1]
class Delimiter(Good):
    fewshot_delimiter = 7
class Keep(Good):
    keep_whitespace = "yes"
class SameIds(Good):
    def load_raw_dataset(self, *where): self.evaluation_data = [{"id": 1, "q": "a", "target": "b"}] * 2
class InitRaises(Good):
    def __init__(self, *args): raise RuntimeError("not today")
class Category(Good):
    category_column = "kind"
class Choice(MultipleChoiceDataset):
    instruction, metrics = "{q}", ["accuracy"]
    load_raw_dataset = Good.load_raw_dataset
    def format_instance(self, row): return {"q": row["q"], "options": ["a", "b"], "target_idx": 0}
class NoOptions(Choice):
    def format_instance(self, row): return {"q": row["q"], "target_idx": 0}
class OptionsAreText(Choice):
    def format_instance(self, row): return {"q": row["q"], "options": "ab", "target_idx": 0}
class EmptyOption(Choice):
    def format_instance(self, row): return {"q": row["q"], "options": ["a", ""], "target_idx": 0}
class Target9(Choice):
    def format_instance(self, row): return {"q": row["q"], "options": ["a", "b"], "target_idx": 9}
class TargetIsText(Choice):
    def format_instance(self, row): return {"q": row["q"], "options": ["a", "b"], "target_idx": "A"}
"""

PLUGINS = """
from kshot import Metric, Retriever
class Outside(Retriever):
    def ranked(self):
        for _ in self.test: yield [999]
class Texts(Retriever):
    def ranked(self):
        for _ in self.test: yield ["a"]
class Few(Retriever):
    def ranked(self): yield [0]
class RankRaises(Retriever):
    def ranked(self): raise RuntimeError("no ranks")
class NoRanks(Retriever):
    pass
class Rates(Metric):
    name = "Rates"
    def rate(self, prediction, reference): return "good"
class Nan(Metric):
    name = "Nan"
    def rate(self, prediction, reference): return float("nan")
class RateRaises(Metric):
    name = "Raises"
    def rate(self, prediction, reference): raise ValueError("odd")
class NoChunks:
    def cut(self, text): return []
class CutRaises:
    def cut(self, text): raise ValueError("blunt")
class CutNumber:
    def cut(self, text): return [7]
class NoCut:
    pass
def shout(reply): return reply.upper()
def fails(reply): raise ValueError("dirty")
NUMBER = 7
"""

CONFIG = """
datasets = [dict(
    abbr='x', type='Own', path='rows.jsonl',
    reader_cfg=dict(input_columns=['question'], output_column='answer'),
    infer_cfg=dict(
        prompt_template=dict(type='PromptTemplate', template='{question}'),
        retriever=dict(type='ZeroRetriever'), inferencer=dict(type='GenInferencer')),
    eval_cfg=dict(evaluator=dict(type='AccEvaluator')))]
"""

FILES = {
    "echo.py": MODELS,
    "capitals.py": CAPITALS,
    "own.py": CLASSES,
    "plugins.py": PLUGINS,
    "rows.jsonl": lines(ROWS),
    "empty.jsonl": "",
    "blank.jsonl": "\n\n",
    "broken.jsonl": '{"passage": 1}\n{"passage":\n',
    "cut.jsonl": '{"passage": "x", "question": "y", "ans',
    "list.jsonl": "[1, 2]\n",
    "number.jsonl": "7\n",
    "latin.jsonl": b'{"passage": "caf\xe9", "question": "q", "answer": true}\n',
    "utf16.jsonl": '{"passage": "x"}\n'.encode("utf-16"),
    "binary.jsonl": bytes(range(256)) * 20,
    "nul.jsonl": b"\0" * 4096,
    "deep.jsonl": "[" * 100_000 + "]" * 100_000 + "\n",
    "deepobject.jsonl": '{"a":' * 100_000 + "1" + "}" * 100_000 + "\n",
    "huge.jsonl": '{"passage": "' + "x" * 5_000_000 + "\n",
    "digits.jsonl": '{"passage": ' + "9" * 10_000 + "}\n",
    "columns.jsonl": '{"a": 1}\n',
    "nulls.jsonl": '{"passage": null, "question": null, "answer": null}\n',
    "objects.jsonl": '{"passage": {"a": 1}, "question": [1], "answer": "perhaps"}\n',
    "array.json": "[{]",
    "text.json": '"hello"',
    "numbers.json": "[1, 2, 3]",
    "splits.json": '{"train": [{"a": 1}], "test": [{"a": 2}]}',
    "notjson.json": "hello",
    "empty.json": "",
    "nothing.json": "[]",
    "ragged.csv": "passage,question,answer\n1,2,True\n3,4\n",
    "long.csv": "passage,question,answer\n1,2,True,4,5\n",
    "twice.csv": "passage,passage,answer\n1,2,3\n",
    "quote.csv": 'passage,question,answer\n"1,2,3\n',
    "empty.csv": "",
    "header.csv": "passage,question,answer\n",
    "nul.csv": b"passage,question,answer\n\0,\0,\0\n",
    "damaged.parquet": b"PAR1" + b"\0" * 100,
    "text.parquet": "hello",
    "empty.parquet": "",
    "rows.xml": "<a/>",
    "rows": "no suffix",
    "rows.pkl": b"\x80\x04N.",
    "syntax.py": "def (:\n",
    "raises.py": "x = 1\n1 / 0\n",
    "exits.py": "import sys\nsys.exit(0)\n",
    "interrupts.py": "raise GeneratorExit\n",
    "nothing.py": "x = 1\n",
    "twoclasses.py": CLASSES,
    "missing.py": "import nothing_like_this\n",
    "emptyfile.py": "",
    "latin.py": b"x = '\xe9'\n",
    "nul.py": b"x = 1\0\n",
    "deep.py": "x = " + "(" * 5000 + ")" * 5000 + "\n",
    "config.py": CONFIG,
    "config_syntax.py": "datasets = [\n",
    "config_none.py": "x = 1\n",
    "config_empty.py": "datasets = []\n",
    "config_number.py": "datasets = 7\n",
    "config_texts.py": "datasets = ['a', 'b']\n",
    "config_type.py": CONFIG.replace("GenInferencer", "MagicInferencer"),
    "config_retriever.py": CONFIG.replace("ZeroRetriever", "BestRetriever"),
    "config_evaluator.py": CONFIG.replace("AccEvaluator", "MoodEvaluator"),
    "config_template.py": CONFIG.replace("'{question}'", "7"),
    "config_reader.py": CONFIG.replace("reader_cfg=dict(", "reader_cfg=list("),
    "config_column.py": CONFIG.replace("output_column='answer'", "output_column='gold'"),
    "config_rows.py": CONFIG.replace("rows.jsonl", "nowhere.jsonl"),
    "config_n.py": CONFIG.replace("abbr='x'", "abbr='x', n=-1"),
    "config_twice.py": CONFIG + "datasets = datasets * 2\n",
    "config_noinfer.py": CONFIG.replace("infer_cfg", "infer"),
    "config_raises.py": "raise ValueError('no')\n",
    "config_loop.py": "while True: pass\n",
    "config_base.py": "from mmengine.config import read_base\nwith read_base():\n    from .nowhere import datasets\n",
    "config_os.py": "import os\nos.system('touch owned')\ndatasets = []\n",
    "config_deep.py": "x = []\nfor i in range(100000): x = [x]\ndatasets = x\n",
    "template.jinja": "{% if %}",
    "broken.jinja": "{{ messages[ }}",
    "raising.jinja": "{{ raise_exception('no') }}",
    "latin.jinja": b"\xe9\xff",
    "judge.jinja": "Rate {{ anser }}",
    "judge_broken.jinja": "{{ answer",
    "judge_empty.jinja": "",
    "recorded.jsonl": '{"prompt": "x", "response": "y"}\n',
    "recorded_number.jsonl": '{"prompt": "x", "response": 7}\n',
    "recorded_noprompt.jsonl": '{"response": "y"}\n',
    "recorded_broken.jsonl": '{"prompt": "x", "response": "y"}\noops\n',
    "recorded_mixed.jsonl": '{"prompt": "x", "response": "y"}\n{"key": "a", "asked": "b", "response": {"text": "x"}}\n',
    "run.trec": "q1 Q0 d1 1 high tag\n",
    "run_short.trec": "q1 Q0 d1 1 0.5 t\nq1 Q0\n",
    "run_twice.trec": "4.1 Q0 d1 1 0.5 t\n4.1 Q0 d1 2 0.4 t\n",
    "runs.json": '{"bm25": {"runs": "none"}}',
    "runs_lists.json": '{"bm25": {"runs": [["a"]]}}',
    "queries.json": "[1]",
    "questions.json": '{"chapters": 7}',
    "questions_empty.json": "[]",
    "templates.json": "[]",
    "templates_unknown.json": '{"nothing": "x"}',
    "lookup.jsonl": '{"input": "x"}\n',
    "lookup_numbers.jsonl": '{"input_no_space": 7, "UR": 1}\n',
    "beir/corpus.jsonl": '{"_id": "d1", "text": "a"}\n',
    "beir_noid/corpus.jsonl": '{"text": "a"}\n',
    "beir_noid/queries.jsonl": '{"_id": "q1", "text": "a"}\n',
    "beir_noid/qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
    "beir_qrels/corpus.jsonl": '{"_id": "d1", "text": "a"}\n',
    "beir_qrels/queries.jsonl": '{"_id": "q1", "text": "a"}\n',
    "beir_qrels/qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\tbest\n",
    "beir_foreign/corpus.jsonl": '{"_id": "d1", "text": "a"}\n',
    "beir_foreign/queries.jsonl": '{"_id": "q1", "text": "a"}\n',
    "beir_foreign/qrels/test.tsv": "query-id\tcorpus-id\tscore\nq9\td1\t1\n",
    "beir_twice/corpus.jsonl": '{"_id": "d1", "text": "a"}\n{"_id": "d1", "text": "b"}\n',
    "beir_twice/queries.jsonl": '{"_id": "q1", "text": "a"}\n',
    "beir_twice/qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
    "trec/topics.txt": "",
    "trec_bad/qrels.txt": "1 0 d1\n",
    "model_empty/readme": "",
    "model_config/config.json": "{",
    "model_config/tokenizer.json": "{}",
    "model_config/model.safetensors": (8).to_bytes(8, "little") + b"{}      ",
    "model_list/config.json": "[]",
    "model_list/tokenizer.json": "{}",
    "model_list/model.safetensors": (8).to_bytes(8, "little") + b"{}      ",
    "model_weights/config.json": "{}",
    "model_weights/tokenizer.json": "{}",
    "model_weights/model.safetensors": b"version https://git-lfs.github.com/spec/v1\n",
    "model_noweights/config.json": "{}",
    "model_noweights/tokenizer.json": "{}",
    "model_notokenizer/config.json": "{}",
    "model_notokenizer/model.safetensors": "",
    "model_shards/config.json": "{}",
    "model_shards/tokenizer.json": "{}",
    "model_shards/model-1.safetensors": (8).to_bytes(8, "little") + b"{}      ",
    "model_shards/model.safetensors.index.json": '{"weight_map": {"a": "model-2.safetensors"}}',
    "model_index/config.json": "{}",
    "model_index/tokenizer.json": "{}",
    "model_index/model-1.safetensors": (8).to_bytes(8, "little") + b"{}      ",
    "model_index/model.safetensors.index.json": "[1",
    "model_adapter/adapter_config.json": "{}",
    "split/rows.jsonl": lines(ROWS),
    "run_nothing/readme": "",
    "run_empty/spec.json": "",
    "run_broken/spec.json": "{",
    "run_list/spec.json": "[]",
    "run_foreign/spec.json": "{}",
    "run_identity/spec.json": '{"identity": 7}',
    "run_datasets/spec.json": '{"identity": {"datasets": 7}}',
    "run_models/spec.json": '{"identity": {"datasets": ["lookup"]}, "models": [7]}',
    "run_options/spec.json": '{"identity": {"datasets": ["lookup"]}, "options": {"seed": "x"}, "models": []}',
    "run_unknown/spec.json": '{"identity": {"datasets": ["lookup"]}, "options": {"shoes": 1}, "models": []}',
    "run_tasks/spec.json": '{"identity": {"datasets": ["lookup"]}, "tasks": {"m": 7}, "models": []}',
    "run_facts/spec.json": '{"identity": {"datasets": ["lookup"]}, "tasks": {"m": {"t": {"kept": 7}}}, "models": []}',
    "run_lengths/spec.json": (
        '{"identity": {"datasets": ["lookup"]}, "tasks": {"m": {"t": {"token_lengths": 7}}}, "models": []}'
    ),
    "run_shots/spec.json": '{"identity": {"datasets": ["lookup"]}, "tasks": {"m": {"t": {"shots": -1}}}, "models": []}',
    "run_within/spec.json": '{"identity": {"datasets": ["lookup"]}, "tasks": {"m": {"t": {"within": 7}}}, "models": []}',
    "run_binary/spec.json": bytes(range(256)),
    "run_deep/spec.json": "[" * 100_000 + "]" * 100_000,
    "run_nojournal/spec.json": '{"identity": {"datasets": ["lookup"]}, "models": []}',
    "run_other/thesis.tex": "precious",
    "a file": "x",
}
