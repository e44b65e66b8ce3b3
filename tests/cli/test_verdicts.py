"""What a run of several models, or over several draws of examples, says below its table."""

import csv
import json
import re
from pathlib import Path

import pytest

from tests.commands import kshot

DATASET = '''
from kshot import Em, GenerationDataset


class Sums(GenerationDataset):
    """What is the last digit?"""

    instruction = "{question}"
    metrics = [Em()]

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = [{"question": f"q{i}"} for i in range(40)]
        self.example_data = [{"question": f"e{i}"} for i in range(9)]

    def format_instance(self, instance):
        return {"question": instance["question"], "target": instance["question"][-1]}

    @property
    def references(self):
        return [[row["question"][-1]] for row in self.evaluation_data]
'''

MODELS = '''
def good(prompt):
    return prompt.strip()[-1]


def bad(prompt):
    return prompt.strip()[-1] if "q3" in prompt or "q2" in prompt else "x"


def same(prompt):
    return good(prompt)


def moved(prompt):
    """Right where the example has an even number."""
    return prompt.strip()[-1] if int(prompt.split("e")[1][0]) % 2 == 0 else "x"
'''


@pytest.fixture
def user(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sums.py").write_text(DATASET)
    (tmp_path / "models.py").write_text(MODELS)


def test_models_are_compared_on_the_screen(user, capsys):
    done = kshot(capsys, "run", "-d", "sums.py:Sums", "-m", "models.py:bad", "-m", "models.py:good", "--out", "run")
    assert "\nsums EM: models.py:good is ahead of models.py:bad (+" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    (row,) = json.loads(Path("run/summary.json").read_text())["comparisons"]
    assert (row["ahead"], row["lost"], row["family"]) == ("models.py:good", 0, 1)
    assert row["p"] == row["p_corrected"] < 0.05
    assert row["won"] + row["tied"] == row["n"] == 40


@pytest.mark.parametrize("order", [("bad", "good"), ("good", "bad")])
def test_a_difference_has_one_sign_wherever_it_is_shown(order, user, capsys):
    """The second minus the first as the user named them: in the sentence, the page, ``compare`` and exports."""
    models = [word for name in order for word in ("-m", f"models.py:{name}")]
    done = kshot(capsys, "run", "-d", "sums.py:Sums", *models, "--out", "run")
    sign = "+" if order[1] == "good" else "-"
    assert f"is ahead of models.py:bad ({sign}" in done.out
    (inside,) = json.loads(Path("run/summary.json").read_text())["comparisons"]
    (outside,) = json.loads(kshot(capsys, "compare", "run", "--json").out)["rows"]
    assert (inside["difference"] > 0) == (sign == "+")
    for name in ("difference", "ci95", "won", "lost"):
        assert inside[name] == outside[name]
    assert (inside["a"], inside["b"]) == (outside["baseline"], outside["run"])
    page = Path("run/report.html").read_text(encoding="utf-8")
    (shown,) = set(re.findall(r'data-row="run/comparisons/0" data-field="difference"[^>]*>([^<]+)<', page))
    assert shown[0] == sign
    assert f"models.py:{order[1]} − models.py:{order[0]}" in page
    (line,) = csv.DictReader(kshot(capsys, "export", "run", "--to", "csv", "--what", "comparisons").out.splitlines())
    assert (line["a"], line["b"], float(line["difference"])) == (inside["a"], inside["b"], inside["difference"])


def test_equal_models_cannot_be_told_apart(user, capsys):
    done = kshot(capsys, "run", "-d", "sums.py:Sums", "-m", "models.py:good", "-m", "models.py:same", "--out", "run")
    told = "sums EM: models.py:good cannot be told from models.py:same (+0.0, 95 %: -8.9 to +8.9, p 1)."
    assert told in " ".join(done.out.split())


def test_the_spread_over_draws_is_on_the_screen(user, capsys):
    given = ["-k", "1", "--retriever", "random", "--retriever-seeds", "0..5", "--out", "run"]
    done = kshot(capsys, "run", "-d", "sums.py:Sums", "-m", "models.py:moved", *given)
    told = " ".join(done.out.split())
    assert re.search(
        r"sums\[6 draws of examples\] EM: [\d.]+ on average, from [\d.]+ to [\d.]+ by the choice of examples", told
    )
    assert "(SD " in told
