"""Work in a thread: the caller that waits gets the result, the error, or that it was given up."""

import threading

import pytest

from kshot.core.errors import RunError, UsageError
from kshot.viewer.background import Abandoned, Background


def test_the_result_and_the_share_come_from_the_work():
    work = Background(lambda progress: progress(0.5) or "done", "test")
    assert work.result() == "done"
    assert (work.is_done, work.share, work.error) == (True, 1.0, None)


def test_work_that_is_given_up_says_so():
    going_on = threading.Event()
    work = Background(lambda progress: going_on.wait() and progress(0.5), "test")
    work.abandon()
    going_on.set()
    with pytest.raises(Abandoned):
        work.result()
    assert (work.is_given_up, work.error, work.share) == (True, None, 0.0)


def test_each_who_waits_gets_an_error_of_the_same_words():
    def fails(_):
        raise UsageError("it is wrong", where="here", hint="Do that.")

    work = Background(fails, "test")
    for _ in range(2):
        with pytest.raises(UsageError, match="it is wrong") as raised:
            work.result()
        assert (raised.value.where, raised.value.hint) == ("here", "Do that.")


def test_what_nobody_has_foreseen_is_an_error_that_names_it():
    work = Background(lambda _: 1 / 0, "test")
    with pytest.raises(RunError, match="ZeroDivisionError: division by zero"):
        work.result()
