"""A backend that answers by a function, dataset classes made of rows, and rows in files of every kind."""

import csv
import json

import pytest

import kshot
from kshot.core.records import Generate, Generated, Likelihood, Loglik, Scored


class Fake:
    """Answers each request by a function, and keeps what it was asked."""

    name = fingerprint = "fake"
    answers = (Generate, Loglik)

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def serve(self, queue):
        for request in queue:
            self.asked.append(request)
            yield request, self.answer(request)


def says(text):
    """A backend that always writes this."""
    return Fake(lambda _: Generated(text))


def prefers(*texts):
    """A backend to which these texts are likely and all others are not, whatever the prompt."""

    def answer(request):
        return Scored(tuple(Likelihood(-1.0 if c.strip() in texts else -9.0, 1) for c in request.continuations))

    return Fake(answer)


def from_rows(base, rows, examples=(), **body):
    """A dataset class over rows in memory; a row is its own instance unless ``format_instance`` is given."""

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data, self.example_data = list(rows), list(examples)

    made = {"name": "mine", "load_raw_dataset": load_raw_dataset, "format_instance": lambda self, row: row}
    return type("Mine", (base,), made | body)


def values(result, *, details=False):
    """The figures of a result as {task: {metric: value}}; those that only break another one down with ``details``."""
    found = {}
    for row in result.results:
        if details or not row.get("detail"):
            found.setdefault(row["task"], {})[row["metric"]] = row["value"]
    return found


# ---- files and previews ----


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def as_json(path, rows):
    path.write_text(json.dumps(rows), encoding="utf-8")


def as_csv(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def parquet(path, rows):
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(rows), path)


def disk(path, **splits):
    datasets = pytest.importorskip("datasets")
    made = {name: datasets.Dataset.from_list(rows) for name, rows in splits.items()}
    datasets.DatasetDict(made).save_to_disk(str(path))
    return path


def asked(dataset, **options):
    """The first requests of every sample."""
    return [request for each in kshot.preview(dataset, **options) for request in each.requests]


def seen(dataset, **options):
    return [(r.prompt.text, *getattr(r, "continuations", ())) for r in asked(dataset, **options)]


# ---- classes over rows in memory ----

QUESTIONS = [{"q": "one", "target": "1"}, {"q": "two", "target": "2"}, {"q": "three", "target": "3"}]
CHOICES = [
    {"q": "sky?", "options": ["red", "blue"], "target_idx": 1},
    {"q": "sun?", "options": ["hot", "cold"], "label": "0"},
]


def generation(rows=QUESTIONS, examples=(), **body):
    body = {"instruction": "{q}:", "metrics": [kshot.Em()]} | body
    return from_rows(kshot.GenerationDataset, rows, examples, **body)


def choice(rows=CHOICES, examples=(), **body):
    body = {"instruction": "{{q}}{{'\n' + options if options}}"} | body
    return from_rows(kshot.MultipleChoiceDataset, rows, examples, **body)


def texts(cls, **options):
    return [request.prompt.text for request in asked(cls, **options)]


def turns(request):
    return [(message.role, message.content) for message in request.prompt.messages]
