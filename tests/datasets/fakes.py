"""A backend that answers by a function, and dataset classes made of rows."""

from kshot.records import Generate, Generated, Likelihood, Loglik, Scored


class Fake:
    """Answers each request by a function, and keeps what it was asked."""

    name = fingerprint = "fake"
    answers = (Generate, Loglik)

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def serve(self, waiting):
        for request in waiting:
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


def values(result):
    """The figures of a result as {task: {metric: value}}."""
    found = {}
    for row in result.results:
        found.setdefault(row["task"], {})[row["metric"]] = row["value"]
    return found
