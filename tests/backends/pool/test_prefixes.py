"""Workers share the beginnings of prompts as one process does: each computes a prefix once at most."""

from functools import partial

import pytest

from kshot.backends.hf.model import Transformers
from kshot.backends.pool.dispatcher import Dispatcher
from kshot.backends.pool.model import PooledModel, TravellingFiles, open_spec
from kshot.backends.pool.processes import Processes
from kshot.core.records import Loglik, Prompt
from tests.cases import some
from tests.tiny_models import CORPUS, ask_all, distinct_prefixes

pytest.importorskip("torch")

WORKERS = 2


def requests(prefixes, questions):
    texts = [(" ".join(CORPUS[number:] + CORPUS[:number]) * 2)[:700] for number in range(prefixes)]
    return [
        Loglik(
            Prompt(f"{text}\nQuestion {number}: what is {number * 37 % 101}? Answer:"), (" hello", " the dog", " Paris")
        )
        for number in range(questions)
        for text in texts
    ]


@pytest.mark.parametrize(("prefixes", "questions"), some([(4, 50), (1, 160)], 1))
def test_tokens_that_are_computed(tiny_llama, prefixes, questions):
    asked = requests(prefixes, questions)
    plain = Transformers(str(tiny_llama))
    expected = ask_all(plain, asked)
    trie = distinct_prefixes(plain, asked)
    longest = max(len(plain._tokenizer.encode(request.prompt.text)) for request in asked)
    job = partial(open_spec, f"hf:{tiny_llama}", {}, TravellingFiles())
    pool = PooledModel(Dispatcher(Processes([{}] * WORKERS), job, WORKERS, where="tiny"))
    try:
        while not all(worker.is_open for worker in pool._dispatcher.workers):  # so that none of them does it all
            list(pool._dispatcher.step())
            pool._dispatcher.call("count_tokens", "a")
        found = ask_all(pool, asked)
        requested, computed = pool.abilities.tokens_read()
        shares = [report.tokens[0] for report in pool._dispatcher.reports()]
    finally:
        pool.close()
    assert all(shares), "each worker did some of it"
    assert requested == plain.token_counts.requested
    assert computed <= 1.1 * (trie + prefixes * longest * WORKERS)
    assert computed < requested / 3
    for one, other in zip(expected, found, strict=True):
        for a, b in zip(one.likelihoods, other.likelihoods, strict=True):
            assert a.logprob == pytest.approx(b.logprob, abs=1e-4)
            assert (a.tokens, a.greedy) == (b.tokens, b.greedy)
