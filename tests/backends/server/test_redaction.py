"""Keys that a server quotes: whole, in other letters, or cut anywhere, nothing long of one is shown or written."""

import base64
import traceback
from contextlib import closing

import pytest

from kshot.backends.server.keys import redacted
from kshot.core.errors import BackendError
from kshot.core.records import Generate, Message, Prompt
from tests.backends.server.clients import connect
from tests.backends.server.lying_server import LyingServer, answer, head, http
from tests.tiny_models import ask_all

KEY = "sk-proj-Zq7Wm2Rt9Yk4Pd6Hs1Xv8Bn3Lc5Fj0GaTeUiOoMxQ27"
PIECE = 12


def pieces(key, length=PIECE):
    return {key[i : i + length].lower() for i in range(len(key) - length + 1)}


def shown_pieces(text, key=KEY):
    return {piece for piece in pieces(key) if piece in text.lower()}


@pytest.mark.parametrize("change", [str, str.lower, str.upper, str.swapcase])
def test_any_long_piece_of_a_key_is_removed_wherever_it_stands(change):
    for start in range(len(KEY) - PIECE + 1):
        for stop in range(start + PIECE, len(KEY) + 1):
            lead = "x " * (start % 9)
            assert redacted(f"{lead}<{change(KEY[start:stop])}>", (KEY,)) == f"{lead}<…>"


def test_a_short_piece_of_a_key_is_left_in():
    for start in range(len(KEY) - PIECE + 2):
        text = f"<{KEY[start : start + PIECE - 1]}>"
        assert redacted(text, (KEY,)) == text


def test_a_short_key_is_removed_whole_and_only_whole():
    for lead in range(9):
        assert redacted("." * lead + "AB12cd34 ab12CD34", ("ab12cd34",)) == "." * lead + "… …"
    assert redacted("ab12cd3", ("ab12cd34",)) == "ab12cd3"
    assert redacted("an ollama, EMPTY", ("ollama", "EMPTY")) == "an ollama, EMPTY"


@pytest.mark.parametrize("text", [f"a:{KEY}:b", f"ab{KEY}", f"xyz{KEY}"])
def test_pieces_of_other_spellings_are_removed(text):
    for spelling in (base64.b64encode(text.encode()).decode(), text.encode().hex(), text.encode().hex().upper()):
        for cut in (spelling[12:], spelling[:-12], spelling[9:-9]):
            found = redacted(cut, (KEY,))
            assert "…" in found
            assert len(found) < 30


def test_pieces_side_by_side_and_letters_that_grow_when_they_are_made_small():
    assert redacted(KEY + KEY[5:30] + KEY, (KEY,)).strip("…") == ""
    assert redacted(f"\u0130\u0130 {KEY} \u0130", (KEY,)) == "\u0130\u0130 … \u0130"
    assert shown_pieces(redacted(KEY[:20] + KEY[12:32] + KEY[7:19], (KEY,))) == set()


def padded(pad):
    return "a" * pad + KEY


REPLIES = {
    "encoding": lambda pad: http("x", 200, f"content-encoding: {padded(pad)}"),
    "encoding of an error": lambda pad: http("x", 400, f"content-encoding: {padded(pad)}"),
    "long header line": lambda pad: head(200, f"x: {padded(pad)}{'z' * 20_000}"),
    "header without a colon": lambda pad: head(200, padded(pad)),
    "header name": lambda pad: head(200, f"{padded(pad)}\x01: y"),
    "status line": lambda pad: f"HTTP/1.1 {padded(pad)}\r\n\r\n".encode(),
    "reason": lambda pad: f"HTTP/1.1 400 {padded(pad)}\r\ncontent-length: 0\r\n\r\n".encode(),
    "length": lambda pad: head(200, f"content-length: {padded(pad)}"),
    "chunk size": lambda pad: head(200, "transfer-encoding: chunked") + f"{padded(pad)}\r\n".encode(),
    "location": lambda pad: http("", 302, f"location: http://127.0.0.1:1/{padded(pad)}{'z' * 400}"),
    "retry-after": lambda pad: http("", 429, f"retry-after: {padded(pad)}"),
    "error body": lambda pad: http(padded(pad) + "z" * 400, 400),
    "error of an overload": lambda pad: http(padded(pad) + "z" * 400, 503),
    "error message": lambda pad: http({"error": {"message": padded(pad) + "z" * 400, "code": padded(pad)}}, 400),
    "error by name": lambda pad: http({"error": {padded(pad): 1}}, 401),
    "page": lambda pad: http(padded(pad) + "z" * 400),
    "model": lambda pad: http(answer(model=padded(pad) + "z" * 400)),
    "model in capitals": lambda pad: http(answer(model=padded(pad).upper())),
    "wrong JSON": lambda pad: http({"choices": padded(pad), "z": "z" * 400}),
    "stop reason": lambda pad: http({"choices": [{"message": {}, "finish_reason": padded(pad) + "z" * 400}]}),
}


@pytest.mark.parametrize("case", REPLIES)
def test_a_key_that_is_cut_is_not_shown(case, monkeypatch):
    """However much stands before it, so that every limit on the length of a message falls into the key."""
    monkeypatch.setenv("A_KEY", KEY)
    for pad in (20, 50, 270):
        with (
            LyingServer(REPLIES[case](pad)) as server,
            closing(connect(server, api_key_env="A_KEY", patience=0.01, timeout=20)) as backend,
        ):
            try:
                shown = repr(ask_all(backend, [Generate(Prompt(messages=(Message("user", "bad"),)))]))
            except BackendError as exc:
                shown = "".join(traceback.format_exception(exc))
            shown += repr(backend.notes)
        assert server.requests
        assert shown_pieces(shown) == set(), shown
