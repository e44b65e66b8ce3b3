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


def model(failed, right=("easy",), first=0, name="fake"):
    """A model that fails on so many samples of each subset, from the ``first`` on, and is right on some subsets alone."""

    def answer(request):
        subset, at, _ = request.prompt.text.splitlines()[-1].split()[:3]
        if first <= int(at) < first + failed.get(subset, 0):
            return Failed("timeout", "no answer")
        return Generated("yes" if subset in right else "no")

    made = Fake(answer)
    made.name = made.fingerprint = name
    return made


def evaluated(failed, others=(), subsets=("easy", "mid", "hard"), right=("easy",), first=0, **options):
    """Evaluate such a model; ``others`` has the failures of more models."""
    models = [
        model(failed, right, first),
        *(model(each, right, name=f"fake {at}") for at, each in enumerate(others, 2)),
    ]
    return kshot.evaluate(models, f"{__file__}:Towns:{','.join(subsets)}", **options)


def averages(result):
    """The rows of averages, by metric."""
    return {row["metric"]: row for row in result.results if "average" in row}
