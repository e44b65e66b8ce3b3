"""One end of the conversation between a program and its judge. Runs inside both confined processes.

Either end can ask the other to do something, also while it is itself being asked: a program calls a function that the
tests gave it. An answer has the result, or the exception that was raised, and what became of the lists, dictionaries
and sets that came with the request.
"""

from __future__ import annotations

import builtins

from kshot.sandbox._wire import Decoder, Encoder, Garbled, read_frame, write_frame

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from typing import Any

_EXCEPTIONS = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
_MAX_TEXT_LETTERS = 1 << 16
_ENDED = "the program ended before its last line"


class Ended(BaseException):
    """The other process has ended or can no longer be understood; no test can catch this and go on."""

    def __init__(self, reason: str, *, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.timed_out = timed_out


class Peer:
    """Asks the other process, and answers it.

    A subclass has a method ``do_NAME`` for each thing that it can be asked, ``export``, which returns the entry of a
    value that is not plain data, and ``resolve``, which returns what such an entry of the other process stands for.
    """

    def __init__(self, reader: int, writer: int) -> None:
        self._reader, self._writer = reader, writer
        self._classes: dict[int, type[BaseException]] = {}
        self._over = False

    def export(self, value: Any) -> list[Any]:
        """Return the entry of a value that is not plain data."""
        raise NotImplementedError

    def resolve(self, entry: list[Any]) -> Any:
        """Return what an entry of the other process stands for."""
        raise NotImplementedError

    # ---- asking ----

    def ask(self, action: str, *values: Any) -> Any:
        """Have the other process do something, and return the result or raise the exception."""
        encoder = Encoder(self.export)
        forms = [encoder.value(value) for value in values]
        message = {"do": action, "with": forms, "table": encoder.table()}
        if self._over:
            raise Ended(_ENDED)
        self._over = True  # unless an answer comes that can be read: who catches the exception cannot ask again
        try:
            self._send(message)
            while "do" in (answer := self._received()):
                self._over = False
                self.serve(answer)
                self._over = True
            raised, result, printed = self._answer(answer, encoder.values)
        except Garbled as error:
            raise Ended(f"the program sent {error}") from None
        self._over = False
        self.take_output(printed)
        if raised is not None:
            raise raised
        return result

    def _send(self, message: dict[str, Any]) -> None:
        try:
            write_frame(self._writer, message)
        except OSError:
            raise Ended(_ENDED) from None

    def _received(self) -> dict[str, Any]:
        try:
            message = read_frame(self._reader)
        except (EOFError, OSError):
            raise Ended(_ENDED) from None
        if "ended" in message:
            raise Ended(str(message["ended"]), timed_out=message.get("verdict") == "timeout")
        return message

    def _answer(self, message: dict[str, Any], mine: dict[int, Any]) -> tuple[BaseException | None, Any, str]:
        """Return the exception or the result of an answer, and what was printed."""
        decoder = Decoder(message.get("table"), self.resolve, mine)
        try:
            raised = self._exception(decoder, message["raised"]) if "raised" in message else None
            result = None if raised is not None else decoder.value(message["result"])
            for number, entry in message["changed"]:
                decoder.fill(mine[number], entry)
            return raised, result, str(message.get("printed") or "")
        except Garbled:
            raise
        except Exception as error:  # noqa: BLE001 - a stranger wrote it: whatever is wrong with it, it is no answer
            raise Garbled(f"an answer that cannot be read ({type(error).__name__})") from None

    def take_output(self, text: str) -> None:
        """Do what should be done with what was printed in the other process."""

    # ---- answering ----

    def serve(self, message: dict[str, Any]) -> None:
        """Do what a message asks, and send the answer."""
        decoder = Decoder(message.get("table"), self.resolve)
        before = {number: _held(value) for number, value in decoder.changeable.items()}
        action = getattr(self, f"do_{message['do']}", None)
        if action is None:
            raise Garbled("a request that is not known")
        answer: dict[str, Any] = {}
        encoder = Encoder(self.export, decoder.changeable)
        try:
            answer["result"] = encoder.value(action(*(decoder.value(form) for form in message["with"])))
        except (Ended, Garbled):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever is raised is the answer
            encoder = Encoder(self.export, decoder.changeable)
            answer = {"raised": self._described(encoder, error)}
        answer["changed"] = [
            [number, encoder.content(value)]
            for number, value in decoder.changeable.items()
            if not _same(before[number], _held(value))
        ]
        answer["table"] = encoder.table()
        answer["printed"] = self.printed()
        self._send(answer)

    def printed(self) -> str:
        """Return what was printed here since the last answer."""
        return ""

    # ---- exceptions ----

    def _described(self, encoder: Encoder, error: BaseException) -> list[Any]:
        kind, base = type(error), exception_base(type(error))
        try:
            text = str(error)[:_MAX_TEXT_LETTERS]
        except BaseException:  # noqa: BLE001 - its own __str__ may raise anything
            text = ""
        own = encoder.value(kind) if self.shows_class(kind) else None
        return [base, own, encoder.value(error.args), encoder.value(dict(vars(error))), text]

    def _exception(self, decoder: Decoder, form: list[Any]) -> BaseException:
        base, own, args, attributes, text = form
        kind = _EXCEPTIONS[base] if own is None else decoder.value(own)
        values, found = decoder.value(args), decoder.value(attributes)
        if kind is not _EXCEPTIONS[base] and not (_is_exception(kind) and self.shows_class(kind)):
            raise Garbled("an exception that cannot be read")
        if type(values) is not tuple or type(found) is not dict:
            raise Garbled("an exception that cannot be read")
        try:
            error: BaseException = kind(*values)
        except Exception:  # noqa: BLE001 - its class wants other arguments
            error = kind.__new__(kind, *values)
        vars(error).update({name: each for name, each in found.items() if _is_data_name(name, kind)})
        if "number_there" in vars(kind):
            vars(error)["its_text"] = str(text)
        return error

    def shows_class(self, _: type[BaseException], /) -> bool:
        """Return whether an exception of this class goes between the processes as such, not as its built-in class."""
        return True

    def exception_class(self, number: int, name: Any, base: Any, above: Any) -> type[BaseException]:
        """Return the class that stands here for an exception class of the other process.

        ``above`` is the entry of the class from which it descends, where that is not the built-in ``base``.
        """
        if number not in self._classes:
            kind = _EXCEPTIONS[base] if above is None else self.resolve(above)
            if kind is not _EXCEPTIONS[base] and kind not in self._classes.values():
                raise Garbled("an exception that cannot be read")

            def said(error: BaseException) -> str:
                return str(vars(error).get("its_text", ""))

            self._classes[number] = type(str(name), (kind,), {"__str__": said, "number_there": number})
        return self._classes[number]


def _is_exception(value: Any) -> bool:
    """Return whether something is a class of exceptions."""
    return isinstance(value, type) and issubclass(value, BaseException)


def _is_data_name(name: Any, kind: type[BaseException]) -> bool:
    """Return whether an attribute of this name takes nothing from what the class has, such as ``with_traceback``."""
    return isinstance(name, str) and not name.startswith("__") and not hasattr(kind, name)


def exception_base(kind: type[BaseException]) -> str:
    """Return the name of the built-in exception from which a class descends."""
    return next(each.__name__ for each in kind.__mro__ if _EXCEPTIONS.get(each.__name__) is each)


def _held(value: Any) -> list[Any] | bytes:
    if isinstance(value, bytearray):
        return bytes(value)
    return [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)


def _same(before: Any, after: Any) -> bool:
    if isinstance(before, bytes):
        return bool(before == after)
    return len(before) == len(after) and all(old is new for old, new in zip(before, after, strict=True))
