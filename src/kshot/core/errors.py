"""Errors that a person can act on: what was wrong, where, and what to do."""

from __future__ import annotations


class KshotError(Exception):
    """An error that the user can fix. ``str()`` gives the message that the command line shows."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        """State what is wrong, where it is (file, dataset, row), and what to do about it."""
        self.what, self.where, self.hint = what, where, hint
        super().__init__(what)

    def __str__(self) -> str:
        """Compose ``where: what. hint``."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text.rstrip('.')}. {self.hint}" if self.hint else text


class UsageError(KshotError):
    """An option or argument that cannot be used."""


class BadValue(UsageError, ValueError):  # noqa: N818 - config files know it as AISBenchValueError
    """A value that is not possible, such as the id of a training row that does not exist."""


class DataError(KshotError):
    """A dataset, row, template or class that cannot be used."""


class BackendError(KshotError):
    """A model or index that cannot be opened, or cannot answer a request."""


class RunError(KshotError):
    """A run folder that cannot be written, read or continued."""


class MissingExtra(KshotError):  # noqa: N818 - it names what is missing
    """A package of one of kshot's extras that is needed and not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        """Name the package, what it is for, and the command that installs it."""
        super().__init__(f"{purpose} needs the package {package!r}", hint=f"Install it: pip install 'kshot[{extra}]'")
