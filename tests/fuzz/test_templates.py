"""Prompt templates: format and jinja strings, dialogues, meta templates and chat templates of any text."""

import jinja2
from hypothesis import strategies as st

from kshot.core.errors import BackendError, DataError
from kshot.core.records import Message
from kshot.prompts.chat import fold_system, renderer
from kshot.prompts.dialogue import (
    Messages,
    PromptList,
    chat_messages,
    plain_text,
    reply_places,
    with_meta,
    with_replies,
)
from kshot.prompts.strings import compile_string, decode_escapes, jinja_environment, names_used
from kshot.prompts.templates import MMPromptTemplate, MultiTurnPromptTemplate, PromptTemplate, RawPromptTemplate, fill
from tests.fuzz.harness import Told, any_text, fuzz, json_values, told

FIELDS = {
    "question": "What?",
    "options": ["a", "b"],
    "n": 3,
    "none": None,
    "nested": {"a": {"b": 1}},
    "big": 10**30,
    "text": "x" * 50,
}
PIECES = [
    "{question}", "{options}", "{n:>5}", "{n:99999999999}", "{text:>{n}}", "{question!r}", "{nested[a]}", "{n.real}", "{none}", "{none:>3}",
    "{", "}", "{}", "{0}", "{{", "}}", "{_x}", "{question._y}", "{question.__class__}", "{n:.999999999f}", "{n:*^2000000000}", "{n:x", "{missing}", "{n!z}",
    "{{ question }}", "{{ n * 2 }}", "{{ 'x' * 10**10 }}", "{{ 'x' * 3 }}", "{{ options | join(',') }}", "{% if n %}", "{% endif %}", "{% for o in options %}",
    "{% endfor %}", "{{ o }}", "{{ loop.index }}", "{% for i in range(10**9) %}", "{% for i in range(99999) %}", "{{ i }}", "{# note #}", "{% raw %}", "{% endraw %}", "{% set x = 1 %}",
    "{{ question.__class__ }}", "{{ ''.__class__.__mro__ }}", "{{ options.append(1) }}", "{{ n / 0 }}", "{{ nested.a.b.c.d }}", "{{ big ** big }}", "{{ 9**9**9 }}", "{{ 'a'.center(10**10) }}",
    "{{ range(10**9) | list }}", "{{ lipsum(10**9) }}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{{ 'x' | center(10**10) }}", "{{ '%9999999999d' | format(1) }}", "{{ ('x' * 9999) * 99999 }}",
    "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}", "{{ cycler() }}", "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{{ '{:>9999999999}'.format(1) }}", "{{ 'x'|indent(10**9)}}", "{{ 'a,' * 9 | replace('a', 'b' * 10**9) }}",
    "text", "\n", " ", "\ud800",
]  # fmt: skip
"""What templates are made of, with what would take all memory or all time."""

strings = st.lists(st.sampled_from(PIECES) | any_text, max_size=6).map("".join)
rows = st.just(FIELDS) | st.dictionaries(
    st.sampled_from(["question", "options", "n", "text"]), json_values(depth=2), max_size=4
)


@fuzz(strings, rows, examples=60)
def test_an_instruction_renders_or_is_refused(text, fields):
    render = told(lambda: compile_string(text, where="here"), kind=DataError, where="here")
    if not isinstance(render, Told):
        assert all(isinstance(name, str) for name in names_used(text, jinja_environment()))
        found = told(render, fields, kind=DataError)
        assert isinstance(found, (str, Told))


names = st.sampled_from(["question", "n", "none", "text"])
simple = st.lists(names.map("{{{}}}".format) | st.text("abc .:\n", max_size=5), max_size=6).map("".join)


@fuzz(simple)
def test_a_plain_format_string_is_that_of_python(text):
    assert compile_string(text)(FIELDS) == text.format(**FIELDS | {"none": ""})


loops = st.lists(st.sampled_from(["{{ question }}", "{{ n + 1 }}", "{{ options[0] }}", "{% if n %}yes{% endif %}", "{% for o in options %}{{ o }},{% endfor %}", "{{ missing }}", "{{ question | upper }}", " and ", "\n"]), max_size=6)  # fmt: skip


@fuzz(loops.map("".join).filter(lambda text: "{{" in text or "{%" in text))
def test_a_plain_jinja_template_is_that_of_jinja(text):
    assert compile_string(text)(FIELDS) == jinja2.Template(text).render(**FIELDS)


@fuzz(any_text)
def test_escapes_are_decoded_once(text):
    found = decode_escapes(text)
    assert "\\" in text or found == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


# ---- templates of configs ----

items = st.builds(lambda role, prompt, more: {"role": role, "prompt": prompt} | more, st.sampled_from(["HUMAN", "BOT", "SYSTEM", "OTHER"]), strings, st.sampled_from([{}, {"fallback_role": "HUMAN"}, {"begin": "<", "end": ">"}, {"generate": True}, {"prompt_mm": {"text": {"type": "text", "text": "{question}"}}}]))  # fmt: skip
sections = st.lists(items | strings, max_size=4) | strings | json_values(depth=1)
dialogues = st.fixed_dictionaries(
    {"round": st.lists(items, max_size=4) | sections}, optional={"begin": sections, "end": sections}
)
forms = st.one_of(
    strings,
    dialogues,
    st.dictionaries(st.sampled_from(["A", "B", 0, 1]), strings | dialogues, min_size=1, max_size=3),
    json_values(depth=2),
)
metas = st.none() | st.fixed_dictionaries(
    {"round": st.lists(st.builds(lambda role, more: {"role": role} | more, st.sampled_from(["HUMAN", "BOT", "OTHER"]), st.sampled_from([{}, {"begin": "<", "end": ">"}, {"generate": True}, {"api_role": "BOT"}])), max_size=3)},
    optional={"begin": strings, "end": strings, "reserved_roles": st.just([{"role": "SYSTEM", "api_role": "SYSTEM"}])},
)  # fmt: skip


def shown(filled, meta, *, strict):
    """Show a filled template to every kind of model."""
    for mode in ("gen", "ppl"):
        assert isinstance(told(with_meta, filled, meta, mode, strict=strict, kind=DataError), (str, Told))
        found = told(chat_messages, filled, meta, mode, strict=strict, kind=DataError)
        assert (
            isinstance(found, Told)
            or not strict
            or all(message["role"] in {"user", "assistant", "system"} for message in found)
        )
    told(plain_text, filled, strict=strict, kind=DataError)
    if isinstance(filled, (PromptList, Messages)):
        reply_places(told(with_replies, filled, kind=DataError) if isinstance(filled, PromptList) else filled)


@fuzz(
    forms,
    rows,
    metas,
    st.sampled_from([PromptTemplate, MultiTurnPromptTemplate, MMPromptTemplate]),
    st.sampled_from([None, "</E>", "{question}", "x"]),
    st.booleans(),
    examples=60,
)
def test_a_template_of_a_config_fills_or_is_refused(form, row, meta, kind, token, strict):
    template = told(kind, form, token, strict=strict, kind=DataError)
    if isinstance(template, Told):
        return
    for label in ("A", 0):
        example = told(template.generate_ice_item, row, label, kind=DataError)
        ice = "" if isinstance(example, Told) else example
        for filled in (
            told(template.generate_item, row, "n", "?", ice, kind=DataError),
            told(template.generate_label_prompt_item, row, ice, label, kind=DataError),
        ):
            if not isinstance(filled, Told):
                shown(filled, meta, strict=strict)


@fuzz(
    st.lists(
        st.builds(
            lambda role, content: {"role": role, "content": content},
            st.sampled_from(["user", "assistant", "system", "HUMAN", "x"]),
            strings | json_values(depth=2),
        ),
        max_size=3,
    )
    | json_values(depth=2),
    rows,
    metas,
    st.booleans(),
)
def test_raw_messages_fill_or_are_refused(messages, row, meta, strict):
    template = told(RawPromptTemplate, messages, strict=strict, kind=DataError)
    if not isinstance(template, Told):
        filled = told(template.generate_item, row, kind=DataError)
        if not isinstance(filled, Told):
            shown(filled, meta, strict=strict)


@fuzz(st.text("{}ab", max_size=20), st.dictionaries(st.sampled_from(["a", "b", "ab", ""]), st.text("{}ab", max_size=5)))
def test_strict_filling_reads_nothing_twice(text, row):
    """An independent reading: the text is taken apart at its fields, and put together again."""
    expected, rest = "", text
    while "{" in rest:
        before, _, after = rest.partition("{")
        name, close, tail = after.partition("}")
        if close and "{" not in name:
            expected, rest = expected + before + (row[name] if name in row else "{" + name + "}"), tail
        else:
            expected, rest = expected + before + "{", after
    assert fill(text, row) == expected + rest


# ---- chat templates ----

CHAT = [
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}", "{% if add_generation_prompt %}<assistant>{% endif %}", "{{ raise_exception('no') }}", "{{ strftime_now('%Y') }}",
    "{{ strftime_now(1) }}", "{{ messages | tojson }}", "{{ messages[9].x.y }}", "{{ messages[0]['content'] + 1 }}", "{% generation %}x{% endgeneration %}", "{% break %}", "{{ bos_token }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{{ 'x' * 10**10 }}", "{{ range(10**9) }}", "{{ strftime_now('%' * 99) }}", "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
    "{{ messages.append(1) }}", "{{ namespace(x=1).x }}", "{% set ns = namespace() %}", "{{ ('a' * 99999) * 99999 }}", "{{ strftime_now('\ud800') }}",
]  # fmt: skip
chats = st.lists(st.builds(Message, st.sampled_from(["system", "user", "assistant"]), any_text), max_size=4)


@fuzz(st.lists(st.sampled_from(CHAT) | st.sampled_from(PIECES), max_size=4).map("".join) | strings, chats)
def test_a_chat_template_renders_or_is_refused(source, messages):
    render = told(renderer, source, kind=BackendError)
    if isinstance(render, Told):
        return
    assert isinstance(told(render, messages, kind=BackendError), (str, Told))
    folded = fold_system(messages, render)
    assert sum(len(message.content) for message in folded) >= sum(len(message.content) for message in messages)
