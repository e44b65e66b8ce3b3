"""Token lookup: records, prompts, template files and scores."""

from hypothesis import strategies as st

from kshot.core.errors import DataError, UsageError
from kshot.core.records import Sample
from kshot.lookup.generate import LOOKUP_TASKS, TASKS, answers, completions, dumps, generate, parts, read
from kshot.lookup.prompt_writer import VARIANTS, default_texts, fill, load_texts, parse_variant, prompts
from kshot.lookup.scoring import KINDS, RULES, LookupAccuracy, chance, error_kind, gaps
from tests.fuzz.harness import Told, any_text, folder, fuzz, grafted, json_bytes, json_values, mutated, told

tasks = st.sampled_from(sorted(LOOKUP_TASKS))
RECORD = {"input_no_space": "abcb", "input_with_space": "abc|b", "UL": "a", "UR": "c"}
ROW = {"input": "abc|b", "target": "a", "full_output": "x", "task": "UL"}


@fuzz(
    st.sampled_from(["unique", "nonunique", "x"]),
    st.integers(-1, 60),
    st.integers(-1, 4),
    st.integers(0, 9),
    st.booleans(),
    st.integers(0, 8),
    st.sampled_from(["abc", "ab", "a", "aa", "a b", "", "éü中", "ab|"]),
)
def test_records_are_made_right_or_refused(group, length, samples, seed, hard, divisor, vocab):
    records = told(generate, group, length, samples, seed, hard=hard, divisor=divisor, vocab=vocab, kind=UsageError)
    if isinstance(records, Told):
        return
    assert len(records) == samples
    with folder() as place:
        (place / "a.jsonl").write_text(dumps(records))
        assert read(place / "a.jsonl") == records
    for record in records:
        context, query = parts(record["input_no_space"])
        places = [at for at, character in enumerate(context) if character == query]
        assert len(context) == length - 1
        assert (len(places) == 1) == (group == "unique")
        for name in TASKS[group]:
            task = LOOKUP_TASKS[name]
            at = places[0 if task.occurrence == "first" else -1]
            assert record[name] == context[at - 1 if task.side == "left" else at + 1]


@fuzz(st.lists(grafted(RECORD), max_size=3) | st.lists(json_values(depth=2), max_size=2), st.none() | tasks | any_text)
def test_records_of_any_shape_are_read_or_refused(records, task):
    told(read, records, task)
    told(completions, records, kind=DataError)


@fuzz(mutated(st.sampled_from([json_bytes(RECORD) + b"\n", json_bytes(ROW) + b"\n"])))
def test_files_of_any_bytes_are_read_or_refused(raw):
    with folder() as place:
        path = place / "a.jsonl"
        path.write_bytes(raw)
        told(read, path, kind=DataError, where=path)
        told(completions, path, kind=DataError, where=path)


@fuzz(st.lists(grafted(ROW, odds=12), min_size=1, max_size=2))
def test_recorded_completions_of_any_shape_are_read_or_refused(rows):
    found = told(completions, rows, kind=DataError)
    if not isinstance(found, Told):
        for row in found:
            assert answers(*parts(row["input"]))[row["task"]] == row["target"]


contexts = st.text("abc", min_size=1, max_size=8)


@fuzz(contexts, st.sampled_from("abcd"), st.booleans(), any_text)
def test_every_answer_is_right_or_wrong_in_one_way(context, query, bar, reply):
    text = f"{context}{'|' * bar}{query}"
    for task in answers(context, query):
        for name, rule in RULES.items():
            prediction = rule(reply)
            assert isinstance(prediction, str)
            kind = error_kind(text, task, prediction)
            assert (kind is None) == (prediction == answers(context, query)[task]), name
            assert kind is None or kind in KINDS
        found = LookupAccuracy(task, ["between_tags", "tolerant_tags"]).score(
            Sample("1", {"input": text, "target": answers(context, query)[task]}), reply
        )
        assert set(found.values()) <= {0.0, 100.0}
        if any(character != query for character in context):
            assert 0 <= chance([text], task) <= 1


@fuzz(
    grafted(dict(default_texts()), odds=150) | json_values(depth=2),
    st.sampled_from(VARIANTS),
    st.booleans(),
    st.integers(-1, 3),
)
def test_template_files_of_any_shape_are_used_or_refused(texts, name, instruct, shots):
    with folder() as place:
        path = place / "templates.json"
        path.write_bytes(json_bytes(texts))
        loaded = told(load_texts, path, kind=DataError, where=path)
    if not isinstance(loaded, Told):
        found = told(
            prompts,
            [RECORD],
            task="UL",
            variant=name,
            templates=loaded,
            shots=shots,
            model_type="instruct" if instruct else "base",
        )
        assert isinstance(found, Told) or len(found) == 1


@fuzz(
    any_text
    | st.lists(
        st.sampled_from(
            ["{examples}", "{q}", "{", "}", "{0}", "{q.x}", "{q[0]}", "{q:>99999999999}", "{q!r:>5}", "{q.__class__}"]
        ),
        max_size=3,
    ).map("".join)
)
def test_a_text_of_templates_is_filled_or_refused(template):
    assert isinstance(told(fill, template, q="a", examples="b", kind=DataError), (str, Told))
    told(parse_variant, template, kind=UsageError)


@fuzz(st.dictionaries(tasks, st.dictionaries(st.integers(0, 5), st.booleans(), max_size=6), max_size=6), examples=30)
def test_gaps_are_differences_of_accuracies(correct):
    for gap in gaps(correct):
        common = correct[gap.better].keys() & correct[gap.worse].keys()
        difference = sum(correct[gap.better][r] - correct[gap.worse][r] for r in common) / len(common) * 100
        assert abs(gap.difference - difference) < 1e-9
        assert 0 <= gap.p <= 1
