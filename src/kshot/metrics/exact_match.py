"""Exact match of texts as they are, with lm-eval's options."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Any

from kshot.core.errors import UsageError
from kshot.core.records import AskFailed, Failed
from kshot.core.regexes import SECONDS, compiled
from kshot.metrics.metric import Metric
from kshot.metrics.references import reference_list

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_DIGITS = str.maketrans("", "", string.digits)


class ExactMatch(Metric):
    r"""lm-eval's exact match: 100 if the prediction equals a reference as it is, else 0; nothing is stripped.

    What differs may be ignored, on both sides and in this order: ``regexes_to_ignore`` (what each matches is removed),
    ``ignore_case``, ``ignore_punctuation`` (ASCII) and ``ignore_numbers`` (the digits 0-9). In a spec, ``+`` stands
    between two regexes and ``\,`` for a comma: ``exactmatch,regexes_to_ignore=\,+\$`` (write ``\x2b`` for a plus).
    """

    bounds = (0.0, 100.0)
    binary = True
    name = "exact_match"

    def __init__(
        self,
        *,
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        ignore_numbers: bool = False,
        regexes_to_ignore: str | Sequence[str] = (),
    ) -> None:
        self.ignore_case, self.ignore_punctuation, self.ignore_numbers = ignore_case, ignore_punctuation, ignore_numbers
        one = isinstance(regexes_to_ignore, str)
        self.regexes_to_ignore = (str(regexes_to_ignore),) if one else tuple(regexes_to_ignore)
        try:
            for regex in self.regexes_to_ignore:
                re.compile(regex)  # what Python's own module refuses is refused
            self._ignored = [compiled(regex) for regex in self.regexes_to_ignore]
        except (re.error, TypeError, ValueError, OverflowError, RecursionError) as exc:
            raise UsageError(f"regexes_to_ignore: {regex!r} is no regular expression: {exc}") from None

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare one prediction with a text or a list of texts."""
        answers = [reference] if isinstance(reference, str) else reference_list(reference, self.name)
        predicted = self._compared(prediction)
        return 100.0 if any(predicted == self._compared(answer) for answer in answers) else 0.0

    def _compared(self, value: Any) -> str:
        text = str(value)
        for pattern in self._ignored:
            try:
                text = str(pattern.sub("", text, timeout=SECONDS))
            except TimeoutError:  # noqa: PERF203 - one of them takes too long
                message = f"the regex {pattern.pattern!r} took more than {SECONDS:g} s on one text; make it simpler"
                raise AskFailed(Failed("exact_match", message)) from None
        text = text.lower() if self.ignore_case else text
        text = text.translate(_NO_PUNCTUATION) if self.ignore_punctuation else text
        return text.translate(_NO_DIGITS) if self.ignore_numbers else text
