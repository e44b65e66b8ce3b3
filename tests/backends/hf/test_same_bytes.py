"""Equal requests get equal numbers, to the last bit."""

import itertools
import random
import time

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: kshot[hf]")
transformers = pytest.importorskip("transformers")

from kshot.backends.hf import model_runner  # noqa: E402
from kshot.backends.hf.model import Transformers  # noqa: E402
from kshot.core.errors import BackendError, UsageError  # noqa: E402
from kshot.core.records import Generate, Loglik, Prompt  # noqa: E402
from tests.tiny_models import answers_of, ask_all, build, distinct_prefixes, tokenizer_of  # noqa: E402

STEM = "The capital of France is Paris. The capital of Germany is Berlin. Hello world, hello there! "
WORDS = ("people", "say", "that", "a", "quick", "brown", "fox", "jumps", "over the lazy dog", "the answer is", "hello")
CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")


def words(rng, low, high):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(low, high)))


def mixed(count, seed=0):
    """Questions with a long common beginning or none, options of different lengths, texts to write, greedy and sampled."""
    rng = random.Random(seed)
    requests = []
    for number in range(count):
        prompt = Prompt(f"{STEM * (7 if number % 4 else 0)}Question {number}: {words(rng, 1, 25)}?")
        if number % 3 < 2:
            options = tuple(" " + words(rng, 1, 9) for _ in range(1 + number % 5))
            # The second one reads the same tokens, and wants the predictions of fewer.
            requests += [Loglik(prompt, options), Loglik(Prompt(f"{prompt.text} hello"), (" people say hello",))]
            requests += [Loglik(prompt, (" hello people say hello",))]
        else:
            sampled = {"temperature": 0.9, "top_p": 0.8, "seed": number} if number % 2 else {}
            requests.append(Generate(prompt, max_tokens=1 + number % 7, **sampled))
    return requests


# ---- a plain repetition ----


def test_the_clock_has_no_say(tiny_llama, monkeypatch):
    """Whichever row looks fast on this machine now, the rows are the same."""
    requests = [
        Loglik(Prompt(f"{STEM * 3}Question {at}: what is the answer to {at * 7}?\nAnswer:"), (" A", " the dog", " B."))
        for at in range(300)
    ]

    def answers_by(ticks):
        clock = itertools.accumulate(ticks)
        for name in CLOCKS:
            monkeypatch.setattr(time, name, lambda: next(clock))
        backend = Transformers(str(tiny_llama), device="cpu")
        backend._runner  # noqa: B018 - it reads the signature of the model, so it comes before the patch
        shapes, forward = [], backend._model.forward

        def watched(*args, **options):
            shapes.append(options["input_ids"].shape)
            return forward(*args, **options)

        monkeypatch.setattr(backend._model, "forward", watched)
        found = ask_all(backend, requests)
        monkeypatch.undo()
        return found, shapes

    slower, faster = (answers_by(ticks) for ticks in (itertools.count(1), (1 / at for at in itertools.count(1))))
    assert sum(shape.numel() for shape in slower[1]) > 5000
    assert slower == faster


# ---- deterministic ----


@pytest.fixture(scope="module")
def opened():
    """Opens deterministic models, and closes them: torch has one switch for the whole process."""
    models = []

    def open_model(folder, **options):
        models.append(Transformers(str(folder), device="cpu", deterministic=True, **options))
        return models[-1]

    yield open_model
    for model in models:
        model.close()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A model that is tree-packed, and two that run in plain batches: for ALiBi, and for a window."""
    place = tmp_path_factory.mktemp("deterministic")
    tokenizer = tokenizer_of(bos=False)
    size = {"vocab_size": len(tokenizer), "bos_token_id": 0, "eos_token_id": 1, "initializer_range": 0.2}
    llama = {**size, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    configs = {
        "alibi": transformers.BloomConfig(hidden_size=48, n_layer=2, n_head=4, **size),
        "window": transformers.MistralConfig(**llama, num_key_value_heads=2, sliding_window=40),
    }
    for name, config in configs.items():
        with torch.random.fork_rng():
            torch.manual_seed(1)
            transformers.AutoModelForCausalLM.from_config(config).save_pretrained(place / name)
        tokenizer.save_pretrained(place / name)
    build("llama", place / "packed")
    return place


@pytest.mark.parametrize("kind", ["packed", "alibi", "window"])
def test_an_answer_depends_on_its_request_alone(folders, opened, kind):
    requests = mixed(18)
    together = dict(answers_of(opened(folders / kind), requests))
    for size, seed in ((1, 1), (3, 2), (64, 3)):
        order = random.Random(seed).sample(requests, len(requests) - seed)
        later = order[: 6 * seed]
        found = dict(answers_of(opened(folders / kind, batch_size=size), order[6 * seed :], later))
        assert found == {request: together[request] for request in order}
    for request in requests[:4]:
        assert ask_all(opened(folders / kind), [request]) == [together[request]]


def test_beginnings_are_computed_once_in_blocks_and_with_the_same_bits(folders, opened, monkeypatch):
    requests = [request for request in mixed(24, seed=5) if request.prompt.text.startswith(STEM)]
    backend = opened(folders / "packed")
    found = ask_all(backend, requests)
    sharing = backend.token_counts
    # Where nothing is cached, each block is computed again.
    monkeypatch.setattr(model_runner.PackedModel, "cached_tokens", lambda _: [])
    single = opened(folders / "packed")
    assert ask_all(single, requests) == found
    assert (
        distinct_prefixes(backend, requests)
        < sharing.computed
        < single.token_counts.computed - 128 * (len(requests) // 2)
    )


def test_memory_does_not_decide_how_a_request_is_cut(folders, opened, monkeypatch):
    backend = opened(folders / "packed")
    backend._runner  # noqa: B018 - the trial must come before the patch

    def full(**_options):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(backend._model, "forward", full)
    for request in (Loglik(Prompt(STEM), (" A", " B")), Generate(Prompt(STEM))):
        with pytest.raises(BackendError, match="out of memory"):
            ask_all(backend, [request])


def test_the_fingerprint_tells_what_the_last_digits_depend_on(folders, monkeypatch):
    def fingerprint(**options):
        return Transformers(str(folders / "packed"), **{"device": "cpu", **options}).fingerprint

    plain, first = fingerprint(), fingerprint(deterministic=True)
    assert plain == fingerprint(deterministic=False) == fingerprint(row_tokens=64)
    assert first == fingerprint(deterministic=True, batch_size=3)
    others = [fingerprint(deterministic=True, row_tokens=64)]
    with monkeypatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: 61)
        assert fingerprint() == plain
        others.append(fingerprint(deterministic=True))
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "99.0")
        others.append(fingerprint(deterministic=True))
    assert len({plain, first, *others}) == 5


def test_torch_is_told_to_be_deterministic_until_the_last_model_closes(folders):
    def switches():
        enabled = torch.are_deterministic_algorithms_enabled()
        return enabled, torch.utils.deterministic.fill_uninitialized_memory

    before = switches()
    one, two = (Transformers(str(folders / "packed"), device="cpu", deterministic=True) for _ in range(2))
    for model in (one, two):
        ask_all(model, [Loglik(Prompt("Hello"), (" world",))])
    assert switches() == (True, False)
    one.close()
    assert switches() == (True, False)
    two.close()
    two.close()
    assert switches() == before
    ask_all(Transformers(str(folders / "packed"), device="cpu"), [Loglik(Prompt("Hello"), (" world",))])
    assert switches() == before


def test_other_devices_promise_nothing(folders):
    with pytest.raises(UsageError, match="deterministic cannot be promised on the device meta"):
        Transformers(str(folders / "packed"), device="meta", deterministic=True)
