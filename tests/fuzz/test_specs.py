"""Specs and options: any text is read or refused; what is written is read back."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Optional

from hypothesis import strategies as st

from kshot.cleanups import make_cleanup
from kshot.core.errors import UsageError
from kshot.core.options import options_from
from kshot.core.specs import construct, option_text, parse_spec, read_option, split_names, split_options, with_options
from kshot.metrics.judge import read_scale
from kshot.metrics.ranking import checked_measures, parse_measure
from kshot.passages.built_in_chunkers import built_in_chunker
from kshot.settings import Settings
from kshot.studies.example_draws import parse_seeds
from tests.fuzz.harness import HUGE_INT, Told, any_text, fuzz, json_values, told

pieces = st.sampled_from(
    [
        "bm25",
        "mine.py",
        ":",
        "Class",
        ",",
        "=",
        "\\,",
        "\\",
        "k1",
        "1.2",
        " ",
        "~",
        "/",
        "+",
        "@",
        "10",
        "t",
        "nDCG",
        "AC_Recall",
        "topk",
        "random",
        "recursive",
        "500",
        "64",
        "parts",
        "tokenizer",
        "words",
        "unit",
        HUGE_INT,
        "-1",
        "-",
        "–",
        "to",
    ]
)
specs = st.lists(pieces | any_text, max_size=10).map("".join)
option_names = st.from_regex(r"[A-Za-z_]\w{0,6}", fullmatch=True)


@fuzz(specs, examples=100)
def test_any_text_is_a_spec_or_refused(text):
    spec = told(parse_spec, text, kind=UsageError, where=text)
    if not isinstance(spec, Told):
        assert spec.text == text
        told(lambda: construct(dict, spec), kind=UsageError)
    for name in split_names(text):
        assert name.lstrip() == name
        assert name.rstrip() == name or "=" in name  # blanks may be the value of an option
    for read in (parse_seeds, make_cleanup, built_in_chunker, read_scale, parse_measure):
        told(read, text)
    told(checked_measures, split_names(text), evidence=True)
    told(checked_measures, split_names(text), evidence=False)


@fuzz(
    st.from_regex(r"[a-z.]{1,8}", fullmatch=True),
    st.dictionaries(option_names, st.text(st.characters(exclude_characters="\\"), max_size=8), max_size=4),
)
def test_options_that_are_written_are_read_back(name, options):
    assert split_options(name + option_text(options)) == (name, options)


HINTS = [int, float, bool, str, "int | None", "Sequence[int]", "Sequence[float] | None", Optional[int],  # noqa: UP045 - as people write it
    Sequence[int], "Callable[[int], int]", "Literal['a', 'b']", Mapping[str, int], "tuple[bool, ...]", "list[str] | str", inspect.Parameter.empty, "a b c", "x[", object(), "int" * 9, "((((((" * 30]  # fmt: skip


@fuzz(st.sampled_from(HINTS), st.sampled_from([inspect.Parameter.empty, None, 1, "x", (1, 2), True]), specs | any_text)
def test_an_option_of_any_annotation_is_read_or_refused(hint, default, text):
    parameter = inspect.Parameter("size", inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)
    told(read_option, parameter, text, "here", kind=UsageError, where="here")


@fuzz(st.sampled_from(sorted(Settings.declared())), json_values(depth=2), specs)
def test_settings_take_any_value_or_refuse_it(name, value, text):
    settings = told(options_from, Settings, {name: value}, kind=UsageError)
    if not isinstance(settings, Told):
        assert settings.identity() == options_from(Settings, settings.changed()).identity()
    told(with_options, Settings(), parse_spec(f"x,{name}={text.replace(',', '')}"), kind=UsageError)


@fuzz(
    st.sampled_from(["recursive", "tokens", "windows", "lines", "headings"]),
    st.integers(1, 500),
    st.integers(0, 60),
    st.integers(1, 4),
)
def test_a_chunker_is_written_as_it_is_read(name, size, overlap, parts):
    made = told(built_in_chunker, f"{name}:{size}/{overlap},parts={parts}", kind=UsageError)
    if not isinstance(made, Told):
        assert built_in_chunker(str(made)) == made


@fuzz(
    st.sampled_from(["AC_MRR", "AC_Recall", "nDCG", "AP", "P", "R", "RR"]),
    st.integers(1, 10**6),
    st.sampled_from(["", "t"]),
)
def test_a_measure_is_written_as_it_is_read(name, cutoff, unit):
    made = told(parse_measure, f"{name}@{cutoff}{unit}", kind=UsageError)
    if not isinstance(made, Told):
        assert parse_measure(str(made)) == made
