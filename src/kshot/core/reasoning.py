"""Taking a reply apart: the answer, the thoughts that a model writes between think tags, and the tokens of a part."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from kshot.core.records import (
    Generate,
    Generated,
    Loglik,
    Request,
    RequestGenerator,
    Response,
    TokenLogprobs,
    of_evaluated,
    translated,
)

_FORMS = r"<{0}(?:seed:)?think(?:ing)?>|(?-i:\[{0}THINK\])|◁{0}think▷"
"""Think tags as models write them: DeepSeek's and Qwen's, ByteDance's, Mistral's, Kimi's."""

_TAG = re.compile(rf"(?P<opens>{_FORMS.format('')})|(?:{_FORMS.format('/')})", re.IGNORECASE)
_OPEN_END = re.compile(rf"(?:{_FORMS.format('')})\s*\Z", re.IGNORECASE)
_MENTION = re.compile(rf"\S (?:{_FORMS.format('')}) \S", re.IGNORECASE)
"""A tag between the words of a line, as in "the <think> tag"."""


def is_think_tag(text: str) -> bool:
    """Whether a text is a think tag."""
    return _TAG.fullmatch(text) is not None


def opens_thoughts(prompt: str) -> bool:
    """Whether a prompt ends with an open think tag, as some chat templates write it: the reply begins with thoughts."""
    return _OPEN_END.search(prompt) is not None


def split_thoughts(text: str, *, opened: bool = False) -> tuple[str, str]:
    """Split a text into the answer and the thoughts.

    Thoughts stand between think tags, in one place or in several. What comes before a closing tag that nothing opened
    is thoughts too: the chat template opened them. Thoughts that are not closed go on to the end, so that a reply that
    never leaves them has no answer; but a single tag between words is mentioned, not used. ``opened``: the prompt ends
    with an open tag.
    """
    if not opened and len(_TAG.findall(text)) == 1 and _MENTION.search(text):
        return text, ""
    answer: list[str] = []
    thoughts: list[str] = []
    thinking, place = opened, 0
    for tag in _TAG.finditer(text):
        opens = tag["opens"] is not None
        (thoughts if thinking else answer).append(text[place : tag.start()])
        place = tag.end()
        if not opens and not thinking:
            thoughts += answer  # in place: a reply may hold millions of tags
            answer = []
        thinking = opens
    if not place and not opened:
        return text, ""
    (thoughts if thinking else answer).append(text[place:])
    return _joined(answer).lstrip(), "\n".join(part.strip() for part in thoughts if part.strip())


def _joined(parts: Sequence[str]) -> str:
    """Join what stood around thoughts; what were halves of another tag stay apart."""
    whole = "".join(parts)
    return " ".join(parts) if _TAG.search(whole) else whole


def without_thoughts(reply: Generated, *, opened: bool = False) -> Generated:
    """Return a reply with the thoughts in its text moved to its reasoning; done twice, it changes nothing more.

    ``opened``: the prompt ends with an open think tag, which only who knows the whole prompt can tell.
    """
    text, thoughts = split_thoughts(reply.text, opened=opened)
    if text == reply.text:
        return reply
    tokens = None if reply.token_logprobs is None else tokens_of(reply.token_logprobs, text, last=True)
    reasoning = "\n".join(filter(None, (reply.reasoning, thoughts)))
    return replace(reply, text=text, reasoning=reasoning, token_logprobs=tokens, whole=whole_text(reply))


def ending_early(reply: Generated, text: str) -> Generated:
    """Return a reply cut to ``text``, the beginning of its own text."""
    tokens = reply.token_logprobs and tokens_of(tuple(reply.token_logprobs), text)
    return replace(reply, text=text, token_logprobs=tokens, whole=reply.whole.removesuffix(reply.text[len(text) :]))


def whole_text(reply: Generated) -> str:
    """Return what a model wrote, thoughts included; separate thoughts come first, as OpenCompass joins them."""
    return reply.whole or "</think>".join(filter(None, (reply.reasoning, reply.text)))


def as_kept(request: Request, response: Response) -> Response:
    """Return a response with thoughts put back into the text, if it is a reply of the evaluated model."""
    if not isinstance(response, Generated) or not of_evaluated(request) or not (response.whole or response.reasoning):
        return response
    return replace(response, text=whole_text(response), reasoning="", whole="")


def keeping_thoughts(method: RequestGenerator) -> RequestGenerator:
    """Drive a method, giving it the replies of the evaluated model with their thoughts."""
    return translated(method, response=as_kept)


# ---- the log-probabilities of tokens ----


def asking_token_logprobs(method: RequestGenerator) -> RequestGenerator:
    """Drive a method; what it asks of the evaluated model asks for the log-probabilities of the tokens too."""
    return translated(method, request=_asking)


def _asking(request: Request) -> Request:
    if isinstance(request, (Generate, Loglik)) and of_evaluated(request):
        return replace(request, token_logprobs=True)
    return request


def tokens_of(tokens: TokenLogprobs, text: str, *, last: bool = False) -> TokenLogprobs | None:
    """Return the tokens of a part of their text, where it comes first or ``last``; None if it is no part of it.

    A token that reaches beyond the part keeps its log-probability, and shows only what is in the part.
    """
    whole = "".join(each for each, _ in tokens)
    if whole == text:
        return tokens
    start = whole.rfind(text) if last else whole.find(text)
    if start < 0:
        return None
    end = start + len(text)
    ends = list(accumulate(len(each) for each, _ in tokens))
    begins = [0, *ends]
    return tuple(
        (each[max(start - begin, 0) : end - begin], value)
        for (each, value), begin, after in zip(tokens, begins, ends, strict=False)
        if after > start and begin < end
    )
