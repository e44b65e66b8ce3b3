"""What a backend of one's own may get wrong: one error that names it, and nothing wrong is kept."""

import numpy as np
import pytest

import kshot
from kshot import MultipleChoiceDataset
from kshot.core import records
from kshot.core.errors import BackendError
from kshot.core.validation import checked_response
from tests.datasets.fakes import Fake, from_rows

TEXT, PAIR, FOUND = (
    records.Generate(records.Prompt("q")),
    records.Loglik(records.Prompt("q"), (" a", " b")),
    records.Search("q", 2),
)


def scored(*pairs):
    return records.Scored(tuple(records.Likelihood(*pair) for pair in pairs))


def ranked(*pairs):
    return records.Ranking(tuple(records.Hit(*pair) for pair in pairs))


WRONG = {
    "another kind": (TEXT, scored((-1.0, 1)), "answered a Generate request with Scored"),
    "a ranking": (PAIR, records.Ranking(()), "answered a Loglik request with Ranking"),
    "nothing": (TEXT, None, "with NoneType"),
    "no text": (TEXT, records.Generated(None), "gave None where a text belongs"),
    "bytes": (TEXT, records.Generated(b"x"), "where a text belongs"),
    "usage": (TEXT, records.Generated("x", usage=(1, 2)), "where token counts belong"),
    "too few": (PAIR, scored((-1.0, 1)), "1 likelihoods for 2 continuations"),
    "too many": (PAIR, scored((-1.0, 1), (-1.0, 1), (-1.0, 1)), "3 likelihoods for 2"),
    "NaN": (PAIR, scored((-1.0, 1), (float("nan"), 1)), "log-probability nan"),
    "infinite": (PAIR, scored((-1.0, 1), (float("inf"), 1)), "log-probability inf"),
    "above 0": (PAIR, scored((-1.0, 1), (0.5, 1)), "log-probability 0.5"),
    "no tokens": (PAIR, scored((-1.0, 1), (-1.0, 0)), "over 0 tokens"),
    "no flag": (PAIR, scored((-1.0, 1), (-1.0, 1, "yes")), "'yes' where it says whether a text is greedy"),
    "cut of a text": (TEXT, records.Generated("x", cut_tokens=-1), "-1 where the number of cut tokens belongs"),
    "cut of a pair": (
        PAIR,
        records.Scored(scored((-1.0, 1), (-1.0, 1)).likelihoods, cut_tokens=0.5),
        "0.5 where the number",
    ),
    "too many passages": (FOUND, ranked(("a", 2.0), ("b", 1.0), ("c", 0.0)), "3 passages where 2 were asked for"),
    "a passage twice": (FOUND, ranked(("a", 2.0), ("a", 1.0)), "a passage twice"),
    "no score": (FOUND, ranked(("a", float("nan"))), "the score nan"),
    "another order": (FOUND, ranked(("a", 1.0), ("b", 2.0)), "'b' a better score than the one before"),
    "no id": (FOUND, ranked((3, 1.0)), "where a passage belongs"),
    "text for a number": (PAIR, scored((-1.0, 1), ("-1", 1)), "log-probability -1"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_responses(kind):
    request, response, message = WRONG[kind]
    with pytest.raises(BackendError, match=f"mine: it .*{message}"):
        checked_response(request, response, "mine")


def test_a_text_that_the_model_rules_out_is_a_failure_of_its_request():
    assert checked_response(PAIR, scored((-1.0, 1), (-float("inf"), 1)), "mine") == records.Failed(
        "impossible", "the model gives ' b' the probability 0"
    )


def test_numpy_numbers_become_plain_ones_and_failures_pass():
    given = scored((np.float32(-1.5), np.int64(2)), (-1.0, 1))
    assert checked_response(PAIR, given, "mine") == scored((-1.5, 2), (-1.0, 1))
    assert type(checked_response(PAIR, given, "mine").likelihoods[0].logprob) is float
    flagged = checked_response(PAIR, scored((-1.5, 2, np.True_), (-1.0, 1, None)), "mine")
    assert [each.greedy for each in flagged.likelihoods] == [True, None]
    assert type(flagged.likelihoods[0].greedy) is bool
    assert checked_response(TEXT, records.Failed("down", "x"), "mine") == records.Failed("down", "x")


QUIZ = from_rows(
    MultipleChoiceDataset, [{"q": f"q{i}", "options": ["a", "b"], "target_idx": 0} for i in range(3)], instruction="{q}"
)


def test_a_wrong_response_is_never_kept_so_a_mended_backend_is_asked(tmp_path):
    broken = Fake(lambda r: scored((float("nan"), 1), (-1.0, 1)))
    with pytest.raises(BackendError, match="log-probability nan"):
        kshot.evaluate(broken, QUIZ, out=tmp_path / "run")
    mended = Fake(lambda r: scored((-1.0, 1), (-2.0, 1)))
    assert kshot.evaluate(mended, QUIZ, out=tmp_path / "run").results[0]["value"] == 100.0


class Raises(Fake):
    def serve(self, waiting):
        for number, request in enumerate(waiting):
            if number == 2:
                raise ConnectionError("refused")
            yield request, self.answer(request)


class Idle(Fake):
    def serve(self, waiting):
        return iter(())


class Mumbles(Fake):
    def serve(self, waiting):
        waiting.take()
        yield 3


class Nothing(Fake):
    def serve(self, waiting):
        return None


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Raises, "fake: it failed: ConnectionError: refused. The answers so far are kept"),
        (Idle, "fake: it took none of 1 waiting requests"),
        (Mumbles, "fake: it yielded 3, not a request with its response"),
        (Nothing, "fake: it failed: TypeError"),
    ],
)
def test_backends_that_misbehave(kind, message, tmp_path):
    backend = kind(lambda r: scored((-1.0, 1), (-2.0, 1)))
    with pytest.raises(BackendError, match=message):
        kshot.evaluate(backend, QUIZ, out=tmp_path / "run")
    with pytest.raises(BackendError) as told:
        kshot.evaluate(kind(backend.answer), QUIZ)
    assert "kept" not in str(told.value)  # without a folder nothing is
    kept = (tmp_path / "run" / "journal.jsonl").read_text().splitlines()
    assert len(kept) == (2 if kind is Raises else 0)
    assert not list((tmp_path / "run").glob(".*draft"))


@pytest.mark.parametrize("usage", [("a", None), (-1, 2), (True, 2), (1.5, 2)])
def test_token_counts_are_whole_numbers(usage):
    for request, response in (
        (TEXT, records.Generated("x", usage=records.Usage(*usage))),
        (PAIR, records.Scored((records.Likelihood(-1.0, 1),) * 2, records.Usage(*usage))),
    ):
        with pytest.raises(BackendError, match="where token counts belong"):
            checked_response(request, response, "fake")
    with pytest.raises(BackendError, match="where a tuple of likelihoods belongs"):
        checked_response(PAIR, records.Scored((-1.0, -2.0)), "fake")
