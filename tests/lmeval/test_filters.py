import pytest

from kshot.lmeval.filters import FILTERS, WITH_PATTERNS, without_patterns


def applied(name, responses, docs=None, **options):
    return FILTERS[name](responses, docs or [{} for _ in responses], **options)


def test_the_first_response_is_taken_out_of_its_list():
    assert applied("take_first", [["a", "b"], ["c"]]) == ["a", "c"]


def test_the_first_k_stay_a_list_and_must_be_there():
    assert applied("take_first_k", [["a", "b", "c"]], k=2) == [["a", "b"]]
    with pytest.raises(ValueError, match="asks for 4 responses and there are 3"):
        applied("take_first_k", [["a", "b", "c"]], k=4)


def test_the_majority_is_a_list_of_one_and_the_first_wins_a_tie():
    assert applied("majority_vote", [["a", "b", "b"], ["x", "y"]]) == [["b"], ["x"]]


def test_texts_change_case_and_lose_white_space_at_their_ends():
    assert applied("lowercase", [["Ab"]]) == [["ab"]]
    assert applied("uppercase", [["Ab"]]) == [["AB"]]
    assert applied("remove_whitespace", [[" a b\n"]]) == [["a b"]]


def test_a_table_replaces_what_it_lists():
    assert applied("map", [["A", "Z"]], mapping_dict={"A": 0}, default_value=-1) == [[0, -1]]
    assert applied("map", [["A"]]) == [[None]]


def test_named_entities_are_written_in_one_form():
    reply = "Person: Ada, None$$Country: Kenya\nDATE: today"
    assert applied("format_span", [[reply]]) == [["per: ada $ loc: kenya $ date: today"]]


def test_tags_are_taken_from_pairs():
    assert applied("regex_pos", [["[('dogs', 'NOUN'), ('bark', 'VERB')]", "none"]]) == [[["NOUN", "VERB"], ["invalid"]]]


def test_a_pattern_takes_the_number_after_hashes_by_default():
    assert applied("regex", [["so\n#### 1,234", "no number", None]]) == [["1,234", "[invalid]", "[invalid]"]]


def test_a_pattern_may_choose_the_last_match_and_the_group_that_took_part():
    found = applied("regex", [["1 then B"]], regex_pattern=r"(\d)|([A-Z])", group_select=-1)
    assert found == [["B"]]
    assert applied("regex", [["zz"]], regex_pattern=r"(x)?(y)?", fallback="none") == [["none"]]


def test_a_match_that_is_out_of_range_is_an_error():
    with pytest.raises(IndexError):
        applied("regex", [["1"]], regex_pattern=r"\d", group_select=2)


def test_an_option_is_found_by_the_pattern_then_by_its_text_then_by_a_letter():
    docs = [{"choices": ["Guilty", "Guilty of Romance", "Not at all"]}]
    options = {"regex_pattern": r"(\([A-Z]\))", "ignore_case": True, "ignore_punctuation": True}
    replies = ["It is (C).", "I say: guilty of, romance!", "answer: B", "nothing"]
    assert applied("multi_choice_regex", [replies], docs, **options) == [["(C)", "(B)", "(B)", "[invalid]"]]


def test_an_option_without_letters_matches_nothing():
    docs = [{"choices": ["...", "b"]}]
    found = applied("multi_choice_regex", [["what"]], docs, regex_pattern="(z)", ignore_punctuation=True)
    assert found == [["[invalid]"]]


def test_patterns_remove_one_after_the_other():
    assert without_patterns([r"\$", ","], ["$1,000", "2"]) == ["1000", "2"]


def test_filters_with_patterns_of_the_file_are_those_that_take_one():
    assert {"regex", "multi_choice_regex"} == WITH_PATTERNS
