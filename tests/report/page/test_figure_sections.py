"""Sections on main figures, token lookup and search: every number is that of its row, and names stay text."""

import random
from pathlib import Path

import pytest

import kshot
from kshot.report.page.figure_sections import headline_section
from kshot.report.page.lookup_section import lookup_section
from kshot.report.page.page_run import PageRun, estimate, field_number, number_html, system_names
from kshot.report.page.passages_section import passages_section
from kshot.report.table import findings
from kshot.report.verdicts import model_verdicts, verdicts
from kshot.runs.record import RunRecord, read_record
from tests.report.page.page_reading import (
    assert_numbers_are_those_of,
    figures,
    numbers,
    text_of,
    tree,
    with_class,
)

HOSTILE = '<script>alert(1)</script>" onload="x\u202e\x1b[31m' + "W" * 270
EARLY = Path(__file__).parents[2] / "data" / "runs_0_1"
MAKERS = (headline_section, lookup_section, passages_section)


def row(task="arc", model="m", value=60.0, **more):
    ends = None if value is None else [max(value - 9.87, 0.0), value + 9.12]
    scale = {"metric": "Accuracy", "higher_is_better": True, "bounds": [0, 100]}
    return {"task": task, "model": model, **scale, "value": value, "n": 1050, "failed": 0, "ci95": ends} | more


def run(rows, comparisons=(), key="run", name=None):
    return PageRun(key, name or key, RunRecord(list(rows), [], comparisons=list(comparisons)))


def summaries(*runs):
    return {each.key: {"results": each.record.results, "comparisons": each.record.comparisons} for each in runs}


def captions(section):
    return [text_of(each.find("figcaption")) for each in figures(section.html)]


def sentences_of(section):
    """What the first list of sentences says; the blanks within a value are plain ones here."""
    return [text_of(each).replace("\xa0", " ") for each in with_class(tree(section.html), "findings")[0]]


def drawn_names(figure):
    """The names and headings of a chart, as a wide screen has them."""
    layer = next(each for each in with_class(figure, "wide") if each.tag == "g")
    return [text_of(each) for each in layer.iter("text") if each.get("class") in {"name", "group"}]


@pytest.fixture(scope="module")
def looked_up():
    options = {"length": [10, 120], "samples": 20, "variant": ["sep|small|bare"]}
    return PageRun("look", "look", kshot.evaluate("embedded", "lookup:NLFirst,NLLast,UR", **options))


@pytest.fixture(scope="module")
def searched():
    chunkers = ["headings:200", "sentence:100"]
    return PageRun("find", "find", kshot.evaluate(["fts5", "bm25"], "handbook", chunker=chunkers, limit=30))


def test_every_number_of_real_runs_is_that_of_its_row(looked_up, searched):
    runs = [looked_up, searched]
    counts = []
    for make in MAKERS:
        section = make(runs)
        figures(section.html)
        counts.append(assert_numbers_are_those_of(section.html, summaries(*runs)))
    assert min(counts) > 20


def test_sections_that_do_not_apply_are_not_there(looked_up, searched):
    assert headline_section([looked_up]) is None  # its grid is its headline
    assert passages_section([looked_up]) is None
    assert lookup_section([searched]) is None
    assert [make([run([row()])]) is None for make in MAKERS] == [False, True, True]
    assert [make([run([])]) for make in MAKERS] == [None] * 3


def test_an_early_run_has_its_sections():
    for name in ("planets", "rag", "search", "seeds"):
        found = PageRun(name, name, read_record(EARLY / name))
        section = headline_section([found])
        assert assert_numbers_are_those_of(section.html, summaries(found)) > 0


# ---- main figures ----


def test_one_model_has_a_row_for_each_task_and_averages_first():
    subsets = [row(f"ceval:{name}", dataset="ceval", subset=name) for name in "ab"]
    average = row("ceval", dataset="ceval", average="macro", tasks=["ceval:a", "ceval:b"], value=51.25)
    section = headline_section([run([row("arc"), *subsets, average])])
    (figure,) = figures(section.html)
    assert drawn_names(figure) == ["ceval", "arc"]
    assert "More figures (2)" in section.html


def test_several_models_stand_below_each_task():
    rows = [row(task, model) for task in ("arc", "boolq") for model in ("hf:x/one", "hf:x/two")]
    (figure,) = figures(headline_section([run(rows)]).html)
    assert drawn_names(figure) == ["arc", "hf:one", "hf:two", "boolq", "hf:one", "hf:two"]


def test_an_average_is_drawn_on_the_scale_of_what_it_averages():
    average = row("all[Macro Average]", value=21.0, average="Macro Average")
    del average["bounds"]
    section = headline_section([run([average, row("a"), row("b")])])
    ticks = [text_of(each) for each in with_class(figures(section.html)[0], "tick")]
    assert ticks[:6] == ["0", "20", "40", "60", "80", "100"]


def test_each_scale_has_a_chart_of_its_own():
    loss = row("wiki", metric="Perplexity", higher_is_better=False, bounds=[1, None], value=12.0)
    section = headline_section([run([row(), loss, row("gsm8k", metric="F1")])])
    assert captions(section) == ["Accuracy", "Perplexity, lower is better", "F1"]


def test_values_are_written_as_a_terminal_writes_them():
    section = headline_section([run([row(value=66.66666666666667, failed=3)])])
    written = {(each.field, each.written) for each in numbers(section.html)}
    assert {("value", "66.67"), ("ci95.0", "56.8"), ("ci95.1", "75.8"), ("n", "1,050"), ("failed", "3")} == written
    assert "3 samples failed and are in no figure." in section.html


def test_unknown_figures_are_dashes():
    section = headline_section([run([row(value=None, n=0, failed=5), row("b", value=float("nan"))])])
    assert not with_class(tree(section.html), "marker")
    assert {each.field for each in numbers(section.html)} == {"n", "failed"}


def test_verdicts_are_said_and_runs_named():
    compared = {
        "task": "arc", "metric": "Accuracy", "higher_is_better": True, "a": "x", "b": "y", "a_model": "x",
        "b_model": "y", "difference": 20.0, "ci95": [5.0, 35.0], "p": 0.01, "p_corrected": 0.01, "family": 1,
        "ahead": "x",
    }  # fmt: skip
    one = run([row(model="x"), row(model="y", value=40.0)], [compared])
    (said,) = model_verdicts([compared])
    assert sentences_of(headline_section([one])) == [said]
    both = headline_section([one, run([row(model="x")], key="other")])
    assert f"run: {said.partition(' (')[0]}" in both.html


def test_many_models_come_best_first_in_a_chart_for_each_task():
    random.seed(17)
    rows = [row(task, f"model-{at}", random.uniform(0, 90)) for task in ("a", "b", "c") for at in range(30)]
    section = headline_section([run(rows)])
    found = figures(section.html)
    assert [each.findtext("figcaption") for each in found] == ["Accuracy · a", "Accuracy · b", "Accuracy · c"]
    values = [float(each.value) for each in numbers(section.html) if each.field == "value"][:30]
    assert values == sorted((each["value"] for each in rows[:30]), reverse=True)
    assert {each.get("class") for each in found[0].iter("svg") if each.find("path") is not None} == {"s1"}


def test_runs_side_by_side_have_their_names():
    runs = [run([row()], key="a", name="runs/a"), run([row(value=70.0)], key="b", name="runs/b")]
    (figure,) = figures(headline_section(runs).html)
    assert drawn_names(figure) == ["runs/a", "runs/b"]
    assert assert_numbers_are_those_of(headline_section(runs).html, summaries(*runs)) > 0
    mixed = system_names([run([row(model="x"), row(model="y")], key="a"), run([row(model="x")], key="b")])
    assert list(mixed.values()) == ["a · x", "a · y", "b · x"]


def test_hundreds_of_other_figures_fold():
    rows = [row(metric=f"metric {at}") for at in range(900)]
    section = headline_section([run(rows)])
    assert "More figures (899)" in section.html
    assert "… and 699 more in summary.json" in section.html


def test_metrics_that_the_user_chose_are_main_figures():
    rows = [row(), row(metric="Fluency", value=3.5, bounds=[1, 5]), row(metric="length", detail=True)]
    chosen = PageRun("run", "run", RunRecord(rows, []), {"identity": {"metric": ["Accuracy,Fluency"]}})
    captions = [each.findtext("figcaption") for each in figures(headline_section([chosen]).html)]
    assert captions == ["Accuracy", "Fluency"]
    assert len(figures(headline_section([run(rows)]).html)) == 1


def test_questions_without_an_answer_are_counted_beside_those_that_failed():
    rows = [row(model="x", unanswered=87, failed=34), row(model="y", unanswered=101)]
    section = headline_section([run(rows)])
    (chart,) = figures(section.html)
    heads = [text_of(each) for each in chart.iter("th")]
    assert [head for head in heads if head not in {"x", "y"}][-3:] == ["n", "unanswered", "failed"]
    assert [each.value for each in numbers(section.html) if each.field == "unanswered"][:2] == ["87", "101"]


def test_of_many_charts_some_are_drawn_and_the_other_figures_are_in_the_table():
    rows = [row(f"task {task}", f"model-{at}", metric=f"metric {task}") for task in range(6) for at in range(60)]
    section = headline_section([run(rows)])
    assert len(figures(section.html)) == 4
    assert "More figures (120)" in section.html
    shown = {each.row for each in numbers(section.html)}
    assert len(shown) == len(rows)


@pytest.mark.parametrize("make", MAKERS)
def test_hostile_names_stay_text(make):
    lookup = {"kind": "lookup", "lookup": HOSTILE, "variant": HOSTILE, "length": 10, "chance": 5.0}
    gap = {"gap": HOSTILE, "better": HOSTILE, "worse": "b", "p_corrected": 0.2, "family": 2, "ahead": None}
    search = {"kind": "passages", "benchmark": HOSTILE, "passages": 3, "chunks": HOSTILE, "within": HOSTILE}
    names = {"task": HOSTILE, "model": HOSTILE, "metric": HOSTILE}
    rows = [row() | names, row() | names | lookup, row(detail=True, error=HOSTILE) | names | lookup]
    rows += [row() | names | lookup | gap]
    rows += [row(value=0.5) | names | search | {"metric": f"{HOSTILE}@{k}"} for k in (1, 3)]
    found = run(rows, name=HOSTILE)
    section = make([found, run(rows, key="b")])
    page = tree(section.html)
    assert not list(page.iter("script"))
    assert not any(name.startswith("on") or name == "style" for each in page.iter() for name in each.attrib)
    assert not {"\u202e", "\x1b"} & set(section.html)
    assert r"\u202e\x1b[31m" in text_of(page)
    assert_numbers_are_those_of(section.html, summaries(found, run(rows, key="b")))


# ---- token lookup ----


def test_lookup_has_the_grid_the_lines_the_errors_and_the_gaps(looked_up):
    section = lookup_section([looked_up])
    titles = captions(section)
    assert titles[:2] == ["Accuracy in %", "Accuracy in % by length"]
    assert titles[2:] == [
        "Kinds of errors, in % of the records",
        "Gaps between tasks at each length, on the same records, in points",
    ]
    assert sentences_of(section) == [
        line for line in findings(looked_up.record.results) if not line.startswith("Look: ")
    ]


def test_the_command_that_shows_where_accuracy_falls_is_code_of_its_own():
    cell = {"kind": "lookup", "lookup": "UL", "variant": "sep|small|bare", "chance": 5.0}
    rows = [
        row("a", value=100.0, length=10, **cell) | {"ci95": [92.0, 100.0]},
        row("b", value=30.0, length=120, **cell) | {"ci95": [19.0, 44.0]},
    ]
    page = tree(lookup_section([run(rows)]).html)
    (command,) = with_class(page, "command")
    assert text_of(command) == "kshot preview -d lookup:UL --length 120 --variant 'sep|small|bare' --limit 1"
    assert "kshot preview" not in text_of(with_class(page, "findings")[0])


@pytest.mark.parametrize("variants", [["bare"], ["bare", "simple_rule"]])
def test_a_heat_map_has_the_lines_of_two_variants_beside_it(variants):
    cell = {"kind": "lookup", "lookup": "UL", "chance": 5.0}
    rows = [row(f"{each}{length}", variant=each, length=length, **cell) for each in variants for length in (10, 20)]
    found = figures(lookup_section([run(rows)]).html)
    assert ["tall" in each.get("class") for each in found] == [len(variants) > 1, *(False for _ in variants)]


def test_cells_of_the_grid_are_the_accuracies(looked_up):
    section = lookup_section([looked_up])
    shown = [text_of(each.find("text")) for each in with_class(tree(section.html), "cell")]
    rows = [each for each in looked_up.record.results if not each.get("detail") and "gap" not in each]
    assert sorted(shown) == sorted(f"{each['value']:.0f}" for each in rows)
    assert len(shown) == 6


def test_many_variants_have_a_map_for_each_length():
    rows = [
        row(
            f"lookup:UL:{length}:v{at}",
            value=50.0,
            kind="lookup",
            lookup="UL",
            variant=f"v{at}",
            length=length,
            chance=5.0,
        )
        for at in range(8)
        for length in (10, 20)
    ]
    titles = captions(lookup_section([run(rows)]))
    assert titles[:2] == [f"Accuracy in % by variant and task, length {length}" for length in (10, 20)]
    assert sum("by length" in title for title in titles) == 6


def test_rows_of_strangers_that_lack_a_field_are_left_out():
    lookup = {"kind": "lookup", "lookup": "UL", "variant": "v", "length": 10}
    rows = [row(**lookup), row(**lookup, gap="right - left"), row(**lookup, detail=True, error="x", value=None)]
    assert captions(lookup_section([run(rows)])) == ["Accuracy in %"]


# ---- search ----


def test_search_has_the_table_and_lines_by_k_for_each_chunker(searched):
    section = passages_section([searched])
    assert captions(section) == [
        "AC_Recall@2000t by chunking: as many passages as the budget of tokens holds",
        "AC_MRR by k · headings:200",
        "AC_MRR by k · sentence:100/12",
        "AC_Recall by k · headings:200",
        "AC_Recall by k · sentence:100/12",
    ]
    assert sentences_of(section) == list(verdicts(searched.record.comparisons, searched.record.results))
    heads = [text_of(each) for each in with_class(tree(section.html), "systems")[0].iter("th")]
    assert heads[:5] == ["system", "AC_MRR@10", "AC_Recall@10", "AC_Recall@2000t", "n"]


def searching(model, value, metric="nDCG@10"):
    own = {"kind": "passages", "benchmark": "b", "passages": 9, "metric": metric, "bounds": [0.0, 1.0]}
    return row("b", model, value, ci95=[value - 0.1, value + 0.1]) | own


def pair(a, b, ahead):
    same = {"task": "b", "metric": "nDCG@10", "higher_is_better": True, "difference": 0.1, "ci95": None}
    return same | {"a": a, "b": b, "a_model": a, "b_model": b, "ahead": ahead, "p_corrected": 0.01, "family": 3}


def test_a_system_is_marked_only_if_a_test_finds_it_ahead_of_all_others():
    rows = [searching("x", 0.6), searching("y", 0.5), searching("z", 0.4)]
    clear = [pair("x", "y", "x"), pair("x", "z", "x"), pair("y", "z", None)]
    best = with_class(tree(passages_section([run(rows, clear)]).html), "best")
    assert len(best) == 1
    open_ = [pair("x", "y", None), pair("x", "z", "x"), pair("y", "z", "y")]
    assert not with_class(tree(passages_section([run(rows, open_)]).html), "best")
    assert not with_class(tree(passages_section([run(rows)]).html), "best")


def test_numbers_of_search_are_written_as_its_table_writes_them():
    found = numbers(passages_section([run([searching("x", 0.61349)])]).html)
    assert [each.written for each in found] == ["0.613", ".513", ".713", "1,050"]


# ---- numbers ----


def test_a_number_says_where_it_stands():
    found = run([row(), row(value=66.66666666666667)])
    shown = estimate(found, found.record.results[1])
    assert (shown.source, shown.field, shown.written) == ("run/results/1", "value", "66.67")
    assert ([end.field for end in shown.interval], shown.said) == (["ci95.0", "ci95.1"], "66.67, 95 %: 56.8–75.8")
    assert str(number_html(field_number(found, found.record.results[0], "n"))) == (
        '<span data-row="run/results/0"><data value="1050" data-field="n">1,050</data></span>'
    )
    assert field_number(found, found.record.results[0], "p").number is None
