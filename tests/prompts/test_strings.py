"""Instruction strings: which language they are in, what each renders, and what neither may do."""

import json
import string

import pytest
from hypothesis import given, strategies as st

from kshot.core.errors import DataError
from kshot.prompts import compile_string, decode_escapes, jinja_environment

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="{}"), max_size=30)


def render(text, /, **fields):
    return compile_string(text, where="dataset mine")(fields)


# ---- which language ----


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{q}", "hi"),
        ("{{q}}", "hi"),
        ("{% if q %}yes{% endif %}", "yes"),
        ("{# nobody sees this #}{q}", "{q}"),  # a jinja comment makes it jinja: single braces are text there
        ('{{q}}: {"a": 1}', 'hi: {"a": 1}'),
        ("{q}}}", "hi}"),
        ("no fields", "no fields"),
        ("", ""),
    ],
)
def test_the_language_is_told_by_the_syntax(text, shown):
    assert render(text, q="hi") == shown


@given(WORDS)
def test_text_without_braces_is_itself(text):
    assert render(text) == text


@given(WORDS, st.text(max_size=30))
def test_values_are_never_read_as_templates(text, value):
    assert render(text + "{q}", q=value) == text + value


@given(st.text(max_size=30))
def test_jinja_prints_values_as_they_are(value):
    assert render("[{{ q }}]", q=value) == f"[{value}]"


# ---- jinja ----


def test_undefined_and_none_are_nothing_in_jinja():
    assert render("[{{ a }}{{ b }}{{ b.c.d }}{{ a.c.d }}]", a=None) == "[]"


@pytest.mark.parametrize("passage", [None, "", "Long ago"])
def test_the_optional_parts_of_the_seed(passage):
    block = "{% if passage %}" + "{{ passage }}" + "{% endif %}"
    spread = """{% if passage %}
{{ passage }}
{% endif %}"""
    assert render(block, passage=passage) == (passage or "")
    assert render(spread, passage=passage) == (f"\n{passage}\n" if passage else "")
    assert render("{{ passage if passage }}", passage=passage) == (passage or "")
    assert render("{{ passage + '\n' if passage }}!", passage=passage) == (f"{passage}\n!" if passage else "!")


def test_one_trailing_newline_is_dropped_by_jinja_only():
    assert render("{{ q }}\n\n", q="x") == "x\n"
    assert render("{q}\n\n", q="x") == "x\n\n"


def test_a_class_may_register_helpers_in_an_environment_of_its_own():
    ours, theirs = jinja_environment(), jinja_environment()
    ours.globals["shout"] = str.upper
    assert compile_string("{{ shout(q) }}", ours)({"q": "x"}) == "X"
    with pytest.raises(DataError, match="'shout' is undefined"):
        compile_string("{{ shout(q) }}", theirs)({"q": "x"})


# ---- the sandbox ----

SECRET = "do-not-show"


def helper():
    return SECRET


@pytest.mark.parametrize(
    "text",
    [
        "{{ f.__globals__ }}",
        "{{ f.__globals__['SECRET'] }}",
        "{{ f['__globals__']['SECRET'] }}",
        "{{ f|attr('__globals__') }}",
        "{{ '{0.__globals__}'.format(f) }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ '{q.__class__.__init__}'.format_map({'q': f}) }}",
        "{{ g.gi_frame.f_globals }}",
    ],
)
def test_the_sandbox_shows_no_internals(text):
    try:
        shown = render(text, f=helper, g=(i for i in ()))
    except DataError as error:
        shown = str(error)
    assert SECRET not in shown
    assert "__builtins__" not in shown
    assert "<class" not in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ rows.append(1) }}", "not allowed"),
        ("{{ rows.clear() }}", "not allowed"),
        ("{% set _ = d.update({'a': 1}) %}", "not allowed"),
        ("{{ ''.__class__.__subclasses__() }}", "not allowed"),
        ("{% for i in range(10 ** 9) %}{% endfor %}", "OverflowError"),
        ("{% include '/etc/passwd' %}", "fails"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError"),
    ],
)
def test_what_the_sandbox_refuses_is_a_data_error(text, message):
    rows, fields = [1], {"x": 1}
    with pytest.raises(DataError, match=message) as caught:
        render(text, rows=rows, d=fields)
    assert caught.value.where == "dataset mine"
    assert (rows, fields) == ([1], {"x": 1})


@pytest.mark.parametrize("text", ["{f.__globals__}", "{f.__globals__[SECRET]}", "{x[0].__class__}", "{f:{f.__name__}}"])
def test_format_strings_reach_no_private_attributes(text):
    with pytest.raises(DataError, match="private attribute"):
        render(text, f=helper, x=["y"])


# ---- format strings ----


def test_format_specs_indices_and_attributes():
    assert (
        render("{n:.2f}|{q!r}|{row[key]}|{xs[1]}|{z.real}", n=1, q="a", row={"key": 5}, xs=[1, 2], z=3)
        == "1.00|'a'|5|2|3"
    )


@pytest.mark.parametrize("field", ["{q}", "{q!r}", "{q!s}", "{q:>5}"])
def test_none_is_nothing_in_every_form(field):
    assert render(f"[{field}]", q=None) == "[]"


@given(
    st.text(string.ascii_letters, min_size=1),
    st.one_of(st.text(max_size=10), st.integers(), st.floats(), st.booleans()),
)
def test_a_plain_field_is_what_str_format_makes_of_it(name, value):
    text = f"<{{{name}}}|{{{name}!r:>20}}>"
    assert render(text, **{name: value}) == text.format(**{name: value})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{q", "cannot be read: expected '}'"),
        ("q}", "cannot be read: Single '}'"),
        ("{}", "field without a name"),
        ("{0}", "field without a name"),
        ("{{ q", "cannot be read: unexpected end of template.*line 1"),
        ("a\n{% if %}", "cannot be read.*line 2"),
        ("{{ q|nope }}", "No filter named 'nope'"),
    ],
)
def test_a_template_that_cannot_be_read_is_refused_at_once(text, message):
    with pytest.raises(DataError, match=message) as caught:
        compile_string(text, where="dataset mine")
    assert str(caught.value).startswith("dataset mine: the template")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{gone}", "wants 'gone', which is not among: q, xs"),
        ("{q.gone}", "no attribute 'gone'"),
        ("{xs[9]}", "index out of range"),
        ("{xs:>5}", "unsupported format"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ q + 1 }}", "TypeError"),
        ("{{ gone + 'x' }}", "'gone' is undefined"),
    ],
)
def test_a_template_that_fails_says_why(text, message):
    with pytest.raises(DataError, match=message):
        render(text, q="a", xs=[1])


def test_the_advice_on_braces_works():
    with pytest.raises(DataError) as caught:
        compile_string('Reply {"a": {q}')
    assert "{{ question }}" in caught.value.hint
    assert render('Reply {"a": {{ q }}', q=1) == 'Reply {"a": 1'


# ---- escapes ----


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (r"a\nb", "a\nb"),
        (r"a\tb\r", "a\tb\r"),
        (r"a\\nb", r"a\nb"),
        (r"\u00e9\xe9", "éé"),
        (r"\ud83d\ude00", "😀"),
        (r"\q\u12", r"\q\u12"),
        (r"\"\'", "\"'"),
        ("a\nb é 😀", "a\nb é 😀"),
        ("end\\", "end\\"),
    ],
)
def test_escapes(typed, meant):
    assert decode_escapes(typed) == meant


@given(st.text(st.characters(codec="utf-8", exclude_characters="\\")))
def test_text_without_backslashes_is_left_alone(text):
    assert decode_escapes(text) == text


@given(st.text(st.characters(codec="utf-8", exclude_characters="\b\f"), max_size=40))
def test_escapes_undo_what_json_writes(text):
    assert decode_escapes(json.dumps(text)[1:-1]) == text


@pytest.mark.parametrize("text", ["{n:99999999999}", "{n:.999999999f}", "{text:>{big}}", "{n:*^2000000000}"])
def test_a_width_without_end_is_refused(text):
    with pytest.raises(DataError, match="the template fails: a width of more than 4 digits"):
        compile_string(text)({"n": 1, "text": "x", "big": 10**10})
