"""Run folders of strangers: spec.json, summaries and recorded files of any bytes are read or refused."""

from hypothesis import strategies as st

from kshot.backends.replay import Replay
from kshot.core.errors import BackendError, RunError
from kshot.core.records import Generate, Generated, Prompt
from kshot.core.serialization import digest, response_to_json
from kshot.runs.folder import RunFolder, read_spec
from tests.fuzz.harness import DEEP, HUGE_INT, Told, folder, fuzz, grafted, json_bytes, json_values, mutated, told

SPEC = {
    "identity": {"datasets": ["a"], "models": ["m"]},
    "options": {"num_shots": 5},
    "tasks": {"a": {"x": {"version": "1"}}},
    "models": [{"role": "model", "name": "m", "fingerprint": "f"}],
    "format": 1,
}
EARLY = {"identity": {"datasets": ["a"]}, "fingerprints": {"judge openai:x": "f", "m": "g"}}
SUMMARY = {"results": [{"task": "a", "value": 1.0, "ci95": [0.0, 2.0]}]}


@fuzz(st.one_of(grafted(SPEC, odds=8), grafted(EARLY, odds=8), json_values()), examples=50)
def test_a_spec_of_any_shape_is_read_or_refused(value):
    with folder() as place:
        (place / "spec.json").write_bytes(json_bytes(value))
        found = told(read_spec, place, kind=RunError, where=place)
        if not isinstance(found, Told):
            assert isinstance(found["identity"], dict)
            assert all(isinstance(each["name"], str) for each in found.get("models", []))


@fuzz(mutated(st.sampled_from([json_bytes(SPEC), json_bytes(EARLY), DEEP.encode(), HUGE_INT.encode()])))
def test_a_spec_of_any_bytes_is_read_or_refused(raw):
    with folder() as place:
        (place / "spec.json").write_bytes(raw)
        told(read_spec, place, kind=RunError, where=place)


@fuzz(
    grafted(SPEC, odds=8),
    grafted(SUMMARY, odds=4).map(json_bytes) | st.binary(max_size=30) | st.just(DEEP.encode()),
    st.booleans(),
)
def test_a_folder_of_any_files_is_continued_or_refused(spec, summary, answered):
    with folder() as place:
        (place / "spec.json").write_bytes(json_bytes(spec))
        (place / "summary.json").write_bytes(summary)
        if answered:
            with RunFolder(place / "other", {"datasets": ["a"]}) as run:
                run.put("0" * 32, "1" * 32, Generated("x"))
            (place / "journal.jsonl").write_bytes((place / "other" / "journal.jsonl").read_bytes())
        run = told(RunFolder, place, {"datasets": ["a"], "models": ["m"]}, kind=RunError, where=place)
        if isinstance(run, Told):
            return
        with run:
            assert all(isinstance(row, dict) for row in run.earlier_results())
            told(run.note_model, "model", "m", "f", kind=RunError)
            assert told(run.get, "0" * 32, kind=RunError) in (None, Generated("x"))


# ---- recorded answers ----

asked = Generate(Prompt("say"))
LINES = [json_bytes({"key": "0" * 32, "asked": digest(asked), "response": response_to_json(Generated("x"))}), json_bytes({"prompt": "say", "response": "x"}), json_bytes({"prompt": "say", "completion": "x"})]  # fmt: skip


@fuzz(
    st.lists(
        st.one_of(mutated(st.sampled_from(LINES)), grafted({"prompt": "say", "response": "x"}, odds=4).map(json_bytes)),
        max_size=3,
    )
)
def test_a_recording_of_any_bytes_answers_or_is_refused(lines):
    with folder() as place:
        path = place / "recorded.jsonl"
        path.write_bytes(b"\n".join(lines))
        model = told(Replay, str(path), kind=BackendError)
        if isinstance(model, Told):
            return
        try:
            told(lambda: list(model.serve([asked])))
        finally:
            model.close()
