"""Answer components: what counts as found, what does not, and what is refused."""

from __future__ import annotations

import ftfy
import pytest
from hypothesis import example, given, strategies as st

from kshot.core.corpus import Corpus, Passage
from kshot.core.errors import DataError, UsageError
from kshot.core.metric import Metric as AnyMetric
from kshot.core.records import Evidence, Graded, Sample
from kshot.metrics.ranking import AnswerComponents, EvidenceFinder, Fixer
from tests.measures import measure, names

CORPUS = Corpus(
    [
        Passage("a", "A tensor is an array. It’s regular.", tokens=10),
        Passage("b", "Broadcasting expands a tensor.", tokens=20),
        Passage("c", "Nothing of note.", tokens=5),
    ]
)
TENSOR, BROADCAST = ("is an array", "It's regular"), ("Broadcasting expands",)


def rated(answer, parts, *measures, corpus=CORPUS):
    scores = AnswerComponents(corpus, measures or ("AC_MRR@10", "AC_Recall@10")).score(
        Sample("q", {}, Evidence(parts)), answer
    )
    return tuple(scores.values())


def test_it_is_a_scorer():
    metric = AnswerComponents(CORPUS)
    assert isinstance(metric, AnyMetric)
    assert names(metric) == ("AC_MRR@10", "AC_Recall@10")
    assert measure(metric).bounds == (0.0, 1.0)
    assert repr(metric) == "AnswerComponents(AC_MRR@10, AC_Recall@10)"
    assert measure(metric).aggregate([1.0, 0.5]) == 0.75


def test_the_rank_is_that_of_the_last_component():
    assert rated(["a", "c", "b"], (TENSOR, BROADCAST)) == (1 / 3, 1.0)
    assert rated(["a", "c"], (TENSOR, BROADCAST)) == (0.0, 0.5)
    assert rated(("a",), (TENSOR, TENSOR)) == (1.0, 1.0)
    assert rated([], (TENSOR,)) == (0.0, 0.0)


def test_cutoffs():
    names = ("AC_MRR@2", "AC_MRR@3", "AC_MRR", "AC_Recall@1", "AC_Recall@3")
    assert rated(["a", "c", "b"], (TENSOR, BROADCAST), *names) == (0.0, 1 / 3, 1 / 3, 0.5, 1.0)


def test_a_component_without_quotes_is_never_found_and_counts():
    assert rated(["a", "b"], (TENSOR, ())) == (0.0, 0.5)


def test_both_sides_are_fixed():
    assert rated(["a"], (("It’s regular",),)) == (1.0, 1.0)
    assert rated(["a"], (("itâ€™s",),)) == (0.0, 0.0)


def test_an_empty_quote_is_in_every_passage():
    assert rated(["c"], (("",),)) == (1.0, 1.0)
    assert rated([], (("",),)) == (0.0, 0.0)


def test_a_budget_of_tokens_takes_whole_passages_in_order_and_stops_at_the_first_too_many():
    parts = (TENSOR, BROADCAST)
    found = {n: rated(["c", "b", "a"], parts, f"AC_Recall@{n}t")[0] for n in (4, 5, 24, 25, 34, 35, 1000)}
    assert found == {4: 0.0, 5: 0.0, 24: 0.0, 25: 0.5, 34: 0.5, 35: 1.0, 1000: 1.0}
    assert rated(["b", "a"], parts, "AC_Recall@15t") == (0.0,)  # a would fit, but b comes first


def test_a_budget_needs_counted_passages():
    with pytest.raises(DataError, match="'x' does not say how many tokens"):
        rated(["x"], (TENSOR,), "AC_Recall@10t", corpus=Corpus([Passage("x", "text")]))
    with pytest.raises(UsageError, match="needs a corpus"):
        AnswerComponents(None, ["AC_Recall@10t"])


def test_texts_without_a_corpus():
    metric = AnswerComponents(None, ["AC_MRR@10"])
    assert metric([["no", "It’s regular"], ["no"]], [[["It's"]], [["It's"]]]) == {"AC_MRR@10": 0.25}
    assert metric.values([["It's"]], [[["It's"]]]) == {"AC_MRR@10": [1.0]}
    with pytest.raises(DataError, match="not a text"):
        metric.rate([3], [["It's"]])


def test_an_id_that_the_corpus_does_not_have():
    for name in ("AC_MRR@10", "AC_Recall@10t"):
        with pytest.raises(DataError, match="passage 'z' is not in the corpus"):
            rated(["z"], (TENSOR,), name)
    assert rated(["a", "z"], (TENSOR,), "AC_MRR@1") == (1.0,)  # beyond the cutoff nothing is looked at


def test_what_is_refused():
    with pytest.raises(DataError, match="no answer components"):
        rated(["a"], ())
    with pytest.raises(DataError, match="list of passages, best first, not 'a'"):
        rated("a", (TENSOR,))
    with pytest.raises(DataError, match="no evidence"):
        AnswerComponents(CORPUS).score(Sample("q", {}, Graded({"a": 1})), ["a"])
    for wrong in ("text", ["text"]):
        with pytest.raises(DataError, match="list of quotes"):
            AnswerComponents(CORPUS).rate(["a"], wrong)


def test_nothing_is_judged_twice(monkeypatch):
    finder = EvidenceFinder(CORPUS)
    first = AnswerComponents(finder).rate(["a", "b"], (TENSOR, BROADCAST))
    fixed = []
    monkeypatch.setattr(finder, "fix", fixed.append)
    assert AnswerComponents(finder, ["AC_MRR@10", "AC_Recall@10"]).rate(["a", "b"], (TENSOR, BROADCAST)) == first
    assert not fixed


# ---- the fixer is ftfy's, only quicker ----

PIECES = st.sampled_from(
    ["a", "B c", " ", "\n", "\r", "\r\n", "\t", "\f", "\v", "\x00", "\x1b[31m", "\x7f", "\x85", "\u2028", "&", "&amp;",
     "&lt;", "&#233;", "&EACUTE;", "<", ">", "<b>", "’", "“x”", "â€™", "Ã©", "cafÃ\xa0", "é", "e\u0301", "ﬁ", "Ｌ", "\u3000", "ﾀ",
     "\ud83d", "\udca9", "\ufeff", "—", "…", "Âµ", "?", "ï¿½", "\xa0", "\x9d"]
)  # fmt: skip


@given(st.one_of(st.lists(PIECES, max_size=12).map("".join), st.text(max_size=30)))
@example("&lt;\n&amp;")
@example("<\n&amp; é\n&amp;")
@example("&amp;é\n<\n&amp;é\n")
@example("é\r")
@example("é\r\n")
def test_the_fixer_gives_what_ftfy_gives(text):
    fixer = Fixer()
    assert fixer(text) == ftfy.fix_text(text)
    assert fixer(text) == ftfy.fix_text(text)  # from its memory


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="&", include_characters="\t\n\f")))
def test_ftfy_leaves_plain_ascii_alone(text):
    assert ftfy.fix_text(text) == text


def test_a_line_longer_than_ftfy_takes_at_once():
    text = "&amp;é" * 170_000 + "<&amp;é" * 3 + "\n&amp;é"
    same = Fixer()(text) == ftfy.fix_text(text)
    assert same  # not spelt out: the difference of two such texts takes pytest minutes
