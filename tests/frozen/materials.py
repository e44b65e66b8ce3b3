"""The files of the working folder: datasets of every kind, and models whose answers follow from what they are asked."""

import json
import shutil
from pathlib import Path

from tests.commands import CAPITALS
from tests.compared_runs import SHOP
from tests.configs.written import ARC, OWN, RACE, RAW, tree
from tests.datasets.llmbox_tree import CHOICE, GENERATION, Tree
from tests.frozen.world import ROOT
from tests.passages.books import small_book

MADE_UP = '''
"""Models that know nothing, and answer the same question always in the same way."""

import hashlib
import json
from pathlib import Path

from kshot import Generate, Generated, Likelihood, Loglik, Scored

WORDS = ("Paris", "Mars", "B", "42", "Yes, it is", "The answer is C.", "I cannot tell", "Jupiter")


def number_of(*parts):
    return int(hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12], 16)


class Model:
    name, answers = "made-up", (Generate, Loglik)

    def __init__(self, seed: int = 0, words: str = "") -> None:
        self.seed, self.fingerprint = seed, f"made up {seed} {words}"
        self.words = words.split("/") if words else WORDS

    def serve(self, queue):
        for request in queue:
            yield request, self.answer(request)

    def answer(self, request):
        text = request.prompt.text
        if isinstance(request, Generate):
            number = number_of(self.seed, text, request.replica)
            return Generated(f"{self.words[number % len(self.words)]}{' or so' * (number // 64 % 2)}")
        found = [number_of(self.seed, text, each) for each in request.continuations]
        return Scored(tuple(Likelihood(-(n % 4096) / 64, 1 + n // 4096 % 7, not n % 5) for n in found))


class Judge(Model):
    name = "judge"

    def answer(self, request):
        number = number_of(self.seed, request.prompt.text)
        verdict = "AB"[number % 2] if "[[A]]" in request.prompt.text else number % 10 + 1
        return Generated(f"Let me see. Verdict: [[{verdict}]]")


class Grader(Model):
    name = "grader"

    def answer(self, request):
        return Generated("AB"[number_of(self.seed, request.prompt.text) % 2])


class Rewriter(Model):
    name = "rewriter"

    def answer(self, request):
        return Generated(" ".join(request.prompt.text.split()[-4:]))


class Replies(Model):
    """Replies what stands in the file of replies at the number with which a prompt begins."""

    name = "replies"

    def __init__(self, file: str = "replies.jsonl") -> None:
        super().__init__(words=file)
        self.rows = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]

    def answer(self, request):
        return Generated(self.rows[int(request.prompt.text.partition("?")[0])]["reply"])


class Programmer(Model):
    name = "programmer"

    def answer(self, request):
        body = ("return sorted(items)", "return items", "raise ValueError", "return (")
        return Generated(f"    {body[number_of(self.seed, request.prompt.text, request.replica) % 4]}\\n")
'''

CLASSES = """
import json
from pathlib import Path

from kshot import GPTEval, Em, F1, GenerationDataset, MultipleChoiceDataset, PassAtK, Perplexity


class Rows:
    evaluation_set, example_set = "test", "dev"

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = [{"n": n, "kind": ("odd", "even")[n % 2]} for n in range(6)]
        self.example_data = [{"n": n, "kind": "shown"} for n in range(100, 104)]


class Judged(Rows, GenerationDataset):
    instruction, metrics = "Say {n}.", [Em(), GPTEval()]
    category_column = "kind"

    def format_instance(self, row):
        return {"n": row["n"], "target": [str(row["n"]), "Mars"]}


class Talks(Judged):
    instruction, multi_turn, category_column = "{{source[turn_idx]}}", True, None
    metrics = [GPTEval(multi_turn=True)]

    def format_instance(self, row):
        return {"source": [f"Tell me about {row['n']}.", "And then?"], "target": ["a", "b"]}


class Pages(Rows, GenerationDataset):
    instruction, metrics = "", [Perplexity()]

    def format_instance(self, row):
        return {"target": f"Page {row['n']} tells of the planets and the sun."}


class Subsets(Rows, MultipleChoiceDataset):
    instruction = "{{subset_name}} {{n}}?{{' ' + options if options}}\\nAnswer:"
    categorized_subsets = {"sums": ["plus", "minus"], "other": ["words"]}
    use_normalization = True

    def format_instance(self, row):
        return {"n": row["n"], "options": ["one", "two", "three or more"][: 2 + row["n"] % 2], "target_idx": row["n"] % 2}


class Replies(Rows, MultipleChoiceDataset):
    instruction = "{{n}}?\\n{{options}}\\nAnswer:"

    def load_raw_dataset(self, dataset_path, *more):
        rows = [json.loads(line) for line in Path(dataset_path).read_text(encoding="utf-8").splitlines()]
        self.evaluation_data, self.example_data = [{"n": n, **row} for n, row in enumerate(rows)], []

    def format_instance(self, row):
        right = "ABCDEFGHIJ".find(row["answer"] or "A")
        return {"n": row["n"], "options": row["options"], "target_idx": max(0, right)}


class Programs(GenerationDataset):
    instruction, metrics = "{code}", [PassAtK()]

    def load_raw_dataset(self, *where):
        self.evaluation_data, self.example_data = [{"n": 1}, {"n": 2}], []

    def format_instance(self, row):
        code = f"def f{row['n']}(items):\\n"
        return {"code": code, "target": f"assert f{row['n']}([2, 1]) == [1, 2]\\n", "entry": f"f{row['n']}"}
"""

ENTRIES = (("race.py", RACE), ("arc.py", ARC), ("raw.py", RAW), ("own.py", OWN))
LETTERS = [
    {"question": f"What is {n}?", "A": "one", "B": "two", "C": "three", "D": "four", "answer": "ABCD"[n % 4]}
    for n in range(5)
]
CONFIG_ROWS = {
    "race.jsonl": [{**row, "article": f"Text {n}."} for n, row in enumerate(LETTERS)],
    "arc.jsonl": [
        {"question": row["question"], "answerKey": row["answer"], **{f"text{key}": row[key] for key in "ABCD"}}
        for row in LETTERS
    ],
    "raw.jsonl": [{"question": f"q{n}", "answer": f"a{n}"} for n in range(4)],
    "own.jsonl": [{"q": f"q{n}", "a": f"a{n}"} for n in range(4)],
}


def write_materials() -> None:
    """Write everything into the working folder."""
    here = Path()
    shutil.copytree(ROOT / "examples", "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in {
        "made_up.py": MADE_UP,
        "classes.py": CLASSES,
        "capitals.py": CAPITALS,
        "shop.py": SHOP,
        **dict(ENTRIES),
    }.items():
        Path(name).write_text(text, encoding="utf-8")
    for name, rows in CONFIG_ROWS.items():
        write_rows(here / name, rows)
    for name in ("replies.jsonl", "replies_held_out.jsonl"):
        shutil.copyfile(ROOT / "tests" / "data" / name, name)
    small_book(here / "book")
    tree(here)
    gsm8k = [{"question": f"What is {n} + 1?", "answer": f"It is {n + 1}.\n#### {n + 1}"} for n in range(4)]
    for split in ("train", "test"):
        write_rows(here / "data" / "gsm8k" / f"{split}.jsonl", gsm8k)
        folder = here / "data" / "mmlu" / {"train": "dev"}.get(split, split)
        folder.mkdir(parents=True)
        for subject in ("anatomy", "virology", "world_religions"):
            rows = "".join(f"Which of {subject} {n}?,this,that,one,none,{'ABCD'[n % 4]}\n" for n in range(3))
            (folder / f"{subject}_{folder.name}.csv").write_text(rows)
    (here / "llmbox").mkdir()
    llmbox = Tree(here / "llmbox")
    llmbox.add(CHOICE, "dataset/colours.py")
    llmbox.add(GENERATION, "dataset/words.py")


def write_rows(path: Path, rows: list) -> None:
    """Write rows as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
