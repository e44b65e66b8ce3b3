"""Task files: includes, functions by name, the closed schema, and files that strangers made to do harm."""

from pathlib import Path

import pytest

from kshot.core.errors import DataError
from kshot.lmeval.files import TASK_KEYS, FunctionRef, read_body, task_config
from kshot.lmeval.task_file import load
from kshot.lmeval.tree import find

pytestmark = pytest.mark.needs("pyyaml")


@pytest.fixture
def files(tmp_path):
    """Write files by name, and return the path of the first."""

    def write(**texts: str) -> Path:
        paths = []
        for name, text in texts.items():
            path = tmp_path.joinpath(*name.split("__"))
            path = path if path.suffix or name.endswith("_template") else path.with_suffix(".yaml")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            paths.append(path)
        return paths[0]

    return write


def fault(path):
    with pytest.raises(DataError) as caught:
        task_config(read_body(path), path)
    return str(caught.value)


def test_includes_merge_in_order_and_local_keys_win(files):
    path = files(
        task="include: [one.yaml, base_template]\ntask: birds\ntarget_delimiter: ''\n",
        one="doc_to_text: first\ndescription: of one\nmetadata: {a: 1}\n",
        base_template="doc_to_text: second\ntarget_delimiter: ' '\nmetadata: {b: 2}\ntask_list: [x]\n",
    )
    body = read_body(path)
    assert body == {
        "task": "birds", "doc_to_text": "second", "description": "of one", "target_delimiter": "", "metadata": {"b": 2},
    }  # fmt: skip
    assert [file.name for file in body.files] == ["task.yaml", "one.yaml", "base_template"]
    assert body.places["doc_to_text"].endswith("base_template:1:1")
    assert body.places["target_delimiter"].endswith("task.yaml:3:1")


def test_a_nested_include_is_relative_to_the_file_that_has_it(files):
    path = files(
        task="include: sub/middle.yaml\ntask: birds\n",
        sub__middle="include: ../deep/inner.yaml\ndescription: middle\n",
        deep__inner="description: inner\ngen_prefix: '>'\n",
    )
    assert read_body(path) == {"task": "birds", "description": "middle", "gen_prefix": ">"}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"task": "include: other.yaml\n", "other": "include: task.yaml\n"}, "task.yaml is included a second time"),
        (
            {"task": "include: [a.yaml, b.yaml]\n", "a": "include: c.yaml\n", "b": "include: c.yaml\n", "c": "x: 1\n"},
            "c.yaml is included a second time",
        ),
        ({"task": "task: a\n\ninclude: gone.yaml\n"}, "task.yaml:3:1: it includes"),
        ({"task": "include: {a: b}\n"}, "task.yaml:1:1: include names a file, or a list of files"),
        ({"task": "include:\n"}, "task.yaml:1:1: include names a file, or a list of files"),
    ],
)
def test_an_include_that_cannot_be_followed(files, texts, said):
    assert said in fault(files(**texts))


@pytest.fixture
def outside(tmp_path):
    """A file that lies beside the tree, and ways into it from the tree: links to it and to its folder."""
    place = tmp_path / "private" / "notes.yaml"
    place.parent.mkdir()
    place.write_text("description: private\n")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "linked.yaml").symlink_to(place)
    (tree / "folder").symlink_to(place.parent)
    (tree / "twice.yaml").symlink_to(tree / "linked.yaml")
    return place


@pytest.mark.parametrize(
    "named",
    [
        "{outside}", "../private/notes.yaml", "linked.yaml", "twice.yaml", "folder/notes.yaml",
        "folder/../private/notes.yaml", "inner.yaml",
    ],
)  # fmt: skip
@pytest.mark.parametrize("loaded", [read_body, load])
def test_an_include_stays_in_the_tree_of_the_task(files, outside, named, loaded):
    path = files(
        tree__task=f"task: birds\ninclude: {named.format(outside=outside)}\n",
        tree__inner="\ninclude: [../private/notes.yaml]\n",
    )
    with pytest.raises(DataError, match=rf"(task|inner)\.yaml:2:1: .* leads to {outside}, outside the tree") as caught:
        loaded(path)
    assert "--lmeval-root DIR" in str(caught.value)
    assert load(path, outside.parent.parent).config.description == "private"  # a tree that holds both


def test_an_include_outside_the_tree_is_refused_whether_it_exists_or_not(files):
    assert "outside the tree" in fault(files(task="include: /nowhere/at/all.yaml\n"))


def test_a_task_file_of_a_tree_is_no_link_that_leaves_it(files, outside):
    files(tree__task="task: birds\n")
    outside.write_text("task: notes\ndescription: private\n")
    tree = outside.parent.parent / "tree"
    assert load(tree / "linked.yaml").config.description == "private"  # which the user names
    with pytest.raises(DataError, match=rf"linked.yaml leads to {outside}, outside the tree"):
        _ = find("notes", tree).config


def test_a_link_inside_the_tree_is_followed(files, tmp_path):
    path = files(tree__task="task: birds\ninclude: near.yaml\n", tree__far__base="description: near\n")
    (path.parent / "near.yaml").symlink_to(path.parent / "far" / "base.yaml")
    (tmp_path / "elsewhere").symlink_to(path.parent)
    assert load(tmp_path / "elsewhere" / "task.yaml").config.description == "near"
    assert find("birds", tmp_path / "elsewhere").config.description == "near"


def test_a_function_comes_from_beside_the_file_that_holds_the_tag(files, tmp_path):
    path = files(
        task="include: shared/base.yaml\ntask: birds\nprocess_results: !function own.score\n",
        shared__base="process_docs: !function parts.helpers.docs\nmetric_list:\n  - metric: !function math.log\n",
    )
    files(**{"shared__parts__helpers.py": "def docs(rows): return rows\n", "own.py": "def score(): ...\n"})
    config = task_config(read_body(path), path)
    assert config.process_docs == FunctionRef(
        tmp_path / "shared/parts/helpers.py", "parts.helpers", "docs", f"{tmp_path}/shared/base.yaml:1:15"
    )
    assert config.process_results.file == tmp_path / "own.py"
    assert config.metric_list[0]["metric"] == FunctionRef(None, "math", "log", f"{tmp_path}/shared/base.yaml:3:13")
    assert str(config.process_docs) == "parts.helpers.docs"
    assert config.fewshot_config.process_docs == config.process_docs


def test_defaults_are_those_of_lm_eval(files):
    config = task_config(read_body(path := files(task="task: birds\n")), path)
    assert (config.output_type, config.target_delimiter, config.fewshot_delimiter) == ("generate_until", " ", "\n\n")
    assert (config.repeats, config.num_fewshot, config.description) == (1, None, "")
    assert config.generation_kwargs == {
        "until": ["\n\n"], "do_sample": False, "temperature": 0.0, "max_gen_toks": 256,
    }  # fmt: skip
    assert config.fewshot_config.sampler == "default"
    assert len(TASK_KEYS) == 33  # lm-eval's 34, without the key tag, which is dropped before


def test_given_generation_options_get_a_stop_and_nothing_else(files):
    text = "task: birds\nfewshot_delimiter: '##'\ngeneration_kwargs: {temperature: '0.5'}\n"
    config = task_config(read_body(path := files(task=text)), path)
    assert config.generation_kwargs == {"until": ["##"], "temperature": 0.5}
    choice = task_config(read_body(path := files(task="task: a\noutput_type: multiple_choice\n")), path)
    assert choice.generation_kwargs is None


def test_examples_take_over_what_fewshot_config_lacks(files):
    text = (
        "task: birds\ndoc_to_text: q\ndoc_to_target: a\nfewshot_split: train\nfewshot_config:\n"
        "  sampler: first_n\n  doc_to_text: other\n  gen_prefix: null\ngen_prefix: So\n"
    )
    shown = task_config(read_body(path := files(task=text)), path).fewshot_config
    assert (shown.sampler, shown.split, shown.doc_to_text, shown.doc_to_target) == ("first_n", "train", "other", "a")
    assert (shown.gen_prefix, shown.target_delimiter, shown.fewshot_delimiter) == (None, " ", "\n\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("task: a\ndoc_to_txt: b\n", "task.yaml:2:1: a task has no key 'doc_to_txt'. Did you mean doc_to_text?"),
        ("task: a\nyes: b\n", "task.yaml:2:1: a task has no key True"),
        (
            "task: a\nfewshot_config: {splt: b}\n",
            "task.yaml:2:1: a fewshot_config has no key 'splt'. Did you mean split?",
        ),
        ("task: a\noutput_type: guess\n", "task.yaml:2:1: output_type is 'guess'. Use one of generate_until"),
        ("task: a\nnum_fewshot: -1\n", "task.yaml:2:1: num_fewshot is -1; it must be 0 or more"),
        ("task: a\nnum_fewshot: two\n", "num_fewshot is 'two'; it must be a whole number"),
        ("task: a\nrepeats: 1000000000\n", "repeats is 1,000,000,000; it must be 100,000 or less"),
        ("task: a\nrepeats: 0\n", "repeats is 0; it must be 1 or more"),
        ("task: a\nrepeats:\n", "repeats is None; it must be a whole number"),
        ("task: a\nprocess_docs: utils.docs\n", "process_docs is 'utils.docs'; it must be a !function"),
        ("task: a\nprocess_docs: !function docs\n", "task.yaml:2:15: !function docs names no module"),
        ("task: a\nprocess_docs: !function ..docs.f\n", "task.yaml:2:15: !function ..docs.f names "),
        ("task: a\nprocess_docs: !function ../../docs.f\n", "task.yaml:2:15: !function ../../docs.f names "),
        ("task: a\nmetric_list: [acc]\n", "task.yaml:2:1: each entry of metric_list needs the key 'metric'"),
        ("task: a\nfilter_list: [{name: x}]\n", "each entry of filter_list needs the key 'filter'"),
        ("task: a\ngeneration_kwargs: {temperature: hot}\n", "task.yaml:2:1: temperature is no number: 'hot'"),
        ("task: a\nclass: !function x.Task\n", "task.yaml:2:1: it is a task written as a Python class (x.Task)"),
        ("- a\n- b\n", "it holds a list, where keys with values are needed"),
        ("", "it holds nothing, where keys with values are needed"),
    ],
)
def test_a_key_or_value_that_no_task_has(files, text, said):
    assert said in fault(files(task=text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("task: [a\ndescription: b\n", "task.yaml:"),
        ("task: a\n\tdescription: b\n", "task.yaml:2:1: "),
        ("task: !!python/object/apply:os.system [ls]\n", "task.yaml:1:7: could not determine a constructor"),
        ("task: !!int many\n", "task.yaml:1:7: this is no int"),
        ("task: !!bool maybe\n", "task.yaml:1:7: this is no bool"),
        ("task: !!timestamp today\n", "task.yaml:1:7: this is no timestamp"),
        (f"task: {'9' * 2000}\n", "task.yaml:1:7: this number is too long"),
        (f"task: 1{':1' * 2000}\n", "task.yaml:1:7: this number is too long"),
        (f"task: {'[' * 200}{']' * 200}\n", "task.yaml:1:106: it nests deeper than 100 levels"),
        (f"task: {'[' * 100_000}\n", "it nests deeper than 100 levels"),
        ("task: &a [*a]\n", "task.yaml:1:11: *a stands inside itself"),
        ("task: *gone\n", "undefined alias"),
        ("task: a\n---\ntask: b\n", "but found another document"),
        ("task: a\x07b\n", "it is no YAML"),
    ],
)
def test_yaml_that_cannot_be_read(files, text, said):
    path = files(task=text)
    message = fault(path)
    assert said in message
    assert "\n" not in message


def bomb(levels: int, merge: bool) -> str:
    start = "a0: &a0 {x: 1}\n" if merge else "a0: &a0 [1, 2]\n"
    inner = "{{<<: [{refs}]}}" if merge else "[{refs}]"
    lines = (f"a{n}: &a{n} " + inner.format(refs=", ".join([f"*a{n - 1}"] * 10)) + "\n" for n in range(1, levels))
    return start + "".join(lines)


@pytest.mark.parametrize("merge", [False, True])
def test_aliases_that_stand_for_millions_of_values(files, merge):
    assert "it stands for more than 2,000,000 values" in fault(files(task=bomb(12, merge)))
    assert len(read_body(files(task=bomb(4, merge)))) == 4


def test_other_files_than_text(files, tmp_path):
    path = files(task="task: a\n")
    path.write_bytes(b"task: a\ndescription: caf\xe9\n")
    assert "task.yaml:2:17: a byte here is no UTF-8" in fault(path)
    path.write_bytes("task: café\n".encode("utf-16"))
    assert read_body(path) == {"task": "café"}
    path.write_bytes(b"\xef\xbb\xbftask: a\n")
    assert read_body(path) == {"task": "a"}
    assert "cannot be read" in fault(tmp_path)
    assert "cannot be read" in fault(tmp_path / "gone.yaml")


def test_the_last_of_two_equal_keys_stands(files):
    assert read_body(files(task="task: a\ntask: b\n")) == {"task": "b"}
