"""Runs on a dataset of three subsets, of which a test chooses how many samples fail, and which are answered right."""

import kshot
from kshot import Em, Failed, Generated, GenerationDataset
from tests.datasets.fakes import Fake

SAMPLES = 20


class Towns(GenerationDataset):
    """Twenty questions a subset, each of which has the answer "yes"."""

    name, instruction, metrics = "towns", "{q} ?", [Em()]

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = [{"q": f"{subset_name} {at}"} for at in range(SAMPLES)]
        self.example_data = [{"q": f"example {at}"} for at in range(40)]

    def format_instance(self, row):
        return {"q": row["q"], "target": "yes"}


def evaluated(failed, right=("easy",), subsets=("easy", "mid", "hard"), **options):
    """Run a model that fails on so many samples of each subset, and is right on some subsets alone."""

    def answer(request):
        subset, at, _ = request.prompt.text.splitlines()[-1].split()[:3]
        if int(at) < failed.get(subset, 0):
            return Failed("timeout", "no answer")
        return Generated("yes" if subset in right else "no")

    dataset = f"{__file__}:Towns:{','.join(subsets)}"
    return kshot.evaluate(Fake(answer), dataset, **options)


def averages(result):
    """The rows of averages, by metric."""
    return {row["metric"]: row for row in result.results if "average" in row}
