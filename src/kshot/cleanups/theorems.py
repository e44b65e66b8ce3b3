"""Clean-ups of TheoremQA's replies. Standard library only; ``latex2sympy2_extended`` is imported when it is used."""

from __future__ import annotations

import re
import signal
import threading
from contextlib import contextmanager

from kshot.cleanups.literals import computed

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Iterator

LATEX_SECONDS = 1.0
"""How much of the processor's time the reading of a formula may take."""
_LEADS = ("The answer is:", "The answer is", "the answer is")
_MARKS = ".,?!\"';:"


def TheoremQA_postprocess(text: str) -> str:  # noqa: N802 - as configs call it
    """Take the first word after "answer is"."""
    text = text.strip()
    found = re.search(r"answer is (\S+)", text)
    return found[1].strip(_MARKS) if found else text


def TheoremQA_postprocess_v2(text: str) -> str:  # noqa: N802 - as above
    """Take the words of the last line after "is", "be", "are" or a colon."""
    words = text.strip().rpartition("\n")[2].split(" ")
    ends = [place for place, word in enumerate(words) if word in {"is", "be", "are"} or word.endswith(":")]
    return " ".join(words[ends[-1] + 1 if ends else 0 :]).strip().strip(".")


def TheoremQA_postprocess_v3(text: str) -> str:  # noqa: N802 - as above
    """Take what follows "the answer is" and compute it (package ``math-verify``); else the last number."""
    text = text.strip("\n")
    if any(text.count(lead) > 1 for lead in _LEADS):
        text = text.partition("\n\n")[0]
    parts = re.split("|".join(_LEADS), text)
    answer = parts[-1].strip("\n").rstrip(".").rstrip("/").strip(" ")
    return _value(answer, stated=len(parts) > 1).rstrip(".").rstrip("/")


def TheoremQA_postprocess_v4(text: str) -> str:  # noqa: N802 - as above
    r"""Do as ``TheoremQA_postprocess_v3`` does, and leave out ``\(`` and ``\)`` around the answer."""
    return TheoremQA_postprocess_v3(text).strip("\\(").strip("\\)").strip()


def _value(answer: str, *, stated: bool) -> str:
    lower = answer.lower()
    for said, words in (("True", ("yes", "true")), ("False", ("no", "false"))):
        if any(word in lower for word in words):
            return said
    if any(f"({letter})" in lower for letter in "abcdef"):
        return answer
    if not stated:
        found = re.findall(r"-?\d*\.?\d+", answer)
        return found[-1] if found else ""
    from latex2sympy2_extended import latex2sympy  # type: ignore[import-not-found,import-untyped,unused-ignore]

    answer = without_units(answer.rpartition("=")[2].strip())
    try:
        with _limited(LATEX_SECONDS):
            value = computed(str(latex2sympy(answer)))
        return str(list(value)) if isinstance(value, tuple) else str(value)
    except Exception:  # noqa: BLE001 - whatever is wrong with the formula, it is then read as text
        return answer.partition(" ")[0] if re.match(r"-?[\d.]+\s(?:\D+|\S+)$", answer) else answer


_PI = (
    (re.compile(r"(?<![\d}])\\?π"), "3.14"),
    (re.compile(r"(\d)\\?π"), r"\1*3.14"),
    (re.compile(r"\{\\?π\}"), "3.14"),
    (re.compile(r"\*\\?π"), "*3.14"),
)


def without_units(answer: str) -> str:
    """Write π as a number, percent as a division, and leave out units of money and temperature."""
    answer = answer.replace("\\pi", "π")
    for pattern, number in _PI:
        answer = pattern.sub(number, answer)
    answer = answer.replace("%", "/100")
    for unit in ("$", "¥", "°C", " C", "°"):
        answer = answer.replace(unit, "")
    return answer


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise an error in this thread after so many seconds of processor time, where system and thread can do that.

    By the clock, a busy machine would decide what a reply means.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def give_up(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
