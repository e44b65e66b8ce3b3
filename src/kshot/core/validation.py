"""Checks of what a backend yields: a wrong response must become neither a result nor a line of the journal."""

from __future__ import annotations

import math
from collections.abc import Collection, Generator
from contextlib import suppress
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

from kshot.core.content import BY_ADDRESS
from kshot.core.errors import BackendError, KshotError
from kshot.core.protocols import Backend, BackgroundBackend, RequestQueue
from kshot.core.reasoning import without_thoughts
from kshot.core.records import (
    MOST_TOKENS,
    Failed,
    Generate,
    Generated,
    Hit,
    Likelihood,
    Loglik,
    Ranking,
    Request,
    RequestGenerator,
    Response,
    Scored,
    Search,
    TokenLogprobs,
    Usage,
)

_RESPONSE_TYPES: dict[type, type] = {Generate: Generated, Loglik: Scored, Search: Ranking}
MOST_CHARACTERS = 16 << 20
"""How long a text may be that a backend is asked about: it would take minutes and gigabytes to turn into tokens."""
_ROUNDING_NATS = 1e-3
"""Rounding may put a log-probability this much above 0."""


def responses_of(backend: Backend, queue: RequestQueue) -> Generator[tuple[Request, Response] | None]:
    """Yield what a backend yields; anything that it raises becomes an error that names the backend.

    Closing this generator closes the stream of the backend. An error of that is not raised: all answers are used by
    then, or not wanted, and it would hide the error that ended the run.
    """
    try:
        stream = iter(backend.serve(queue))
    except KshotError:
        raise
    except Exception as exc:
        raise _broken(backend, exc) from exc
    try:
        while True:
            try:
                pair = next(stream)
            except StopIteration:
                return
            except KshotError:
                raise
            except Exception as exc:
                raise _broken(backend, exc) from exc
            if pair is not None or not works_in_background(backend):
                _check_pair(pair, backend)
            yield pair
    finally:
        if callable(close := getattr(stream, "close", None)):  # a plug-in may return any iterator
            with suppress(Exception):
                close()


def check_requests(requests: Any, method: RequestGenerator) -> None:
    """Refuse what is no list of requests, by an error that is raised where the method yielded it."""
    if not isinstance(requests, (list, tuple)) or not all(isinstance(each, Request) for each in requests):
        method.throw(TypeError(f"{requests!r:.60} is no list of requests: write yield from ask(…)"))


def oversized(request: Request) -> Failed | None:
    """Return the failure of a request whose text no model can read; None: it may be asked."""
    match request:
        case Search():
            size = len(request.query)
        case Loglik():
            size = len(request.prompt.text) + max(map(len, request.continuations), default=0)
        case _:
            size = len(request.prompt.text)
    if size <= MOST_CHARACTERS:
        return None
    return Failed("too_long", f"the text has {size:,} characters, and a request at most {MOST_CHARACTERS:,}")


def check_media(needed: Collection[str], able: Collection[str], where: str) -> None:
    """Refuse a model that cannot read what prompts hold beside text."""
    missing = [_MEDIA_WORDS[kind] for kind in _MEDIA_WORDS if kind in needed and kind not in able]
    if missing:
        takes = [words for kind, words in _MEDIA_WORDS.items() if kind in able]
        raise BackendError(
            f"it cannot read {' and '.join(missing)}, which the prompts hold",
            where=where,
            hint=f"It reads text{''.join(f', {each}' for each in takes)}. Use a model that reads them, as openai:, "
            "anthropic: and hf: models do that were made for it.",
        )


_MEDIA_WORDS = {"image": "images", "audio": "sound", "video": "video", BY_ADDRESS: "media by an address (URL)"}


def works_in_background(backend: Backend) -> bool:
    """Whether a backend yields None while no answer is ready."""
    return isinstance(backend, BackgroundBackend) and backend.in_background


def _check_pair(pair: Any, backend: Backend) -> None:
    if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], Request):  # noqa: PLR2004 - a pair
        raise BackendError(
            f"it yielded {pair!r:.80}, not a request with its response",
            where=backend.name,
            hint="" if pair is not None else "A backend that yields None while it waits has in_background = True.",
        )


def _broken(backend: Backend, exc: Exception) -> BackendError:
    return BackendError(f"it failed: {type(exc).__name__}: {exc}", where=backend.name)


def checked_response(request: Request, response: Response, where: str) -> Response:
    """Return the response in plain numbers if it answers the request; otherwise raise an error that says why not.

    Thoughts in a text are taken out here, so that it is done for every model and every journal.
    """
    if isinstance(response, Failed):
        return response
    if not isinstance(response, _RESPONSE_TYPES[type(request)]):
        asked = type(request).__name__
        raise BackendError(f"it answered a {asked} request with {type(response).__name__}", where=where)
    if isinstance(response, Scored) and isinstance(request, Loglik):
        return _checked_scores(request, response, where)
    if isinstance(response, Ranking) and isinstance(request, Search):
        return _checked_ranking(request, response, where)
    if isinstance(response, Generated) and isinstance(request, Generate):
        return without_thoughts(_checked_text(request, response, where))
    return response


def _checked_ranking(request: Search, response: Ranking, where: str) -> Ranking:
    hits = response.hits
    if len(hits) > request.k:
        raise BackendError(f"it gave {len(hits)} passages where {request.k} were asked for", where=where)
    for number, hit in enumerate(hits):
        if not isinstance(hit, Hit) or type(hit.id) is not str:
            raise BackendError(f"it gave {hit!r:.60} where a passage belongs", where=where)
        if not _is_number(hit.score, Real) or not math.isfinite(hit.score):
            raise BackendError(f"it gave passage {hit.id!r} the score {hit.score}", where=where)
        if number and hit.score > hits[number - 1].score:
            raise BackendError(f"it gave passage {hit.id!r} a better score than the one before it", where=where)
    if len({hit.id for hit in hits}) < len(hits):
        raise BackendError("it gave a passage twice", where=where)
    return response


def _checked_text(request: Generate, response: Generated, where: str) -> Generated:
    if not all(type(each) is str for each in (response.text, response.stop_reason, response.reasoning, response.whole)):
        raise BackendError(f"it gave {response.text!r:.60} where a text belongs", where=where)
    _check_usage(response.usage, where)
    _check_cut(response.cut_tokens, where)
    tokens = _checked_tokens(response.token_logprobs, where, asked=request.token_logprobs)
    return response if tokens is response.token_logprobs else replace(response, token_logprobs=tokens)


def _checked_tokens(given: Any, where: str, *, asked: bool) -> TokenLogprobs | None:
    """Return the log-probabilities of tokens in plain numbers; those that nobody asked for are left out."""
    if given is None or not asked:
        return None
    pairs = given if isinstance(given, tuple | list) else (given,)
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or type(pair[0]) is not str:  # noqa: PLR2004 - a pair
            raise BackendError(f"it gave {pair!r:.60} where a token with its log-probability belongs", where=where)
        if not _is_number(pair[1], Real) or not math.isfinite(pair[1]) or pair[1] > _ROUNDING_NATS:
            raise BackendError(f"it gave the token {pair[0]!r:.40} the log-probability {pair[1]!r:.40}", where=where)
    if isinstance(given, tuple) and all(type(pair) is tuple and type(pair[1]) is float for pair in given):
        return given
    return tuple((text, float(value)) for text, value in pairs)


def _check_cut(count: int, where: str) -> None:
    if not _is_number(count, Integral) or not 0 <= count <= MOST_TOKENS:
        raise BackendError(f"it gave {count!r:.40} where the number of cut tokens belongs", where=where)


def _check_usage(usage: Usage | None, where: str) -> None:
    if usage is None:
        return
    if not isinstance(usage, Usage) or not all(
        _is_number(count, Integral) and 0 <= count <= MOST_TOKENS
        for count in (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
    ):
        raise BackendError(f"it gave {usage!r:.60} where token counts belong", where=where)


def impossible(text: str) -> Failed:
    """Return the failure of a request one of whose texts has the probability 0: its logarithm is no number."""
    return Failed("impossible", f"the model gives {text[:60]!r} the probability 0")


def _checked_scores(request: Loglik, response: Scored, where: str) -> Scored | Failed:
    given, wanted = response.likelihoods, len(request.continuations)
    _check_usage(response.usage, where)
    _check_cut(response.cut_tokens, where)
    if not isinstance(given, tuple) or not all(isinstance(each, Likelihood) for each in given):
        raise BackendError(f"it gave {given!r:.60} where a tuple of likelihoods belongs", where=where)
    if len(given) != wanted:
        raise BackendError(f"it gave {len(given)} likelihoods for {wanted} continuations", where=where)
    plain, is_plain = [], True
    for text, each in zip(request.continuations, given, strict=True):
        if each.logprob == -math.inf:
            return impossible(text)
        if not _is_number(each.logprob, Real) or not math.isfinite(each.logprob) or each.logprob > _ROUNDING_NATS:
            raise BackendError(
                f"it gave the log-probability {each.logprob}",
                where=where,
                hint="It must be a finite number not above 0; NaN often means an unsuitable dtype.",
            )
        if not _is_number(each.tokens, Integral) or each.tokens < 1:
            raise BackendError(f"it gave a likelihood over {each.tokens!r} tokens", where=where)
        if each.greedy not in (None, False, True):
            raise BackendError(f"it gave {each.greedy!r:.40} where it says whether a text is greedy", where=where)
        tokens = _checked_tokens(each.token_logprobs, where, asked=request.token_logprobs)
        greedy = None if each.greedy is None else bool(each.greedy)
        plain.append(Likelihood(float(each.logprob), int(each.tokens), greedy, tokens))
        kinds = type(each.logprob), type(each.tokens)
        is_plain &= kinds == (float, int) and greedy is each.greedy and tokens is each.token_logprobs
    return response if is_plain else replace(response, likelihoods=tuple(plain))


def _is_number(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
