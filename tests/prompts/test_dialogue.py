"""What base and chat models read of a filled dialogue."""

import pytest

from kshot.core.errors import DataError
from kshot.prompts.dialogue import (
    Messages,
    PromptList,
    as_dialogue,
    before_reply,
    chat_items,
    chat_messages,
    given_chat,
    gold_replies,
    history_text,
    mark,
    plain_text,
    reply_places,
    with_meta,
    with_replies,
)

META = {
    "round": [
        {"role": "HUMAN", "begin": "<H>", "end": "</H>"},
        {"role": "BOT", "begin": "<B>", "end": "</B>", "generate": True},
    ],
    "reserved_roles": [{"role": "SYSTEM", "begin": "<S>", "end": "</S>"}],
    "begin": "[",
    "end": "]",
}


def human(text, **more):
    return {"role": "HUMAN", "prompt": text, **more}


def bot(text, **more):
    return {"role": "BOT", "prompt": text, **more}


def system(text, **more):
    return {"role": "SYSTEM", "prompt": text, **more}


def section(name, *items):
    return [mark(name, "begin"), *items, mark(name, "end")]


def dialogue(*items, begin=(), end=()):
    lead, tail = (section("begin", *begin) if begin else []), (section("end", *end) if end else [])
    return PromptList([*lead, *section("round", *items), *tail])


def test_plain_text_joins_what_is_not_empty():
    assert plain_text(dialogue(human("a"), bot(""), human("b"), begin=["", "head"])) == "head\na\nb"
    assert plain_text("as it is") == "as it is"
    assert plain_text(dialogue(human("a"), begin=[system("")]), strict=False) == "\na"
    assert plain_text(dialogue(human("a"), bot(""), human("b")), strict=False) == "a\nb"
    assert plain_text(dialogue(human(""), bot("")), strict=False) == ""
    assert str(dialogue(human("a"), "b", bot("c"))) == "abc"


@pytest.mark.parametrize("read", [plain_text, lambda filled: with_meta(filled, META)])
def test_a_base_model_reads_no_images(read):
    with pytest.raises(DataError, match="cannot read images"):
        read(dialogue({"role": "HUMAN", "prompt_mm": [{"type": "image_url"}]}))


def test_each_role_is_wrapped_and_the_text_stops_where_the_model_writes():
    asked = dialogue(human("q"), bot("a"), begin=[system("s"), "loose"], end=[human("bye")])
    assert with_meta(asked, META) == "[<S>s</S>loose<H>q</H><B>"
    assert with_meta(asked, META, "ppl") == "[<S>s</S>loose<H>q</H><B>a</B><H>bye</H>]"
    assert with_meta("text", META) == "text"
    assert with_meta(asked, None) == "s\nloose\nq\na\nbye"


def test_a_turn_starts_when_a_place_does_not_increase_and_absent_roles_are_empty():
    assert with_meta(dialogue(bot("hi"), human("q")), META) == "[<H></H><B>hi</B><H>q</H><B>"
    assert with_meta(dialogue(human("a"), human("b")), META, "ppl") == "[<H>a</H><B></B><H>b</H><B></B>]"


def test_an_item_may_overrule_its_role():
    assert with_meta(dialogue(human("q", begin="<Q>", end=""), bot("")), META) == "[<Q>q<B>"
    never = dialogue(human("q"), bot("a", generate=False))
    assert with_meta(never, META) == "[<H>q</H><B>a</B>"


def test_missing_roles_fall_back_or_are_an_error():
    meta = {"round": META["round"]}
    assert with_meta(dialogue(human("q"), begin=[system("s", fallback_role="HUMAN")]), meta) == "<H>s</H><H>q</H><B>"
    for read in (with_meta, chat_messages):
        with pytest.raises(DataError, match="'SYSTEM' is not in the meta template"):
            read(dialogue(human("q"), begin=[system("s")]), meta)
        with pytest.raises(DataError, match="Roles here: HUMAN, BOT"):
            read(dialogue({"role": "THOUGHTS", "prompt": "hm"}), meta)


def test_a_reserved_role_in_a_round_is_lost_in_compat_and_refused_in_strict():
    asked = dialogue(system("s", fallback_role="HUMAN"), bot("a"), human("q"))
    assert with_meta(asked, META, strict=False) == "[<H></H><B>a</B><H>q</H><B>"
    with pytest.raises(DataError, match="its text would be lost"):
        with_meta(asked, META)


def test_a_reserved_role_without_a_fallback_keeps_its_place_in_compat():
    asked = dialogue(human("a"), bot("b"), system("s"), human("q"))
    assert with_meta(asked, META, strict=False) == "[<H>a</H><B>b</B><S>s</S><H>q</H><B>"
    assert [m["role"] for m in chat_messages(asked, strict=False)] == ["user", "assistant", "system", "user"]
    with pytest.raises(DataError, match="'SYSTEM' is not in the meta template"):
        with_meta(asked, META)
    with pytest.raises(DataError, match="'SYSTEM' is not in the meta template"):
        chat_messages(asked)


def test_whole_turns_have_every_role():
    """OpenCompass gives a role that a turn lacks an empty text; a turn with a reserved role stays as it is."""
    said = chat_messages(dialogue(bot("hi"), human("q")), None, "ppl", strict=False, whole_turns=True)
    assert [(m["role"], m["content"]) for m in said] == [
        ("user", ""),
        ("assistant", "hi"),
        ("user", "q"),
        ("assistant", ""),
    ]
    assert len(chat_messages(dialogue(human("q")), strict=False, whole_turns=True)) == 1
    aside = dialogue(system("s", fallback_role="HUMAN"), human("q"))
    assert [m["content"] for m in chat_messages(aside, strict=False, whole_turns=True)] == ["s", "q"]


def test_strings_in_a_round_keep_their_place_in_strict():
    asked = dialogue("x", human("a"), "y", bot("b"), "z", human("q"))
    assert with_meta(asked, META) == "[x<H>a</H>y<B>b</B>z<H>q</H><B>"
    assert with_meta(asked, META, strict=False) == "[xyz<H>a</H><B>b</B><H>q</H><B>"


def test_examples_inside_begin_or_a_round():
    shown = section("ice", human("e"), bot("f"))
    assert with_meta(dialogue(human("q"), begin=shown), META) == "[<H>e</H><B>f</B><H>q</H><B>"
    assert with_meta(dialogue(*shown, "", human("q")), META) == "[<H>e</H><B>f</B><H>q</H><B>"
    assert with_meta(dialogue(system("s", fallback_role="HUMAN"), *shown, human("q")), {"round": META["round"]}) == (
        "<H>s</H><B></B><H>e</H><B>f</B><H>q</H><B>"
    )


@pytest.mark.parametrize(
    "meta", [{"begin": "x"}, {"round": [{"begin": "x"}]}, {"round": [{"role": "BOT"}, {"role": "BOT"}]}]
)
def test_faulty_meta_templates(meta):
    with pytest.raises(DataError, match="meta template"):
        with_meta(dialogue(human("q")), meta)


def test_meta_rounds_may_hold_strings_and_begin_may_hold_roles():
    meta = {**META, "round": ["~", *META["round"]], "begin": [{"role": "SYSTEM", "prompt": "be kind"}]}
    assert with_meta(dialogue(human("q")), meta) == "<S>be kind</S>~<H>q</H><B>"
    chat = {**META, "begin": {"role": "SYSTEM", "prompt": "be kind", "begin": "", "end": ""}}
    assert chat_messages(dialogue(human("q", begin="", end="")), chat)[0] == {"role": "system", "content": "be kind"}


def test_a_section_that_was_never_opened():
    with pytest.raises(DataError, match="without having been opened"):
        with_meta(PromptList([mark("round", "end")]), META)


# ---- chat ----


def test_neighbours_merge_and_the_trailing_reply_is_dropped():
    asked = dialogue(human("q"), bot("A:"), begin=[system("s"), human("first")], end=[human("bye")])
    assert chat_messages(asked) == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "first\nq"},
    ]
    assert [m["content"] for m in chat_messages(asked, None, "ppl")] == ["s", "first\nq", "A:", "bye"]
    assert chat_messages("text") == [{"role": "user", "content": "text"}]


def test_text_without_a_role_is_dropped_in_compat_and_refused_in_strict():
    asked = dialogue(human("q"), begin=["head", " \n"])
    assert chat_messages(asked, strict=False) == [{"role": "user", "content": "q"}]
    with pytest.raises(DataError, match="no place for the text 'head'"):
        chat_messages(asked)
    with pytest.raises(DataError, match="no place for the text 'Hello'"):
        chat_messages(dialogue(human("q")), {**META, "begin": "Hello"})


def test_parts_merge_with_text():
    image = {"type": "image_url", "image_url": {"url": "x"}}
    asked = dialogue({"role": "HUMAN", "prompt_mm": [image]}, begin=[human("look")])
    assert chat_messages(asked)[0]["content"] == [{"type": "text", "text": "look"}, image]


def test_a_chat_without_anything_to_say_and_unknown_roles():
    with pytest.raises(DataError, match="nothing of the prompt is left"):
        chat_messages(dialogue(bot("x")))
    with pytest.raises(DataError, match="no role 'narrator'"):
        chat_messages(dialogue(human("x")), {"round": [{"role": "HUMAN", "api_role": "narrator"}]})


def test_given_messages_pass_unchanged():
    given = Messages(
        [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}, {"role": "user", "content": "r"}]
    )
    assert chat_messages(given) == list(given)
    assert chat_items(given)[0] == {"role": "SYSTEM", "prompt": "s"}
    assert plain_text(given) == "s\nq\nr"
    assert with_meta(given, META) == "[<S>s</S><H>q</H><B></B><H>r</H><B>"
    assert as_dialogue(Messages())[0] == mark("round", "begin")


# ---- turn by turn ----


def test_what_comes_before_each_reply():
    whole = dialogue(human("a"), bot("1"), human("b"), bot("2"), begin=[human("x"), bot("y")])
    assert reply_places(whole) == [6, 8]
    assert gold_replies(whole) == ["1", "2"]
    assert plain_text(before_reply(whole, 0, [])) == "x\ny\na"
    assert plain_text(before_reply(whole, 1, ["R"])) == "x\ny\na\nR\nb"
    assert with_meta(before_reply(whole, 1, None), META).endswith("<H>a</H><B>1</B><H>b</H><B>")
    assert gold_replies(whole) == ["1", "2"]  # nothing was changed


def test_a_history_of_messages_uses_nothing_but_the_roles_of_the_meta_template():
    whole = dialogue(human("a"), bot("1"), "loose", human("b"), bot("2"))
    history = before_reply(whole, 1, ["R"])
    assert history_text(history, META) == "<H>a</H><B>R</B><H>loose</H><H>b</H><B>"
    assert history_text(history, None) == "a\nR\nloose\nb"
    chat = Messages([{"role": "system", "content": "s"}, {"role": "user", "content": ""}])
    assert history_text(chat, META) == "<S>s</S><H></H><B>"
    assert history_text(chat, None) == "s\n"


def test_places_for_replies_that_a_template_lacks():
    whole = with_replies(dialogue(human("a"), human("b")), ["1"])
    assert gold_replies(whole) == ["1", ""]
    assert gold_replies(with_replies("hello", "hi")) == ["hi"]
    chat = with_replies(Messages([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]))
    assert chat_messages(before_reply(chat, 1, ["R"])) == [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "R"},
        {"role": "user", "content": "b"},
    ]


def test_columns_that_hold_a_conversation():
    assert given_chat([{"role": "user", "content": "a"}]) == [{"role": "user", "content": "a"}]
    assert given_chat("text") is None
    assert given_chat([]) is None
    assert given_chat(["a"]) is None
    with pytest.raises(DataError, match="a message of the conversation"):
        given_chat([{"role": "robot", "content": "a"}])
