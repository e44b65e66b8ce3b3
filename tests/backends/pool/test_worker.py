"""A worker that gives back all that waits can take more: nobody else would say so."""

from kshot.backends.pool.worker import WorkQueue


def test_an_inbox_that_is_emptied_says_so_whoever_empties_it():
    said = []
    inbox = WorkQueue(lambda: said.append("begun"))
    inbox.add([(1, "a")])
    assert inbox.give_back() == (1,)
    assert said == ["begun"]
    assert inbox.give_back() == ()
    assert said == ["begun"]
    inbox.add([(2, "b"), (3, "c"), (4, "d")])
    assert inbox.take(2) == [(2, "b"), (3, "c")]
    assert said == ["begun"]  # one still waits
    assert inbox.give_back() == (4,)
    assert said == ["begun", "begun"]
