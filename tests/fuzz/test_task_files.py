"""Task files of lm-eval with any keys over any rows: requests, or an error that says what is wrong."""

from pathlib import Path

import jinja2
from hypothesis import strategies as st

from kshot.lmeval.documents import as_table, template
from kshot.lmeval.files import task_config
from kshot.lmeval.functions import Functions
from kshot.lmeval.task_file import TaskFile
from tests.fuzz.harness import Told, any_text, fuzz, json_values, told

FOLDER = Path("/nowhere")
FIELDS = ["q", "a", "options", "{{q}}", "{{a}}", "{{options}}", "{{options[0]}}", "{{q}}\n{{a}}", "7", "{{7}}", "[1, 2]", "[", "{{missing}}", "{{q", "{% for o in options %}{{o}}{% endfor %}", "{{ 'x' * 10**10 }}", ""]  # fmt: skip
text = st.sampled_from(FIELDS) | any_text
field = st.one_of(text, st.integers(-2, 3), st.none(), st.lists(json_values(depth=1), max_size=3))
choice = st.one_of(text, st.none(), st.lists(any_text, max_size=3), st.dictionaries(any_text, any_text, max_size=2))
split = st.sampled_from(["test", "train", None, "dev"])
bodies = st.fixed_dictionaries(
    {"task": st.just("x")},
    optional={
        "output_type": st.sampled_from(["multiple_choice", "generate_until", "loglikelihood", "loglikelihood_rolling"]),
        "test_split": split,
        "validation_split": split,
        "training_split": split,
        "fewshot_split": split,
        "doc_to_text": field,
        "doc_to_target": field,
        "doc_to_choice": choice,
        "description": text,
        "gen_prefix": text,
        "target_delimiter": any_text,
        "fewshot_delimiter": any_text,
        "num_fewshot": st.integers(-1, 4),
        "repeats": st.integers(0, 3),
        "generation_kwargs": st.dictionaries(
            st.sampled_from(["until", "max_gen_toks", "temperature", "do_sample"]), json_values(depth=2), max_size=3
        ),
        "fewshot_config": st.fixed_dictionaries(
            {},
            optional={
                "sampler": st.sampled_from(["default", "first_n", "best"]),
                "samples": st.lists(st.dictionaries(st.sampled_from("qa"), any_text), max_size=3)
                | json_values(depth=1),
                "split": split,
                "doc_to_text": field,
                "doc_to_target": field,
                "doc_to_choice": choice,
            },
        ),
        "metric_list": st.just([{"metric": "acc_mutual_info"}]),
    },
)
row = st.fixed_dictionaries({}, optional={"q": any_text, "a": json_values(depth=1), "options": st.lists(any_text)})
tables = st.dictionaries(st.sampled_from(["test", "train"]), st.lists(row | json_values(depth=2), max_size=4))


def template_of(turns, add_generation_prompt):
    return f"{turns} {add_generation_prompt}"


@fuzz(bodies, tables, st.none() | st.integers(-1, 3), examples=150)
def test_a_task_file_gives_requests_or_says_what_is_wrong(body, rows, shots):
    config = told(task_config, body, FOLDER / "x.yaml")
    if isinstance(config, Told):
        return
    task = TaskFile(config, Functions(FOLDER))  # no function is named, so no worker starts
    found = told(task.requests, rows, shots)
    chat = told(task.requests, rows, shots, chat_template=template_of)
    assert isinstance(found, Told) == isinstance(chat, Told)
    if not isinstance(found, Told):
        assert all(isinstance(each["context"], str) for each in found)
        assert len(found) == len(chat)
        responses = [[-1.0, True] if each["type"] != "generate_until" else "7" for each in found]
        told(task.score, rows, responses, shots)


pieces = st.sampled_from(["{{ q }}", "{{ n }}", "{{ o[0] }}", "{% if n %}yes{% endif %}", "{% for x in o %}{{ x }},{% endfor %}", "{{ none }}", "{{ q | upper }}", "{{ o }}", " and ", "\n", "\r\n", "{x}"])  # fmt: skip


@fuzz(st.lists(pieces, max_size=6).map("".join), any_text)
def test_a_template_renders_as_in_plain_jinja(source, question):
    values = {"q": question, "n": 3, "o": ["a", 'b"'], "none": None}
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    assert template(source, "x.yaml")(values) == environment.from_string(source).render(**values)


@fuzz(st.lists(st.dictionaries(st.sampled_from("abc"), json_values(depth=3)), max_size=5))
def test_a_table_gives_every_row_the_same_columns(rows):
    found = as_table(rows)
    assert len(found) == (len(rows) if any(rows) else 0)
    assert len({tuple(each) for each in found}) <= 1
    assert as_table(found) == found  # nothing is left to even out
