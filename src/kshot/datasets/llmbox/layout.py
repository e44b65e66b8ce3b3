"""How LLMBox puts the parts of a prompt together: values keep their white space, the whole is stripped."""

from __future__ import annotations

from typing import TypeVar

from kshot.core.records import Prompt
from kshot.datasets.layout import Layout

T = TypeVar("T")


class LLMBoxLayout(Layout):
    """The layout of LLMBox's prompts.

    The text of a base model is stripped at both ends, and an answer that is measured at its right end; nothing else is.
    """

    def value(self, value: T) -> T:
        """Return a value of a row as it is."""
        return value

    def continuation(self, prompt: Prompt, text: str) -> str:
        """Return an answer as it follows its prompt: after one space, where no white space is there."""
        text = text.rstrip()
        if prompt.messages or not prompt.text:
            return text.lstrip()
        if self.target_delimiter is not None:
            return self.target_delimiter + text
        return self._answered(prompt.text, text)[len(prompt.text) :]
