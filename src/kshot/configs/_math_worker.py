"""The worker of math-verify: reads a reply and a reference as formulas, and tells whether they have the same value.

Runs inside a confined process, which can be killed: a formula that a model wrote may take forever to compute.
"""

from __future__ import annotations

import json
import os
import signal

from math_verify import (  # type: ignore[import-not-found,import-untyped,unused-ignore]  # untyped, and an extra
    ExprExtractionConfig,
    LatexExtractionConfig,
    parse,
    verify,
)

from kshot.sandbox._confinement import confine, enter_child, read_job

TYPE_CHECKING = False  # without the module typing where it is not needed
if TYPE_CHECKING:
    from typing import Any, NoReturn


def main() -> NoReturn:
    """Read the job, confine this process, and answer requests until the pipe is closed."""
    job, requests, channel = read_job()
    apart = enter_child(job)
    for warm in ("$\\frac{1}{2}$", "\\boxed{x = 2}"):  # sympy imports much when it is first used
        verify(_parsed(warm), parse(warm))
    confine(job, lambda _: None, apart=apart)
    for line in iter(requests.readline, b""):
        request = json.loads(line)
        answer = json.dumps({"id": request["id"], **_answer(request, job["seconds"])}).encode("ascii") + b"\n"
        while answer:
            answer = answer[os.write(channel, answer) :]
    os._exit(0)


def _answer(request: dict[str, Any], seconds: int) -> dict[str, Any]:
    if request["prediction"] is None:  # the caller asks whether this process has started
        return {"result": None}
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # its default ends the process
        signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return {"result": _same(request["prediction"], request["references"])}
    except Exception as error:  # noqa: BLE001 - whatever the formulas lead to is told
        return {"fault": {"kind": type(error).__name__, "message": str(error)[:300], "file": "", "line": 0}}
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_PROF, 0)


def _same(prediction: str, references: list[str]) -> bool:
    """Whether the boxed formula of a reply has the value of the first reference that can be read."""
    known = [LatexExtractionConfig(), ExprExtractionConfig()]
    for text in references:
        if gold := parse(text, extraction_mode="first_match", extraction_config=known):
            return bool(verify(_parsed(prediction), gold))
    return False


def _parsed(reply: str) -> list[Any]:
    from latex2sympy2_extended import (  # type: ignore[import-not-found,import-untyped,unused-ignore]  # as above
        NormalizationConfig,
    )

    rewritten = NormalizationConfig(
        nits=False, malformed_operators=False, basic_latex=True, equations=True, boxed="all", units=True
    )
    wanted = LatexExtractionConfig(
        normalization_config=rewritten, boxed_match_priority=0, try_extract_without_anchor=False
    )
    found: list[Any] = parse(reply, extraction_config=[wanted], extraction_mode="first_match")
    return found
