"""From reader_cfg, infer_cfg, rows and examples to what a model reads."""

import pytest
from hypothesis import given, strategies as st

from kshot.configs.rendering import render
from kshot.configs.rows import read_rows
from kshot.core.errors import DataError
from kshot.prompts.templates import PromptTemplate
from kshot.retrievers import FixKRetriever, RandomRetriever

READER = {"input_columns": ["q"], "output_column": "a"}
TRAIN = [{"q": f"tq{i}", "a": f"ta{i}"} for i in range(4)]
TEST = [{"q": "q0", "a": "a0"}, {"q": "q1", "a": "a1"}]
ROUND = [{"role": "HUMAN", "prompt": "{q}"}, {"role": "BOT", "prompt": "{a}"}]
RAW = {
    "type": "RawPromptTemplate",
    "messages": ["</E>", {"role": "user", "content": "{q}"}, {"role": "assistant", "content": "{a}"}],
}


def template(body, **more):
    return {"type": PromptTemplate, "template": body, **more}


def made(infer_cfg, ids=((), ()), *, strict=True, reader=READER, test=TEST, **options):
    return render(reader, infer_cfg, {"train": TRAIN, "test": test}, [list(i) for i in ids], strict=strict, **options)


# ---- the worked examples of the seed ----

RACE_READER = {"input_columns": ["article", "question", "A", "B", "C", "D"], "output_column": "answer"}
RACE_ASK = (
    "Read the article, and answer the question by replying A, B, C or D.\n\nArticle:\n{article}\n\nQ: {question}\n\n"
    "A. {A}\nB. {B}\nC. {C}\nD. {D}\nAnswer:"
)
RACE = {
    "ice_template": {
        "type": PromptTemplate,
        "template": {
            "begin": "</E>",
            "round": [{"role": "HUMAN", "prompt": RACE_ASK}, {"role": "BOT", "prompt": "{answer}"}],
        },
        "ice_token": "</E>",
    },
    "retriever": {"type": FixKRetriever, "fix_id_list": [0, 1, 2, 3, 4]},
    "inferencer": {"type": "GenInferencer"},
}


@pytest.mark.parametrize("strict", [True, False])
def test_race_with_five_examples(strict):
    options = {name: f"option {name}" for name in "ABCD"}
    train = [
        {"article": f"Article {name}...", "question": f"Question {i + 1}", **options, "answer": answer}
        for i, (name, answer) in enumerate(zip("ABCDE", "ABCDA", strict=True))
    ]
    test = [
        {"article": "Article X...", "question": "Test Question 1", **options, "answer": "B"},
        {"article": "Article Y...", "question": "Test Question 2", **options, "answer": "C"},
    ]
    rows = read_rows(RACE_READER, {"train": train, "test": test}, strict=strict)
    ids = FixKRetriever(rows, fix_id_list=[0, 1, 2, 3, 4]).retrieve()
    prompts = render(RACE_READER, RACE, rows, ids, strict=strict)
    for index, row in enumerate(test):
        shown = [(RACE_ASK.format(**example), example["answer"]) for example in train]
        asked = RACE_ASK.format(**row)
        assert prompts.text(index) == "\n".join([text for pair in shown for text in pair] + [asked])
        turns = [
            {"role": role, "content": text}
            for pair in shown
            for role, text in zip(("user", "assistant"), pair, strict=True)
        ]
        assert prompts.chat(index) == [*turns, {"role": "user", "content": asked}]
    assert prompts.gold == ["B", "C"]


TOPICS = ["technology", "sports", "entertainment", "finance", "education", "health"]


@pytest.mark.parametrize("strict", [True, False])
def test_classification_with_three_random_examples(strict):
    reader = {"input_columns": ["text"], "output_column": "label"}
    train = [{"text": f"This is an article about {topic}", "label": topic.capitalize()} for topic in TOPICS]
    test = [
        {"text": "This is an article about AI", "label": "Technology"},
        {"text": "This is an article about football", "label": "Sports"},
    ]
    body = {
        "begin": "</E>",
        "round": [{"role": "HUMAN", "prompt": "Text: {text}"}, {"role": "BOT", "prompt": "Label: {label}"}],
    }
    rows = read_rows(reader, {"train": train, "test": test}, strict=strict)
    ids = RandomRetriever(rows, ice_num=3, seed=123).retrieve()
    assert ids == [[1, 3, 4], [4, 0, 5]]
    prompts = render(reader, {"ice_template": template(body, ice_token="</E>")}, rows, ids, strict=strict)
    assert prompts.prompts()[0] == (
        "Text: This is an article about sports\nLabel: Sports\n"
        "Text: This is an article about finance\nLabel: Finance\n"
        "Text: This is an article about education\nLabel: Education\n"
        "Text: This is an article about AI\nLabel: "
    )
    assert prompts.prompts("chat")[1][-1] == {"role": "user", "content": "Text: This is an article about football"}


# ---- which template renders ----


def test_one_template_may_show_and_ask():
    prompts = made(
        {"ice_template": template("</E>{q}={a}", ice_token="</E>"), "retriever": {"type": "FixKRetriever"}}, [[0], [1]]
    )
    assert prompts.prompts() == ["tq0=ta0\nq0=", "tq1=ta1\nq1="]
    assert [prompts.ice_of(index) for index in range(len(prompts))] == ["tq0=ta0\n", "tq1=ta1\n"]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("infer_cfg", "ids", "message"),
    [
        ({}, [[], []], "there is no template"),
        ({"prompt_template": template("{q}")}, [[0], [0]], "no ice_template to show them"),
        ({"ice_template": template("{q}"), "prompt_template": template("{q}")}, [[0], [0]], "prompt_template has no ice_token"),
        ({"ice_template": template("{q}")}, [[], []], "ice_template has no ice_token"),
        ({"prompt_template": {"type": "TwistedTemplate"}}, [[], []], "kshot has no template 'TwistedTemplate'"),
        ({"prompt_template": "{q}"}, [[], []], "a template is dict"),
        ({"prompt_template": template("{q}", colour="red")}, [[], []], "PromptTemplate cannot be made: .*colour"),
        ({"prompt_template": template("{q}", ice_token="</E>")}, [[], []], "dataset, prompt_template: the ice_token"),
        ({"prompt_template": template("{q}")}, [[]], "chosen for 1 rows, and 2 are asked"),
        ({"ice_template": template("</E>{q}", ice_token="</E>")}, [[9], [9]], "the example 9 does not exist: there are 4"),
        ({"ice_template": {"type": "RawPromptTemplate", "messages": []}}, [[0], [0]], "messages cannot show examples: the list is empty"),
        ({"ice_template": RAW, "prompt_template": template("</E>{q}", ice_token="</E>")}, [[0], [0]], "prompt that is no list of messages"),
        ({"prompt_template": template("{q}"), "inferencer": {"type": "ChatInferencer", "infer_mode": "some"}}, [[], []], "infer_mode is 'some'"),
        ({"prompt_template": template("{q}"), "inferencer": {"type": "PPLInferencer", "labels": 1.5}}, [[], []], "labels is 1.5; it must be a list"),
        ({"prompt_template": template("{q}"), "retriever": {"type": "ZeroRetriever", "ice_separator": 3}}, [[], []], "ice_separator is 3; it must be text"),
    ],
)  # fmt: skip
def test_configs_that_cannot_be_rendered(infer_cfg, ids, message, strict):
    with pytest.raises(DataError, match=message):
        made(infer_cfg, ids, strict=strict).prompts()


def test_an_error_names_the_dataset_and_the_row():
    prompts = made({"prompt_template": template({"begin": "loose", "round": ROUND})}, abbr="mine")
    with pytest.raises(DataError, match=r"^mine, row 1: a chat model has no place"):
        prompts.chat(1)
    broken = made(
        {"ice_template": template({"ta0": "</E>x {q}"}, ice_token="</E>")}, [[0], [1]], strict=False, abbr="mine"
    )
    assert broken.text(0) == "x tq0x q0"
    with pytest.raises(DataError, match=r"^mine, examples of row 1: .*nothing for the label 'ta1'"):
        broken.text(1)


def test_types_may_be_classes_names_or_objects():
    for entry in (
        template("{q}"),
        {"type": "opencompass.openicl.PromptTemplate", "template": "{q}"},
        PromptTemplate("{q}"),
    ):
        assert made({"prompt_template": entry}).prompts() == ["q0", "q1"]


def test_the_config_is_not_changed():
    infer_cfg = {"prompt_template": template({"begin": [{"role": "SYSTEM", "prompt": "{q}"}], "round": ROUND})}
    before = repr(infer_cfg)
    prompts = made(infer_cfg)
    prompts.prompts()
    prompts.prompts("chat")
    assert repr(infer_cfg) == before


def test_rows_without_answers():
    prompts = made({"prompt_template": template("{q} {a}")}, [[]], test=[{"q": "q0"}])
    assert prompts.prompts() == ["q0 "]
    with pytest.raises(DataError, match="row 0 has no column 'a'"):
        prompts.gold  # noqa: B018
    shown = {"ice_template": template("</E>{q}{a}", ice_token="</E>")}
    splits = {"train": [{"q": "x"}], "test": TEST}
    with pytest.raises(DataError, match="the training row 0 has no column 'a'"):
        render(READER, shown, splits, [[0], [0]], strict=False).prompts()


def test_a_token_stands_for_the_answer():
    infer_cfg = {
        "prompt_template": template("{q} {a}"),
        "inferencer": {"type": "GenInferencer", "gen_field_replace_token": "?"},
    }
    assert made(infer_cfg).prompts() == ["q0 ?", "q1 ?"]


@given(st.text(max_size=8), st.text(max_size=8), st.booleans())
def test_the_answer_never_leaks(q, a, strict):
    secret = f"\x00{a}\x00"
    for body in ("</E>{q} {a}", {"begin": "</E>", "round": ROUND}):
        cfg = {"ice_template": template(body, ice_token="</E>"), "retriever": {"type": "FixKRetriever"}}
        prompts = made(cfg, [[0]], strict=strict, test=[{"q": q, "a": secret}])
        assert secret not in prompts.text(0)
        assert secret not in repr(prompts.chat(0))
        assert "ta0" in prompts.text(0)


@given(st.lists(st.sampled_from(["{q}", "</E>", "<SEP>", "{a}", "x"]), max_size=4).map("".join))
def test_strict_shows_examples_exactly_as_they_are(text):
    cfg = {
        "ice_template": template("[{q}]<SEP>", sep_token="<SEP>"),
        "prompt_template": template("</E>{q}<SEP>!", ice_token="</E>", sep_token="<SEP>"),
        "retriever": {"type": "FixKRetriever"},
    }
    prompts = render(
        READER, cfg, {"train": [{"q": text, "a": "a"}], "test": [{"q": text, "a": "a"}]}, [[0]], strict=True
    )
    assert prompts.prompts() == [f"[{text}]\n{text}!"]
    assert [prompts.ice_of(index) for index in range(len(prompts))] == [f"[{text}]<SEP>\n"]


# ---- labels ----


def scored(body, strict=True, **more):
    return made({"prompt_template": template(body), "inferencer": {"type": "PPLInferencer", **more}}, strict=strict)


def test_labels():
    assert scored({"A": "{q} a", "B": "{q} b"}).prompts() == [["q0 a", "q0 b"], ["q1 a", "q1 b"]]
    assert scored({"A": "{q} a", "B": "{q} b"}, labels=["B"]).prompts() == [["q0 b"], ["q1 b"]]
    assert scored("{q} {a}").labels == ("a0", "a1")
    assert scored({"A": {"round": ROUND}}).prompts("chat")[0][0][-1] == {"role": "assistant", "content": "a0"}
    with pytest.raises(DataError, match="nothing for the label 'C'"):
        scored({"A": "a"}, labels=["C"]).prompts()


def test_strict_scores_each_label_where_compat_scores_the_right_answer_for_all():
    assert scored("{q} {a}").prompts() == [["q0 a0", "q0 a1"], ["q1 a0", "q1 a1"]]
    assert scored("{q} {a}", strict=False).prompts() == [["q0 a0", "q0 a0"], ["q1 a1", "q1 a1"]]
    assert scored({"round": ROUND}, labels=["x", "y"]).prompts()[0] == ["q0\nx", "q0\ny"]


def test_section_names_are_labels_only_in_compat():
    assert scored({"round": ROUND}, strict=False).labels == ("round",)
    with pytest.raises(DataError, match="labels to score are not known"):
        scored({"round": ROUND})
    with pytest.raises(DataError, match="labels to score are not known"):
        made(
            {"prompt_template": template("{q}"), "inferencer": {"type": "PPLInferencer"}},
            reader={"input_columns": ["q"]},
        )


def test_the_separator_may_stay():
    cfg = {"prompt_template": template({"A": "{q}<SEP>a"}, sep_token="<SEP>"), "inferencer": {"type": "PPLInferencer"}}
    prompts = made(cfg)
    assert (prompts.output_of(0), prompts.output_of(0, remain_sep=True)) == (["q0a"], ["q0<SEP>a"])


# ---- conversations ----

TALK = [{"q": ["one", "two", "three"], "a": ["1", "2", "3"]}]


def talk(infer_mode="every", strict=True, test=TALK, kind="MultiTurnPromptTemplate", body=None):
    cfg = {"prompt_template": {"type": kind, "template": body or {"round": ROUND}}, "inferencer": {"type": "MultiTurnGenInferencer", "infer_mode": infer_mode}}  # fmt: skip
    return made(cfg, [[]] * len(test), strict=strict, test=test)


def test_every_turn_with_the_models_replies():
    prompts = talk()
    assert prompts.prompts() == [["one", "one\nANS1\ntwo", "one\nANS1\ntwo\nANS2\nthree"]]
    assert prompts.prompts("text", None, ["R", "S"])[0][2] == "one\nR\ntwo\nS\nthree"
    assert prompts.prompts("text", None, [["R"]]) == [["one", "one\nR\ntwo"]]
    assert prompts.turn(0, 1, ["R"], "chat") == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "R"},
        {"role": "user", "content": "two"},
    ]
    assert prompts.gold == [["1", "2", "3"]]


def test_turns_after_the_right_replies():
    assert talk("every_with_gt").prompts(replies=["R"]) == [["one", "one\n1\ntwo", "one\n1\ntwo\n2\nthree"]]
    assert talk("last").prompts() == [["one\n1\ntwo\n2\nthree"]]
    assert talk("last").turn_count(0) == 1
    unknown = [{"q": ["one", "two"], "a": []}]
    assert talk("every", test=unknown).prompts() == [["one", "one\nANS1\ntwo"]]
    with pytest.raises(DataError, match="needs the right replies"):
        talk("last", test=unknown).prompts()


def test_questions_alone_are_asked_one_by_one():
    assert talk(body={"round": ROUND[:1]}).prompts() == [["one", "one\nANS1\ntwo", "one\nANS1\ntwo\nANS2\nthree"]]


def test_a_conversation_is_not_for_one_reply():
    cfg = {"prompt_template": {"type": "MultiTurnPromptTemplate", "template": {"round": ROUND}}}
    with pytest.raises(DataError, match="GenInferencer would show the answers"):
        made(cfg, [[]], test=TALK)


def test_chats_that_a_column_holds():
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}, {"role": "user", "content": "q?"}, {"role": "assistant", "content": ""}]  # fmt: skip
    asks = {"inferencer": {"type": "ChatInferencer"}}
    for cfg in (asks, {**asks, "prompt_template": template("{q}")}):
        assert made(cfg, [[]], test=[{"q": chat, "a": "x"}]).prompts("chat") == [[chat[:3]]]
    assert made(asks, [[], []]).prompts("chat")[0] == [[{"role": "user", "content": "q0"}]]
    assert made(asks, [[]], test=TALK).prompts("chat")[0][0][-1] == {"role": "user", "content": "three"}
    repeated = made({**asks, "prompt_template": template({"round": ROUND})}, [[]], test=TALK)
    assert repeated.prompts() == [["one\n1\ntwo\n2\nthree"]]


# ---- the other templates ----


def test_messages_given_directly():
    cfg = {"prompt_template": {"type": "RawPromptTemplate", "messages": [{"role": "user", "content": "{q} {a}"}]}}
    assert made(cfg).prompts("chat")[0] == [{"role": "user", "content": "q0 "}]
    assert made(cfg).prompts() == ["q0 ", "q1 "]


def test_examples_among_messages():
    """Each example is all messages of its template; the answer is in place there, and masked in the prompt (strict)."""
    shown = [{"role": role, "content": text} for role, text in (("user", "tq0"), ("assistant", "ta0"))]
    for strict, answer in ((True, ""), (False, "a0")):
        prompts = made({"ice_template": RAW, "prompt_template": RAW}, [[0], []], strict=strict)
        asked = [{"role": "user", "content": "q0"}, {"role": "assistant", "content": answer}]
        assert [prompts.ice_of(index) for index in range(len(prompts))] == [shown, []]
        assert prompts.chat(0) == [*shown, *asked]
        assert len(prompts.chat(1)) == len(asked)


def test_dialogue_examples_among_messages():
    both = {"ice_template": template({"round": ROUND}), "prompt_template": RAW}
    assert [message["role"] for message in made(both, [[1], []]).chat(0)] == ["user", "assistant"] * 2
    with pytest.raises(DataError, match="the examples are text"):
        made({"ice_template": template("{q}"), "prompt_template": RAW}, [[1], []]).chat(0)


def test_a_chat_inferencer_of_opencompass_ignores_the_examples_template():
    cfg = {"ice_template": template("{q}"), "inferencer": {"type": "ChatInferencer"}}
    assert made(cfg, strict=False).prompts() == [["q0"], ["q1"]]


def test_a_chat_inferencer_of_opencompass_leaves_out_the_begin_of_the_meta_template():
    meta = {
        "begin": "[",
        "round": [{"role": "HUMAN", "begin": "<H>"}, {"role": "BOT", "begin": "<B>", "generate": True}],
    }
    cfg = {"prompt_template": template("{q}"), "inferencer": {"type": "ChatInferencer"}}
    assert made(cfg, strict=False).prompts("text", meta)[0] == ["<H>q0<B>"]
    assert made(cfg).prompts("text", meta)[0] == ["[<H>q0<B>"]


def test_roles_that_a_label_lacks_are_empty_in_opencompass_alone():
    label = {"round": [{"role": "HUMAN", "prompt": "{q}"}]}
    cfg = {"prompt_template": template({"A": label}), "inferencer": {"type": "PPLInferencer"}}
    said = {"role": "user", "content": "q0"}
    assert made(cfg, strict=False, framework="opencompass").chat(0) == [[said, {"role": "assistant", "content": ""}]]
    assert made(cfg, strict=False, framework="ais_bench").chat(0) == [[said]]


def test_only_two_kinds_of_prompt():
    with pytest.raises(DataError, match="'text' or 'chat', not 'html'"):
        made({"prompt_template": template("{q}")}).prompts("html")


def test_a_string_template_repeats_in_a_chat():
    cfg = {"prompt_template": template("Q: {q}"), "inferencer": {"type": "ChatInferencer", "infer_mode": "every"}}
    assert made(cfg, [[]], test=TALK).prompts()[0][1] == "Q: one\nANS1\nQ: two"
