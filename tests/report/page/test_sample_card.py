"""A sample as data for pages: everything that a row has is told, and no row is an error."""

import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import kshot
from kshot import Answers, Failed, Generate, Generated, Sample, Task
from kshot.core.visible import visible
from kshot.methods import rolling_likelihood
from kshot.metrics.perplexity import Perplexity
from kshot.report.page import sample_card as sample_card_module
from kshot.report.page.sample_card import sample_card
from kshot.report.sample_look import SampleLook, SampleLooks
from kshot.runs.record import read_record
from kshot.runs.sample_filters import MetricScale, sample_filter

PLANETS = Path(__file__).parents[3] / "examples" / "planets.py"
EARLY_RUNS = Path(__file__).parents[2] / "data" / "runs_0_1"
ACCURACY = MetricScale("Accuracy", 0.0, 100.0, rule="acc")


class Thinker:
    """Thinks, then names a planet; fails where the largest is asked for."""

    name = fingerprint = "thinker"
    answers = (Generate,)

    def serve(self, queue):
        for request in queue:
            failed = "largest" in request.prompt.text.rpartition("\n\n")[2]
            reply = Generated("Mars, I say", "length", reasoning="Let me see.")
            yield request, Failed("timeout", "no answer") if failed else reply


class Judge:
    """Gives seven points."""

    name = fingerprint = "judge"
    answers = (Generate,)

    def serve(self, queue):
        for request in queue:
            yield request, Generated("Well said. Rating: [[7]]")


def cards_of(folder, texts=None):
    """The cards of a run, as the viewer makes them."""
    record = read_record(folder)
    looks = SampleLooks(folder, sample_filter(record), full=False)
    return [sample_card(looks.of(row), n, texts) for n, row in enumerate(record.iter_samples())]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run something once, and return its cards."""
    known = {}

    def cards(model, dataset, **options):
        key = repr((model, dataset, options))
        if key not in known:
            out = tmp_path_factory.mktemp("run") / "run"
            kshot.evaluate(model, dataset, out=out, fsync="never", **options)
            known[key] = cards_of(out)
        return known[key]

    return cards


def told(card, *names):
    """The values of a card under these names."""
    return tuple(card[name] for name in names)


# ---- every kind of row ----


def test_options_by_likelihood(run):
    card = run("embedded", f"{PLANETS}:Planets", num_shots=2, accuracy="acc_mutual_info")[0]
    options = card["options"]
    assert [(each["label"], each["text"]) for each in options] == [
        ("A", "Mercury"),
        ("B", "Venus"),
        ("C", "Mars"),
        ("D", "Jupiter"),
    ]
    weights = [math.exp(each["logprob"]) for each in options]
    assert [each["share"] for each in options] == pytest.approx([each / sum(weights) for each in weights])
    assert sum(each["share"] for each in options) == pytest.approx(1)
    assert [each["right"] for each in options] == [True, False, False, False]
    assert [each["chosen"] for each in options].count(True) == 1
    assert all(each["baseline"] < 0 and each["tokens"] > 1 for each in options)
    assert card["targets"] == ["A. Mercury"]
    assert card["read"]["rule"].startswith("by acc_mutual_info")
    assert set(card["answers"]) == {"acc", "acc_norm", "acc_bytes", "acc_token", "acc_mutual_info"}
    assert set(card["more"]) == {"question"}


def test_the_question_begins_after_the_examples(run):
    prompt = run("embedded", f"{PLANETS}:Planets", num_shots=2, accuracy="acc_mutual_info")[0]["prompt"]
    (message,) = prompt["messages"]
    assert message["content"][prompt["asks_at"] :] == "Which planet is nearest to the sun?\nAnswer:"
    assert told(prompt, "asks", "above", "shots") == (0, "2 examples", 2)


def test_the_place_of_the_question_is_counted_as_scripts_count():
    row = {"task": "t", "id": "0", "prompt": "🪐 \x1b\nA: 1\n\n🪐\nA:", "response": "2"}
    prompt = sample_card(SampleLook(row, ACCURACY, shots=1), 0)["prompt"]
    text = prompt["messages"][0]["content"].encode("utf-16-le")
    assert text[2 * prompt["asks_at"] :].decode("utf-16-le") == "🪐\nA:"


def test_options_by_letters(run):
    card = run("embedded", f"{PLANETS}:Planets", ranking_type="prob")[0]
    assert [(each["label"], each["text"]) for each in card["options"]][:2] == [("A", "Mercury"), ("B", "Venus")]
    assert all(each["logprob"] < 0 for each in card["options"])
    assert card["read"]["answers"][0] in {"A. Mercury", "B. Venus", "C. Mars", "D. Jupiter"}


def test_options_by_generation_and_failures(run):
    cards = run(Thinker(), f"{PLANETS}:Planets", ranking_type="generation")
    card, failed = cards[0], cards[1]
    assert [each["text"] for each in card["options"]] == ["Mercury", "Venus", "Mars", "Jupiter"]
    assert [each["chosen"] for each in card["options"]] == [False, False, True, False]
    assert {each["share"] for each in card["options"]} == {None}
    assert card["replies"] == [{"text": "Mars, I say", "tokens": None, "stop_reason": "length"}]
    assert card["reasoning"] == ["Let me see."]
    assert card["read"]["answers"] == ["C. Mars"]
    assert card["read"]["rule"].startswith("by the rule ")
    assert card["notes"] == ["the reply was cut: it has all tokens that --max-tokens allows"]
    assert told(failed, "verdict", "failed", "score") == ("failed", "timeout: no answer", None)
    assert failed["read"]["answers"] == []


def test_several_replies(run):
    card = run("embedded", f"{PLANETS}:PlanetNames", sample_num=3, temperature=1.0)[0]
    assert len(card["replies"]) == 3
    assert card["read"]["answers"] == [card["replies"][0]["text"]]
    assert told(card, "targets", "options") == (["Mercury"], [])


def test_a_pattern_is_told(run):
    card = run(Thinker(), f"{PLANETS}:PlanetNames", answer_pattern=r"(\w+), I say")[0]
    assert told(card["read"], "answers", "pattern") == (["Mars"], r"(\w+), I say")


def test_a_judge(run):
    options = {"metric": "GPTEval", "judge": f"{__file__}:Judge", "judge_rubric": "Is it short?", "judge_scale": "1-10"}
    (judge,) = run(Thinker(), f"{PLANETS}:PlanetNames", **options)[0]["judge"]
    assert judge["reply"] == "Well said. Rating: [[7]]"
    assert "Is it short?" in judge["prompt"]["messages"][0]["content"]


def test_a_document_that_is_measured(run):
    samples = [Sample("one", {}, Answers(("a b c d",)))]
    task = Task("documents", samples, lambda *_: "a b c d", rolling_likelihood(), (Perplexity(),))
    (card,) = run("embedded", [task])
    assert card["likelihood"]["text"] == "a b c d"
    assert re.match(r"\d+\.\d\d nats · \d+ tokens · 4 words · 7 bytes", card["likelihood"]["measured"])
    assert told(card, "prompt", "verdict", "targets") == (None, "unrated", [])


def test_lookup(run):
    card = run("embedded", "lookup", samples=1, length=16)[0]
    assert card["targets"][0] in card["prompt"]["messages"][0]["content"]
    assert card["scores"].keys() > {"Accuracy", "error: last token"}


def test_passages_and_evidence(run):
    card = run("fts5", "handbook", limit=2)[1]
    assert [each["rank"] for each in card["passages"]] == list(range(1, len(card["passages"]) + 1))
    assert told(card["passages"][0], "grade", "marks") == (None, [])
    assert [each["number"] for each in card["components"]] == [1, 2]
    assert card["components"][1]["quotes"] == ["`summary.json`, byte for byte"]
    assert told(card, "replies", "targets", "query") == ([], [], None)


def test_reading_what_was_found(run):
    card = run("embedded", "handbook", method="rag", search="fts5", read=2, limit=1, max_tokens=4)[0]
    assert len(card["passages"]) == 2
    assert len(card["replies"]) == 1
    assert card["prompt"]["messages"][0]["content"].startswith("Answer the question")


def test_a_query_that_was_rewritten(run):
    card = run("fts5", "handbook", rewrite=f"{__file__}:Thinker", limit=1)[0]
    assert card["query"] == "Mars, I say"
    assert told(card, "replies", "notes") == ([], ["the reply was cut: it has all tokens that --max-tokens allows"])


@pytest.mark.parametrize("name", ["planets", "rag", "search", "seeds"])
def test_runs_of_the_first_version(name):
    cards = cards_of(EARLY_RUNS / name)
    assert cards
    assert all(card["more"] == {} for card in cards)
    assert all(card["options"] or card["passages"] or card["replies"] for card in cards)


# ---- rows by hand ----


def card_of(row, **more):
    return sample_card(SampleLook({"task": "t", "id": "0", "model": "m", **row}, ACCURACY), 7, **more)


def test_evidence_is_marked_in_the_texts_and_missing_components_are_known():
    texts = {"a": "nothing", "b": "see \x1b red and blue, red"}
    hits = [{"id": "a", "score": 2.0}, {"id": "b", "score": 1.0}]
    row = {"prompt": "q", "response": hits, "answer": ["a", "b"], "target": [["red", "rot"], ["green"], ["d and"]]}
    card = card_of(row, passage_texts=texts)
    assert [told(each, "rank", "state") for each in card["components"]] == [
        (2, "found"),
        (None, "missing"),
        (2, "found"),
    ]
    shown = card["passages"][1]
    assert shown["text"] == r"see \x1b red and blue, red"
    marked = [(shown["text"][start:end], components) for start, end, components in shown["marks"]]
    assert marked == [("re", [1]), ("d", [1, 3]), (" and", [3]), ("red", [1])]
    assert shown["components"] == [1, 3]
    assert {each["state"] for each in card_of(row)["components"]} == {"unknown"}


def test_the_recorded_ranks_of_components_come_first():
    hits = [{"id": name, "score": 1.0} for name in "abc"]
    row = {"prompt": "q", "response": hits, "answer": list("abc"), "target": [["red"], ["green"], ["blue"]]}
    card = card_of(row | {"evidence": [[2, 3], [], [3]]})
    assert [told(each, "rank", "state") for each in card["components"]] == [
        (2, "found"),
        (None, "missing"),
        (3, "found"),
    ]
    assert [each["components"] for each in card["passages"]] == [[], [1], [1, 3]]
    for strange in ([[2]], [2, 3, 1], "x", [["x"], [-1], [True]]):
        states = {each["state"] for each in card_of(row | {"evidence": strange})["components"]}
        assert states <= {"unknown", "missing"}


def test_graded_passages():
    hits = [{"id": "a", "score": 2.0}, {"id": "b", "score": 1.0}]
    card = card_of({"prompt": "q", "response": hits, "answer": ["a", "b"], "target": {"b": 2, "c": 1, "d": 0}})
    assert [each["grade"] for each in card["passages"]] == [None, "2"]
    assert card["targets"] == ["b (grade 2)", "c (grade 1)"]


def test_tokens_and_their_log_probabilities():
    part = {"text": " ab", "logprob": -3.0, "tokens": 2, "token_logprobs": [[" a\x1b", -2.0], ["b", -1.0]]}
    (option,) = card_of({"prompt": "q", "response": [part], "answer": 0, "target": 0})["options"]
    assert option["token_logprobs"] == [[r" a\x1b", -2.0], ["b", -1.0]]
    reply = card_of({"prompt": "q", "response": "ab", "token_logprobs": [["a", -1.0], ["b", -2.0]]})
    assert reply["replies"][0]["tokens"] == [["a", -1.0], ["b", -2.0]]
    assert reply["more"] == {}
    strange = card_of({"prompt": "q", "response": ["ab", "c"], "token_logprobs": [["a", -1.0], ["b", "x"]]})
    assert [each["tokens"] for each in strange["replies"]] == [None, None]
    assert "token_logprobs" in strange["more"]


def test_a_conversation_keeps_its_roles():
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "q1"},
        {"role": "assistant", "content": "a1"},
        {"role": "user", "content": "q2"},
    ]
    card = card_of({"prompt": chat, "response": ["a1", "a2"], "answer": ["a1", "a2"], "target": ["x", "y"]})
    assert card["prompt"]["messages"] == chat
    assert told(card["prompt"], "asks", "above") == (3, "3 messages")
    assert card["read"]["answers"] == ["a1", "a2"]
    assert card["targets"] == ["x", "y"]


def test_what_a_row_has_beyond_is_kept():
    row = {
        "prompt": {"odd": 1},
        "response": [{"odd": "\x1b"}, 3],
        "scores": [1],
        "judge": ["x"],
        "parts": {"BLEU": [1, 2]},
    }
    more = card_of(row)["more"]
    assert set(more) == set(row)
    assert more["response"] == r'[{"odd": "\u001b"}, 3]'


def test_notes_say_what_is_out_of_the_ordinary():
    row = {"prompt": "q", "response": "x", "tied": ["acc"], "identical_options": [[0, 2]], "cut_tokens": 3}
    assert card_of(row)["notes"] == [
        "the prompt was too long: 3 tokens were cut from its beginning",
        "several options come first, by acc",
        "these options are the same: A, C",
    ]


# ---- rows of strangers ----

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\x1b[31m\u202e\ud800<script>"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "text": st.text(max_size=9) | VALUES,
        "logprob": st.floats() | VALUES,
        "tokens": VALUES,
        "id": st.text(max_size=9) | VALUES,
        "score": st.floats() | VALUES,
        "prompt": VALUES,
        "role": VALUES,
        "content": st.text(max_size=9) | VALUES,
        "token_logprobs": st.lists(st.tuples(st.text(max_size=3), st.floats()).map(list)) | VALUES,
    },
)
LISTS = st.lists(PARTS | st.text(max_size=9) | VALUES, max_size=4)
NAMES = (
    *("task", "model", "id", "category", "prompt", "response", "reasoning", "answer", "answers", "rule", "options"),
    *("target", "scores", "failed", "judge", "stop_reason", "cut_tokens", "failed_replies", "tied"),
    *("identical_options", "token_logprobs", "evidence", "more"),
)
ROWS = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), VALUES | LISTS | st.integers(-3, 5), max_size=12)


def texts_of(value):
    """Every text of a value, names included."""
    if isinstance(value, str):
        yield value
    for inner in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
        yield from texts_of(inner)
    yield from value if isinstance(value, dict) else ()


@given(ROWS, st.none() | st.integers(0, 3), st.sampled_from(["", "prob"]))
def test_no_row_is_an_error_and_every_text_is_visible(row, shots, ranking):
    card = sample_card(SampleLook(row, ACCURACY, {"ranking_type": ranking}, shots), 0, {"a": "text"})
    assert json.loads(json.dumps(card, allow_nan=False)) == card
    assert all(text == visible(text) for text in texts_of(card))
    if card["prompt"]:
        message = card["prompt"]["messages"][card["prompt"]["asks"]]
        assert 0 <= card["prompt"]["asks_at"] <= len(message["content"].encode("utf-16-le", "surrogatepass")) / 2
    assert not {"task", "model", "id"} & set(card["more"])


def test_shares_of_many_options_are_summed_once(monkeypatch):
    sums = []
    monkeypatch.setattr(sample_card_module, "sum", lambda values: sums.append(1) or math.fsum(values), raising=False)
    found = sample_card_module._shares([-1.0] * 1000)
    assert found == pytest.approx([0.001] * 1000)
    assert len(sums) == 1
