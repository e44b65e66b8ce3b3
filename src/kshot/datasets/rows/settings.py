"""The settings of rows without a class: which column holds what."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, get_args

from kshot.core.options import Options, option

AnswerForm: TypeAlias = Literal["letter", "index", "number", "text"]
"""How a column of answers names the right option: by its letter, its index (from 0), its number (from 1), its text."""

_option = partial(option, group="rows (-d FILE)")


@dataclass(frozen=True, kw_only=True)
class RowSettings(Options):
    """Which columns of a table are the question, the options and the answer."""

    question: str | None = _option(None, "column of the question", metavar="COLUMN")
    options: tuple[str, ...] | None = _option(
        None,
        "columns of the options, such as A,B,C,D, or one column that holds them all",
        metavar="COLUMN",
        listed=True,
    )
    answer: str | None = _option(
        None, "column that names the right option, by its letter, its index or its text", metavar="COLUMN"
    )
    answer_as: AnswerForm | None = _option(  # noqa: RUF009 - a field, as the other options are
        None,
        "how --answer names an option: by its letter, its index (from 0), its number (from 1) or its text "
        "(default: what fits all rows)",
        choices=get_args(AnswerForm),
    )
    target: str | None = _option(None, "column of the right text, for questions without options", metavar="COLUMN")
