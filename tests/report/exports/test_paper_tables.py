"""Tables for papers: every figure as in summary.json, bold only by the test, and no name that is a command."""

import re
import shutil
import subprocess

import pytest

from kshot.report.exports.latex import is_label, label_of, latex_of, latex_text
from kshot.report.exports.paper_tables import comparisons_table, figures_tables
from kshot.report.markdown_table import markdown_of
from kshot.report.view import cell_of
from kshot.runs.record import RunRecord

NAMES = [
    r"a\b{c}d$e$f&g#h%i_j~k^l", r"\input{/etc/passwd}", r"\end{tabular}", "[x] y", "*y", "--a ---b ?` ``q'' ,, <<>> |x",
    "two\nlines\ttab\x00\x1b", '"quoted"', "%%%", "a\\\\[2cm]b", "é ü – … “x”", "^^41", "~~", "{", "}", "\\", "half \ud800",
]  # fmt: skip


def row(task, model, value, metric="EM", half=1.5, **more):
    ends = None if value is None else [value - half, value + half]
    return {"task": task, "model": model, "metric": metric, "value": value, "n": 10, "failed": 0, "ci95": ends} | more


def pair(a, b, ahead, task="t", metric="EM", **more):
    told = {"difference": 5.0, "ci95": [1.0, 9.0], "p": 0.01, "p_corrected": 0.02, "family": 3, "n": 10}
    return {"task": task, "metric": metric, "a": a, "b": b, "a_model": a, "b_model": b, "ahead": ahead} | told | more


def tables(rows, comparisons=(), **runs):
    given = {"r": RunRecord(rows, [])} | {name: RunRecord(own, []) for name, own in runs.items()}
    return list(figures_tables(given, list(comparisons)))


def bold(table):
    return [row[0] for row in table.rows if any(cell.tone == "strong" for cell in map(cell_of, row))]


def figures(table):
    """The figures of each line, with what stands between the ends of their intervals."""
    at = [at for at, column in enumerate(table.columns) if column.kind == "figure"]
    return [[row[each] and (row[each].written, row[each].between, row[each].tone) for each in at] for row in table.rows]


def heads(table, kind):
    """The headings of the columns before the figures, or of those."""
    return [column.heading for column in table.columns if (column.kind == "figure") is (kind == "figure")]


def test_tasks_go_down_and_systems_across():
    rows = [
        row("t", "a", 61.25),
        row("t", "b", None, n=0, failed=10),
        row("u", "b", 3.0, "PPL", half=0.02, higher_is_better=False),
    ]
    (table,) = tables(rows)
    assert (heads(table, "label"), heads(table, "figure")) == (["task", "metric", "n", "failed"], ["a", "b"])
    assert [row[:4] for row in table.rows] == [["t", "EM", "10 / 0", "0 / 10"], ["u", "PPL ↓", "10", "0"]]
    assert figures(table) == [
        [("61.2", "59.8–62.8", ""), ("–", "", "")],  # a model that failed everywhere has no figure, and no 0
        [None, ("3.000", "2.980–3.020", "")],  # digits by the width of the interval
    ]
    assert {"Failed samples are in no figure.", "↓: lower is better."} <= set(table.notes)
    assert r"u & PPL $\downarrow$ & 10" in latex_of([table], "tab:r")


@pytest.mark.parametrize(
    ("comparisons", "expected"),
    [
        ([], []),
        ([pair("a", "b", None), pair("a", "c", None), pair("b", "c", None)], []),
        ([pair("a", "b", "a"), pair("a", "c", None), pair("b", "c", None)], []),  # the best number alone is no reason
        ([pair("a", "b", "a"), pair("a", "c", "a"), pair("b", "c", None)], ["t"]),
        ([pair("b", "a", "a"), pair("c", "a", "a")], ["t"]),
        ([pair("a", "b", "a", task="other"), pair("a", "c", "a", task="other")], []),
    ],
)
def test_bold_is_what_the_test_puts_ahead_of_all(comparisons, expected):
    (table,) = tables([row("t", "a", 90.0), row("t", "b", 50.0), row("t", "c", 10.0)], comparisons)
    assert bold(table) == expected
    assert any("Bold" in note for note in table.notes) == bool(expected)
    tested = [each for each in comparisons if each["task"] == "t"]
    assert ("corrected for 3 comparisons" in " ".join(table.notes)) == bool(tested)
    assert ("The systems were not tested against each other." in table.notes) == (not tested)
    missing = "Not every two systems could be tested on t." in table.notes
    assert missing == (0 < len(tested) < 3)
    if tested and not expected:
        assert any(note.startswith(f"No figure is {'known to be ' * missing}ahead of all") for note in table.notes)


def test_categories_are_bold_by_tests_of_their_own():
    rows = [
        row(task, model, value, **more)
        for task, more in (("t[c]", {"category": "c"}), ("t[d]", {"category": "d"}), ("t", {}))
        for model, value in (("a", 90.0), ("b", 50.0))
    ]
    whole, won, even = pair("a", "b", None), pair("a", "b", "a", category="c"), pair("a", "b", None, category="d")
    (table,) = tables(rows, [whole, won | {"family": 8}, even | {"family": 8}])
    assert bold(table) == ["t[c]"]
    assert "(p < 5 %, corrected for 3 comparisons, on categories for 8)" in " ".join(table.notes)
    (table,) = tables(rows, [whole])
    assert bold(table) == []
    assert table.notes[-2].startswith("No figure is known to be ahead of all others by a paired test")
    assert table.notes[-1] == "Categories were not tested."
    (table,) = tables(rows, [whole, won])
    assert table.notes[-1] == "Not every two systems could be tested on t[d]."


def test_a_comparison_of_tasks_with_other_names_is_of_no_line():
    won = pair("r", "five", "five", a_run="r", b_run="five", a_model="m", b_model="m", a_task="t", b_task="u")
    runs = {"five": [row("u", "m", 2.0), row("t", "m", 2.0)]}
    (table,) = tables([row("t", "m", 1.0)], [won], **runs)
    assert bold(table) == []
    assert comparisons_table([won]).rows[0][0] == "t / u"


def test_runs_side_by_side_are_named_by_what_tells_them_apart():
    same = tables([row("t", "m", 1.0)], five=[row("t", "m", 2.0)])
    assert heads(same[0], "figure") == ["r", "five"]
    assert heads(tables([row("t", "m", 1.0)], five=[row("t", "o", 2.0)])[0], "figure") == ["m", "o"]
    both = tables([row("t", "m", 1.0), row("t", "o", 1.0)], five=[row("t", "m", 2.0)])
    assert heads(both[0], "figure") == ["r · m", "r · o", "five · m"]
    assert " r · m |" in markdown_of(both)
    assert r"\multicolumn{2}{c}{\shortstack[c]{r\\m}}" in latex_of(both, "tab:r")
    won = pair("five", "r", "five", a_run="five", b_run="r", a_model="m", b_model="m")
    (table,) = tables([row("t", "m", 1.0)], [won], five=[row("t", "m", 2.0)])
    assert [tone for _, _, tone in figures(table)[0]] == ["", "strong"]


def test_lookup_has_lengths_across_and_passages_measures():
    of_lookup = [
        row(f"lookup:UR:{length}", "m", 50.0, "Accuracy", kind="lookup", lookup="UR", variant="v", length=length)
        for length in (40, 10)
    ]
    found = [
        row("handbook", model, 0.5, measure, half=0.05, kind="passages", benchmark="handbook", passages=9)
        for model in ("fts5", "bm25")
        for measure in ("nDCG@10", "R@100")
    ]
    gap = row("gap", "m", 1.0, kind="lookup", lookup="UR-UL", variant="v", length=10, gap="right - left")
    detail = row("lookup:UR:10", "m", 1.0, "error", kind="lookup", lookup="UR", variant="v", length=10, detail=True)
    won = pair("bm25", "fts5", "bm25", task="handbook", metric="R@100")
    lookup, passages = tables([*of_lookup, gap, detail, *found], [won])
    assert (heads(lookup, "figure"), len(lookup.rows)) == (["10", "40"], 1)
    assert (passages.title, heads(passages, "figure")) == ("Search on handbook", ["nDCG@10", "R@100"])
    assert [[tone for _, _, tone in line] for line in figures(passages)] == [["", ""], ["", "strong"]]
    assert passages.notes[-1] == "Not every two systems could be tested on handbook by nDCG@10."
    assert figures(passages)[0][0][0] == "0.500"


def test_the_same_engine_on_other_passages_is_another_system():
    rows = [
        row(f"b:{chunks}", "fts5", 0.5, "R@2000t", half=0.1, kind="passages", benchmark="b", passages=9, chunks=chunks)
        for chunks in ("small", "large")
    ]
    won = pair("fts5 · large", "fts5 · small", "fts5 · large", task="b", metric="R@2000t")
    won |= {"a_model": "fts5", "b_model": "fts5", "a_chunks": "large", "b_chunks": "small"}
    (table,) = tables(rows, [won])
    assert [row[0] for row in table.rows] == ["fts5 · small", "fts5 · large"]
    assert bold(table) == ["fts5 · large"]


@pytest.mark.parametrize("ends", [None, [0.0, 0.0], [-1e308, 1e308], [float("nan"), 1.0], [0, 10**400]])
def test_any_interval_of_a_stranger_leaves_a_table(ends):
    (table,) = tables([row("t", "m", 5.0, ci95=ends, kind="of another version")])
    assert figures(table)[0][0][0] == "5.00"
    assert latex_of([table], "tab:r").count(r"\\") == 2


def test_comparisons_are_a_table_too():
    table = comparisons_table(
        [pair("a", "b", "a"), pair("a", "c", None, p_corrected=0.31), pair("b", "c", None, p_corrected=None)]
    )
    assert [[cell_of(each).written for each in row[:-1]] for row in table.rows] == [
        ["t", "EM", "a", "b", "10", "0.02"],
        ["t", "EM", "a", "c", "10", "0.31"],
        ["t", "EM", "b", "c", "10", "–"],
    ]
    assert [line[0][2] for line in figures(table)] == ["strong", "", ""]
    assert figures(table)[0][0][0] == "+5.0"
    assert "corrected for 3 comparisons" in " ".join(table.notes)


def test_a_table_of_markdown():
    won = pair("a", "b", "a", task="t|x", family=1)
    assert markdown_of(tables([row("t|x", "a", 90.0), row("t|x", "b", 50.0)], [won])) == (
        "| task     | metric |   n |                     a |                 b |\n"
        "| -------- | ------ | --: | --------------------: | ----------------: |\n"
        "| t&#124;x | EM     |  10 | **90.0** [88.5, 91.5] | 50.0 [48.5, 51.5] |\n"
        "\n"
        "Brackets are 95 % intervals.\n"
        "Bold: ahead of every other system, by a paired test (p &lt; 5 %).\n"
    )


def test_a_table_of_latex():
    text = latex_of(
        tables([row("t_1", "a", 90.0), row("t_1", "b", -50.0)], [pair("a", "b", "a", task="t_1", family=1)]),
        label_of("my run!", "results"),
    )
    assert text.splitlines() == [
        r"% Made by kshot. In the preamble: \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        (
            r"\caption{Brackets are 95 \% intervals. Bold: ahead of every other system, by a paired test "
            r"(p \textless{} 5 \%).}\label{tab:my-run-results}"
        ),
        r"\begin{tabular}{llrr@{\hspace{0.4em}}lr@{\hspace{0.4em}}l}",
        r"\toprule",
        r"task & metric & $n$ & \multicolumn{2}{c}{a} & \multicolumn{2}{c}{b} \\",
        r"\midrule",
        r"t\_1 & EM & 10 & \textbf{90.0} & {\scriptsize [88.5, 91.5]} & $-$50.0 & {\scriptsize [$-$51.5, $-$48.5]} \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


COMMANDS = {
    *("textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater", "textbar", "char"),
    *("{", "}", "$", "&", "#", "%", "_"),
}


@pytest.mark.parametrize("name", NAMES)
def test_no_name_is_a_command(name):
    text = latex_text(name)
    assert set(re.findall(r"\\([a-z]+|.)", text)) <= COMMANDS
    rest = re.sub(r"\\([a-z]+|.)", "", text)
    assert not set(rest) & set("$&#%_^~\\")
    assert rest.count("{") == rest.count("}")
    assert "\n" not in text
    assert not text.startswith(("[", "*"))


def test_long_tables_go_on_on_the_next_page_and_fonts_are_told():
    text = latex_of(tables([row(f"t{at}", "m", 1.0) for at in range(57)]), "tab:r")
    assert "longtable}" in text.splitlines()[0]
    assert text.count(r"\begin{longtable}") == 1
    assert "XeLaTeX" in latex_of(tables([row("日本", "m", 1.0)]), "tab:r")
    assert "XeLaTeX" not in latex_of(tables([row("é", "m", 1.0)]), "tab:r")


def test_a_caption_stands_for_the_title_and_the_signs_are_still_explained():
    found = tables([row("t", "m", 1.0)])
    assert r"\caption{Results of m. Brackets are 95 \% intervals.}" in latex_of(found, "tab:r")
    assert r"\caption{50 \% of all. Brackets are 95 \% intervals.}" in latex_of(found, "tab:r", "50 % of all")
    assert r"\caption{All! Brackets" in latex_of(found, "tab:r", "All!")
    assert markdown_of(found, "a|b").startswith("a&#124;b\n\n**Results of m**\n\n| task")
    assert r"\caption{Systems compared. The metric is EM. The difference is" in latex_of(
        [comparisons_table([pair("a", "b", "a")])], "c"
    )


def test_figures_without_intervals_keep_their_digits():
    runs, won = {"r": RunRecord([row("t", "a", 61.25), row("t", "b", 50.0)], [])}, pair("a", "b", "a")
    (table,) = figures_tables(runs, [won], intervals=False)
    assert figures(table)[0] == [("61.2", "", "strong"), ("50.0", "", "")]
    assert not any("intervals" in note for note in table.notes)
    assert r"t & EM & 10 & \textbf{61.2} & 50.0 \\" in latex_of([table], "tab:r")
    assert "**61.2** |" in markdown_of([table])
    compared = comparisons_table([won], intervals=False)
    assert figures(compared)[0] == [("+5.0", "", "strong")]
    assert "interval" not in " ".join(compared.notes)


def test_the_intervals_of_many_systems_stand_below_the_figures():
    systems = [f"m{at}" for at in range(4)]
    (table,) = tables([row("t", each, 12.3) for each in systems])
    text = latex_of([table], "tab:r")
    lines = text.splitlines()
    at = lines.index(r"t & 10 & 12.3 & 12.3 & 12.3 & 12.3 \\*")
    interval = r"{\scriptsize [10.8, 13.8]}"
    assert lines[at + 1] == rf" &  & {interval} & {interval} & {interval} & {interval} \\"
    assert r"\caption{The metric is EM. Brackets are" in text
    other = latex_of(tables([row("t", each, 12.3, metric) for each in systems for metric in ("EM", "F1")]), "tab:r")
    assert r"t & EM & 10 & 12.3" in other


@pytest.mark.parametrize(("text", "fits"), [("tab:my_run.1/a-b", True), ("", False), ("a}b", False), ("a b", False)])
def test_labels_that_every_document_takes(text, fits):
    assert is_label(text) == fits


def compiled(folder, *tables_of_a_paper):
    """Compile a paper; return what LaTeX said the last time."""
    preamble = "\\documentclass{article}\\usepackage{booktabs, longtable}\\begin{document}\n"
    (folder / "t.tex").write_text(f"{preamble}{''.join(tables_of_a_paper)}\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "t.tex"]
    for _ in range(2):
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode("latin1")[-2000:]
    return done.stdout.decode("latin1")


needs_latex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")


@needs_latex
def test_the_tables_compile(tmp_path):
    systems = NAMES[:3]
    hostile = tables(
        [row(name, model, 12.3) for name in NAMES for model in systems], [pair(systems[0], systems[1], systems[0])]
    )
    long = tables([row(f"t{at}_&", "m", 1.0) for at in range(57)])
    of_two = pair(f"{NAMES[0]} · {NAMES[1]}", "b", "b", a_run=NAMES[0], a_model=NAMES[1])
    body = latex_of([*hostile, *long, comparisons_table([pair(*systems[:2], systems[0]), of_two])], "tab:r", NAMES[1])
    compiled(tmp_path, body)


@needs_latex
def test_results_and_comparisons_of_four_systems_fit_into_one_paper(tmp_path):
    models = ["weak", "weak,skill=2"]
    tasks = ["subs:s1[capitals]", *(f"subs:s{at}" for at in range(30)), "subs[Macro Average]"]
    rows = [row(task, model, 100.0, "Accuracy", failed=1) for task in tasks for model in models]
    runs = {name: RunRecord(rows, []) for name in ("sub0", "sub4")}
    told = [
        pair(f"sub0 · {a}", f"sub4 · {b}", None, task, "Accuracy", a_run="sub0", b_run="sub4", a_model=a, b_model=b)
        for task in tasks
        for a in models
        for b in models
    ]
    results = latex_of(figures_tables(runs, told), label_of("sub0", "results"))
    comparisons = latex_of([comparisons_table(told)], label_of("sub0", "comparisons"))
    said = compiled(tmp_path, results, comparisons)
    assert "multiply defined" not in said
    assert "Overfull" not in said
