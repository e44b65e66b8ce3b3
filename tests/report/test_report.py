"""Tables and grids as people see them."""

import io

import pytest
from rich.console import Console

from kshot.report.figures import short_names
from kshot.report.table import details_tables, findings, grids, results_table, spending
from kshot.report.verdicts import model_verdicts, spreads, systems_tables, verdicts


def drawn(*shown, width=80):
    console = Console(file=io.StringIO(), width=width, color_system="truecolor", force_terminal=True)
    for each in shown:
        console.print(each)
    return console.file.getvalue()


def plain(*shown, width=80):
    console = Console(file=io.StringIO(), width=width)
    for each in shown:
        console.print(each)
    return console.file.getvalue()


def row(task="quiz", model="hf:models/one", metric="Accuracy", value=50.0, n=10, failed=0, ci95=(40.0, 60.0), **more):
    return {
        "task": task,
        "model": model,
        "metric": metric,
        "value": value,
        "n": n,
        "failed": failed,
        "ci95": list(ci95) if ci95 else None,
    } | more


def test_one_model_two_models_many_models():
    one = plain(results_table([row()]))
    assert one.split() == ["task", "metric", "n", "value", "95", "%", "quiz", "Accuracy", "10", "50.00", "40.0–60.0"]
    two = plain(results_table([row(), row(model="hf:models/two", value=70.0)]))
    assert "hf:one" in two
    assert "70.00" in two
    many = plain(results_table([row(model=f"hf:models/a-long-name-{i}") for i in range(4)]))
    assert many.count("hf:a-long-name-") == 4
    assert max(map(len, many.splitlines())) <= 80
    assert many.count("50.00") == 4


def test_what_must_not_be_missed_has_a_column():
    shown = plain(results_table([row(value=None, n=0, failed=3, ci95=None, unanswered=2)]))
    assert "failed" in shown
    assert "unanswered" in shown
    assert "–" in shown
    assert "failed" not in plain(results_table([row()]))


def detail(metric, **more):
    return row(metric=metric, detail=True, **more)


def test_the_headline_says_which_rule_it_goes_by():
    by_token = row(rule="acc_token")
    rows = [by_token, detail("acc", value=40.0), detail("acc_token")]
    assert "Accuracy (acc_token)" in plain(results_table(rows))
    (table,) = details_tables(rows)
    assert plain(table).splitlines()[0].rstrip() == "By all rules:"
    assert plain(table).split()[3:] == ["task", "acc", "acc_token", "quiz", "40.00", "50.00"]
    both = plain(results_table([by_token, row(task="other", rule="acc_norm")]))
    assert "Accuracy (acc_token)" in both
    assert "Accuracy (acc_norm)" in both
    assert list(details_tables([row()])) == []


def test_details_of_many_subsets_are_their_averages():
    subsets = [detail("acc", task=f"quiz:{i}", dataset="quiz", subset=str(i)) for i in range(9)]
    other = detail("acc", task="other")
    (table,) = details_tables([*subsets, other])
    assert len(plain(table).splitlines()) == 12
    average = detail("acc", task="quiz[Macro Average]", dataset="quiz", average="macro")
    (table,) = details_tables([*subsets, average, other])
    assert [line.split()[0] for line in plain(table).splitlines()[2:]] == ["quiz[Macro", "other"]
    several = [detail("acc", model=f"hf:{name}") for name in "ab"]
    assert "hf:b · quiz" in plain(*details_tables(several))


def test_figures_of_other_kinds_have_a_table_of_their_own():
    one, other = details_tables([row(rule="acc"), detail("acc"), detail("word_perplexity", task="texts")])
    assert plain(one).startswith("By all rules:")
    assert plain(other).startswith("More figures:")


def test_each_model_has_its_own_counts_and_long_names_their_own_lines():
    two = plain(results_table([row(ties=3), row(model="hf:models/two", ties=1)]))
    assert "3 / 1" in two
    fewer = plain(results_table([row(), row(model="hf:models/two", n=4, failed=6)]))
    assert "10 / 4" in fewer
    long = plain(results_table([row(model=f"hf:models/Meta-Llama-3.1-8B-Instruct-{i}") for i in "ab"]))
    assert long.count("8B-Instruct-a · quiz") == 1


def test_large_numbers_do_not_break_the_table():
    huge = [row(metric="word_perplexity", model=f"hf:{m}", value=2.5e15, ci95=(1.8e15, 2.01e16)) for m in "ab"]
    assert plain(results_table(huge)).count("2.50e+15") == 2
    assert plain(results_table([row(value=123456.789, ci95=None)])).split()[-1] == "123456.79"


def test_ties_are_not_missed():
    assert "ties" in plain(results_table([row(ties=3)]))


def cell(task, length, value, ci95, metric="Accuracy", **more):
    labels = {"lookup": task, "length": length, "variant": "sep|small|bare", "chance": 5.0}
    labels["kind"] = "lookup"
    return row(f"lookup:{task}:{length}", "embedded", metric, value, 50, ci95=ci95, **labels | more)


def gap(value, ci95, p=0.0):
    ahead = None if p >= 0.05 else "UR" if value > 0 else "UL"
    labels = {"gap": "right - left", "better": "UR", "worse": "UL", "p_corrected": p, "family": 15, "ahead": ahead}
    return cell("UR-UL", 120, value, ci95, "gap: right - left", **labels)


ROWS = [
    cell("UL", 10, 100.0, (92.0, 100.0)),
    cell("UL", 120, 30.0, (19.0, 44.0)),
    cell("UL", 120, 56.0, (42.0, 69.0), "error: opposite neighbour", error="opposite neighbour", detail=True),
    cell("UL", 120, 14.0, (7.0, 26.0), "error: last token", error="last token", detail=True),
    cell("UL", 120, 28.0, (17.0, 42.0), "Accuracy:first word", detail=True),
    cell("UR", 10, 100.0, (92.0, 100.0)),
    cell("UR", 120, 98.0, (89.0, 100.0)),
    gap(68.0, (54.0, 82.0)),
]


def shaded(segment):
    return segment.style is not None and segment.style.bgcolor is not None and segment.text.strip()


def test_a_grid_is_shaded_by_accuracy():
    (grid,) = grids(ROWS)
    text = plain(grid)
    assert text.splitlines()[0] == "embedded: accuracy in % by length (50 records each)"
    lines = [line.split() for line in text.splitlines()[1:]]
    assert lines == [["variant", "task", "10", "120"], ["sep|small|bare", "UL", "100", "30"], ["UR", "100", "98"]]
    # The styles, not the escape codes: rich keeps the codes of the first colour system in which a style was drawn.
    segments = Console(file=io.StringIO(), width=80).render(grid)
    shades = {segment.text.strip(): str(segment.style.bgcolor) for segment in segments if shaded(segment)}
    assert set(shades) == {"100", "98", "30"}
    assert len(set(shades.values())) == 3  # three different values, three shades


def test_findings_say_what_fell_how_it_is_wrong_and_which_gap_is_real():
    fell, look, gap = findings(ROWS)
    assert (
        fell
        == "UL (sep|small|bare) falls from 100 at length 10 to 30 at 120 (80 % of the errors: opposite neighbour); chance is 5."
    )
    assert look == "Look: kshot preview -d lookup:UL --length 120 --variant 'sep|small|bare' --limit 1"
    assert gap == (
        "On the same records UR is 68 points ahead of UL (95 %: 54–82, p < 0.0001) at length 120 (sep|small|bare); "
        "p is corrected for 15 comparisons."
    )


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [cell("UL", 10, 6.0, (2.0, 16.0)), cell("UL", 20, 0.0, (0.0, 7.0))],  # overlapping, near chance: noise
        [gap(8.0, (-4.0, 20.0), p=0.2)],
        [gap(20.0, (4.0, 36.0), p=0.2)],  # beyond chance alone, but not as one of 15
    ],
)
def test_noise_is_no_finding(rows):
    assert list(findings(rows)) == []


def test_findings_mark_figures_of_which_many_samples_failed():
    fell, _, ahead = findings([{**each, "failed": 3} for each in ROWS])
    assert "falls from 100† at length 10 to 30† at 120" in fell
    assert "UR is 68† points ahead of UL" in ahead


def test_a_gap_may_go_the_other_way():
    (line,) = findings([gap(-68.0, (-82.0, -54.0), p=0.012)])
    assert line.startswith("On the same records UL is 68 points ahead of UR (95 %: 54–82, p 0.012) at length 120")


def test_a_fall_is_a_finding_only_beyond_the_chance_of_all_pairs_of_lengths():
    """84 % after 100 % of 50 records is clear by itself, and not among 50 pairs of lengths."""
    fall = [cell("UL", 10, 100.0, (92.0, 100.0)), cell("UL", 20, 84.0, (71.0, 92.0))]
    assert next(findings(fall)).startswith("UL (sep|small|bare) falls from 100 at length 10 to 84 at 20")
    level = [cell("UR", length, 90.0, (79.0, 96.0)) for length in range(10, 60)]
    assert list(findings([*fall, *level])) == []


@pytest.mark.parametrize(
    ("model", "short"),
    [
        ("hf:models/a/b", "hf:b"),
        ("hf:models/a/b/", "hf:b"),
        ("bm25,k1=2", "bm25,k1=2"),
        ("replay:runs/published.json#bm25", "bm25"),
        ("replay:runs/a.jsonl", "replay:a.jsonl"),
        ("openai:org/model", "openai:model"),
        ("openai:org/model@http://host:8000/v1", "openai:model@host:8000"),
        ("mine:model@https://host/v1", "mine:model@host"),  # whatever kind of server it is
        ("openai:model@http://host/v1,top_k=1", "openai:model@host,top_k=1"),
        ("hf:models/a/b,revision=x/y", "hf:b,revision=x/y"),
        ("replay:runs.json#bm25,depth=3", "bm25,depth=3"),
        ("anthropic:claude", "anthropic:claude"),
    ],
)
def test_names_of_models_are_shortened(model, short):
    assert short_names([model]) == {model: short}


def test_models_whose_short_names_are_the_same_keep_what_tells_them_apart():
    assert short_names(["hf:a/tiny", "hf:b/tiny", "hf:c/small", "bm25", "replay:x.json#bm25"]) == {
        "hf:a/tiny": "hf:a/tiny",
        "hf:b/tiny": "hf:b/tiny",
        "hf:c/small": "hf:small",
        "bm25": "bm25",
        "replay:x.json#bm25": "replay:x.json#bm25",
    }
    home = "/home/me/models"
    assert short_names([f"hf:{home}/x/ckpt", f"hf:{home}/y/ckpt", "hf:small"]) == {
        f"hf:{home}/x/ckpt": "hf:x/ckpt",
        f"hf:{home}/y/ckpt": "hf:y/ckpt",
        "hf:small": "hf:small",
    }
    for models, names in (
        (["hf:a/x/ckpt", "hf:b/x/ckpt", "hf:c/y/ckpt"], ["hf:a/x/ckpt", "hf:b/x/ckpt", "hf:y/ckpt"]),
        (["hf:/m/1/ckpt", "vllm:/m/1/ckpt"], ["hf:ckpt", "vllm:ckpt"]),
        (
            ["hf:m/1/ckpt,dtype=float16", "hf:m/2/ckpt,dtype=float16"],
            ["hf:1/ckpt,dtype=float16", "hf:2/ckpt,dtype=float16"],
        ),
        (["replay:a/run.json#bm25", "replay:b/run.json#bm25"], ["replay:a/run.json#bm25", "replay:b/run.json#bm25"]),
        (["replay:d/a.json#bm25", "replay:d/b.json#bm25"], ["replay:a.json#bm25", "replay:b.json#bm25"]),
        (["openai:a/m@http://h:1/v1", "openai:b/m@http://h:1/v1"], ["openai:a/m@h:1", "openai:b/m@h:1"]),
        (["openai:m@http://h/v1", "openai:m@http://h/v2"], ["openai:m@http://h/v1", "openai:m@http://h/v2"]),
        (["hf:x/ckpt", "hf:x/ckpt/"], ["hf:x/ckpt", "hf:x/ckpt/"]),
        (["hf:ckpt", "hf:/d/ckpt"], ["hf:ckpt", "hf:d/ckpt"]),
    ):
        assert list(short_names(models).values()) == names
    two = plain(results_table([row(model="hf:a/tiny"), row(model="hf:b/tiny")]))
    assert "hf:a/tiny" in two
    assert "hf:b/tiny" in two
    (table,) = systems_tables([system("dense:a/tiny", 0.5), system("dense:b/tiny", 0.6)])
    assert "dense:a/tiny" in plain(table)
    (line,) = verdicts([pair("dense:a/tiny", "dense:b/tiny", -0.2, None)], [system("dense:a/tiny", 0.5)])
    assert "dense:a/tiny cannot be told from dense:b/tiny" in line


def usage(model, **more):
    return {"model": model, "role": "model", "prompt_tokens": 1200, "completion_tokens": 30, **more}


def test_the_tokens_of_servers_and_of_priced_models_are_shown():
    rows = [
        usage("openai:m", server=True),
        usage("mine.py:Remote", server=True, role="judge", cost_usd=0.00123),
        usage("hf:priced", cost_usd=1.5),
        usage("openai:not-marked-as-a-server"),
    ]
    assert spending(rows) == [
        "openai:m: 1,200 tokens read, 30 written",
        "mine.py:Remote (judge): 1,200 tokens read, 30 written, 0.0012 USD",
        "hf:priced: 1,200 tokens read, 30 written, 1.50 USD",
    ]


# ---- systems ----


def system(model, value, metric="AC_MRR@10", task="book", ci95=None, **more):
    labels = {"kind": "passages", "benchmark": "book", "passages": 40, "chunks": "lines:1", "higher_is_better": True}
    return row(task, model, metric, value, 20, ci95=ci95 or (value - 0.1, value + 0.1), **labels | more)


def test_systems_stand_side_by_side():
    rows = [
        system("bm25", 0.51),
        system("bm25", 0.9, task="book[1]", category="1"),
        system("replay:runs.json#dense", 0.62),
        system("bm25", 3.5, "PPL", ci95=(3.0, 4.0), higher_is_better=False),
        system("replay:runs.json#dense", 4.5, "PPL", ci95=(4.0, 5.0), higher_is_better=False),
    ]
    (table,) = systems_tables(rows)
    assert " ".join(plain(table).split()).startswith("book: 20 questions, 40 passages, cut by lines:1 system AC_MRR@10")
    assert [line.split() for line in plain(table).splitlines()[-2:]] == [
        ["bm25", "0.510", ".410–.610", "3.5", "3.0–4.0"],
        ["dense", "0.620", ".520–.720", "4.5", "4.0–5.0"],
    ]
    bold = [part for part in drawn(table).split("\x1b[") if part.startswith("1m") and part[2:3].isdigit()]
    assert [part[2:].strip() for part in bold] == ["3.5", "0.620"]  # the lower perplexity, the higher MRR


@pytest.mark.parametrize(
    ("within", "said"),
    [
        ("none", "searching all documents"),
        ("chapter", "within the question's document"),
        ("author", "within the question's author"),
        (None, ""),  # of passages with grades
    ],
)
def test_the_head_says_where_is_searched(within, said):
    (table,) = systems_tables([system("bm25", 0.5, within=within)])
    head = f"book: 20 questions, 40 passages, cut by lines:1{',' if said else ''}"
    lines = [line.strip() for line in plain(table).splitlines()]
    assert " ".join(lines[: lines.index(said) if said else 2]) == head  # in one line of its own, in a narrow table too


def test_a_name_with_brackets_is_not_a_category():
    (table,) = systems_tables([system("bm25", 0.5, task="book[2nd edition]")])
    assert "0.500" in plain(table)


def pair(a, b, difference, ahead, metric="AC_MRR@10", ci95=(0.1, 0.3), **more):
    found = {"task": "book", "metric": metric, "a": a, "b": b, "difference": difference, "ci95": list(ci95)}
    tested = {"higher_is_better": True, "p": 0.004, "p_corrected": 0.012 if ahead else 0.3, "family": 3, "ahead": ahead}
    return found | {"a_model": a, "b_model": b} | tested | more


def test_a_verdict_names_the_leader_and_the_others():
    pairs = [
        pair("hf:m/a", "b", 0.2, "b", ci95=(0.1, 0.3)),
        pair("hf:m/a", "c", -0.1, None, ci95=(-0.3, 0.1)),
        pair("b", "c", -0.3, "b", ci95=(-0.4, -0.2)),
    ]
    (line,) = verdicts(pairs, [system("b", 0.5)])
    assert line == (
        "book AC_MRR@10: b is ahead of hf:a (+0.200, 95 %: +0.100 to +0.300, p 0.012); "
        "c (-0.300, 95 %: -0.400 to -0.200, p 0.012); p is corrected for 3 comparisons."
    )


def test_where_lower_is_better_the_lower_one_leads():
    (line,) = verdicts(
        [pair("a", "b", -0.2, "b", "PPL", (-0.3, -0.1), higher_is_better=False, family=1)],
        [system("a", 2.0, "PPL", higher_is_better=False)],
    )
    assert line == "book PPL: b is ahead of a (-0.200, 95 %: -0.300 to -0.100, p 0.012)."


def test_systems_with_several_chunkers_are_named_with_them():
    chunks = {"a_chunks": "lines:1", "b_chunks": "whole"}
    (line,) = verdicts(
        [pair("x · lines:1", "x · whole", 0.2, None, a_model="x", b_model="x", ci95=(-0.1, 0.4), **chunks)],
        [system("x", 0.5)],
    )
    assert line == (
        "book AC_MRR@10: x · whole cannot be told from x · lines:1 (+0.200, 95 %: -0.100 to +0.400, p 0.3); "
        "p is corrected for 3 comparisons."
    )


def test_no_verdict_where_not_all_pairs_were_compared():
    pairs = [pair("a", "b", -0.2, "a"), pair("a", "c", -0.2, "a")]
    assert list(verdicts(pairs, [system("a", 0.5)])) == []


@pytest.mark.parametrize(
    ("p", "shown"), [(0.04996, "p 0.04996"), (0.0501, "p 0.0501"), (0.03, "p 0.03"), (1.0, "p 1"), (2e-9, "p < 0.0001")]
)
def test_p_shows_on_which_side_of_5_percent_it_lies(p, shown):
    (line,) = verdicts([pair("a", "b", -0.2, "a" if p < 0.05 else None, p_corrected=p)], [system("a", 0.5)])
    assert f", {shown});" in line


def test_models_are_compared_in_sentences_too():
    better = pair("hf:m/a", "hf:m/b", -3.25, "hf:m/a", "Accuracy", (-5.5, -1.0), task="quiz", family=1)
    (line,) = model_verdicts([better])
    assert line == "quiz Accuracy: hf:a is ahead of hf:b (-3.2, 95 %: -5.5 to -1.0, p 0.012)."
    assert list(model_verdicts([])) == []


def test_of_many_comparisons_the_clearest_are_shown():
    ps = [0.9, 0.001, 0.02, 0.5, 0.6, 0.7, 0.03, 0.8, 0.95]
    found = [
        pair("a", "b", -2.0, "a" if p < 0.05 else None, "Accuracy", task=f"quiz[{i}]", p_corrected=p, family=9)
        for i, p in enumerate(ps)
    ]
    *lines, rest = model_verdicts(found)
    assert [line.partition(" ")[0] for line in lines] == ["quiz[1]", "quiz[2]", "quiz[6]", "quiz[3]", "quiz[4]"]
    assert rest == "… and 4 more comparisons in summary.json; a model is ahead in 0 of them."


def spread(sd=3.4, **more):
    return row("quiz[3 draws of examples]", value=62.0, sd=sd, lowest=57.0, highest=68.0, **more)


def test_the_spread_over_draws_of_examples_is_said():
    (line,) = spreads([row(), spread(), spread(metric="error", detail=True)])
    assert line == (
        "quiz[3 draws of examples] Accuracy: 62.00 on average, from 57.00 to 68.00 by the choice of examples (SD 3.40); "
        "by the choice of samples alone: 40.0–60.0 (95 %)."
    )
    two = [*spreads([spread(), spread(model="hf:models/two")])]
    assert [line.partition(": ")[0][26:] for line in two] == ["Accuracy of hf:one", "Accuracy of hf:two"]
    assert list(spreads([spread(sd=None)])) == []  # one draw has no spread
    assert [*spreads([spread()] * 7)][-1] == "… and 2 more spreads in summary.json."
