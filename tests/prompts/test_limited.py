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
        "{% macro twice() %}{{ caller(1) }}{{ caller(2) }}{% endmacro %}{% call(x) twice() %}[{{ x }}]{% endcall %}",
    ],
)
def test_what_people_write_renders_as_in_jinja(text):
    fields = {"options": ["a", "b", "c"], "n": 3, "facts": {"x": 1, "y": 0}}
    fields["tree"] = [{"name": "a", "below": [{"name": "b", "below": []}]}, {"name": "c"}]
    expected = jinja2.Environment(undefined=jinja2.ChainableUndefined).from_string(text).render(**fields)
    assert compile_string(text)(fields) == expected


def test_a_long_prompt_is_no_endless_one():
    document = "word " * 1_000_000
    text = "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] | trim }}\n{% endfor %}"
    assert renderer(text)([Message("user", document)]) == f"<|user|>\n{document.strip()}\n"
    examples = ["an example\n"] * 50_000
    assert compile_string("{% for e in examples %}{{ e }}{% endfor %}")({"examples": examples}) == "".join(examples)
