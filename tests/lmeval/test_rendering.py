"""What doc_to_text and its like mean: columns, templates, literals, numbers and lists; and templates that do harm."""

import pytest

from kshot.core.errors import DataError
from kshot.lmeval.documents import DocFields, template
from kshot.lmeval.files import task_config
from kshot.lmeval.functions import Functions

DOC = {
    "q": "Which\r\nbird?",
    "n": 3,
    "none": None,
    "flag": True,
    "list": ["owl", "wren"],
    "brace": "{{q}}",
    "digit": "2",
}


@pytest.fixture
def fields(tmp_path):
    def make(**keys) -> DocFields:
        config = task_config({"task": "birds", **keys}, tmp_path / "birds.yaml")
        return DocFields(config, Functions(tmp_path), DOC)

    return make


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("q", "Which\r\nbird?"),
        ("Bird: {{n}}", "Bird: 3"),
        ("{{none}} {{flag}}\n", "None True\n"),
        ("{name} stays", "{name} stays"),
        ("line\r\nline", "line\nline"),
        ("brace", "{{q}}"),
        ("{{list | join('+')}}", "owl+wren"),
        ("{{ 'wren' | regex_replace('(w)(r)', '\\\\2\\\\1') }}", "rwen"),
        ("{% for each in list %}{{loop.index}}{{each[0]}}{% endfor %}", "1o2w"),
        (7, 7),
    ],
)
def test_texts(fields, how, expected):
    assert fields(doc_to_text=how).texts([DOC], None) == [expected]


@pytest.mark.parametrize(
    ("how", "choices", "expected"),
    [
        ("digit", ["a"], "2"),
        ("{{digit}}", ["a"], 2),
        ("{{digit}}", None, "2"),
        ("list", None, ["owl", "wren"]),
        ("{{list}}", None, ["owl", "wren"]),
        ("[{{n}}, wren]", None, "[3, wren]"),
        ("[", None, "["),
        ("[]", None, []),
        (["owl"], None, ["owl"]),
        (1, ["a"], 1),
    ],
)
def test_targets(fields, how, choices, expected):
    assert fields(doc_to_target=how, doc_to_choice=choices).targets([DOC], None) == [expected]


def test_a_number_is_a_text_only_where_there_are_choices(fields):
    assert fields(doc_to_text="{{n}}").texts([DOC], None) == ["3"]
    assert fields(doc_to_text="{{n}}", doc_to_choice="list").texts([DOC], None) == [3]


def test_a_description_that_names_a_column_of_the_document(fields):
    made = fields()
    assert made.resolved([DOC, {}], "digit", "description") == ["2", "digit"]
    assert made.resolved([DOC], "", "description") == [None]


def message(call):
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


def test_a_name_that_a_document_lacks(fields):
    told = message(lambda: fields(doc_to_text="{{bird}}").texts([DOC, DOC], None))
    assert "birds.yaml" in told
    assert "doc_to_text cannot be rendered for row 0: the template fails: 'bird' is undefined" in told
    assert "The columns of that row are: q, n, none" in told


def test_a_template_that_cannot_be_read(fields):
    assert "the template cannot be read" in message(lambda: fields(doc_to_text="{{q").texts([DOC], None))


def test_a_field_that_is_missing(fields):
    assert "the task has no doc_to_text" in message(lambda: fields().texts([DOC], None))
    lacking = message(lambda: fields(doc_to_text="q").texts([DOC, {}], None))
    assert "names the column 'q', which row 1 lacks" in lacking


def test_prompts_of_promptsource_are_refused(fields):
    assert "use_prompt takes prompts of promptsource" in message(lambda: fields(use_prompt="x"))


@pytest.mark.parametrize(
    "text",
    [
        "{{ 'x' * 10**10 }}",
        "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}",
        "{{ ''.__class__.__mro__ }}",
        "{{ 10**99999 }}",
        "{{ 'a' | regex_replace('a', 'b' * 999999) | regex_replace('b', 'c' * 999999) }}",
        "{{ ('a' * 60 + '!') | regex_replace('^(a|aa)+$', 'c') }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ cycler.__init__.__globals__.os }}",
    ],
)
def test_templates_that_do_harm_are_refused(text):
    with pytest.raises(DataError):
        template(text, "birds.yaml:1:1")(DOC)
