"""Chat templates: from messages to the text that a chat model reads, by the jinja template of a Hugging Face model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension

from kshot.core.content import Content, TextPart, before_content
from kshot.core.errors import BackendError, UsageError
from kshot.core.records import Message, Prompt
from kshot.core.text_files import read_text
from kshot.prompts.strings import LimitedEnvironment, RenderingLimitError, rendered

if TYPE_CHECKING:
    from jinja2.parser import Parser

Renderer: TypeAlias = Callable[..., str]
"""``(messages, add_generation_prompt=True) -> str``."""

_END_MARK = "kshot-end-of-reply-so-far "
"""Added to the end of a message; a template that strips its messages loses the space."""

# A template is a program: besides jinja's own errors it may add None to text or look up what is not there.
TEMPLATE_FAULTS = (
    *(jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError),
    *(RuntimeError, MemoryError, AssertionError, OSError),
)


class _GenerationBlock(Extension):
    """Render ``{% generation %}…{% endgeneration %}``, which marks what an assistant wrote, as its body."""

    tags = {"generation"}  # noqa: RUF012 - jinja declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Replace the block by its body."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - templates pass these by position too
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002 - as above
) -> str:
    """Return JSON as it is; jinja's own filter would escape it for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def read_template(path: str) -> str:
    """Return the jinja source of a chat template that is in a file."""
    try:
        source = read_text(Path(path).expanduser())
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"the chat template cannot be read: {exc}", where=path) from exc
    try:
        renderer(source)
    except BackendError as exc:
        exc.where = path
        raise
    return source


def renderer(source: str, bos_token: str = "", eos_token: str = "") -> Renderer:
    """Return a function that renders ``(messages, add_generation_prompt)`` by this template.

    A template that is not jinja, or that raises, is a BackendError with the template's own message.
    """
    environment = LimitedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_GenerationBlock, "jinja2.ext.loopcontrols"],
    )
    environment.add_filter("tojson", _tojson)
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda layout: datetime.now().astimezone().strftime(layout)
    try:
        template = environment.from_string(source)
    except (jinja2.TemplateError, RecursionError, SyntaxError, MemoryError) as error:
        raise template_fault(error) from None

    def render(messages: Sequence[Message], add_generation_prompt: bool = True) -> str:  # noqa: FBT001, FBT002 - as transformers has it
        try:
            variables = {
                "messages": as_dicts(messages),
                "add_generation_prompt": add_generation_prompt,
                "bos_token": bos_token,
                "eos_token": eos_token,
                "tools": None,
                "documents": None,
            }
            return rendered(template, template.new_context(variables))
        except TEMPLATE_FAULTS as error:
            raise template_fault(error) from None

    return render


def as_dicts(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages in the form that templates read; of media they read the kind alone."""
    return [{"role": message.role, "content": _template_content(message.content)} for message in messages]


def _template_content(content: Content) -> Any:
    if isinstance(content, str):
        return content
    return [
        {"type": "text", "text": part.text} if isinstance(part, TextPart) else {"type": part.kind} for part in content
    ]


def template_fault(error: Exception) -> BackendError:
    """Return the error of a template as a BackendError that says what to do."""
    line = getattr(error, "lineno", None)  # jinja's syntax errors have one
    first = "Shorten the messages" if isinstance(error, RenderingLimitError) else "Check the messages' roles and order"
    return BackendError(
        f"the chat template failed{f' at its line {line}' if line else ''}: {error or type(error).__name__}",
        hint=f"{first}, or give another template with --chat-template FILE.",
    )


def fold_system(messages: Sequence[Message], render: Callable[[Sequence[Message]], str]) -> tuple[Message, ...]:
    r"""Put the system text where this template shows it: in a message of its own, or before the first user message.

    A template that refuses a system message or leaves it out (Gemma's do) gets it as ``system + "\n" + user``.
    """
    system = [message.text for message in messages if message.role == "system"]
    if not system or _shows_system(messages, render):
        return tuple(messages)
    rest = [message for message in messages if message.role != "system"]
    text = "\n".join(system)
    for index, message in enumerate(rest):
        if message.role == "user":
            rest[index] = replace(message, content=before_content(text, message.content))
            return tuple(rest)
    return (Message("user", text), *rest)


def opened_text(prompt: Prompt, messages: Sequence[Message], render: Renderer) -> str:
    """Write messages as a chat model reads them, up to its reply; where they begin the reply, up to this beginning.

    ``messages`` are those of the prompt in a form that the model can read.
    """
    if prompt.rules == "lm-eval":
        return _as_in_lm_eval(messages, partial(_unfinished, render=render) if prompt.opened else render)
    if not prompt.opened:
        return render(fold_system(messages, render))
    return render(fold_system(messages[:-1], render)) + messages[-1].text


def _as_in_lm_eval(messages: Sequence[Message], write: Callable[[Sequence[Message]], str]) -> str:
    """Write messages; where the template refuses them, without the system message, as lm-eval does."""
    try:
        return write(messages)
    except BackendError:
        rest = [message for message in messages if message.role != "system"]
        if len(rest) == len(messages):
            raise
        return write(rest)


def _unfinished(messages: Sequence[Message], render: Renderer) -> str:
    """Write messages up to the end of the last one's text, as ``continue_final_message`` of transformers does."""
    last = messages[-1]
    text = render([*messages[:-1], replace(last, content=last.text + _END_MARK)], add_generation_prompt=False)
    end = text.rfind(_END_MARK.strip())
    if end < 0 or last.text.strip() not in text:
        what = f"the chat template does not show the text that begins the reply: {last.text[:60]!r}"
        raise BackendError(what, hint="Give another template with --chat-template FILE, or use --model-type base.")
    return text[:end] if text.startswith(_END_MARK, end) else text[:end].rstrip()  # else it strips its messages


def _shows_system(messages: Sequence[Message], render: Callable[[Sequence[Message]], str]) -> bool:
    # Marks replace the system texts, which may also occur in another message.
    marks = iter(f"kshot-system-{index}-mark" for index in range(len(messages)))
    marked = [replace(message, content=next(marks)) if message.role == "system" else message for message in messages]
    try:
        text = render(marked)
    except (BackendError, *TEMPLATE_FAULTS):
        return False
    return all(message.text in text for message in marked if message.role == "system")
