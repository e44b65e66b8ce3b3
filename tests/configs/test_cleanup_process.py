"""Clean-ups whose options a config gives: they may be patterns that never end."""

import pytest

from kshot.cleanups.config_names import CLEANUP_FUNCTIONS, cleanup_function
from kshot.configs.answers import cleaner, extraction, one_cleaned
from kshot.configs.confine import CLEANED, OF_PACKAGES, TookTooLong
from kshot.configs.scope import Scope
from kshot.core.errors import DataError
from kshot.core.records import AskFailed, Sample


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(CLEANED, "seconds", 0.2)


def clean_up(kind, **options):
    return cleaner({"type": kind, **options}, Scope("here"))


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        ("match_answer_pattern", {"answer_pattern": r"(?i)answer\s*:\s*([A-D])"}, "Answer: B\nanswer: C"),
        ("match_answer_pattern", {"answer_pattern": r"(?P<x>\d+)|(y)"}, "12 y é \ud800"),
        ("think_pred_postprocess", {"re_pattern": r"</think>\s*(.*)"}, "<think>a</think> b"),
        ("general_eval_wrapper_postprocess", {"postprocess": "first-capital"}, "'the Answer'"),
        ("first_option_postprocess", {"options": "ABCD"}, "The answer is (B)."),
        ("last_option_postprocess", {"options": "A-D"}, "A, then C. E"),
    ],
)
def test_it_gives_what_the_function_gives(kind, options, text):
    assert clean_up(kind, **options)(text) == CLEANUP_FUNCTIONS[kind](text, **options)


@pytest.mark.parametrize("options", ["x]|(x+x+)+y[", "^A", "A\\", "]"])
def test_letters_are_no_pattern(options):
    for kind in ("first_option_postprocess", "last_option_postprocess"):
        assert clean_up(kind, options=options)("x" * 5000) in {"", "x"}


def test_a_pattern_without_end_is_one_failed_sample(quick):
    config = {"pred_postprocessor": {"type": "match_answer_pattern", "answer_pattern": "(x+x+)+y"}}
    extract = extraction(config, None, {}, Scope("here"))
    with pytest.raises(AskFailed, match=r"\(x\+x\+\)\+y.*takes more than 0.2 s") as caught:
        extract(Sample("1", {}), "x" * 5000)
    assert caught.value.failed.kind == "clean_up"
    assert extract(Sample("2", {}), "xxxy") == "xxx"  # a new process, the next sample


def test_a_reference_that_takes_too_long_is_one_message(quick):
    clean = clean_up("match_answer_pattern", answer_pattern="(a|aa)+$")
    with pytest.raises(TookTooLong, match="here: match_answer_pattern"):
        clean("a" * 200 + "b")


def test_too_much_memory_is_one_failed_sample_that_says_so(quick, monkeypatch):
    monkeypatch.setattr(CLEANED, "seconds", 60.0)
    clean = clean_up("match_answer_pattern", answer_pattern=r"\A(?:(x)|(y))*z")
    with pytest.raises(AskFailed, match=r"takes more than \d+ MB for the text 'xxx"):
        one_cleaned(clean, "x" * 10_000_000)  # the search remembers where each of them is
    assert clean("xxz") == "x"


def test_a_process_that_is_killed_while_it_works_is_one_failed_sample(quick, monkeypatch):
    clean = clean_up("match_answer_pattern", answer_pattern="(x)")
    process = CLEANED._process
    ask = process.ask

    def killed(*given):
        process._process.end()
        return ask(*given)

    monkeypatch.setattr(process, "ask", killed)
    with pytest.raises(AskFailed, match=r"does not finish on the text 'x': its process ended"):
        one_cleaned(clean, "x")
    assert clean("x") == "x"


def test_a_process_that_was_killed_while_it_had_nothing_to_do_fails_no_sample(quick):
    clean = clean_up("match_answer_pattern", answer_pattern="(x)")
    CLEANED._process._process.end()
    assert one_cleaned(clean, "x") == clean("x") == "x"


@pytest.mark.parametrize("function", ["kshot.configs._no_such_module:cleaned", None])
def test_a_process_that_cannot_start_is_an_error_of_the_run(quick, monkeypatch, function):
    clean = clean_up("match_answer_pattern", answer_pattern="(x)")
    CLEANED.close()
    if function:
        monkeypatch.setattr(CLEANED, "function", function)
    else:
        monkeypatch.setattr("subprocess.Popen", _no_process)
    with pytest.raises(DataError, match="cannot start") as caught:
        one_cleaned(clean, "x")
    assert not isinstance(caught.value, TookTooLong)
    monkeypatch.undo()
    assert clean("x") == "x"


def _no_process(*_args, **_options):
    raise BlockingIOError(11, "Resource temporarily unavailable")


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "(" * 5000 + ")" * 5000, "a{99999999999}", 7])
def test_a_pattern_that_cannot_be_read_is_told_before_a_model_is_asked(pattern):
    with pytest.raises(DataError, match="here: match_answer_pattern"):
        clean_up("match_answer_pattern", answer_pattern=pattern)


def test_a_reply_on_which_it_fails_is_one_failed_sample():
    config = {"pred_postprocessor": {"type": "ais_bench.benchmark.datasets.math_postprocess_v2"}}
    extract = extraction(config, None, {}, Scope("here"))
    with pytest.raises(AskFailed, match=r"math_postprocess_v2 fails on .*the last box is") as caught:
        extract(Sample("1", {}), r"\fbox{3}")
    assert caught.value.failed.kind == "clean_up"
    assert extract(Sample("2", {}), r"\boxed{3}") == "3"
    with pytest.raises(DataError, match="here: gsm8k_dataset_postprocess fails on '12'"):  # a reference
        cleaner({"type": "opencompass.datasets.gsm8k_dataset_postprocess"}, Scope("here"))("12")


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("first_option_postprocess", {}, "missing a required argument: 'options'.*It takes: options, cushion"),
        ("first_option_postprocess", {"options": "AB", "colour": 1}, "unexpected keyword argument 'colour'"),
        ("mgsm_postprocess", {"lang": "xx"}, "there is no 'xx'"),
        ("gsm8k_postprocess", {"tag": "x"}, "unexpected keyword argument 'tag'.*It takes: no options"),
        ("LLM4Chem_postprocess", {"task": "cooking"}, "'cooking'"),
    ],
)
def test_wrong_options_are_told_before_a_model_is_asked(kind, options, said):
    with pytest.raises(DataError, match=f"(?s)here: {kind}.*{said}"):
        clean_up(kind, **options)


def test_a_formula_without_end_is_read_as_text(monkeypatch):
    pytest.importorskip("latex2sympy2_extended")
    monkeypatch.setattr(OF_PACKAGES[cleanup_function("TheoremQA_postprocess_v3")], "seconds", 30.0)
    clean = clean_up("opencompass.datasets.TheoremQA_postprocess_v3")
    assert clean(r"The answer is $\frac{1}{4}$") == "0.25"
    assert clean("The answer is 9^{9^{9^{9}}}") == "9^{9^{9^{9}}}"
