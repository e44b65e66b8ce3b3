"""Templates of strangers: none takes all time or all memory, and those of people render as in jinja."""

import jinja2
import pytest

from kshot.core.errors import BackendError, DataError
from kshot.core.records import Message
from kshot.prompts.chat import renderer
from kshot.prompts.strings import compile_string
from tests.fuzz.harness import watched

ENDLESS = [
    "{{ 'x' * 10**10 }}",
    "{{ 10**10 * 'x' }}",
    "{{ [1] * 10**10 }}",
    "{{ 9 ** 999999 }}",
    "{{ 'a'.center(10**10) }}",
    "{{ 'a'.zfill(10**10) }}",
    "{{ 'x' | center(10**10) }}",
    "{{ 'x\ny' | indent(10**10) }}",
    "{{ 'x' | indent(10**10, true) }}",
    "{{ '%9999999999d' | format(1) }}",
    "{{ '%9999999999d' % 1 }}",
    "{{ '%*d' % (10**10, 1) }}",
    "{{ '{:>9999999999}'.format(1) }}",
    "{{ '{:>{}}'.format(1, 10**10) }}",
    "{{ [1] | batch(10**10, 'x') | list }}",
    "{{ [1] | slice(10**10) | list }}",
    "{{ [1] | tojson(indent=10**10) }}",
    "{{ ('a' * 100000).replace('a', 'b' * 100000) }}",
    "{{ ('a' * 100000) | replace('a', 'b' * 100000) }}",
    "{{ ('a' * 100000).join(range(100000) | map('string')) }}",
    "{{ range(90000) | join('a' * 100000) }}",
    "{{ ('a' * 100000).translate({97: 'b' * 100000}) }}",
    "{{ lipsum(10**9) }}",
    "{{ 7 .to_bytes(10**10, 'big') }}",
    "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
    "{% for a in range(90000) %}{{ range(90000) | list | length }}{% endfor %}",
    "{% for a in range(90000) %}{% block b scoped %}{% for c in range(90000) %}{% endfor %}{% endblock %}{% endfor %}",
    "{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
    "{% macro m(n) %}{% if n < 60 %}{{ m(n + 1) }}{{ m(n + 1) }}{% endif %}{% endmacro %}{{ m(0) }}",
    "{% set s = namespace(x='x') %}{% for a in range(99) %}{% set s.x = s.x ~ s.x %}{% endfor %}{{ s.x }}",
    "{% set s = namespace(x='x') %}{% for a in range(99) %}{% set s.x = s.x + s.x %}{% endfor %}{{ s.x }}",
    "{% set s = namespace(x='x') %}{% for a in range(99) %}{% set s.x %}{{ s.x }}{{ s.x }}{% endset %}{% endfor %}{{ s.x }}",
    "{% set s = namespace(x=[1]) %}{% for a in range(99) %}{% set s.x = s.x + s.x %}{% endfor %}{{ s.x }}",
    "{% set s = namespace(x=2) %}{% for a in range(99) %}{% set s.x = s.x * s.x %}{% endfor %}{{ s.x }}",
    "{% set s = namespace(x=[]) %}{% for a in range(99) %}{% set s.x = [s.x, s.x] %}{% endfor %}{{ s.x }}",
    "{% set s = namespace(x=[]) %}{% for a in range(99) %}{% set s.x = {'a': s.x, 'b': s.x} %}{% endfor %}{{ s.x ~ 'x' }}",
    "{% set s = namespace(x=[]) %}{% for a in range(99) %}{% set s.x = [s.x, s.x] %}{% endfor %}{{ s.x | string }}",
    "{% set s = namespace(x=[]) %}{% for a in range(99) %}{% set s.x = [s.x, s.x] %}{% endfor %}{{ '%s' % s.x }}",
    "{% set s = namespace(x=[]) %}{% for a in range(99) %}{% set s.x = [s.x, s.x] %}{% endfor %}{{ '{}'.format(s.x) }}",
    "{% set x = 'x' * 1000000 %}{% for a in range(90000) %}{{ x }}{% endfor %}",
    "{% for a in range(9) recursive %}{{ loop(range(9)) }}{% endfor %}",
    "{{ cycler() }}",
    "{{ '%.*f' % (10**10, 1.5) }}",
    "{{ '%(a(b)c)9999999999d' % {'a(b)c': 1} }}",
    "{{ '%9999999999d'.encode() % 1 }}",
    "{{ ('%(a)s' * 1000000) % {'a': 'x' * 1000000} }}",
    "{{ ('{0}' * 1000000).format('x' * 1000000) }}",
    "{{ ('{0:99999}' * 1000000).format('x') }}",
    "{{ '{:{w}}'.format(1, w=10**10) }}",
    "{{ '{:.{w}f}'.format(1, w='9999999999') }}",
    "{{ '{a:{b}}'.format_map({'a': 1, 'b': 10**10}) }}",
    "{{ ''.join(['x' * 1000000] * 100000) }}",
    "{{ ('\t' * 1000000).expandtabs(1000000) }}",
    "{{ ('x\n' * 1000000) | indent('x' * 1000000) }}",
    "{{ ('x ' * 1000000) | wordwrap(1, wrapstring='x' * 1000000) }}",
    "{{ ([1] * 100000) | tojson(indent=1000000) }}",
    "{% set x = 'x' * 1000000 %}{% for a in range(90000) %}{% set t %}{{ x }}{% endset %}{% endfor %}",
]


@watched
@pytest.mark.parametrize("text", ENDLESS)
def test_what_never_ends_is_refused(text):
    with pytest.raises(DataError, match=r"^here: the template (?:fails|does not|tries)"):
        compile_string(text, where="here")({})
    with pytest.raises(BackendError, match="the chat template failed"):
        renderer(text)([Message("user", "hi")])


@pytest.mark.parametrize(
    "text",
    [
        "{% for o in options %}{{ loop.index }}. {{ o }}{{ ', ' if not loop.last }}{% endfor %} of {{ options | length }}",
        "{% for o in options %}{{ loop.length }}{{ loop.revindex }}{{ loop.cycle('a', 'b') }}{% else %}none{% endfor %}",
        "{% for k, v in facts.items() if v %}{{ k }}={{ v }};{% endfor %}",
        "{% for a in tree recursive %}{{ a.name }}{{ loop(a.below) if a.below }}{% endfor %}",
        "{{ 'a' ~ n ~ options[0] }} {{ n + 1 }} {{ n * 2 }} {{ 2 ** n }} {{ n % 2 }} {{ '-' * n }} {{ '%s and %05.2f' % ('x', 1) }}",
        "{{ options | join(' / ') }} {{ 'x' | center(5) }}| {{ 'a\nb' | indent(2) }} {{ '{:>5}'.format(n) }} {{ n | default(10**9) }}",
        "{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(1) }}{{ m('b') | upper }}{% set t %}in {{ n }}{% endset %}{{ t }}",
        "{{ options | map('upper') | select('ne', 'B') | list }} {{ options | batch(2) | list }} {{ facts | tojson(indent=1) }}",
        "{{ 'a-b'.replace('-', '+').split('+') }} {{ ','.join(options) }} {{ 'x'.ljust(3) }}| {{ range(5) | sum }}",
        "{% set s = namespace(c=0) %}{% for o in options %}{% set s.c = s.c + 1 %}{% endfor %}{{ s.c }}",
        "{{ '{:,}'.format(big) }} {{ '%d' | format(big) }} {{ '%d of 12345678' % big }} {{ '%s' | format(big) }} {{ [big].index(big) }}",
        "{{ '{} {:>8}'.format(big, n) }} {{ '{a:{w}}'.format(a=big, w=12) }} {{ '%*d' % (12, big) }} {{ '%(x)s' % facts }} {{ '5%%' % () }}",
        "{{ 'abc' | truncate(9000000) }} {{ 'a b' | wordwrap(9000000) }} {{ 'a-a'.replace('-', '+', big) }} {{ 'a b'.split(' ', big) }}",
        "{{ '{0[1]} {1[x]!r:>5}'.format(options, facts) }} {{ '{x}'.format_map(facts) }} {{ ('<{}>' | safe).format('<') }}",
        "{% macro twice() %}{{ caller(1) }}{{ caller(2) }}{% endmacro %}{% call(x) twice() %}[{{ x }}]{% endcall %}",
    ],
)
def test_what_people_write_renders_as_in_jinja(text):
    fields = {"options": ["a", "b", "c"], "n": 3, "big": 123_456_789, "facts": {"x": 1, "y": 0}}
    fields["tree"] = [{"name": "a", "below": [{"name": "b", "below": []}]}, {"name": "c"}]
    expected = jinja2.Environment(undefined=jinja2.ChainableUndefined).from_string(text).render(**fields)
    assert compile_string(text)(fields) == expected


def test_a_long_prompt_is_no_endless_one():
    document = "word " * 1_000_000
    text = "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] | trim }}\n{% endfor %}"
    assert renderer(text)([Message("user", document)]) == f"<|user|>\n{document.strip()}\n"
    examples = ["an example\n"] * 50_000
    assert compile_string("{% for e in examples %}{{ e }}{% endfor %}")({"examples": examples}) == "".join(examples)


CHATML = (
    "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}{{ '<|im_start|>system\nHelp.<|im_end|>\n' }}{% endif %}"
    "{% set content = m['content'] | trim %}{{ '<|im_start|>' + m['role'] + '\n' + content + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@pytest.mark.parametrize(
    "text",
    [
        "{{ c | trim | replace('x', 'y') }}",
        "{{ 'Context: ' + c | trim + '\n\nQuestion: ' + q + '\nAnswer:' }}",
        "{{ (c | trim | replace('\r', '') | upper) ~ q }}{% set t %}{{ c }}{% endset %}{{ t | length }}",
        "{% macro shown(t) %}<{{ t | trim }}>{% endmacro %}{{ shown(c) }}{{ '{}'.format(c) }}{{ '%s' % c }}",
    ],
)
def test_a_long_value_allows_a_long_text(text):
    fields = {"c": "a word\n" * 600_000, "q": "Why?"}
    assert compile_string(text)(fields) == jinja2.Environment().from_string(text).render(**fields)


def test_a_long_message_fits_a_usual_chat_template():
    document = "a word\n" * 600_000
    expected = (
        f"<|im_start|>system\nHelp.<|im_end|>\n<|im_start|>user\n{document.strip()}<|im_end|>\n<|im_start|>assistant\n"
    )
    assert renderer(CHATML)([Message("user", document)]) == expected


def test_the_limit_is_named():
    text = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
    with pytest.raises(
        DataError, match=r"the template fails: it takes too many steps.* the limit is 20,0\d\d,\d\d\d characters"
    ):
        compile_string(text, where="here")({"q": "word" * 100})
    with pytest.raises(
        BackendError, match=r"the limit is 20,\d+,\d+ characters.*Shorten the messages, or give another"
    ) as caught:
        renderer(text)([Message("user", "hi")])
    assert "roles" not in str(caught.value)


def test_no_value_allows_more_than_the_largest_limit(monkeypatch):
    monkeypatch.setattr("kshot.prompts.strings.MAX_BUDGET_CHARACTERS", 30_000_000)
    with pytest.raises(DataError, match="the limit is 30,000,000 characters"):
        compile_string("{{ c * 9 }}")({"c": "x" * 5_000_000})
