"""Which settings continue a run folder: those with the same values that are not defaults."""

import pytest

from kshot.core.errors import RunError
from kshot.core.records import Generated
from kshot.runs.folder import RunFolder
from kshot.settings import Settings

KEY = "0a" * 16
BASIS = {"models": ["m"], "datasets": ["d"]}


@pytest.fixture
def begun(tmp_path):
    """Begin a run, so that one answer is in its journal."""

    def begin(identity):
        with RunFolder(tmp_path / "run", BASIS | identity) as folder:
            folder.write_spec()
            folder.put(KEY, "question", Generated("answer"))
        return tmp_path / "run"

    return begin


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({}, {}),
        ({}, {"seed": 2023, "limit": None, "model_type": "base"}),
        ({"seed": 2023, "limit": None, "model_type": "base"}, {}),
        ({"removed_since": None}, {}),
        ({"stop": ["a"], "num_shots": 0}, Settings(stop=("a",)).identity()),
        (Settings(num_shots=2).identity(), {**Settings(num_shots=2).values(), "added_since": None}),
    ],
)
def test_defaults_count_as_absent(begun, before, now):
    path = begun(before)
    with RunFolder(path, BASIS | now) as folder:
        assert folder.get(KEY) == Generated("answer")


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        ({"num_shots": 2}, {}, "num_shots was 2, is 0 (default)"),
        ({}, {"num_shots": 2}, "num_shots was 0 (default), is 2"),
        ({"num_shots": 0, "limit": None}, {"limit": 5}, "limit was not set, is 5"),
        ({"stop": ["a"]}, {"stop": ["b"]}, 'stop was ["a"], is ["b"]'),
        ({"added_later": 4}, {}, "added_later was 4, is not set"),
        ({"model_type": "chat"}, {}, 'model_type was "chat", is "base" (default)'),
        ({}, {"models": ["other"]}, 'models was ["m"], is ["other"]'),
        ({"instruction": "x" * 70}, {}, 'instruction was "' + "x" * 56 + "…, is not set"),
    ],
)
def test_other_settings_are_named(begun, before, now, change):
    path = begun(before)
    with pytest.raises(RunError) as caught:
        RunFolder(path, BASIS | now)
    assert f"this folder holds a run with other settings ({change})" in str(caught.value)


@pytest.mark.parametrize("text", [None, "no journal\n"])
def test_a_run_that_cannot_be_reused_leaves_no_new_folder(tmp_path, text):
    if text is not None:
        (tmp_path / "other").write_text(text)
    with pytest.raises(RunError, match="Name a run folder"):
        RunFolder(tmp_path / "run", {}, reuse=tmp_path / "other")
    assert not (tmp_path / "run").exists()
