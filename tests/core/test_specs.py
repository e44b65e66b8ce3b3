"""Specs taken apart, and options read as annotations say."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from kshot.core.errors import UsageError
from kshot.core.specs import (
    bind_options,
    construct,
    join_values,
    parse_spec,
    read_option,
    split_names,
    split_options,
    split_values,
)


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


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        ("int | float", "0.5", 0.5),
        ("int | float", "3", 3),
        ("int | str", "abc", "abc"),
        ("Optional[int]", "none", None),
        ("typing.Optional[int]", "3", 3),
        ("Union[int, None]", "none", None),
        (list[int], "1+10", (1, 10)),
        (tuple[int, ...], "4", (4,)),
        (int | None, "none", None),
        ("str | Iterable[str] | None", "a+b", ("a", "b")),
        ("str | Iterable[str] | None", "c++", "c++"),
        ("collections.abc.Sequence[float]", "0.5+1", (0.5, 1.0)),
        ("Literal['a', 'b']", "a", "a"),
        ("Callable[[str], int] | str", "x", "x"),
    ],
)
def test_annotations_of_every_form(annotation, text, value):
    parameter = inspect.Parameter("option", inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
    assert read_option(parameter, text, "here") == value


def test_a_comma_in_a_value_is_escaped():
    spec = parse_spec(r"match,pattern=\d{1\,3},k=2")
    assert spec.options == {"pattern": r"\d{1,3}", "k": "2"}
    assert spec.option_text == r",pattern=\d{1\,3},k=2"
    assert split_names(r"em,match,pattern=\d{1\,3},f1") == ["em", r"match,pattern=\d{1\,3}", "f1"]


def test_a_plus_in_one_of_several_values_is_written_with_a_backslash():
    values = ["1+1", "2", "+", ""]
    assert join_values(values) == r"1\+1+2+\++"
    assert split_values(join_values(values)) == values
    stops = inspect.Parameter("stop", inspect.Parameter.KEYWORD_ONLY, annotation="Sequence[str]")
    assert read_option(stops, join_values(["a+b", "c"]), "here") == ("a+b", "c")
