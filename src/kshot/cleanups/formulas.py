"""Clean-ups of mathematical answers: find one in a reply, and write it in one way. Standard library only.

``latex2sympy2_extended`` is imported when it is used.
"""

from __future__ import annotations

import re
import signal
import threading
from contextlib import contextmanager

from kshot.cleanups.literals import computed
from kshot.cleanups.spans import between, unwrapped

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Iterator


_BOXED = re.compile(r"\\(?:boxed|fbox)\s*(?={)")


def boxed(text: str) -> str | None:
    r"""Return what the last ``\boxed{…}`` encloses, its braces balanced; None where there is none."""
    starts = [found.end() for found in _BOXED.finditer(text)]
    box = _box_at(text, starts[-1] if starts else -1)
    return box and box[1:-1]


class NotABox(ValueError):  # noqa: N818 - it names what was found
    r"""The last box of a reply is no ``\boxed{…}``."""


def last_box(text: str, *, must_be_boxed: bool = False) -> str | None:
    r"""Return what the last ``\boxed{…}`` encloses, as the projects find it: the braces are counted from the word on.

    Without a ``\boxed``, the last ``\fbox`` counts as the box, and as it is no ``\boxed{`` nothing is found; AISBench
    fails there (``must_be_boxed``).
    """
    start = text.rfind("\\boxed")
    box = _box_at(text, start if start >= 0 else text.rfind("\\fbox"))
    if box is None or box.startswith(_BOX):
        return box and box[len(_BOX) : -1]
    if must_be_boxed:
        raise NotABox(f"the last box is {box[:40]!r} and not \\boxed{{…}}")
    return None


_BOX = "\\boxed{"
_BRACE = re.compile("[{}]")


def _box_at(text: str, start: int) -> str | None:
    """Return the text from a place to the brace that closes the first one behind it; None where none does."""
    if start < 0:
        return None
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if brace[0] == "}" and depth == 0:
            return text[start : brace.end()]
    return None


def without_outer_braces(answer: str) -> str:
    """Leave out one pair of braces around all of an answer of one line."""
    found = re.fullmatch(r"\{(.*)\}\n?", answer)
    return found[1] if found else answer


_REPLACED = (
    *(("an ", ""), ("a ", ""), (".$", "$"), ("\\$", ""), ("\\ ", ""), (" ", ""), ("mbox", "text")),
    *((",\\text{and}", ","), ("\\text{and}", ","), ("\\text{m}", "\\text{}")),
)
_FEET = "ft"
_REMOVED = (
    *("square", "ways", "integers", "dollars", "mph", "inches", _FEET, "hours", "km", "units", "\\ldots", "sue"),
    *("points", "feet", "minutes", "digits", "cents", "degrees", "cm", "gm", "pounds", "meters", "meals", "edges"),
    *("students", "childrentickets", "multiples", "\\text{s}", "\\text{.}", "\\text{\ns}", "\\text{}^2"),
    *("\\text{}^3", "\\text{\n}", "\\text{}", "\\mathrm{th}", "^\\circ", "^{\\circ}", "\\;", ",\\!", "{,}", '"'),
    "\\dots",
)
_LINE_BREAKS = ("\n", "\r", "\f")


def _without_units(answer: str, replaced: tuple[tuple[str, str], ...], removed: tuple[str, ...]) -> str:
    for old, new in replaced:
        answer = answer.replace(old, new)
    for expression in removed:
        answer = answer.replace(expression, "")
    return answer


def _without_commands(answer: str) -> str:
    """Keep what the commands for text enclose, and leave out the commands."""
    for command in ("text", "textbf", "overline"):
        answer = unwrapped(answer, f"\\{command}{{", "}")
    return answer


def _without_outermost(answer: str, opening: str) -> str:
    """Leave out an opening and the last closing brace behind it."""
    before, found, rest = answer.partition(opening)
    inside, closing, after = rest.rpartition("}")
    return before + inside + after if found and closing else answer


def _braced(answer: str) -> str:
    r"""Write ``\frac12`` as ``\frac{1}{2}``, and ``\sqrt2`` as ``\sqrt{2}``."""
    answer = re.sub(r"frac([^{])(.)", r"frac{\1}{\2}", answer)
    return re.sub(r"sqrt([^{])", r"sqrt{\1}", answer)


def _without_separators(answer: str) -> str:
    """Leave out the commas of a whole number."""
    digits = answer.replace(",", "")
    return digits if digits.isdigit() else answer


def normalize_final_answer(final_answer: str) -> str:
    """Write a mathematical answer in one way: no units, no dollar signs, no thousands separators."""
    answer = _without_units(final_answer, (*_REPLACED, ("\\le", "<")), (*_REMOVED, *_LINE_BREAKS))
    answer = _without_outermost(_without_commands(unwrapped(answer, "\\text{(", ")}")), _BOX)
    answer = answer.partition("finalansweris")[2] if "finalansweris" in answer else answer
    stated = re.search("answer?is:?", answer)
    answer = answer[stated.end() :] if stated else answer
    for opening, closing in (("oxed{", "}"), ("$", "$")):
        enclosed = between(answer, opening, closing)
        answer = enclosed[-1] if enclosed else answer
    answer = answer.strip()
    if "rac" in answer and "\\frac" not in answer:
        answer = answer.replace("rac", "\\frac")
    return _without_separators(_braced(answer).replace("$", ""))


def _stating(text: str, phrases: tuple[str, ...]) -> str:
    """Return the first piece between full stops that has one of the phrases, else the first piece."""
    parts = text.split(".")
    return next((part for part in parts if any(phrase in part.lower() for phrase in phrases)), parts[0])


def math_postprocess(text: str) -> str:
    """Take the sentence that contains "final answer", else the first one."""
    return normalize_final_answer(_stating(text, ("final answer",)))


def _boxed_or_stated(text: str, inner: str | None) -> str:
    answer = without_outer_braces(inner or "")
    return answer or normalize_final_answer(_stating(text, ("final answer", "answer is")))


def math_postprocess_v2(text: str) -> str:
    """Take the boxed answer, else the sentence that states the answer, else the first one."""
    return _boxed_or_stated(text, last_box(text))


def math_postprocess_v2_ais_bench(text: str) -> str:
    r"""Do as ``math_postprocess_v2`` does; a reply whose last box is an ``\fbox`` is an error, as in AISBench."""
    return _boxed_or_stated(text, last_box(text, must_be_boxed=True))


_ATC_COMMANDS = re.compile(r"\\text\{([^}]+)\}"), re.compile(r"\\boxed\{([^}]+)\}")


def _atc_name(inner: str | None) -> str:
    """Write a boxed name in one way; ``None`` where there is none."""
    answer = without_outer_braces(inner or "")
    if not answer or answer == "None":
        return "None"
    for command in _ATC_COMMANDS:
        answer = command.sub(r"\1", answer)
    answer = re.sub(r"\\[\[\]]", "", answer).replace("\\", "")
    answer = re.sub(r"\s+", " ", answer).strip()
    return answer.replace('"', "").replace("'", "").replace("~", " ")


def needlebench_atc_postprocess_v2(text: str) -> str:
    """Take the boxed name, without LaTeX commands, quotes and tildes; the text None where there is no box."""
    return _atc_name(last_box(text))


def needlebench_atc_ais_bench(text: str) -> str:
    r"""Do as ``needlebench_atc_postprocess_v2`` does; an ``\fbox`` is an error, as in AISBench."""
    return _atc_name(last_box(text, must_be_boxed=True))


def math_judement_preprocess(text: str) -> str:
    """Take the rest of the line after "Answer:"."""
    found = re.search(r"answer\s*:\s*([^\n]+)", text, re.IGNORECASE)
    return found[1] if found else ""


# ---- math_intern ----

_INTERN_LEADS = ("# Answer", "The answer is:", "####")


def math_intern_postprocess(text: str) -> str | None:
    """Take what follows the first phrase that announces the answer, else what is boxed first."""
    lead = "The final answer is "
    if lead in text:
        rest = text.partition(lead)[2]
        return _trimmed(rest[1 : rest.find("$.")])
    if "\n\nQuestion:" in text:
        text = text.partition("\n\nQuestion:")[0]
        place = text.find("The answer is")
        if place:  # also where it is missing; the text then begins behind as many signs, less one
            return _trimmed(text[place + len("The answer is") :])
    for lead in _INTERN_LEADS:
        if lead in text:
            return _trimmed(text.partition(lead)[2])
    if _BOX in text:
        start = text.find(_BOX) + len(_BOX)
        box = _box_at(text, start - 1)
        return _trimmed(text[start:-1] if box is None else box[1:-1])
    return None


def _trimmed(answer: str) -> str:
    answer = answer.strip().replace("{{", "{").replace("}}", "}")
    return answer[:-1] if answer.endswith((".", "。")) else answer


# ---- DAPO ----

_DAPO_END = 100
"""How many of the last characters of a reply may hold the box."""


def dapo_math_postprocess(solution_str: str) -> str:
    """Take the rest of the last line after "Answer:", and write it in one way."""
    found = re.findall(r"answer\s*:\s*([^\n]+)", solution_str, re.IGNORECASE)
    answer = (found[-1] if found else "[INVALID]").rpartition("=")[2]
    answer = _without_units(answer, _REPLACED, tuple(each for each in _REMOVED if each != _FEET))
    enclosed = between(answer, "$", "$")
    answer = f"${enclosed[0]}$" if enclosed else answer
    answer = _without_outermost(_without_commands(answer), _BOX)
    return _without_separators(_braced(answer).replace("$", "")).strip()


def dapo_math_postprocess_v2(solution_str: str) -> str:
    r"""Take what the last ``\boxed{…}`` of the last 100 characters encloses."""
    end = solution_str[-_DAPO_END:]
    box = _box_at(end, end.rfind(_BOX))
    return box[len(_BOX) : -1] if box else ""


# ---- TheoremQA ----

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


# ---- formulas written in one way ----
# OpenCompass, AISBench, AGIEval and LLMBox all compare answers by it, and differ in what they call an error.

_SPELLINGS = (
    *(("\n", ""), ("\\!", ""), ("\\\\", "\\"), ("tfrac", "frac"), ("dfrac", "frac")),
    *((gone, "") for gone in ("\\left", "\\right", "^{\\circ}", "^\\circ", "\\$")),
)
LEADING_ZERO = ((" .", " 0."), ("{.", "{0."))
"""Where a number without its first digit gets it."""
_UNIT = "\\text{ "
"""What stands before a unit after a number."""
_NAME_LENGTH = 2
"""``x=5`` and ``x =5`` are 5; a longer name before the sign is part of the answer."""
_WHOLE = "(0|-?[1-9][0-9]*)"
_RATIO = re.compile(f"{_WHOLE}/{_WHOLE}")


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    """Replace texts, one after the other."""
    for old, new in pairs:
        text = text.replace(old, new)
    return text


def plain_formula(text: str, *, strict_slash: bool = False, strict_fraction: bool = True) -> str:
    r"""Write a formula in one way. One that cannot be is an error: a root of nothing, or two units.

    ``strict_slash``: and so is a slash between anything but whole numbers; ``strict_fraction``: ``\frac`` at the end.
    """
    text, *units = replaced(text, *_SPELLINGS).split(_UNIT)
    if len(units) > 1:
        raise ValueError("a formula with two units")
    text = value_alone(replaced(text.replace("\\%", ""), *LEADING_ZERO))
    text = braced_fractions(_braced_roots(text).replace(" ", ""), strict=strict_fraction)
    return "\\frac{1}{2}" if text == "0.5" else slash_as_fraction(text, strict=strict_slash)


def same_formula(one: str, other: str) -> bool:
    """Whether two formulas are the same once both are written in one way; where that cannot be, as they are."""
    try:
        return plain_formula(one) == plain_formula(other)
    except (IndexError, ValueError):
        return one == other


def value_alone(text: str) -> str:
    """Write ``.5`` as 0.5, and ``x=5`` as 5."""
    text = f"0{text}" if text.startswith(".") else text
    before, _, after = text.partition("=")
    return after if text.count("=") == 1 and len(before) <= _NAME_LENGTH else text


def _braced_roots(text: str) -> str:
    r"""Write ``\sqrt3`` as ``\sqrt{3}``; a root of nothing is an error."""
    first, *rest = text.split("\\sqrt")
    return first + "".join("\\sqrt" + (each if each[0] == "{" else f"{{{each[0]}}}{each[1:]}") for each in rest)


def braced_fractions(text: str, *, strict: bool = False) -> str:
    r"""Write ``\frac12`` as ``\frac{1}{2}``; a text with half a fraction stays as it is.

    ``strict``: a fraction of nothing is an error.
    """
    first, *rest = text.split("\\frac")
    written = [first]
    for each in rest:
        if each[0] == "{" if strict else each.startswith("{"):
            written.append(each)
        elif len(each) < 2:  # noqa: PLR2004 - above and below
            return text
        else:
            below = each[1] if each[1] == "{" else f"{{{each[1]}}}"
            written.append(f"{{{each[0]}}}{below}{each[2:]}")
    return "\\frac".join(written)


def slash_as_fraction(text: str, *, strict: bool) -> str:
    r"""Write ``1/2`` as ``\frac{1}{2}``; a slash between other things is an error where it is ``strict``."""
    if strict and text.count("/") == 1:
        for part in text.split("/"):
            int(part)  # what is no number is an error
    return _RATIO.sub(r"\\frac{\1}{\2}", text) if _RATIO.fullmatch(text) else text
