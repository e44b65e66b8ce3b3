"""Strategies for records: requests, responses, messages."""

import math

from hypothesis import strategies as st

from kshot.core import records
from tests.fuzz.harness import any_text

counts = st.integers(0, 10**12)
numbers = st.floats(allow_nan=False, allow_infinity=False)
messages = st.builds(records.Message, st.sampled_from(["system", "user", "assistant"]), any_text)
rules = st.sampled_from(["kshot", "lm-eval"])
chats = st.builds(records.Prompt, st.just(""), st.lists(messages, max_size=4).map(tuple), rules=rules)
prompts = st.builds(records.Prompt, any_text, rules=rules) | chats
usages = st.none() | st.builds(records.Usage, counts, counts)
texts = st.lists(any_text, max_size=3).map(tuple)

token_logprobs = st.none() | st.lists(st.tuples(any_text, st.floats(-1e9, 0)), max_size=4).map(tuple)
generated = st.builds(
    records.Generated, any_text, st.sampled_from(["stop", "length", "window"]), usages, any_text, counts, token_logprobs
)
likelihoods = st.builds(
    records.Likelihood,
    st.floats(max_value=0, allow_nan=False) | st.just(-math.inf),
    st.integers(1, 10**6),
    st.none() | st.booleans(),
    token_logprobs,
)
scored = st.builds(records.Scored, st.lists(likelihoods, max_size=4).map(tuple), usages, counts)
rankings = st.builds(
    records.Ranking, st.lists(st.builds(records.Hit, any_text, numbers, any_text), max_size=4).map(tuple)
)
failures = st.builds(records.Failed, any_text, any_text, st.booleans())
responses = st.one_of(generated, scored, rankings, failures)

generates = st.builds(
    records.Generate,
    prompts,
    st.integers(1, 10**6),
    st.floats(0, 2),
    texts,
    st.none() | st.floats(0, 1),
    st.none() | st.integers(1, 100),
    seed=st.none() | st.integers(0, 2**31),
    replica=st.integers(0, 9),
    token_logprobs=st.booleans(),
)
logliks = st.builds(
    records.Loglik,
    prompts,
    texts,
    listed=st.booleans(),
    rolling=st.sampled_from([None, "auto", "bos", "eos", "none"]),
    spaced=st.booleans(),
    token_logprobs=st.booleans(),
)
searches = st.builds(
    records.Search,
    any_text,
    st.integers(1, 1000),
    st.lists(st.tuples(any_text, any_text), max_size=3).map(tuple),
    any_text,
)
requests = st.one_of(generates, logliks, searches)
