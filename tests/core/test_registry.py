"""Specs, options, and what they name: built in, in a file, in an installed package."""

import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from kshot.core.errors import DataError, UsageError
from kshot.core.plugin_files import load_plugin_file, module_name
from kshot.core.registry import Entry, Registry, bind_options, construct, parse_spec, split_names, split_options


@pytest.mark.parametrize(
    ("text", "file", "argument"),
    [
        ("a.py", "a.py", ""),
        ("a.py:Name", "a.py", "Name"),
        ("a.py:Name:sub1,sub2", "a.py", "Name:sub1,sub2"),
        ("/x/my.python/foo.py:Cls", "/x/my.python/foo.py", "Cls"),
        ("dir.py/foo.py:Cls", "dir.py/foo.py", "Cls"),
    ],
)
def test_specs_of_files(text, file, argument):
    spec = parse_spec(text)
    assert (spec.file, spec.argument, spec.options) == (Path(file), argument, {})


@pytest.mark.parametrize(
    ("text", "name", "argument", "options"),
    [
        ("bm25", "bm25", "", {}),
        ("bm25,k1=1.2,b=0", "bm25", "", {"k1": "1.2", "b": "0"}),
        ("hf:model.python", "hf", "model.python", {}),
        ("hf:a,b/c:d,dtype=float16", "hf", "a,b/c:d", {"dtype": "float16"}),
        ("mmlu:[stem]", "mmlu", "[stem]", {}),
        ("arc:ARC-Easy,ARC-Challenge,num_shots=2", "arc", "ARC-Easy,ARC-Challenge", {"num_shots": "2"}),
        ("x,url=http://h/?a=b", "x", "", {"url": "http://h/?a=b"}),
    ],
)
def test_specs_of_names(text, name, argument, options):
    spec = parse_spec(text)
    assert (spec.file, spec.name, spec.argument, spec.options) == (None, name, argument, options)
    assert spec.option_text == "".join(f",{key}={value}" for key, value in options.items())


def test_a_piece_with_an_equals_sign_belongs_to_the_name_before_it():
    assert split_names("em,f1,multiref=mean,ignore=no,rouge") == ["em", "f1,multiref=mean,ignore=no", "rouge"]
    assert split_names(" a , b ") == ["a", "b"]
    assert split_names("mine.py:Contains,case=no") == ["mine.py:Contains,case=no"]


def test_an_option_given_twice_is_an_error():
    with pytest.raises(UsageError, match="the option 'k1' is given twice"):
        split_options("bm25,k1=1,k1=2")


class Parent:
    def __init__(self, rows, *, seed: int = 1, exact: bool = False) -> None:
        self.rows, self.seed, self.exact = rows, seed, exact


class Child(Parent):
    """A child that hands options on."""

    def __init__(self, rows, scale: float = 1.0, label: "str | None" = "x", **options) -> None:
        super().__init__(rows, **options)
        self.scale, self.label = scale, label


def test_options_are_read_as_annotations_say_and_reach_the_parents():
    made = construct(Child, parse_spec("child,scale=2,seed=7,exact=yes,label=none"), [1])
    assert (made.rows, made.scale, made.seed, made.exact, made.label) == ([1], 2.0, 7, True, None)
    made = construct(Child, parse_spec("child,seed=7"), [1], seed=3, scale=5.0, unknown=1, label=None)
    assert (made.seed, made.scale, made.label) == (7, 5.0, "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("child,sead=7", r"child,sead=7: there is no option 'sead'. It knows: scale, label, seed, exact"),
        ("child,seed=x", r"the option 'seed' is 'x'; it must be a whole number"),
        ("child,scale=nan", r"the option 'scale' is 'nan'; it must be a number"),
        ("child,exact=perhaps", r"it must be yes or no"),
        ("child,rows=3", r"there is no option 'rows'"),
    ],
)
def test_wrong_options(text, message):
    with pytest.raises(UsageError, match=message):
        construct(Child, parse_spec(text), [1])


def several(
    ks: int | Sequence[int] | None = None,
    names: "Sequence[str]" = (),
    text: "str | Sequence[str]" = "",
    flags: "bool | list[int | None]" = False,
    bare: tuple = (),
    weights: "Mapping[str, float] | None" = None,
    clean: "Callable[[str], str] | None" = None,
):
    return {"ks": ks, "names": names, "text": text, "flags": flags, "bare": bare, "weights": weights, "clean": clean}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("ks=1", 1),
        ("ks=1+10", (1, 10)),
        ("ks=none", None),
        ("names=a", ("a",)),
        ("names=a+b", ("a", "b")),
        ("text=c++", "c++"),
        ("flags=yes", True),
        ("flags=1+2", (1, 2)),
        ("bare=a+b", ("a", "b")),
        ("weights=none", None),
    ],
)
def test_several_values_are_written_with_a_plus(option, value):
    made = construct(several, parse_spec(f"several,{option}"))
    assert made[option.partition("=")[0]] == value


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("ks=1+x", "the option 'ks' is 'x'; it must be a whole number"),
        ("weights=a", "several,weights=a: the option 'weights' is a Mapping, which cannot be written as text. Write a"),
        ("clean=strip", "the option 'clean' is a Callable, which cannot be written as text"),
    ],
)
def test_values_that_cannot_be_written(option, message):
    with pytest.raises(UsageError, match=message):
        construct(several, parse_spec(f"several,{option}"))


def test_options_of_a_function_are_bound():
    def shorten(text, size: int = 3):
        return text[:size]

    assert bind_options(shorten, parse_spec("shorten"))("abcdef") == "abc"
    assert bind_options(shorten, parse_spec("shorten,size=2"))("abcdef") == "ab"
    with pytest.raises(UsageError, match=r"there is no option 'text'. It knows: size"):
        bind_options(shorten, parse_spec("shorten,text=a"))


def test_an_option_without_a_default_is_asked_for():
    def needs(text, *, pattern: str):
        return pattern

    with pytest.raises(UsageError, match=r"it needs the option 'pattern'. Write …,pattern=VALUE"):
        construct(needs, parse_spec("needs"), "text")


def things(*entries, **more):
    return Registry("things", "thing", [Entry("child", f"{__name__}:Child", "built in"), *entries], **more)


def test_a_second_registration_names_both():
    with pytest.raises(UsageError, match=r"two things are called 'child': .*:Child \(kshot\) and other:Thing \(me 2\)"):
        things(Entry("child", "other:Thing", origin="me 2"))
    registry = things()
    with pytest.raises(UsageError, match="two things are called 'child'"):
        registry.add(Entry("child", "other:Thing"))


def test_unknown_names_suggest_the_closest():
    with pytest.raises(UsageError, match=r"there is no thing 'chidl'. Did you mean 'child'\? See kshot list things"):
        things().get("chidl")
    assert things(any_case=True).get("Child").name == "child"


def test_a_package_that_cannot_be_imported_is_named():
    registry = things(Entry("gone", "no_such_module:Thing", origin="broken-package 1.0"))
    with pytest.raises(UsageError, match=r"the package broken-package 1.0 says that 'gone' is no_such_module:Thing"):
        registry.get("gone").load()


# ---- files ----


def test_a_file_may_import_its_neighbours_and_the_only_class_needs_no_name(tmp_path):
    (tmp_path / "neighbour_of_plugin.py").write_text("VALUE = 3\n")
    file = tmp_path / "one.py"
    file.write_text("from neighbour_of_plugin import VALUE\ndef helper(): ...\nclass Only:\n    value = VALUE\n")
    assert things().load(parse_spec(f"{file}"))[0].value == 3
    assert things().load(parse_spec(f"{file}:helper"))[0].__name__ == "helper"
    with pytest.raises(DataError, match=r"there is no thing 'Other' in this file. It has: helper, Only"):
        things().load(parse_spec(f"{file}:Other"))
    file.write_text("class A: ...\nclass B: ...\n")
    with pytest.raises(DataError, match=r"this file has 2 things that could be a thing. Write .*one.py:NAME"):
        things().load(parse_spec(f"{file}"))


def test_a_neighbour_never_shadows_an_installed_module(tmp_path):
    (tmp_path / "colorsys.py").write_text("raise RuntimeError('shadowed')\n")
    (tmp_path / "one.py").write_text("import colorsys\nclass Only:\n    value = colorsys.rgb_to_hsv(0, 0, 0)\n")
    code = (
        f"from kshot.core.plugin_files import *; print(load_plugin_file(Path({str(tmp_path / 'one.py')!r})).Only.value)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(0.0, 0.0, 0)"


def test_a_file_is_loaded_once_and_anew_when_it_was_edited(tmp_path):
    file = tmp_path / "counted.py"
    file.write_text("class Thing:\n    size = 1\n")
    first = load_plugin_file(file)
    assert load_plugin_file(tmp_path / "." / "counted.py") is first
    file.write_text("class Thing:\n    size = 2\n")
    assert load_plugin_file(file).Thing.size == 2


def test_objects_of_a_file_can_be_unpickled_in_another_process(tmp_path):
    file = tmp_path / "shipped.py"
    file.write_text("class Thing:\n    def __init__(self, size):\n        self.size = size\n")
    packed = pickle.dumps(load_plugin_file(file).Thing(7))
    code = (
        "import pickle, sys; from pathlib import Path; from kshot.core.plugin_files import load_plugin_file\n"
        f"load_plugin_file(Path({str(file)!r})); print(pickle.loads({packed!r}).size)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "7"
    assert module_name(file).startswith("kshot_plugin_shipped_")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class Thing(:\n", r"broken.py:1: this is not Python"),
        ("x = 1\ny = x / 0\n", r"broken.py:2: the file cannot be imported: ZeroDivisionError"),
        ("import sys\nsys.exit(3)\n", r"broken.py:2: the file cannot be imported: SystemExit: 3"),
    ],
)
def test_files_that_fail_are_named_with_their_line(tmp_path, text, message):
    file = tmp_path / "broken.py"
    file.write_text(text)
    for _ in range(2):  # a failed file is not taken for a loaded one
        with pytest.raises(DataError, match=message):
            load_plugin_file(file)
    with pytest.raises(DataError, match="there is no such file"):
        load_plugin_file(tmp_path / "absent.py")
