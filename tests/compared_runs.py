"""Small real runs to compare: a shop with prices, and a clerk who errs less often when examples are shown."""

import os
from contextlib import contextmanager
from pathlib import Path

from kshot import evaluate

SHOP = '''
import hashlib

from kshot import Em, F1, Failed, Generate, Generated, GenerationDataset, Metric
from kshot.datasets.catalogue.mmlu import Mmlu

SHELVES = ["bread", "cheese", "fruit", "野菜", "tea", "spices from far away", "milk", "honey", "salt", "nuts"]


def questions(count, first=0):
    return [
        {"shelf": SHELVES[at % 10], "a": at % 9 + 2, "b": at // 9 % 11 + 3, "at": at} for at in range(first, first + count)
    ]


class Distance(Metric):
    """How far a price is from the right one."""

    name, higher_is_better = "Distance", False

    def rate(self, prediction, reference):
        return float(min(abs(int(prediction.split()[0]) - int(text.split()[0])) for text in reference))


class Prices(GenerationDataset):
    """What do so many cost?"""

    instruction = "What do {a} pieces of {shelf} cost at {b} each, on day {at}?\\nAnswer:"
    category_column = "shelf"
    metrics = [Em()]

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = questions(int(dataset_path or 200))
        self.example_data = questions(5, first=1000)

    def format_instance(self, row):
        return {**row, "target": f"{row['a'] * row['b']} euros"}


class Graded(Prices):
    """The same, with metrics that have grades."""

    metrics = [Distance(), F1()]


class Other(Prices):
    """The same ids with other questions."""

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = [{**row, "b": row["b"] + (row["at"] in (3, 8))} for row in questions(20)]
        self.example_data = []


class Exams(Prices):
    """Fifty-seven subsets."""

    categorized_subsets = Mmlu.categorized_subsets
    category_column = None

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = questions(8, first=len(subset_name) * 31 + ord(subset_name[3]) * 7)
        self.example_data = questions(5, first=9000)


class Clerk:
    """Knows the price; errs by chance, which the question and the name of the clerk decide."""

    name, answers = "clerk", (Generate,)

    def __init__(self, right: int = 60, taught: int = 80, fails: int = 0, seed: str = "") -> None:
        self.right, self.taught, self.fails, self.seed = right, taught, fails, seed
        self.fingerprint = f"clerk {right} {taught} {fails} {seed}"

    def serve(self, queue):
        for request in queue:
            asked = request.prompt.text.rpartition("What do ")[2]
            words = asked.replace(",", "").replace("?", "").split()
            price = int(words[0]) * int(words[words.index("at") + 1])
            shown = "Answer:" in request.prompt.text.partition(asked)[0]
            drawn = hashlib.blake2b(f"{self.seed}{asked}{shown}".encode(), digest_size=4).digest()
            luck, level = int.from_bytes(drawn, "big") % 100, self.taught if shown else self.right
            if luck < self.fails:
                yield request, Failed("asleep", "the clerk sleeps")
            else:
                yield request, Generated(f"{price} euros" if luck < level else f"{price + luck % 3 + 1} dollars or so")
'''


def make_runs(folder, **commands):
    """Run each command in a folder that has ``shop.py``; the run folder has the name of the command."""
    (folder / "shop.py").write_text(SHOP, encoding="utf-8")
    with chdir(folder):
        for name, (model, dataset, options) in commands.items():
            evaluate(model, dataset, out=name, fsync="never", **options)


@contextmanager
def chdir(folder):
    """Work in a folder until the block ends."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
