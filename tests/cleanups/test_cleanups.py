"""Clean-ups by name: what each takes from a reply, and where names come from."""

import pytest

from kshot.cleanups import CLEANUPS, config_names, make_cleanup
from kshot.cleanups.config_names import CLEANUP_FUNCTIONS
from kshot.cleanups.formulas import boxed
from kshot.cleanups.letters import letter, letter_index, lettered
from kshot.cleanups.programs import completed_program
from kshot.core.errors import UsageError
from kshot.core.registry import Entry
from tests.fuzz.harness import watched


def clean(name, text, **more):
    return CLEANUP_FUNCTIONS[name](text, **more)


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [
        ("first_capital_postprocess", "the answer B, not C", "B"),
        ("first_capital_postprocess", "none", ""),
        ("last_capital_postprocess", "B or C?", "C"),
        ("first_capital_postprocess_multi", "so ACD it is", "ACD"),
        ("multiple_select_postprocess", "C and A and C", "AC"),
        ("general_postprocess", "The cat, and a dog.", "cat"),
        ("general_postprocess", " A  big\nthing", "big"),
        ("gsm8k_postprocess", "3 + 4.5 is 7.5. Question: 9", "7.5"),
        ("gsm8k_postprocess", "none", "NULL"),
        ("gsm8k_dataset_postprocess", "First 3.\n#### 1,200", "1200"),
        ("math_postprocess_v2", r"so \boxed{\frac{1}{2}} is it", r"\frac{1}{2}"),
        ("math_postprocess_v2", "We think. The answer is $x = 12$. Good.", "x=12"),
        ("math_postprocess_v2", r"\boxed{{3}} and not \boxed{{4}}", "4"),
        ("math_postprocess_v2", r"\fbox{3}. The answer is 5 cm", "5"),
        ("math_postprocess", "Hm. The final answer is $42$. I hope", "42"),
        ("humaneval_postprocess", "Sure:\n```python\ndef f():\n    return 1\n```\nbye", "def f():\n    return 1\n"),
        ("humaneval_postprocess_v3", "```\na\n```\n```\nb\n```", "b\n"),
        ("extract_non_reasoning_content", "<think>hm\nhm</think> yes", "yes"),
        ("extract_non_reasoning_content", "a<think>b</think>c<think>d</think>e<think>f", "ace<think>f"),
        ("extract-non-reasoning-content", "hm hm</think> yes", "yes"),
        ("bbh_mcq_postprocess", "So the answer is (C).", "C"),
        ("bbh_freeform_postprocess", "so the answer is **left turn**.", "left turn"),
        ("first_number_postprocess", "about 3.5 or 4", 3.5),
        ("general_eval_wrapper_postprocess", "'yes'", "yes"),
        ("general_eval_wrapper_postprocess", "0x" + "f" * 6000, "0x" + "f" * 6000),  # a number that str() refuses
    ],
)
def test_clean_ups(name, text, answer):
    assert clean(name, text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The answer is B", "B"),
        ("A is wrong, so the answer is (C).", "C"),
        ("The correct answer is: **D**", "D"),
        ("答案是 C", "C"),
        ("答案：B", "B"),
        ("故选 D。", "D"),
        ("B. because A is wrong", "B"),
        (r"hence \boxed{C}", "C"),
        (r"The correct answer is at last" + "\n" + r"$\boxed{D}$, not A at all", "D"),
        ("A then C 故选：B！", "A"),  # no form, so the first letter
        ("答案是中国的。 B", "B"),
        ("C", "C"),
        ("Answer: A", "A"),
        ("nothing", ""),
        ("I choose option (B) here", "B"),
    ],
)
def test_first_option(text, answer):
    assert clean("first_option_postprocess", text, options="ABCD") == answer


def test_clean_ups_with_options():
    assert clean("first_option_postprocess", "hmmB:", options="ABCD", cushion=False) == ""
    assert clean("last_option_postprocess", "B then A", options="AB") == "A"
    assert clean("last_option_postprocess", "none", options="AB") == ""
    assert clean("match_answer_pattern", "Answer: 3\nAnswer: 4", answer_pattern=r"Answer: (\d)") == "3"
    assert clean("xml_tag_postprocessor", "<a>1</a><a>2</a>", tag="<a>") == "2"
    assert clean("think_pred_postprocess", "x [y]", re_pattern=r"\[(.)\]") == "y"
    assert clean("general_eval_wrapper_postprocess", "['The b']", postprocess="general") == "b"


def test_boxed_braces_balance():
    assert boxed(r"\boxed{a} and \boxed{\frac{1}{2}}") == r"\frac{1}{2}"
    assert boxed(r"\boxed{a") is None
    assert boxed("none") is None


# ---- letters ----


def test_letters_are_those_of_spreadsheets():
    assert [letter(index) for index in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]
    assert lettered([" yes", "no"]) == ["A. yes", "B. no"]


def test_letters_name_their_index():
    assert [letter_index(letter(index)) for index in (0, 25, 26, 701, 702)] == [0, 25, 26, 701, 702]


# ---- programs ----

HEAD = 'def add(a, b):\n    """Add."""\n'


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        ("    return a + b", "\n    return a + b"),
        ("return a + b", "\n    return a + b"),
        ("\n    return a + b", "\n    return a + b"),
        ("Sure:\n```python\ndef add(a, b):\n    return a + b\n```", "\n\ndef add(a, b):\n    return a + b"),
        ("```\n    return a + b\n```\nIt adds.", "\n    return a + b"),
    ],
)
def test_a_reply_completes_a_function(reply, body):
    program = completed_program(HEAD, "add", reply)
    assert program == HEAD.rstrip() + body
    space = {}
    exec(program, space)
    assert space["add"](1, 2) == 3


# ---- names ----


def test_every_name_is_in_the_registry():
    assert [entry.name for entry in CLEANUPS.entries() if entry.origin == "kshot"] == list(CLEANUP_FUNCTIONS)
    for name, function in CLEANUP_FUNCTIONS.items():
        entry = CLEANUPS.get(name)
        assert entry.load() is function
        assert entry.text.endswith(".")


def test_a_name_is_given_once(monkeypatch):
    monkeypatch.setattr(config_names, "_NAMES", {str.upper: ("a", "b"), str.lower: ("b",)})
    with pytest.raises(ValueError, match="two clean-ups are called 'b': upper and lower"):
        config_names._table()
    with pytest.raises(UsageError, match="two cleanups are called 'strip'"):
        CLEANUPS.add(Entry("strip", "mine:strip", origin="mine 1.0"))


def test_clean_ups_by_spec(tmp_path):
    assert make_cleanup("first-option,options=AB,cushion=no")("The answer is B") == "B"
    assert make_cleanup("xml_tag_postprocessor,tag=a")("<a>1</a>") == "1"
    file = tmp_path / "mine.py"
    file.write_text(
        "def shout(text, mark='!'):\n    return text.upper() + mark\n"
        "class First:\n    def __init__(self, n: int = 1):\n        self.n = n\n"
        "    def __call__(self, text):\n        return text[: self.n]\n"
    )
    assert make_cleanup(f"{file}:shout,mark=?")("a") == "A?"
    assert make_cleanup(f"{file}:First,n=2")("abc") == "ab"
    with pytest.raises(UsageError, match=r"no option 'colour'.*It knows: mark"):
        make_cleanup(f"{file}:shout,colour=red")
    with pytest.raises(UsageError, match=r"no clean-up 'dreamt'"):
        make_cleanup("dreamt")


@watched
@pytest.mark.parametrize(
    ("name", "unit", "more"),
    [
        ("extract_non_reasoning_content", "<think>", {}),
        ("xml_tag_postprocessor", "<a>", {"tag": "a"}),
    ],
)
def test_a_reply_that_only_opens_takes_no_quadratic_time(name, unit, more):
    """A search that starts over at each of them would take hours, and end in the watch over hangs."""
    reply = unit * 1_000_000
    assert clean(name, reply, **more) in (reply, "NO ANSWER FOUND")


def test_a_reply_with_odd_literals_gives_no_warning(recwarn):
    assert clean("general_eval_wrapper_postprocess", "1if 2else 3") == "1if 2else 3"
    assert not recwarn
