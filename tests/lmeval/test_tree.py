"""Trees of task files: names, tags, patterns, groups with overrides, files and folders; the index and its cache."""

import json

import pytest

from kshot.core.errors import DataError, UsageError
from kshot.lmeval import tree as trees
from kshot.lmeval.tree import Group, GroupAggregate, Leaf, find, groups, index_tree, leaves, read_head

pytestmark = pytest.mark.needs("pyyaml")

TREE = {
    "birds/owl.yaml": "task: owl\ntag: [night, birds_all]\noutput_type: multiple_choice\n",
    "birds/robin.yaml": "task: robin\ntag: birds_all\nnum_fewshot: 3\n",
    "birds/_base": "tag: night\ndoc_to_text: q\n",
    "birds/bat.yaml": "include: _base\ntask: bat\n",
    "birds/group.yaml": (
        "group: birds\ngroup_alias: All birds\nnum_fewshot: 1\ntask:\n"
        "  - owl\n"
        "  - task: robin\n    num_fewshot: 2\n    task_alias: Robin\n"
        "  - group: inner\n    target_delimiter: ':'\n    task: [bat]\n"
        "  - task: dodo\n    dataset_path: org/dodo\n    test_split: test\n"
        "aggregate_metric_list:\n"
        "  - metric: acc\n    weight_by_size: false\n"
        "  - {metric: f1, filter_list: strict}\n"
    ),
    "fish/carp.yaml": "task: carp\n",
    "fish/copy.yaml": "task: owl\ndescription: a second owl\n",
    "fish/all.yaml": "group: animals\ntask: [birds, night, carp]\naggregate_metric_list: {metric: acc}\n",
    "fish/code.yaml": "task: trout\nclass: !function trout.Trout\n",
    "fish/_template.yaml": "dataset_path: org/fish\n",
    "__pycache__/x.yaml": "task: hidden\n",
}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "tree"
    for name, text in TREE.items():
        root.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        root.joinpath(name).write_text(text)
    return root


def names(node):
    return [leaf.name for leaf in leaves(node)]


def test_the_index_names_tasks_groups_and_tags(tree):
    found = {name: entry.kind for name, entry in index_tree(tree).items()}
    assert found == {
        "owl": "task", "robin": "task", "bat": "task", "carp": "task", "trout": "class",
        "birds": "group", "animals": "group", "night": "tag", "birds_all": "tag",
    }  # fmt: skip
    assert index_tree(tree)["night"].tasks == ("bat", "owl")  # an included file may give the tag
    assert index_tree(tree)["owl"].path == tree / "birds/owl.yaml"  # of two the first stays


def test_a_name_a_tag_and_a_pattern(tree):
    owl = find("owl", tree)
    assert isinstance(owl, Leaf)
    assert owl.config.output_type == "multiple_choice"
    tag = find("night", tree)
    assert (tag.name, names(tag), tag.aggregates) == ("night", ["bat", "owl"], ())
    assert names(find("?a*", tree)) == ["bat", "carp"]
    both = find("*", tree)
    assert sorted(names(both)) == ["bat", "birds::dodo", "carp", "owl", "robin", "trout"]
    assert [group.name for group in groups(both)][:2] == ["*", "animals"]  # birds is inside of it


def test_a_group_gives_keys_to_its_tasks_and_items_win(tree):
    birds = find("birds", tree)
    assert (birds.name, birds.alias) == ("birds", "All birds")
    assert birds.aggregates == (GroupAggregate("acc", None, weighted=False), GroupAggregate("f1", ("strict",)))
    owl, robin, bat, dodo = (leaf.config for leaf in leaves(birds))
    assert (owl.num_fewshot, robin.num_fewshot, robin.task_alias) == (1, 2, "Robin")
    assert (bat.num_fewshot, bat.target_delimiter, bat.doc_to_text) == (1, ":", "q")
    assert (dodo.task, dodo.dataset_path, dodo.path) == ("birds::dodo", "org/dodo", tree / "birds/group.yaml")
    assert [each.name for each in groups(birds)] == ["birds", "birds::inner"]
    assert robin.where("num_fewshot").endswith("group.yaml:4:1")


def test_a_group_holds_groups_and_tags(tree):
    animals = find("animals", tree)
    assert names(animals) == ["owl", "robin", "bat", "birds::dodo", "carp"]
    assert animals.aggregates == (GroupAggregate("acc"),)
    assert {leaf.name: leaf.config.num_fewshot for leaf in leaves(animals)}["owl"] is None  # the tag's owl is later


def test_a_file_and_a_folder(tree, tmp_path, monkeypatch):
    assert find(str(tree / "birds/owl.yaml")).config.root == tree / "birds"
    assert find("birds/owl.yaml", tree).config.root == tree
    assert names(find(str(tree / "birds/group.yaml"), tree))[:2] == ["owl", "robin"]
    folder = find(str(tree / "birds"))
    assert isinstance(folder, Group)
    assert names(folder) == ["owl", "robin", "bat", "birds::dodo"]
    monkeypatch.chdir(tree)
    assert names(find("./birds/")) == names(folder)
    assert names(find("birds", tree)) == names(folder)  # the group of the tree, not the folder
    assert find("birds", tree).alias == "All birds"
    package = tmp_path / "clone/lm_eval/tasks"
    package.parent.mkdir(parents=True)
    tree.rename(package)
    assert find("owl", tmp_path / "clone").config.root == package
    assert find("owl", tmp_path / "clone/lm_eval").config.root == package
    assert find(str(package / "fish/carp.yaml")).config.root == package


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("robbin", "no task, group or tag is called 'robbin'. Did you mean robin?"),
        ("x*", "no task, group or tag matches 'x*'"),
        ("birds/none.yaml", "birds/none.yaml: there is no such task file or folder"),
        ("fish/_template.yaml", "it has neither the key 'task' nor 'group'"),
    ],
)
def test_what_is_not_there(tree, text, said):
    with pytest.raises((UsageError, DataError)) as caught:
        find(text, tree)
    assert said in str(caught.value)


def test_groups_inside_groups_have_limits(tmp_path, monkeypatch):
    (tmp_path / "task.yaml").write_text("task: t\n")
    for level in range(400):
        inner = f"g{level + 1}" if level < 399 else "t"
        (tmp_path / f"g{level}.yaml").write_text(f"group: g{level}\ntask: [{inner}]\n")
    with pytest.raises(DataError, match=r"g32.yaml:2:1: the group g32 is inside 32 others; at most 32"):
        find("g0", tmp_path)
    for level in range(8):
        inner = ", ".join([f"h{level + 1}" if level < 7 else "t"] * 30)
        (tmp_path / f"h{level}.yaml").write_text(f"group: h{level}\ntask: [{inner}]\n")
    monkeypatch.setattr("kshot.lmeval.tree.MAX_MEMBERS", 500)
    with pytest.raises(DataError, match=r"the groups around h\d list more than 500 tasks"):
        find("h0", tmp_path)


@pytest.mark.parametrize("name", ["", "null", "[a]", "true", "'  '"])
def test_a_file_whose_task_has_no_name(tmp_path, name):
    (tmp_path / "task.yaml").write_text(f"test_split: test\ntask: {name}\n")
    with pytest.raises(DataError, match=r"task.yaml:2:1: task is .*; it must be a name"):
        find(str(tmp_path / "task.yaml"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("group: g\ntask: [g]\n", "g.yaml:2:1: the group g is inside itself: g → g"),
        ("group: g\ntask: [owll]\n", "g.yaml:2:1: the group g lists 'owll', which is not in"),
        (
            "group: g\ntask: [{dataset_path: x}]\n",
            "the group g lists {'dataset_path': 'x'}, which names no task or group",
        ),
        ("group: g\ntask: [3]\n", "the group g lists 3, which names no task or group"),
        (
            "group: g\naggregate_metric_list: [acc]\n",
            "g.yaml:2:1: an entry of aggregate_metric_list cannot be read: 'acc'",
        ),
        (
            "group: g\naggregate_metric_list: {metric: acc, weigh: 1}\n",
            "an entry of aggregate_metric_list cannot be read",
        ),
        ("group: g\naggregate_metric_list: {metric: acc, aggregation: sum}\n", "is 'mean' or a !function, not 'sum'"),
    ],
)
def test_a_group_that_cannot_be_built(tree, text, said):
    (tree / "g.yaml").write_text(text)
    with pytest.raises(DataError) as caught:
        leaves(find("g", tree))
    assert said in str(caught.value)


def test_a_task_with_a_fault_tells_it_when_it_is_needed(tree):
    trout = next(leaf for leaf in leaves(find("*", tree)) if leaf.name == "trout")
    with pytest.raises(DataError, match="it is a task written as a Python class"):
        _ = trout.config


def test_names_without_a_tree(tree, monkeypatch, tmp_path):
    monkeypatch.setattr("kshot.lmeval.files.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="Add --lmeval-root DIR"):
        find("owl")
    with pytest.raises(UsageError, match="there is no such folder"):
        find("owl", tmp_path / "gone")


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("task: a\ntag: b\n", {"task": "a", "tag": "b"}),
        ('"task": a\n', {"task": "a"}),
        ("{task: a, tag: [b, c]}\n", {"task": "a", "tag": ["b", "c"]}),
        ("task: 'it''s'\n", {"task": "it's"}),
        ("tag:\n- b\n- c\ntask: a # so\n", {"task": "a", "tag": ["b", "c"]}),
        ("tag:\n  - b\ntask: a\n", {"task": "a", "tag": ["b"]}),
        ("tag: null\ntask: 12\n", {"task": "12", "tag": None}),
        ('description: "first\ntask: no"\ntask: a\n', {"task": "a"}),
        ("description: |\n  task: no\ntask: a\n", {"task": "a"}),
        ("description: first\n  task\ntask: a\n", {"task": "a"}),
        ("group: g\ntask:\n  - a\n", {"group": "g", "task": True}),
        ("group: g\ntask: [a, b]\n", {"group": "g", "task": True}),
        ("task: a\r\ninclude: x.yaml\r\n", {"task": "a", "include": "x.yaml"}),
        ("task: &name a\ntag: *name\n", {"task": "a", "tag": "a"}),
        ("class: !function x.Y\ntask: a\n", {"class": True, "task": "a"}),
        ("task : a\n", {"task": "a"}),
        ("--- # one\ntask: a\n...\n", {"task": "a"}),
        ("task: a\n  b\n", {"task": "a b"}),  # a plain text goes on
        ("tag: a\n\n  b\ntask: c\n", {"task": "c", "tag": "a\nb"}),
        (" task: a\n tag: b\n", {"task": "a", "tag": "b"}),
        ("# one\n\n task: a\n", {"task": "a"}),
        ("task:\n  # the list\n  - b\n", {"task": True}),
        ("task:\n  a\n", {"task": "a"}),
        ("task: a\ntag: .5\n", {"task": "a", "tag": "0.5"}),
        ("include: ../a.yaml\ntask: b\n", {"task": "b", "include": "../a.yaml"}),
    ],
)
def test_the_keys_that_name_something(tmp_path, text, head):
    path = tmp_path / "task.yaml"
    path.write_bytes(text.encode())
    assert read_head(path) == head


def test_a_changed_file_is_read_again_and_others_come_from_the_cache(tree, monkeypatch):
    monkeypatch.setattr(trees, "_SLOW_SECONDS", 0.0)
    index_tree(tree)
    read = []
    monkeypatch.setattr(trees, "read_head", lambda path: read.append(path.name) or read_head(path))
    assert "owl" in index_tree(tree)
    assert read == []
    (tree / "birds/owl.yaml").write_text("task: eagle_owl\ntag: night\n")
    assert index_tree(tree)["night"].tasks == ("bat", "eagle_owl")
    assert read == ["owl.yaml"]


@pytest.mark.parametrize(
    "content", ["", "[]", '{"version": 1}', '{"version": 1, "files": {"a": 3}}', '{"version": 0, "files": 1}']
)
def test_a_damaged_cache_is_made_again(tree, monkeypatch, tmp_path, content):
    monkeypatch.setattr(trees, "_SLOW_SECONDS", 0.0)
    index_tree(tree)
    (kept,) = (tmp_path / "cache/lmeval").iterdir()
    kept.write_text(content)
    assert "owl" in index_tree(tree)
    assert len(json.loads(kept.read_text())["files"]) == 10


def test_files_that_cannot_be_read_have_no_names(tree):
    (tree / "bad.yaml").write_text("task: [\n")
    (tree / "loop.yaml").write_text("include: loop.yaml\ntask: loop\n")
    (tree / "gone.yaml").write_text("include: nowhere.yaml\ntask: gone\n")
    (tree / "dead.yaml").symlink_to("nothing")
    assert not {"bad", "loop"} & set(index_tree(tree))


@pytest.mark.parametrize("named", ["../outside.yaml", "linked.yaml", '"a\\0b"', '"../a\\0b"'])
def test_names_do_not_come_from_outside_the_tree(tree, named):
    (tree.parent / "outside.yaml").write_text("tag: private\n")
    (tree / "linked.yaml").symlink_to(tree.parent / "outside.yaml")
    (tree / "thrush.yaml").write_text(f"task: thrush\ninclude: {named}\n")
    entries = index_tree(tree)
    assert "private" not in entries
    assert entries["thrush"].kind == "task"  # reading it says what is wrong
