"""Which part of a text each token shows: by where tokens end, and by decoding them."""

from kshot.backends.texts import ScoredSpans, read_pieces, scored_pieces, summed_pieces, written_pieces
from kshot.core.records import Likelihood, Loglik, Prompt, Scored


def test_pieces_by_the_ends_of_tokens():
    assert read_pieces("Hi there", [2, 8], 0) == [("Hi", 1), (" there", 1)]
    assert read_pieces("The sky is blue", [8, 15], 7) == [(" ", 1), ("is blue", 1)]
    # three tokens are the bytes of one character, and end with it
    assert read_pieces("a日b", [1, 2, 2, 2, 3], 0) == [("a", 1), ("日", 3), ("b", 1)]
    # white space that belongs to no token: before a token, and at the end
    assert read_pieces("a  b ", [1, 4], 0) == [("a", 1), ("  b ", 1)]
    assert read_pieces("ab", [], 0) == []


def test_pieces_of_documents():
    assert scored_pieces("ab", [1, 2], 2) == [("a", 1), ("b", 1)]
    assert scored_pieces("ab", [1, 2], 1) == [("b", 1)]
    assert scored_pieces("ab", [1, 2], 3) == [("", 1), ("a", 1), ("b", 1)]


def decode_bytes(before, tokens):
    """A byte-level tokenizer: each token is one byte."""
    whole = bytes([*before, *tokens]).decode("utf-8", "replace")
    return whole[len(bytes(before).decode("utf-8", "replace")) :]


def test_pieces_by_decoding_join_the_bytes_of_a_character():
    tokens = list("a日🙂".encode())
    assert written_pieces(decode_bytes, (), tokens) == [("a", 1), ("日", 3), ("🙂", 4)]
    assert written_pieces(decode_bytes, list(b"xy"), tokens[:3]) == [("a", 1), ("\ufffd", 2)]
    assert written_pieces(decode_bytes, (), [255, 97]) == [("\ufffda", 2)]
    assert written_pieces(decode_bytes, (), []) == []


def test_pieces_by_decoding_whole_prefixes_where_far_tokens_matter():
    def decode(before, tokens):
        """A tokenizer whose first token of all shows its space, and no other does; twelve and more become capitals."""
        text = "".join(f" w{token}" for token in tokens)
        return text if len(before) + len(tokens) < 12 else text.upper()

    pieces = written_pieces(decode, (), range(12))
    assert "".join(text for text, _ in pieces) == decode((), range(12))
    assert sum(count for _, count in pieces) == 12


def summed(parts, values=None, **options):
    """Add the likelihoods of all spans, the last one first; return the response."""
    spans = ScoredSpans(Loglik(Prompt("p"), ("a",)), [None] * len(parts), **options)
    found = [spans.add(at, parts[at], (values or [()] * len(parts))[at]) for at in reversed(range(len(parts)))]
    assert found[:-1] == [None] * (len(parts) - 1)
    return found[-1]


def test_values_are_summed_by_piece():
    assert summed_pieces([("a", 1), ("日", 3)], [-1.0, -2.0, -3.0, -4.0]) == (("a", -1.0), ("日", -9.0))
    found = summed([Likelihood(-3.0, 2)], [[-1.0, -2.0]], pieces=[[("ab", 2)]])
    assert found == Scored((Likelihood(-3.0, 2, token_logprobs=(("ab", -3.0),)),))


def test_windows_are_summed_by_document():
    parts = [Likelihood(-1.0, 1, greedy=True), Likelihood(-2.0, 2, greedy=False), Likelihood(-4.0, 3)]
    assert summed(parts, windows=[2, 1]) == Scored((Likelihood(-3.0, 3, greedy=False), Likelihood(-4.0, 3)))
    assert summed(parts, cut_tokens=5) == Scored(tuple(parts), cut_tokens=5)
