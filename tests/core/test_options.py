"""Options: declared by their owners, joined by inheritance, checked as they are declared."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from kshot.core.errors import UsageError
from kshot.core.options import Options, flag, option, options_from
from kshot.core.specs import parse_spec, with_options


@dataclass(frozen=True, kw_only=True)
class Camera(Options):
    lens: str = option("wide", "which lens", choices=("wide", "long"))
    aperture: float | None = option(None, "width of the opening", kind=float, above=0, most=32)
    focus: float | None = option(None, "distance in metres", kind=float, above=0)
    shutter: float = option(0.5, "seconds", kind=float, least=0)
    frames: tuple[int, ...] | None = option(None, "numbers of frames", kind=int, listed=True, least=1)


@dataclass(frozen=True, kw_only=True)
class Film(Options):
    speed: int = option(100, "sensitivity", kind=int, least=1, most=6400)
    marks: tuple[str, ...] | None = option(None, "texts on the film", repeat=True)
    colour: bool | None = option(None, "whether it is in colour", kind=bool)
    shelf: str | None = option(None, "where it lies", identity=False)


@dataclass(frozen=True, kw_only=True)
class Kit(Film, Camera):
    """Both."""


def test_joined_settings_have_the_options_of_all_owners_in_order():
    assert list(Kit.declared()) == [*Camera.declared(), *Film.declared()]
    assert Kit(speed=400).values() == {**Camera().values(), **Film(speed=400).values()}
    assert isinstance(Kit(), Camera)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lens": "short"}, "--lens is 'short'; it must be one of wide, long"),
        ({"aperture": 0.0}, "--aperture is 0.0; it must be above 0 and at most 32"),
        ({"aperture": 33.0}, "--aperture is 33.0; it must be above 0 and at most 32"),
        ({"aperture": float("nan")}, "--aperture is nan; it must be a finite number"),
        ({"focus": -2.0}, "--focus is -2.0; it must be above 0"),
        ({"shutter": float("inf")}, "--shutter is inf; it must be a finite number"),
        ({"shutter": -0.1}, "--shutter is -0.1; it must be 0 or more"),
        ({"frames": (3, 0)}, "--frames is 0; it must be 1 or more"),
        ({"speed": 0}, "--speed is 0; it must be from 1 to 6400"),
        ({"speed": 6401}, "--speed is 6401; it must be from 1 to 6400"),
    ],
)
def test_a_value_outside_of_what_is_declared_is_refused(values, message):
    with pytest.raises(UsageError) as caught:
        Kit(**values)
    assert str(caught.value) == message


def test_the_borders_of_a_range_are_allowed():
    Kit(aperture=32.0, shutter=0.0, frames=(1,), speed=6400)
    Kit(aperture=None, frames=None, speed=1)


def test_changed_leaves_out_defaults_and_other_owners():
    kit = Kit(lens="long", speed=100, marks=("a",), shelf="top")
    assert kit.changed() == {"lens": "long", "marks": ("a",), "shelf": "top"}
    assert kit.changed(Camera) == {"lens": "long"}
    assert kit.changed(Camera, Film) == kit.changed()


def test_the_identity_holds_what_a_result_depends_on_and_no_default():
    assert Kit().identity() == {}
    assert Kit(lens="wide", speed=100).identity() == {}
    assert Kit(marks=("a", "b"), shelf="top", colour=False).identity() == {"marks": ["a", "b"], "colour": False}


def test_an_option_that_is_added_changes_no_identity():
    @dataclass(frozen=True, kw_only=True)
    class Later(Kit):
        grain: int = option(5, "an option that came later", kind=int)

    assert Later(speed=400).identity() == Kit(speed=400).identity()
    assert Later(speed=400, grain=6).identity() == {"speed": 400, "grain": 6}


def test_python_values_become_those_of_the_options():
    kit = options_from(Kit, {"marks": "one", "frames": [1, 2], "shutter": 2, "shelf": Path("here"), "speed": None})
    assert (kit.marks, kit.frames, kit.shutter, kit.shelf, kit.speed) == (("one",), (1, 2), 2.0, "here", 100)
    assert isinstance(kit.shutter, float)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"speed": True}, "speed is True; it must be int"),
        ({"speed": "fast"}, "speed is 'fast'; it must be int"),
        ({"frames": [1, "two"]}, "frames is 'two'; it must be int"),
        ({"colour": 1}, "colour is 1; it must be bool"),
        ({"sped": 1}, "there is no option 'sped'. Options: aperture, colour, focus, frames"),
    ],
)
def test_other_python_values_are_refused(values, message):
    with pytest.raises(UsageError) as caught:
        options_from(Kit, values)
    assert message in str(caught.value)


def test_the_options_of_a_spec_change_the_settings():
    before = Kit(lens="long")
    changed = with_options(before, parse_spec("album,speed=400,frames=1+2,marks=x,colour=yes"))
    assert changed == Kit(lens="long", speed=400, frames=(1, 2), marks=("x",), colour=True)
    assert with_options(before, parse_spec("album")) is before
    assert with_options(before, None) is before
    with pytest.raises(UsageError, match=r"album,sped=1: there is no option 'sped'\. Options: aperture"):
        with_options(before, parse_spec("album,sped=1"))


def test_a_flag_is_spelled_with_hyphens():
    assert flag("max_tokens") == "--max-tokens"
