"""How the parts of a prompt are put together: system prompt, description, examples, question, answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kshot.core.content import glue
from kshot.core.errors import DataError
from kshot.core.records import Choice, Message, Prompt
from kshot.datasets.dataset import Dataset, where_of
from kshot.datasets.rendering import stripped
from kshot.prompts import decode_escapes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Layout:
    """The delimiters and the head of a dataset's prompts.

    ``target_delimiter`` None: one space, where no white space stands already. With ``keep_whitespace`` nothing is
    stripped, and nothing but the delimiters is added.
    """

    system: str = ""
    description: str = ""
    target_delimiter: str | None = None
    fewshot_delimiter: str = "\n\n"
    keep_whitespace: bool = False
    one_turn: bool = False

    @classmethod
    def of(cls, dataset: Dataset) -> Layout:
        """Read the layout of a dataset; the user's settings go before the attributes of the class."""
        args = dataset.args
        given = {
            "description": args.description,
            "target_delimiter": args.target_delimiter,
            "fewshot_delimiter": args.fewshot_delimiter,
        }
        chosen: dict[str, Any] = {
            name: getattr(dataset, name) if value is None else decode_escapes(value) for name, value in given.items()
        }
        for name, value in chosen.items():
            if not (isinstance(value, str) or (value is None and name == "target_delimiter")):
                raise DataError(f"{name} is {value!r}; it must be a text", where=where_of(dataset))
        keep: object = dataset.keep_whitespace
        if not isinstance(keep, bool):
            raise DataError(f"keep_whitespace is {keep!r}; it must be True or False", where=where_of(dataset))
        return cls(
            system=args.system_prompt or "",
            keep_whitespace=keep,
            one_turn=dataset.model_type == "chat" and args.examples_as == "text",
            **chosen,
        )

    def value(self, value: T) -> T:
        """Return a value of a row as a prompt shows it."""
        found: T = value if self.keep_whitespace else stripped(value)
        return found

    def text(self, messages: Sequence[Message]) -> str:
        """Write examples and question as a base model reads them, after the system prompt and the description."""
        whole = self._before(self.head(), self.body(messages))
        return whole if self.keep_whitespace else whole.strip()

    def body(self, messages: Sequence[Message]) -> str:
        """Write examples and question: each answer follows its question, a delimiter ends each round."""
        text = ""
        for index, message in enumerate(messages):
            if index and message.role == "assistant":
                text = self._answered(text, message.text)
            else:
                text += (self.fewshot_delimiter if index else "") + message.text
        return text

    def chat(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Write a conversation; system prompt and description become the system message.

        With ``one_turn`` examples and question are one message of the user.
        """
        if self.one_turn and len(messages) > 1:
            messages = [Message("user", self.body(messages))]
        head = self.head()
        return (Message("system", head), *messages) if head else tuple(messages)

    def continuation(self, prompt: Prompt, text: str) -> str:
        """Return an answer as it follows its prompt: after the delimiter, or bare where the prompt is a chat."""
        text = self.value(text)
        if prompt.messages:
            return text
        if self.target_delimiter is not None:
            return self.target_delimiter + text
        if not self.keep_whitespace:
            return f" {text}" if prompt.text else text
        return self._answered(prompt.text, text)[len(prompt.text) :]

    def choice(self, prompt: Prompt, text: str, baseline: Prompt | None = None) -> Choice:
        """Return an answer that is measured after its prompt.

        Where white space is kept, that at the end of the prompt is measured with the answer, as in lm-eval: a token may
        reach from one into the other.
        """
        spaced = self.keep_whitespace and not prompt.messages and prompt.text[-1:].isspace()
        return Choice(prompt, self.continuation(prompt, text), baseline, self.value(text), spaced)

    def head(self) -> str:
        """Return what comes once, before all examples."""
        return self._before(self.system, self.description)

    def _answered(self, question: str, answer: str) -> str:
        return glue(question, answer) if self.target_delimiter is None else question + self.target_delimiter + answer

    def _before(self, head: str, rest: str) -> str:
        """Join head and rest; where no white space is between them, a delimiter goes there."""
        if not head or not rest or self.keep_whitespace or head[-1].isspace() or rest[0].isspace():
            return head + rest
        return head + self.fewshot_delimiter + rest
