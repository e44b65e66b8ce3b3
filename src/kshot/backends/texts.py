"""Texts in the form that tokenizers and servers accept, and texts that cannot be scored."""

from __future__ import annotations

from kshot.core.content import Content, texts_in, with_texts
from kshot.core.records import Failed, Loglik, Message


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates by U+FFFD: no tokenizer and no JSON reader accepts them."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def valid_message(message: Message) -> Message:
    """Return a message without lone surrogates in its texts."""
    return Message(message.role, valid_content(message.content))


def valid_content(content: Content) -> Content:
    """Return a content without lone surrogates in its texts."""
    if isinstance(content, str):
        return replace_surrogates(content)
    return with_texts(content, [replace_surrogates(text) for text in texts_in(content)])


def scored_parts(request: Loglik, context: str) -> tuple[str, tuple[str, ...]]:
    """Return the context and the texts to score after it; white space at the end of the context may go to the texts.

    ``context``: the prompt as the model reads it; messages have been rendered by the chat template.
    """
    bare = context.rstrip()
    spaced = request.spaced and bare and not request.prompt.messages
    if not spaced and request.prompt.rules == "kshot":
        return context, request.continuations
    moved = context[len(bare) :]
    return bare, tuple(moved + text for text in request.continuations)


def unscorable(text: str, context: str) -> Failed:
    """Return the failure of a request one of whose texts has no token that a model predicts after the context."""
    quoted = f"{text[:60]!r} after {context[-60:]!r}"
    why = "" if context else "; a first token is predicted only after a prompt, or after BOS (add_bos)"
    return Failed("no_tokens", f"no token of the text can be scored: {quoted}{why}")
