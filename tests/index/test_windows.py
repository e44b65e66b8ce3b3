"""Windows: whole words, nothing left out, never too long."""

import pytest
from hypothesis import given, strategies as st

from kshot.core.errors import BackendError
from kshot.index import windows as module
from kshot.index.windows import cut, tokenised, windows

pytest.importorskip("transformers", reason="needs kshot[hf]")


@pytest.fixture(scope="module")
def tokenizer():
    from tests.tiny_encoders import tiny_tokenizer

    return tiny_tokenizer(24)


TEXTS = st.text(alphabet="abz .\n日é\t-", max_size=120) | st.lists(
    st.sampled_from(["cat", "dog", "zzz", ".", "qqqqqqqqqqqq"])
).map(" ".join)


@given(TEXTS, st.integers(1, 9), st.data())
def test_windows_cover_the_text_and_fit(tokenizer, text, size, data):
    stride = data.draw(st.integers(1, size))
    ((_, tokens),) = tokenised(tokenizer, [text])
    found = windows(text, tokens, size, stride)
    covered = set()
    for window in found:
        assert window.tokens <= size
        covered |= {at for at in range(len(tokens.ids)) if window.begin <= tokens.begins[at] < window.end}
    assert covered == set(range(len(tokens.ids)))
    assert len({window.begin for window in found}) == len(found)
    longest_word = max((len(word) for word in text.split()), default=0)
    if longest_word <= size:  # then no word is divided, and a window by itself has just its tokens
        for window in found:
            own = tokenizer(text[window.begin : window.end], add_special_tokens=False)["input_ids"]
            assert len(own) == window.tokens


@given(st.lists(TEXTS, max_size=5), st.sampled_from([4, 16]))
def test_pieces_give_the_tokens_of_the_whole(tokenizer, texts, piece):
    texts = [" ".join(text.split()) for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE_CHARACTERS", 10_000)
        whole = [tokens for _, tokens in tokenised(tokenizer, texts)]
        patch.setattr(module, "_PIECE_CHARACTERS", piece)
        patch.setattr(module, "_BATCH_CHARACTERS", 40)
        parts = [tokens for _, tokens in tokenised(tokenizer, texts)]
    assert len(parts) == len(texts)
    for text, one, other in zip(texts, whole, parts, strict=True):
        if all(len(word) <= piece // 2 - 1 for word in text.split()):  # no word had to be divided
            assert [part.tolist() for part in one] == [part.tolist() for part in other]
        assert other.ends.tolist() == sorted(other.ends.tolist())


def test_cut_numbers_windows_and_counts_texts(tokenizer):
    texts = ["cat dog " * 4, "", "cat"]
    found = cut(tokenizer, texts, 4, 2)
    assert found.owners.tolist() == [0, 0, 0, 1, 2]
    assert found.tokens.tolist() == [4, 4, 4, 0, 1]
    assert [pieces for _, pieces in found.batches(texts, 3)] == [["cat dog cat dog"] * 3, ["", "cat"]]
    number = tokenizer.convert_tokens_to_ids
    assert [int(found.frequencies[number(word)]) for word in ("cat", "dog", "fox")] == [2, 1, 0]


def test_a_tokenizer_without_offsets_is_refused():
    with pytest.raises(BackendError, match="does not say where in a text"):
        list(tokenised(object(), ["a"]))
