"""``kshot preview``: the exact prompts, without a model, as text or JSON."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kshot.cli.parser import add_datasets, add_settings, settings_of
from kshot.cli.streams import say, show
from kshot.core.content import content_json
from kshot.core.errors import UsageError
from kshot.core.records import Generate, Loglik, Prompt, Request, Search
from kshot.core.visible import one_line, visible, visible_json

if TYPE_CHECKING:
    from kshot.runs.previews import Preview


def add(look: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    look.description = "Print the exact prompts and continuations. This needs no model."
    look.add_argument("config", nargs="*", metavar="FILE", help="a run file, or config files, to preview")
    look.add_argument(
        "--diff", metavar="OTHER.py", help="show how the prompts differ from those of this config or dataset"
    )
    add_datasets(look)
    look.add_argument("-m", "--model", action="append", metavar="MODEL", help=argparse.SUPPRESS)
    look.add_argument("--json", action="store_true", help="print one JSON object for each sample")
    add_settings(look)


def execute(parsed: argparse.Namespace) -> int:
    """Print the prompts, or how they differ from others."""
    from kshot.api import iter_preview

    settings = settings_of(parsed)
    if settings.limit is None and not parsed.json and sys.stdout.isatty():  # a pipe or a file gets all samples
        settings = replace(settings, limit=3)
        say("these are the first 3 samples of each subset; --limit N shows more")
    write = as_json if parsed.json else as_text
    datasets = [*parsed.config, *(parsed.dataset or ())]
    if not datasets:
        raise UsageError("there is nothing to preview", hint="Name a config file, or a dataset with -d.")

    texts = (write(shown) for shown in iter_preview(datasets, settings, say))
    if parsed.diff is None:
        for text in texts:
            show(text)
        return 0
    others = [write(shown) for shown in iter_preview([parsed.diff], settings, say)]
    return _print_difference(others, list(texts), parsed.diff, datasets[0])


def _print_difference(before: list[str], after: list[str], old: str, new: str) -> int:
    first, second = ("\n".join(texts).split("\n") for texts in (before, after))
    found = list(difflib.unified_diff(first, second, one_line(old), one_line(new), lineterm="", n=2))
    show("\n".join(found) if found else "the prompts are the same")
    return 0


def as_text(shown: Preview) -> str:
    """Return the prompt, and what is requested. Control characters are shown as escapes; JSON has the exact text."""
    title = one_line(f"{shown.task} · {shown.id}")
    lines = [f"── {title} " + "─" * max(0, 63 - len(title))]
    if not shown.requests:
        lines.append("  ↳ nothing is asked")
    for request in shown.requests:
        if shown.is_baseline(request):
            lines.append("  after the baseline prompt:" + ("" if _prompt_text(_prompt(request)) else " (it is empty)"))
        lines += _request_lines(request, windows=not shown.is_baseline(request))
    for request in shown.judge:
        lines += ["── judge " + "─" * 54, *_request_lines(request)]
    return visible("\n".join(lines))


def _request_lines(request: Request, *, windows: bool = True) -> Iterator[str]:
    yield from filter(None, [_prompt_text(_prompt(request))])
    match request:
        case Loglik(_, continuations):
            rolling = ", in windows of the model's length" if request.rolling is not None and windows else ""
            yield from (f"  ↳ likelihood of {text!r}{rolling}" for text in continuations)
        case Generate():
            stop = f", stop at {list(request.stop)}" if request.stop else ""
            yield f"  ↳ generate up to {request.max_tokens} tokens at temperature {request.temperature:g}{stop}"
        case Search(_, k, where):
            among = " and ".join(f"within the question's {name}, {value}" for name, value in where)
            yield f"  ↳ search the best {k} passages {among or 'in all documents'}"


def as_json(shown: Preview) -> str:
    """Return one JSON object: task, id, requests, and those to the judge where it is shown."""
    requests = [_plain(r) | ({"baseline": True} if shown.is_baseline(r) else {}) for r in shown.requests]
    body = {"task": shown.task, "id": shown.id, "requests": requests}
    judge = {"judge": [_plain(r) for r in shown.judge]} if shown.judge else {}
    return visible_json(body | judge)


def _prompt(request: Request) -> Prompt:
    return Prompt(request.query) if isinstance(request, Search) else request.prompt


def _prompt_text(prompt: Prompt) -> str:
    if not prompt.messages:
        return prompt.text
    return "\n".join(f"[{one_line(message.role)}]\n{message.text}" for message in prompt.messages)


def _plain(request: Request) -> dict[str, Any]:
    body: dict[str, Any] = {"kind": type(request).__name__}
    prompt = _prompt(request)
    if prompt.messages:
        body["messages"] = [{"role": m.role, "content": content_json(m.content)} for m in prompt.messages]
    else:
        body["prompt"] = prompt.text
    match request:
        case Loglik(_, continuations):
            body["continuations"] = list(continuations)
            body |= {} if request.rolling is None else {"rolling": request.rolling}
        case Generate():
            names = [name for name in request.__slots__ if name not in {"prompt", "role", "ticket"}]
            body |= {name: getattr(request, name) for name in names if getattr(request, name) is not None}
        case Search():
            body |= {"k": request.k, "where": dict(request.where)}
    return body
