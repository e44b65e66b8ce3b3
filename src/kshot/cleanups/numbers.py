"""Clean-ups that find a number. Standard library only."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"-?\d+\.\d+|-?\d+")


def first_number_postprocess(text: str) -> float | None:
    """Take the first number."""
    found = re.search(r"-?\d*\.?\d+", text)
    return float(found[0]) if found else None


def gsm8k_postprocess(text: str) -> str:
    """Take the last number before another question begins."""
    found = _NUMBER.findall(text.split("Question:", maxsplit=1)[0])
    return found[-1] if found else "NULL"


def gsm8k_dataset_postprocess(text: str) -> str:
    """Take the number of a reference, after ``####``."""
    return text.split("#### ")[1].replace(",", "") if "#### " in text else text.replace(",", "")
