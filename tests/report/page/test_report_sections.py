"""Sections of categories, studies, comparisons and settings: every number is that of its row, and names stay text."""

import pytest

import kshot
from kshot.report.page.comparison_section import between_runs, within_run
from kshot.report.page.course_section import course_section
from kshot.report.page.figure_sections import category_sections, draws_section, shots_section
from kshot.report.page.markup import Section
from kshot.report.page.page_run import PageRun
from kshot.report.page.report_page import about_runs
from kshot.report.page.run_sections import differing_settings, run_sections, settings_section
from kshot.runs.record import RunRecord
from tests.finished_runs import Item, finished, task
from tests.report.page.page_reading import assert_numbers_are_those_of, figures, numbers, text_of, tree, with_class

HOSTILE = '<script>alert(1)</script>" onload="x\u202e\x1b[31m' + "W" * 270


def row(task="arc", value=60.0, **more):
    ends = None if value is None else [max(value - 9.87, 0.0), min(value + 9.12, 100.0)]
    scale = {"metric": "Accuracy", "higher_is_better": True, "bounds": [0, 100], "binary": True}
    return {"task": task, "model": "m", **scale, "value": value, "n": 105, "failed": 0, "ci95": ends} | more


def compared(a="m", b="other", p=0.01, **more):
    sides = {"a": a, "b": b, "a_model": a, "b_model": b}
    found = {"difference": 4.25, "ci95": [1.5, 7.25], "p": p, "p_corrected": p, "family": 3, "ahead": a}
    counts = {"won": 20, "lost": 5, "tied": 75, "n": 100}
    return {"task": "arc", "metric": "Accuracy", "higher_is_better": True, **sides, **found, **counts, **more}


def run(rows, key="run", spec=None, **more):
    return PageRun(key, key, RunRecord(list(rows), [], **more), spec or {"identity": {}})


def summaries(*runs):
    parts = ("results", "comparisons", "usage")
    return {each.key: {part: getattr(each.record, part) for part in parts} for each in runs}


def said(section: Section) -> str:
    return text_of(tree(section.html))


# ---- by category and subset ----


def parts(values, by="category"):
    rows = [row(f"arc[{name}]", value, **{by: name}) for name, value in values.items()]
    return [*rows, row()]


def test_the_worst_category_is_first_and_every_number_is_that_of_its_row():
    one = run(parts({"law": 80.5, "algebra": 12.25, "physics": 44.0}))
    (section,) = category_sections([one])
    assert section.title == "By category"
    (chart,) = figures(section.html)
    names = [text_of(each[0]) for each in chart.findall("./details/div/table/tbody/tr")]
    assert names == ["algebra", "physics", "law"]
    assert assert_numbers_are_those_of(section.html, summaries(one)) > 12


def test_categories_of_several_runs_stand_beside_each_other():
    runs = [run(parts({"law": 80.0, "algebra": 12.0}), "a"), run(parts({"law": 70.0, "algebra": 90.0}), "b")]
    (section,) = category_sections(runs)
    (chart,) = figures(section.html)
    lines = [[text_of(each) for each in line[:2]] for line in chart.findall("./details/div/table/tbody/tr")]
    assert lines == [["algebra", "a"], ["algebra", "b"], ["law", "a"], ["law", "b"]]
    assert_numbers_are_those_of(section.html, summaries(*runs))


def test_the_only_system_of_a_chart_is_not_named_in_each_row():
    """Another model of the run has no categories, as an embedded model beside a search engine."""
    (section,) = category_sections([run([row(model="other"), *parts({"odd": 20.0, "even": 30.0})])])
    (chart,) = figures(section.html)
    (wide,) = (each for each in with_class(chart, "wide") if each.tag == "g")
    assert [each.text for each in wide.iter("text") if each.get("class") == "name"] == ["odd", "even"]
    assert not with_class(wide, "group")


def test_subsets_have_a_section_too():
    one = run([row(f"mmlu:{name}", at * 10.0, subset=name, dataset="mmlu") for at, name in enumerate("abc")])
    assert [section.id for section in category_sections([one])] == ["subsets"]


def test_hundreds_of_categories_fold():
    one = run(parts({f"category {at}": at / 10 for at in range(900)}))
    (section,) = category_sections([one])
    assert "60 of 900 rows are drawn; the table has more." in said(section)
    assert "… and 700 more in summary.json" in said(section)
    (chart,) = figures(section.html)
    assert len(chart.findall("./details/div/table/tbody/tr")) == 200
    assert len(section.html) < 300_000


def test_of_many_metrics_the_first_have_charts():
    rows = [row(f"t{at}[law]", 10.0, category="law", metric=f"metric {at}") for at in range(7)]
    (section,) = category_sections([run(rows)])
    assert len(figures(section.html)) == 4
    assert "… and 3 more metrics in summary.json: kshot show --by category --metric NAME" in said(section)


def test_a_category_in_which_all_failed_is_last():
    one = run([row("arc[law]", None, category="law", failed=9, n=0, ci95=None), *parts({"algebra": 12.0})])
    (section,) = category_sections([one])
    assert "1 category without a figure, because every sample failed, comes last." in said(section)


# ---- studies ----


def shots(key, *held):
    facts = {"m": {task: {"shots": count} for task, count, _ in held}}
    return run([row(task, value) for task, _, value in held], key, {"identity": {}, "tasks": facts})


def test_runs_that_differ_in_shots_are_a_study():
    runs = [shots("a", ("arc", 0, 40.0)), shots("b", ("arc", 5, 62.5))]
    section = shots_section(runs)
    (chart,) = figures(section.html)
    assert text_of(chart.find("figcaption")) == "Accuracy on arc"
    steps = [[text_of(each) for each in line[:2]] for line in chart.findall("./details/div/table/tbody/tr")]
    assert steps == [["m", "0"], ["m", "5"]]
    assert assert_numbers_are_those_of(section.html, summaries(*runs))


def test_so_are_tasks_of_one_run():
    assert shots_section([shots("a", ("arc,num_shots=0", 0, 40.0), ("arc,num_shots=5", 5, 62.5))]) is not None


def test_one_number_of_shots_is_no_study():
    assert shots_section([shots("a", ("arc", 5, 40.0), ("boolq", 2, 62.5))]) is None


def test_draws_of_examples_show_their_spread():
    drawn = [row(f"arc@{seed}", 40.0 + seed, of="arc", example_seed=seed) for seed in range(3)]
    spread = row("arc[3 draws of examples]", 41.0, sd=1.0, lowest=40.0, highest=42.0)
    one = run([*drawn, spread])
    section = draws_section([one])
    (chart,) = figures(section.html)
    names = [text_of(line[0]) for line in chart.findall("./details/div/table/tbody/tr")]
    assert names == ["seed 0", "seed 1", "seed 2"]
    assert assert_numbers_are_those_of(section.html, summaries(one)) > 10
    assert {"41.00", "1.00", "40.00", "42.00"} <= {each.written for each in numbers(section.html)}
    assert draws_section([run([row()])]) is None


# ---- comparisons ----


def test_comparisons_within_a_run_have_their_numbers():
    one = run([row(), row(model="other")], comparisons=[compared(), compared(b="third", p=0.7, ahead=None)])
    section = within_run([one])
    assert assert_numbers_are_those_of(section.html, summaries(one)) > 12
    assert "p is corrected for 3 comparisons; the intervals are not." in said(section)
    assert within_run([run([row()])]) is None


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    before = {f"q{at}": Item(100 if at < 50 else 0, category="odd" if at % 2 else "even") for at in range(100)}
    after = {f"q{at}": Item(100 if 10 <= at < 90 else 0, category="odd" if at % 2 else "even") for at in range(100)}
    return [finished(folder / "old", task("quiz", before)), finished(folder / "new", task("quiz", after))]


def test_a_comparison_says_who_is_ahead_and_links_to_the_flips(two_runs):
    section = between_runs(kshot.compare(*two_runs), {"old": "old-key", "new": "new-key"})
    words = said(section)
    assert "new is ahead of old on quiz by 30.0 points in Right" in words
    links = [each.get("href") for each in tree(section.html).iter("a")]
    assert links == [f"#/run/new-key/samples?other=old-key&flip={way}" for way in ("won", "lost")]
    assert len(figures(section.html)) == 2  # on the whole, and by category
    assert {"40", "10"} <= {each.written for each in numbers(section.html)}  # won and lost


def test_flips_that_are_none_have_no_link(two_runs, tmp_path):
    every = {f"q{at}": Item(100, category="odd" if at % 2 else "even") for at in range(100)}
    best = finished(tmp_path / "best", task("quiz", every))
    section = between_runs(kshot.compare(two_runs[0], best), {"old": "old-key", "best": "best-key"})
    links = [each.get("href") for each in tree(section.html).iter("a")]
    assert links == ["#/run/best-key/samples?other=old-key&flip=won"]


def test_the_chart_comes_before_the_sentences(two_runs):
    section = between_runs(kshot.compare(*two_runs), {})
    assert section.title == "Differences"
    assert section.html.index("<figure") < section.html.index('class="findings"')


def test_a_comparison_has_the_settings_that_differ(two_runs):
    found = kshot.compare(*two_runs)
    found.settings[:] = []
    assert differing_settings(found) == []
    found.settings.append({"setting": "num_shots", "default": 0, "values": [0, 5]})
    (section,) = differing_settings(found)
    (head, line) = tree(section.html).iter("tr")
    assert [text_of(each) for each in head] == ["setting", "old", "new"]
    assert [text_of(each) for each in line] == ["--num-shots", "0", "5"]


@pytest.mark.parametrize(
    ("minutes", "told"),
    [(["41"], "run ended 2026-11-16 13:41 UTC"), (["43", "41"], "runs ended 2026-11-16 13:41 to 2026-11-16 13:43 UTC")],
)
def test_a_report_says_when_its_runs_ended(minutes, told):
    specs = [{"identity": {}, "sessions": [{"ended": f"2026-11-16T13:{each}:05+00:00"}]} for each in minutes]
    lines = about_runs([run([row()], key=f"r{at}", spec=spec) for at, spec in enumerate(specs)], "")
    assert text_of(tree(lines[-1])) == told


# ---- settings, and how it went ----


def test_settings_in_which_runs_differ_are_marked():
    runs = [run([row()], "a"), run([row()], "b", {"identity": {"num_shots": 5, "models": ["m"]}})]
    section = settings_section([*runs])
    marked = [text_of(each[0]) for each in tree(section.html).iter("tr") if each.get("class") == "differs"]
    assert any(text.startswith("--num-shots") for text in marked)
    assert "5" in said(section)


def test_options_that_change_no_figure_are_listed_too():
    spec = {"identity": {}, "options": {"price_in": 0.15, "token_logprobs": True, "num_shots": 0, "fsync": "group"}}
    shown = said(settings_section([run([row()], spec=spec)]))
    assert "--price-in" in shown
    assert "0.15" in shown
    assert "--token-logprobs" in shown
    assert "--fsync" not in shown
    assert "Every other option has its default." in shown
    in_memory = said(settings_section([run([row()])]))
    assert "Every other option that can change a figure has its default." in in_memory


def test_a_key_in_a_setting_does_not_leave():
    secret = "sk-" + "a1" * 20
    command = ["kshot", "run", "-m", "openai:m", "--api-key", secret, "--request-option", f"api_key={secret}"]
    spec = {
        "identity": {"models": [f"openai:m,api_key={secret}"], "request_option": [f"api_key={secret}"]},
        "options": {"request_option": [f"api_key={secret}"], "judge_request_option": [f"api_key={secret}"]},
        "sessions": [{"started": "2026-01-01T00:00:00+00:00", "state": "done", "command": command}],
    }
    sections = run_sections([run([row()], spec=spec)])
    assert any("***" in section.html for section in sections)
    assert not any(secret in section.html for section in sections)


def test_the_course_of_a_run_has_cost_notes_failures_and_the_command():
    spec = {
        "identity": {},
        "sessions": [
            {
                "started": "2026-01-01T00:00:00+00:00",
                "ended": "2026-01-01T00:02:05+00:00",
                "state": "done",
                "command": ["kshot", "run", "-d", "a b"],
                "versions": {"kshot": "9.9"},
                "host": "secret-host",
            }
        ],
    }
    usage = [{"model": "m", "role": "model", "prompt_tokens": 1234, "completion_tokens": 56, "cost_usd": 0.125}]
    one = PageRun(
        "run", "run", RunRecord([row()], ["a note"], first_failures=["arc on m: 3 failed (timeout)"], usage=usage), spec
    )
    section = course_section([one], None)
    words = said(section)
    for text in (
        "2026-01-01 00:00:00",
        "2 min 5 s",
        "kshot run -d 'a b'",
        "a note",
        "3 failed (timeout)",
        "1,234",
        "0.12",
    ):
        assert text in words
    assert "secret-host" not in words
    assert assert_numbers_are_those_of(section.html, summaries(one)) == 3


@pytest.mark.parametrize(
    ("command", "label"), [(["kshot", "run"], "To run it again"), (["a.py"], "Started by"), (["-"], "")]
)
def test_a_script_is_named_and_a_notebook_has_no_command(command, label):
    section = course_section([run([row()], spec={"sessions": [{"state": "done", "command": command}]})], None)
    assert (label in said(section)) if label else "Started" not in said(section)


# ---- names of strangers ----


def test_hostile_names_stay_text():
    rows = [
        *parts({HOSTILE: 12.0, "law": 80.0}),
        row(f"{HOSTILE}@0", of=HOSTILE, example_seed=0),
        row(f"{HOSTILE}[1 draws of examples]", sd=None, lowest=60.0, highest=60.0),
    ]
    spec = {
        "identity": {"models": [HOSTILE], "datasets": [HOSTILE], HOSTILE: HOSTILE},
        "sessions": [{"state": HOSTILE, "command": [HOSTILE], "versions": {HOSTILE: HOSTILE, "kshot": HOSTILE}}],
        "tasks": {"m": {HOSTILE: {"shots": 3}, "arc": {"shots": 0}}},
    }
    usage = [{"model": HOSTILE, "role": HOSTILE, "prompt_tokens": 1, "completion_tokens": 2}]
    record = RunRecord(
        rows, [HOSTILE], first_failures=[HOSTILE], comparisons=[compared(HOSTILE, "b", task=HOSTILE)], usage=usage
    )
    runs = [PageRun("a", HOSTILE, record, spec), PageRun("b", "b", record, {"identity": {}})]
    for section in run_sections(runs):
        html = str(section.html)
        tree(html)
        assert "<script" not in html.lower()
        assert not any(each.get("onload") for each in tree(html).iter())
        assert "\u202e" not in html
        assert "\x1b" not in html
        assert "style=" not in html
