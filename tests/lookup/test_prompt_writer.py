import json
import random

import pytest

import kshot.lookup
from kshot.core.errors import DataError, UsageError
from kshot.lookup.generate import TASKS, generate, group_of, write
from kshot.lookup.prompt_writer import (
    TEMPLATES,
    VARIANTS,
    Variant,
    as_prompt,
    default_texts,
    line,
    load_texts,
    parse_variant,
    prompter,
)

TASK_NAMES = [task for tasks in TASKS.values() for task in tasks]


def records(task, length=12, samples=4, seed=8):
    return generate(group_of(task), length, samples, seed)


def test_a_bare_prompt():
    data = records("UR")
    first, *_ = kshot.lookup.prompts(data, task="UR", variant="sep|small|bare", shots=2)
    lines = first.split("\n\n")
    assert len(lines) == 3
    assert lines[-1] == line(data[0]["input_with_space"])
    assert all(text.startswith(" ") and text[-3] == ":" for text in lines[:2])


@pytest.mark.parametrize("form", VARIANTS)
@pytest.mark.parametrize("task", TASK_NAMES)
def test_every_variant_asks_the_question(form, task):
    data = records(task)
    query = data[1]["input_with_space" if form.startswith("sep") else "input_no_space"]
    base = kshot.lookup.prompts(data, task=task, variant=form)
    assert base[1].endswith("\n\n" + line(query))
    assert base[1].count(": ") >= 5
    chat = kshot.lookup.prompts(data, task=task, variant=form, model_type="instruct")
    assert [message["role"] for message in chat[1]] == ["system", "user"]
    user = chat[1][1]["content"]
    assert " ".join(data[1]["input_no_space"][:-1]) in user
    assert user.count("</target>") == 5 + 1 + ("explained" in form)
    if "simple" in form:
        assert default_texts()["rules"][task]["simple"] in base[1]


def test_the_worked_example_is_counted_right():
    data = records("NLLast", 20)
    text, *_ = kshot.lookup.prompts(data, task="NLLast", variant="nosep|same|simple_rule_explained")
    worked, *notes = text.split("A worked example:\n\n")[1].split("\n")[:4]
    *context, query = worked.split(":")[0].split()
    assert f"It occurs {context.count(query)} time(s)" in notes[1]
    assert notes[0].startswith(f"- The query is {query},")
    assert notes[2] == f"- By the rule the answer is {worked[-1]}."


@pytest.mark.parametrize("form", ["sep|small|bare", "nosep|same|math_rule_explained"])
def test_a_prompt_depends_on_its_record_alone(form):
    many = records("NRFirst", 15, 30)
    alone = [kshot.lookup.prompts([r], task="NRFirst", variant=form)[0] for r in reversed(many)]
    mixed = kshot.lookup.prompts(records("NRFirst", 30, 5) + many, task="NRFirst", variant=form)
    assert alone[::-1] == mixed[5:]
    assert kshot.lookup.prompts(many, task="NRFirst", variant=form, seed=1) != mixed[5:]


def test_tasks_and_templates_share_their_examples():
    data = records("UL")
    shown = {
        (task, template): [text.split(":")[0] for text in prompt.split("\n\n")[-6:]]
        for task in ("UL", "UR")
        for template in TEMPLATES
        for prompt in kshot.lookup.prompts(data[:1], task=task, variant=f"sep|small|{template}")
    }
    assert len({tuple(texts) for texts in shown.values()}) == 1


def test_the_record_is_never_its_own_example():
    pool = records("UR", samples=6)
    for item, text in zip(
        pool, kshot.lookup.prompts(pool, pool, task="UR", variant="sep|same|bare", shots=4), strict=True
    ):
        assert text.count(line(item["input_with_space"])) == 1


def test_default_pool_avoids_the_trap_and_reference_keeps_it():
    data = records("NRFirst")
    own = kshot.lookup.prompts(data, task="NRFirst", variant="nosep|small|bare")[0].split("\n\n")
    published = kshot.lookup.prompts(data, task="NRFirst", variant="nosep|small|bare", reference=True)[0].split("\n\n")
    assert len(own[0].split(":")[0].split()) == 10
    assert len(published[0].split(":")[0].split()) == 7
    assert len(published) == len(own) - 1  # the first draw is not shown


def test_reference_draws_one_stream():
    data, pool = records("UL", samples=6), records("UL", 6, 30, 1)
    options = {"task": "UL", "variant": "sep|small|bare", "reference": True}
    whole = kshot.lookup.prompts(data, pool, **options)
    rng = random.Random(2025)
    halves = [kshot.lookup.prompts(part, pool, rng=rng, **options) for part in (data[:3], data[3:])]
    assert halves[0] + halves[1] == whole
    assert kshot.lookup.prompts(data[3:], pool, **options) != halves[1]
    same = kshot.lookup.prompts(data, task="UL", variant="sep|same|bare", reference=True)
    assert same == kshot.lookup.prompts(data, data, task="UL", variant="sep|same|bare", reference=True)


def test_records_and_pool_may_be_files(tmp_path):
    data, pool = (write(tmp_path, "unique", length, 9, 1) for length in (10, 6))
    texts = kshot.lookup.prompts(str(data), pool, task="UL", variant="sep|small|bare")
    assert texts == kshot.lookup.prompts(
        generate("unique", 10, 9, 1), generate("unique", 6, 9, 1), task="UL", variant="sep|small|bare"
    )


def test_other_templates(tmp_path):
    texts = json.loads(json.dumps(default_texts()))
    texts["completion"]["bare"] = "{{x}} {rule_math}\n{examples}"
    texts["instruct"]["bare"] = "{examples}"
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(texts))
    data = records("UL")
    (text,) = kshot.lookup.prompts(data[:1], task="UL", variant="sep|small|bare", templates=path, shots=0)
    assert text == f"{{x}} {texts['rules']['UL']['math']}\n{line(data[0]['input_with_space'])}"
    (chat,) = kshot.lookup.prompts(
        data[:1], task="UL", variant="sep|small|bare", templates=texts, model_type="instruct"
    )
    assert f"query: {data[0]['input_no_space'][-1]}\n\n{texts['format']}" in chat[1]["content"]


def test_bad_templates(tmp_path):
    texts = json.loads(json.dumps(default_texts()))
    texts["completion"]["bare"] = "{unknown}"
    with pytest.raises(DataError, match="unknown"):
        kshot.lookup.prompts(records("UL"), task="UL", variant="sep|small|bare", templates=texts)
    del texts["completion"]["bare"]
    with pytest.raises(DataError, match=r"completion\.bare"):
        load_texts(texts)
    with pytest.raises(DataError, match=r"none\.json"):
        load_texts(tmp_path / "none.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(DataError, match="object"):
        load_texts(tmp_path / "list.json")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"task": "XX"}, UsageError, "XX"),
        ({"variant": "sep|tiny|bare"}, UsageError, "tiny"),
        ({"model_type": "encoder"}, UsageError, "encoder"),
        ({"shots": -1}, UsageError, "-1"),
        ({"shots": 0, "reference": True}, UsageError, "0"),
        ({"pool": records("UL", samples=5, seed=9)}, DataError, "5 records"),
        ({"pool": records("NLLast")}, DataError, "unique records"),
        ({"task": "NLLast"}, DataError, "nonunique records"),
    ],
)
def test_misuse(options, error, words):
    options = {"task": "UL", "variant": "sep|small|bare", **options}
    with pytest.raises(error, match=words):
        kshot.lookup.prompts(records("UL"), options.pop("pool", None), **options)


def test_reference_same_needs_a_pool_in_the_prompter():
    with pytest.raises(UsageError, match="pool"):
        prompter(task="UL", variant="sep|same|bare", reference=True)


def test_as_prompt_and_variants():
    assert as_prompt("text").text == "text"
    (chat,) = kshot.lookup.prompts(records("UL")[:1], task="UL", variant="sep|small|bare", model_type="instruct")
    assert [m.role for m in as_prompt(chat).messages] == ["system", "user"]
    assert parse_variant("nosepsamemath_rule") == Variant("nosep", "same", "math_rule")
    assert parse_variant("sep|small|bare").folder == "sepsmallbare"
    assert len(VARIANTS) == 20


@pytest.mark.parametrize("separators", [[None], {"nosep": [None]}, {"sep": "text"}, 5])
def test_wordings_of_separators_are_objects(separators):
    with pytest.raises(DataError, match="the part 'separators' of lookup templates must hold an object"):
        load_texts({**default_texts(), "separators": separators})
