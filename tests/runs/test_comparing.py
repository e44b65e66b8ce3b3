"""Comparing finished runs: what is paired with what, what is refused, and figures that are not means."""

import json
import math
import re
import shutil
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import kshot
from kshot import F1, Bleu, Chrf, Em, KshotError, Metric, Perplexity, Ter
from kshot.metrics.aggregates import SHARE, aggregate
from kshot.runs.compared_run import open_run
from kshot.runs.comparing import compare_runs
from kshot.statistics import holm, sign_test
from tests.finished_runs import Item, Points, Replies, Right, finished, task

EARLY = Path(__file__).parents[1] / "data" / "runs_0_1"


def items(scores, **more):
    """Samples with these scores, by id."""
    return {f"q{at}": Item(score, f"question {at}", **more) for at, score in enumerate(scores)}


def shares(right, n=20):
    return [100.0] * right + [0.0] * (n - right)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two runs on three tasks: by right and wrong, by points, and one with categories."""
    folder = tmp_path_factory.mktemp("pair")

    def made(name, right, points, parts):
        categories = {key: item._replace(category="ab"[at % 2]) for at, (key, item) in enumerate(items(parts).items())}
        tasks = task("quiz", items(right)), task("essay", items(points), Points()), task("parts", categories)
        return finished(folder / name, *tasks)

    before = made("before", shares(5), [10.0, 20.0, 30.0, 40.0], shares(4, 8))
    after = made("after", shares(14), [10.0, 90.0, 35.0, 20.0], [0.0, 100.0, 0.0, 100.0, 0.0, 100.0, 0.0, 100.0])
    return before, after


def test_a_row_says_who_is_better_and_by_which_samples(pair):
    found = kshot.compare(*pair)
    quiz = found.rows[0]
    assert (quiz["task"], quiz["metric"], quiz["baseline"], quiz["run"]) == ("quiz", "Right", "before", "after")
    assert (quiz["baseline_value"], quiz["run_value"], quiz["difference"]) == (25.0, 70.0, 45.0)
    assert {name: quiz[name] for name in ("n", "won", "lost", "both", "neither")} == {
        "n": 20, "won": 9, "lost": 0, "both": 5, "neither": 6,
    }  # fmt: skip
    assert (quiz["p"], quiz["verdict"], quiz["family"]) == (pytest.approx(sign_test(9, 0)), "better", 2)
    essay = found.rows[1]
    assert {name: essay[name] for name in ("n", "won", "lost", "tied")} == {"n": 4, "won": 2, "lost": 1, "tied": 1}
    assert "both" not in essay
    assert found.settings == []
    assert [each["label"] for each in found.runs] == ["before", "after"]
    assert json.loads(json.dumps(found.as_dict()))["rows"] == found.rows


def test_categories_are_a_family_of_their_own(pair):
    found = kshot.compare(*pair)
    assert [(row["task"], row["category"], row["n"]) for row in found.categories] == [
        ("parts", "a", 4),
        ("parts", "b", 4),
    ]
    assert [row["difference"] for row in found.categories] == [-50.0, 50.0]
    assert {row["family"] for row in found.categories} == {2}
    assert {row["family"] for row in found.rows if row["metric"] == "Right"} == {2}


def test_flips(pair):
    found = kshot.compare(*pair)
    quiz = list(found.flips("quiz"))
    assert [each["id"] for each in quiz] == [f"q{at}" for at in range(5, 14)]
    assert all(each["won"] and each["baseline_score"] == 0 and each["run_score"] == 100 for each in quiz)
    essay = [(each["id"], each["baseline_score"], each["run_score"], each["won"]) for each in found.flips("essay")]
    assert essay == [("q1", 20.0, 90.0, True), ("q3", 40.0, 20.0, False), ("q2", 30.0, 35.0, True)]
    assert [each["id"] for each in found.flips("essay", won=False)] == ["q3"]
    assert {each["category"] for each in found.flips(category="b")} == {"b"}
    assert not list(found.flips(metric="Nothing"))


def test_one_task_or_one_metric_is_a_family_of_its_own(pair):
    (row,) = kshot.compare(*pair, task="quiz").rows
    assert row["family"] == 1
    assert {row["metric"] for row in kshot.compare(*pair, metric="Points").rows} == {"Points"}
    with pytest.raises(KshotError, match=r"no run has the task 'quis'.*quiz, essay, parts"):
        kshot.compare(*pair, task="quis")
    with pytest.raises(KshotError, match=r"no run has the metric 'EM'.*Right, Points"):
        kshot.compare(*pair, metric="EM")
    alone = finished(None, task("quiz", items(shares(3))))
    with pytest.raises(KshotError, match="run 2: it has no Points"):
        kshot.compare(pair[0], alone, metric="Points")
    with pytest.raises(KshotError, match=r"not all of the runs have the task essay: before has"):
        kshot.compare(pair[0], alone, task="essay")
    with pytest.raises(KshotError, match="is not a run"):
        kshot.compare([pair[0], pair[1]])


def test_swapped_runs_have_swapped_signs(pair):
    forth, back = kshot.compare(*pair), kshot.compare(*reversed(pair))
    for one, other in zip(forth.rows + forth.categories, back.rows + back.categories, strict=True):
        assert one["difference"] == pytest.approx(-other["difference"])
        assert one["ci95"] == pytest.approx([-other["ci95"][1], -other["ci95"][0]])
        assert (one["won"], one["lost"]) == (other["lost"], other["won"])
        assert (one["p"], one["p_corrected"]) == (other["p"], other["p_corrected"])


def test_a_run_compared_with_itself(pair):
    found = kshot.compare(pair[0], pair[0])
    assert [each["label"] for each in found.runs] == ["before (1)", "before (2)"]
    assert {(row["difference"], row["p"], row["verdict"]) for row in found.rows} == {(0.0, 1.0, None)}
    assert not list(found.flips())


def test_folders_of_one_name_are_told_apart(pair, tmp_path):
    for name in ("one", "other"):
        shutil.copytree(pair[0], tmp_path / name / "run")
    found = kshot.compare(tmp_path / "one" / "run", str(tmp_path / "other" / "run"))
    assert [each["label"] for each in found.runs] == ["one/run", "other/run"]


def test_the_order_of_the_lines_does_not_matter(pair, tmp_path):
    shutil.copytree(pair[1], tmp_path / "after")
    lines = (tmp_path / "after" / "samples.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "after" / "samples.jsonl").write_text("".join(reversed(lines)))
    mixed = kshot.compare(pair[0], tmp_path / "after")
    assert (mixed.rows, mixed.categories) == (kshot.compare(*pair).rows, kshot.compare(*pair).categories)
    assert sorted(each["id"] for each in mixed.flips()) == sorted(each["id"] for each in kshot.compare(*pair).flips())


def test_results_in_memory(pair):
    before = finished(None, task("quiz", items(shares(5))))
    after = finished(None, task("quiz", items(shares(14))))
    found = kshot.compare(before, after)
    assert [(each["label"], each["path"]) for each in found.runs] == [("run 1", None), ("run 2", None)]
    same = ("difference", "ci95", "p", "won", "lost", "both", "neither", "n")
    (of_folders,) = kshot.compare(*pair, task="quiz").rows
    assert [found.rows[0][name] for name in same] == [of_folders[name] for name in same]
    assert [each["id"] for each in found.flips()] == [f"q{at}" for at in range(5, 14)]
    assert kshot.compare(pair[0], after, task="quiz").rows[0]["won"] == 9
    assert kshot.compare(kshot.load(pair[0]), kshot.load(pair[1])).rows == kshot.compare(*pair).rows


# ---- which systems, tasks and samples ----


def models_of(path, **right):
    """A run of several models on one task."""
    made = [_Model(name, items(shares(count))) for name, count in right.items()]
    each = task("quiz", items(shares(0)))
    kshot.evaluate(made, each, out=path, fsync="never")
    return path


class _Model(Replies):
    def __init__(self, name, samples):
        super().__init__(name)
        self._samples = samples

    def serve(self, queue):
        for request in queue:
            key = request.prompt.text.split()[1]
            yield request, kshot.Generated(str(self._samples[key].score))


def systems(found):
    return [(row["baseline"], row["run"]) for row in found.rows]


def test_models_that_runs_share_are_compared_with_themselves(tmp_path):
    one = models_of(tmp_path / "one", a=3, b=4)
    other = models_of(tmp_path / "other", b=9, c=2)
    third = models_of(tmp_path / "third", d=1)
    assert systems(kshot.compare(one, other)) == [("one · b", "other · b")]
    assert systems(kshot.compare(one, third)) == [("one · a", "third"), ("one · b", "third")]
    found = kshot.compare(one, other, third, all_pairs=True)
    assert systems(found)[1:3] == [("one · a", "third"), ("one · b", "third")]
    assert systems(found)[3:] == [("other · b", "third"), ("other · c", "third")]
    assert {row["family"] for row in found.rows} == {5}
    assert [row["p_corrected"] for row in found.rows] == pytest.approx(holm([row["p"] for row in found.rows]))
    assert systems(kshot.compare(other)) == [("b", "c")]
    with pytest.raises(KshotError, match="has 1 model"):
        kshot.compare(third)
    with pytest.raises(KshotError, match="there is no run"):
        kshot.compare()


def test_every_system_is_compared_with_every_other_one(tmp_path):
    """Models of one run, too, and those that only one run has; a run of other questions is left out."""
    one, other = models_of(tmp_path / "one", a=0, b=20), models_of(tmp_path / "other", a=8, c=10)
    alone = finished(tmp_path / "alone", task("else", {"x": Item(100)}))
    found = compare_runs([open_run(run) for run in (one, other, alone)], aggregate, every_system=True)
    systems = ["one · a", "one · b", "other · a", "other · c"]
    assert [(row["baseline"], row["run"]) for row in found.rows] == list(combinations(systems, 2))
    assert {row["family"] for row in found.rows} == {6}
    within = compare_runs([open_run(other)], aggregate, every_system=True)
    assert [(row["baseline"], row["run"]) for row in within.rows] == [("a", "c")]


def test_tasks_left_over_are_paired_by_their_questions(tmp_path):
    plain = finished(tmp_path / "plain", task("quiz", items(shares(5))), task("other", {"z": Item(100.0, "other")}))
    draws = finished(tmp_path / "draws", *(task(f"quiz@{seed}", items(shares(5 + seed))) for seed in range(3)))
    found = kshot.compare(plain, draws)
    assert [(row["task"], row["run_task"]) for row in found.rows] == [("quiz", f"quiz@{seed}") for seed in range(3)]
    assert found.notes == ["only plain has other"]
    assert [row["run_task"] for row in kshot.compare(plain, draws, task="quiz@1").rows] == ["quiz@1"]
    others = finished(tmp_path / "others", *(task(f"quiz@{seed}", items(shares(5 + seed))) for seed in range(2, 5)))
    found = kshot.compare(draws, others)
    assert [(row["task"], row.get("run_task")) for row in found.rows] == [
        ("quiz@2", None), ("quiz@0", "quiz@3"), ("quiz@1", "quiz@4"),
    ]  # fmt: skip


def test_the_only_task_of_each_is_paired_if_it_shares_a_question(tmp_path):
    one = finished(tmp_path / "one", task("old name", items(shares(5))))
    few = {key: item for key, item in items(shares(5, 40)).items() if int(key[1:]) >= 15}
    other = finished(tmp_path / "other", task("new name", few))
    (row,) = kshot.compare(one, other).rows
    assert (row["task"], row["run_task"], row["n"]) == ("old name", "new name", 5)
    assert (row["only_baseline"], row["only_run"]) == (15, 20)
    strange = finished(tmp_path / "strange", task("quiz", {"q0": Item(0.0, "something else")}))
    with pytest.raises(KshotError, match=r"no task in common: one has old name; strange has quiz"):
        kshot.compare(one, strange)


def test_other_questions_are_refused(tmp_path):
    one = finished(tmp_path / "one", task("quiz", items(shares(5))))
    changed = {
        key: item._replace(question="new") if int(key[1:]) < 7 else item for key, item in items(shares(5)).items()
    }
    other = finished(tmp_path / "other", task("quiz", changed))
    with pytest.raises(KshotError) as caught:
        kshot.compare(one, other)
    said = str(caught.value)
    assert "quiz in one and other: 7 of the 20 samples" in said
    assert "q0, q1, q2, q3, q4, …" in said


def test_missing_and_failed_samples_are_counted_by_side(tmp_path):
    one = {**items([100.0, 0.0, None, None, 0.0]), "only here": Item(0.0), "failed here": Item(None)}
    other = {**items([0.0, None, 0.0, None, 100.0]), "only there": Item(0.0)}
    paths = [finished(tmp_path / name, task("quiz", each)) for name, each in (("one", one), ("other", other))]
    (row,) = kshot.compare(*paths).rows
    assert {name: row[name] for name in ("n", "won", "lost", "only_baseline", "only_run", "failed_baseline", "failed_run")} == {
        "n": 2, "won": 1, "lost": 1, "only_baseline": 2, "only_run": 1, "failed_baseline": 2, "failed_run": 2,
    }  # fmt: skip


def test_where_nothing_was_answered_on_both_sides_there_is_no_figure(tmp_path):
    one = finished(tmp_path / "one", task("quiz", items([100.0, None])))
    other = finished(tmp_path / "other", task("quiz", items([None, 100.0])))
    (row,) = kshot.compare(one, other).rows
    assert (row["n"], row["difference"], row["p"], row["ci95"], row["verdict"]) == (0, None, None, None, None)
    assert (row["failed_baseline"], row["failed_run"]) == (1, 1)
    nothing = finished(tmp_path / "nothing", task("quiz", items([None, None])))
    (row,) = kshot.compare(nothing, other).rows
    assert (row["n"], row["failed_baseline"], row["failed_run"]) == (0, 2, 1)
    apart = finished(tmp_path / "apart", task("quiz", {"z": Item(0.0)}))
    with pytest.raises(KshotError, match="no sample in common"):
        kshot.compare(one, apart)


# ---- metrics ----


class Lengths(Metric):
    """A figure that only the metric itself can compute."""

    name = "Median"

    def rate(self, prediction, reference):
        return float(len(prediction))

    def reduce(self, name, values):
        return float(np.median(values))


class Wrong(Right):
    """Lower is better."""

    name, higher_is_better = "Wrong", False


def test_only_metrics_that_both_have_and_that_can_be_computed_again(tmp_path):
    same = items(["100", "0", "100.0", "0.0"])
    one = finished(tmp_path / "one", task("quiz", same, Right(), Points(), Lengths()))
    other = finished(tmp_path / "other", task("quiz", same, Right(), Wrong(), Lengths()))
    found = kshot.compare(one, other)
    assert [row["metric"] for row in found.rows] == ["Right"]
    assert "quiz: only one has Points" in found.notes
    assert "quiz: only other has Wrong" in found.notes
    assert sum("Median" in note for note in found.notes) == 2


def test_where_lower_is_better(tmp_path):
    one = finished(tmp_path / "one", task("quiz", items(shares(14)), Wrong()))
    other = finished(tmp_path / "other", task("quiz", items(shares(5)), Wrong()))
    (row,) = kshot.compare(one, other).rows
    assert (row["difference"], row["verdict"], row["won"], row["lost"]) == (-45.0, "better", 9, 0)
    assert (row["both"], row["neither"]) == (6, 5)
    assert all(each["won"] for each in kshot.compare(one, other).flips())


def test_one_name_for_two_rules_is_not_compared(tmp_path):
    class Points(Bleu):
        """Another figure under the same name."""

        @property
        def names(self):
            return ("Sentence_BLEU", "Points")

        def __init__(self):
            super().__init__()
            self.name = "Points"

    same = items(["100", "0", "50"])
    one = finished(tmp_path / "one", task("quiz", same, Right(), _points()))
    other = finished(tmp_path / "other", task("quiz", same, Right(), Points()))
    found = kshot.compare(one, other)
    assert [row["metric"] for row in found.rows] == ["Right"]
    assert "quiz: the runs compute Points by different rules" in found.notes


def _points():
    return Points()


def on_scale(path, name, bounds, *more, binary=False):
    """A run by a metric on a scale; half of its samples reach 5."""
    scaled = type("Scaled", (Points,), {"name": name, "bounds": bounds, "binary": binary})
    return finished(path, task("quiz", items([5.0, 0.0] * 10), scaled(), *more))


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ((1.0, 10.0), (1.0, 5.0), "1 to 10 in one and 1 to 5 in other"),
        ((0.0, 100.0), (0.0, 1.0), "0 to 100 in one and 0 to 1 in other"),
        ((0.0, 0.5), (0.0, math.inf), "0 to 0.5 in one and 0 or more in other"),
        ((-math.inf, 7.0), (-1.0, 7.0), "up to 7 in one and -1 to 7 in other"),
    ],
)
def test_figures_on_two_scales_are_not_compared(tmp_path, one, other, said):
    runs = on_scale(tmp_path / "one", "Mark", one, Right()), on_scale(tmp_path / "other", "Mark", other, Right())
    note = f"quiz: the scales of Mark differ: {said}"
    found = kshot.compare(*runs)
    assert [row["metric"] for row in found.rows] == ["Right"]
    assert found.notes == [note]
    with pytest.raises(KshotError, match=re.escape(f"no metric in common. {note}")):
        kshot.compare(*runs, metric="Mark")


def test_a_run_on_another_scale_than_all_others_is_refused_for_this_cause(tmp_path):
    ends = {"one": (0.0, 5.0), "same": (0.0, 5.0), "other": (0.0, 10.0)}
    runs = [on_scale(tmp_path / name, "Mark", bounds) for name, bounds in ends.items()]
    with pytest.raises(
        KshotError, match=r"other: this run has no metric in common.* 0 to 5 in one and 0 to 10 in other"
    ):
        kshot.compare(*runs)


@pytest.mark.parametrize("other", [None, (-math.inf, math.inf), (0, 100)])
def test_a_scale_that_one_run_does_not_tell_is_no_conflict(tmp_path, other):
    runs = on_scale(tmp_path / "one", "Mark", (0.0, 100.0)), on_scale(tmp_path / "other", "Mark", other, binary=True)
    found = kshot.compare(*runs)
    assert [(row["metric"], row["tied"]) for row in found.rows] == [("Mark", 20)]
    assert not found.notes


def test_rounding_is_no_change(tmp_path):
    one = finished(tmp_path / "one", task("quiz", items([200 / 3, 50.0]), Points()))
    other = finished(tmp_path / "other", task("quiz", items([66.66666666666669, 50.0]), Points()))
    (row,) = kshot.compare(one, other).rows
    assert (row["won"], row["lost"], row["tied"], row["p"]) == (0, 0, 2, 1.0)
    assert not list(kshot.compare(one, other).flips())


TEXTS = [
    ("the cat sat on the mat", "the cat sat on a mat"),
    ("a bird flew over the house today", "the bird flew over our house"),
    ("nobody knows the answer", "nobody knew the answer to it"),
    ("it rains", "it is raining again"),
    ("she reads a long book every day", "she reads long books every day"),
    ("we walk home", "they walk home slowly"),
    ("he said no", "he said yes"),
    ("good morning to you all", "good morning everyone"),
]


class Translations(Replies):
    """Replies the first words of each reference."""

    def __init__(self, words):
        super().__init__("translator")
        self._words = words

    def serve(self, queue):
        for request in queue:
            words = TEXTS[int(request.prompt.text.split()[1])][0].split()
            yield request, kshot.Generated(" ".join(words[: self._words]))


def translated(path, words, *metrics):
    samples = [kshot.Sample(str(at), {"n": at}, kshot.Answers((right,))) for at, (_, right) in enumerate(TEXTS)]
    each = task("texts", {}, *metrics)
    made = kshot.Task("texts", samples, lambda sample, _: kshot.Prompt(f"say {sample.id}"), each.method, metrics)
    kshot.evaluate(Translations(words), made, out=path, fsync="never")
    return path


def test_figures_of_a_corpus_are_those_of_the_run(tmp_path):
    metrics = Bleu(), Bleu("13a", lowercase=True), Chrf(), Chrf(word_order=2, beta=3), Ter()
    paths = [translated(tmp_path / name, words, *metrics) for name, words in (("short", 3), ("long", 9))]
    found = kshot.compare(*paths)
    told = [
        {row["metric"]: row["value"] for row in json.loads((path / "summary.json").read_text())["results"]}
        for path in paths
    ]
    assert {row["metric"] for row in found.rows} == set(told[0])
    assert found.notes == []
    for row in found.rows:
        assert (row["baseline_value"], row["run_value"]) == (
            pytest.approx(told[0][row["metric"]]), pytest.approx(told[1][row["metric"]]),
        )  # fmt: skip
        assert row["difference"] == pytest.approx(told[1][row["metric"]] - told[0][row["metric"]])
        assert row["won"] + row["lost"] + row["tied"] == row["n"] == len(TEXTS)
    corpus = next(row for row in found.rows if row["metric"] == "Corpus_BLEU")
    assert corpus["run_value"] == pytest.approx(
        Bleu()([text for text, _ in TEXTS], [[right] for _, right in TEXTS])["Corpus_BLEU"]
    )
    assert next(row for row in found.rows if row["metric"] == "TER")["higher_is_better"] is False


def test_they_are_those_that_a_run_of_both_would_compare_by(tmp_path):
    """The same test, the same draws: compare, and a run with two models, give the same p and interval."""
    metrics = Bleu(), Chrf(), Ter()
    paths = [translated(tmp_path / name, words, *metrics) for name, words in (("short", 3), ("long", 9))]
    one, other = Translations(3), Translations(9)
    for model, name in ((one, "one"), (other, "other")):
        model.name = model.fingerprint = name
    each = task("texts", {}, *metrics)
    samples = [kshot.Sample(str(at), {"n": at}, kshot.Answers((right,))) for at, (_, right) in enumerate(TEXTS)]
    made = kshot.Task("texts", samples, lambda sample, _: kshot.Prompt(f"say {sample.id}"), each.method, metrics)
    together = kshot.evaluate([one, other], made)
    for inside, row in zip(together.comparisons, kshot.compare(*paths).rows, strict=True):
        assert (inside["metric"], inside["won"], inside["lost"]) == (row["metric"], row["won"], row["lost"])
        assert inside["difference"] == pytest.approx(row["difference"])
        assert (inside["p"], inside["p_corrected"]) == (pytest.approx(row["p"]), pytest.approx(row["p_corrected"]))
        assert inside["ci95"] == pytest.approx(row["ci95"])


class Sayings(kshot.GenerationDataset):
    """Measures how likely the ends of texts are."""

    instruction = "{start}"
    metrics = (Perplexity(),)

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = [{"text": text} for text, _ in TEXTS]

    def format_instance(self, row):
        start, _, end = row["text"].rpartition(" ")
        return {"start": start, "target": end}


def test_perplexity(tmp_path):
    options = {"plain": {}, "other": {"instruction": "Say: {start}"}}
    for name, option in options.items():
        kshot.evaluate("embedded", Sayings, out=tmp_path / name, **option)
    found = kshot.compare(*(tmp_path / name for name in options))
    assert [row["metric"] for row in found.rows] == ["PPL", "bits_per_byte", "acc"]
    told = {row["metric"]: row["value"] for row in kshot.load(tmp_path / "other").results}
    assert [row["run_value"] for row in found.rows] == pytest.approx([told[row["metric"]] for row in found.rows])
    assert found.rows[0]["higher_is_better"] is False
    assert [each["setting"] for each in found.settings] == ["instruction"]


class Splitting:
    """Finds every text as likely, and divides it into tokens of so many letters."""

    answers = (kshot.Loglik,)

    def __init__(self, name, letters):
        self.name = self.fingerprint = name
        self._letters = letters

    def serve(self, queue):
        for request in queue:
            found = [
                kshot.Likelihood(-0.3 * len(text), -(-len(text) // self._letters)) for text in request.continuations
            ]
            yield request, kshot.Scored(tuple(found))


def test_figures_per_token_are_not_compared_across_tokenizers(tmp_path):
    """The same likelihoods: the perplexity per token differs by the number of tokens alone."""
    coarse, fine = Splitting("coarse", 4), Splitting("fine", 1)
    for model in (coarse, fine):
        kshot.evaluate(model, Sayings, out=tmp_path / model.name)
    paths = tmp_path / "coarse", tmp_path / "fine"
    found = kshot.compare(*paths)
    assert [(row["metric"], row["difference"], row["verdict"]) for row in found.rows] == [("bits_per_byte", 0.0, None)]
    (note,) = found.notes
    assert re.search(r"coarse and fine .* tokens, so they are not compared by PPL; .*bits_per_byte", note)
    with pytest.raises(KshotError, match=r"no metric in common\. .*not compared by PPL"):
        kshot.compare(*paths, metric="PPL")
    kshot.evaluate(coarse, Sayings, instruction="Say: {start}", out=tmp_path / "again")
    assert [row["metric"] for row in kshot.compare(paths[0], tmp_path / "again").rows] == ["PPL", "bits_per_byte"]


@pytest.mark.parametrize(
    "name",
    ["", "mean", "bleu:x", "bleu,beta=2", "chrf", "chrf,beta=0", "chrf,beta=²", "chrf,beta=99999", "os.py:system"],
)
def test_a_folder_names_only_rules_of_kshot(name):
    assert aggregate(name, 10) is None
    assert aggregate(name, 18) is None


def test_rules_take_tuples_of_their_size_alone():
    assert aggregate("bleu", 10) is not None
    assert aggregate("bleu", 9) is aggregate("ter", 3) is aggregate("perplexity", 1) is None
    assert aggregate("chrf,beta=2", 18) is not None
    assert aggregate("chrf,beta=2", 17) is None


# ---- averages over subsets ----


class Sums(kshot.GenerationDataset):
    """Sums, in subsets of 4, 8 and 24."""

    instruction = "{a}+{b}="
    metrics = (Em(), F1())

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        size = {"few": 4, "some": 8, "many": 24}[subset_name]
        self.evaluation_data = [{"a": at, "b": size} for at in range(size)]

    def format_instance(self, row):
        return {**row, "target": str(row["a"] + row["b"])}


def adder(every):
    """A model that is wrong in every so many sums."""

    def add(prompt):
        a, b = (int(part) for part in prompt.strip("= ").split("+"))
        return str(a + b + (a % every == 0))

    return add


@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_averages_are_those_that_a_run_of_both_would_compare_by(tmp_path, average):
    subsets = ("few", "some", "many")
    (tmp_path / "sums.py").write_text("from tests.runs.test_comparing import Sums\n")
    spec = f"{tmp_path}/sums.py:Sums:{','.join(subsets)}"
    models = [kshot_model(adder(every), name) for every, name in ((2, "two"), (5, "five"))]
    paths = []
    for model in models:
        kshot.evaluate(model, spec, out=tmp_path / model.name, average=average)
        paths.append(tmp_path / model.name)
    together = kshot.evaluate(models, spec, average=average).comparisons
    found = kshot.compare(*paths)
    assert [row["task"] for row in found.rows if "average" in row] == [f"sums[{average.title()} Average]"] * 2
    for row in found.rows:
        (inside,) = (each for each in together if (each["task"], each["metric"]) == (row["task"], row["metric"]))
        for name in ("difference", "p", "p_corrected", "n", "family"):
            assert inside[name] == pytest.approx(row[name]), name
        assert inside["ci95"] == pytest.approx(row["ci95"])
        assert (inside["won"], inside["lost"]) == (row["won"], row["lost"])
    told = {(row["task"], row["metric"]): row["value"] for row in kshot.load(paths[0]).results}
    assert all(row["baseline_value"] == pytest.approx(told[row["task"], row["metric"]]) for row in found.rows)
    assert [row["task"] for row in kshot.compare(*paths, task="sums", metric="EM").rows] == [
        "sums:few", "sums:some", "sums:many", f"sums[{average.title()} Average]",
    ]  # fmt: skip
    part = tmp_path / "part"
    kshot.evaluate(models[1], f"{tmp_path}/sums.py:Sums:few,many", out=part, average=average)
    found = kshot.compare(paths[0], part)
    assert {row["task"] for row in found.rows} == {"sums:few", "sums:many"}
    assert any("same subsets" in note for note in found.notes)


def test_an_average_that_is_not_compared_has_a_note_with_the_cause(tmp_path):
    (tmp_path / "sums.py").write_text("from tests.runs.test_comparing import Sums\n")
    spec, model = f"{tmp_path}/sums.py:Sums:few,some", kshot_model(adder(2), "two")
    made = {"macro": {}, "weighted": {"average": "weighted"}, "other": {"metric": "em"}}
    for name, options in made.items():
        kshot.evaluate(model, spec, out=tmp_path / name, **options)
    kshot.evaluate(model, f"{tmp_path}/sums.py:Sums:few", out=tmp_path / "one")

    def notes(one, other):
        return kshot.compare(tmp_path / one, tmp_path / other).notes

    instead = "average instead (--average), so it is not compared"
    assert notes("macro", "weighted") == [f"sums[Macro Average]: weighted has the weighted {instead}"]
    assert notes("weighted", "macro") == [f"sums[Weighted Average]: macro has the macro {instead}"]
    alone = "sums[Macro Average]: only macro has it, so it is not compared"
    assert notes("macro", "one") == ["only macro has sums:some", alone]
    assert notes("one", "macro") == ["only macro has sums:some", alone]
    assert {note.partition(": ")[2] for note in notes("macro", "other")} == {"only macro has F1"}
    assert notes("macro", "other") == notes("other", "macro")


def kshot_model(function, name):
    function.__name__ = name
    return _Named(function, name)


class _Named(Replies):
    def __init__(self, function, name):
        super().__init__(name)
        self._function = function

    def serve(self, queue):
        for request in queue:
            yield request, kshot.Generated(self._function(request.prompt.text))


# ---- what kshot itself runs ----


def test_shots_prompts_and_cleanups(tmp_path):
    options = {
        "zero": {},
        "two": {"num_shots": 2},
        "worded": {"instruction": "{question}\nReply:"},
        "clean": {"cleanup": "general"},
    }
    for name, option in options.items():
        kshot.evaluate("embedded", "examples/planets.py:PlanetNames", out=tmp_path / name, **option)
    found = kshot.compare(*(tmp_path / name for name in options))
    assert {(row["run"], row["n"]) for row in found.rows} == {(name, 8) for name in list(options)[1:]}
    assert {each["setting"] for each in found.settings} >= {"num_shots", "instruction", "cleanup"}


def test_search_engines_and_passages_of_other_sizes(tmp_path):
    kshot.evaluate(["fts5", "bm25"], "handbook", limit=4, out=tmp_path / "both")
    kshot.evaluate("fts5", "handbook", limit=4, chunker="sentence:40/0", out=tmp_path / "cut")
    found = kshot.compare(tmp_path / "both")
    assert found.notes == []
    assert {(row["kind"], row["baseline"], row["run"]) for row in found.rows} == {("passages", "fts5", "bm25")}
    inside = {
        row["metric"]: (row["difference"], row["p_corrected"]) for row in kshot.load(tmp_path / "both").comparisons
    }
    assert {row["metric"]: (row["difference"], row["p_corrected"]) for row in found.rows} == inside
    cut = kshot.compare(tmp_path / "both", tmp_path / "cut")
    assert [(row["metric"], row["baseline"]) for row in cut.rows] == [("AC_Recall@2000t", "both · fts5")]
    assert any("token budget" in note for note in cut.notes)


def test_lookup_variants(tmp_path):
    for name, variant in (("one", "sep|small|bare"), ("two", "nosep|small|bare")):
        kshot.evaluate("embedded", "lookup:UR", length=10, samples=3, variant=variant, out=tmp_path / name)
    found = kshot.compare(tmp_path / "one", tmp_path / "two")
    assert {row["kind"] for row in found.rows} == {"lookup"}
    assert all(row["task"] != row["run_task"] and row["n"] == 3 for row in found.rows)
    assert found.notes == []


# ---- folders of strangers ----


@pytest.mark.parametrize("name", ["planets", "search", "seeds"])
def test_a_run_of_an_earlier_version_is_scored_first(name):
    with pytest.raises(KshotError, match="an earlier version") as caught:
        kshot.compare(EARLY / name, EARLY / name)
    assert f"kshot score {EARLY / name}" in str(caught.value)


def row_of(path, number):
    return json.loads((path / "samples.jsonl").read_text().splitlines()[number - 1])


def with_row(path, number, row):
    lines = (path / "samples.jsonl").read_text().splitlines()
    lines[number - 1] = row if isinstance(row, str) else json.dumps(row)
    (path / "samples.jsonl").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": 3}, "'id'"),
        ({"question": None}, "'question'"),
        ({"task": ["quiz"]}, "'task'"),
        ({"category": {}}, "'category'"),
        ({"scores": [1]}, "'scores'"),
        ({"scores": {"Right": "100"}}, "'Right'"),
        ({"scores": {"Right": True}}, "'Right'"),
        ({"scores": {"Right": float("nan")}}, "'Right'"),
        ({"scores": {"Right": 10**400}}, "'Right'"),
        ({"scores": {}}, "'Right'"),
        ({"parts": "Right"}, "'parts'"),
        ({"parts": {"Right": []}}, "'Right'"),
        ({"parts": {"Right": [1, "x"]}}, "'Right'"),
    ],
)
def test_a_damaged_row_is_named(pair, tmp_path, change, said):
    shutil.copytree(pair[0], tmp_path / "run")
    with_row(tmp_path / "run", 2, row_of(pair[0], 2) | change)
    with pytest.raises(KshotError) as caught:
        kshot.compare(tmp_path / "run", pair[1])
    assert f"{tmp_path}/run/samples.jsonl:2" in str(caught.value)
    assert said in str(caught.value)


def test_a_line_that_is_no_row_is_named(pair, tmp_path):
    shutil.copytree(pair[0], tmp_path / "run")
    with_row(tmp_path / "run", 2, "[1, 2")
    with pytest.raises(KshotError, match=r"samples\.jsonl:2: this line is damaged"):
        kshot.compare(tmp_path / "run", pair[1])


def test_files_that_disagree_are_told(pair, tmp_path):
    shutil.copytree(pair[0], tmp_path / "run")
    first = row_of(pair[0], 1)
    with_row(tmp_path / "run", 1, first | {"scores": {"Right": 0.0}})
    with pytest.raises(KshotError, match=r"samples\.jsonl and summary\.json disagree about Right of quiz"):
        kshot.compare(tmp_path / "run", pair[1])
    with_row(tmp_path / "run", 1, row_of(pair[0], 2))
    with pytest.raises(KshotError, match="two samples of quiz have the id 'q1'"):
        kshot.compare(tmp_path / "run", pair[1])
    lines = (pair[0] / "samples.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run" / "samples.jsonl").write_text("".join(line for line in lines if '"essay"' not in line))
    with pytest.raises(KshotError, match="disagree about Points of essay"):
        kshot.compare(tmp_path / "run", pair[1])


@pytest.mark.parametrize(
    "change",
    [
        {"bounds": [0]},
        {"bounds": ["a", 1]},
        {"aggregate": 5},
        {"binary": "yes"},
        {"average": "macro", "tasks": "quiz"},
        {"average": "macro", "tasks": [1]},
        {"average": [], "tasks": []},
        {"higher_is_better": 1},
        {"metric": None},
        {"model": 5},
        {"n": "many"},
        {"value": "high"},
        {"kind": 3},
        {"chunks": []},
    ],
)
def test_a_damaged_summary_is_told(pair, tmp_path, change):
    shutil.copytree(pair[0], tmp_path / "run")
    summary = json.loads((pair[0] / "summary.json").read_text())
    summary["results"][0] |= change
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(KshotError, match=r"summary\.json is damaged"):
        kshot.compare(tmp_path / "run", pair[1])


def test_a_rule_that_kshot_does_not_have_is_left_out(pair, tmp_path):
    shutil.copytree(pair[0], tmp_path / "run")
    summary = json.loads((pair[0] / "summary.json").read_text())
    for row in summary["results"]:
        if row["metric"] == "Points":
            row["aggregate"] = "posix.py:system"
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
    found = kshot.compare(tmp_path / "run", pair[1])
    assert {row["metric"] for row in found.rows} == {"Right"}
    assert any("Points" in note for note in found.notes)


def test_a_file_that_changes_between_reading_and_flips_is_told(pair, tmp_path):
    shutil.copytree(pair[0], tmp_path / "run")
    found = kshot.compare(tmp_path / "run", pair[1])
    lines = (pair[0] / "samples.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run" / "samples.jsonl").write_text("".join(reversed(lines)))
    with pytest.raises(KshotError):
        list(found.flips())


@pytest.mark.parametrize("parts", [[-5.0] * 10, [1e308] * 10, [1.0, 1.0, *[-1.0] * 8], [0.0] * 10])
def test_parts_that_no_run_has_are_an_error_or_a_figure(tmp_path, parts):
    paths = [translated(tmp_path / name, words, Bleu()) for name, words in (("short", 3), ("long", 9))]
    with_row(paths[1], 2, row_of(paths[1], 2) | {"parts": {"Corpus_BLEU": parts}})
    with pytest.raises(KshotError, match=r"disagree about Corpus_BLEU|cannot be computed"):
        kshot.compare(*paths)


@pytest.mark.parametrize(
    "bounds", [[100, 0], [0, 0], [None, None], [0, float("inf")], [float("nan"), 5], [0, 1], [20, 60]]
)
def test_a_scale_that_cannot_be_is_no_scale(tmp_path, pair, bounds):
    """Both folders say the same wrong ends; the average over subsets uses them, too."""
    paths = [tmp_path / "one", tmp_path / "other"]
    for source, path in zip(pair, paths, strict=True):
        shutil.copytree(source, path)
        summary = json.loads((path / "summary.json").read_text())
        for row in summary["results"]:
            row["bounds"] = bounds
        whole = {"task": "All", "average": "macro", "tasks": ["quiz", "parts"]}
        summary["results"] += [
            summary["results"][0] | whole,
            summary["results"][0] | whole | {"task": "None", "tasks": []},
        ]
        (path / "summary.json").write_text(json.dumps(summary))
    found, sound = kshot.compare(*paths), kshot.compare(*pair)
    assert [row["p"] for row in found.rows if row["task"] != "All"] == [row["p"] for row in sound.rows]
    assert all(np.isfinite(row["ci95"]).all() for row in found.rows)


def test_where_no_metric_is_left_the_notes_say_why(tmp_path):
    one = finished(tmp_path / "one", task("quiz", items(["100"]), Right()))
    other = finished(tmp_path / "other", task("quiz", items(["100"]), Points()))
    with pytest.raises(
        KshotError, match=r"no metric in common\. quiz: only one has Right; quiz: only other has Points"
    ):
        kshot.compare(one, other)


def test_scores_beyond_all_scales(tmp_path):
    class Huge(Points):
        bounds = None

    one = finished(tmp_path / "one", task("quiz", items([1e308, 1.0]), Huge()))
    other = finished(tmp_path / "other", task("quiz", items([-1e308, 2.0]), Huge()))
    (row,) = kshot.compare(one, other).rows
    assert (row["p"], row["ci95"], row["n"]) == (1.0, None, 2)


@settings(max_examples=8)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 50.0, 100.0]), st.sampled_from([0.0, 50.0, 100.0])), min_size=1, max_size=30
    )
)
def test_swapping_any_two_runs_turns_every_sign(scores):
    one, other = (finished(None, task("quiz", items([pair[side] for pair in scores]), Points())) for side in (0, 1))
    found, turned = kshot.compare(one, other), kshot.compare(other, one)
    (forth,), (back,) = found.rows, turned.rows
    assert forth["difference"] == pytest.approx(-back["difference"])
    assert (forth["won"], forth["lost"], forth["p"]) == (back["lost"], back["won"], back["p"])
    if forth["ci95"] is not None:
        assert forth["ci95"] == pytest.approx([-back["ci95"][1], -back["ci95"][0]])
    flips, turned_flips = ({each["id"]: each["won"] for each in each.flips()} for each in (found, turned))
    assert flips == {key: not won for key, won in turned_flips.items()}


class WordShare(Right):
    """Right words of those that a reference has; a sample with an empty reference has no share of its own."""

    name, binary = "Words", False

    @property
    def aggregates(self):
        return {"Words": "share"}

    def rate(self, prediction, reference):
        right, words = prediction.split("/")
        return {"Words": (float(right), float(words))}

    def reduce(self, name, values):
        return SHARE(values)


def test_a_sample_without_a_score_of_its_own_is_tied(tmp_path):
    before = {"a": Item("1/2"), "b": Item("0/0")}
    after = {"a": Item("2/2"), "b": Item("0/0")}
    one = finished(tmp_path / "one", task("quiz", before, WordShare()))
    other = finished(tmp_path / "other", task("quiz", after, WordShare()))
    (row,) = kshot.compare(one, other).rows
    assert (row["baseline_value"], row["run_value"], row["difference"]) == (50.0, 100.0, 50.0)
    assert (row["n"], row["won"], row["lost"], row["tied"]) == (2, 1, 0, 1)
