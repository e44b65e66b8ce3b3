"""Python expressions in replies: computed, never run."""

import os
import subprocess
import sys

import pytest

from kshot.cleanups.config_names import CLEANUP_FUNCTIONS, cleanup_function
from kshot.cleanups.literals import NO_VALUE, computed


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" 1 + 2 * 3", 7),
        ("2**10 // 3 % 7 - -1", 6),
        ("'a' 'b' + 'c'", "abc"),
        ("[1, (2, 3), {'a': None}, {4}]", [1, (2, 3), {"a": None}, {4}]),
        ("1 < 2 <= 2 != 3", True),
        ("3 in [1, 2] or not 0", True),
        ("0 and 1", 0),
        ("'yes' if 1 > 2 else 'no'", "no"),
        ("[5, 6][1]", 6),
    ],
)
def test_plain_values_are_computed(text, value):
    assert computed(text) == value
    assert type(computed(text)) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        *("open('x')", "A", "().__class__", "[x for x in (1,)]", "lambda: 1", "f'{1}'", "(x := 1)", "{**{}}", "1 << 9"),
        *("9**9**9", "10**9999 * 10**9999", "'a' * 999999999", "999999999 * [0]", "'%999999999d' % 1", "1/0", "1 +"),
        *("'a' + 1", "[1][2]", "[" * 5000, "{[]: 1}", "[['a' * 1000] * 1000] * 3", "[" + "'a' * 100000, " * 20 + "]"),
        *("[[[[[[0] * 99] * 99] * 99] * 99] * 99] * 99", "('a' * 500000 + 'b') + ('a' * 500000 + 'b')"),
    ],
)
def test_everything_else_is_refused_at_once(text):
    with pytest.raises(NO_VALUE):
        computed(text)


def test_sets_are_written_alike_in_every_process():
    code = (
        "from kshot.cleanups.literals import computed, literal\n"
        "for read in (computed, literal):\n"
        "    print(read(\"[{'b', 'a', 'c', 1}, {('x', 2), 'y'}, {3, 1, 20}]\"))"
    )
    lines = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        lines |= set(ran.stdout.splitlines())
    assert lines == {f"[{{'a', 'b', 'c', 1}}, {{'y', ('x', 2)}}, { {3, 1, 20} }]"}
    assert computed("{'a'}") == {"a"}


def test_each_project_reads_a_value_in_its_own_way():
    def wrapper(framework):
        return cleanup_function("general_eval_wrapper_postprocess", framework)

    assert wrapper("")("[1, 2]") == "[1, 2]"
    assert wrapper("opencompass")("[1, 2]") == wrapper("ais_bench")("[1, 2]") == [1, 2]
    assert (wrapper("opencompass")("1 + 1"), wrapper("ais_bench")("1 + 1")) == (2, "1 + 1")
    assert wrapper("ais_bench")("'so the answer is yes: no'", postprocess="bbh-freeform") == "yes: no"
    assert wrapper("opencompass")("'so the answer is yes: no'", postprocess="bbh-freeform") == "Yes"
    with pytest.raises(TypeError):
        wrapper("opencompass")("['a']", postprocess="general")
    assert CLEANUP_FUNCTIONS["humaneval_internal_v1_postprocess"]("1/0") == "    1/0"
    with pytest.raises(ZeroDivisionError):
        cleanup_function("humaneval_internal_v1_postprocess", "ais_bench")("1/0")
