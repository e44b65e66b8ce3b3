"""Clean-ups and answer rules: no reply makes one raise, hang or give what is no answer."""

import inspect

from hypothesis import strategies as st

from kshot.cleanups import CLEANUP_PACKAGES
from kshot.cleanups.answer_pattern import AnswerPattern
from kshot.cleanups.chosen_option import NO_OPTION, chosen_option
from kshot.cleanups.config_names import CLEANUP_FUNCTIONS
from kshot.cleanups.formulas import boxed, normalize_final_answer
from kshot.cleanups.letters import letter, letter_index
from kshot.cleanups.patterns import extract_non_reasoning_content, xml_tag_postprocessor
from kshot.cleanups.programs import completed_program
from kshot.core.errors import UsageError
from kshot.core.records import AskFailed
from tests.fuzz.harness import Told, any_text, fuzz, told
from tests.fuzz.replies import replies, short, words

NEEDS = {
    "re_pattern": r"answer is (.*)",
    "answer_pattern": r"answer is (.*)",
    "tag": "<answer>",
    "options": "ABCD",
    "lang": "en",
    "lang_code": "en",
    "lang_fullname": "English",
    "compare_number": 1.5,
    "property": "SOC",
    "task": "property_prediction-esol",
}
"""What clean-ups need besides the reply, by the name of the parameter."""


def needed(function):
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return {p.name: NEEDS[p.name] for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD}


NAMES = sorted(name for name, function in CLEANUP_FUNCTIONS.items() if function not in CLEANUP_PACKAGES)
IDEMPOTENT = {"strip", "TriviaQA", "multiple-select", "first-capital", "last-capital", "first-capital-multi"}

options = st.lists(words | short, min_size=1, max_size=5) | st.just(["London", "Paris", "Rome", "Berlin"])


@fuzz(replies, examples=15)
def test_every_cleanup_takes_any_reply(reply):
    for name in NAMES:
        found = CLEANUP_FUNCTIONS[name](reply, **needed(CLEANUP_FUNCTIONS[name]))
        assert found is None or isinstance(found, (str, int, float, list, dict)), name
        if name in IDEMPOTENT:
            assert CLEANUP_FUNCTIONS[name](found) == found, name


@fuzz(
    st.sampled_from(["'{}'", '"{}"', "[{}]", "({},)", "{{{}: 1}}", "{}", "0x{}", "-{}", "{}j", "b'{}'"]),
    any_text | st.sampled_from(["f" * 6000, "9" * 6000, "[" * 3000, "-" * 9000]),
)
def test_a_reply_that_is_a_literal(form, inner):
    assert isinstance(CLEANUP_FUNCTIONS["general_eval_wrapper"](form.format(inner)), str)


@fuzz(replies, options, examples=40)
def test_a_chosen_option_is_an_option(reply, given):
    found = chosen_option(reply, given)
    assert found.index == NO_OPTION or 0 <= found.index < len(given)
    assert found.rule
    assert chosen_option(reply, given) == found


@fuzz(
    st.integers(0, 3),
    st.sampled_from(["{}", "{}.", "({})", "The answer is {}", "Answer: {}", "\\boxed{{{}}}", "答案是{}", "**{}**"]),
    st.sampled_from(["", "\n", "  ", "\r\n"]),
)
def test_a_plain_choice_is_read(index, form, end):
    assert chosen_option(form.format("ABCD"[index]) + end, ["one", "two", "three", "four"]).index == index


@fuzz(
    replies,
    options,
    st.sampled_from([r"answer is \(?([A-D])", r"(\d+)", r"(.*)", r"(x+x+)+y", r"(a|b)?(c)?", r"[A-D]", r"\S+"]),
)
def test_an_answer_pattern_finds_text_of_the_reply(reply, given, pattern):
    rule = AnswerPattern(pattern)
    try:
        text, why = rule.answer(reply)
        chosen = rule.option(reply, given)
    except AskFailed as exc:
        assert exc.failed.kind == "answer_pattern"
        return
    assert text in reply
    assert why
    assert chosen.rule
    assert chosen.index == NO_OPTION or 0 <= chosen.index < len(given)


@fuzz(st.text("()[]{}|*+?\\.^$AZaz09,-:=!<>P&~ \n#", max_size=20) | any_text, short)
def test_an_answer_pattern_of_any_text_works_or_is_refused(pattern, reply):
    rule = told(AnswerPattern, pattern, kind=UsageError)
    if not isinstance(rule, Told):
        try:
            rule.answer(reply)
            rule.option(reply, ["one", "two"])
        except AskFailed as exc:
            assert exc.failed.message


@fuzz(st.integers(0, 10**6))
def test_letters_and_indices_are_inverse(index):
    assert letter_index(letter(index)) == index


@fuzz(st.text("{}x\\ ", max_size=30), any_text, any_text)
def test_a_box_is_found_where_its_braces_balance(inside, before, after):
    balanced = inside.count("{") == inside.count("}") and all(
        inside[:end].count("{") >= inside[:end].count("}") for end in range(len(inside))
    )
    found = boxed(f"{before}\\boxed{{{inside}}}{after}")
    if balanced and "\\boxed" not in after and "\\fbox" not in after:
        assert found == inside


@fuzz(short)
def test_a_normalised_answer_stays(text):
    once = normalize_final_answer(text)
    assert isinstance(once, str)
    assert len(once) <= 3 * len(text) + 20


@fuzz(short, any_text.filter(lambda tag: tag.strip("<>/ ")))
def test_a_tag_gives_what_it_encloses(inside, tag):
    name = tag.strip("<>/ ")
    whole = f"<{name}>{inside}</{name}>"
    if f"</{name}>" not in inside and f"<{name}>" not in inside and whole.count(f"</{name}>") == 1:
        assert xml_tag_postprocessor(f"before {whole} after", tag) == inside.strip()


@fuzz(replies)
def test_thoughts_are_left_out_for_good(reply):
    once = extract_non_reasoning_content(reply)
    assert "<think>" not in once or "</think>" not in once.partition("<think>")[2]


@fuzz(any_text, st.from_regex(r"[a-z_]\w{0,5}", fullmatch=True), short)
def test_a_completed_program_holds_its_head_and_the_reply(prompt, function, reply):
    program = completed_program(prompt, function, reply)
    assert program.startswith(prompt.rstrip())
